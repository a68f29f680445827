"""Nuclear norm of the probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Measure


@final
@register("nuclear-norm", kind="estimator")
@dataclass(frozen=True)
class NuclearNorm(Measure):
    """Nuclear norm: how confident the answers are and over how many classes they spread, in one
    number.

    Measures: ||P||_* / sqrt(min(n, k) n), the sum of the singular values of the n x k matrix of
    probabilities, in (0, 1]. It is 1 where every answer is certain and all classes are equally
    common.
    Assumes: classes are about equally common on every set.
    Reads: probabilities.
    Rows: its expectation falls with fewer rows, by (k - 1) / (8 n) for certain answers of equally
    common classes, and by much more where n < k.
    Deviations: none. Public code multiplies by the root, or leaves n out of it; the paper divides
    by sqrt(min(n, k) n).
    Reference: Deng et al. 2023, "Confidence and Dispersity Speak: Characterizing Prediction Matrix
    for Unsupervised Accuracy Estimation", ICML.
    """

    version = 1
    access = Access(pool=True)

    def measure(self, target: Answers) -> float:
        """The norm over its largest value."""
        p = target.probabilities
        n, k = p.shape
        return float(np.linalg.norm(p, ord="nuc") / np.sqrt(min(n, k) * n))
