"""Decoded picture files on disk: a file is decoded once, whichever command, study or process asks.

Pictures of files that are read where they lie, without a prepared copy, are kept in the folder
`decoded-pictures` of the prepared data, at most CROSSWIND_DECODED_GIB (default 10; 0 keeps none) of
them: those of the list of files that was not read for longest go first. A picture is taken from
there only while size and times of its file are those it was decoded at, and only with the checksum
that it was written with. Where nothing can be kept, as on a full disk, every file is decoded at
each reading.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cache_limits import limit_bytes, remove_oldest
from crosswind.core.errors import DataError
from crosswind.core.files import root_folder
from crosswind.core.types import digest, digest_arrays
from crosswind.data.dataset import AttributedDataset, Images

__all__ = ["decoded_folder", "with_decoded_files"]

FOLDER: Final = "decoded-pictures"
MOST: Final = "CROSSWIND_DECODED_GIB"
ENDING: Final = ".pixels"
FORMAT: Final = 1
"""The version of decoding and of the layout of the files here."""
SPARE_BYTES: Final = 1 << 30
"""Bytes of the disk that are left free."""
_STATE = struct.Struct("<qqq")
_HALF = 8


def with_decoded_files(dataset: AttributedDataset, root: str | None = None) -> AttributedDataset:
    """The data set of picture files whose pictures are kept once they were decoded; the data set
    itself where its rows are no files of the user's, or nothing can be kept.

    `root`: the folder of prepared data, by default that of CROSSWIND_DATA. Raises `InputError` for
    a CROSSWIND_DECODED_GIB that is no number of GiB.
    """
    read, files, originals = dataset.read, dataset.files, dataset.originals
    shape = dataset.image_shape
    if read is None or files is None or originals is None or shape is None or not len(originals):
        return dataset
    most_bytes = limit_bytes(MOST, "10", zero=True)
    n_bytes = _total_bytes(len(originals), shape)
    if n_bytes > most_bytes:
        return dataset
    try:
        folder = decoded_folder(root)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{_key(originals, shape, files.border)}{ENDING}"
        stored_paths = (stored for stored in folder.glob(f"*{ENDING}") if stored != path)
        remove_oldest(stored_paths, most_bytes - n_bytes)
        if not path.exists() and shutil.disk_usage(folder).free < n_bytes + SPARE_BYTES:
            return dataset
        pictures = DecodedPictures(path, len(originals), shape)
    except (OSError, DataError):  # no home, no right to write, a full disk
        return dataset
    return replace(dataset, read=pictures.reader(read, files.opened))


def decoded_folder(root: str | None = None) -> Path:
    """The folder of decoded pictures, absolute; it need not exist. Raises `DataError` where there
    can be none."""
    return root_folder(root) / FOLDER


@final
class DecodedPictures:
    """The pictures uint8 [n, h, w, c] of one list of files, as far as they were decoded, in one
    sparse file.

    It begins with 16 bytes a row: 8 that name the state of the file that was decoded, 8 that are a
    checksum of the pixels. The pixels follow in the order of the rows. Several processes may read
    and write it at once: the pixels of a row are the same whoever writes them, and a row that is
    half written has not its checksum.
    """

    def __init__(self, path: Path, n_rows: int, shape: tuple[int, int, int]) -> None:
        self.path = path
        self.shape = shape
        self._row_bytes = int(np.prod(shape))
        self._pixels = 2 * _HALF * n_rows
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._writable = True
        os.ftruncate(self._handle, self._pixels + n_rows * self._row_bytes)
        os.utime(path)

    def __del__(self) -> None:
        # Without contextlib, whose names are gone where the interpreter ends before this object.
        try:
            os.close(self._handle)
        except (AttributeError, OSError, TypeError):
            return

    def reader(self, decode: Images, opened: Callable[[int], Path | bytes]) -> Images:
        """`decode` of the rows that are not here yet, which are then written here. `opened(row)`:
        the file of a row; where it is bytes, the row is decoded at each reading."""

        def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
            pictures = np.empty((len(rows), *self.shape), dtype=np.uint8)
            states = [_state(opened(row)) for row in rows.tolist()]
            missing = [
                position
                for position, (row, state) in enumerate(zip(rows.tolist(), states, strict=True))
                if not self._read(row, state, pictures[position])
            ]
            if missing:
                pictures[missing] = decode(rows[missing])
                for position in missing:
                    self._write(int(rows[position]), states[position], pictures[position])
            return pictures

        return images

    def _read(self, row: int, state: bytes, picture: NDArray[np.uint8]) -> bool:
        """Read the picture of a row, if it is that of a file in this state."""
        try:
            entry = os.pread(self._handle, 2 * _HALF, 2 * _HALF * row)
            if not state or entry[:_HALF] != state:
                return False
            start = self._pixels + row * self._row_bytes
            n_read = os.preadv(self._handle, [picture.reshape(-1).data], start)
        except OSError:
            return False
        return n_read == self._row_bytes and entry[_HALF:] == _checksum(picture)

    def _write(self, row: int, state: bytes, picture: NDArray[np.uint8]) -> None:
        """Keep the picture of a row; nothing more is kept after a write that failed."""
        if not state or not self._writable:
            return
        pixels = picture.reshape(-1).data
        try:
            n_written = os.pwrite(self._handle, pixels, self._pixels + row * self._row_bytes)
            if n_written == self._row_bytes:
                os.pwrite(self._handle, state + _checksum(picture), 2 * _HALF * row)
        except OSError:
            self._writable = False


def _state(file: Path | bytes) -> bytes:
    """8 bytes that name a file's size and times; none for what is no file that can be looked at."""
    if isinstance(file, bytes):
        return b""
    try:
        stat = os.stat(file)
    except OSError:
        return b""
    # A copy may keep the time of its original; the time of change tells that it is another file.
    state = _STATE.pack(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return hashlib.blake2b(state, digest_size=_HALF).digest()


def _checksum(picture: NDArray[np.uint8]) -> bytes:
    return hashlib.blake2b(picture.reshape(-1).data, digest_size=_HALF).digest()


def _key(originals: NDArray[np.uint64], shape: tuple[int, int, int], border: int) -> str:
    """The name of a list of pictures: a hash of which files in which order, their size, and the
    decoder."""
    from PIL import __version__ as pillow
    from PIL import features

    decoder = [FORMAT, pillow, *(features.version(codec) for codec in ("jpg", "zlib", "webp"))]
    files = digest_arrays({"originals": originals})
    return digest({"files": files, "shape": list(shape), "border": border, "decoder": decoder})


def _total_bytes(n_rows: int, shape: tuple[int, int, int]) -> int:
    return n_rows * (2 * _HALF + int(np.prod(shape)))
