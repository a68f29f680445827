"""Which cell each row is in, and rows sorted by cell and hash: the two costs that a data set has
once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.data.attributes import DerivedAttribute
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells

MOST_CELLS = 20_000_000  # an array of 8 bytes over all cells is 160 MB, and a plan holds several


class CellIndex:
    """The cells of a data set under a label and some attributes.

    `cells`: the cells, the derived attribute, if it is among them, last. `n_values`: its number of
    values, else 1. `codes` unsigned [n]: the base cell of each base row, in C order; a base cell is
    a cell without its derived axis. `counts` int64 [base cells]: its number of base rows. Cost: 2
    ms for 737,280 rows.
    """

    def __init__(
        self,
        dataset: AttributedDataset,
        label: str,
        attributes: Sequence[str],
        field: str = "attributes",
    ) -> None:
        derived_name = None if dataset.derived is None else dataset.derived.name
        base_names = [name for name in attributes if name != derived_name]
        if label == derived_name:
            raise InputError(
                "label", f"the derived attribute {label!r} cannot be the label", dataset.table.names
            )
        names = base_names
        self.n_values = 1
        if dataset.derived is not None and len(base_names) < len(attributes):
            names = [*base_names, dataset.derived.name]
            self.n_values = _number_of_values(dataset.derived, field)
        label_attribute = dataset.attribute(label, "label")
        self.cells = Cells(label_attribute, tuple(dataset.attribute(name, field) for name in names))
        _check_number(self.cells, field)
        self.base_shape = self.cells.shape[: 1 + len(base_names)]
        self.n_cells = math.prod(self.base_shape)
        kind = np.uint16 if self.n_cells <= 1 << 16 else np.uint64
        codes: NDArray[Any] = dataset.table.column(label, "label").astype(kind)
        for name, size in zip(base_names, self.base_shape[1:], strict=True):
            codes *= kind(size)
            codes += dataset.table.column(name, field)
        self.codes = codes
        self.counts = np.bincount(codes, minlength=self.n_cells).astype(np.int64, copy=False)
        self.kept: dict[object, Any] = {}  # deals, evaluation sets and groupings made from it


def _number_of_values(derived: DerivedAttribute, field: str) -> int:
    """How many values a derived attribute has. Raises `InputError` where there is one only."""
    if len(derived.values) == 1:
        only = f"the derived attribute {derived.name!r} has one value, {derived.values[0]!r}"
        raise InputError(field, f"{only}: name a second one (null leaves the image as it is)")
    return len(derived.values)


def _check_number(cells: Cells, field: str) -> None:
    """Raise `InputError` where there are more cells than a plan can hold."""
    if cells.size > MOST_CELLS:
        sizes = ", ".join(f"{axis.name} {len(axis.values):,}" for axis in cells.axes)
        problem = (
            f"label and attributes make {cells.size:,} cells, more than {MOST_CELLS:,}"
            f" ({sizes} values)"
        )
        raise InputError(field, problem)


def cell_index(
    dataset: AttributedDataset, label: str, attributes: Sequence[str], field: str = "attributes"
) -> CellIndex:
    """The index of a data set, made once and kept with the data set."""
    key = ("cell index", label, tuple(attributes))
    index = dataset.cache.get(key)
    if index is None:
        index = dataset.cache[key] = CellIndex(dataset, label, attributes, field)
    return index


def check_classes(dataset: AttributedDataset, label: str, attributes: Sequence[str]) -> None:
    """Refuse a label that a model reads, and rows of a single class, by an `InputError` on `label`:
    every answer would be right."""
    dataset.refuse_label_as_input(label)
    index = cell_index(dataset, label, attributes)
    rows = index.counts.reshape(len(index.cells.label.values), -1).sum(axis=1)
    present = np.flatnonzero(rows)
    if len(present) == 1:
        only = shown(str(index.cells.label.values[present[0]]))
        problem = f"{label!r} has one value, {only}, in all {rows.sum():,} rows"
        raise InputError("label", f"{problem}, so there is nothing to classify")


def sorted_rows(codes: NDArray[Any], n_codes: int, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The rows in the order of (code, hash, row): int64 [n].

    Code, the hash's leading bits and the row packed in one integer sort three times faster than an
    argsort. The few rows whose leading bits agree are put right by their whole hash.
    """
    n = len(codes)
    row_bits = max(n - 1, 1).bit_length()
    code_bits = max(n_codes - 1, 1).bit_length()
    if row_bits + code_bits > 48:
        return np.lexsort((hashes, codes))
    keys = hashes >> np.uint64(row_bits + code_bits)
    keys <<= np.uint64(row_bits)
    keys |= codes.astype(np.uint64) << np.uint64(64 - code_bits)
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    rows = (keys & np.uint64((1 << row_bits) - 1)).astype(np.int64)
    keys >>= np.uint64(row_bits)
    same = keys[1:] == keys[:-1]
    if same.any():
        tied = np.zeros(n, dtype=bool)
        tied[1:] |= same
        tied[:-1] |= same
        tied_rows = rows[tied]
        rows[tied] = tied_rows[np.lexsort((tied_rows, hashes[tied_rows], codes[tied_rows]))]
    return rows
