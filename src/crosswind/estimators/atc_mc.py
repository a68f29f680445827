"""Average thresholded confidence by maximum confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Floats
from crosswind.estimators.thresholds import Thresholded, confidence_score


@final
@register("atc-mc", kind="estimator")
@dataclass(frozen=True)
class AtcMaximumConfidence(Thresholded):
    """Average thresholded confidence (ATC), maximum confidence: the share of target rows whose
    confidence is above a threshold.

    Estimates: accuracy = 1/n sum_i [c_i > t], with t such that on the source this is the accuracy.
    Rows that are tied at t count in part, so that it is the accuracy exactly.
    Assumes: the share of rows above the threshold goes down by as much as the accuracy. No label
    shift is accounted for.
    Reads: probabilities; labels of the source.
    Deviations: the public code takes a score as its threshold and counts one row too many; here it
    lies between two scores.
    Reference: Garg et al. 2022, "Leveraging Unlabeled Data to Predict Out-of-Distribution
    Performance".
    """

    version = 1
    access = Access()

    def score(self, answers: Answers, temperature: float) -> Floats:
        """The confidence less 1 of each row."""
        return confidence_score(answers, temperature)
