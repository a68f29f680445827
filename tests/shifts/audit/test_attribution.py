"""Which attributes' weights are needed to make one table out of the other, on laws that are
known."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.papers.audit import Composition, columns_of
from tests.shifts.worlds import cells_of

from crosswind.shifts.audit import KINDS
from crosswind.shifts.audit.attribution import explain
from crosswind.shifts.audit.loglinear import LoglinearPool
from crosswind.shifts.audit.verdicts import judge
from crosswind.shifts.base import parse_shift

SC, LDD, UDS, LABEL = KINDS


def expected(target: np.ndarray, weights: np.ndarray, rows: float = 2000) -> LoglinearPool:
    """The pool of the expected counts under a target law and weights, both [classes, values,
    values, ...]."""
    train = target * weights
    codes = np.stack(np.unravel_index(np.arange(target.size), target.shape)).astype(np.int64)
    return LoglinearPool(
        codes,
        target.shape,
        (train / train.sum()).ravel() * rows,
        (target / target.sum()).ravel() * rows,
    )


def test_what_others_make_superfluous_is_dropped() -> None:
    """c is a or b; a and b are both rarer in training. c differs most and is taken first, and
    beside a and b it is not needed."""
    a, b, c = np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij")
    target = np.where((a | b) == c, 0.95, 0.05)[None].repeat(2, axis=0)
    weights = (np.where(a, 0.4, 1.0) * np.where(b, 0.4, 1.0))[None]
    assert explain(expected(target, weights, 400)).taken == {1: "main", 2: "main"}


def test_weights_on_values_and_on_pairs_are_told_apart() -> None:
    target = np.ones((3, 3, 3, 2))
    weights = np.ones((3, 3, 3, 2))
    weights *= (1 + 4 * np.eye(3))[:, :, None, None]  # pairs of the label and the first attribute
    weights *= np.array([1, 1, 0.3])[None, None, :, None]  # values of the second
    explanation = explain(expected(target, weights))
    assert explanation.taken == {1: "cross", 2: "main"}
    tied, rare, plain = (explanation.parts[axis] for axis in (1, 2, 3))
    assert tied.matched is not None and tied.matched.tolist() == np.eye(3, dtype=bool).tolist()
    assert tied.v_left > 0.5 and not tied.drifts and tied.tv_left < 1e-3
    assert rare.drifts and rare.low == [2] and abs(rare.v_left) < 0.02
    assert rare.tv_left == pytest.approx(1 / 3 - 0.3 / 2.3, abs=0.01)
    assert not plain.drifts and plain.tv_left < 1e-3
    assert explanation.parts[0].tv_left < 1e-3


def test_low_values_by_class_are_told_by_their_classes() -> None:
    """The last value weighs 0.6, 0.3 and 0 by class; the others weigh the same in all classes."""
    weights = np.ones((3, 3))
    weights[:, 2] = [0.6, 0.3, 0.0]
    explained = explain(expected(np.ones((3, 3)), weights)).parts[1]
    assert (
        explained.low == [2]
        and explained.drifts
        and explained.matched is None
        and abs(explained.v_left) < 0.02
    )


@pytest.mark.parametrize(
    ("classes", "values", "strength"),
    [(3, 5, 0.6), (5, 3, 0.6), (3, 2, 0.6), (4, 4, 0.6), (4, 6, 0.3)],
)
def test_a_correlation_moves_shares_and_classes_that_are_no_shifts(
    classes: int, values: int, strength: float
) -> None:
    """Where classes have unequal numbers of matched values, a correlation alone makes some classes
    and values more frequent."""
    cells = cells_of(classes, values, 2)
    spec = {"type": "spurious-correlation", "attribute": "a", "strength": strength}
    shifted = Composition(
        cells, np.full(cells.shape, 1 / cells.size), {("a", SC): parse_shift(spec)}
    )
    for seed in range(2):
        audits, _ = judge(columns_of(shifted, 10_000, seed))
        assert [
            (column_audit.name, verdict.kind)
            for column_audit in audits
            for verdict in column_audit.verdicts
            if verdict.status == "shift"
        ] == [("a", SC)]


def test_an_unseen_value_takes_its_class_along() -> None:
    """Class 2 keeps to value 2, which is unseen: its rows are nearly all gone, and the label has no
    shift of its own."""
    cells = cells_of(3, 3, 2)
    shifts = {
        ("a", SC): parse_shift({"type": "spurious-correlation", "attribute": "a", "strength": 0.8}),
        ("a", UDS): parse_shift({"type": "unseen-data", "attribute": "a", "unseen": "a2"}),
    }
    audits, _ = judge(
        columns_of(Composition(cells, np.full(cells.shape, 1 / cells.size), shifts), 2000, 0)
    )
    statuses_by_kind = {
        (column_audit.name, verdict.kind): verdict.status
        for column_audit in audits
        for verdict in column_audit.verdicts
    }
    assert [key for key, status in statuses_by_kind.items() if status == "shift"] == [
        ("a", SC),
        ("a", UDS),
    ]
    assert statuses_by_kind["y", LABEL] == "follows"
