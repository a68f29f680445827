"""Answers of a model that was not trained here, by the classes that they name.

A label may be the name of a class, the number that the name is, or the place of the class, from 0.
Scores may stand in columns that are named by classes. Nothing is guessed: labels that mean one
class as numbers and another as places are refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, shown

__all__ = ["AmbiguousLabelsError", "answer_array", "class_codes", "class_order", "is_number"]

NO_CLASS = -1
"""The code of an answer that could not be parsed."""
_UNKNOWN = -2
BOTH_SCORES = "; of a probability p of the second class give both: np.stack([1 - p, p], axis=1)"
"""The remedy where a model of two classes gives one score for a row."""
_BOOLEANS = ("false", "true")


class AmbiguousLabelsError(DataError):
    """Labels that are classes both by their numbers and by their places, and other ones."""


def class_codes(
    labels: NDArray[Any], class_names: Sequence[str], name: str, *, by_place: bool = False
) -> NDArray[np.int64]:
    """The places of classes int64 [n] that labels [n] name, -1 for none: an empty text, or -1 where
    no class is called so.

    Texts are names. Numbers and booleans are names where the classes are such, else places. Raises
    `DataError` for a label that is no class, `AmbiguousLabelsError` for whole numbers that could be
    both. `name`: the model, in errors. `by_place`: numbers are places, whatever classes are called.
    """
    called_booleans = labels.dtype.kind == "b" and tuple(class_names) == _BOOLEANS
    if labels.dtype.kind in "iufb" and not called_booleans:
        numbers = None if by_place else _numbers_of(class_names)
        if numbers is not None and list(numbers) != sorted(numbers):
            numbers = None  # by default they stand by size: somebody has named the outputs' order
        codes = _codes_of_numbers(labels.astype(np.float64), class_names, numbers, name)
    else:
        code_of = _CodesOfNames(class_names)
        codes = np.array([code_of.code(label) for label in labels.tolist()], dtype=np.int64)
    unknown = codes == _UNKNOWN
    if unknown.any():
        valid = ", ".join(class_names[:20]) + (", ..." if len(class_names) > 20 else "")
        problem = (
            f"{name} gave the label {shown(labels.tolist()[int(unknown.argmax())])}, which is no"
            f" class (valid: {valid})"
        )
        is_share = labels.dtype.kind == "f" and bool(((labels >= 0) & (labels <= 1)).all())
        raise DataError(problem + (BOTH_SCORES if is_share and len(class_names) == 2 else ""))
    return codes


def class_order(words: Sequence[object], class_names: Sequence[str]) -> list[int] | None:
    """For each class the place among `words` of the one that names it; None where they do not name
    every class once."""
    code_of = _CodesOfNames(class_names)
    codes = [code_of.code(word) for word in words]
    if sorted(codes) != list(range(len(class_names))):
        return None
    return [codes.index(code) for code in range(len(class_names))]


def answer_array(answer: Any, class_names: Sequence[str], name: str) -> NDArray[Any]:
    """An answer as an array: scores [n, k] in the order of the classes, or labels [n].

    A frame, or a mapping, has a column a class, by their names. Of an object with `logits`, as
    transformers' networks give, those. Raises `DataError` for columns that are no classes, and for
    several arrays.
    """
    if hasattr(answer, "columns") and hasattr(answer, "to_numpy"):
        words = [str(word) for word in answer.columns]
        return _in_order(answer.to_numpy(), words, class_names, name)
    logits = (
        answer.get("logits") if isinstance(answer, Mapping) else getattr(answer, "logits", None)
    )
    if logits is not None:
        return _plain_array(logits)
    if isinstance(answer, Mapping):
        columns = [_plain_array(values) for values in answer.values()]
        if not columns or any(column.shape != columns[0].shape for column in columns):
            raise DataError(f"{name} answered by a mapping of {len(columns)} values; {_WANTED}")
        return _in_order(np.stack(columns, axis=-1), list(answer), class_names, name)
    if isinstance(answer, tuple) and any(len(getattr(value, "shape", ())) > 1 for value in answer):
        raise DataError(
            f"{name} answered by a tuple of {len(answer)} arrays; {_WANTED}, such as the first:"
            " answer[0]"
        )
    return _plain_array(answer)


_WANTED = "it must give one array, of logits [n, k] or of labels [n]"


def _in_order(
    scores: NDArray[Any], words: Sequence[Any], class_names: Sequence[str], name: str
) -> NDArray[Any]:
    """The columns `words` of scores in the order of the classes."""
    if len(words) == 1 != len(class_names):
        return scores[:, 0]
    order = class_order(words, class_names)
    if order is not None:
        return scores[:, order]
    places = [str(place) for place in range(len(class_names))]
    if [str(word).removeprefix("column_") for word in words] == places:
        return scores  # nobody named them
    raise DataError(
        f"{name} answered by the columns {shown(list(words))}, which are not the classes"
        f" {', '.join(class_names[:20])}; name them so, or give an array in this order"
    )


class _CodesOfNames:
    """Codes of classes by their names."""

    def __init__(self, class_names: Sequence[str]) -> None:
        self._codes = {"": NO_CLASS, **{word: code for code, word in enumerate(class_names)}}
        self._numbers = _numbers_of(class_names)

    def code(self, label: object) -> int:
        """The place of the class that a label names; `_UNKNOWN` for none."""
        word = str(label)
        if word not in self._codes and word.lower() in _BOOLEANS:
            word = word.lower()
        if word not in self._codes and self._numbers is not None:
            return self._numbers.get(_number(word), _UNKNOWN)
        return self._codes.get(word, _UNKNOWN)


def _codes_of_numbers(
    values: NDArray[np.float64],
    class_names: Sequence[str],
    numbers: Mapping[float, int] | None,
    name: str,
) -> NDArray[np.int64]:
    """Codes of values, by the numbers that the classes are called, if they are, or by their
    places."""
    places = np.where(values == np.round(values), values, _UNKNOWN)
    places = np.where((places >= NO_CLASS) & (places < len(class_names)), places, _UNKNOWN)
    by_place = places.astype(np.int64)
    if numbers is None:
        _refuse_signs(values, class_names, name)
        return by_place
    codes = [numbers.get(value, _UNKNOWN) for value in values.tolist()]
    by_number = np.array(codes, dtype=np.int64)
    if NO_CLASS in numbers:
        by_place[values == NO_CLASS] = _UNKNOWN
    else:
        by_number[values == NO_CLASS] = NO_CLASS
    are_places, are_numbers = (by_place != _UNKNOWN).all(), (by_number != _UNKNOWN).all()
    if are_places and are_numbers and not np.array_equal(by_place, by_number):
        raise AmbiguousLabelsError(
            f"{name} gave whole numbers as labels, such as {values[by_place != by_number][0]:g}, which"
            f" is a class by its name and another one by its place from 0 (classes:"
            f" {', '.join(class_names[:20])}); give names as texts, or logits"
        )
    return by_place if are_places else by_number


def _refuse_signs(values: NDArray[np.float64], class_names: Sequence[str], name: str) -> None:
    """Refuse labels of two classes that are -1 and 1 alone, as of a sign: -1 means no answer, and
    the first class would never be one. Raises `AmbiguousLabelsError`."""
    if len(class_names) == 2 and set(np.unique(values).tolist()) == {-1.0, 1.0}:
        raise AmbiguousLabelsError(
            f"{name} gave the labels -1 and 1 and no 0: -1 means that there is no answer; give 0 for"
            f" {class_names[0]} and 1 for {class_names[1]}, or these names"
        )


def _numbers_of(class_names: Sequence[str]) -> dict[float, int] | None:
    """Place by number where every class is called by another number."""
    numbers = {_number(word): code for code, word in enumerate(class_names)}
    if len(numbers) < len(class_names) or any(math.isnan(number) for number in numbers):
        return None
    return numbers


def is_number(word: str) -> bool:
    """Whether a class is called by a number."""
    return not math.isnan(_number(word))


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _plain_array(values: Any) -> NDArray[Any]:
    # A tensor of torch: numpy takes it from the CPU, without its graph, and has no bfloat16.
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
    try:
        return np.asarray(values)
    except ValueError:  # of lists that differ in length
        return np.asarray(list(values), dtype=object)
