"""Calibration of probabilities. Temperature scaling: one number that the logits are divided by (Guo
et al. 2017, section 4.2). Isotonic calibration: each class against the rest (Zadrozny & Elkan
2002)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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

MANY = 1 << 20
"""Numbers above which a temperature is sought near that of some rows. It is the same within 1e-12."""

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
    of_label = z[np.arange(len(z)), source.label]
    is_possible = of_label > -np.inf
    if not is_possible.any():
        return 1.0
    if not is_possible.all():
        z = z[is_possible]
    largest = z.max(axis=1, keepdims=True)
    z -= largest
    np.maximum(z, _LEAST, out=z)
    of_label = np.maximum(of_label[is_possible] - largest[:, 0], _LEAST)
    low, high = np.log(BOUNDS)
    excess = _excess(z, of_label)
    if z.size > MANY:
        step = -(-z.size // MANY)
        low, high = _narrowed(excess, _root(_excess(z[::step], of_label[::step]), low, high))
    root = _root(excess, low, high)
    return dict(zip(np.log(BOUNDS), BOUNDS, strict=True)).get(root, float(np.exp(root)))


def _excess(z: Floats, of_label: Floats) -> Callable[[float], float]:
    """The derivative of the mean negative log-likelihood by 1 / temperature, as a function of the
    logarithm of the temperature. Logits `z` float64 [n, k], those `of_label` float64 [n]."""
    portion = max(1, PORTION // z.shape[1])
    mean_of_labels = float(of_label.mean())
    mean_logits = np.empty(len(z))
    weights = np.empty((min(portion, len(z)), z.shape[1]))

    @cache  # the ends of the bounds are asked for twice
    def excess(log_temperature: float) -> float:
        temperature = np.exp(log_temperature)
        for start in range(0, len(z), portion):
            some = z[start : start + portion]
            weight = weights[: len(some)]
            np.divide(some, temperature, out=weight)
            np.exp(weight, out=weight)
            totals = weight.sum(axis=1)
            weight *= some
            mean_logits[start : start + portion] = weight.sum(axis=1) / totals
        return float(mean_logits.mean()) - mean_of_labels

    return excess


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function is 0; the nearer end where it is not between the two."""
    if excess(low) <= 0:
        return low
    if excess(high) >= 0:
        return high
    return float(brentq(excess, low, high, xtol=1e-13))


def _narrowed(excess: Callable[[float], float], root_of_some: float) -> tuple[float, float]:
    """The bounds of a temperature in its logarithm, or nearer ones around `root_of_some`, the root
    for some of the rows, where the root is
    between these: each look at all of many rows takes long."""
    low, high = np.log(BOUNDS)
    for width in (0.03, 0.3):
        ends = max(root_of_some - width, low), min(root_of_some + width, high)
        if excess(ends[0]) > 0 > excess(ends[1]):
            return ends
    return low, high


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
    weighs as many rows as it has. Of a step its two ends are known, between which nothing rises.
    """
    calibrator = []
    for code, column in enumerate(probabilities.T):
        order = np.argsort(column)
        rising = column[order]
        begins = np.diff(rising, prepend=-np.inf) > RESOLUTION
        group = np.cumsum(begins) - 1
        counts = np.bincount(group)
        weights = label[order] == code
        share = np.bincount(group, weights=weights) / counts
        fitted = isotonic_regression(share, weights=counts)
        ends = np.unique(np.concatenate([fitted.blocks[:-1], fitted.blocks[1:] - 1]))
        calibrator.append((rising[begins][ends], np.asarray(fitted.x)[ends]))
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


def _scaled(positive: Floats) -> Floats:
    """Rows that sum to 1; even ones where every class has 0."""
    total = positive.sum(axis=1, keepdims=True)
    even = np.full_like(positive, 1 / positive.shape[1])
    return np.divide(positive, total, out=even, where=total > 0)
