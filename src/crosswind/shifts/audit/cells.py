"""The cells of one column in two tables: the words of each side, and which of them name numbers,
values or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from crosswind.data.column_names import names_rows
from crosswind.data.spellings import NO_NUMBERS, shown_apart
from crosswind.data.table_inputs import flaw_of_numbers, n_fractions
from crosswind.data.tabular import codes_of
from crosswind.data.written_numbers import (
    MISSING,
    WrittenNumbers,
    columns_beside,
    note_on_thousands,
    written_numbers,
)

if TYPE_CHECKING:
    from polars import DataFrame, Series

NO_VALUE = "(missing)"
TABLE_NAMES = ("training", "target")
LARGEST_EXACT = 2**53
"""Whole numbers below it are exact in double precision."""
MOST_SHOWN = 6
"""Values that a hint names, and that are compared by how they begin."""
_TRUTHS = ({"true", "false"}, {"yes", "no"})


@final
@dataclass(frozen=True, eq=False)
class ColumnCells:
    """A column of one side: `words` of its different cells (some may be alike), and which of them
    each row has."""

    words: list[str]
    codes: NDArray[np.int64]

    @property
    def present(self) -> NDArray[np.bool_]:
        """The rows that have a value."""
        return np.array([word != NO_VALUE for word in self.words], dtype=bool)[self.codes]

    def rows(self, chosen: NDArray[np.bool_]) -> ColumnCells:
        """Some of its rows, and the words that they have."""
        used, codes = np.unique(self.codes[chosen], return_inverse=True)
        words = [self.words[code] for code in used]
        return ColumnCells(words, codes.astype(np.int64))

    def spread(self, values: Mapping[str, int]) -> NDArray[np.int64]:
        """The code that each row has by the code of its word."""
        return np.array([values[word] for word in self.words], dtype=np.int64)[self.codes]

    def renamed(self, name_of: Mapping[str, str]) -> ColumnCells:
        """The same rows with other names for some of the words."""
        return ColumnCells([name_of.get(word, word) for word in self.words], self.codes)

    def series(self, name: str = "") -> Series:
        """The words as texts, null for what is missing."""
        import polars

        texts = [None if word == NO_VALUE else word for word in self.words]
        return polars.Series(name, texts, dtype=polars.String)

    def flaw(self) -> str:
        """Why its rows, which seem to hold numbers or dates, are not read as numbers; empty for
        words."""
        texts = self.series().gather(self.codes)
        return flaw_of_numbers(texts, texts.is_null().to_numpy())


def cells_of(frame: DataFrame, name: str) -> ColumnCells | str:
    """A column by its different cells, as text with `NO_VALUE` for what is missing; a string says
    why it cannot be had."""
    import polars

    column = frame.get_column(name)
    kind = str(column.dtype).lower()
    if column.dtype.is_nested() or column.dtype in (polars.Binary, polars.Object):
        return f"holds {kind} values"
    if column.dtype.is_float():
        column = column.fill_nan(None)
    distinct = column.unique(maintain_order=True)  # errors name the first cell
    try:
        text = distinct.cast(polars.String, strict=False).str.strip_chars()
    except polars.exceptions.PolarsError:
        return f"holds {kind} values, which have no text to name them by"
    lacking = text.is_null() | text.str.to_lowercase().is_in(list(MISSING))
    words = []
    for word, none in zip(text.to_list(), lacking.to_list(), strict=True):
        words.append(NO_VALUE if none else str(word))
    return ColumnCells(words, codes_of(column, distinct))


def named_values(sides: Sequence[ColumnCells]) -> list[str]:
    """The words of both sides that name a value, in the order of text."""
    return sorted({word for side in sides for word in side.words} - {NO_VALUE})


def numbers_by_word(words: Sequence[str]) -> dict[str, float] | None:
    """Each word as a number, where all are and none has leading zeros, as names such as 007
    have."""
    numbers = {}
    for word in words:
        digits = word.lstrip("+-")
        # Python takes 1_2 for 12.
        if "_" in digits or (digits[:1] == "0" and digits[1:2].isdigit()):
            return None
        try:
            numbers[word] = float(word)
        except ValueError:
            return None
        if not np.isfinite(numbers[word]):
            return None
    return numbers


def numbers_of_sides(
    name: str, sides: Sequence[ColumnCells], frames: Sequence[DataFrame]
) -> tuple[list[ColumnCells], list[str]] | str:
    """The sides with the numbers of a column written as Python writes them, and notes on them; a
    string says why nobody can tell what the numbers of one table are. `frames`: the tables.

    Numbers are read as `written_numbers` has it, and NA and its like are no value among them. A
    column with anything else stays as it is.
    """
    written_sides = _written_sides(name, sides, frames)
    doubtful = [bool(written.doubt) for written in written_sides]
    if any(doubtful) and not all(doubtful):
        first = doubtful.index(True)
        return f"in the {TABLE_NAMES[first]} table {written_sides[first].doubt}"
    plain_sides = [
        side.renamed(_plain_words(side, written))
        for side, written in zip(sides, written_sides, strict=True)
    ]
    words = named_values(plain_sides)
    no_values = [word for word in words if word.lower() in NO_NUMBERS]
    numbers = [word for word in words if word not in no_values]
    if not numbers or numbers_by_word(numbers) is None:
        return list(sides), []
    notes = []
    for side, written in zip(sides, written_sides, strict=True):
        notes.append(note_on_thousands(side.series(name), written))
    if no_values:
        count = "count" if len(no_values) > 1 else "counts"
        quoted_words = " and ".join(shown_apart(no_values))
        notes.append(f"{name}: {quoted_words} {count} as no value among numbers")
    name_of = dict.fromkeys(no_values, NO_VALUE)
    return [side.renamed(name_of) for side in plain_sides], list(dict.fromkeys(filter(None, notes)))


def _written_sides(
    name: str, sides: Sequence[ColumnCells], frames: Sequence[DataFrame]
) -> list[WrittenNumbers]:
    """The words of each side as numbers. Where its own table does not say what its commas are, the
    commas of the same column of the other table do."""
    all_words = [side.series(name) for side in sides]
    written_sides = []
    for words, frame in zip(all_words, frames, strict=True):
        # What a frame holds as a number has a point before its fraction, whatever its texts have.
        is_number = frame.get_column(name).dtype.is_numeric()
        others = [] if is_number else list(columns_beside(frame, name))
        written = written_numbers(words, others)
        if written.doubt:
            others += [
                series
                for series in all_words
                if series is not words and series.str.contains(",", literal=True).any()
            ]
            written = written_numbers(words, others)
        written_sides.append(written)
    return written_sides


def _has_sign(word: str, written: WrittenNumbers) -> bool:
    sign = written.between_thousands
    return "," in word or bool(sign and sign in word)


def _plain_words(side: ColumnCells, written: WrittenNumbers) -> dict[str, str]:
    """The numbers, as Python writes them, of those words that it does not read or reads otherwise."""
    plain = {}
    for word, number in zip(side.words, written.numbers.to_list(), strict=True):
        if number is not None and _has_sign(word, written):
            is_whole = number.is_integer() and abs(number) < LARGEST_EXACT
            plain[word] = str(int(number) if is_whole else number)
    return plain


def why_no_numbers(sides: Sequence[ColumnCells]) -> str:
    """Why a column that seems to hold numbers or dates is not read as numbers, for the first side
    of which that is so; empty for one of words."""
    for table_name, side in zip(TABLE_NAMES, sides, strict=False):
        flaw = side.flaw()
        if flaw:
            return f"in the {table_name} table {flaw}"
    return ""


def hold_fractions(words: Sequence[str], least: int) -> bool:
    """Whether more than `least` of the words are numbers with fractions, and hardly any is none."""
    import polars

    return n_fractions(polars.Series(list(words), dtype=polars.String)) > least


def number_the_rows(name: str, sides: Sequence[ColumnCells], numbers: Mapping[str, float]) -> bool:
    """Whether whole numbers, of which hardly two rows have one, name the rows.

    They do so by the name of their column, where the numbers of both tables or of each leave no
    gap, and where they grow from row to row.
    """
    if names_rows(name):
        return True
    sizes = [np.array([numbers.get(word, np.nan) for word in side.words]) for side in sides]
    rows_of_sides = [size[side.codes] for size, side in zip(sizes, sides, strict=True)]
    rows_of_sides = [rows[~np.isnan(rows)] for rows in rows_of_sides]
    if _leaves_no_gap(np.concatenate(rows_of_sides)):
        return True
    return all(_leaves_no_gap(rows) or bool((np.diff(rows) > 0).all()) for rows in rows_of_sides)


def _leaves_no_gap(numbers: NDArray[np.float64]) -> bool:
    """Whether all whole numbers from the least to the largest are there."""
    if not len(numbers):
        return True
    return len(np.unique(numbers)) == numbers.max() - numbers.min() + 1


def ways_of_no_value(sides: Sequence[ColumnCells]) -> list[str]:
    """The ways in which no value may be written that differ between the sides: an empty cell,
    `NO_VALUE`, in one and NA in the other. None where both write it alike, or only one does."""
    ways = [
        {word for word in side.words if word == NO_VALUE or word.lower() in NO_NUMBERS}
        for side in sides
    ]
    if len(ways) < 2 or ways[0] <= ways[1] or ways[1] <= ways[0]:
        return []
    return sorted(ways[0] ^ ways[1])


def shown_ways(ways: Sequence[str]) -> str:
    """Ways in which no value is written, in words, an empty cell last."""
    shown = shown_apart([way for way in ways if way != NO_VALUE])
    return " and ".join([*shown, *(["an empty cell"] if NO_VALUE in ways else [])])


@final
@dataclass(frozen=True)
class OtherNames:
    """Values that two tables seem to write differently. `sentence` says which; `names`: the
    target's word -> training's word for the same, empty where the words do not say it."""

    sentence: str
    names: Mapping[str, str]


def other_names(
    name: str, sides: Sequence[ColumnCells], is_label: bool = False
) -> OtherNames | None:
    """The values of a column that the tables seem to write differently, None where they do not.

    Those of a label of which no value is in both tables; those of an attribute of as many words
    here as numbers there, or whose values on one side begin as those on the other do, as m and
    male.
    """
    words = [set(side.words) - {NO_VALUE} for side in sides]
    only = [sorted(words[0] - words[1]), sorted(words[1] - words[0])]
    if not all(only):
        return None
    is_disjoint = not words[0] & words[1]
    if _share_numbers(words, is_label):
        return None
    of_words_and_numbers = is_disjoint and len(only[0]) == len(only[1]) and _of_two_kinds(only)
    names = _begin_alike(*only)
    if not (is_label and is_disjoint) and not of_words_and_numbers and not names:
        return None
    shown_words = [_first_of(side) for side in only]
    sentence = f"only the target has {shown_words[1]}, only training has {shown_words[0]}"
    if is_label and is_disjoint:
        sentence = (
            f"no label of the target occurs in training ({shown_words[1]} there, {shown_words[0]}"
            " in training)"
        )
    return OtherNames(sentence, names)


def _first_of(words: Sequence[str]) -> str:
    """The first of some words, in a list."""
    return ", ".join(words[:MOST_SHOWN]) + (", ..." if len(words) > MOST_SHOWN else "")


def _share_numbers(words: Sequence[set[str]], is_label: bool) -> bool:
    """Whether all words of both sides are numbers; of a label, numbers of which the sides share
    any."""
    numbers = numbers_by_word([*words[0], *words[1]])
    if numbers is None:
        return False
    # 1 and 1.0 are one number.
    values = [{numbers[word] for word in side} for side in words]
    return not is_label or bool(values[0] & values[1])


def _of_two_kinds(only: Sequence[Sequence[str]]) -> bool:
    """Whether one of two lists of words is of numbers and the other has none, or is of truths and
    the other of other words."""
    of_truths = [{word.lower() for word in words} in _TRUTHS for words in only]
    if of_truths[0] != of_truths[1]:
        return True
    are_numbers = [numbers_by_word(words) is not None for words in only]
    have_numbers = [any(numbers_by_word([word]) is not None for word in words) for words in only]
    return are_numbers == have_numbers and are_numbers[0] != are_numbers[1]


def _begin_alike(train: Sequence[str], target: Sequence[str]) -> dict[str, str]:
    """Each of several words of the target -> the one word of training that it begins, or that
    begins it, as m and f do male and female. Empty where that is not so of each."""
    if len(train) != len(target) or not 1 < len(train) <= MOST_SHOWN:
        return {}
    shorter, longer = sorted((train, target), key=lambda words: sum(map(len, words)))
    pairs = []
    for word in shorter:
        pairs += [(word, long) for long in longer if long.lower().startswith(word.lower())]
    if len(pairs) != len(shorter) or len({long for _, long in pairs}) != len(longer):
        return {}
    if len({short for short, _ in pairs}) != len(shorter):
        return {}
    return {long: short for short, long in pairs} if longer is target else dict(pairs)
