"""The idx format of MNIST and its relatives: arrays of one type behind a header of a few numbers, raw or gzip.

Two zero bytes, one byte for the type, one for the number of dimensions, then each dimension as a big-endian 32-bit number and
the values, the last dimension fastest. Nothing is believed before it is there: memory grows with what is read, never with what a
header promises, and a stream that goes on after its last value is refused.
Layout: Y. LeCun, C. Cortes, C. Burges, The MNIST database of handwritten digits.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Original
from crosswind.core.errors import DataError, one_line
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.resizing import of_parts

__all__ = ["IdxFile", "find_idx", "idx_dataset", "missing_idx", "open_idx"]

MOST_BYTES = 4 << 30  # of one array, whatever its header says
TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
PARTS = {"train": "train", "test": "t10k"}  # part -> how its files begin
_STEP = 1 << 22
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class IdxFile:
    """An idx file whose header was read: its place, the dtype of its values and its dimensions."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def read(self) -> NDArray[Any]:
        """The values in the byte order of this machine. Raises `DataError` for a file that is shorter or longer than it says."""
        head, wanted = 4 + 4 * len(self.shape), math.prod(self.shape) * self.dtype.itemsize
        with _Reading(self.path) as stream:
            stream.read(head)
            body = bytearray()
            while len(body) < wanted and (part := stream.read(min(_STEP, wanted - len(body)))):
                body += part
            if len(body) < wanted:
                raise DataError(f"{self.path} is truncated: it has {len(body):,} of the {wanted:,} bytes that its header promises")
            if stream.read(1):
                raise DataError(f"{self.path} goes on after the {wanted:,} bytes that its header promises")
        values = np.frombuffer(body, dtype=self.dtype).reshape(self.shape)
        return values.astype(self.dtype.newbyteorder("="), copy=False)


def find_idx(folder: Path, name: str) -> Path:
    """The file of that name in the folder, as it is or with `.gz`. Raises `DataError` where there is neither."""
    for place in (folder / name, folder / f"{name}.gz"):
        if place.is_file():
            return place
    raise DataError(f"there is no file {name} or {name}.gz in {folder}")


def missing_idx(files: Sequence[Original], folder: Path) -> tuple[Original, ...]:
    """Those of the originals (`.gz`) that are in the folder neither packed nor unpacked."""
    forms = {item: (folder / item.name, folder / item.name.removesuffix(".gz")) for item in files}
    return tuple(item for item, places in forms.items() if not any(place.is_file() for place in places))


def open_idx(path: Path, kind: str, shape: Sequence[int | None]) -> IdxFile:
    """An idx file with its header checked: values of dtype `kind` (`"uint8"`), dimensions as in `shape`, None for any.

    Raises `DataError` for a file that is no idx file, or one of other values or dimensions.
    """
    with _Reading(path) as stream:
        start = stream.read(4)
        if len(start) < 4:
            raise DataError(f"{path} is truncated: it has {len(start)} bytes, fewer than the header of an idx file")
        if start[:2] != b"\0\0" or start[2] not in TYPES:
            known = " ".join(f"{code:02x}" for code in TYPES)
            raise DataError(f"{path} is no idx file: it begins with {start.hex(' ')}, not with 00 00 and a type ({known})")
        dtype = np.dtype(TYPES[start[2]])
        sizes = stream.read(4 * start[3])
        if len(sizes) < 4 * start[3]:
            raise DataError(f"{path} is truncated: its header names {start[3]} dimensions and ends before them")
    found = tuple(int.from_bytes(sizes[i : i + 4], "big") for i in range(0, len(sizes), 4))
    fits = len(found) == len(shape) and all(wanted in (None, size) for wanted, size in zip(shape, found, strict=True))
    if dtype.name != kind or not fits:
        wanted = " x ".join("any" if size is None else str(size) for size in shape)
        there = " x ".join(map(str, found)) or "no dimensions"
        raise DataError(f"{path} holds {dtype.name} values of {there}, and {kind} of {wanted} are expected")
    if math.prod(found) * dtype.itemsize > MOST_BYTES:
        raise DataError(f"{path} promises {math.prod(found) * dtype.itemsize:,} bytes, more than {MOST_BYTES:,}")
    return IdxFile(path, dtype, found)


def idx_dataset(folder: Path, name: str, label: Attribute, size: int, side: int = 28) -> tuple[AttributedDataset, dict[str, int]]:
    """The data set of four files in MNIST's layout, grey pictures of `side` x `side` resized to `size`, and the rows of its parts.

    Rows are those of the training files, then those of the test files (`t10k-`), in their order. Attributes: `label`, whose codes
    are the bytes of the label files, and `split` (train, test). Labels are read at once, a part's pictures when one of them is
    first asked for. Raises `DataError` for files that are missing, damaged, or do not agree.
    """
    pictures: list[IdxFile] = []
    labels: list[NDArray[np.uint8]] = []
    for stem in PARTS.values():
        images = open_idx(find_idx(folder, f"{stem}-images-idx3-ubyte"), "uint8", (None, side, side))
        file = open_idx(find_idx(folder, f"{stem}-labels-idx1-ubyte"), "uint8", (None,))
        if images.shape[0] != file.shape[0]:
            raise DataError(f"{images.path} holds {images.shape[0]:,} images and {file.path.name} {file.shape[0]:,} labels")
        values = file.read()
        if values.size and int(values.max()) >= len(label):
            row = int(np.argmax(values >= len(label)))
            raise DataError(f"{file.path}, row {row + 1} has label {values[row]}, and the classes are 0 to {len(label) - 1}")
        pictures.append(images)
        labels.append(values)
    counts = [len(values) for values in labels]
    split = np.repeat(np.arange(len(counts), dtype=np.uint8), counts)
    dataset = AttributedDataset(
        name=name,
        table=AttributeTable((label, Attribute("split", tuple(PARTS))), np.stack([np.concatenate(labels), split])),
        images=of_parts([_reader(file) for file in pictures], counts, size),
        image_shape=(size, size, 1),
    )
    return dataset, dict(zip(PARTS, counts, strict=True))


def _reader(file: IdxFile) -> Callable[[], NDArray[np.uint8]]:
    return lambda: file.read()[..., None]


class _Reading:
    """The bytes of a file, unpacked where it is gzip by its first bytes; what goes wrong in it is one `DataError`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> _Reading:
        try:
            self._file = self.path.open("rb")
        except OSError as error:
            raise DataError(f"{self.path} cannot be opened: {error.strerror or error}") from None
        packed = self._file.peek(2)[:2] == _GZIP
        # By its bytes and not by its name: browsers unpack a file and leave it the name that it had.
        self._stream: BufferedReader | gzip.GzipFile = gzip.GzipFile(fileobj=self._file) if packed else self._file
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._file.close()

    def read(self, count: int) -> bytes:
        try:
            return self._stream.read(count)
        except EOFError:
            raise DataError(f"{self.path} is truncated: its gzip stream ends before its end mark") from None
        except (OSError, zlib.error) as error:
            raise DataError(f"{self.path} is corrupted: {one_line(str(error), 200)}") from None
