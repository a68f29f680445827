"""The product of factors between two tables: fits, score tests and raking on tables worked by
hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crosswind.shifts.association import log_tail
from crosswind.shifts.audit.loglinear import Factor, LoglinearPool, fit, rake, score_test


def pool_of(train: list[list[float]], target: list[list[float]]) -> LoglinearPool:
    """A pool of a label and one attribute, by tables [classes, values]."""
    a, b = np.array(train, dtype=float), np.array(target, dtype=float)
    codes = np.stack(np.unravel_index(np.arange(a.size), a.shape)).astype(np.int64)
    return LoglinearPool(codes, a.shape, a.ravel(), b.ravel())


def test_a_fit_gives_each_level_its_share_of_training() -> None:
    pool = pool_of([[60, 40]], [[30, 70]])
    assert fit(pool, [pool.main(1)]).p == pytest.approx([60 / 90, 40 / 110], abs=1e-3)
    assert fit(pool, []).p == pytest.approx([0.5, 0.5])


def test_weights_of_two_factors_are_found_together() -> None:
    """Target 100 in each of 2 x 2 cells; training 2 x 3 times as many where both weights act: odds
    are products."""
    pool = pool_of([[100, 200], [300, 600]], [[100, 100], [100, 100]])
    p = fit(pool, [pool.main(0), pool.main(1)]).p
    assert p / (1 - p) == pytest.approx([1, 2, 3, 6], rel=0.01)
    beside = score_test(pool, fit(pool, [pool.main(0), pool.main(1)]), pool.cross(1))
    assert beside.log_p > math.log(0.9)
    assert score_test(pool, fit(pool, [pool.main(0)]), pool.main(1)).log_p < -15


def test_a_score_test_by_hand() -> None:
    """60, 40 beside 30, 70, one constant: p = 1/2, residuals 60 - 45 = 15 and -15, weights 22.5 and
    27.5.

    Less the constant's the variance is 22.5 x 27.5 / 50 = 12.375 of (1, -1), whose length is sqrt
    2: 24.75 along (1, -1) / sqrt 2, where the residual is 15 sqrt 2: 450 / 24.75 = 18.18 is
    Pearson's; with one more row of variance 450 / 25.75 = 17.476.
    """
    pool = pool_of([[60, 40]], [[30, 70]])
    tested = score_test(pool, fit(pool, []), pool.main(1))
    assert tested.statistic == pytest.approx(450 / 25.75, rel=1e-6)
    assert tested.freedom == pytest.approx(24.75 / 25.75, rel=1e-6)


def test_what_is_in_the_model_is_not_asked_for_again() -> None:
    pool = pool_of([[60, 40]], [[30, 70]])
    tested = score_test(pool, fit(pool, [pool.main(1)]), pool.main(1))
    assert (tested.statistic, tested.log_p) == pytest.approx((0, 0), abs=1e-3)


def test_score_tests_are_fair_where_nothing_is_shifted() -> None:
    """10 classes x 6 values, 500 rows a side of one law: 5% of p lie below 0.05, and few below
    0.001.

    Of 400, more than 36 below 0.05 or more than 3 below 0.001 would be a chance under 1 in 1,000.
    """
    generator = np.random.default_rng(0)
    law = generator.dirichlet(np.full(60, 2.0))
    tested = []
    for _ in range(400):
        tables = [generator.multinomial(500, law).reshape(10, 6).tolist() for _ in range(2)]
        pool = pool_of(*tables)
        tested.append(
            score_test(pool, fit(pool, [pool.main(0), pool.main(1)]), pool.cross(1)).log_p
        )
    assert np.mean(np.array(tested) < math.log(0.05)) <= 0.09
    assert np.mean(np.array(tested) < math.log(0.001)) <= 0.0076


def test_the_tail_of_chi_squared() -> None:
    """exp(-x / 2) with two degrees of freedom; far out the expansion goes on where the number
    itself underflows."""
    assert log_tail(7.0, 2) == pytest.approx(-3.5)
    assert log_tail(3000.0, 2) == pytest.approx(-1500)
    assert log_tail(1300.0, 5) - log_tail(1400.0, 5) == pytest.approx(
        50 - 1.5 * math.log(1400 / 1300), abs=0.01
    )


def test_raking_by_hand() -> None:
    """A flat law raked to classes (0.8, 0.2) and values (0.6, 0.4) is their product."""
    pool = pool_of([[48, 32], [12, 8]], [[5, 5], [5, 5]])
    tested = rake(pool, pool.target, [pool.main(0), pool.main(1)])
    assert tested == pytest.approx([0.48, 0.32, 0.12, 0.08])


def test_raking_leaves_what_the_start_lacks() -> None:
    pool = pool_of([[10, 10], [0, 20]], [[10, 0], [10, 10]])
    tested = rake(pool, pool.target, [pool.main(0)])
    assert tested == pytest.approx([0.5, 0, 0.25, 0.25])


def test_factors_sum_over_their_levels() -> None:
    assert (Factor(np.array([0, 2, 2]), 4) @ np.array([1.0, 2, 3])).tolist() == [1, 0, 5, 0]
