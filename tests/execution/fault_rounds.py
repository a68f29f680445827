"""Rounds of faults over both engines and both databases: whatever dies, fills up or hangs, nothing
that was finished is lost or done again, causes are in the store, and the numbers are those of a run
that nothing disturbed.

    python -m tests.execution.fault_rounds --rounds 100 [--engine ENGINE] [--out FILE]

Each round is a store of its own, driven by processes of their own: an engine, a database and a fault
in turn, so that N rounds see each of the cells of the table that is printed equally often. The jobs
are those of `tests.execution.toys`, steps with a checkpoint after each. A Ray cluster of two nodes and
a PostgreSQL server are started here, and killed here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.execution.outcomes import outcome
from tests.execution.toys import JOB, graph, planned
from tests.storage.postgres_server import PostgresServer

from crosswind.core.errors import CrosswindError
from crosswind.core.types import Job
from crosswind.execution.engines import Engine
from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.scheduler import drive
from crosswind.storage.leases import process_start
from crosswind.storage.store import DONE, Store

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("pool", "ray")
DATABASES = ("sqlite", "postgresql")
SECONDS_OF_A_DRIVER = 180
SECONDS_OF_A_RUN = 3.0
"""The limit of a run, where one hangs."""
WRONG_RUNS = {
    "not a number": ("diverge", "diverged", "", None),
    "out of memory": ("memory", "failed", "tried 2 times: out of memory", "memory"),
    "hanging": ("hang", "failed", "time limit: the run took more than 3 seconds", None),
    "dying": ("die", "failed", "tried 2 times: its ", "killed"),
}
"""What a wrong run does, and how the store has it: status, begin of the reason, cause."""


@dataclass
class Machines:
    """What the rounds share: a Ray cluster with two nodes, and a PostgreSQL server. Each is started
    when the first round needs it."""

    stack: contextlib.ExitStack
    cluster: Any = None
    server: PostgresServer | None = None

    def address(self) -> str:
        """The address of the cluster."""
        if self.cluster is None:
            from ray.cluster_utils import Cluster

            head = {"num_cpus": 0, "include_dashboard": False}
            self.cluster = Cluster(initialize_head=True, head_node_args=head)
            self.stack.callback(self.cluster.shutdown)
            for _ in range(2):
                self.cluster.add_node(num_cpus=1)
            self.cluster.wait_for_nodes()
        return str(self.cluster.address)

    def database(self, name: str) -> str:
        """The URL of a new database."""
        if self.server is None:
            self.server = self.stack.enter_context(PostgresServer())
        return self.server.create(name)


@dataclass
class Round:
    """One store under one fault. `events` counts what was done to it."""

    number: int
    engine: str
    database: str
    fault: str
    folder: Path
    machines: Machines
    chance: random.Random = field(init=False)
    events: Counter[str] = field(default_factory=Counter)
    starts_when_finished: dict[str, int] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.chance = random.Random(self.number)
        self.out = self.folder / "disk" / "out"
        self.out.parent.mkdir(parents=True)
        self.log_file = self.folder / "log"
        self.where = str(self.out)
        if self.database == "postgresql":
            self.where = self.machines.database(f"round{self.number}")

    # -- drivers ----------------------------------------------------------------------------------

    def begin(self) -> subprocess.Popen[str]:
        """Start a driver."""
        values = {
            "where": self.where,
            "out": str(self.out),
            "log": str(self.log_file),
            "address": self.machines.address() if self.engine == "ray" else None,
            "wrong": self.wrong,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "tests.execution.fault_rounds", "--drive", json.dumps(values)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, driver: subprocess.Popen[str], *statuses: int) -> str:
        """Wait for the end of a driver, which is one of `statuses`; what it wrote."""
        _, errors = driver.communicate(timeout=SECONDS_OF_A_DRIVER)
        assert driver.returncode in statuses, f"{driver.returncode}: {errors[-2000:]}"
        assert "Traceback" not in errors, errors[-2000:]
        return errors

    def kill(self, driver: subprocess.Popen[str]) -> None:
        """Kill a driver that is still at work."""
        self.events["driver killed"] += driver.poll() is None
        driver.kill()
        self.end(driver, 0, -signal.SIGKILL)
        self.look()

    def wait_for_starts(self, driver: subprocess.Popen[str], more: int) -> None:
        """Wait until so many more runs have begun, or the driver has ended."""
        wanted = len(self.log_lines()) + more
        deadline = time.monotonic() + 60
        while driver.poll() is None and time.monotonic() < deadline:
            if len(self.log_lines()) >= wanted:
                return
            time.sleep(0.02)

    # -- what is seen -----------------------------------------------------------------------------

    def log_lines(self) -> list[list[str]]:
        """Starts and ends of runs: a word, the run, the process."""
        if not self.log_file.exists():
            return []
        return [line.split() for line in self.log_file.read_text().splitlines()]

    def starts(self) -> Counter[str]:
        """How often each run was begun."""
        return Counter(line[1] for line in self.log_lines() if line[0] == "start")

    def workers(self) -> list[int]:
        """The processes that have a run at work."""
        busy: dict[int, int] = Counter()
        for word, _, process in self.log_lines():
            busy[int(process)] += 1 if word == "start" else -1
        return [process for process, open_runs in busy.items() if open_runs > 0]

    def look(self) -> None:
        """See that what was finished still is, and was not begun again since."""
        if not self._has_store():
            return
        names = self._finished()
        # Read after the store: what is finished there has all of its starts in the log.
        begun = self.starts()
        for name, times in self.starts_when_finished.items():
            assert name in names, f"{name} was finished and is lost"
            assert begun[name] == times, f"{name} was finished and is done again"
        self.starts_when_finished |= {name: begun[name] for name in names}

    def _has_store(self) -> bool:
        """Whether a driver lived long enough to make the store."""
        if self.database == "sqlite":
            return (self.out / "store.sqlite").exists()
        try:
            Store.open(self.where, self.out).close()
        except CrosswindError as error:
            assert "not a Crosswind store" in str(error), error
            return False
        return True

    def _finished(self) -> set[str]:
        with Store.open(self.where, self.out) as store:
            if self.database == "sqlite":
                with store.transaction() as connection:
                    checked = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
                assert checked == "ok", checked
            if "toys" not in store.study_names():
                return set()
            assert not store.damaged("toys")
            rows = [row for row in store.runs("toys") if row["status"] in DONE]
            for row in rows:
                assert len(store.run(row["key"])["scores"]) == 2
            return {row["labels"]["method"] for row in rows}

    def finish(self, undisturbed: Sequence[Any]) -> None:
        """Drive to the end undisturbed, and see that all is there once and equal to the bit."""
        self.end(self.begin(), 1 if self._has_failures() else 0)
        self.look()
        with Store.open(self.where, self.out) as store:
            runs = {row["labels"]["method"]: row for row in store.runs("toys")}
        names = {str(job.spec["name"]) for job in graph(self.log_file)}
        assert len(names) == 14 and all(runs[name]["status"] in DONE for name in names)
        assert outcome(self.where, self.out, names) == undisturbed
        for name in self.wrong:
            _, status, reason, cause = WRONG_RUNS[name]
            assert runs[name]["status"] == status, (name, runs[name])
            assert (runs[name]["reason"] or "").startswith(reason), runs[name]["reason"]
            assert runs[name]["cause"] == cause, (name, runs[name]["cause"])
        assert os.listdir(self.out / "artifacts" / ".partial") == []
        # A run that failed may go on from its checkpoint.
        kept = {job.key for job in jobs_of(self.log_file, self.wrong)[:-14]}
        assert all(folder.name in kept for folder in (self.out / "checkpoints").iterdir())

    def _has_failures(self) -> bool:
        return any(WRONG_RUNS[name][1] == "failed" for name in self.wrong)

    def causes(self) -> list[tuple[str, str | None]]:
        """Reason and cause of each run that failed by now."""
        if not self._has_store():
            return []
        with Store.open(self.where, self.out) as store:
            rows = store.runs("toys") if "toys" in store.study_names() else []
            return [(row["reason"], row["cause"]) for row in rows if row["status"] == "failed"]


def jobs_of(log_file: Path, wrong: Sequence[str]) -> list[Job]:
    """The runs of a round: wrong ones, then the fourteen that end well."""
    does = {name: WRONG_RUNS[name][0] for name in wrong}
    bad = [planned(name, does=action, log=str(log_file)) for name, action in does.items()]
    return [*bad, *graph(log_file, seconds=0.2)]


def undisturbed_outcome(folder: Path) -> list[Any]:
    """The numbers of the fourteen runs in one process that nothing disturbs."""
    jobs = graph(folder / "log", seconds=0.2)
    with Store.open(folder / "out", create=True) as store, Inline(JOB) as engine:
        store.add_plan("toys", {}, {}, jobs)
        assert drive(store, jobs, engine).finished == 14
    return outcome(str(folder / "out"), folder / "out", {str(job.spec["name"]) for job in jobs})


# -- faults ----------------------------------------------------------------------------------------


def kill_drivers(drill: Round) -> None:
    """Drivers are killed two or three times, also while they start."""
    for _ in range(drill.chance.randint(2, 3)):
        driver = drill.begin()
        if drill.chance.random() < 0.8:
            drill.wait_for_starts(driver, 1)
        time.sleep(drill.chance.uniform(0.0, 1.0))
        drill.kill(driver)


def kill_workers(drill: Round) -> None:
    """Processes that execute runs are killed, then the driver goes on or is killed too."""
    driver = drill.begin()
    for _ in range(drill.chance.randint(1, 3)):
        drill.wait_for_starts(driver, 1)
        time.sleep(drill.chance.uniform(0.0, 0.2))
        alive = [process for process in drill.workers() if process_start(process)]
        if alive and driver.poll() is None:
            os.kill(drill.chance.choice(alive), signal.SIGKILL)
            drill.events["worker killed"] += 1
        drill.look()
    drill.end(driver, 0, 1)
    drill.look()
    for reason, cause in drill.causes():  # of a run whose worker was killed twice
        assert cause == "killed" or "which failed" in reason, (reason, cause)


def lose_a_node(drill: Round) -> None:
    """A node of the cluster goes away with all of its processes, and another comes."""
    _lose(drill, lambda cluster, node: cluster.remove_node(node, allow_graceful=False))


def kill_a_raylet(drill: Round) -> None:
    """The raylet of a node is killed, which ends what it had started."""

    def kill(cluster: Any, node: Any) -> None:
        node.kill_raylet()
        cluster.remove_node(node, allow_graceful=False)  # what is left of its record

    _lose(drill, kill)


def _lose(drill: Round, how: Callable[[Any, Any], None]) -> None:
    driver = drill.begin()
    drill.wait_for_starts(driver, drill.chance.randint(1, 6))
    cluster = drill.machines.cluster
    how(cluster, drill.chance.choice(sorted(cluster.worker_nodes, key=str)))
    drill.events[drill.fault] += driver.poll() is None
    drill.look()
    cluster.add_node(num_cpus=1)
    errors = drill.end(driver, 0, 1)
    drill.look()
    assert all(cause in ("node", "killed") for _, cause in drill.causes()), errors


def kill_the_server(drill: Round) -> None:
    """The database server is killed under a driver and comes back a moment later."""
    server = drill.machines.server
    assert server is not None
    driver = drill.begin()
    drill.wait_for_starts(driver, drill.chance.randint(1, 8))
    time.sleep(drill.chance.uniform(0.0, 0.3))
    server.kill()
    drill.events["server killed"] += driver.poll() is None
    time.sleep(drill.chance.uniform(0.0, 2.0))
    server.start()
    drill.end(driver, 0, 1, 2)
    drill.look()


@contextlib.contextmanager
def _small_disk(drill: Round) -> Iterator[Path]:
    disk = drill.out.parent
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], check=True)
    try:
        yield disk
        # What the round left is looked at when the disk is gone.
        shutil.copytree(disk, drill.folder / "copy")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    shutil.copytree(drill.folder / "copy", disk, dirs_exist_ok=True)


def fill_the_disk(drill: Round) -> None:
    """The disk of the store's folder fills up while runs are at work, then there is room again."""
    with _small_disk(drill) as disk:
        driver = drill.begin()
        drill.wait_for_starts(driver, drill.chance.randint(0, 8))
        ballast = disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        drill.events["disk filled"] += driver.poll() is None
        errors = drill.end(driver, 0, 1, 2)
        if driver.returncode:
            assert any(words in errors for words in ("full", "No space", "disk I/O")), errors
            drill.events["stopped by the disk"] += 1
        for reason, cause in drill.causes():
            assert cause in ("disk", "system") or "which failed" in reason, (reason, cause)
        ballast.unlink()
        drill.look()


def read_only_disk(drill: Round) -> None:
    """The store's folder is read-only when a driver comes back to it: it is refused in one sentence,
    or its runs fail by the machine, and what is there can be read."""
    driver = drill.begin()
    drill.wait_for_starts(driver, drill.chance.randint(2, 10))
    drill.kill(driver)
    disk = str(drill.out.parent)
    drill.out.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", disk, disk], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", disk], check=True)
        errors = drill.end(drill.begin(), 1, 2)
        assert "ead-only" in errors, errors
        drill.events["read-only"] += 1
        drill.look()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def two_drivers(drill: Round) -> None:
    """Two drivers share the store; sometimes one of them is killed."""
    drivers = [drill.begin()]
    time.sleep(drill.chance.uniform(0.0, 1.0))
    drivers.append(drill.begin())
    if drill.chance.random() < 0.4:
        drill.wait_for_starts(drivers[1], 2)
        drill.kill(drivers[0])
    else:
        drill.end(drivers[0], 0)
    drill.end(drivers[1], 0)
    drill.events["two drivers"] += 1
    drill.look()
    if not drill.events["driver killed"]:
        assert set(drill.starts().values()) == {1}, "a run was done twice"


def wrong_runs(drill: Round) -> None:
    """Runs that diverge, take all memory, hang or die stand among the others."""
    drill.wrong = tuple(WRONG_RUNS)
    drill.end(drill.begin(), 1)
    drill.events.update(list(WRONG_RUNS))
    drill.look()


FAULTS: dict[str, Callable[[Round], None]] = {
    "driver killed": kill_drivers,
    "worker killed": kill_workers,
    "disk full": fill_the_disk,
    "read-only": read_only_disk,
    "wrong runs": wrong_runs,
    "two drivers": two_drivers,
    "node lost": lose_a_node,
    "raylet killed": kill_a_raylet,
    "server killed": kill_the_server,
}


def cells() -> list[tuple[str, str, str]]:
    """Every engine and database with each fault that it can have."""
    return [
        (engine, database, fault)
        for fault in FAULTS
        for engine in ENGINES
        for database in DATABASES
        if (engine == "ray" or fault not in ("node lost", "raylet killed"))
        and (database == "postgresql" or fault != "server killed")
    ]


def one_round(
    number: int, machines: Machines, undisturbed: Sequence[Any], cell: tuple[str, str, str]
) -> dict[str, Any]:
    """Make a round; its fault, what was done, its seconds, and what was wrong, empty where nothing."""
    engine, database, fault = cell
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="round-"))
    record: dict[str, Any] = {"round": number, "engine": engine, "database": database}
    record |= {"fault": fault, "wrong": ""}
    try:
        drill = Round(number, engine, database, fault, folder, machines)
        FAULTS[fault](drill)
        drill.finish(undisturbed)
        record["events"] = dict(drill.events)
    except Exception as error:  # a round that goes wrong is counted, and the next one is made
        record["wrong"] = f"{type(error).__name__}: {error}"
        record["trace"] = traceback.format_exc()[-3000:]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {**record, "seconds": round(time.monotonic() - began, 1)}


def drive_to_the_end(values: dict[str, Any]) -> int:
    """Be a driver that can be killed: 0, 1 where runs failed or were left, 2 for an error."""
    jobs = jobs_of(Path(values["log"]), values["wrong"])
    limit = SECONDS_OF_A_RUN if values["wrong"] else None
    out = Path(values["out"])
    try:
        with (
            _engine(values["address"], out) as engine,
            Store.open(values["where"], out, create=True) as store,
        ):
            store.add_plan("toys", {}, {}, jobs)
            summary = drive(store, jobs, engine, time_limit=limit)
            reasons = [row["reason"] for row in store.runs("toys") if row["status"] == "failed"]
    except CrosswindError as error:
        print(error, file=sys.stderr)
        return 2
    print(summary.stopped, *reasons, sep="\n", file=sys.stderr)
    return 1 if summary.failed or summary.stopped else 0


def _engine(address: str | None, out: Path) -> Engine:
    if address is None:
        return WorkerPool(JOB, 2)
    from crosswind.execution.engines.ray_cluster import RayCluster

    return RayCluster(JOB, out, address=address)


def table(records: Sequence[dict[str, Any]]) -> str:
    """Rounds and rounds that went wrong, by fault, engine and database."""
    lines = ["| fault | engine | database | rounds | went wrong |", "|---|---|---|---|---|"]
    for engine, database, fault in cells():
        of_cell = [
            record
            for record in records
            if (record["engine"], record["database"], record["fault"]) == (engine, database, fault)
        ]
        if not of_cell:
            continue
        n_wrong = sum(bool(record["wrong"]) for record in of_cell)
        lines.append(f"| {fault} | {engine} | {database} | {len(of_cell)} | {n_wrong} |")
    return "\n".join(lines)


def main() -> int:
    """Make the rounds and print the table; 1 where one went wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--engine", choices=ENGINES, default=None, help="make rounds of this alone")
    parser.add_argument("--fault", choices=FAULTS, default=None, help="make rounds of this alone")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file of all rounds")
    parser.add_argument("--drive", type=json.loads, default=None, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.drive is not None:
        return drive_to_the_end(chosen.drive)
    chosen_cells = [
        cell
        for cell in cells()
        if chosen.engine in (None, cell[0]) and chosen.fault in (None, cell[2])
    ]
    records = []
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as calm:
        machines = Machines(stack)
        undisturbed = undisturbed_outcome(Path(calm))
        for number in range(chosen.first, chosen.first + chosen.rounds):
            cell = chosen_cells[number % len(chosen_cells)]
            records.append(one_round(number, machines, undisturbed, cell))
            print(json.dumps(records[-1]), flush=True)
            if chosen.out is not None:
                chosen.out.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    print(table(records))
    return int(any(record["wrong"] for record in records))


if __name__ == "__main__":
    sys.exit(main())
