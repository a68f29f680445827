"""The preparation of a table's columns before they are attributes or inputs. Numbers are put into
classes, rows without a value left out, numbers and categories made one array of inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, counted, shown
from crosswind.core.types import InputColumn
from crosswind.data.column_names import names_rows
from crosswind.data.tabular import has_column
from crosswind.data.written_numbers import MISSING, columns_beside, written_numbers

if TYPE_CHECKING:
    from polars import DataFrame, Series

MISSING_RULES = ("refuse", "leave-out", "value")
"""What becomes of a row without a value: refused, left out, or "missing" is a value of its own."""
NO_VALUE = "missing"
DATE = (
    r"(?i)^(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?"  # 2024-01-31, 31.1.24, with a time or without
    r"|\d{4}[-/](0?[1-9]|1[0-2])"  # 2024-01
    r"|\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?"  # 17:05, 5:05 pm
    r"|(\d{1,2}\.?[ -])?(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?"
    r"|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?)\.?[ -]"
    r"(\d{1,2},? ?)?('?\d{2}|\d{4})( .*)?)$"  # 31 Jan 2024, January 31, 2024, Jan-24
)
"""How dates and times are written, for polars."""
MEASURE = (
    r"^[^\p{L}\d]*\d+"  # a number, with a sign or a currency
    r"([^\p{L}\d]+(\p{L}{1,4}[^\p{L}\d]+)?\d+)*"  # more of them, a sign or a short unit between
    r"([^\p{L}\d]*\p{L}{1,5}){0,2}[^\p{L}\d]*$"  # and a unit
)
"""How numbers with signs and units are written, for polars; names of numbers and dashes fit too."""
GRADES = frozenset(
    ("score", "grade", "rating", "stars", "overall", "severity", "probability", "stage", "level")
    + ("quality", "age", "rank", "likert", "risk", "degree", "intensity", "dose", "confidence")
)
"""Words in names of columns whose numbers are in order, however few there are."""
EXACT_IN_FLOAT32, EXACT_IN_FLOAT64 = 2**24, 2**53
"""The whole numbers up to which all are held exactly."""
LEAST_TOLD_APART = 0.9
"""The share of a column's long whole numbers that must stay different in float32."""
_SIGNED = r"^[^\w\s]?\s?[\d.,]*\d\s?[^\d\s.,]{0,3}$"
"""Numbers as people write them with a currency, a unit or marks between thousands, for polars."""
_TIME = r"(?i)^\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?$"
"""How times of a day and spans of time are written, for polars."""
_OTHER_DIGITS = r"^[+-]?[\d.,\u066B\u066C]*[\d&&[^0-9]][\d.,\u066B\u066C]*$"
"""Numbers whose digits are not 0 to 9, as in Persian or of full width, for polars."""
_OTHER_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(['\u2019_]\d{3})+([.,]\d+)?$"
"""Numbers as people write them in Switzerland, or in programs, for polars."""
_WITH_UNITS = "numbers with signs or units: write the numbers alone"
COMMA_OF_THREE = r"^[+-]?[1-9]\d{0,2},\d{3}$"
"""Numbers whose comma may stand before decimals or between thousands, for polars."""
MOST_FLAWED = 5
"""Different words in a column of numbers that may have slipped in, such as < 0.1; codes have more."""
MOST_REPEATED_VALUES = 20
"""A column of at most as many different values is one of categories, however few its rows are."""
MOST_CATEGORIES = 1000
"""Values of a column that is an input by its categories, one number each."""


class DoubtfulNumbers(DataError):
    """A column whose commas may stand between thousands or before fractions; `doubt` says so."""

    def __init__(self, path: str, name: str, row: int, doubt: str) -> None:
        super().__init__(f"{path}, column {name!r}, row {row + 1}: {doubt}")
        self.doubt = doubt


def with_bins(rows: DataFrame, bins: Mapping[str, Any], path: str, field: str) -> DataFrame:
    """The rows with numbers of some columns replaced by the class that each lies in.

    `bins`: column -> increasing numbers that part its classes; [40, 60] makes `< 40`, `40 to < 60`
    and `>= 60`. A cell without a value stays one. Raises `InputError` for bins that are none,
    `DataError` for a cell that is no number.
    """
    import polars

    columns = []
    for name, cuts in bins.items():
        has_column(rows, name, path, field)
        edges = _edges(cuts, f"{field}.{name}")
        numbers = numbers_of(rows, name, path)
        names = bin_names(edges)
        codes = np.searchsorted(np.array(edges), numbers, side="right")
        texts = []
        for number, code in zip(numbers, codes, strict=True):
            texts.append(None if np.isnan(number) else names[code])
        columns.append(polars.Series(name, texts, dtype=polars.String))
    return rows.with_columns(columns)


def bin_names(edges: Sequence[float]) -> list[str]:
    """The names of the classes between increasing numbers, and below and above them."""
    written = [f"{edge:g}" for edge in edges]
    between = [f"{low} to < {high}" for low, high in zip(written, written[1:], strict=False)]
    return [f"< {written[0]}", *between, f">= {written[-1]}"]


def _edges(cuts: Any, field: str) -> list[float]:
    """The numbers that part classes, checked."""
    if isinstance(cuts, Sequence) and not isinstance(cuts, str):
        edges = cuts
    else:
        edges = [cuts]
    numbers = []
    for edge in edges:
        if isinstance(edge, int | float) and not isinstance(edge, bool):
            numbers.append(edge)
    increasing = all(low < high for low, high in zip(numbers, numbers[1:], strict=False))
    if not edges or len(numbers) < len(edges) or not increasing or not np.isfinite(numbers).all():
        raise InputError(field, f"must be increasing numbers that part classes, not {shown(cuts)}")
    return [float(number) for number in numbers]


def numbers_of(rows: DataFrame, name: str, path: str) -> NDArray[np.float64]:
    """A column as numbers, NaN where it has no value: float64 [n].

    Texts are read as `written_numbers` has it. Raises `DataError` for a cell that is no number,
    `DoubtfulNumbers` for commas that may stand between thousands or before fractions.
    """
    import polars

    column = rows.get_column(name)
    if column.dtype.is_nested() or column.dtype in (polars.Binary, polars.Object):
        raise DataError(
            f"{path}, column {name!r} holds {str(column.dtype).lower()} values, no numbers"
        )
    if column.dtype.is_temporal():
        raise DataError(f"{path}, column {name!r} holds dates or times, no numbers")
    if isinstance(column.dtype, polars.Categorical | polars.Enum):
        column = column.cast(polars.String)
    if column.dtype == polars.Boolean:
        column = column.cast(polars.Int8)
    if column.dtype != polars.String:
        numbers = column.cast(polars.Float64, strict=False)
        return _finite(numbers.to_numpy().astype(np.float64), name, path)
    written = written_numbers(column, columns_beside(rows, name))
    if written.doubt:
        raise DoubtfulNumbers(path, name, written.doubtful_row, written.doubt)
    broken = written.broken.arg_true()
    if len(broken):
        more_words = ""
        if len(broken) > 1:
            more_words = f" ({counted(len(broken) - 1, 'more such row')})"
        problem = (
            f"{path}, column {name!r}, row {broken[0] + 1}: {column[broken[0]].strip()!r} is no"
            f" number{more_words}; write numbers alone, and leave cells without one empty"
        )
        raise DataError(problem)
    numbers = written.numbers
    return _finite(numbers.to_numpy().astype(np.float64), name, path)


def flaw_of_numbers(texts: Series, empty: NDArray[np.bool_]) -> str:
    """Why a column of texts that seems to hold numbers or dates is not read as numbers; empty for
    one of words. `texts`: of every row, `empty`: the rows without a value."""
    import polars

    present = ~empty
    n_present = int(present.sum())
    numbers = texts.cast(polars.Float64, strict=False)
    finite = (numbers.is_not_null() & numbers.is_finite()).fill_null(False).to_numpy()
    no_numbers = np.flatnonzero(present & ~finite)
    if not len(no_numbers):
        return ""
    first = int(no_numbers[0])
    row_words = f"row {first + 1} has {str(texts[first])[:40]!r}"
    if 2 * len(no_numbers) < n_present:
        return (
            f"a number in {n_present - len(no_numbers):,} of {n_present:,} rows, but {row_words}:"
            " write numbers alone, and leave cells without one empty"
        )
    of_words = texts.filter(polars.Series(present))
    for pattern, description in (
        (_TIME, "times, which are not read as numbers"),
        (DATE, "dates, which are not read as numbers"),
        (_OTHER_DIGITS, "numbers in digits of another script: write them in 0 to 9"),
        (_OTHER_THOUSANDS, "numbers with a sign between thousands that is not read: write 1500"),
        (COMMA_OF_THREE, "numbers whose commas may mark decimals or thousands: write 1.5 or 1500"),
        (_SIGNED, _WITH_UNITS),
    ):
        if int(of_words.str.contains(pattern).sum()) > n_present / 2:
            return f"{description} ({row_words})"
    return f"{_WITH_UNITS} ({row_words})" if are_measures(of_words) else ""


def n_fractions(words: Series) -> int:
    """How many of the different words of a column are numbers with fractions, signs and units left
    aside; 0 for dates, and where more than `MOST_FLAWED` words are no numbers at all, such as V27
    among codes of diseases."""
    signed = words.filter(words.str.contains(_SIGNED))
    n_dates = int(words.str.contains(DATE).sum())
    if 2 * n_dates > len(words) or len(words) - len(signed) > MOST_FLAWED:
        return 0
    return int(signed.str.contains(r"\d[.,]\d").sum())


def counts_rows(name: str, numbers: NDArray[np.float64]) -> bool:
    """Whether numbers name the rows: whole ones, one each, by the name of the column or in steps of
    one. `numbers`: float64 [n], NaN where a row has none."""
    present = numbers[~np.isnan(numbers)]
    if len(np.unique(present)) < len(present) or (present != present.round()).any():
        return False
    return names_rows(name) or bool((np.diff(present) == 1).all())


def why_code(column: Series, name: str, numbers: NDArray[np.float64]) -> str:
    """Why a column that can be read as numbers holds codes, in half a sentence; empty for numbers.

    Codes are of one width that zeros fill (01000), or whole numbers with an exponent that nobody
    writes so (47E17). Grades and ages, by their names, may have zeros in front of them.
    """
    import polars

    if column.dtype != polars.String:
        return ""
    texts = column.str.strip_chars()
    words = texts.filter(polars.Series(~np.isnan(numbers)))
    zeros = words.filter(words.str.contains(r"^0\d"))
    if len(zeros) and bool(words.str.contains(r"^\d+$").all()):
        shortest: Any = words.str.len_chars().min()
        longest: Any = zeros.str.len_chars().max()
        if shortest >= longest and not GRADES & set(re.split(r"[^a-z]+", name.lower())):
            return f"codes with zeros in front, such as {zeros[0]!r}: no numbers"
    names = words.filter(words.str.contains(r"^\d{2,}[eE]\d+$"))
    if len(names):
        return f"names such as {names[0]!r}, which only look like numbers"
    return ""


def told_apart(column: Series, numbers: NDArray[np.float64]) -> str:
    """That a model, which reads numbers in float32, cannot tell long whole numbers apart, in half a
    sentence; empty where it can. `numbers`: the column's, float64 [n]."""
    present = numbers[~np.isnan(numbers)]
    largest = float(np.abs(present).max(initial=0))
    if largest <= EXACT_IN_FLOAT32 or (present != present.round()).any():
        return ""
    n_values = len(np.unique(present))
    if largest >= EXACT_IN_FLOAT64:
        n_values = column.drop_nulls().n_unique()
    n_read = len(np.unique(present.astype(np.float32)))
    if n_read >= LEAST_TOLD_APART * n_values:
        return ""
    return (
        f"{n_values:,} whole numbers so long that a model, which reads float32, tells only"
        f" {n_read:,} of them apart: leave names out, and count numbers from a later start"
    )


def are_measures(texts: Series) -> bool:
    """Whether most texts are numbers with signs or units, such as `12 ± 2` or `120 / 80 mmHg`."""
    matches = texts.str.contains(MEASURE) & texts.str.contains(r"[\s±]")
    return int(matches.sum()) > len(texts) / 2


def are_dates(texts: Series) -> bool:
    """Whether most texts are dates or times."""
    import polars

    matches = texts.cast(polars.String, strict=False).str.strip_chars().str.contains(DATE)
    return int(matches.sum()) > len(texts) / 2


def why_no_input(rows: DataFrame, name: str) -> str:
    """Why a column tells a model nothing as it stands: it holds dates or times, names the rows, or
    has hardly two rows of one value. Empty for a column of numbers or of values that repeat."""
    import polars

    column = rows.get_column(name)
    if column.dtype.is_temporal():
        return "dates or times"
    if column.dtype.is_nested() or column.dtype in (polars.Binary, polars.Object):
        return ""  # which is refused in its own words
    values = column.drop_nulls()
    n_values = values.n_unique()
    if n_values <= MOST_REPEATED_VALUES:
        return ""
    try:
        numbers = numbers_of(rows, name, "")
    except DoubtfulNumbers as error:
        return error.doubt
    except DataError:
        if are_dates(values):
            return "dates or times"
        if 2 * n_values <= len(values) or column.dtype.is_numeric():
            return ""
        return f"{n_values:,} different values in {rows.height:,} rows"
    if counts_rows(name, numbers):
        return "numbers the rows"
    if why_code(column, name, numbers):
        repeated = 2 * n_values <= len(values)
        return "" if repeated else f"{n_values:,} different values in {rows.height:,} rows"
    return told_apart(column, numbers)


def _finite(numbers: NDArray[np.float64], name: str, path: str) -> NDArray[np.float64]:
    """The numbers; a `DataError` for an infinite one and for one beyond float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        infinite = np.flatnonzero(np.isinf(numbers.astype(np.float32)))
    if infinite.size:
        row = int(infinite[0])
        problem = f"{path}, column {name!r}, row {row + 1}: {numbers[row]:g} is no finite number in float32"
        raise DataError(problem)
    return numbers


def lacks_value(column: Series) -> NDArray[np.bool_]:
    """Which cells of a column hold no value: bool [n]."""
    import polars

    if column.dtype.is_nested() or column.dtype in (polars.Binary, polars.Object, polars.Duration):
        return column.is_null().to_numpy()
    if column.dtype in (polars.Float32, polars.Float64):
        return (column.is_null() | column.is_nan().fill_null(True)).to_numpy()
    texts = column.cast(polars.String, strict=False).str.strip_chars().str.to_lowercase()
    return (texts.is_null() | texts.is_in(list(MISSING)).fill_null(True)).to_numpy()


def without_missing(
    rows: DataFrame, columns: Sequence[str], rule: str | None, field: str
) -> tuple[DataFrame, NDArray[np.int64], list[tuple[str, str]]]:
    """The rows by the rule for cells without a value in some columns, their numbers int64, and what
    a plan says of each column.

    Raises `InputError` for an unknown rule. By `refuse`, or None, all rows stay and are refused
    where their values are read.
    """
    import polars

    if rule not in (None, *MISSING_RULES):
        raise InputError(field, f"not {rule!r}", list(MISSING_RULES))
    numbers = np.arange(rows.height)
    if rule in (None, "refuse"):
        return rows, numbers, []
    notes = []
    has_all = np.ones(rows.height, dtype=bool)
    for name in columns:
        missing = lacks_value(rows.get_column(name))
        if not missing.any():
            continue
        became = "left out" if rule == "leave-out" else f"the value {NO_VALUE!r}"
        notes.append(
            (name, f"{name}: empty in {missing.sum():,} of {rows.height:,} rows, {became}")
        )
        if rule == "leave-out":
            has_all &= ~missing
        else:
            texts = rows.get_column(name).cast(polars.String, strict=False)
            filled = texts.set(polars.Series(missing), NO_VALUE)
            rows = rows.with_columns(filled.alias(name))
    return (
        (rows.filter(polars.Series(has_all)) if not has_all.all() else rows),
        numbers[has_all],
        notes,
    )


def input_columns(
    rows: DataFrame, numbers: Sequence[str], categories: Sequence[str], path: str
) -> tuple[InputColumn, ...]:
    """The columns of numbers, then those of categories with the values that the rows have, in the
    order of their text. Raises `DataError` for a column that cannot be a category."""
    columns = [InputColumn(name) for name in numbers]
    for name in categories:
        values = _category_values(rows.get_column(name), path)
        columns.append(InputColumn(name, values))
    return tuple(columns)


def refuse_lost_digits(rows: DataFrame, numbers: Sequence[str], path: str) -> None:
    """Refuse a column of numbers whose differences single precision does not hold, in which inputs
    are: where rounding moves a value by more than a hundredth of the standard deviation, as of
    numbers of accounts and of seconds since 1970 within an hour. Raises `DataError`."""
    for name in numbers:
        values = numbers_of(rows, name, path)
        values = values[np.isfinite(values)]
        if not values.size:
            continue
        with np.errstate(over="ignore"):
            rounding = np.abs(values - values.astype(np.float32))
        spread = float(values.std())
        if spread > 0 and rounding.max() > spread / 100:
            example = values[int(rounding.argmax())]
            raise DataError(
                f"{path}, column {name!r} has numbers such as {example:.17g}, whose differences are"
                " lost in single precision, in which inputs are: subtract a constant, such as"
                f" {values.min():.17g}, or leave the column out of 'numbers'"
            )


def input_array(
    rows: DataFrame, columns: Sequence[InputColumn], path: str
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The inputs of columns side by side, float32 [n, d], and a sentence for each category of which
    some rows have a value that it has not.

    A number that is missing is NaN; a category that is missing, or of another value, has no 1.
    Raises `DataError` for a column that cannot be one, and for a category of which no row has a
    value.
    """
    inputs = []
    notes = []
    for column in columns:
        if column.values is None:
            inputs.append(numbers_of(rows, column.name, path)[:, None])
            continue
        hot, note = _one_hot(rows.get_column(column.name), column.values, path)
        inputs.append(hot)
        notes += [note] if note else []
    return np.ascontiguousarray(np.concatenate(inputs, axis=1), dtype=np.float32), tuple(notes)


def coded_texts(
    rows: DataFrame, name: str, path: str, reader: str
) -> tuple[InputColumn, NDArray[np.float32]]:
    """A column of texts as positions, float32 [n, 1], in its different texts, which stand as the
    table has them. `reader`: what errors call the model that reads texts there.

    Raises `DataError` for a row without a text, and for a column of lists, bytes or objects.
    """
    import polars

    column = rows.get_column(name)
    _check_scalars(column, path)
    texts = column.cast(polars.String, strict=False)
    empty_rows = texts.is_null().arg_true()
    if len(empty_rows):
        problem = (
            f"{path}, column {name!r}, row {empty_rows[0] + 1}: no text, and {reader} reads one"
            f" there; fill it or leave out {counted(len(empty_rows), 'such row')}"
        )
        raise DataError(problem)
    values = texts.unique(maintain_order=True)
    # Numbers to 2^24 are exact in float32, which is more rows than a table of texts has.
    order = {text: position for position, text in enumerate(values.to_list())}
    codes = np.array([[order[text]] for text in texts.to_list()], dtype=np.float32)
    return InputColumn(name, tuple(order), coded=True), codes.reshape(-1, 1)


def truths_as_numbers(rows: DataFrame, name: str) -> DataFrame:
    """The rows with a column of the words true and false as 1 and 0; with any other column as they
    are."""
    import polars

    column = rows.get_column(name)
    if column.dtype != polars.String:
        return rows
    words = column.str.strip_chars().str.to_lowercase()
    words = words.set(words.is_in(list(MISSING)), None)
    if words.null_count() == len(words) or not words.is_in(["true", "false"]).all():
        return rows
    return rows.with_columns((words == "true").cast(polars.Int8).alias(name))


def _category_values(column: Series, path: str) -> tuple[str, ...]:
    """The values of a column that is an input by its categories, in the order of their text."""
    values = _category_texts(column, path).drop_nulls().unique().sort().to_list()
    if len(values) > MOST_CATEGORIES:
        problem = (
            f"{path}, column {column.name!r} has {len(values):,} different values, more than the"
            f" {MOST_CATEGORIES:,} of a category; leave it out of 'categories', or name it in"
            " 'numbers'"
        )
        raise DataError(problem)
    return tuple(values)


def _category_texts(column: Series, path: str) -> Series:
    """The cells of a category as text, null for one without a value. Raises `DataError` for a
    column of lists, bytes or objects."""
    import polars

    _check_scalars(column, path)
    texts = column.cast(polars.String, strict=False).str.strip_chars()
    return texts.set(polars.Series(lacks_value(column)), None)


def _check_scalars(column: Series, path: str) -> None:
    import polars

    if column.dtype.is_nested() or column.dtype in (polars.Binary, polars.Object):
        raise DataError(
            f"{path}, column {column.name!r} holds {str(column.dtype).lower()} values, and a"
            " category needs text, numbers or true/false"
        )


def _one_hot(
    column: Series, values: Sequence[str], path: str
) -> tuple[NDArray[np.float64], str | None]:
    """One column of 0 and 1 for each value of a category, float64 [n, values], and a sentence where
    some rows have another value. Raises `DataError` where no row has one of them."""
    texts = _category_texts(column, path)
    codes = _category_codes(texts, values)
    rows = np.flatnonzero(codes >= 0)
    hot = np.zeros((len(column), len(values)))
    hot[rows, codes[rows]] = 1
    unknown_rows = np.flatnonzero((codes < 0) & texts.is_not_null().to_numpy())
    if not unknown_rows.size:
        return hot, None
    first = int(unknown_rows[0])
    # Where training had no value at all, every value is as unknown as a missing one.
    if values and not rows.size:
        problem = (
            f"{path}, column {column.name!r}, row {first + 1}: {shown(texts[first])} is none of the"
            f" values that the model was trained on, and no other row has one; write them as there:"
            f" {', '.join(shown(value) for value in values[:20])}"
        )
        raise DataError(problem)
    n_unknown = f"{len(unknown_rows):,} of {len(column):,} rows"
    return hot, (
        f"In {n_unknown} of {path} {column.name!r} has a value that the model was not trained on,"
        f" such as {shown(texts[first])} in row {first + 1}: they count as missing."
    )


def _category_codes(texts: Series, values: Sequence[str]) -> NDArray[np.int64]:
    """The number of each text among the values, -1 for a missing one and for another: int64 [n]."""
    import polars

    code_of = {value: code for code, value in enumerate(values)}
    spellings = _spellings(values)
    codes = {}
    for text in texts.drop_nulls().unique().to_list():
        codes[text] = code_of.get(text, spellings.get(_spelling(text), -1))
    if not codes:
        return np.full(len(texts), -1, dtype=np.int64)
    numbers = texts.replace_strict(
        list(codes), list(codes.values()), default=-1, return_dtype=polars.Int64
    )
    return numbers.to_numpy().astype(np.int64)


def _spellings(values: Sequence[str]) -> dict[str, int]:
    """The codes of values by another spelling of each, of which no two are one."""
    codes: dict[str, list[int]] = {}
    for code, value in enumerate(values):
        codes.setdefault(_spelling(value), []).append(code)
    return {spelling: known[0] for spelling, known in codes.items() if len(known) == 1}


def _spelling(text: str) -> str:
    """A text in which numbers are written in one way, 1 as 1.0 is, and words in small letters: a
    column with a missing number is read as one of fractions, and True is true elsewhere."""
    try:
        return repr(float(text))
    except ValueError:
        return text.casefold()
