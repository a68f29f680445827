"""The binary matrices of NORB: a magic number for the type, the number of dimensions, at least three dimensions, the values.

All numbers are 32 bits wide and little-endian; fewer than three dimensions are filled up with ones. Files are taken as they are
or as gzip. Layout: F. Huang, Y. LeCun, the small NORB dataset, section "File formats" of its page.
"""

from __future__ import annotations

import contextlib
import gzip
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.data.archives.parts import DAMAGE, Part, expect_kind, kind_of_file, reason, within
from crosswind.data.archives.rows import StreamedRows

__all__ = ["NorbMatrix", "find_norb", "open_norb"]

TYPES = {0x1E3D4C51: "<f4", 0x1E3D4C53: "<f8", 0x1E3D4C54: "<i4", 0x1E3D4C55: "|u1", 0x1E3D4C56: "<i2"}
MOST_DIMENSIONS = 8
LIMIT = 1 << 30
BLOCK = 4 << 20


@dataclass(frozen=True)
class NorbMatrix:
    """A matrix whose header was read: its place, the dtype of its values, its dimensions, and the length of the header in bytes."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    head: int

    def read(self, limit: int = LIMIT) -> NDArray[Any]:
        """The values in the byte order of this machine.

        Raises `DataError` for a file that is shorter, longer or damaged, and for more than `limit` bytes.
        """
        within(str(self.path), self._bytes, limit)
        with self._values() as part:
            values = np.frombuffer(part.all(), dtype=self.dtype)
        return values.reshape(self.shape).astype(self.dtype.newbyteorder("="))

    def rows(self) -> StreamedRows:
        """The rows, read when asked for: quick where they are asked for about in order. Going to the end checks the whole."""
        block = max(1, BLOCK // max(1, self._bytes // max(1, self.shape[0])))
        return StreamedRows(lambda: self._blocks(block), self.shape, self.dtype, block)

    def _blocks(self, block: int) -> Iterator[NDArray[Any]]:
        row = self._bytes // self.shape[0]
        with self._values() as part:
            for start in range(0, self.shape[0], block):
                count = min(block, self.shape[0] - start)
                yield np.frombuffer(part.read(count * row), dtype=self.dtype).reshape(count, *self.shape[1:])

    @property
    def _bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @contextlib.contextmanager
    def _values(self) -> Iterator[Part]:
        with _unpacked(self.path) as stream:
            part = Part(str(self.path), self.head + self._bytes, stream)
            part.read(self.head)
            yield part


def find_norb(folder: Path, name: str) -> Path:
    """The file of that name in the folder, as it is or with `.gz`. Raises `DataError` where there is neither."""
    for place in (folder / name, folder / f"{name}.gz"):
        if place.is_file():
            return place
    raise DataError(f"there is no file {name} or {name}.gz in {folder}")


def open_norb(path: Path, dtype: str, shape: Sequence[int | None]) -> NorbMatrix:
    """A matrix with its header checked: values of `dtype` (`"uint8"`), dimensions as in `shape`, None for any.

    Raises `DataError` for a file that is none, or one of other values or dimensions.
    """
    with _unpacked(path) as stream:
        start = _read(stream, 8, path)
        magic, count = struct.unpack("<II", start)
        if magic not in TYPES:
            raise DataError(f"{path} is no matrix of NORB: it begins with {start[:4].hex(' ')}, not with a type and 4c 3d 1e")
        if not 1 <= count <= MOST_DIMENSIONS:
            raise DataError(f"{path} is damaged: its header names {count:,} dimensions")
        written = max(3, count)
        sizes = struct.unpack(f"<{written}I", _read(stream, 4 * written, path))
    found, kind = tuple(sizes[:count]), np.dtype(TYPES[magic])
    fits = count == len(shape) and all(wanted in (None, size) for wanted, size in zip(shape, found, strict=True))
    if kind.name != dtype or not fits:
        wanted = " x ".join("any" if size is None else str(size) for size in shape)
        raise DataError(f"{path} holds {kind.name} values of {' x '.join(map(str, found))}, and {dtype} of {wanted} are expected")
    return NorbMatrix(path, kind, found, 8 + 4 * written)


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked where it is gzip by its first bytes: browsers unpack a file and leave it its name."""
    packed = kind_of_file(path) == "gzip"
    if not packed and path.suffix != ".gz":
        expect_kind(path, ("",), "a matrix of NORB")
    try:
        with path.open("rb") as file:
            if not packed:
                yield file
                return
            with gzip.GzipFile(fileobj=file) as stream:
                yield stream  # type: ignore[misc]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {reason(error)}") from None


def _read(stream: IO[bytes], count: int, path: Path) -> bytes:
    try:
        read = stream.read(count)
    except DAMAGE as error:
        raise DataError(f"{path} is damaged or cut short: {reason(error)}") from None
    if len(read) < count:
        raise DataError(f"{path} is cut short inside its header")
    return read
