"""Measures of how far two tables of counts are apart, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from crosswind.shifts.association import (
    cramers_v,
    homogeneity,
    ratio_intervals,
    redrawn,
    rule_of_three,
    share_interval,
    total_variation,
    v_interval,
    variation_interval,
)


def test_cramers_v_by_hand() -> None:
    """[[30, 10], [10, 30]]: n = 80, all four expect 20, chi2 = 4 x 10^2 / 20 = 20, phi2 = 20 / 80 =
    0.25, plain V = 0.5.

    Bias: phi2' = 0.25 - 1/79 = 0.237342; r' = c' = 2 - 1/79 = 1.987342; V = sqrt(0.237342 /
    0.987342) = 0.490290.
    """
    table = np.array([[30.0, 10.0], [10.0, 30.0]])
    assert cramers_v(table, 0.0) == pytest.approx(0.5)
    assert cramers_v(table) == pytest.approx(0.490290, abs=1e-6)


def test_cramers_v_of_uneven_tables_by_hand() -> None:
    """[[20, 0, 20], [0, 40, 0], [0, 0, 0]] has 2 rows and 3 columns that are not empty, and each
    value tells the class: V = 1.

    [[25, 25], [25, 25]] has phi2 = 0, less 1/99 of bias, cut at 0: V = 0. A single column: V = 0.
    """
    assert cramers_v(np.array([[20.0, 0, 20], [0, 40, 0], [0, 0, 0]]), 0.0) == pytest.approx(1.0)
    assert cramers_v(np.full((2, 2), 25.0)) == 0
    assert cramers_v(np.array([[3.0, 0], [5, 0]])) == 0
    assert cramers_v(np.zeros((2, 3))) == 0
    assert cramers_v(np.full((4, 2, 2), 5.0)).shape == (4,)


def test_plain_v_is_that_of_chi_squared() -> None:
    table = np.random.default_rng(0).integers(1, 40, (5, 3)).astype(float)
    expected = math.sqrt(chi2_contingency(table, correction=False).statistic / table.sum() / 2)
    assert cramers_v(table, 0.0) == pytest.approx(expected)


def test_the_bias_of_v_is_taken_off() -> None:
    """10 classes and 6 values without any tie, 1,000 rows: plain V is about sqrt(45 / 1000 / 5) =
    0.095, corrected V near 0."""
    tables = redrawn(np.full((10, 6), 1000 / 60), np.random.default_rng(1))
    assert cramers_v(tables, 0.0).mean() == pytest.approx(0.095, abs=0.003)
    assert cramers_v(tables).mean() < 0.025


def test_total_variation_by_hand() -> None:
    """Shares (0.6, 0.4) and (0.3, 0.7): half of 0.3 + 0.3 is 0.3. (1, 0, 0) and (0, 0.5, 0.5):
    1."""
    assert total_variation(np.array([60.0, 40]), np.array([30.0, 70])) == pytest.approx(0.3)
    assert total_variation(np.array([7.0, 0, 0]), np.array([0.0, 2, 2])) == pytest.approx(1.0)


def test_ratios_by_hand() -> None:
    """60 of 100 and 30 of 100: 0.6 / 0.3 = 2; 1/60 - 1/100 + 1/30 - 1/100 = 0.03, 1.96 sqrt(0.03) =
    0.33948, exp of it 1.40422.

    None of 100 beside 30 of 100: 0, at most 0.03 / 0.3 = 0.1. 5 of 100 beside none: infinite, at
    least 0.05 / 0.03.
    """
    interval = ratio_intervals(np.array([60.0, 40]), np.array([30.0, 70]))
    assert (interval[0].value, interval[0].low, interval[0].high) == pytest.approx(
        (2, 2 / 1.40422, 2 * 1.40422), abs=1e-4
    )
    none, only, neither = ratio_intervals(np.array([0.0, 5, 0, 95]), np.array([30.0, 0, 0, 70]))[:3]
    assert (none.value, none.low, none.high) == pytest.approx((0, 0, 0.1))
    assert (
        math.isinf(only.value)
        and only.low == pytest.approx(0.05 / 0.03)
        and math.isnan(neither.value)
    )


def test_shares_by_hand() -> None:
    """Wilson for 10 of 100, z = 1.96: (0.1 + 0.019207) / 1.038415 = 0.114797, +- 0.059570; none of
    1000: the rule of three."""
    interval = share_interval(10, 100)
    assert (interval.value, interval.low, interval.high) == pytest.approx(
        (0.1, 0.055229, 0.174366), abs=1e-5
    )
    assert share_interval(0, 1000).high == rule_of_three(1000) == 0.003
    assert rule_of_three(2) == 1.0


def test_homogeneity_by_hand() -> None:
    """60, 40 beside 30, 70 of 100 each: 30^2 / 90 + 30^2 / 110 = 18.1818 with one degree of
    freedom."""
    p = math.exp(homogeneity(np.array([60.0, 40, 0]), np.array([30.0, 70, 0])))
    assert p == pytest.approx(chi2_contingency([[60, 40], [30, 70]], correction=False).pvalue)
    assert math.erfc(math.sqrt(18.181818 / 2)) == pytest.approx(p, rel=1e-5)
    assert homogeneity(np.array([4.0]), np.array([9.0])) == 0


@pytest.mark.parametrize("truth", [0.0, 0.3, 0.7])
def test_intervals_of_v_hold_what_they_should(truth: float) -> None:
    """V of a label and an attribute of two values that agree with probability (1 + v) / 2 is v; the
    target has none.

    95% of intervals should hold the difference; of 60, fewer than 51 would be a chance of 2 in
    1,000.
    """
    generator = np.random.default_rng(2)
    n_covered = 0
    for _ in range(60):
        law = np.array([[1 + truth, 1 - truth], [1 - truth, 1 + truth]]) / 4
        train = generator.multinomial(400, law.ravel()).reshape(2, 2).astype(float)
        target = generator.multinomial(400, np.full(4, 0.25)).reshape(2, 2).astype(float)
        interval = v_interval(train, target, generator)
        assert interval.low <= interval.value <= interval.high
        n_covered += interval.low - 1e-9 <= truth <= interval.high + 1e-9
    assert n_covered >= 51


def test_intervals_of_the_variation_hold_what_they_should() -> None:
    """Shares (0.5, 0.3, 0.2) and (0.3, 0.3, 0.4) are 0.2 apart."""
    generator = np.random.default_rng(3)
    n_covered = 0
    for _ in range(60):
        train = generator.multinomial(500, [0.5, 0.3, 0.2]).astype(float)
        target = generator.multinomial(500, [0.3, 0.3, 0.4]).astype(float)
        interval = variation_interval(train, target, generator)
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
        n_covered += interval.low <= 0.2 <= interval.high
    assert n_covered >= 51


def test_intervals_of_the_variation_are_not_led_astray_by_many_values() -> None:
    """40 values, half of them more frequent by 0.01 and half less: 0.2 apart. Chance adds about
    0.09 to 300 rows a side, and the redrawing adds as much again: an interval of the redrawn
    distances as they are would lie above 0.2."""
    generator = np.random.default_rng(5)
    law = np.full(40, 1 / 40) + np.tile([0.01, -0.01], 20)
    n_covered = 0
    for _ in range(40):
        train = generator.multinomial(300, law).astype(float)
        interval = variation_interval(
            train, generator.multinomial(300, np.full(40, 1 / 40)).astype(float), generator
        )
        n_covered += interval.low <= 0.2
    assert n_covered >= 30


def test_redrawn_tables_have_the_rows_and_shares_of_the_one_observed() -> None:
    table = np.array([[10.0, 0], [20, 70]])
    draws = redrawn(table, np.random.default_rng(4))
    assert (draws.sum(axis=(1, 2)) == 100).all() and (draws[:, 0, 1] == 0).all()
    assert draws.mean(axis=0) == pytest.approx(table, abs=0.7)
