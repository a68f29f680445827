"""A problem as advice sees it: the kind of inputs, the number of rows, and how the label and an
attribute go together among the training rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, counted
from crosswind.shifts.association import cramers_v

__all__ = ["KINDS", "Problem", "counts_of", "problem_of_counts", "simple_counts"]

KINDS: Final = ("pictures", "texts", "numbers")
"""What inputs may be."""


@dataclass(frozen=True)
class Problem:
    """A problem as it is known before a method is chosen.

    `kind`: of `KINDS`. `classes`: of the label, at least 2. `values`: of the attribute, at least 2.
    `rows`: that train. `tie`: Cramér's V of the label and the attribute among them, in [0, 1], not
    corrected for bias. `rarest`: rows of the rarest value of the attribute over those of an even
    share, in [0, 1]; 0 where a value is not in training. `smallest`: rows of the smallest group
    (label x attribute) that has some. `missing`: share of groups without training rows, in [0, 1).
    `pretrained`: whether the network starts from weights of other data.
    """

    kind: str
    classes: int
    values: int
    rows: int
    tie: float
    rarest: float
    smallest: int
    missing: float
    pretrained: bool = False

    @property
    def features(self) -> list[float]:
        """The problem as numbers of like size, for the model of the gain: float [9]."""
        return [
            2 * self.tie,
            2 * min(self.rarest, 1.0),
            3 * self.missing,
            math.log10(max(self.rows, 1)) - 3,
            math.log10(max(self.smallest, 1)) - 1,
            math.log2(max(self.classes, 2)) / 2,
            float(self.kind == "texts"),
            float(self.kind == "numbers"),
            float(self.pretrained),
        ]

    @property
    def in_words(self) -> str:
        """The problem in one sentence without its full stop."""
        weights = ", a pretrained network" if self.pretrained else ""
        tie = f"Cramér's V of label and attribute {self.tie:.2f}"
        if self.missing:
            groups = f"{self.missing:.0%} of the groups without a training row"
        else:
            groups = f"the smallest group has {counted(self.smallest, 'row')}"
        return (
            f"{self.kind}, {self.classes} classes, {counted(self.rows, 'row')} to train on, {tie},"
            f" {groups}{weights}"
        )


Counts = Mapping[tuple[str, str], int]
"""Training rows by (class, value); cells that may be met and have none are in it with 0."""


def counts_of(classes: Iterable[str], values: Iterable[str]) -> dict[tuple[str, str], int]:
    """Rows by class and value of a table's two columns, cells without rows among them."""
    pairs = list(zip(classes, values, strict=True))
    table: dict[tuple[str, str], int] = {}
    for name in dict.fromkeys(pair[0] for pair in pairs):
        for value in dict.fromkeys(pair[1] for pair in pairs):
            table[name, value] = 0
    for pair in pairs:
        table[pair] += 1
    return table


def problem_of_counts(
    counts_by_attribute: Mapping[str, Counts], kind: str, pretrained: bool = False
) -> Problem:
    """The problem of training rows that are counted by label and each attribute.

    Of several attributes it is that of the one by which training is farthest from even: with the
    largest sum of tie, missing groups and scarcity. Raises `InputError` for a label or an attribute
    of a single value.
    """
    problems = [
        _one_problem(name, counts, kind, pretrained) for name, counts in counts_by_attribute.items()
    ]
    if not problems:
        raise InputError("attribute", "names no column; advice needs the attribute that may shift")
    return max(
        problems, key=lambda problem: problem.tie + problem.missing + 1 - min(problem.rarest, 1)
    )


def _one_problem(attribute: str, counts: Counts, kind: str, pretrained: bool) -> Problem:
    table = _table(counts)
    if table.shape[0] < 2:
        raise InputError("label", "has a single class among the training rows and the test rows")
    if table.shape[1] < 2:
        raise InputError(attribute, "has a single value; nothing can shift in it")
    rows = table.sum()
    by_value = table.sum(axis=0)
    return Problem(
        kind=kind,
        classes=table.shape[0],
        values=table.shape[1],
        rows=int(rows),
        tie=float(cramers_v(table, corrections=0.0)),
        rarest=float(by_value.min() * table.shape[1] / max(rows, 1)),
        smallest=int(table[table > 0].min(initial=rows)),
        missing=float((table == 0).mean()),
        pretrained=pretrained,
    )


def _table(counts: Counts) -> NDArray[np.float64]:
    names = list(dict.fromkeys(name for name, _ in counts))
    values = list(dict.fromkeys(value for _, value in counts))
    table = np.zeros((len(names), len(values)))
    for (name, value), count in counts.items():
        table[names.index(name), values.index(value)] += count
    return table


def simple_counts(
    shift: str, rows: int, classes: int, values: int, tie: float
) -> dict[tuple[str, str], int]:
    """Training rows of a problem that is only described: `shift` is SC (the i-th value goes with the
    i-th class in a share `tie` of the rows, the rest is even over the other values), LDD (the last
    value has a share 1 - `tie` of an even one) or UDS (the last value has no rows); `none` is even.

    Raises `InputError` for fewer rows than groups.
    """
    if rows < classes * values:
        problem = (
            f"must be at least {classes * values:,}, one for each of {classes} x {values} groups"
        )
        raise InputError("--rows", f"{problem}, not {rows:,}")
    weights = np.ones((classes, values))
    if shift == "SC":
        weights[:] = (1 - tie) / max(values - 1, 1)
        for i in range(classes):
            weights[i, i % values] = tie
    elif shift == "LDD":
        weights[:, -1] = 1 - tie
    elif shift == "UDS":
        weights[:, -1] = 0
    shares = weights / weights.sum() * rows
    counts = np.floor(shares).astype(int)
    # What rounding down leaves goes where most was cut off, so that the sum is `rows`.
    cut_off = np.argsort(-(shares - counts), axis=None, kind="stable")
    counts.flat[cut_off[: rows - counts.sum()]] += 1
    return {
        (f"class {i}", f"value {j}"): int(counts[i, j])
        for i in range(classes)
        for j in range(values)
    }
