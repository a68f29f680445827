"""The inputs of somebody's table that a model can read: pictures by a column of paths, texts, or
the columns themselves."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, counted
from crosswind.data.decoding import IMAGE_ENDINGS, unreadable
from crosswind.data.listed_files import OTHER_FORMATS, FileFolder
from crosswind.data.table_inputs import are_dates, are_measures
from crosswind.data.tabular import has_column
from crosswind.proposals.columns import TEXTS, TableColumn, n_words

if TYPE_CHECKING:
    from polars import DataFrame

_ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".7z", ".rar")
SIDE, SMALL_SIDE = 32, 16
_FOLDERS = {".": "this folder", "..": "the folder above this one"}
"""What folders are called whose paths would read like the end of a sentence."""
MOST_FILES = 20_000
"""Pictures whose beginnings and ends are looked at before a study is proposed."""
_NAMED_INPUTS = 5
"""Columns of inputs that a note names; of more it says how many there are."""
_TRIED, _LONGEST = 20, 300
"""Rows whose files are looked for in a folder, and the characters of a path."""


@dataclass(frozen=True)
class Inputs:
    """Which columns a model reads, and how.

    `kind`: "images", "texts" or "numbers". `columns`: the one of paths, those of texts, or those of
    numbers and categories, which are inputs and may be attributes too. `folder`: of the images.
    `more_texts`: another column of texts.
    """

    kind: str
    columns: tuple[str, ...]
    folder: str = ""
    more_texts: str = ""

    @property
    def in_words(self) -> str:
        """The inputs in words, for a note."""
        named = ", ".join(map(repr, self.columns[:_NAMED_INPUTS]))
        if self.kind == "images":
            folder = _FOLDERS.get(os.path.normpath(self.folder), self.folder)
            return f"images by column {named} in {folder}"
        several = "columns" if len(self.columns) > 1 else "column"
        if self.kind == "texts":
            return f"texts in {several} {named}"
        if len(self.columns) > _NAMED_INPUTS:
            return (
                f"no images or texts: {len(self.columns):,} columns are what a model reads ({named} and"
                f" {len(self.columns) - _NAMED_INPUTS:,} more)"
            )
        are = "are" if len(self.columns) > 1 else "is"
        return f"no images or texts: {several} {named} {are} what a model reads"


def inputs_of(
    rows: DataFrame,
    columns: Mapping[str, TableColumn],
    table: str,
    images: str | None,
    text: Sequence[str] | None,
) -> Inputs | None:
    """The inputs for a model: the texts that are named, pictures, the longest texts, or None where
    only the columns themselves are left.

    Raises `InputError` for a folder without the pictures that the table names.
    """
    if text:
        twice = [name for place, name in enumerate(text) if name in text[:place]]
        if twice:
            raise InputError("--text", f"names {twice[0]!r} twice; name each column once")
        return Inputs("texts", tuple(has_column(rows, name, table, "--text") for name in text))
    texts = []
    for name, column in columns.items():
        if column.kind == "texts" or _few_texts(rows, column):
            texts.append(name)
    texts.sort(key=lambda name: -n_words(rows[name].cast(str)))
    if images is not None or not texts or not _are_addresses(rows, columns):
        pictures = _images(rows, columns, Path(table), images)
        if pictures is not None:
            return pictures
    if not texts:
        return None
    more_texts = texts[1] if len(texts) > 1 else ""
    return Inputs("texts", (texts[0],), more_texts=more_texts)


def picture_side(rows: DataFrame, inputs: Inputs, table: str) -> int:
    """The side in pixels at which a study reads pictures: `SIDE`, or `SMALL_SIDE` where none of
    some is larger. To make small ones larger costs time and shows nothing more."""
    from PIL import Image

    folder = FileFolder(Path(inputs.folder), inputs.folder)
    for file in folder.files_of(_sample(rows, inputs.columns[0]), inputs.columns[0], table):
        try:
            with Image.open(folder.top / file) as picture:
                if max(picture.size) > SMALL_SIDE:
                    return SIDE
        except (OSError, ValueError):  # said by the source, with its row
            return SIDE
    return SMALL_SIDE


def refuse_unreadable(rows: DataFrame, inputs: Inputs, table: str) -> None:
    """Refuse pictures that a study cannot read: cut off, as by a download that broke, a page in
    place of a picture, pixels of more than 8 bits. Raises `DataError` for them, and for names that
    are no file."""
    column = inputs.columns[0]
    row_numbers, names = _values(rows, column)
    folder = FileFolder(Path(inputs.folder), inputs.folder)
    with_name = [position for position, name in enumerate(names) if name]
    files = folder.files_of(
        [names[position] for position in with_name], column, table, row_numbers[with_name]
    )
    faults = []
    for row, file in zip(row_numbers[with_name].tolist()[:MOST_FILES], files, strict=False):
        try:
            fault = unreadable(folder.top / file)
        except OSError as error:
            fault = f"cannot be read: {error.strerror}"
        if fault:
            faults.append((row, file, fault))
    if faults:
        row, file, fault = faults[0]
        more = f" ({counted(len(faults) - 1, 'more such row')})" if faults[1:] else ""
        raise DataError(f"{table}, row {row + 1}: {file!r} {fault}{more}")


def _few_texts(rows: DataFrame, column: TableColumn) -> bool:
    """Whether a column of few values, or of one text a row, holds texts of several words."""
    if column.numeric or column.kind not in ("classes", "identifier", "other", "one-value"):
        return False
    if are_dates(rows[column.name].drop_nulls()):
        return False
    texts = rows[column.name].cast(str)
    if column.name.lower() not in TEXTS and are_measures(texts.drop_nulls()):
        return False
    words = n_words(texts)
    surely = column.name.lower() in TEXTS or column.kind in ("identifier", "other")
    return words >= (3 if surely else 8)


def _are_addresses(rows: DataFrame, columns: Mapping[str, TableColumn]) -> bool:
    """Whether all that may be pictures are addresses, which nobody fetches."""
    names = [name for name, column in columns.items() if column.kind == "paths"]
    listed = [value for name in names for value in _sample(rows, name)]
    return bool(listed) and all(re.match(r"(?i)(https?|ftp|s3|gs)://", value) for value in listed)


def _images(
    rows: DataFrame, columns: Mapping[str, TableColumn], table: Path, images: str | None
) -> Inputs | None:
    """Pictures by a column of paths, or of their names without an ending."""
    if images is not None and not Path(images).is_dir():
        raise InputError("--images", f"{images!r} is no folder")
    named = [name for name, column in columns.items() if column.kind == "paths"]
    identifiers = [name for name, column in columns.items() if _may_name(column, rows.height)]
    samples = {name: _sample(rows, name) for name in (*named, *identifiers)}
    listed = [value for name in named for value in samples[name]]
    paths = [Path(images)] if images is not None else _folders_beside(table, listed)
    folders = [FileFolder(path, str(path)) for path in paths]
    found = _as_they_stand(samples, folders) or _as_written(samples, folders, named)
    if found is not None:
        return found
    if named:
        return _not_found(rows, named[0], table, folders, images)
    _check_one_file_each(rows, [name for name in identifiers if samples[name]], table, folders)
    return None


def _as_they_stand(
    samples: Mapping[str, Sequence[str]], folders: Sequence[FileFolder]
) -> Inputs | None:
    """Pictures by a column whose values are paths below a folder as they stand, the table's own
    folder first. Raises `InputError` where they are paths below several others."""
    for name, values in samples.items():
        if folders and _are_files(folders[0], values):
            return Inputs("images", (name,), folders[0].shown)
        fitting = [folder.shown for folder in folders[1:] if _are_files(folder, values)]
        if len(fitting) > 1:
            problem = f"is needed: the pictures of column {name!r} lie in several folders"
            raise InputError("--images", problem, fitting)
        if fitting:
            return Inputs("images", (name,), fitting[0])
    return None


def _as_written(
    samples: Mapping[str, Sequence[str]], folders: Sequence[FileFolder], named: Sequence[str]
) -> Inputs | None:
    """Pictures by a column whose values name a file each in any way in which people write paths."""
    for name, values in samples.items():
        for folder in folders:
            if _are_found(folder, values, name, name in named):
                return Inputs("images", (name,), folder.shown)
    return None


def _values(rows: DataFrame, name: str) -> tuple[NDArray[np.int64], list[str]]:
    """The rows of a column that have a value, from 0, and these."""
    texts = rows[name].cast(str)
    row_numbers = texts.is_not_null().arg_true().to_numpy().astype(np.int64)
    return row_numbers, [value.strip() for value in texts.drop_nulls().to_list()]


def _sample(rows: DataFrame, name: str) -> list[str]:
    """Values of a column from all over the table; none where one is too long for a path."""
    column = rows[name].drop_nulls()
    values = [str(value).strip() for value in column.gather_every(max(1, len(column) // _TRIED))]
    values = [value for value in values if value]
    return [] if any(len(value) > _LONGEST for value in values) else values


def _not_found(
    rows: DataFrame,
    column: str,
    table: Path,
    folders: Sequence[FileFolder],
    images: str | None,
) -> Inputs:
    """The inputs of a table whose pictures do not lie where they are looked for, if their folder is
    named.

    Raises `InputError`, and `DataError` for the rows whose pictures are not in the folder that is
    named, or in one where some are.
    """
    row_numbers, names = _values(rows, column)
    if images is not None:
        folders[0].files_of(names, column, table.name, row_numbers)
        return Inputs("images", (column,), images)
    first = names[0]
    if "://" in first:
        raise InputError(
            "--images",
            f"{first!r} is an address and no file: fetch the pictures first, and name their folder",
        )
    sample = names[:: max(1, len(names) // _TRIED)]
    n_there = [sum((folder.top / name).is_file() for name in sample) for folder in folders]
    if any(n_there):
        folders[n_there.index(max(n_there))].files_of(names, column, table.name, row_numbers)
    _check_one_file_each(rows, [column], table, folders)
    packed = sorted(path.name for path in _entries(table) if path.name.lower().endswith(_ARCHIVES))
    unpack = f"; {packed[0]} lies there: are they in it? Unpack it first" if packed else ""
    raise InputError(
        "--images",
        f"is needed: {first!r} lies neither beside {table.name} nor in a folder beside it{unpack}",
    )


def _check_one_file_each(
    rows: DataFrame, columns: Sequence[str], table: Path, folders: Sequence[FileFolder]
) -> None:
    """Refuse a column whose values name several pictures each. Raises `DataError`."""
    for column, folder in itertools.product(columns, folders):
        row_numbers, names = _values(rows, column)
        try:
            folder.files_of(names, column, table.name, row_numbers)
        except DataError as error:
            if "may be one of several files" in str(error):
                raise


def _folders_beside(table: Path, listed: Sequence[str]) -> list[Path]:
    """The folder of a table and those in it, and the one above where paths lead up."""
    leads_up = any(value.startswith("../") for value in listed)
    below = sorted(path for path in _entries(table) if path.is_dir())
    shown = [path for path in below if not path.name.startswith(".")]
    return [table.parent, *shown, *([table.parent / ".."] if leads_up else [])]


def _entries(table: Path) -> list[Path]:
    """The entries of the folder of a table."""
    return list(table.parent.iterdir()) if table.parent.is_dir() else []


def _are_files(folder: FileFolder, values: Sequence[str]) -> bool:
    """Whether values are paths of pictures below a folder as they stand."""
    endings = (*IMAGE_ENDINGS, *OTHER_FORMATS)
    for value in values:
        is_below = value.lower().endswith(endings) and not value.startswith("../")
        if not is_below or not (folder.top / value).is_file():
            return False
    return bool(values)


def _are_found(folder: FileFolder, values: Sequence[str], name: str, is_listed: bool) -> bool:
    """Whether values name a picture each below a folder, in any way in which people write paths.

    `is_listed`: the column holds paths, and not names that may be those of pictures.
    """
    try:
        files = folder.files_of(values, name, "")
    except DataError as error:
        return is_listed and "which is not read" in str(error)
    return bool(values) and all(file.lower().endswith(IMAGE_ENDINGS) for file in files)


def _may_name(column: TableColumn, n_rows: int) -> bool:
    """Whether the values of a column may be names of files, one a row."""
    if column.kind in ("identifier", "units", "texts", "other"):
        return True
    return column.n_values == n_rows and column.kind not in ("nested", "times")
