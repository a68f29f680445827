"""How much a cache on disk may hold, and which of its files go first."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from crosswind.core.errors import InputError

__all__ = ["limit_bytes", "remove_oldest"]


def limit_bytes(variable: str, default_gib: str, *, zero: bool = False) -> float:
    """The bytes that a variable of the environment allows, in GiB there. `zero`: 0 is a limit too.
    Raises `InputError`, on the variable, for what is no such number."""
    limit_text = os.environ.get(variable, default_gib)
    try:
        n_bytes = float(limit_text) * 2**30
    except ValueError:
        n_bytes = -1.0
    if not (n_bytes > 0 or (zero and n_bytes == 0)):
        least = "of 0 (nothing is kept) or more" if zero else "above 0"
        raise InputError(variable, f"must be a number of GiB {least}, not {limit_text!r}")
    return n_bytes


def remove_oldest(paths: Iterable[Path], most_bytes: float) -> None:
    """Remove the files that were not read for longest, by their time of change, until the others
    take at most so many bytes. What a process has open stays readable to it."""
    stored_files = []
    for path in paths:
        # Another process may remove one meanwhile.
        with contextlib.suppress(OSError):
            stat = path.stat()
            # Of a sparse file the blocks count, of a small one its bytes.
            n_bytes = min(stat.st_size, stat.st_blocks * 512)
            stored_files.append((stat.st_mtime_ns, n_bytes, path))
    excess = sum(n_bytes for _, n_bytes, _ in stored_files) - most_bytes
    for _, n_bytes, path in sorted(stored_files):
        if excess <= 0:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            excess -= n_bytes
