"""Temperature scaling: one number that the logits are divided by, fitted on labelled rows (Guo et
al. 2017, section 4.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from crosswind.estimators.base import Answers, Floats, Labelled

BOUNDS = (0.01, 100.0)
"""Of a temperature. It reaches the lower end where every answer is right, since the likelihood then
has no maximum."""

_LEAST = -1e5
"""What stands for a logit of minus infinity, below the largest one of its row: its probability is 0
at every temperature."""


def fitted_temperature(source: Labelled) -> float:
    """The temperature in `BOUNDS` that minimises the mean negative log-likelihood of the labels.

    Found as the root of the derivative, in the logarithm of the temperature: the likelihood is
    concave in 1 / temperature. A row whose label has a logit of minus infinity has likelihood 0 at
    every temperature, and is left out; 1 where no row is left.
    """
    assert source.answers.logits is not None
    z = source.answers.logits.astype(np.float64)
    rows = np.flatnonzero(z[np.arange(len(z)), source.label] > -np.inf)
    if not len(rows):
        return 1.0
    z = np.maximum(z[rows] - z[rows].max(axis=1, keepdims=True), _LEAST)
    of_label = float(z[np.arange(len(rows)), source.label[rows]].mean())

    def excess(log_temperature: float) -> float:
        """The derivative of the mean negative log-likelihood by 1 / temperature."""
        weight = np.exp(z / np.exp(log_temperature))
        return float(((weight * z).sum(axis=1) / weight.sum(axis=1)).mean()) - of_label

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
