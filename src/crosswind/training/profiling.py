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
        self._cuda = torch.device(device).type == "cuda"
        self._done = 0
        self._active: Any = None
        self._span = contextlib.ExitStack()
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
        self._span.close()
        traced, alone = not self._validated and bool(self._found or self._active), self._active is None
        if traced and alone:
            self._start()
        if traced:
            self._validated = True
            self._enter("validation")
        try:
            yield
        finally:
            self._span.close()
            if traced and alone:
                self._stop("a validation")

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None) -> None:
        self._stop("training steps")
        if self._found and raised is None:
            with self._apart("gave no trace"):
                self._finish()

    def _start(self) -> None:
        activities = torch.profiler.ProfilerActivity
        with self._apart("did not start"):  # where the machine forbids it, or another profiler runs
            made = torch.profiler.profile(activities=[activities.CPU, *([activities.CUDA] if self._cuda else [])], acc_events=True)
            made.start()
            self._active = made

    def _stop(self, title: str) -> None:
        self._span.close()
        ended, self._active = self._active, None
        if ended is not None:
            with self._apart("did not end well"):
                ended.stop()
                self._found.append((title, ended))

    def _enter(self, name: str) -> None:
        self._span.close()
        if self._active is not None:
            self._span.enter_context(torch.profiler.record_function(name))

    @contextlib.contextmanager
    def _apart(self, failure: str) -> Iterator[None]:
        """Time that is none of the training's, without what torch's profiler writes to standard error from C++."""
        begun = time.perf_counter()
        kept, nowhere = _duplicate(2), os.open(os.devnull, os.O_WRONLY)
        try:
            if kept is not None:
                os.dup2(nowhere, 2)
            yield
        except Exception as error:
            self.trouble = f"torch's profiler {failure}: {one_line(str(error))}"
        finally:
            os.close(nowhere)
            if kept is not None:
                os.dup2(kept, 2)
                os.close(kept)
            self.seconds += time.perf_counter() - begun

    def _finish(self) -> None:
        events, lines = [], []
        by = "self_device_time_total" if self._cuda else "self_cpu_time_total"
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


def _duplicate(descriptor: int) -> int | None:
    try:
        return os.dup(descriptor)
    except OSError:  # closed
        return None


def _events(found: Any) -> tuple[list[dict[str, Any]], int]:
    """The events of a trace, the first `MAX_EVENTS` of them, and how many were left out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    told = [event for event in events if event.get("ph") == "M"]
    timed = sorted((event for event in events if event.get("ph") != "M"), key=lambda event: float(event.get("ts", 0)))
    return [*told, *timed[:MAX_EVENTS]], max(0, len(timed) - MAX_EVENTS)
