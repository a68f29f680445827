"""The user's own pictures: a table with a column of paths and columns of attributes, over a folder of images."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest_arrays
from crosswind.data.decoding import named_files
from crosswind.data.sources.base import PreparedSource, Reading, from_files, names_chosen
from crosswind.data.tabular import attribute_table, group_codes, has_column, read_table, texts

if TYPE_CHECKING:
    from polars import DataFrame


@register("table", kind="source")
@dataclass(frozen=True)
class Table(PreparedSource):
    """A CSV or Parquet table with one row an image, over a folder of image files.

    `path_column` holds the path of each image under the folder `images`; every other column is an attribute unless `columns` names
    those that are. `unit` names a column whose equal values are kept in one role (a patient, a video); it is an attribute only
    where `columns` names it too. Values are in numeric order where all of a column are numbers, else sorted as text. A row without
    a value, a missing image and a path that leads out of the folder are refused when the table is loaded; a file that is no whole
    image when it is asked for. Images are turned as their EXIF data say, made RGB (transparency is dropped), and resized to
    `size` x `size` without keeping their proportions. The fingerprint counts the bytes of each image and does not read them.
    For many images, prepare a copy and name its `root`:
    `crosswind prepare table --set path=TABLE --set images=FOLDER --root DIR`.
    """

    path: str = knob(doc="CSV (UTF-8, commas, a first line of names) or Parquet file")
    images: str = knob(doc="folder of the images")
    path_column: str = knob("path", doc="column that holds the path of each image, under the folder")
    size: int = knob(64, domain="[4, 2048]", doc="side of the pictures in pixels")
    unit: str | None = knob(None, doc="column whose equal values belong together")
    columns: list[str] | None = knob(None, doc="which columns are attributes; all but path_column and unit by default")

    own = ("path", "images")
    card = card_of("table")

    def read(self, folder: Path) -> Reading:
        """The data set: one row a line. Raises `InputError` for settings, `DataError` for what table or folder of images hold."""
        rows = read_table(self.path, "table.path")
        top = Path(self.images).expanduser()
        if not top.is_dir():
            problem = "is not a folder" if top.exists() else "is a folder that does not exist"
            raise InputError("table.images", f"{self.images!r} {problem}")
        has_column(rows, self.path_column, self.path, "table.path_column")
        units = None
        if self.unit is not None:
            units = group_codes(texts(rows, has_column(rows, self.unit, self.path, "table.unit"), self.path))
        table = attribute_table(rows, self._attributes(rows), self.path)
        names = texts(rows, self.path_column, self.path).to_list()
        files = [_inside(name, self.path_column, row, self.path) for row, name in enumerate(names)]
        listed = np.frombuffer("\x1f".join(files).encode(), np.uint8)
        dataset = from_files(
            Path(self.path).stem,
            table,
            lambda row: top / files[row],
            lambda row: f"{self.path}, row {row + 1}: {files[row]!r}",
            self.size,
            told={
                "source": "table",
                "files": digest_arrays({"names": listed, "bytes": np.array(_sizes(top, files, self.path, self.images))}),
                "units": None if units is None else digest_arrays({"units": units}),
            },
            units=units,
            **named_files(top, files),
        )
        return Reading(dataset, {"all": len(files)})

    def _attributes(self, rows: DataFrame) -> list[str]:
        if self.columns is None:
            chosen = [name for name in rows.columns if name not in (self.path_column, self.unit)]
            if not chosen:
                raise DataError(f"{self.path} has no column of attributes beside {self.path_column!r}")
            return chosen
        names_chosen(self.columns, "table.columns", "column")
        return [has_column(rows, name, self.path, "table.columns") for name in self.columns]


def _inside(name: str, column: str, row: int, path: str) -> str:
    """The path with its dots resolved; `DataError` where it leads out of the folder. Links inside the folder are the user's own."""
    clean = name.replace("\\", "/") if os.sep == "\\" else name
    if "." in (clean[0], clean[-1]) or "/." in clean or "//" in clean or clean[-1] == "/":  # most paths are clean as they are
        clean = posixpath.normpath(clean)
    if clean[0] == "/" or (os.sep != "/" and os.path.isabs(clean)) or clean == ".." or clean.startswith("../") or "\x00" in clean:
        raise DataError(f"{path}, column {column!r}, row {row + 1}: {name!r} leads out of the folder of images")
    return clean


def _sizes(folder: Path, files: Sequence[str], path: str, shown: str) -> list[int]:
    """Bytes of each file; `DataError` for the first row whose file is missing, is no file or is empty."""
    found = []
    for row, name in enumerate(files):
        problem = ""
        try:
            entry = os.stat(f"{folder}/{name}")
            if not stat.S_ISREG(entry.st_mode):
                problem = f"{name!r} in {shown!r} is not a file"
            elif not entry.st_size:
                problem = f"the file {name!r} in {shown!r} is empty"
        except (OSError, ValueError):
            problem = f"there is no file {name!r} in {shown!r}"
        if problem:
            raise DataError(f"{path}, row {row + 1}: {problem}")
        found.append(entry.st_size)
    return found
