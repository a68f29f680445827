"""A study of real digits that runs in a second: the way from a study file's words to scores, for
one method at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crosswind.execution.engines.inline import Inline
from crosswind.execution.scheduler import drive
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 16},
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2, "validation": 0.15},
        }
    },
    "shifts": {"SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2}},
    "sizes": {"equal": {"total": 150}},
    "models": ["small-cnn"],
    "training": {"steps": 20, "batch": 32, "validate_every": 5, "lr": 3e-3},
    "seeds": 1,
}


def finished(out: Path, methods: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    """The store's rows of ERM and these methods, one a run, rule and set; every run has
    finished."""
    plan = make_plan(
        study_from({**STUDY, "methods": {"erm": {}, **methods}, **changes}, name="digits")
    )
    with (
        Store.open(out, create=True) as store,
        Inline("crosswind.execution.jobs:execute") as engine,
    ):
        store.add_plan(plan.study.name, {}, plan.study.model_dump(), plan.jobs)
        drive(store, plan.jobs, engine)
        rows = store.results("digits")
    assert {row["status"] for row in rows} == {"finished"}
    assert {row["method"] for row in rows} >= {"erm", *methods}
    return rows
