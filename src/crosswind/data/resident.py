"""Inputs in shared memory: each row is rendered once for all processes of a study and held as far
as a memory bound allows.

A `Region` is one anonymous, sparse file in memory whose descriptor the processes share. It holds an
`Arena` for each data set: a byte for every row, 1 where the row is held, and a place for every
row's input. A row's byte is written after its input, so a killed process leaves only rows that the
next one renders. Locks are the kernel's on ranges of the file; they end with the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import struct
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from crosswind.data.budget import budget
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import evaluation_inputs

Render = Callable[[NDArray[np.int64]], NDArray[Any]]

CHUNK_BYTES = 2 << 20
"""Rows are rendered a chunk at a time: a renderer may need many times the memory of its result."""
CHUNK_ROWS = (16, 512)

_ENTRY = struct.Struct(
    "<QQ32s16x"
)  # an arena's begin and end in the file, and its key; never across two pages
_HEADER_BYTES = 256 * _ENTRY.size  # the bound, and up to 255 entries

_private: weakref.WeakSet[Region] = weakref.WeakSet()
_shared: list[Region] = []


@final
class Region:
    """One anonymous file in memory with the arenas of many data sets, up to `bound` bytes and at
    most one chunk more.

    Without a bound it belongs to this process, and `budget()` bounds all such regions together. Its
    memory is free once every process has closed or forgotten it.
    """

    def __init__(self, handle: int, bound: int | None) -> None:
        self.handle = handle
        self.bound = bound
        self.close = weakref.finalize(self, os.close, handle)
        if bound is None:
            _private.add(self)

    @classmethod
    def create(cls, bound: int | None = None) -> Region:
        """A new region. Raises `OSError` where no such file can be made."""
        region = cls(_anonymous_file(), bound)
        os.ftruncate(region.handle, _HEADER_BYTES)
        os.pwrite(region.handle, struct.pack("<Q", bound or 0), 0)
        return region

    @classmethod
    def attach(cls, handle: int) -> Region:
        """The region with a bound that another process made and whose descriptor this process
        inherited."""
        return cls(handle, struct.unpack("<Q", os.pread(handle, 8, 0))[0])

    def used(self) -> int:
        """The bytes of memory that the region takes."""
        return os.fstat(self.handle).st_blocks * 512

    def room(self) -> int:
        """The bytes that more rows may take."""
        if self.bound is not None:
            return max(0, self.bound - self.used())
        return max(0, budget() - sum(region.used() for region in _private))

    @contextlib.contextmanager
    def locked(self, start: int = 0, length: int = 1, *, wait: bool = True) -> Iterator[bool]:
        """Lock a range of bytes against other processes. Gives False where another process has it
        and `wait` is false."""
        try:
            fcntl.lockf(self.handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), length, start)
        except (BlockingIOError, PermissionError):
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self.handle, fcntl.LOCK_UN, length, start)

    def arena(
        self, key: bytes, n_rows: int, shape: tuple[int, ...], dtype: DTypeLike = np.uint8
    ) -> Arena | None:
        """The arena of a data set with a key of 32 bytes, made where it is new; None where there is
        no place for it."""
        row_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        size = _arena_bytes(n_rows, row_bytes)
        try:
            with self.locked():
                end = _aligned(_HEADER_BYTES)
                for offset in range(_ENTRY.size, _HEADER_BYTES, _ENTRY.size):
                    start, after, known_key = _ENTRY.unpack(
                        os.pread(self.handle, _ENTRY.size, offset)
                    )
                    if after and known_key == key:
                        return Arena(self, start, n_rows, shape, dtype)
                    if not after:
                        os.ftruncate(self.handle, end + size)
                        os.pwrite(self.handle, _ENTRY.pack(end, end + size, key), offset)
                        return Arena(self, end, n_rows, shape, dtype)
                    end = after
        except (
            OSError,
            OverflowError,
            ValueError,
        ):  # no address space, or a limit on the size of files
            pass
        return None


@final
class Arena:
    """The rows of one data set. `rows`: [n, ...], of which those are to be read whose byte in
    `held` (uint8 [n]) is 1."""

    def __init__(
        self, region: Region, start: int, n_rows: int, shape: tuple[int, ...], dtype: DTypeLike
    ) -> None:
        self._region = region
        self._start = start
        self._pixels = start + _aligned(n_rows)
        numbers = int(np.prod(shape))
        self._row_bytes = numbers * np.dtype(dtype).itemsize
        memory = mmap.mmap(region.handle, _arena_bytes(n_rows, self._row_bytes), offset=start)
        self.held = np.frombuffer(memory, np.uint8, n_rows)
        self.rows: NDArray[Any] = np.frombuffer(
            memory, dtype, n_rows * numbers, _aligned(n_rows)
        ).reshape(n_rows, *shape)
        self._failed = False

    def fill(self, rows: NDArray[np.int64], render: Render) -> float:
        """Hold `rows` (sorted) as far as there is room; the seconds spent waiting for processes
        that rendered some of them."""
        least, largest = CHUNK_ROWS
        size = max(least, min(largest, CHUNK_BYTES // max(1, self._row_bytes)))
        rows = rows[self.held[rows] == 0]
        waited = 0.0
        # What another process is rendering is left for the second round.
        for wait in (False, True):
            for chunk in (rows[first : first + size] for first in range(0, len(rows), size)):
                if not self._room() or self.held[chunk].all():
                    continue
                begun = time.perf_counter()
                first = self._place(chunk[0])
                with self._region.locked(
                    first, self._place(chunk[-1] + 1) - first, wait=wait
                ) as mine:
                    waited += time.perf_counter() - begun if wait else 0.0
                    missing = chunk[self.held[chunk] == 0][: self._room()]
                    if mine and len(missing):
                        self._write(missing, np.ascontiguousarray(render(missing)))
        return waited

    def _room(self) -> int:
        """How many more rows may be held."""
        if self._failed:
            return 0
        return self._region.room() // self._row_bytes

    def _place(self, row: int) -> int:
        return self._pixels + int(row) * self._row_bytes

    def _write(self, rows: NDArray[np.int64], rendered: NDArray[Any]) -> None:
        with self._region.locked():
            rows = rows[: self._room()]
            after_gaps = np.flatnonzero(np.diff(rows) != 1) + 1
            runs = [run for run in np.split(np.arange(len(rows)), after_gaps) if len(run)]
            try:
                # By calls and not through the mapping: without memory a call fails, and a mapping
                # kills the process.
                for run in runs:
                    rendered_bytes = rendered[run].reshape(-1).view(np.uint8).data
                    _write(self._region.handle, rendered_bytes, self._place(rows[run[0]]))
                for run in runs:
                    marks = memoryview(bytes([1]) * len(run))
                    _write(self._region.handle, marks, self._start + int(rows[run[0]]))
            except OSError:
                self._failed = True  # rows that are not held are rendered at each reading


class ResidentRows:
    """The inputs of some rows of a data set: those that are held are read from memory, others are
    rendered at each reading.

    `rows` int64 [n]: base rows, or with `evaluation` virtual rows, as evaluation shows them.
    `waited`: seconds spent so far on waiting for other processes that rendered the same rows.
    """

    def __init__(
        self, dataset: AttributedDataset, rows: NDArray[np.int64], *, evaluation: bool
    ) -> None:
        self.rows = rows
        self.waited = 0.0
        derived = evaluation and dataset.derived is not None
        self._render: Render = (
            (lambda row_numbers: evaluation_inputs(dataset, row_numbers))
            if derived
            else dataset.inputs
        )
        n_rows = dataset.n_rows if derived else dataset.n_base
        self._arena = _arena_of(dataset, "evaluation" if derived else "base", n_rows)
        self._tried = np.zeros(len(rows), dtype=bool)
        self._held = np.zeros(len(rows), dtype=bool)
        self._complete = len(rows) == 0

    def bring(self, positions: NDArray[np.int64] | None = None) -> None:
        """Hold the rows at `positions` (None: all) as far as there is room. Raises `DataError`
        where
        they cannot be rendered."""
        if positions is None:
            new = np.flatnonzero(~self._tried)
        else:
            new = np.unique(positions[~self._tried[positions]])
        if self._arena is not None and len(new):
            rows = np.unique(self.rows[new])
            self.waited += self._arena.fill(rows, self._render)
            self._held[new] = self._arena.held[self.rows[new]] == 1
            self._complete = bool(self._held.all())
        self._tried[new] = True

    def held(self, positions: NDArray[np.int64] | None = None) -> bool:
        """Whether all of them are held."""
        return self._complete or (positions is not None and bool(self._held[positions].all()))

    @property
    def memory(self) -> NDArray[Any] | None:
        """The memory [rows of the data set, ...]; only held rows may be read. None where nothing
        can be held."""
        if self._arena is None:
            return None
        return self._arena.rows

    def take(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """The inputs of the rows at `positions`, a copy; see `InputSpec`."""
        held_rows = self._held[positions]
        rows = self.rows[positions]
        if self._arena is None or not held_rows.any():
            return self._render(rows)
        if held_rows.all():
            return self._arena.rows.take(rows, axis=0)
        row_inputs = np.empty(
            (len(rows), *self._arena.rows.shape[1:]), dtype=self._arena.rows.dtype
        )
        row_inputs[held_rows], row_inputs[~held_rows] = (
            self._arena.rows[rows[held_rows]],
            self._render(rows[~held_rows]),
        )
        return row_inputs


def share(handle: int) -> None:
    """From now on this process holds inputs in the region of this descriptor. What it holds of its
    own is not moved there."""
    _shared[:] = [Region.attach(handle)]


def _arena_of(dataset: AttributedDataset, kind: str, n_rows: int) -> Arena | None:
    spec = dataset.input
    if dataset.read is None or spec is None or spec.dtype == object:
        return None
    cache: dict[Any, Any] = dataset.cache
    cache_place = ("resident", kind, *_shared)
    if cache_place not in cache:
        key = hashlib.sha256(f"{kind} {dataset.fingerprint} {n_rows} {spec}".encode()).digest()
        try:
            region = _shared[0] if _shared else Region.create()
        except OSError:
            return None
        cache[cache_place] = region.arena(key, n_rows, spec.shape, spec.dtype)
    arena: Arena | None = cache[cache_place]
    return arena


def _anonymous_file() -> int:
    """A descriptor of a file without a name: nothing of it is left when the last process that has
    it ends."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.memfd_create("crosswind-pixels")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _aligned(size: int) -> int:
    return -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY


def _arena_bytes(n_rows: int, row_bytes: int) -> int:
    return _aligned(n_rows) + _aligned(n_rows * row_bytes)


def _write(handle: int, data: memoryview, offset: int) -> None:
    while len(data):
        done = os.pwrite(handle, data, offset)
        data = data[done:]
        offset = offset + done
