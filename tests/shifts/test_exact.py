"""Shares in full precision on large cells, and what a split refuses to hand on."""

from __future__ import annotations

import dataclasses
import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.shifts.worlds import plan, world

from crosswind.core.errors import InputError, InternalError
from crosswind.shifts.base import exact
from crosswind.shifts.split import Roles, assign_roles, make_split, plan_counts, rows
from crosswind.shifts.split.rounding import controlled_rounding, rounded_up

SHARES = st.one_of(
    st.sampled_from([1 / 3, 2 / 3, 0.1 + 0.2, 1 - 2**-53, 1e-17, 1e-300, 1e-320, 0.2, 1e-5]),
    st.floats(min_value=1e-320, max_value=1 - 2**-53),
    st.fractions(min_value=0, max_value=1).filter(lambda share: 0 < share < 1),
)


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=8), SHARES)
@example([2_800, 5_000], 1 / 3)
def test_a_share_of_a_count_is_exact(counts: list[int], share: float | Fraction) -> None:
    exact_share = exact(share, "share")
    got = rounded_up(np.array(counts), exact_share)
    assert got.dtype == np.int64
    assert got.tolist() == [math.ceil(count * exact_share) for count in counts]


def test_no_test_row_trains_at_a_share_in_full_precision() -> None:
    """4 cells of 5,000 rows, 10 for testing: 4,990 are left, 1,664 of them (a third, rounded up)
    validate, 3,326 may train."""
    data = {"d": world((2, 2), 5_000)}
    split = make_split(data, "d", plan(n_attributes=1, roles=Roles(10, 1 / 3)), seed=0)
    rows_of_sets = [
        split.train.rows,
        split.validation["validation"].rows,
        split.evaluation["test"].rows,
    ]
    assert [len(rows_of_set) for rows_of_set in rows_of_sets] == [
        4 * 3_326,
        4 * 1_663,
        40,
    ]  # a third of training and validation together
    assert len(np.unique(np.concatenate(rows_of_sets))) == sum(map(len, rows_of_sets))
    assert (data["d"].table.column("y")[split.train.rows] == split.train.label).all()


_LARGE: dict[str, Any] = {}


@settings(max_examples=10, deadline=None)
@given(SHARES, SHARES, st.booleans())
@example(0.2, 1 / 3, False)
@example(1 / 3, 0.1 + 0.2, True)
def test_roles_hold_on_large_cells(
    test: float | Fraction, validation: float | Fraction, units: bool
) -> None:
    """Whatever the shares: every row has one role, validation takes its share of what the test
    leaves, one row at least trains."""
    if not _LARGE:
        sizes = np.array([[40_000, 1], [12_000, 7]])
        _LARGE[False] = {"d": world((2, 2), sizes)}
        _LARGE[True] = {"d": world((2, 2), sizes, units=np.arange(52_008) // 3)}
    data = _LARGE[units]
    roles = Roles(test if isinstance(test, float) else str(test), str(validation))
    try:
        split = make_split(data, "d", plan(n_attributes=1, roles=roles), seed=1)
    except InputError as error:
        assert str(error).startswith(
            ("roles.test", "shift")
        )  # nothing left to test on, or to train on
        return
    sets = [split.train, *split.validation.values(), *split.evaluation.values()]
    chosen = np.concatenate([role_rows.rows for role_rows in sets])
    assert len(np.unique(chosen)) == len(chosen) <= 52_008
    assert (
        data["d"].table.column("y")[chosen]
        == np.concatenate([role_rows.true_label for role_rows in sets])
    ).all()
    if not units:
        left = 52_008 - len(split.evaluation["test"])
        exact_share = exact(validation, "validation")
        # Rounded up in each of four cells, so training has up to four rows less; then validation is
        # cut to its share of the whole.
        assert abs(sum(map(len, split.validation.values())) - exact_share * left) <= min(
            4 / (1 - exact_share), left
        )


@pytest.mark.parametrize("share", [1e-320, 1e-17, "1e-320", 2**70])
def test_a_strange_quota_gives_a_split_or_a_sentence(share: Any) -> None:
    data = {"d": world((2, 2), 50)}
    for roles in (Roles(3, share), Roles(share, 3)):
        try:
            counted = plan_counts(data, "d", plan(n_attributes=1, roles=roles))
        except InputError as error:
            assert str(error).startswith(("roles.test", "roles: leave no row to train on", "shift"))
        else:
            assert counted.train_rows > 0
            assert "validation" in counted.set_rows or "roles.validation" in " ".join(
                counted.warnings
            )


@pytest.mark.parametrize(
    "number", ["1e999999999", "1e-999999999", "1e400", "1e-400", "9" * 2000, "1/0"]
)
def test_a_number_beyond_floats_is_refused_at_once(number: str) -> None:
    with pytest.raises(InputError, match=r"draw\.base: must be a number of at least 0"):
        exact(number, "draw.base")


def test_weights_beyond_floats_are_refused() -> None:
    heavy = [
        {"type": "low-data-drift", "attribute": name, "ratio": 0.5, "high": 1e300} for name in "ab"
    ]
    with pytest.raises(InputError, match="shift: gives a cell of the training set a weight above"):
        plan_counts({"d": world((2, 2, 2), 5)}, "d", plan(heavy))
    with pytest.raises(InputError, match="draw: asks for"):
        plan_counts({"d": world((2, 2, 2), 5)}, "d", plan(draw={"base": "1e300"}))


@pytest.mark.slow
def test_rows_spread_thinner_than_rounding_are_not_lost() -> None:
    """One row over 12 million cells: 8e-8 a cell is nearer to a whole number than rounding looks at
    in small tables."""
    assert controlled_rounding(np.full(12_000_000, 1 / 12_000_000), 0, 1).sum() == 1


# -- a split checks itself -------------------------------------------------------------------------


def _units() -> dict[str, Any]:
    return {"d": world((2, 2), 20, units=np.arange(80) // 4)}


def test_a_deal_of_other_sizes_than_the_cells_is_not_planned_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assign_roles, "rounded_up", lambda left, share: np.full_like(left, -724))
    with pytest.raises(InternalError, match="more rows than it has, or fewer than none"):
        plan_counts({"d": world((2, 2), 20)}, "d", plan(n_attributes=1, roles=Roles(4, 0.2)))


@pytest.mark.parametrize("fault", ["overlap", "unit"])
def test_a_wrong_deal_is_not_handed_on(fault: str) -> None:
    data = _units() if fault == "unit" else {"d": world((2, 2), 20)}
    study = plan(n_attributes=1, roles=Roles(4, 0.2))
    make_split(data, "d", study, seed=0)
    dealt = next(
        deal
        for key, deal in data["d"].cache[("cell index", "y", ("a",))].kept.items()
        if key[0] == "deal"
    )
    dealt.kept.clear()
    if fault == "overlap":
        dealt.starts[2] -= 1
    else:
        dealt.starts[2, 0] += 1
        dealt.sizes[2, 0] -= 1
    with pytest.raises(InternalError, match=r"^the deal of roles gives"):
        make_split(data, "d", study, seed=0)


def _swap(drawn: Any) -> Any:
    base = drawn.base.copy()
    base[0], base[-1] = base[-1], base[0]
    return dataclasses.replace(drawn, base=base)


def _repeat(drawn: Any) -> Any:
    base = drawn.base.copy()
    base[0] = base[1]
    return dataclasses.replace(drawn, base=base)


def _fewer(drawn: Any) -> Any:
    return dataclasses.replace(
        drawn, base=drawn.base[1:], cell=drawn.cell[1:], origin=drawn.origin[1:]
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_swap, "rows that lie in other cells"),
        (_repeat, "a row twice"),
        (_fewer, "59 rows where 60 were planned"),
    ],
)
def test_a_wrong_set_is_not_handed_on(
    monkeypatch: pytest.MonkeyPatch, change: Any, words: str
) -> None:
    module = sys.modules[make_split.__module__]
    right = rows.draw_rows
    monkeypatch.setattr(
        module, "draw_rows", lambda parts: [change(drawn) for drawn in right(parts)]
    )
    study = plan(draw={"total": 60}, n_attributes=1, roles=Roles(4, 0.2))
    with pytest.raises(InternalError, match=f"^the set 'train' has {words}"):
        make_split({"d": world((2, 2), 40)}, "d", study, seed=0)
