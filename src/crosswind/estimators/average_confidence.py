"""Average confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimator, Labelled


@final
@register("average-confidence", kind="estimator")
@dataclass(frozen=True)
class AverageConfidence(Estimator):
    """Average confidence: the mean of the largest softmax probability over the target rows.

    Estimates: accuracy = 1/n sum_i max_k p_k(x_i).
    Assumes: confidences are calibrated on the target. Under a shift they are mostly too high, and
    so is the estimate.
    Reads: probabilities; nothing of the source.
    Reference: Hendrycks & Gimpel 2017, "A Baseline for Detecting Misclassified and
    Out-of-Distribution Examples"; as an estimate of accuracy the baseline of Guillory et al. 2021
    and Garg et al. 2022.
    """

    version = 2
    no_pool_interval = (
        "of those measured fewer than 85% held the accuracy under strong shifts (81% of 101)"
    )
    access = Access(source=False)

    def fit(self, source: Labelled) -> None:
        """Nothing is kept."""

    def estimate(self, fitted: None, target: Answers) -> float:
        """The mean confidence."""
        return float(target.confidence.mean())
