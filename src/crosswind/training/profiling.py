"""A trace of a few training steps and one validation of a run, for a person who wants to know what is slow. No number changes."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from crosswind.core.errors import one_line

__all__ = ["STEPS", "WARM_UP", "Profile"]

WARM_UP = 3
"""Steps that are not traced, fewer in a short run: in the first ones libraries set themselves up."""
STEPS = 8
"""Steps that are traced."""
MAX_EVENTS = 60_000
"""Events that are kept of the steps, and as many of the validation; a megabyte or two in the file."""
_ROWS = 25


class Profile:
    """Traces of one training: a context manager around it. Nothing of it may fail the run.

    `trace`: gzipped JSON for ui.perfetto.dev or chrome://tracing. `table`: the operators that took most. Where there is none,
    `trouble` says why in one sentence. `seconds`: what starting, ending and writing traces took, which is none of the training's.
    """

    def __init__(self, device: str) -> None:
        self.seconds = 0.0
        self.trace = b""
        self.table = ""
        self.trouble = "the run had no step left to trace"
        self._warm_up = WARM_UP
        self._activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.device(device).type == "cuda":
            self._activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._done = 0
        self._active: Any = None
        self._span: Any = None
        self._validated = False
        self._found: list[tuple[str, Any]] = []

    def of(self, steps: int) -> Profile:
        """This, for a training of at most so many steps."""
        self._warm_up = min(WARM_UP, max(0, steps - 1) // 2)
        return self

    def step_begins(self) -> None:
        """To be called before each step."""
        if self._done == self._warm_up:
            self._start()
        elif self._done == self._warm_up + STEPS:
            self._stop("training steps")
        self._done += 1
        self._enter("training step")

    @contextlib.contextmanager
    def validation(self) -> Iterator[None]:
        """To be put around each validation: the first after the trace of steps began is traced."""
        self._leave()
        if self._validated or not (self._found or self._active):
            yield
            return
        self._validated = True
        alone = self._active is None
        if alone:
            self._start()
        self._enter("validation")
        try:
            yield
        finally:
            self._leave()
            if alone:
                self._stop("a validation")

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None) -> None:
        self._stop("training steps")
        if self._found and raised is None:
            with self._apart():
                try:
                    self._finish()
                except Exception as error:
                    self.trouble = f"torch's profiler gave no trace: {one_line(str(error))}"

    def _start(self) -> None:
        with self._apart():
            try:
                self._active = torch.profiler.profile(activities=self._activities, acc_events=True)
                self._active.start()
            except Exception as error:  # where the machine forbids it, or another profiler runs
                self._active = None
                self.trouble = f"torch's profiler did not start: {one_line(str(error))}"

    def _stop(self, title: str) -> None:
        self._leave()
        ended, self._active = self._active, None
        if ended is not None:
            with self._apart():
                try:
                    ended.stop()
                    self._found.append((title, ended))
                except Exception as error:
                    self.trouble = f"torch's profiler did not end well: {one_line(str(error))}"

    def _enter(self, name: str) -> None:
        self._leave()
        if self._active is not None:
            self._span = torch.profiler.record_function(name)
            self._span.__enter__()

    def _leave(self) -> None:
        span, self._span = self._span, None
        if span is not None:
            span.__exit__(None, None, None)

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        begun = time.perf_counter()
        with _quiet():
            yield
        self.seconds += time.perf_counter() - begun

    def _finish(self) -> None:
        events, lines = [], []
        on_device = torch.profiler.ProfilerActivity.CUDA in self._activities
        by = "self_device_time_total" if on_device else "self_cpu_time_total"
        for title, found in self._found:
            # All count time from the same moment, so they lie one behind the other.
            some, left_out = _events(found)
            events += some
            lines += [title.capitalize(), found.key_averages().table(sort_by=by, row_limit=_ROWS, max_name_column_width=60)]
            if left_out:
                lines.append(f"{left_out} later events are not in the trace; the table counts them.")
        self.trace = gzip.compress(json.dumps({"traceEvents": events}, separators=(",", ":")).encode(), mtime=0)
        self.table = "\n".join(lines).rstrip() + "\n"
        self.trouble = ""


def _events(found: Any) -> tuple[list[dict[str, Any]], int]:
    """The events of a trace, the first `MAX_EVENTS` of them, and how many were left out."""
    handle, name = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        found.export_chrome_trace(name)
        events = json.loads(Path(name).read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    finally:
        Path(name).unlink(missing_ok=True)
    told = [event for event in events if event.get("ph") == "M"]
    timed = sorted((event for event in events if event.get("ph") != "M"), key=lambda event: float(event.get("ts", 0)))
    return [*told, *timed[:MAX_EVENTS]], max(0, len(timed) - MAX_EVENTS)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without standard error: torch's profiler writes there from C++, whatever its settings."""
    try:
        kept = os.dup(2)
    except OSError:  # closed
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
