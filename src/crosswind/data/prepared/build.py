"""Making a prepared copy: read the originals once, on all cores, in bounded memory; killed, the
next call goes on.

A copy is made in a folder beside the place where it will lie, under the kernel's lock, and renamed
when it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Original
from crosswind.core.errors import CrosswindError, DataError, InputError, unknown
from crosswind.core.files import root_folder
from crosswind.core.processor import usable_cores
from crosswind.core.types import canonical, digest, digest_arrays
from crosswind.data.archives.checks import telling
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared.claiming import claimed, writing
from crosswind.data.prepared.copies import (
    ATTRIBUTES,
    OFFSETS,
    PIXELS,
    Copy,
    Progress,
    array_header,
    checksum,
    chunk_rows,
    find_copy,
    fingerprint_of,
)
from crosswind.data.prepared.originals import OriginalFiles, Reading
from crosswind.data.prepared.paths import (
    CARD,
    FORMAT,
    copy_folder,
    copy_settings,
    owner,
    version_of,
)

KNOWN = {CARD, ATTRIBUTES, OFFSETS, *PIXELS.values()}
"""The files of a copy: a folder with others in it is somebody's own, and is not replaced."""
STORES = ("array", "jpeg")
"""Of pictures; texts have one of their own."""
JPEG_QUALITY = 95
"""Quality in Pillow's words; colours are kept at full resolution (4:4:4), which 95 alone would
halve."""
ROW = np.dtype([("bytes", "<u4"), ("content", "<u8"), ("chunk", "V16")])
"""What is kept of each row beside its pixels until the copy is whole: bytes, hash of its pixels,
checksum of its chunk."""


@dataclass(frozen=True)
class Prepared:
    """The outcome of `prepare`: the copy; whether it was made now; how many of its rows an earlier
    call had left."""

    copy: Copy
    made: bool
    rows_before: int = 0


def prepare(
    source: OriginalFiles,
    root: str | None = None,
    originals: str | None = None,
    *,
    store: str | None = None,
    accept_totals: bool = False,
    again: bool = False,
    workers: int | None = None,
    on_progress: Progress | None = None,
) -> Prepared:
    """Make the prepared copy of a source with its settings, unless it is there.

    `root`: the folder of prepared data, instead of the source's. `originals`: a folder of original
    files to read instead of `root`/originals/NAME, from which what is missing there is fetched.
    `store`: `"array"` (default), a memory-mapped uint8 array, or `"jpeg"`, JPEG bytes of quality 95
    without loss of colour resolution; a copy of another store is replaced. Texts have a store of
    their own. `accept_totals`:
    take numbers of rows that are not the published ones. `again`: replace the copy that is there.
    `workers`: threads that decode (decoders let go of the interpreter); one a core by default.
    `on_progress(stage, done, total)`: bytes while files are fetched, checked and read, then rows.

    Where another process makes this copy, it is waited for. Raises `DataError` in one sentence for
    originals that are missing, damaged or not what they should be, and for totals that differ.
    Raises it for a disk that is full or cannot be written, too. Nothing half-made lies under the
    copy's name then, and what is done is kept for the next call.
    """
    _check_options(store, workers)
    target = copy_folder(source, root)
    tell = on_progress or (lambda stage, done, total: None)
    work = target.with_name(f".{target.name}.part")
    existing_copy = None if again else _there(source, root, store)
    if existing_copy and not work.exists():
        return Prepared(existing_copy, made=False)
    _refuse_foreign(target)
    with claimed(work, partial(tell, "waiting for another process that prepares it", 0, 0)):
        # An earlier call may have ended after publishing.
        existing_copy = None if again else _there(source, root, store)
        if existing_copy:
            shutil.rmtree(work, ignore_errors=True)
            return Prepared(existing_copy, made=False)
        with telling(tell):
            folder = _gathered(source, root, originals, tell)
            reading, identity, store = _read(source, folder, store)
        if not accept_totals:
            _check_totals(source, reading)
        with writing(work):
            before = _write(source, reading, identity, store, work, workers or usable_cores(), tell)
            _publish(work, target)
    copy = find_copy(source, str(target.parent))
    return Prepared(copy, made=True, rows_before=before)


def _check_options(store: str | None, workers: int | None) -> None:
    """Refuse an unknown store, and what is no number of threads."""
    if store is not None and store not in STORES:
        raise unknown("store", "store", store, STORES)
    is_number = isinstance(workers, int) and not isinstance(workers, bool)
    if workers is not None and (not is_number or workers < 1):
        raise InputError("workers", f"must be a number of threads, not {workers!r}")


def _check_totals(source: OriginalFiles, reading: Reading) -> None:
    """Refuse numbers of rows that are not the published ones."""
    counted = dict(reading.parts)
    published = dict(source.totals())
    if published and counted != published:
        problem = (
            f"the originals hold {_counts_in_words(counted)} rows, where"
            f" {_counts_in_words(published)} are published; --accept-totals takes them as they are"
        )
        raise DataError(f"{owner(source)}: {problem}")


def _counts_in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{part_name} {count:,}" for part_name, count in counts.items())


def _there(source: OriginalFiles, root: str | None, store: str | None) -> Copy | None:
    try:
        copy = find_copy(source, root)
    except DataError:
        return None
    if store in (None, copy.store):
        return copy
    return None


def _refuse_foreign(target: Path) -> None:
    try:
        foreign_names = []
        for entry_path in target.iterdir():
            if entry_path.name not in KNOWN:
                foreign_names.append(entry_path.name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{target}: {error.strerror}") from None
    if foreign_names:
        raise DataError(
            f"{target} holds {foreign_names[0]!r}, which is not of a prepared copy: move it away,"
            " or name another root"
        )


def _gathered(
    source: OriginalFiles, root: str | None, originals_folder: str | None, tell: Progress
) -> Path:
    """The folder with the originals. What is missing is fetched where the card has its address and
    hash, into no `originals_folder` folder."""
    folder = _folder_of_originals(source, root, originals_folder)
    missing = source.missing(folder)
    _refuse_missing(source, folder, missing, may_fetch=originals_folder is None)
    from crosswind.data.archives.fetch import fetch, verified

    for original in missing:
        on_progress = partial(tell, f"fetching {original.name}")
        fetch(original, folder, on_progress)
    for original in source.originals():
        if (folder / original.name).is_file():
            verified(original, folder / original.name)  # hashed once, before anything is read
    for file_path in source.places(folder):
        # A pipe would be waited for.
        if file_path.exists() and not file_path.is_file() and not file_path.is_dir():
            raise DataError(f"{file_path} is neither a file nor a folder")
    return folder


def _folder_of_originals(
    source: OriginalFiles, root: str | None, originals_folder: str | None
) -> Path:
    """The folder that originals are looked for in. Raises `InputError` and `DataError` for one that
    is given and cannot be."""
    if source.own and originals_folder is not None:
        named = " and ".join(repr(name) for name in source.own)
        problem = f"{owner(source)} reads what its setting {named} names, not a folder of originals"
        raise InputError("--from", problem)
    home = root_folder(source.root if root is None else root) / "originals" / owner(source)
    if originals_folder is None:
        return home
    folder = Path(os.path.abspath(Path(originals_folder).expanduser()))
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "is a folder that does not exist"
        raise DataError(f"{originals_folder} {problem}")
    return folder


def _refuse_missing(
    source: OriginalFiles, folder: Path, missing: Sequence[Original], may_fetch: bool
) -> None:
    """Refuse originals that are not there and are not fetched either."""
    barred = [original for original in missing if not _can_be_fetched(original)]
    if not barred and (not missing or may_fetch):
        return
    names = ", ".join(original.name for original in barred or missing)
    if source.card.get:
        get = f": {source.card.get}"
    elif barred:
        get = ""
    else:
        get = "; without --from they are fetched"
    problem = f"{owner(source)} needs {names} in the folder {folder}{get}"
    raise DataError(problem)


def _can_be_fetched(original: Original) -> bool:
    """Whether the card has its address and its hash."""
    return bool(original.url and (original.sha256 or original.md5))


def stamp(source: OriginalFiles, folder: Path) -> str:
    """A digest of name, size and time of change of every file that the source reads. Raises
    `OSError`."""
    file_states: list[tuple[str, int, int]] = []
    for file_path in source.places(folder):
        files = []
        for parent, _, names in os.walk(file_path, followlinks=True):
            for name in names:
                files.append(Path(parent, name))
        for path in files or [file_path]:
            if path.exists():  # a link to nothing is no file
                state = path.stat()
                file_states.append(
                    (os.path.relpath(path, folder), state.st_size, state.st_mtime_ns)
                )
    return digest(sorted(file_states))


@contextlib.contextmanager
def _reading(name: str, reading_words: str) -> Iterator[None]:
    """Whatever a reader raises for damaged files ends as a `DataError` in one sentence."""
    try:
        yield
    except (CrosswindError, MemoryError):
        raise
    except OSError as error:
        problem = (
            f"{name}: cannot read {error.filename or 'the originals'}: {error.strerror or error}"
        )
        raise DataError(problem) from None
    except Exception as error:  # readers of foreign formats raise what they like
        raise DataError(
            f"{name}: {reading_words} cannot be read: {type(error).__name__}: {error}"
        ) from error


def _refuse_unit_doubts(dataset: AttributedDataset, name: str) -> None:
    """Refuse units of which two may be one, since a copy only numbers them."""
    if dataset.unit_doubts is None or not dataset.unit_doubts.groups:
        return
    first_value, second_value, *_ = dataset.unit_doubts.groups[0]
    column = dataset.unit_doubts.column
    way_out = (
        f"write them alike, or leave {column!r} an attribute and name it as the unit of the study"
    )
    problem = (
        f"{name}: the units {first_value!r} and {second_value!r} may be one, and a copy only"
        f" numbers them: {way_out}"
    )
    raise DataError(problem)


def _check_store(store: str, kind: str, dataset: AttributedDataset, name: str) -> None:
    """Refuse a store that is not for texts, or pictures, or their channels."""
    if (store == "text") != (kind == "text"):
        problem = f"{store} is not for {kind}s"
        raise InputError("store", problem, ["text"] if kind == "text" else ["array", "jpeg"])
    if store == "jpeg" and dataset.image_shape is not None:
        channels = dataset.image_shape[-1]
        if channels not in (1, 3):
            problem = f"jpeg holds pictures of 1 or 3 channels, and {name} has {channels}"
            raise InputError("store", problem, ["array"])


def _read(source: OriginalFiles, folder: Path, store: str | None) -> tuple[Reading, bytes, str]:
    """The contents of the originals, a digest of all that decides what is written, and the
    store."""
    name = owner(source)
    with _reading(name, f"the originals in {folder}"):
        files = stamp(source, folder)
        reading = source.read(folder)
    dataset = reading.dataset
    _refuse_unit_doubts(dataset, name)
    kind = ""
    if dataset.read is not None and dataset.input is not None:
        kind = dataset.input.kind
    if kind not in ("image", "text") or dataset.derived is not None or not dataset.n_base:
        raise DataError(f"{name}: the originals in {folder} hold no pictures and no texts")
    store = store or ("text" if kind == "text" else "array")
    _check_store(store, kind, dataset, name)
    settings = canonical(copy_settings(source))
    shape = [dataset.n_base, *(dataset.image_shape or ())]
    row_arrays = {"ids": dataset.ids}
    if dataset.units is not None:
        row_arrays["units"] = dataset.units
    table_digest = dataset.table.digest()
    identity = {
        "format": FORMAT,
        "source": name,
        "version": version_of(source),
        "settings": settings,
        "store": store,
        "shape": shape,
        "rows": digest_arrays(row_arrays),
        "table": table_digest,
        "fingerprint": dataset.fingerprint,
        "originals": files,
        "pillow": installed("pillow"),
    }
    return reading, digest(identity).encode(), store


def _write(
    source: OriginalFiles,
    reading: Reading,
    identity: bytes,
    store: str,
    work: Path,
    workers: int,
    tell: Progress,
) -> int:
    """Write all files of the copy into `work`/copy. The number of rows that an earlier call had
    written. Raises `OSError`."""
    dataset = reading.dataset
    shape = dataset.image_shape
    n = dataset.n_base
    size = chunk_rows(shape or ())
    folder = work / "copy"
    chunks = [np.arange(start, min(start + size, n)) for start in range(0, n, size)]
    head = b""
    if shape and store == "array":
        head = array_header(n, shape)
    written_chunks = _resumed(work, PIXELS[store], identity, head, chunks)
    before = sum(map(len, written_chunks))
    needed = (n - before) * int(np.prod(shape or ()))
    free = shutil.disk_usage(work).free
    if store == "array" and needed > free:
        sizes = f"{needed / 1e6:,.1f} MB more in {work.parent}, where {free / 1e6:,.1f} MB are free"
        raise DataError(f"preparing {owner(source)} takes {sizes}")
    with open(folder / PIXELS[store], "ab") as pixels, open(work / "progress", "ab") as progress:
        left = chunks[len(written_chunks) :]
        for data, rows in _chunks(dataset, left, store, workers, owner(source)):
            tell("preparing", sum(map(len, written_chunks)), n)
            for file, new in ((pixels, data), (progress, rows.tobytes())):
                file.write(new)
                file.flush()
            written_chunks.append(rows)
    tell("preparing", n, n)
    names = _write_attributes(folder, dataset, store, np.concatenate(written_chunks))
    checksums = [rows["chunk"][0].tobytes().hex() for rows in written_chunks]
    attributes = []
    for attribute in dataset.table.attributes:
        attributes.append({"name": attribute.name, "values": list(attribute.values)})
    fingerprint = fingerprint_of(dataset, store, checksums)
    files = {name: (folder / name).stat().st_size for name in [*names, PIXELS[store]]}
    file_checksums = {name: checksum((folder / name).read_bytes()) for name in names}
    copy = Copy(
        folder=folder,
        source=owner(source),
        name=dataset.name,
        version=version_of(source),
        settings=copy_settings(source),
        store=store,  # type: ignore[arg-type]
        n_rows=n,
        image_shape=shape,
        attributes=attributes,
        parts=dict(reading.parts),
        totals=dict(source.totals()),
        fingerprint=fingerprint,
        files=files,
        chunk_rows=size,
        file_checksums=file_checksums,
        checksums=checksums,
    )
    (folder / CARD).write_text(json.dumps(copy.to_json(), indent=1), encoding="utf-8")
    return before


def _write_attributes(
    folder: Path, dataset: AttributedDataset, store: str, rows: NDArray[Any]
) -> list[str]:
    """Write what the copy holds beside its pixels or texts, and name the files. `rows`: one `ROW`
    each."""
    if store != "array":
        offsets = np.cumsum(np.append(0, rows["bytes"]), dtype=np.int64)
        np.save(folder / OFFSETS, offsets)
    contents = np.ascontiguousarray(rows["content"])
    arrays: dict[str, Any] = {"codes": dataset.table.codes, "contents": contents}
    if not np.array_equal(dataset.ids, np.arange(dataset.n_base)):
        arrays["ids"] = dataset.ids
    if dataset.units is not None:
        arrays["units"] = dataset.units
    np.savez(folder / ATTRIBUTES, **arrays)
    if store == "array":
        return [ATTRIBUTES]
    return [ATTRIBUTES, OFFSETS]


def _resumed(
    work: Path, pixels: str, identity: bytes, head: bytes, chunks: list[NDArray[np.int64]]
) -> list[NDArray[np.void]]:
    """The `ROW`s of the chunks in `work` that an earlier call wrote whole; both files are cut to
    them, or begun anew for none.

    `pixels`: the file of pixels, which begins with `head`. The file `progress` begins with
    `identity`, which stands for all that decides what is written, and goes on with the `ROW`s.
    Raises `OSError`.
    """
    copy = work / "copy" / pixels
    progress = work / "progress"
    written_chunks: list[NDArray[np.void]] = []
    with contextlib.suppress(OSError), copy.open("rb") as file:
        progress_bytes = progress.read_bytes()
        if progress_bytes.startswith(identity) and file.read(len(head)) == head:
            n_written = (len(progress_bytes) - len(identity)) // ROW.itemsize
            rows = np.frombuffer(progress_bytes, ROW, n_written, len(identity))
            end = len(head)
            for chunk in chunks:
                chunk_rows = rows[chunk[0] : chunk[-1] + 1]
                data = file.read(int(chunk_rows["bytes"].sum()))
                if (
                    len(chunk_rows) < len(chunk)
                    or checksum(data) != chunk_rows["chunk"][0].tobytes().hex()
                ):
                    break
                written_chunks.append(chunk_rows)
                end += len(data)
    if written_chunks:
        os.truncate(copy, end)
        n_bytes = sum(chunk_rows.nbytes for chunk_rows in written_chunks)
        os.truncate(progress, len(identity) + n_bytes)
    else:
        shutil.rmtree(work / "copy", ignore_errors=True)
        copy.parent.mkdir()
        copy.write_bytes(head)
        progress.write_bytes(identity)
    return written_chunks


def _chunks(
    dataset: AttributedDataset, chunks: list[NDArray[np.int64]], store: str, workers: int, name: str
) -> Iterator[tuple[Any, NDArray[np.void]]]:
    """The bytes and the `ROW`s of each chunk, in order, made by several threads a few chunks
    ahead."""
    waiting: deque[Future[tuple[Any, NDArray[np.void]]]] = deque()
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


def _chunk(
    dataset: AttributedDataset, chunk: NDArray[np.int64], store: str, name: str
) -> tuple[Any, NDArray[np.void]]:
    with _reading(name, f"rows {chunk[0]} to {chunk[-1]}"):
        chunk_inputs = np.ascontiguousarray(dataset.inputs(chunk))
        inputs: Any
        if store == "text":
            inputs = [text.encode() for text in chunk_inputs]
        else:
            inputs = chunk_inputs
    rows = np.zeros(len(chunk), ROW)
    # Of the exact pixels: a JPEG loses some of them.
    contents = b"".join(
        hashlib.blake2b(chunk_picture, digest_size=8).digest() for chunk_picture in inputs
    )
    rows["content"] = np.frombuffer(contents, dtype="<u8")
    if store == "array":
        data: Any = inputs.reshape(-1).data
        rows["bytes"] = inputs[0].size
    else:
        if store == "text":
            written = inputs
        else:
            written = [_jpeg(picture) for picture in inputs]
        rows["bytes"] = [len(chunk_picture) for chunk_picture in written]
        data = b"".join(written)
    rows["chunk"] = np.void(bytes.fromhex(checksum(data)))
    return data, rows


def _jpeg(image: NDArray[np.uint8]) -> bytes:
    """One picture uint8 [h, w, 1 or 3] as JPEG."""
    from PIL import Image

    out = io.BytesIO()
    if image.shape[-1] == 1:
        flat_image = image[..., 0]
    else:
        flat_image = image
    Image.fromarray(flat_image).save(out, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return out.getvalue()


def _publish(work: Path, target: Path) -> None:
    """Rename the finished copy into its place, instead of the one that may be there, and clean up.
    Raises `OSError`."""
    for written_path in [*(work / "copy").iterdir(), work / "copy"]:
        _sync(written_path)
    old = work / "old"
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.rename(target, old)
    os.rename(work / "copy", target)
    _sync(target.parent)
    shutil.rmtree(work)


def _sync(synced_path: Path) -> None:
    handle = os.open(synced_path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
