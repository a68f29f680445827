"""Files of others: of what kind they are, whether they are damaged, and a trial in a child
process."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from crosswind.core.errors import DataError
from crosswind.core.files import check_file

PACKED: dict[str, Callable[[Any], IO[bytes]]] = {
    "gzip": gzip.open,  # type: ignore[dict-item]
    "bzip2": bz2.open,
    "xz": lzma.open,
}
"""What unpacks a file of each kind, called with its path."""

Tell = Callable[[str, int, int], None]
"""What is told a stage, the bytes of a file that are read, and all its bytes."""
_tell: ContextVar[Tell | None] = ContextVar("tell", default=None)
TOLD = 64 << 20
"""Reading is told after each so many bytes; smaller files are read in a moment."""
LOOK_SECONDS, STILL_SECONDS = 0.5, 30.0
"""How often a child process that reads is looked at, and how long it may do nothing at all."""

_STARTS = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x93NUMPY": "npy",
    b"\x89HDF\r\n\x1a\n": "hdf5",
}
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    KeyError,
    TypeError,
    SyntaxError,
    MemoryError,
    OverflowError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
)

_BOUNDED = """
hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
most = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
with telling(lambda stage, done, total: print(done, total, flush=True)):
    reader(Path(sys.argv[1]))
"""


@contextlib.contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Inside, whoever reads a large file from its beginning to its end tells how far it is."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


class _Watched(io.FileIO):
    """A file that tells how far it is read."""

    def __init__(self, path: Path, stage: str) -> None:
        super().__init__(path)
        self._stage, self._size, self._next = stage, os.fstat(self.fileno()).st_size, TOLD

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        if (tell := _tell.get()) is not None and (done := self.tell()) >= self._next:
            self._next = done + TOLD
            tell(self._stage, done, self._size)
        return count


def watched(path: Path, stage: str) -> io.BufferedReader:
    """A file opened for reading. Inside `telling`, `stage` and its name are told while it is read.
    Raises `OSError`."""
    return io.BufferedReader(_Watched(path, f"{stage} {path.name}"), 1 << 20)


def kind_of_file(path: Path) -> str:
    """The kind of a file by its first bytes: `zip`, `gzip`, `bzip2`, `xz`, `tar`, `npy`, `hdf5`,
    `page` or nothing.

    Raises `DataError` where there is no file.
    """
    try:
        check_file(path)
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {reason(error)}") from None
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html", b"<head")):
        return "page"
    for start, kind in _STARTS.items():
        if head.startswith(start):
            return kind
    if head[257:262] == b"ustar":
        return "tar"
    return ""


def expect_kind(path: Path, kinds: Collection[str], kinds_in_words: str) -> str:
    """The kind of a file. Raises `DataError` for one that is not of these kinds, which
    `kinds_in_words` puts
    into words."""
    kind = kind_of_file(path)
    if kind not in kinds:
        meant = {
            "page": "a web page, perhaps of a failed download",
            "": "cut short at its beginning, damaged or something else",
        }
        problem = f"{path} is not {kinds_in_words}: it is {meant.get(kind, f'a file of {kind}')}"
        raise DataError(problem)
    return kind


def reason(error: BaseException) -> str:
    """The reason that a library gave for an error, or the kind of the error where it gave none."""
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


@contextlib.contextmanager
def damage(label: object) -> Iterator[None]:
    """A `DataError` about `label` for what libraries raise of damaged bytes."""
    try:
        yield
    except DAMAGE as error:
        fault = "is damaged or cut short"
        if getattr(error, "errno", None):
            fault = "cannot be read or unpacked"
        problem = f"{label} {fault}: {reason(error)}"
        raise DataError(problem) from None


class _Watch:
    """Ends a child process that takes too long, or that waits for itself. `late`, `still`: which of
    the two it did.

    A library that gets no memory for a thread may wait for it for ever. A process that waits for a
    disk is in another state, and one that works takes processor time. Only Linux tells either.
    """

    def __init__(self, seconds: float) -> None:
        self.late = self.still = False
        self._seconds = seconds
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, child: subprocess.Popen[str]) -> None:
        """Watch a process until `end`."""
        self._thread = threading.Thread(target=self._look, args=(child,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Leave the process alone."""
        self._over.set()

    def _look(self, child: subprocess.Popen[str]) -> None:
        began = moved = time.monotonic()
        last: tuple[str, int] | None = None
        while not self._over.wait(LOOK_SECONDS):
            now = time.monotonic()
            state = _state_of(child.pid)
            if state is None or state[0] != "S" or state != last:
                moved = now
                last = state
            self.still = now - moved >= STILL_SECONDS
            self.late = not self.still and now - began >= self._seconds
            if self.still or self.late:
                child.kill()
                return


def _state_of(pid: int) -> tuple[str, int] | None:
    """The state of a process, as one letter, and its processor time in clock ticks; None where that
    is not told."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
        return fields[0], int(fields[11]) + int(fields[12])
    except (OSError, IndexError, ValueError):
        return None


def tried(
    reader: Callable[[Path], object], path: Path, limit: int = 8 << 30, seconds: float = 3600
) -> None:
    """Let a child process of at most `limit` bytes of memory read a file of which nobody knows
    whether it is as published.

    `reader`: a function of a module, called with the path. Raises `DataError` with its sentence, or
    where the child dies.
    """
    code = (
        f"import resource, sys\nfrom pathlib import Path\nfrom {reader.__module__} import"
        f" {reader.__name__} as reader\nfrom {__name__} import telling\n{_BOUNDED}"
    )
    # -P: the child finds modules where this process does, and not in the working directory.
    command = [sys.executable, "-P", "-c", code, str(path), str(limit)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    tell = _tell.get() or (lambda stage, done, total: None)
    watch = _Watch(seconds)
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
        ) as child:
            watch.begin(child)
            try:
                for line in child.stdout or ():
                    tell(f"checking {path.name}", *map(int, line.split()))
            except BaseException:
                child.kill()
                raise
            finally:
                watch.end()
        errors.seek(0)
        printed = errors.read().decode(errors="replace")
    if watch.late:
        raise DataError(f"{path} is damaged: reading it does not end")
    if child.returncode:
        last_line = "it stood still"
        if not watch.still:
            last_line = (printed.strip().splitlines() or [""])[-1]
        _, separator, sentence = last_line.partition("DataError: ")
        died = (
            f"reading it ended a process of {limit >> 20:,} MB of memory"
            f" ({last_line or f'signal {-child.returncode}'})"
        )
        raise DataError(sentence if separator else f"{path} is damaged: {died}")
