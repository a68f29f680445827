"""Methods that compare environments: in studies of real digits, with environments that are named,
single, or one with the class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.training.world import QUICK

from crosswind.core.registry import Facts, listing
from crosswind.execution.engines.inline import Inline
from crosswind.execution.scheduler import drive
from crosswind.storage.store import Store
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import study_from

FACTS = [
    method
    for method in listing("methods")
    if method.module.startswith("crosswind.") and method.needs and method.needs.environments
]
NAMES = [fact.name for fact in FACTS]
# Those that can do with a single environment: they then say so, at planning and with their numbers.
SINGLE = [
    method.name
    for method in listing("methods")
    if method.module.startswith("crosswind.")
    and method.needs
    and method.needs.sampler == "per-environment"
    and not method.needs.environments
]
# Those that align environments, and so can erase the label.
EVEN = [
    fact.name for fact in FACTS if fact.needs and fact.needs.sampler == "per-environment"
] + SINGLE
# A switch must come before the last of 12 steps.
METHODS: dict[str, dict[str, Any]] = {
    fact.name: {**QUICK.get(fact.name, {}), **dict.fromkeys(fact.needs.switches, 6)}
    for fact in FACTS
    if fact.needs
}
METHODS |= {name: {} for name in SINGLE}
SC = {"type": "spurious-correlation", "attribute": "ink"}
STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2, "validation": 0.15},
        }
    },
    "shifts": {"SC": {**SC, "counterexamples": 0.2}},
    "sizes": {"equal": {"total": 150}},
    "models": {"small": {"model": "mlp", "hidden": 32, "layers": 2}},
    "methods": {"erm": {}, **METHODS},
    "training": {"steps": 12, "batch": 32, "validate_every": 6},
    "environments": ["ink"],
    "seeds": 1,
}


def planned(**changes: Any) -> Plan:
    return make_plan(study_from({**STUDY, **changes}, name="environments"))


def test_the_sweep_finds_the_methods() -> None:
    assert len(NAMES) >= 3 and {"irm", "deepcoral", "dann"} <= set(NAMES)
    assert len(EVEN) >= 6 and {"irm", "deepcoral", "dann"} <= set(EVEN)


@pytest.mark.slow
def test_study_with_named_environments_runs_and_no_method_is_erm(tmp_path: Path) -> None:
    plan = planned()
    assert not any(
        "erases the label" in text for text in plan.warnings
    )  # a fifth of the rows are counterexamples
    with (
        Store.open(tmp_path, create=True) as store,
        Inline("crosswind.execution.jobs:execute") as engine,
    ):
        store.add_plan(plan.study.name, {}, plan.study.model_dump(), plan.jobs)
        drive(store, plan.jobs, engine)
        rows = [
            row
            for row in store.results("environments")
            if row["rule"] == "last" and row["set"] == "test"
        ]
    row_of = {row["method"]: row for row in rows}
    assert set(row_of) == {"erm", *NAMES, *SINGLE} and {row["status"] for row in rows} == {
        "finished"
    }
    losses = {name: row["metrics"]["nll"] for name, row in row_of.items()}
    assert len(set(losses.values())) == len(losses), losses


ALIGNS = (
    "aligns environments, but here they and the classes nearly tell each other, so aligning them"
    " erases the label"
)
TRANSLATES = (
    "shows a class under its other environments, but here they and the classes nearly tell each"
    " other, so there are few"
)


def doubted(name: str, **changes: Any) -> bool:
    sentence = f"{name} {TRANSLATES if name == 'cyclegan' else ALIGNS}"
    return any(
        text.endswith(sentence)
        for text in planned(methods={"erm": {}, name: METHODS[name]}, **changes).warnings
    )


@pytest.mark.parametrize("name", EVEN)
def test_environments_tied_to_the_class_are_warned_of(name: str) -> None:
    """Ten classes share three inks: an ink has several classes, yet each class one ink. Of size the
    class says nothing."""
    for counterexamples, warned in ((0.0, True), (0.01, True), (0.2, False)):
        assert doubted(name, shifts={"SC": {**SC, "counterexamples": counterexamples}}) == warned, (
            counterexamples
        )
    pure = {"SC": {**SC, "counterexamples": 0.0}}
    assert not doubted(name, shifts=pure, environments=["size"])
    assert doubted(
        name, shifts=pure, environments=["ink", "size"]
    )  # more environments than inks, told by the class no more


@pytest.mark.parametrize(
    "item",
    [fact for fact in FACTS if fact.needs and fact.needs.switches],
    ids=lambda item: item.name,
)
def test_default_switch_is_reached_in_a_short_run(item: Facts) -> None:
    assert planned(methods={"erm": {}, item.name: {}}).runs
