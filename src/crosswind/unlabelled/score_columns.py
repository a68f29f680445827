"""Which columns of a table hold the scores of a class, told by their names and, where names do not
tell, by their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosswind.models.given.class_scores import TOLERANCE, are_probabilities

Floats = NDArray[np.float64]

UNNAMED = "number {number} (without a name)"
"""What a column without a name is called, as of a row index."""
_OFTEN = 0.01
"""The share of rows in which a column must be the largest to be taken for a class by its numbers.
"""
_BY_CHANCE = 0.01
"""The probability above which the labelled rows may lack a class by chance alone."""
_OTHER_NAMES = (
    r"(unnamed|column|index|idx|id|ids|uid|row|rowid|nr|num|number|count|order|level|fold|cv|split|partition|subset|batch|group|"
    r"patient|subject|site|run|seed|epoch|step|iteration|time|timestamp|date|year|month|day|hour|age|"
    r"label|labels|target|targets|truth|gt|gold|actual|pred|preds|predicted|prediction|predictions|yhat|answer|argmax|top1|"
    r"correct|conf|confidence|certainty|uncertainty|entropy|margin|energy|temperature|loss|nll|ce|brier|likelihood|"
    r"max|min|mean|sum|std|var|maxprob|msp|prob|probs|probability|score|logit|scale|weight|weights|width|height|size|length|len)"
)
_OTHER = re.compile(
    rf"^{_OTHER_NAMES}(_?{_OTHER_NAMES})*$|^(fold|cv|split|run|seed|epoch|batch|group)_?\d+$"
)


@dataclass(frozen=True)
class ScoreColumns:
    """Columns of scores and the class of each, in the order of the columns.

    `how`: "names", "numbers" (the same number written otherwise), "case", or "affix".
    """

    columns: tuple[str, ...]
    classes: tuple[str, ...]
    how: str = "names"
    affix: tuple[str, str] = ("", "")


def is_score_name(column: str) -> bool:
    """Whether a column may hold scores of a class by its name: not that of an index, a fold, a
    confidence and their like."""
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", column).lower()
    name_parts = [name_part for name_part in re.split(r"[\W_]+", words) if name_part]
    if not name_parts or name_parts[0] == "unnamed" or column.endswith(UNNAMED.partition("}")[2]):
        return False
    if (
        name_parts[0] == "y"
        and name_parts[-1] in ("true", "pred", "hat")
        or name_parts[-1] in ("id", "ids", "idx", "index", "fold", "split")
    ):
        return False
    return not _OTHER.match("_".join(name_parts)) or all(
        name_part.isdigit() for name_part in name_parts
    )


def columns_of(values: Sequence[str], columns: Sequence[str]) -> list[ScoreColumns]:
    """Every way to find a column for each of the classes `values`, the surest first, so that one of
    several is a matter of choice.

    A column named as the class. Else one that writes the same number otherwise (`1.0`), or the same
    letters in another case. Else columns that all have the same before or behind the class.
    """
    for how, key in (("names", str), ("numbers", _as_number), ("case", str.casefold)):
        by_key: dict[str, list[str]] = {}
        for column in columns:
            by_key.setdefault(key(column), []).append(column)
        class_keys = [key(value) for value in values]
        if len(set(class_keys)) == len(class_keys) and all(
            len(by_key.get(word, ())) == 1 for word in class_keys
        ):
            class_of = {}
            for word, value in zip(class_keys, values, strict=True):
                class_of[by_key[word][0]] = value
            return [_in_table_order(class_of, columns, how)]
    return _by_affix(values, columns)


def _in_table_order(
    class_of: Mapping[str, str], columns: Sequence[str], how: str, affix: tuple[str, str] = ("", "")
) -> ScoreColumns:
    score_columns = tuple(column for column in columns if column in class_of)
    classes = tuple(class_of[column] for column in score_columns)
    return ScoreColumns(score_columns, classes, how, affix)


def _by_affix(values: Sequence[str], columns: Sequence[str]) -> list[ScoreColumns]:
    """Columns that all have the same before or behind the class, such as `p(cat)`, `p(dog)`."""
    folded = {column.casefold(): column for column in columns}
    longest = max(values, key=len).casefold()
    families: list[ScoreColumns] = []
    for column in folded:
        for match in re.finditer(f"(?={re.escape(longest)})", column):
            before = column[: match.start()]
            behind = column[match.start() + len(longest) :]
            class_of = {
                folded[name]: value
                for value in values
                if (name := before + value.casefold() + behind) in folded
            }
            if len(class_of) == len(values):
                families.append(_in_table_order(class_of, columns, "affix", (before, behind)))
    return families


def _as_number(word: str) -> str:
    try:
        number = float(word)
    except ValueError:
        return word
    return repr(number)


def extra_classes(
    chosen: ScoreColumns, numbers: Mapping[str, Floats], labelled_rows: int
) -> tuple[dict[str, str], list[str]]:
    """Of the other columns of numbers those of classes that never occur in the source, by name, and
    those that may be such.

    Where the scores are probabilities, or their logarithms, their sums tell. Logits have none: a
    column of the same prefix is a class, and one with fractions that lies among the scores and is
    often the largest may be one. It is one where `labelled_rows` are so few that a class which is
    the answer so often may be missing among them by chance.
    """
    other_columns = [name for name in numbers if name not in chosen.columns]
    scores = np.stack([numbers[name] for name in chosen.columns], axis=1)
    summing = _columns_that_sum_to_one(scores, other_columns, numbers)
    if summing is not None:
        return {name: _without_affix(name, chosen.affix) for name in summing}, []
    finite = scores[np.isfinite(scores)]
    if not len(finite) or ((finite >= 0) & (finite <= 1 + TOLERANCE)).all():
        return {}, []  # no probabilities: said of their rows
    score_columns = [name for name in other_columns if is_score_name(name)]
    if chosen.how == "affix":
        alike = [name for name in score_columns if _has_affix(name, chosen.affix)]
        return {name: _without_affix(name, chosen.affix) for name in alike}, []
    doubtful = []
    unseen = {}
    for name in score_columns:
        is_largest = numbers[name] > scores.max(axis=1)
        largest = float(is_largest.mean())
        if largest >= _OFTEN and _lies_among(numbers[name], finite):
            if (1 - largest) ** labelled_rows > _BY_CHANCE:
                unseen[name] = name
            else:
                doubtful.append(name)
    return unseen, doubtful


def _columns_that_sum_to_one(
    scores: Floats, other_columns: Sequence[str], numbers: Mapping[str, Floats]
) -> list[str] | None:
    """The other columns with which the scores are probabilities, or their logarithms, of every row:
    none where they are already, all columns of scores, or one. None where they are not."""
    score_columns = [name for name in other_columns if is_score_name(name)]
    subsets = [score_columns, *([name] for name in other_columns)]
    for as_probabilities in (_itself, _exponential):
        if _sums_to_one(as_probabilities(scores)):
            return []
        for subset in filter(None, subsets):
            columns = np.column_stack([scores, *(numbers[name] for name in subset)])
            if _sums_to_one(as_probabilities(columns)):
                return subset
    return None


def _lies_among(values: Floats, scores: Floats) -> bool:
    """Whether a column has fractions, and no value outside the range of the scores."""
    inside = (values >= scores.min()).all() and (values <= scores.max()).all()
    return bool(inside and (values % 1 != 0).any())


def _itself(scores: Floats) -> Floats:
    return scores


def _exponential(scores: Floats) -> Floats:
    """Probabilities of their logarithms; of other numbers something that sums to no 1."""
    return np.exp(np.where(scores <= 0, scores, np.inf))


def probabilities_of(numbers: Mapping[str, Floats]) -> bool:
    """Whether the columns are all the probabilities of a row, or their logarithms."""
    scores = np.column_stack(list(numbers.values()))
    return _sums_to_one(scores) or _sums_to_one(_exponential(scores))


def _sums_to_one(scores: Floats) -> bool:
    return bool(scores.size and are_probabilities(scores))


def _has_affix(name: str, affix: tuple[str, str]) -> bool:
    before, behind = affix
    folded = name.casefold()
    return (
        len(folded) > len(before) + len(behind)
        and folded.startswith(before)
        and folded.endswith(behind)
    )


def _without_affix(name: str, affix: tuple[str, str]) -> str:
    before, behind = affix
    if _has_affix(name, affix):
        return name[len(before) : len(name) - len(behind)]
    return name
