"""The column of a table that says which rows belong together, such as those of a patient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crosswind.data.column_names import names_units, numbers_persons
from crosswind.data.table_inputs import lacks_value
from crosswind.proposals.columns import MOST_EMPTY, TableColumn

if TYPE_CHECKING:
    from polars import DataFrame


def unit_of(
    rows: DataFrame, columns: Mapping[str, TableColumn], label: str
) -> tuple[str | None, list[str]]:
    """The column whose equal values are of one unit, and notes on it and on those that are none.

    It is called as one and has values that repeat. Of several it is one of persons, if any is; of
    these the one whose units hold those of the others whole, as patients do their lesions; else the
    first.
    """
    candidates, notes = _candidates(rows, columns, label)
    if not candidates:
        return None, notes
    of_persons = [name for name in candidates if numbers_persons(name)] or candidates
    holding = {
        name: sum(_hold_whole(rows, name, other) for other in candidates) for name in of_persons
    }
    unit = max(of_persons, key=lambda name: holding[name])  # the first of equals
    if columns[unit].n_empty:
        notes.append(
            f"{unit}: empty in {columns[unit].n_empty:,} of {rows.height:,} rows, left out, for"
            " nobody knows which rows they belong to"
        )
    torn = [name for name in candidates if not _hold_whole(rows, unit, name)]
    if not torn:
        notes.append(f"rows of one {unit} stay together: they never both train and test")
    else:
        notes.append(
            f"rows of one {unit} stay together; those of one {torn[0]} may lie on both sides of the"
            f" split (the setting unit: {torn[0]} keeps these together instead)"
        )
    return unit, notes


def _candidates(
    rows: DataFrame, columns: Mapping[str, TableColumn], label: str
) -> tuple[list[str], list[str]]:
    """The columns that may be the unit, and notes on those that would be but for their empty
    cells."""
    candidates, notes = [], []
    for name, column in columns.items():
        is_unit = names_units(name) and name != label and column.kind != "classes"
        if not is_unit or not 2 <= column.n_values < rows.height - column.n_empty:
            continue
        if column.n_empty <= MOST_EMPTY * rows.height:
            candidates.append(name)
            continue
        notes.append(
            f"{name}: empty in {column.n_empty:,} of {rows.height:,} rows, so that rows of one"
            " value may lie on both sides of the split: fill it in, one value for what belongs"
            " together"
        )
    return candidates, notes


def _hold_whole(rows: DataFrame, outer: str, inner: str) -> bool:
    """Whether all rows of each value of one column have one value of another."""
    import polars

    if outer == inner:
        return True
    columns = [rows.get_column(outer), rows.get_column(inner)]
    has_both = ~(lacks_value(columns[0]) | lacks_value(columns[1]))
    pairs = polars.DataFrame(
        {"outer": columns[0].alias("outer"), "inner": columns[1].alias("inner")}
    ).filter(has_both)
    return pairs.n_unique() == pairs.get_column("inner").n_unique()
