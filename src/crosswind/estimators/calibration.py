"""Calibration of probabilities. Temperature scaling: one number that the logits are divided by (Guo
et al. 2017, section 4.2). Isotonic calibration: each class against the rest (Zadrozny & Elkan
2002)."""

from __future__ import annotations

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
