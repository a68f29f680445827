"""A sweep of learning rates under a systematic shift on the page: seen against unseen pairs, and
both followed through training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crosswind as cw
from crosswind.evaluation.compare import summary
from crosswind.reports.gather import StudyRecord, gather
from crosswind.reports.page import study_page
from crosswind.reports.rows import figures as row_figures
from crosswind.reports.rows.sections import _rates
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.predictions_file import run_predictions
from crosswind.storage.store import Store

SEEN: dict[str, Any] = {
    "type": "systematic",
    "environment": "environment",
    "classes": {"noise": ["3..6"]},
}
UNSEEN: dict[str, Any] = {
    "type": "systematic",
    "environment": "environment",
    "classes": {"noise": ["0..2", "7..9"]},
}
STUDY: dict[str, Any] = {
    "name": "trade",
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 8},
            "label": "digit",
            "attributes": ["environment"],
            "roles": {"test": 10, "validation": 0.2},
            "derive": {
                "name": "environment",
                "mode": "per-visit",
                "values": {
                    "clean": None,
                    "noise": {"transform": "gaussian-noise", "severity": [1, 5]},
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
        "noise-all": {
            "type": "systematic",
            "environment": "environment",
            "classes": {"clean": "all", "noise": "all"},
        },
        "none": {"type": "systematic", "environment": "environment", "classes": {"clean": "all"}},
    },
    "sizes": {"small": {"total": 300}},
    "sets": {
        "validation": {"role": "validation", "law": "train", "draw": {"total": 60}},
        "seen": {"role": "validation", "law": SEEN, "draw": {"total": 60}},
        "unseen": {"role": "validation", "law": UNSEEN, "draw": {"total": 60}},
        "test": {"role": "test"},
    },
    "sampler": {"image": 0.5},
    "models": {"mlp": {"layers": 1}},
    "methods": {
        "start": {"method": "erm", "shifts": ["N"], "training": {"steps": 0}},
        "slow": {"method": "erm", "training": {"lr": 0.001}},
        "fast": {"method": "erm", "training": {"lr": 0.02}},
    },
    "reference": "start",
    "training": {"steps": 30, "batch": 32, "validate_every": 10, "patience": None},
    "selection": ["best-id", "last"],
    "seeds": 2,
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trade") / "out"
    assert not cw.run_study(STUDY, folder).summary.failed
    return folder


@pytest.fixture(scope="module")
def record(out: Path) -> StudyRecord:
    with Store.open(out) as store:
        return gather(store, "trade")


def labelled(out: Path) -> list[tuple[dict[str, Any], str]]:
    with Store.open(out) as store:
        return [(dict(run["labels"]), str(run["key"])) for run in store.runs("trade")]


def pairs_of_runs(out: Path) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """By shift and method the accuracies of its runs on noisy rows of the classes that training
    shows in noise, and of the others."""
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with Store.open(out) as store:
        for labels, key in labelled(out):
            predictions = run_predictions(store, key)["best-id"]["test"]
            right = predictions.answer == predictions.label
            noisy = predictions.group % 2 == 1
            shown = np.isin(predictions.label, range(3, 7))
            pair = (float(right[noisy & shown].mean()), float(right[noisy & ~shown].mean()))
            pairs.setdefault((labels["shift"], labels["method"]), []).append(pair)
    return pairs


@pytest.mark.slow
def test_the_points_are_the_accuracies_of_the_predictions(out: Path, record: StudyRecord) -> None:
    pairs_by_run = pairs_of_runs(out)
    answers = record.behind.answers
    noisy_answers, other_answers = (
        [answer for answer in answers if (answer.shift == "N") == is_noisy]
        for is_noisy in (True, False)
    )
    rates = _rates(
        {name: entry for name, entry in record.resolved["methods"].items() if name != "start"}
    )
    assert rates == {"slow": 0.001, "fast": 0.02}
    ((figure, table),) = row_figures.trade(noisy_answers, other_answers, "start", rates)
    rows = figure.spec["datasets"]["rows"]
    assert len(rows) == len(pairs_by_run) == 7
    assert {row["g"] for row in rows} == {
        "before fine-tuning",
        "N (some classes)",
        "noise-all (every class)",
        "none (no class)",
    }
    for row in rows:
        seen_accuracies, unseen_accuracies = zip(*pairs_by_run[row["s"], row["m"]], strict=True)
        for key, values in (("y", seen_accuracies), ("x", unseen_accuracies)):
            interval = summary(values)
            assert row[key] == pytest.approx(interval.mean, abs=1e-4)
            assert interval.low is not None
            assert interval.high is not None
            assert (row[f"{key}0"], row[f"{key}1"]) == (
                pytest.approx(max(0, interval.low), abs=1e-4),
                pytest.approx(min(1, interval.high), abs=1e-4),
            )
    assert [row["t"] for row in rows if row["s"] == "none"] == ["0.001", "0.02"]
    assert [(row[0], row[3], row[5]) for row in table.rows] == [
        (row["m"], row["y"], row["x"]) for row in rows
    ]


def test_the_page_has_one_figure_of_the_trade(record: StudyRecord) -> None:
    page = study_page([record], "store")
    drawn = json.loads(page.split('id="figures">')[1].split("</script>")[0])["figures"]
    # No pair is kept apart under the other shifts.
    assert sum(name.startswith("trade-") for name in drawn) == 1


def test_methods_that_differ_in_more_than_the_rate_are_not_joined(record: StudyRecord) -> None:
    assert _rates({"a": {"training": {"lr": 0.1}}, "b": {"training": {"lr": 0.2}}}) == {}
    assert _rates({"a": {"method": "erm", "training": {"lr": 0.1}}, "b": {"method": "erm"}}) == {}
    noisy_answers = [answer for answer in record.behind.answers if answer.shift == "N"]
    moved_answers = [
        answer._replace(shift="M") for answer in noisy_answers
    ]  # a shift that shows some classes too has a figure of its own
    ((figure, _),) = row_figures.trade(noisy_answers, moved_answers, "", {})
    assert [(row["t"], row["l"]) for row in figure.spec["datasets"]["rows"]] == [
        ("start", 0),
        ("slow", 0),
        ("fast", 0),
    ]


def test_every_validation_set_is_followed_and_only_the_rules_own_set_chooses(
    out: Path, record: StudyRecord
) -> None:
    history: dict[tuple[str, str, str], list[list[float]]] = {}
    best: dict[tuple[str, str], list[int]] = {}
    with Store.open(out) as store:
        for labels, key in labelled(out):
            cell = labels["shift"], labels["method"]
            fit = next(need for need in store.run(key)["needs"] if store.run(need)["kind"] == "fit")
            entries = json.loads((artifact_folder(store.out, fit) / "history.json").read_text())
            for name in ("validation", "seen", "unseen"):
                history.setdefault((*cell, name), []).append(
                    [entry["validation"][name]["accuracy"] for entry in entries]
                )
            first = [entry["validation"]["validation"] for entry in entries]
            best.setdefault(cell, []).append(
                max(
                    range(len(first)),
                    key=lambda i: (first[i]["accuracy"], -first[i]["loss"], -entries[i]["step"]),
                )
            )
    curves = record.behind.curves
    assert len(curves) == len(history) == 7 * 3
    for curve in curves:
        means = np.mean(history[curve.shift, curve.method, curve.set], axis=0)
        assert list(curve.accuracy.values()) == pytest.approx(means.tolist())
        assert set(curve.chosen) == ({"best-id", "last"} if curve.set == "validation" else set())
        if curve.set == "validation":
            steps = list(curve.accuracy)
            chosen = [steps[position] for position in best[curve.shift, curve.method]]
            assert {step: chosen.count(step) for step in set(chosen)} == curve.chosen["best-id"]


def test_sets_of_seen_and_unseen_rows_come_apart_and_have_curves_on_the_page(
    record: StudyRecord,
) -> None:
    curves = record.behind.curves
    # The two sets are of other rows than each other: where noise tells the classes, they come
    # apart.
    apart = {
        curve.set: curve.accuracy[30]
        for curve in curves
        if (curve.shift, curve.method) == ("N", "fast")
    }
    assert apart["seen"] > apart["unseen"]
    figure, table = row_figures.curves(curves, ["N", "noise-all", "none"])
    assert {row["v"] for row in figure.spec["datasets"]["rows"]} == {"validation", "seen", "unseen"}
    accuracies = {
        (curve.shift, curve.method, curve.set, step): value
        for curve in curves
        for step, value in curve.accuracy.items()
    }
    assert {tuple(row[:4]): row[4] for row in table.rows} == pytest.approx(accuracies)
    page = study_page([record], "store")
    assert "Accuracy on validation, seen, unseen through training" in page


def test_of_many_lines_every_set_has_a_panel(
    record: StudyRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert row_figures.curves(record.behind.curves, ["N", "noise-all", "none"])[0].panels == 3
    monkeypatch.setattr(row_figures, "LINES", 8)
    figure, table = row_figures.curves(record.behind.curves, ["N", "noise-all", "none"])
    panels = {row["s"] for row in figure.spec["datasets"]["rows"]}
    assert panels == {
        f"{shift}: {name}" for shift in STUDY["shifts"] for name in ("validation", "seen", "unseen")
    }
    assert figure.panels == 9
    assert {row[0] for row in table.rows} == {"N", "noise-all", "none"}
