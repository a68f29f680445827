"""Mutual information of rows and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from scipy.special import entr

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Measure


@final
@register("mutual-information", kind="estimator")
@dataclass(frozen=True)
class MutualInformation(Measure):
    """Mutual information: the entropy of the mean probabilities, less the mean entropy of the
    probabilities.

    Measures: H(1/n sum_i p_i) - 1/n sum_i H(p_i), in nats, in [0, log k].
    Assumes: classes are about equally common on every set.
    Reads: probabilities.
    Rows: its expectation falls with fewer rows, by at most (k - 1) / (2 n) nats to first order.
    Reference: Bridle et al. 1991, "Unsupervised Classifiers, Mutual Information and 'Phantom
    Targets'", NIPS; as an estimate of accuracy a baseline of Deng et al. 2023, "Confidence and
    Dispersity Speak", ICML.
    """

    version = 1
    access = Access(pool=True)

    def measure(self, target: Answers) -> float:
        """The difference of the two entropies."""
        p = target.probabilities
        return float(entr(p.mean(axis=0)).sum() - entr(p).sum(axis=1).mean())
