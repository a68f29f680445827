"""A search that halves trains its points a little, compares them, and trains the best of them on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.execution.engines.inline import Inline
from crosswind.execution.scheduler import drive
from crosswind.reports.gather import gather
from crosswind.reports.scores.notes import STOPPED_NOTE
from crosswind.reports.scores.results import arrange
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.leases import Driver
from crosswind.storage.run_recorder import RunRecorder
from crosswind.storage.store import Store
from crosswind.studies import halving
from crosswind.studies.axes import methods_of
from crosswind.studies.best_settings import best_points
from crosswind.studies.halving import rungs_of
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import study_from

STUDY: dict[str, Any] = {
    "name": "halved",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 10, "validation": 10},
        }
    },
    "shifts": {"none": []},
    "sizes": {"equal": {"total": 300}},
    "models": {"mlp": {"layers": 1, "hidden": 16}},
    "training": {"steps": 24, "batch": 16, "validate_every": 3, "patience": None},
    "methods": ["erm", "jtt"],
    "search": {"points": 5, "halving": {"factor": 2}},
    "selection": ["best-id", "last"],
    "seeds": 1,
}
EVERY_POINT = {**STUDY, "name": "whole", "search": {"points": 5}}


def executed(study_fields: Mapping[str, Any], out: Path) -> Plan:
    """A study that is run to its end in this process, in the store `out`."""
    plan = make_plan(study_from(dict(study_fields)))
    with (
        Store.open(out, create=True) as store,
        Inline("crosswind.execution.jobs:execute") as engine,
    ):
        resolved = plan.study.model_dump()
        store.add_plan(plan.study.name, dict(study_fields), resolved, plan.jobs)
        summary = drive(store, plan.jobs, engine)
        assert summary.failed == 0
    return plan


def fits_by_point(plan: Plan, out: Path, role: str = "fit") -> dict[tuple[str, str], list[Path]]:
    """The folders of the fits of each method and point."""
    folders: dict[tuple[str, str], list[Path]] = {}
    for job in plan.jobs:
        if job.labels.get("role") == role:
            point = str(job.labels["method"]), str(job.labels["point"])
            folders.setdefault(point, []).append(artifact_folder(out, job.key))
    return folders


def report(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "job.json").read_text())
    return read


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path, Plan, Path]:
    """A search that halves, and the same one that trains all points to the end."""
    halved, whole = (tmp_path_factory.mktemp(name) for name in ("halved", "whole"))
    return executed(STUDY, halved), halved, executed(EVERY_POINT, whole), whole


def test_rungs_leave_one_point_and_cost_what_they_say() -> None:
    rungs = rungs_of(27, 3, None)
    assert rungs.shares == pytest.approx((1 / 27, 1 / 9, 1 / 3))
    assert rungs.promoted == (9, 3, 1)
    by_hand = 27 / 27 + 9 * (1 / 9 - 1 / 27) + 3 * (1 / 3 - 1 / 9) + 1 * (1 - 1 / 3)
    assert rungs.cost(27) == pytest.approx(by_hand / 27)
    assert rungs_of(5, 2, None).promoted == (3, 2)
    assert rungs_of(10, 3, 1) == halving.Rungs((1 / 3,), (4,))
    assert rungs_of(2, 3, None).promoted == (1,)


@pytest.mark.slow
def test_points_that_go_on_are_those_of_the_best_validations_and_equal_runs_that_never_paused(
    stores: tuple[Plan, Path, Plan, Path],
) -> None:
    halved_plan, halved, whole_plan, whole = stores
    last_fits, whole_fits = fits_by_point(halved_plan, halved), fits_by_point(whole_plan, whole)
    assert last_fits.keys() == whole_fits.keys() and len(last_fits) == 2 * 5
    went_on = {"erm": 0, "jtt": 0}
    for point, (folder,) in last_fits.items():
        if "stopped" in report(folder):
            continue
        went_on[point[0]] += 1
        (whole_folder,) = whole_fits[point]
        with (
            np.load(folder / "predictions.npz") as paused,
            np.load(whole_folder / "predictions.npz") as straight,
        ):
            assert paused.files == straight.files and len(paused.files) > 4
            assert all(np.array_equal(paused[name], straight[name]) for name in paused.files)
    assert went_on == {"erm": 2, "jtt": 2}  # 5, 3 and 2 points
    rungs = fits_by_point(halved_plan, halved, "rung")
    for method in went_on:
        first_scores = {
            point: accuracy_at_rung(folders[0])
            for (name, point), folders in rungs.items()
            if name == method
        }
        best_three = sorted(first_scores, key=lambda point: -first_scores[point])[:3]
        trained_on = {
            point
            for (name, point), folders in rungs.items()
            if name == method and "stopped" not in report(folders[1])
        }
        assert trained_on == set(best_three)


def accuracy_at_rung(folder: Path) -> float:
    """The highest accuracy of a fit on its validation rows until it paused."""
    history = json.loads((folder / "history.json").read_text())
    assert history[-1]["step"] % 3 == 0
    return max(entry["validation"]["validation"]["accuracy"] for entry in history)


def test_stopped_points_are_scored_as_they_were_and_cost_fewer_steps(
    stores: tuple[Plan, Path, Plan, Path],
) -> None:
    halved_plan, halved, whole_plan, whole = stores
    with Store.open(halved) as store:
        halved_scores = store.results("halved")
        halved_steps = [run["cost"]["steps"] for run in store.runs("halved")]
    with Store.open(whole) as store:
        whole_steps = [run["cost"]["steps"] for run in store.runs("whole")]
        whole_scores = store.results("whole")
    assert len(halved_scores) == len(whole_scores) and len(halved_steps) == len(whole_steps) == 10
    assert all(isinstance(entry["metrics"]["accuracy"], float) for entry in halved_scores)
    # erm: two points pause at 6 of 24 steps, one at 12, two go to the end.
    assert sorted(halved_steps[:5]) == [6, 6, 12, 24, 24] and whole_steps[:5] == [24] * 5
    assert not any((halved / "rungs").iterdir())


@pytest.mark.slow
def test_a_killed_study_halves_as_an_undisturbed_one(
    stores: tuple[Plan, Path, Plan, Path], tmp_path: Path
) -> None:
    halved_plan, halved, _, _ = stores
    plan = make_plan(
        study_from({**STUDY, "training": {**STUDY["training"], "checkpoint_seconds": 0}})
    )
    assert [job.key for job in plan.jobs] == [job.key for job in halved_plan.jobs]
    rung_keys = [job.key for job in plan.jobs if job.labels.get("role") == "rung"]
    with (
        Store.open(tmp_path, create=True) as store,
        Inline("crosswind.execution.jobs:execute") as engine,
    ):
        store.add_plan("halved", STUDY, {}, plan.jobs)
        first = [
            job
            for job in plan.jobs
            if job.key in rung_keys[:5] or job.labels.get("role") == "promote"
        ][:6]
        drive(store, first, engine)
        # As on another machine, or after a kill between a pause and its record.
        shutil.rmtree(tmp_path / "rungs")
        drive(store, plan.jobs, engine)
        with Store.open(halved) as undisturbed:
            ours, theirs = (
                [
                    (entry["key"], entry["rule"], entry["set"], entry["metrics"])
                    for entry in of.results("halved")
                ]
                for of in (store, undisturbed)
            )
    assert ours == theirs


def test_states_that_nothing_goes_on_from_are_swept(
    stores: tuple[Plan, Path, Plan, Path], tmp_path: Path
) -> None:
    plan, halved, _, _ = stores
    out = tmp_path / "out"
    shutil.copytree(halved, out)
    first, last = (
        [job.key for job in plan.jobs if job.labels.get("role") == role] for role in ("rung", "fit")
    )
    needed = next(job.needs for job in plan.jobs if job.key == last[0])[1]
    unneeded = next(key for key in first if key != needed)
    with (
        Store.open(out, create=True) as store,
        Inline("crosswind.execution.jobs:execute") as engine,
    ):
        # As after a kill between the record of a fit and the removal of the state that it read.
        for key in (needed, unneeded):
            (out / "rungs" / f"{key}.safetensors").write_bytes(b"state")
        store.undo([last[0]])
        recorder = RunRecorder(store, Driver.current())
        recorder.enter()
        assert [file.stem for file in (out / "rungs").iterdir()] == [needed]
        recorder.leave()
        (out / "rungs" / f"{needed}.safetensors").unlink()
        assert drive(store, plan.jobs, engine).failed == 0
        (out / "rungs" / f"{needed}.safetensors").write_bytes(b"state")
        drive(store, plan.jobs, engine)
    assert not any((out / "rungs").iterdir())


def test_the_choice_of_a_search_that_halved_says_so(
    stores: tuple[Plan, Path, Plan, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, halved, _, whole = stores
    assert _status(["best", str(halved)]) == 0
    said = capsys.readouterr().out
    assert (
        "# the search halved: a point that was stopped" in said and "most runs come first" in said
    )
    assert _status(["best", str(halved), "--by-score"]) == 0
    assert "compared by score alone" in capsys.readouterr().out
    assert _status(["best", str(whole)]) == 0
    assert "halved" not in capsys.readouterr().out


def test_a_stopped_point_is_not_the_best_unless_scores_alone_are_asked_for() -> None:
    study = study_from({**STUDY, "methods": ["erm"], "search": {"points": 3}})
    points = [point for point, _, _ in methods_of(study)["erm"].points]
    # The first is stopped at both seeds, the second at one, the third at one: the best of these two.
    scores = [(points[0], 0.9, 0.9), (points[1], 0.6, 0.5), (points[2], 0.7, 0.8)]
    stopped = {points[0]: (1, 1), points[1]: (1, 0), points[2]: (0, 1)}
    rows = [
        {
            "rule": "best-id",
            "set": "validation",
            "method": "erm",
            "point": point,
            "metrics": {"accuracy": score} | ({"stopped": True} if is_stopped else {}),
        }
        for point, *point_scores in scores
        for score, is_stopped in zip(point_scores, stopped[point], strict=True)
    ]
    preferred = best_points(study, rows, "best-id")["erm"]
    assert (preferred.point, preferred.runs, preferred.ended) == (points[2], 2, 1)
    assert preferred.score == pytest.approx(0.75) and preferred.second == pytest.approx(0.55)
    by_score = best_points(study, rows, "best-id", by_score=True)["erm"]
    assert (by_score.point, by_score.ended) == (points[0], 0)


def test_a_report_says_how_many_points_were_trained_to_the_end(
    stores: tuple[Plan, Path, Plan, Path],
) -> None:
    _, halved, _, whole = stores
    texts = {}
    for name, out in (("halved", halved), ("whole", whole)):
        with Store.open(out) as store:
            rows = store.results(name)
            tables = gather(store, name).text_tables()
            texts[name] = "\n".join(table.to_text(400) for table in tables)
        n_stopped = sum(row["metrics"].get("stopped", False) for row in rows)
        n_runs = len({row["key"] for row in rows})
        assert (n_stopped * 10, n_runs) == ((6 * len(rows), 10) if name == "halved" else (0, 10))
    assert "5, 2 to the end" in texts["halved"] and STOPPED_NOTE[:40] in texts["halved"]
    assert "to the end" not in texts["whole"]


def test_a_report_chooses_a_stopped_point_only_where_none_was_trained_to_the_end() -> None:
    def scored(point: str, accuracy: float, stopped: bool) -> dict[str, Any]:
        metrics: dict[str, Any] = {"accuracy": accuracy, "nll": 1.0, "selected_step": 1}
        labels = {"study": "s", "data": "d", "shift": "none", "size": "all", "model": "m"}
        run = {**labels, "method": "erm", "point": point, "seed": 0, "status": "finished"}
        metrics |= {"stopped": True} if stopped else {}
        return {**run, "rule": "last", "set": "validation", "metrics": metrics}

    for last_stopped, chosen in ((False, "b"), (True, "a")):
        arranged = arrange([scored("a", 0.9, True), scored("b", 0.8, last_stopped)])
        (entry,) = next(iter(arranged.places.values())).entries.values()
        assert entry.chosen == {0: chosen} and entry.stopped == {0: 1 + last_stopped}


def test_weights_are_open_to_whoever_the_folder_is_open_to(
    stores: tuple[Plan, Path, Plan, Path],
) -> None:
    weights = list(stores[1].rglob("weights-*.safetensors"))
    assert weights
    for file in weights:
        assert file.stat().st_mode == (file.parent / "job.json").stat().st_mode


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"points": 4, "halving": {"factor": 1}}, "search.halving.factor"),
        ({"points": 4, "halving": {"rungs": 0}}, "search.halving.rungs"),
        ({"points": 4, "halving": {"share": 2}}, "search.halving.share"),
        ({"points": 4, "halving": {"factor": 2, "rungs": 3}}, "search.halving.rungs"),
    ],
)
def test_rungs_that_cannot_be_are_refused_by_name(search: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        make_plan(study_from({**STUDY, "search": search}))
    assert words in str(refused.value)


def test_a_plan_says_how_many_points_go_on_and_what_that_costs() -> None:
    notes = make_plan(study_from(STUDY)).notes
    assert (
        "search: of 5 points of a method go on 3 after 0.25 of the steps, 2 after 0.5 of the"
        " steps: 60% of the steps of training all to the end"
    ) in notes
    assert not any("go on" in note for note in make_plan(study_from(EVERY_POINT)).notes)


@pytest.mark.parametrize(
    ("steps", "validate_every", "says"),
    [
        (270, 10, "go on 9 after 0.037 of the steps, 3 after 0.111 of the steps, 1 after 0.333 of"),
        (
            4,
            2,
            "go on 9 after 0.5 of the steps, 3 after 0.5 of the steps, 1 after 0.5 of the steps, as"
            " validations are 2 steps apart: 52%",
        ),
        (100, 100, "1 after 1 of the steps, as validations are 100 steps apart: 100%"),
        (90, 7, "9 after 0.0778 of the steps, 3 after 0.156 of the steps, 1 after 0.389 of"),
    ],
)
def test_a_plan_counts_the_steps_up_to_the_validations_at_which_points_are_compared(
    steps: int, validate_every: int, says: str
) -> None:
    training = {"steps": steps, "validate_every": validate_every}
    search = {"points": 27, "halving": {"factor": 3}}
    study = {**STUDY, "search": search, "training": training, "methods": ["erm"]}
    (note,) = [note for note in make_plan(study_from(study)).notes if "go on" in note]
    assert says in note
    # By hand: each rung trains its points from the comparison before it to its own.
    at = [
        min(steps, -(-max(1, -(-steps // d)) // validate_every) * validate_every)
        for d in (27, 9, 3)
    ]
    done = [0, *at, steps]
    trained = sum(
        points * (done[rung + 1] - done[rung]) for rung, points in enumerate((27, 9, 3, 1))
    )
    assert f": {100 * trained / (27 * steps):.0f}% of the steps" in note
