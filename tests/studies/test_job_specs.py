"""Specifications of jobs are read and stored without a byte of change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from crosswind.core.types import Job
from crosswind.studies.job_specs import (
    ClassSpec,
    CopiesSpec,
    EstimateSpec,
    FitSpec,
    OutsidePredictSpec,
    PredictSpec,
    SplitSpec,
    predict_spec,
)
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

STUDY: dict[str, Any] = {
    "name": "specs",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 4, "validation": 0.2},
        }
    },
    "shifts": {"none": []},
    "sizes": {"few": {"total": 60}},
    "models": {
        "mlp": {"hidden": 8, "layers": 1},
    },
    "methods": {"erm": {}, "jtt": {}},
    "estimators": {"ni-randaugment": {}},
    "pool_rows": 20,
    "training": {"steps": 4, "batch": 16},
    "seeds": 1,
}

WITHOUT_ESTIMATES = {
    name: value for name, value in STUDY.items() if name not in ("estimators", "pool_rows")
}


@pytest.fixture(scope="module")
def jobs() -> tuple[Job, ...]:
    return make_plan(study_from(STUDY)).jobs


@pytest.fixture(scope="module")
def halved_jobs() -> tuple[Job, ...]:
    search = {"points": 9, "halving": {"rungs": 2}}
    study = {**WITHOUT_ESTIMATES, "methods": ["mixup"], "reference": "mixup", "search": search}
    return make_plan(study_from(study)).jobs


def of_kind(jobs: tuple[Job, ...], kind: str) -> list[Job]:
    chosen = [job for job in jobs if job.kind == kind]
    assert chosen, f"the study has no {kind} job"
    return chosen


def test_a_fit_is_stored_as_it_was_read(
    jobs: tuple[Job, ...], halved_jobs: tuple[Job, ...]
) -> None:
    fits = [*of_kind(jobs, "fit"), *of_kind(halved_jobs, "fit")]
    assert any("rung" in job.spec for job in fits)
    for job in fits:
        spec = FitSpec.of(job.spec)
        # The order of the fields too.
        assert json.dumps(spec.stored()) == json.dumps(job.spec)
        assert spec.rows.sets.keys() == job.spec["split"]["sets"].keys()
        assert spec.device == job.spec["training"]["device"]


def test_a_fit_follows_the_rules_that_its_study_names() -> None:
    plan = make_plan(study_from({**WITHOUT_ESTIMATES, "methods": ["erm"]}))
    (fit,) = of_kind(plan.jobs, "fit")
    stored = {**fit.spec, "rules": ["best-id"]}
    assert FitSpec.of(stored).rules == ["best-id"]
    assert FitSpec.of(stored).stored() == stored
    assert FitSpec.of({**fit.spec, "seed": 7}).rows.seed == 7


def test_a_prediction_is_stored_as_it_was_read(jobs: tuple[Job, ...]) -> None:
    for job in of_kind(jobs, "predict"):
        spec = predict_spec(job.spec)
        assert isinstance(spec, PredictSpec)
        assert json.dumps(spec.stored()) == json.dumps(job.spec)


def test_an_outside_prediction_is_stored_as_it_was_read() -> None:
    rows = SplitSpec({"digits": {}}, "digits", {"sets": {}}, 3)
    model = ClassSpec("onnx", {"path": "a.onnx"})
    spec = OutsidePredictSpec("test", model, {"a.onnx": "1" * 64}, rows, shows_order=True)
    stored = spec.stored()
    assert list(stored) == [
        "set",
        "main",
        "model",
        "read",
        "data",
        "split",
        "seed",
        "shows_order",
    ]
    assert stored["model"] == {"name": "onnx", "knobs": {"path": "a.onnx"}}
    assert predict_spec(stored) == spec


def test_the_split_of_a_prediction_has_its_set(jobs: tuple[Job, ...]) -> None:
    fit = FitSpec.of(of_kind(jobs, "fit")[0].spec)
    prediction = PredictSpec.of(of_kind(jobs, "predict")[0].spec)
    assert prediction.set_name not in fit.rows.sets
    rows = fit.rows.with_set(prediction)
    assert rows.sets == {**fit.rows.sets, prediction.set_name: prediction.plan}
    # A set of validation is known to the fit, so that a `vary` job of it has no plan.
    name = next(iter(fit.rows.sets))
    assert fit.rows.with_set(PredictSpec(name, None, {})).sets == fit.rows.sets


@pytest.mark.parametrize(
    ("kind", "read", "names"),
    [
        ("vary", CopiesSpec.of, {"neighbourhood": "near", "neighbours": "neighbours"}),
        ("estimate", EstimateSpec.of, {"set_name": "set", "source": "source", "reads": "reads"}),
    ],
)
def test_other_specifications_are_read(
    jobs: tuple[Job, ...], kind: str, read: Callable[[Any], Any], names: dict[str, str]
) -> None:
    for job in of_kind(jobs, kind):
        spec = read(job.spec)
        for attribute, field in names.items():
            assert getattr(spec, attribute) == job.spec[field]
