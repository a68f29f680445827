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
    own = dataset.input_columns
    if not own or tuple(columns) == own or any(column.coded for column in (*columns, *own)):
        return dataset, ()
    begins = np.cumsum([0, *(column.width for column in own)])
    begin_of = {column.name: int(begin) for column, begin in zip(own, begins, strict=False)}
    own_of = {column.name: column for column in own}
    missing = [column.name for column in columns if column.name not in own_of]
    if missing:
        raise InputError(
            field,
            f"{dataset.name} lacks {counted(len(missing), 'column')} that {reader} reads:"
            f" {', '.join(missing[:8])}",
            list(own_of),
        )
    positions: list[int] = []
    notes = []
    for column in columns:
        of_data = own_of[column.name]
        begin = begin_of[column.name]
        if column.values is None and of_data.values is None:
            positions.append(begin)
            continue
        if column.values is None or of_data.values is None:
            raise InputError(
                field,
                f"{reader} reads {column.name!r} as {_kind(column)}, and in {dataset.name} it is"
                f" {_kind(of_data)}",
            )
        code_of = {value: begin + code for code, value in enumerate(of_data.values)}
        positions += [code_of.get(value, -1) for value in column.values]
        others = [value for value in of_data.values if value not in column.values]
        if others:
            notes.append(
                f"{dataset.name} has in {column.name!r} values that {reader} was not trained on, such"
                f" as {shown(others[0])}: they count as missing"
            )
    return _with_inputs(dataset, tuple(columns), np.array(positions)), tuple(notes)


def _kind(column: InputColumn) -> str:
    return "numbers" if column.values is None else "a category"


def _with_inputs(
    dataset: AttributedDataset, columns: tuple[InputColumn, ...], positions: NDArray[np.int64]
) -> AttributedDataset:
    """A data set of features with others of its inputs. `positions`: of each new input among the
    old ones, -1 for one that is 0 in every row."""
    read = dataset.read
    assert read is not None
    there = positions >= 0

    def read_aligned(rows: NDArray[np.int64]) -> NDArray[Any]:
        inputs = read(rows)
        aligned_inputs = np.zeros((len(inputs), len(positions)), dtype=np.float32)
        aligned_inputs[:, there] = inputs[:, positions[there]]
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
