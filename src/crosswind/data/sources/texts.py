"""The user's own texts: a table with a column of texts and columns of attributes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source, of_columns, with_inputs
from crosswind.data.tabular import has_column, read_table


@register("texts", kind="source")
@dataclass(frozen=True)
class Texts(Source):
    """A CSV or Parquet table with one row a text.

    `text` is the column of texts, read as they stand; every other column is an attribute unless `columns` names those that are.
    `unit` names a column whose equal values are kept in one role (an author, a product). Rows of one and the same text are kept in
    one role too. An empty text is a text; a row without one, or without a value, is refused when the table is loaded.
    """

    path: str = knob(doc="CSV (UTF-8, commas, a first line of names) or Parquet file")
    text: str = knob("text", doc="column that holds the texts")
    unit: str | None = knob(None, doc="column whose equal values belong together")
    columns: list[str] | None = knob(None, doc="which columns are attributes; all but text and unit by default")

    card = card_of("texts")

    def load(self) -> AttributedDataset:
        """The data set. Raises `InputError` for settings, `DataError` for what the table holds."""
        import polars

        rows = read_table(self.path, "texts.path")
        column = rows.get_column(has_column(rows, self.text, self.path, "texts.text"))
        if column.dtype != polars.String:
            raise DataError(f"{self.path}, column {self.text!r} holds {str(column.dtype).lower()} values, and not texts")
        missing = column.is_null().arg_true()
        if len(missing):
            raise DataError(f"{self.path}, column {self.text!r}, row {missing[0] + 1} has no text")
        dataset = of_columns(rows, "texts", self.path, self.columns, self.unit, (self.text,))
        held = column.to_numpy().astype(object)
        hashes = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in held)
        return with_inputs(dataset, "texts", held, InputSpec.text(), np.frombuffer(hashes, dtype=np.uint64))
