"""Tests over several cases: values and p worked by hand, what has no p, and power by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crosswind.evaluation.compare import Seeds
from crosswind.evaluation.pooled_tests import (
    AgreementTest,
    MeanTest,
    NobodyBestTest,
    OrderTest,
    PooledTest,
    RanksTest,
    ShareTest,
)

AHEAD = {0: 0.10, 1: 0.11, 2: 0.09}  # sd 0.01, t 17.32, two-sided p 0.00332
LEVEL = dict.fromkeys(AHEAD, 0.0)


def test_a_mean_over_seeds_less_what_it_must_exceed() -> None:
    test = MeanTest(AHEAD)
    assert (test.value, test.n) == (pytest.approx(0.1), 3)
    assert test.p == pytest.approx(0.00332, abs=1e-5)
    assert test.interval(0.95) == pytest.approx((0.0752, 0.1248), abs=1e-4)
    assert MeanTest(AHEAD, beyond=0.2).value == pytest.approx(-0.1)
    assert MeanTest(AHEAD, beyond=-0.1).interval(0.95) == pytest.approx((0.1752, 0.2248), abs=1e-4)


def test_a_mean_without_a_spread_has_no_p_and_split_seeds_have_no_power() -> None:
    assert MeanTest({0: 0.1, 1: 0.1}).p is None
    assert MeanTest({0: 0.1}).interval(0.95) is None
    crossed = {Seeds(split, seed): 0.1 + 0.01 * split * seed for split in (0, 1) for seed in (0, 1)}
    assert MeanTest(crossed).detectable(0.95, 0.8) is None
    assert MeanTest(AHEAD).detectable(0.95, 0.8) is not None


def test_a_share_is_counted_exactly() -> None:
    """9 or 10 of 10 tosses: 11 / 1024 on one side."""
    test = ShareTest(9, 10)
    assert test.value == pytest.approx(0.4)
    assert test.p == pytest.approx(2 * 11 / 1024)
    assert ShareTest(1, 10).p == pytest.approx(2 * 11 / 1024) and ShareTest(1, 10).value < 0
    assert ShareTest(5, 10).p == 1.0
    # 0.9 ** 10 = 0.349: ten of ten do not tell a share above nine tenths.
    assert ShareTest(10, 10, 0.9).p == pytest.approx(2 * 0.9**10)
    assert ShareTest(10, 10, 0.9).detectable(0.95, 0.8) is None
    low, high = ShareTest(0, 10).interval(0.95) or (0.0, 0.0)
    assert low == -0.5 and high == pytest.approx(1 - 0.025**0.1 - 0.5)  # Clopper and Pearson


def test_the_share_that_is_told_is_told_in_four_of_five_draws() -> None:
    least = ShareTest(0, 20).detectable(0.95, 0.8)
    assert least is not None
    draws = np.random.default_rng(0).binomial(20, 0.5 + least[0], 4000)
    told = [(ShareTest(int(n), 20).p or 1) < 0.05 and n > 10 for n in range(21)]
    assert np.mean([told[n] for n in draws]) == pytest.approx(0.8, abs=0.02)


def test_an_order_is_that_of_every_block() -> None:
    """Three blocks in the stated order of three: (1/6)^3 on one side."""
    test = OrderTest(np.array([[1.0, 2.0, 3.0]] * 3))
    assert (test.value, test.n) == (pytest.approx(1.0), 3)
    assert test.p == pytest.approx(2 / 216)
    backwards = OrderTest(np.array([[3.0, 2.0, 1.0]] * 3))
    assert backwards.value == pytest.approx(-1.0) and backwards.p == pytest.approx(2 / 216)
    assert OrderTest(np.array([[1.0, 2.0, 3.0]])).p is None
    assert OrderTest(np.array([[1.0, 2.0]] * 5)).p is None
    assert OrderTest(np.array([[1.0, 2.0]] * 5)).detectable(0.95, 0.8) is None


def test_the_value_of_an_order_is_the_mean_rank_correlation() -> None:
    blocks = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0]])
    # 1 - 6 sum d^2 / (n (n^2 - 1)): 1 and 1 - 12 / 60.
    assert OrderTest(blocks).value == pytest.approx((1 + 0.8) / 2)


def test_agreement_is_kendalls_tau() -> None:
    """One of six pairs is turned: (5 - 1) / 6; 8 of 24 orders have as large a tau."""
    test = AgreementTest([1, 2, 3, 4], [1, 2, 4, 3])
    assert (test.value, test.n) == (pytest.approx(4 / 6), 4)
    assert test.p == pytest.approx(8 / 24)
    assert test.interval(0.95) is None
    constant = AgreementTest([1, 1, 1, 1], [1, 2, 4, 3])
    assert math.isnan(constant.value) and constant.p is None
    low, high = AgreementTest(list(range(20)), list(range(20))).interval(0.95) or (0.0, 0.0)
    assert 0.99 < low <= high <= 1


def test_ranks_are_compared_by_friedman() -> None:
    """Three blocks in one order: chi-square 6 with 2 degrees of freedom, p = exp(-3)."""
    test = RanksTest(np.array([[1.0, 2.0, 3.0]] * 3))
    assert test.value == pytest.approx(1.0) and test.p == pytest.approx(math.exp(-3))
    assert RanksTest(np.ones((4, 3))).p is None
    assert RanksTest(np.ones((1, 3))).p is None
    assert RanksTest(np.array([[1.0, 2.0, 3.0]] * 3)).detectable(0.99, 0.8) is None


def test_nobody_is_best_where_everyone_is_beaten_somewhere() -> None:
    """One-sided p 0.00166 in a case, of two cases with one other each: 0.00332 a row; doubled."""
    test = NobodyBestTest([{"a": AHEAD, "b": LEVEL}, {"a": LEVEL, "b": AHEAD}])
    assert test.value == pytest.approx(0.1)
    assert test.p == pytest.approx(2 * 0.00332, abs=2e-5)
    assert not test.is_opposite and test.firsts == {"a": 1, "b": 1}


def test_one_that_leads_everywhere_is_best() -> None:
    test = NobodyBestTest([{"a": AHEAD, "b": LEVEL}] * 2)
    assert test.value == 0 and test.is_opposite and test.firsts == {"a": 2, "b": 0}
    assert test.p == pytest.approx(2 * 2 * 0.00166, abs=2e-5)
    open_case = {"a": LEVEL, "b": {0: 0.01, 1: -0.02, 2: 0.01}}
    assert (NobodyBestTest([{"a": AHEAD, "b": LEVEL}, open_case]).p or 0) > 0.5
    assert NobodyBestTest([{"a": AHEAD}]).p is None


def test_pairs_without_a_spread_say_nothing() -> None:
    constant = {"a": {0: 0.5, 1: 0.5}, "b": {0: 0.4, 1: 0.4}}
    test = NobodyBestTest([constant, {"a": constant["b"], "b": constant["a"]}])
    assert test.p == 1.0 and test.detectable(0.95, 0.8) is None
    assert test.value == pytest.approx(0.1)


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: OrderTest(rng.normal(size=(6, 4))),
        lambda rng: AgreementTest(list(rng.normal(size=12)), list(rng.normal(size=12))),
        lambda rng: ShareTest(int(rng.binomial(15, 0.5)), 15),
        lambda rng: NobodyBestTest(
            [
                {"a": dict(enumerate(rng.normal(size=5))), "b": dict(enumerate(rng.normal(size=5)))}
                for _ in range(3)
            ]
        ),
    ],
    ids=["order", "agreement", "share", "nobody-best"],
)
def test_where_nothing_differs_no_more_than_one_in_twenty_is_told(make: object) -> None:
    rng = np.random.default_rng(7)
    tests: list[PooledTest] = [make(rng) for _ in range(400)]  # type: ignore[operator]
    assert np.mean([(test.p or 1.0) < 0.05 for test in tests]) <= 0.075


def test_the_power_of_an_order_is_about_what_is_said() -> None:
    """Scores that rise so that the mean rank correlation is the least that is told."""
    rng = np.random.default_rng(3)
    flat = OrderTest(rng.normal(size=(8, 4))).detectable(0.95, 0.8)
    assert flat is not None
    slopes = [OrderTest(rng.normal(size=(8, 4)) + 0.6 * np.arange(4)) for _ in range(300)]
    assert np.mean([test.value for test in slopes]) == pytest.approx(flat[0], abs=0.1)
    told = np.mean([(test.p or 1.0) < 0.05 for test in slopes])
    assert 0.6 < told < 0.95
