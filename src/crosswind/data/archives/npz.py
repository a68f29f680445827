"""Arrays in npy files and in npz archives, read without trusting them: no objects, no more memory than is allowed.

An array is described by what it is expected to be; what its header says is compared with that, and with the bytes that follow,
before any memory is taken. Large arrays are read by rows, in order, or laid once into a file that is mapped.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.data.archives.parts import Bounds, Part, expect_kind, within
from crosswind.data.archives.spool import temporary_file
from crosswind.data.archives.zips import ZipArchive

__all__ = ["Expected", "Header", "header_of", "keys_of", "read_array", "read_arrays", "rows_mapped", "rows_of_member", "sums_of"]

LIMIT = 1 << 30
LONGEST_HEADER = 20_000  # bytes; NumPy takes 10,000
# Whatever the ratio, an array takes the memory that its header says, and that is bounded or expected.
_BOUNDS = Bounds(members=1000, size=1 << 42, ratio=math.inf)
_KINDS = {"integers": "iu", "floats": "f", "numbers": "iuf", "text": "US", "booleans": "b"}


@dataclass(frozen=True)
class Expected:
    """What an array should be.

    `dtype`: the name of one (`"uint8"`; any byte order), or `"integers"`, `"floats"`, `"numbers"`, `"text"`, `"booleans"`;
    empty: any of these. `shape`: lengths, None where any will do; None for any shape.
    """

    dtype: str = ""
    shape: tuple[int | None, ...] | None = None

    def check(self, label: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Raises `DataError` where an array of this dtype and shape is not what is expected."""
        kinds = _KINDS.get(self.dtype, "".join(_KINDS.values()))
        if dtype.kind not in kinds or (self.dtype and self.dtype not in _KINDS and dtype.newbyteorder("=") != np.dtype(self.dtype)):
            held = "objects, which only unpickling could read" if dtype.hasobject else str(dtype)
            raise DataError(f"{label} holds {held}, not {self.dtype or 'numbers or text'}")
        if self.shape is None:
            return
        if len(shape) != len(self.shape) or any(wanted not in (None, n) for wanted, n in zip(self.shape, shape, strict=True)):
            wanted = ", ".join("any" if n is None else str(n) for n in self.shape)
            raise DataError(f"{label} has shape {shape}, not ({wanted})")


@dataclass(frozen=True)
class Header:
    """What an array's header says: `dtype`, `shape`, whether it is stored `by_column`, and the `offset` of its first value."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    by_column: bool
    offset: int

    @property
    def bytes(self) -> int:
        """The bytes of all values."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def row(self) -> int:
        """The bytes of one row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def keys_of(path: Path) -> tuple[str, ...]:
    """The keys of an npz archive, in its order. Raises `DataError` for what is none."""
    with _opened(path) as archive:
        return tuple(name.removesuffix(".npy") for name in archive.members)


def header_of(path: Path, key: str | None = None, expected: Expected | None = None) -> Header:
    """What the header of one array says: of `key` in an npz archive, or of an npy file. Reads no value."""
    with _part(path, key) as part:
        return _header(part, expected or Expected())


def sums_of(path: Path) -> dict[str, str]:
    """Key -> size and checksum of each array, as the npz archive keeps them: what a fingerprint can be made of at no cost."""
    with _opened(path) as archive:
        return {name.removesuffix(".npy"): f"{info.file_size}:{info.CRC:08x}" for name, info in archive.members.items()}


def read_arrays(path: Path, expected: Mapping[str, Expected], limit: int = LIMIT) -> dict[str, NDArray[Any]]:
    """The expected arrays of an npz archive, whole; others that it holds are left alone.

    Raises `DataError` for a missing key, another dtype or shape, objects, damage, and more than `limit` bytes.
    """
    with _opened(path) as archive:
        return {key: _whole(archive, path, key, what, limit) for key, what in expected.items()}


def read_array(path: Path, expected: Expected | None = None, limit: int = LIMIT) -> NDArray[Any]:
    """The array of an npy file, whole. Raises `DataError` as `read_arrays` does."""
    with _part(path, None) as part:
        return _values(part, expected or Expected(), limit)


def rows_of_member(path: Path, key: str | None, expected: Expected, block: int = 0) -> Iterator[NDArray[Any]]:
    """The rows of one array in order, in blocks of `block` rows (by default of about 4 MB), each an array of its own.

    Memory is that of a block, whatever the array takes. Going to the end checks the whole, with the archive's checksum.
    Raises `DataError` as `read_arrays` does, where it is met.
    """
    with _part(path, key) as part:
        header = _by_rows(part, expected)
        size = block or max(1, (4 << 20) // max(1, header.row))
        for start in range(0, header.shape[0], size):
            count = min(size, header.shape[0] - start)
            values = np.frombuffer(part.read(count * header.row), dtype=header.dtype)
            yield values.reshape(count, *header.shape[1:])
        if not header.bytes:
            part.all()


def rows_mapped(
    path: Path,
    key: str | None,
    expected: Expected,
    scratch: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> NDArray[Any]:
    """One array as a read-only map from which several threads may take rows, checked to its end.

    An array that is stored as it is, is mapped where it lies. A packed one is unpacked once, to a file without a name in `scratch`
    (by default the folder of the archive where it can be written, else that of temporary files), which is gone with the array.
    `on_progress(done, all)` is told bytes. Raises `DataError` as `read_arrays` does, and where the disk has no room.
    """
    with _part(path, key) as part:
        header = _by_rows(part, expected)
        place = _stored_at(path, key)
        if not header.bytes:
            part.all()
            return np.empty(header.shape, header.dtype)
        with contextlib.ExitStack() as stack:
            file: IO[bytes] | None = None
            if place is None:
                file = stack.enter_context(temporary_file(scratch or path.parent, header.bytes, str(path)))
            done = 0
            for read in part.blocks():
                done += len(read)
                if file is not None:
                    file.write(read)
                if on_progress is not None:
                    on_progress(done, header.bytes)
            if file is None:
                return np.memmap(path, header.dtype, "r", (place or 0) + header.offset, header.shape)
            file.flush()
            return np.memmap(file, header.dtype, "r", 0, header.shape)


def _whole(archive: ZipArchive, path: Path, key: str, expected: Expected, limit: int) -> NDArray[Any]:
    with _member(archive, path, key) as part:
        return _values(part, expected, limit)


def _values(part: Part, expected: Expected, limit: int) -> NDArray[Any]:
    header = _header(part, expected)
    within(part.label, header.bytes, limit)
    values = np.empty(math.prod(header.shape), header.dtype)
    raw, at = values.view(np.uint8) if values.size and header.dtype.itemsize else np.empty(0, np.uint8), 0
    for block in part.blocks():
        raw[at : at + len(block)] = np.frombuffer(block, np.uint8)
        at += len(block)
    shaped = values.reshape(header.shape, order="F" if header.by_column else "C")
    return shaped if header.dtype.isnative else shaped.astype(header.dtype.newbyteorder("="))


def _by_rows(part: Part, expected: Expected) -> Header:
    header = _header(part, expected)
    if header.by_column or not header.shape:
        what = "is stored by columns" if header.by_column else "is a single value"
        raise DataError(f"{part.label} {what} and cannot be read by rows")
    return header


def _head(part: Part, version: tuple[int, int]) -> IO[bytes]:
    """The bytes of a header after its version, as Python 3 writes them: NumPy warns of Python 2's lengths, such as `700L`."""
    length = part.read({(1, 0): 2, (2, 0): 4}[version])
    # NumPy refuses a longer header itself, by its length alone.
    text = part.read(min(int.from_bytes(length, "little"), LONGEST_HEADER))
    return io.BytesIO(length + re.sub(rb"(?<=\d)L\b", b" ", text))


def _header(part: Part, expected: Expected) -> Header:
    """The header, read from the beginning of an array's bytes, in agreement with what is expected and with what follows."""
    readers: dict[tuple[int, int], Callable[..., Any]] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        version = npy.read_magic(part)  # type: ignore[arg-type]  # it wants `read` alone
        shape, by_column, dtype = readers[version](_head(part, version))
    except KeyError:
        raise DataError(f"{part.label} is an array of a version that is not read here: {version}") from None
    except (ValueError, EOFError, SyntaxError, TokenError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        raise DataError(f"{part.label} is not a NumPy array: {error}") from None
    expected.check(part.label, dtype, tuple(shape))
    header = Header(dtype, tuple(shape), bool(by_column) and len(shape) > 1, part.size - part.left)
    if min(header.shape, default=0) < 0 or header.bytes != part.left:
        held = f"its header says {dtype} {header.shape}, {header.bytes:,} bytes, and {part.left:,} follow"
        raise DataError(f"{part.label} is damaged: {held}")
    return header


@contextlib.contextmanager
def _part(path: Path, key: str | None) -> Iterator[Part]:
    """The bytes of an npy file, or of a key of an npz archive."""
    if key is not None:
        with _opened(path) as archive, _member(archive, path, key) as part:
            yield part
        return
    expect_kind(path, ("npy",), "an array of NumPy's")
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    with file:
        yield Part(str(path), path.stat().st_size, file)


@contextlib.contextmanager
def _member(archive: ZipArchive, path: Path, key: str) -> Iterator[Part]:
    if f"{key}.npy" not in archive.members:
        held = ", ".join(sorted(name.removesuffix(".npy") for name in archive.members)[:20]) or "nothing"
        raise DataError(f"{path} has no {key!r} but {held}")
    with archive.part(f"{key}.npy", f"{path}: {key!r}") as part:
        yield part


def _opened(path: Path) -> ZipArchive:
    expect_kind(path, ("zip",), "an npz archive")
    return ZipArchive(path, _BOUNDS)


def _stored_at(path: Path, key: str | None) -> int | None:
    """Where the bytes of an array begin in the file, if they lie there as they are."""
    if key is None:
        return 0
    with _opened(path) as archive:
        return archive.stored_at(f"{key}.npy")
