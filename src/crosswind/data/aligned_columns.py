"""The inputs of one table in the columns of another: by their names, and categories by their
values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, counted, shown
from crosswind.core.types import InputColumn, InputSpec, digest
from crosswind.data.dataset import AttributedDataset


def aligned(
    dataset: AttributedDataset, columns: Sequence[InputColumn], reader: str, field: str
) -> tuple[AttributedDataset, tuple[str, ...]]:
    """A data set with the inputs `columns`, in this order, and a sentence for each category that has
    values which these have not: they count as missing.

    A data set whose inputs are no columns of a table is left as it is. `reader`: what errors call
    the model that reads the columns. Raises `InputError` on `field` for a column that is missing,
    and for one of another kind.
    """
    if not dataset.input_columns or tuple(columns) == dataset.input_columns:
        return dataset, ()
    if any(column.coded for column in (*columns, *dataset.input_columns)):
        return dataset, ()
    begin_of, column_of = {}, {}
    width = 0
    for column in dataset.input_columns:
        begin_of[column.name], column_of[column.name] = width, column
        width += column.width
    absent_names = [column.name for column in columns if column.name not in column_of]
    if absent_names:
        raise InputError(
            field,
            f"{dataset.name} lacks {counted(len(absent_names), 'column')} that {reader} reads:"
            f" {', '.join(absent_names[:8])}",
            list(column_of),
        )
    positions: list[int] = []
    notes = []
    for column in columns:
        of_data = column_of[column.name]
        if (column.values is None) != (of_data.values is None):
            raise InputError(
                field,
                f"{reader} reads {column.name!r} as {_kind(column)}, and in {dataset.name} it is"
                f" {_kind(of_data)}",
            )
        places, unknown_value = _places(column, of_data, begin_of[column.name])
        positions += places
        if unknown_value is not None:
            notes.append(
                f"{dataset.name} has in {column.name!r} values that {reader} was not trained on, such"
                f" as {shown(unknown_value)}: they count as missing"
            )
    return _with_inputs(dataset, tuple(columns), np.array(positions)), tuple(notes)


def _places(column: InputColumn, of_data: InputColumn, begin: int) -> tuple[list[int], str | None]:
    """Where the inputs of a column lie among those of a data set, whose column of the name begins
    at `begin`, -1 for a value that it has not; and a value of the data set's that the column has
    not."""
    if column.values is None or of_data.values is None:
        return [begin], None
    code_of = {value: begin + code for code, value in enumerate(of_data.values)}
    new_values = (value for value in of_data.values if value not in column.values)
    return [code_of.get(value, -1) for value in column.values], next(new_values, None)


def _kind(column: InputColumn) -> str:
    return "numbers" if column.values is None else "a category"


def _with_inputs(
    dataset: AttributedDataset, columns: tuple[InputColumn, ...], positions: NDArray[np.int64]
) -> AttributedDataset:
    """A data set of features with others of its inputs. `positions`: of each new input among the
    old ones, -1 for one that is 0 in every row."""
    inputs_of = dataset.read
    assert inputs_of is not None
    present = positions >= 0

    def read_aligned(rows: NDArray[np.int64]) -> NDArray[Any]:
        inputs = inputs_of(rows)
        aligned_inputs = np.zeros((len(inputs), len(positions)), dtype=np.float32)
        aligned_inputs[:, present] = inputs[:, positions[present]]
        return aligned_inputs

    return replace(
        dataset,
        read=read_aligned,
        input=InputSpec.features(len(positions)),
        input_columns=columns,
        fingerprint=digest({"of": dataset.fingerprint, "inputs": positions.tolist()}),
    )


def columns_as_values(columns: Sequence[InputColumn]) -> list[dict[str, Any]]:
    """Columns as plain values: a name, and the values of a category."""
    return [
        {"name": column.name} | ({} if column.values is None else {"values": list(column.values)})
        for column in columns
    ]


def columns_of_values(values: Sequence[Mapping[str, Any]]) -> list[InputColumn]:
    """The columns that `columns_as_values` wrote."""
    return [
        InputColumn(entry["name"], tuple(entry["values"]) if "values" in entry else None)
        for entry in values
    ]
