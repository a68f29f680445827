"""The page on leaving a rendition out shows the numbers that the study's report wrote."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.data.digit_files import real_data

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "papers" / "renditions.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_results_picture", ROOT / "tools" / "make_results_picture.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_every_number(script: ModuleType) -> None:
    drawn = script.PICTURE.read_text(encoding="utf-8")
    assert len(drawn) < 150_000 and "](../results/pacs-leave-one-out.svg)" in PAGE
    rows = script.read()
    assert len(rows) == 4 * 5 * 2 and {row["target"] for row in rows} == set(script.TARGETS)
    marks = re.findall(r'aria-label="accuracy: ([\d.]+); method: ([\w-]+); set: ([\w ]+)"', drawn)
    assert sorted(marks) == sorted(
        (f"{row['mean']:.12g}", row["method"], row["set"]) for row in rows
    )
    ends = re.findall(
        r'aria-label="accuracy: ([\d.]+); method: ([\w-]+); high: ([\d.]+); set: ([\w ]+)"', drawn
    )
    assert sorted(ends) == sorted(
        (f"{row['low']:.12g}", row["method"], f"{row['high']:.12g}", row["set"]) for row in rows
    )


def test_the_table_is_that_of_the_numbers(script: ModuleType) -> None:
    lines = script.table().splitlines()
    assert len(lines) == 2 + 5 + 4
    for line in lines:
        assert line in PAGE


def test_the_lines_of_guessing_are_those_of_the_real_images(script: ModuleType) -> None:
    real = np.load(real_data("pacs64.npz"))
    for code, name in enumerate(real["domain_names"].tolist()):
        counts = np.bincount(real["label"][real["domain"] == code])
        assert script.COMMONEST[name] == (
            real["label_names"][counts.argmax()],
            counts.max(),
            counts.sum(),
        )
