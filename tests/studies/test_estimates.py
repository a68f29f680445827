"""Estimates of accuracy in a study: jobs of their own, keyed by what they read, beside every model,
in tables and files."""

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from tests.studies.plans import of_kind

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.core.registry import facts, listing
from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import Predictions
from crosswind.data.copies import copies
from crosswind.data.dataset import AttributedDataset
from crosswind.estimators.base import Answers
from crosswind.estimators.measures import NuclearNorm
from crosswind.evaluation.metrics import ESTIMATE
from crosswind.execution import changed_copies as varying
from crosswind.reports.pools.estimate_sections import estimates
from crosswind.shifts.split import RowSet
from crosswind.storage.predictions_file import run_predictions
from crosswind.storage.store import Store
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import study_from
from crosswind.transforms import neighbourhood
from crosswind.transforms.neighbourhood import POOL

STUDY: dict[str, Any] = {
    "name": "estimates",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 4},
        }
    },
    "shifts": {
        "none": [],
        "sc": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
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


def check_estimates(metrics: dict[str, Any], number: int) -> None:
    """So many values of estimates, with the errors of the accuracies that they tell."""
    estimates = {name: value for name, value in metrics.items() if name.startswith("estimate")}
    assert len(estimates) == number
    for label in ("average", "difference-of-confidences") if estimates else ():
        error = estimates[f"estimate:{label}"] - metrics["accuracy"]
        assert estimates[f"estimate_error:{label}"] == pytest.approx(error)
        assert estimates[f"estimate_covers:{label}"] in (0.0, 1.0)


@pytest.mark.slow
def test_an_estimator_more_trains_and_predicts_nothing(tmp_path: Path) -> None:
    without = {name: value for name, value in STUDY.items() if name != "estimators"}
    before = cw.run_study({**without, "sets": SETS}, tmp_path / "out", workers=0)
    after = cw.run_study({**STUDY, "sets": SETS}, tmp_path / "out", workers=0)
    assert not [name for row in before.rows for name in row["metrics"] if name.startswith(ESTIMATE)]
    with Store.open(tmp_path / "out") as store:
        kinds = store.counts()
        scored = [run_predictions(store, row["key"]) for row in store.runs("estimates")]
        fits = list((tmp_path / "out" / "artifacts").rglob("history.json"))
    assert kinds["total"] == 4 and len(fits) == 2, (
        "a score of each shift, without estimates and with them; each fit once"
    )
    assert all(
        set(sets) == {"validation", "test", "large"} for item in scored for sets in item.values()
    )
    plain = [(row["shift"], row["set"], row["metrics"]["accuracy"]) for row in before.rows]
    assert plain == [(row["shift"], row["set"], row["metrics"]["accuracy"]) for row in after.rows]
    assert len(plain) == 12, "two shifts, three sets, two rules"
    for row in after.rows:
        check_estimates(row["metrics"], 0 if row["set"] == "validation" else 10)
    assert any("Estimated accuracy on large" in table.title for table in after.tables)
    fresh = cw.run_study({**STUDY, "sets": SETS}, tmp_path / "fresh", workers=0)
    assert [row["metrics"] for row in fresh.rows] == [row["metrics"] for row in after.rows], (
        "in one go as one after the other"
    )


def test_an_estimate_is_keyed_by_what_it_reads() -> None:
    plan = planned(sets=SETS)
    estimates = of_kind(plan, "estimate")
    assert len(estimates) == 2 * 2 * 2, "two shifts, two test sets, two estimators"
    kinds = {job.key: job.kind for job in plan.jobs}
    assert all([kinds[key] for key in job.needs] == ["fit", "predict"] for job in estimates)
    other_jobs = of_kind(
        planned(sets={**SETS, "large": {**SETS["large"], "draw": {"total": 100}}}), "estimate"
    )
    same = {job.key for job in estimates} & {job.key for job in other_jobs}
    assert len(same) == 4, "those of the set that stays"
    fewer = planned(sets=SETS, estimators=["difference-of-confidences"])
    assert {job.key for job in of_kind(fewer, "estimate")} < {job.key for job in estimates}
    assert {job.key for job in of_kind(fewer, "fit")} == {job.key for job in of_kind(plan, "fit")}


def test_models_that_nobody_trains_here_are_estimated_where_they_give_logits(
    tmp_path: Path,
) -> None:
    digits = cw.load("digits")
    answers = digits.table.column("digit").astype(np.int64)
    logits = np.eye(10, dtype=np.float32)[answers] * 2
    names = {str(code): logits[:, code] for code in range(10)}
    polars.DataFrame({"id": digits.ids, **names}).write_csv(tmp_path / "logits.csv")
    polars.DataFrame({"id": digits.ids, "label": answers}).write_csv(tmp_path / "labels.csv")
    models = {
        "sure": {"model": "predictions", "path": str(tmp_path / "logits.csv")},
        "mute": {"model": "predictions", "path": str(tmp_path / "labels.csv")},
    }
    study_results = cw.run_study(
        {**STUDY, "models": models, "shifts": {"none": []}}, tmp_path / "out", workers=0
    )
    row_of = {row["method"]: row for row in study_results.rows if row["set"] == "test"}
    confidence = np.exp(2) / (np.exp(2) + 9)
    assert row_of["sure"]["metrics"]["estimate:average"] == pytest.approx(confidence, abs=1e-5)
    assert row_of["sure"]["metrics"]["estimate:difference-of-confidences"] == pytest.approx(1.0)
    assert row_of["mute"]["metrics"]["accuracy"] == 1.0
    assert "estimate:average" not in row_of["mute"]["metrics"]
    with Store.open(tmp_path / "out") as store:
        warnings = [text for row in store.runs("estimates") for text in row["warnings"]]
    assert (
        "average has no estimate for test: the model gives labels without probabilities for the"
        " rows of the set" in warnings
    )


def test_the_numbers_are_a_file_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cw.run_study({**STUDY, "shifts": {"none": []}}, tmp_path / "out", workers=0)
    assert (
        _status(
            [
                "report",
                str(tmp_path / "out"),
                "--format",
                "csv",
                "--out",
                str(tmp_path / "csv"),
                "--no-page",
            ]
        )
        == 0
    )
    table = polars.read_csv(tmp_path / "csv" / "estimates.csv")
    assert table["estimator"].to_list() == ["average", "difference-of-confidences"]
    assert table["n"].to_list() == [1, 1]
    assert np.allclose(table["error"], table["estimate"] - table["accuracy"])
    capsys.readouterr()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"estimators": ["average-confidnce"]},
            "estimators.average-confidnce: .*did you mean 'average-confidence'",
        ),
        (
            {"estimators": {"mine": {"estimator": 3}}},
            "estimators.mine.estimator: must be the name of an estimator, not 3",
        ),
        (
            {"estimators": {"average-confidence": {"power": 3}}},
            "estimators.average-confidence.power: ",
        ),
        ({"estimators": ["average-confidence"] * 2}, "estimators: .*must name each entry once"),
        (
            {"sets": {"test": {"role": "test"}}, "selection": ["last"]},
            "estimators: learn from the labels of a set",
        ),
        (
            {"estimators": ["nuclear-norm"]},
            (
                "estimators.nuclear-norm: learns from a pool of labelled, changed rows, and"
                " pool_rows is 0"
            ),
        ),
        (
            {"estimators": ["disagreement"]},
            "estimators.disagreement: reads what 2 models or more say of the same rows",
        ),
        (
            {"estimators": ["dispersion"], "pool_rows": 9},
            "estimators.dispersion: reads features, which the predictions",
        ),
        (
            {"estimators": ["spectral-norm"], "pool_rows": 9},
            "estimators.spectral-norm: reads the network's weights",
        ),
        ({"pool_rows": -1}, "pool_rows: "),
    ],
)
def test_what_cannot_be_estimated_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        planned(**change)


@pytest.mark.slow
def test_a_pool_and_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside answers that are asked for one after the other; made once for all that read them; with
    intervals of the pool."""
    monkeypatch.setattr(neighbourhood, "POOL", POOL[::6])
    study = {**STUDY, "shifts": {"none": []}, "keep": "selected", "pool_rows": 30}
    plain = {**study, "estimators": ["difference-of-confidences"]}
    first = cw.run_study(plain, tmp_path / "out", workers=0)
    names = ["difference-of-confidences", "nuclear-norm", "ni-translate"]
    after = cw.run_study({**study, "estimators": names}, tmp_path / "out", workers=0)
    metrics_by_set = {row["set"]: row["metrics"] for row in after.rows if row["rule"] == "best-id"}[
        "test"
    ]
    before = {row["set"]: row["metrics"] for row in first.rows if row["rule"] == "best-id"}["test"]
    assert {name: metrics_by_set[name] for name in before} == before
    assert (
        0 <= metrics_by_set["estimate:ni-translate"] <= 1
        and metrics_by_set.get("estimate_low:ni-translate") is None
    ), "it shows no interval"
    for name in names[:2]:
        low, value, high, covers = (
            metrics_by_set[f"estimate{ending}:{name}"]
            for ending in ("_low", "", "_high", "_covers")
        )
        assert 0 <= low <= high <= 1
        assert 0 <= value <= 1
        assert covers == float(low <= metrics_by_set["accuracy"] <= high)
    (group,) = estimates(cw.report(tmp_path / "out")).groups
    (table,) = group.figures[0][1]
    drawn = {row[0]: row[4:] for row in table.rows}
    ends = {
        name: [metrics_by_set[f"estimate{ending}:{name}"] for ending in ("", "_low", "_high")]
        for name in names[:2]
    }
    assert {name: drawn[name] for name in names[:2]} == {
        name: pytest.approx((metrics_by_set["accuracy"], *ends[name]), abs=1e-5)
        for name in names[:2]
    }
    assert list(drawn) == names


def test_jobs_of_a_pool_are_shared_by_its_estimators() -> None:
    study = {**STUDY, "shifts": {"none": []}, "keep": "selected", "pool_rows": 30}
    kinds = [
        job.kind
        for job in planned(**{**study, "estimators": ["nuclear-norm", "mano", "ni-translate"]}).jobs
    ]
    assert kinds.count("vary") == 4, (
        "the pool, its neighbours, those of the source and of the test set"
    )
    assert kinds.count("fit") == 1
    assert kinds.count("estimate") == 3


@pytest.mark.slow
def test_without_a_pool_a_measure_is_written_as_it_is(tmp_path: Path) -> None:
    """Three test sets: it ranks them. No accuracy is told of it, no neighbour of the source is
    asked for, the criterion is kept."""
    sets = {
        **SETS,
        "small": {
            "role": "test",
            "law": {"type": "only", "attribute": "size", "values": ["small"]},
        },
    }
    names = ["nuclear-norm", "ni-translate", "average-confidence"]
    study = {
        **STUDY,
        "sets": sets,
        "shifts": {"none": []},
        "estimators": names,
        "selection": ["last"],
    }
    study["training"] = {**STUDY["training"], "fit_at": 1.0}
    assert [job.spec["set"] for job in of_kind(planned(**study), "vary")] == [
        "test",
        "large",
        "small",
    ]
    study_results = cw.run_study(study, tmp_path / "out", workers=0)
    metrics_by_set = {
        row["set"]: row["metrics"] for row in study_results.rows if row["rule"] == "last"
    }
    with Store.open(tmp_path / "out") as store:
        (key,) = {row["key"] for row in store.runs("estimates")}
        predictions = run_predictions(store, key)["last"]
    for name in ("test", "large", "small"):
        metrics, answers = (
            metrics_by_set[name],
            Answers(predictions[name].answer, predictions[name].logits),
        )
        assert metrics["measure:nuclear-norm"] == pytest.approx(NuclearNorm().measure(answers))
        assert metrics["entropy_rise:nuclear-norm"] is None
        assert np.isfinite(metrics["entropy_rise:ni-translate"])
        assert 1 / 11 <= metrics["measure:ni-translate"] <= 1
        assert metrics["fitted"] is False
        assert "measure:average-confidence" not in metrics
        assert 0 <= metrics["estimate:average-confidence"] <= 1
        assert not {"estimate:nuclear-norm", "estimate:ni-translate"} & metrics.keys()


@pytest.mark.slow
def test_what_a_model_says_of_copies_is_what_it_says_of_each() -> None:
    """A model that answers by the mean of a picture: of rows under a change of the pool, and of
    their neighbours."""
    digits = cw.load("digits")
    split = cw.split(digits, "digit", ["ink"], test=12)
    rows = split.evaluation["test"]

    def says(images: np.ndarray) -> np.ndarray:
        means = images.reshape(len(images), -1).mean(axis=1) / 10
        return np.stack([means, 4 - means], axis=1).astype(np.float32)

    sizes = []

    def answers(sets: Any, datasets: Any) -> Any:
        out = {}
        for name, rows_of_set in sets.items():
            sizes.append(datasets[rows_of_set.source].n_base)
            logits = says(datasets[rows_of_set.source].inputs(rows_of_set.rows))
            out[name] = Predictions(
                rows_of_set.rows, rows_of_set.label, rows_of_set.group, logits.argmax(1), logits
            )
        return {"last": out}, []

    three = varying.Neighbours("ni-translate", 3)
    plain = varying.copy_answers(answers, rows, {"digits": digits}, varying.Neighbours(), 20)[
        "last"
    ]
    of_neighbours = varying.copy_answers(answers, rows, {"digits": digits}, three, 20)["last"]
    alone = varying.copy_answers(answers, rows, {"digits": digits}, three, 0)["last"]
    fewer = varying.copy_answers(answers, rows, {"digits": digits}, varying.Neighbours(), 7)["last"]
    of_more = varying.fewer_rows(plain, rows, {"digits": digits}, 20, 7)
    for array in ("label", "answer", "logits"):
        assert np.array_equal(getattr(of_more, array), getattr(fewer, array))
    assert fewer.answer.shape == (len(POOL), 7, 1)
    without_entropies = varying.copy_answers(
        answers, rows, {"digits": digits}, three._replace(entropies=False), 20
    )["last"]
    assert without_entropies.entropy is None
    assert np.array_equal(without_entropies.answer, of_neighbours.answer)
    assert plain.answer.shape == (len(POOL), 20, 1)
    assert plain.logits is not None
    assert plain.logits.shape == (len(POOL), 20, 2)
    assert of_neighbours.answer.shape == (len(POOL), 20, 4)
    assert of_neighbours.entropy is not None
    assert of_neighbours.entropy.shape == of_neighbours.answer.shape
    assert alone.answer.shape == (1, len(rows), 4)
    drawn = [frozenset(_first_of(digits, rows, 20, change.family)) for change in POOL]
    assert len(set(drawn)) == len({change.family for change in POOL}) == 23, (
        "every family is shown rows of its own"
    )
    union = frozenset().union(*drawn)
    assert len(union) < len(rows) and sizes[0] == len(union) * len(POOL), (
        "no table of the copies of rows that nobody asked for"
    )
    for number in (0, 20, 68):
        chosen = np.sort(_first_of(digits, rows, 20, POOL[number].family))
        change = ((POOL[number].family, POOL[number].knobs),)
        copied = copies(digits, rows.rows[chosen], [change] * (number + 1))
        expected = says(copied.inputs(np.arange(20) * (number + 1) + number))
        assert np.array_equal(plain.logits[number], expected)
        assert np.array_equal(plain.answer[number, :, 0], expected.argmax(1))
        assert np.array_equal(plain.label[number], rows.label[chosen])
    assert plain.label.shape == (len(POOL), 20)
    assert len(np.unique(plain.answer)) == 2
    logits = says(digits.inputs(rows.rows))
    assert np.array_equal(alone.answer[0, :, 0], logits.argmax(1))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert alone.entropy is not None
    assert np.allclose(
        alone.entropy[0, :, 0], -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1), atol=1e-6
    )


def _first_of(dataset: AttributedDataset, rows: RowSet, n: int, family: str) -> np.ndarray:
    return np.argsort(
        hash64(dataset.row_ids(rows.rows), seed_of(0, "rows of the pool", family)), kind="stable"
    )[:n]


IMAGE_NEIGHBOURS = {"selection": ["last"], "shifts": {"none": []}, "pool_rows": 5}


@pytest.mark.slow
def test_any_transform_makes_neighbours_and_the_papers_four_are_cases_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written with the knobs of a neighbourhood of the paper, `ni` gives its very numbers."""
    monkeypatch.setattr(neighbourhood, "POOL", POOL[::12])
    named = [name for name, entry in neighbourhood.NEIGHBOURHOODS.items() if entry.takes == "image"]
    assert len(named) == 4
    chosen = {}
    for name in named:
        definition = neighbourhood.neighbourhood(name)
        transform = {"transform": definition.transform, **definition.knobs()}
        chosen[f"chosen:{name}"] = {"estimator": "ni", **transform}
    other = {"rotate-20": {"estimator": "ni", "transform": "rotate", "degrees": 20}}
    study = {**STUDY, **IMAGE_NEIGHBOURS}
    study["estimators"] = {**dict.fromkeys(named, {}), **chosen, **other}
    (row,) = (
        row
        for row in cw.run_study(study, tmp_path / "out", workers=0).rows
        if row["set"] == "test" and row["rule"] == "last"
    )
    metrics = row["metrics"]
    for name in named:
        for score in ("measure", "estimate", "entropy_rise"):
            assert metrics.get(f"{score}:{name}") == metrics.get(f"{score}:chosen:{name}")
    measures = {name: metrics[f"measure:{name}"] for name in [*named, *other]}
    assert len(set(measures.values())) == 5, measures


def test_neighbours_by_one_transform_are_asked_for_once_however_it_is_written() -> None:
    def vary_keys(**entry: Any) -> set[str]:
        estimators = {"near": {"estimator": "ni", **entry}}
        plan = planned(**{**IMAGE_NEIGHBOURS, "estimators": estimators})
        return {job.key for job in of_kind(plan, "vary") if job.spec["near"]}

    beside = vary_keys(transform="rotate", degrees=20)
    assert len(beside) == 3, "of the test set, of the source and of the pool"
    assert vary_keys(transform="rotate", settings={"degrees": 20.0}) == beside
    assert vary_keys(transform="rotate", degrees=20, form="entropy") == beside
    others = [
        vary_keys(transform="rotate", degrees=21),
        vary_keys(transform="rotate", degrees=20, neighbours=3),
        vary_keys(transform="rotate"),
        vary_keys(transform="shear", horizontal=20),
    ]
    assert len(set.union(beside, *others)) == 15


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({}, r"estimators.near.transform: needs the name of the transform .*rotate"),
        ({"transform": "rotat"}, r"estimators.near.transform: .*did you mean 'rotate'"),
        ({"transform": 4}, "estimators.near.transform: must be text, not 4"),
        ({"transform": "rotate", "angle": 4}, "estimators.near.angle: .*degrees, draw"),
        ({"transform": "rotate", "degrees": 999}, r"estimators.near.degrees: must be in \[-360"),
        ({"transform": "rotate", "settings": [1]}, "estimators.near.settings: must be a mapping"),
        (
            {"transform": "rotate", "degrees": 4, "settings": {"degrees": 5}},
            "estimators.near.degrees: stands in settings too",
        ),
        ({"transform": "eda"}, "its neighbours are changed texts, and data.digits has images"),
    ],
)
def test_a_transform_that_makes_no_neighbours_is_refused(
    entry: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        planned(**{**IMAGE_NEIGHBOURS, "estimators": {"near": {"estimator": "ni", **entry}}})


def test_no_transform_has_a_knob_that_an_estimator_of_its_neighbours_has_too() -> None:
    own_knobs = {declared.name for declared in facts("estimators", "ni").knobs}
    transforms = [entry for room in neighbourhood.ROOMS.values() for entry in listing(room)]
    assert len(transforms) > 35
    for transform in transforms:
        shared = own_knobs & {declared.name for declared in transform.knobs}
        assert not shared, f"{transform.name}: {shared} can be written inside settings only"
