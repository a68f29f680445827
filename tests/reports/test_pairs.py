"""Classes by environments on the page: accuracies of the predictions, frames of what training
showed, rho of every environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crosswind as cw
from crosswind.core.types import Predictions
from crosswind.evaluation.systematic import rho
from crosswind.reports.gather import StudyRecord, gather
from crosswind.reports.page import study_page
from crosswind.reports.rows import figures as row_figures
from crosswind.reports.rows.pairs import apart
from crosswind.shifts.split import SplitPlan, make_split
from crosswind.storage.predictions_file import run_predictions
from crosswind.storage.store import Store

STUDY: dict[str, Any] = {
    "name": "apart",
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 8},
            "label": "digit",
            "attributes": ["environment"],
            "roles": {"test": 10},
            "derive": {
                "name": "environment",
                "mode": "per-visit",
                "values": {
                    "clean": None,
                    "noise": {"transform": "gaussian-noise", "severity": [1, 5]},
                    "dark": {"transform": "contrast"},
                },
            },
        }
    },
    "shifts": {
        "N": {
            "type": "systematic",
            "environment": "environment",
            "classes": {"clean": "all", "noise": ["3..6"]},
        },
        "none": {"type": "systematic", "environment": "environment", "classes": {"clean": "all"}},
    },
    "sizes": {"small": {"total": 300}},
    "sampler": {"environment": 0.75},
    "models": {"mlp": {"layers": 1}},
    "training": {"steps": 30, "batch": 32, "lr": 0.01, "validate_every": 15, "patience": None},
    "selection": ["last"],
    "seeds": 2,
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs") / "out"
    assert not cw.run_study(STUDY, folder).summary.failed
    return folder


@pytest.fixture(scope="module")
def record(out: Path) -> StudyRecord:
    with Store.open(out) as store:
        return gather(store, "apart")


@pytest.mark.slow
def test_the_picture_frames_what_training_showed(record: StudyRecord) -> None:
    assert record.behind.left_out == []
    (noisy_answer,) = (answer for answer in record.behind.answers if answer.apart is not None)
    assert noisy_answer.shift == "N"
    assert noisy_answer.apart is not None
    assert (noisy_answer.apart.label, noisy_answer.apart.environment) == ("digit", "environment")
    names = [str(digit) for digit in range(10)]
    assert noisy_answer.apart.seen == {(name, "clean") for name in names} | {
        (str(digit), "noise") for digit in range(3, 7)
    }


def noisy_runs(out: Path) -> tuple[list[Predictions], list[dict[str, Any]]]:
    """The predictions on the test rows and the metrics of the runs under the shift N."""
    with Store.open(out) as store:
        keys = [run["key"] for run in store.runs("apart") if run["labels"]["shift"] == "N"]
        predictions = [run_predictions(store, key)["last"]["test"] for key in keys]
        test_metrics = [
            row["metrics"]
            for row in store.results("apart")
            if (row["shift"], row["set"], row["rule"]) == ("N", "test", "last")
        ]
    return predictions, test_metrics


def test_the_cells_and_rho_are_those_of_the_predictions(out: Path, record: StudyRecord) -> None:
    predictions, test_metrics = noisy_runs(out)
    (noisy_answer,) = (answer for answer in record.behind.answers if answer.apart is not None)
    assert len(predictions) == len(test_metrics) == 2
    right = np.stack([predicted.answer == predicted.label for predicted in predictions])
    environment = predictions[0].group % 3  # groups are digit x environment
    for digit in range(10):
        for code, value in enumerate(("clean", "noise", "dark")):
            inside = (predictions[0].label == digit) & (environment == code)
            assert noisy_answer.apart.cells[str(digit), value] == (
                pytest.approx(right[:, inside].mean()),
                10,
            )
    (measure,) = noisy_answer.apart.measures.values()
    shown = np.isin(predictions[0].label, range(3, 7))
    seen_accuracy, unseen_accuracy = (
        float(right[:, (environment == 1) & side].mean()) for side in (shown, ~shown)
    )
    expected = pytest.approx((seen_accuracy, unseen_accuracy))
    assert (measure.seen, measure.unseen) == expected
    assert measure.rho == pytest.approx(rho(seen_accuracy, unseen_accuracy))
    assert measure.low is not None
    assert measure.low <= measure.rho
    means = [
        np.mean([metrics[name] for metrics in test_metrics])
        for name in ("seen_accuracy", "unseen_accuracy")
    ]
    assert tuple(means) == expected
    noise_scores = [metrics["environments"]["environment=noise"] for metrics in test_metrics]
    assert [scores["n_seen"] for scores in noise_scores] == [40, 40]
    assert seen_accuracy > unseen_accuracy  # a corruption of some classes is what tells them


def test_the_page_shows_the_gap_and_its_table(record: StudyRecord) -> None:
    pair_answers = [answer for answer in record.behind.answers if answer.apart is not None]
    figure_and_table = row_figures.apart(pair_answers)
    assert figure_and_table is not None
    figure, table = figure_and_table
    rows = figure.spec["datasets"]["rows"]
    assert len(rows) == 30
    assert sum(row["s"] for row in rows) == 14
    assert [row["y"] for row in rows][::3][:4] == [
        "3",
        "4",
        "5",
        "6",
    ]  # what is seen together stands together
    assert table.columns[-1] == "seen in training"
    assert len(table.rows) == 30
    page = study_page([record], "store")
    assert "Systematic robustness under N" in page
    assert "Systematic robustness under none" not in page
    assert [row[1] for row in row_figures.rhos(pair_answers).rows] == ["environment=noise"]
    titles = [table.title for table in record.text_tables()]
    for word in ("Accuracy on seen pairs", "Accuracy on unseen pairs", "Systematic robustness rho"):
        assert any(title.startswith(word) for title in titles), titles


def test_rho_of_several_methods_by_environment(record: StudyRecord) -> None:
    """A row a method, a column an environment; a mean that lacks one is undefined, and so is the
    row of the network before."""
    (noisy_answer,) = (answer for answer in record.behind.answers if answer.apart is not None)
    assert noisy_answer.apart is not None
    assert row_figures.rho_by_environment([noisy_answer]) == []
    (measure,) = noisy_answer.apart.measures.values()
    measures_by_method = {
        "a": {"environment=noise": replace(measure, rho=0.25), "dark": replace(measure, rho=0.75)},
        "b": {"environment=noise": replace(measure, rho=0.5), "dark": replace(measure, rho=None)},
    }
    method_answers = [
        noisy_answer._replace(method=name, pairs=noisy_answer.apart._replace(measures=measures))
        for name, measures in measures_by_method.items()
    ]
    (table,) = row_figures.rho_by_environment(method_answers)
    assert table.columns == ("method", "noise", "dark", "mean")
    assert list(table.rows) == [("a", 0.25, 0.75, 0.5), ("b", 0.5, None, None)]
    assert row_figures.rho_by_environment(method_answers, "a") == []


def test_many_classes_stand_together_by_where_they_are_seen() -> None:
    from tests.shifts.worlds import world

    data = world((40, 3), 20)
    spec = {
        "type": "systematic",
        "environment": "a",
        "classes": {"a0": "all"},
        "shares": {"a1": 0.25, "a2": 0.5},
    }
    split = make_split(
        {"d": data},
        "d",
        SplitPlan("y", ("a",), cw.Systematic(**{k: v for k, v in spec.items() if k != "type"})),
        0,
    )
    test = split.evaluation["test"]
    order = np.arange(len(test.rows))
    columns = {
        name: (
            data.table.column(name)[test.rows].astype(np.int64),
            data.table.attribute(name).values,
        )
        for name in ("y", "a")
    }
    pair_cells = apart(("y", "a"), columns, np.ones((1, len(order)), bool), test, order, split)
    assert pair_cells is not None
    # A reference that is right in every fourth row: equation 1 with its accuracy on all classes of
    # the environment taken off.
    quarter = pair_cells._replace(right=(order % 4 == 0)[None])
    shown = np.asarray(pair_cells.groups[1])[pair_cells.groups[0]]
    beside_quarter = quarter._replace(right=(shown | (order % 2 == 0))[None]).beside(quarter)
    assert set(beside_quarter) == {"a=a1", "a=a2"}
    for name, measure in beside_quarter.items():
        inside = columns["a"][0] == int(name[-1])
        assert measure.reference == pytest.approx((order[inside] % 4 == 0).mean())
        assert 0.1 < measure.reference < 0.4
        assert measure.seen == 1
        assert measure.rho == rho(measure.seen, measure.unseen, measure.reference)
        assert measure.rho < 0.6
    assert {name for name, _ in pair_cells.cells} == {
        "a1 (10 classes)",
        "a2 (20 classes)",
        "no other (10 classes)",
    }
    assert pair_cells.seen >= {("a1 (10 classes)", "a1"), ("no other (10 classes)", "a0")}
    assert ("a1 (10 classes)", "a2") not in pair_cells.seen
