"""Prepared copies as data sets, opened without reading their pixels, and checked by reading all of
them."""

from __future__ import annotations

import hashlib
import io
import mmap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from crosswind.core.errors import DataError, one_line
from crosswind.core.files import root_folder
from crosswind.core.processor import usable_cores
from crosswind.core.types import InputSpec, canonical, digest, digest_arrays
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset, Read
from crosswind.data.prepared.originals import OriginalFiles
from crosswind.data.prepared.paths import (
    CARD,
    FORMAT,
    command,
    copy_folder,
    copy_settings,
    origin_of,
    original_size,
    owner,
    read_card,
    version_of,
)

ATTRIBUTES, OFFSETS = "attributes.npz", "offsets.npy"
PIXELS = {"array": "pixels.npy", "jpeg": "pixels.jpegs", "text": "texts.utf8"}
CHUNK_BYTES, CHUNK_MOST = 2 << 20, 4096

Progress = Callable[[str, int, int], None]


class Copy(BaseModel):
    """The card of a prepared copy, and the folder that it lies in. Equal copies have equal cards.

    `name`: of the data set. `image_shape`: None for texts. `files`: name -> size in bytes.
    `checksums`: of the chunks of `chunk_rows` rows of the pixels or texts, in order;
    `file_checksums`: of the other files (BLAKE2b, 16 bytes). `parts`, `totals`: rows found, and
    rows published.
    """

    model_config = ConfigDict(frozen=True)

    folder: Path = Field(exclude=True)
    source: str
    name: str
    version: int
    settings: dict[str, Any]
    store: Literal["array", "jpeg", "text"]
    n_rows: PositiveInt
    image_shape: tuple[PositiveInt, PositiveInt, PositiveInt] | None
    attributes: list[dict[str, Any]]
    parts: dict[str, int]
    totals: dict[str, int]
    fingerprint: str
    files: dict[str, int]
    chunk_rows: PositiveInt
    file_checksums: dict[str, str]
    checksums: list[str] = Field(repr=False)

    @field_validator("checksums", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return value.split()
        return value

    @model_validator(mode="after")
    def _fits(self) -> Copy:
        other_files = {ATTRIBUTES} if self.store == "array" else {ATTRIBUTES, OFFSETS}
        if (self.image_shape is None) != (self.store == "text"):
            raise ValueError("has not the store of its rows")
        if (
            set(self.files) != other_files | {PIXELS[self.store]}
            or set(self.file_checksums) != other_files
        ):
            raise ValueError("does not name the files of a copy")
        if len(self.checksums) != -(-self.n_rows // self.chunk_rows):
            raise ValueError("has not a checksum for each chunk")
        return self

    def to_json(self) -> dict[str, Any]:
        """The card as plain values."""
        # One text: thousands of lines of digits would hide what a reader looks for.
        checksums = " ".join(self.checksums)
        return {"format": FORMAT, **self.model_dump(mode="json"), "checksums": checksums}


def find_copy(source: OriginalFiles, root: str | None = None) -> Copy:
    """The copy of a source with its settings. Reads the card and the sizes of the files, nothing
    else.

    Raises `DataError` in one sentence with the command that makes it, where there is none, it is
    truncated, or of another version.
    """
    folder = copy_folder(source, root)
    name = owner(source)
    again = command(source, root)
    try:
        values = read_card(folder)
        if values["format"] != FORMAT or values.get("version") != version_of(source):
            raise DataError(
                f"the prepared copy {folder} was made by another version of Crosswind: {again}"
            )
        copy = Copy(**values | {"folder": folder})
    except (FileNotFoundError, NotADirectoryError):
        root_path = root_folder(source.root if root is None else root)
        amount = original_size(source)
        of_size = f" ({amount} of originals)" if amount else ""
        raise DataError(
            f"there is no prepared copy of {name} in {root_path}{of_size}: {again}"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder / CARD} cannot be read as the card of a prepared copy ({_reason(error)}):"
            f" {again}"
        ) from None
    if copy.source != name or canonical(copy.settings) != canonical(copy_settings(source)):
        raise DataError(
            f"{folder} holds {copy.source} with other settings, not what its name says: {again}"
        )
    for file, size in copy.files.items():
        try:
            actual_size = (folder / file).stat().st_size
        except OSError as error:
            raise DataError(
                f"the prepared copy {folder} cannot be read: {file}: {_reason(error)}: {again}"
            ) from None
        if actual_size != size:
            problem = (
                f"the prepared copy {folder} is not whole: {file} has {actual_size:,} of {size:,}"
                f" bytes: {again}"
            )
            raise DataError(problem)
    return copy


def open_copy(source: OriginalFiles, root: str | None = None) -> AttributedDataset:
    """The prepared copy of a source with its settings as a data set; pixels are mapped and read
    when they are asked for.

    Raises `DataError` in one sentence with the command that makes it, where there is none, it is
    damaged, or of another version.
    """
    copy = find_copy(source, root)
    try:
        return _dataset(copy, fingerprint=copy.fingerprint, origin=origin_of(source))
    except Exception as error:  # NumPy and zipfile raise what they like for damaged files
        again = command(source, root, "--again")
        problem = f"the prepared copy {copy.folder} cannot be read ({_reason(error)}): {again}"
        raise DataError(problem) from None


def check(
    source: OriginalFiles,
    root: str | None = None,
    *,
    workers: int | None = None,
    on_progress: Progress | None = None,
) -> Copy:
    """Read the prepared copy of a source again and compare every byte's checksum with that of the
    card.

    Raises `DataError` in one sentence for the first rows that are not as they were written, with
    the command that makes them anew.
    """
    copy = find_copy(source, root)
    try:
        _check(copy, workers or usable_cores(), on_progress or (lambda stage, done, total: None))
    except Exception as error:  # as above
        again = command(source, root, "--again")
        problem = f"the prepared copy {copy.folder} is damaged: {_reason(error)}: {again}"
        raise DataError(problem) from None
    return copy


def checksum(data: Any) -> str:
    """BLAKE2b of bytes, 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def chunk_rows(shape: Sequence[int]) -> int:
    """Rows that are decoded, written and checked together: about 2 MiB of pixels, the same on every
    machine."""
    return max(1, min(CHUNK_MOST, CHUNK_BYTES // max(1, int(np.prod(shape)))))


def array_header(n_rows: int, shape: tuple[int, int, int]) -> bytes:
    """The first bytes of an npy file of uint8 [n, h, w, c]; the same for the same numbers."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "|u1", "fortran_order": False, "shape": (n_rows, *shape)}
    )
    return head.getvalue()


def fingerprint_of(dataset: AttributedDataset, store: str, checksums: list[str]) -> str:
    """The fingerprint of a copy, 32 hexadecimal digits: the same wherever it lies and whoever made
    it, another for any other content."""
    if np.array_equal(dataset.ids, np.arange(dataset.n_base)):
        rows = {}
    else:
        rows = {"ids": dataset.ids}
    if dataset.units is not None:
        rows["units"] = dataset.units
    shape = list(dataset.image_shape or ())
    table_digest = dataset.table.digest()
    return digest(
        {
            "table": table_digest,
            "rows": digest_arrays(rows),
            "shape": shape,
            "store": store,
            "pixels": checksums,
        }
    )


def _dataset(copy: Copy, **more_words: str) -> AttributedDataset:
    with np.load(io.BytesIO(_file(copy, ATTRIBUTES)), allow_pickle=False) as arrays:
        rows = {}
        for name in ("codes", "contents", "ids", "units"):
            if name in arrays:
                rows[name] = arrays[name]
    attributes = tuple(
        Attribute(attribute["name"], tuple(attribute["values"])) for attribute in copy.attributes
    )
    table = AttributeTable(attributes, rows.pop("codes"))
    if table.n_rows != copy.n_rows or "contents" not in rows:
        raise ValueError(f"{ATTRIBUTES} does not hold the {copy.n_rows:,} rows of the card")
    if copy.image_shape is None:
        spec = InputSpec.text()
    else:
        spec = InputSpec.image(*copy.image_shape)
    return AttributedDataset(copy.name, table, _reader(copy), spec, **rows, **more_words)  # type: ignore[arg-type]


def _file(copy: Copy, name: str) -> bytes:
    data = (copy.folder / name).read_bytes()
    if checksum(data) != copy.file_checksums[name]:
        raise ValueError(f"{name} is not as it was written")
    return data


def _ends(copy: Copy) -> NDArray[np.int64]:
    """Where each row begins in the file of pixels, and where the last one ends: int64 [n + 1]."""
    if copy.store == "array" and copy.image_shape is not None:
        head = len(array_header(copy.n_rows, copy.image_shape))
        return head + np.arange(copy.n_rows + 1) * int(np.prod(copy.image_shape))
    offsets: NDArray[np.int64] = np.load(io.BytesIO(_file(copy, OFFSETS)), allow_pickle=False)
    if (
        offsets.dtype != np.int64
        or offsets.shape != (copy.n_rows + 1,)
        or offsets[-1] != copy.files[PIXELS[copy.store]]
    ):
        raise ValueError(f"{OFFSETS} does not fit {PIXELS[copy.store]}")
    return offsets


def _reader(copy: Copy) -> Read:
    """The rows of the file of pixels or texts, mapped into memory: nothing is read before it is
    asked for."""
    path = copy.folder / PIXELS[copy.store]
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if copy.image_shape is None:
        return partial(_texts, mapped=mapped, ends=_ends(copy), path=path)
    if copy.store == "jpeg":
        return partial(
            _jpegs, mapped=mapped, offsets=_ends(copy), shape=copy.image_shape, path=path
        )
    shape = (copy.n_rows, *copy.image_shape)
    head = array_header(copy.n_rows, copy.image_shape)
    if mapped[: len(head)] != head:
        raise ValueError(f"{path.name} holds another array than uint8 {shape}")
    plain = np.frombuffer(mapped, dtype=np.uint8, offset=len(head)).reshape(shape)
    announced = np.zeros(copy.n_rows, dtype=bool)

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        new = rows[~announced[rows]]
        if new.size:
            _announce(mapped, len(head) + new * plain[0].size, plain[0].size)
            announced[new] = True
        return plain.take(rows, axis=0)

    return images


def _announce(mapped: mmap.mmap, row_numbers: NDArray[np.int64], size: int) -> None:
    """Ask for rows that may not be in memory all at once: read as they are touched, the disk would
    have one to do at a time."""
    if not hasattr(mmap, "MADV_WILLNEED"):
        return
    first = row_numbers // mmap.PAGESIZE * mmap.PAGESIZE
    for start, length in zip(first.tolist(), (row_numbers + size - first).tolist(), strict=True):
        mapped.madvise(mmap.MADV_WILLNEED, start, length)


def _texts(
    rows: NDArray[np.int64], mapped: mmap.mmap, ends: NDArray[np.int64], path: Path
) -> NDArray[Any]:
    out = np.empty(len(rows), dtype=object)
    try:
        out[:] = [mapped[ends[row] : ends[row + 1]].decode() for row in rows.tolist()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not as it was written: {error}") from None
    return out


def _jpegs(
    rows: NDArray[np.int64],
    mapped: mmap.mmap,
    offsets: NDArray[np.int64],
    shape: tuple[int, int, int],
    path: Path,
) -> NDArray[np.uint8]:
    from PIL import Image

    out = np.empty((len(rows), *shape), dtype=np.uint8)
    for position, row in enumerate(rows.tolist()):
        try:
            with Image.open(
                io.BytesIO(mapped[offsets[row] : offsets[row + 1]]), formats=["JPEG"]
            ) as opened:
                if (opened.height, opened.width, len(opened.getbands())) != shape:
                    raise ValueError("its shape is not that of the card")
                out[position] = np.asarray(opened, dtype=np.uint8).reshape(shape)
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError(
                f"{path}, row {row}: cannot be read as a JPEG picture: {error}"
            ) from None
    return out


def _check(copy: Copy, workers: int, on_progress: Progress) -> None:
    dataset = _dataset(copy)
    path = copy.folder / PIXELS[copy.store]
    starts = np.minimum(np.arange(len(copy.checksums) + 1) * copy.chunk_rows, copy.n_rows)
    ends = _ends(copy)[starts]

    def of(chunk: int) -> str:
        with path.open("rb") as file:
            file.seek(int(ends[chunk]))
            return checksum(file.read(int(ends[chunk + 1] - ends[chunk])))

    with ThreadPoolExecutor(workers) as pool:
        for chunk, digits in enumerate(pool.map(of, range(len(copy.checksums)))):
            on_progress("checking", int(starts[chunk]), copy.n_rows)
            if digits != copy.checksums[chunk]:
                pool.shutdown(wait=False, cancel_futures=True)
                damaged = f"rows {starts[chunk]:,} to {starts[chunk + 1] - 1:,}"
                raise ValueError(f"{damaged} in {path.name} are not as they were written")
    on_progress("checking", copy.n_rows, copy.n_rows)
    if fingerprint_of(dataset, copy.store, copy.checksums) != copy.fingerprint:
        raise ValueError("its card is not as it was written")


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        return one_line(f"{location}: {first['msg']}".removeprefix(": "), 200)
    text = (
        error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    ) or type(error).__name__
    return one_line(text, 200)
