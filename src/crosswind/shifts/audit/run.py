"""The audit of two tables from end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crosswind.core.errors import InputError
from crosswind.shifts.audit.findings import Audit
from crosswind.shifts.audit.judge import judge
from crosswind.shifts.audit.tables import read_tables, split_tables
from crosswind.shifts.split.rows import Split

__all__ = ["audit"]


def audit(
    train: Any,
    target: Any,
    label: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    names: Sequence[str] = (),
    seed: int = 0,
) -> Audit:
    """Which shifts lie between a training table and a target table, or between the sets of a split; see `crosswind.audit`."""
    for field, given in (("columns", columns), ("names", names)):
        if isinstance(given, str):
            raise InputError(field, f"must be a list of columns, not {given!r}")
    if isinstance(train, Split):
        if not isinstance(target, str):
            raise InputError("target", "must name a set of the split", [*train.validation, *train.evaluation])
        tables = split_tables(train, target, columns, seed)
        if label is not None and label != tables.label:
            raise InputError("label", f"the split's label is {tables.label!r}, not {label!r}")
    else:
        if not isinstance(label, str):
            raise InputError("label", "names the column of the label, and is missing")
        tables = read_tables(train, target, label, columns, names)
    found, notes = judge(tables.columns, tables.labelled, seed)
    first = tables.columns[0]
    return Audit(
        tables.label,
        len(first.train),
        len(first.target),
        found[0] if tables.labelled else None,
        tuple(found[1:]),
        tables.skipped,
        (*tables.notes, *notes),
    )
