"""Average thresholded confidence by maximum confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimator, Labelled
from crosswind.estimators.temperature import temperature_of
from crosswind.estimators.thresholds import Threshold, confidence_score, fitted_threshold


@final
@register("atc-mc", kind="estimator")
@dataclass(frozen=True)
class AtcMaximumConfidence(Estimator):
    """Average thresholded confidence (ATC), maximum confidence: the share of target rows whose confidence is above a threshold.

    Estimates: accuracy = 1/n sum_i [c_i > t], with t such that on the source this is the accuracy. Rows that are tied at t count
    in part, so that it is the accuracy exactly.
    Assumes: the share of rows above the threshold goes down by as much as the accuracy. No label shift is accounted for.
    Reads: probabilities; labels of the source.
    Deviations: the public code takes a score as its threshold and counts one row too many; here it lies between two scores.
    Reference: Garg et al. 2022, "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance".
    """

    temperature: str = knob(
        "none",
        domain="{none, fit}",
        doc="the temperature of the softmax: 1, or fitted on the source",
        source="Ng et al. 2022",
    )
    version = 1
    access = Access()

    def fit(self, source: Labelled) -> tuple[float, Threshold]:
        """The temperature and the threshold."""
        temperature = temperature_of(self.temperature, source)
        return temperature, fitted_threshold(confidence_score(source.answers, temperature), source.right)

    def estimate(self, fitted: tuple[float, Threshold], target: Answers) -> float:
        """The share above the threshold."""
        temperature, threshold = fitted
        return threshold.share(confidence_score(target, temperature))
