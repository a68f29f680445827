"""Hashes of the contents of rows: of pictures and numbers in memory, and of files, of which as few
bytes are read as tell them apart.

Equal hashes stand for equal rows: of 64 bits, a million rows have two by chance once in 37 million
data sets.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.core.seeds import hash64, seed_of

Hashes = NDArray[np.uint64]

PROBE = 4096
"""Bytes from the middle of a file that are compared first; smaller files are read whole at once."""
MOST_ALIKE = 0.05
"""The most rows of numbers, as a share, that are taken as copies of one: more are a value that many
rows have, such as zero."""
_AT_ONCE = 1 << 18
_ROWS = 256
_THREADS = 8
_CLOCK_NS = 50_000_000
"""How far the times of files may lie behind the clock: file systems round them."""


def picture_hashes(pictures: NDArray[np.uint8]) -> Hashes:
    """A hash of the pixels of each picture uint8 [n, h, w, c]: uint64 [n]. Prepared copies have the
    same."""
    return _in_threads(len(pictures), lambda row: np.ascontiguousarray(pictures[row]).data)


def number_hashes(numbers: NDArray[np.float32]) -> Hashes | None:
    """A hash of each row of numbers float32 [n, d]; None where equal rows say nothing of what they
    are about.

    Rows of few values are equal by chance: were the columns independent, with the values that they
    have, some pair of the different rows would be expected to be equal. So are they where one row
    is repeated by more than 20 rows and `MOST_ALIKE` of all.
    """
    hashes = _row_hashes(numbers)
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    if len(first) == len(hashes):
        return hashes
    if counts.max() > max(20, MOST_ALIKE * len(hashes)):
        return None
    if _pairs_by_chance(numbers[first]) >= 1:
        return None
    return hashes


@final
class FileContents:
    """The contents of the files of rows: `sizes` int64 [n] in bytes, and `opened(row)`, the path or
    the bytes of a row.

    Files of different sizes differ, and so do those whose middles do: only the others are read
    whole. What was read is kept as a hash, so that each file is read once, whatever it is compared
    with. `named(row)`: what errors call it. `border`: pixels that decoding cuts off at each side.
    """

    def __init__(
        self,
        sizes: NDArray[np.int64],
        opened: Callable[[int], Path | bytes],
        named: Callable[[int], str],
        border: int = 0,
    ) -> None:
        self.sizes = sizes
        self.opened = opened
        self.named = named
        self.border = border
        of_sizes = hash64(sizes, seed_of(0, "size of a file"))
        self._stages = [of_sizes, np.zeros(len(sizes), np.uint64), np.zeros(len(sizes), np.uint64)]
        self._known = np.zeros(len(sizes), dtype=np.int8)

    def rows(self, rows: NDArray[np.int64]) -> FileContents:
        """Those of some of the rows."""
        opened = self.opened
        named = self.named
        row_list = rows.tolist()
        sizes = self.sizes[rows]
        return FileContents(
            sizes,
            lambda row: opened(row_list[row]),
            lambda row: named(row_list[row]),
            self.border,
        )

    def changed_since(self, time_ns: int) -> bool:
        """Whether a file, or a folder that files lie in, is another than at that time, in
        nanoseconds since 1970; False where rows are no files of their own."""
        if not len(self.sizes) or not isinstance(self.opened(0), Path):
            return False
        before = time_ns - _CLOCK_NS
        folders = set()
        for row, size in enumerate(self.sizes.tolist()):
            file = self.opened(row)
            folders.add(os.path.dirname(file) if isinstance(file, Path) else "")
            try:
                state = os.stat(file)
            except (OSError, TypeError, ValueError):
                return True
            if state.st_size != size or state.st_mtime_ns > before:
                return True
        return any(os.stat(folder).st_mtime_ns > before for folder in folders)

    def names(self) -> Hashes:
        """A name of each row, uint64 [n]: equal where the bytes of two files are."""
        return names_of([self])[0]

    def read_to(self, stage: int, rows: NDArray[np.int64]) -> None:
        """Read the middle (stage 1) or all (stage 2) of some rows, in threads. Raises `DataError`
        for one that cannot be read."""
        new = rows[self._known[rows] < stage]
        bytes_read = _in_threads(len(new), lambda position: self._bytes(int(new[position]), stage))
        reads_all = (self.sizes[new] <= PROBE) | (stage == 2)
        for each in range(stage, 3):
            chosen = new if each == stage else new[reads_all]
            self._stages[each][chosen] = bytes_read if each == stage else bytes_read[reads_all]
        self._known[new] = np.where(reads_all, 2, 1)

    def stage(self, number: int) -> Hashes:
        """The names of rows after so many stages; of rows that were not read as far, anything."""
        return self._stages[number]

    def _bytes(self, row: int, stage: int) -> bytes:
        source_handle = self.opened(row)
        size = int(self.sizes[row])
        begin = 0
        if stage != 2 and not (size <= PROBE):
            begin = (size - PROBE) // 2
        if stage == 2 or size <= PROBE:
            length = size
        else:
            length = PROBE
        if isinstance(source_handle, bytes):
            return source_handle[begin : begin + length]
        try:
            handle = os.open(source_handle, os.O_RDONLY)
            try:
                return _read(handle, begin, length)
            finally:
                os.close(handle)
        except OSError as error:
            problem = f"{self.named(row)} cannot be read: {error.strerror or error}"
            raise DataError(problem) from None


def names_of(sets: Sequence[FileContents]) -> list[Hashes]:
    """Names of the rows of several sets of files: equal, within a set or between two, where the
    bytes of two files are."""
    names = [each.stage(0).copy() for each in sets]
    for stage in (1, 2):
        every = np.concatenate(names)
        values, counts = np.unique(every, return_counts=True)
        repeated = values[counts > 1]
        if not len(repeated):
            break
        for each, name in zip(sets, names, strict=True):
            rows = np.flatnonzero(np.isin(name, repeated))
            each.read_to(stage, rows)
            name[rows] = each.stage(stage)[rows]
    return names


def _read(handle: int, begin: int, length: int) -> bytes:
    chunks = []
    while length > 0 and (chunk := os.pread(handle, min(length, 1 << 24), begin)):
        chunks.append(chunk)
        begin = begin + len(chunk)
        length = length - len(chunk)
    return b"".join(chunks)


def _in_threads(n: int, bytes_of: Callable[[int], Any]) -> Hashes:
    """The hash of the bytes of each row, by threads: reading and hashing let go of the
    interpreter."""

    def some(start: int) -> bytes:
        rows = range(start, min(start + _ROWS, n))
        return b"".join(hashlib.blake2b(bytes_of(row), digest_size=8).digest() for row in rows)

    starts = range(0, n, _ROWS)
    if len(starts) < 2:
        return np.frombuffer(b"".join(map(some, starts)), dtype="<u8").astype(np.uint64)
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        return np.frombuffer(b"".join(pool.map(some, starts)), dtype="<u8").astype(np.uint64)


def _row_hashes(numbers: NDArray[np.float32]) -> Hashes:
    """A hash of each row: its 32-bit words, each mixed under a key of its place, summed and mixed
    again."""
    n, width = numbers.shape
    keys = hash64(np.arange(width), seed_of(0, "place of a number"))
    out = np.empty(n, dtype=np.uint64)
    step = max(1, _AT_ONCE // max(1, width))
    for start in range(0, n, step):
        chunk = numbers[start : start + step] + np.float32(0)  # -0.0 is 0.0, to a network too
        mixed = chunk.view(np.uint32).astype(np.uint64)
        mixed += keys
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= keys | np.uint64(1)
        out[start : start + step] = mixed.sum(axis=1, dtype=np.uint64)
    return hash64(out, seed_of(0, "numbers of a row"))


def _pairs_by_chance(rows: NDArray[np.float32]) -> float:
    """How many pairs of rows would be equal were the columns independent, each with the values that
    it has."""
    expected = len(rows) * (len(rows) - 1) / 2
    for column in rows.T:
        counts = np.unique(column, return_counts=True)[1] / len(rows)
        expected *= float(np.square(counts).sum())
        if expected < 1:
            break  # no further column makes it larger
    return expected
