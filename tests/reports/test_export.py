"""Export to tables and to TensorBoard, MLflow and W&B: what their own readers find there is what
the store holds."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import polars
import pytest

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError, NeedsError
from crosswind.reports import export as exports
from crosswind.storage.store import Store

pytestmark = pytest.mark.slow
STUDY = {
    "name": "exported",
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 8},
            "label": "half",
            "attributes": ["ink"],
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.1},
    },
    "sizes": {"small": {"total": 60}},
    "models": {"mlp": {"layers": 1}},
    "methods": ["erm", "groupdro"],
    "training": {"steps": 8, "batch": 16, "lr": 0.01, "validate_every": 4, "patience": None},
    "seeds": 2,
}
RUNS = 2 * 2 * 2


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "out"
    assert not cw.run_study(STUDY, folder).summary.failed
    return folder


@pytest.fixture(scope="module")
def accuracy(out: Path) -> dict[str, float]:
    """Of every run, by its key, the accuracy on the test set by the rule best-id."""
    with Store.open(out) as store:
        rows = [
            row
            for row in store.results("exported")
            if (row["rule"], row["set"]) == ("best-id", "test")
        ]
    return {row["key"]: row["metrics"]["accuracy"] for row in rows}


def clean(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: the clients start threads and warn of what is theirs."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def crosswind(folder: Path, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return clean(
        [sys.executable, "-c", "from crosswind.cli.main import main; main()", *map(str, words)],
        folder,
        **more,
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables(out: Path, tmp_path: Path, accuracy: dict[str, float], form: str) -> None:
    place = tmp_path / "new" / f"rows.{form}"
    assert _status(["export", str(out), str(place), "--to", form]) == 0
    frame = polars.read_csv(place) if form == "csv" else polars.read_parquet(place)
    assert frame.height == RUNS * 2 * 2  # two rules, two sets
    test = frame.filter((polars.col("rule") == "best-id") & (polars.col("set") == "test"))
    assert dict(zip(test["key"], test["accuracy"], strict=True)) == pytest.approx(accuracy)


def test_tensorboard(out: Path, tmp_path: Path, accuracy: dict[str, float]) -> None:
    done = crosswind(tmp_path, "export", out, "events", "--to", "tensorboard")
    assert done.returncode == 0 and f"{RUNS} runs written" in done.stdout, done.stderr
    reader = """
import json, sys
from pathlib import Path
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = {}
for folder in sorted(Path("events/exported").iterdir()):
    events = EventAccumulator(str(folder)).Reload()
    found[folder.name] = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
print(json.dumps(found))
"""
    read = clean([sys.executable, "-c", reader], tmp_path)
    found = json.loads(read.stdout.strip().splitlines()[-1])
    assert len(found) == RUNS and all(name.split("-")[0] in ("none", "SC") for name in found)
    for name, scalars in found.items():
        key = next(key for key in accuracy if key.startswith(name[-8:]))
        assert scalars["best-id/test/accuracy"][0][1] == pytest.approx(accuracy[key])
        assert (
            [step for step, _ in scalars["validation/accuracy"]]
            == [4, 8]
            == [step for step, _ in scalars["train/loss"]]
        )
    again = crosswind(tmp_path, "export", out, "events", "--to", "tensorboard")
    assert "0 runs written" in again.stdout


def test_a_full_disk_under_tensorboard_is_a_sentence_and_leaves_no_point_twice(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.summary.writer.record_writer import RecordWriter

    traces: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", traces.append)
    write, written_records = RecordWriter.write, []

    def full(writer: RecordWriter, record: bytes) -> None:
        written_records.append(record)
        if len(written_records) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(writer, record)

    with Store.open(out) as store:
        with monkeypatch.context() as patch:
            patch.setattr(RecordWriter, "write", full)
            with pytest.raises(InputError, match="cannot write .*: No space left on device"):
                exports.export(store, "exported", "tensorboard", str(tmp_path))
        assert not traces
        assert exports.export(store, "exported", "tensorboard", str(tmp_path)) == RUNS
    for folder in (tmp_path / "exported").iterdir():
        events = EventAccumulator(str(folder)).Reload().Scalars("validation/accuracy")
        assert [event.step for event in events] == [4, 8]


def test_mlflow(out: Path, tmp_path: Path, accuracy: dict[str, float]) -> None:
    done = crosswind(tmp_path, "export", out, "sqlite:///runs.db", "--to", "mlflow")
    assert done.returncode == 0 and f"{RUNS} runs written" in done.stdout, done.stderr
    reader = """
import json
from mlflow import MlflowClient
client = MlflowClient(tracking_uri="sqlite:///runs.db")
runs = client.search_runs([client.get_experiment_by_name("exported").experiment_id])
curve = [(item.step, item.value) for item in client.get_metric_history(runs[0].info.run_id, "validation/accuracy")]
print(json.dumps([[[run.data.tags, run.data.metrics, run.data.params, run.info.status] for run in runs], curve]))
"""
    runs, curve = json.loads(
        clean([sys.executable, "-c", reader], tmp_path).stdout.strip().splitlines()[-1]
    )
    assert {
        tags["crosswind.key"]: metrics["best-id/test/accuracy"] for tags, metrics, _, _ in runs
    } == pytest.approx(accuracy)
    assert all(
        params["training.steps"] == "8" and state == "FINISHED" for _, _, params, state in runs
    )
    assert {params["method"] for _, _, params, _ in runs} == {"erm", "groupdro"} and [
        step for step, _ in curve
    ] == [4, 8]
    again = crosswind(tmp_path, "export", out, "sqlite:///runs.db", "--to", "mlflow")
    assert "0 runs written" in again.stdout
    wrong = crosswind(tmp_path, "export", out, "nonsense://x", "--to", "mlflow")
    assert (
        wrong.returncode == 2
        and len(wrong.stderr.strip().splitlines()) == 1
        and "PLACE: mlflow does not take" in wrong.stderr
    )


def test_wandb_offline(out: Path, tmp_path: Path, accuracy: dict[str, float]) -> None:
    done = crosswind(
        tmp_path,
        "export",
        out,
        "project",
        "--to",
        "wandb",
        WANDB_MODE="offline",
        WANDB_SILENT="true",
    )
    assert done.returncode == 0 and f"{RUNS} runs written" in done.stdout, done.stderr
    folders = sorted((tmp_path / "wandb").glob("offline-run-*"))
    assert sorted(folder.name.rsplit("-", 1)[1] for folder in folders) == sorted(accuracy)
    # A run's record is in W&B's own form; its numbers stand there as text.
    for folder in folders:
        content = next(folder.glob("run-*.wandb")).read_bytes()
        key = folder.name.rsplit("-", 1)[1]
        assert b"best-id/test/accuracy" in content and b"validation/accuracy" in content
        assert json.dumps(accuracy[key]).encode() in content


def test_what_does_not_fit_is_one_sentence(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    with Store.open(out) as store:
        with pytest.raises(
            InputError, match="unknown target 'exel'.*csv, parquet, tensorboard, mlflow, wandb"
        ):
            exports.export(store, "exported", "exel", "x")
        with pytest.raises(InputError, match="'rows.txt' is no FILE.csv"):
            exports.export(store, "exported", "csv", "rows.txt")
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match="PLACE: cannot write"):
            exports.export(store, "exported", "csv", str(tmp_path / "file" / "rows.csv"))
        monkeypatch.setitem(sys.modules, "wandb", None)
        with pytest.raises(NeedsError, match=r"pip install 'crosswind\[wandb\]'"):
            exports.export(store, "exported", "wandb", "x")
    assert _status(["export", str(out), "x", "--to", "exel"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_database_that_mlflow_cannot_write_is_one_sentence(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError

    def full(store: Store, study: str, destination: str) -> int:
        raise OperationalError("CREATE TABLE experiments", {}, Exception("disk is full"))

    monkeypatch.setitem(exports.TARGETS, "mlflow", ("TRACKING-URI", full))  # type: ignore[misc]
    with (
        Store.open(out) as store,
        pytest.raises(
            InputError, match="^PLACE: mlflow does not take 'sqlite:///m': disk is full$"
        ),
    ):
        exports.export(store, "exported", "mlflow", "sqlite:///m")


def test_a_server_that_does_not_answer_is_not_waited_for(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    began = time.monotonic()
    with (
        Store.open(out) as store,
        pytest.raises(InputError, match="http://127.0.0.1:1: Connection"),
    ):
        exports.export(store, "exported", "mlflow", "http://127.0.0.1:1")
    assert time.monotonic() - began < 60


def test_a_disk_that_is_full_leaves_the_earlier_table(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "rows.csv"
    with Store.open(out) as store:
        exports.export(store, "exported", "csv", str(table))
        before = table.read_bytes()

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("crosswind.core.files.os.fsync", full)
        with pytest.raises(InputError, match="PLACE: cannot write .*: No space left on device"):
            exports.export(store, "exported", "csv", str(table))
    assert table.read_bytes() == before


def test_a_run_whose_files_are_gone_still_has_its_scores(out: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    for path in copy.glob("artifacts/*/*/history.json"):
        path.unlink()
    with Store.open(copy) as store:
        runs = list(exports.exported_runs(store, "exported"))
    assert len(runs) == RUNS and all(
        run.curve == [] and run.settings and run.scores for run in runs
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_that_is_no_table_of_the_study_is_left_as_it_is(
    out: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / f"runs.{form}"
    words = ["export", str(out), str(table), "--to", form]
    assert _status(words) == 0
    assert _status(words) == 0, "an earlier table of the study is written anew"
    capsys.readouterr()
    other_study = polars.DataFrame({name: ["other"] for name in ("study", "key", "rule", "set")})
    different = (b"id,label\n1,yes\n", b"", other_study.write_csv().encode())
    for content in different:
        table.write_bytes(content)
        assert _status(words) == 2
        assert "is there already and is no table of the study exported" in capsys.readouterr().err
        assert table.read_bytes() == content
