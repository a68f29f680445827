"""Drives the runs of a plan to their end: in the order of their needs, on an engine, recorded in a store.

A driver may be killed at any moment and started again: finished runs stay, the others go on from their checkpoints. Several
drivers may work on one store. An exception fails its run at once, for it would come again; a run whose worker dies is tried
once more; a run that needs a failed one fails with it; and the study goes on. What the machine stopped (`causes`) is done again by
the next driver, after everything else. On a full disk no more runs are begun: each of them would fail for the same reason.
"""

from __future__ import annotations

import contextlib
import graphlib
import heapq
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from crosswind.core.errors import InputError, InternalError, StoreError
from crosswind.core.types import Job
from crosswind.studies.artifacts import artifact_folder, checkpoint_folder, staging_folder
from crosswind.studies.causes import cause_of
from crosswind.studies.drivers import HEARTBEAT_SECONDS, Driver
from crosswind.studies.engines import Engine, Event, Task
from crosswind.studies.ledger import Ledger
from crosswind.studies.store import DONE, Store
from crosswind.studies.traces import Traces

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Progress:
    """How far a study is. `done` counts finished and diverged runs, `running` also those of other drivers; `left` is the time left
    in seconds, None before the first run has ended. `message` is one line on what just happened, to the run `key`; `report` what
    that run said itself, if it did.
    """

    done: int
    running: int
    failed: int
    total: int
    left: float | None
    message: str
    key: str
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """How a study ended: numbers of runs by status, how many of them this driver executed, and its seconds.

    `busy`: the seconds of the runs that it executed, as a share of its seconds times its workers. `traces`: files of traces, and
    `untraced` the reasons where one was asked for and there is none. `stopped`: why runs were left to the next driver, a sentence.
    """

    finished: int
    diverged: int
    failed: int
    executed: int
    seconds: float
    busy: float = 0.0
    traces: tuple[str, ...] = ()
    untraced: tuple[str, ...] = ()
    stopped: str = ""


def drive(
    store: Store,
    runs: Sequence[Job],
    engine: Engine,
    *,
    on_event: Callable[[Progress], None] | None = None,
    time_limit: float | None = None,
    retry_failed: bool = False,
    profile: Path | None = None,
) -> Summary:
    """Execute what is not done of `runs`, which the store knows already (`Store.add_plan`).

    `time_limit`: seconds for one run. `retry_failed`: give failed runs another chance. `profile`: a folder for traces of the first
    run of every data set, model and method that is executed. Raises `InputError` for needs that are
    missing or go in a circle; `StoreError` when the store can no longer be written; `KeyboardInterrupt`, with the signal's number,
    on SIGINT, SIGTERM and SIGHUP. However it ends, what was running is pending again.
    """
    driver = Driver.current()
    ledger = Ledger(store, driver)
    try:
        traces = None if profile is None else Traces(profile, runs)
        work = _Work(ledger, runs, engine, on_event, time_limit, traces)
        with _Interrupts(engine.interruptible) as interrupts, _heart(ledger):
            ledger.enter()
            try:
                return work.go(interrupts, retry_failed)
            finally:
                with interrupts.held():
                    engine.cancel()
                    try:
                        ledger.leave()
                    except StoreError:
                        pass  # the reason is on its way already; the next driver gives back what this one had
    finally:
        driver.end()


class _Work:
    """The state of one `drive`."""

    def __init__(
        self,
        ledger: Ledger,
        runs: Sequence[Job],
        engine: Engine,
        on_event: Callable[[Progress], None] | None,
        time_limit: float | None,
        traces: Traces | None,
    ) -> None:
        self.ledger, self.store, self.engine = ledger, ledger.store, engine
        self.on_event, self.time_limit, self.traces = on_event, time_limit, traces
        self.runs: dict[str, Job] = {}
        for run in runs:
            self.runs.setdefault(run.key, run)  # one run may stand in a study twice, under two labels
        self.position = {key: position for position, key in enumerate(self.runs)}
        self.dependents = _dependents(self.runs, self.store)
        self.following: dict[str, list[str]] = {}  # the jobs that are done right after one, in their order
        for key, run in self.runs.items():
            if run.follows in self.runs:
                self.following.setdefault(run.follows, []).append(key)
        # What is counted, and told of: the others are steps on the way to these.
        self.rows = {key for key, run in self.runs.items() if run.kind == "score"}
        self.open_needs = {key: {need for need in run.needs if need in self.runs} for key, run in self.runs.items()}
        self.ready: list[tuple[bool, int]] = []
        self.again: set[str] = set()
        self.faults: dict[str, list[str]] = {}
        self.stopped = ""
        self.order = list(self.runs)
        self.active: dict[str, float] = {}
        self.foreign: set[str] = set()
        self.status: dict[str, str] = {}
        self.took: list[float] = []
        self.executed = 0
        self.busy = 0.0
        self.done = self.failed = 0

    def go(self, interrupts: _Interrupts, retry_failed: bool) -> Summary:
        started = time.monotonic()
        # Last in line, lest a run that fills the disk each time keeps the others from their turn.
        self.again = {key for key, status in self.store.statuses(self.runs).items() if status == "failed"}
        self.ledger.reopen(self.runs, retry_failed)
        at_start = self.store.statuses(self.runs)
        unknown = [key for key in self.runs if key not in at_start]
        if unknown:
            raise StoreError(f"{self.store.name} does not know the run {unknown[0]}; its plan was not added")
        for key in self.runs:
            if at_start[key] not in (*DONE, "failed"):
                self.status[key] = "waiting"
        for key, status in at_start.items():
            if status in DONE:
                self._is_done(key, status)
            elif status == "running":
                self._is_foreign(key)
        for key, status in at_start.items():
            if status == "failed":
                self._has_failed(key)
        for key in self.runs:
            self._ready_if_free(key)
        self._tell("", f"{self.done} of {len(self.rows)} runs are done already")
        polled = time.monotonic()
        while True:
            with interrupts.held():
                self._hand_out()
            if self.stopped and not self.active:
                break
            if self.foreign and time.monotonic() - polled >= POLL_SECONDS:
                polled = time.monotonic()
                with interrupts.held():
                    self._look_at_foreign()
            elif self.active:
                events = self.engine.wait(POLL_SECONDS)
                with interrupts.held():
                    for event in events:
                        self._handle(event)
            elif self.foreign:
                time.sleep(POLL_SECONDS / 5)
            elif not self.ready:
                break
            interrupts.check()
        ended, seconds = [self.status[key] for key in self.rows], time.monotonic() - started
        finished, diverged, failed = (ended.count(status) for status in ("finished", "diverged", "failed"))
        busy = min(1.0, self.busy / max(1e-9, seconds * self.engine.workers))
        written, troubles = ((), ()) if self.traces is None else (tuple(self.traces.written), tuple(self.traces.troubles))
        return Summary(finished, diverged, failed, self.executed, seconds, busy, written, troubles, self.stopped)

    def _hand_out(self) -> None:
        while self.ready and not self.stopped and self.engine.idle() > 0:
            key = self.order[heapq.heappop(self.ready)[1]]
            if self.status[key] != "waiting":
                continue
            run, out = self.runs[key], self.store.out
            damaged = next((need for need in run.needs if self._faults(need)), None)
            if damaged is not None:
                why = f"of whose files {self._faults(damaged)[0]}; `crosswind check --repair` has it done again"
                self.ledger.blocked([key], damaged, why)
                self._after_failure(key, f"needs {damaged[:12]}, {why}")
                continue
            if not self.ledger.claim(key):
                self._is_foreign(key)
                continue
            following = self._followers(key)
            fresh = {name: staging_folder(out, self.ledger.driver.id, name) for name in (key, *following)}
            trace = None if self.traces is None else self.traces.path(run)
            others = [self._task(self.runs[name], fresh) for name in following]
            task = replace(self._task(run, fresh), limit=self.time_limit, profile=trace, following=others)
            self.status[key] = "running"
            self.active[key] = time.monotonic()
            self.engine.submit(task)
            self._tell(key, "started")

    def _followers(self, key: str) -> list[str]:
        return [name for name in self.following.get(key, ()) if self.status.get(name) == "waiting"]

    def _counts(self, key: str) -> bool:
        """Whether a job, with those that follow it, is one that a summary counts as executed."""
        return self.runs[key].kind == "fit" or not self.rows.isdisjoint((key, *self._followers(key)))

    def _task(self, run: Job, fresh: Mapping[str, Path]) -> Task:
        """`fresh`: the folders of the jobs that are done in one go."""
        out = self.store.out
        needed = {need: str(fresh.get(need) or artifact_folder(out, need)) for need in run.needs}
        checkpoint = str(checkpoint_folder(out, run.key) / "state.safetensors")
        return Task(run.key, run.kind, run.spec, str(fresh[run.key]), checkpoint, needed)

    def _handle(self, event: Event) -> None:
        key = event.key
        if event.kind == "progress":
            self._tell(key, "runs", event.result)
            return
        del self.active[key]
        self.executed += self._counts(key)
        self.busy += event.seconds
        if self.traces is not None and event.kind != "lost":
            self.traces.ended(self.runs[key], event.result if event.kind == "finished" else None)
        if event.kind != "finished":
            # First of all, since it may be what fills the disk that the reason has to be written to.
            for name in (key, *self._followers(key)):
                shutil.rmtree(staging_folder(self.store.out, self.ledger.driver.id, name), ignore_errors=True)
        if event.kind == "finished":
            self._record(event)
        elif event.kind in ("failed", "fault"):
            self._fail(event, event.reason)
            if event.kind == "fault":  # other runs would have it too, told of or not
                raise InternalError(event.reason)
        elif self.ledger.lost(key, event.reason, event.detail, event.worker, event.cause, self._followers(key)):
            self.executed -= self._counts(key)
            self.status[key] = "waiting"
            self._push(key)
            self._tell(key, f"is tried once more: {event.reason}")
        else:
            self._after_failure(key, event.reason)

    def _record(self, event: Event) -> None:
        staged = staging_folder(self.store.out, self.ledger.driver.id, event.key)
        try:
            ours = self.ledger.finished(event.key, event.result, event.seconds, staged, event.worker)
        except StoreError as error:
            # The disk may be too full for the files but not for one line; if it is, this raises and the study stops.
            for name in (event.key, *event.result.get("following", {})):
                shutil.rmtree(staged.with_name(name), ignore_errors=True)
            self._fail(replace(event, cause=cause_of(error) or "system"), f"its result could not be stored: {error}")
            return
        if not ours:
            self._is_foreign(event.key)
            return
        self.took.append(event.seconds)
        for name, result in event.result.get("following", {}).items():
            self._is_done(name, str(result["status"]))
        self._is_done(event.key, str(event.result["status"]))
        self._tell(event.key, str(event.result["status"]))

    def _fail(self, event: Event, reason: str) -> None:
        following = self._followers(event.key)
        if self.ledger.failed(event.key, reason, event.detail, event.seconds, event.worker, event.cause, following):
            self._after_failure(event.key, reason)
        else:
            self._is_foreign(event.key)
        if event.cause == "disk" and not self.stopped:
            self.stopped = f"{self.store.name}: the disk is full, so no more runs are begun; free space and give the command again"

    def _after_failure(self, key: str, reason: str) -> None:
        self._has_failed(key)
        self._tell(key, f"failed: {reason}")

    def _is_done(self, key: str, status: str) -> None:
        self.foreign.discard(key)
        self.status[key] = status
        self.done += key in self.rows
        for dependent in self.dependents[key]:
            self.open_needs[dependent].discard(key)
            self._ready_if_free(dependent)

    def _has_failed(self, key: str) -> None:
        """Count the failure of `key` and fail what needs it."""
        self.foreign.discard(key)
        blocked, todo = [], [key]
        while todo:
            for dependent in self.dependents[todo.pop()]:
                if self.status.get(dependent) == "waiting":
                    self.status[dependent] = "failed"
                    blocked.append(dependent)
                    todo.append(dependent)
        self.status[key] = "failed"
        self.failed += sum(name in self.rows for name in (key, *blocked))
        if blocked:
            self.ledger.blocked(blocked, key)

    def _ready_if_free(self, key: str) -> None:
        if self.status.get(key) == "waiting" and not self.open_needs[key]:
            self._push(key)

    def _push(self, key: str) -> None:
        heapq.heappush(self.ready, (key in self.again, self.position[key]))

    def _faults(self, need: str) -> list[str]:
        """What is wrong with the files of a finished run that others start from; they are read once."""
        if need not in self.faults:
            self.faults[need] = self.store.faults(need, self.store.run(need)["files"], read=True)
        return self.faults[need]

    def _is_foreign(self, key: str) -> None:
        self.status[key] = "foreign"
        self.foreign.add(key)

    def _look_at_foreign(self) -> None:
        """What other drivers did with the runs that they had; what dead ones left is ours to claim."""
        self.ledger.reclaim()
        for key, status in self.store.statuses(self.foreign).items():
            if status in DONE:
                self._is_done(key, status)
                self._tell(key, f"{status}, by another driver")
            elif status == "failed":
                self._has_failed(key)
                self._tell(key, "failed, by another driver")
            elif status == "pending":
                self.foreign.discard(key)
                self.status[key] = "waiting"
                self._ready_if_free(key)

    def _tell(self, key: str, message: str, report: Mapping[str, Any] | None = None) -> None:
        if self.on_event is not None:
            running = len(self.active) + len(self.foreign)
            self.on_event(Progress(self.done, running, self.failed, len(self.rows), self._left(), message, key, report or {}))

    def _left(self) -> float | None:
        """Seconds left, as if every run took the mean of those that ended in this session."""
        if not self.took:
            return None
        mean, at = sum(self.took) / len(self.took), time.monotonic()
        waiting = max(0, len(self.rows) - self.done - self.failed - len(self.active))
        of_active = sum(max(0.0, mean - (at - since)) for since in self.active.values())
        return (waiting * mean + of_active) / max(1, self.engine.workers)


class _Interrupts:
    """Makes SIGINT, SIGTERM and SIGHUP end the study cleanly: they raise `KeyboardInterrupt`, but not while a result is recorded.

    With an engine that waits interruptibly they only raise where `check` is called. Off the main thread it does nothing.
    """

    def __init__(self, gently: bool) -> None:
        self._gently = gently
        self._held = False
        self._received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):  # `nohup` and the like have their way
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has come."""
        if self._received is not None:
            raise KeyboardInterrupt(self._received)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let a signal wait until the block has ended; the next `check` raises."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def _receive(self, number: int, _: FrameType | None) -> None:
        self._received = number
        if not self._held and not self._gently:
            raise KeyboardInterrupt(number)


@contextlib.contextmanager
def _heart(ledger: Ledger) -> Iterator[None]:
    """Beat for the driver from a thread, since a run in this process may take hours."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            try:
                ledger.heartbeat()
            except StoreError:
                pass  # a store that cannot be written stops the driver when it next records something, with the reason

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _dependents(runs: Mapping[str, Job], store: Store) -> dict[str, list[str]]:
    """For each run those that need it. A need outside the plan must be done in the store already."""
    out: dict[str, list[str]] = {key: [] for key in runs}
    outside = {need for run in runs.values() for need in run.needs if need not in runs}
    done = {key for key, status in store.statuses(outside).items() if status in DONE}
    for key, run in runs.items():
        for need in run.needs:
            if need in runs:
                out[need].append(key)
            elif need not in done:
                raise InputError("runs", f"the run {key} needs {need}, which is neither in the plan nor finished in the store")
    try:
        graphlib.TopologicalSorter({key: run.needs for key, run in runs.items()}).prepare()
    except graphlib.CycleError as error:
        raise InputError("runs", f"these runs need each other in a circle: {' -> '.join(error.args[1])}") from None
    return out
