"""Study files, tables and pictures of any bytes: read, or refused in one sentence; never an exception.

Thirty of each in the default tests, 3,000 of each in the long drills. Studies with strange values at sensible places are in
test_fuzz.py (10,000 in the long drills), stores in test_fuzz_stores.py (4,000).
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.cli import test_fuzz

import crosswind as cw
from crosswind.cli.main import _status

COUNTS = pytest.mark.parametrize("count", [30, pytest.param(3000, marks=pytest.mark.verify)])
STUDY: dict[str, Any] = {
    "name": "small",
    "data": {"digits": {"source": "digits", "label": "digit", "attributes": ["ink"], "roles": {"test": 2, "validation": 0.15}}},
    "shifts": {"none": [], "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2}},
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
PIECES = [
    "",
    ",",
    "\n",
    '"',
    "'",
    "\0",
    "\r",
    "\ufeff",
    "é",
    "\ud800",
    "..",
    "/",
    "NaN",
    "null",
    "1e999",
    "-",
    "#",
    "{",
    "}",
    "[",
    "]",
]
PIECES += [
    ": ",
    "- ",
    "? ",
    "|",
    ">",
    "&a",
    "*a",
    "!!python/object:os.system ",
    "%",
    "@",
    "`",
    "\t",
    "---\n",
    "9" * 400,
    "x" * 5000,
]


def changed(raw: bytes, chance: random.Random) -> bytes:
    """`raw` with some bytes changed, cut out, doubled, or pieces put in that often break readers."""
    out = bytearray(raw)
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        at, to = sorted(chance.randrange(len(out) + 1) for _ in range(2))
        turn = chance.random()
        if turn < 0.35 and out:
            out[min(at, len(out) - 1)] = chance.randrange(256)
        elif turn < 0.65:
            out[at:at] = chance.choice(PIECES).encode("utf-8", "surrogatepass")
        elif turn < 0.75:
            del out[at : min(to, at + 40)]
        elif turn < 0.85:
            out[at:at] = out[at : min(to, at + 40)]
        elif turn < 0.9:
            del out[at:]
    return bytes(out)


def tried(count: int, check: Callable[[random.Random], None]) -> None:
    """`check` on `count` sources of chance; a failing one is shrunk by none and told by its seed."""

    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**48).map(random.Random))
    def run(chance: random.Random) -> None:
        check(chance)

    run()


class Answers:
    """How often the command line accepted and refused."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys, self.found = capsys, {0: 0, 2: 0}

    def of(self, *words: object) -> int:
        status = _status([str(word) for word in words])
        said = self.capsys.readouterr().err.splitlines()
        assert status in self.found, (status, said)
        errors = [line for line in said if line.startswith("error: ")]
        assert len(errors) == (status == 2), said
        self.found[status] += 1
        return status


@pytest.mark.verify
def test_ten_thousand_studies(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSWIND_FUZZ", "10000")
    test_fuzz.test_a_study_with_strange_values_is_planned_or_refused_in_one_sentence(tmp_path, capsys)


@COUNTS
def test_a_study_file_of_changed_bytes(count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, answers, path = yaml.safe_dump(STUDY, sort_keys=False).encode(), Answers(capsys), tmp_path / "study.yaml"

    def check(chance: random.Random) -> None:
        path.write_bytes(changed(good, chance) if chance.random() < 0.9 else chance.randbytes(chance.randrange(60)))
        answers.of("plan", path)

    tried(count, check)
    assert min(answers.found.values()) > 0, answers.found


def pictures(folder: Path) -> str:
    (folder / "images").mkdir()
    noise = np.random.default_rng(0)
    rows = ["path,y,colour,who"]
    for number in range(24):
        Image.fromarray(noise.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / "images" / f"{number}.png")
        rows.append(f"{number}.png,{number % 2},{'red' if number // 2 % 2 else 'blue'},p{number}")
    return "\n".join(rows) + "\n"


@COUNTS
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_of_changed_bytes(form: str, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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

    tried(count if form == "csv" else max(15, count // 3), check)  # a Parquet file costs a process of its own
    assert min(answers.found.values()) > 0, answers.found


@COUNTS
def test_pictures_of_changed_bytes(count: int, tmp_path: Path) -> None:
    from crosswind.core.errors import DataError

    (tmp_path / "rows.csv").write_text(pictures(tmp_path))
    found = {"read": 0, "refused": 0}
    for place, form in enumerate(("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")):
        buffer = io.BytesIO()
        with Image.open(tmp_path / "images" / "1.png") as picture:
            picture.save(buffer, format=form)

        def check(chance: random.Random, good: bytes = buffer.getvalue()) -> None:
            (tmp_path / "images" / "0.png").write_bytes(changed(good, chance))
            try:
                data = cw.load("table", path=str(tmp_path / "rows.csv"), images=str(tmp_path / "images"), size=8)
                assert data.pixels(np.array([0])).shape == (1, 8, 8, 3)
                found["read"] += 1
            except DataError as error:
                assert "\n" not in str(error)
                found["refused"] += 1

        tried(max(10, count // 6), check)
        assert place >= 0
    assert min(found.values()) > 0, found
