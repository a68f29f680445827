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
from crosswind.data.table_inputs import (
    COMMA_OF_THREE,
    flaw_of_numbers,
    n_fractions,
)
from crosswind.data.tabular import codes_of
from crosswind.data.written_numbers import MISSING

if TYPE_CHECKING:
    from polars import DataFrame, Series

NO_VALUE = "(missing)"
TABLE_NAMES = ("training", "target")
MANY_COMMAS = 20
"""Numbers that hardly all have three decimals beside one that has none."""
MOST_SHOWN = 6
"""Values that a hint names, and that are compared by how they begin."""


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

    def series(self) -> Series:
        """The words as texts, null for what is missing."""
        import polars

        texts = [None if word == NO_VALUE else word for word in self.words]
        return polars.Series(texts, dtype=polars.String)

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
    distinct = column.unique()
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


def read_numbers(name: str, sides: Sequence[ColumnCells]) -> tuple[list[ColumnCells], str]:
    """The sides with the numbers of a column as `crosswind init` reads them, and a note, if any.

    Decimal commas are points; NA and its like are no value among numbers. A column with anything
    else stays as it is.
    """
    sides = list(sides)
    if numbers_by_word(named_values(sides)) is not None:
        return sides, ""
    pointed_sides = _with_points(sides)
    words = named_values(pointed_sides)
    no_values = [word for word in words if word.lower() in NO_NUMBERS]
    numbers = [word for word in words if word not in no_values]
    if not numbers or numbers_by_word(numbers) is None:
        return sides, ""
    if not no_values:
        return pointed_sides, ""
    quoted_words = " and ".join(shown_apart(no_values))
    count = "count" if len(no_values) > 1 else "counts"
    note = f"{name}: {quoted_words} {count} as no value among numbers"
    name_of = dict.fromkeys(no_values, NO_VALUE)
    return [side.renamed(name_of) for side in pointed_sides], note


def _with_decimal_points(texts: Series) -> Series:
    """Texts with points for decimal commas, as spreadsheets of half the world write them. They stay
    as they are where one holds a point, and where the commas seem to stand between thousands: 1,234
    beside 900."""
    no_number = texts.str.to_lowercase().is_in(list(NO_NUMBERS)).fill_null(False)
    numbers = texts.set(no_number, None)
    has_comma = numbers.str.contains(",", literal=True).fill_null(False)
    if not has_comma.any() or numbers.str.contains(".", literal=True).any():
        return texts
    if _commas_may_part_thousands(numbers) and _are_thousands(numbers, has_comma):
        return texts
    return texts.str.replace(",", ".", literal=True)


def _commas_may_part_thousands(texts: Series) -> bool:
    """Whether there are numbers with a comma, and each of them has three digits after it and a
    first one that is no zero: 1,234 may be a number of thousands, 0,5 is none."""
    with_comma = texts.filter(texts.str.contains(",", literal=True).fill_null(False))
    return len(with_comma) > 0 and bool(with_comma.str.contains(COMMA_OF_THREE).all())


def _are_thousands(texts: Series, has_comma: Series) -> bool:
    """Whether whole numbers without a comma tell that the commas part thousands.

    Among decimals a whole number is one whose zeros were left out: some of the others would have
    lost a zero too, if they are many, and it is about as large as they are.
    """
    import polars

    whole = texts.filter(~has_comma & texts.str.contains(r"^[+-]?\d+$").fill_null(False))
    if not len(whole):
        return False
    decimals = texts.filter(has_comma).str.replace(",", ".", literal=True)
    sizes = [series.cast(polars.Float64).abs().to_numpy().max() for series in (whole, decimals)]
    return len(decimals) >= MANY_COMMAS or bool(sizes[0] > 2 * sizes[1])


def _with_points(sides: Sequence[ColumnCells]) -> list[ColumnCells]:
    """The sides with points for decimal commas. They stay as they are where a side has commas that
    may part thousands, and no other tells that they do not."""
    all_texts = [side.series() for side in sides]
    have_comma = [bool(texts.str.contains(",", literal=True).any()) for texts in all_texts]
    may_part = [_commas_may_part_thousands(texts) for texts in all_texts]
    decimal = [
        comma and not thousands for comma, thousands in zip(have_comma, may_part, strict=True)
    ]
    if any(may_part) and not any(decimal):
        return list(sides)
    pointed_sides = []
    for side, texts in zip(sides, all_texts, strict=True):
        pointed_words = _with_decimal_points(texts).fill_null(NO_VALUE).to_list()
        pointed_sides.append(ColumnCells(pointed_words, side.codes))
    return pointed_sides


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


def hint_at_other_names(name: str, sides: Sequence[ColumnCells], is_label: bool = False) -> str:
    """A sentence on values that the tables seem to write differently; empty where they do not.

    A label of which no value is in both tables; an attribute of as many words here as numbers
    there, or whose values on one side begin as those on the other do, as m and male.
    """
    words = [set(side.words) - {NO_VALUE} for side in sides]
    only = [sorted(words[0] - words[1]), sorted(words[1] - words[0])]
    if not all(only):
        return ""
    is_disjoint = not words[0] & words[1]
    of_words_and_numbers = is_disjoint and len(only[0]) == len(only[1]) and _of_two_kinds(only)
    if not (is_label and is_disjoint) and not of_words_and_numbers and not _begin_alike(*only):
        return ""
    seen = ", ".join(only[0][:MOST_SHOWN]) + (", ..." if len(only[0]) > MOST_SHOWN else "")
    unseen = ", ".join(only[1][:MOST_SHOWN]) + (", ..." if len(only[1]) > MOST_SHOWN else "")
    if is_label and is_disjoint:
        return (
            f"label {name!r}: no label of the target occurs in training ({unseen} there, {seen} in"
            " training): are they written differently?"
        )
    return (
        f"{name}: only the target has {unseen}, only training has {seen}: are they written"
        " differently?"
    )


def _of_two_kinds(only: Sequence[Sequence[str]]) -> bool:
    """Whether one of two lists of words is of numbers and the other has none."""
    are_numbers = [numbers_by_word(words) is not None for words in only]
    have_numbers = [any(numbers_by_word([word]) is not None for word in words) for words in only]
    return are_numbers == have_numbers and are_numbers[0] != are_numbers[1]


def _begin_alike(words: Sequence[str], longer_words: Sequence[str]) -> bool:
    """Whether each of several words of one list begins one of the other, or is begun by it, as m
    and f do male and female."""
    if len(words) != len(longer_words) or not 1 < len(words) <= MOST_SHOWN:
        return False
    if sum(map(len, words)) > sum(map(len, longer_words)):
        words, longer_words = longer_words, words
    begun = []
    for word in words:
        begun.append([longer for longer in longer_words if longer.lower().startswith(word.lower())])
    return all(len(fitting) == 1 for fitting in begun) and len({fit[0] for fit in begun}) == len(
        words
    )
