"""Rows read in blocks: the right ones, once where they are asked for in order, in bounded memory, by several threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from crosswind.data.archives.rows import ChunkedRows, StreamedRows

VALUES = np.random.default_rng(0).integers(0, 256, (103, 3, 2), dtype=np.uint8)


class Counted:
    """Gives `VALUES` in blocks, and counts what was read."""

    def __init__(self, block: int) -> None:
        self.block, self.begun, self.read = block, 0, []

    def blocks(self) -> Iterator[np.ndarray]:
        self.begun += 1
        for start in range(0, len(VALUES), self.block):
            self.read.append(start // self.block)
            yield VALUES[start : start + self.block]

    def part(self, start: int, stop: int) -> np.ndarray:
        self.read.append(start // self.block)
        return VALUES[start:stop]


def streamed(counted: Counted, blocks: int) -> StreamedRows:
    return StreamedRows(counted.blocks, VALUES.shape, VALUES.dtype, counted.block, blocks * counted.block * 6)


def test_rows_in_order_are_read_once() -> None:
    counted = Counted(10)
    rows = streamed(counted, 3)
    found = [rows(np.arange(start, min(start + 7, 103))) for start in range(0, 103, 7)]
    assert np.array_equal(np.concatenate(found), VALUES)
    assert (counted.begun, counted.read) == (1, list(range(11)))


def test_rows_a_little_out_of_order_are_read_once() -> None:
    counted = Counted(10)
    rows = streamed(counted, 3)
    for start in (20, 0, 30, 10, 40, 60, 50, 100, 90, 80):
        asked = np.arange(start, min(start + 10, 103))
        assert np.array_equal(rows(asked), VALUES[asked])
    assert counted.begun == 1
    assert np.array_equal(rows(np.array([5, 102])), VALUES[[5, 102]])  # gone: the stream begins again
    assert counted.begun == 2
    assert len(rows._held) == 3


def test_chunks_are_read_when_they_are_asked_for_and_kept_for_a_while() -> None:
    counted = Counted(10)
    rows = ChunkedRows(counted.part, VALUES.shape, VALUES.dtype, 10, 2 * 10 * 6)
    for asked in ([7, 99, 3], [95, 101, 5, 5], [1]):
        assert np.array_equal(rows(np.array(asked)), VALUES[asked])
    assert counted.read == [0, 9, 10, 0] and len(rows._held) == 2


def test_threads_get_their_rows() -> None:
    counted = Counted(10)
    rows = streamed(counted, 4)
    parts = [np.arange(start, min(start + 7, 103)) for start in range(0, 103, 7)]
    with ThreadPoolExecutor(4) as pool:
        assert np.array_equal(np.concatenate(list(pool.map(rows, parts))), VALUES)


def test_a_stream_that_failed_begins_again() -> None:
    counted = Counted(10)
    failing = iter([True, False])

    def blocks() -> Iterator[np.ndarray]:
        fails = next(failing)
        for number, block in enumerate(counted.blocks()):
            if fails and number == 3:
                raise OSError("gone")
            yield block

    rows = StreamedRows(blocks, VALUES.shape, VALUES.dtype, 10)
    with pytest.raises(OSError, match="gone"):
        rows(np.array([50]))
    assert np.array_equal(rows(np.arange(103)), VALUES)
