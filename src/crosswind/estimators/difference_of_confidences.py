"""Difference of confidences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimate, Estimator


@final
@register("difference-of-confidences", kind="estimator")
@dataclass(frozen=True)
class DifferenceOfConfidences(Estimator):
    """Difference of confidences: the source accuracy, less the drop of the mean confidence from source to target.

    Estimates: accuracy = acc_S + 1/n sum_i c_i - 1/m sum_j c_j, i over target rows and j over source rows, cut to [0, 1].
    Assumes: confidence exceeds accuracy by as much on the target as on the source.
    Interval: the two samples are independent: variance of (right - c) over the m source rows / m, plus 1/n^2 sum_i c_i (1 - c_i) of
    the target rows. It does not cover a gap that changes between source and target.
    Reads: logits; labels of the source.
    Deviations: the paper fits a regression of the drop of accuracy on that of confidence over many shifts. Its slope is 1 here,
    as in the public code of Garg et al. 2022.
    Reference: Guillory et al. 2021, "Predicting with Confidence on Unseen Distributions".
    """

    version = 1

    def fit(self, source: Answers, label: NDArray[np.int64]) -> tuple[float, float]:
        """By how much accuracy exceeds confidence on the source, and the variance of that mean."""
        gap = (source.answer == label) - source.confidence
        return float(gap.mean()), float(gap.var() / len(gap))

    def estimate(self, fitted: tuple[float, float], target: Answers) -> Estimate:
        """The mean confidence, moved by the gap of the source."""
        gap, variance = fitted
        c = target.confidence
        return Estimate.around(float(c.mean()) + gap, float(np.sqrt(variance + (c * (1 - c)).sum() / len(c) ** 2)))
