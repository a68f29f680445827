"""The user's own tables: of image files, of texts, of features, and of attributes alone, which a
grid can give too."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, InputError, one_line, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec, digest, digest_arrays
from crosswind.data.attributes import MOST_ROWS, MOST_VALUES, Attribute, AttributeTable
from crosswind.data.clusters import read_features
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoding import named_files
from crosswind.data.listed_files import FileFolder
from crosswind.data.sources.base import PreparedSource, Reading, Source, from_files, names_chosen
from crosswind.data.sources.columns import of_columns, of_text_columns, rows_of, with_inputs
from crosswind.data.table_inputs import (
    input_array,
    input_columns,
    numbers_of,
    refuse_lost_digits,
    told_apart,
    with_bins,
    without_missing,
)
from crosswind.data.tabular import NoValue, has_column, texts
from crosswind.data.written_numbers import thousands_note

if TYPE_CHECKING:
    from polars import DataFrame


@register("table", kind="source")
@dataclass(frozen=True)
class Table(PreparedSource):
    """A CSV or Parquet table over a folder of image files, one row an image. Its rows may be texts
    instead, as `texts` has it, or its columns may be the inputs.

    `path_column` holds the path of each image under the folder `images`, as people write paths:
    with backslashes, absolute, without an ending, or without the folders below (`FileFolder`).
    Every other column is an attribute unless `columns` names those that are. `unit` names a column whose equal values are
    kept in one role (a patient, a video); it is an attribute only where `columns` names it too.
    Values are in numeric order where all of a column are numbers, else sorted as text. A row
    without a value, a missing image and a path that leads out of the folder are refused when the
    table is loaded. A file that is no whole image when it is asked for. Images are turned as their
    EXIF data say, made RGB (transparency is dropped), and resized to `size` x `size` without
    keeping their proportions. The fingerprint counts the bytes of each image and does not read
    them. Decoded images are kept, see `crosswind.data.decoded_files`. For many images, prepare a
    copy and name its `root`: `crosswind prepare table --set path=TABLE --set images=FOLDER --root
    DIR`.
    """

    path: str = knob(doc="CSV (UTF-8, a first line of names) or Parquet file")
    images: str | None = knob(None, doc="folder of the images")
    text: str | list[str] | None = knob(
        None, doc="column that holds the texts, or columns of a text's parts, instead of images"
    )
    blank: str = knob(
        "refuse",
        domain="{refuse, leave-out}",
        doc="what becomes of rows without a text, or of white space alone, or without a picture",
    )
    numbers: list[str] | None = knob(
        None, doc="columns of numbers that are inputs, instead of images or texts"
    )
    categories: list[str] | None = knob(
        None, doc="columns of categories that are inputs, beside or instead of numbers"
    )
    bins: dict[str, Any] | None = knob(
        None, doc="column of numbers -> increasing numbers that part it into classes"
    )
    empty: str | None = knob(
        None,
        domain="{refuse, leave-out, value}",
        doc="what becomes of a row without a value in an attribute; refused by default",
    )
    path_column: str = knob(
        "path", doc="column that holds the path of each image, under the folder"
    )
    size: int = knob(64, domain="[4, 2048]", doc="side of the pictures in pixels")
    unit: str | None = knob(None, doc="column whose equal values belong together")
    columns: list[str] | None = knob(
        None, doc="which columns are attributes; all but path_column and unit by default"
    )
    header: list[str] | None = knob(
        None, doc="names of the columns of a CSV file whose first line is a row already"
    )

    own = ("path", "images")
    card = card_of("table")

    def read(self, folder: Path) -> Reading:
        """The data set: one row a line. Raises `InputError` for settings, `DataError` for what
        table or folder of images hold."""
        notes: list[str] = []
        rows = rows_of(self.path, "table", self.header, notes)
        try:
            reading = self.of(rows, self.path)
        except NoValue as error:
            name = "blank" if error.column == self.path_column else "empty"
            raise DataError(f"{error}; fill it in, or say {name}: leave-out") from None
        reading_notes = tuple(("", note) for note in notes)
        dataset = replace(reading.dataset, notes=(*reading.dataset.notes, *reading_notes))
        return replace(reading, dataset=dataset)

    def of(self, rows: DataFrame, path: str) -> Reading:
        """The data set of rows that are there already; `path` is what errors call the table."""
        self._check_inputs()
        raw = rows
        if self.bins is not None:
            rows = with_bins(rows, _mapping(self.bins, "table.bins"), path, "table.bins")
        attributes = self._attributes(rows, path)
        columns = [*attributes, *([self.unit] if self.unit else [])]
        rows, row_numbers, notes = without_missing(rows, columns, self.empty, "table.empty")
        if self.images is not None and self.blank == "leave-out":
            name = has_column(rows, self.path_column, path, "table.path_column")
            rows, with_path, path_notes = without_missing(rows, [name], "leave-out", "table.blank")
            row_numbers = row_numbers[with_path]
            notes += [("", sentence) for _, sentence in path_notes]
        if len(row_numbers) < raw.height:
            raw = raw[row_numbers.tolist()]
        if not rows.height:
            raise DataError(f"{path} has no row with a value in every attribute and an input")
        if self.text is not None:
            dataset = of_text_columns(
                rows, "table", path, self.text, self.columns, self.unit, self.blank
            )
            dataset = replace(dataset, ids=row_numbers[dataset.ids])
        elif self.images is not None:
            dataset = self._of_images(rows, row_numbers, path)
        else:
            dataset = self._of_numbers(rows, raw, attributes, row_numbers, path)
        dataset = replace(dataset, notes=(*dataset.notes, *notes))
        return Reading(dataset, {"all": dataset.n_base})

    def _check_inputs(self) -> None:
        """Refuse settings that name no inputs, or two kinds of them."""
        images = self.images is not None
        text = self.text is not None
        kinds = {
            "images": images,
            "text": text,
            "numbers or categories": self.numbers is not None or self.categories is not None,
        }
        if sum(kinds.values()) != 1:
            named = " and ".join(kind for kind, is_given in kinds.items() if is_given)
            raise InputError(
                "table.images",
                "name either the folder of the images here, or 'text', the column of texts, or"
                " 'numbers' and 'categories', columns that are inputs themselves"
                + (f"; {named} are named at once" if named else ""),
            )

    def _attributes(self, rows: DataFrame, path: str) -> list[str]:
        """The columns that are attributes."""
        if self.columns is not None:
            names = names_chosen(self.columns, "table.columns", "column")
            return [has_column(rows, name, path, "table.columns") for name in names]
        if isinstance(self.text, str):
            text = [self.text]
        else:
            text = self.text or []
        inputs = [*text, *(self.numbers or []), *(self.categories or []), self.unit]
        if self.images is not None:
            inputs += [self.path_column]
        return [name for name in rows.columns if name not in inputs]

    def _of_numbers(
        self,
        rows: DataFrame,
        raw: DataFrame,
        attributes: list[str],
        row_numbers: NDArray[np.int64],
        path: str,
    ) -> AttributedDataset:
        """The data set whose inputs are columns of the table; `raw`: its rows before numbers were
        put into classes."""
        chosen = {}
        for kind, names in (("numbers", self.numbers), ("categories", self.categories)):
            chosen[kind] = (
                []
                if names is None
                else [
                    has_column(rows, name, path, f"table.{kind}")
                    for name in names_chosen(names, f"table.{kind}", "column")
                ]
            )
        columns = input_columns(raw, chosen["numbers"], chosen["categories"], path)
        refuse_lost_digits(raw, chosen["numbers"], path)
        inputs, _ = input_array(raw, columns, path)
        dataset = of_columns(rows, "table", path, attributes, self.unit, ())
        number_notes: list[tuple[str, str]] = []
        for name in chosen["numbers"]:
            column = raw.get_column(name)
            lost = told_apart(column, numbers_of(raw, name, path))
            if lost:
                number_notes.append(("", f"{name}: {lost}"))
            if sentence := thousands_note(raw, name):
                number_notes.append(("", sentence))
        dataset = replace(
            dataset,
            ids=row_numbers,
            input_columns=columns,
            notes=(*dataset.notes, *number_notes),
        )
        spec = InputSpec.features(inputs.shape[1])
        return with_inputs(dataset, "table", inputs, spec)

    def _of_images(
        self, rows: DataFrame, row_numbers: NDArray[np.int64], path: str
    ) -> AttributedDataset:
        """The data set of image files that a column names."""
        images = str(self.images)
        top = Path(images).expanduser()
        if not top.is_dir():
            problem = "is not a folder" if top.exists() else "is a folder that does not exist"
            raise InputError("table.images", f"{self.images!r} {problem}")
        name = has_column(rows, self.path_column, path, "table.path_column")
        names = texts(rows, name, path).to_list()
        taken = (self.path_column,)
        plain = of_columns(
            rows, "table", path, self.columns, self.unit, taken, Path(self.path).stem
        )
        files = FileFolder(top, images).files_of(names, self.path_column, path, row_numbers)
        sizes = [os.stat(f"{top}/{file}").st_size for file in files]
        listed = np.frombuffer("\x1f".join(files).encode(), np.uint8)
        files_digest = digest_arrays({"names": listed, "bytes": np.array(sizes)})
        units_digest = None
        if plain.units is not None:
            units_digest = digest_arrays({"units": plain.units})
        row_sizes = np.array(sizes, dtype=np.int64)
        dataset = from_files(
            plain.name,
            plain.table,
            lambda row: top / files[row],
            lambda row: f"{path}, row {row_numbers[row] + 1}: {files[row]!r}",
            self.size,
            row_sizes,
            told={"source": "table", "files": files_digest, "units": units_digest},
            units=plain.units,
            distinct=plain.distinct,
            unit_doubts=plain.unit_doubts,
            notes=plain.notes,
            **named_files(top, files),
        )
        left_out = len(row_numbers) and int(row_numbers[-1]) + 1 > len(row_numbers)
        if left_out:
            return replace(dataset, ids=row_numbers)
        return dataset


@register("texts", kind="source")
@dataclass(frozen=True)
class Texts(Source):
    """A CSV or Parquet table with one row a text.

    `text` is the column of texts, read as they stand, or a list of the columns of a text's parts,
    such as a premise and a hypothesis. Every other column is an attribute unless `columns` names
    those that are. `unit` names a column whose equal values are kept in one role (an author, a
    product). Rows of one and the same text are kept in one role too. A row without a text, or with
    white space or invisible characters alone, is refused when the table is loaded, or left out, as
    `blank` says. The others keep their numbers. A text of more than 500,000 characters and a row
    without a value are refused. U+001F, which keeps parts apart, is read as a space.
    """

    path: str = knob(doc="CSV (UTF-8, a first line of names) or Parquet file")
    text: str | list[str] = knob(
        "text", doc="column that holds the texts, or columns of a text's parts, in order"
    )
    blank: str = knob(
        "refuse",
        domain="{refuse, leave-out}",
        doc="what becomes of rows without a text, or of white space alone",
    )
    unit: str | None = knob(None, doc="column whose equal values belong together")
    columns: list[str] | None = knob(
        None, doc="which columns are attributes; all but text and unit by default"
    )
    header: list[str] | None = knob(
        None, doc="names of the columns of a CSV file whose first line is a row already"
    )

    card = card_of("texts")

    def load(self) -> AttributedDataset:
        """The data set. Raises `InputError` for settings, `DataError` for what the table holds."""
        rows = rows_of(self.path, "texts", self.header)
        with _gaps_told():
            return of_text_columns(
                rows, "texts", self.path, self.text, self.columns, self.unit, self.blank
            )


@register("features", kind="source")
@dataclass(frozen=True)
class Features(Source):
    """A CSV or Parquet table with one row an example, whose inputs are numbers: embeddings,
    measurements, features of a network.

    `features` names an npy file of numbers [rows, d] in the order of the table. Or `numbers` lists
    columns of the table that hold numbers or, in Parquet, lists of them. They are held as float32.
    Every other column is an attribute unless `columns` names those that are. `unit` names a column
    whose equal values are kept in one role.
    """

    path: str = knob(doc="CSV (UTF-8, a first line of names) or Parquet file")
    features: str | None = knob(None, doc="npy file of numbers [rows, d] in the order of the table")
    numbers: list[str] | None = knob(None, doc="columns that hold the features, instead of a file")
    unit: str | None = knob(None, doc="column whose equal values belong together")
    columns: list[str] | None = knob(
        None, doc="which columns are attributes; all but numbers and unit by default"
    )
    header: list[str] | None = knob(
        None, doc="names of the columns of a CSV file whose first line is a row already"
    )

    card = card_of("features")

    def load(self) -> AttributedDataset:
        """The data set. Raises `InputError` for settings, `DataError` for what table or file
        hold."""
        if (self.features is None) == (self.numbers is None):
            raise InputError(
                "features.features",
                "give either an npy file here, or 'numbers', the columns that hold the features",
            )
        rows = rows_of(self.path, "features", self.header)
        if self.numbers is None:
            taken = []
        else:
            taken = names_chosen(self.numbers, "features.numbers", "column")
        # Before the attributes, which are all columns but these: a slip here would look like one of
        # a column that is no attribute.
        numbers = [_numbers(rows, name, self.path) for name in taken]
        with _gaps_told():
            dataset = of_columns(rows, "features", self.path, self.columns, self.unit, taken)
        if self.features is not None:
            features = read_features(self.features, dataset, "features.features")
        else:
            features = np.concatenate(numbers, axis=1)
        with np.errstate(over="ignore"):
            features = np.ascontiguousarray(features, dtype=np.float32)
        if not np.isfinite(features).all():
            row, column_number = np.argwhere(~np.isfinite(features))[0]
            problem = (
                f"{self.path}, row {row + 1}, feature {column_number + 1} is no finite number in"
                " float32"
            )
            raise DataError(problem)
        spec = InputSpec.features(features.shape[1])
        return with_inputs(dataset, "features", features, spec)


@register("factors", kind="source")
@dataclass(frozen=True)
class Factors(Source):
    """An attribute table without images: what a shift would take from data that are not here can be
    planned and counted.

    Either `grid`, attribute -> list of values (or a number V, for the values 0 to V-1), gives every
    combination `copies` rows, the last attribute varying fastest. Or `path` names a CSV or Parquet
    file whose columns are the attributes. With `split`, name -> rows a cell, every cell of the grid
    has those rows instead of `copies` and an attribute `split` says which is which. `title` is the
    name that the data set takes in plans and tables. Its images cannot be asked for.
    """

    path: str | None = knob(None, doc="CSV or Parquet file of attribute columns")
    grid: dict[str, Any] | None = knob(None, doc="attribute -> list of values, or their number")
    copies: int = knob(1, domain="[1, inf)", doc="rows in each cell of the grid")
    split: dict[str, int] | None = knob(
        None, doc="name -> rows in each cell: adds the attribute 'split'"
    )
    columns: list[str] | None = knob(
        None, doc="which columns of the file are attributes; all by default"
    )
    header: list[str] | None = knob(
        None, doc="names of the columns of a CSV file whose first line is a row already"
    )
    title: str | None = knob(None, doc="name of the data set")

    card = card_of("factors")

    def load(self) -> AttributedDataset:
        """The data set. Raises `InputError` for a grid that is none, `DataError` for a file that
        cannot be used."""
        if (self.path is None) == (self.grid is None):
            raise InputError("factors", "needs either a path or a grid")
        identity: dict[str, Any] = {"source": "factors"}
        if self.path is not None:
            if self.split is not None or self.copies != 1:
                raise InputError(
                    "factors", "copies and split belong to a grid, and a path is given"
                )
            rows = rows_of(self.path, "factors", self.header)
            with _gaps_told():
                table = of_columns(rows, "factors", self.path, self.columns, None, ()).table
            identity["table"] = table.digest()
        else:
            for name in ("columns", "header"):
                if getattr(self, name) is not None:
                    raise InputError(f"factors.{name}", "belongs to a path, and a grid is given")
            table = self._table_of_grid()
            identity["attributes"] = [
                [attribute.name, list(attribute.values)] for attribute in table.attributes
            ]
            identity["copies"] = self.copies
            identity["split"] = None if self.split is None else list(self.split.items())
        fingerprint = digest(identity)
        return AttributedDataset(
            self.title or "factors", table, fingerprint=fingerprint, origin=f"factors {fingerprint}"
        )

    def _table_of_grid(self) -> AttributeTable:
        if not isinstance(self.grid, Mapping) or not self.grid:
            raise InputError(
                "factors.grid", f"must map attributes to their values, not {shown(self.grid)}"
            )
        attributes = [_attribute(name, values) for name, values in self.grid.items()]
        shape = [len(attribute) for attribute in attributes]
        counts = [self.copies]
        if self.split is not None:
            counts = self._rows_of_split()
            if "split" in self.grid:
                raise InputError(
                    "factors.grid", "an attribute cannot be named 'split' where split is given"
                )
            attributes.append(_attribute("split", list(self.split), "factors.split"))
        total = math.prod(shape) * sum(counts)
        if not 1 <= total <= MOST_ROWS:
            raise InputError(
                "factors.grid", f"makes {total:,} rows, and must make 1 to {MOST_ROWS:,}"
            )
        kind = np.min_scalar_type(max([*shape, len(counts)]))
        cells = np.indices(shape, dtype=kind).reshape(len(shape), -1)
        codes = np.repeat(cells, sum(counts), axis=1)
        if self.split is not None:
            inside = np.repeat(np.arange(len(counts)), counts).astype(kind)
            codes = np.concatenate([codes, np.tile(inside, cells.shape[1])[None]])
        return AttributeTable(tuple(attributes), codes)

    def _rows_of_split(self) -> list[int]:
        if not isinstance(self.split, Mapping):
            raise InputError(
                "factors.split", f"must map names to rows in each cell, not {shown(self.split)}"
            )
        if self.copies != 1:
            raise InputError(
                "factors.copies",
                "cannot be given together with split, which says how many rows a cell has",
            )
        for name, count in self.split.items():
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_ROWS:
                problem = f"must be a whole number of rows up to {MOST_ROWS:,}, not {shown(count)}"
                raise InputError(f"factors.split.{name}", problem)
        return list(self.split.values())


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    """The setting, if it maps names of columns."""
    if not isinstance(value, Mapping) or not value:
        raise InputError(field, f"must map columns to numbers, not {shown(value)}")
    return value


def _attribute(name: str, values: object, field: str = "") -> Attribute:
    field = field or f"factors.grid.{name}"
    if isinstance(values, int) and not isinstance(values, bool) and 1 <= values <= MOST_VALUES:
        values = range(values)
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        problem = (
            f"must be a list of values or their number, 1 to {MOST_VALUES:,}, not {shown(values)}"
        )
        raise InputError(field, problem)
    if any(value is None or isinstance(value, list | dict) or value != value for value in values):
        raise InputError(field, f"must be a list of texts and numbers, not {shown(list(values))}")
    try:
        return Attribute(str(name), tuple(values))
    except InputError as error:
        raise InputError(field, error.problem, error.choices) from None


@contextmanager
def _gaps_told() -> Iterator[None]:
    """A cell without a value is refused with what to do about its column."""
    try:
        yield
    except NoValue as error:
        remedy = "fill it in, or leave the column out: 'columns' names those that are attributes"
        raise DataError(f"{error}; {remedy}") from None


def _numbers(rows: DataFrame, name: str, path: str) -> NDArray[Any]:
    """A column of numbers, or of lists of equally many, as float64 [rows, d]."""
    import polars

    column = rows.get_column(has_column(rows, name, path, "features.numbers"))
    try:
        if column.dtype.is_nested():
            values = np.array(column.to_list(), dtype=np.float64)
        else:
            values = column.cast(polars.Float64).to_numpy()[:, None]
    except (polars.exceptions.PolarsError, ValueError, TypeError) as error:
        problem = f"{path}, column {name!r} cannot be read as numbers: {one_line(str(error), 200)}"
        raise DataError(problem) from None
    if values.ndim != 2 or not values.shape[1]:
        raise DataError(f"{path}, column {name!r} holds lists of different lengths, or of none")
    return values
