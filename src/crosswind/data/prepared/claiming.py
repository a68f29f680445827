"""A folder for one process at a time, and what is said where a disk cannot be written."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from crosswind.core.errors import DataError


@contextlib.contextmanager
def writing(written_path: Path) -> Iterator[None]:
    """An `OSError` inside, such as a full disk, ends as a `DataError` in one sentence."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        kept_words = ""
        if full:
            kept_words = (
                "; what is prepared so far is kept, and the same command goes on from there"
            )
        problem = (
            f"cannot write {error.filename or written_path}: {error.strerror or error}{kept_words}"
        )
        raise DataError(problem) from None


@contextlib.contextmanager
def claimed(work: Path, on_wait: Callable[[], object]) -> Iterator[None]:
    """The folder `work`, made where it is not there, under the kernel's lock; calls `on_wait`
    before it waits for another process.

    The lock ends with the process. A folder that is empty at the end is removed. Raises `DataError`
    for what cannot be made.
    """
    while True:
        with writing(work):
            work.mkdir(parents=True, exist_ok=True)
            handle = os.open(work, os.O_RDONLY)
        try:
            with writing(work):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    on_wait()
                    fcntl.flock(handle, fcntl.LOCK_EX)
            # The process that had the lock may have removed or renamed the folder: the lock is then
            # on nothing.
            if work.is_dir() and os.path.samestat(os.fstat(handle), work.stat()):
                yield
                return
        finally:
            with contextlib.suppress(OSError):
                work.rmdir()
            os.close(handle)
