import contextlib
import graphlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.execution.toys import JOB, graph, planned

from crosswind.core.errors import InputError, InternalError, StoreError
from crosswind.core.types import Job
from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.pool import WorkerPool, _Worker
from crosswind.execution.engines.worker import one_thread, perform
from crosswind.execution.job_order import JobOrder
from crosswind.execution.scheduler import drive
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.leases import Driver, process_start
from crosswind.storage.run_recorder import RunRecorder
from crosswind.storage.store import Store


def engine_of(workers):
    return WorkerPool(JOB, workers) if workers else Inline(JOB)


def done(out, runs, workers=0, study="toys", **options):
    """Plan and drive `runs`; the summary and the results by method."""
    with Store.open(out, create=True) as store, engine_of(workers) as engine:
        store.add_plan(study, {}, {}, runs)
        summary = drive(store, runs, engine, **options)
        return summary, {run["labels"]["method"]: run for run in store.runs(study)}


def outcome(out):
    """What of a store must not depend on how it came about."""
    with Store.open(out) as store:
        rows = store.results("toys")
        files = {
            row["key"]: (artifact_folder(store.out, row["key"]) / "score.json").read_text()
            for row in rows
        }
    return [
        {name: row[name] for name in ("method", "rule", "set", "status", "metrics")} for row in rows
    ], files


def words(log_file):
    """How often each line's first two words stand in the log."""
    lines = log_file.read_text().splitlines() if log_file.exists() else []
    return Counter(" ".join(line.split()[:2]) for line in lines)


# --- the graph
# --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_results_do_not_depend_on_engine_or_workers(tmp_path):
    numbers_found = []
    for workers in (0, 1, 2):
        summary, runs = done(tmp_path / str(workers), graph(tmp_path / "log", seconds=0.0), workers)
        assert (summary.finished, summary.executed, len(runs)) == (14, 14, 14)
        numbers_found.append(outcome(tmp_path / str(workers)))
    assert numbers_found[0] == numbers_found[1] == numbers_found[2]
    assert len(numbers_found[0][0]) == 28
    assert not (tmp_path / "0" / "checkpoints").exists() or not os.listdir(
        tmp_path / "0" / "checkpoints"
    )


@pytest.mark.slow
def test_a_run_starts_after_those_it_needs(tmp_path):
    done(tmp_path / "out", graph(tmp_path / "log", seconds=0.0), 2)
    lines = [line.rsplit(" ", 1)[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert len(lines) == 28
    for i in range(6):
        assert lines.index(f"end base{i % 2}") < lines.index(f"start on{i}")
    for i in range(2):
        assert max(
            lines.index(f"end on{i}"), lines.index(f"end on{i + 1}"), lines.index("end alone0")
        ) < lines.index(f"start top{i}")


@pytest.mark.slow
def test_what_is_finished_is_not_done_again(tmp_path):
    runs = graph(tmp_path / "log", seconds=0.0)
    done(tmp_path / "out", runs[-4:])
    summary, _ = done(tmp_path / "out", runs, 2)
    assert summary.executed == 10 and summary.finished == 14
    summary, _ = done(tmp_path / "out", runs)
    assert summary.executed == 0 and summary.finished == 14
    assert set(words(tmp_path / "log").values()) == {1}


def test_a_circle_is_refused_before_anything_starts(tmp_path):
    runs = [
        Job("aaaa", {}, {}, ("bbbb",)),
        Job("bbbb", {}, {}, ("cccc",)),
        Job("cccc", {}, {}, ("aaaa",)),
    ]
    with pytest.raises(InputError, match="in a circle: .*aaaa"):
        done(tmp_path / "out", runs)
    with Store.open(tmp_path / "out") as store:
        assert store.live_drivers() == set()


def test_a_run_that_needs_itself_is_refused(tmp_path):
    with pytest.raises(InputError, match="in a circle: aaaa -> aaaa"):
        done(tmp_path / "out", [Job("aaaa", {}, {}, ("aaaa",))])


def test_jobs_that_stand_before_what_they_need_wait_for_it(tmp_path):
    runs = graph(tmp_path / "log", seconds=0.0)
    summary, _ = done(tmp_path / "out", runs[::-1])
    assert (summary.finished, summary.executed) == (14, 14)
    lines = [line.rsplit(" ", 1)[0] for line in (tmp_path / "log").read_text().splitlines()]
    for i in range(6):
        assert lines.index(f"end base{i % 2}") < lines.index(f"start on{i}")


def test_the_order_of_jobs_is_that_of_the_standard_library():
    draw = random.Random(0)
    n_circles = 0
    for _ in range(300):
        names = [f"{number}" for number in range(draw.randint(0, 8))]
        needs = {name: draw.choices(names, k=draw.choice([0, 0, 1, 2])) for name in names}
        standard = graphlib.TopologicalSorter(needs)
        try:
            standard.prepare()
        except graphlib.CycleError:
            n_circles += 1
            with pytest.raises(InputError, match="in a circle"):
                JobOrder(needs)
            continue
        order = JobOrder(needs)
        running = []
        while standard.is_active():
            ready = order.ready()
            assert sorted(ready) == sorted(standard.get_ready())
            running += ready
            ended = running.pop(draw.randrange(len(running)))
            order.done(ended)
            standard.done(ended)
        assert not order.ready() and not running
    assert 100 < n_circles < 250


def test_a_need_must_be_planned_or_done(tmp_path):
    base = planned("base")
    run = planned("run", (base.key,))
    with pytest.raises(InputError, match="neither in the plan nor finished"):
        done(tmp_path / "out", [run])
    done(tmp_path / "out", [base], study="bases")
    summary, _ = done(tmp_path / "out", [run])
    assert summary.finished == 1


def test_a_plan_that_was_not_added_is_refused(tmp_path):
    with (
        Store.open(tmp_path / "out", create=True) as store,
        pytest.raises(StoreError, match="its plan was not added"),
    ):
        drive(store, [planned("a")], Inline(JOB))


def test_one_run_under_two_labels_is_done_once(tmp_path):
    run = planned("a", log=str(tmp_path / "log"))
    twice = [run, Job(run.key, run.spec, {"method": "b"})]
    summary, runs = done(tmp_path / "out", twice)
    assert summary.finished == 1 and len(runs) == 2 and words(tmp_path / "log")["start a"] == 1


FAILURES = {
    "raise": (r"^ValueError: the toy is broken \(toys.py, line \d+\)$", 1),
    "refuse": (r"^the toy does not want to$", 1),
    "wrong": (r"^the job's result is not as it should be", 1),
    "memory": (r"^tried 2 times: out of memory: no room for the toy", 2),
    "die": (r"^tried 2 times: its worker was killed by SIGKILL \(out of memory\?\)$", 2),
    "exit": (r"^tried 2 times: its worker ended with exit status 7$", 2),
    "segfault": (
        r"^tried 2 times: its worker was killed by SIGSEGV \(a fault of compiled code; if it trains"
        r" on pictures, try "
        r"training.channels_last=false\); it said: Fatal Python error: Segmentation fault.*toys.py",
        2,
    ),
}


@pytest.mark.slow
def test_a_failing_run_is_recorded_and_the_study_goes_on(tmp_path):
    bad = [planned(kind, does=kind) for kind in FAILURES]
    good = [planned("once", does="die once"), planned("diverges", does="diverge"), planned("good")]
    summary, runs = done(tmp_path / "out", bad + good, 2)
    assert (summary.finished, summary.diverged, summary.failed) == (2, 1, len(FAILURES))
    for kind, (reason, attempts) in FAILURES.items():
        assert runs[kind]["status"] == "failed" and runs[kind]["attempts"] == attempts
        assert re.search(reason, runs[kind]["reason"]), runs[kind]["reason"]
    assert runs["once"]["attempts"] == 2 and runs["once"]["reason"] is None
    assert runs["good"]["attempts"] == 1 and runs["diverges"]["status"] == "diverged"
    with Store.open(tmp_path / "out") as store:
        assert "Traceback" in store.run(runs["raise"]["key"])["detail"]
        assert len(store.run(runs["diverges"]["key"])["scores"]) == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_fault_of_our_own_stops_the_study(workers, tmp_path):
    runs = [planned("fault", does="contradict"), planned("good")]
    with pytest.raises(
        InternalError, match="^the toy contradicts itself; this is a fault of Crosswind: report it"
    ):
        done(tmp_path / "out", runs, workers)
    with Store.open(tmp_path / "out") as store:
        run_of = {run["labels"]["method"]: run for run in store.runs("toys")}
    assert run_of["fault"]["status"] == "failed"
    assert run_of["fault"]["reason"] == str(InternalError("the toy contradicts itself"))
    assert run_of["good"]["status"] == "pending"


def test_what_happens_to_runs_is_logged_under_the_name_of_the_package(tmp_path, caplog):
    with caplog.at_level("INFO"):
        done(tmp_path / "out", [planned("good"), planned("raise", does="raise")], 0)
    ours = [record for record in caplog.records if record.name == "crosswind"]
    begun, failed = (
        [record for record in ours if word in record.getMessage()] for word in ("started", "failed")
    )
    assert len(begun) == 2 and [record.levelname for record in failed] == ["WARNING"]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_time_limit_ends_a_run(workers, tmp_path):
    summary, runs = done(
        tmp_path / "out", [planned("hang", does="hang"), planned("good")], workers, time_limit=0.4
    )
    assert (summary.failed, summary.finished) == (1, 1)
    assert (
        runs["hang"]["reason"] == "time limit: the run took more than 0.4 seconds"
        and runs["hang"]["attempts"] == 1
    )


def test_loading_libraries_is_not_the_time_of_a_run(tmp_path, monkeypatch):
    (tmp_path / "libraries_of_a_toy.py").write_text("")
    monkeypatch.setattr("crosswind.execution.engines.worker.TRAINS", "libraries_of_a_toy")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = []
    task = {"key": "a", "kind": "fit", "following": []}
    perform("os:getpid", task, print, lambda: loaded.append("libraries_of_a_toy" in sys.modules))
    assert loaded == [True]

    worker = _Worker("module:function", 1, [], 0, os.open(tmp_path, os.O_RDONLY))
    try:
        worker.limit = 1.0
        worker.ready()
        assert worker.deadline > time.monotonic() + 60
        worker.loaded()
        assert worker.deadline < time.monotonic() + 1.1
    finally:
        worker.end()


@pytest.mark.parametrize("workers", [0, 1])
def test_what_needs_a_failed_run_fails_with_it(workers, tmp_path):
    base, fine = planned("base", does="raise"), planned("fine")
    middle = planned("middle", (base.key, fine.key))
    top = planned("top", (middle.key,))
    summary, runs = done(tmp_path / "out", [top, middle, base, fine], workers)
    assert (summary.failed, summary.finished) == (3, 1)
    for name in ("middle", "top"):
        assert (
            runs[name]["reason"] == f"needs {base.key[:12]}, which failed: {runs['base']['reason']}"
            and runs[name]["attempts"] == 0
        )
    again, _ = done(tmp_path / "out", [top, middle, base, fine], workers)
    assert (again.failed, again.executed) == (3, 0)


def test_what_needs_a_failed_run_says_why_at_the_next_driver_too(tmp_path):
    """A driver that has only the end of a chain hands on the reason of its beginning; and what the
    machine stopped is said of those that need it, since they run again."""
    base, stopped = planned("base", does="raise"), planned("stopped", does="memory")
    middle = planned("middle", (base.key,))
    top, late = planned("top", (middle.key,)), planned("late", (stopped.key,))
    done(tmp_path / "out", [base, middle, stopped, late])
    with Store.open(tmp_path / "out", create=True) as store:
        store.add_plan("toys", {}, {}, [base, middle, top, stopped, late])
        recorder = RunRecorder(store, Driver.current())
        recorder.blocked([top.key], middle.key)
        runs = {run["labels"]["method"]: run for run in store.runs("toys")}
        assert runs["top"]["reason"] == runs["middle"]["reason"]
        assert runs["top"]["reason"].endswith(f", which failed: {runs['base']['reason']}")
        assert {name: run["cause"] for name, run in runs.items()} == {
            **dict.fromkeys(("base", "middle", "top")),
            **dict.fromkeys(("stopped", "late"), "memory"),
        }
        drive(store, [base, middle, top, stopped, late], Inline(JOB))
        again = {run["labels"]["method"]: run["reason"] for run in store.runs("toys")}
        assert again == {name: run["reason"] for name, run in runs.items()}


def test_failed_runs_get_another_chance_only_when_asked(tmp_path):
    base = planned("base", does="raise")
    runs = [base, planned("top", (base.key,))]
    done(tmp_path / "out", runs)
    with Store.open(tmp_path / "out", create=True) as store:
        engine = Inline("tests.execution.toys:healed")
        assert drive(store, runs, engine).failed == 2
        summary = drive(store, runs, engine, retry_failed=True)
        assert (summary.finished, summary.failed) == (2, 0)
        assert {run["reason"] for run in store.runs("toys")} == {None}


# Name of what the toy does: the cause that is kept; and with it how often one driver starts it.
STOPPED = {
    "memory": ("memory", 2),
    "no memory left to map": ("memory", 2),
    "wrapped": ("disk", 1),
    "quota": ("disk", 1),
    "safetensors": ("disk", 1),
    "input": ("system", 1),
    "handles": ("system", 1),
    "file size": ("system", 1),
    "die": ("killed", 2),
    "term": ("killed", 2),
}
OWN = {"raise": 1, "refuse": 1, "wrong": 1, "no file": 1, "exit": 2, "segfault": 2}
OF_WORKERS = ("die", "term", "exit", "segfault")  # in this process they would end the test


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*STOPPED, *OWN])
def test_what_the_machine_stopped_is_done_again_at_the_next_run_and_nothing_else(kind, tmp_path):
    cause, attempts = STOPPED.get(kind, (None, OWN.get(kind)))
    base = planned("base", does=kind, log=str(tmp_path / "log"))
    runs = [base, planned("top", (base.key,)), planned("other")]
    workers = int(kind in OF_WORKERS)
    done(tmp_path / "out", runs[2:], workers, study="before")
    for number in (1, 2):
        summary, rows_found = done(tmp_path / "out", runs, workers)
        assert (summary.failed, summary.finished) == (2, 1)
        assert (rows_found["base"]["cause"], rows_found["base"]["attempts"]) == (cause, attempts)
        assert kind not in FAILURES or re.search(FAILURES[kind][0], rows_found["base"]["reason"]), (
            "as in a worker"
        )
        times = number if cause else 1
        assert words(tmp_path / "log")["start base"] == times * attempts, (
            "each driver tries it as often, and no oftener"
        )


def test_what_the_machine_stopped_ends_well_when_the_machine_does(tmp_path):
    base = planned("base", does="quota")
    runs = [base, planned("top", (base.key,)), planned("own", does="raise")]
    assert done(tmp_path / "out", runs)[0].stopped
    with Store.open(tmp_path / "out", create=True) as store:
        summary = drive(store, runs, Inline("tests.execution.toys:healed"))
        assert (summary.finished, summary.failed, summary.stopped) == (3, 0, "")
        assert {run["cause"] for run in store.runs("toys")} == {None}


def test_on_a_full_disk_no_more_runs_are_begun(tmp_path, capsys):
    runs = [
        planned("first"),
        planned("full", does="quota"),
        *(planned(f"more{i}") for i in range(5)),
    ]
    summary, rows_found = done(tmp_path / "out", runs)
    assert (summary.finished, summary.failed, summary.executed) == (1, 1, 2)
    assert (
        "the disk is full, so no more runs are begun; free space and give the command again"
        in summary.stopped
    )
    assert [rows_found[f"more{i}"]["status"] for i in range(5)] == ["pending"] * 5
    from crosswind.cli.main import _status

    assert _status(["status", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(
        "  1 stopped by the machine (disk full): they run again at the next run (OSError: [Errno"
        " 122]"
    )
    # A run that always fills the disk does not keep the others from their turn.
    summary, rows_found = done(tmp_path / "out", runs)
    assert (summary.finished, summary.failed, summary.executed) == (6, 1, 6) and summary.stopped


@pytest.mark.slow
def test_a_job_that_cannot_be_loaded_fails_its_runs(tmp_path):
    for job in ("tests.execution.toys:nothing", "no.such.module:job", "nonsense"):
        with Store.open(tmp_path / job, create=True) as store, WorkerPool(job, 1) as engine:
            store.add_plan("toys", {}, {}, [planned("a")])
            assert drive(store, [planned("a")], engine).failed == 1
            assert f"the job {job} cannot be loaded" in store.runs("toys")[0]["reason"]


@pytest.mark.slow
def test_a_full_disk_fails_the_run_or_stops_the_study_and_breaks_nothing(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    runs = [planned("before"), planned("fill", does="fill"), planned("after")]
    try:
        summary, rows_found = done(folder / "out", runs, 1)
        assert (summary.finished, summary.failed) == (
            1,
            1,
        ) and "the disk is full" in summary.stopped
        assert (
            "No space left on device" in rows_found["fill"]["reason"]
            and rows_found["fill"]["cause"] == "disk"
        )
        summary, rows_found = done(folder / "out", runs, 1)
        assert (summary.finished, summary.failed, summary.executed) == (2, 1, 2)
        # Now not even the store can be written.
        more_runs = [planned(f"more{i}", padding="x" * 2000) for i in range(50)]
        with Store.open(folder / "out", create=True) as store, Inline(JOB) as engine:
            store.add_plan("more", {}, {}, more_runs)
            with pytest.raises(StoreError, match=r"full|No space"):
                drive(
                    store,
                    more_runs,
                    engine,
                    on_event=lambda progress: fill_up(folder) if progress.done == 3 else None,
                )
        (folder / "ballast").unlink()
        with Store.open(folder / "out", create=True) as store, store.transaction() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        summary, rows_found = done(folder / "out", more_runs, 1, study="more")
        assert summary.finished == 50 and summary.executed <= 47
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill_up(folder):
    with contextlib.suppress(OSError), (folder / "ballast").open("ab", buffering=0) as file:
        while file.write(b"x" * 1024):
            pass


# --- progress
# --------------------------------------------------------------------------------------------------


def test_progress_is_told(tmp_path):
    events = []
    runs = [
        planned("base", seconds=0.6),
        planned("bad", does="raise"),
        planned("last", seconds=0.1),
    ]
    done(tmp_path / "out", runs, 1, on_event=events.append)
    assert [event.done + event.failed for event in events] == sorted(
        event.done + event.failed for event in events
    )
    assert (events[0].done, events[0].total, events[0].left) == (0, 3, None)
    assert (events[-1].done, events[-1].failed, events[-1].running, events[-1].left) == (
        2,
        1,
        0,
        0.0,
    )
    assert {event.report.get("steps") for event in events if event.message == "runs"} == {3}
    after_first = next(event for event in events if event.done == 1)
    assert after_first.left is not None and 0.3 < after_first.left < 2.5


def test_an_error_while_telling_gives_the_runs_back(tmp_path):
    def tell(progress):
        if progress.message == "started":
            raise BrokenPipeError

    for workers in (0, 1):
        with pytest.raises(BrokenPipeError):
            done(tmp_path / "out", [planned("a"), planned("b")], workers, on_event=tell)
        with Store.open(tmp_path / "out") as store:
            assert store.counts("toys")["pending"] == 2 and store.live_drivers() == set()


# --- signals and kills
# --------------------------------------------------------------------------------------------------


def start(out, log_file, workers=2, **more):
    command = [sys.executable, "-m", "tests.execution.toys", str(out), str(log_file), str(workers)]
    return subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def workers_in(log_file):
    lines = log_file.read_text().splitlines() if log_file.exists() else []
    return {int(line.split()[2]) for line in lines}


@pytest.fixture
def interruptible():
    """A program started in the background by a shell ignores SIGINT, and what it starts inherits
    that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, 2), (signal.SIGTERM, 0)])
def test_a_signal_ends_a_study_cleanly(interruptible, number, workers, tmp_path):
    out, log_file = tmp_path / "out", tmp_path / "log"
    process = start(out, log_file, workers)
    until(lambda: sum(words(log_file).values()) > 6)
    process.send_signal(number)
    _, error_text = process.communicate(timeout=10)
    assert (process.returncode, error_text) == (130, b"")
    with Store.open(out) as store:
        counts, live = store.counts("toys"), store.live_drivers()
        assert {run["attempts"] for run in store.runs("toys") if run["status"] == "pending"} == {0}
    assert (
        counts["running"] == 0
        and 0 < counts["finished"] < 14
        and counts["failed"] == 0
        and not live
    )
    assert os.listdir(out / "artifacts" / ".partial") == []
    assert not any(process_start(pid) for pid in workers_in(log_file))
    summary, _ = done(out, graph(log_file), 2)
    assert summary.finished == 14


def test_an_interrupt_in_a_run_of_this_process_gives_it_back(interruptible, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        done(tmp_path / "out", [planned("a"), planned("i", does="interrupt"), planned("b")])
    with Store.open(tmp_path / "out") as store:
        assert [run["status"] for run in store.runs("toys")] == ["finished", "pending", "pending"]
        assert [run["attempts"] for run in store.runs("toys")] == [1, 0, 0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_workers_end_with_a_killed_driver_and_the_next_goes_on(tmp_path):
    out, log_file = tmp_path / "out", tmp_path / "log"
    process = start(out, log_file)
    until(lambda: sum(words(log_file).values()) > 6)
    process.kill()
    process.communicate()
    until(lambda: not any(process_start(pid) for pid in workers_in(log_file)), 2.0)
    with Store.open(out) as store:
        assert store.counts("toys")["running"] == 0  # its driver is dead
        finished = store.counts("toys")["finished"]
    summary, runs = done(out, graph(log_file), 2)
    assert summary.finished == 14 and summary.executed == 14 - finished
    assert {run["attempts"] for run in runs.values()} == {1}
    done(tmp_path / "other", graph(tmp_path / "other log"))
    assert outcome(out) == outcome(tmp_path / "other")


@pytest.mark.slow
def test_a_worker_in_a_long_run_ends_with_a_killed_driver(tmp_path):
    code = f"""
from tests.execution.test_scheduler import done, planned
from pathlib import Path
done(Path({str(tmp_path / "out")!r}), [planned("long", steps=1, seconds=60, log={str(tmp_path / "log")!r})], 1)
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    until(lambda: workers_in(tmp_path / "log"))
    process.kill()
    process.wait()
    until(lambda: not any(process_start(pid) for pid in workers_in(tmp_path / "log")), 2.0)


@pytest.mark.slow
def test_two_drivers_on_one_store_share_the_work(tmp_path):
    out, log_file = tmp_path / "out", tmp_path / "log"
    processes = [start(out, log_file, 2), start(out, log_file, 1), start(out, log_file, 0)]
    for process in processes:
        assert process.wait(timeout=600) == 0, process.stderr.read()
        process.communicate()
    assert words(log_file) == Counter(
        {f"{word} {run.spec['name']}": 1 for word in ("start", "end") for run in graph(log_file)}
    )
    with Store.open(out) as store:
        assert store.counts("toys")["finished"] == 14
        assert len({run["driver"] for run in store.runs("toys")}) > 1


# --- the pool
# --------------------------------------------------------------------------------------------------


def test_a_worker_has_one_thread_and_not_the_users_folder(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong json')")
    assert [entry for entry in sys.path if entry and not os.path.isabs(entry)] == []
    # An empty entry is the folder that one is in.
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    _, runs = done(tmp_path / "out", [planned("a"), planned("b")], 1)
    assert {run["status"] for run in runs.values()} == {"finished"}
    assert {run["cost"]["threads"] for run in runs.values()} == {"1"}
    assert len({run["cost"]["pid"] for run in runs.values()}) == 1  # one worker did both


def test_a_run_in_this_process_has_one_thread_as_well(monkeypatch):
    threads = [4]
    torch = SimpleNamespace(get_num_threads=lambda: threads[-1], set_num_threads=threads.append)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with one_thread():
        assert os.environ["OMP_NUM_THREADS"] == os.environ[
            "MKL_NUM_THREADS"
        ] == "1" and threads == [4, 1]
    assert (
        os.environ["OMP_NUM_THREADS"] == "4"
        and "MKL_NUM_THREADS" not in os.environ
        and threads == [4, 1, 4]
    )


def test_what_a_run_started_ends_with_it(tmp_path):
    _, runs = done(
        tmp_path / "out",
        [planned("spawn", does="spawn", child=str(tmp_path / "child"))],
        1,
        time_limit=1.0,
    )
    assert runs["spawn"]["reason"].startswith("time limit")
    child = int((tmp_path / "child").read_text())
    until(lambda: process_start(child) is None, 2.0)


@pytest.mark.slow
def test_workers_are_kept_from_study_to_study_and_one_that_dies_between_them_costs_nothing(
    tmp_path,
):
    pids = []
    with Store.open(tmp_path / "out", create=True) as store, WorkerPool(JOB, 1) as engine:
        for name in ("a", "b", "c"):
            store.add_plan(name, {}, {}, [planned(name)])
            assert drive(store, [planned(name)], engine).finished == 1
            run = store.runs(name)[0]
            assert run["attempts"] == 1
            pids.append(run["cost"]["pid"])
            if name == "b":
                os.kill(pids[-1], signal.SIGKILL)
                # Its first thread is gone before the last one, which still holds the socket.
                until(lambda: not engine._free[0].lives())
    assert pids[0] == pids[1] != pids[2] and process_start(pids[2]) is None


def test_a_pool_needs_a_worker():
    with pytest.raises(ValueError, match="at least one worker"):
        WorkerPool(JOB, 0)


def test_a_job_is_told_its_kind_and_the_folders_it_needs(tmp_path, monkeypatch):
    from tests.execution import toys

    jobs_told = []

    def told_of(kind, spec, place):
        jobs_told.append((spec["name"], kind, sorted(place.needed), place.profile))
        return toys.execute(kind, spec, place)

    monkeypatch.setattr(toys, "told_of", told_of, raising=False)
    fits = [replace(planned(name), kind="fit") for name in ("fit0", "fit1")]
    estimate = replace(planned("all", sorted(fit.key for fit in fits)), kind="estimate")
    with (
        Store.open(tmp_path / "out", create=True) as store,
        Inline("tests.execution.toys:told_of") as engine,
    ):
        store.add_plan("toys", {}, {}, [estimate, *fits])
        drive(store, [estimate, *fits], engine)
    assert jobs_told == [
        ("fit0", "fit", [], None),
        ("fit1", "fit", [], None),
        ("all", "estimate", list(estimate.needs), None),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_what_follows_a_job_is_done_and_recorded_with_it(workers, tmp_path):
    """One claim, one process, one transaction; a later plan with one more follower does that one
    alone."""
    fit = replace(planned("fit", log=str(tmp_path / "log")), kind="fit")
    first, second = (
        replace(planned(name, (fit.key,), log=str(tmp_path / "log")), follows=fit.key)
        for name in ("first", "second")
    )
    summary, runs = done(tmp_path / "out", [fit, first], workers)
    assert (summary.finished, summary.executed, set(runs)) == (1, 1, {"first"})
    assert len({line.split()[2] for line in (tmp_path / "log").read_text().splitlines()}) == 1
    summary, runs = done(tmp_path / "out", [fit, first, second], workers)
    assert (summary.finished, summary.executed) == (2, 1) and words(tmp_path / "log")[
        "start fit"
    ] == 1


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("bad", ["fit", "second"])
def test_of_jobs_that_follow_each_other_all_fail_or_none(bad, workers, tmp_path):
    fit = replace(planned("fit", **({"does": "raise"} if bad == "fit" else {})), kind="fit")
    first = replace(planned("first", (fit.key,)), follows=fit.key)
    second = replace(
        planned("second", (fit.key,), **({"does": "raise"} if bad == "second" else {})),
        follows=fit.key,
    )
    summary, runs = done(tmp_path / "out", [fit, first, second], workers)
    assert summary.failed == 2 and {run["status"] for run in runs.values()} == {"failed"}
    assert all("the toy is broken" in run["reason"] for run in runs.values()), (
        "the reason, not that something else failed"
    )
    with Store.open(tmp_path / "out") as store:
        assert store.statuses([fit.key])[fit.key] == "failed" and not list(
            (tmp_path / "out" / "artifacts").rglob("score.json")
        )
