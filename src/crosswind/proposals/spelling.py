"""Values of somebody's table that are one and are written in several ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crosswind.core.errors import counted
from crosswind.data.spellings import Spellings, shown_apart, spellings_of

if TYPE_CHECKING:
    from polars import DataFrame, Series

MOST_SPELLINGS = 200
"""A column of more different texts is not looked through for values that are written in several
ways."""


@dataclass(frozen=True)
class OneSpelling:
    """A table with each value written in one way.

    `same`: column -> value -> other ways in which it is written, as a study says it; `distinct`:
    columns whose values differ though they look alike; `notes`: column and sentence.
    """

    rows: DataFrame
    same: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    distinct: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)


def one_value_each(rows: DataFrame, columns: Sequence[str]) -> OneSpelling:
    """The rows with each value of some columns written in one way.

    What is surely one is made one, as a study does by itself. What may be one is proposed as one,
    by `same`: a person who reads the study can say otherwise. Where a single value would be left
    the values are proposed as `distinct`.
    """
    import polars

    written = OneSpelling(rows)
    for name in columns:
        kind = rows[name].dtype
        if kind.is_nested() or kind in (polars.Binary, polars.Object, polars.Duration):
            continue
        raw = rows[name].cast(polars.String, strict=False)
        if raw.n_unique() > MOST_SPELLINGS:
            continue
        distinct = raw.drop_nulls().unique().sort().to_list()
        spellings = spellings_of(distinct)
        if not spellings.names and not spellings.doubts:
            continue
        rows = rows.with_columns(_in_one_way(raw, name, spellings, written).alias(name))
    return OneSpelling(rows, written.same, written.distinct, written.notes)


def _in_one_way(raw: Series, name: str, spellings: Spellings, written: OneSpelling) -> Series:
    """A column with each value written in one way; what was decided goes into `written`."""
    if spellings.names:
        written.notes.append((name, spellings.said(name)))
    shown = raw.replace(dict(spellings.names)).str.strip_chars()
    groups = [[value.strip() for value in group] for group in spellings.doubts]
    if not groups:
        return shown
    if shown.n_unique() - sum(len(group) - 1 for group in groups) < 2:
        written.distinct.append(name)
        sentence = f"values of {name!r} that look alike are taken as different ones (distinct)"
        written.notes.append((name, sentence))
        return shown
    counts = dict(shown.value_counts().iter_rows())
    most_frequent = {max(group, key=lambda value: counts[value]): group for group in groups}
    written.same[name] = {
        value: [spelling for spelling in group if spelling != value]
        for value, group in most_frequent.items()
    }
    written.notes.append(
        (name, f"{_alike(groups)} of {name!r} may be one value: the study takes them as one (same)")
    )
    return shown.replace(
        {spelling: value for value, group in most_frequent.items() for spelling in group}
    )


def _alike(groups: Sequence[Sequence[str]]) -> str:
    more_pairs = ""
    if len(groups) > 1:
        more_pairs = f" and {counted(len(groups) - 1, 'more such pair')}"
    return " and ".join(shown_apart(groups[0])) + more_pairs
