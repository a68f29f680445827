"""Arrays of numbers in MATLAB 5 files, read without trusting them.

SciPy's reader gives memory as a file demands it, and a damaged file can end the process that it runs in. What data sets need of the
format is little: variables at the top of the file, packed by zlib or not, each with a class, dimensions, a name and its numbers.
Memory grows with what is read, never with what a header promises, and what goes on after a variable's numbers is refused.
Layout: MathWorks, MAT-File Format, level 5.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError

__all__ = ["MatVariable", "mat_variables"]

HEADER = 128
MATRIX, COMPRESSED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES = dict(
    enumerate(
        ("cell", "struct", "object", "char", "sparse", "double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32"), 1
    )
) | {14: "int64", 15: "uint64"}
NUMERIC = range(6, 16)
MOST_BYTES = 4 << 30
_STEP = 1 << 22
_COMPLEX = 0x800

Order = Literal["little", "big"]


@dataclass(frozen=True)
class MatVariable:
    """One variable: its name, MATLAB's class (`uint8`, `double`, `cell`) and its dimensions, at least two."""

    path: Path
    name: str
    kind: str
    shape: tuple[int, ...]
    place: tuple[int, int, int]
    """Type, place in the file and length of its element."""
    order: Order

    def read(self) -> NDArray[Any]:
        """The numbers, [shape] with the first dimension fastest, in the type that they are stored in.

        Raises `DataError` for a damaged variable and for one that holds no real numbers.
        """
        with self.path.open("rb") as file:
            stream = _Stream(self.path, file, self.place, self.order)
            kind, shape, _, numeric = _head(stream)
            if not numeric:
                raise DataError(f"{self.path} holds {kind} values in {self.name}, and real numbers are expected")
            stored, length, small = stream.tag()
            if stored not in NUMBERS:
                raise stream.damaged(f"the numbers of {self.name} are of type {stored}, which no numbers are")
            dtype = np.dtype(NUMBERS[stored]).newbyteorder("<" if self.order == "little" else ">")
            if length != math.prod(shape) * dtype.itemsize:
                raise stream.damaged(f"{self.name} has {length:,} bytes for {_product(shape)} values of {dtype.itemsize}")
            if length > MOST_BYTES:
                raise DataError(f"{self.path} promises {length:,} bytes in {self.name}, more than {MOST_BYTES:,}")
            body = bytearray(small[:length])
            while len(body) < length:
                body += stream.exactly(min(_STEP, length - len(body)))
            stream.finish(-length % 8 if not small else 0, self.name)
        return np.frombuffer(body, dtype).astype(dtype.newbyteorder("="), copy=False).reshape(shape, order="F")


def mat_variables(path: Path) -> dict[str, MatVariable]:
    """The variables of a MATLAB 5 file by name. Reads no more than their headers.

    Raises `DataError` for another file, one that is cut, and one whose variables have no header.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path.name} in {path.parent}")
    with path.open("rb") as file:
        start = file.read(HEADER)
        if b"MATLAB 7.3" in start[:20] or start[:4] == b"\x89HDF":
            raise DataError(f"{path} is a MATLAB 7.3 (HDF5) file, and one of MATLAB 5 is expected")
        if len(start) < HEADER or start[126:128] not in (b"IM", b"MI"):
            raise DataError(f"{path} is no MATLAB 5 file, or is truncated in its header")
        order: Order = "little" if start[126:128] == b"IM" else "big"
        found = {}
        for place in list(_elements(path, file, order)):
            stream = _Stream(path, file, place, order)
            kind, shape, name, _ = _head(stream)
            found[name] = MatVariable(path, name, kind, shape, place, order)
    return found


def _elements(path: Path, file: IO[bytes], order: Order) -> Iterator[tuple[int, int, int]]:
    """Type, place in the file and length of every element at the top, as their tags say."""
    size, at = path.stat().st_size, HEADER
    while at < size:
        file.seek(at)
        tag = file.read(8)
        kind, length = (int.from_bytes(tag[i : i + 4], order) for i in (0, 4))
        at += 8 + length
        if len(tag) < 8 or at > size:
            raise DataError(f"{path} is truncated: a variable ends at byte {at:,}, and the file at {size:,}")
        if kind not in (MATRIX, COMPRESSED):
            raise DataError(f"{path} is corrupted: an element of type {kind} stands where a variable is expected")
        yield kind, at - length, length


def _head(stream: _Stream) -> tuple[str, tuple[int, ...], str, bool]:
    """Class, dimensions, name and whether it holds real numbers of the variable that a stream begins with."""
    kind, flags = stream.field(8)
    if kind != 6 or len(flags) != 8:
        raise stream.damaged("a variable has no flags")
    word = int.from_bytes(flags[:4], stream.order)
    kind, sizes = stream.field(128)
    shape = tuple(int.from_bytes(sizes[i : i + 4], stream.order, signed=True) for i in range(0, len(sizes), 4))
    if kind != 5 or len(sizes) % 4 or len(shape) < 2 or min(shape) < 0:
        raise stream.damaged("a variable has no dimensions")
    kind, letters = stream.field(256)
    if kind != 1:
        raise stream.damaged("a variable has no name")
    if math.prod(shape) > MOST_BYTES:
        raise DataError(f"{stream.path} promises {_product(shape)} values, more than {MOST_BYTES:,}")
    name = letters.decode("ascii", "replace")
    return CLASSES.get(word & 0xFF, "unknown"), shape, name, word & 0xFF in NUMERIC and not word & _COMPLEX


class _Stream:
    """The bytes of one variable, unpacked where they are packed, from behind its own tag."""

    def __init__(self, path: Path, file: IO[bytes], place: tuple[int, int, int], order: Order) -> None:
        self.path, self.order = path, order
        kind, at, self._left = place
        self._file = file
        file.seek(at)
        self._unpacker = zlib.decompressobj() if kind == COMPRESSED else None
        self._tail = b""
        if self._unpacker is not None:
            inner, _, _ = self.tag()
            if inner != MATRIX:
                raise self.damaged(f"an element of type {inner} stands where a variable is expected")

    def damaged(self, what: str) -> DataError:
        """The error for bytes that cannot be what the format says."""
        return DataError(f"{self.path} is corrupted: {what}")

    def some(self, count: int) -> bytes:
        """The next bytes, at most `count`; none at the end."""
        if self._unpacker is None:
            read = self._file.read(min(count, self._left))
            self._left -= len(read)
            return read
        while not self._unpacker.eof:
            packed = self._tail or self._file.read(min(_STEP, self._left))
            self._left -= 0 if self._tail else len(packed)
            try:
                read = self._unpacker.decompress(packed, count)
            except zlib.error as error:
                raise self.damaged(str(error)) from None
            self._tail = self._unpacker.unconsumed_tail
            if read or not packed:
                return read
        return b""

    def exactly(self, count: int) -> bytes:
        """The next `count` bytes."""
        out = b""
        while len(out) < count:
            read = self.some(count - len(out))
            if not read:
                raise DataError(f"{self.path} is truncated: a variable ends in the middle")
            out += read
        return out

    def tag(self) -> tuple[int, int, bytes]:
        """Type and length of the next field, and the four bytes that hold it where it is small."""
        first = int.from_bytes(self.exactly(4), self.order)
        second = self.exactly(4)
        if first >> 16:
            if first >> 16 > 4:
                raise self.damaged("a field in short form has more than four bytes")
            return first & 0xFFFF, first >> 16, second
        return first, int.from_bytes(second, self.order), b""

    def field(self, most: int) -> tuple[int, bytes]:
        """Type and bytes of the next field, of at most `most` bytes."""
        kind, length, small = self.tag()
        if length > most:
            raise self.damaged(f"a field of a variable's header has {length:,} bytes, more than {most}")
        if small:
            return kind, small[:length]
        data = self.exactly(length)
        self.exactly(-length % 8)
        return kind, data

    def finish(self, padding: int, name: str) -> None:
        """Read to the end, which zlib's checksum stands at; nothing but `padding` bytes may come."""
        rest = b""
        while len(rest) <= padding and (read := self.some(padding + 1 - len(rest))):
            rest += read
        if len(rest) > padding:
            raise self.damaged(f"{name} goes on after its last value")
        if self._unpacker is not None and not self._unpacker.eof:
            raise DataError(f"{self.path} is truncated: {name} ends before its checksum")


def _product(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{size:,}" for size in shape)
