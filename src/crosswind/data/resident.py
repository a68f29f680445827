"""Pixels that stay in memory: each row is rendered once for all processes of a study and held once, as far as a bound allows.

A `Region` is one anonymous file in memory whose descriptor the processes share. It holds one `Arena` a data set: slots of one row's
bytes each, filled in the order in which rows are first needed, and a log that says which row lies in which slot. A row counts from
the moment that the arena's count includes it, and the count is written last: whoever is killed while it writes leaves nothing but
slots that the next one fills. Locks are those of the kernel on the descriptor, which end with the process that holds them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import struct
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.data.budget import budget, usable_memory
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import evaluation_images

__all__ = ["Arena", "Region", "ResidentRows", "share"]

Render = Callable[[NDArray[np.int64]], NDArray[np.uint8]]

CHUNK_BYTES = 2 << 20
"""Rows are rendered some at a time: what a renderer needs besides its answer is many times as large."""
CHUNK_ROWS = (16, 512)

_HEAD = struct.Struct("<8sQQQ")  # mark, bound in bytes, number of arenas, fillings begun
_ENTRY = struct.Struct("<32sQQQQ")  # key, place of the log in the file, bytes a row, slots, rows
_ARENAS, _FILLINGS = 16, 24
_MARK = b"cwpixels"
_FIRST, _MOST = 64, 255
_HEADER_BYTES = _FIRST + _MOST * _ENTRY.size
_LOCKS = 1 << 40  # a byte to lock for every row of every arena, far behind all that is written
_LOG_BYTES = 8

_private: weakref.WeakSet[Region] = weakref.WeakSet()
_shared: list[Region] = []


@final
class Region:
    """One anonymous file in memory with the arenas of many data sets, up to `bound` bytes of rows.

    Without a bound it belongs to this process, and the bound is that of all such regions together (`data.budget`). What it takes
    is given back when it is closed, or forgotten, in every process.
    """

    def __init__(self, handle: int, bound: int | None) -> None:
        self.handle, self._bound = handle, bound
        self._lock, self._depth = threading.RLock(), 0
        # Arenas of this process alone are kept by their data sets, and gone with them.
        self._arenas: MutableMapping[bytes, Arena] = weakref.WeakValueDictionary() if bound is None else {}
        self.close = weakref.finalize(self, os.close, handle)
        if bound is None:
            _private.add(self)

    @classmethod
    def create(cls, bound: int | None = None) -> Region:
        """A new region. Raises `OSError` where no such file can be made."""
        region = cls(_anonymous_file(), bound)
        os.pwrite(region.handle, _HEAD.pack(_MARK, bound or 0, 0, 0).ljust(_HEADER_BYTES, b"\0"), 0)
        return region

    @classmethod
    def attach(cls, handle: int) -> Region:
        """The region that another process made and whose descriptor this one was given."""
        mark, bound, _, _ = _HEAD.unpack(os.pread(handle, _HEAD.size, 0))
        if mark != _MARK:
            raise ValueError("the descriptor is not that of a region of pixels")
        return cls(handle, bound)

    @property
    def bound(self) -> int:
        """The most bytes that rows may take."""
        return budget() if self._bound is None else self._bound

    def used(self) -> int:
        """The bytes that rows take, with their entries in the logs."""
        return sum(rows * (row_bytes + _LOG_BYTES) for _, _, row_bytes, _, rows in self._entries())

    def room(self) -> int:
        """The bytes that more rows may take."""
        others = sum(region.used() for region in _private if region is not self) if self._bound is None else 0
        return max(0, self.bound - self.used() - others)

    def arena(self, key: bytes, n_rows: int, shape: tuple[int, ...]) -> Arena | None:
        """The arena of a data set, made where it is new; None where there is no place for it.

        `key`: 32 bytes, the data set's identity. `n_rows`: rows of the data set, `shape`: of one row's pixels.
        """
        with self._lock:
            found = self._arenas.get(key)
            if found is not None:
                return found
            try:
                with self.locked():
                    place = self._place(key, n_rows, int(np.prod(shape)))
                if place is None:
                    return None
                made = Arena(self, place, n_rows, shape)
            except (OSError, ValueError):  # no address space, a limit on files: what is not held is rendered when it is read
                return None
            self._arenas[key] = made
            return made

    def turn(self) -> float:
        """Where in its rows the next filling begins, in [0, 1): far from where those before it did."""
        with self.locked():
            (number,) = struct.unpack("<Q", os.pread(self.handle, 8, _FILLINGS))
            os.pwrite(self.handle, struct.pack("<Q", number + 1), _FILLINGS)
        share, step = 0.0, 0.5
        while number:
            share, step, number = share + step * (number & 1), step / 2, number >> 1
        return share

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes the header meanwhile. May be nested."""
        with self._lock:
            # The kernel's lock is had or not, however often it was asked for: the outermost block gives it back.
            if not self._depth:
                fcntl.lockf(self.handle, fcntl.LOCK_EX, 1, 0)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    fcntl.lockf(self.handle, fcntl.LOCK_UN, 1, 0)

    def _entries(self) -> list[tuple[bytes, int, int, int, int]]:
        header = os.pread(self.handle, _HEADER_BYTES, 0)
        number = struct.unpack_from("<Q", header, _ARENAS)[0]
        return [_ENTRY.unpack_from(header, _FIRST + place * _ENTRY.size) for place in range(number)]

    def _place(self, key: bytes, n_rows: int, row_bytes: int) -> int | None:
        entries = self._entries()
        for place, entry in enumerate(entries):
            if entry[0] == key:
                return place
        # The file has holes: slots that are never filled take no memory.
        slots = min(n_rows, max(self.bound, usable_memory()) // (row_bytes + _LOG_BYTES))
        if len(entries) == _MOST or not slots:
            return None
        end = _aligned(_HEADER_BYTES)
        if entries:
            _, start, size, number, _ = entries[-1]
            end = _data_start(start, number) + _aligned(size * number)
        os.ftruncate(self.handle, _data_start(end, slots) + _aligned(row_bytes * slots))
        os.pwrite(self.handle, _ENTRY.pack(key, end, row_bytes, slots, 0), _FIRST + len(entries) * _ENTRY.size)
        os.pwrite(self.handle, struct.pack("<Q", len(entries) + 1), _ARENAS)
        return len(entries)


@final
class Arena:
    """The rows of one data set that are held. `rows`: uint8 [slots, ...], of which those are filled that `slots` names."""

    def __init__(self, region: Region, place: int, n_rows: int, shape: tuple[int, ...]) -> None:
        self._region, self._place = region, place
        self._entry = _FIRST + place * _ENTRY.size
        _, self._log, self.row_bytes, self._most, _ = _ENTRY.unpack(os.pread(region.handle, _ENTRY.size, self._entry))
        self._data = _data_start(self._log, self._most)
        if self.row_bytes != int(np.prod(shape)):
            raise ValueError("the arena holds rows of another shape")
        memory = mmap.mmap(region.handle, self._most * self.row_bytes, offset=self._data)
        self.rows: NDArray[np.uint8] = np.frombuffer(memory, np.uint8).reshape(self._most, *shape)
        self._seen = 0
        self._slot = np.zeros(n_rows, dtype=np.int32 if self._most < 2**31 else np.int64)  # 1 more than the slot, 0 for none

    def __len__(self) -> int:
        self._refresh()
        return self._seen

    def slots(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the rows lie: int64 of their shape, -1 for those that are not held."""
        self._refresh()
        return self._slot[rows].astype(np.int64) - 1

    def fill(self, rows: NDArray[np.int64], render: Render) -> float:
        """Hold `rows` as far as there is room; the seconds that were spent waiting for others who were rendering some of them.

        `render` gives the pixels of rows. Two who need the same rows begin at different ones, and what one has begun the other
        leaves to the end.
        """
        missing = self._missing(np.unique(rows))
        if not len(missing) or not self._space():
            return 0.0
        least, most = CHUNK_ROWS
        size = max(least, min(most, CHUNK_BYTES // max(1, self.row_bytes)))
        chunks = [missing[start : start + size] for start in range(0, len(missing), size)]
        first = int(self._region.turn() * len(chunks))
        postponed = [chunk for chunk in chunks[first:] + chunks[:first] if self._fill(chunk, render, wait=False) is None]
        return sum(self._fill(chunk, render, wait=True) or 0.0 for chunk in postponed)

    def _fill(self, chunk: NDArray[np.int64], render: Render, *, wait: bool) -> float | None:
        """The seconds waited for another process that renders rows between these; None where there is one and `wait` is false."""
        handle, begun = self._region.handle, time.perf_counter()
        start, length = _LOCKS * (self._place + 1) + int(chunk[0]), int(chunk[-1] - chunk[0]) + 1
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), length, start)
        except OSError as error:
            if not wait and error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        waited = time.perf_counter() - begun
        try:
            left = self._missing(chunk)[: self._space()]
            if len(left):
                self._publish(left, render(left))
        finally:
            fcntl.lockf(handle, fcntl.LOCK_UN, length, start)
        return waited if wait else 0.0

    def _publish(self, rows: NDArray[np.int64], pixels: NDArray[np.uint8]) -> None:
        handle = self._region.handle
        with self._region.locked():
            self._refresh()
            new = np.flatnonzero(self._slot[rows] == 0)[: self._space()]
            try:
                # By calls and not through the mapping: where there is no memory left a call says so, a mapping kills the process.
                _write(handle, np.ascontiguousarray(pixels[new]), self._data + self._seen * self.row_bytes)
                _write(handle, rows[new].astype("<i8"), self._log + self._seen * _LOG_BYTES)
                os.pwrite(handle, struct.pack("<Q", self._seen + len(new)), self._entry + _ENTRY.size - 8)
            except OSError:
                self._most = self._seen  # what is not held is rendered when it is read
            self._refresh()

    def _space(self) -> int:
        """How many more rows may be held."""
        return min(self._most - self._seen, self._region.room() // (self.row_bytes + _LOG_BYTES))

    def _missing(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        self._refresh()
        return rows[self._slot[rows] == 0]

    def _refresh(self) -> None:
        """Read what was added to the log."""
        with self._region.locked():
            (count,) = struct.unpack("<Q", os.pread(self._region.handle, 8, self._entry + _ENTRY.size - 8))
            added = count - self._seen
            if added:
                log = np.frombuffer(_read(self._region.handle, added * _LOG_BYTES, self._log + self._seen * _LOG_BYTES), "<i8")
                self._slot[log] = np.arange(self._seen + 1, count + 1)
                self._seen = count


class ResidentRows:
    """The pixels of some rows of a data set: those that are held are read from memory, others are rendered at each reading.

    `rows` int64 [n]: base rows, or with `evaluation` virtual rows, as evaluation shows them. `waited`: seconds spent so far on
    waiting for other processes that rendered the same rows.
    """

    def __init__(self, dataset: AttributedDataset, rows: NDArray[np.int64], *, evaluation: bool) -> None:
        self.rows, self.waited = rows, 0.0
        derived = evaluation and dataset.derived is not None
        self._render: Render = (lambda asked: evaluation_images(dataset, asked)) if derived else dataset.pixels
        self._arena = _arena_of(dataset, "evaluation" if derived else "base", dataset.n_rows if derived else dataset.n_base)
        self.slots: NDArray[np.int64] = np.full(len(rows), -1, dtype=np.int64)
        self._tried = np.zeros(len(rows), dtype=bool)
        self._complete = len(rows) == 0

    def bring(self, places: NDArray[np.int64] | None = None) -> None:
        """Hold the rows at `places` (None: all) as far as there is room. Raises `DataError` where they cannot be rendered."""
        new = np.flatnonzero(~self._tried) if places is None else np.unique(places[~self._tried[places]])
        if self._arena is not None and len(new):
            self.waited += self._arena.fill(self.rows[new], self._render)
            self.slots[new] = self._arena.slots(self.rows[new])
        self._tried[new] = True
        self._complete = self.held(np.arange(len(self.slots)))

    def held(self, places: NDArray[np.int64] | None = None) -> bool:
        """Whether all of them are held."""
        return self._complete or (places is not None and bool(self.slots[places].min(initial=0) >= 0))

    @property
    def memory(self) -> NDArray[np.uint8] | None:
        """The memory uint8 [slots, h, w, c] in which `slots` says where the rows lie; None where nothing can be held."""
        return None if self._arena is None else self._arena.rows

    def take(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The pixels of the rows at `places`: uint8 [m, h, w, c], a copy."""
        slots = self.slots[places]
        missing = np.flatnonzero(slots < 0)
        if self._arena is None or len(missing) == len(slots):
            return self._render(self.rows[places])
        found: NDArray[np.uint8] = np.take(self._arena.rows, np.maximum(slots, 0), axis=0)
        if len(missing):
            found[missing] = self._render(self.rows[places[missing]])
        return found


def share(handle: int) -> None:
    """From now on this process holds pixels in the region of this descriptor. What it holds of its own is not moved there."""
    _shared[:] = [Region.attach(handle)]


def _arena_of(dataset: AttributedDataset, kind: str, n_rows: int) -> Arena | None:
    if dataset.images is None or dataset.image_shape is None:
        return None
    key = hashlib.sha256(f"{kind} {dataset.fingerprint} {n_rows} {dataset.image_shape}".encode()).digest()
    if _shared:
        return _shared[0].arena(key, n_rows, dataset.image_shape)
    cache: dict[Any, Any] = dataset.cache
    place = ("resident", kind)
    if place not in cache:
        try:
            if "resident" not in cache:
                cache["resident"] = Region.create()
        except OSError:
            return None
        cache[place] = cache["resident"].arena(key, n_rows, dataset.image_shape)
    arena: Arena | None = cache[place]
    return arena


def _anonymous_file() -> int:
    """A descriptor of a file that has no name, so that nothing of it is left when the last process that has it ends."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.memfd_create("crosswind-pixels")
    handle, path = tempfile.mkstemp(prefix="crosswind-")
    os.unlink(path)
    return handle


def _aligned(size: int) -> int:
    return -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY


def _data_start(log: int, slots: int) -> int:
    return log + _aligned(slots * _LOG_BYTES)


def _write(handle: int, array: NDArray[Any], place: int) -> None:
    left = array.reshape(-1).view(np.uint8).data
    while len(left):
        done = os.pwrite(handle, left, place)
        left, place = left[done:], place + done


def _read(handle: int, size: int, place: int) -> bytes:
    parts = []
    while size:
        part = os.pread(handle, size, place)
        parts.append(part)
        size, place = size - len(part), place + len(part)
    return b"".join(parts)
