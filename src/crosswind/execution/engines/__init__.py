"""Where runs execute: what an engine is given and gives back.

An engine takes tasks and yields events; it knows nothing of stores, plans or dependencies. `inline`
runs in this process, `pool` in worker processes on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self


@dataclass(frozen=True)
class Task:
    """One job to execute, and those that follow it. Paths are text, so that a task is JSON.

    `folder`: where the job writes its files. `checkpoint`: the file of what it needs to go on, in a
    folder of its own. `needed`: the folders of the jobs it needs, by key. `limit`: seconds that it
    may take, None for no limit. `profile`: where a trace of it goes, a path without its suffix,
    None for no trace. `following`: jobs that are done right after it, in their order, each in a
    folder beside its own.
    """

    key: str
    kind: str
    spec: Mapping[str, Any]
    folder: str
    checkpoint: str
    needed: Mapping[str, str] = field(default_factory=dict)
    limit: float | None = None
    profile: str | None = None
    following: Sequence[Task] = ()


@dataclass(frozen=True)
class Workspace:
    """The folders of one job: its `key`, and `needs`, the keys of what it needs.

    `folder` takes its files, `checkpoint` its resumable state, `report` its progress. `needed`: the
    folders of `needs`. `profile`: where a trace goes, a path without its suffix. `handover`: what jobs
    done just before in this process left for those that follow.
    """

    key: str
    needs: tuple[str, ...]
    folder: Path
    checkpoint: Path
    report: Callable[[dict[str, Any]], None]
    needed: Mapping[str, Path] = field(default_factory=dict)
    profile: Path | None = None
    handover: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """An event of the job `key`.

    `finished` has `result`, and in its `following` those of the jobs that followed, by key.
    `failed` is an exception, or the time limit: not tried again at once. `lost` is a worker that
    died, or no memory: worth another try. Also `fault` (an `InternalError`: the study stops) and
    `progress` (with `result`, what the run reported). `seconds`: since its start. `cause`: of
    `failed` and `lost`, what of the machine stopped the run, a key of
    `crosswind.execution.failure_causes.CAUSES`, or "" where the run did it itself.
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
    """Executes tasks. A context manager, which ends what still runs."""

    workers: int
    """How many tasks run at once."""

    interruptible: bool
    """Whether `wait` returns at once after a signal; if not, the signal has to raise."""

    notes: Sequence[str] = ()
    """Sentences on what a person should know before tasks run."""

    def idle(self) -> int:
        """How many more tasks can be submitted now."""

    def submit(self, task: Task) -> None:
        """Start `task`, which `idle` has room for."""

    def wait(self, seconds: float) -> list[Event]:
        """The events since the last call; waits for at most `seconds` for something to happen, but
        may work longer."""

    def cancel(self) -> None:
        """End all running tasks at once and forget them; what they did since their last checkpoint
        is lost."""

    def close(self) -> None:
        """Cancel, and give everything back."""
        self.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
