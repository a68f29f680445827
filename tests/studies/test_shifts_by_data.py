"""One name for a shift whose settings differ by data set."""

from __future__ import annotations

from typing import Any

import pytest

from crosswind.core.errors import InputError
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

DIGITS = {"source": "digits", "label": "digit", "attributes": ["ink", "size"], "roles": {"test": 2}}
LOW: dict[str, Any] = {"type": "low-data-drift", "attribute": "ink", "count": 5}


def study(shifts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    values = {
        "data": {"left": DIGITS, "right": DIGITS},
        "shifts": shifts,
        "sizes": {"few": {"total": 100}},
        "models": ["mlp"],
        "methods": ["erm"],
        "training": {"steps": 2, "validate_every": 1},
        "seeds": 1,
    }
    return {**values, **fields}


def keys(shifts: dict[str, Any]) -> dict[tuple[str, str], str]:
    plan = make_plan(study_from(study(shifts)))
    return {(run.labels["data"], run.labels["shift"]): run.key for run in plan.runs}


def test_each_data_set_has_its_own_settings_and_the_common_ones() -> None:
    by_data = {"left": {"low": "red"}, "right": {"low": "blue", "count": 6}}
    one_name = keys({"LDD": {**LOW, "by_data": by_data}})
    left = keys({"LDD": {**LOW, "low": "red"}})
    right = keys({"LDD": {**LOW, "low": "blue", "count": 6}})
    assert one_name["left", "LDD"] == left["left", "LDD"]
    assert one_name["right", "LDD"] == right["right", "LDD"]
    assert left["right", "LDD"] != right["right", "LDD"]


def test_a_data_set_that_is_not_named_has_the_common_settings() -> None:
    one_name = keys({"LDD": {**LOW, "low": "red", "by_data": {"right": {"low": "blue"}}}})
    common = keys({"LDD": {**LOW, "low": "red"}})
    assert one_name["left", "LDD"] == common["left", "LDD"]
    assert one_name["right", "LDD"] != common["right", "LDD"]


def test_shifts_that_name_it_have_its_settings() -> None:
    by_data = {"left": {"low": "red"}, "right": {"low": "blue"}}
    other = {"type": "unseen-data", "attribute": "size", "unseen": "last"}
    both = keys({"LDD": {**LOW, "by_data": by_data}, "UDS": other, "both": ["LDD", "UDS"]})
    alone = keys({"both": [{**LOW, "low": "blue"}, other]})
    assert both["right", "both"] == alone["right", "both"] != both["left", "both"]


@pytest.mark.parametrize(
    ("by_data", "says"),
    [
        (
            {"middle": {"low": "red"}},
            "shifts.LDD.by_data: unknown data set 'middle' (valid: left, right)",
        ),
        (["left"], "shifts.LDD.by_data: must be a mapping, data set -> settings, not"),
        (
            {"left": "red"},
            "shifts.LDD.by_data.left: must be a mapping of settings without 'type'",
        ),
        (
            {"left": {"type": "unseen-data"}},
            "shifts.LDD.by_data.left: must be a mapping of settings",
        ),
        ({"left": {"lowe": "red"}}, "lowe"),
        ({"left": {"attribute": "inc"}}, "shifts.LDD.attribute: unknown attribute 'inc'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(by_data: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(study_from(study({"LDD": {**LOW, "low": "red", "by_data": by_data}})))
    assert says in str(caught.value)
