"""A split checks itself: what it hands on is compared with the table, not with the steps that made
it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InternalError
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells
from crosswind.shifts.split.assign_roles import Deal
from crosswind.shifts.split.plan import ROLES
from crosswind.shifts.split.rows import DrawnRows, Part, RowSet
from crosswind.shifts.split.sampling import Grouping

_NO_ROLE = len(ROLES)


def _cells_and_roles(deal: Deal, dataset: AttributedDataset) -> NDArray[np.int32]:
    """Where the table and the deal have each row: its base cell x 4 + the place of its role in
    `ROLES`, 3 for none; int32 [n].

    Made and checked once for a deal. Raises `InternalError` where a row is in two roles or twice in
    one, a unit's rows are in two, or the index of cells contradicts the table.
    """
    if "places" in deal.kept:
        cell_roles: NDArray[np.int32] = deal.kept["places"]
        return cell_roles
    roles = np.full(len(deal.index.codes), _NO_ROLE, dtype=np.int64)
    for role_code, role in enumerate(ROLES):
        rows = deal.pool(role).rows()
        before = np.count_nonzero(roles != _NO_ROLE)
        roles[rows] = role_code
        if np.count_nonzero(roles != _NO_ROLE) != before + len(rows):
            raise InternalError(
                f"the deal of roles gives the role {role} a row twice, or one that has a role"
                " already"
            )
    if (units := dataset.units) is not None:
        # An official split may leave rows of a unit out; nothing else may.
        if deal.left_out is None:
            dealt = np.arange(len(roles))
        else:
            dealt = np.flatnonzero(~deal.left_out)
        order = dealt[np.argsort(units[dealt], kind="stable")]
        same = units[order[1:]] == units[order[:-1]]
        if (same & (roles[order[1:]] != roles[order[:-1]])).any():
            raise InternalError("the deal of roles gives a unit two roles")
    if not np.array_equal(
        _cells_of(deal.index.cells, dataset, deal.index.n_values, slice(None)), deal.index.codes
    ):
        raise InternalError("the index of cells has rows in other cells than the table")
    cell_roles_now = deal.kept["places"] = (deal.index.codes.astype(np.int64) * 4 + roles).astype(
        np.int32
    )  # at most 20 million cells
    return cell_roles_now


def check_set(
    planned_set: Part, drawn: DrawnRows, row_set: RowSet, deal: Deal, groups: Grouping, noisy: bool
) -> None:
    """Raise `InternalError` unless a set is what was planned of it and what the table says of its
    rows.

    Every row is of the set's role, comes once and lies in the cell that it was drawn for, as many
    in each as planned. Its true label is the table's, its label too unless `noisy`, and its group
    is that of its label and its cell. What does not differ from split to split is checked once for
    a `deal`, so that a set costs a few passes over its rows.
    """
    cell_roles = _cells_and_roles(deal, planned_set.dataset)
    mistake = (
        _wrong_numbers(planned_set, drawn, row_set, len(cell_roles))
        or _wrong_rows(planned_set, drawn, row_set, cell_roles, deal)
        or _wrong_labels(planned_set, drawn, row_set, groups, noisy)
    )
    if mistake:
        raise InternalError(f"the set {planned_set.name!r} {mistake}")


def _wrong_numbers(planned_set: Part, drawn: DrawnRows, row_set: RowSet, n_table_rows: int) -> str:
    """Where a set has other numbers of rows than planned, or one twice; empty where not."""
    allotment = planned_set.allotment
    base = drawn.base
    rows = row_set.rows
    if not len(base) == len(rows) == len(row_set.label) == allotment.total:
        return f"has {len(rows)} rows where {allotment.total} were planned"
    if allotment.mode == "each":
        has_repeat = _repeat(rows, n_table_rows * planned_set.pool.n_values)
    else:
        has_repeat = _repeat(base, n_table_rows)
    if has_repeat:
        return "has a row twice"
    n_origins, n_cells = allotment.counts.shape
    by_origin = drawn.cell
    if n_origins > 1:
        by_origin = drawn.cell + drawn.origin * np.int64(n_cells)
    origin_counts = np.bincount(by_origin, minlength=allotment.counts.size)
    if not np.array_equal(origin_counts, allotment.counts.ravel()):
        return "has other numbers of rows in its cells than planned"
    return ""


def _wrong_rows(
    planned_set: Part,
    drawn: DrawnRows,
    row_set: RowSet,
    cell_roles: NDArray[np.int32],
    deal: Deal,
) -> str:
    """Where a set has rows of another role, or of other cells than they were drawn for; empty
    where not."""
    cells = planned_set.pool.cells
    values = planned_set.pool.n_values
    base = drawn.base
    home = drawn.cell
    if values > 1 and planned_set.allotment.mode != "visits":
        home = drawn.cell // values
        if not np.array_equal(row_set.rows, base * values + (drawn.cell - home * values)):
            return "has derived rows of other rows than were drawn"
    cell_role = cell_roles[base]
    role = ROLES.index(planned_set.role)
    # A law on attributes that do not cut the study's cells has cells of its own: those of its rows
    # are counted from the table.
    if cells is deal.index.cells:
        is_right = np.array_equal(cell_role, home * 4 + role)
    else:
        is_right = np.array_equal(cell_role & 3, np.full(len(base), role))
    if not is_right and (cell_role & 3 != role).any():
        return f"has rows that are not of the role {planned_set.role}"
    if is_right and cells is not deal.index.cells:
        is_right = np.array_equal(_cells_of(cells, planned_set.dataset, values, base), home)
    return "" if is_right else "has rows that lie in other cells than they were drawn for"


def _wrong_labels(
    planned_set: Part, drawn: DrawnRows, row_set: RowSet, groups: Grouping, noisy: bool
) -> str:
    """Where a set has labels or groups that are not the table's; empty where not."""
    table = planned_set.dataset.table
    label_name = planned_set.pool.cells.label.name
    true = planned_set.classes[table.column(label_name)[drawn.base]]
    is_label_shown = noisy or row_set.label is row_set.true_label
    if not np.array_equal(true, row_set.true_label) or not is_label_shown:
        return "has labels that are not the table's"
    full = drawn.cell
    if planned_set.allotment.mode == "visits":
        full = drawn.cell * planned_set.pool.n_values
    if not np.array_equal(row_set.label * groups.size + groups.of_cell[full], row_set.group):
        return "has groups that are not the table's"
    return ""


def _cells_of(
    cells: Cells, dataset: AttributedDataset, n_values: int, rows: NDArray[np.int64] | slice
) -> NDArray[np.int64]:
    """The base cell of rows, counted from the table."""
    cells_of_rows = dataset.table.column(cells.label.name)[rows].astype(np.int64)
    for axis in cells.attributes[: len(cells.attributes) - (n_values > 1)]:
        cells_of_rows *= len(axis.values)
        cells_of_rows += dataset.table.column(axis.name)[rows]
    return cells_of_rows


def _repeat(rows: NDArray[np.int64], n_rows: int) -> bool:
    if n_rows > 64 * len(
        rows
    ):  # a mark for every row there is would cost more than sorting those of the set
        ordered = np.sort(rows)
        return bool((ordered[1:] == ordered[:-1]).any())
    marks = np.zeros(n_rows, dtype=bool)
    marks[rows] = True
    return int(np.count_nonzero(marks)) != len(rows)
