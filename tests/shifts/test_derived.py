"""Derived attributes in splits: fixed and per-visit training, evaluation under every value."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.shifts.worlds import world

from crosswind.core.errors import InputError
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import DerivedAttribute, derive
from crosswind.shifts.base import parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.split import Roles, SplitPlan, make_split, plan_counts


def noisy(
    mode: str, copies: int = 30, values: tuple[str, ...] = ("clean", "noise")
) -> AttributedDataset:
    settings = tuple(
        None if value == "clean" else {"severity": code} for code, value in enumerate(values)
    )
    return derive(
        world((2, 2), copies),
        DerivedAttribute("corruption", values, "gaussian-noise", settings, mode),
    )


def study(spec: Any, draw: Any = "all", **options: Any) -> SplitPlan:
    # The derived attribute is listed first on purpose: it is the last axis of the cells wherever it
    # is named.
    return SplitPlan(
        "y",
        ("corruption", "a"),
        parse_shift(spec),
        parse_draw(draw),
        options.pop("roles", Roles(5, 0.2)),
        **options,
    )


CORRELATED = {"type": "spurious-correlation", "attribute": "corruption", "counterexamples": 0.1}


def test_a_fixed_row_has_one_value_in_a_set_and_its_base_row_one_role() -> None:
    data = noisy("fixed")
    split = make_split({"d": data}, "d", study(CORRELATED, 8), 0)
    base, value = np.divmod(split.train.rows, 2)
    assert len(np.unique(base)) == len(base) == 2 * 2 * 8 + 4
    matched = value == split.train.label
    assert (split.train.origin[~matched] == 1).all()
    assert matched.sum() == 32
    roles = [split.train.rows, split.validation["validation"].rows, split.evaluation["test"].rows]
    owners = [set(rows // 2) for rows in roles]
    assert not owners[0] & owners[1]
    assert not owners[0] & owners[2]
    assert not owners[1] & owners[2]
    assert (split.train.true_label == data.table.column("y")[base]).all()
    assert split.train.group_names == (
        "y=y0, corruption=clean",
        "y=y0, corruption=noise",
        "y=y1, corruption=clean",
        "y=y1, corruption=noise",
    )
    assert (split.train.group == split.train.label * 2 + value).all()


def test_evaluation_shows_every_test_row_under_every_value_that_the_law_allows() -> None:
    for mode in ("fixed", "per-visit"):
        split = make_split({"d": noisy(mode)}, "d", study(None, 4), 0)
        rows = split.evaluation["test"].rows
        assert len(rows) == 4 * 5 * 2
        assert set(rows) == set(rows // 2 * 2) | set(rows // 2 * 2 + 1)
        assert len(np.unique(rows)) == len(rows)


def test_all_fixed_rows_are_spread_over_the_values_by_weight() -> None:
    """22 training rows in each of 4 base cells; weights 3 and 1: 16.5 and 5.5 a cell, 66 and 22 in
    all."""
    data = noisy("fixed", 22)
    spec = {"type": "low-data-drift", "attribute": "corruption", "ratio": "1/3", "high": 3}
    split = make_split({"d": data}, "d", study(spec, roles=Roles(0, 0), sets={}), 0)
    assert len(split.train) == 88
    assert np.bincount(split.train.rows % 2).tolist() == [66, 22]
    assert len(np.unique(split.train.rows // 2)) == 88
    counts = plan_counts({"d": data}, "d", study(spec, roles=Roles(0, 0), sets={}))
    assert counts.train_rows == 88


def test_a_short_base_cell_is_shared_by_its_values() -> None:
    data = noisy("fixed", 10)
    split = make_split(
        {"d": data},
        "d",
        study({"type": "only", "attribute": "y", "values": "y0"}, 6, roles=Roles(0, 0), sets={}),
        0,
    )
    assert len(split.train) == 20
    assert split.report["short"]["train"] == {
        "y=y0, a=a0, corruption=clean": {"wanted": 12.0, "got": 10},
        "y=y0, a=a1, corruption=clean": {"wanted": 12.0, "got": 10},
    }


def test_per_visit_rows_are_base_rows_with_a_law_over_values() -> None:
    """Systematic: y0 is seen clean and noisy, 3 to 1; y1 clean alone."""
    spec = [
        {
            "type": "systematic",
            "environment": "corruption",
            "classes": {"clean": "all", "noise": ["y0"]},
        },
        {"type": "low-data-drift", "attribute": "corruption", "low": "noise", "ratio": "1/3"},
    ]
    data = noisy("per-visit")
    split = make_split({"d": data}, "d", study(spec), 0)
    train = split.train
    assert train.visit_law is not None
    assert (
        len(np.unique(train.rows)) == len(train) == 4 * 20
    )  # 30 - 5 test - ceil(0.2 x 25) validation
    assert train.rows.max() < data.n_base
    assert np.allclose(
        train.visit_law, np.where(train.true_label[:, None] == 0, [[0.75, 0.25]], [[1.0, 0.0]])
    )
    assert train.visit_step == (1, 1)
    assert (train.group == train.label * 2).all()
    validation = split.validation["validation"]
    assert validation.visit_law is None
    assert not ((validation.rows % 2 == 1) & (validation.true_label == 1)).any()
    assert not set(validation.rows // 2) & set(train.rows)


def test_per_visit_counterexamples_see_the_values_of_their_region() -> None:
    split = make_split({"d": noisy("per-visit")}, "d", study(CORRELATED, 10), 0)
    law = split.train.visit_law
    assert law is not None
    extra = split.train.origin == 1
    assert extra.sum() == 4
    own_value = np.eye(2)[split.train.true_label]
    assert (law[~extra] == own_value[~extra]).all()
    assert (law[extra] == 1 - own_value[extra]).all()


def test_groups_without_the_derived_attribute_do_not_move_with_the_visit() -> None:
    split = make_split(
        {"d": noisy("per-visit")},
        "d",
        study(None, 4, groups=("a",), environments=("corruption",)),
        0,
    )
    assert split.train.visit_step == (0, 1)
    assert (
        split.evaluation["test"].group_names
        == split.train.group_names
        == ("y=y0, a=a0", "y=y0, a=a1", "y=y1, a=a0", "y=y1, a=a1")
    )


def test_a_derived_attribute_must_be_one_of_the_studys() -> None:
    forgetful = dataclasses.replace(study(None), attributes=("a",))
    with pytest.raises(
        InputError,
        match="attributes: world has the derived attribute 'corruption', which must be one of them",
    ):
        make_split({"d": noisy("fixed")}, "d", forgetful, 0)
    labelled = dataclasses.replace(study(None), label="corruption", attributes=("corruption", "a"))
    with pytest.raises(
        InputError, match="label: the derived attribute 'corruption' cannot be the label"
    ):
        make_split({"d": noisy("fixed")}, "d", labelled, 0)
