"""Memory of this process: the C library is told to keep what is freed, for giving it back costs
page faults; and its peak."""

from __future__ import annotations

import ctypes
import platform
import resource
import sys
from functools import cache
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


@cache
def keep_freed_memory() -> bool:
    """Have glibc keep freed memory for this process; whether it could. Speed only: no arithmetic
    changes. Once a process."""
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    # No block of its own for large requests, whose unmapping is what costs; and no trimming of the
    # heap.
    return bool(library.mallopt(_M_MMAP_MAX, 0)) and bool(
        library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    )


def forget_peak() -> bool:
    """Let `peak_memory` count from what is held now; whether it could be done. Linux only, where
    the kernel is asked to."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:  # another system, or one that forbids it
        return False
    return _high_water() is not None


def peak_memory() -> int:
    """The most memory that this process has held since `forget_peak`, else in its life, in
    bytes."""
    high_water = _high_water()
    if high_water is not None:
        return high_water
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak
    return peak * 1024


def _high_water() -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
