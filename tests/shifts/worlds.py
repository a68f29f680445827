"""Attribute tables built by hand, and a slow split check, for the tests of shifts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells, parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.split import Roles, RowSet, SplitPlan

ATTRIBUTES = ("a", "b", "c", "d")


def cells_of(*sizes: int) -> Cells:
    """Cells of a label "y" and attributes "a", "b", ... with values y0, y1, ..., a0, a1, ..."""
    attributes_made = [
        Attribute(name, tuple(f"{name}{value}" for value in range(size)))
        for name, size in zip(("y", *ATTRIBUTES), sizes, strict=False)
    ]
    return Cells(attributes_made[0], tuple(attributes_made[1:]))


def world(
    sizes: Sequence[int],
    copies: int | np.ndarray,
    official: int | None = None,
    name: str = "world",
    **options: Any,
) -> AttributedDataset:
    """A data set with `copies` rows a cell (or an array of numbers), `official` of them its own
    training rows."""
    cells = cells_of(*sizes)
    counts = np.broadcast_to(copies, cells.shape).ravel()
    cell = np.repeat(np.arange(cells.size), counts)
    codes = np.stack(np.unravel_index(cell, cells.shape))
    attributes = list(cells.axes)
    if official is not None:
        within = np.arange(len(cell)) - np.repeat(np.cumsum(counts) - counts, counts)
        codes = np.concatenate([codes, (within >= official)[None].astype(np.int64)])
        attributes.append(Attribute("split", ("train", "test")))
    return AttributedDataset(name, AttributeTable(tuple(attributes), codes), **options)


def plan(
    shift: Any = None,
    draw: Any = "all",
    n_attributes: int = 2,
    roles: Roles | None = None,
    **options: Any,
) -> SplitPlan:
    """A plan over the label and the first attributes of a `world`."""
    return SplitPlan(
        "y",
        ATTRIBUTES[:n_attributes],
        parse_shift(shift),
        parse_draw(draw),
        roles or Roles(),
        **options,
    )


def jeon(names: str) -> list[dict[str, Any]]:
    """The shifts of Jeon et al. 2025 by name, "SC+LDD", on the attributes a, b, c in that order."""
    makers: Mapping[str, dict[str, Any]] = {
        "SC": {"type": "spurious-correlation", "counterexamples": 0.01},
        "LDD": {
            "type": "low-data-drift",
            "low": "last",
            "high": 3,
            "ratio": {"default": "1/3", "last": 0},
        },
        "UDS": {"type": "unseen-data", "unseen": "last"},
    }
    return (
        []
        if names == "uniform"
        else [
            {**makers[shift_name], "attribute": ATTRIBUTES[i]}
            for i, shift_name in enumerate(names.split("+"))
        ]
    )


def cell_counts(dataset: AttributedDataset, rows: RowSet, names: Sequence[str]) -> np.ndarray:
    """How many rows of a set each combination of the named attributes has, counted row by row from
    the table."""
    table = dataset.table
    counts = np.zeros([len(table.attribute(name).values) for name in names], dtype=np.int64)
    for row in rows.rows:
        counts[tuple(table.column(name)[row] for name in names)] += 1
    return counts
