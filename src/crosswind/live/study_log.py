"""A study that is logged to tools while it runs.

The store is read in one thread and each tool is written to in one of its own, so that a slow tool
holds neither the driver nor another. What it does not take is warned of once, and the study goes
on.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, one_line, unknown
from crosswind.core.types import ROWS, Job
from crosswind.execution.scheduler import Progress
from crosswind.live.trackers import CLIENTS, OPTION, TRACKERS, LoggedRun, Tracker
from crosswind.reports.claims.robustness import network_before
from crosswind.reports.export import client_of, from_files, plain_labels, run_names, settings_of
from crosswind.reports.runs.job_files import JobFiles
from crosswind.storage.store import DONE, Store
from crosswind.studies.job_specs import FitSpec

__all__ = ["StudyLog", "places_of", "trackers_of"]

LIVE_CURVE = "validation/accuracy"
"""What a fit reports of itself at each validation."""
PROGRESS_SECONDS = 1.0
"""The least time between two points of the progress of the study."""
CLOSE_SECONDS, STOP_SECONDS = 60.0, 10.0
"""How long the end of a study, and a stop, wait for the tools."""


def trackers_of(words: Sequence[str], out: Path, study: str) -> list[tuple[str, Tracker]]:
    """The tools that `TOOL` or `TOOL=PLACE` name, opened.

    Raises `InputError` for one that does not take its place, and what `places_of` does.
    """
    places = {
        name: place or TRACKERS[name][1](out, study) for name, place in places_of(words).items()
    }
    return [(name, TRACKERS[name][0](place, study)) for name, place in places.items()]


def places_of(words: Sequence[str]) -> dict[str, str]:
    """By tool the place that `TOOL=PLACE` names, "" for `TOOL` alone. Nothing is opened.

    Raises `InputError` for a tool that is unknown or named twice, or whose place is empty, and
    `NeedsError` for one whose client is not installed.
    """
    places: dict[str, str] = {}
    for word in words:
        name, has_place, place = word.partition("=")
        if name not in TRACKERS:
            raise unknown(OPTION, "tool", name, TRACKERS)
        if name in places:
            raise InputError(OPTION, f"{name} is named twice")
        if has_place and not place:
            raise InputError(OPTION, f"{name}= names no place")
        client_of(CLIENTS[name], name, OPTION)
        places[name] = place
    return places


class StudyLog:
    """Writes what a driver's events say to `trackers` until it is closed; a context manager.

    Of each run that ends under this driver: its accuracy on the validation set as it trains, and at
    its end the rest of its learning curve and its scores. Runs that were done before are left to
    `crosswind export`.
    """

    def __init__(
        self,
        trackers: Iterable[tuple[str, Tracker]],
        store: Store,
        study: str,
        resolved: Mapping[str, Any],
        jobs: Sequence[Job],
        warn: Callable[[str], None],
    ) -> None:
        """`store` is only read; `resolved`: the study with every default; `jobs`: those of its plan;
        `warn` is called at most once for a tool, from its thread."""
        self._store, self._study = store, study
        # rho is then beside another run, which may not have ended: a report computes it.
        self._left_out = {"rho"} if network_before(resolved) else set()
        by_key = {job.key: job for job in jobs}
        rows = {key: job for key, job in by_key.items() if job.kind == ROWS}
        names = run_names([job.labels for job in rows.values()])
        self._runs: dict[str, LoggedRun] = {}
        self._rows_of_fit: dict[str, list[str]] = {}
        self._rows_of_need: dict[str, list[str]] = {}
        for (key, job), name in zip(rows.items(), names, strict=True):
            fits = [need for need in job.needs if need in by_key and by_key[need].kind == "fit"]
            settings = settings_of(FitSpec.of(by_key[fits[0]].spec)) if fits else {}
            self._runs[key] = LoggedRun(key, name, plain_labels(job.labels), settings)
            for need in fits[:1]:
                self._rows_of_fit.setdefault(need, []).append(key)
            for need in job.needs:
                self._rows_of_need.setdefault(need, []).append(key)
        at_start = store.statuses(rows)
        self._waiting = {key for key in rows if at_start.get(key) not in DONE}
        self._sent: dict[str, set[tuple[str, int]]] = {}
        self._told_failed = {key for key in self._waiting if at_start.get(key) == "failed"}
        self._created: float | None = None
        self._progress_at = -math.inf
        self._last_second = 0
        self._last_progress: Progress | None = None
        self._senders = [_Sender(name, tracker, warn) for name, tracker in trackers]
        self._reader = _Turns("the log", warn)

    def __enter__(self) -> StudyLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(CLOSE_SECONDS if kind is None else STOP_SECONDS)

    def tell(self, progress: Progress) -> None:
        """Take an event of the driver. Waits for nothing."""
        if any(sender.alive for sender in self._senders):
            self._reader.put(lambda: self._take(progress))

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Write what has ended and not been told of, and let the tools finish, for at most
        `seconds`."""
        deadline = time.monotonic() + seconds
        self._reader.put(self._take_last)
        self._reader.finish()
        self._reader.wait(deadline)
        for sender in self._senders:
            sender.finish()
        for sender in self._senders:
            sender.wait(deadline)

    # -- in the thread that reads -----------------------------------------------------------------

    def _take(self, progress: Progress) -> None:
        if progress.report:
            self._reported(progress)
            return
        words = progress.message.partition(",")[0].partition(":")[0]
        if words in (*DONE, "failed"):
            followers = self._rows_of_need.get(progress.key, [])
            self._look_at([progress.key, *followers])
        self._tell_progress(progress)

    def _take_last(self) -> None:
        self._look_at(self._waiting - self._told_failed)
        if self._last_progress is not None:
            self._tell_progress(self._last_progress, at_once=True)

    def _send(self, act: Callable[[Tracker], None]) -> None:
        for sender in self._senders:
            sender.give(act)

    def _reported(self, progress: Progress) -> None:
        step, accuracy = progress.report.get("step"), progress.report.get("accuracy")
        if not isinstance(step, int) or not isinstance(accuracy, int | float):
            return
        for key in self._rows_of_fit.get(progress.key, ()):
            if key in self._waiting:
                self._send_curve(key, step, {LIVE_CURVE: float(accuracy)})

    def _send_curve(self, key: str, step: int, values: Mapping[str, float]) -> None:
        sent = self._sent.setdefault(key, set())
        fresh = {
            name: value
            for name, value in values.items()
            if (name, step) not in sent and _is_number(value)
        }
        sent.update((name, step) for name in fresh)
        run = self._runs[key]
        if fresh:
            self._send(lambda tracker: tracker.curve(run, step, fresh))

    def _look_at(self, keys: Iterable[str]) -> None:
        """Tell of those of `keys` that have ended and were not told of."""
        waiting = [key for key in keys if key in self._waiting]
        for key, status in self._store.statuses(waiting).items():
            if status in DONE:
                self._tell_end(key, status)
            elif status == "failed" and key not in self._told_failed:
                self._told_failed.add(key)
                run = self._runs[key]
                self._send(lambda tracker, run=run: tracker.ended(run, "failed", {}))  # type: ignore[misc]

    def _tell_end(self, key: str, status: str) -> None:
        self._waiting.discard(key)
        _, curve = from_files(JobFiles(self._store, self._study), key)
        for step, values in curve:
            self._send_curve(key, step, values)
        scores = {
            f"{entry['rule']}/{entry['set']}/{name}": float(value)
            for entry in self._store.run(key)["scores"]
            for name, value in entry["metrics"].items()
            if _is_number(value) and name not in self._left_out
        }
        self._sent.pop(key, None)
        run = self._runs[key]
        self._send(lambda tracker: tracker.ended(run, status, scores))

    def _tell_progress(self, progress: Progress, at_once: bool = False) -> None:
        self._last_progress = progress
        now = time.monotonic()
        if not at_once and now - self._progress_at < PROGRESS_SECONDS:
            return
        self._progress_at = now
        values = {
            "study/done": float(progress.done),
            "study/running": float(progress.running),
            "study/failed": float(progress.failed),
        }
        if progress.left is not None:
            values["study/seconds left"] = progress.left
        seconds = self._seconds_of_study()
        self._send(lambda tracker: tracker.progress(seconds, values))

    def _seconds_of_study(self) -> int:
        """Whole seconds since the study came into its store, so that a driver that goes on with it
        does not begin at 0 again; never fewer than the last time."""
        if self._created is None:
            self._created = float(self._store.study(self._study)["created"])
        self._last_second = max(self._last_second, round(time.time() - self._created))
        return self._last_second


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


class _Turns:
    """A thread that does what it is given, one after another, until something raises."""

    def __init__(self, name: str, warn: Callable[[str], None]) -> None:
        self.alive = True
        self._name, self._warn = name, warn
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        # A daemon: a tool that never answers does not keep the command from its end.
        self._thread = threading.Thread(target=self._work, name=f"{name} of a study", daemon=True)
        self._thread.start()

    def put(self, act: Callable[[], None]) -> None:
        """Do something in its turn."""
        if self.alive:
            self._queue.put(act)

    def finish(self) -> None:
        """Nothing comes after what was put."""
        self._queue.put(None)

    def wait(self, deadline: float) -> None:
        """Wait for the end until `deadline` (of the monotonic clock)."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._give_up("not everything was written before the end")

    def _work(self) -> None:
        while (act := self._queue.get()) is not None:
            if self.alive:
                try:
                    act()
                except Exception as error:  # whatever a client raises: the study goes on
                    self._give_up(one_line(f"{type(error).__name__}: {error}", 300))

    def _give_up(self, reason: str) -> None:
        if self.alive:
            self.alive = False
            self._warn(
                f"{self._name} gets no more of this study, which goes on; `crosswind export` writes"
                f" what is missing ({reason})"
            )


class _Sender(_Turns):
    """A tool and its thread. After the first thing that the tool does not take it gets no more."""

    def __init__(self, name: str, tracker: Tracker, warn: Callable[[str], None]) -> None:
        self._tracker = tracker
        super().__init__(name, warn)

    def give(self, act: Callable[[Tracker], None]) -> None:
        """Do something with the tool in its turn."""
        self.put(lambda: act(self._tracker))

    def finish(self) -> None:
        """Close the tool after all that was given."""
        self.put(self._tracker.close)
        super().finish()
