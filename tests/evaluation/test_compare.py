"""Intervals, paired differences, Holm and ranks, worked by hand."""

from __future__ import annotations

import math

import pytest

from crosswind.evaluation.compare import holm, mean_ranks, paired, summary, t_quantile


def test_t_quantiles_are_those_of_the_printed_tables() -> None:
    """Two-sided 95%: 12.706, 4.303, 3.182, 2.776 for 1 to 4 degrees of freedom; for 1 it is tan(0.475 pi)."""
    assert [round(t_quantile(df), 3) for df in (1, 2, 3, 4)] == [12.706, 4.303, 3.182, 2.776]
    assert t_quantile(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-9)
    assert t_quantile(1, 0.5) == pytest.approx(1.0, rel=1e-9)


def test_summary_by_hand() -> None:
    """0.7, 0.8, 0.9: mean 0.8; sd = sqrt((0.01 + 0 + 0.01) / 2) = 0.1; half-width 4.3026527 * 0.1 / sqrt(3) = 0.2484137."""
    found = summary([0.7, 0.8, 0.9])
    assert found.n == 3
    assert found.mean == pytest.approx(0.8)
    assert found.sd == pytest.approx(0.1)
    assert found.half_width == pytest.approx(0.2484137, abs=1e-7)
    assert (found.low, found.high) == (pytest.approx(0.8 - 0.2484137, abs=1e-7), pytest.approx(0.8 + 0.2484137, abs=1e-7))


def test_one_value_has_no_spread_and_none_is_refused() -> None:
    one = summary([0.5])
    assert (one.mean, one.sd, one.n, one.low, one.high, one.half_width) == (0.5, None, 1, None, None, None)
    with pytest.raises(ValueError, match="no value"):
        summary([])
    with pytest.raises(ValueError, match="not finite"):
        summary([0.5, math.nan])


def test_two_seeds_give_a_wide_interval() -> None:
    """0.8 and 0.9: sd 0.0707, half-width 12.7062 * 0.0707 / sqrt(2) = 0.635: wider than the values themselves."""
    assert summary([0.8, 0.9]).half_width == pytest.approx(0.63531, abs=1e-5)


def test_paired_by_seed_by_hand() -> None:
    """Shared seeds 0, 1, 2; differences 0.1, 0.2, 0.3: mean 0.2, sd 0.1, half-width 0.2484137 > 0.2, so 0 is inside.

    t = 0.2 / (0.1 / sqrt 3) = 3.4641; for 2 degrees of freedom p = 1 - t / sqrt(2 + t^2) = 1 - 3.4641 / sqrt 14 = 0.0741799.
    Seeds 3 and 4 have one side only.
    """
    found = paired({0: 0.5, 1: 0.5, 2: 0.4, 3: 0.9}, {2: 0.7, 1: 0.7, 0: 0.6, 4: 0.1})
    assert found is not None
    assert (found.n, found.missing) == (3, 2)
    assert found.mean == pytest.approx(0.2)
    assert found.half_width == pytest.approx(0.2484137, abs=1e-7)
    assert found.p == pytest.approx(0.0741799, abs=1e-6)
    assert not found.excludes_zero


def test_interval_without_zero() -> None:
    """Differences 0.19, 0.20, 0.21: half-width 0.0248 < 0.2. Their negatives exclude 0 from the other side."""
    up, zero = {0: 0.19, 1: 0.20, 2: 0.21}, {0: 0.0, 1: 0.0, 2: 0.0}
    for found in (paired(zero, up), paired(up, zero)):
        assert found is not None
        assert found.excludes_zero


def test_equal_differences_are_no_evidence() -> None:
    """0.1 - 0.0 and 0.9 - 0.8 differ by 2e-17 in floating point: no spread, so no claim."""
    found = paired({0: 0.0, 1: 0.8}, {0: 0.1, 1: 0.9})
    assert found is not None
    assert (found.sd, found.p, found.excludes_zero) == (0.0, None, False)
    assert found.mean == pytest.approx(0.1)


def test_pairs_of_nothing_and_of_one() -> None:
    assert paired({0: 0.5}, {1: 0.5}) is None
    one = paired({0: 0.5}, {0: 0.75})
    assert one is not None
    assert (one.mean, one.n, one.low, one.p, one.excludes_zero) == (0.25, 1, None, None, False)


def test_holm_by_hand() -> None:
    """0.01 * 4 = 0.04; 0.02 * 3 = 0.06; 0.03 * 2 = 0.06; 0.5 * 1 = 0.5. In the order given."""
    assert holm({"a": 0.5, "b": 0.01, "c": 0.03, "d": 0.02}) == pytest.approx({"a": 0.5, "b": 0.04, "c": 0.06, "d": 0.06})


def test_holm_is_monotone_and_at_most_one() -> None:
    """0.4 * 2 = 0.8; 0.3 * 3 = 0.9 comes first, so 0.4 gets 0.9 too; 0.9 * 1 = 0.9."""
    assert holm({"a": 0.3, "b": 0.4, "c": 0.9}) == pytest.approx({"a": 0.9, "b": 0.9, "c": 0.9})
    assert holm({"a": 0.8, "b": 0.9}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}
    with pytest.raises(ValueError, match="not in"):
        holm({"a": 1.5})


def test_ranks_share_ties_and_leave_out_blocks_that_lack_a_name() -> None:
    """Block 1: a 0.9 rank 1, b = c = 0.8 rank 2.5. Block 2: c 3 > b 2 > a 1. Means a 2, b 2.25, c 1.75. Block 3 lacks c."""
    found = mean_ranks([{"a": 0.9, "b": 0.8, "c": 0.8}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}])
    assert found.mean == {"a": 2.0, "b": 2.25, "c": 1.75}
    assert (found.blocks, found.left_out) == (2, 1)
    assert mean_ranks([{"a": 0.9, "b": 0.8}], higher_is_better=False).mean == {"a": 2.0, "b": 1.0}
    assert mean_ranks([{"a": 1}, {"b": 1}]).mean == {}
