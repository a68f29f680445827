"""Agreement on the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtr

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.agreement import agreements, from_means_of_pairs, probit
from crosswind.estimators.base import Answers, Estimate, Floats, Joint, Labelled
from crosswind.estimators.estimating import fitted_map

TRUSTED = 0.95
"""The R2 of the line from which the paper trusts it."""


@final
@register("agreement-on-the-line", kind="estimator")
@dataclass(frozen=True)
class AgreementOnTheLine(Joint):
    """Agreement on the line (ALine): accuracies from how the agreements of many models move from
    source to target.

    Estimates: with probits throughout, the line agr_T = a agr_S + b is fitted to all pairs of
    models. Form S: acc_T = a acc_S + b.
    Form D: the accuracies that fit (acc_T(h) + acc_T(g)) / 2 = agr_T(h, g) + a ((acc_S(h) +
    acc_S(g)) / 2 - agr_S(h, g)) best, by least squares over all pairs. Rates are cut to [1e-4, 1 -
    1e-4].
    Assumes: accuracies lie on the line of the agreements. Where the R2 of that line is below 0.95
    there is a warning. Ten models or more are better than three.
    Reads: answers; labels of the source.
    Deviations: where all pairs agree equally often on the source there is no line, and its slope is
    taken as 1.
    Reference: Baek et al. 2022, "Agreement-on-the-Line: Predicting the Performance of Neural
    Networks under Distribution Shift".
    """

    form: str = knob(
        "D",
        domain="{D, S}",
        doc="accuracies from the means of pairs (D) or from the line itself (S)",
    )
    version = 1
    access = Access(scores="labels", models=3)
    resamples = 200

    def estimate(self, sources: Sequence[Labelled], targets: Sequence[Answers]) -> list[Estimate]:
        """The accuracy of each model, and the same warning for each."""
        target_agreement = probit(agreements(targets))
        source_agreement = probit(agreements([source.answers for source in sources]))
        pairs = np.triu_indices(len(targets), 1)
        line = fitted_map(source_agreement[pairs], target_agreement[pairs])
        slope, intercept = (
            line
            if line is not None
            else (1.0, float((target_agreement - source_agreement)[pairs].mean()))
        )
        rates = np.array([source.accuracy for source in sources])
        source_accuracies = probit(rates)
        accuracies = slope * source_accuracies + intercept
        if self.form == "D":
            means = target_agreement + slope * (
                (source_accuracies[:, None] + source_accuracies) / 2 - source_agreement
            )
            accuracies = from_means_of_pairs(means)
        warnings = (
            ()
            if line is None
            else _doubts(target_agreement[pairs], slope * source_agreement[pairs] + intercept)
        )
        if line is None:
            warnings = (
                "all pairs of models agree equally often on the source, so that there is no line",
            )
        return [Estimate(float(value), warnings=warnings) for value in ndtr(accuracies)]


def _doubts(estimates: Floats, by_line: Floats) -> tuple[str, ...]:
    spread = float(((estimates - estimates.mean()) ** 2).sum())
    r2 = 0.0
    if spread > 1e-12:
        r2 = 1 - float(((estimates - by_line) ** 2).sum()) / spread
    if r2 >= TRUSTED:
        return ()
    return (
        (
            f"the agreements of the models lie on a line with an R2 of {r2:.2f}, and below"
            f" {TRUSTED} the estimates are doubtful"
        ),
    )
