"""Families of tests: the level whose intervals agree with the verdicts, seeds that tell a
difference in a study, likely spreads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtr

from crosswind.evaluation.compare import benjamini_hochberg, holm, paired, sd_bounds, seeds_to_tell
from crosswind.evaluation.multiplicity import (
    ALPHA,
    at_level,
    effects_told,
    hardest_level,
    judged_together,
    percent,
    seeds_needed,
)


def test_the_thresholds_by_hand() -> None:
    """Of 0.001, 0.02, 0.03 and 0.9 Holm tells the first, 0.004, and stops at 0.06: two steps of 4
    and 3. FDR tells three, 0.04."""
    p = dict(enumerate([0.001, 0.02, 0.03, 0.9]))
    family = judged_together(p, "holm")
    assert [family.tells(i) for i in p] == [
        True,
        False,
        False,
        False,
    ] and family.threshold == pytest.approx(0.05 / 4)
    family = judged_together(p, "fdr")
    assert [family.tells(i) for i in p] == [
        True,
        True,
        True,
        False,
    ] and family.threshold == pytest.approx(0.05 * 3 / 4)
    family = judged_together(p, "none")
    assert (
        [family.tells(i) for i in p] == [True, True, True, False]
        and family.threshold == 0.05
        and family.level == 0.95
    )
    assert (
        judged_together({0: 0.2, 1: 0.9}, "holm").threshold
        == judged_together({0: 0.2, 1: 0.9}, "fdr").threshold
        == 0.025
    )
    assert judged_together({}, "holm").level == 0.95 and not judged_together({}, "holm").tells(0)
    with pytest.raises(ValueError, match="not in"):
        judged_together({0: 1.5}, "holm")


@pytest.mark.parametrize("multiplicity", ["holm", "fdr", "none"])
@pytest.mark.parametrize("many", [1, 2, 3, 14, 60])
def test_an_interval_at_the_level_excludes_zero_exactly_where_a_difference_is_told(
    multiplicity: str, many: int
) -> None:
    draw = np.random.default_rng(many)
    n_told = 0
    for study in range(12):
        n, runs = int(draw.integers(2, 9)), int(draw.integers(1, 4))
        effects = draw.choice([0.0, 0.02, 0.2], many)
        values = {
            i: dict(enumerate(effects[i] + 0.03 * draw.normal(size=n * runs))) for i in range(many)
        }
        zero = dict.fromkeys(range(n * runs), 0.0)
        alone = {i: paired(zero, own_values) for i, own_values in values.items()}
        family = judged_together(
            {
                i: difference.p
                for i, difference in alone.items()
                if difference is not None and difference.p is not None
            },
            multiplicity,
        )
        adjusted = {"holm": holm, "fdr": benjamini_hochberg, "none": dict}[multiplicity]
        assert family.adjusted == adjusted(
            {
                i: difference.p
                for i, difference in alone.items()
                if difference is not None and difference.p is not None
            }
        )
        for i, own_values in values.items():
            wide, again = paired(zero, own_values, family.level), at_level(alone[i], family.level)
            assert (
                wide is not None
                and again is not None
                and wide.excludes_zero == family.tells(i) == (family.adjusted[i] < ALPHA)
            )
            assert (wide.low, wide.high) == pytest.approx((again.low, again.high)), f"study {study}"
            n_told += family.tells(i)
    assert n_told, "some are told"


def test_of_the_intervals_of_told_differences_few_miss() -> None:
    """False coverage: over 300 studies of 20 differences of all sizes, at most 5% of the intervals
    of told ones miss the truth."""
    draw, missed, n_told = np.random.default_rng(5), 0, 0
    for _ in range(300):
        true = draw.exponential(0.03, 20) * draw.choice([-1, 0, 1], 20)
        values = true + 0.03 * draw.normal(size=(6, 20))
        error, t = values.std(axis=0, ddof=1) / 6**0.5, 5
        family = judged_together(
            dict(enumerate(2 * stats.t.sf(np.abs(values.mean(axis=0)) / error, t))), "holm"
        )
        half = stats.t.ppf(1 - family.threshold / 2, t) * error
        outside = np.abs(values.mean(axis=0) - true) > half
        differs = np.array([family.tells(i) for i in range(20)])
        missed, n_told = missed + int((outside & differs).sum()), n_told + int(differs.sum())
    assert n_told > 500 and missed / n_told < 0.05


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (0.95, "95%"),
        (0.9, "90%"),
        (0.975, "97.5%"),
        (1 - 0.05 / 3, "98.3%"),
        (1 - 0.05 / 7, "99.3%"),
        (1 - 0.05 / 672, "99.993%"),
    ],
)
def test_a_level_in_words(level: float, words: str) -> None:
    assert percent(level) == words


# -- seeds that are needed -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 5, 16])
def test_the_interval_of_a_spread_holds_it(n: int) -> None:
    draw = np.random.default_rng(n)
    bounds = [sd_bounds(float(sd), n) for sd in draw.normal(size=(2000, n)).std(axis=1, ddof=1)]
    assert np.mean([low <= 1 <= high for low, high in bounds]) == pytest.approx(0.95, abs=0.016)
    chi2 = stats.chi2.ppf([0.975, 0.025], n - 1)
    assert sd_bounds(0.03, n) == pytest.approx(tuple(0.03 * np.sqrt((n - 1) / chi2)))
    with pytest.raises(ValueError, match="no spread"):
        sd_bounds(0.03, 1)


@pytest.mark.parametrize(
    ("multiplicity", "many", "others"),
    [
        ("none", 14, 0.0),
        ("holm", 1, 0.0),
        ("holm", 3, 0.2),
        ("holm", 14, 0.0),
        ("holm", 60, 0.01),
        ("fdr", 14, 0.01),
    ],
)
def test_the_seeds_told_have_the_power_in_the_study(
    multiplicity: str, many: int, others: float
) -> None:
    """With a known spread: a difference of 5 points is told in 80% of studies, whatever the other
    comparisons are about."""
    sd, studies = 0.04, 400
    n = seeds_to_tell(sd, 0.05, hardest_level(multiplicity, many))
    assert n is not None
    draw, n_told = np.random.default_rng(many), 0
    for _ in range(studies):
        values = np.append(0.05, np.full(many - 1, others)) + sd * draw.normal(size=(n, many))
        t = np.abs(values.mean(axis=0)) / (values.std(axis=0, ddof=1) / n**0.5)
        n_told += judged_together(
            dict(enumerate((2 * stdtr(n - 1, -t)).tolist())), multiplicity
        ).tells(0)
    assert n_told / studies > 0.8 - 2.6 * (0.8 * 0.2 / studies) ** 0.5


@pytest.mark.parametrize("pilot", [3, 5, 16])
@pytest.mark.parametrize("many", [1, 14])
def test_the_range_of_seeds_allows_for_the_spread_of_few(pilot: int, many: int) -> None:
    """From the spread that a few seeds show: the range holds the number that is needed, and its end
    has 80% power on average."""
    sd, level = 0.03, hardest_level("holm", many)
    needed = seeds_to_tell(sd, 0.05, level)
    assert needed is not None
    draw = np.random.default_rng(pilot)
    ranges = [
        seeds_needed(float(spread_seen), pilot, 0.05, level)
        for spread_seen in sd * draw.normal(size=(120, pilot)).std(axis=1, ddof=1)
    ]
    covered = [(least or 10_000) <= needed <= (greatest or 10_000) for least, greatest in ranges]
    assert np.mean(covered) > 0.9
    powers = []
    for _, greatest in ranges:
        n = greatest or 10_000
        t, shift = stats.t.ppf((1 + level) / 2, n - 1), 0.05 / sd * n**0.5
        powers.append(1.0 if shift > 30 else float(stats.nct.sf(t, n - 1, shift)))
    assert np.mean(powers) > 0.8 and np.mean(np.array(powers) > 0.79) > 0.93


def test_what_few_seeds_tell_is_a_range_too() -> None:
    least, greatest = effects_told(0.01, 3, 0.95, 0.8)
    assert (least, greatest) == pytest.approx((0.0326 * 0.5207, 0.0326 * 6.285), rel=5e-3)
