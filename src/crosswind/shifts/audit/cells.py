"""The cells of one column in two tables: the words of each side, and which of them name numbers,
values or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from crosswind.data.spellings import shown_apart
from crosswind.data.table_inputs import (
    IDENTIFIERS,
    NO_NUMBERS,
    commas_may_part_thousands,
    flaw_of_numbers,
    n_fractions,
    with_decimal_points,
)
from crosswind.data.tabular import MISSING, codes_of

if TYPE_CHECKING:
    from polars import DataFrame, Series

NO_VALUE = "(missing)"
TABLE_NAMES = ("training", "target")


@final
@dataclass(frozen=True, eq=False)
class Cells:
    """A column of one side: `words` of its different cells (some may be alike), and which of them
    each row has."""

    words: list[str]
    codes: NDArray[np.int64]

    @property
    def present(self) -> NDArray[np.bool_]:
        """The rows that have a value."""
        return np.array([word != NO_VALUE for word in self.words], dtype=bool)[self.codes]

    def rows(self, chosen: NDArray[np.bool_]) -> Cells:
        """Some of its rows, and the words that they have."""
        used, codes = np.unique(self.codes[chosen], return_inverse=True)
        words = [self.words[code] for code in used]
        return Cells(words, codes.astype(np.int64))

    def spread(self, values: Mapping[str, int]) -> NDArray[np.int64]:
        """The code that each row has by the code of its word."""
        return np.array([values[word] for word in self.words], dtype=np.int64)[self.codes]

    def renamed(self, name_of: Mapping[str, str]) -> Cells:
        """The same rows with other names for some of the words."""
        return Cells([name_of.get(word, word) for word in self.words], self.codes)

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


def cells_of(frame: DataFrame, name: str) -> Cells | str:
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
    return Cells(words, codes_of(column, distinct))


def named_values(sides: Sequence[Cells]) -> list[str]:
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


def read_numbers(name: str, sides: Sequence[Cells]) -> tuple[list[Cells], str]:
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


def _with_points(sides: Sequence[Cells]) -> list[Cells]:
    """The sides with points for decimal commas. They stay as they are where a side has commas that
    may part thousands, and no other tells that they do not."""
    all_texts = [side.series() for side in sides]
    have_comma = [bool(texts.str.contains(",", literal=True).any()) for texts in all_texts]
    may_part = [commas_may_part_thousands(texts) for texts in all_texts]
    decimal = [
        comma and not thousands for comma, thousands in zip(have_comma, may_part, strict=True)
    ]
    if any(may_part) and not any(decimal):
        return list(sides)
    pointed_sides = []
    for side, texts in zip(sides, all_texts, strict=True):
        pointed_words = with_decimal_points(texts).fill_null(NO_VALUE).to_list()
        pointed_sides.append(Cells(pointed_words, side.codes))
    return pointed_sides


def why_no_numbers(sides: Sequence[Cells]) -> str:
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


def number_the_rows(name: str, sides: Sequence[Cells], numbers: Mapping[str, float]) -> bool:
    """Whether whole numbers, of which hardly two rows have one, name the rows.

    They do so by the name of their column, where the numbers of both tables or of each leave no
    gap, and where they grow from row to row.
    """
    if IDENTIFIERS.search(name):
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
