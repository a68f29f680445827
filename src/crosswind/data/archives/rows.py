"""Rows of an array that is packed as a stream or in large chunks, handed out to several threads in bounded memory."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BlockedRows", "ChunkedRows", "StreamedRows"]

WINDOW = 256 << 20
"""Bytes of rows that are kept: threads that ask for rows a little out of order find them there."""


class BlockedRows(ABC):
    """The rows of an array of which whole blocks of `block` rows are read at once.

    `shape`, `dtype`: of the whole array. The blocks read last are kept, up to `window` bytes and never fewer than two.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], block: int, window: int = WINDOW) -> None:
        self.shape, self.dtype, self.block = shape, dtype, block
        row = int(np.prod(shape[1:])) * dtype.itemsize
        self._most = max(2, window // max(1, block * row))
        self._held: dict[int, NDArray[Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of numbers int [m], each in [0, n): [m, ...]. Raises what reading raises."""
        out = np.empty((len(rows), *self.shape[1:]), dtype=self.dtype)
        numbers = rows // self.block
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            with self._lock:
                if number not in self._held:
                    self._fetch(number)
                block = self._held[number]
            out[mine] = block[rows[mine] - number * self.block]
        return out

    @abstractmethod
    def _fetch(self, number: int) -> None:
        """Read a block and `_hold` it, after any others."""

    def _hold(self, number: int, block: NDArray[Any]) -> None:
        self._held[number] = block
        while len(self._held) > self._most:
            del self._held[next(iter(self._held))]


class ChunkedRows(BlockedRows):
    """The rows of an array from which any part can be read: `read(start, stop)` gives the rows between two numbers."""

    def __init__(
        self,
        read: Callable[[int, int], NDArray[Any]],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        block: int,
        window: int = WINDOW,
    ) -> None:
        super().__init__(shape, dtype, block, window)
        self._read = read

    def _fetch(self, number: int) -> None:
        start = number * self.block
        self._hold(number, self._read(start, min(start + self.block, self.shape[0])))


class StreamedRows(BlockedRows):
    """The rows of an array that can only be read from its beginning: `blocks()` begins, and gives blocks of `block` rows.

    Rows asked for about in order cost one pass. Going back beyond what is kept costs another.
    """

    def __init__(
        self,
        blocks: Callable[[], Iterator[NDArray[Any]]],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        block: int,
        window: int = WINDOW,
    ) -> None:
        super().__init__(shape, dtype, block, window)
        self._blocks = blocks
        self._stream: Iterator[NDArray[Any]] = iter(())
        self._next = -1

    def _fetch(self, number: int) -> None:
        if not 0 <= self._next <= number:
            self._stream, self._next = self._blocks(), 0
        try:
            while self._next <= number:
                self._hold(self._next, next(self._stream))
                self._next += 1
        except BaseException:
            self._next = -1  # a stream that failed is begun again, and fails again
            raise
