"""A random search: as many points for every method, drawn from what settings declare, the same
whenever it is planned."""

from __future__ import annotations

from typing import Any

import pytest

from crosswind.core.errors import InputError
from crosswind.core.knobs import check
from crosswind.core.registry import facts
from crosswind.studies.axes import MethodEntry, methods_of
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import Study, study_from

BASE: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 2},
        }
    },
    "shifts": {"none": []},
    "sizes": {"equal": {"total": 100}},
    "models": ["mlp"],
    "training": {"steps": 600},
    "methods": ["erm", "irm", "deepcoral"],
    "search": {"points": 5},
    "seeds": 2,
}


def study(**changes: Any) -> Study:
    return study_from({**BASE, **changes})


def entries(**changes: Any) -> dict[str, MethodEntry]:
    return methods_of(study(**changes))


def test_every_method_tries_as_many_points_and_the_same_learning_rates() -> None:
    searched_entries = entries()
    assert [len(entry.points) for entry in searched_entries.values()] == [5, 5, 5]
    rates = {
        label: [training["lr"] for *_, training in entry.points]
        for label, entry in searched_entries.items()
    }
    assert rates["erm"] == rates["irm"] == rates["deepcoral"] and len(set(rates["erm"])) == 5
    assert all(1e-4 <= rate <= 1e-2 for rate in rates["erm"])
    assert len(make_plan(study()).runs) == 3 * 5 * 2
    assert (
        entries() == searched_entries
        and entries(search={"points": 5, "seed": 1}) != searched_entries
    )


def test_drawn_values_lie_in_the_declared_ranges_and_spread_over_them() -> None:
    searched_entries = entries(
        methods=["erm", "irm", "deepcoral", "jtt", "augmix"], search={"points": 200}
    )
    for label, entry in searched_entries.items():
        for _, values, _ in entry.points:
            for knob in facts("methods", label).knobs:
                assert check(knob, values[knob.name], knob.name) == values[knob.name]
    weights = sorted(values["weight"] for _, values, _ in searched_entries["deepcoral"].points)
    assert (
        0.01 <= weights[0] < 0.03 and 3 < weights[-1] <= 10 and 0.1 < weights[100] < 1
    )  # evenly in the logarithm
    assert {values["up"] for _, values, _ in searched_entries["jtt"].points} == {20, 50, 100}
    assert {values["estimate"] for _, values, _ in searched_entries["irm"].points} == {
        "halves"
    }  # declares no range


def test_what_is_given_is_kept_and_a_list_is_a_choice() -> None:
    changes: dict[str, Any] = {
        "methods": {"erm": {}, "deepcoral": {"weight": [0.5, 2.0], "form": "covariance"}}
    }
    searched_entries = entries(
        training={"steps": 600, "lr": [0.001, 0.002, 0.003, 0.004]}, search={"points": 4}, **changes
    )
    assert {values["form"] for _, values, _ in searched_entries["deepcoral"].points} == {
        "covariance"
    }
    assert {values["weight"] for _, values, _ in searched_entries["deepcoral"].points} == {0.5, 2.0}
    assert {training["lr"] for *_, training in searched_entries["erm"].points} == {
        0.001,
        0.002,
        0.003,
        0.004,
    }  # all that differ
    label = searched_entries["deepcoral"].points[0][0]
    assert label.startswith("weight=") and ", lr=0.00" in label and "form" not in label


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"training": {"steps": 600, "lr": 0.001}},
            (
                "methods.erm: search asks for 5 points, and 1 is all that differ: method 'erm'"
                " draws nothing"
            ),
        ),
        ({"search": {"points": 0}}, "search.points: must be at least 1, not 0"),
        ({"search": {"point": 3}}, "search.point: unknown field 'point', did you mean 'points'?"),
        ({"search": "wide"}, "search: must be"),
        ({"training": {"steps": 600, "lr": []}}, "training.lr: is an empty list"),
        (
            {"methods": {"erm": {}, "irm": {"penalty_weight": [-1.0, -2.0]}}},
            "methods.irm.penalty_weight: must be in",
        ),
    ],
)
def test_wrong_searches_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        make_plan(study(**changes))
    assert words in str(error.value)
