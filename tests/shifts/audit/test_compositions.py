"""Over random compositions of shifts an audit names few causes that are none, and misses few that
are."""

from __future__ import annotations

import pytest
from benchmarks.papers.audit import Composition, composition, tally

from crosswind.shifts.audit import KINDS, SIZES
from crosswind.shifts.base import Cells, parse_shift

SC, LDD, UDS, LABEL = KINDS


def test_the_effect_of_a_cause_by_hand() -> None:
    """Two classes, two values, all four cells alike. SC of strength 0.6: matched cells 0.6 + 0.2 =
    0.8 of a class: V = 0.6.

    Drift with ratio 1/3 on one value of two: shares 3/4 and 1/4 beside a half each, total variation
    1/4. One unseen of three: 1/3.
    """
    import numpy as np
    from tests.shifts.worlds import cells_of

    cells: Cells = cells_of(2, 2, 2, 3)
    causes = {
        ("a", SC): parse_shift({"type": "spurious-correlation", "attribute": "a", "strength": 0.6}),
        ("b", LDD): parse_shift({"type": "low-data-drift", "attribute": "b", "ratio": "1/3"}),
        ("c", UDS): parse_shift({"type": "unseen-data", "attribute": "c"}),
    }
    composed = Composition(cells, np.full(cells.shape, 1 / cells.size), causes)
    assert composed.effect(("a", SC)) == pytest.approx(0.6)
    assert composed.effect(("b", LDD)) == pytest.approx(0.25)
    assert composed.effect(("c", UDS)) == pytest.approx(1 / 3)
    assert composed.law().sum() == pytest.approx(1) and composed.law()[..., 2].sum() == 0


def test_compositions_are_of_all_kinds() -> None:
    compositions = [composition(seed) for seed in range(60)]
    kinds = [kind for composed in compositions for _, kind in composed.causes]
    assert {kind: kinds.count(kind) >= 5 for kind in KINDS} == dict.fromkeys(KINDS, True)
    assert any(not composed.causes for composed in compositions) and any(
        len(composed.causes) >= 3 for composed in compositions
    )
    shapes = [composed.cells.shape for composed in compositions]
    assert {len(shape) - 1 for shape in shapes} == {2, 3, 4, 5} and {
        shape[0] for shape in shapes
    } == set(range(2, 11))
    assert set().union(*(shape[1:] for shape in shapes)) == {2, 3, 4, 5, 6}
    for composed in compositions:
        assert composed.law().sum() == pytest.approx(
            1
        ) and composed.population.sum() == pytest.approx(1)


@pytest.mark.slow
def test_few_compositions() -> None:
    """With rates of 2% more than two of 24 compositions, or of 30 causes, would go wrong in 2 of
    100 such tests."""
    counted = tally(24, 1000, seed=7)
    assert counted.compositions == 24 and counted.causes.total() >= 25
    assert counted.wrong <= 2, "\n".join(counted.trouble)
    assert counted.missed.total() <= 2, "\n".join(counted.trouble)


@pytest.mark.parametrize(
    ("rows", "seed"),
    [
        pytest.param(1000, 0, marks=pytest.mark.slow),
        pytest.param(1000, 1, marks=pytest.mark.verify),
        pytest.param(3000, 0, marks=pytest.mark.slow),
    ],
)
def test_two_hundred_compositions(rows: int, seed: int) -> None:
    counted = tally(200, rows, seed)
    assert counted.compositions == 200 and counted.causes.total() >= 200
    assert set(counted.causes) == set(SIZES)
    assert counted.wrong <= 0.05 * 200, "\n".join(counted.trouble)
    assert counted.missed.total() <= 0.05 * counted.causes.total(), "\n".join(counted.trouble)
    for kind in (SC, LDD, UDS):
        assert (
            counted.false[kind] <= 0.02 * counted.tests[kind]
            and counted.missed[kind] <= 0.1 * counted.causes[kind]
        ), kind


@pytest.mark.slow
def test_strongly_dependent_attributes_make_few_false_causes() -> None:
    counted = tally(200, 1000, 4, dependence=0.6)
    assert counted.wrong <= 0.05 * 200, "\n".join(counted.trouble)
