"""Calibration of probabilities. Temperature scaling: one number that the logits are divided by (Guo
et al. 2017, section 4.2). Isotonic calibration: each class against the rest (Zadrozny & Elkan
2002)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, isotonic_regression

from crosswind.estimators.base import Answers, Floats, Labelled

BOUNDS = (0.01, 100.0)
"""Of a temperature. It reaches the lower end where every answer is right, since the likelihood then
has no maximum."""

_LEAST = -1e5
"""What stands for a logit of minus infinity, below the largest one of its row: its probability is 0
at every temperature."""

PORTION = 1 << 16
"""Numbers that are computed with at once: as many as stay in a processor's cache."""

TOGETHER = 64
"""Classes of one regression: the more, the fewer digits of each are left."""

SAFE = 64
"""Rows before the first with the label of a class that are looked at in a draw."""

RESOLUTION = 1e-15
"""Probabilities that are no further apart are one: so far can rounding bring equal ones."""

Calibrator = tuple[tuple[Floats, Floats], ...]
"""For every class the probabilities at which its calibration is known, rising, and its values
there."""


def fitted_temperature(source: Labelled) -> float:
    """The temperature in `BOUNDS` that minimises the mean negative log-likelihood of the labels.

    Found as the root of the derivative, in the logarithm of the temperature: the likelihood is
    concave in 1 / temperature. A row whose label has a logit of minus infinity has likelihood 0 at
    every temperature, and is left out; 1 where no row is left.
    """
    temperature = _temperatures.get(source)
    if temperature is None:
        temperature = _temperatures[source] = _likeliest_temperature(source)
    return temperature


_temperatures: WeakKeyDictionary[Labelled, float] = WeakKeyDictionary()
"""Of labelled rows that are there: several estimators ask for it."""


def _likeliest_temperature(source: Labelled) -> float:
    assert source.answers.logits is not None
    z = source.answers.logits.astype(np.float64)
    rows = np.flatnonzero(z[np.arange(len(z)), source.label] > -np.inf)
    if not len(rows):
        return 1.0
    z = np.maximum(z[rows] - z[rows].max(axis=1, keepdims=True), _LEAST)
    of_label = float(z[np.arange(len(rows)), source.label[rows]].mean())

    portion = max(1, PORTION // z.shape[1])
    mean_logits = np.empty(len(z))

    @cache  # the ends of the bounds are asked for twice
    def excess(log_temperature: float) -> float:
        """The derivative of the mean negative log-likelihood by 1 / temperature."""
        temperature = np.exp(log_temperature)
        for start in range(0, len(z), portion):
            some = z[start : start + portion]
            weight = some / temperature
            np.exp(weight, out=weight)
            totals = weight.sum(axis=1)
            weight *= some
            mean_logits[start : start + portion] = weight.sum(axis=1) / totals
        return float(mean_logits.mean()) - of_label

    low, high = np.log(BOUNDS)
    if excess(low) <= 0:
        return BOUNDS[0]
    if excess(high) >= 0:
        return BOUNDS[1]
    return float(np.exp(brentq(excess, low, high, xtol=1e-13)))


def temperature_of(choice: str, source: Labelled) -> float:
    """The temperature that a knob asks for: 1 for `none`, the fitted one for `fit`."""
    return fitted_temperature(source) if choice == "fit" else 1.0


def scaled_logits(answers: Answers, temperature: float) -> Floats:
    """The logits, less the largest of their row, over the temperature; float64 [n, k], at most
    0."""
    assert answers.logits is not None
    z: NDArray[np.float64] = answers.logits.astype(np.float64)
    return (z - z.max(axis=1, keepdims=True)) / temperature


def scaled_log_probabilities(answers: Answers, temperature: float) -> Floats:
    """Logarithms of the softmax at a temperature, float64 [n, k], where those of a confidence near
    1 keep their digits."""
    z = scaled_logits(answers, temperature)
    exponentials = np.exp(z)
    exponentials[np.arange(len(z)), z.argmax(axis=1)] = 0
    return z - np.log1p(exponentials.sum(axis=1, keepdims=True))


def fitted_calibrator(probabilities: Floats, label: NDArray[np.int64]) -> Calibrator:
    """By class the isotonic regression of "has this label" on the probability of the class.

    `probabilities` float64 [n, k], `label` int64 [n]. Equal probabilities are one point, which
    weighs as many rows as it has.
    """
    calibrator = []
    for code, column in enumerate(probabilities.T):
        order = np.argsort(column, kind="stable")
        begins = np.diff(column[order], prepend=-np.inf) > RESOLUTION
        group = np.cumsum(begins) - 1
        counts = np.bincount(group)
        weights = label[order] == code
        share = np.bincount(group, weights=weights) / counts
        calibrator.append(
            (column[order][begins], np.asarray(isotonic_regression(share, weights=counts).x))
        )
    return tuple(calibrator)


class SortedRows(NamedTuple):
    """Some classes' rows by the probability of the class, one class after the other, all [n]: which
    rows, int64; their probabilities, float64; whether they have the class's label, bool; and the
    number of the class among these, int64. Then how many classes these are.

    Rows of a class far below the first that has its label are left out: calibration makes 0 of
    them, as of the next ones.
    """

    order: NDArray[np.int64]
    probabilities: Floats
    has_label: NDArray[np.bool_]
    class_of: NDArray[np.int64]
    classes: int


def sorted_by_class(probabilities: Floats, label: NDArray[np.int64]) -> list[SortedRows]:
    """Rows sorted for every class, `TOGETHER` at a time, for calibrators of many draws of them."""
    sorted_rows = []
    k = probabilities.shape[1]
    for first in range(0, k, TOGETHER):
        classes = range(first, min(first + TOGETHER, k))
        columns = []
        for code in classes:
            order = np.argsort(probabilities[:, code], kind="stable")
            column = probabilities[order, code]
            has_label = label[order] == code
            from_row = _first_that_counts(column, has_label)
            columns.append((order[from_row:], column[from_row:], has_label[from_row:]))
        orders, values, labels = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        class_of = np.repeat(np.arange(len(columns)), [len(order) for order, *_ in columns])
        sorted_rows.append(SortedRows(orders, values, labels, class_of, len(columns)))
    return sorted_rows


def _first_that_counts(column: Floats, has_label: NDArray[np.bool_]) -> int:
    """The place of `SAFE` rows before the first with the label, and of what is tied with that; each
    draw has one of so many rows but for a chance of exp(-SAFE)."""
    place = int(has_label.argmax()) if has_label.any() else len(column) - 1
    place = max(0, place - SAFE)
    while place > 0 and column[place] - column[place - 1] <= RESOLUTION:
        place -= 1
    return place


def redrawn_calibrator(
    sorted_rows: Sequence[SortedRows], drawn: NDArray[np.int64], n: int
) -> Calibrator:
    """The calibrator of some of n rows, repeats allowed, int64 [m]: that of `fitted_calibrator`
    within 1e-12, without the points inside of a step.

    One regression is of many classes at once, of which each lies 2 above the one before: calling for
    each class took most of the time.
    """
    times = np.bincount(drawn, minlength=n)
    calibrator: list[tuple[Floats, Floats]] = []
    for rows in sorted_rows:
        times_sorted = times[rows.order]
        there = np.flatnonzero(times_sorted)
        class_of = rows.class_of[there]
        values = rows.probabilities[there]
        is_new = np.ones(len(there), dtype=bool)
        is_new[1:] = (np.diff(values) > RESOLUTION) | (class_of[1:] > class_of[:-1])
        starts = np.flatnonzero(is_new)
        weights = times_sorted[there]
        counts = np.add.reduceat(weights, starts)
        labelled = np.add.reduceat(weights * rows.has_label[there], starts)
        code = class_of[starts]
        fitted = isotonic_regression(labelled / counts + 2.0 * code, weights=counts)
        # A step is known by its ends; a class ends a step, too.
        ends = np.zeros(len(starts) + 1, dtype=bool)
        ends[fitted.blocks] = True
        ends[1:-1] |= code[1:] > code[:-1]
        points = np.flatnonzero(ends[:-1] | ends[1:])
        knots = values[starts[points]]
        heights = np.asarray(fitted.x)[points] - 2.0 * code[points]
        bounds = np.searchsorted(code[points], np.arange(rows.classes + 1)).tolist()
        for low, high in pairwise(bounds):
            calibrator.append((knots[low:high], heights[low:high]))
    return tuple(calibrator)


def calibrated(calibrator: Calibrator, probabilities: Floats) -> Floats:
    """Calibrated probabilities float64 [n, k] that sum to 1: linear between the known points and
    constant beyond them.

    A row for which every class has 0 gets 1 / k for each.
    """
    columns = []
    for column, (knots, value) in zip(probabilities.T, calibrator, strict=True):
        columns.append(np.interp(column, knots, value))
    return _scaled(np.stack(columns, axis=1))


def calibrated_sorted(
    calibrator: Calibrator, columns: Sequence[tuple[NDArray[np.int64], Floats]]
) -> Floats:
    """Calibrated probabilities before rows are scaled, float64 [k, n], of probabilities that were
    sorted for each class: the rows in that order, and their probabilities. Sorted ones are placed
    among knots faster, and those below the first knot are known without it."""
    values = np.empty((len(columns), len(columns[0][0])))
    for row, (order, column), (knots, value) in zip(values, columns, calibrator, strict=True):
        below = int(np.searchsorted(column, knots[0]))
        row.fill(value[0])
        row[order[below:]] = np.interp(column[below:], knots, value)
    return values


def _scaled(positive: Floats) -> Floats:
    """Rows that sum to 1; even ones where every class has 0."""
    total = positive.sum(axis=1, keepdims=True)
    even = np.full_like(positive, 1 / positive.shape[1])
    return np.divide(positive, total, out=even, where=total > 0)
