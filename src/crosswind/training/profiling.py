"""A trace of a few training steps and one validation of a run, for a person who wants to know what
is slow. No number changes."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from crosswind.core.errors import one_line

WARM_UP = 3
"""Steps that are not traced, fewer in a short run: in the first ones libraries set themselves up.
"""
STEPS = 8
"""Steps that are traced."""
MAX_EVENTS = 60_000
"""Events that are kept of the steps, and as many of the validation; a megabyte or two in the file.
"""
_ROWS = 25


class Profile:
    """Traces of one training: a context manager around it. Nothing of it may fail the run.

    `trace`: gzipped JSON for ui.perfetto.dev or chrome://tracing. `table`: the operators that took
    most. Where there is none, `trouble` says why in one sentence. `seconds`: what starting, ending
    and writing traces took, which is none of the training's.
    """

    def __init__(self, device: str) -> None:
        self.seconds = 0.0
        self.trace = b""
        self.table = ""
        self.trouble = "the run had no step left to trace"
        self._warm_up = WARM_UP
        self._done = 0
        self._cuda = torch.device(device).type == "cuda"
        self._active: Any = None
        self._span = contextlib.ExitStack()
        self._found: dict[str, Any] = {}
        self._validated = False

    def of(self, steps: int) -> Profile:
        """This, for a training of at most so many steps."""
        self._warm_up = min(WARM_UP, max(0, steps - 1) // 2)
        return self

    def step_begins(self) -> None:
        """To be called before each step."""
        if self._done == self._warm_up:
            self._start()
        elif self._done == self._warm_up + STEPS:
            self._stop("Training steps")
        self._done += 1
        self._enter("training step")

    @contextlib.contextmanager
    def validation(self) -> Iterator[None]:
        """To be put around each validation: the first after the trace of steps began is traced."""
        self._span.close()
        traced = not self._validated and bool(self._found or self._active)
        alone = self._active is None
        if traced:
            self._validated = True
            if alone:
                self._start()
            self._enter("validation")
        try:
            yield
        finally:
            self._span.close()
            if traced and alone:
                self._stop("A validation")

    def __enter__(self) -> Profile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop("Training steps")
        if self._found and raised is None:
            with self._apart("gave no trace"):
                self._finish()

    def _start(self) -> None:
        activities = torch.profiler.ProfilerActivity
        with self._apart("did not start"):  # where the machine forbids it, or another profiler runs
            profiler = torch.profiler.profile(
                activities=[activities.CPU, *([activities.CUDA] if self._cuda else [])],
                acc_events=True,
            )
            profiler.start()
            self._active = profiler

    def _stop(self, title: str) -> None:
        self._span.close()
        ended = self._active
        self._active = None
        if ended is not None:
            with self._apart("did not end well"):
                ended.stop()
                self._found[title] = ended

    def _enter(self, name: str) -> None:
        self._span.close()
        if self._active is not None:
            self._span.enter_context(torch.profiler.record_function(name))

    @contextlib.contextmanager
    def _apart(self, failure: str) -> Iterator[None]:
        """Time that is none of the training's, without what torch's profiler writes to standard
        error from C++."""
        begun = time.perf_counter()
        try:
            with _silent():
                yield
        except Exception as error:
            self.trouble = f"torch's profiler {failure}: {one_line(str(error))}"
        finally:
            self.seconds += time.perf_counter() - begun

    def _finish(self) -> None:
        events = []
        lines = []
        by = "self_device_time_total" if self._cuda else "self_cpu_time_total"
        for title, profiler in self._found.items():
            with tempfile.NamedTemporaryFile(suffix=".json") as file:
                profiler.export_chrome_trace(file.name)
                trace_events = json.loads(
                    Path(file.name).read_text(encoding="utf-8", errors="replace")
                )["traceEvents"]
            # All count time from the same moment, so they lie one behind the other; what is no
            # event ("M") comes first.
            trace_events.sort(
                key=lambda event: -math.inf if event.get("ph") == "M" else float(event.get("ts", 0))
            )
            last_event = MAX_EVENTS + sum(event.get("ph") == "M" for event in trace_events)
            events += trace_events[:last_event]
            lines += [
                title,
                profiler.key_averages().table(
                    sort_by=by, row_limit=_ROWS, max_name_column_width=60
                ),
            ]
            if trace_events[last_event:]:
                lines.append(
                    f"{len(trace_events) - last_event} later events are not in the trace; the table"
                    " counts them."
                )
        self.trace = gzip.compress(
            json.dumps({"traceEvents": events}, separators=(",", ":")).encode(), mtime=0
        )
        self.table = "\n".join(lines).rstrip() + "\n"
        self.trouble = ""


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    try:
        saved_stderr = os.dup(2)
    except OSError:  # closed
        saved_stderr = None
    if saved_stderr is None:
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved_stderr, 2)
        os.close(saved_stderr)
