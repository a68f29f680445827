"""Difference of confidences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimator, Labelled


@final
@register("difference-of-confidences", kind="estimator")
@dataclass(frozen=True)
class DifferenceOfConfidences(Estimator):
    """Difference of confidences: the source accuracy, less the drop of the mean confidence from
    source to target.

    Estimates: accuracy = acc_S + 1/n sum_i c_i - 1/m sum_j c_j, i over target rows and j over
    source rows, cut to [0, 1].
    Assumes: confidence exceeds accuracy by as much on the target as on the source.
    Reads: probabilities; labels of the source.
    Deviations: the paper fits a regression of the drop of accuracy on that of confidence over many
    shifts. Its slope is 1 here, as in the public code of Garg et al. 2022.
    Reference: Guillory et al. 2021, "Predicting with Confidence on Unseen Distributions".
    """

    version = 2
    access = Access()

    def fit(self, source: Labelled) -> float:
        """By how much accuracy exceeds confidence on the source."""
        return float((source.right - source.answers.confidence).mean())

    def estimate(self, fitted: float, target: Answers) -> float:
        """The mean confidence, moved by the gap of the source."""
        return float(target.confidence.mean()) + fitted
