"""Estimates of accuracy in a study: jobs of their own, keyed by what they read, beside every model, in tables and files."""

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from tests.studies.plans import of_kind

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.evaluation.metrics import ESTIMATE
from crosswind.studies.jobs import run_predictions
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import study_from
from crosswind.studies.store import Store

STUDY: dict[str, Any] = {
    "name": "estimates",
    "data": {"digits": {"source": "digits", "label": "digit", "attributes": ["ink", "size"], "roles": {"test": 4}}},
    "shifts": {"none": [], "sc": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2}},
    "models": {"mlp": {}},
    "methods": ["erm"],
    "estimators": {"average": {"estimator": "average-confidence"}, "difference-of-confidences": {}},
    "training": {"steps": 4, "validate_every": 4, "batch": 16},
    "seeds": 1,
}
SETS = {
    "validation": {"role": "validation", "law": "train"},
    "test": {"role": "test"},
    "large": {"role": "test", "law": {"type": "only", "attribute": "size", "values": ["large"]}},
}


def planned(**changes: Any) -> Plan:
    return make_plan(study_from({**STUDY, **changes}))


def test_an_estimator_more_trains_and_predicts_nothing(tmp_path: Path) -> None:
    without = {name: value for name, value in STUDY.items() if name != "estimators"}
    before = cw.run_study({**without, "sets": SETS}, tmp_path / "out", workers=0)
    after = cw.run_study({**STUDY, "sets": SETS}, tmp_path / "out", workers=0)
    assert not [name for row in before.rows for name in row["metrics"] if name.startswith(ESTIMATE)]
    with Store.open(tmp_path / "out") as store:
        kinds = store.counts()
        scored = [run_predictions(store, row["key"]) for row in store.runs("estimates")]
        fits = list((tmp_path / "out" / "artifacts").rglob("history.json"))
    assert kinds["total"] == 4 and len(fits) == 2, "a score of each shift, without estimates and with them; each fit once"
    assert all(set(sets) == {"validation", "test", "large"} for item in scored for sets in item.values())
    plain = [(row["shift"], row["set"], row["metrics"]["accuracy"]) for row in before.rows]
    assert plain == [(row["shift"], row["set"], row["metrics"]["accuracy"]) for row in after.rows]
    assert len(plain) == 12, "two shifts, three sets, two rules"
    for row in after.rows:
        told = {name: value for name, value in row["metrics"].items() if name.startswith("estimate")}
        assert len(told) == (0 if row["set"] == "validation" else 6)
        for label in ("average", "difference-of-confidences") if told else ():
            error = told[f"estimate:{label}"] - row["metrics"]["accuracy"]
            assert told[f"estimate_error:{label}"] == pytest.approx(error) and told[f"estimate_covers:{label}"] in (0.0, 1.0)
    assert any("Estimated accuracy on large" in table.title for table in after.tables)
    fresh = cw.run_study({**STUDY, "sets": SETS}, tmp_path / "fresh", workers=0)
    assert [row["metrics"] for row in fresh.rows] == [row["metrics"] for row in after.rows], "in one go as one after the other"


def test_an_estimate_is_keyed_by_what_it_reads() -> None:
    plan = planned(sets=SETS)
    estimates = of_kind(plan, "estimate")
    assert len(estimates) == 2 * 2 * 2, "two shifts, two test sets, two estimators"
    kinds = {job.key: job.kind for job in plan.jobs}
    assert all([kinds[key] for key in job.needs] == ["fit", "predict"] for job in estimates)
    others = of_kind(planned(sets={**SETS, "large": {**SETS["large"], "draw": {"total": 100}}}), "estimate")
    same = {job.key for job in estimates} & {job.key for job in others}
    assert len(same) == 4, "those of the set that stays"
    fewer = planned(sets=SETS, estimators=["difference-of-confidences"])
    assert {job.key for job in of_kind(fewer, "estimate")} < {job.key for job in estimates}
    assert {job.key for job in of_kind(fewer, "fit")} == {job.key for job in of_kind(plan, "fit")}


def test_models_that_nobody_trains_here_are_estimated_where_they_give_logits(tmp_path: Path) -> None:
    digits = cw.load("digits")
    said = digits.table.column("digit").astype(np.int64)
    logits = np.eye(10, dtype=np.float32)[said] * 2
    names = {str(code): logits[:, code] for code in range(10)}
    polars.DataFrame({"id": digits.ids, **names}).write_csv(tmp_path / "logits.csv")
    polars.DataFrame({"id": digits.ids, "label": said}).write_csv(tmp_path / "labels.csv")
    models = {
        "sure": {"model": "predictions", "path": str(tmp_path / "logits.csv")},
        "mute": {"model": "predictions", "path": str(tmp_path / "labels.csv")},
    }
    found = cw.run_study({**STUDY, "models": models, "shifts": {"none": []}}, tmp_path / "out", workers=0)
    told = {row["method"]: row for row in found.rows if row["set"] == "test"}
    confidence = np.exp(2) / (np.exp(2) + 9)
    assert told["sure"]["metrics"]["estimate:average"] == pytest.approx(confidence, abs=1e-5)
    assert told["sure"]["metrics"]["estimate:difference-of-confidences"] == pytest.approx(1.0)
    assert told["mute"]["metrics"]["accuracy"] == 1.0 and "estimate:average" not in told["mute"]["metrics"]
    with Store.open(tmp_path / "out") as store:
        warnings = [text for row in store.runs("estimates") for text in row["warnings"]]
    assert "average has no estimate for test: the model gives labels without logits for the rows of the source" in warnings


def test_the_numbers_are_a_file_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cw.run_study({**STUDY, "shifts": {"none": []}}, tmp_path / "out", workers=0)
    assert _status(["report", str(tmp_path / "out"), "--format", "csv", "--out", str(tmp_path / "csv"), "--no-page"]) == 0
    table = polars.read_csv(tmp_path / "csv" / "estimates.csv")
    assert table["estimator"].to_list() == ["average", "difference-of-confidences"] and table["n"].to_list() == [1, 1]
    assert np.allclose(table["error"], table["estimate"] - table["accuracy"])
    capsys.readouterr()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"estimators": ["average-confidnce"]}, "estimators.average-confidnce: .*did you mean 'average-confidence'"),
        ({"estimators": {"mine": {"estimator": 3}}}, "estimators.mine.estimator: must be the name of an estimator, not 3"),
        ({"estimators": {"average-confidence": {"power": 3}}}, "estimators.average-confidence.power: "),
        ({"estimators": ["average-confidence"] * 2}, "estimators: .*must name each entry once"),
        ({"sets": {"test": {"role": "test"}}, "selection": ["last"]}, "estimators: learn from the labels of a set"),
    ],
)
def test_what_cannot_be_estimated_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        planned(**change)
