"""Brings the jobs of a plan to their end: in the order of their needs, on an engine, recorded in a
store.

A driver may be killed at any moment and started again: finished runs stay, the others go on from
their checkpoints. Several drivers may work on one store. An exception fails its run at once, for it
would come again. A run whose worker dies is tried once more, a run that needs a failed one fails
with it, and the study goes on. What the machine stopped (`causes`) is done again by the next
driver, after everything else. On a full disk no more runs are begun: each of them would fail for
the same reason.
"""

from __future__ import annotations

import contextlib
import heapq
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from logging import DEBUG, INFO, WARNING
from pathlib import Path
from types import FrameType
from typing import Any

from crosswind.core.collection import no_collection
from crosswind.core.errors import InputError, InternalError, StoreError
from crosswind.core.log import LOGGER
from crosswind.core.types import ROWS, Job, digest
from crosswind.execution.engines import Engine, Event, Task
from crosswind.execution.failure_causes import cause_of
from crosswind.execution.job_order import JobOrder
from crosswind.execution.traces import Traces
from crosswind.storage.artifacts import artifact_folder, checkpoint_folder, staging_folder
from crosswind.storage.leases import Driver
from crosswind.storage.run_recorder import RunRecorder
from crosswind.storage.store import DONE, Store

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Progress:
    """How far a study is. `done` counts finished and diverged runs, `running` also those of other
    drivers; `left` is the time left in seconds, None before the first run has ended. `message` is
    one line on what just happened, to the run `key`; `report` what that run said itself, if it did.
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
    """How a study ended: numbers of runs by status, how many of them this driver executed, and its
    seconds.

    `busy`: the seconds of the runs that it executed, as a share of its seconds times its workers.
    `traces`: files of traces, and `untraced` the reasons where one was asked for and there is none.
    `stopped`: why runs were left to the next driver, a sentence. `state`: a digest of all jobs and
    of how each ended.
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
    state: str = ""


def drive(
    store: Store,
    jobs: Sequence[Job],
    engine: Engine,
    *,
    on_event: Callable[[Progress], None] | None = None,
    time_limit: float | None = None,
    retry_failed: bool = False,
    profile: Path | None = None,
) -> Summary:
    """Execute what is not done of `jobs`, which the store knows already (`Store.add_plan`).

    `time_limit`: seconds for one run. `retry_failed`: give failed runs another chance. `profile`: a
    folder for traces of the first run of every data set, model and method that is executed. Raises
    `InputError` for needs that are missing or go in a circle. `StoreError` when the store can no
    longer be written; `KeyboardInterrupt`, with the signal's number, on SIGINT, SIGTERM and SIGHUP.
    However it ends, what was running is pending again.
    """
    driver = Driver.current()
    recorder = RunRecorder(store, driver)
    try:
        with no_collection():
            work = _Work(recorder, jobs, engine, on_event, time_limit, Traces(profile))
        with _Interrupts(engine.interruptible) as interrupts, recorder.beating():
            recorder.enter()
            try:
                return work.go(interrupts, retry_failed)
            finally:
                with interrupts.held():
                    engine.cancel()
                    # The reason is on its way already; the next driver gives back what this one
                    # had.
                    with contextlib.suppress(StoreError):
                        recorder.leave()
    finally:
        driver.end()


_NOTED = {"pending": "waiting", "running": "foreign"}
"""What a driver calls the states that a store has for a run that is not executed here."""


class _Work:
    """The state of one `drive`. The status of a run is `waiting`, `running`, `foreign` (another
    driver has it) or how it ended."""

    def __init__(
        self,
        recorder: RunRecorder,
        jobs: Sequence[Job],
        engine: Engine,
        on_event: Callable[[Progress], None] | None,
        time_limit: float | None,
        traces: Traces,
    ) -> None:
        self.recorder = recorder
        self.store = recorder.store
        self.engine = engine
        self.on_event = on_event
        self.time_limit = time_limit
        self.traces = traces
        self.jobs = {job.key: job for job in jobs}
        if len(self.jobs) < len(jobs):  # one job may stand in a study twice, under two labels
            self.jobs = {}
            for job in jobs:
                self.jobs.setdefault(job.key, job)
        # The jobs that are done right after one, in their order.
        self.following: dict[str, list[str]] = {}
        for key, job in self.jobs.items():
            if job.follows:
                self.following.setdefault(job.follows, []).append(key)
        self.position = {key: position for position, key in enumerate(self.jobs)}
        # What is counted, and told of: the others are steps on the way to these.
        self.rows = {key for key, job in self.jobs.items() if job.kind == ROWS}
        self.order = JobOrder({})  # of what is not done
        self.reached: set[str] = set()  # runs whose needs have all ended
        self.ready: list[tuple[bool, int, str]] = []
        self.again: set[str] = set()
        self.blocked_by: dict[str, str] = {}
        self.faults: dict[str, list[str]] = {}
        self.stopped = ""
        self.active: dict[str, float] = {}
        self.foreign: set[str] = set()
        self.status: dict[str, str] = {}
        self.took: list[float] = []
        self.busy = 0.0
        self.executed = self.done = self.failed = 0

    def go(self, interrupts: _Interrupts, retry_failed: bool) -> Summary:
        started = time.monotonic()
        with no_collection():
            self._look_at_start(retry_failed)
        message = f"{self.done} of {len(self.rows)} runs are done already"
        self._tell("", message)
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
        ended = [self.status[key] for key in self.rows]
        seconds = time.monotonic() - started
        finished = ended.count("finished")
        diverged = ended.count("diverged")
        failed = ended.count("failed")
        busy = min(1.0, self.busy / max(1e-9, seconds * self.engine.workers))
        traced = tuple(self.traces.written), tuple(self.traces.troubles)
        numbers = finished, diverged, failed, self.executed, seconds, busy
        state = digest([list(self.jobs), [self.status[key] for key in self.jobs]])
        return Summary(*numbers, *traced, self.stopped, state)

    def _look_at_start(self, retry_failed: bool) -> None:
        needs = {key: job.needs for key, job in self.jobs.items()}
        needed = set(chain.from_iterable(needs.values()))
        if needed <= self.jobs.keys() and self.store.all_pending(self.jobs):
            self.status = dict.fromkeys(self.jobs, "waiting")
            self.order = JobOrder(needs)
        else:
            self._look_at_begun(needed, retry_failed)
        self._reach()

    def _look_at_begun(self, needed: set[str], retry_failed: bool) -> None:
        """The start of a study of which some jobs were begun; `needed`: what its jobs need."""
        # Last in line, lest a run that fills the disk each time keeps the others from their turn.
        at_start = self.store.statuses(needed.union(self.jobs))
        self.again = {key for key in self.jobs if at_start.get(key) == "failed"}
        if self.again and self.recorder.reopen(self.again, retry_failed):
            at_start |= self.store.statuses(self.again)
        self._refuse_absent(needed, at_start)
        self.order = JobOrder(
            {
                key: [need for need in job.needs if at_start.get(need) not in DONE]
                for key, job in self.jobs.items()
                if at_start[key] not in DONE
            }
        )
        # At once, since `_note` of each of 300,000 jobs takes a second.
        self.status = {key: _NOTED.get(at_start[key], at_start[key]) for key in self.jobs}
        self.foreign = {key for key, status in self.status.items() if status == "foreign"}
        self.done = sum(self.status[key] in DONE for key in self.rows)
        self.failed = sum(self.status[key] == "failed" for key in self.rows)

    def _refuse_absent(self, needed: set[str], at_start: Mapping[str, str]) -> None:
        """Refuse jobs that the store does not know, and needs that nobody will meet."""
        for key in self.jobs:
            if key not in at_start:
                raise StoreError(
                    f"{self.store.name} does not know the run {key}; its plan was not added"
                )
        absent = {need for need in needed - self.jobs.keys() if at_start.get(need) not in DONE}
        for key, job in self.jobs.items() if absent else ():
            for need in job.needs:
                if need in absent:
                    raise InputError(
                        "runs",
                        f"the run {key} needs {need}, which is neither in the plan nor finished in"
                        " the store",
                    )

    def _hand_out(self) -> None:
        while self.ready and not self.stopped and self.engine.idle() > 0:
            key = heapq.heappop(self.ready)[-1]
            job = self.jobs[key]
            damaged = next((need for need in job.needs if self._faults(need)), None)
            if damaged is not None:
                why = (
                    f"of whose files {self._faults(damaged)[0]}; `crosswind check --repair` has it"
                    " done again"
                )
                self.recorder.blocked([key], damaged, why)
                message = f"failed: needs {damaged[:12]}, {why}"
                self._became(key, "failed", message)
            elif not self.recorder.claim(key):
                self._became(key, "running")
            else:
                self.status[key] = "running"
                self.active[key] = time.monotonic()
                following = []
                for name in self._followers(key):
                    following.append(self._task(self.jobs[name], self._go(key)))
                profile = self.traces.path(job)
                extras: dict[str, Any] = {
                    "limit": self.time_limit,
                    "profile": profile,
                    "following": following,
                }
                task = replace(self._task(job), **extras)
                self.engine.submit(task)
                self._tell(key, "started")

    def _followers(self, key: str) -> list[str]:
        return [name for name in self.following.get(key, ()) if self.status.get(name) == "waiting"]

    def _go(self, key: str) -> tuple[str, ...]:
        """The jobs that are done in one go, and recorded together."""
        return (key, *self._followers(key))

    def _counts(self, key: str) -> bool:
        """Whether a go is one that a summary counts as executed."""
        return self.jobs[key].kind == "fit" or not self.rows.isdisjoint(self._go(key))

    def _task(self, job: Job, fresh: Sequence[str] = ()) -> Task:
        """`fresh`: the jobs of the go, whose files are not in their place yet."""
        out = self.store.out
        needed = {}
        for need in job.needs:
            needed[need] = str(self._staged(need) if need in fresh else artifact_folder(out, need))
        checkpoint = str(checkpoint_folder(out, job.key) / "state.safetensors")
        folder = str(self._staged(job.key))
        return Task(job.key, job.kind, job.spec, folder, checkpoint, needed)

    def _staged(self, key: str) -> Path:
        return staging_folder(self.store.out, self.recorder.driver.id, key)

    def _handle(self, event: Event) -> None:
        key = event.key
        if event.kind == "progress":
            self._tell(key, "runs", event.result)
            return
        del self.active[key]
        self.executed += self._counts(key)
        self.busy += event.seconds
        if event.kind != "lost":
            run = self.jobs[key]
            outcome = event.result if event.kind == "finished" else None
            self.traces.ended(run, outcome)
        if event.kind == "finished":
            self._record(event)
            return
        # First of all, since it may be what fills the disk that the reason has to be written to.
        for name in self._go(key):
            shutil.rmtree(self._staged(name), ignore_errors=True)
        if event.kind != "lost":
            self._fail(event)
            if event.kind == "fault":  # other runs would have it too, told of or not
                fault = InternalError(event.reason)
                fault.add_note(event.detail)  # the trace of the process that ran it
                raise fault
        elif self.recorder.lost(
            key, event.reason, event.detail, event.worker, event.cause, self._followers(key)
        ):
            self.executed -= self._counts(key)
            self._became(key, "pending", f"is tried once more: {event.reason}")
        else:
            self._became(key, "failed", f"failed: {event.reason}")

    def _record(self, event: Event) -> None:
        staged = self._staged(event.key)
        status = str(event.result["status"])
        try:
            ours = self.recorder.finished(
                event.key, event.result, event.seconds, staged, event.worker
            )
        except StoreError as error:
            # The disk may be too full for the files but not for one line; if it is, this raises and
            # the study stops.
            for name in self._go(event.key):
                shutil.rmtree(self._staged(name), ignore_errors=True)
            cause = cause_of(error) or "system"
            self._fail(
                replace(event, reason=f"its result could not be stored: {error}", cause=cause)
            )
            return
        if ours:
            self.took.append(event.seconds)
            for name, outcome in event.result.get("following", {}).items():
                self._became(name, str(outcome["status"]))
            self._became(event.key, status, status)
        else:
            self._became(event.key, "running")

    def _fail(self, event: Event) -> None:
        failure = event.reason, event.detail, event.seconds, event.worker, event.cause
        if self.recorder.failed(event.key, *failure, self._followers(event.key)):
            self._became(event.key, "failed", f"failed: {event.reason}")
        else:
            self._became(event.key, "running")
        if event.cause == "disk" and not self.stopped:
            self.stopped = (
                f"{self.store.name}: the disk is full, so no more runs are begun; free space and"
                " give the command again"
            )

    def _became(self, key: str, status: str, message: str = "") -> None:
        """Take note of what the store says of a run that is not executed here now, and tell of it
        if there is a message."""
        self._note(key, status)
        self._reach()
        if message:
            self._tell(key, message)

    def _note(self, key: str, status: str) -> None:
        self.status[key] = _NOTED.get(status, status)
        (self.foreign.add if status == "running" else self.foreign.discard)(key)
        self.done += status in DONE and key in self.rows
        self.failed += status == "failed" and key in self.rows
        if key in self.reached:
            self._pass_on(key)

    def _pass_on(self, key: str) -> None:
        """Put a run whose needs have ended in line, or let those go on that needed it."""
        if self.status[key] == "waiting":
            heapq.heappush(self.ready, (key in self.again, self.position[key], key))
        elif self.status[key] != "foreign":
            self.order.done(key)

    def _reach(self) -> None:
        """Go on to the runs whose needs have all ended; one that needs a failed run fails with
        it."""
        blocked: dict[str, list[str]] = {}
        while keys := self.order.ready():
            for key in keys:
                self.reached.add(key)
                needs = self.jobs[key].needs
                failed = next((need for need in needs if self.status.get(need) == "failed"), "")
                if failed and self.status[key] == "waiting":
                    self.blocked_by[key] = self.blocked_by.get(failed, failed)
                    blocked.setdefault(self.blocked_by[key], []).append(key)
                    self._note(key, "failed")
                else:
                    self._pass_on(key)
        for needed, runs in blocked.items():
            self.recorder.blocked(runs, needed)

    def _faults(self, need: str) -> list[str]:
        """The faults of the files of a finished run that others start from; they are read once."""
        if need not in self.faults:
            self.faults[need] = self.store.faults(need, self.store.run(need)["files"], read=True)
        return self.faults[need]

    def _look_at_foreign(self) -> None:
        """Record the outcome of the runs that other drivers had; what dead ones left is ours to
        claim."""
        self.recorder.reclaim()
        for key, status in self.store.statuses(self.foreign).items():
            if status != "running":
                message = "" if status == "pending" else f"{status}, by another driver"
                self._became(key, status, message)

    def _tell(self, key: str, message: str, report: Mapping[str, Any] | None = None) -> None:
        if message == "runs":
            level = DEBUG
        elif message.startswith("failed"):
            level = WARNING
        else:
            level = INFO
        LOGGER.log(level, "run %s %s", key[:12], message)
        if self.on_event is not None:
            running = len(self.active) + len(self.foreign)
            n_total = len(self.rows)
            self.on_event(
                Progress(
                    self.done,
                    running,
                    self.failed,
                    n_total,
                    self._left(),
                    message,
                    key,
                    report or {},
                )
            )

    def _left(self) -> float | None:
        """Seconds left, as if every run took the mean of those that ended in this session."""
        if not self.took:
            return None
        mean = sum(self.took) / len(self.took)
        now = time.monotonic()
        waiting = max(0, len(self.rows) - self.done - self.failed - len(self.active))
        of_active = sum(max(0.0, mean - (now - since)) for since in self.active.values())
        return (waiting * mean + of_active) / max(1, self.engine.workers)


class _Interrupts:
    """Makes SIGINT, SIGTERM and SIGHUP end the study cleanly: they raise `KeyboardInterrupt`, but
    not while a result is recorded.

    With an engine that waits interruptibly they only raise where `check` is called. Off the main
    thread it does nothing.
    """

    def __init__(self, gently: bool) -> None:
        self._gently = gently
        self._held = False
        self._received = 0
        self._before = dict[int, Any]()

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) not in (
                    signal.SIG_IGN,
                    None,
                ):  # `nohup` and the like have their way
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has come."""
        if self._received:
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
