"""Where runs execute: what an engine is given and gives back.

An engine takes tasks and yields events; it knows nothing of stores, plans or dependencies. `inline` runs in this process,
`pool` in worker processes on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class Task:
    """One run to execute. Paths are text, so that a task is JSON.

    `kind`: that of the job. `folder`: where the run writes its files. `checkpoint`: the file of what it needs to go on, in a folder
    of its own. `needed`: the artifact folders of the jobs it needs, by key. `limit`: seconds that it may take, None for no limit.
    `profile`: where a trace of the run goes, a path without its suffix, None for no trace.
    """

    key: str
    spec: Mapping[str, Any]
    folder: str
    checkpoint: str
    needed: Mapping[str, str] = field(default_factory=dict)
    limit: float | None = None
    profile: str | None = None
    kind: str = "fit"


@dataclass(frozen=True)
class Event:
    """What happened to the run `key`.

    `finished` (with `result`), `failed` (an exception, or the time limit: not tried again at once), `lost` (its worker died, or
    there was no memory: worth another try), `fault` (an `InternalError`: the study stops), `progress` (with `result`, what the run
    reported). `seconds`: since its start. `cause`: of `failed` and `lost`, what of the machine stopped the run, a key of
    `crosswind.studies.causes.CAUSES`, or "" where the run did it itself.
    """

    key: str
    kind: Literal["finished", "failed", "lost", "fault", "progress"]
    result: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0
    worker: str = ""
    cause: str = ""


class Engine(Protocol):
    """Executes tasks."""

    workers: int
    """How many tasks run at once."""

    interruptible: bool
    """Whether `wait` returns at once after a signal; if not, the signal has to raise."""

    def idle(self) -> int:
        """How many more tasks can be submitted now."""
        ...

    def submit(self, task: Task) -> None:
        """Start `task`, which `idle` has room for."""
        ...

    def wait(self, seconds: float) -> list[Event]:
        """What happened; waits for at most `seconds` for something to happen, but may work longer."""
        ...

    def cancel(self) -> None:
        """End all running tasks at once and forget them."""
        ...

    def close(self) -> None:
        """Cancel, and give everything back."""
        ...
