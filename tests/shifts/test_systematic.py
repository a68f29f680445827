"""Systematic shifts: classes dealt to environments, what is refused, and how training samples the
environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.shifts.worlds import cells_of, world

from crosswind.core.errors import InputError
from crosswind.data.attributes import Attribute, DerivedAttribute
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import derive
from crosswind.shifts.base import Cells, parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.split import Roles, SplitPlan, make_split, plan_counts
from crosswind.shifts.split.sampling import Environments
from crosswind.shifts.systematic import Systematic
from crosswind.studies.split_counts import DrawCounts

VALUES = ("clean", "noise", "blur", "weather", "digital")


def table(n: int = 20, **knobs: Any) -> np.ndarray:
    cells = Cells(Attribute("y", tuple(f"y{code}" for code in range(n))), (Attribute("e", VALUES),))
    shift = parse_shift(
        {"type": "systematic", "environment": "e", "classes": {"clean": "all"}, **knobs}
    )
    assert isinstance(shift, Systematic)
    return shift.table(cells)[1]


def test_shares_are_dealt_apart_by_seed_and_smaller_ones_lie_in_larger_ones() -> None:
    quarters = table(10, shares=dict.fromkeys(VALUES[1:], 0.25))
    assert quarters.sum(axis=0).tolist() == [10, 3, 2, 3, 2]
    assert (quarters[:, 1:].sum(axis=1) == 1).all()
    tenth, quarter, half, all_of_it = (
        table(20, shares={"noise": share})[:, 1] for share in (0.1, "1/4", 0.5, 1)
    )
    assert [share_column.sum() for share_column in (tenth, quarter, half, all_of_it)] == [
        2,
        5,
        10,
        20,
    ]
    assert not (tenth & ~quarter).any() and not (quarter & ~half).any()
    other_seeds = [table(20, shares={"noise": 0.5}, seed=seed)[:, 1].tolist() for seed in range(4)]
    assert (
        other_seeds[0] == half.tolist()
        and len({tuple(share_column) for share_column in other_seeds}) == 4
    )


def test_lists_may_say_ranges_and_superclasses_and_shares_fill_them_up() -> None:
    """Dogs are y2 to y7, birds y10 to y13. Half of 20 with all of them: ten; without: ten of the
    other ten."""
    families = {"dogs": ["y2..y7"], "birds": ["y10", "y11..y13"]}
    kinds = [*range(2, 8), *range(10, 14)]
    every = table(
        classes={"clean": "all", "noise": ["dogs", "birds"]},
        shares={"noise": 0.5},
        superclasses=families,
    )[:, 1]
    none = table(shares={"noise": 0.5}, superclasses=families, spare=["dogs", "birds"])[:, 1]
    assert np.flatnonzero(every).tolist() == kinds
    assert np.flatnonzero(~none).tolist() == kinds
    filled = table(
        classes={"clean": "all", "noise": ["birds"]},
        shares={"noise": 0.3, "blur": 0.5},
        superclasses=families,
    )
    assert (
        filled[:, 1].sum() == 6
        and filled[10:14, 1].all()
        and filled[:, 2].sum() == 10
        and not (filled[:, 1] & filled[:, 2]).any()
    )
    for seed in range(20):  # dealt whole: never a part of a superclass
        dealt = table(shares={"noise": 0.5}, superclasses=families, seed=seed)[:, 1]
        assert dealt.sum() == 10
        assert dealt[2:8].sum() in (0, 6) and dealt[10:14].sum() in (0, 4)


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"classes": {}}, "shift.classes: must be a map from environment to its list of classes"),
        ({"classes": {"clean": "all", "noise": []}}, "shift.classes.noise: names no value of 'y'"),
        (
            {"shares": {"noise": 0.02}},
            (
                "shift.shares.noise: leaves 'noise' empty: 0.02 of 20 classes is less than half a"
                " class"
            ),
        ),
        ({"shares": {"noise": 1.5}}, r"shift.shares.noise: must be a number in \[0, 1\]"),
        ({"shares": 0.5}, "shift.shares: must be a map to a share of the classes, not 0.5"),
        (
            {"shares": {"noise": 0.6, "blur": 0.6}},
            "shift.shares.blur: asks for 12 of 20 classes, and 12 .* of the 8 that are left",
        ),
        (
            {"classes": {"noise": ["y0..y9"]}, "shares": {"noise": 0.1}},
            "shift.shares.noise: asks for 2 of 20 .* 8 more are listed",
        ),
        (
            {"classes": {"noise": ["y0"], "blur": ["y1", "y0"]}},
            "shift.classes: puts 'y0' in 'noise' and in 'blur'; say overlapping",
        ),
        (
            {"classes": {"noise": ["y0", "y1..y3", "y2"]}},
            "shift.classes.noise: names 'y2' of 'y' twice",
        ),
        (
            {"classes": {"noise": ["y3..y1"]}},
            "shift.classes.noise: 'y3..y1' goes backwards: 'y1' comes before 'y3'",
        ),
        (
            {"classes": {"noise": ["cats"]}},
            "shift.classes.noise: unknown value of attribute 'y': 'cats'",
        ),
        (
            {"classes": {"first": ["y0"], "clean": ["y1"]}},
            "shift.classes.clean: names the environment 'clean' twice",
        ),
        (
            {"superclasses": {"a": ["y1"], "b": ["y1"]}},
            "shift.superclasses.b: has 'y1', which 'a' has too",
        ),
        ({"classes": {"fog": "all"}}, "shift.classes: unknown value of attribute 'e': 'fog'"),
    ],
)
def test_what_leaves_an_environment_empty_overlaps_or_is_said_twice_is_refused(
    knobs: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        table(**knobs)
    assert table(classes={"noise": ["y0"], "blur": ["y0"]}, overlapping=True)[0].tolist() == [
        False,
        True,
        True,
        False,
        False,
    ]


def per_visit(copies: int = 30) -> AttributedDataset:
    """Four classes, an attribute a of two values, and clean, noise, blur drawn at every visit."""
    settings = (None, {}, {"transform": "gaussian-blur"})
    return derive(
        world((4, 2), copies),
        DerivedAttribute("e", VALUES[:3], "gaussian-noise", settings, "per-visit"),
    )


SHIFT = {
    "type": "systematic",
    "environment": "e",
    "classes": {"clean": "all", "noise": ["y0"], "blur": ["y1", "y2"]},
}


def visits(
    sampler: Any, shift: Any = SHIFT, dataset: AttributedDataset | None = None, **options: Any
) -> np.ndarray:
    """The share of training's visits of each class under each environment, from rows; the plan's
    table must say the same."""
    data = dataset or per_visit()
    plan = SplitPlan(
        "y",
        ("a", "e"),
        parse_shift(shift),
        parse_draw("all"),
        Roles(5, 0.2),
        sampler=sampler,
        **options,
    )
    split = make_split({"d": data}, "d", plan, 0)
    law = split.train.visit_law
    if law is None:
        law = np.eye(3)[data.table.column("e")[split.train.rows]]
    shares = np.stack(
        [
            (split.train.weight[:, None] * law)[split.train.true_label == code].sum(axis=0)
            for code in range(4)
        ]
    )
    shown = DrawCounts(plan_counts({"d": data}, "d", plan)).shown_in(sampler)
    assert np.allclose(
        shares,
        [[shown[f"y{code}"].get(name, 0.0) for name in VALUES[:3]] for code in range(4)],
        atol=1e-12,
    )
    return shares


def test_samplers_of_environments_and_of_images_by_hand() -> None:
    """Environments: clean 3/4 over four classes is 3/16 each; noise 1/8 of y0 alone; blur 1/8 over
    two classes is 1/16 each.
    Images: each class is a quarter, half of it not clean where it may be. Uniform weights are the
    same, as p = 1/2 of two."""
    environment = visits({"environment": 0.75})
    assert np.allclose(
        environment, [[3 / 16, 1 / 8, 0], [3 / 16, 0, 1 / 16], [3 / 16, 0, 1 / 16], [3 / 16, 0, 0]]
    )
    image = visits({"image": 0.5})
    assert np.allclose(
        image, [[1 / 8, 1 / 8, 0], [1 / 8, 0, 1 / 8], [1 / 8, 0, 1 / 8], [1 / 4, 0, 0]]
    )
    assert np.allclose(visits("uniform"), image)
    assert np.allclose(visits({"image": 0.2})[0], [0.2, 0.05, 0])


def test_rows_that_have_their_environment_are_sampled_so_too() -> None:
    """Renditions: 25 training rows in every cell of class and environment that is seen, a row in
    one environment alone."""
    cells = cells_of(4, 3)
    data = world((4, 3, 1), 60)
    named = Cells(cells.label, (Attribute("e", VALUES[:3]),))
    table = data.table
    attributes = (table.attributes[0], named.attributes[0], Attribute("a", ("a0",)))
    renditions = AttributedDataset("renditions", type(table)(attributes, table.codes))
    shares = visits({"environment": 0.75}, dataset=renditions)
    assert np.allclose(
        shares, [[3 / 16, 1 / 8, 0], [3 / 16, 0, 1 / 16], [3 / 16, 0, 1 / 16], [3 / 16, 0, 0]]
    )
    # Rows of seen cells: two each of y0, y1, y2, one of y3. Classes are seen as often as they have
    # rows.
    assert np.allclose(
        visits({"image": 0.25}, dataset=renditions),
        np.array([[6, 2, 0], [6, 0, 2], [6, 0, 2], [4, 0, 0]]) / 28,
    )


@pytest.mark.parametrize(
    "other",
    [
        {"type": "spurious-correlation", "attribute": "a", "counterexamples": 0.1},
        {"type": "low-data-drift", "attribute": "a", "low": "a1", "ratio": "1/5"},
        {"type": "unseen-data", "attribute": "a", "unseen": "a1"},
    ],
)
def test_it_composes_with_other_shifts_and_what_is_kept_apart_stays_apart(
    other: dict[str, Any],
) -> None:
    for sampler in ({"environment": 0.75}, {"image": 0.5}, "uniform"):
        shares = visits(sampler, [SHIFT, other])
        assert ((shares > 0) == [[1, 1, 0], [1, 0, 1], [1, 0, 1], [1, 0, 0]]).all()
        if sampler != "uniform":
            mass = shares.sum(axis=1) if "image" in sampler else np.ones(4)
            assert np.isclose(
                shares[:, 0].sum(),
                0.75 if "environment" in sampler else (mass * [0.5, 0.5, 0.5, 1]).sum(),
            )


def test_a_sampler_of_environments_needs_them_and_the_label_marginal_is_told() -> None:
    for sampler in ({"environment": 0.75}, {"image": 0.5}):
        with pytest.raises(InputError, match="sampler: .* needs a systematic shift, a single one"):
            visits(sampler, {"type": "unseen-data", "attribute": "a", "unseen": "a1"})
    plan = SplitPlan(
        "y",
        ("a", "e"),
        parse_shift(SHIFT),
        parse_draw("all"),
        Roles(5, 0.2),
        sampler={"environment": 0.75},
    )
    notes = make_split({"d": per_visit()}, "d", plan, 0).report["notes"]
    sentence = (
        "y3 is 0.1875 of the visits of training, y0 is 0.3125 of the visits of training (even:"
        " 0.25)"
    )
    assert f"sampler environment: of 4 classes {sentence}" in notes
    assert Environments.of(parse_shift([SHIFT, SHIFT]), cells_of(2, 2), np.arange(4)) is None
