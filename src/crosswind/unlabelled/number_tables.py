"""Tables of numbers that somebody hands over, as files, frames and arrays, for a model that reads
numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, shown
from crosswind.core.types import InputColumn, InputSpec
from crosswind.data.dataset import AttributedDataset
from crosswind.data.frames import frame_of
from crosswind.data.sources.columns import of_columns, with_inputs
from crosswind.data.table_inputs import coded_texts, input_array, numbers_of, truths_as_numbers
from crosswind.unlabelled.model_columns import ModelColumns

if TYPE_CHECKING:
    from polars import DataFrame

LABEL = "label"
"""The column of labels that stand beside an array."""
LABELLED_FORMS = "a frame with a column of labels, or a pair of inputs and labels"


@dataclass(frozen=True)
class NumberTable:
    """The rows of a table with the columns that a model reads, in its order, those that it does
    not, and sentences about values that it does not know."""

    dataset: AttributedDataset
    columns: tuple[str, ...]
    unread: tuple[str, ...]
    notes: tuple[str, ...]


def label_beside(names: Sequence[str]) -> str:
    """A name for a column of labels that none of the classes has."""
    label = LABEL
    while label in names:
        label = f"_{label}"
    return label


def is_frame(rows: Any) -> bool:
    """Whether rows are a frame, a mapping, an array, a tensor or a list of the program."""
    room = type(rows).__module__.partition(".")[0]
    in_room = room in ("polars", "pandas", "pyarrow", "numpy", "scipy")
    return in_room or isinstance(rows, dict | list) or hasattr(rows, "detach")


def rows_of_program(rows: Any, field: str) -> Any:
    """Rows of a program as a classifier is given them: a tensor and a list of numbers as an array, a
    list of texts and anything else as they are. Raises `InputError` for rows of several lengths."""
    if hasattr(rows, "detach"):
        return rows.detach().cpu().numpy()
    if not isinstance(rows, list | tuple) or all(isinstance(value, str) for value in rows):
        return rows
    try:
        return np.asarray(rows)
    except ValueError:
        raise InputError(field, "is a list of rows of several lengths") from None


def row_count(rows: Any) -> int:
    """How many rows an array, a sparse one, a frame or a list has."""
    shape = getattr(rows, "shape", None)
    return int(shape[0]) if shape else len(rows)


def has_column_names(rows: Any) -> bool:
    """Whether rows are a frame or a mapping, whose columns have names."""
    room = type(rows).__module__.partition(".")[0]
    return room in ("polars", "pandas", "pyarrow") or isinstance(rows, dict)


def cells_of(frame: DataFrame, name: str) -> list[Any]:
    """The cells of a column: numbers where all are some, NaN for a missing one, else as they
    are."""
    try:
        numbers: list[Any] = numbers_of(frame, name, "").tolist()
    except DataError:
        cells: list[Any] = frame.get_column(name).to_list()
        return cells
    return numbers


def number_table(
    frame: DataFrame, name: str, field: str, label: str | None, columns: ModelColumns
) -> NumberTable:
    """The inputs of a frame, float32 [n, d], NaN where a number is missing, with its column of
    labels as the one attribute.

    `name`: what errors call the frame; `label`: None where labels are not to be read. Raises
    `InputError`, `DataError`.
    """
    import polars

    if label is None:
        attributes = polars.DataFrame({"rows": ["-"] * frame.height})
    else:
        attributes = frame.select(label)
        columns = replace(columns, label=label)
    names = columns.of(frame, name, field)
    input_columns: tuple[InputColumn, ...] = ()
    if columns.texts is not None:
        input_columns, inputs = _column_inputs(frame, names, columns, columns.texts, name)
        notes: tuple[str, ...] = ()
    else:
        inputs, notes = input_array(frame, columns.inputs(names), name)
    rows = of_columns(attributes, field, name, None, None, ())
    dataset = with_inputs(rows, field, inputs, InputSpec.features(inputs.shape[1]))
    dataset = replace(dataset, input_columns=input_columns)
    unread = [column for column in frame.columns if column not in (*names, columns.label)]
    return NumberTable(dataset, tuple(names), tuple(unread), notes)


def _column_inputs(
    frame: DataFrame,
    names: Sequence[str],
    columns: ModelColumns,
    text_names: Sequence[str],
    table: str,
) -> tuple[tuple[InputColumn, ...], NDArray[np.float32]]:
    """The inputs, float32 [n, columns], of a network with an input a column, of which some take
    texts."""
    input_columns = []
    arrays = []
    for name, model_name in zip(names, columns.names or (), strict=True):
        if model_name in text_names:
            column, array = coded_texts(frame, name, table, columns.model)
        else:
            column = InputColumn(name)
            array, _ = input_array(truths_as_numbers(frame, name), [column], table)
        # The network finds its columns by its own names, in whatever order they were chosen.
        input_columns.append(replace(column, name=model_name))
        arrays.append(array)
    return tuple(input_columns), np.concatenate(arrays, axis=1)


def table_of_memory(
    rows: Any, field: str, label: str | None, columns: ModelColumns
) -> tuple[DataFrame, str | None]:
    """A frame, an array [n, d], or a pair of one of these and labels, as a frame, with the name of
    its column of labels. Raises `InputError`, `DataError`."""
    if not isinstance(rows, tuple):
        if label is not None and type(rows).__module__.startswith("numpy"):
            raise InputError(field, f"must be {LABELLED_FORMS}, not {shown(rows)}")
        return _frame(rows, field, columns), label
    if len(rows) != 2 or label is None:
        raise InputError(
            field, f"must be {LABELLED_FORMS if label is not None else 'a frame or an array'}"
        )
    inputs, labels = rows
    frame = _frame(inputs, field, columns)
    values = [str(value) for value in np.asarray(labels).tolist()]
    if len(values) != frame.height:
        raise InputError(field, f"has {frame.height:,} rows of inputs and {len(values):,} labels")
    import polars

    return frame.with_columns(polars.Series(label or LABEL, values)), label or LABEL


def _frame(inputs: Any, field: str, columns: ModelColumns) -> DataFrame:
    """A frame as it is; an array under the names that the model has for its columns."""
    if not type(inputs).__module__.startswith(("numpy", "scipy")):
        return frame_of(inputs, field)
    array = np.asarray(inputs)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        problem = (
            f"must be a frame or an array of numbers [n, d], not {array.dtype} {list(array.shape)}"
        )
        raise InputError(field, problem)
    names = _names_of_array(array.shape[1], columns)
    return frame_of({name: array[:, code] for code, name in enumerate(names)}, field)


def _names_of_array(width: int, columns: ModelColumns) -> Sequence[str]:
    if columns.chosen is None and columns.names is not None and len(columns.names) == width:
        return columns.names
    return [f"column{code + 1}" for code in range(width)]
