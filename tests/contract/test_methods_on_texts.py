"""Every method with every kind of model of texts: it trains and moves what it should, or is refused
when the study is planned."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from tests.models.tiny_texts import WORDS, write_encoder, write_folder
from tests.training.world import QUICK

import crosswind as cw
from crosswind.core.errors import CrosswindError
from crosswind.core.registry import listing
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

NUMBERS = ["ada", "me-ada", "mixup"]
PICTURES = "needs images of 1 or 3 channels, and is given texts"
BATCH_NORM, MAPS = (
    "needs a model with batch norm",
    "reads the feature maps of a convolutional model",
)
REFUSED = {
    **dict.fromkeys(["l2d", "cyclegan", "beta-vae"], PICTURES),
    **dict.fromkeys(["augmix", "autoaugment", "imagenet", "randaugment"], PICTURES),
    **dict.fromkeys(["sagnet", "bn-adapt"], BATCH_NORM),
    **dict.fromkeys(["pnd", "occamnets", "ubnet"], MAPS),
    "lora": "changes linear layers beside the head, and '(bag-of-words|probe)' has none",
    **dict.fromkeys(NUMBERS, "changes inputs as numbers, and .* reads texts"),
}
METHODS = [item for item in listing("methods") if item.needs is not None]


def entry(known: Any) -> dict[str, Any]:
    return {**QUICK.get(known.name, {}), **dict.fromkeys(known.needs.switches, 2)}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """240 texts of two domains, with the label's own words in most; all four kinds of model, as
    small as may be."""
    folder, drawn = tmp_path_factory.mktemp("texts"), np.random.default_rng(0)
    label, domain = np.arange(240) % 2, np.arange(240) // 2 % 2
    words_of_class = (("bad", "poor", "dull"), ("good", "great", "fine"))
    texts = [
        " ".join(
            [
                *drawn.choice(words_of_class[class_code], 3),
                *drawn.choice(WORDS, drawn.integers(0, 20)),
                ("book", "film")[domain_code],
                str(row),
            ]
        )
        for row, (class_code, domain_code) in enumerate(zip(label, domain, strict=True))
    ]
    polars.DataFrame({"text": texts, "label": label, "domain": domain}).write_csv(
        folder / "texts.csv"
    )
    write_folder(folder / "encoder")
    data = {
        "source": "texts",
        "options": {"path": str(folder / "texts.csv")},
        "label": "label",
        "attributes": ["domain"],
    }
    encoder = {"path": str(folder / "encoder"), "tokens": 24}
    return {
        "name": "texts",
        "data": {"texts": {**data, "roles": {"test": 15, "validation": 0.2}}},
        "shifts": {"none": []},
        "sizes": {"all": {"total": 60}},
        "models": {
            "bag-of-words": {"buckets": 64, "width": 8, "words": 24},
            "text-cnn": {"buckets": 64, "embedding": 8, "width": 6, "hidden": 8, "words": 24},
            "transformer": encoder,
            "probe": {
                "model": "linear-probe",
                "of": "transformer",
                "weights": "published",
                "settings": encoder,
            },
        },
        "environments": ["domain"],
        "training": {"steps": 6, "validate_every": 3, "batch": 16, "lr": 0.01},
        "keep": "selected",
        "selection": ["last"],
        "seeds": 1,
    }


def refusal(study: dict[str, Any], method: Any, model: str) -> str:
    """The sentence by which the pairing is refused when it is planned; empty where it is not."""
    study_of_one = {
        **study,
        "models": {model: study["models"][model]},
        "methods": {"erm": {}, method.name: entry(method)},
    }
    try:
        make_plan(study_from(study_of_one))
    except CrosswindError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_what_cannot_work_is_refused_in_a_sentence_that_names_what_it_needs(
    study: dict[str, Any],
) -> None:
    for method in METHODS:
        for model in study["models"]:
            sentence = refusal(study, method, model)
            works = (
                ("probe",)
                if method.name in NUMBERS
                else ("text-cnn", "transformer")
                if method.name == "lora"
                else ()
            )
            pattern = "" if model in works else REFUSED.get(method.name, "")
            assert bool(sentence) == bool(pattern) and re.search(pattern, sentence), (
                method.name,
                model,
                sentence,
            )
    assert len(METHODS) == 30 and len(REFUSED) == 16


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bag-of-words", "text-cnn", "transformer", "probe"])
def test_all_others_train_and_change_what_is_trained(
    study: dict[str, Any], model: str, tmp_path: Path
) -> None:
    from safetensors.numpy import load_file

    if model in ("transformer", "probe"):
        write_encoder(Path(study["models"]["transformer"]["path"]))
    fitting = [
        method
        for method in METHODS
        if method.name not in REFUSED or (method.name in NUMBERS and model == "probe")
    ]
    study_of_one = {
        **study,
        "models": {model: study["models"][model]},
        "methods": {known.name: entry(known) for known in fitting},
    }
    study_results = cw.run_study(study_of_one, tmp_path / "out")
    assert not study_results.summary.failed and len(fitting) == 14 + 3 * (model == "probe")
    still = cw.run_study(
        {**study_of_one, "training": {**study["training"], "steps": 0}, "methods": ["erm"]},
        tmp_path / "still",
    )
    assert not still.summary.failed
    (begun,) = (load_file(path) for path in (tmp_path / "still").rglob("weights-last.safetensors"))
    ended = {
        path.parent: load_file(path)
        for path in (tmp_path / "out").rglob("weights-last.safetensors")
    }
    assert len(ended) >= len(fitting)
    for weights in ended.values():
        moved = [
            key for key in begun if key in weights and not np.array_equal(weights[key], begun[key])
        ]
        # Every tensor of the network has moved, but for one that no batch reaches.
        assert {"model.fc.weight", "model.fc.bias"} <= set(moved) and len(moved) >= 0.8 * len(
            begun
        ), set(begun) - set(moved)
    assert {row["method"] for row in study_results.rows if row["set"] == "test"} == {
        known.name for known in fitting
    }
