"""Validation rows that are a method's own: drawn evenly from groups, and read by nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, rows_of, run, split

import crosswind as cw
from crosswind.core import registry
from crosswind.core.errors import InputError, NeedsError
from crosswind.core.knobs import Base, Holdout, Limit, Needs, knob
from crosswind.core.registry import register
from crosswind.methods.base import Method, RunContext, Stage
from crosswind.shifts.split import RowSet, Split
from crosswind.storage.predictions_file import read_predictions
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.training.holdout import set_apart

IMAGES = {"tiny": DATA}


@pytest.fixture(scope="module", autouse=True)
def reading() -> Iterator[type[Method]]:
    """A method that keeps what it was handed."""

    @register("reads-held-out", kind="method")
    @dataclass(frozen=True)
    class Reads(Method):
        """Plain training that looks at held-out rows."""

        share: float = knob(0.5, domain="(0, 1)", doc="share of the rows")
        of: str = knob("validation", doc="the set")
        needs = Needs(base=Base("erm"), holdout=Holdout("share", "of"))
        limit = Limit.none("a test")

        def state(self, info: Any) -> dict[str, torch.Tensor]:
            return {"labels": torch.zeros(0).long(), "features": torch.zeros(0)}

        def stage(self, index: int, context: RunContext) -> Stage | None:
            if index:
                return None
            assert context.holdout is not None
            context.state["labels"] = context.holdout.y.clone()
            context.state["features"] = context.holdout.features(base=True)
            return Stage(steps=0, stop=False)

    yield Reads
    registry.forget("methods", "reads-held-out")


def apart(method: type[Method], sets: Split, seed: int = 0, **knobs: Any) -> tuple[Split, RowSet]:
    left, held_out = set_apart(method(**knobs), sets, IMAGES, seed)
    assert held_out is not None
    return left, held_out


def test_the_share_of_every_group_rounded_up_is_held_out(reading: type[Method]) -> None:
    """Of 30 rows the groups have 7 or 8: half of them, rounded up, is 4 each."""
    left, held_out = apart(reading, split())
    assert np.bincount(held_out.group).tolist() == [4, 4, 4, 4]
    assert sorted([*held_out.rows, *left.validation["validation"].rows]) == list(range(90, 120))
    assert len(left.validation["ood-validation"]) == 30 and len(held_out.weight) == 16
    assert held_out.weight.sum() == pytest.approx(1)
    again, other = apart(reading, split())[1], apart(reading, split(), seed=1)[1]
    assert again.rows.tolist() == held_out.rows.tolist() != other.rows.tolist()


def test_a_row_that_is_held_out_validates_in_no_set(reading: type[Method]) -> None:
    """Validation sets may share rows: `ood-validation` here has those of `validation`."""
    sets = split()
    both = {**sets.validation, "ood-validation": rows_of(DATA, np.arange(90, 140))}
    left, held_out = apart(reading, replace(sets, validation=both))
    for rows in left.validation.values():
        assert not set(held_out.rows) & set(rows.rows)
    assert len(left.validation["ood-validation"]) == 50 - 16


def test_rows_of_one_unit_stay_together(reading: type[Method]) -> None:
    """A unit of two groups that is held out in one of them validates in neither."""
    units = np.arange(DATA.table.n_rows) // 2
    data = replace(DATA, units=units)
    left, held_out = set_apart(reading(share=0.2), split(), {"tiny": data}, 0)
    assert held_out is not None
    assert not set(units[held_out.rows]) & set(units[left.validation["validation"].rows])


def test_what_cannot_be_held_out_is_refused(reading: type[Method]) -> None:
    sets = split()
    with pytest.raises(NeedsError, match="has 0 \\(validation sets: ood-validation\\)"):
        run(reading(), replace(sets, validation={"ood-validation": sets.validation["validation"]}))
    with pytest.raises(NeedsError, match="leaves none of set 'validation'"):
        apart(reading, sets, share=0.99)
    one_class = rows_of(DATA, np.arange(90, 120, 2))
    with pytest.raises(NeedsError, match="no row of class 'bright' among the 8"):
        apart(reading, replace(sets, validation={"validation": one_class}))


def test_the_method_reads_the_held_out_rows_and_rules_the_others(reading: type[Method]) -> None:
    trajectory = run(reading())
    left, held_out = apart(reading, split())
    state = trajectory.weights("last")
    assert state["state/labels"].tolist() == held_out.label.tolist()
    assert state["state/features"].shape == (16, 16)
    predicted = trajectory.predictions["last"]["validation"]
    assert predicted.ids.tolist() == left.validation["validation"].rows.tolist()


def test_who_declares_nothing_gets_nothing(reading: type[Method]) -> None:
    plain = Method
    sets = split()
    assert set_apart(plain(), sets, IMAGES, 0) == (sets, None)


STUDY: dict[str, Any] = {
    "name": "held-out",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 2, "validation": 0.3},
        }
    },
    "shifts": {"none": []},
    "sizes": {"equal": {"total": 150}},
    "models": {"mlp": {"hidden": 16, "layers": 1}},
    "methods": ["erm", "reads-held-out"],
    "training": {"steps": 4, "validate_every": 2},
    "estimators": ["average-confidence", "ni-flipcrop"],
    "pool_rows": 10,
    "seeds": 1,
}


@pytest.mark.slow
def test_a_study_scores_and_estimates_without_the_held_out_rows(tmp_path: Path) -> None:
    results = cw.run_study(STUDY, tmp_path)
    assert results.summary.failed == 0
    rows = {row["method"]: row for row in results.rows if row["set"] == "validation"}
    n_rows = {name: row["metrics"]["n"] for name, row in rows.items()}
    assert 0 < n_rows["reads-held-out"] < n_rows["erm"]
    ids = {}
    for about in tmp_path.glob("artifacts/**/job.json"):
        job = json.loads(about.read_text(encoding="utf-8"))
        if job["kind"] == "fit":
            predictions = read_predictions(about.parent / "predictions.npz")
            name = job["spec"]["method"]["name"]
            ids[name] = set(predictions["last"]["validation"].ids.tolist())
            notes = json.loads((about.parent / "split.json").read_text(encoding="utf-8"))["notes"]
            assert any("reads" in note for note in notes) == (name == "reads-held-out")
    assert ids["reads-held-out"] < ids["erm"]


def test_a_plan_refuses_a_study_without_the_set() -> None:
    with pytest.raises(NeedsError, match="validation set 'elsewhere', which has 0"):
        make_plan(
            study_from({**STUDY, "methods": {"erm": {}, "reads-held-out": {"of": "elsewhere"}}})
        )
    with pytest.raises(InputError, match=r"must be in \(0, 1\)"):
        make_plan(study_from({**STUDY, "methods": {"erm": {}, "reads-held-out": {"share": 1.0}}}))
