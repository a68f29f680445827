"""Isotonic calibration of the probabilities of several classes, one against the rest (Zadrozny &
Elkan 2002)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from crosswind.estimators.base import Floats

RESOLUTION = 1e-15
"""Probabilities that are no further apart are one: so far can rounding bring equal ones."""

Calibrator = tuple[tuple[Floats, Floats], ...]
"""For every class the probabilities at which its calibration is known, rising, and its values
there."""


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


def calibrated(calibrator: Calibrator, probabilities: Floats) -> Floats:
    """Calibrated probabilities float64 [n, k] that sum to 1: linear between the known points and
    constant beyond them.

    A row for which every class has 0 gets 1 / k for each.
    """
    columns = []
    for column, (knots, value) in zip(probabilities.T, calibrator, strict=True):
        columns.append(np.interp(column, knots, value))
    positive = np.stack(columns, axis=1)
    total = positive.sum(axis=1, keepdims=True)
    even = np.full_like(positive, 1 / positive.shape[1])
    return np.divide(positive, total, out=even, where=total > 0)
