"""The pixels of a prepared copy on disk: one array to map, or JPEG bytes one after another.

Both are written from the first row to the last and only ever added to, so that what is there up to a known length is whole.
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError

__all__ = [
    "JPEG_QUALITY",
    "OFFSETS",
    "STORES",
    "array_header",
    "array_reader",
    "chunk_rows",
    "jpeg_bytes",
    "jpeg_reader",
    "npy_bytes",
    "pixels_file",
]

STORES = ("array", "jpeg")
JPEG_QUALITY = 95
"""Quality in Pillow's words; colours are kept at full resolution (4:4:4), which 95 alone would halve."""
OFFSETS = "offsets.npy"
_FILES = {"array": "pixels.npy", "jpeg": "pixels.jpegs"}
CHUNK_BYTES = 2 << 20
CHUNK_MOST = 4096

Reader = Callable[[NDArray[np.int64]], NDArray[np.uint8]]


def pixels_file(store: str) -> str:
    """The name of the file of pixels."""
    return _FILES[store]


def chunk_rows(shape: Sequence[int]) -> int:
    """Rows that are decoded, written and checked together: about 2 MiB of pixels, the same on every machine."""
    return max(1, min(CHUNK_MOST, CHUNK_BYTES // max(1, int(np.prod(shape)))))


def array_header(n_rows: int, shape: tuple[int, int, int]) -> bytes:
    """The first bytes of an npy file of uint8 [n, h, w, c]; always the same length for the same numbers."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (n_rows, *shape)})
    return head.getvalue()


def npy_bytes(array: NDArray[Any]) -> bytes:
    """An array as the bytes of an npy file."""
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def jpeg_bytes(image: NDArray[np.uint8]) -> bytes:
    """One picture uint8 [h, w, 1 or 3] as JPEG."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(out, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return out.getvalue()


def array_reader(path: Path, shape: tuple[int, ...]) -> Reader:
    """Rows of the array as it lies in the file, mapped into memory: nothing is read before it is asked for.

    Raises `ValueError` for a file that holds another array.
    """
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{path.name} is of another version of npy")
        if np.lib.format.read_array_header_1_0(file) != (shape, False, np.dtype(np.uint8)):
            raise ValueError(f"{path.name} holds another array than uint8 {shape}")
        head = file.tell()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    plain = np.frombuffer(mapped, dtype=np.uint8, offset=head).reshape(shape)
    size = int(np.prod(shape[1:]))
    announced = np.zeros(shape[0], dtype=bool)

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        new = rows[~announced[rows]]
        if new.size:
            _announce(mapped, head + new * size, size)
            announced[new] = True
        return plain.take(rows, axis=0)

    return images


def _announce(mapped: mmap.mmap, places: NDArray[np.int64], size: int) -> None:
    """Ask for rows that may not be in memory all at once: read as they are touched, the disk would have one to do at a time."""
    if not hasattr(mmap, "MADV_WILLNEED"):
        return
    first = places // mmap.PAGESIZE * mmap.PAGESIZE
    for start, length in zip(first.tolist(), (places + size - first).tolist(), strict=True):
        mapped.madvise(mmap.MADV_WILLNEED, start, length)


def jpeg_reader(path: Path, offsets: NDArray[np.int64], shape: tuple[int, int, int]) -> Reader:
    """Rows decoded from their JPEG bytes; may be called by several threads at once."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        out = np.empty((len(rows), *shape), dtype=np.uint8)
        for place, row in enumerate(rows.tolist()):
            out[place] = _decoded(mapped[offsets[row] : offsets[row + 1]], shape, path, row)
        return out

    return images


def _decoded(data: bytes, shape: tuple[int, int, int], path: Path, row: int) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as opened:
            if (opened.height, opened.width, len(opened.getbands())) != shape:
                raise DataError(f"{path}, row {row}: holds a picture of another shape than the card says")
            found: NDArray[Any] = np.asarray(opened, dtype=np.uint8)
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path}, row {row}: cannot be read as a JPEG picture: {error}") from None
    return found.reshape(shape)
