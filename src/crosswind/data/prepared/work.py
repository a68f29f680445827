"""A copy while it is made: a folder beside the place where it will lie, a journal of what is written, a claim on both.

Everything is added at the end of files and journalled after it is on the disk, so whoever is killed leaves a beginning that the
next one goes on from. The finished copy is renamed into its place in one step; before that there is nothing under its name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from crosswind.core.errors import DataError

__all__ = ["Work", "claimed", "published", "writing"]

FLUSH_SECONDS, FLUSH_BYTES = 1.0, 256 << 20


@contextlib.contextmanager
def writing(what: Path) -> Iterator[None]:
    """An `OSError` inside, such as a full disk, ends as a `DataError` in one sentence."""
    try:
        yield
    except OSError as error:
        # A folder that cannot be made or written to holds nothing yet that could be gone on from.
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        kept = "; what is prepared so far is kept, and the same command goes on from there" if full else ""
        raise DataError(f"cannot write {error.filename or what}: {error.strerror or error}{kept}") from None


@contextlib.contextmanager
def claimed(work: Path, name: str) -> Iterator[None]:
    """Nobody else prepares this copy meanwhile; the folder `work` is there inside. Raises `DataError` where somebody does.

    The claim is the kernel's lock on the folder and ends with the process, however it ends.
    """
    handle = -1
    try:
        while handle < 0:
            with writing(work):
                work.mkdir(parents=True, exist_ok=True)
            handle = os.open(work, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataError(f"{name} is being prepared in {work.parent} by another process; wait until it has ended") from None
            except OSError as error:
                raise DataError(f"cannot lock {work}: {error.strerror}") from None
            # The one before may have removed its folder between the two steps: the lock is then on nothing.
            if not (work.is_dir() and os.path.samestat(os.fstat(handle), work.stat())):
                os.close(handle)
                handle = -1
        yield
    finally:
        if handle >= 0:
            with contextlib.suppress(OSError):
                work.rmdir()  # where nothing was begun
            os.close(handle)


class Work:
    """The files of a copy in the making.

    `identity`: plain values of all that decides what is written; a beginning of another identity is thrown away. `head`: the first
    bytes of the file of pixels. A second file beside it takes what `append` is told of the rows.
    """

    def __init__(self, folder: Path, pixels: str, identity: dict[str, Any], head: bytes) -> None:
        self.folder, self.copy = folder, folder / "copy"
        self.checksums: list[str] = []
        self._waiting: list[str] = []
        self._places = {"pixels": self.copy / pixels, "journal": folder / "journal", "rows": folder / "rows"}
        if not self._goes_on(identity):
            self._begin(identity, head)
        self._files: dict[str, IO[bytes]] = {name: open(path, "ab", buffering=0) for name, path in self._places.items()}  # noqa: SIM115
        self._size, self._unsaved, self._saved_at = self._files["pixels"].tell(), 0, time.monotonic()

    @property
    def done(self) -> int:
        """The number of chunks that are written."""
        return len(self.checksums)

    def append(self, data: Any, checksum: str, rows: bytes) -> None:
        """Add the next chunk. Raises `OSError`; what was added before is kept."""
        _write(self._files["pixels"], data)
        _write(self._files["rows"], rows)
        self._size += len(data)
        self._unsaved += len(data)
        self.checksums.append(checksum)
        self._waiting.append(f"{self.done} {self._size} {self._files['rows'].tell()} {checksum}\n")
        if self._unsaved >= FLUSH_BYTES or time.monotonic() - self._saved_at >= FLUSH_SECONDS:
            self.save()

    def save(self) -> None:
        """Put all that was added on the disk, then say so in the journal."""
        for name in ("pixels", "rows"):
            os.fsync(self._files[name].fileno())
        _write(self._files["journal"], "".join(self._waiting).encode())
        os.fsync(self._files["journal"].fileno())
        self._waiting, self._unsaved, self._saved_at = [], 0, time.monotonic()

    def rows(self) -> bytes:
        """All that `append` was told of the rows."""
        return self._places["rows"].read_bytes()

    def put(self, name: str, data: bytes) -> None:
        """Write another file of the copy, whole or not at all."""
        _replace(self.copy / name, data)

    def __enter__(self) -> Work:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._waiting:
                # After a full disk what was written before it can still be saved; another failure says nothing new.
                with contextlib.suppress(OSError) if kind else contextlib.nullcontext():
                    self.save()
        finally:
            for file in self._files.values():
                file.close()

    def _begin(self, identity: dict[str, Any], head: bytes) -> None:
        for place in self.folder.iterdir():
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
        self.copy.mkdir()
        for name, path in self._places.items():
            path.write_bytes(head if name == "pixels" else b"")
        _replace(self.folder / "begun.json", json.dumps(identity, indent=1).encode())

    def _goes_on(self, identity: dict[str, Any]) -> bool:
        """Whether a beginning of this identity is there; then its files are cut to what the journal says."""
        try:
            if json.loads((self.folder / "begun.json").read_bytes()) != identity:
                return False
            there = {name: path.stat().st_size for name, path in self._places.items()}
            journal = self._places["journal"].read_bytes()
        except (OSError, ValueError, RecursionError):
            return False
        ends, read = (0, 0), 0
        for line in journal.splitlines(keepends=True):
            words = line.split()
            if not line.endswith(b"\n") or len(words) != 4 or not all(word.isdigit() for word in words[:3]):
                break
            number, *now = map(int, words[:3])
            if number != self.done + 1 or now[0] > there["pixels"] or now[1] > there["rows"]:
                break
            ends, read = (now[0], now[1]), read + len(line)
            self.checksums.append(words[3].decode())
        if not self.checksums:
            return False
        for name, end in (("pixels", ends[0]), ("rows", ends[1]), ("journal", read)):
            os.truncate(self._places[name], end)
        return True


def published(work: Path, target: Path) -> None:
    """Rename the finished copy into its place, instead of the one that may be there, and clean up. Raises `OSError`."""
    old = work / "old"
    if old.exists():
        shutil.rmtree(old)
    if target.exists():
        os.rename(target, old)
    os.rename(work / "copy", target)
    _sync(target.parent)
    shutil.rmtree(work)


def _write(file: IO[bytes], data: Any) -> None:
    left = memoryview(data).cast("B")
    while len(left):
        left = left[file.write(left) :]


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    with new.open("wb", buffering=0) as file:
        _write(file, data)
        os.fsync(file.fileno())
    os.replace(new, path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
