"""How often several models agree on rows, and the accuracies that follow: `disagreement` (Jiang et
al. 2022) and `agreement-on-the-line` (Baek et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtr, ndtri

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimate, Floats, Joint, Labelled
from crosswind.estimators.estimating import fitted_map

LEAST_RATE = 1e-4
"""Rates nearer to 0 or 1 are moved this far away, since their probits are infinite."""

TRUSTED = 0.95
"""The R2 of the line from which the paper trusts it."""


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
