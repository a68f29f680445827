"""What is wrong with a model of texts: one sentence and status 2 before anything is written."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.models.tiny_texts import WORDS, write_encoder, write_folder, write_tokenizer

from crosswind.cli.main import _status
from crosswind.models import form

STUDY: dict[str, Any] = {
    "name": "texts",
    "data": {
        "texts": {
            "source": "texts",
            "options": {"path": "texts.csv"},
            "label": "label",
            "attributes": ["domain"],
            "roles": {"test": 5},
        }
    },
    "shifts": {"none": []},
    "sizes": {"all": {"total": 20}},
    "methods": ["erm"],
    "selection": ["last"],
    "training": {"steps": 2, "batch": 8},
    "seeds": 1,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study_folder = tmp_path_factory.mktemp("study")
    rows = [
        f"{row % 2},{row // 2 % 2},the {WORDS[row % len(WORDS)]} number {row}" for row in range(80)
    ]
    (study_folder / "texts.csv").write_text("\n".join(["label,domain,text", *rows]))
    write_folder(study_folder / "encoder")  # without weights, which nothing here reads
    for name in ("weightless", "kind", "damaged", "untold", "wordless", "larger"):
        shutil.copytree(study_folder / "encoder", study_folder / name)
    (study_folder / "weightless" / "model.safetensors").unlink()
    config = json.loads((study_folder / "encoder" / "config.json").read_text())
    (study_folder / "kind" / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))
    (study_folder / "damaged" / "tokenizer.json").write_text("{")
    (study_folder / "untold" / "config.json").unlink()
    (study_folder / "wordless" / "tokenizer.json").unlink()
    write_tokenizer(study_folder / "larger", [*WORDS, "more"])
    return study_folder


def status(folder: Path, model: dict[str, Any], verb: str = "plan", **changes: Any) -> int:
    (folder / "study.yaml").write_text(yaml.safe_dump({**STUDY, **changes, "models": {"m": model}}))
    options = ["--out", str(folder / "out")] if verb == "run" else []
    return _status([verb, str(folder / "study.yaml"), *options])


ENCODER, CNN = {"model": "transformer", "tokens": 16}, {"model": "text-cnn"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {**ENCODER, "path": "nowhere"},
        r"models\.m\.path: there is no folder 'nowhere'; name one with config\.json",
    ),
    (ENCODER, r"models\.m\.path: model 'transformer' needs 'path'"),
    (
        {**ENCODER, "path": "owner/name"},
        r"models\.m\.revision: 'owner/name' is on the hub, where a name moves; give the commit",
    ),
    (
        {**ENCODER, "path": "weightless"},
        r"models\.m\.path: '.*weightless' has no weights in safetensors; add them, or set",
    ),
    (
        {**ENCODER, "path": "kind"},
        (
            r"models\.m\.path: unknown kind of encoder in '.*kind': 'gpt2' \(valid: bert,"
            r" camembert, roberta"
        ),
    ),
    (
        {**ENCODER, "path": "damaged"},
        r"models\.m\.path: '.*tokenizer\.json' cannot be read as a tokenizer",
    ),
    (
        {**ENCODER, "path": "untold"},
        r"models\.m\.path: '.*untold' has no config\.json of an encoder of texts",
    ),
    ({**ENCODER, "path": "wordless"}, r"models\.m\.path: '.*wordless' has no tokenizer\.json"),
    (
        {**ENCODER, "path": "larger"},
        (
            r"models\.m\.path: the tokenizer has tokens up to 18, and the model in '.*larger' has"
            r" vectors for 18"
        ),
    ),
    (
        {**ENCODER, "path": "encoder", "tokens": 33},
        r"models\.m\.tokens: the model in '.*encoder' has 32 positions, and texts .* 33",
    ),
    (
        {**ENCODER, "path": "encoder", "path_sha256": "0" * 64},
        r"models\.m\.path_sha256: the sha256 of 'encoder' is [0-9a-f]{64}, not 0",
    ),
    (
        {**CNN, "tokenizer": "nowhere.json"},
        r"models\.m\.tokenizer: there is no tokenizer 'nowhere\.json'",
    ),
    (
        {**CNN, "tokenizer": "wordless"},
        r"models\.m\.tokenizer: there is no tokenizer '.*wordless/tokenizer\.json'",
    ),
    (
        {**CNN, "tokenizer": "damaged"},
        r"models\.m\.tokenizer: '.*tokenizer\.json' cannot be read as a tokenizer",
    ),
    (
        {
            "model": "linear-probe",
            "of": "transformer",
            "weights": "published",
            "settings": {"path": "encoder", "tokens": 99},
        },
        r"models\.m\.settings\.tokens: the model in '.*encoder' has 32 positions",
    ),
    (
        {
            "model": "linear-probe",
            "of": "transformer",
            "weights": "published",
            "settings": {"path": "nowhere"},
        },
        r"models\.m\.settings\.path: there is no folder 'nowhere'",
    ),
]


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_what_cannot_be_built_is_one_sentence_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    for model, sentence in REFUSED:
        assert status(folder, model, verb) == 2, model
        error_text = capsys.readouterr().err
        assert (
            re.search(sentence, error_text)
            and "Traceback" not in error_text
            and len(error_text.strip().splitlines()) == 1
        ), (sentence, error_text)
    assert len(REFUSED) == 16 and not (folder / "out").exists()


def test_lengths_are_of_texts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits = {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 2},
        }
    }
    changes = {"data": digits, "training": {**STUDY["training"], "length_pool": 4}}
    assert status(folder, {"model": "mlp"}, **changes) == 2
    assert (
        "training.length_pool: puts texts of similar length together, and the rows of"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("model", [{**ENCODER, "path": "encoder"}, {**CNN, "tokenizer": "encoder"}])
def test_a_missing_extra_is_told(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    model: dict[str, Any],
) -> None:
    monkeypatch.setattr(
        form, "find_spec", lambda name: None if name == "transformers" else object()
    )
    assert status(folder, model) == 2
    assert "needs the extra: pip install 'crosswind[transformers]'" in capsys.readouterr().err


def test_a_model_of_the_hub_without_a_network_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    from crosswind.core.errors import InputError
    from crosswind.core.types import InputSpec
    from crosswind.models.build import make_backbone

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    backbone = make_backbone(
        "transformer", {"path": "owner/not-there", "revision": "0" * 40}, InputSpec.text()
    )
    with pytest.raises(
        InputError,
        match=(
            r"model\.path: 'owner/not-there' at revision '0+' is not in the hub's cache and"
            r" cannot be"
        ),
    ):
        backbone.encoder(InputSpec.text(), 0)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_folders_beside_the_study_are_found_and_trained(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "study")
    write_encoder(tmp_path / "study" / "encoder")
    assert status(tmp_path / "study", {**ENCODER, "path": "encoder"}, "run") == 0
    assert list((tmp_path / "study" / "out").iterdir())


def test_a_transform_of_texts_is_shown_as_a_transform_too(capsys: Any) -> None:
    assert _status(["show", "transform", "eda"]) == 0
    assert capsys.readouterr().out.startswith("eda  (text-transform)")


def test_the_card_of_a_source_of_texts_calls_them_inputs(capsys: Any) -> None:
    for name, input_words in (
        ("civilcomments", "a text"),
        ("mnli", "a text of two parts"),
        ("texts", "texts"),
    ):
        assert _status(["show", "source", name]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert f"Inputs: {input_words}" in lines and not any(
            line.startswith("Pictures") for line in lines
        )
