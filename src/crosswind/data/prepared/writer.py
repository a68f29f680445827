"""The folder in which a copy is made, beside the place where it will lie: locked, gone on from after a kill, renamed when whole."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.data.prepared.copies import checksum

JPEG_QUALITY = 95
"""Quality in Pillow's words; colours are kept at full resolution (4:4:4), which 95 alone would halve."""
ROW = np.dtype([("bytes", "<u4"), ("content", "<u8")])
"""What is kept of each row beside its pixels until the copy is whole: how many bytes it takes, and the hash of its pixels."""
Chunk = tuple[str, NDArray[np.void]]


@contextlib.contextmanager
def writing(what: Path) -> Iterator[None]:
    """An `OSError` inside, such as a full disk, ends as a `DataError` in one sentence."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        kept = "; what is prepared so far is kept, and the same command goes on from there" if full else ""
        raise DataError(f"cannot write {error.filename or what}: {error.strerror or error}{kept}") from None


@contextlib.contextmanager
def claimed(work: Path, on_wait: Callable[[], object]) -> Iterator[None]:
    """The folder `work`, made where it is not there, under the kernel's lock; calls `on_wait` before it waits for another process.

    The lock ends with the process. A folder that is empty at the end is removed. Raises `DataError` for what cannot be made.
    """
    while True:
        with writing(work):
            work.mkdir(parents=True, exist_ok=True)
            handle = os.open(work, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(handle, fcntl.LOCK_EX)
            except OSError as error:
                raise DataError(f"cannot lock {work}: {error.strerror}") from None
            # The process that had the lock may have removed or renamed the folder: the lock is then on nothing.
            if work.is_dir() and os.path.samestat(os.fstat(handle), work.stat()):
                yield
                return
        finally:
            with contextlib.suppress(OSError):
                work.rmdir()
            os.close(handle)


def resumed(work: Path, pixels: str, identity: bytes, head: bytes, counts: list[int]) -> list[Chunk]:
    """The chunks in `work` that an earlier call wrote whole; both files are cut to them, or begun anew where there is none.

    `pixels`: the file of pixels, which begins with `head`. The file `progress` begins with `identity`, which stands for all that
    decides what is written, and has the checksum and the `ROW`s of each chunk; `counts` are their numbers. Raises `OSError`.
    """
    files, found = (work / "copy" / pixels, work / "progress"), []
    with contextlib.suppress(OSError):
        told = files[1].read_bytes()
        with files[0].open("rb") as file:
            place, end, same = len(identity), len(head), file.read(len(head)) == head and told.startswith(identity)
            for count in counts if same else []:
                digits, rows = told[place : place + 16].hex(), told[place + 16 : place + 16 + count * ROW.itemsize]
                kept = np.frombuffer(rows, ROW, len(rows) // ROW.itemsize)
                data = file.read(int(kept["bytes"].sum()))
                if len(kept) < count or checksum(data) != digits:
                    break
                found.append((digits, kept))
                place, end = place + 16 + len(rows), end + len(data)
    if found:
        os.truncate(files[0], end)
        os.truncate(files[1], place)
        return found
    for path in work.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    files[0].parent.mkdir()
    files[0].write_bytes(head)
    files[1].write_bytes(identity)
    return []


def publish(work: Path, target: Path) -> None:
    """Rename the finished copy into its place, instead of the one that may be there, and clean up. Raises `OSError`."""
    for place in [*(work / "copy").iterdir(), work / "copy"]:
        _sync(place)
    old = work / "old"
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.rename(target, old)
    os.rename(work / "copy", target)
    _sync(target.parent)
    shutil.rmtree(work)


def jpeg_bytes(image: NDArray[np.uint8]) -> bytes:
    """One picture uint8 [h, w, 1 or 3] as JPEG."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(out, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return out.getvalue()


def contents(pixels: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A hash of each picture's pixels, uint64 [n]; before a JPEG loses some of them."""
    return np.frombuffer(b"".join(hashlib.blake2b(picture, digest_size=8).digest() for picture in pixels), dtype="<u8")


def append(file: IO[bytes], data: Any) -> None:
    """Write all of the bytes at the end of an unbuffered file. Raises `OSError`."""
    left = memoryview(data).cast("B")
    while len(left):
        left = left[file.write(left) :]


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
