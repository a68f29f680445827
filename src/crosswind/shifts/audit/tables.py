"""Two tables of anyone's own as columns of codes: from files, data frames, attribute tables, or the
sets of a split.

Both sides are read alike, so that one value has one name on both: text without the white space
around it, numbers by their value (1 is 1.0, unless leading zeros say that they are names), true and
false whatever their case. A cell without a value is a value of its own, `(missing)`. Numbers of
many values are put into classes by quantiles of both tables together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, one_line, unknown
from crosswind.core.seeds import stream
from crosswind.data.attributes import AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.spellings import shown_apart, spellings_of
from crosswind.data.tabular import MISSING, NoNames, frame_of, read_table
from crosswind.shifts.audit.contingency import Column
from crosswind.shifts.split.rows import RowSet, Split

if TYPE_CHECKING:
    from polars import DataFrame

NO_VALUE = "(missing)"
BINS = 10
MANY_FRACTIONS, MANY_WHOLE = 20, 100
"""Numbers with more different values than this are put into classes: with fractions, and whole
ones."""
MOST_NAMES = 1000
"""A column of more different names is left out."""


@final
@dataclass(frozen=True, eq=False)
class Tables:
    """The columns that both tables have, the label first (constant where `labelled` is false), and
    what was left out and why."""

    label: str
    labelled: bool
    columns: tuple[Column, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def read_tables(
    train: Any,
    target: Any,
    label: str,
    columns: Sequence[str] | None = None,
    names: Sequence[str] = (),
    header: Sequence[str] | None = None,
    same: Sequence[str] = (),
    distinct: Sequence[str] = (),
) -> Tables:
    """The columns of two tables. `columns`: only these; `names`: columns whose numbers are names
    and never put into classes; `header`: names of the columns of CSV files whose first line is a
    row; `same`, `distinct`: columns in which values that may be one are one, or are not.

    A table is the path of a CSV or Parquet file, a polars or pandas frame, a mapping from name to
    values, an `AttributeTable` or an `AttributedDataset`. Raises `InputError` for a column that is
    in neither or a label that training lacks, `DataError` for a table that cannot be read.
    """
    sides = [_frame(train, "train", header), _frame(target, "target", header)]
    column_names = [frame.columns for frame in sides]
    if label not in column_names[0]:
        raise unknown("label", "column of the training table", label, column_names[0])
    for field, chosen in (
        ("columns", columns or ()),
        ("names", names),
        ("same", same),
        ("distinct", distinct),
    ):
        for name in chosen:
            if name not in column_names[0] and name not in column_names[1]:
                raise unknown(
                    field,
                    "column of either table",
                    name,
                    dict.fromkeys([*column_names[0], *column_names[1]]),
                )
    compared = [
        name
        for name in dict.fromkeys([*column_names[0], *column_names[1]])
        if name != label and (columns is None or name in columns)
    ]
    skipped: list[tuple[str, str]] = []
    notes: list[str] = []
    cells: list[_Coded] = []
    for frame in sides:
        coded_label = _coded(frame, label) if label in frame.columns else None
        if isinstance(coded_label, str):
            raise DataError(f"the label {label!r} {coded_label}")
        cells += [] if coded_label is None else [coded_label]
    present_rows = [side.present for side in cells]
    answers = _AnswerColumns(frozenset(same), frozenset(distinct), notes)
    if not present_rows[0].any():
        raise DataError(f"the label {label!r} has no value in any row of the training table")
    labelled = len(present_rows) == 2 and bool(present_rows[1].any())
    if labelled:
        out = [
            _label(
                label,
                [side.rows(rows) for side, rows in zip(cells, present_rows, strict=True)],
                answers,
            )
        ]
        if len(out[0].values) == 1:
            notes.append(
                f"the label {label!r} has one value on both sides, {out[0].values[0]!r}:"
                " correlations with it cannot be told"
            )
        for name, rows in zip(("training", "target"), present_rows, strict=True):
            if not rows.all():
                notes.append(
                    f"{int((~rows).sum()):,} of {len(rows):,} rows of the {name} table have no"
                    " label and were left out"
                )
    else:
        present_rows = [np.ones(frame.height, dtype=bool) for frame in sides]
        notes.append(
            f"the target has no label {label!r}: low-data drift and unseen values can be told,"
            " correlations cannot"
        )
        out = [Column(label, ("",), *(np.zeros(frame.height, dtype=np.int64) for frame in sides))]
    for name in compared:
        if name not in column_names[0] or name not in column_names[1]:
            skipped.append(
                (
                    name,
                    f"only the {'training' if name in column_names[0] else 'target'} table has it",
                )
            )
            continue
        pair = [_coded(frame, name) for frame in sides]
        texts = [
            side.rows(rows)
            for side, rows in zip(pair, present_rows, strict=True)
            if not isinstance(side, str)
        ]
        coded_column = (
            _column(name, texts, name in names, answers)
            if len(texts) == 2
            else next(x for x in pair if isinstance(x, str))
        )
        if isinstance(coded_column, str):
            skipped.append((name, coded_column))
        else:
            out.append(coded_column)
    if len(out) == 1:
        why = (
            "; ".join(f"{name}: {reason}" for name, reason in skipped) or "there is no other column"
        )
        raise DataError(f"no attribute is left to audit ({one_line(why, 300)})")
    return Tables(label, labelled, tuple(out), tuple(skipped), tuple(notes))


@final
@dataclass(frozen=True, eq=False)
class _Coded:
    """A column of one side: `words` of its different cells (some may be alike), and which of them
    each row has."""

    words: list[str]
    codes: NDArray[np.int64]

    @property
    def present(self) -> NDArray[np.bool_]:
        """The rows that have a value."""
        return np.array([word != NO_VALUE for word in self.words], dtype=bool)[self.codes]

    def rows(self, chosen: NDArray[np.bool_]) -> _Coded:
        """Some of its rows, and the words that they have."""
        used, codes = np.unique(self.codes[chosen], return_inverse=True)
        return _Coded([self.words[code] for code in used], codes.astype(np.int64))

    def spread(self, values: Mapping[str, int]) -> NDArray[np.int64]:
        """The code that each row has by the code of its word."""
        return np.array([values[word] for word in self.words], dtype=np.int64)[self.codes]


def _frame(table: Any, field: str, header: Sequence[str] | None) -> DataFrame:
    import polars

    if isinstance(table, str | Path):
        try:
            return read_table(str(table), field, None, "name its columns, such as --header {names}")
        except NoNames:
            if header is None:
                raise
            return read_table(str(table), field, header)
    if isinstance(table, AttributedDataset):
        table = table.table
    if isinstance(table, AttributeTable):
        values = {
            name: np.array(table.attribute(name).values)[table.column(name)] for name in table.names
        }
        frame = polars.DataFrame(values)
    else:
        kinds = [
            "a path",
            "a polars or pandas frame",
            "a mapping from name to values",
            "an AttributeTable",
            "an AttributedDataset",
        ]
        frame = frame_of(table, field, kinds)
    if not frame.height or not frame.width:
        raise DataError(f"the {field} table has no rows")
    return frame


def _coded(frame: DataFrame, name: str) -> _Coded | str:
    """A column by its different cells, as text with `NO_VALUE` for what is missing; a string says
    why it cannot be had."""
    import polars

    column = frame.get_column(name).alias("cell")
    if column.dtype.is_nested() or column.dtype in (polars.Binary, polars.Object):
        return f"holds {str(column.dtype).lower()} values"
    if column.dtype.is_float():
        column = column.fill_nan(None)
    distinct = column.unique()
    try:
        text = distinct.cast(polars.String, strict=False).str.strip_chars()
    except polars.exceptions.PolarsError:
        return f"holds {str(column.dtype).lower()} values, which have no text to name them by"
    lacking = text.is_null() | text.str.to_lowercase().is_in(list(MISSING))
    words = [
        NO_VALUE if none else str(word)
        for word, none in zip(text.to_list(), lacking.to_list(), strict=True)
    ]
    codes = column.to_frame().join(
        polars.DataFrame({"cell": distinct, "code": np.arange(len(distinct))}),
        on="cell",
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return _Coded(words, codes.get_column("code").to_numpy().astype(np.int64))


@final
@dataclass(frozen=True)
class _AnswerColumns:
    """What is said of values that may be one, by column, and the notes of what was made one."""

    same: frozenset[str]
    distinct: frozenset[str]
    notes: list[str]

    def apply(self, name: str, sides: Sequence[_Coded]) -> list[_Coded] | str:
        """The sides with one name for each value; a string on values that may be one, of which
        nothing is said."""
        words = sorted({word for side in sides for word in side.words} - {NO_VALUE})
        if _numbers(words) is not None:
            return list(sides)
        spellings = spellings_of(words)
        name_of = dict(spellings.names)
        if spellings.names:
            self.notes.append(spellings.said(name))
        if name in self.same:
            name_of |= {spelling: group[0] for group in spellings.doubts for spelling in group}
            name_of |= {text: name_of.get(value, value) for text, value in spellings.names.items()}
            pairs_in_words = (" and ".join(shown_apart(group)) for group in spellings.doubts)
            self.notes.extend(
                f"{name}: {values} are taken as one value (same)" for values in pairs_in_words
            )
        elif spellings.doubts and name not in self.distinct:
            more_pairs = (
                f", and {len(spellings.doubts) - 1} more such pairs"
                if len(spellings.doubts) > 1
                else ""
            )
            values = " and ".join(shown_apart(spellings.doubts[0]))
            return (
                f"{values} may be one value{more_pairs}: say so by same, or by distinct that they"
                " are not"
            )
        return [
            _Coded([name_of.get(word, word) for word in side.words], side.codes) for side in sides
        ]


def _label(name: str, sides: Sequence[_Coded], answers: _AnswerColumns) -> Column:
    one_spelling = answers.apply(name, sides)
    if isinstance(one_spelling, str):
        raise InputError("label", f"{name!r}: {one_spelling}")
    column = _named(name, one_spelling)
    if len(column.values) > MOST_NAMES:
        raise DataError(
            f"the label {name!r} has {len(column.values):,} different values, and an audit is of"
            " classes"
        )
    return column


def _column(
    name: str, sides: Sequence[_Coded], as_names: bool, answers: _AnswerColumns
) -> Column | str:
    """One attribute as codes; a string says why it is left out."""
    notes = answers.notes
    words = {word for side in sides for word in side.words}
    named = sorted(words - {NO_VALUE})
    n, n_rows = len(named), sum(len(side.codes) for side in sides)
    if n == 0:
        return "has no value in any row"
    if len(words) == 1:
        return "has one value only"
    numbers = None if as_names else _numbers(named)
    if numbers is not None:
        distinct = set(numbers.values())
        are_whole = all(number == int(number) for number in distinct)
        are_many = len(distinct) > (MANY_WHOLE if are_whole else MANY_FRACTIONS)
        if are_many and not (are_whole and 2 * len(distinct) > n_rows):
            return _binned(name, sides, numbers, notes)
    if 2 * n > n_rows and n > MANY_FRACTIONS:
        return f"an identifier: {n:,} different values in {n_rows:,} rows"
    if n > MOST_NAMES:
        return f"{n:,} different values, more than {MOST_NAMES:,}; put them into classes"
    one_spelling = answers.apply(name, sides)
    return one_spelling if isinstance(one_spelling, str) else _named(name, one_spelling)


def _binned(
    name: str, sides: Sequence[_Coded], numbers: Mapping[str, float], notes: list[str]
) -> Column:
    numbers_by_side = [
        np.array([numbers.get(word, np.nan) for word in side.words])[side.codes] for side in sides
    ]
    all_numbers = np.concatenate(numbers_by_side)
    present = all_numbers[~np.isnan(all_numbers)]
    edges = np.unique(np.quantile(present, np.linspace(0, 1, BINS + 1)[1:-1], method="higher"))
    edges = edges[edges > present.min()]
    shown_edges = [f"{edge:.6g}" for edge in edges]
    between = [f"{a} to {b}" for a, b in zip(shown_edges, shown_edges[1:], strict=False)]
    values = [f"below {shown_edges[0]}", *between, f"{shown_edges[-1]} and above"]
    if len(set(values)) < len(values):
        values = [
            f"class {bin_number + 1} of {len(edges) + 1}" for bin_number in range(len(edges) + 1)
        ]
    codes = [
        np.where(np.isnan(side), len(values), np.searchsorted(edges, side, side="right"))
        for side in numbers_by_side
    ]
    if len(present) < len(all_numbers):
        values.append(NO_VALUE)
    notes.append(
        f"{name}: numbers, put into {len(edges) + 1} classes by the quantiles of both tables"
        " together"
    )
    return Column(name, tuple(values), codes[0].astype(np.int64), codes[1].astype(np.int64))


def _named(name: str, sides: Sequence[_Coded]) -> Column:
    """The values of both sides by name: numbers in numeric order under one spelling, else text in
    its order."""
    words = sorted({word for side in sides for word in side.words})
    texts = [word for word in words if word != NO_VALUE]
    spelled = {word: word for word in words}
    numbers = _numbers(texts)
    if numbers is not None:
        spelled |= {word: _plain(number) for word, number in numbers.items()}
        order = {spelled[word]: (number, "") for word, number in numbers.items()}
    elif {word.lower() for word in texts} <= {"true", "false"}:
        spelled |= {word: word.lower() for word in texts}
        order = {spelled[word]: (0.0, spelled[word]) for word in texts}
    else:
        order = {word: (0.0, word) for word in texts}
    values = sorted(order, key=lambda value: order[value])
    if NO_VALUE in spelled:
        values.append(NO_VALUE)
    code = {value: value_code for value_code, value in enumerate(values)}
    codes = {word: code[value] for word, value in spelled.items()}
    return Column(name, tuple(values), sides[0].spread(codes), sides[1].spread(codes))


def _numbers(texts: Sequence[str]) -> dict[str, float] | None:
    """Each text as a number, where all are and none has leading zeros, as names such as 007
    have."""
    out = {}
    for text in texts:
        digits = text.lstrip("+-")
        if digits[:1] == "0" and digits[1:2].isdigit():
            return None
        try:
            out[text] = float(text)
        except ValueError:
            return None
        if not np.isfinite(out[text]):
            return None
    return out


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


def split_tables(
    split: Split, against: str, columns: Sequence[str] | None = None, seed: int = 0
) -> Tables:
    """The training set and another set of a split, by all attributes that both have; the label is
    the split's.

    Where the value of a derived attribute is drawn at every visit, one visit of each row is drawn.
    """
    sets = {**split.validation, **split.evaluation}
    if against not in sets:
        raise unknown("target", "set of the split", against, sets)
    sides = [
        _attributes(split, "train", split.train, seed),
        _attributes(split, against, sets[against], seed),
    ]
    label = split.parts["train"].pool.cells.label.name
    theirs = split.parts[against].pool.cells.label.name
    classes = split.class_names
    out = [
        Column(
            label, classes, split.train.label.astype(np.int64), sets[against].label.astype(np.int64)
        )
    ]
    shared_names = [[name for name in side if name not in (label, theirs)] for side in sides]
    for name in columns or ():
        if name not in shared_names[0] and name not in shared_names[1]:
            raise unknown("columns", "attribute of the split", name, shared_names[0])
    skipped = []
    for name in dict.fromkeys([*shared_names[0], *shared_names[1]]):
        if columns is not None and name not in columns:
            continue
        if name not in sides[0] or name not in sides[1]:
            skipped.append(
                (name, f"only the {'training' if name in sides[0] else 'target'} set has it")
            )
            continue
        values = tuple(dict.fromkeys([*sides[0][name][0], *sides[1][name][0]]))
        code_of = {value: code for code, value in enumerate(values)}
        codes = [
            np.array([code_of[value] for value in side[name][0]], dtype=np.int64)[side[name][1]]
            for side in sides
        ]
        present = np.unique(np.concatenate(codes))
        if len(present) < 2:
            skipped.append((name, "has one value only"))
            continue
        level = np.zeros(len(values), dtype=np.int64)
        level[present] = np.arange(len(present))
        out.append(
            Column(name, tuple(values[code] for code in present), level[codes[0]], level[codes[1]])
        )
    if len(out) == 1:
        raise DataError("the split has no attribute to audit")
    return Tables(label, True, tuple(out), tuple(skipped), ())


def _attributes(
    split: Split, name: str, rows: RowSet, seed: int
) -> dict[str, tuple[tuple[str, ...], NDArray[np.int64]]]:
    dataset = split.parts[name].dataset
    base, derived = rows.rows, dataset.derived
    out = {}
    if derived is not None:
        size = len(derived.values)
        if rows.visit_law is not None:
            drawn = stream(seed, "audit visits", name).random(len(base))[:, None]
            value = (np.cumsum(rows.visit_law, axis=1) < drawn).sum(axis=1).clip(max=size - 1)
        else:
            base, value = np.divmod(base, size)
        out[derived.attribute.name] = (derived.attribute.values, value.astype(np.int64))
    for attribute in dataset.table.attributes:
        out[attribute.name] = (
            attribute.values,
            dataset.table.column(attribute.name)[base].astype(np.int64),
        )
    return out
