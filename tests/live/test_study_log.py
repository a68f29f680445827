"""A study is logged while it runs: what the tools' own readers find is what the store holds, and no
tool stops or holds a study."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from crosswind.cli.main import _status
from crosswind.execution.running import run_plan
from crosswind.live import study_log
from crosswind.live.study_log import StudyLog
from crosswind.live.trackers import LoggedRun, TensorboardTracker, WandbTracker
from crosswind.reports.export import LIVE_MARK
from crosswind.storage.store import Store
from crosswind.studies.plan import Plan, plan_of

STUDY: dict[str, Any] = {
    "name": "logged",
    "data": {
        "digits": {
            "source": "digits",
            "label": "half",
            "attributes": ["ink"],
            "roles": {"test": 10, "validation": 0.2},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "strength": 0.8},
    },
    "sizes": {"small": {"total": 90}},
    "models": {"mlp": {"hidden": 8, "layers": 1}},
    "methods": ["erm", "groupdro"],
    "training": {"steps": 6, "batch": 16, "validate_every": 2},
    "seeds": 1,
}
RUNS = 4
Call = tuple[str, str, Any, Mapping[str, float]]


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump({**STUDY, **changes}, sort_keys=False), encoding="utf-8")
    return file


class Notebook:
    """A tool that keeps what it is told, in order, and may fail at one kind of call."""

    def __init__(self, fails_at: str = "") -> None:
        self.calls: list[Call] = []
        self._fails_at = fails_at

    def _note(self, kind: str, key: str, when: Any, values: Mapping[str, float]) -> None:
        self.calls.append((kind, key, when, dict(values)))
        if kind == self._fails_at:
            raise ConnectionError("the server\nis gone")

    def curve(self, run: LoggedRun, step: int, values: Mapping[str, float]) -> None:
        self._note("curve", run.key, step, values)

    def ended(self, run: LoggedRun, status: str, scores: Mapping[str, float]) -> None:
        self._note("ended", run.key, status, scores)

    def progress(self, seconds: int, values: Mapping[str, float]) -> None:
        self._note("progress", "", seconds, values)

    def close(self) -> None:
        self._note("close", "", None, {})


def run_with(plan: Plan, out: Path, *tools: Any, workers: int = 0) -> list[str]:
    """Run a plan with tools, in this process (which reports no step) or in workers; what was warned
    of."""
    warnings: list[str] = []
    with Store.open(out, create=True) as store, Store.open(out) as reading:
        named = [(f"tool {number}", tool) for number, tool in enumerate(tools)]
        resolved = plan.study.model_dump()
        with StudyLog(named, reading, "logged", resolved, plan.jobs, warnings.append) as log:
            assert not run_plan(plan, store, workers=workers, on_event=log.tell).stopped
    return warnings


def of_kind(tool: Notebook, kind: str) -> list[Call]:
    return [call for call in tool.calls if call[0] == kind]


def check_calls(calls: list[Any], score_rows: list[dict[str, Any]]) -> None:
    """Compare what a tool was told of one run with the scores of the store."""
    # A worker reports at most every quarter of a second; what it did not is there at the end.
    assert calls[0][2] == 2
    assert set(calls[0][3]) == {"validation/accuracy"}
    curve_points = [(step, name) for _, _, step, values in calls[:-1] for name in values]
    assert len(curve_points) == len(set(curve_points))
    for name in ("validation/accuracy", "train/loss"):
        assert sorted(step for step, measured in curve_points if measured == name) == [2, 4, 6]
    kind, _, status, scores = calls[-1]
    assert (kind, status) == ("ended", "finished")
    for row in score_rows:
        assert scores[f"{row['rule']}/{row['set']}/accuracy"] == row["metrics"]["accuracy"]


@pytest.mark.slow
def test_a_run_is_told_of_while_it_trains_and_whole_at_its_end(tmp_path: Path) -> None:
    plan, tool = plan_of(str(written(tmp_path))), Notebook()
    assert run_with(plan, tmp_path / "out", tool, workers=1) == []
    with Store.open(tmp_path / "out") as store:
        score_rows = store.results("logged")
    for key in {score_row["key"] for score_row in score_rows}:
        check_calls(
            [call for call in tool.calls if call[1] == key],
            [score_row for score_row in score_rows if score_row["key"] == key],
        )
    # the first run's curve came before the second run's end, and so on: nothing waits for the end
    ends = [call_number for call_number, call in enumerate(tool.calls) if call[0] == "ended"]
    starts = [call_number for call_number, call in enumerate(tool.calls) if call[2] == 2]
    assert len(ends) == RUNS
    assert starts[-1] > ends[0]
    assert of_kind(tool, "progress")[-1][3]["study/done"] == RUNS
    assert tool.calls[-1][0] == "close"


def test_a_tool_that_fails_is_warned_of_once_and_stops_neither_study_nor_other_tool(
    tmp_path: Path,
) -> None:
    plan = plan_of(str(written(tmp_path)))
    failing, working = Notebook("curve"), Notebook()
    (warning,) = run_with(plan, tmp_path / "out", failing, working)
    assert warning.startswith("tool 0 gets no more of this study")
    assert "(ConnectionError: the server is gone)" in warning
    assert "\n" not in warning
    assert len(of_kind(failing, "curve")) == 1
    assert not of_kind(failing, "ended")
    assert len(of_kind(working, "ended")) == RUNS
    with Store.open(tmp_path / "out") as store:
        assert store.counts("logged")["finished"] == RUNS


def test_a_tool_that_never_answers_holds_a_study_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    class Silent(Notebook):
        def progress(self, seconds: int, values: Mapping[str, float]) -> None:
            answered.wait(60)

    plan, working = plan_of(str(written(tmp_path))), Notebook()
    out = tmp_path / "out"
    monkeypatch.setattr(study_log, "CLOSE_SECONDS", 0.0)
    warnings: list[str] = []
    try:
        with Store.open(out, create=True) as store, Store.open(out) as reading:
            named = [("silent", Silent()), ("other", working)]
            resolved = plan.study.model_dump()
            log = StudyLog(named, reading, "logged", resolved, plan.jobs, warnings.append)
            run_plan(plan, store, on_event=log.tell)
            close_began = time.monotonic()
            log.close(3.0)
            assert time.monotonic() - close_began < 20
            assert store.counts("logged")["finished"] == RUNS
    finally:
        answered.set()
    assert [warning.split()[0] for warning in warnings] == ["silent"]
    assert len(of_kind(working, "ended")) == RUNS


@pytest.mark.slow
def test_runs_that_were_done_before_are_left_to_export_and_failed_ones_are_told_of(
    tmp_path: Path,
) -> None:
    first = plan_of(str(written(tmp_path, methods=["erm"])))
    with Store.open(tmp_path / "out", create=True) as store:
        run_plan(first, store)
    done = {job.key for job in first.runs}
    plan, tool = plan_of(str(written(tmp_path))), Notebook()
    run_with(plan, tmp_path / "out", tool)
    ended = {call[1] for call in of_kind(tool, "ended")}
    assert ended == {job.key for job in plan.runs} - done
    assert len(ended) == 2
    late = plan_of(str(written(tmp_path, seeds=2, time_limit=0.0001)))
    slow = Notebook()
    run_with(late, tmp_path / "out", slow)
    failed = [call for call in of_kind(slow, "ended") if call[2] == "failed"]
    assert len(failed) == RUNS == len({call[1] for call in failed})
    assert all(call[3] == {} for call in failed)


def test_rho_beside_another_run_is_left_to_the_report(tmp_path: Path) -> None:
    methods = {"erm": {}, "before": {"method": "erm", "training": {"steps": 0}}}
    plan = plan_of(str(written(tmp_path, methods=methods)))
    tool = Notebook()
    with Store.open(tmp_path / "out", create=True) as store, Store.open(tmp_path / "out") as read:
        resolved = plan.study.model_dump()
        log = StudyLog([("tool", tool)], read, "logged", resolved, plan.jobs, print)
        assert log._left_out == {"rho"}
        run_plan(plan, store, on_event=log.tell)
        log.close()
    for call in of_kind(tool, "ended"):
        assert call[3]
        assert not any(name.endswith("/rho") for name in call[3])


def clean(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: the clients start threads and warn of what is theirs."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def crosswind(
    folder: Path, *words: str | Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    program = "from crosswind.cli.main import main; main()"
    return clean([sys.executable, "-c", program, *map(str, words)], folder, **variables)


READER = """
import json
from pathlib import Path
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from mlflow import MlflowClient
board = {}
for folder in sorted(Path("out/tensorboard/logged").iterdir()):
    events = EventAccumulator(str(folder)).Reload()
    board[folder.name] = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
client = MlflowClient(tracking_uri="sqlite:///runs.db")
runs = client.search_runs([client.get_experiment_by_name("logged").experiment_id])
curves = [[(item.step, item.value) for item in client.get_metric_history(run.info.run_id, "validation/accuracy")] for run in runs]
logged = [[run.data.tags, run.data.metrics, run.data.params, run.info.status] for run in runs]
print(json.dumps([board, [[*entry, curve] for entry, curve in zip(logged, curves)]]))
"""


def check_tensorboard(
    board: dict[str, dict[str, Any]], accuracy: dict[str, float], folder: Path
) -> None:
    for name, scalars in board.items():
        key = next(key for key in accuracy if key.startswith(name[-8:]))
        assert scalars["best-id/test/accuracy"][0][1] == pytest.approx(accuracy[key])
        for tag in ("validation/accuracy", "train/loss"):
            assert [step for step, _ in scalars[tag]] == [2, 4, 6]
        assert not (folder / "out/tensorboard/logged" / name / LIVE_MARK).exists()


def check_mlflow(runs: list[Any], accuracy: dict[str, float]) -> None:
    of_runs = [entry for entry in runs if "crosswind.key" in entry[0]]
    assert len(of_runs) == RUNS == len(runs) - 1
    measured = {
        tags["crosswind.key"]: metrics["best-id/test/accuracy"] for tags, metrics, *_ in of_runs
    }
    assert measured == pytest.approx(accuracy)
    for _, _, params, state, curve in of_runs:
        assert (params["training.steps"], state) == ("6", "FINISHED")
        assert [step for step, _ in curve] == [2, 4, 6]


def check_wandb(folder: Path, accuracy: dict[str, float]) -> None:
    folders = {path.name.rsplit("-", 1)[1]: path for path in folder.glob("wandb/offline-*")}
    assert len(folders) == RUNS + 1
    assert set(accuracy) < set(folders)
    for key, value in accuracy.items():
        content = next(folders[key].glob("run-*.wandb")).read_bytes()
        assert b"best-id/test/accuracy" in content
        assert json.dumps(value).encode() in content


@pytest.mark.slow
def test_the_tools_own_readers_find_what_the_store_holds(tmp_path: Path) -> None:
    written(tmp_path)
    logs = ("--log", "tensorboard", "--log", "mlflow=sqlite:///runs.db", "--log", "wandb=mine")
    command = ("run", "study.yaml", "--out", "out", "--workers", "1")
    done = crosswind(tmp_path, *command, *logs, WANDB_MODE="offline")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    assert "wandb" not in done.stdout
    with Store.open(tmp_path / "out") as store:
        accuracy = {
            row["key"]: row["metrics"]["accuracy"]
            for row in store.results("logged")
            if (row["rule"], row["set"]) == ("best-id", "test")
        }
    read = clean([sys.executable, "-c", READER], tmp_path)
    board, runs = json.loads(read.stdout.strip().splitlines()[-1])
    assert board.pop("progress")["study/done"][-1][1] == RUNS == len(board)
    check_tensorboard(board, accuracy, tmp_path)
    check_mlflow(runs, accuracy)
    check_wandb(tmp_path, accuracy)
    # `export` to the same places finds everything there.
    for tool, tool_store in (("tensorboard", "out/tensorboard"), ("mlflow", "sqlite:///runs.db")):
        again = crosswind(tmp_path, "export", "out", tool_store, "--to", tool)
        assert "0 runs written" in again.stdout, again.stderr


def test_the_progress_of_a_study_that_is_gone_on_with_does_not_begin_anew(tmp_path: Path) -> None:
    plan, tools = plan_of(str(written(tmp_path))), (Notebook(), Notebook())
    assert run_with(plan, tmp_path / "out", tools[0]) == []
    engine = sqlite3.connect(tmp_path / "out" / "store.sqlite")
    with engine:
        engine.execute("UPDATE studies SET created = created - 1000")
    engine.close()
    assert run_with(plan, tmp_path / "out", tools[1]) == []
    first, second = ([call[2] for call in of_kind(tool, "progress")] for tool in tools)
    assert 0 <= first[0] < 500 and second[0] >= 1000
    assert all(seconds == sorted(seconds) for seconds in (first, second))


def test_a_run_that_tensorboard_was_left_with_is_begun_anew(tmp_path: Path) -> None:
    run = LoggedRun("0123456789", "SC, erm", {"method": "erm"}, {"training.steps": 6})
    left = TensorboardTracker(str(tmp_path), "study")
    left.curve(run, 2, {"validation/accuracy": 0.5})
    left.close()
    folder = tmp_path / "study" / "SC-erm-01234567"
    assert (folder / LIVE_MARK).exists()
    earlier = {file.name for file in folder.glob("events*")}
    again = TensorboardTracker(str(tmp_path), "study")
    again.curve(run, 2, {"validation/accuracy": 0.5})
    again.ended(run, "finished", {"best-id/test/accuracy": 0.5})
    again.close()
    assert not (folder / LIVE_MARK).exists()
    assert earlier
    assert not earlier & {file.name for file in folder.glob("events*")}


@pytest.mark.slow
def test_points_that_came_late_stand_by_their_steps_in_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run = LoggedRun("0123456789", "SC, erm", {"method": "erm"}, {})
    tracker = TensorboardTracker(str(tmp_path), "study")
    for step in (2, 6):  # as the run reports them, and 4 only at its end
        tracker.curve(run, step, {"validation/accuracy": step / 10})
    tracker.curve(run, 4, {"validation/accuracy": 0.4, "train/loss": 1.0})
    tracker.ended(run, "finished", {"best-id/test/accuracy": 0.5})
    tracker.close()
    code = """
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]).Reload()
print([(event.step, round(event.value, 3)) for event in events.Scalars("validation/accuracy")])
print(len(events.Scalars("train/loss")), len(events.Scalars("best-id/test/accuracy")))
"""
    folder = tmp_path / "study" / "SC-erm-01234567"
    shown = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines() == ["[(2, 0.2), (4, 0.4), (6, 0.6)]", "1 1"]
    assert not (folder / LIVE_MARK).exists()


@pytest.mark.slow
def test_what_cannot_be_logged_to_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = written(tmp_path), tmp_path / "out"
    monkeypatch.setitem(sys.modules, "wandb", None)
    for words, sentence in (
        (["tensorbord"], "--log: unknown tool 'tensorbord', did you mean 'tensorboard'"),
        (["tensorboard", "tensorboard=x"], "--log: tensorboard is named twice"),
        (["mlflow="], "--log: mlflow= names no place"),
        (["wandb"], "--log wandb needs its client, which is not installed: pip install 'crossw"),
        (["mlflow=nonsense://x"], "--log: mlflow does not take 'nonsense://x'"),
    ):
        options = [option for word in words for option in ("--log", word)]
        assert _status(["run", str(file), "--out", str(out), *options]) == 2
        printed = capsys.readouterr()
        assert sentence in printed.err
        assert len(printed.err.strip().splitlines()) == 1
        assert not printed.out
        assert not out.exists()


def test_wandb_runs_are_open_at_once_and_count_steps_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a small module in the place of wandb: what a run says when it is begun is not read back
    offline."""
    begun: list[dict[str, Any]] = []

    class Run:
        def __init__(self, fields: dict[str, Any]) -> None:
            self.summary: dict[str, Any] = {}
            self.fields = {**fields, "logged": [], "run": self}
            begun.append(self.fields)

        def define_metric(self, name: str, step_metric: str) -> None:
            self.fields["metric"] = (name, step_metric)

        def log(self, values: dict[str, Any]) -> None:
            self.fields["logged"].append(values)

        def finish(self, exit_code: int = 0) -> None:
            self.fields["exit"] = exit_code

    module = type(sys)("wandb")
    module.init = lambda **fields: Run(fields)  # type: ignore[attr-defined]
    module.Settings = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    tracker = WandbTracker("mine", "study")
    runs = [LoggedRun(key, key, {"method": "erm"}, {}) for key in ("a", "b")]
    for run in runs:
        tracker.curve(run, 4, {"validation/accuracy": 0.5})
    for run in runs:
        tracker.curve(run, 2, {"validation/accuracy": 0.25, "train/loss": 1.0})
    tracker.ended(runs[0], "finished", {"best-id/test/accuracy": 0.75})
    tracker.ended(runs[1], "failed", {})
    tracker.close()
    assert [fields["id"] for fields in begun] == ["a", "b"]
    assert {fields["reinit"] for fields in begun} == {"create_new"}
    assert begun[0]["metric"] == ("*", "step")
    assert begun[0]["project"] == "mine"
    assert [entry["step"] for entry in begun[0]["logged"]] == [4, 2]
    # Of the last step, though a point before it was filled in later.
    curve = {"step": 4, "validation/accuracy": 0.5, "train/loss": 1.0}
    scores = {"best-id/test/accuracy": 0.75, "status": "finished"}
    assert begun[0]["run"].summary == {**curve, **scores}
    assert [fields["exit"] for fields in begun] == [0, 1]
