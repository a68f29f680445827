"""The page of the hypersphere shows what was measured, and its claims are judged by figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.papers.hypersphere_table import (
    NEAR,
    PICTURE,
    QUARTER,
    RESULTS,
    TITLES,
    alike,
    crossing,
    distances_below,
    judged,
    tables,
    value_at,
)

ROOT = Path(__file__).resolve().parents[2]


def results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def made(ni: list[list[float | None]], atc: list[list[float | None]]) -> dict[str, Any]:
    """Results with these curves, a row a repetition."""
    design = {"distances": len(ni[0]), "centres": 5}
    seeds = {
        str(seed): {"ni": ni_value, "atc": atc_value}
        for seed, (ni_value, atc_value) in enumerate(zip(ni, atc, strict=True))
    }
    return {"main": "own", "settings": {"own": {"design": design, "seeds": seeds}}}


def test_tables_of_the_page_are_those_of_the_results() -> None:
    lines = (ROOT / "docs" / "papers" / "hypersphere.md").read_text(encoding="utf-8").splitlines()
    table_lines = [line for table in tables(results()) for line in table.splitlines()]
    assert len(table_lines) > 20
    assert [line for line in table_lines if line not in lines] == []


def test_results_are_complete_and_the_picture_is_theirs() -> None:
    record = results()
    assert list(record["settings"]) == list(TITLES)
    main = record["settings"][record["main"]]
    published = {
        "dimensions": 16,
        "variance": 0.005,
        "rows": 1000,
        "networks": 200,
        "hidden": 16,
        "noise": 0.3,
        "distances": 40,
    }
    published |= {"centres": 5, "neighbours": 10, "reach": 0.01}
    assert {name: main["design"][name] for name in published} == published
    for name, setting in record["settings"].items():
        assert len(setting["seeds"]) >= 3, name
        assert all(
            len(seed["ni"]) == setting["design"]["distances"] for seed in setting["seeds"].values()
        ), name
    drawn = PICTURE.read_text(encoding="utf-8")
    assert all(title in drawn for title in TITLES.values())
    assert len(drawn) < 300_000


def test_where_a_curve_reaches_zero() -> None:
    """From 0.5 at 0 to -0.5 at 2: halfway, at 1. From 0.3 at 1 to -0.1 at 2: 1 + 0.3 / 0.4 = 1.75.
    A gap is stepped over."""
    distances = np.array([0.0, 1.0, 2.0])
    assert crossing(distances, np.array([0.5, np.nan, -0.5])) == pytest.approx(1)
    assert crossing(distances, np.array([0.5, 0.3, -0.1])) == pytest.approx(1.75)
    assert crossing(distances, np.array([-0.1, 0.3, -0.1])) == 0
    assert crossing(distances, np.array([0.5, 0.3, 0.1])) == 2
    assert crossing(distances, np.full(3, np.nan)) == 0
    assert value_at(distances, np.array([0.5, 0.3, -0.1]), 1.25) == pytest.approx(0.2)
    assert np.isnan(value_at(distances, np.full(3, np.nan), 1.5))


FALLING: list[list[float | None]] = [
    [0.5, -0.05, -0.5, -0.6, -0.7],
    [0.6, -0.06, -0.5, -0.7, None],
    [0.5, -0.06, -0.4, -0.8, -0.9],
]
RISING = [[None if cell is None else -cell for cell in row] for row in FALLING]


def verdicts_of(judgements: Mapping[str, tuple[str, Any]]) -> list[str]:
    return [verdict for verdict, _ in judgements.values()]


def test_claims_are_judged_by_their_intervals() -> None:
    """Five distances, 0 to pi in quarters: near is the first alone, beyond pi/4 the last three."""
    assert np.pi / 4 == QUARTER > NEAR > 0
    same = judged(made(FALLING, FALLING), "own", "ni")
    assert verdicts_of(same) == ["holds"] * 4
    near_figure, reached, middle_figure, beyond = (figure for _, figure in same.values())
    assert near_figure is not None
    assert near_figure.mean == pytest.approx(1.6 / 3)
    assert reached is not None
    assert reached.mean == pytest.approx((10 / 11 + 10 / 11 + 50 / 56) / 3 * np.pi / 4)
    assert middle_figure is not None
    assert middle_figure.mean == pytest.approx(-0.17 / 3)
    assert beyond is not None
    assert beyond.mean == pytest.approx((-0.6 - 0.6 - 0.7) / 3)


def test_claims_that_fail_late_or_on_one_side_do_not_hold() -> None:
    mixed = judged(made(RISING, FALLING), "own", "ni")
    assert verdicts_of(mixed) == ["does not hold", "does not hold", "holds", "does not hold"]
    late = [
        [0.5, 0.4, -0.5, -0.6, -0.7],
        [0.6, 0.3, -0.5, -0.7, -0.8],
        [0.5, 0.4, -0.4, -0.8, -0.9],
    ]
    verdicts = verdicts_of(judged(made(late, late), "own", "ni"))
    assert verdicts == ["holds", "does not hold", "does not hold", "holds"]
    assert alike(made(FALLING, FALLING), "own")[0] == "holds"
    assert alike(made(RISING, FALLING), "own")[0] == "does not hold"


def test_claims_of_opposite_clouds_and_of_none_cannot_be_told() -> None:
    unsure = made([FALLING[0], RISING[0]], [FALLING[0], RISING[0]])
    assert verdicts_of(judged(unsure, "own", "atc")) == ["cannot tell"] * 4
    nothing = made([[None] * 5] * 2, [[None] * 5] * 2)
    assert judged(nothing, "own", "ni")["positive near the source"] == ("cannot tell", None)


def test_single_distances_are_corrected_for_their_number() -> None:
    below = [
        [0.5, 0.0, -0.50, -0.6, 0.1],
        [0.5, 0.0, -0.51, -0.5, -0.2],
        [0.5, 0.0, -0.49, -0.7, 0.1],
        [0.5, 0.0, -0.5, -0.6, 0.0],
    ]
    assert distances_below(made(below, below), "own", "ni") == (2, 0, 3)
    above = [[-cell for cell in row] for row in below]
    assert distances_below(made(above, above), "own", "ni") == (0, 2, 3)
