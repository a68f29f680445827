"""Scores of a model that was not trained here: logits, or probabilities in the form that people give
them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError

__all__ = ["are_probabilities", "log_scores", "refuse_percentages"]

TOLERANCE = 1e-3
"""How far the probabilities of a row may sum to something else than 1."""
MOST_ROUNDING = 0.1
"""The same at most where they are rounded to one to four decimals."""
BELOW_ZERO = 1e-6
"""What rounding leaves of a probability of 0, below it."""


def log_scores(scores: NDArray[Any], name: str) -> NDArray[np.float32]:
    """Scores [n, k] as logits: of probabilities their logarithms, so that their softmax is
    themselves; other scores as they are. A row with NaN has NaN.

    Raises `DataError` for percentages. `name`: the model, in errors.
    """
    in_full = scores[np.isfinite(scores).all(axis=1)].astype(np.float64)
    if not len(in_full):
        return scores.astype(np.float32)
    if are_probabilities(in_full):
        tiny = np.finfo(np.float32).tiny
        logarithms: NDArray[np.float32] = np.log(np.maximum(scores, tiny)).astype(np.float32)
        return logarithms
    refuse_percentages(in_full, name)
    return scores.astype(np.float32)


def are_probabilities(scores: NDArray[np.float64]) -> bool:
    """Whether finite scores [n, k] are probabilities of k classes: each in [0, 1], and each row
    sums to 1, as far as they are rounded."""
    if scores.min() < -BELOW_ZERO or scores.max() > 1 + TOLERANCE:
        return False
    off = float(np.abs(scores.sum(axis=1) - 1).max())
    return off <= TOLERANCE or off <= _rounding(scores)


def refuse_percentages(scores: NDArray[np.float64], name: str) -> None:
    """Refuse finite scores [n, k] that are percentages. Raises `DataError`."""
    if are_probabilities(scores / 100):
        raise DataError(
            f"{name} gives percentages: no score is negative, and each row sums to 100, as far as"
            " they are rounded; probabilities sum to 1: divide each row by its sum"
        )


def _rounding(scores: NDArray[np.float64]) -> float:
    """How far rows may sum to something else than 1 by the decimals that all scores are rounded
    to; 0 where they are not."""
    for decimals in range(1, 5):
        if np.abs(scores - scores.round(decimals)).max() < BELOW_ZERO:
            unit: float = 10.0**-decimals
            return min(scores.shape[1] * unit / 2, MOST_ROUNDING) + BELOW_ZERO
    return 0.0
