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
    made = Composition(cells, np.full(cells.shape, 1 / cells.size), causes)
    assert made.effect(("a", SC)) == pytest.approx(0.6)
    assert made.effect(("b", LDD)) == pytest.approx(0.25)
    assert made.effect(("c", UDS)) == pytest.approx(1 / 3)
    assert made.law().sum() == pytest.approx(1) and made.law()[..., 2].sum() == 0


def test_compositions_are_of_all_kinds() -> None:
    made = [composition(seed) for seed in range(60)]
    kinds = [kind for one in made for _, kind in one.causes]
    assert {kind: kinds.count(kind) >= 5 for kind in KINDS} == dict.fromkeys(KINDS, True)
    assert any(not one.causes for one in made) and any(len(one.causes) >= 3 for one in made)
    shapes = [one.cells.shape for one in made]
    assert {len(shape) - 1 for shape in shapes} == {2, 3, 4, 5} and {
        shape[0] for shape in shapes
    } == set(range(2, 11))
    assert set().union(*(shape[1:] for shape in shapes)) == {2, 3, 4, 5, 6}
    for one in made:
        assert one.law().sum() == pytest.approx(1) and one.population.sum() == pytest.approx(1)


def test_few_compositions() -> None:
    """With rates of 2% more than two of 24 compositions, or of 30 causes, would go wrong in 2 of
    100 such tests."""
    found = tally(24, 1000, seed=7)
    assert found.compositions == 24 and found.causes.total() >= 25
    assert found.wrong <= 2, "\n".join(found.trouble)
    assert found.missed.total() <= 2, "\n".join(found.trouble)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "seed"), [(1000, 0), (1000, 1), (3000, 0)])
def test_two_hundred_compositions(rows: int, seed: int) -> None:
    found = tally(200, rows, seed)
    assert found.compositions == 200 and found.causes.total() >= 200
    assert set(found.causes) == set(SIZES)
    assert found.wrong <= 0.05 * 200, "\n".join(found.trouble)
    assert found.missed.total() <= 0.05 * found.causes.total(), "\n".join(found.trouble)
    for kind in (SC, LDD, UDS):
        assert (
            found.false[kind] <= 0.02 * found.tests[kind]
            and found.missed[kind] <= 0.1 * found.causes[kind]
        ), kind


@pytest.mark.slow
def test_strongly_dependent_attributes_make_few_false_causes() -> None:
    found = tally(200, 1000, 4, dependence=0.6)
    assert found.wrong <= 0.05 * 200, "\n".join(found.trouble)
