"""From the columns of a user's table to a data set: attributes, units, texts, and inputs that are
held as an array."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, counted
from crosswind.core.types import InputSpec, digest, digest_arrays
from crosswind.data.contents import number_hashes, picture_hashes
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import names_chosen
from crosswind.data.sources.packed_texts import contents_of, joined
from crosswind.data.spellings import UnitDoubts
from crosswind.data.tabular import Notes, attribute_table, has_column, read_table, unit_codes

if TYPE_CHECKING:
    from polars import DataFrame, Series

EQUAL_NUMBERS = (
    "rows of equal numbers are not taken as copies, since numbers of so few values, or a row that"
    " so many repeat, are equal by chance: name a unit where they are of one thing"
)
"""What a plan says of features whose equal rows tell nothing."""
LEAVE_BLANK_OUT = "blank: leave-out"
"""The setting of a source by which rows without a text are left out."""
MOST_CHARACTERS = 500_000
"""Of a text: more than a novel has."""


def rows_of(
    path: str, source: str, header: list[str] | None, notes: list[str] | None = None
) -> DataFrame:
    """The rows of a table, under the names of a setting where it has none itself; `notes` as in
    `read_table`."""
    names = None
    if header is not None:
        names = names_chosen(header, f"{source}.header", "name")
    return read_table(path, f"{source}.path", names, notes=notes)


def of_columns(
    rows: DataFrame,
    source: str,
    path: str,
    columns: list[str] | None,
    unit: str | None,
    taken: Sequence[str],
    name: str | None = None,
) -> AttributedDataset:
    """The attributes of a user's table, without inputs, under `name`, by default that of the file
    `path`.

    `columns`: which columns are attributes; None: all but `unit` and `taken`.

    Raises `InputError` on settings of the `source`, `DataError` for what the columns hold.
    """
    units: NDArray[np.int64] | None = None
    doubts: UnitDoubts | None = None
    unit_notes: Notes = ()
    if unit is not None:
        units, doubts, unit_notes = unit_codes(
            rows, has_column(rows, unit, path, f"{source}.unit"), path
        )
    if columns is None:
        chosen = [name for name in rows.columns if name not in (*taken, unit)]
        if not chosen:
            raise DataError(f"{path} has no column of attributes")
    else:
        field = f"{source}.columns"
        chosen = [
            has_column(rows, name, path, field) for name in names_chosen(columns, field, "column")
        ]
    table, notes = attribute_table(rows, chosen, path)
    options: dict[str, Any] = {
        "distinct": frozenset(),
        "unit_doubts": doubts,
        "notes": (*unit_notes, *notes),
    }
    return AttributedDataset(name or Path(path).stem, table, units=units, **options)


def of_text_columns(
    rows: DataFrame,
    source: str,
    path: str,
    text: object,
    columns: list[str] | None,
    unit: str | None,
    blank: str,
) -> AttributedDataset:
    """The data set of a user's table of texts; see `Texts`. Raises `InputError` on settings of the
    `source`, `DataError`."""
    field = f"{source}.text"
    if isinstance(text, str):
        text_columns = [text]
    else:
        text_columns = names_chosen(text, field, "column")
    has_text = np.ones(rows.height, dtype=bool)
    for column in text_columns:
        name = has_column(rows, column, path, field)
        has = _has_text(rows, name, path)
        if blank == "refuse" and not has.all():
            may_be_left_out = source in ("table", "texts")
            _refuse_blank(rows, column, path, np.flatnonzero(~has), may_be_left_out)
        has_text &= has
    ids = np.flatnonzero(has_text)
    if not ids.size:
        raise DataError(f"{path} has no row with a text")
    rows = rows.filter(has_text)
    column_texts = [_plain(rows, column).to_list() for column in text_columns]
    joined_texts = np.empty(len(ids), dtype=object)
    joined_texts[:] = [joined(row) for row in zip(*column_texts, strict=True)]
    dataset = replace(of_columns(rows, source, path, columns, unit, text_columns), ids=ids)
    return with_inputs(dataset, "texts", joined_texts, InputSpec.text(), contents_of(joined_texts))


def _refuse_blank(
    rows: DataFrame, name: str, path: str, row_numbers: NDArray[np.int64], may_be_left_out: bool
) -> None:
    blank_words = "no text"
    if rows[name][int(row_numbers[0])]:
        blank_words = "a text of white space alone"
    other_rows = ""
    if row_numbers.size > 1:
        other_rows = f" ({counted(row_numbers.size - 1, 'more such row')})"
    advice = f", or say {LEAVE_BLANK_OUT}" if may_be_left_out else ""
    problem = (
        f"{path}, column {name!r}, row {row_numbers[0] + 1} has {blank_words}{other_rows}; take it"
        f" out{advice}"
    )
    raise DataError(problem)


def _plain(rows: DataFrame, name: str) -> Series:
    """A column as it is, but for texts that are held as numbers of a list of them: pandas'
    categories are written so."""
    import polars

    column = rows.get_column(name)
    if column.dtype in (polars.Categorical, polars.Enum):
        return column.cast(polars.String)
    return column


def blank_texts(column: Series) -> Series:
    """Which cells of a column of text hold none, or white space and invisible characters alone."""
    return column.is_null() | ~column.str.contains(r"[^\s\p{Cc}\p{Cf}]")


def _has_text(rows: DataFrame, name: str, path: str) -> NDArray[np.bool_]:
    """Which rows have a text in a column. Raises `DataError` for a column of something else."""
    import polars

    column = _plain(rows, name)
    where = f"{path}, column {name!r}"
    if column.dtype != polars.String:
        problem = f"{where} holds {str(column.dtype).lower()} values, and not texts"
        raise DataError(problem)
    blank = blank_texts(column).to_numpy()
    if (
        blank.all() or not column.filter(~blank).cast(polars.Float64, strict=False).is_null().any()
    ):  # a CSV table has no types
        raise DataError(f"{where} holds {'no text' if blank.all() else 'numbers, and not texts'}")
    lengths = column.str.len_chars().fill_null(0).to_numpy()
    if lengths.max() > MOST_CHARACTERS:
        row = int(lengths.argmax())
        much = f"a text of {lengths[row]:,} characters, more than the {MOST_CHARACTERS:,} allowed"
        raise DataError(
            f"{where}, row {row + 1} has {much}; is a quote missing, or should it be cut?"
        )
    return ~blank


def with_inputs(
    dataset: AttributedDataset,
    source: str,
    inputs: NDArray[Any],
    spec: InputSpec,
    contents: NDArray[np.uint64] | None = None,
) -> AttributedDataset:
    """The data set of a user's table with its inputs, an array of rows; `contents` as in
    `AttributedDataset`, made here of numbers and pictures, while the whole is hashed."""
    arrays = {"inputs": inputs if contents is None else contents}
    arrays |= {} if dataset.units is None else {"units": dataset.units}
    if not np.array_equal(dataset.ids, np.arange(dataset.n_base)):
        arrays |= {"ids": dataset.ids}
    notes = dataset.notes
    with ThreadPoolExecutor(1) as beside:
        arrays_digest = beside.submit(digest_arrays, arrays)
        if contents is None:
            if spec.kind == "image":
                contents = picture_hashes(inputs)
            else:
                contents = number_hashes(inputs)
            if contents is None:
                notes = (*notes, ("", EQUAL_NUMBERS))
        table_digest = dataset.table.digest()
        fingerprint = digest(
            {"source": source, "table": table_digest, "arrays": arrays_digest.result()}
        )
    origin = f"{source} {fingerprint}"
    return replace(
        dataset,
        read=inputs.__getitem__,
        input=spec,
        contents=contents,
        fingerprint=fingerprint,
        origin=origin,
        notes=notes,
    )
