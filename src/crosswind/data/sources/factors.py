"""Attributes without images: a full grid of cells, or the columns of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosswind.core.cards import card_of
from crosswind.core.errors import InputError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest
from crosswind.data.attributes import MOST_ROWS, MOST_VALUES, Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source
from crosswind.data.tabular import attribute_table, has_column, read_table

SPLIT = "split"


@register("factors", kind="source")
@dataclass(frozen=True)
class Factors(Source):
    """An attribute table without images: what a shift would take from data that are not here can be planned and counted.

    Either `grid`, attribute -> list of values (or a number V, for the values 0 to V-1), gives every combination `copies` rows, the
    last attribute varying fastest; or `path` names a CSV or Parquet file whose columns are the attributes. With `split`, name ->
    rows a cell, every cell of the grid has those rows instead of `copies` and an attribute `split` says which is which.
    `title` is the name that the data set takes in plans and tables. Its images cannot be asked for.
    """

    path: str | None = knob(None, doc="CSV or Parquet file of attribute columns")
    grid: dict[str, Any] | None = knob(None, doc="attribute -> list of values, or their number")
    copies: int = knob(1, domain="[1, inf)", doc="rows in each cell of the grid")
    split: dict[str, int] | None = knob(None, doc="name -> rows in each cell: adds the attribute 'split'")
    columns: list[str] | None = knob(None, doc="which columns of the file are attributes; all by default")
    title: str | None = knob(None, doc="name of the data set")

    card = card_of("factors")

    def load(self) -> AttributedDataset:
        """The data set. Raises `InputError` for a grid that is none, `DataError` for a file that cannot be used."""
        if (self.path is None) == (self.grid is None):
            problem = "and has neither" if self.path is None else "not both"
            raise InputError("factors", f"needs either a path or a grid, {problem}")
        title = self.title or "factors"
        if self.path is not None:
            if self.split is not None or self.copies != 1:
                raise InputError("factors", "copies and split belong to a grid, and a path is given")
            table = self._table_of_file(self.path)
            made = digest({"source": "factors", "table": table.digest()})
            return AttributedDataset(title, table, fingerprint=made, origin=f"factors {made}")
        if self.columns is not None:
            raise InputError("factors.columns", "belongs to a path, and a grid is given")
        attributes, codes = self._grid()
        told = {
            "source": "factors",
            "attributes": [[attribute.name, list(attribute.values)] for attribute in attributes],
            "copies": self.copies,
            "split": None if self.split is None else list(self.split.items()),
        }
        made = digest(told)
        return AttributedDataset(title, AttributeTable(attributes, codes), fingerprint=made, origin=f"factors {made}")

    def _table_of_file(self, path: str) -> AttributeTable:
        rows = read_table(path, "factors.path")
        wanted = rows.columns if self.columns is None else self.columns
        if not isinstance(wanted, list) or not wanted:
            raise InputError("factors.columns", f"must be a list of columns, not {wanted!r}", rows.columns)
        return attribute_table(rows, [has_column(rows, name, path, "factors.columns") for name in wanted], path)

    def _grid(self) -> tuple[tuple[Attribute, ...], np.ndarray[Any, np.dtype[Any]]]:
        if not isinstance(self.grid, Mapping) or not self.grid:
            raise InputError("factors.grid", f"must map attributes to their values, not {shown(self.grid)}")
        attributes = [_attribute(name, values) for name, values in self.grid.items()]
        shape = [len(attribute) for attribute in attributes]
        inside = self._split_codes(attributes)
        copies = self.copies if inside is None else len(inside)
        total = math.prod(shape) * copies
        if total > MOST_ROWS:
            raise InputError("factors.grid", f"makes {total:,} rows, more than {MOST_ROWS:,}")
        kind = np.min_scalar_type(max([*shape, 0 if self.split is None else len(self.split)]))
        cells = np.indices(shape, dtype=kind).reshape(len(shape), -1)
        codes = np.repeat(cells, copies, axis=1)
        if inside is None or self.split is None:
            return tuple(attributes), codes
        attributes.append(Attribute(SPLIT, tuple(self.split)))
        return tuple(attributes), np.concatenate([codes, np.tile(inside.astype(kind), cells.shape[1])[None]])

    def _split_codes(self, attributes: Sequence[Attribute]) -> np.ndarray[Any, np.dtype[np.int64]] | None:
        if self.split is None:
            return None
        if not isinstance(self.split, Mapping) or not self.split:
            raise InputError("factors.split", f"must map names to rows in each cell, not {shown(self.split)}")
        if self.copies != 1:
            raise InputError("factors.copies", "cannot be given together with split, which says how many rows a cell has")
        if SPLIT in [attribute.name for attribute in attributes]:
            raise InputError("factors.grid", f"an attribute cannot be named {SPLIT!r} where split is given")
        if len(self.split) > MOST_VALUES:
            raise InputError("factors.split", f"names {len(self.split):,} parts, more than {MOST_VALUES:,}")
        for name, count in self.split.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise InputError(f"factors.split.{name}", f"must be a whole number of rows, not {shown(count)}")
            if count > MOST_ROWS:
                raise InputError(f"factors.split.{name}", f"makes {count:,} rows a cell, more than {MOST_ROWS:,} in all")
        if not sum(self.split.values()):
            raise InputError("factors.split", "gives no rows to any cell")
        return np.repeat(np.arange(len(self.split)), list(self.split.values()))


def _attribute(name: str, values: object) -> Attribute:
    field = f"factors.grid.{name}"
    if isinstance(values, int) and not isinstance(values, bool):
        if not 1 <= values <= MOST_VALUES:
            raise InputError(field, f"must have at least one value and at most {MOST_VALUES:,} values, not {values:,}")
        values = range(values)
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InputError(field, f"must be a list of values or their number, not {shown(values)}")
    if any(value is None or isinstance(value, list | dict) or value != value for value in values):
        raise InputError(field, f"must be a list of texts and numbers, not {shown(list(values))}")
    try:
        return Attribute(str(name), tuple(values))
    except InputError as error:
        raise InputError(field, error.problem, error.choices) from None
