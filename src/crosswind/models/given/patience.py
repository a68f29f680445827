"""Work in libraries of C that may never end: it is waited for in a way that signals and a clock can
end. Imports no torch.

A library that computes in C holds the thread that called it, and with it the handlers of signals,
which Python runs in its main thread alone. So the work is done in a thread of its own, and the
caller waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from crosswind.core.errors import DataError

GRACE_SECONDS = 5.0
"""For which the work is waited for after it was told to end; a library that does not listen is left
running."""
SLOWER = 20
"""How many times as long as its slowest row a later row may take."""

T = TypeVar("T")


class Late(Exception):
    """The work did not end in time."""


def patiently(work: Callable[[], T], end: Callable[[], object], seconds: float | None) -> T:
    """The value that `work` returns, or the error that it raises, when it ends within `seconds`
    (None: however long). Raises `Late`.

    `end` tells it to end early: when time is over, and when a signal's handler raised, whose
    exception goes on.
    """
    outcome: list[T] = []
    trouble: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # raised again by the one who waits
            trouble.append(error)
        finally:
            ended.set()

    ended = threading.Event()
    threading.Thread(target=run, name="patience", daemon=True).start()
    try:
        in_time = ended.wait(seconds)
    except BaseException:
        end()
        ended.wait(GRACE_SECONDS)
        raise
    if not in_time:
        end()
        ended.wait(GRACE_SECONDS)
        raise Late
    if trouble:
        raise trouble[0]
    return outcome[0]


class PatientSession:
    """A session of ONNX Runtime whose runs end in time, and at a signal.

    The first run asks about a single row first, where the network takes any number, and that row
    has `seconds`. Of a network that takes a fixed number the first batch has. Any later batch has
    as many seconds, or twenty times what the slowest row took so far for each of its rows,
    whichever is more. Nobody knows how fast this machine is, and a network may end for some rows
    alone.
    """

    def __init__(self, session: Any, name: str) -> None:
        self.session = session
        self.name = name
        self._slowest: float | None = None

    def run(self, feeds: dict[str, Any], seconds: float) -> list[Any]:
        """All outputs for these inputs, by name. Raises `DataError` when time is over, and what the
        library raises."""
        rows = max(len(value) for value in feeds.values())
        if self._slowest is None and rows > 1 and self._takes_any_number():
            try:
                self._timed({name: value[:1] for name, value in feeds.items()}, 1, seconds)
            except DataError:
                raise
            except Exception:
                pass  # it does not take one row; what is wrong is said of the batch
        return self._timed(feeds, rows, seconds)

    def _takes_any_number(self) -> bool:
        shapes = [graph_input.shape for graph_input in self.session.get_inputs()]
        return all(shape and not isinstance(shape[0], int) for shape in shapes)

    def _timed(self, feeds: dict[str, Any], rows: int, seconds: float) -> list[Any]:
        import onnxruntime

        options = onnxruntime.RunOptions()
        options.log_severity_level = 4  # what goes wrong is raised, and said once
        if self._slowest is None:
            limit = seconds
        else:
            limit = max(seconds, SLOWER * self._slowest * rows)

        def end() -> None:
            options.terminate = True

        began = time.monotonic()
        try:
            arrays = patiently(lambda: self.session.run(None, feeds, options), end, limit)
        except Late:
            count = f"{rows:,} rows" if rows > 1 else "one row"
            problem = (
                f"{self.name} did not end within {limit:,.6g} seconds for {count}: it never ends,"
                f" or is slow; raise its setting timeout, which is {seconds:g}"
            )
            raise DataError(problem) from None
        took = (time.monotonic() - began) / rows
        self._slowest = max(took, self._slowest or 0.0)
        return arrays
