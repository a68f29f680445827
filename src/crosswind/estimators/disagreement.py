"""Disagreement of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.agreement import agreements
from crosswind.estimators.base import Answers, Estimate, Joint, Labelled


@final
@register("disagreement", kind="estimator")
@dataclass(frozen=True)
class Disagreement(Joint):
    """Disagreement (GDE): how often a model answers as another one that was trained in the same way
    with another seed.

    Estimates: accuracy of model h = mean over the other models g of 1/n sum_i [h(x_i) = g(x_i)].
    Two models get the same estimate.
    Assumes: the models are one recipe with other seeds, and their votes are calibrated by class.
    Under a shift they are mostly not, and agree more often than they are right (Kirsch & Gal 2022).
    Reads: answers; nothing of the source.
    Deviations: the paper has two models. With more, the mean over the others is taken.
    Reference: Jiang et al. 2022, "Assessing Generalization of SGD via Disagreement".
    """

    version = 1
    access = Access(scores="labels", source=False, models=2)
    resamples = 200

    def estimate(self, sources: Sequence[Labelled], targets: Sequence[Answers]) -> list[Estimate]:
        """The mean agreement of each model with the others."""
        rates = agreements(targets)
        return [Estimate((float(row.sum()) - 1) / (len(targets) - 1)) for row in rates]
