"""Two tables of anyone's own as columns of codes: from files, data frames, attribute tables, or the
sets of a split.

Both sides are read alike, so that one value has one name on both. Text is without the white space
around it, numbers go by their value (1 is 1.0, unless leading zeros say that they are names), true
and false whatever their case. A cell without a value is a value of its own, `(missing)`. Numbers of
many values are put into classes by quantiles of both tables together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, counted, one_line, unknown
from crosswind.core.seeds import stream
from crosswind.data.attributes import AttributeTable
from crosswind.data.column_names import name_words, numbers_persons
from crosswind.data.dataset import AttributedDataset
from crosswind.data.frames import frame_of
from crosswind.data.spellings import NO_NUMBERS, Spellings, shown_apart, spellings_of
from crosswind.data.tabular import NoNames, read_table
from crosswind.shifts.audit.cells import (
    NO_VALUE,
    TABLE_NAMES,
    ColumnCells,
    cells_of,
    hold_fractions,
    named_values,
    number_the_rows,
    numbers_by_word,
    numbers_of_sides,
    other_names,
    shown_ways,
    ways_of_no_value,
    why_no_numbers,
)
from crosswind.shifts.audit.contingency import Column
from crosswind.shifts.split.rows import RowSet, Split

if TYPE_CHECKING:
    from polars import DataFrame

ValuesAndCodes = tuple[tuple[str, ...], NDArray[np.int64]]
"""The values of an attribute, and the code of each row."""

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
    """The columns of two tables. `columns`: only these. `names`: columns whose numbers are names
    and never put into classes. `header`: names of the columns of CSV files whose first line is a
    row. `same`, `distinct`: columns in which values that may be one are one, or are not.

    A table is the path of a CSV or Parquet file, a polars, pandas or Arrow frame, a mapping from name to
    values, an `AttributeTable` or an `AttributedDataset`. Raises `InputError` for a column that is
    in neither or a label that training lacks, `DataError` for a table that cannot be read.
    """
    sides = [_frame(train, "train", header), _frame(target, "target", header)]
    _check_header(header, sides)
    train_names = sides[0].columns
    all_names = list(dict.fromkeys([*train_names, *sides[1].columns]))
    if label not in train_names:
        raise unknown("label", "column of the training table", label, train_names)
    for field, chosen in (
        ("columns", columns or ()),
        ("names", names),
        ("same", same),
        ("distinct", distinct),
    ):
        _check_columns(field, chosen, all_names)
    answers = _AnswerColumns(frozenset(same), frozenset(distinct), [])
    label_cells = _label_cells(label, sides, label in names, answers)
    labelled_rows = [cells.present for cells in label_cells]
    if not labelled_rows[0].any():
        raise DataError(f"the label {label!r} has no value in any row of the training table")
    labelled = len(labelled_rows) == 2 and bool(labelled_rows[1].any())
    if labelled:
        label_column = _label(label, _rows_of(label_cells, labelled_rows), label in names, answers)
        answers.notes.extend(_label_notes(label_column, labelled_rows))
    else:
        labelled_rows = [np.ones(frame.height, dtype=bool) for frame in sides]
        answers.notes.append(
            f"the target has no label {label!r}: low-data drift and unseen values can be told,"
            f" correlations cannot{_hint_at_name(label, sides)}"
        )
        constant_codes = [np.zeros(frame.height, dtype=np.int64) for frame in sides]
        label_column = Column(label, ("",), *constant_codes)
    attributes = {
        name: _attribute(name, sides, labelled_rows, name in names, answers)
        for name in all_names
        if name != label and (columns is None or name in columns)
    }
    audited_columns = [column for column in attributes.values() if isinstance(column, Column)]
    skipped = _left_out(attributes)
    if not audited_columns:
        raise DataError(f"no attribute is left to audit ({_reasons(skipped)})")
    all_columns = (label_column, *audited_columns)
    return Tables(label, labelled, all_columns, skipped, tuple(answers.notes))


def _check_header(header: Sequence[str] | None, sides: Sequence[DataFrame]) -> None:
    """Raise `InputError` for names of columns that no table needed."""
    if header is not None and all(side.columns != list(header) for side in sides):
        problem = "names the columns of a CSV file without names, and both tables have theirs"
        raise InputError("header", f"{problem}; leave it out")


def _check_columns(field: str, chosen: Sequence[str], all_names: Sequence[str]) -> None:
    """Raise `InputError` on the first column that neither table has."""
    for name in chosen:
        if name not in all_names:
            raise unknown(field, "column of either table", name, all_names)


def _hint_at_name(name: str, sides: Sequence[DataFrame]) -> str:
    """A hint at a column that one table lacks and seems to call by another name, of the same
    words: Age and age."""
    for table_name, frame in zip(TABLE_NAMES, sides, strict=True):
        if name in frame.columns:
            continue
        for column in frame.columns:
            is_shared = all(column in side.columns for side in sides)
            if not is_shared and name_words(column) == name_words(name) != ():
                return (
                    f"; the {table_name} table has {column!r}: if they are one, give both one name"
                )
    return ""


def _left_out(attributes: Mapping[str, Column | str]) -> tuple[tuple[str, str], ...]:
    """The columns that are left out, each with the reason that stands in its place."""
    return tuple((name, reason) for name, reason in attributes.items() if isinstance(reason, str))


def _reasons(skipped: Sequence[tuple[str, str]]) -> str:
    """Why each of the columns is left out, on a line."""
    reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped)
    return one_line(reasons or "there is no other column", 300)


def _label_cells(
    label: str, sides: Sequence[DataFrame], as_names: bool, answers: _AnswerColumns
) -> list[ColumnCells]:
    """The label of the tables that have it. Raises `DataError` where it cannot be read as text."""
    label_cells = []
    frames = [frame for frame in sides if label in frame.columns]
    for frame in frames:
        cells = cells_of(frame, label)
        if isinstance(cells, str):
            raise DataError(f"the label {label!r} {cells}")
        label_cells.append(cells)
    if not as_names:
        labels_as_numbers = answers.with_numbers(label, label_cells, frames)
        if isinstance(labels_as_numbers, str):
            raise InputError("label", f"{label!r}: {labels_as_numbers}")
        label_cells = labels_as_numbers
    if len(label_cells) == 2 and (words := _words_for_no_label(label_cells)):
        label_cells[1] = label_cells[1].renamed(dict.fromkeys(words, NO_VALUE))
        quoted_words = " and ".join(shown_apart(words))
        answers.notes.append(
            f"the label {label!r} is {quoted_words} in all rows of the target, which counts as no label"
        )
    one_missing = answers.with_missing(label, label_cells)
    if isinstance(one_missing, str):
        raise InputError("label", f"{label!r}: {one_missing}")
    return one_missing


def _words_for_no_label(sides: Sequence[ColumnCells]) -> list[str]:
    """The words of the target's label where all of them stand for none, and training has none of
    them."""
    words = named_values(sides[1:])
    are_none = all(word.lower() in NO_NUMBERS for word in words)
    return words if are_none and not set(words) & set(sides[0].words) else []


def _label_notes(column: Column, labelled_rows: Sequence[NDArray[np.bool_]]) -> Iterator[str]:
    """The notes on the label: that it is constant, and where it is missing."""
    if len(column.values) == 1:
        yield (
            f"the label {column.name!r} has one value on both sides, {column.values[0]!r}:"
            " correlations with it cannot be told"
        )
    for table_name, rows in zip(TABLE_NAMES, labelled_rows, strict=True):
        n_unlabelled = int((~rows).sum())
        if n_unlabelled:
            yield (
                f"{n_unlabelled:,} of {len(rows):,} rows of the {table_name} table have no"
                " label and were left out"
            )


def _rows_of(
    sides: Sequence[ColumnCells], rows_of_sides: Sequence[NDArray[np.bool_]]
) -> list[ColumnCells]:
    """Some rows of each side."""
    return [side.rows(rows) for side, rows in zip(sides, rows_of_sides, strict=True)]


def _attribute(
    name: str,
    sides: Sequence[DataFrame],
    rows_of_sides: Sequence[NDArray[np.bool_]],
    as_names: bool,
    answers: _AnswerColumns,
) -> Column | str:
    """An attribute of both tables as codes; a string says why it is left out."""
    lacking = [name not in frame.columns for frame in sides]
    if any(lacking):
        table_name = TABLE_NAMES[1] if lacking[0] else TABLE_NAMES[0]
        return f"only the {table_name} table has it{_hint_at_name(name, sides)}"
    coded_sides = []
    for cells in [cells_of(frame, name) for frame in sides]:
        if isinstance(cells, str):
            return cells
        coded_sides.append(cells)
    if not as_names:
        sides_as_numbers = answers.with_numbers(name, coded_sides, sides)
        if isinstance(sides_as_numbers, str):
            return sides_as_numbers
        coded_sides = sides_as_numbers
    one_missing = answers.with_missing(name, coded_sides)
    if isinstance(one_missing, str):
        return one_missing
    coded_sides = one_missing
    column = _column(name, _rows_of(coded_sides, rows_of_sides), as_names, answers)
    if isinstance(column, _ManyValues):
        # The rows as they stand in the tables, so that errors can name one.
        return ("" if as_names else why_no_numbers(coded_sides)) or column.reason
    return column


def frame_in_memory(table: Any, header: Sequence[str] | None = None) -> DataFrame:
    """The rows of one training table, of any of the forms of `read_tables`. Raises `InputError`,
    `DataError`."""
    return _frame(table, "train", header)


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
        values = {}
        for name in table.names:
            values[name] = np.array(table.attribute(name).values)[table.column(name)]
        frame = polars.DataFrame(values)
    else:
        kinds = [
            "a path",
            "a polars, pandas or Arrow frame",
            "a mapping from name to values",
            "an AttributeTable",
            "an AttributedDataset",
        ]
        frame = frame_of(table, field, kinds)
    if not frame.height or not frame.width:
        raise DataError(f"the {field} table has no rows")
    return frame


@final
@dataclass(frozen=True)
class _AnswerColumns:
    """The settings for values that may be one, by column, and the notes of what was made one."""

    same: frozenset[str]
    distinct: frozenset[str]
    notes: list[str]

    def with_numbers(
        self, name: str, sides: Sequence[ColumnCells], frames: Sequence[DataFrame]
    ) -> list[ColumnCells] | str:
        """The sides with numbers as they are meant, which is noted; a string where nobody can tell,
        see `numbers_of_sides`."""
        numbers = numbers_of_sides(name, sides, frames)
        if isinstance(numbers, str):
            return numbers
        self.notes.extend(numbers[1])
        return numbers[0]

    def with_missing(self, name: str, sides: Sequence[ColumnCells]) -> list[ColumnCells] | str:
        """The sides with what is missing written in one way; a string on words such as NA in one
        table that may be the empty cells of the other, of which nothing is said."""
        ways = ways_of_no_value(sides)
        if not ways or name in self.distinct:
            return list(sides)
        shown = shown_ways(ways)
        if name not in self.same:
            return f"{shown} may be one value: say so by same, or by distinct that they are not"
        self.notes.append(f"{name}: {shown} are taken as one value (same)")
        return [side.renamed(dict.fromkeys(ways, NO_VALUE)) for side in sides]

    def apply(self, name: str, sides: Sequence[ColumnCells]) -> list[ColumnCells] | str:
        """The sides with one name for each value; a string on values that may be one, of which
        nothing is said."""
        words = named_values(sides)
        if numbers_by_word(words) is not None:
            return list(sides)
        spellings = spellings_of(words)
        if spellings.names:
            self.notes.append(spellings.said(name))
        name_of = dict(spellings.names)
        if name in self.same:
            name_of = self._as_one_value(name, spellings)
        elif spellings.doubts and name not in self.distinct:
            return _doubt(spellings)
        return [side.renamed(name_of) for side in sides]

    def with_shared_names(
        self, name: str, sides: Sequence[ColumnCells], is_label: bool = False
    ) -> list[ColumnCells] | str:
        """The sides with one name for each value that the tables write differently; a string on
        values that they seem to write so, of which nothing is said."""
        differing = other_names(name, sides, is_label)
        if differing is None or name in self.distinct:
            return list(sides)
        if name in self.same and differing.names:
            pairs = ", ".join(f"{new!r} is {old!r}" for new, old in differing.names.items())
            self.notes.append(f"{name}: {pairs} (same)")
            return [sides[0], sides[1].renamed(differing.names)]
        remedy = "write them alike in both tables"
        if differing.names:
            pairs = " and ".join(f"{new} is {old}" for new, old in differing.names.items())
            remedy = f"say by same that {pairs}"
        return (
            f"{differing.sentence}: are they written differently? If so, {remedy}; if not, say so by"
            " distinct"
        )

    def _as_one_value(self, name: str, spellings: Spellings) -> dict[str, str]:
        """The name of each spelling where values that may be one are one, which is noted."""
        name_of = dict(spellings.names)
        for group in spellings.doubts:
            name_of |= dict.fromkeys(group, group[0])
        name_of |= {text: name_of.get(value, value) for text, value in spellings.names.items()}
        for group in spellings.doubts:
            values = " and ".join(shown_apart(group))
            self.notes.append(f"{name}: {values} are taken as one value (same)")
        return name_of


def _doubt(spellings: Spellings) -> str:
    """Why values that may be one cannot be audited before something is said of them."""
    doubts = spellings.doubts
    values = " and ".join(shown_apart(doubts[0]))
    more_pairs = ""
    if len(doubts) > 1:
        more_pairs = f", and {counted(len(doubts) - 1, 'more such pair')}"
    return (
        f"{values} may be one value{more_pairs}: say so by same, or by distinct that they are not"
    )


def _label(
    name: str, sides: Sequence[ColumnCells], as_names: bool, answers: _AnswerColumns
) -> Column:
    numbers = None if as_names else numbers_by_word(named_values(sides))
    # Whole numbers may be those of classes, however many there are; a fraction is none.
    if numbers is not None and any(number % 1 for number in numbers.values()):
        if _is_a_measure(name, sides, numbers):
            return _binned(name, sides, numbers, answers.notes)
    one_spelling = answers.apply(name, sides)
    if isinstance(one_spelling, str):
        raise InputError("label", f"{name!r}: {one_spelling}")
    shared_names = answers.with_shared_names(name, one_spelling, is_label=True)
    if isinstance(shared_names, str):
        raise InputError("label", f"{name!r}: {shared_names}")
    column = _named(name, shared_names)
    if len(column.values) > MOST_NAMES:
        problem = (
            f"the label {name!r} has {len(column.values):,} different values, and an audit is of"
            " classes"
        )
        raise DataError(problem)
    if numbers is not None and len(column.values) > MANY_WHOLE:
        answers.notes.append(
            f"the label {name!r} has {len(column.values):,} different numbers, each taken for a class:"
            " where they measure something, put them into classes first"
        )
    return column


@final
@dataclass(frozen=True)
class _ManyValues:
    """A column of too many values, or of numbers that are not read as such, and what is said of it
    where nothing is wrong with its numbers."""

    reason: str


def _column(
    name: str, sides: Sequence[ColumnCells], as_names: bool, answers: _AnswerColumns
) -> Column | _ManyValues | str:
    """One attribute as codes; a string says why it is left out."""
    values = named_values(sides)
    n_rows = sum(len(side.codes) for side in sides)
    reason = _why_left_out(name, sides, values, as_names)
    if reason:
        return reason
    numbers = None if as_names else numbers_by_word(values)
    if numbers is not None and _is_a_measure(name, sides, numbers):
        return _binned(name, sides, numbers, answers.notes)
    too_many = _why_too_many(values, n_rows)
    if too_many:
        return _ManyValues(too_many)
    if numbers is None and not as_names and hold_fractions(values, MANY_FRACTIONS):
        return _ManyValues("numbers with signs or units: write the numbers alone")
    one_spelling = answers.apply(name, sides)
    if isinstance(one_spelling, str):
        return one_spelling
    shared_names = answers.with_shared_names(name, one_spelling)
    if isinstance(shared_names, str):
        return shared_names
    return _named(name, shared_names)


def _why_left_out(
    name: str, sides: Sequence[ColumnCells], values: Sequence[str], as_names: bool
) -> str:
    """Why a column is no attribute: it has one value or none, or numbers persons. Empty for one
    that may be."""
    n_values = len(values)
    if n_values == 0:
        return "has no value in any row"
    if n_values == 1 and all(NO_VALUE not in side.words for side in sides):
        return "has one value only"
    if numbers_persons(name) and not as_names and n_values > MANY_FRACTIONS:
        n_rows = sum(len(side.codes) for side in sides)
        return f"numbers of patients or the like: {n_values:,} different values in {n_rows:,} rows"
    return ""


def _why_too_many(values: Sequence[str], n_rows: int) -> str:
    """Why the values of a column are no names: they tell rows apart, or are too many. Empty for
    names."""
    n_values = len(values)
    if 2 * n_values > n_rows and n_values > MANY_FRACTIONS:
        return f"an identifier: {n_values:,} different values in {n_rows:,} rows"
    if n_values > MOST_NAMES:
        return f"{n_values:,} different values, more than {MOST_NAMES:,}; put them into classes"
    return ""


def _is_a_measure(name: str, sides: Sequence[ColumnCells], numbers: Mapping[str, float]) -> bool:
    """Whether numbers are so many that they are put into classes, and do not number the rows."""
    n_rows = sum(len(side.codes) for side in sides)
    distinct = set(numbers.values())
    are_whole = all(number == int(number) for number in distinct)
    if are_whole and 2 * len(distinct) <= n_rows:
        return len(distinct) > MANY_WHOLE
    if len(distinct) <= MANY_FRACTIONS:
        return False
    return not are_whole or not number_the_rows(name, sides, numbers)


def _binned(
    name: str, sides: Sequence[ColumnCells], numbers: Mapping[str, float], notes: list[str]
) -> Column:
    numbers_by_side = []
    for side in sides:
        numbers_of_words = np.array([numbers.get(word, np.nan) for word in side.words])
        numbers_by_side.append(numbers_of_words[side.codes])
    all_numbers = np.concatenate(numbers_by_side)
    present = all_numbers[~np.isnan(all_numbers)]
    inner_quantiles = np.linspace(0, 1, BINS + 1)[1:-1]
    edges = np.unique(np.quantile(present, inner_quantiles, method="higher"))
    edges = edges[edges > present.min()]
    values = _bin_names(edges)
    codes = []
    for side_numbers in numbers_by_side:
        bins = np.searchsorted(edges, side_numbers, side="right")
        codes.append(np.where(np.isnan(side_numbers), len(values), bins).astype(np.int64))
    notes.append(
        f"{name}: numbers, put into {len(edges) + 1} classes by the quantiles of both tables"
        " together"
    )
    if len(present) < len(all_numbers):
        values.append(NO_VALUE)
    return Column(name, tuple(values), codes[0], codes[1])


def _bin_names(edges: NDArray[np.float64]) -> list[str]:
    """The classes that edges make, by their bounds; by number where two would read alike."""
    shown_edges = [f"{edge:.6g}" for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(shown_edges)]
    names = [f"below {shown_edges[0]}", *between, f"{shown_edges[-1]} and above"]
    n_bins = len(edges) + 1
    if len(set(names)) < len(names):
        return [f"class {number} of {n_bins}" for number in range(1, n_bins + 1)]
    return names


def _named(name: str, sides: Sequence[ColumnCells]) -> Column:
    """The values of both sides by name: numbers in numeric order under one spelling, else text in
    its order."""
    texts = named_values(sides)
    numbers = numbers_by_word(texts)
    if numbers is not None:
        spelled = {text: _plain(number) for text, number in numbers.items()}
        values = _by_size(numbers)
    elif {text.lower() for text in texts} <= {"true", "false"}:
        spelled = {text: text.lower() for text in texts}
        values = sorted(set(spelled.values()))
    else:
        spelled = {text: text for text in texts}
        values = texts
    if any(NO_VALUE in side.words for side in sides):
        values = [*values, NO_VALUE]
        spelled[NO_VALUE] = NO_VALUE
    code_of = {value: code for code, value in enumerate(values)}
    codes = {word: code_of[value] for word, value in spelled.items()}
    train = sides[0].spread(codes)
    target = sides[1].spread(codes)
    return Column(name, tuple(values), train, target)


def _by_size(numbers: Mapping[str, float]) -> list[str]:
    """The different numbers under their one spelling, in numeric order."""
    size_of = {_plain(number): number for number in numbers.values()}
    return sorted(size_of, key=lambda spelling: size_of[spelling])


def _plain(number: float) -> str:
    if number == int(number) and abs(number) < 1e15:
        return str(int(number))
    return repr(number)


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
    train = _attributes(split, "train", split.train, seed)
    target = _attributes(split, against, sets[against], seed)
    label = split.parts["train"].pool.cells.label.name
    labels = (label, split.parts[against].pool.cells.label.name)
    train_names = [name for name in train if name not in labels]
    target_names = [name for name in target if name not in labels]
    for name in columns or ():
        if name not in train_names and name not in target_names:
            raise unknown("columns", "attribute of the split", name, train_names)
    label_codes = [rows.label.astype(np.int64) for rows in (split.train, sets[against])]
    label_column = Column(label, split.class_names, *label_codes)
    attributes = {
        name: _shared(name, train, target)
        for name in dict.fromkeys([*train_names, *target_names])
        if columns is None or name in columns
    }
    audited_columns = [column for column in attributes.values() if isinstance(column, Column)]
    if not audited_columns:
        raise DataError("the split has no attribute to audit")
    return Tables(label, True, (label_column, *audited_columns), _left_out(attributes), ())


def _shared(
    name: str, train: Mapping[str, ValuesAndCodes], target: Mapping[str, ValuesAndCodes]
) -> Column | str:
    """An attribute of both sets, under the values that any of their rows has; a string says why it
    is left out."""
    if name not in train or name not in target:
        return f"only the {'training' if name in train else 'target'} set has it"
    sides = (train[name], target[name])
    values = tuple(dict.fromkeys([*sides[0][0], *sides[1][0]]))
    code_of = {value: code for code, value in enumerate(values)}
    codes = []
    for values_of_set, rows in sides:
        new_codes = np.array([code_of[value] for value in values_of_set], dtype=np.int64)
        codes.append(new_codes[rows])
    present = np.unique(np.concatenate(codes))
    if len(present) < 2:
        return "has one value only"
    level = np.zeros(len(values), dtype=np.int64)
    level[present] = np.arange(len(present))
    present_values = tuple(values[code] for code in present)
    return Column(name, present_values, level[codes[0]], level[codes[1]])


def _attributes(split: Split, name: str, rows: RowSet, seed: int) -> dict[str, ValuesAndCodes]:
    """The attributes of a set's rows, the derived one first."""
    dataset = split.parts[name].dataset
    base = rows.rows
    derived = dataset.derived
    attributes = {}
    if derived is not None:
        size = len(derived.values)
        if rows.visit_law is not None:
            drawn = stream(seed, "audit visits", name).random(len(base))[:, None]
            is_passed = np.cumsum(rows.visit_law, axis=1) < drawn
            value = is_passed.sum(axis=1).clip(max=size - 1)
        else:
            base, value = np.divmod(base, size)
        attributes[derived.attribute.name] = (derived.attribute.values, value.astype(np.int64))
    for attribute in dataset.table.attributes:
        codes = dataset.table.column(attribute.name)[base]
        attributes[attribute.name] = (attribute.values, codes.astype(np.int64))
    return attributes
