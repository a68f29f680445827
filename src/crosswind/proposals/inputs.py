"""The inputs of somebody's table that a model can read: pictures by a column of paths, texts, or
the columns themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crosswind.core.errors import DataError, InputError
from crosswind.data.decoding import IMAGE_ENDINGS
from crosswind.data.listed_files import OTHER_FORMATS, FileFolder
from crosswind.data.tabular import has_column
from crosswind.proposals.columns import TEXTS, TableColumn, n_words

if TYPE_CHECKING:
    from polars import DataFrame

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
        named = ", ".join(map(repr, self.columns[:5]))
        if self.kind == "images":
            return f"images by column {named} in {self.folder}"
        several = "columns" if len(self.columns) > 1 else "column"
        if self.kind == "texts":
            return f"texts in {several} {named}"
        more_words = ""
        if len(self.columns) > 5:
            more_words = f" and {len(self.columns) - 5} more"
        are = "are" if len(self.columns) > 1 else "is"
        return f"no images or texts: {several} {named}{more_words} {are} what a model reads"


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
        return Inputs("texts", tuple(has_column(rows, name, table, "--text") for name in text))
    found_images = _images(rows, columns, Path(table), images)
    if found_images is not None:
        return found_images
    texts = []
    for name, column in columns.items():
        if column.kind == "texts" or _few_texts(rows, column):
            texts.append(name)
    texts.sort(key=lambda name: -n_words(rows[name].cast(str)))
    if not texts:
        return None
    more_texts = texts[1] if len(texts) > 1 else ""
    return Inputs("texts", (texts[0],), more_texts=more_texts)


def _few_texts(rows: DataFrame, column: TableColumn) -> bool:
    """Whether a column of few values, or of one text a row, holds texts of several words."""
    if column.numeric or column.kind not in ("classes", "identifier", "other", "one-value"):
        return False
    words = n_words(rows[column.name].cast(str))
    surely = column.name.lower() in TEXTS or column.kind in ("identifier", "other")
    return words >= (3 if surely else 8)


def _images(
    rows: DataFrame, columns: Mapping[str, TableColumn], table: Path, images: str | None
) -> Inputs | None:
    """Pictures by a column of paths, or of their names without an ending."""
    if images is not None and not Path(images).is_dir():
        raise InputError("--images", f"{images!r} is no folder")
    named = [name for name, column in columns.items() if column.kind == "paths"]
    identifiers = [name for name, column in columns.items() if _may_name(column, rows.height)]
    if images is not None:
        folders = [Path(images)]
    else:
        folders = _folders_beside(table)
    for as_they_stand in (True, False):
        for name in (*named, *identifiers):
            for folder in folders:
                if _lie_in(folder, rows, name, as_they_stand, name in named):
                    return Inputs("images", (name,), str(folder))
    if not named:
        return None
    first = str(rows[named[0]].drop_nulls()[0])
    if images is not None:
        # The source says what is wrong with each row.
        return Inputs("images", (named[0],), images)
    if "://" in first:
        raise InputError(
            "--images",
            f"{first!r} is an address and no file: fetch the pictures first, and name their folder",
        )
    raise InputError(
        "--images",
        f"is needed: {first!r} lies neither beside {table.name} nor in a folder beside it",
    )


def _folders_beside(table: Path) -> list[Path]:
    """The folder of a table, and those in it."""
    if not table.parent.is_dir():
        return []
    below = sorted(path for path in table.parent.iterdir() if path.is_dir())
    return [table.parent, *(path for path in below if not path.name.startswith("."))]


def _lie_in(folder: Path, rows: DataFrame, name: str, as_they_stand: bool, is_listed: bool) -> bool:
    """Whether files that a column names, of rows from all over the table, lie in a folder, each as
    one picture. Paths are taken as they stand, or in any way in which people write them.

    `is_listed`: the column holds paths, and not names that may be those of pictures.
    """
    column = rows[name].drop_nulls()
    if len(column):
        spread = column.gather_every(max(1, len(column) // _TRIED))
    else:
        spread = column
    names = [str(value).strip() for value in spread.to_list()]
    if not names or any(not word or len(word) > _LONGEST for word in names):
        return False
    if as_they_stand:
        endings = (*IMAGE_ENDINGS, *OTHER_FORMATS)
        return all(word.lower().endswith(endings) and (folder / word).is_file() for word in names)
    try:
        files = FileFolder(folder, str(folder)).files_of(names, name, "")
    except DataError as error:
        return is_listed and "which is not read" in str(error)
    return all(file.lower().endswith(IMAGE_ENDINGS) for file in files)


def _may_name(column: TableColumn, n_rows: int) -> bool:
    """Whether the values of a column may be names of files, one a row."""
    if column.kind in ("identifier", "texts", "other"):
        return True
    return column.n_values == n_rows and column.kind != "nested"
