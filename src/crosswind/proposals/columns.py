"""The kinds of columns of somebody's table: paths, texts, classes, numbers, grades, identifiers,
the roles of rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.data.column_names import names_rows, names_units, numbers_units
from crosswind.data.decoding import IMAGE_ENDINGS
from crosswind.data.listed_files import OTHER_FORMATS
from crosswind.data.rules import WORD
from crosswind.data.spellings import NO_NUMBERS, mixed_truths
from crosswind.data.table_inputs import (
    GRADES,
    DoubtfulNumbers,
    are_dates,
    are_measures,
    counts_rows,
    flaw_of_numbers,
    lacks_value,
    numbers_of,
    told_apart,
    why_code,
)

if TYPE_CHECKING:
    from polars import DataFrame, Series

MOST_VALUES = 20
"""A column of more different values is not proposed as label or attribute, unless they are numbers,
which are put into classes."""
FEW_NUMBERS = 6
"""A column of at most as many different numbers is one of classes, as one of words is."""
MOST_EMPTY = 0.05
"""The share of rows that may be left out because an attribute has no value there."""
TEXTS = frozenset(
    ("text", "texts", "sentence", "review", "reviews", "comment", "content", "message", "document")
    + ("abstract", "title", "headline", "tweet", "body", "premise", "hypothesis", "question")
)
"""Usual names of a column of texts, however few or short they are."""
DOCUMENTS = (".txt", ".text", ".md", ".doc", ".docx", ".pdf", ".rtf", ".html", ".htm", ".xml")
"""Endings of names of files of texts, which no source reads."""
SPLITS = ("split", "partition", "subset", "set", "role", "usage")
"""Usual names of a column that says which rows train and which test."""
FLAGS = ("is_train", "istrain", "in_train", "is_training", "is_test", "istest", "in_test")
"""Usual names of a column that says yes of rows that train, or of rows that test."""
FOLDS = ("fold", "folds", "kfold", "cv", "cv_fold")
ROLES: Mapping[str, str] = {
    "train": "train",
    "training": "train",
    "trn": "train",
    "0": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "1": "validation",
    "test": "test",
    "testing": "test",
    "tst": "test",
    "heldout": "test",
    "holdout": "test",
    "2": "test",
}
"""What a column of roles calls them; numbers as in CelebA and Waterbirds."""
_UNPARTED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Khmer}\p{Lao}\p{Myanmar}]"
_WHY_UNUSED = {
    "one-value": "one value",
    "empty": "no value in any row",
    "fold": "folds, left alone",
    "some-roles": "says which rows train in words that are not all known, and is left alone: call"
    " them train, val and test",
    "texts": "texts",
    "paths": "paths",
    "documents": "paths of texts: put the texts themselves into the column",
    "nested": "lists or other nested values",
    "times": "times",
    "units": "numbers of units, such as patients",
}
"""Why a column of a kind is neither label nor attribute nor input."""


@dataclass(frozen=True)
class TableColumn:
    """A column and its kind.

    `kind`: "paths", "documents" (paths of texts), "texts", "classes" (2 to `MOST_VALUES` values), "numbers" (more values, all of
    them numbers), "roles", "some-roles" (not all of them known), "fold", "identifier", "one-value", "empty", "nested"
    (lists and the like), "times" (spans of time), "units" (more values than classes have, which number
    patients or the like by the name of the column and repeat) or "other". `values`: the
    different ones of classes, in order; `n_values`: their number; `n_empty`: rows without one.
    `example`: one of the values; `numeric`: all values are numbers; `graded`: they are in order, and are classes only if cut.
    `flaw`: what keeps a column that seems to hold numbers or dates from being read as numbers.
    `no_values`: what stands for none among its numbers, such as NA, which counts as empty.
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    n_values: int = 0
    n_empty: int = 0
    numeric: bool = False
    graded: bool = False
    example: str = ""
    flaw: str = ""
    no_values: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether a model reads it as a number: many of them, grades, or yes and no as 1 and 0, but
        no numbers of patients."""
        if numbers_units(self.name):
            return False
        return self.numeric and (self.graded or self.n_values == 2 or self.n_values > FEW_NUMBERS)

    def why_unused(self, n_rows: int) -> str:
        """Why the column is neither label nor attribute nor input, with its number of rows."""
        if self.flaw:
            return f"{self.name}: {self.flaw}"
        is_counted = self.kind in ("classes", "numbers", "units")
        if self.n_empty and self.n_empty < n_rows and is_counted:
            return f"{self.name}: empty in {self.n_empty:,} of {n_rows:,} rows"
        if self.kind == "identifier":
            return f"{self.name}: {self.n_values:,} values in {n_rows:,} rows, an identifier"
        if self.kind in _WHY_UNUSED:
            return f"{self.name}: {_WHY_UNUSED[self.kind]}"
        return (
            f"{self.name}: {self.n_values:,} different values, not all of them numbers, such as"
            f" {self.example!r}"
        )


def columns_of(rows: DataFrame) -> dict[str, TableColumn]:
    """Every column of a table by its name, and what it holds."""
    return {name: _column(rows, name) for name in rows.columns}


def _column(rows: DataFrame, name: str) -> TableColumn:
    import polars

    series = rows.get_column(name)
    if no_texts := _kind_without_texts(series):
        return TableColumn(name, no_texts, n_values=rows.height)
    empty = lacks_value(series)
    n_empty = int(empty.sum())
    all_texts = series.cast(polars.String, strict=False).str.strip_chars()
    texts = all_texts.filter(polars.Series(~empty))
    if not len(texts):
        return TableColumn(name, "empty", n_empty=n_empty)
    numbers, doubt, code = _numbers_or_doubt(rows, name)
    truths = mixed_truths(texts.unique().to_list()) if numbers is not None else {}
    all_texts, texts = all_texts.replace(truths), texts.replace(truths)
    numeric = numbers is not None
    no_values: tuple[str, ...] = ()
    if numbers is not None:
        # Among numbers NA and its like are no class, as they are no number.
        is_word = texts.str.to_lowercase().is_in(list(NO_NUMBERS))
        no_values = tuple(texts.filter(is_word).unique().sort())
        texts = texts.filter(~is_word)
        n_empty += int(is_word.sum())
        if not len(texts):
            return TableColumn(name, "empty", n_empty=n_empty)
    values = texts.unique().sort()
    kind = _kind(name, texts, values, numbers)
    ordered = values.to_list() if kind == "classes" else []
    graded = False
    if numbers is not None:
        number_of = dict(zip(all_texts.to_list(), numbers.tolist(), strict=True))
        ordered.sort(key=number_of.__getitem__)
        graded = _is_graded(name, [number_of[value] for value in ordered])
    flaw = ""
    if not numeric and kind in ("identifier", "other"):
        flaw = _flaw(kind, doubt, code) or ("" if code else flaw_of_numbers(all_texts, empty))
    return TableColumn(
        name=name,
        kind=kind,
        values=tuple(ordered),
        n_values=len(values),
        n_empty=n_empty,
        numeric=numeric,
        graded=graded,
        example=_example(texts, values),
        flaw=flaw,
        no_values=no_values,
    )


def _flaw(kind: str, doubt: str, code: str) -> str:
    return doubt or (code if kind == "other" else "")


def _kind_without_texts(series: Series) -> str:
    """The kind of a column whose cells are no texts: lists, bytes, spans of time. Empty for any
    other."""
    import polars

    if series.dtype.is_nested() or series.dtype in (polars.Binary, polars.Object):
        return "nested"
    return "times" if series.dtype == polars.Duration else ""


def _numbers_or_doubt(rows: DataFrame, name: str) -> tuple[NDArray[np.float64] | None, str, str]:
    """A column as numbers, None where it is none of numbers; what makes that doubtful; and why what
    looks like numbers is codes."""
    numbers, doubt = _numbers(rows, name)
    if numbers is None:
        return None, doubt, ""
    column = rows.get_column(name)
    code = why_code(column, name, numbers)
    if code:
        return None, doubt, code
    doubt = told_apart(column, numbers)
    return (None if doubt else numbers), doubt, ""


def _example(texts: Series, values: Series) -> str:
    """The first value that is no number, else the first."""
    import polars

    words = texts.filter(texts.cast(polars.Float64, strict=False).is_null())
    return str(words[0] if len(words) else values[0])[:40]


def _kind(name: str, texts: Series, values: Series, numbers: NDArray[np.float64] | None) -> str:
    """The kind of a column, see `TableColumn`."""
    kind = _kind_of_few(name, values)
    if kind:
        return kind
    n_values, n_rows = len(values), len(texts)
    if names_units(name) and not are_dates(values) and _are_codes(numbers):
        if n_values == n_rows:
            return "identifier"
        if numbers_units(name):
            return "units"
    if numbers is not None:
        return "identifier" if counts_rows(name, numbers) else "numbers"
    if are_dates(values):
        return "other"
    if n_words(texts) >= 3 and (name.lower() in TEXTS or not are_measures(texts)):
        return "texts"
    return "identifier" if n_values > n_rows / 2 or names_rows(name) else "other"


def _kind_of_few(name: str, values: Series) -> str:
    """The kind of a column of paths, of a usual name, or of few values; empty for any other."""
    lower = name.lower()
    n_values = len(values)
    if str(values[0]).lower().endswith((*IMAGE_ENDINGS, *OTHER_FORMATS)) and n_values > 1:
        return "paths"
    if n_values == 1:
        return "one-value"
    first = [str(value).lower() for value in values[: MOST_VALUES + 1]]
    if n_values > MOST_VALUES and all(value.endswith(DOCUMENTS) for value in first):
        return "documents"
    if lower in FOLDS:
        return "fold"
    return _kind_of_roles(lower, values.to_list()) or ("classes" if n_values <= MOST_VALUES else "")


def _kind_of_roles(lower_name: str, values: Sequence[str]) -> str:
    """The kind of a column that says which rows train, or of which some values say it; empty for any
    other."""
    if lower_name in SPLITS and roles_of(values):
        return "roles"
    words = [value for value in values if not value.isdigit()]
    if lower_name in FLAGS or (lower_name in SPLITS and any(map(_role_of, words))):
        return "some-roles"
    return ""


def _are_codes(numbers: NDArray[np.float64] | None) -> bool:
    """Whether values are words, or whole numbers."""
    if numbers is None:
        return True
    present = numbers[~np.isnan(numbers)]
    return bool((present == present.round()).all())


def _is_graded(name: str, numbers: Sequence[float]) -> bool:
    """Whether three or more numbers are grades rather than numbers of classes: fractions, or by the
    name of the column."""
    if len(numbers) <= 2:
        return False
    words = set(re.split(r"[^a-z]+", name.lower()))
    return any(number % 1 for number in numbers) or bool(words & GRADES)


def roles_of(values: Sequence[str]) -> dict[str, list[str]]:
    """Role -> the values that name it; {} where the values are no roles, or none of them trains or
    tests."""
    roles: dict[str, list[str]] = {}
    for value in values:
        role = _role_of(value)
        if role is None:
            return {}
        roles.setdefault(role, []).append(value)
    if {"train", "test"} <= roles.keys():
        return roles
    return {}


def _role_of(value: str) -> str | None:
    """The role that a value names; None where it names none."""
    words = [word for word in re.split(r"[^a-z0-9]+", value.lower()) if word]
    return next((ROLES[word] for word in reversed(words) if word in ROLES), None)


def n_words(texts: Series) -> float:
    """Words of a cell on average; of scripts that part no words, such as Chinese and Japanese, two
    characters count as one."""
    parted = float(texts.str.count_matches(r"\S+").mean() or 0)  # type: ignore[arg-type]
    return parted + n_unparted(texts) / 2


def n_unparted(texts: Series) -> float:
    """Characters of a cell, on average, of scripts that part no words by blanks."""
    return float(texts.str.count_matches(_UNPARTED).mean() or 0)  # type: ignore[arg-type]


def word_counts(rows: DataFrame, columns: Sequence[str]) -> Series:
    """The words of every text, of all its parts."""
    import polars

    # By columns and not by names: polars takes "*" and "^...$" for patterns.
    parts = [rows.get_column(name).cast(polars.String).fill_null("") for name in columns]
    joined_texts = polars.select(polars.concat_str(parts, separator=" ")).to_series()
    return joined_texts.str.count_matches(WORD.pattern)


def _numbers(rows: DataFrame, name: str) -> tuple[NDArray[np.float64] | None, str]:
    """The column as numbers, None where one of its values is none, and why nobody can tell what
    its numbers are."""
    try:
        return numbers_of(rows, name, ""), ""
    except DoubtfulNumbers as error:
        return None, error.doubt
    except DataError:
        return None, ""
