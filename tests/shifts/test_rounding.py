"""Controlled rounding: exact totals and margins as even as whole numbers allow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.shifts.worlds import cells_of, jeon

from crosswind.shifts.base import parse_shift
from crosswind.shifts.split import rounding
from crosswind.shifts.split.rounding import controlled_rounding


def margin_excess(counts: np.ndarray, expected: np.ndarray) -> list[int]:
    """How many rows each axis has out of place: beyond the whole numbers around the expectations of
    its values."""
    excesses = []
    for axis in range(expected.ndim):
        have, want = (
            np.moveaxis(table, axis, 0).reshape(len(np.moveaxis(table, axis, 0)), -1).sum(axis=1)
            for table in (counts, expected)
        )
        excesses.append(
            int(
                (
                    np.maximum(np.floor(want + 1e-7) - have, 0)
                    + np.maximum(have - np.ceil(want - 1e-7), 0)
                ).sum()
            )
        )
    return excesses


def check(counts: np.ndarray, expected: np.ndarray, total: int) -> None:
    assert counts.dtype == np.int64
    assert counts.sum() == total
    assert (counts >= np.floor(expected + 1e-7) - 0).all()
    assert (counts <= np.ceil(expected - 1e-7)).all()


@settings(max_examples=150)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=6), st.integers(1, 400), st.integers(0, 99))
def test_a_uniform_total_has_even_margins(sizes: list[int], total: int, seed: int) -> None:
    expected = np.full(sizes, total / np.prod(sizes))
    counts = controlled_rounding(expected, seed, total)
    check(counts, expected, total)
    assert margin_excess(counts, expected) == [0] * len(sizes)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    st.lists(st.integers(2, 4), min_size=2, max_size=6),
    st.data(),
    st.integers(1, 300),
    st.integers(0, 99),
)
def test_uneven_weights_of_up_to_five_attributes_have_even_margins(
    sizes: list[int], data: st.DataObject, total: int, seed: int
) -> None:
    weights = np.ones(sizes)
    for axis, size in enumerate(sizes):
        along = [1] * len(sizes)
        along[axis] = size
        weights = weights * np.array(
            data.draw(st.lists(st.sampled_from([1.0, 0.3, 2.0, 3.0]), min_size=size, max_size=size))
        ).reshape(along)
    expected = weights * (total / weights.sum())
    counts = controlled_rounding(expected, seed, total)
    check(counts, expected, total)
    assert margin_excess(counts, expected) == [0] * len(sizes)


@pytest.mark.parametrize("name", ["SC", "LDD", "UDS", "SC+LDD", "SC+UDS", "LDD+UDS", "SC+LDD+UDS"])
@pytest.mark.parametrize(
    "sizes", [(3, 3, 3, 3), (4, 4, 4, 4), (2, 2, 2, 2), (4, 2, 3, 2), (2, 5, 3, 2)]
)
def test_the_papers_weights_round_with_even_margins(name: str, sizes: tuple[int, ...]) -> None:
    weights = parse_shift(jeon(name)).normal_form(cells_of(*sizes)).weights
    for total, seed in itertools.product((7, 40, 273), (0, 1, 2)):
        expected = weights * (total / weights.sum())
        counts = controlled_rounding(expected, seed, total)
        check(counts, expected, total)
        assert margin_excess(counts, expected) == [0] * len(sizes)


def test_seeds_break_ties_and_replay() -> None:
    expected = np.full((3, 3, 3), 10 / 27)
    drawn = [controlled_rounding(expected, seed, 10) for seed in range(200)]
    assert all(
        (counts_drawn == controlled_rounding(expected, seed, 10)).all()
        for seed, counts_drawn in enumerate(drawn[:5])
    )
    chosen = np.sum(drawn, axis=0)
    # Every cell is as likely: 200 x 10 / 27 = 74 times each, standard deviation under 7.
    assert chosen.min() > 40
    assert chosen.max() < 110


def test_the_integer_programme_answers_where_local_repair_is_kept_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounding, "_move_along", lambda *_: False)
    monkeypatch.setattr(rounding, "_exchange", lambda *_: None)
    weights = parse_shift(jeon("SC+LDD+UDS")).normal_form(cells_of(4, 3, 3, 3)).weights
    expected = weights * (41 / weights.sum())
    for seed in range(5):
        counts = controlled_rounding(expected, seed, 41)
        check(counts, expected, 41)
        assert margin_excess(counts, expected) == [0] * 4


def test_where_no_even_table_exists_the_label_comes_first() -> None:
    """Halves on (0,0,0) (0,1,1) (1,0,1) (1,1,0): any two of them share a value on exactly one axis,
    so one axis must give way."""
    expected = np.zeros((2, 2, 2))
    for cell in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)):
        expected[cell] = 0.5
    for seed in range(10):
        counts = controlled_rounding(expected, seed, 2)
        check(counts, expected, 2)
        assert margin_excess(counts, expected)[0] == 0
        assert sum(margin_excess(counts, expected)) == 2


def test_whole_expectations_are_taken_as_they_are() -> None:
    expected = np.array([[2.0, 3.0 - 1e-12], [0.0, 1.0]])
    assert controlled_rounding(expected, 0).tolist() == [[2, 3], [0, 1]]
    for total in (0, 2):  # no part is rounded up, or every part
        assert controlled_rounding(np.array([0.6, 0.4]), 0, total).tolist() == [total // 2] * 2
    with pytest.raises(ValueError, match="cannot be rounded"):
        controlled_rounding(np.array([0.5, 0.5]), 0, 3)
