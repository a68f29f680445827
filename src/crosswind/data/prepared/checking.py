"""Reading a prepared copy again, all of it, and comparing it with what was written."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from crosswind.core.errors import CrosswindError, DataError
from crosswind.data.prepared.copies import Copy, find_copy, fingerprint_of, read_rows
from crosswind.data.prepared.making import checksum, cores
from crosswind.data.prepared.pixels import OFFSETS, array_header, pixels_file
from crosswind.data.prepared.places import command

if TYPE_CHECKING:
    from crosswind.data.sources.base import PreparedSource

__all__ = ["check"]


def check(
    source: PreparedSource,
    root: str | None = None,
    *,
    workers: int | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Copy:
    """Read the prepared copy of a source again and compare every byte's checksum with that of the card.

    Raises `DataError` in one sentence for the first rows that are not as they were written, with the command that makes them anew.
    """
    copy = find_copy(source, root)
    try:
        _check(copy, workers or cores(), on_progress)
    except (CrosswindError, OSError, ValueError, KeyError, TypeError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"the prepared copy {copy.folder} is damaged: {what}: {command(source, root, '--again')}") from None
    return copy


def _check(copy: Copy, workers: int, on_progress: Callable[[str, int, int], None] | None) -> None:
    for name, digits in copy.file_checksums.items():
        if checksum((copy.folder / name).read_bytes()) != digits:
            raise ValueError(f"{name} is not as it was written")
    table, ids, units, _ = read_rows(copy)  # the hashes lie in a file whose checksum has been compared
    path = copy.folder / pixels_file(copy.store)
    starts = np.minimum(np.arange(len(copy.checksums) + 1) * copy.chunk_rows, copy.n_rows)
    if copy.store == "array":
        head = array_header(copy.n_rows, copy.image_shape)
        with path.open("rb") as file:
            if file.read(len(head)) != head:
                raise ValueError(f"the head of {path.name} is not as it was written")
        ends = len(head) + starts * int(np.prod(copy.image_shape))
    else:
        offsets = np.load(copy.folder / OFFSETS, allow_pickle=False)
        ends = offsets[starts]

    def of(chunk: int) -> str:
        with path.open("rb") as file:
            file.seek(int(ends[chunk]))
            return checksum(file.read(int(ends[chunk + 1] - ends[chunk])))

    with ThreadPoolExecutor(workers) as pool:
        for chunk, found in enumerate(pool.map(of, range(len(copy.checksums)))):
            if on_progress is not None:
                on_progress("checking", int(starts[chunk]), copy.n_rows)
            if found != copy.checksums[chunk]:
                pool.shutdown(wait=False, cancel_futures=True)
                rows = f"rows {starts[chunk]:,} to {starts[chunk + 1] - 1:,}"
                raise ValueError(f"{rows} in {path.name} are not as they were written")
    if on_progress is not None:
        on_progress("checking", copy.n_rows, copy.n_rows)
    if fingerprint_of(table, ids, units, copy.image_shape, copy.store, copy.checksums) != copy.fingerprint:
        raise ValueError("its card is not as it was written")
