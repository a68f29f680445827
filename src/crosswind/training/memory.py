"""Memory that the C library gives back to the system after each step costs page faults at the next; it is told to keep it."""

from __future__ import annotations

import ctypes
import platform
import resource
import sys
from functools import cache

__all__ = ["keep_freed_memory", "peak_memory"]

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


@cache
def keep_freed_memory() -> bool:
    """Have glibc keep freed memory for this process; whether it could. Speed only: no arithmetic changes. Once a process."""
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    # No block of its own for large requests, whose unmapping is what costs; and no trimming of the heap.
    return bool(library.mallopt(_M_MMAP_MAX, 0)) and bool(library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


def peak_memory() -> int:
    """The most memory that this process has held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
