"""Arrays in files of others: npy, npz, HDF5, MATLAB 5, and the matrices of MNIST (idx) and NORB.

What a file holds is compared with what is expected before memory is taken, and no object is ever
unpickled. NumPy, h5py and SciPy do the reading. Libraries in C can end the process at a damaged
file. So a file of theirs whose hash is not the published one is tried in a child process first
(`tried`). Everything wrong is one `DataError` that begins with the path.
"""

from __future__ import annotations

import contextlib
import math
import struct
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.data.archives.checks import DAMAGE, PACKED, damage, expect_kind, kind_of_file, reason

LIMIT = 4 << 30
BLOCK = 4 << 20
"""Bytes of rows that are read at once."""
WINDOW = 256 << 20
"""Bytes of rows that are kept: threads that ask for rows a little out of order find them there."""
KINDS = {"integers": "iu", "floats": "f", "numbers": "iuf", "text": "US", "booleans": "b"}
IDX = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
NORB = {
    0x1E3D4C51: "<f4",
    0x1E3D4C53: "<f8",
    0x1E3D4C54: "<i4",
    0x1E3D4C55: "|u1",
    0x1E3D4C56: "<i2",
}


@dataclass(frozen=True)
class Expected:
    """The dtype and shape that an array should have.

    `dtype`: the name of one (`"uint8"`; any byte order), or `"integers"`, `"floats"`, `"numbers"`,
    `"text"`, `"booleans"`; empty: any of these. `shape`: lengths, None where any will do; None for
    any shape.
    """

    dtype: str = ""
    shape: tuple[int | None, ...] | None = None

    def check(
        self, label: str, dtype: np.dtype[Any], shape: tuple[int, ...], limit: float = LIMIT
    ) -> None:
        """Raises `DataError` for an array of another dtype or shape, and for one of more than
        `limit` bytes."""
        named = self.dtype not in ("", *KINDS) and dtype.newbyteorder("=") != np.dtype(self.dtype)
        if named or dtype.kind not in KINDS.get(self.dtype, "".join(KINDS.values())):
            dtype_words = "objects, which only unpickling could read"
            if not dtype.hasobject:
                dtype_words = str(dtype)
            raise DataError(f"{label} holds {dtype_words}, not {self.dtype or 'numbers or text'}")
        wanted_shape = shape if self.shape is None else self.shape
        if len(shape) != len(wanted_shape) or any(
            n not in (None, side) for n, side in zip(wanted_shape, shape, strict=True)
        ):
            wanted_words = ", ".join("any" if n is None else str(n) for n in wanted_shape)
            problem = f"{label} has shape {shape}, not ({wanted_words})"
            raise DataError(problem)
        if math.prod(shape) * dtype.itemsize > limit:
            n_bytes = math.prod(shape) * dtype.itemsize
            raise DataError(
                f"{label} takes {n_bytes:,} bytes of memory, more than the {limit:,} allowed"
            )


def sums_of(path: Path) -> dict[str, int]:
    """Key -> checksum (CRC-32) of each array of an npz archive, in its order: what a fingerprint
    can be made of at no cost.

    Raises `DataError` for what is no such archive.
    """
    expect_kind(path, ("zip",), "an npz archive")
    with damage(path), zipfile.ZipFile(path) as archive:
        return {info.filename.removesuffix(".npy"): info.CRC for info in archive.infolist()}


def read_arrays(
    path: Path, expected: Mapping[str, Expected], limit: int = LIMIT
) -> dict[str, NDArray[Any]]:
    """The expected arrays of an npz archive, whole; others that it holds are left alone.

    Raises `DataError` for a missing key, another dtype or shape, objects, damage, and more than
    `limit` bytes.
    """
    return {
        key: _whole(path, key, expected_array, limit) for key, expected_array in expected.items()
    }


def read_array(path: Path, expected: Expected | None = None, limit: int = LIMIT) -> NDArray[Any]:
    """The array of an npy file, whole. Raises `DataError` as `read_arrays` does."""
    return _whole(path, None, expected or Expected(), limit)


def npz_rows(path: Path, key: str, expected: Expected) -> StreamedRows:
    """The rows of one array of an npz archive, in bounded memory. Raises `DataError` as
    `read_arrays` does."""
    with _array(path, key, expected, math.inf) as (_, label, dtype, shape, by_column):
        if by_column or not shape:
            raise DataError(
                f"{label} {'is stored by columns' if by_column else 'is a single value'} and cannot"
                " be read by rows"
            )

    def blocks(count: int) -> Iterator[NDArray[Any]]:
        with _array(path, key, expected, math.inf) as (stream, label, *_):
            yield from _blocks(stream, label, dtype, shape, count)

    return StreamedRows(blocks, shape, dtype)


def _whole(path: Path, key: str | None, expected: Expected, limit: float) -> NDArray[Any]:
    with _array(path, key, expected, limit) as (stream, label, dtype, shape, by_column):
        (values,) = _blocks(stream, label, dtype, (1, math.prod(shape)), 1)
    return values.reshape(shape, order="F" if by_column else "C")


@contextlib.contextmanager
def _array(
    path: Path, key: str | None, expected: Expected, limit: float
) -> Iterator[tuple[Any, ...]]:
    """The stream behind the header of an npy file or of a key of an npz archive, its label, dtype,
    shape and order."""
    if key is None:
        label = str(path)
    else:
        label = f"{path}: {key!r}"
    with contextlib.ExitStack() as stack:
        if key is None:
            expect_kind(path, ("npy",), "an array of NumPy's")
            stream: IO[bytes] = stack.enter_context(path.open("rb"))
            size = path.stat().st_size
        else:
            member_sums = sums_of(path)
            if key not in member_sums:
                problem = (
                    f"{path} has no {key!r} but {', '.join(sorted(member_sums)[:20]) or 'nothing'}"
                )
                raise DataError(problem)
            with damage(label):
                archive = stack.enter_context(zipfile.ZipFile(path))
                stream = stack.enter_context(archive.open(f"{key}.npy"))
                size = archive.getinfo(f"{key}.npy").file_size
        try:
            with warnings.catch_warnings():  # NumPy warns of the lengths of Python 2, such as 700L
                warnings.simplefilter("ignore")
                old = npy.read_magic(stream) == (1, 0)
                shape, by_column, dtype = (
                    npy.read_array_header_1_0 if old else npy.read_array_header_2_0
                )(stream)
        except (*DAMAGE, TokenError) as error:
            raise DataError(f"{label} is not a NumPy array, or is damaged: {error}") from None
        expected.check(label, dtype, shape, limit)
        follow = size - stream.tell()
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != follow:
            raise DataError(
                f"{label} is damaged or cut short: its header says {dtype} {shape}, and {follow:,}"
                " bytes follow"
            )
        yield stream, label, dtype, shape, by_column and len(shape) > 1


def _blocks(
    stream: IO[bytes], label: str, dtype: np.dtype[Any], shape: tuple[int, ...], count: int
) -> Iterator[NDArray[Any]]:
    """The rows of an array whose values are all that is left of a stream, in blocks of `count`
    rows; checked to their end."""
    for start in range(0, max(1, shape[0]), count):
        values = np.empty((min(count, shape[0] - start), *shape[1:]), dtype)
        if values.nbytes:
            room = memoryview(values.reshape(-1).view(np.uint8).data)
        else:
            room = memoryview(b"")
        with damage(label):
            # zipfile joins what it unpacks piece by piece: large reads would take the square of
            # their length.
            while room and (read := stream.readinto(room[: 1 << 18])):  # type: ignore[attr-defined]
                room = room[read:]
            if room:
                raise DataError(
                    f"{label} is cut short: {len(room):,} bytes of its values are missing"
                )
            if start + count >= shape[0] and stream.read(1):  # this is where checksums are compared
                raise DataError(f"{label} is damaged: it goes on after its last value")
        yield values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


@dataclass(frozen=True)
class Matrix:
    """A matrix of MNIST's or NORB's format whose header was read: its place, dtype, shape, and the
    bytes of the header."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    head: int

    def read(self) -> NDArray[Any]:
        """The values in the byte order of this machine. Raises `DataError` for a file that is
        shorter or longer, or damaged."""
        (values,) = self._blocks(max(1, self.shape[0]))
        return values

    def rows(self) -> StreamedRows:
        """The rows, read when asked for: quick where they are asked for about in order."""
        return StreamedRows(self._blocks, self.shape, self.dtype)

    def _blocks(self, count: int) -> Iterator[NDArray[Any]]:
        with damage(self.path), _unpacked(self.path) as stream:
            stream.read(self.head)
            yield from _blocks(stream, str(self.path), self.dtype, self.shape, count)


def open_matrix(path: Path, expected: Expected, most_bytes: int = LIMIT) -> Matrix:
    """A matrix in MNIST's idx format or in NORB's, raw or gzip, its header checked.

    idx: two zeros, a byte for the type, one for the number of dimensions, each dimension in 32
    bits, big-endian. NORB: a magic number for the type, the number of dimensions, at least three
    dimensions, all of 32 bits, little-endian. Then the values. Raises `DataError` for another file,
    and for one of other values or dimensions.
    Layouts: LeCun, Cortes, Burges, The MNIST database; Huang, LeCun, the small NORB dataset, "File
    formats".
    """
    expect_kind(path, ("", "gzip"), "a matrix of MNIST or NORB")
    with damage(f"{path}, in its header,"), _unpacked(path) as stream:
        start = stream.read(4)
        number = int.from_bytes(start, "little")
        if number in NORB:
            order, kind, (count,) = "<", NORB[number], struct.unpack("<I", stream.read(4))
        elif start[:2] == b"\0\0" and len(start) == 4 and start[2] in IDX:
            order = ">"
            kind = IDX[start[2]]
            count = start[3]
        else:
            raise DataError(
                f"{path} is no matrix of MNIST or NORB, or is cut short: it begins with"
                f" {start.hex(' ') or 'nothing'}"
            )
        if not 1 <= count <= 8:
            raise DataError(f"{path} is damaged: its header names {count:,} dimensions")
        written = max(3, count) if order == "<" else count
        shape = struct.unpack(f"{order}{written}I", stream.read(4 * written))[:count]
    expected.check(str(path), np.dtype(kind), shape, most_bytes)
    return Matrix(path, np.dtype(kind), shape, 4 * (written + (2 if order == "<" else 1)))


def _unpacked(path: Path) -> IO[bytes]:
    # By its bytes and not by its name: browsers unpack a file and leave it its name.
    if kind_of_file(path) == "gzip":
        return PACKED["gzip"](path)
    return path.open("rb")


def hdf5_rows(path: Path, key: str, expected: Expected) -> StreamedRows:
    """The rows of one data set of an HDF5 file (extra `hdf5`): nothing outside the file, no
    objects.

    Raises `DataError` for what is missing, damaged or not expected, for links, and for values that
    lie in other files.
    """
    with _hdf5(path, key, expected) as opened_data:
        shape = tuple(opened_data.shape)
        dtype = opened_data.dtype
        chunk = opened_data.chunks[0] if opened_data.chunks else 1

    def blocks(count: int) -> Iterator[NDArray[Any]]:
        with _hdf5(path, key, expected) as hdf5_data:
            for start in range(0, shape[0], count):
                with damage(
                    f"{path}: {key!r}, in rows {start:,} to {min(start + count, shape[0]) - 1:,},"
                ):
                    values = hdf5_data[start : start + count]
                yield values.astype(values.dtype.newbyteorder("="), copy=False)

    return StreamedRows(blocks, shape, dtype.newbyteorder("="), chunk)


@contextlib.contextmanager
def _hdf5(path: Path, key: str, expected: Expected) -> Iterator[Any]:
    try:
        import h5py
    except ImportError:
        raise DataError(
            f"{path} is an HDF5 file, and reading it needs the extra: pip install 'crosswind[hdf5]'"
        ) from None
    expect_kind(path, ("hdf5",), "an HDF5 file")
    label = f"{path}: {key!r}"
    with damage(path), h5py.File(path, "r") as file:
        if key not in file:
            problem = f"{path} has no {key!r} but {', '.join(sorted(file)[:20]) or 'nothing'}"
            raise DataError(problem)
        hdf5_data = None
        if isinstance(file.get(key, getlink=True), h5py.HardLink):
            hdf5_data = file[key]
        if (
            not isinstance(hdf5_data, h5py.Dataset)
            or hdf5_data.is_virtual
            or hdf5_data.external
            or not hdf5_data.shape
        ):
            raise DataError(
                f"{label} is no data set with rows in this file; links to others are not followed"
            )
        expected.check(label, hdf5_data.dtype, tuple(hdf5_data.shape), 1 << 50)
        yield hdf5_data


def whole_hdf5(path: Path) -> None:
    """Read every data set with rows of an HDF5 file: what `tried` is given."""
    import h5py

    with damage(path), h5py.File(path, "r") as file:
        for key in file:
            for _ in hdf5_rows(path, key, Expected()).blocks():
                pass


def mat_shapes(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Name -> dimensions and MATLAB's class (`uint8`, `double`, `cell`) of the variables of a
    MATLAB 5 file.

    Raises `DataError` for another file and for one that is cut.
    """
    from scipy.io import whosmat

    expect_kind(path, ("",), "a MATLAB 5 file")
    with _matlab(path):
        return {name: (tuple(shape), kind) for name, shape, kind in whosmat(path, appendmat=False)}


def read_mat(path: Path, name: str) -> NDArray[Any]:
    """The real numbers of one variable of a MATLAB 5 file. Raises `DataError` for a damaged one and
    for other values."""
    from scipy.io import loadmat

    with _matlab(path):
        variable = loadmat(path, appendmat=False, variable_names=[name])[name]
        if not isinstance(variable, np.ndarray) or variable.dtype.kind not in KINDS["numbers"]:
            raise DataError(f"{path} holds no real numbers in {name}")
        return np.asarray(variable)


def whole_mat(path: Path) -> None:
    """Read every variable of a MATLAB 5 file: what `tried` is given."""
    for name, (_, kind) in mat_shapes(path).items():
        if kind not in ("cell", "struct", "object", "function", "opaque"):
            read_mat(path, name)


@contextlib.contextmanager
def _matlab(path: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # SciPy raises what it likes for damaged files
        raise DataError(
            f"{path} is no MATLAB 5 file, or is damaged or cut short: {reason(error)}"
        ) from None


class StreamedRows:
    """The rows of an array that is read from its beginning, handed out to several threads in
    bounded memory.

    `blocks(count)` begins anew and gives blocks of `count` rows: about 4 MB, a multiple of `chunk`
    rows. Rows asked for about in order cost one pass; going back beyond the 256 MB that are kept
    costs another. `shape`, `dtype`: of the whole array.
    """

    def __init__(
        self,
        blocks: Callable[[int], Iterator[NDArray[Any]]],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        chunk: int = 1,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        row = max(1, math.prod(shape[1:]) * dtype.itemsize)
        self.block = chunk * max(1, BLOCK // (row * chunk))
        self._most = max(2, WINDOW // (self.block * row))
        self._blocks = blocks
        self._next = -1
        self._stream: Iterator[NDArray[Any]] = iter(())
        self._held: dict[int, NDArray[Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of numbers int [m], each in [0, n): [m, ...]. Raises what reading raises."""
        out = np.empty((len(rows), *self.shape[1:]), dtype=self.dtype)
        numbers = rows // self.block
        for number in np.unique(numbers).tolist():
            with self._lock:
                block = self._block(number)
            mine = numbers == number
            out[mine] = block[rows[mine] - number * self.block]
        return out

    def blocks(self) -> Iterator[NDArray[Any]]:
        """All rows in order, in blocks."""
        return self._blocks(self.block)

    def all(self) -> NDArray[Any]:
        """The whole array. Raises `DataError` for one of more than `LIMIT` bytes."""
        Expected().check("an array", self.dtype, self.shape)
        return self(np.arange(self.shape[0]))

    def _block(self, number: int) -> NDArray[Any]:
        if number not in self._held and not 0 <= self._next <= number:
            self._stream = self._blocks(self.block)
            self._next = 0
        try:
            while number not in self._held:
                self._held[self._next] = next(self._stream)
                self._next += 1
                while len(self._held) > self._most:
                    del self._held[next(iter(self._held))]
        except BaseException:
            self._next = -1  # a stream that failed is begun again, and fails again
            raise
        return self._held[number]
