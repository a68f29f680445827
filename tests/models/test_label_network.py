"""A vision-language model that is trained: its logits are the likelihoods of the labels, all of
them in one pass."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny_vision import write_instructblip, write_llava, write_phi

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.core.types import InputSpec
from crosswind.methods.base import Info
from crosswind.methods.lora import LoRA
from crosswind.models.build import build_model, normalised
from crosswind.models.language import image_text, vision_language
from crosswind.models.language.label_network import of_classes
from crosswind.models.language.vision_language import VisionLanguage, _pictures
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

NAMES = ["zero", "one", "many"]
NATIVE = InputSpec.image(16, 16, 3)
ANSWERS = {
    "zero": "zero",
    "one": "one",
    "not one": "many",
    "two three four": "many",
    "nine": "many",
}
KNOBS: dict[str, Any] = {"prompt": "Which digit is it , {labels}", "by": "score", "tuned": True}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    makers = {"llava": write_llava, "instructblip": write_instructblip}
    return {name: make(tmp_path_factory.mktemp("models") / name) for name, make in makers.items()}


def network(folder: Path, input: InputSpec = NATIVE, **knobs: Any) -> Any:
    return build_model(
        "vision-language", {**KNOBS, "path": str(folder), **knobs}, input, NAMES, 0
    ).eval()


def pictures(n: int, side: int = 16, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def read(images: Any) -> torch.Tensor:
    return normalised(torch.from_numpy(images).permute(0, 3, 1, 2), torch.float32, False)


def asked(folder: Path, images: Any, **knobs: Any) -> Any:
    """The logits by one pass a word."""
    model = VisionLanguage(**{**KNOBS, "path": str(folder), **knobs, "tuned": False})
    loaded, question = model._loaded(), model.question(NAMES)
    text, shown = loaded.said(question.text, None), _pictures(images)
    scores = model._alone(
        loaded, text, question.words, loaded.shared(text, question.words, shown), shown
    )
    return of_classes(scores, torch.from_numpy(question.classes), len(NAMES)).numpy()


@pytest.mark.parametrize("kind", ["llava", "instructblip"])
@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"score": "mean", "answers": ANSWERS},
        {"answers": ANSWERS},
        {"names": {"one": "not two one"}},
    ],
)
def test_it_begins_as_it_is_asked(
    kind: str, knobs: dict[str, Any], folders: dict[str, Path]
) -> None:
    """One pass with all words side by side gives what one pass a word does, however many tokens
    each has."""
    images = pictures(5)
    model = network(folders[kind], **knobs)
    with torch.inference_mode():
        logits = model(read(images))
        taps = model.taps(read(images), ["words"])
        alone = model(read(images[2:3]))
    assert np.abs(logits.numpy() - asked(folders[kind], images, **knobs)).max() < 1e-4
    assert torch.equal(taps["words"], logits) and torch.allclose(alone, logits[2:3], atol=1e-5)
    assert np.ptp(logits.numpy(), axis=0).max() > 1e-2, "the image matters"


def test_images_of_another_size_and_of_one_channel_are_read_as_the_processor_reads_them(
    folders: dict[str, Path],
) -> None:
    digits = cw.load("digits").inputs(np.arange(4))
    model = network(folders["llava"], InputSpec.image(8, 8, 1))
    with torch.inference_mode():
        logits = model(read(digits)).numpy()
    assert np.abs(logits - asked(folders["llava"], digits)).max() < 0.05, (
        "a level of a pixel apart at most"
    )


def passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[int]]:
    """The logits of four rows of digits by `by: score`, and the rows of each pass of the
    network."""
    from types import SimpleNamespace

    loaded = image_text.load(str(folder), None, None, False, "auto", False, "auto")
    batch_sizes: list[int] = []
    plain = type(loaded.model).forward

    def counted(self: Any, *arguments: Any, **keywords: Any) -> Any:
        batch_sizes.append(len(keywords["input_ids"]))
        return plain(self, *arguments, **keywords)

    monkeypatch.setattr(type(loaded.model), "forward", counted)
    names = {"0": "zero one", "1": "one not two", "2": "two"}
    model = VisionLanguage(
        path=str(folder), prompt="Which digit is it", by="score", names=names, batch=4
    )
    rows: Any = SimpleNamespace(rows=np.arange(4))
    return model.answer(rows, cw.load("digits"), [str(digit) for digit in range(10)])[1], [
        *batch_sizes
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llava", "instructblip", "phi"])
def test_all_labels_are_scored_in_one_pass(
    kind: str, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_phi(tmp_path / "phi") if kind == "phi" else folders[kind]
    logits, together = passes(folder, monkeypatch)
    monkeypatch.setattr(VisionLanguage, "_sheet", lambda *_: None)
    alone, one_by_one = passes(folder, monkeypatch)
    assert together == [1, 1, 1, 1, 4] and one_by_one == [4] * 10, (
        "tried on noise: three times together, and a word alone"
    )
    np.testing.assert_allclose(logits, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_network_that_confuses_labels_is_asked_for_one_at_a_time(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import LlamaModel

    logits_wanted, _ = passes(folders["llava"], monkeypatch)
    plain = LlamaModel.forward
    monkeypatch.setattr(
        LlamaModel,
        "forward",
        lambda self, *arguments, position_ids=None, **keywords: plain(self, *arguments, **keywords),
    )
    logits, passes_made = passes(folders["llava"], monkeypatch)
    assert passes_made == [1, 1, 1, 1] + [4] * 10
    np.testing.assert_allclose(logits, logits_wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["llava", "instructblip"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("broken", "rounded"),
    [
        *((how, False) for how in ("", "places", "mask", "packing")),
        *((how, True) for how in ("", "places", "mask")),
    ],
)
def test_confused_labels_are_seen_in_every_precision(
    kind: str,
    dtype: str,
    broken: str,
    rounded: bool,
    folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By what is said of a word alone; and where rounding hides that, by what may not change and
    what must."""
    from transformers import LlamaModel

    def forward(self: Any, *arguments: Any, **keywords: Any) -> Any:
        mask = keywords.get("attention_mask")
        if broken == "places":
            keywords["position_ids"] = None
        if (
            broken == "mask" and mask is not None and mask.ndim == 4
        ):  # each token sees all before it
            keywords["attention_mask"] = torch.full_like(mask, torch.finfo(mask.dtype).min).triu(1)
        if broken == "packing":  # the library takes places that begin anew for several texts
            keywords["attention_mask"] = None
        return plain(self, *arguments, **keywords)

    plain = LlamaModel.forward
    monkeypatch.setattr(LlamaModel, "forward", forward)
    model = VisionLanguage(
        path=str(folders[kind]), prompt="Which is it", by="score", dtype=dtype, device="cpu"
    )
    loaded, words = model._loaded(), ["zero", "four three", "not two one"]
    text, noise = loaded.said("Which is it", None), vision_language._noise(NATIVE)
    if rounded:
        monkeypatch.setattr(VisionLanguage, "_alone", lambda *_: torch.full((1, 1), torch.nan))
        monkeypatch.setattr(vision_language, "_CLOSE", {})
    sheet = model._sheet(loaded, text, words, noise)
    assert (sheet is None) == bool(broken)


@pytest.mark.parametrize("kind", ["llava", "instructblip"])
def test_what_its_answer_depends_on_is_trained(kind: str, folders: dict[str, Path]) -> None:
    model = network(folders[kind]).train()
    torch.nn.functional.cross_entropy(
        model(read(pictures(4))), torch.tensor([0, 1, 2, 0])
    ).backward()
    still = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    last = "network.model.vision_tower.encoder.layers.1."  # LLaVA reads the last layer but one
    assert all(
        name.startswith((last, "network.model.vision_tower.post_layernorm")) for name in still
    )
    assert bool(still) == (kind == "llava") and len(still) < len(list(model.parameters())) / 3


def adapted(folder: Path, **knobs: Any) -> Any:
    return (
        LoRA(rank=2, **knobs)
        .modules(Info(NATIVE, 3, 60), lambda *_, **__: network(folder))["model"]
        .eval()
    )


@pytest.mark.parametrize("tied", [False, True])
def test_adapters_leave_what_tells_tokens_alone(
    tied: bool, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = write_llava(tmp_path / "tied", tie_word_embeddings=True) if tied else folders["llava"]
    model = adapted(folder)
    names = {
        name.partition(".lora_")[0]
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    assert any("language_model" in name for name in names) and any(
        "vision_tower" in name for name in names
    )
    assert not any("lm_head" in name or "embed" in name for name in names)
    adapted_tower = adapted(folder, targets=["vision_tower"])
    inside = {
        name for name, parameter in adapted_tower.named_parameters() if parameter.requires_grad
    }
    assert inside and all("vision_tower" in name and ".lora_" in name for name in inside)


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"by": "generate"}, "models.m.by: must be score with tuned"),
        ({"fallback": "What is it"}, "models.m.fallback: is for models that are not tuned"),
        ({"dtype": "float16"}, "models.m.dtype: must be auto, float32 or bfloat16 with tuned"),
        ({"names": {"ten": "x"}}, "models.m.names: unknown class 'ten'"),
        ({"answers": {"yes": "0"}}, "models.m.answers: no answer stands for the class '1'"),
    ],
)
def test_what_cannot_be_trained_is_refused_when_it_is_planned(
    knobs: dict[str, Any], sentence: str, folders: dict[str, Path]
) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(
            study_from(
                {
                    **STUDY,
                    "models": {
                        "m": {
                            "model": "vision-language",
                            "path": str(folders["llava"]),
                            **KNOBS,
                            **knobs,
                        }
                    },
                }
            )
        )
    assert sentence in str(caught.value)


@pytest.mark.slow
def test_what_cannot_be_trained_is_one_sentence_when_it_is_built(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        InputError,
        match=(
            r"model.tuned: .* holds a 'phi4_multimodal', whose processor does not make one picture"
        ),
    ):
        network(write_phi(tmp_path / "phi"))
    short = write_llava(tmp_path / "short", max_position_embeddings=12)
    with pytest.raises(
        DataError, match=r"^short: the prompt has \d+ tokens .* takes 12; ask a shorter prompt$"
    ):
        network(short)
    odd = write_llava(tmp_path / "odd")
    processor_config = json.loads((odd / "processor_config.json").read_text())
    (odd / "processor_config.json").write_text(
        json.dumps(
            {
                **processor_config,
                "image_processor": {**processor_config["image_processor"], "do_resize": False},
            }
        )
    )
    with pytest.raises(InputError, match=r"model.path: its processor has do_resize off"):
        network(odd)
    monkeypatch.setattr(
        "crosswind.models.language.preprocess.Preprocess.forward", lambda self, x: x * 0.5
    )
    with pytest.raises(InputError, match=r"model.tuned: the processor in .* does more to images"):
        network(folders["llava"], dtype="float32")
    monkeypatch.undo()
    from transformers import LlamaModel

    plain = LlamaModel.forward
    monkeypatch.setattr(
        LlamaModel,
        "forward",
        lambda self, *arguments, position_ids=None, **keywords: plain(self, *arguments, **keywords),
    )
    with pytest.raises(
        InputError,
        match=r"model.tuned: .* holds a 'llava', which does not read labels side by side",
    ):
        network(folders["llava"], score="mean", names={"zero": "four three", "one": "not two one"})


STUDY: dict[str, Any] = {
    "name": "spoken",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 2, "validation": 0.1},
        }
    },
    "shifts": {"none": []},
    "sizes": {"small": {"total": 40}},
    "methods": ["erm"],
    "training": {"steps": 3, "batch": 8, "validate_every": 3, "lr": 0.003},
    "seeds": 1,
}


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:`is_gradient_checkpointing`:FutureWarning"
)  # of peft and transformers between them
@pytest.mark.parametrize("kind", ["llava", "instructblip"])
def test_a_study_trains_it_and_peft_reads_what_is_kept(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Whole, interpolated and by adapters; the library's own model with these adapters answers
    alike."""
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText

    model_entry = {
        "model": "vision-language",
        "path": str(folders[kind]),
        "prompt": "Which digit is it",
        "by": "score",
    }
    study = {
        **STUDY,
        "models": {"asked": model_entry, "tuned": {**model_entry, "tuned": True}},
        "keep": "all",
    }
    study["methods"] = {"erm": {}, "wise-ft": {"alpha": 0.5}, "lora": {"rank": 2}, "deepcoral": {}}
    study_results = cw.run_study({**study, "environments": ["ink"]}, tmp_path / "out", workers=1)
    rows = [row for row in study_results.rows if row["set"] == "test"]
    assert {row["status"] for row in rows} == {"finished"} and {row["method"] for row in rows} >= {
        "asked",
        "lora",
        "deepcoral",
    }
    assert len({json.dumps(row["metrics"]["nll"]) for row in rows}) >= 4
    (folder,) = (tmp_path / "out").glob("**/exports-last")
    theirs: Any = PeftModel.from_pretrained(
        AutoModelForImageTextToText.from_pretrained(folders[kind]), str(folder)
    ).eval()
    from safetensors.torch import load_file

    kept_tensors = load_file(str(folder.parent / "weights-last.safetensors"))
    assert kept_tensors and not any("base_layer" in key or "lm_head" in key for key in kept_tensors)
    ours = adapted(folders[kind])
    ours.load_state_dict(
        {key.removeprefix("model."): value for key, value in kept_tensors.items()}, strict=False
    )
    x = read(pictures(2))
    plain, learnt = network(folders[kind]), ours.by_word(ours.preprocess(x))
    assert (learnt - plain.by_word(plain.preprocess(x))).abs().max() > 1e-4
    plain.network = theirs.base_model.model
    assert torch.allclose(plain.by_word(plain.preprocess(x)), learnt, atol=1e-4)
