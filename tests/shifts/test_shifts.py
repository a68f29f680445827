"""What each shift gives, by hand-worked weights."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.shifts.worlds import cells_of

from crosswind.core.errors import InputError
from crosswind.data.attributes import Attribute
from crosswind.shifts.base import Cells, NormalForm, parse_shift


def form_of(spec: Any, *sizes: int) -> NormalForm:
    return parse_shift(spec).normal_form(cells_of(*sizes))


@pytest.mark.parametrize(
    ("classes", "values", "rule", "pairs"),
    [
        (3, 3, "auto", {(0, 0), (1, 1), (2, 2)}),
        (
            4,
            2,
            "auto",
            {(0, 0), (1, 1), (2, 0), (3, 1)},
        ),  # more classes: class i with value i mod V
        (
            2,
            5,
            "auto",
            {(0, 0), (1, 1), (0, 2), (1, 3), (0, 4)},
        ),  # more values: value j with class j mod C
        (2, 4, "index", {(0, 0), (1, 1)}),  # values 2 and 3 are never matched
        (3, 2, "index", {(0, 0), (1, 1)}),  # class 2 is never matched
        (2, 3, {"y0": ["a1", "a2"], "y1": "first"}, {(0, 1), (0, 2), (1, 0)}),
    ],
)
def test_matching_rules(classes: int, values: int, rule: Any, pairs: set[tuple[int, int]]) -> None:
    weights = form_of(
        {"type": "spurious-correlation", "attribute": "a", "matching": rule}, classes, values
    ).weights
    assert set(zip(*(axis.tolist() for axis in np.nonzero(weights)), strict=True)) == pairs
    assert set(np.unique(weights)) <= {0.0, 1.0}


def test_a_class_that_is_never_matched_is_warned_of_and_the_matching_is_told() -> None:
    shift = parse_shift({"type": "spurious-correlation", "attribute": "a", "matching": "index"})
    assert shift.warnings(cells_of(3, 2)) == ("spurious-correlation matches no value of 'a' to y2",)
    assert shift.warnings(cells_of(3, 3)) == ()
    assert shift.notes(cells_of(3, 2)) == (
        "spurious-correlation matches y to a: y0 with a0, y1 with a1, y2 with nothing",
    )


def test_strength_is_the_probability_of_the_match() -> None:
    """r = 0.7, V = 4, m = 1: P(match) = 0.7 + 0.3 / 4 = 0.775, P(other) = 0.075; m = 2: 0.35 +
    0.075 = 0.425 each."""
    of_strength = form_of({"type": "spurious-correlation", "attribute": "a", "strength": 0.7}, 4, 4)
    assert of_strength.supplements == ()
    assert of_strength.weights[1] / of_strength.weights[1].sum() == pytest.approx(
        [0.075, 0.775, 0.075, 0.075]
    )
    two = form_of({"type": "spurious-correlation", "attribute": "a", "strength": 0.7}, 2, 4)
    assert two.weights[0] / two.weights[0].sum() == pytest.approx([0.425, 0.075, 0.425, 0.075])
    assert two.weights.max() == 1.0
    none = form_of({"type": "spurious-correlation", "attribute": "a", "strength": 0}, 4, 4)
    assert (none.weights == 1).all()


def test_counterexamples_come_from_the_unmatched_cells_or_from_all() -> None:
    (jeon,) = form_of({"type": "spurious-correlation", "attribute": "a"}, 2, 2, 3).supplements
    assert jeon.region[:, :, 0].tolist() == [[False, True], [True, False]]
    assert (jeon.count, jeon.share, jeon.asked(1080), jeon.asked(1100), jeon.asked(1)) == (
        None,
        Fraction(1, 100),
        11,
        11,
        1,
    )
    (wiles,) = form_of(
        {
            "type": "spurious-correlation",
            "attribute": "a",
            "counterexamples_from": "uniform",
            "counterexamples": 50,
        },
        2,
        2,
    ).supplements
    assert wiles.region.all()
    assert wiles.asked(7) == 50
    assert (
        form_of(
            {"type": "spurious-correlation", "attribute": "a", "counterexamples": 0}, 2, 2
        ).supplements
        == ()
    )


def test_low_data_drift_by_ratio_and_class() -> None:
    """high 3: low values weigh 3 x 1/3 = 1, and 0 for the last class."""
    spec = {
        "type": "low-data-drift",
        "attribute": "a",
        "low": "last",
        "high": 3,
        "ratio": {"default": "1/3", "last": 0},
    }
    assert form_of(spec, 3, 3).weights.tolist() == [[3, 3, 1], [3, 3, 1], [3, 3, 0]]
    assert form_of(
        {"type": "low-data-drift", "attribute": "a", "low": ["first"], "ratio": 0.25}, 2, 2
    ).weights.tolist() == [
        [0.25, 1],
        [0.25, 1],
    ]


def test_low_data_drift_by_count_is_a_supplement() -> None:
    form = form_of(
        {"type": "low-data-drift", "attribute": "a", "low": ["a1", "a2"], "count": 7}, 2, 3
    )
    assert form.weights.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert [supplement.count for supplement in form.supplements] == [7]
    assert form.supplements[0].region.tolist() == [[False, True, True]] * 2


def test_counterexamples_stay_where_the_other_shifts_allow() -> None:
    spec = [
        {"type": "spurious-correlation", "attribute": "a"},
        {"type": "unseen-data", "attribute": "b"},
    ]
    (supplement,) = form_of(spec, 2, 2, 3).supplements
    assert supplement.region.sum() == 2 * 2
    assert not supplement.region[:, :, 2].any()


def test_unseen_data_warns_of_a_single_value() -> None:
    shift = parse_shift({"type": "unseen-data", "attribute": "a", "unseen": ["a1", "last"]})
    assert shift.normal_form(cells_of(2, 3)).weights.tolist() == [[1, 0, 0]] * 2
    assert shift.warnings(cells_of(2, 3)) == (
        "unseen-data leaves a single value of 'a' in training: a0",
    )
    assert shift.warnings(cells_of(2, 4)) == ()


def test_systematic_keeps_classes_and_environments_apart() -> None:
    spec = {"type": "systematic", "environment": "a", "classes": {"a0": "all", "a1": ["y0", "y2"]}}
    assert form_of(spec, 3, 3).weights.tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 0]]
    never = parse_shift({"type": "systematic", "environment": "a", "classes": {"a1": ["y0"]}})
    assert never.warnings(cells_of(2, 2)) == ("systematic shows no environment of y y1",)


def test_only_may_name_the_label() -> None:
    assert form_of({"type": "only", "attribute": "y", "values": "y1"}, 3, 2).weights.tolist() == [
        [0, 0],
        [1, 1],
        [0, 0],
    ]


def test_a_value_called_first_is_that_value() -> None:
    cells = Cells(Attribute("y", ("0", "1")), (Attribute("rank", ("last", "first", "third")),))
    weights = (
        parse_shift({"type": "only", "attribute": "rank", "values": "first"})
        .normal_form(cells)
        .weights
    )
    assert weights[0].tolist() == [0, 1, 0]
    assert parse_shift({"type": "only", "attribute": "rank", "values": "last"}).normal_form(
        cells
    ).weights[0].tolist() == [1, 0, 0]


def test_numbers_and_their_texts_are_the_same_value() -> None:
    cells = Cells(Attribute("y", ("0", "1")), (Attribute("scale", ("0.5", "0.8", "1.0")),))
    for value in (0.8, "0.8", "0.80"):
        assert parse_shift({"type": "only", "attribute": "scale", "values": value}).normal_form(
            cells
        ).weights[0].tolist() == [
            0,
            1,
            0,
        ]
    assert parse_shift({"type": "only", "attribute": "scale", "values": 1}).normal_form(
        cells
    ).weights[0].tolist() == [0, 0, 1]


@pytest.mark.parametrize("matching", ["observed", "auto", {"y0": "a1", "y1": ["a1"], "y2": "a1"}])
def test_a_matching_that_tells_no_class_from_another_is_refused(matching: Any) -> None:
    values = 3 if isinstance(matching, dict) else 1
    spec = {"type": "spurious-correlation", "attribute": "a", "matching": matching}
    with pytest.raises(InputError, match="tells no class from another") as error:
        form_of(spec, 3, values)
    assert error.value.field == ("shift.matching" if values == 3 else "shift.attribute")
    partly = {"y0": "a1", "y1": ["a1"], "y2": ["a1", "a2"]}
    assert form_of({**spec, "matching": partly}, 3, 3).weights.sum() == 4


@pytest.mark.parametrize(
    "settings",
    [{"counterexamples": 0.15}, {"counterexamples": 1}, {"counterexamples_from": "uniform"}],
)
def test_counterexamples_beside_a_strength_that_draws_none_are_refused(
    settings: dict[str, Any],
) -> None:
    spec = {"type": "spurious-correlation", "attribute": "a", **settings}
    with pytest.raises(InputError, match="belongs to strength 1") as error:
        form_of({**spec, "strength": 0.5}, 2, 2)
    assert error.value.field == f"shift.{next(iter(settings))}"
    assert len(form_of({**spec, "strength": 1.0}, 2, 2).supplements) == 1
    none = {"type": "spurious-correlation", "attribute": "a", "strength": 0.5}
    assert form_of({**none, "counterexamples": 0}, 2, 2) == form_of(none, 2, 2)
