"""How often models agree, and the line on which their agreements lie (Baek et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from crosswind.estimators.base import Answers, Floats

LEAST_RATE = 1e-4
"""Rates nearer to 0 or 1 are moved this far away, since their probits are infinite."""


def agreements(answers: Sequence[Answers]) -> Floats:
    """For every two of m models the share of rows with the same answer, float64 [m, m]; the
    diagonal is 1.

    Two answers that name no class do not agree.
    """
    answers_of_models = np.stack([model_answers.answer for model_answers in answers])
    agreement = np.stack(
        [((answers_of_models == row) & (row >= 0)).mean(axis=1) for row in answers_of_models]
    )
    np.fill_diagonal(agreement, 1)
    return np.asarray(agreement)


def probit(rates: Floats) -> Floats:
    """The normal quantile of rates, cut to [1e-4, 1 - 1e-4]."""
    return np.asarray(ndtri(np.clip(rates, LEAST_RATE, 1 - LEAST_RATE)))


def from_means_of_pairs(means: Floats) -> Floats:
    """The m numbers x whose means (x_i + x_j) / 2 are nearest, by least squares over all pairs, to
    these; m is 3 at least.

    `means` float64 [m, m], symmetric; its diagonal is not read. The normal equations of all pairs
    have the matrix
    ((m - 2) I + 1 1') / 4, whose inverse is 4 / (m - 2) (I - 1 1' / (2 m - 2)).
    """
    m = len(means)
    sums = means.sum(axis=1) - np.diag(means)
    return np.asarray(2 / (m - 2) * (sums - sums.sum() / (2 * m - 2)))
