"""A prepared copy as a data set, opened without reading its pixels."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import CrosswindError, DataError
from crosswind.core.types import canonical, digest, digest_arrays
from crosswind.data.archives.arrays import Expected, keys_of, read_arrays
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared.pixels import OFFSETS, STORES, array_reader, jpeg_reader, pixels_file
from crosswind.data.prepared.places import (
    CARD,
    FORMAT,
    command,
    copy_folder,
    copy_settings,
    origin_of,
    owner,
    read_card,
    root_folder,
    version_of,
)

if TYPE_CHECKING:
    from crosswind.data.sources.base import PreparedSource

__all__ = ["ATTRIBUTES", "Copy", "attribute_bytes", "find_copy", "fingerprint_of", "open_copy", "read_rows"]

ATTRIBUTES = "attributes.npz"


@dataclass(frozen=True)
class Copy:
    """What the card of a prepared copy says, and the folder that it lies in.

    `name`: of the data set. `files`: name -> size in bytes. `checksums`: of the pixels' chunks of `chunk_rows` rows, in order;
    `file_checksums`: of the other files (BLAKE2b, 16 bytes). `parts`, `totals`: rows found, and rows published. Equal copies
    have equal cards, whoever made them and when.
    """

    folder: Path
    source: str
    name: str
    version: int
    settings: dict[str, Any]
    store: str
    n_rows: int
    image_shape: tuple[int, int, int]
    attributes: list[dict[str, Any]]
    parts: dict[str, int]
    totals: dict[str, int]
    fingerprint: str
    files: dict[str, int]
    chunk_rows: int
    file_checksums: dict[str, str]
    checksums: list[str] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """The card as plain values."""
        told = {key: value for key, value in vars(self).items() if key != "folder"}
        # One text: thousands of lines of digits would hide what a reader looks for.
        return {"format": FORMAT, **told, "image_shape": list(self.image_shape), "checksums": " ".join(self.checksums)}

    @classmethod
    def of_json(cls, values: dict[str, Any], folder: Path) -> Copy:
        """The copy that a card tells of. Raises `KeyError`, `TypeError` or `ValueError` for a card that is none."""
        found = cls(
            folder=folder,
            source=_text(values["source"]),
            name=_text(values["name"]),
            version=int(values["version"]),
            settings=dict(values["settings"]),
            store=_text(values["store"]),
            n_rows=int(values["n_rows"]),
            image_shape=tuple(int(side) for side in values["image_shape"]),  # type: ignore[arg-type]
            attributes=[{"name": _text(item["name"]), "values": list(item["values"])} for item in values["attributes"]],
            parts={name: int(count) for name, count in values["parts"].items()},
            totals={name: int(count) for name, count in values["totals"].items()},
            fingerprint=_text(values["fingerprint"]),
            files={name: int(size) for name, size in values["files"].items()},
            chunk_rows=int(values["chunk_rows"]),
            file_checksums={name: _text(digits) for name, digits in values["file_checksums"].items()},
            checksums=_text(values["checksums"]).split(),
        )
        if len(found.image_shape) != 3 or found.store not in STORES or found.n_rows < 1 or found.chunk_rows < 1:
            raise ValueError("has values that no copy has")
        wanted = {ATTRIBUTES, pixels_file(found.store), *([OFFSETS] if found.store == "jpeg" else [])}
        if set(found.files) != wanted or set(found.file_checksums) != wanted - {pixels_file(found.store)}:
            raise ValueError("does not name the files of a copy")
        if len(found.checksums) != -(-found.n_rows // found.chunk_rows):
            raise ValueError("has not a checksum for each chunk")
        return found


def find_copy(source: PreparedSource, root: str | None = None) -> Copy:
    """The copy of a source with its settings. Reads the card and the sizes of the files, nothing else.

    Raises `DataError` in one sentence with the command that makes it, where there is none, it is truncated, or of another version.
    """
    folder = copy_folder(source, root)
    name, again = owner(source), command(source, root)
    try:
        values = read_card(folder)
    except (FileNotFoundError, NotADirectoryError):
        place = root_folder(source.root if root is None else root)
        raise DataError(f"there is no prepared copy of {name} in {place}: {again}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / CARD} cannot be read as the card of a prepared copy ({_reason(error)}): {again}") from None
    if values["format"] != FORMAT or values.get("version") != version_of(source):
        raise DataError(f"the prepared copy {folder} was made by another version of Crosswind: {again}")
    try:
        copy = Copy.of_json(values, folder)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{folder / CARD} cannot be read as the card of a prepared copy ({_reason(error)}): {again}") from None
    if copy.source != name or canonical(copy.settings) != canonical(copy_settings(source)):
        raise DataError(f"{folder} holds {copy.source} with other settings, not what its name says: {again}")
    for file, size in copy.files.items():
        try:
            there = (folder / file).stat().st_size
        except OSError as error:
            raise DataError(f"the prepared copy {folder} cannot be read: {file}: {_reason(error)}: {again}") from None
        if there != size:
            raise DataError(f"the prepared copy {folder} is not whole: {file} has {there:,} of {size:,} bytes: {again}")
    return copy


def open_copy(source: PreparedSource, root: str | None = None) -> AttributedDataset:
    """The prepared copy of a source with its settings as a data set; pixels are mapped and read when they are asked for.

    Raises `DataError` in one sentence with the command that makes it, where there is none, it is truncated, or of another version.
    """
    copy = find_copy(source, root)
    try:
        table, ids, units, contents = read_rows(copy)
        images = _reader(copy)
    except (CrosswindError, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"the prepared copy {copy.folder} cannot be read ({_reason(error)}): {command(source, root, '--again')}"
        ) from None
    return AttributedDataset(
        name=copy.name,
        table=table,
        images=images,
        image_shape=copy.image_shape,
        ids=np.arange(copy.n_rows, dtype=np.int64) if ids is None else ids,
        units=units,
        fingerprint=copy.fingerprint,
        origin=origin_of(source),
        contents=contents,
    )


def read_rows(
    copy: Copy,
) -> tuple[AttributeTable, NDArray[np.int64] | None, NDArray[np.int64] | None, NDArray[np.uint64]]:
    """Attribute table, ids (None: row numbers), units (None: each row its own) and the pictures' hashes of a copy."""
    path = copy.folder / ATTRIBUTES
    known = [name for name in ("codes", "ids", "units", "contents") if name in keys_of(path)]
    found = read_arrays(path, {name: Expected() for name in known})
    attributes = tuple(Attribute(item["name"], tuple(item["values"])) for item in copy.attributes)
    table = AttributeTable(attributes, found["codes"])
    if table.n_rows != copy.n_rows:
        raise ValueError(f"{ATTRIBUTES} has {table.n_rows:,} rows, and the card {copy.n_rows:,}")
    return table, found.get("ids"), found.get("units"), found["contents"]


def attribute_bytes(dataset: AttributedDataset, contents: NDArray[np.uint64]) -> bytes:
    """The file of codes, ids, units and the pictures' hashes: npz, the same bytes for the same rows."""
    arrays: dict[str, Any] = {"codes": dataset.table.codes, "contents": contents}
    if not np.array_equal(dataset.ids, np.arange(dataset.n_base)):
        arrays["ids"] = dataset.ids
    if dataset.units is not None:
        arrays["units"] = dataset.units
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def fingerprint_of(
    table: AttributeTable,
    ids: NDArray[np.int64] | None,
    units: NDArray[np.int64] | None,
    image_shape: tuple[int, int, int],
    store: str,
    checksums: list[str],
) -> str:
    """What a copy holds as 32 hexadecimal digits: the same wherever it lies and whoever made it, another for any other content."""
    rows = {name: array for name, array in (("ids", ids), ("units", units)) if array is not None}
    told = {"table": table.digest(), "rows": digest_arrays(rows), "shape": list(image_shape), "store": store, "pixels": checksums}
    return digest(told)


def _reader(copy: Copy) -> Any:
    path = copy.folder / pixels_file(copy.store)
    if copy.store == "array":
        return array_reader(path, (copy.n_rows, *copy.image_shape))
    offsets = np.load(copy.folder / OFFSETS, allow_pickle=False)
    if offsets.dtype != np.int64 or offsets.shape != (copy.n_rows + 1,) or int(offsets[-1]) != copy.files[path.name]:
        raise ValueError(f"{OFFSETS} does not fit {path.name}")
    return jpeg_reader(path, offsets, copy.image_shape)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no text")
    return value


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__
