import contextlib
import hashlib
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy

from crosswind.cli.main import _status
from crosswind.core.errors import StoreError
from crosswind.core.types import Job, digest
from crosswind.storage import database
from crosswind.storage.artifacts import artifact_folder, checkpoint_folder, staging_folder
from crosswind.storage.leases import Driver, machine
from crosswind.storage.run_recorder import RunRecorder
from crosswind.storage.store import FILE_NAME, Store, split_name

RESULT = {
    "status": "finished",
    "scores": [
        {"rule": "last", "set": "test", "metrics": {"accuracy": 0.5, "nll": float("nan")}},
        {
            "rule": "best-id",
            "set": "test",
            "metrics": {"accuracy": 0.75, "groups": {"a": {"n": 3}}},
        },
    ],
    "cost": {"seconds": 1.5},
    "warnings": ["few rows"],
    "versions": {"python": "3"},
}


def plan(n, **more):
    return [
        Job(digest([i, more]), {"i": i, **more}, {"method": f"m{i}", "seed": i}) for i in range(n)
    ]


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "out", create=True) as store:
        yield store


@pytest.fixture
def recorder(store):
    recorder = RunRecorder(store, Driver.current())
    recorder.enter()
    yield recorder
    recorder.leave()


@contextlib.contextmanager
def read_only(folder):
    """`folder` mounted read-only, which binds root as well."""
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "--bind", folder, folder], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("only root can mount a folder read-only")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


# --- plans and results
# --------------------------------------------------------------------------------------------------


def test_a_plan_comes_back_in_its_order(store):
    runs = plan(5)[::-1]
    store.add_plan("first", "given: text", {"resolved": 1}, runs)
    store.add_plan("second", {}, {}, runs[:2])
    assert store.study_names() == ["first", "second"]
    assert store.study("first")["given"] == "given: text" and store.study("first")["resolved"] == {
        "resolved": 1
    }
    assert [run["key"] for run in store.runs("first")] == [run.key for run in runs]
    assert [run["labels"] for run in store.runs("first")] == [dict(run.labels) for run in runs]
    expected = {"pending": 5, "running": 0, "finished": 0, "diverged": 0, "failed": 0, "total": 5}
    assert store.counts("first") == expected == store.counts()
    with pytest.raises(StoreError, match="unknown study 'frst', did you mean 'first'"):
        store.counts("frst")


def test_a_study_planned_again_keeps_what_is_done(store, recorder):
    runs = plan(3)
    store.add_plan("study", {}, {}, runs)
    assert recorder.claim(runs[0].key) and recorder.finished(runs[0].key, RESULT, 2.0)
    store.add_plan("study", {"v": 2}, {}, [runs[2], runs[0], *plan(1, other=True)])
    assert store.counts("study") == {
        "pending": 2,
        "running": 0,
        "finished": 1,
        "diverged": 0,
        "failed": 0,
        "total": 3,
    }
    assert store.study("study")["given"] == {"v": 2}
    assert store.counts()["total"] == 4  # the run that no study lists any more is still there


def test_results_have_one_entry_a_rule_and_set(store, recorder):
    runs = plan(3)
    store.add_plan("study", {}, {}, runs)
    assert recorder.claim(runs[1].key) and recorder.finished(runs[1].key, RESULT, 2.0)
    assert recorder.claim(runs[2].key) and recorder.failed(
        runs[2].key, "the\nreason\0", "the trace"
    )
    rows = store.results("study")
    assert [(row["method"], row["seed"], row["rule"], row["status"]) for row in rows] == [
        ("m0", 0, None, "pending"),
        ("m1", 1, "last", "finished"),
        ("m1", 1, "best-id", "finished"),
        ("m2", 2, None, "failed"),
    ]
    assert (
        rows[2]["metrics"] == RESULT["scores"][1]["metrics"]
        and rows[2]["seconds"] == 2.0
        and rows[2]["attempts"] == 1
    )
    assert math.isnan(rows[1]["metrics"]["nll"])
    assert rows[3]["reason"] == "the reason" and rows[3]["metrics"] == {}
    assert len(store.results("study", unscored=False)) == 2
    record = store.run(runs[2].key[:8])
    assert record["detail"] == "the trace" and record["studies"] == [
        {"study": "study", "labels": {"method": "m2", "seed": 2}}
    ]


def test_what_a_study_counts_and_shows_are_scores(store, recorder):
    fit, predict = (Job(key, {}, {"method": key}, kind=key) for key in ("fit0", "predict"))
    score = Job("score", {}, {"method": "m"}, (fit.key, predict.key))
    store.add_plan("study", {}, {}, [fit, predict, score])
    number, listed = (
        {"rule": "last", "set": "test", "metrics": {"error": 0.25}},
        {"metrics": {"exits": [1, 2]}},
    )
    for job, scores in ((fit, []), (predict, []), (score, [number, {**number, **listed}])):
        assert recorder.claim(job.key) and recorder.finished(
            job.key, {"status": "finished", "scores": scores}, 1.0
        )
    rows = store.results("study", without=["groups", "nll"])
    assert [(row["kind"], row["metrics"]) for row in rows] == [
        ("score", {"error": 0.25}),
        ("score", {"exits": [1, 2]}),
    ]
    assert [run["kind"] for run in store.runs("study")] == ["score"] and store.counts("study")[
        "total"
    ] == 1
    assert store.run("fit0")["kind"] == "fit0" and store.run("score")["needs"] == [
        "fit0",
        "predict",
    ]


def test_a_network_that_is_being_trained_is_told_of_while_its_runs_are_pending(
    store, recorder, capsys
):
    fit = Job("fit0", {}, {}, kind="fit")
    scores = [Job(f"score{i}", {}, {}, (fit.key,)) for i in range(2)]
    store.add_plan("study", {}, {}, [fit, *scores])
    store.add_plan("other", {}, {}, plan(1))
    assert store.jobs_at_work("study") == 0
    assert recorder.claim(fit.key)
    assert store.jobs_at_work("study") == 1 and store.jobs_at_work("other") == 0
    assert store.jobs_at_work("study", with_runs=True) == 1
    assert store.jobs_at_work("study", live=set()) == 0
    assert _status(["status", str(store.out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "study study: 2 runs: 2 pending, 1 job at work for them",
        "study other: 1 run: 1 pending",
    ]
    recorder.leave()  # as a driver that died leaves it
    assert store.jobs_at_work("study") == 0


@pytest.mark.parametrize("odd", ["text", [0.5], {"a": 1}])
def test_a_metric_is_of_one_kind_in_all_results(odd, store, recorder):
    runs = plan(2)
    store.add_plan("study", {}, {}, runs)
    for run, value in zip(runs, (0.5, odd), strict=True):
        score = {
            "rule": "last",
            "set": "test",
            "metrics": {"novel": value, "loss": None, "count": 3},
        }
        assert recorder.claim(run.key) and recorder.finished(
            run.key, {"status": "finished", "scores": [score]}, 1.0
        )
    with pytest.raises(
        StoreError,
        match="is damaged: novel is a number in one result and a (text|list|mapping) in another",
    ):
        store.results("study")
    assert len(store.results("study", without=["novel"])) == 2


def test_a_run_that_two_studies_plan_is_one_run(store, recorder):
    run = plan(1)[0]
    for study in ("a", "b"):
        store.add_plan(study, {}, {}, [Job(run.key, run.spec, {"method": study})])
    assert recorder.claim(run.key) and recorder.finished(run.key, RESULT, 1.0)
    assert [row["method"] for study in ("a", "b") for row in store.results(study)] == [
        "a",
        "a",
        "b",
        "b",
    ]
    assert len(store.run(run.key)["studies"]) == 2


def test_a_run_is_found_by_the_beginning_of_its_key(store, recorder):
    keys = ["aaaa1111", "aaaa2222", "bbbb", "bbbbcccc"]
    store.add_plan("study", {}, {}, [Job(key, {"key": key}, {}) for key in keys])
    assert store.run("aaaa1")["spec"] == store.run("AAAA1")["spec"] == {"key": "aaaa1111"}
    assert store.run("bbbb")["key"] == "bbbb"  # a whole key is not ambiguous
    for prefix, problem in {
        "aaaa": "more than one",
        "c": "no run",
        "%": "no run",
        "aaaa_": "no run",
    }.items():
        with pytest.raises(StoreError, match=problem):
            store.run(prefix)
    assert store.run("bbbbc")["artifacts"] is None
    assert split_name("some#where#ab12") == ("some#where", "ab12")
    for name in ("nothing", "#ab", "where#"):
        with pytest.raises(StoreError, match="STORE#KEY"):
            split_name(name)


@pytest.mark.slow
def test_runs_are_added_many_by_one_statement(store):
    runs = plan(10_000, padding="x" * 1500)
    statements = []
    sqlalchemy.event.listen(
        store._engine, "before_cursor_execute", lambda *call: statements.append(call[2])
    )
    for _ in range(2):
        statements.clear()
        store.add_plan("study", {}, {}, runs)
        assert 1 <= len(statements) <= 100
    assert store.counts("study")["pending"] == 10_000
    assert len(store.statuses(run.key for run in runs)) == 10_000


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_a_study_needs_a_name_that_every_database_takes(name, store):
    with pytest.raises(StoreError, match="cannot be the name of a study"):
        store.add_plan(name, {}, {}, [])


# --- claiming and recording
# --------------------------------------------------------------------------------------------------


def test_of_many_that_claim_a_run_one_gets_it(store):
    runs = plan(30)
    store.add_plan("study", {}, {}, runs)
    recorders = [RunRecorder(store, Driver.current()) for _ in range(6)]
    for recorder in recorders:
        recorder.enter()
    got = []
    threads = [
        threading.Thread(
            target=lambda own=own: got.extend(run.key for run in runs if own.claim(run.key))
        )
        for own in recorders
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(run.key for run in runs)
    assert {run["attempts"] for run in store.runs("study")} == {1}
    for recorder in recorders:
        recorder.leave()
    assert store.counts("study")["pending"] == 30
    assert {run["attempts"] for run in store.runs("study")} == {0}


def known(store, host, pid, start, heartbeat):
    driver = Driver(f"driver-{pid}-{heartbeat}", host, pid, start)
    with store.transaction() as connection:
        values = {"id": driver.id, "host": host, "pid": pid, "start": start, "heartbeat": heartbeat}
        connection.execute(database.drivers.insert().values(values))
    return driver


def test_the_runs_of_dead_drivers_are_pending_again_at_no_cost(store, recorder):
    runs = plan(4)
    store.add_plan("study", {}, {}, runs)
    drivers = [
        known(store, machine(), 2**22 + 5, "1", time.time()),  # no such process
        known(store, machine(), os.getppid(), "1", time.time()),  # another process with its number
        known(store, "far away", 1, "1", time.time() - 61),
        known(store, "far away", 2, "1", time.time() - 40),  # lives
    ]
    for run, driver in zip(runs, drivers, strict=True):
        assert RunRecorder(store, driver).claim(run.key)
    assert (
        store.counts("study")["running"] == 1
    )  # also before anybody has written that the others are dead
    assert [run["status"] for run in store.runs("study")] == [
        "pending",
        "pending",
        "pending",
        "running",
    ]
    assert recorder.reclaim() == 3
    assert [(run["status"], run["attempts"]) for run in store.runs("study")] == [
        ("pending", 0)
    ] * 3 + [("running", 1)]
    assert recorder.reclaim() == 0
    assert store.live_drivers() == {recorder.driver.id, drivers[3].id}


def test_a_driver_taken_for_dead_can_record_nothing(store, recorder):
    run = plan(1)[0]
    store.add_plan("study", {}, {}, [run])
    slow = RunRecorder(store, known(store, "far away", 1, "1", 0.0))
    assert slow.claim(run.key)
    assert recorder.reclaim() == 1
    for _ in range(2):  # while the run is pending, and while another driver has it
        staged = staging_folder(store.out, "slow", run.key)
        staged.mkdir(parents=True, exist_ok=True)
        assert not slow.finished(run.key, RESULT, 1.0, staged)
        assert not slow.failed(run.key, "x") and not slow.lost(run.key, "x")
        assert staged.is_dir() and not artifact_folder(store.out, run.key).exists()
        recorder.claim(run.key)
    assert store.counts("study")["running"] == 1


def test_a_result_and_its_files_are_kept_together_or_not_at_all(store, recorder, monkeypatch):
    run = plan(1)[0]
    store.add_plan("study", {}, {}, [run])
    staged = staging_folder(store.out, recorder.driver.id, run.key)
    staged.mkdir(parents=True)
    (staged / "file").write_text("content")
    state = checkpoint_folder(store.out, run.key)
    state.mkdir(parents=True)
    assert recorder.claim(run.key)
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        )
        with pytest.raises(StoreError, match="No space left on device"):
            recorder.finished(run.key, RESULT, 1.0, staged)
    assert store.run(run.key)["status"] == "running" and store.run(run.key)["scores"] == []
    assert state.is_dir()
    assert recorder.finished(run.key, RESULT, 1.0, staged)
    record = store.run(run.key)
    assert (record["artifacts"] / "file").read_text() == "content"
    assert (
        record["cost"] == RESULT["cost"]
        and record["warnings"] == ["few rows"]
        and len(record["scores"]) == 2
    )
    assert not state.exists()


def test_a_lost_run_is_tried_once_more(store, recorder):
    key = plan(1)[0].key
    store.add_plan("study", {}, {}, plan(1))
    assert recorder.claim(key) and recorder.lost(key, "killed")
    assert store.run(key)["status"] == "pending"
    assert recorder.claim(key) and not recorder.lost(key, "killed")
    assert (
        store.run(key)["status"] == "failed" and store.run(key)["reason"] == "tried 2 times: killed"
    )
    assert recorder.reopen([key], failed=False) == 0
    assert recorder.reopen([key], failed=True) == 1
    for _ in range(2):
        assert recorder.claim(key)
        recorder.lost(key, "killed", cause="killed")
    assert store.run(key)["status"] == "failed" and store.run(key)["cause"] == "killed"
    assert recorder.reopen([key], failed=False) == 1, (
        "what the machine stopped is done again unasked"
    )
    assert store.run(key)["cause"] is None
    assert store.run(key)["attempts"] == 0 and store.run(key)["reason"] is None


def test_leftovers_of_dead_drivers_go_when_one_enters_or_leaves(store):
    run = plan(1)[0]
    store.add_plan("study", {}, {}, [run])
    first = RunRecorder(store, Driver.current())
    first.enter()
    assert first.claim(run.key) and first.finished(run.key, RESULT, 1.0)
    for folder in (
        staging_folder(store.out, "dead", "abcd"),
        checkpoint_folder(store.out, run.key),
        checkpoint_folder(store.out, "abcd"),
    ):
        folder.mkdir(parents=True)
    mine = staging_folder(store.out, first.driver.id, "abcd")
    mine.mkdir(parents=True)
    second = RunRecorder(store, Driver.current())
    second.enter()
    assert mine.is_dir() and not staging_folder(store.out, "dead", "abcd").exists()
    assert not checkpoint_folder(store.out, run.key).exists()
    assert checkpoint_folder(
        store.out, "abcd"
    ).exists()  # a run that the store does not know may be another store's
    second.leave()
    died_since = staging_folder(store.out, "died since", "abcd")
    died_since.mkdir(parents=True)
    first.leave()
    assert not mine.exists() and not died_since.exists()


# --- opening
# --------------------------------------------------------------------------------------------------


def filled(folder, n=300):
    with Store.open(folder, create=True) as store:
        store.add_plan("study", {}, {}, plan(n, padding="x" * 500))
    return folder / FILE_NAME


def _written(name, content):
    def make(folder):
        (folder / name).write_bytes(content)
        return folder if name == FILE_NAME else folder / name

    return make


def _folder_for_file(folder):
    (folder / FILE_NAME).mkdir()
    return folder


def _truncated(share):
    def make(folder):
        path = filled(folder)
        os.truncate(path, int(path.stat().st_size * share))
        return folder

    return make


def _scrambled(folder):
    path = filled(folder)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(range(256)) * ((size - 4096) // 256))
    return folder


def _changed(statement, make=filled):
    def changed(folder):
        make(folder)
        with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection:
            connection.execute(statement)
            connection.commit()
        return folder

    return changed


def _schema(value):
    return _changed(f"UPDATE meta SET value = '{value}'")


BAD = {
    "missing": (lambda folder: folder / "nowhere", "there is no store at"),
    "folder for file": (_folder_for_file, "is a folder"),
    "text": (_written(FILE_NAME, b"a: 1\n"), "not an SQLite database"),
    "empty": (_written(FILE_NAME, b""), "is empty"),
    "other file": (
        _written("notes.txt", b"dear diary"),
        "not an SQLite .*; name the folder that `crosswind run STUDY --out FOLDER` writes",
    ),
    "study file": (_written("s.yaml", b"name: s"), "`crosswind run /.*s.yaml --out FOLDER`"),
    "truncated": (_truncated(0.5), "is damaged"),
    "header only": (_truncated(0.0002), "not an SQLite database|is damaged"),
    "scrambled": (_scrambled, "is damaged"),
    "other database": (
        _changed("CREATE TABLE meta(name, value)", make=Path),
        "not a Crosswind store",
    ),
    "newer": (_schema("99"), "newer Crosswind"),
    "older": (_schema("2"), "has schema 2, which this Crosswind"),
    "no number": (_schema("x"), "not a Crosswind store"),
    "damaged entry": (_changed("UPDATE study_runs SET labels = '{'"), "not JSON"),
    "under a file": (
        lambda folder: _written("file", b"")(folder) / "deeper",
        "there is no store|Not a directory",
    ),
    "mysql": (lambda _: "mysql://host/db", "not mysql://"),
    "no URL": (lambda _: "://", "postgresql://|cannot be read"),
    "no server": (lambda _: "postgresql://me:secret@127.0.0.1:1/x", "cannot be read or written"),
}


def use(where, create):
    with Store.open(
        where, "/nonexistent" if create and "://" in str(where) else None, create=create
    ) as store:
        for study in store.study_names():
            store.results(study)
            store.counts(study)


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_store_is_one_sentence(case, tmp_path):
    make, problem = BAD[case]
    where = make(tmp_path)
    with pytest.raises(StoreError, match=problem) as caught:
        use(where, create=False)
    assert (
        "\n" not in str(caught.value)
        and "secret" not in str(caught.value)
        and "Traceback" not in str(caught.value)
    )


@pytest.mark.parametrize("case", sorted(set(BAD) - {"missing", "empty"}))
def test_what_is_no_store_is_not_written_over(case, tmp_path):
    make, _ = BAD[case]
    where = make(tmp_path)
    before = fingerprint(tmp_path)
    with pytest.raises(StoreError):
        use(where, create=True)
    assert fingerprint(tmp_path) == before


@pytest.mark.slow
def test_no_permission_is_one_sentence():
    # Not below tmp_path, whose parents are closed to others. Root is not bound by permissions, so
    # it becomes somebody else.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        filled(folder).chmod(0)
        code = "import os, crosswind.storage.database; from crosswind.storage.store import Store\n"
        code += "os.geteuid() or os.setuid(65534)\n"
        for create in (False, True):
            opened = f"Store.open({name!r}, create={create})"
            done = subprocess.run(
                [sys.executable, "-c", code + opened], capture_output=True, text=True, check=False
            )
            last = done.stderr.splitlines()[-1]
            assert "StoreError" in last and "permission" in last.lower(), done.stderr


def fingerprint(folder):
    """Names, times and contents of all files."""
    return {
        path.relative_to(folder): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_reading_changes_nothing(tmp_path):
    filled(tmp_path)
    before = fingerprint(tmp_path)
    assert len(before) == 1
    with Store.open(tmp_path) as store:
        assert store.counts("study")["total"] == 300
        with pytest.raises(StoreError, match="read-only"):
            store.add_plan("x", {}, {}, [])
    assert fingerprint(tmp_path) == before


def test_a_file_may_be_named_instead_of_its_folder(tmp_path):
    with Store.open(filled(tmp_path)) as store:
        assert store.out == tmp_path and store.counts()["total"] == 300


def test_a_reader_does_not_wait_for_a_writer(tmp_path):
    filled(tmp_path)
    with Store.open(tmp_path, create=True) as writer, writer.transaction() as connection:
        connection.execute(database.runs.update().values(status="finished"))
        with Store.open(tmp_path) as reader:  # would wait for the end of the block, and give up
            assert reader.counts("study")["pending"] == 300


def test_a_store_on_a_read_only_disk_is_read(tmp_path):
    filled(tmp_path)
    with read_only(tmp_path), Store.open(tmp_path) as store:
        assert store.counts("study")["total"] == 300


@pytest.mark.parametrize("index", [True, False], ids=["with its index", "without"])
def test_a_store_that_a_kill_left_is_read_on_a_read_only_disk(index, tmp_path):
    folder = tmp_path / "copy"
    with Store.open(tmp_path / "out", create=True) as store:
        store.add_plan("study", {}, {}, plan(300))
        shutil.copytree(
            store.out, folder
        )  # while it is open: the plan is still in the WAL, as after kill -9
    assert (folder / f"{FILE_NAME}-wal").stat().st_size > 0
    if not index:
        (folder / f"{FILE_NAME}-shm").unlink()
    with read_only(folder), Store.open(folder) as store:
        assert store.counts("study")["total"] == 300
        assert len(store.results("study")) == 300


@pytest.mark.parametrize("wal", [True, False], ids=["a kill left it", "closed"])
def test_a_store_on_a_disk_full_to_the_last_block_is_read(wal, tmp_path):
    """SQLite's index of the WAL finds no room then, and says "disk I/O error"."""
    with Store.open(tmp_path / "out", create=True) as store:
        store.add_plan("study", {}, {}, plan(300))
        if not wal:
            store.close()
        shutil.copytree(store.out, tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm"))
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=False
        ).returncode
    ):
        pytest.skip("only root can mount a small disk")
    try:
        shutil.copytree(tmp_path / "copy", disk / "out")
        assert (disk / "out" / f"{FILE_NAME}-wal").exists() == wal
        with contextlib.suppress(OSError), open(disk / "ballast", "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        with Store.open(disk / "out") as store:
            assert store.counts("study")["total"] == 300 and len(store.results("study")) == 300
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_creating_on_a_read_only_disk_is_one_sentence(tmp_path):
    filled(tmp_path)
    with read_only(tmp_path):
        for folder in (tmp_path, tmp_path / "new"):
            with pytest.raises(StoreError, match=r"(?i)read-only|no permission"):
                Store.open(folder, create=True)


def test_a_postgresql_store_needs_a_folder_and_its_extra(monkeypatch):
    with pytest.raises(StoreError, match="needs a folder"):
        Store.open("postgresql://127.0.0.1/x", create=True)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"crosswind\[postgresql\]"):
        Store.open("postgresql://127.0.0.1/x")


@pytest.mark.slow
def test_a_store_is_opened_and_read_without_torch(tmp_path):
    filled(tmp_path)
    code = f"""
import sys
import crosswind.storage.store, crosswind.execution.scheduler, crosswind.execution.engines.pool, crosswind.execution.engines.inline
heavy = ("torch", "psycopg", "polars", "pydantic", "scipy")
print(*(name for name in heavy if name in sys.modules))
with crosswind.storage.store.Store.open({str(tmp_path)!r}) as store:
    store.results("study")
print(*(name for name in heavy if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", ""]


def not_writable(monkeypatch, file):
    """Let `file` look like one that this user may only read, to root as well."""
    allowed = os.access

    def access(path, mode):
        return not (mode == os.W_OK and Path(path) == file) and allowed(path, mode)

    monkeypatch.setattr(os, "access", access)


def test_who_may_only_read_a_store_leaves_nothing_beside_it_that_would_lock_its_owner_out(
    tmp_path, monkeypatch
):
    with Store.open(tmp_path, create=True) as store:
        store.add_plan("study", {}, {}, plan(1))
    before = sorted(tmp_path.iterdir())
    not_writable(monkeypatch, tmp_path / FILE_NAME)
    with Store.open(tmp_path) as store:
        assert store.counts("study")["pending"] == 1
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(StoreError, match=r"cannot be written: no permission; its owner lets"):
        Store.open(tmp_path, create=True)
    assert sorted(tmp_path.iterdir()) == before


def test_who_may_only_read_a_store_sees_what_its_owner_writes_meanwhile(tmp_path, monkeypatch):
    with Store.open(tmp_path, create=True) as store:
        store.add_plan("study", {}, {}, plan(1))
        not_writable(monkeypatch, tmp_path / FILE_NAME)
        with Store.open(tmp_path) as reading:
            store.add_plan("second", {}, {}, plan(2))
            assert reading.study_names() == ["study", "second"]


def test_what_was_written_while_nobody_was_thought_to_write_is_not_read_by_halves(
    tmp_path, monkeypatch
):
    with Store.open(tmp_path, create=True) as store:
        store.add_plan("study", {}, {}, plan(1))
    with monkeypatch.context() as patched:
        not_writable(patched, tmp_path / FILE_NAME)
        reading = Store.open(tmp_path)
        assert reading.study_names() == ["study"]
    with Store.open(tmp_path, create=True) as store:
        store.add_plan("second", {}, {}, plan(200))
    with (
        reading,
        pytest.raises(StoreError, match="was written while it was read; give the command"),
    ):
        reading.study_names()


def test_a_folder_that_a_group_writes_has_a_store_that_it_writes(tmp_path):
    mask = os.umask(0o002)
    try:
        for folder, mode in (("group", 0o664), ("private", 0o600)):
            (tmp_path / folder).mkdir()
            (tmp_path / folder).chmod(0o2775 if folder == "group" else 0o700)
            with Store.open(tmp_path / folder, create=True):
                assert (tmp_path / folder / FILE_NAME).stat().st_mode & 0o777 == mode
    finally:
        os.umask(mask)
