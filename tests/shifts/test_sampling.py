"""Samplers: how often training sees each row, by hand, through splits, and in batches."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.shifts.test_derived import noisy
from tests.shifts.worlds import plan, world

from crosswind.core.errors import InputError
from crosswind.shifts.base import parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.split import Roles, SetPlan, SplitPlan, make_split, plan_counts
from crosswind.shifts.split.sampling import sampling_weights

LDD = {"type": "low-data-drift", "attribute": "a", "low": "a1", "ratio": "1/3"}
SC = {"type": "spurious-correlation", "attribute": "corruption", "counterexamples": 0.4}


def weights(
    sampler: Any, counts: list[int], law: list[float] | None = None, extra: int = 0
) -> list[Fraction]:
    """The probability of a row of each cell that has any; cells are groups, the last `extra` rows
    are supplements."""
    cell = np.repeat(np.arange(len(counts)), counts)
    origin = (np.arange(len(cell)) >= len(cell) - extra).astype(np.int8)
    weights_found, law_of_visits = sampling_weights(
        sampler, cell, cell, origin, None if law is None else np.array(law)
    )
    assert law_of_visits is None and weights_found.sum() == pytest.approx(1, abs=1e-12)
    assert all(np.ptp(weights_found[cell == cell_code]) == 0 for cell_code in set(cell)) or extra
    return [
        Fraction(float(weights_found[np.searchsorted(cell, cell_code)])).limit_denominator(1000)
        for cell_code in sorted(set(cell))
    ]


def test_reweight_is_p_test_over_p_train_by_hand() -> None:
    """Nine rows, 6, 2 and 1 a cell, and a uniform test law: p_train is 6/9, 2/9, 1/9 and p_test 1/3
    each.

    p_test / p_train = 1/2, 3/2, 3, so a row of one ninth of the rows has probability 1/18, 3/18,
    3/9. With twice the test law on the last cell p_test is 1/4, 1/4, 1/2, and rows have 1/24, 1/8,
    1/2.
    """
    third = [Fraction(1, 18), Fraction(1, 6), Fraction(1, 3)]
    assert (
        weights("reweight", [6, 2, 1], [1, 1, 1])
        == weights("reweight", [6, 2, 1], [0.2, 0.2, 0.2])
        == third
    )
    assert weights("reweight", [6, 2, 1], [1, 1, 2]) == [
        Fraction(1, 24),
        Fraction(1, 8),
        Fraction(1, 2),
    ]


def test_a_cell_without_rows_leaves_its_part_to_the_others_and_one_outside_the_test_law_is_never_drawn() -> (
    None
):
    """6 and 2 rows of three cells: half of the draws each, 1/12 and 1/4 a row. Outside the law:
    never."""
    assert (
        weights("reweight", [6, 2, 0], [1, 1, 1])
        == weights("reweight", [6, 0, 2], [1, 1, 1])
        == [Fraction(1, 12), Fraction(1, 4)]
    )
    assert weights("reweight", [6, 2, 0], [0, 1, 1]) == [0, Fraction(1, 2)]
    with pytest.raises(
        InputError,
        match="^sampler: reweight finds no training row in a cell that the test law allows",
    ):
        weights("reweight", [6, 2, 0], [0, 0, 1])
    with pytest.raises(InputError, match="^sampler: reweight needs a set of role test"):
        weights("reweight", [6, 2, 1])


def test_reweight_is_uniform_where_training_is_distributed_as_the_test() -> None:
    assert (
        weights("reweight", [6, 2, 1], [6, 2, 1])
        == weights("uniform", [6, 2, 1])
        == [Fraction(1, 9)] * 3
    )
    assert weights("reweight", [6, 2, 1], [1, 1, 1]) == weights("balanced", [6, 2, 1])


def test_mixture_by_hand() -> None:
    """Eight rows, two of them supplements, mass 1/2: 1/4 each of these, 1/12 of the six others. At
    2/8 it is uniform."""
    assert weights({"mixture": 0.5}, [6, 2], extra=2) == [Fraction(1, 12), Fraction(1, 4)]
    assert weights({"mixture": 0.25}, [6, 2], extra=2) == [Fraction(1, 8)] * 2
    for extra in (0, 8):
        with pytest.raises(
            InputError,
            match="^sampler: a mixture needs a shift with a supplement, and rows beside it",
        ):
            weights({"mixture": 0.5}, [6, 2], extra=extra)


def test_the_law_of_the_test_set_counts_with_its_weights() -> None:
    """Training has a third as many rows with a1; so has a test set of that law, where nothing is to
    be made good."""
    data = world((2, 2), 60)

    def train(**options: Any) -> Any:
        return make_split(
            {"d": data}, "d", plan(LDD, 30, 1, Roles(10, 0), sampler="reweight", **options), 0
        ).train

    even = train()
    assert np.bincount(even.group % 2).tolist() == [60, 20]
    assert np.bincount(even.group % 2, even.weight) == pytest.approx([0.5, 0.5])
    alike = train(sets={"test": SetPlan("test", parse_shift(LDD))})
    assert alike.weight == pytest.approx(np.full(80, 1 / 80))
    trained = train(sets={"test": SetPlan("test", "train")})
    assert trained.weight == pytest.approx(np.full(80, 1 / 80))


def visited(sampler: Any, spec: Any = SC, **options: Any) -> Any:
    plan_of = SplitPlan(
        "y",
        ("corruption", "a"),
        parse_shift(spec),
        parse_draw(10),
        Roles(5, 0.2),
        sampler=sampler,
        **options,
    )
    return make_split({"d": noisy("per-visit")}, "d", plan_of, 0).train


@pytest.mark.parametrize("sampler", ["reweight", "balanced"])
def test_of_values_drawn_at_every_visit_the_pairs_are_weighed(sampler: str) -> None:
    """40 rows, y0 clean and y1 noisy, and 16 that show the other value: each pair of class and
    value is a quarter of what is seen.

    By rows alone the sixteen would stay two in seven: classes and `a` are even already, so nothing
    would be weighed.
    """
    plain, rows = visited("uniform"), visited(sampler)
    extra = rows.origin == 1
    assert (
        extra.sum() == 16 and len(rows) == 56 and plain.weight[extra].sum() == pytest.approx(2 / 7)
    )
    assert np.array_equal(rows.visit_law, plain.visit_law) and rows.weight[
        extra
    ].sum() == pytest.approx(0.5)
    visits_seen = np.zeros((2, 2))
    np.add.at(visits_seen, rows.label, rows.weight[:, None] * rows.visit_law)
    assert visits_seen == pytest.approx(np.full((2, 2), 0.25))


def test_a_law_of_visits_is_turned_towards_the_rare_value() -> None:
    """Noise at a quarter of the visits of every row, and half of the test: every row is then noisy
    at half of its visits."""
    spec = {"type": "low-data-drift", "attribute": "corruption", "low": "noise", "ratio": "1/3"}
    assert visited("uniform", spec).visit_law == pytest.approx(np.tile([0.75, 0.25], (40, 1)))
    rows = visited("reweight", spec)
    assert rows.visit_law == pytest.approx(np.full((40, 2), 0.5)) and rows.weight == pytest.approx(
        np.full(40, 1 / 40)
    )
    alike = visited("reweight", spec, sets={"test": SetPlan("test", parse_shift(spec))})
    assert alike.visit_law == pytest.approx(np.tile([0.75, 0.25], (40, 1)))
    # Outside the test law: rows of it are never drawn, and keep a law.
    only = visited(
        "reweight",
        spec,
        sets={
            "test": SetPlan("test", parse_shift({"type": "only", "attribute": "a", "values": "a0"}))
        },
    )
    assert np.bincount(only.weight > 0).tolist() == [20, 20] and only.visit_law.sum(
        axis=1
    ) == pytest.approx(np.ones(40))


@pytest.mark.parametrize(
    ("sampler", "left"),
    [
        ("uniform", []),
        ("balanced", []),
        ("reweight", ["y=y0, corruption=clean", "y=y1, corruption=clean"]),
        ({"mixture": 0}, ["y=y0, corruption=noise", "y=y1, corruption=clean"]),
        ({"mixture": 0.5}, []),
        ({"mixture": 1}, ["y=y0, corruption=clean", "y=y1, corruption=noise"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["fixed", "per-visit"])
def test_planning_names_the_groups_that_a_sampler_never_draws(
    sampler: Any, left: list[str], mode: str
) -> None:
    """y0 is clean and y1 noisy, a supplement shows the other value; the test law is noise alone."""
    from crosswind.studies.split_counts import DrawCounts

    only = {"type": "only", "attribute": "corruption", "values": "noise"}
    sets = {"test": SetPlan("test", parse_shift(only))}
    split_plan = SplitPlan(
        "y",
        ("corruption", "a"),
        parse_shift(SC),
        parse_draw(10),
        Roles(5, 0.2),
        sampler=sampler,
        sets=sets,
    )
    counts = DrawCounts(plan_counts({"d": noisy(mode)}, "d", split_plan))
    assert counts.undrawn(None, True, sampler) == left
    assert counts.undrawn(("corruption",), False, sampler) == (
        ["corruption=clean"] if sampler == "reweight" else []
    )
    assert np.count_nonzero(counts.together(None, True, sampler)) == 4 - len(left)
    counts.check_sampler(sampler, "sampler")
    rows = make_split({"d": noisy(mode)}, "d", split_plan, 0).train
    law = np.eye(2)[rows.rows % 2] if rows.visit_law is None else rows.visit_law
    visits_seen = np.zeros((2, 2))
    np.add.at(visits_seen, rows.label, rows.weight[:, None] * law)
    assert int((visits_seen == 0).sum()) == len(left)
    assert rows.sampler == (sampler if isinstance(sampler, str) else "mixture")


def test_batches_have_the_shares_that_the_weights_say() -> None:
    """4,000 draws: each cell's share within four standard deviations, 4 sqrt(1/4 3/4 / 4000) =
    0.027, of a quarter."""
    from tests.training.world import DATA, rows_of

    from crosswind.training.loader import TrainingRows
    from crosswind.training.settings import TrainingSettings

    group = DATA.table.column("light").astype(int) * 2 + DATA.table.column("tint")
    chosen = np.concatenate(
        [np.flatnonzero(group == code)[: 40 if code in (0, 3) else 4] for code in range(4)]
    )
    rows = rows_of(DATA, chosen)
    weight, _ = sampling_weights("reweight", rows.group, rows.group, rows.origin, np.ones(4))
    object.__setattr__(rows, "weight", weight)
    batch = TrainingRows(rows, DATA, TrainingSettings(batch=4000), 0, "epoch").batch(0, 1)  # type: ignore[arg-type]
    assert np.abs(np.bincount(batch.group.numpy()) / 4000 - 0.25).max() < 0.027
