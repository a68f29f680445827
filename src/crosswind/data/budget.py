"""How much memory pixels may take: half of what this process may use, unless it is said."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from crosswind.core.errors import InputError, shown

SHARE = 0.5
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_UNLIMITED = (
    1 << 60
)  # what version 1 of the kernel's groups writes where there is no limit is near 2^63
_budgets: list[int] = []


def budget() -> int:
    """The most bytes of pixels that this process may hold by itself: what `bounded` says, else half
    of `usable_memory`."""
    if _budgets:
        return _budgets[-1]
    return int(SHARE * usable_memory())


@contextlib.contextmanager
def bounded(size: int | None) -> Iterator[None]:
    """Another bound than half of the memory, in bytes; 0 holds nothing, None changes nothing. Speed
    only."""
    if size is None:
        yield
        return
    _budgets.append(size)
    try:
        yield
    finally:
        _budgets.remove(size)


def memory_bytes(value: object, field: str) -> int | None:
    """A number of bytes from `8GB`, `500M`, `1.5 GiB`, a number or None (stays None); units are
    powers of 1024.

    Raises `InputError` on `field` for anything else, and for a number above 0 and below 1 MiB that
    has no unit: it is of gigabytes or megabytes, never of bytes.
    """
    if value is None:
        return None
    match = None
    if not isinstance(value, bool):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)I?B?\s*", str(value).upper())
    if match is None or len(match[1]) > 18:
        raise InputError(field, f"{shown(value)} is no amount of memory such as 500MB or 8GB")
    size = int(float(match[1]) * _UNITS[match[2]])
    if 0 < size < _UNITS["M"] and not match[2]:
        number = match[1]
        problem = f"{shown(value)} has no unit; write {number}GB for gigabytes or {number}MB for megabytes"
        raise InputError(field, problem)
    return size


@cache
def usable_memory() -> int:
    """The memory that this process may use, in bytes: that of the machine, or less where a control
    group (1 or 2) sets a limit."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds == "":
                limits += _limits(Path("/sys/fs/cgroup"), path, "memory.max")
            elif "memory" in kinds.split(","):
                limits += _limits(Path("/sys/fs/cgroup/memory"), path, "memory.limit_in_bytes")
    return min(limits)


def _limits(root: Path, path: str, name: str) -> list[int]:
    """The limits of a group and of those above it. In a container the group's own folder may be
    mounted as the root."""
    group = Path(path.strip("/"))
    limits = []
    for folder in {root, *(root / above for above in (group, *group.parents))}:
        with contextlib.suppress(OSError, ValueError):
            limit = int((folder / name).read_text(encoding="ascii"))
            if 0 < limit < _UNLIMITED:
                limits.append(limit)
    return limits
