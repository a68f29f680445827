"""The algebra of shifts: joining is associative and commutative as values, and plain values are
read with errors that help."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shifts.worlds import cells_of

from crosswind.core.errors import InputError
from crosswind.core.registry import facts, listing, load
from crosswind.shifts.base import All, Cells, NormalForm, Shift, Supplement, exact, parse_shift

SHAPE = (2, 3, 2)
thirds = st.sampled_from([0.0, 0.1, 1 / 3, 0.7, 1.0, 3.0])


@st.composite
def forms(draw: st.DrawFn) -> NormalForm:
    factor = np.array(draw(st.lists(thirds, min_size=12, max_size=12))).reshape(SHAPE)
    narrow = np.array(draw(st.lists(thirds, min_size=3, max_size=3))).reshape(1, 3, 1)
    supplements = []
    for _ in range(draw(st.integers(0, 2))):
        region = np.array(draw(st.lists(st.booleans(), min_size=12, max_size=12))).reshape(SHAPE)
        count = draw(st.one_of(st.none(), st.integers(1, 3)))
        share = Fraction(draw(st.integers(1, 5)), 100) if count is None else None
        supplements.append(
            Supplement(region, count, share, draw(st.sampled_from(["rows", "cells"])))
        )
    return NormalForm(SHAPE, (factor, narrow), tuple(supplements))


@pytest.mark.slow
@given(forms(), forms(), forms())
def test_joining_is_associative_and_commutative_to_the_bit(
    first: NormalForm, second: NormalForm, third: NormalForm
) -> None:
    together = (first & second) & third
    for other_order in (
        first & (second & third),
        (third & first) & second,
        second & (third & first),
    ):
        assert together == other_order
        assert together.weights.tobytes() == other_order.weights.tobytes()
        assert [supplement.key for supplement in together.supplements] == [
            supplement.key for supplement in other_order.supplements
        ]


@given(forms(), forms())
def test_joining_multiplies_weights_and_cuts_regions(first: NormalForm, second: NormalForm) -> None:
    joined = first & second
    assert np.allclose(joined.weights, first.weights * second.weights)
    regions = [supplement.region & second.support for supplement in first.supplements] + [
        supplement.region & first.support for supplement in second.supplements
    ]
    assert sorted(supplement.region.tobytes() for supplement in joined.supplements) == sorted(
        region.tobytes() for region in regions
    )


@given(forms())
def test_uniform_is_the_neutral_element(form: NormalForm) -> None:
    assert form & NormalForm(SHAPE) == form
    assert form != form & NormalForm(SHAPE, (np.full((1, 1, 1), 2.0),)) or not form.weights.any()


SPECS: list[Any] = [
    {"type": "spurious-correlation", "attribute": "a"},
    {
        "type": "spurious-correlation",
        "attribute": "b",
        "counterexamples_from": "uniform",
        "counterexamples": 5,
    },
    {"type": "spurious-correlation", "attribute": "a", "strength": 0.7},
    {"type": "low-data-drift", "attribute": "b", "ratio": {"default": "1/3", "last": 0}, "high": 3},
    {"type": "low-data-drift", "attribute": "c", "low": ["c0"], "count": 4},
    {"type": "unseen-data", "attribute": "c"},
    {"type": "only", "attribute": "a", "values": ["a0", "a1"]},
    {"type": "systematic", "environment": "b", "classes": {"b0": "all", "b1": ["y0"]}},
    "uniform",
]


@given(st.lists(st.sampled_from(SPECS), min_size=2, max_size=4), st.randoms())
def test_concurrent_shifts_do_not_depend_on_their_order(specs: list[Any], random: Any) -> None:
    cells = cells_of(3, 3, 4, 2)
    shuffled = list(specs)
    random.shuffle(shuffled)
    together = parse_shift(specs).normal_form(cells)
    assert together == parse_shift(shuffled).normal_form(cells)
    joined = functools.reduce(
        lambda one, other: one & other, [parse_shift(spec).normal_form(cells) for spec in specs]
    )
    assert together == joined
    by_operator = functools.reduce(
        lambda one, other: one & other, [parse_shift(spec) for spec in specs]
    )
    assert by_operator.normal_form(cells) == together


def test_every_shift_is_described_and_read_back() -> None:
    cells = cells_of(3, 3, 4, 2)
    for spec in SPECS:
        shift = parse_shift(spec)
        again = parse_shift(shift.describe())
        assert again.describe() == shift.describe()
        assert again.normal_form(cells) == shift.normal_form(cells)
    assert parse_shift(parse_shift(SPECS).describe()).normal_form(cells) == parse_shift(
        SPECS
    ).normal_form(cells)


def test_the_room_holds_these_shifts_and_their_facts_are_those_of_the_classes() -> None:
    names = [shift.name for shift in listing("shifts") if shift.module.startswith("crosswind.")]
    assert names == [
        "low-data-drift",
        "official",
        "only",
        "spurious-correlation",
        "systematic",
        "uniform",
        "unseen-data",
    ]
    for name in names:
        cls = load("shifts", name)
        assert issubclass(cls, Shift)
        assert [knob.name for knob in facts("shifts", name).knobs] == list(
            getattr(cls, "__dataclass_fields__", {})
        )


def test_null_and_the_empty_list_are_uniform() -> None:
    cells = cells_of(2, 2)
    for spec in (None, [], "uniform", {"type": "uniform"}):
        assert parse_shift(spec).normal_form(cells) == NormalForm(cells.shape)
    assert All((All((All(),)),)).parts == ()


BAD: list[tuple[Any, str]] = [
    ({"attribute": "a"}, "shift.type: a shift needs its type"),
    ({"type": "spurious"}, "shift.type: unknown shift 'spurious'"),
    ({"type": 3}, "shift.type: must be the name of a shift"),
    (3, "shift: must be a shift or a list of shifts"),
    ([{"type": "unseen-data"}], "shift.0.attribute: shift 'unseen-data' needs 'attribute'"),
    (
        [{"type": "unseen-data", "attribute": "a", "unsen": "a0"}],
        "shift.0.unsen: unknown setting of shift 'unseen-data': 'unsen', did you mean 'unseen'",
    ),
    (
        {"type": "spurious-correlation", "attribute": "a", "strength": 2},
        "shift.strength: must be in [0, 1]",
    ),
    (
        {"type": "spurious-correlation", "attribute": "a", "counterexamples": True},
        "shift.counterexamples: must be",
    ),
    (
        {"type": "low-data-drift", "attribute": "a", "count": 1.5},
        "shift.count: must be a whole number",
    ),
]
BAD_ON_CELLS: list[tuple[Any, str]] = [
    (
        {"type": "unseen-data", "attribute": "color"},
        "shift.attribute: unknown attribute of the study 'color' (valid: y, a, b)",
    ),
    (
        {"type": "unseen-data", "attribute": "a", "unseen": "a9"},
        "shift.unseen: unknown value of attribute 'a': 'a9'",
    ),
    (
        {"type": "unseen-data", "attribute": "a", "unseen": ["a0", "a1", "a2"]},
        "shift.unseen: leaves no value of 'a'",
    ),
    (
        {"type": "unseen-data", "attribute": "a", "unseen": []},
        "shift.unseen: names no value of 'a'",
    ),
    (
        {"type": "only", "attribute": "a", "values": ["a0", "first"]},
        "shift.values: names a value of 'a' twice",
    ),
    (
        {"type": "only", "attribute": "a", "values": {"a0": 1}},
        "shift.values: must be a value of 'a'",
    ),
    ({"type": "spurious-correlation", "attribute": "y"}, "shift.attribute: 'y' is the label"),
    (
        {"type": "spurious-correlation", "attribute": "a", "matching": "near"},
        "shift.matching: must be a map",
    ),
    (
        {"type": "spurious-correlation", "attribute": "a", "matching": {"y0": "a0"}},
        "shift.matching: gives no value of 'a' for y1",
    ),
    (
        {"type": "spurious-correlation", "attribute": "a", "matching": {"z": "a0"}},
        "shift.matching: unknown value of attribute 'y': 'z'",
    ),
    (
        {"type": "spurious-correlation", "attribute": "a", "counterexamples": "a tenth"},
        "shift.counterexamples: must be a number",
    ),
    ({"type": "low-data-drift", "attribute": "a"}, "shift.ratio: give either ratio or count"),
    (
        {"type": "low-data-drift", "attribute": "a", "ratio": 0.1, "count": 4},
        "shift.ratio: give either ratio or count",
    ),
    (
        {"type": "low-data-drift", "attribute": "a", "ratio": 1.5},
        "shift.ratio: must be a number in [0, 1]",
    ),
    (
        {"type": "low-data-drift", "attribute": "a", "ratio": float("nan")},
        "shift.ratio: must be a number in [0, 1]",
    ),
    (
        {"type": "low-data-drift", "attribute": "a", "ratio": {"y0": 1}},
        "shift.ratio: names neither y 'y1' nor a default",
    ),
    (
        {"type": "low-data-drift", "attribute": "a", "ratio": {"default": "1/0"}},
        "shift.ratio.default: must be a number in [0, 1]",
    ),
    (
        {"type": "low-data-drift", "attribute": "a", "low": ["a0", "a1", "a2"], "ratio": 0.1},
        "shift.low: leaves no other value",
    ),
    ({"type": "systematic", "environment": "a", "classes": {}}, "shift.classes: must be a map"),
    (
        {"type": "systematic", "environment": "a", "classes": {"a0": ["y7"]}},
        "shift.classes.a0: unknown value of attribute 'y': 'y7'",
    ),
    (
        {"type": "systematic", "environment": "y", "classes": {"y0": "all"}},
        "shift.environment: 'y' is the label",
    ),
    ({"type": "official"}, "shift.column: unknown attribute of the study 'split'"),
]


@pytest.mark.parametrize(("spec", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_shift_is_refused_when_read(spec: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_shift(spec)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("spec", "message"), BAD_ON_CELLS, ids=[message for _, message in BAD_ON_CELLS]
)
def test_a_shift_that_does_not_fit_the_cells_is_refused(spec: Any, message: str) -> None:
    shift = parse_shift(spec)
    with pytest.raises(InputError) as caught:
        shift.normal_form(cells_of(2, 3, 2))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_fractions_are_those_that_were_written() -> None:
    assert exact(0.01, "share") == Fraction(1, 100)
    assert exact("1/3", "ratio") == Fraction(1, 3)
    assert exact(3, "high") == 3


def test_a_cell_is_named_by_its_values() -> None:
    cells = cells_of(2, 3)
    assert cells.cell_names[4] == cells.name_of(4) == "y=y1, a=a1"
    assert len(cells.cell_names) == cells.size == 6
    with pytest.raises(InputError, match="'y': the label is also an attribute"):
        Cells(cells.label, (cells.label,))
