"""Numbers as people write them in texts: with a point or a comma before the fraction, and with the
other sign between thousands.

What `1,234` is the column itself may say, or the other columns of its table. Where neither does,
nobody can tell, and the column is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crosswind.data.spellings import NO_NUMBERS, mixed_truths

if TYPE_CHECKING:
    from polars import DataFrame, Series

MISSING = ("", "nan", "null", "<na>")  # case folded; "none" and "NA" are real names in many tables
"""What stands for no value in a column of any kind."""
LOOKED_AT = 20_000
"""Rows of the other columns that are looked at for the sign before their fractions."""
SURELY_THOUSANDS = 30
"""So many different numbers of three digits behind their comma, beside whole ones without a comma,
are no fractions: of these one in ten ends in a zero, which is not written."""
MOST_TRUTHS = 20
"""Ways in which a column writes true and false, capitals told apart."""
_EXPONENT = r"([eE][+-]?\d+)?"
_PLAIN = rf"^[+-]?(\d+\.?\d*|\.\d+){_EXPONENT}$"
_WITH_COMMA = rf"^[+-]?(\d+,?\d*|,\d+){_EXPONENT}$"
_GROUPS_BY_COMMAS = r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$"
_GROUPS_BY_POINTS = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?$"
_BELOW_THOUSAND = r"^[+-]?\d{1,3}(\.\d*)?$"
_WHOLE_BELOW_THOUSAND = r"^[+-]?\d{1,3}$"


@dataclass(frozen=True)
class WrittenNumbers:
    """A column of texts as numbers.

    `numbers`: null where a cell has none. `broken`: the cells that hold something else. `doubt`:
    why nobody can tell what a cell is, and the remedy; empty where each is clear. `doubtful_row`:
    the first such cell, from 0. `between_thousands`: the sign between thousands; empty for none.
    """

    numbers: Series
    broken: Series
    doubt: str = ""
    doubtful_row: int = 0
    between_thousands: str = ""


def written_numbers(column: Series, others: Iterable[Series]) -> WrittenNumbers:
    """A column of texts as numbers; `others`, the other columns of its table, say what its commas
    are where it does not say so itself. Truths that are written in several ways, of which 1 and 0
    may be one, are 1 and 0."""
    import polars

    texts = column.str.strip_chars()
    texts = texts.set(texts.str.to_lowercase().is_in(list(MISSING)), None)
    numbers = texts.cast(polars.Float64, strict=False)
    no_value = texts.str.to_lowercase().is_in(list(NO_NUMBERS)).fill_null(False)
    broken = numbers.is_null() & texts.is_not_null() & ~no_value
    words = texts.filter(texts.is_not_null() & ~no_value)
    if not broken.any():
        if _all_groups_by_points(words) and _fraction_signs(others) == {","}:
            return WrittenNumbers(_without(texts, "."), broken, between_thousands=".")
        return WrittenNumbers(numbers, broken)
    truths = mixed_truths(words.unique().to_list()) if words.n_unique() <= MOST_TRUTHS else {}
    if truths:
        numbers = texts.replace(truths).cast(polars.Float64, strict=False)
        return WrittenNumbers(numbers, broken & False)
    thousands = _may_have_commas_between_thousands(words)
    fractions = _may_have_commas_before_fractions(words)
    doubt = ""
    if thousands and fractions:
        thousands, fractions = _told_by_others(words, others)
        if not (thousands or fractions):
            doubt = _doubt(words)
    if doubt:
        first = int((texts == _first_with_comma(words)).arg_true()[0])
        return WrittenNumbers(numbers, broken, doubt, first)
    if thousands:
        return WrittenNumbers(_without(texts, ","), broken & False, between_thousands=",")
    if fractions:
        sign = "." if words.str.contains(r"\.").any() else ""
        with_points = texts.str.replace_all(".", "", literal=True).str.replace(
            ",", ".", literal=True
        )
        numbers = with_points.cast(polars.Float64, strict=False)
        return WrittenNumbers(numbers, broken & numbers.is_null(), between_thousands=sign)
    return WrittenNumbers(numbers, broken)


def columns_beside(rows: DataFrame, name: str) -> Iterator[Series]:
    """The columns of a table but one."""
    return (column for column in rows.get_columns() if column.name != name)


def thousands_note(rows: DataFrame, name: str) -> str:
    """A sentence, without its full stop, on the sign between the thousands of a column of texts;
    empty for a column without such a sign."""
    import polars

    column = rows.get_column(name)
    if column.dtype != polars.String:
        return ""
    return note_on_thousands(column, written_numbers(column, columns_beside(rows, name)))


def note_on_thousands(column: Series, written: WrittenNumbers) -> str:
    """`thousands_note` of a column that has been read as numbers."""
    sign = written.between_thousands
    if not sign:
        return ""
    texts = column.str.strip_chars()
    row = int(texts.str.contains(sign, literal=True).fill_null(False).arg_true()[0])
    kind = "commas" if sign == "," else "points"
    return f"{column.name}: {kind} between thousands, {texts[row]!r} is {float(written.numbers[row]):.15g}"


def _without(texts: Series, sign: str) -> Series:
    import polars

    return texts.str.replace_all(sign, "", literal=True).cast(polars.Float64, strict=False)


def _all_match(texts: Series, pattern: str) -> bool:
    return bool(texts.str.contains(pattern).all())


def _all_groups_by_points(words: Series) -> bool:
    """Whether a column that reads as numbers may as well have points between thousands: each point
    has three digits behind it, and numbers without one are below a thousand."""
    pointed = words.filter(words.str.contains(".", literal=True))
    if not len(pointed) or not _all_match(pointed, _GROUPS_BY_POINTS):
        return False
    return _all_match(words.filter(~words.str.contains(".", literal=True)), _WHOLE_BELOW_THOUSAND)


def _may_have_commas_between_thousands(words: Series) -> bool:
    """Whether each comma of a column has three digits behind it, as between thousands."""
    has_comma = words.str.contains(",", literal=True)
    return (
        bool(has_comma.any())
        and _all_match(words.filter(has_comma), _GROUPS_BY_COMMAS)
        and _all_match(words.filter(~has_comma), _PLAIN)
    )


def _may_have_commas_before_fractions(words: Series) -> bool:
    """Whether the commas of a column may stand before fractions, and its points between
    thousands."""
    has_point = words.str.contains(".", literal=True)
    return _all_match(words.filter(has_point), _GROUPS_BY_POINTS) and _all_match(
        words.filter(~has_point), _WITH_COMMA
    )


def _told_by_others(words: Series, others: Iterable[Series]) -> tuple[bool, bool]:
    """Whether the commas of a column that may be either stand between thousands, and whether they
    stand before fractions; neither where nothing says which."""
    has_comma = words.str.contains(",", literal=True)
    without_comma = words.filter(~has_comma)
    # Somebody who writes 1,234 for a thousand and more does not write 5678 beside it.
    consistent = _all_match(without_comma, _BELOW_THOUSAND)
    signs = _fraction_signs(others)
    if signs == {","}:
        return False, True
    if signs == {"."}:
        return consistent, False
    many = words.filter(has_comma).n_unique() >= SURELY_THOUSANDS
    whole = bool(len(without_comma)) and _all_match(without_comma, _WHOLE_BELOW_THOUSAND)
    return not signs and whole and many, False


def _doubt(words: Series) -> str:
    first = _first_with_comma(words)
    as_thousands, as_fraction = first.replace(",", ""), first.replace(",", ".")
    return (
        f"{first!r} may be {as_thousands} or {as_fraction}, and nothing in the table says which: write"
        " the column's numbers without the commas, or with points for them"
    )


def _first_with_comma(words: Series) -> str:
    return str(words.filter(words.str.contains(",", literal=True))[0])


def _fraction_signs(columns: Iterable[Series]) -> set[str]:
    """The signs that surely stand before fractions in some columns: a point, a comma, or both."""
    signs: set[str] = set()
    for column in columns:
        signs.update(_fraction_sign(column.head(LOOKED_AT)))
        if len(signs) > 1:
            break
    return signs


def _fraction_sign(column: Series) -> Iterator[str]:
    """The sign that surely stands before the fractions of a column of numbers."""
    import polars

    if column.dtype.is_float():
        numbers = column.drop_nulls()
        if bool((numbers != numbers.round()).any()):
            yield "."
        return
    if column.dtype != polars.String:
        return
    texts = column.str.strip_chars()
    lower = texts.str.to_lowercase()
    words = texts.filter(texts.is_not_null() & ~lower.is_in([*MISSING, *NO_NUMBERS]))
    pointed = words.filter(words.str.contains(".", literal=True))
    with_comma = words.filter(words.str.contains(",", literal=True))
    if len(pointed) and _all_match(words, _PLAIN) and not _all_match(pointed, _GROUPS_BY_POINTS):
        yield "."
    elif (
        len(with_comma)
        and _may_have_commas_before_fractions(words)
        and not _may_have_commas_between_thousands(words)
    ):
        yield ","
