"""Intervals, paired differences, Holm and ranks, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crosswind.evaluation.compare import (
    Seeds,
    benjamini_hochberg,
    holm,
    mean_ranks,
    over_runs,
    paired,
    seeds_to_tell,
    summary,
    t_quantile,
    told_effect,
)


def test_t_quantiles_are_those_of_the_printed_tables() -> None:
    """Two-sided 95%: 12.706, 4.303, 3.182, 2.776 for 1 to 4 degrees of freedom; for 1 it is
    tan(0.475 pi)."""
    assert [round(t_quantile(df), 3) for df in (1, 2, 3, 4)] == [12.706, 4.303, 3.182, 2.776]
    assert t_quantile(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-9)
    assert t_quantile(1, 0.5) == pytest.approx(1.0, rel=1e-9)


def test_summary_by_hand() -> None:
    """0.7, 0.8, 0.9: mean 0.8; sd = sqrt((0.01 + 0 + 0.01) / 2) = 0.1; half-width 4.3026527 * 0.1 /
    sqrt(3) = 0.2484137."""
    summarised = summary([0.7, 0.8, 0.9])
    assert summarised.n == 3
    assert summarised.mean == pytest.approx(0.8)
    assert summarised.sd == pytest.approx(0.1)
    assert summarised.half_width == pytest.approx(0.2484137, abs=1e-7)
    assert (summarised.low, summarised.high) == (
        pytest.approx(0.8 - 0.2484137, abs=1e-7),
        pytest.approx(0.8 + 0.2484137, abs=1e-7),
    )


def test_one_value_has_no_spread_and_none_is_refused() -> None:
    single_value = summary([0.5])
    assert (
        single_value.mean,
        single_value.sd,
        single_value.n,
        single_value.low,
        single_value.high,
        single_value.half_width,
    ) == (
        0.5,
        None,
        1,
        None,
        None,
        None,
    )
    with pytest.raises(ValueError, match="no value"):
        summary([])
    with pytest.raises(ValueError, match="not finite"):
        summary([0.5, math.nan])


def test_paired_by_seed_by_hand() -> None:
    """Shared seeds 0, 1, 2; differences 0.1, 0.2, 0.3: mean 0.2, sd 0.1, half-width 0.2484137 >
    0.2, so 0 is inside.

    t = 0.2 / (0.1 / sqrt 3) = 3.4641; for 2 degrees of freedom p = 1 - t / sqrt(2 + t^2) = 1 -
    3.4641 / sqrt 14 = 0.0741799. Seeds 3 and 4 have one side only.
    """
    paired_difference = paired({0: 0.5, 1: 0.5, 2: 0.4, 3: 0.9}, {2: 0.7, 1: 0.7, 0: 0.6, 4: 0.1})
    assert paired_difference is not None
    assert (paired_difference.n, paired_difference.missing) == (3, 2)
    assert paired_difference.mean == pytest.approx(0.2)
    assert paired_difference.half_width == pytest.approx(0.2484137, abs=1e-7)
    assert paired_difference.p == pytest.approx(0.0741799, abs=1e-6)
    assert not paired_difference.excludes_zero


def test_interval_without_zero() -> None:
    """Differences 0.19, 0.20, 0.21: half-width 0.0248 < 0.2. Their negatives exclude 0 from the
    other side."""
    up, zero = {0: 0.19, 1: 0.20, 2: 0.21}, {0: 0.0, 1: 0.0, 2: 0.0}
    for paired_difference in (paired(zero, up), paired(up, zero)):
        assert paired_difference is not None
        assert paired_difference.excludes_zero


def test_equal_differences_are_no_evidence() -> None:
    """0.1 - 0.0 and 0.9 - 0.8 differ by 2e-17 in floating point: no spread, so no claim."""
    paired_difference = paired({0: 0.0, 1: 0.8}, {0: 0.1, 1: 0.9})
    assert paired_difference is not None
    assert (paired_difference.sd, paired_difference.p, paired_difference.excludes_zero) == (
        0.0,
        None,
        False,
    )
    assert paired_difference.mean == pytest.approx(0.1)


def test_pairs_of_nothing_and_of_one() -> None:
    assert paired({0: 0.5}, {1: 0.5}) is None
    single_pair = paired({0: 0.5}, {0: 0.75})
    assert single_pair is not None
    assert (
        single_pair.mean,
        single_pair.n,
        single_pair.low,
        single_pair.p,
        single_pair.excludes_zero,
    ) == (0.25, 1, None, None, False)


def test_holm_by_hand() -> None:
    """0.01 * 4 = 0.04; 0.02 * 3 = 0.06; 0.03 * 2 = 0.06; 0.5 * 1 = 0.5. In the order given."""
    assert holm({"a": 0.5, "b": 0.01, "c": 0.03, "d": 0.02}) == pytest.approx(
        {"a": 0.5, "b": 0.04, "c": 0.06, "d": 0.06}
    )


def test_holm_is_monotone_and_at_most_one() -> None:
    """0.4 * 2 = 0.8; 0.3 * 3 = 0.9 comes first, so 0.4 gets 0.9 too; 0.9 * 1 = 0.9."""
    assert holm({"a": 0.3, "b": 0.4, "c": 0.9}) == pytest.approx({"a": 0.9, "b": 0.9, "c": 0.9})
    assert holm({"a": 0.8, "b": 0.9}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}
    with pytest.raises(ValueError, match="not in"):
        holm({"a": 1.5})


def test_ranks_share_ties_and_leave_out_blocks_that_lack_a_name() -> None:
    """Block 1: a 0.9 rank 1, b = c = 0.8 rank 2.5. Block 2: c 3 > b 2 > a 1. Means a 2, b 2.25, c
    1.75. Block 3 lacks c."""
    ranks = mean_ranks([{"a": 0.9, "b": 0.8, "c": 0.8}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}])
    assert ranks.mean == {"a": 2.0, "b": 2.25, "c": 1.75}
    assert (ranks.blocks, ranks.left_out) == (2, 1)
    assert mean_ranks([{"a": 1}, {"b": 1}]).mean == {}


def crossed(table: list[list[float]]) -> dict[Seeds, float]:
    """A row a split seed, a column a seed."""
    return {Seeds(i, j): value for i, row in enumerate(table) for j, value in enumerate(row)}


def test_crossed_split_seeds_by_hand() -> None:
    """Rows 0.1 0.2 0.3 and 0.3 0.4 0.8. Means by row 0.2, 0.5; by column 0.2, 0.3, 0.55; of all
    0.35.

    MS by split 3 (0.15^2 + 0.15^2) / 1 = 0.135; by seed 2 (0.15^2 + 0.05^2 + 0.2^2) / 2 = 0.065.
    The t-quantiles are 12.70620 (1) and 4.30265 (2): h^2 = (161.4476 * 0.135 + 18.5128 * 0.065) / 6
    = 3.833126, h = 1.957837.
    """
    averaged = over_runs(crossed([[0.1, 0.2, 0.3], [0.3, 0.4, 0.8]]))
    assert (averaged.n, averaged.splits, averaged.left_out) == (6, 2, 0)
    assert averaged.mean == pytest.approx(0.35)
    assert averaged.half_width == pytest.approx(1.957837, abs=1e-5)
    assert averaged.sd == pytest.approx(np.std([0.1, 0.2, 0.3, 0.3, 0.4, 0.8], ddof=1))


def test_one_split_seed_or_one_seed_is_a_plain_t_interval() -> None:
    values = [0.7, 0.8, 0.9]
    plain_summary = summary(values)
    for named in (
        dict(enumerate(values)),
        crossed([values]),
        crossed([[value] for value in values]),
    ):
        averaged, difference = over_runs(named), paired(dict.fromkeys(named, 0.75), named)
        assert (averaged.mean, averaged.sd, averaged.n, averaged.low, averaged.high) == (
            plain_summary.mean,
            plain_summary.sd,
            plain_summary.n,
            plain_summary.low,
            plain_summary.high,
        )
        assert (
            difference is not None
            and difference.p == paired({0: 0.75, 1: 0.75, 2: 0.75}, dict(enumerate(values))).p
        )  # type: ignore[union-attr]
    assert [
        over_runs(crossed([[value] for value in values])).splits,
        over_runs(crossed([values])).splits,
    ] == [3, 1]


def test_without_an_effect_of_one_kind_the_interval_is_that_of_the_other() -> None:
    """Equal rows: MS by split and of the rest are 0, so h is that of the column means, 3 values, 2
    degrees of freedom."""
    averaged, plain_summary = over_runs(crossed([[0.7, 0.8, 0.9]] * 4)), summary([0.7, 0.8, 0.9])
    assert averaged.half_width == pytest.approx(plain_summary.half_width)


def test_where_only_pairs_differ_there_is_an_interval() -> None:
    """0.1 0.2 / 0.2 0.1: all means are 0.15, MS of the rest 0.01; h = 12.70620 sqrt(0.01 / 4) =
    0.63531. Without it h is 0."""
    paired_difference = paired(crossed([[0.0, 0.0], [0.0, 0.0]]), crossed([[0.1, 0.2], [0.2, 0.1]]))
    assert paired_difference is not None and paired_difference.half_width == pytest.approx(
        0.63531, abs=1e-5
    )
    assert (
        not paired_difference.excludes_zero
        and paired_difference.p is not None
        and paired_difference.p > 0.05
    )


@pytest.mark.parametrize("scale", [1e-9, 0.3, 1.0, 2.0, 40.0])
def test_p_agrees_with_the_interval(scale: float) -> None:
    """The interval at level 1 - p ends at 0."""
    values = crossed([[scale + 0.1, scale - 0.2, scale + 0.3], [scale, scale + 0.25, scale - 0.1]])
    tested = paired(dict.fromkeys(values, 0.0), values)
    assert tested is not None and tested.p is not None and 0 < tested.p <= 1
    at_level = over_runs(values, 1 - tested.p) if tested.p < 1 else None
    assert at_level is None or at_level.half_width == pytest.approx(abs(tested.mean), rel=1e-6)
    assert tested.excludes_zero == (tested.p < 0.05)


def test_missing_pairs_leave_out_the_seed_or_split_seed_that_lacks_most() -> None:
    """3 x 3 without (1, 2): seed 2 and split 1 both have 2 of 3, and a seed goes first. Without (2,
    0), (2, 1): split 2."""
    all_pairs = crossed([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4], [0.3, 0.1, 0.9]])
    one_missing = {key: value for key, value in all_pairs.items() if key != (1, 2)}
    averaged = over_runs(one_missing)
    assert (averaged.n, averaged.splits, averaged.left_out) == (6, 3, 2)
    assert averaged.mean == pytest.approx((0.1 + 0.2 + 0.2 + 0.3 + 0.3 + 0.1) / 6)
    two = {key: value for key, value in all_pairs.items() if key not in ((2, 0), (2, 1))}
    assert (over_runs(two).n, over_runs(two).splits, over_runs(two).left_out) == (6, 2, 1)
    difference = paired(all_pairs, one_missing)
    assert difference is not None and (difference.n, difference.missing) == (6, 3)


def test_equal_pairs_are_no_evidence_either() -> None:
    paired_difference = paired(crossed([[0.0, 0.8], [0.0, 0.8]]), crossed([[0.1, 0.9], [0.1, 0.9]]))
    assert paired_difference is not None and (
        paired_difference.sd,
        paired_difference.p,
        paired_difference.excludes_zero,
    ) == (0.0, None, False)


@pytest.mark.parametrize(
    "splits,seeds,variances",
    [(2, 10, (4, 1, 1)), (2, 3, (0, 0, 1)), (4, 5, (1, 1, 0.1)), (5, 10, (1, 0, 1))],
)
def test_crossed_intervals_cover_their_mean(
    splits: int, seeds: int, variances: tuple[float, float, float]
) -> None:
    """95% intervals of 800 simulated layouts; two standard errors of the share are 0.015.
    `benchmarks/papers/intervals.py` has more."""
    rng = np.random.default_rng(7)
    split, seed, residual = np.sqrt(variances)
    inside = 0
    for _ in range(800):
        table = (
            split * rng.normal(size=(splits, 1))
            + seed * rng.normal(size=(1, seeds))
            + residual * rng.normal(size=(splits, seeds))
        )
        averaged = over_runs(crossed(table.tolist()))
        assert averaged.low is not None and averaged.high is not None
        inside += averaged.low <= 0 <= averaged.high
    assert inside / 800 >= 0.935


def test_benjamini_hochberg_is_that_of_scipy() -> None:
    from scipy.stats import false_discovery_control

    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        p = rng.random(n) ** 2
        adjusted = benjamini_hochberg(dict(enumerate(p.tolist())))
        assert list(adjusted.values()) == pytest.approx(false_discovery_control(p))
    assert benjamini_hochberg({}) == {}
    with pytest.raises(ValueError, match="not in"):
        benjamini_hochberg({"a": 1.5})


def test_what_waits_counts_as_one_and_takes_no_finding_back() -> None:
    """Holm and Benjamini-Hochberg reject more, never less, when a p-value falls: what holds while
    others wait still holds."""
    rng = np.random.default_rng(1)
    for adjust in (holm, benjamini_hochberg):
        for _ in range(200):
            p = dict(enumerate((rng.random(5) ** 3).tolist()))
            waiting = {**p, 0: 1.0, 3: 1.0}
            before, after = adjust(waiting), adjust(p)
            assert all(after[key] <= before[key] for key in p)


def test_the_effect_that_seeds_tell_is_what_the_seeds_are_for() -> None:
    """`told_effect` is `seeds_to_tell` the other way round: n seeds tell it, and not a thousandth
    less."""
    for sd, n in ((0.01, 3), (0.05, 5), (0.03, 20)):
        for level in (0.95, 0.99):
            effect = told_effect(sd, n, level)
            assert (
                seeds_to_tell(sd, effect * 1.0001, level) == n
                and seeds_to_tell(sd, effect * 0.999, level) == n + 1
            )
    assert (
        told_effect(1.0, 2, 0.9999) > 1000
    )  # far out, where the noncentral distribution is not a number on the wrong side
