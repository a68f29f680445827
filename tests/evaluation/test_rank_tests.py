"""Rows ranked over blocks: Friedman and Nemenyi beside scipy and Demšar's table, and how often one row
beats another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from crosswind.evaluation.compare import Seeds
from crosswind.evaluation.rank_tests import beats, critical_difference, ranked_rows


@pytest.mark.parametrize(("rows", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_that_of_demsar(rows: int, q: float) -> None:
    """Table 5a of Demšar 2006."""
    expected = q * math.sqrt(rows * (rows + 1) / (6 * 14))
    assert critical_difference(rows, 14) == pytest.approx(expected, rel=3e-4)


def test_friedman_is_that_of_scipy_with_ties_too() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 5, size=(9, 4)).astype(float)
    blocks = [dict(zip("abcd", row, strict=True)) for row in scores]
    ranked = ranked_rows(blocks)
    assert ranked is not None
    expected = stats.friedmanchisquare(*scores.T)
    assert (ranked.statistic, ranked.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert ranked.mean_rank["a"] == pytest.approx(np.mean(stats.rankdata(-scores, axis=1)[:, 0]))


def test_rows_are_told_apart_by_their_ranks() -> None:
    """Ten blocks in one order of four: ranks 1 to 4 and a critical difference of 1.48."""
    blocks = [{"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}] * 10
    ranked = ranked_rows(blocks)
    assert ranked is not None and list(ranked.mean_rank) == ["a", "b", "c", "d"]
    assert ranked.critical_difference == pytest.approx(2.569 * math.sqrt(20 / 60), rel=3e-4)
    assert ranked.differ and ranked.apart("a", "c") and not ranked.apart("a", "b")
    noise = [{"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 3.0, "b": 2.0, "c": 1.0}]
    alike = ranked_rows(noise)
    assert alike is not None and not alike.differ and not alike.apart("a", "c")


def test_blocks_that_lack_a_row_and_too_few_are_not_ranked() -> None:
    whole = {"a": 1.0, "b": 2.0, "c": 3.0}
    ranked = ranked_rows([whole, whole, {"a": 1.0, "b": 2.0}])
    assert ranked is not None and ranked.blocks == 2
    assert ranked_rows([whole]) is None
    assert ranked_rows([{"a": 1.0, "b": 2.0}] * 5) is None
    assert ranked_rows([dict.fromkeys("abc", 1.0)] * 3) is None


def test_how_often_a_row_beats_another() -> None:
    """Seed 0 wins one of two cases and ties the other, seed 1 wins both: 0.75 and 1."""
    first = {"SC": {0: 0.6, 1: 0.6}, "LDD": {0: 0.5, 1: 0.7}, "only": {0: 1.0}}
    second = {"SC": {0: 0.5, 1: 0.5}, "LDD": {0: 0.5, 1: 0.5}}
    share = beats(first, second)
    assert share is not None and (share.mean, share.n) == (pytest.approx(0.875), 2)
    assert share.high == 1.0 and share.low == 0.0
    back = beats(second, first)
    assert back is not None and back.mean == pytest.approx(0.125)
    assert beats(first, {"UDS": {0: 0.5}}) is None
    assert beats({"SC": {0: 0.5}}, {"SC": {1: 0.5}}) is None


def test_split_seeds_are_runs_too() -> None:
    runs = [Seeds(split, seed) for split in (0, 1) for seed in (0, 1)]
    first = {"SC": dict.fromkeys(runs, 0.6)}
    second = {"SC": dict.fromkeys(runs, 0.5)}
    share = beats(first, second)
    assert share is not None and (share.mean, share.n, share.splits) == (1.0, 4, 2)
