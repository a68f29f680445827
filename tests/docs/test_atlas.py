"""The page on choosing a method says what the evidence of the atlas holds, in its picture too."""

from __future__ import annotations

import re
from typing import Any

import polars
import pytest
from benchmarks.atlas import page
from scipy import stats

from crosswind.advice.evidence import COLUMNS, empty_evidence, shipped_evidence


def row(data: str, gain: float, **changed: Any) -> dict[str, Any]:
    """A row of evidence of a tie, with a gain in points."""
    plain: dict[str, Any] = {
        "study": "s",
        "data": data,
        "shift": "SC",
        "size": "all",
        "model": "mlp",
        "rule": "best-id",
        "kind": "pictures",
        "classes": 2,
        "values": 2,
        "rows": 100,
        "tie": 0.9,
        "rarest": 1.0,
        "smallest": 5,
        "missing": 0.0,
        "pretrained": False,
        "method": "groupdro",
        "points": 1,
        "runs": 3,
        "plain_accuracy": 0.5,
        "accuracy": 0.5 + gain / 100,
        "plain_worst_group": 0.2,
        "worst_group": 0.3,
    }
    return {**plain, **changed}


def table(rows: list[dict[str, Any]]) -> polars.DataFrame:
    return polars.DataFrame(rows, schema=empty_evidence().schema)


def test_the_page_and_its_picture_are_those_of_the_evidence() -> None:
    evidence = shipped_evidence().select(list(COLUMNS))
    written = page.section(evidence)
    assert page.with_section(page.PAGE.read_text(encoding="utf-8"), written) == (
        page.PAGE.read_text(encoding="utf-8")
    ), "run: python -m benchmarks.atlas page"
    # Vega writes a minus sign, and numbers in full.
    drawn = page.PICTURE.read_text(encoding="utf-8").replace("\N{MINUS SIGN}", "-")
    shown = re.findall(
        r'aria-label="points over plain training: (-?[\d.e-]+); method: ([^;"]+); gain', drawn
    )
    summaries = page.summary(evidence)
    means = [
        (round(min(max(gain.mean, -page.REACH), page.REACH), 6), gain.method)
        for gain in summaries
        if gain.reach
    ]
    assert means
    assert sorted((round(float(value), 6), name) for value, name in shown) == sorted(means)
    methods = {(gain.shift, gain.method) for gain in summaries}
    assert written.count("](../methods/") + written.count("+ balanced") >= len(methods) > 50


def test_a_gain_is_a_mean_over_data_sets_and_its_interval_students_t() -> None:
    evidence = table(
        [
            row("a/x", 4.0),
            row("a/y", 8.0),  # of the origin of the first: one data set with mean 6
            row("b", 3.0),
            row("c", 9.0),
            row("c", 1.0, tie=0.0, rarest=0.0),
        ]
    )
    gains = {(gain.shift, gain.metric): gain for gain in page.summary(evidence)}
    tied = gains["tied", "accuracy"]
    assert tied.mean == pytest.approx(6.0)
    assert (tied.data, tied.problems, tied.runs) == (3, 4, 12)
    # Means 6, 3 and 9: their standard deviation is 3.
    assert tied.reach == pytest.approx(stats.t.ppf(0.975, 2) * 3 / 3**0.5)
    assert not tied.is_sure
    assert gains["unseen", "accuracy"].reach is None
    assert gains["tied", "worst_group"].mean == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("changed", "shift"),
    [
        ({"tie": 0.5}, "tied"),
        ({"tie": 0.49}, "even"),
        ({"tie": 0.1, "rarest": 0.49}, "scarce"),
        ({"tie": 0.1, "rarest": 0.0}, "unseen"),
        ({"tie": 0.9, "rarest": 0.0}, "tied"),
    ],
)
def test_a_kind_of_shift_is_what_the_training_rows_show(
    changed: dict[str, float], shift: str
) -> None:
    assert page.shift_of(row("a", 0.0, **changed)) == shift
