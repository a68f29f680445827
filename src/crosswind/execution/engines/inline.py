"""Runs one task at a time in this process: for Python programs, notebooks and debuggers."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any, final

from crosswind.core.errors import RunError
from crosswind.data.budget import bounded
from crosswind.execution.engines import Engine, Event, Task
from crosswind.execution.engines.worker import perform
from crosswind.storage.artifacts import plain_json


@final
class Inline(Engine):
    """An engine in this process. A run that kills the process kills the driver with it.

    The time limit is looked at whenever the run reports its progress: this process cannot be ended
    from outside.
    """

    workers = 1
    interruptible = False

    def __init__(self, job: str, memory: int | None = None) -> None:
        """`job`: the function that executes a run, as `package.module:function`; `memory`: bytes of
        pixels that runs may hold, None for half of the memory that there is.
        """
        self._job, self._memory = job, memory
        self._task: Task | None = None

    def idle(self) -> int:
        """1, or 0 when a task waits for `wait`."""
        return int(self._task is None)

    def submit(self, task: Task) -> None:
        """Keep `task` for `wait`."""
        self._task = task

    def wait(self, seconds: float) -> list[Event]:
        """Execute the task that was submitted, to its end."""
        if self._task is None:
            return []
        task, begun = self._task, [time.monotonic()]

        def loaded() -> None:
            begun[0] = time.monotonic()

        def report(values: dict[str, Any]) -> None:
            spent = time.monotonic() - begun[0]
            if task.limit is not None and spent > task.limit:
                raise RunError(f"time limit: the run took more than {task.limit:g} seconds")

        self._task = None
        # Through JSON and back, so that the run sees and returns what it would in a worker.
        with bounded(self._memory):
            event = perform(
                self._job, json.loads(plain_json(dataclasses.asdict(task))), report, loaded
            )
        return [Event(**event, worker="inline")]

    def cancel(self) -> None:
        """Forget a task that was not started."""
        self._task = None
