"""Which column of somebody's table is to be predicted, and where its numbers are cut into classes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, unknown
from crosswind.data.column_names import (
    label_rank,
    names_attribute,
    names_outcome,
    usual_labels,
)
from crosswind.data.table_inputs import are_dates, bin_names, numbers_of
from crosswind.proposals.columns import MOST_VALUES, TableColumn

if TYPE_CHECKING:
    from polars import DataFrame

FEWEST_ROWS = 6
"""A class of fewer rows is left out of a proposal."""


LISTED = 10
"""Classes that a note names."""


@dataclass(frozen=True)
class Label:
    """The column that is to be predicted.

    `cuts`: numbers that part it into classes; none: its values are the classes. `classes`: those
    that the study keeps of `n_values`, in order; `notes`: what was decided, a sentence each.
    """

    name: str
    classes: tuple[str, ...]
    n_values: int
    cuts: tuple[float, ...] = ()
    notes: tuple[str, ...] = field(default=())


def label_of(
    rows: DataFrame,
    columns: Mapping[str, TableColumn],
    table: str,
    named: str | None,
) -> Label | None:
    """The label of a table: the column that is named, else one of a usual name, else a guess among
    those of classes; None for a table without any.

    The guess is a column that is called by what happens in the end; else the first of words that is
    not called by who, where or when. Numbers and grades are cut in two where both sides have most rows. Classes of fewer than
    `FEWEST_ROWS` rows are left out. Raises `InputError` for a column that cannot be one.
    """
    column, why_guessed = _chosen(columns, table, named)
    if column is None:
        return None
    notes = []
    if named is None:
        note = _note_on_choice(columns, column, why_guessed)
        notes += [note] if note else []
    if column.kind == "numbers" or column.graded:
        cut, sentence = _cut(rows, column)
        return Label(column.name, tuple(bin_names([cut])), 2, (cut,), (*notes, sentence))
    counts = rows[column.name].cast(str).str.strip_chars().value_counts().iter_rows()
    rows_of_class = dict(counts)
    rare = [value for value in column.values if rows_of_class[value] < FEWEST_ROWS]
    classes = tuple(value for value in column.values if value not in rare)
    if len(classes) < 2:
        problem = (
            f"{column.name!r} has {len(classes)} classes of {FEWEST_ROWS} rows or more"
            f" ({_counted(column.values, rows_of_class)}), and a classifier needs two; name another"
            " column, or add rows"
        )
        raise InputError("--label", problem)
    if rare:
        notes.append(
            f"classes of {column.name!r} with fewer than {FEWEST_ROWS} rows are left out:"
            f" {_counted(rare, rows_of_class)}"
        )
    notes.insert(0, f"label {column.name!r}: {_counted(classes, rows_of_class)}")
    n_values = len(column.values) + len(column.no_values)
    return Label(column.name, classes, n_values, (), tuple(notes))


def one_hot_columns(rows: DataFrame, columns: Mapping[str, TableColumn]) -> list[str]:
    """Columns of zeros and ones that exclude one another, as when each stands for a class: in every
    row just one of them is 1. None where there are fewer than three."""
    truths = [name for name, column in columns.items() if _is_zero_or_one(column)]
    if len(truths) < 3:
        return []
    ones = np.stack([numbers_of(rows, name, "") == 1 for name in truths])
    # Columns that follow one another and complete each row; other truths may stand around them.
    for first in range(len(truths) - 2):
        total = np.cumsum(ones[first:], axis=0)
        for last in range(2, len(total)):
            if (total[last] == 1).all():
                return truths[first : first + last + 1]
    return []


def _is_zero_or_one(column: TableColumn) -> bool:
    are_both = len(column.values) == 2 and set(column.values) <= {"0", "1", "0.0", "1.0"}
    return column.kind == "classes" and are_both and not column.n_empty


def _chosen(
    columns: Mapping[str, TableColumn], table: str, named: str | None
) -> tuple[TableColumn | None, str | None]:
    """The column of the label; if it is guessed, why it and no other, as half a sentence or ""."""
    if named is not None:
        if named not in columns:
            raise unknown("--label", f"column of {table}", named, columns)
        column = columns[named]
        if not _may_be(column):
            fitting = [name for name, candidate in columns.items() if _may_be(candidate)]
            raise InputError(
                "--label", f"{named!r} cannot be predicted ({_why_not(column)})", fitting
            )
        return column, None
    usual = usual_labels(name for name, column in columns.items() if _may_be(column))
    return (columns[usual[0]], None) if usual else _guessed(columns)


def _note_on_choice(
    columns: Mapping[str, TableColumn], chosen: TableColumn, why_guessed: str | None
) -> str:
    """That a label is guessed, or that one of a usual name has an outcome beside it; "" where
    nothing is to be said."""
    candidates = [
        name for name, candidate in columns.items() if _may_be(candidate) and name != chosen.name
    ]
    if why_guessed is None:
        outcomes = [repr(name) for name in candidates if names_outcome(name)]
        words = f"{', '.join(outcomes)} may be the label too, by its name: --label names it"
        return words if outcomes else ""
    reason = "; ".join(_unusable(columns)) or "no column has a usual name"
    note = f"label {chosen.name!r} is guessed, as {reason}{why_guessed}: --label names another"
    return note + (f" ({', '.join(candidates[:5])})" if candidates else "")


def _guessed(columns: Mapping[str, TableColumn]) -> tuple[TableColumn | None, str]:
    """A column of classes where none has a usual name, and why it and no other."""
    classes = [column for column in columns.values() if column.kind == "classes"]
    undated = [column for column in classes if column.numeric or not _holds_dates(column)]
    outcomes = [column for column in undated if names_outcome(column.name)]
    if outcomes:
        return outcomes[0], ", but it is called as an outcome is"
    words = [column for column in undated if not column.numeric] or undated or classes
    skipped = list(itertools.takewhile(lambda column: names_attribute(column.name), words))
    if not skipped or len(skipped) == len(words):
        return next(iter(words), None), ""
    names = ", ".join(repr(column.name) for column in skipped)
    verb = "is" if len(skipped) == 1 else "are"
    return words[len(skipped)], f", and {names} {verb} called as attributes are"


def _may_be(column: TableColumn) -> bool:
    return column.kind in ("classes", "numbers")


def _holds_dates(column: TableColumn) -> bool:
    """Whether a few dates are the values of a column. They say when a row was written, and are a
    label only where nothing else can be one."""
    import polars

    return are_dates(polars.Series(column.values, dtype=polars.String))


def _why_not(column: TableColumn) -> str:
    if column.flaw:
        return f"it has {column.flaw}"
    identifier = f"its {column.n_values:,} values name the rows"
    return {
        "one-value": "it has one value",
        "empty": "it has no value in any row",
        "identifier": identifier,
        "units": f"its {column.n_values:,} values number units, such as patients",
        "paths": "it holds paths",
        "documents": "it holds paths",
        "texts": "it holds texts",
        "roles": "it says which rows train and which test",
        "some-roles": "it says which rows train and which test",
        "fold": "it numbers folds",
    }.get(
        column.kind,
        f"it has {column.n_values:,} values, more than {MOST_VALUES}, that are no numbers",
    )


def _cut(rows: DataFrame, column: TableColumn) -> tuple[float, str]:
    """Where a column of numbers is cut in two, and the sentence with the rows on both sides, and
    with those of other cuts of grades."""
    numbers = numbers_of(rows, column.name, "")
    numbers = numbers[~np.isnan(numbers)]
    values = np.unique(numbers)
    middle = float(np.median(numbers))
    if len(values) <= MOST_VALUES:
        candidates = values[1:]
    else:
        candidates = _near(values, middle)
    below = np.array([(numbers < cut).sum() for cut in candidates])
    best = int(np.abs(below - len(numbers) / 2).argmin())
    cut = float(candidates[best])
    kind = "grades" if column.kind == "classes" else "numbers"
    sides = f"{below[best]:,} rows below {cut:g}, {len(numbers) - below[best]:,} from it on"
    other_candidates = []
    for edge, count in zip(candidates.tolist(), below.tolist(), strict=True):
        if edge != cut:
            other_candidates.append(f"{edge:g} ({count:,} below)")
    other_words = ""
    if other_candidates and kind == "grades":
        other_words = f"; other cuts: {', '.join(other_candidates)}"
    return cut, (
        f"label {column.name!r} has {len(values):,} {kind} and is cut in two at {cut:g}"
        f" ({sides}{other_words}): bins in the study says so"
    )


def _near(values: NDArray[np.float64], middle: float) -> NDArray[np.float64]:
    """The first value above the middle that leaves rows below it."""
    above = values[values >= middle]
    if above[0] > values[0]:
        return above[:1]
    return values[1:2]


def _counted(values: Sequence[str], rows_of_class: Mapping[str, int]) -> str:
    """The first classes with their rows."""
    listed = ", ".join(f"{value} {rows_of_class[value]:,}" for value in values[:LISTED])
    return listed + (f" and {len(values) - LISTED} more" if len(values) > LISTED else "")


def _unusable(columns: Mapping[str, TableColumn]) -> list[str]:
    """Why columns of usual names are not it, as half sentences."""
    reasons = []
    for name, candidate in columns.items():
        if label_rank(name) is not None and not _may_be(candidate):
            reasons.append(f"{name!r} cannot be it ({_why_not(candidate)})")
    return reasons
