"""Study files, tables and pictures with strange values or of any bytes: read, or refused in one
sentence; never an exception.

A failing one is told by its seed. The long drills try 10,000 studies of strange values and 3,000 of
each kind of file; strange stores are in test_fuzz_stores.py.
"""

from __future__ import annotations

import io
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import yaml
from PIL import Image
from tests.strange import Answers, changed, counts, mutated, tried

import crosswind as cw

GOOD: dict[str, Any] = {
    "name": "fuzz",
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 16, "seed": 0},
            "label": "digit",
            "attributes": ["ink", "background", "noise"],
            "keep": {"size": ["small", "medium"]},
            "roles": {"test": 2, "validation": 0.2},
            "derive": {
                "name": "noise",
                "transform": "gaussian-noise",
                "values": {"clean": None, "noisy": {"severity": 3}},
                "mode": "per-visit",
            },
        },
        "table": {
            "source": "factors",
            "options": {
                "grid": {"digit": 10, "ink": ["red", "green", "blue"], "background": 3, "noise": 2},
                "split": {"a": 4, "b": 2},
            },
            "label": "digit",
            "attributes": {"first": "ink", "second": "background", "third": "noise"},
            "roles": {"test": 0.5, "official": {"column": "split", "train": ["a"], "test": ["b"]}},
        },
    },
    "shifts": {
        "none": [],
        "SC": {
            "type": "spurious-correlation",
            "attribute": "ink",
            "counterexamples": 0.2,
            "matching": "auto",
            "strength": 1.0,
        },
        "LDD": {
            "type": "low-data-drift",
            "attribute": "background",
            "low": "last",
            "ratio": {"default": "1/3", "last": 0},
            "high": 3,
        },
        "UDS": {"type": "unseen-data", "attribute": "ink", "unseen": ["red"]},
        "SYS": {
            "type": "systematic",
            "environment": "ink",
            "classes": {"red": ["0", "1"], "green": "all", "blue": [2, 3]},
        },
        "both": ["SC", "UDS"],
    },
    "sizes": {"equal": {"total": 60}, "few": {"digits": {"SC": 1, "none": "all"}}},
    "sets": {
        "validation": {"role": "validation", "law": "train"},
        "test": {"role": "test", "draw": {"total": 40}},
        "other": {"role": "test", "law": "UDS", "source": "table", "labels": {"0": "1", "3": None}},
    },
    "groups": ["ink"],
    "environments": ["ink", "background"],
    "sampler": "balanced",
    "label_noise": [0.1, {"rate": 0.2, "kind": "flip"}],
    "dataset_size": [50, 60],
    "models": {"mlp": {"hidden": 32}, "small-cnn": {}},
    "methods": {
        "erm": {},
        "groupdro": {
            "eta": [0.1, 0.2],
            "training": {"lr": 0.01},
            "sampler": "uniform",
            "groups": ["ink"],
        },
    },
    "training": {
        "steps": 2,
        "validate_every": 1,
        "batch": 8,
        "optimiser": "adam",
        "device": "cpu",
        "patience": 3,
    },
    "selection": ["best-id", "last"],
    "reference": "erm",
    "search": None,
    "claims": [
        {
            "text": "it helps",
            "better": "groupdro",
            "shift": "SC",
            "set": "other",
            "metric": "worst_group",
            "rule": "last",
        },
        {
            "text": "it is wide",
            "better": {"method": "erm", "model": "mlp"},
            "than": {"method": "erm", "model": "small-cnn"},
        },
    ],
    "seeds": [0, 1],
    "split_seed": 3,
    "keep": "none",
    "time_limit": 100,
    "scales": {"tiny": {"seeds": 1}},
}
STRANGE: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        1.5,
        -0.5,
        1e308,
        5e-324,
        2**62,
        2**63 - 1,
        -(2**63),
        10**6,
        70_000,
    ),
    *(
        "",
        " ",
        "x",
        "erm",
        "ink",
        "digit",
        "red",
        "all",
        "equal",
        "first",
        "last",
        "uniform",
        "train",
        "1/3",
        "-1/3",
        "1/0",
        "nan",
    ),
    *(
        "inf",
        "1e400",
        "0",
        "1.0",
        "true",
        ".",
        "..",
        "a\nb",
        "é\u202e",
        "x" * 2000,
        "digits",
        "table",
        "mlp",
        "both",
    ),
    *(
        [],
        [[]],
        [None],
        ["x", "x"],
        [1, 1],
        [True],
        [1, "a"],
        [{"type": "uniform"}],
        [{"rate": 0.1}],
        list(range(20)),
    ),
    *(
        {},
        {"a": 1},
        {"a": None},
        {"": 1},
        {"x.y": 1},
        {"type": "only"},
        {"total": 3},
        {"total": 1.5},
        {"total": "x"},
        {"base": 0},
    ),
    *(
        {"base": 1e300},
        {"base": "1/7"},
        {"total": 10**15},
        {"a": {"b": {"c": {}}}},
        {"mixture": 2},
        {"mixture": 0.5},
    ),
    *(
        {"rate": 0.1, "kind": "flip"},
        {"matrix": [[1]]},
        {"matrix": "x"},
        {"red": {"0": 1}},
        {"default": 1e-300},
        {"0": None},
    ),
]


STUDY: dict[str, Any] = {
    "name": "small",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 2, "validation": 0.15},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "sizes": {"equal": {"total": 60}},
    "models": {"small": {"model": "mlp", "hidden": 8, "layers": 1}},
    "methods": {"erm": {}, "groupdro": {}},
    "training": {"steps": 2, "batch": 16, "validate_every": 1},
    "seeds": 1,
}
OF_TABLE: dict[str, Any] = {
    "data": {
        "own": {
            "source": "table",
            "options": {"path": "rows.csv", "images": "images", "size": 8, "unit": "who"},
            "label": "y",
            "attributes": ["colour"],
        }
    },
    "shifts": {"none": []},
    "sizes": {"all": "all"},
    "models": ["mlp"],
    "training": {"steps": 2, "validate_every": 1},
}


def test_the_study_that_is_changed_is_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(GOOD, sort_keys=False))
    assert Answers(capsys).of("plan", tmp_path / "study.yaml") == 0


@pytest.mark.slow
@counts(150, 10_000)
def test_a_study_with_strange_values(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, path = Answers(capsys), tmp_path / "study.yaml"

    def check(chance: random.Random) -> None:
        study = GOOD
        for _ in range(chance.choice([1, 1, 1, 1, 2])):
            study = mutated(study, chance, STRANGE, ["x", "type", ""])
        path.write_text(yaml.safe_dump(study, sort_keys=False, allow_unicode=True))
        answers.of("plan", path)

    tried(count, check)
    assert os.listdir(tmp_path) == ["study.yaml"] and min(answers.found.values()) > 3, answers.found


@counts(30, 3000)
def test_a_study_file_of_changed_bytes(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, answers, path = (
        yaml.safe_dump(STUDY, sort_keys=False).encode(),
        Answers(capsys),
        tmp_path / "study.yaml",
    )

    def check(chance: random.Random) -> None:
        path.write_bytes(
            changed(good, chance)
            if chance.random() < 0.9
            else chance.randbytes(chance.randrange(60))
        )
        answers.of("plan", path)

    tried(count, check)
    assert min(answers.found.values()) > 0, answers.found


def pictures(folder: Path) -> str:
    (folder / "images").mkdir()
    noise = np.random.default_rng(0)
    rows = ["path,y,colour,who"]
    for number in range(24):
        Image.fromarray(noise.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(
            folder / "images" / f"{number}.png"
        )
        rows.append(f"{number}.png,{number % 2},{'red' if number // 2 % 2 else 'blue'},p{number}")
    return "\n".join(rows) + "\n"


@pytest.mark.slow
@counts(30, 3000)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_of_changed_bytes(
    form: str, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, answers = pictures(tmp_path), Answers(capsys)
    good = text.encode()
    if form == "parquet":
        buffer = io.BytesIO()
        polars.read_csv(io.StringIO(text)).write_parquet(buffer)
        good = buffer.getvalue()
    study = {**OF_TABLE, "data": {"own": {**OF_TABLE["data"]["own"]}}}
    study["data"]["own"]["options"] = {**study["data"]["own"]["options"], "path": f"rows.{form}"}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    (tmp_path / f"rows.{form}").write_bytes(good)
    assert answers.of("plan", tmp_path / "study.yaml") == 0

    def check(chance: random.Random) -> None:
        (tmp_path / f"rows.{form}").write_bytes(changed(good, chance))
        answers.of("plan", tmp_path / "study.yaml")

    tried(
        count if form == "csv" else max(15, count // 3), check
    )  # a Parquet file costs a process of its own
    assert min(answers.found.values()) > 0, answers.found


@pytest.mark.slow
@counts(30, 3000)
def test_pictures_of_changed_bytes(count: int, tmp_path: Path) -> None:
    from crosswind.core.errors import DataError

    (tmp_path / "rows.csv").write_text(pictures(tmp_path))
    read_and_refused = {"read": 0, "refused": 0}
    for number, form in enumerate(("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")):
        buffer = io.BytesIO()
        with Image.open(tmp_path / "images" / "1.png") as picture:
            picture.save(buffer, format=form)

        def check(chance: random.Random, good: bytes = buffer.getvalue()) -> None:
            (tmp_path / "images" / "0.png").write_bytes(changed(good, chance))
            try:
                data = cw.load(
                    "table",
                    path=str(tmp_path / "rows.csv"),
                    images=str(tmp_path / "images"),
                    size=8,
                )
                assert data.inputs(np.array([0])).shape == (1, 8, 8, 3)
                read_and_refused["read"] += 1
            except DataError as error:
                assert "\n" not in str(error)
                read_and_refused["refused"] += 1

        tried(max(10, count // 6), check)
        assert number >= 0
    assert min(read_and_refused.values()) > 0, read_and_refused
