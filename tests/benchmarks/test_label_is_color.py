"""Takeaway 7: a method generalises only where the margin is met, and the page says what the record
says."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from tests.reports.test_score_tables import _both, _run

from crosswind.reports.scores.families import Families, families
from crosswind.reports.scores.results import arrange

ROOT = Path(__file__).resolve().parents[2]
METHODS = ["erm", "augmix", "irm", "dann", "jtt", "cyclegan"]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return importlib.import_module("benchmarks.papers.label_is_color")


def study(accuracies: dict[str, float], accuracy_without: float | None, salt: str) -> Families:
    """Five seeds of every method under UDS with these accuracies, and of erm without a shift."""
    rows: list[dict[str, Any]] = []
    for seed in range(5):
        if accuracy_without is not None:
            rows += _run("none", "erm", seed, _both(accuracy_without))
        for method in METHODS:
            noise = Random(f"{method} {seed} {salt}").gauss(0, 0.003)
            rows += _run("UDS", method, seed, _both(round(accuracies.get(method, 0.95) + noise, 6)))
    shifts = {"UDS": [{}]} if accuracy_without is None else {"none": [], "UDS": [{}]}
    (view,) = families(
        arrange(rows).shown(), {"shifts": shifts, "methods": dict.fromkeys(METHODS, {})}
    )
    return view


def test_verdicts_are_by_the_margin_and_by_the_other_study(module: ModuleType) -> None:
    colour = study({"irm": 0.70, "dann": 0.929}, 0.96, "colour")  # dann: at the margin of 0.03
    table = module.takeaway_table(
        colour, study({"erm": 0.5, "irm": 0.8, "augmix": 0.95}, None, "shape")
    )
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["method"] for row in rows] == list(colour.family) and {
        row["family"] for row in rows
    } == {12}
    margins = {row["method"]: row["margin_verdict"] for row in rows}
    assert margins == dict.fromkeys(METHODS, "holds") | {
        "irm": "the opposite holds",
        "dann": "cannot tell",
    }
    gains = {row["method"]: row["gain_verdict"] for row in rows}
    assert [gains[name] for name in ("erm", "irm", "augmix")] == [
        "holds",
        "the opposite holds",
        "cannot tell",
    ]


def test_the_page_has_the_record(module: ModuleType) -> None:
    page = (ROOT / "docs" / "papers" / "wiles2022.md").read_text(encoding="utf-8").splitlines()
    with (ROOT / "benchmarks" / "results" / "wiles2022-label-is-color" / "takeaway.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        lines = module.as_markdown(list(csv.DictReader(file)))
    assert len(lines) == 2 + 18 and [line for line in lines if line not in page] == []
