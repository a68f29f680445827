"""Average confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimate, Estimator


@final
@register("average-confidence", kind="estimator")
@dataclass(frozen=True)
class AverageConfidence(Estimator):
    """Average confidence: the mean of the largest softmax probability over the target rows.

    Estimates: accuracy = 1/n sum_i max_k p_k(x_i).
    Assumes: confidences are calibrated on the target. Under a shift they are mostly too high, and so is the estimate.
    Interval: of the accuracy on these n rows, if row i is right with probability c_i: variance 1/n^2 sum_i c_i (1 - c_i). It does
    not cover miscalibration.
    Reads: logits; nothing of the source.
    Reference: Hendrycks & Gimpel 2017, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples"; as an estimate of
    accuracy the baseline of Guillory et al. 2021 and Garg et al. 2022.
    """

    version = 1

    def fit(self, source: Answers, label: NDArray[np.int64]) -> None:
        """Nothing is kept."""

    def estimate(self, fitted: None, target: Answers) -> Estimate:
        """The mean confidence."""
        c = target.confidence
        return Estimate.around(float(c.mean()), float(np.sqrt((c * (1 - c)).sum()) / len(c)))
