"""Validation is as training: the same share of every cell, supplements among them, up to
rounding."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.shifts.worlds import plan, world

from crosswind.core.errors import InputError
from crosswind.data.attributes import AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import DerivedAttribute, derive
from crosswind.shifts.base import parse_shift
from crosswind.shifts.draw import DatasetSize, Draw, parse_draw
from crosswind.shifts.noise import LabelNoise
from crosswind.shifts.split import Roles, SetPlan, Split, SplitPlan, make_split, plan_counts

SC30 = {"type": "spurious-correlation", "attribute": "a", "counterexamples": 0.3}
WILES = {**SC30, "counterexamples_from": "uniform", "counterexamples": 200}
LDD = {"type": "low-data-drift", "attribute": "b", "high": 3, "ratio": {"default": "1/3", "y2": 0}}
LDD_COUNT = {"type": "low-data-drift", "attribute": "b", "count": 90}
UDS = {"type": "unseen-data", "attribute": "b"}
SYSTEMATIC = {
    "type": "systematic",
    "environment": "a",
    "classes": {"a0": "all", "a1": ["y0"], "a2": ["y0", "y1"]},
    "overlapping": True,
}
SHIFTS: dict[str, list[Any]] = {
    "none": [],
    "SC": [SC30],
    "SC from all": [WILES],
    "LDD": [LDD],
    "LDD by count": [LDD_COUNT],
    "UDS": [UDS],
    "SC&LDD": [SC30, LDD],
    "SC&LDD by count": [SC30, LDD_COUNT],
    "SC&UDS": [SC30, UDS],
    "systematic": [SYSTEMATIC],
}
VALIDATION = SetPlan("validation", "train")
EVEN = np.full((3, 3, 3), 120)
# Cells from 30 to 390 rows: many are short where training draws so many rows a cell or in all.
UNEVEN = 30 + 45 * (np.arange(27).reshape(3, 3, 3) * 7 % 9)


def _shares(
    data: AttributedDataset, rows: Any, names: tuple[str, ...] = ("y", "a", "b")
) -> np.ndarray:
    """The rows in each cell, a row under a value drawn at every visit counted by its
    probability."""
    values = 1 if data.derived is None else len(data.derived.values)
    visits = rows.visit_law is not None
    base = rows.rows if visits else rows.rows // values
    cell = np.zeros(len(rows), dtype=np.int64)
    for name in names:
        cell = cell * len(data.table.attribute(name).values) + data.table.column(name)[base]
    value = np.eye(values)[rows.rows % values] if rows.visit_law is None else rows.visit_law
    size = int(np.prod([len(data.table.attribute(name).values) for name in names]))
    return np.stack(
        [np.bincount(cell, value[:, value_code], minlength=size) for value_code in range(values)],
        axis=1,
    )


def _off(data: AttributedDataset, split: Split, name: str = "validation") -> float:
    """By how many rows a set is off training's proportions in its worst cell."""
    other_set = split.validation.get(name) or split.evaluation[name]
    train, other_shares = _shares(data, split.train), _shares(data, other_set)
    return float(np.abs(other_shares - train * len(other_set) / len(split.train)).max())


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("draw", ["base", "total", "all", "size"])
@pytest.mark.parametrize("cells", ["even", "uneven"])
def test_validation_has_the_shares_of_training(shift: str, draw: str, cells: str) -> None:
    data = world((3, 3, 3), EVEN if cells == "even" else UNEVEN)
    how: dict[str, Any] = {
        "draw": {"base": {"base": 24}, "total": {"total": 500}, "all": "all", "size": "all"}[draw]
    }
    if draw == "size":
        how["dataset_size"] = DatasetSize(410)
    study = plan(SHIFTS[shift], roles=Roles(6, 0.2), **how)
    split = make_split({"d": data}, "d", study, seed=2)
    assert len(split.validation["validation"]) == round(len(split.train) / 4)
    assert "validation" not in split.report["short"]
    # A whole number beside the expectation in training, and another in validation.
    assert _off(data, split) <= 2
    counted = plan_counts({"d": data}, "d", study, seed=2)
    assert counted.validation_rows == len(split.validation["validation"])


def test_a_correlation_is_as_strong_in_validation() -> None:
    """30% counterexamples: 100 of 130 rows are matched, in training and in validation."""
    data = world((3, 3), 450)
    split = make_split({"d": data}, "d", plan([SC30], {"total": 1300}, 1, Roles(5, 0.2)), seed=0)
    for rows in (split.train, split.validation["validation"]):
        matched = data.table.column("y")[rows.rows] == data.table.column("a")[rows.rows]
        assert abs(matched.mean() - 1 / 1.3) < 0.005


def test_without_supplements_is_the_weights_alone() -> None:
    sets = {"validation": SetPlan("validation", "without-supplements"), "test": SetPlan("test")}
    data = world((3, 3), 600)
    split = make_split(
        {"d": data}, "d", plan([SC30], {"total": 1300}, 1, Roles(5, 0.2), sets=sets), seed=0
    )
    rows = split.validation["validation"].rows
    assert len(rows) == 325
    assert (data.table.column("y")[rows] == data.table.column("a")[rows]).all()


def test_a_seen_set_follows_training_and_is_the_same_for_every_run() -> None:
    sets = {
        "seen": SetPlan("test", "train"),
        "some": SetPlan("test", "train", Draw("total", Fraction(200))),
    }
    data = world((3, 3), 400)
    splits = [
        make_split(
            {"d": data}, "d", plan([SC30], {"total": 910}, 1, Roles(60, 0.2), sets=sets), seed=seed
        )
        for seed in (1, 2)
    ]
    for name in sets:
        first, second = (split.evaluation[name].rows for split in splits)
        assert (first == second).all()
        matched = data.table.column("y")[first] == data.table.column("a")[first]
        assert abs(matched.mean() - 1 / 1.3) < 0.005
    other_seed = make_split(
        {"d": data}, "d", plan([WILES], {"total": 910}, 1, Roles(60, 0.2), sets=sets), seed=1
    )
    less = make_split(
        {"d": data}, "d", plan([WILES], {"total": 450}, 1, Roles(60, 0.2), sets=sets), seed=1
    )
    assert len(other_seed.evaluation["seen"]) < len(
        less.evaluation["seen"]
    )  # 200 counterexamples are a larger share of 450


@pytest.mark.parametrize("mode", ["fixed", "per-visit"])
@pytest.mark.parametrize("shift", ["SC", "LDD by count", "systematic", "SC&LDD by count"])
def test_validation_has_the_shares_of_training_under_derived_values(mode: str, shift: str) -> None:
    renamed = [
        {key: "view" if value == "a" else value for key, value in shift_part.items()}
        for shift_part in SHIFTS[shift]
    ]
    study = SplitPlan(
        "y", ("b", "view"), parse_shift(renamed), parse_draw({"total": 900}), Roles(10, 0.2)
    )
    three = world((3, 3), 300)
    renamed_table = AttributeTable(
        (three.table.attributes[0], replace(three.table.attributes[1], name="b")), three.table.codes
    )
    settings = (None, {"severity": 1}, {"severity": 2})
    views = DerivedAttribute("view", ("a0", "a1", "a2"), "gaussian-noise", settings, mode)
    data = derive(AttributedDataset("d", renamed_table), views)
    split = make_split({"d": data}, "d", study, seed=1)
    train, validation_shares = (
        _shares(data, split.train, ("y", "b")),
        _shares(data, split.validation["validation"], ("y", "b")),
    )
    assert (
        np.abs(
            validation_shares - train * len(split.validation["validation"]) / len(split.train)
        ).max()
        <= 2
    )


def test_what_validation_cannot_give_is_told_and_the_others_give_it() -> None:
    """A cell of one row trains and cannot validate: its part of a row is asked of the others."""
    sizes = np.full((2, 2), 40)
    sizes[0, 1] = 1
    split = make_split(
        {"d": world((2, 2), sizes)},
        "d",
        plan([], "all", 1, Roles(0, 0.2), sets={"validation": VALIDATION}),
        seed=0,
    )
    assert len(split.train) == 97
    assert len(split.validation["validation"]) == 24
    assert "validation: y=y0, a=a1 has 0 of the 0.25 rows that were asked for" in split.warnings


def test_noise_leaves_validation_and_its_groups_alone() -> None:
    data = world((3, 3), 400)
    noisy = plan([SC30], {"total": 900}, 1, Roles(5, 0.2), label_noise=LabelNoise(0.4))
    split = make_split({"d": data}, "d", noisy, seed=0)
    rows = split.validation["validation"]
    assert (rows.label == rows.true_label).all()
    assert (split.train.label != split.train.true_label).any()
    assert (rows.group == rows.label * 3 + data.table.column("a")[rows.rows]).all()
    counts = np.bincount(rows.group, minlength=9).reshape(3, 3)
    assert abs(np.diag(counts).sum() / counts.sum() - 1 / 1.3) < 0.01


def test_an_unknown_law_names_the_valid_ones() -> None:
    with pytest.raises(InputError, match="valid: train, without-supplements, unseen"):
        plan_counts(
            {"d": world((2, 2), 20)},
            "d",
            plan([], n_attributes=1, sets={"v": SetPlan("validation", "training")}),
        )
