"""The user's own features: a table of attributes, and numbers for each of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, InputError, one_line
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.data.clusters import read_features
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source, names_chosen, of_columns, with_inputs
from crosswind.data.tabular import has_column, read_table

if TYPE_CHECKING:
    from polars import DataFrame


@register("features", kind="source")
@dataclass(frozen=True)
class Features(Source):
    """A CSV or Parquet table with one row an example, whose inputs are numbers: embeddings, measurements, features of a network.

    Either `features` names an npy file of numbers [rows, d] in the order of the table, or `numbers` lists columns of the table that
    hold numbers or, in Parquet, lists of them. They are held as float32. Every other column is an attribute unless `columns` names
    those that are. `unit` names a column whose equal values are kept in one role.
    """

    path: str = knob(doc="CSV (UTF-8, commas, a first line of names) or Parquet file")
    features: str | None = knob(None, doc="npy file of numbers [rows, d] in the order of the table")
    numbers: list[str] | None = knob(None, doc="columns that hold the features, instead of a file")
    unit: str | None = knob(None, doc="column whose equal values belong together")
    columns: list[str] | None = knob(None, doc="which columns are attributes; all but numbers and unit by default")

    card = card_of("features")

    def load(self) -> AttributedDataset:
        """The data set. Raises `InputError` for settings, `DataError` for what table or file hold."""
        if (self.features is None) == (self.numbers is None):
            raise InputError("features.features", "give either an npy file here, or 'numbers', the columns that hold the features")
        rows = read_table(self.path, "features.path")
        taken = [] if self.numbers is None else names_chosen(self.numbers, "features.numbers", "column")
        dataset = of_columns(rows, "features", self.path, self.columns, self.unit, taken)
        if self.features is not None:
            held = read_features(self.features, dataset, "features.features")
        else:
            held = np.concatenate([_numbers(rows, name, self.path) for name in taken], axis=1)
        with np.errstate(over="ignore"):
            held = np.ascontiguousarray(held, dtype=np.float32)
        if not np.isfinite(held).all():
            row, place = np.argwhere(~np.isfinite(held))[0]
            raise DataError(f"{self.path}, row {row + 1}, feature {place + 1} is no finite number in float32")
        return with_inputs(dataset, "features", held, InputSpec.features(held.shape[1]))


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
        raise DataError(f"{path}, column {name!r} cannot be read as numbers: {one_line(str(error), 200)}") from None
    if values.ndim != 2 or not values.shape[1]:
        raise DataError(f"{path}, column {name!r} holds lists of different lengths, or of none")
    return values
