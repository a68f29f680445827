"""The two tables as codes, and the pool of their distinct rows that explanations are fitted to.

Values that one side lacks are no weights but missing support. Rows that carry them are set aside
before weights are fitted, so what unseen values imply for all else is taken out. Values beyond the
most frequent ones are pooled as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.shifts.audit.loglinear import LoglinearPool

Ints = NDArray[np.int64]

MOST_FITTED = 30_000
"""Distinct rows of a pool; where there are more, as many rows are drawn for the explanation."""
MOST_ROWS = 400_000
"""Rows of both tables that distinct ones are looked for in."""
MOST_LEVELS = 420
"""Pairs of class and value that the explanation tells apart; beyond them the rarest values are
taken together."""
MOST_CLASSES, LEAST_VALUES = 40, 8
"""Classes of the label, and values of an attribute that are kept however many classes there are."""
FEWEST_SURE = 5
"""Rows that a value must have on one side to be called absent from the other, however many rows
that has."""
FEWEST_LEFT = 50
"""Rows of each side that must be left when rows of unseen values are set aside."""


@final
@dataclass(frozen=True, eq=False)
class Column:
    """One attribute of both tables: the names of its values and the code of each row, int64 [n] and
    [m]."""

    name: str
    values: tuple[str, ...]
    train: Ints
    target: Ints

    def counts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rows of each value in training and in the target."""
        size = len(self.values)
        train = np.bincount(self.train, minlength=size)
        target = np.bincount(self.target, minlength=size)
        return train.astype(np.float64), target.astype(np.float64)


@final
@dataclass(eq=False)
class Unseen:
    """Values of one column that one side lacks.

    `codes`: in the target and not in training, `only`: the other way round; `sure` and `only_sure`:
    those too frequent for chance. Of the `rows` of the target that carry `codes`, `left` carry no
    value whose absence was found before; `log_p` is of chance alone, in logarithms. `source`: the
    column whose unseen values most of these rows carry.
    """

    codes: list[int] = field(default_factory=list)
    only: list[int] = field(default_factory=list)
    rows: int = 0
    left: int = 0
    log_p: float = 0.0
    sure: list[int] = field(default_factory=list)
    only_sure: list[int] = field(default_factory=list)
    source: int | None = None


def find_unseen(columns: Sequence[Column], level: float) -> list[Unseen]:
    """The values that one side lacks, column by column; where columns lack them in the same rows,
    the one of most rows comes first.

    With equal shares, the probability that none of n training rows has a value that b of m target
    rows have is at most (m / (n + m))^b. Each column's smallest is taken times its number of
    values. `level`: the chance that any value is called `sure` wrongly.
    """
    unseen = [Unseen() for _ in columns]
    masks: dict[int, NDArray[np.bool_]] = {}
    for number, column in enumerate(columns):
        train, target = column.counts()
        unseen[number].codes = np.flatnonzero((train == 0) & (target > 0)).tolist()
        unseen[number].only = np.flatnonzero((target == 0) & (train > 0)).tolist()
        need = math.log(3 * len(columns) * len(column.values) / level) / math.log1p(
            target.sum() / train.sum()
        )
        unseen[number].only_sure = [
            code for code in unseen[number].only if train[code] > max(need, FEWEST_SURE - 1)
        ]
        if unseen[number].codes:
            masks[number] = np.isin(column.target, unseen[number].codes)
            unseen[number].rows = int(masks[number].sum())
    n = len(columns[0].train)
    m = len(columns[0].target)
    taken = np.zeros(m, dtype=bool)
    by: list[int] = []
    for number in sorted(masks, key=lambda number: (-unseen[number].rows, number == 0, number)):
        unseen_of = unseen[number]
        column = columns[number]
        fresh = ~taken
        left = np.bincount(column.target[fresh & masks[number]], minlength=len(column.values))
        unseen_of.left = int(left.sum())
        # Of rows that carry other unseen values training has none whatever this column does.
        n_fresh = int(fresh.sum())
        chance = 0.0
        if n_fresh:
            chance = math.log(n_fresh / (n + n_fresh))
        bound = math.log(len(column.values))
        unseen_of.log_p = min(
            0.0, min((float(left[code]) * chance for code in unseen_of.codes), default=0.0) + bound
        )
        # By Bonferroni over every test that the audit may make, so that Holm's method agrees.
        if chance:
            enough = (math.log(level / (3 * len(columns))) - bound) / chance
        else:
            enough = math.inf
        unseen_of.sure = [
            code for code in unseen_of.codes if left[code] > max(enough, FEWEST_SURE - 1)
        ]
        if unseen_of.sure:
            by.append(number)
            taken |= masks[number]
        elif by and unseen_of.left <= unseen_of.rows / 2:
            shared = {
                other_column: int((masks[other_column] & masks[number]).sum())
                for other_column in by
            }
            unseen_of.source = max(shared, key=lambda other_column: shared[other_column])
    return unseen


@final
@dataclass(frozen=True, eq=False)
class Pooled:
    """The pool, and which columns its axes are; `codes[axis][value]` is the level of each value of
    the column. `notes` in words."""

    pool: LoglinearPool
    places: tuple[int, ...]
    levels: tuple[Ints, ...]
    notes: tuple[str, ...]


def pooled(
    columns: Sequence[Column], unseen: Sequence[Unseen], generator: np.random.Generator
) -> Pooled | None:
    """The pool of the rows whose values both sides know; the first column is the label. None where
    too few rows are left.

    A column whose unseen values would leave too few rows stays out of the pool.
    """
    numbers, train, target = _supported(columns, unseen)
    if not train.any() or not target.any():
        return None
    pooled_columns = [columns[number] for number in numbers]
    codes_of_columns = [
        np.concatenate([column.train[train], column.target[target]]) for column in pooled_columns
    ]
    levels: list[Ints] = []
    notes = []
    most_levels = MOST_CLASSES
    for column, codes in zip(pooled_columns, codes_of_columns, strict=True):
        level = _kept(codes, len(column.values), most_levels)
        if (np.bincount(level[np.unique(codes)]) > 1).any():
            notes.append(f"the rarest values of {column.name} were taken together")
        levels.append(level)
        n_classes = int(levels[0].max()) + 1
        most_levels = max(LEAST_VALUES, MOST_LEVELS // n_classes)
    sizes = [int(level.max()) + 1 for level in levels]
    stacked = np.stack(
        [level[codes] for level, codes in zip(levels, codes_of_columns, strict=True)]
    )
    n_rows = stacked.shape[1]
    side = np.arange(n_rows) < int(train.sum())
    if n_rows > MOST_ROWS:
        drawn = generator.random(n_rows) < MOST_ROWS / n_rows
        stacked = stacked[:, drawn]
        side = side[drawn]
        if side.all() or not side.any():
            return None
    codes, distinct_row = _distinct(stacked, sizes)
    if codes.shape[1] > MOST_FITTED:
        drawn = generator.random(stacked.shape[1]) < MOST_FITTED / stacked.shape[1]
        stacked = stacked[:, drawn]
        side = side[drawn]
        codes, distinct_row = _distinct(stacked, sizes)
    if stacked.shape[1] < n_rows:
        notes.append(
            f"{stacked.shape[1]:,} of {n_rows:,} rows were drawn to tell what follows from what"
        )
    train_counts = np.bincount(distinct_row[side], minlength=codes.shape[1]).astype(np.float64)
    target_counts = np.bincount(distinct_row[(~side)], minlength=codes.shape[1]).astype(np.float64)
    pool = LoglinearPool(codes, tuple(sizes), train_counts, target_counts)
    return Pooled(pool, tuple(numbers), tuple(levels), tuple(notes))


def _supported(
    columns: Sequence[Column], unseen: Sequence[Unseen]
) -> tuple[list[int], NDArray[np.bool_], NDArray[np.bool_]]:
    """The columns of the pool, and the rows of training and of the target whose values in all of
    them both sides know. The label is one of them; of the others those that cost fewest rows come
    first, and one that would leave too few is left out."""
    train_known = []
    target_known = []
    for column, unseen_of in zip(columns, unseen, strict=True):
        train_known.append(~np.isin(column.train, unseen_of.only))
        target_known.append(~np.isin(column.target, unseen_of.codes))
    lost = [
        float((~known_target).mean()) + float((~known_train).mean())
        for known_train, known_target in zip(train_known, target_known, strict=True)
    ]
    train = np.ones_like(train_known[0])
    target = np.ones_like(target_known[0])
    least_train = min(FEWEST_LEFT, len(train) / 2)
    least_target = min(FEWEST_LEFT, len(target) / 2)
    numbers = []
    for number in sorted(range(len(columns)), key=lambda number: (number > 0, lost[number])):
        fewer_train = train & train_known[number]
        fewer_target = target & target_known[number]
        enough = min(fewer_train.sum() / least_train, fewer_target.sum() / least_target) >= 1
        if enough or number == 0:
            train = fewer_train
            target = fewer_target
            numbers.append(number)
    return sorted(numbers), train, target


def _kept(codes: Ints, size: int, most_levels: int) -> Ints:
    """The level of each of `size` values: its own for the most frequent, the last one for all
    others; absent values too."""
    counts = np.bincount(codes, minlength=size)
    present = frequent = np.flatnonzero(counts)
    if len(present) > most_levels:
        by_frequency = np.argsort(-counts, kind="stable")
        frequent = np.sort(by_frequency[: most_levels - 1])
    level_of_rare = 0
    if len(frequent) < len(present):
        level_of_rare = len(frequent)
    level = np.full(size, level_of_rare, dtype=np.int64)
    level[frequent] = np.arange(len(frequent))
    return level


def _distinct(rows: Ints, sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """The distinct columns of `rows` [axes, n] and the number of each row's own."""
    number = np.zeros(rows.shape[1], dtype=np.int64)
    top = 1
    for axis, size in zip(rows, sizes, strict=True):
        if top * size > 2**62:  # too many combinations for one number: count those that there are
            _, number = np.unique(number, return_inverse=True)
            top = int(number.max()) + 1
        number = number * size + axis
        top *= size
    _, first, inverse = np.unique(number, return_index=True, return_inverse=True)
    return rows[:, first], inverse.ravel()
