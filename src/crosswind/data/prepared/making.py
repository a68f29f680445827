"""Making a prepared copy: read the originals once, on all cores, in bounded memory; killed, the next call goes on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import CrosswindError, DataError, InputError, unknown
from crosswind.core.types import canonical, digest_arrays
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared.copies import ATTRIBUTES, Copy, attribute_bytes, find_copy, fingerprint_of
from crosswind.data.prepared.originals import gathered, stamp
from crosswind.data.prepared.pixels import OFFSETS, STORES, array_header, chunk_rows, jpeg_bytes, npy_bytes, pixels_file
from crosswind.data.prepared.places import CARD, FORMAT, copy_folder, copy_settings, owner, version_of
from crosswind.data.prepared.work import Work, claimed, published, writing

if TYPE_CHECKING:
    from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["Prepared", "checksum", "contents", "cores", "prepare"]

KNOWN = {CARD, ATTRIBUTES, OFFSETS, *(pixels_file(store) for store in STORES)}
"""The files of a copy: a folder with others in it is somebody's own, and is not replaced."""

Chunk = tuple[Any, str, bytes]
ROW = np.dtype([("bytes", "<u4"), ("content", "<u8")])
"""What is kept of each row beside its pixels until the copy is whole: how many bytes it takes, and the hash of its pixels."""


@dataclass(frozen=True)
class Prepared:
    """What `prepare` leaves: the copy; whether it was made now; how many of its rows an earlier call had left."""

    copy: Copy
    made: bool
    rows_before: int = 0


def prepare(
    source: PreparedSource,
    root: str | None = None,
    originals: str | None = None,
    *,
    store: str | None = None,
    accept_totals: bool = False,
    again: bool = False,
    workers: int | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Prepared:
    """Make the prepared copy of a source with its settings, unless it is there.

    `root`: the folder of prepared data, instead of the source's. `originals`: a folder of original files to read instead of
    `root`/originals/NAME, from which what is missing there is fetched. `store`: `"array"` (default), a memory-mapped uint8 array,
    or `"jpeg"`, JPEG bytes of quality 95 without loss of colour resolution; a copy of another store is replaced. `accept_totals`:
    take numbers of rows that are not the published ones. `again`: replace the copy that is there. `workers`: threads that decode
    (decoders let go of the interpreter); one a core by default. `on_progress(stage, done, total)`: bytes while fetching, then rows.

    Raises `DataError` in one sentence for originals that are missing, damaged or not what they should be, for totals that differ,
    for a copy that another process is making, and for a disk that is full or cannot be written. Nothing half-made lies under the
    copy's name then, and what is done is kept for the next call.
    """
    if store is not None and store not in STORES:
        raise unknown("store", "store", store, STORES)
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InputError("workers", f"must be a number of threads, not {workers!r}")
    name, target = owner(source), copy_folder(source, root)
    work = target.with_name(f".{target.name}.part")
    there = None if again else _there(source, root, store)
    if there is not None:
        if work.exists() and not (work / "copy").exists():  # killed after the copy was in its place
            shutil.rmtree(work, ignore_errors=True)
        return Prepared(there, made=False)
    _refuse_foreign(target)
    with claimed(work, name):
        there = None if again else _there(source, root, store)  # another process may have made it since
        if there is not None:
            shutil.rmtree(work, ignore_errors=True)
            return Prepared(there, made=False)
        folder = gathered(source, root, originals, on_progress)
        reading, identity = _read(source, folder, store or "array")
        _check_totals(name, reading.parts, source.totals(), accept_totals)
        return _make(source, reading, identity, work, target, workers or cores(), on_progress)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def checksum(data: Any) -> str:
    """BLAKE2b of bytes, 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def contents(pixels: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A hash of each picture's pixels, uint64 [n]; before a JPEG loses some of them."""
    return np.frombuffer(b"".join(hashlib.blake2b(picture, digest_size=8).digest() for picture in pixels), dtype="<u8")


def _there(source: PreparedSource, root: str | None, store: str | None) -> Copy | None:
    try:
        found = find_copy(source, root)
    except DataError:
        return None
    return found if store in (None, found.store) else None


def _refuse_foreign(target: Path) -> None:
    try:
        others = [place.name for place in target.iterdir() if place.name not in KNOWN]
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{target}: {error.strerror}") from None
    if others:
        raise DataError(f"{target} holds {others[0]!r}, which is not of a prepared copy: move it away, or name another root")


def _read(source: PreparedSource, folder: Path, store: str) -> tuple[Reading, dict[str, Any]]:
    name = owner(source)
    try:
        files = stamp(source, folder)
        reading = source.read(folder)
    except (CrosswindError, MemoryError):
        raise
    except OSError as error:
        raise DataError(f"{name}: cannot read {error.filename or folder}: {error.strerror or error}") from None
    except Exception as error:  # readers of foreign formats raise what they like for damaged files
        raise DataError(f"{name}: the originals in {folder} cannot be read: {type(error).__name__}: {error}") from error
    dataset = reading.dataset
    if dataset.images is None or dataset.image_shape is None or dataset.derived is not None or not dataset.n_base:
        raise DataError(f"{name}: the originals in {folder} hold no pictures")
    if store == "jpeg" and dataset.image_shape[-1] not in (1, 3):
        raise InputError("store", f"jpeg holds pictures of 1 or 3 channels, and {name} has {dataset.image_shape[-1]}", ["array"])
    # All that decides what is written: a beginning of anything else is not gone on from.
    identity = {
        "format": FORMAT,
        "source": name,
        "version": version_of(source),
        "settings": canonical(copy_settings(source)),
        "store": store,
        "shape": [dataset.n_base, *dataset.image_shape],
        "rows": digest_arrays({"ids": dataset.ids} | ({} if dataset.units is None else {"units": dataset.units})),
        "table": dataset.table.digest(),
        "fingerprint": dataset.fingerprint,
        "originals": files,
        "pillow": installed("pillow"),
    }
    return reading, identity


def _check_totals(name: str, parts: Mapping[str, int], totals: Mapping[str, int], accept: bool) -> None:
    if accept or not totals or dict(parts) == dict(totals):
        return
    found, published = (", ".join(f"{part} {count:,}" for part, count in rows.items()) for rows in (parts, totals))
    raise DataError(
        f"{name}: the originals hold {found} rows, where {published} are published; --accept-totals takes them as they are"
    )


def _make(
    source: PreparedSource,
    reading: Reading,
    identity: dict[str, Any],
    work: Path,
    target: Path,
    workers: int,
    on_progress: Callable[[str, int, int], None] | None,
) -> Prepared:
    dataset, store = reading.dataset, str(identity["store"])
    shape = dataset.image_shape
    assert shape is not None
    rows, n = chunk_rows(shape), dataset.n_base
    head = array_header(n, shape) if store == "array" else b""
    pixels = pixels_file(store)
    with writing(work), Work(work, pixels, identity, head) as made:
        before = min(n, made.done * rows)
        if store == "array":
            _refuse_small_disk(work, (n - before) * int(np.prod(shape)), owner(source))
        chunks = [np.arange(start, min(start + rows, n)) for start in range(before, n, rows)]
        done = before
        for chunk, (data, digits, told) in zip(chunks, _chunks(dataset, chunks, store, workers, owner(source)), strict=True):
            if on_progress is not None:
                on_progress("preparing", done, n)
            made.append(data, digits, told)
            done += len(chunk)
        if on_progress is not None:
            on_progress("preparing", n, n)
        made.save()
        kept = np.frombuffer(made.rows(), ROW)
        if store == "jpeg":
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept["bytes"], dtype=np.int64)])
            made.put(OFFSETS, npy_bytes(ends))
        made.put(ATTRIBUTES, attribute_bytes(dataset, np.ascontiguousarray(kept["content"])))
        copy = _card(source, reading, store, made)
        made.put(CARD, json.dumps(copy.to_json(), indent=1).encode())
    with writing(target):
        published(work, target)
    return Prepared(find_copy(source, str(target.parent)), made=True, rows_before=before)


def _chunks(dataset: AttributedDataset, chunks: list[Any], store: str, workers: int, name: str) -> Iterator[Chunk]:
    """What is written for each chunk, in order, made by several threads a few chunks ahead."""
    waiting: deque[Future[Chunk]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="crosswind-prepare")
    try:
        for chunk in chunks:
            waiting.append(pool.submit(_chunk, dataset, chunk, store, name))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _chunk(dataset: AttributedDataset, rows: Any, store: str, name: str) -> Chunk:
    try:
        pixels = dataset.pixels(rows)
    except (CrosswindError, MemoryError):
        raise
    except OSError as error:
        raise DataError(f"{name}: cannot read {error.filename or 'the originals'}: {error.strerror or error}") from None
    except Exception as error:  # readers of foreign formats raise what they like for damaged files
        raise DataError(f"{name}: rows {rows[0]} to {rows[-1]} cannot be read: {type(error).__name__}: {error}") from error
    pixels = np.ascontiguousarray(pixels)
    told = np.zeros(len(rows), ROW)
    told["content"] = contents(pixels)
    if store == "array":
        whole = pixels.reshape(-1).data
        return whole, checksum(whole), told.tobytes()
    pictures = [jpeg_bytes(picture) for picture in pixels]
    told["bytes"] = [len(picture) for picture in pictures]
    joined = b"".join(pictures)
    return joined, checksum(joined), told.tobytes()


def _card(source: PreparedSource, reading: Reading, store: str, made: Work) -> Copy:
    dataset = reading.dataset
    shape = dataset.image_shape
    assert shape is not None
    ids = None if np.array_equal(dataset.ids, np.arange(dataset.n_base)) else dataset.ids
    files = [place for place in sorted(made.copy.iterdir()) if place.name in KNOWN - {CARD}]
    return Copy(
        folder=made.copy,
        source=owner(source),
        name=dataset.name,
        version=version_of(source),
        settings=copy_settings(source),
        store=store,
        n_rows=dataset.n_base,
        image_shape=shape,
        attributes=[{"name": item.name, "values": list(item.values)} for item in dataset.table.attributes],
        parts=dict(reading.parts),
        totals=dict(source.totals()),
        fingerprint=fingerprint_of(dataset.table, ids, dataset.units, shape, store, made.checksums),
        files={place.name: place.stat().st_size for place in files},
        chunk_rows=chunk_rows(shape),
        file_checksums={place.name: checksum(place.read_bytes()) for place in files if place.name in (ATTRIBUTES, OFFSETS)},
        checksums=made.checksums,
    )


def _refuse_small_disk(work: Path, needed: int, name: str) -> None:
    free = shutil.disk_usage(work).free
    if needed > free:
        raise DataError(f"preparing {name} takes {needed / 1e6:,.1f} MB more in {work.parent}, where {free / 1e6:,.1f} MB are free")
