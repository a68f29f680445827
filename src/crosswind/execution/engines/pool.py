"""Runs tasks in worker processes on this machine, each with one thread, each doing many runs.

A worker that dies, by whatever cause, costs the run it had and is replaced. Workers are started
afresh as programs of their own and not forked, so nothing of the driver's threads, locks or
`__main__` gets into them. Linux and macOS.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import IO, Any, Literal, final

from crosswind.core.errors import one_line
from crosswind.data.budget import budget
from crosswind.data.resident import Region
from crosswind.execution.engines import Engine, Event, Task
from crosswind.execution.engines.worker import environment
from crosswind.execution.failure_causes import advice_on_signal, cause_of, cause_of_signal
from crosswind.storage.artifacts import plain_json
from crosswind.training.settings import WORKER_VARIABLE

START_SECONDS = 120.0
OUTPUT_BYTES = 16_384
LAST_LINES = 3


@final
class WorkerPool(Engine):
    """An engine of `workers` processes, started when first needed, which hold the pixels that they
    train on once for all."""

    interruptible = True

    def __init__(
        self, job: str, workers: int, modules: Sequence[str] = (), memory: int | None = None
    ) -> None:
        """`job`: the function that executes a run, as `package.module:function`. `workers`: at
        least 1. `modules`: what workers import to find classes that are registered neither in the
        package nor by entry point. `memory`: bytes of pixels that all workers together may hold,
        None for half of the memory that there is.
        """
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, not {workers}")
        self._job, self.workers, self._modules = job, workers, tuple(modules)
        self._free: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._lost: list[Event] = []
        self._started = 0
        self._memory = memory
        self._pixels: Region | None = None

    def idle(self) -> int:
        """How many more tasks can be submitted now."""
        return self.workers - len(self._busy) - len(self._lost)

    def submit(self, task: Task) -> None:
        """Give `task` to a worker, starting one where none is free. A worker that died while it was
        free costs nothing."""
        while self._free:
            worker = self._free.pop()
            if worker.take(task):
                self._busy.append(worker)
                return
            worker.end()
        try:
            self._started += 1
            taken = {worker.slot for worker in self._busy}  # none is free: those were asked first
            slot = next(slot for slot in range(self.workers) if slot not in taken)
            if self._pixels is None:
                # Made here, so that it outlives every worker, and nothing of it is left when this
                # process has ended.
                self._pixels = Region.create(budget() if self._memory is None else self._memory)
            worker = _Worker(self._job, self._started, self._modules, slot, self._pixels.handle)
        except OSError as error:
            reason = f"no worker could be started: {error.strerror or error}"
            self._lost.append(
                Event(task.key, "lost", reason=reason, cause=cause_of(error) or "system")
            )
            return
        worker.take(task)  # if it is dead already, `wait` will see it
        self._busy.append(worker)

    def wait(self, seconds: float) -> list[Event]:
        """The events, as soon as something happens, at the latest after `seconds`."""
        events, self._lost = self._lost, []
        if not self._busy:
            return events
        deadline = min([time.monotonic() + seconds, *(worker.deadline for worker in self._busy)])
        remaining = 0.0 if events else max(0.0, deadline - time.monotonic())
        ready = wait([worker.connection for worker in self._busy], min(remaining, 0.5))
        for worker in list(self._busy):
            # What a worker said before it died counts; and its child may hold the socket open, so
            # its process is looked at too.
            dead = not worker.lives()
            if worker.connection in ready or (dead and worker.connection.poll()):
                events += self._read(worker)
            else:
                events += self._ended(worker) if dead else self._overdue(worker)
        return events

    def cancel(self) -> None:
        """Kill the workers that have a task."""
        for worker in self._busy:
            worker.end()
        self._busy, self._lost = [], []

    def close(self) -> None:
        """Kill all workers and give back what they held in common."""
        self.cancel()
        for worker in self._free:
            worker.end()
        self._free = []
        if self._pixels is not None:
            self._pixels.close()
            self._pixels = None

    def _read(self, worker: _Worker) -> list[Event]:
        try:
            message = json.loads(worker.connection.recv_bytes())
        except (EOFError, OSError, ValueError):
            return self._ended(worker)
        if message["kind"] == "ready":
            worker.ready()
            return []
        if message["kind"] == "loaded":
            worker.loaded()
            return []
        if message["kind"] == "progress":
            return [worker.event("progress", result=message["result"])]
        event = Event(**message, worker=worker.name)
        self._busy.remove(worker)
        if (
            event.kind == "lost"
        ):  # out of memory: a new process starts with none of what this one still holds
            worker.end()
        else:
            self._free.append(worker)
        return [event]

    def _ended(self, worker: _Worker) -> list[Event]:
        self._busy.remove(worker)
        return [dataclasses.replace(worker.event("lost"), **worker.last_words())]

    def _overdue(self, worker: _Worker) -> list[Event]:
        if time.monotonic() < worker.deadline:
            return []
        if worker.is_ready:
            event = worker.event(
                "failed", reason=f"time limit: the run took more than {worker.limit:g} seconds"
            )
        else:
            event = worker.event(
                "lost",
                reason=f"its worker did not start within {START_SECONDS:g} seconds",
                cause="system",
            )
        self._busy.remove(worker)
        worker.end()
        return [event]


class _Worker:
    """One process, the socket to it, and the last of what it printed."""

    def __init__(
        self, job: str, number: int, modules: Sequence[str], slot: int, pixels: int
    ) -> None:
        ours, theirs = socket.socketpair()
        read_end, self._lifeline = os.pipe()
        module = "crosswind.execution.engines.worker"
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    module,
                    *map(str, (theirs.fileno(), read_end, os.getpid(), pixels)),
                    job,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(), read_end, pixels),
                env={**environment(modules), WORKER_VARIABLE: str(slot)},
                # Ctrl-C is for the driver; and what a run starts can be ended with it
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(read_end)
        self.connection = Connection(ours.detach())
        self.name = f"worker {number} (process {self._process.pid})"
        self.slot = slot
        self.key, self.is_ready = "", False
        self.limit: float | None = None
        self.deadline = time.monotonic() + START_SECONDS
        self._since = time.monotonic()
        self._output = b""
        assert self._process.stdout is not None
        self._listener = threading.Thread(
            target=self._listen, args=(self._process.stdout,), daemon=True
        )
        self._listener.start()

    def event(self, kind: Literal["failed", "lost", "progress"], **fields: Any) -> Event:
        """The event of the task now."""
        return Event(
            self.key, kind, seconds=time.monotonic() - self._since, worker=self.name, **fields
        )

    def take(self, task: Task) -> bool:
        """Send the task; False when the worker is dead."""
        self.key, self.limit, self._output = task.key, task.limit, b""
        if self.is_ready:
            self.ready()
        try:
            self.connection.send_bytes(plain_json(dataclasses.asdict(task)).encode())
        except OSError:
            return False
        return True

    def ready(self) -> None:
        """The process has started; before the run's time counts it may load its libraries."""
        self.is_ready, self._since = True, time.monotonic()
        limit = float("inf") if self.limit is None else self.limit
        self.deadline = self._since + max(limit, START_SECONDS)

    def loaded(self) -> None:
        """From now on the run's time counts: the libraries that it needs are there."""
        self._since = time.monotonic()
        self.deadline = float("inf") if self.limit is None else self._since + self.limit

    def lives(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process and what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.connection.close()
        os.close(self._lifeline)
        # A child in a session of its own may still hold the pipe; it is not waited for.
        self._listener.join(timeout=1.0)
        if not self._listener.is_alive() and self._process.stdout is not None:
            self._process.stdout.close()

    def last_words(self) -> dict[str, Any]:
        """Of an event: why the process ended, in one sentence, the last of what it printed, the
        cause. Ends what is left of it."""
        try:
            self._process.wait(timeout=5.0)  # the socket closes a moment before the process is gone
            status: int | None = self._process.returncode
        except subprocess.TimeoutExpired:
            status = None
        self.end()
        if status is None:
            how = "its worker closed the connection"
        elif status >= 0:
            how = f"its worker ended with exit status {status}"
        else:
            name = (
                signal.Signals(-status).name
                if -status in list(signal.Signals)
                else f"signal {-status}"
            )
            how = f"its worker was killed by {name}{advice_on_signal(-status)}"
        printed = self._output.decode("utf-8", "replace")
        last_lines = _telling(printed)
        reason = f"{how}; it said: {last_lines}" if last_lines else how
        return {"reason": reason, "detail": printed, "cause": cause_of_signal(-(status or 0))}

    def _listen(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.read(pipe.fileno(), 4096):
                self._output = (self._output + chunk)[-OUTPUT_BYTES:]


def _telling(printed: str) -> str:
    """The lines of a dead worker's output that say most: the fatal error and its place, else the
    last ones."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.startswith("Fatal Python error"):
            # The trace of every thread follows; the one that fell is marked as current.
            fallen = next(
                (index for index, later in enumerate(lines) if later.startswith("Current thread")),
                number,
            )
            frames = [later for later in lines[fallen + 1 :] if later.startswith("File ")]
            return one_line(" ".join([line, *frames[:1]]), 300)
    return one_line(" / ".join(lines[-LAST_LINES:]), 300)
