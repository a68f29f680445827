"""Data sets in HDF5 files, read without trusting them: nothing outside the file, no objects, no more memory than is allowed.

h5py is the extra `hdf5`. A link to another file, a data set whose values lie in other files, and one of objects are refused.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.data.archives.npz import Expected
from crosswind.data.archives.parts import expect_kind, reason, within
from crosswind.data.archives.rows import ChunkedRows

__all__ = ["hdf5_rows", "read_hdf5"]

LIMIT = 1 << 30
BLOCK = 16 << 20  # bytes of rows that are read at once, where the chunks in the file are smaller
LARGEST = 256 << 20  # of the rows of a chunk, which are unpacked together


def read_hdf5(path: Path, key: str, expected: Expected, limit: int = LIMIT) -> NDArray[Any]:
    """One data set of a file, whole. Raises `DataError` for what is missing, damaged, not expected, or takes more than `limit`."""
    with _opened(path) as file:
        found = _dataset(file, path, key, expected)
        within(f"{path}: {key!r}", math.prod(found.shape) * found.dtype.itemsize, limit)
        return _values(found, path, key, 0, found.shape[0])


def hdf5_rows(path: Path, key: str, expected: Expected) -> ChunkedRows:
    """The rows of one data set, read when asked for; several threads may ask.

    Chunks in the file may hold parts of thousands of rows: all the rows of a chunk are unpacked together, once, and kept for a
    while. Raises `DataError` as `read_hdf5` does, for damaged values when they are read.
    """
    with _opened(path) as file:
        found = _dataset(file, path, key, expected)
        shape, dtype = tuple(found.shape), found.dtype
        row = max(1, math.prod(shape[1:]) * dtype.itemsize)
        chunk = min(found.chunks[0] if found.chunks else 1, max(1, LARGEST // row))
        block = chunk * max(1, BLOCK // (row * chunk))

    def read(start: int, stop: int) -> NDArray[Any]:
        with _opened(path) as file:
            return _values(_dataset(file, path, key, expected), path, key, start, stop)

    return ChunkedRows(read, shape, dtype, block)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError:
        raise DataError(f"{path} is an HDF5 file, and reading it needs the extra: pip install 'crosswind[hdf5]'") from None
    expect_kind(path, ("hdf5",), "an HDF5 file")
    try:
        file = h5py.File(path, "r")
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path} is damaged or cut short: {reason(error)}") from None
    with file:
        yield file


def _dataset(file: Any, path: Path, key: str, expected: Expected) -> Any:
    import h5py

    label = f"{path}: {key!r}"
    try:
        if key not in file:
            held = ", ".join(sorted(file)[:20]) or "nothing"
            raise DataError(f"{path} has no {key!r} but {held}")
        if not isinstance(file.get(key, getlink=True), h5py.HardLink):
            raise DataError(f"{label} is a link to another place, which is not followed")
        found = file[key]
        if not isinstance(found, h5py.Dataset):
            raise DataError(f"{label} is not a data set")
        if found.is_virtual or found.external:
            raise DataError(f"{label} has its values in other files, which are not read")
        expected.check(label, found.dtype, tuple(found.shape))
        if not found.shape:
            raise DataError(f"{label} is a single value and cannot be read by rows")
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{label} is damaged: {reason(error)}") from None
    return found


def _values(found: Any, path: Path, key: str, start: int, stop: int) -> NDArray[Any]:
    try:
        values: NDArray[Any] = found[start:stop]
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise DataError(f"{path}: {key!r} is damaged or cut short in rows {start:,} to {stop - 1:,}: {reason(error)}") from None
    return values if values.dtype.isnative else values.astype(np.dtype(values.dtype).newbyteorder("="))
