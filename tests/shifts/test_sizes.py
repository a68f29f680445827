"""Every set size of tables 6 and 10 of Jeon et al. 2025, to the row."""

from __future__ import annotations

import numpy as np
import pytest
from tests.shifts.worlds import cell_counts, jeon, plan, world

from crosswind.shifts.split import Roles, SetPlan, make_split, plan_counts

SHIFTS = ("uniform", "SC", "LDD", "UDS", "SC+LDD", "SC+UDS", "LDD+UDS", "SC+LDD+UDS")
SETS = {"validation": SetPlan("validation", "without-supplements"), "test": SetPlan("test")}
OFFICIAL = {"column": "split", "train": "train", "test": "test"}
# name: sizes, rows a cell, test rows a cell, validation share, official training rows a cell, base
# counts, training rows, test rows
TABLE_6 = {
    "dsprites": (
        (3,) * 4,
        160,
        10,
        0.2,
        None,
        (1091, 40, 6, 20, 18, 60, 9, 27),
        (1091, 1091, 1080, 1080, 1091, 1091, 1080, 1091),
        810,
    ),
    "shapes3d": (
        (4,) * 4,
        40,
        5,
        0.2,
        None,
        (65, 1, 1, 1, 1, 1, 1, 1),
        (65, 65, 624, 192, 158, 49, 468, 119),
        1280,
    ),
    "smallnorb": (
        (5,) * 4,
        10,
        5,
        0.2,
        5,
        (127, 1, 1, 1, 1, 1, 1, 1),
        (127, 127, 1600, 500, 324, 101, 1280, 259),
        3125,
    ),
    "celeba": (
        (2,) * 4,
        300,
        50,
        0.15,
        None,
        (227, 28, 8, 28, 16, 56, 16, 32),
        (227, 227, 224, 224, 227, 227, 224, 227),
        800,
    ),
    "deepfashion": (
        (2,) * 4,
        120,
        5,
        0.2,
        None,
        (97, 12, 4, 12, 7, 25, 7, 13),
        (97, 97, 112, 96, 99, 101, 98, 92),
        80,
    ),
}
TABLE_10 = {
    ("shapes3d", "small"): ((1,) * 7, (65, 624, 192, 158, 49, 468, 119)),
    ("shapes3d", "middle"): ((2,) * 7, (130, 1248, 384, 316, 97, 936, 237)),
    ("shapes3d", "big"): ((3,) * 7, (194, 1872, 576, 473, 146, 1404, 355)),
    ("celeba", "small"): ((14, 4, 14, 8, 28, 8, 16), (114, 112, 112, 114, 114, 112, 114)),
    ("celeba", "middle"): ((28, 8, 28, 16, 56, 16, 32), (227, 224, 224, 227, 227, 224, 227)),
    ("celeba", "big"): ((42, 12, 42, 24, 84, 24, 48), (340, 336, 336, 340, 340, 336, 340)),
}


def test_there_are_87_numbers() -> None:
    assert (
        sum(len(row[6]) + 1 for row in TABLE_6.values())
        + sum(len(rows) for _, rows in TABLE_10.values())
        == 45 + 42
    )


@pytest.mark.parametrize("name", TABLE_6)
def test_table_6(name: str) -> None:
    sizes, copies, test, share, official, bases, published_rows, test_rows = TABLE_6[name]
    data = {name: world(sizes, copies, official)}
    roles = Roles(test, share, None if official is None else OFFICIAL)
    for shift, base, rows in zip(SHIFTS, bases, published_rows, strict=True):
        study = plan(
            jeon(shift), {"total": base} if shift == "uniform" else base, 3, roles, sets=SETS
        )
        counted = plan_counts(data, name, study)
        split = make_split(data, name, study, seed=3)
        assert (counted.train_rows, counted.test_rows, counted.short) == (
            rows,
            test_rows,
            {},
        ), shift
        assert (len(split.train), len(split.evaluation["test"])) == (rows, test_rows)
        assert len(np.unique(split.train.rows)) == rows
        # On top: the share of validation rows in training and validation together.
        assert (
            counted.validation_rows
            == len(split.validation["validation"])
            == round(share / (1 - share) * rows)
        )
        assert split.report["short"] == {}
        cells = cell_counts(data[name], split.evaluation["test"], ("y", "a", "b", "c"))
        assert cells.min() == cells.max() == test
        if shift == "uniform":
            for axis in range(4):
                margin = cell_counts(data[name], split.train, (("y", "a", "b", "c")[axis],))
                assert margin.max() - margin.min() <= 1


@pytest.mark.parametrize(("name", "size"), TABLE_10)
def test_table_10(name: str, size: str) -> None:
    sizes, copies, test, share = TABLE_6[name][:4]
    data = {name: world(sizes, copies)}
    bases, published_rows = TABLE_10[name, size]
    for shift, base, rows in zip(SHIFTS[1:], bases, published_rows, strict=True):
        assert (
            plan_counts(data, name, plan(jeon(shift), base, 3, Roles(test, share))).train_rows
            == rows
        ), shift


def test_small_norb_has_exactly_enough_rows() -> None:
    """5 official training rows a cell: ceil(0.2 x 5) = 1 may validate, 4 train, and low data drift
    takes 3 of them."""
    sizes, copies, test, share, official, *_ = TABLE_6["smallnorb"]
    data = {"smallnorb": world(sizes, copies, official)}
    split = make_split(
        data, "smallnorb", plan(jeon("LDD"), 1, 3, Roles(test, share, OFFICIAL)), seed=0
    )
    counts = cell_counts(data["smallnorb"], split.train, ("y", "a"))
    assert counts.tolist() == [[75, 75, 75, 75, 25]] * 4 + [[75, 75, 75, 75, 0]]
    validation = cell_counts(
        data["smallnorb"], split.validation["validation"], ("y", "a", "b", "c")
    )
    assert (validation.sum(), validation.max()) == (400, 1)
    train = data["smallnorb"].table.column("split")[
        np.concatenate([split.train.rows, split.validation["validation"].rows])
    ]
    assert (train == 0).all()


def test_counterexamples_are_unmatched_and_allowed_by_the_other_shifts() -> None:
    sizes, copies, test, share = TABLE_6["dsprites"][:4]
    data = {"d": world(sizes, copies)}
    split = make_split(data, "d", plan(jeon("SC+LDD+UDS"), 27, 3, Roles(test, share)), seed=1)
    table, extra = data["d"].table, split.train.origin > 0
    label, a, b, c = (table.column(name)[split.train.rows] for name in ("y", "a", "b", "c"))
    assert extra.sum() == 11
    assert (label[~extra] == a[~extra]).all()
    assert (label[extra] != a[extra]).all()
    assert (c < 2).all()
    assert not ((label == 2) & (b == 2)).any()
    assert split.report["sets"]["train"]["supplements"] == [{"asked": 11, "drawn": 11}]
