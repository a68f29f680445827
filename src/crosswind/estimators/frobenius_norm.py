"""Frobenius norms of the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Floats
from crosswind.estimators.norms import WeightNorm, frobenius_norm


@final
@register("frobenius-norm", kind="estimator")
@dataclass(frozen=True)
class FrobeniusNorm(WeightNorm):
    """Frobenius norms: minus the logarithm of the product over layers of the squared root of the
    sum of squares.

    Measures: -sum_l log ||W_l||^2, so that smaller weights are the larger measure. The product
    itself overflows.
    Assumes: among networks of one architecture the smaller weights generalise better. Ng et al.
    2022 found correlations with accuracy near 0 or negative.
    Reads: the weights; no row. It tells networks apart, and no two sets of one network.
    Convolutions: `kernel` sums over the weights. `operator` is the periodic convolution of images
    of `size` x `size` pixels, whose sum of squares is that times the number of pixels.
    Reference: Neyshabur et al. 2015, "Norm-Based Capacity Control in Neural Networks", COLT; as a
    baseline Ng et al. 2022, appendix B.1.
    """

    version = 1
    access = Access(scores="labels", pool=True, weights=True)

    def norm(self, weight: Floats) -> float:
        """The root of the sum of squares."""
        return frobenius_norm(weight, self.convolution, self.size)
