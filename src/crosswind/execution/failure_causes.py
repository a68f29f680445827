"""Why a run failed: for want of the machine, or by itself.

What the machine stopped (a full disk, no memory, a killed worker) may well end next time, so the
next `crosswind run` does it again. What failed by itself would fail again, and waits to be asked
for.
"""

from __future__ import annotations

import errno
import re
import signal

from crosswind.core.errors import RunError

CAUSES = {
    "disk": "disk full",
    "memory": "out of memory",
    "killed": "worker killed",
    "system": "system error",
    "node": "node lost",
}
"""The ways in which the machine stops a run, in the words of `crosswind status`."""


class RankKilledError(RunError):
    """A process that shared a run with others was killed from outside."""


_NUMBERS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "disk"),
    errno.ENOMEM: "memory",
    # Also a limit of the shell's on the size of a file, and a disk that went read-only after an
    # error.
    **dict.fromkeys(
        (errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.ESTALE, errno.EFBIG), "system"
    ),
}
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
"""Signals that compiled code sends itself: memory that is not its own, a heap found corrupted, an
instruction that is not there."""
_CODES = {"SQLITE_FULL": "disk", "53100": "disk", "53200": "memory"}  # of SQLite, and of PostgreSQL
_RUST = re.compile(r"\(os error (\d+)\)")  # how safetensors says what the system said


def cause_of(error: BaseException) -> str:
    """The key of `CAUSES` for what was raised, or for what it was raised from; "" where a run
    failed by itself."""
    visited: list[BaseException] = []
    raised: BaseException | None = error
    while raised is not None and raised not in visited:
        if cause := _own_cause(raised):
            return cause
        visited.append(raised)
        raised = (
            raised.__cause__ or raised.__context__
        )  # also where a sentence of ours was raised "from None"
    return ""


def cause_of_signal(number: int) -> str:
    """The same for a worker that a signal ended: SIGKILL is what the kernel, a batch system and a
    person send."""
    if number in (signal.SIGKILL, signal.SIGTERM):
        return "killed"
    return ""


def advice_on_signal(number: int) -> str:
    """The advice where a signal ended a worker: words that follow its name, empty for most."""
    if number == signal.SIGKILL:
        return " (out of memory?)"
    if number in _FAULTS:
        return (
            " (a fault of compiled code; if it trains on pictures, try"
            " training.channels_last=false)"
        )
    return ""


def _own_cause(error: BaseException) -> str:
    if isinstance(error, RankKilledError):
        return "killed"
    # torch says it of the processor's memory by a plain RuntimeError, of an accelerator's by a
    # class of its own.
    no_memory = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    if no_memory or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "memory"
    if isinstance(error, OSError) and error.errno is not None:
        return _NUMBERS.get(error.errno, "")
    os_error = None
    if type(error).__name__ == "SafetensorError":
        os_error = _RUST.search(str(error))
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
    if os_error:
        return _NUMBERS.get(int(os_error[1]), "")
    return _CODES.get(str(code), "")
