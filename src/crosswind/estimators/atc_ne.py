"""Average thresholded confidence by negative entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Floats
from crosswind.estimators.thresholds import Thresholded, entropy_score


@final
@register("atc-ne", kind="estimator")
@dataclass(frozen=True)
class AtcNegativeEntropy(Thresholded):
    """Average thresholded confidence (ATC), negative entropy: the share of target rows whose
    entropy is below a threshold.

    Estimates: accuracy = 1/n sum_i [s_i > t], s = sum_k p_k log p_k, with t such that on the source
    this is the accuracy. Rows that are tied at t count in part, so that it is the accuracy exactly.
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
        """The negative entropy of each row."""
        return entropy_score(answers, temperature)
