"""MaNo: matrix norm of normalised logits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Floats, Measure


@final
@register("mano", kind="estimator")
@dataclass(frozen=True)
class MaNo(Measure):
    """MaNo: the p-norm of the logits, each row made to sum to 1 by the softmax or by a Taylor map.

    Measures: (sum_ik v_ik^p / (n k))^(1/p). The criterion Phi = -1/(n k) sum_ik log softmax(z_i)_k
    decides for the set: above `threshold` v is the softmax, else w = 1 + z + z^2 / 2 less the row's
    smallest w, divided by the row's sum.
    Assumes: decision boundaries lie where rows are few, so that logits far from zero go with right
    answers. Sets of a pool on both sides of the threshold have scores on two scales, which one line
    does not fit: a threshold of 0 or infinity keeps to one map.
    Reads: logits.
    Deviations: Phi is the mean over all rows of the set, and anew for every set; public code takes
    it from one batch of the first. The Taylor map falls below z = -1: logits (2, -8, 1) get the
    weights (0.10, 0.90, 0). `shifted` applies it to z less the row's smallest, where it only rises,
    and where a constant added to the logits changes nothing. `published` applies it to z as it is,
    and gives no number, which is refused, where it turns the order of two logits of any row around.
    Reference: Xie et al. 2024, "MaNo: Exploiting Matrix Norm for Unsupervised Accuracy Estimation
    Under Distribution Shifts", NeurIPS.
    """

    power: float = knob(4.0, domain="[1, inf)", source="Xie et al. 2024", doc="p of the norm")
    threshold: float = knob(
        5.0,
        domain="[0, inf]",
        source="Xie et al. 2024",
        doc="criterion above which the softmax is taken",
    )
    taylor: str = knob(
        "shifted",
        domain="{shifted, published}",
        source="ours",
        doc="what the Taylor map is applied to",
    )
    version = 1
    access = Access(scores="logits", pool=True)

    def measure(self, target: Answers) -> float:
        """The norm, in [k^-1, k^(-1/p)]."""
        assert target.logits is not None
        if criterion(target) > self.threshold:
            weights = target.probabilities
        else:
            z = target.logits.astype(np.float64)
            if self.taylor == "shifted":
                z = z - z.min(axis=1, keepdims=True)
            if not in_order(z):
                return math.nan
            weights = taylor(z)
        return float((weights**self.power).mean() ** (1 / self.power))


def criterion(target: Answers) -> float:
    """Phi: the mean over rows and classes of minus the logarithm of the probability, in nats, log k
    at least."""
    return float(-target.log_probabilities.mean())


def taylor(z: Floats) -> Floats:
    """The weights [n, k] of logits [n, k] by the second-order Taylor map; 1/k each where a row's
    logits are equal."""
    grown = 1 + z + z**2 / 2
    grown = grown - grown.min(axis=1, keepdims=True)
    total = grown.sum(axis=1, keepdims=True)
    return np.where(total > 0, grown / np.where(total > 0, total, 1), 1 / z.shape[1])


def in_order(z: Floats) -> bool:
    """Whether the Taylor map keeps the order of the logits of every row, float64 [n, k]."""
    ranked = np.sort(z, axis=1)
    steps = np.diff(ranked + ranked**2 / 2, axis=1)
    return bool((steps >= 0).all())
