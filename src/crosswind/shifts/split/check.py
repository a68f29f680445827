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


def _places(deal: Deal, dataset: AttributedDataset) -> NDArray[np.int32]:
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
        dealt = np.arange(len(roles)) if deal.left_out is None else np.flatnonzero(~deal.left_out)
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
    in each as planned; its true label is the table's, its label too unless `noisy`, and its group
    is that of its label and its cell. What does not differ from split to split is checked once for
    a `deal`, so that a set costs a few passes over its rows.
    """
    allotment, cells, values = (
        planned_set.allotment,
        planned_set.pool.cells,
        planned_set.pool.n_values,
    )
    base, mode, table = drawn.base, allotment.mode, planned_set.dataset.table
    cell_roles = _places(deal, planned_set.dataset)

    def fault(mistake: str) -> InternalError:
        return InternalError(f"the set {planned_set.name!r} {mistake}")

    if not len(base) == len(row_set.rows) == len(row_set.label) == allotment.total:
        raise fault(f"has {len(row_set.rows)} rows where {allotment.total} were planned")
    if _repeat(
        row_set.rows if mode == "each" else base,
        len(cell_roles) * (values if mode == "each" else 1),
    ):
        raise fault("has a row twice")
    by_origin = (
        drawn.cell + drawn.origin * np.int64(allotment.counts.shape[1])
        if len(allotment.counts) > 1
        else drawn.cell
    )
    origin_counts = np.bincount(by_origin, minlength=allotment.counts.size)
    if not np.array_equal(origin_counts, allotment.counts.ravel()):
        raise fault("has other numbers of rows in its cells than planned")
    home = drawn.cell
    if values > 1 and mode != "visits":
        home = drawn.cell // values
        if not np.array_equal(row_set.rows, base * values + (drawn.cell - home * values)):
            raise fault("has derived rows of other rows than were drawn")
    cell_role, role = cell_roles[base], ROLES.index(planned_set.role)
    # A law on attributes that do not cut the study's cells has cells of its own: those of its rows
    # are counted from the table.
    has_own_cells = cells is deal.index.cells
    if not np.array_equal(
        cell_role if has_own_cells else cell_role & 3,
        home * 4 + role if has_own_cells else np.full(len(base), role),
    ):
        wrong = (
            "are not of the role " + planned_set.role
            if (cell_role & 3 != role).any()
            else "lie in other cells than they were drawn for"
        )
        raise fault(f"has rows that {wrong}")
    if not has_own_cells and not np.array_equal(
        _cells_of(cells, planned_set.dataset, values, base), home
    ):
        raise fault("has rows that lie in other cells than they were drawn for")
    true = planned_set.classes[table.column(cells.label.name)[base]]
    if not np.array_equal(true, row_set.true_label) or not (
        noisy or row_set.label is row_set.true_label
    ):
        raise fault("has labels that are not the table's")
    full = drawn.cell * values if mode == "visits" else drawn.cell
    if not np.array_equal(row_set.label * groups.size + groups.of_cell[full], row_set.group):
        raise fault("has groups that are not the table's")


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
