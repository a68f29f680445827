"""Drivers and workers are killed at random moments; nothing that was finished may be lost or done
again.

Each round is a store of its own, killed into up to five times.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.drills import rounds
from tests.execution.outcomes import outcome
from tests.execution.toys import JOB, graph

from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.scheduler import drive
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.leases import process_start
from crosswind.storage.store import DONE, Store

REPOSITORY = Path(__file__).parents[2]


def start(out, log_file):
    command = [sys.executable, "-m", "tests.execution.toys", str(out), str(log_file), "2"]
    return subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def log_lines(log_file):
    return [line.split() for line in log_file.read_text().splitlines()] if log_file.exists() else []


def starts(log_file):
    return Counter(name for word, name, _ in log_lines(log_file) if word == "start")


class Witness:
    """Looks at a store again and again, and remembers which runs it has seen finished and how often
    those had started."""

    def __init__(self, out, log_file):
        self.out, self.log_file = out, log_file
        self.seen = {}

    def look(self):
        if not (self.out / "store.sqlite").exists():
            return
        with Store.open(self.out) as store:
            with store.transaction() as connection:
                assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
            if "toys" not in store.study_names():
                return
            finished = {
                run["labels"]["method"]: run["key"]
                for run in store.runs("toys")
                if run["status"] in DONE
            }
            for key in finished.values():
                assert len(store.run(key)["scores"]) == 2
                assert [path.name for path in artifact_folder(self.out, key).iterdir()] == [
                    "score.json"
                ]
        now = starts(
            self.log_file
        )  # after the store: what is finished there has all its starts in the log
        for name, times in self.seen.items():
            assert name in finished, f"{name} was finished and is lost"
            assert now[name] == times, f"{name} was finished and is done again"
        self.seen |= {name: now[name] for name in finished}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    runs = graph(folder / "log")
    with Store.open(folder / "out", create=True) as store, Inline(JOB) as engine:
        store.add_plan("toys", {}, {}, runs)
        assert drive(store, runs, engine).finished == len(runs) == 14
    return outcome(folder / "out")


@rounds()
def test_kills_at_random_moments_lose_and_repeat_nothing(number, tmp_path, undisturbed):
    chance = random.Random(number)
    out, log_file = tmp_path / "out", tmp_path / "log"
    witness = Witness(out, log_file)
    kills = {"driver": 0, "worker": 0}
    for _ in range(chance.randint(2, 5)):
        driver = start(out, log_file)
        lines = len(log_lines(log_file))
        worker_pids = {int(pid) for _, _, pid in log_lines(log_file)}
        if chance.random() < 0.75:  # else the kill may also come while the driver starts
            begun = time.monotonic()
            while (
                len(log_lines(log_file)) <= lines
                and driver.poll() is None
                and time.monotonic() < begun + 10
            ):
                time.sleep(0.005)
        for _ in range(chance.choice((0, 0, 1, 2))):
            time.sleep(chance.uniform(0.0, 0.3))
            workers = sorted({int(pid) for _, _, pid in log_lines(log_file)} - worker_pids)
            workers = [pid for pid in workers if process_start(pid)]
            if workers and driver.poll() is None:
                os.kill(chance.choice(workers), signal.SIGKILL)
                kills["worker"] += 1
            witness.look()
        time.sleep(chance.uniform(0.0, 0.6))
        kills["driver"] += driver.poll() is None
        driver.kill()
        _, error_text = driver.communicate()
        assert driver.returncode in (0, -signal.SIGKILL), error_text
        witness.look()
    runs = graph(log_file)
    with Store.open(out, create=True) as store, WorkerPool(JOB, 2) as engine:
        store.add_plan("toys", {}, {}, runs)
        # A run whose worker was killed twice has failed, and says so; the same study run again
        # heals it.
        for run in store.runs("toys"):
            assert (
                run["status"] != "failed"
                or "killed by SIGKILL" in run["reason"]
                or "which failed" in run["reason"]
            )
        summary = drive(store, runs, engine)
    assert (summary.finished, summary.failed) == (14, 0)
    witness.look()
    assert len(witness.seen) == 14
    assert outcome(out) == undisturbed
    assert os.listdir(out / "artifacts" / ".partial") == []
    assert os.listdir(out / "checkpoints") == []
    print(kills, dict(starts(log_file)))


# Where a driver kills itself: code that runs before it drives. These moments are too short for the
# random drill to hit.
MOMENTS = {
    "a run is claimed, no worker has it": "WorkerPool.submit = die",
    "a result has come, nothing is written": "recorder.artifacts.publish = die",
    "the old files are away, the new not yet there": (
        "artifacts.shutil.rmtree = after(artifacts.shutil.rmtree, published)"
    ),
    "the files are moved, the record is not committed": (
        "recorder.artifacts.publish = after(recorder.artifacts.publish)"
    ),
    "the record is committed, the checkpoint still there": "artifacts.shutil.rmtree = kept",
    "the plan is half written": "store_module.insert_rows = after(store_module.insert_rows)",
    "the tables are half made": "database.meta.insert = die",
    "the store is made, its first name is still there": (
        "database.os.link = after(database.os.link)"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_at_the_worst_moment_loses_and_repeats_nothing(moment, tmp_path, undisturbed):
    out, log_file = tmp_path / "out", tmp_path / "log"
    witness = Witness(out, log_file)
    code = f"""
import os, signal, sys, time
from crosswind.storage import artifacts, database
from crosswind.storage import run_recorder as recorder
from crosswind.storage import store as store_module
from crosswind.execution.engines.pool import WorkerPool
from tests.execution import toys
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(5)
def after(function, when=lambda to: True):
    def both(*arguments, **more):
        function(*arguments, **more)
        if when(str(arguments[-1])):
            die()
    return both
def kept(at, **_):
    if "checkpoints" in str(at):
        die()
def published(at):
    return "artifacts" in at and ".partial" not in at
if sys.argv[-1] == "leave a try":  # files of an earlier try that was not recorded
    for run in toys.graph(sys.argv[2]):
        folder = artifacts.artifact_folder(toys.Path(sys.argv[1]), run.key)
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "old").touch()
{MOMENTS[moment]}
sys.exit(toys.main(sys.argv[1:4]))
"""
    extra_steps = ["leave a try"] if "old files" in moment else []
    command = [sys.executable, "-c", code, str(out), str(log_file), "2", *extra_steps]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    witness.look()
    runs = graph(log_file)
    with Store.open(out, create=True) as store, WorkerPool(JOB, 2) as engine:
        store.add_plan("toys", {}, {}, runs)
        assert drive(store, runs, engine).finished == 14
        assert {run["attempts"] for run in store.runs("toys")} == {1}
    witness.look()
    assert outcome(out) == undisturbed
    assert os.listdir(out / "artifacts" / ".partial") == []
    assert os.listdir(out / "checkpoints") == []
    left = set(os.listdir(out)) - {"artifacts", "checkpoints", "store.sqlite"}
    assert bool(left) == (moment == "the tables are half made"), left  # these go after an hour


@pytest.mark.slow
def test_the_witness_sees_a_lost_and_a_repeated_run(tmp_path):
    """The drill above is worth as much as its witness."""
    out, log_file = tmp_path / "out", tmp_path / "log"
    runs = graph(log_file, seconds=0.0)
    with Store.open(out, create=True) as store, Inline(JOB) as engine:
        store.add_plan("toys", {}, {}, runs)
        drive(store, runs, engine)
        witness = Witness(out, log_file)
        witness.look()
        with log_file.open("a") as file:
            file.write("start base0 1\n")
        with pytest.raises(AssertionError, match="done again"):
            witness.look()
        with store.transaction() as connection:
            connection.exec_driver_sql("UPDATE runs SET status = 'pending'")
        with pytest.raises(AssertionError, match="is lost"):
            witness.look()
