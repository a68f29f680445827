"""Scores of models that were not trained here: probabilities, percentages and logits are told
apart."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.models.given.class_scores import are_probabilities, log_scores

SHARES = np.random.default_rng(0).dirichlet([3, 1, 1], 200)


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    powers = np.exp(logits.astype(np.float64))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("decimals", [1, 2, 3, 4, 7])
def test_rounded_probabilities_are_probabilities(decimals: int) -> None:
    rounded = SHARES.round(decimals)
    assert are_probabilities(rounded)
    confidence = softmax(log_scores(rounded, "net")).max(axis=1).mean()
    assert confidence == pytest.approx(SHARES.max(axis=1).mean(), abs=0.6 * 10.0**-decimals + 1e-4)


def test_a_probability_that_rounding_put_below_zero_is_zero() -> None:
    scores = SHARES.copy()
    scores[0] = [1 + 1e-12, -1e-12, 0]
    assert softmax(log_scores(scores, "net")) == pytest.approx(np.maximum(scores, 0), abs=1e-6)


@pytest.mark.parametrize("decimals", [0, 1, 2, 9])
def test_percentages_are_refused(decimals: int) -> None:
    with pytest.raises(DataError, match=r"^net gives percentages: .* divide each row by its sum$"):
        log_scores((100 * SHARES).round(decimals), "net")


@pytest.mark.parametrize(
    "scores",
    [
        np.random.default_rng(1).normal(size=(50, 3)),
        np.abs(np.random.default_rng(1).normal(size=(50, 3))),  # after a ReLU
        np.random.default_rng(1).random((50, 3)),  # a sigmoid of each class
        np.tile([2.0, 3.0, 1.0], (50, 1)),  # a constant
        np.zeros((50, 3)),
        np.log(SHARES),
        np.random.default_rng(1).integers(0, 2, (50, 3)),
        4 * np.eye(3)[np.random.default_rng(1).integers(0, 3, 50)],
    ],
)
def test_other_scores_stay_as_they_are(scores: NDArray[np.float64]) -> None:
    assert log_scores(scores, "net") == pytest.approx(scores.astype(np.float32))


def test_rows_that_are_not_finite_decide_nothing() -> None:
    scores = SHARES.copy()
    scores[3] = np.nan
    logits = log_scores(scores, "net")
    assert np.isnan(logits[3]).all() and np.isfinite(np.delete(logits, 3, axis=0)).all()
    assert softmax(np.delete(logits, 3, axis=0)) == pytest.approx(np.delete(SHARES, 3, axis=0))
    assert np.isnan(log_scores(np.full((2, 3), np.nan), "net")).all()
