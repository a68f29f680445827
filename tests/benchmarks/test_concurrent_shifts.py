"""Claims about concurrent shifts: each speaks for itself in the right direction, and the page says
what the record says."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benchmarks.papers.concurrent_shifts import as_markdown, claim_table, claims, size_claims
from tests.reports.test_score_tables import _both, _run

from crosswind.reports.scores.families import Families, families
from crosswind.reports.scores.results import arrange

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "concurrent-shifts"
METHODS = [
    "erm",
    "randaugment",
    "augmix",
    "imagenet",
    "autoaugment",
    "irm",
    "groupdro",
    "pnd",
    "sagnet",
    "bpa",
]
# Accuracy of erm under each shift, as the paper claims: SC worst and dominating, more shifts worse.
ERM = {
    "uniform": 0.9,
    "SC": 0.5,
    "LDD": 0.8,
    "UDS": 0.7,
    "SC+LDD": 0.49,
    "SC+UDS": 0.48,
    "LDD+UDS": 0.65,
    "SC+LDD+UDS": 0.45,
}


def family_of(
    accuracies: dict[str, float], gain: float = 0.0, hard: float = 1.0, salt: str = ""
) -> Families:
    """Methods of which the i-th gains `gain` x i, under shifts that are as hard as `hard` says, 1
    being as `accuracies` says."""
    rows: list[dict[str, Any]] = []
    for number, method in enumerate(METHODS):
        for shift, accuracy in accuracies.items():
            better = (
                gain
                * (
                    10 - number
                    if "augment" in method or method in ("augmix", "imagenet")
                    else number > 0
                )
                / 100
            )
            for seed in range(5):
                value = (
                    0.6
                    + hard * (accuracy - 0.6)
                    + better
                    + Random(f"{shift} {method} {seed}{salt}").gauss(0, 0.003)
                )
                rows += _run(shift, method, seed, _both(round(value, 6)))
    resolved = {
        "shifts": {shift: [] if shift == "uniform" else [{}] for shift in ERM},
        "methods": dict.fromkeys(METHODS, {}),
    }
    (view,) = families(arrange(rows).shown(), resolved)
    return view


def verdicts_of(gain: float, hard: float) -> dict[str, str]:
    """Verdicts of the paper's claims."""
    return {
        str(row[1]): str(row[2])
        for row in claim_table("claims", claims(family_of(ERM, gain, hard))).rows
    }


def test_claims_hold_where_the_numbers_are_as_claimed() -> None:
    verdict_of = verdicts_of(gain=1.0, hard=1.0)
    assert (
        len(verdict_of) == 16
        and {text: verdict for text, verdict in verdict_of.items() if verdict != "holds"} == {}
    )


@pytest.mark.parametrize(
    "text", ["two concurrent shifts are harder than one, on average", "SC is harder than UDS"]
)
def test_the_opposite_is_told(text: str) -> None:
    assert verdicts_of(gain=-1.0, hard=-1.0)[text] == "the opposite holds"
    assert (
        verdicts_of(gain=-1.0, hard=1.0)["randaugment helps, over the seven shifts"]
        == "the opposite holds"
    )


def test_an_order_that_sizes_make_is_turned_and_the_change_told() -> None:
    views = {
        "table6": family_of({**ERM, "uniform": 0.6}, gain=1.0),
        "equal": family_of(ERM, gain=1.0, salt=" b"),
    }
    rows = claim_table("size-claims", size_claims(views)).rows
    verdict_of = {(str(row[0]), str(row[1])): str(row[2]) for row in rows}
    assert len(verdict_of) == len(rows) == 5 * 3 + 1
    claim, change = "one shift is harder than none, on average", "table6 - equal"
    assert [verdict_of[size, claim] for size in ("table6", "equal", change)] == [
        "the opposite holds",
        "holds",
        "the opposite holds",
    ]
    same = [verdict_of[size, "SC is harder than UDS"] for size in ("table6", "equal", change)]
    assert same == ["holds", "holds", "cannot tell"]
    text, value = next((row[1], row[3]) for row in rows if row[0] == "both")
    assert "(9 methods)" in str(text) and float(str(value)) > 0.5


def record_and_page(name: str) -> tuple[list[dict[str, str]], list[str]]:
    page = (
        (ROOT / "docs" / "papers" / "concurrent-shifts.md").read_text(encoding="utf-8").splitlines()
    )
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file)), page


@pytest.mark.parametrize("name", ["claims", "size-claims", "equal-claims"])
def test_the_page_has_the_claims_of_the_record(name: str) -> None:
    rows, page = record_and_page(name)
    lines = as_markdown(rows)
    assert len(lines) == 18 and [line for line in lines if line not in page] == []


def test_the_page_has_the_accuracies_of_the_record() -> None:
    rows, page = record_and_page("sizes")
    lines = [
        f"| {row['size']} | {row['of']} |"
        f" {' | '.join(f'{float(row[shift]):.2f}' for shift in ERM)} |"
        for row in rows
    ]
    assert len(lines) == 4 and [line for line in lines if line not in page] == []
