"""Attributes of texts by a declared rule: how long a text is, whether a word stands in it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.types import PART_MARK
from crosswind.data.dataset import AttributedDataset

KINDS = ("words", "contains", "matches")
WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
_AT_ONCE = 4096


def with_rule(
    dataset: AttributedDataset, name: str, rule: Mapping[str, Any], field: str = "rules"
) -> AttributedDataset:
    """The data set with one more attribute, computed from the text of every row.

    `rule` has one entry, the others are missing or None.

    * `words`: increasing whole numbers; the values are the classes of length between them, such as
      0-49, 50-99, 100+.
    * `contains`: a word or phrase, or a list of them; yes where one of them stands in the text,
      whole and in any case, else no.
    * `matches`: a regular expression (Python's `re`, searched for); yes or no.

    Words are those between white space and marks; an apostrophe inside belongs to one. A phrase or
    a pattern lies in one part of a text. Raises `InputError` on `field`.
    """
    kinds_given = {kind: rule[kind] for kind in KINDS if rule.get(kind) is not None}
    if len(kinds_given) != 1:
        problem = f"needs exactly one rule, not {shown(dict(rule))}"
        raise InputError(f"{field}.{name}", problem, KINDS)
    ((kind, value),) = kinds_given.items()
    path = f"{field}.{name}.{kind}"
    if name in dataset.table.names:
        raise InputError(
            f"{field}.{name}", f"data set {dataset.name!r} already has an attribute of this name"
        )
    if dataset.input is not None and dataset.input.kind != "text":
        raise InputError(
            f"{field}.{name}",
            f"reads texts, and the inputs of {dataset.name!r} are {dataset.input}",
        )
    values, code_of = (
        _lengths(value, path) if kind == "words" else (("no", "yes"), _found(kind, value, path))
    )
    dataset.check_inputs()
    codes = [np.empty(0, dtype=np.int64)]
    for start in range(0, dataset.n_base, _AT_ONCE):
        rows = np.arange(start, min(start + _AT_ONCE, dataset.n_base))
        texts = dataset.inputs(rows)
        codes.append(np.array([code_of(text) for text in texts], dtype=np.int64))
    return dataset.with_attribute(name, values, np.concatenate(codes))


def _lengths(cuts: Any, path: str) -> tuple[tuple[str, ...], Callable[[str], int]]:
    are_numbers = (
        isinstance(cuts, list)
        and cuts
        and all(isinstance(cut, int) and not isinstance(cut, bool) for cut in cuts)
    )
    if (
        not are_numbers
        or cuts[0] < 1
        or any(lower >= upper for lower, upper in itertools.pairwise(cuts))
    ):
        raise InputError(
            path, f"must be a list of increasing numbers of words from 1 on, not {shown(cuts)}"
        )
    edges: NDArray[np.int64] = np.array(cuts)
    values = []
    for low, high in itertools.pairwise([0, *cuts]):
        values.append(f"{low}-{high - 1}" if high - low > 1 else str(low))

    def code_of(text: str) -> int:
        return int(np.searchsorted(edges, sum(1 for _ in WORD.finditer(text)), side="right"))

    return (*values, f"{cuts[-1]}+"), code_of


def _found(kind: str, value: Any, path: str) -> Callable[[str], int]:
    if kind == "matches":
        try:
            pattern = re.compile(value if isinstance(value, str) else "(")
        except re.error as error:
            problem = f"must be a regular expression, not {shown(value)} ({error})"
            raise InputError(path, problem) from None
    else:
        words: Sequence[Any]
        if isinstance(value, str):
            words = [value]
        else:
            words = value
        if (
            not isinstance(words, list)
            or not words
            or not all(isinstance(word, str) and word.strip() for word in words)
        ):
            raise InputError(path, f"must be a word or a list of words, not {shown(value)}")
        word_pattern = "|".join(r"\s+".join(map(re.escape, word.split())) for word in words)
        pattern = re.compile(rf"(?<!\w)(?:{word_pattern})(?!\w)", re.IGNORECASE)
    return lambda text: int(any(pattern.search(text_part) for text_part in text.split(PART_MARK)))
