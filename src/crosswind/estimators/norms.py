"""Norms of the weights of a network, summed over its layers in the logarithm.

Reference: Neyshabur et al. 2015, "Norm-Based Capacity Control in Neural Networks" (Frobenius);
Yoshida & Miyato 2017, "Spectral Norm Regularization for Improving the Generalizability of Deep
Learning" (spectral). The product over layers, prod_l ||W_l||^2, is that of Jiang et al. 2019,
"Fantastic Generalization Measures and Where to Find Them", and of Ng et al. 2022, appendix B.1.

*Which tensors count*: those whose name ends in `weight` and that have 2 axes, or 4 as of a
convolution, [out, in, height, width]. Those of embeddings are among them. Biases and the scales of
normalisation are not, so that a network and the same one with batch norm folded into its weights
differ.

*A convolution* is a matrix in two ways. `kernel`: its weights reshaped to [out, in x height x
width]. `operator`: the linear map from one image to the next, of `size` x `size` pixels with
periodic borders and stride 1. The Fourier transform makes it one matrix [out, in] for each
frequency (Sedghi et al. 2019, "The Singular Values of Convolutional Layers"). Every layer is taken
at that size, also behind a pooling, at the size of its kernel where that is larger, and as one
group.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Floats, Measure


def layers(weights: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """The tensors that count, by name, in float64."""
    tensors = {}
    for name, tensor in weights.items():
        if name.endswith("weight") and tensor.ndim in (2, 4) and tensor.size:
            tensors[name] = tensor
    return {name: np.asarray(tensor, dtype=np.float64) for name, tensor in tensors.items()}


def spectral_norm(weight: Floats, convolution: str = "kernel", size: int = 32) -> float:
    """The largest singular value of a matrix [out, in] or a convolution [out, in, height, width],
    see above."""
    if weight.ndim == 2 or convolution == "kernel":
        return _largest(weight.reshape(len(weight), -1))
    rows, columns = (max(size, side) for side in weight.shape[2:])
    best = 0.0
    half = np.fft.rfft(
        weight, n=columns, axis=3
    )  # real weights: the other half of the frequencies is its conjugate
    for i in range(rows):
        turn = np.exp(-2j * np.pi * i * np.arange(weight.shape[2]) / rows)
        best = max(best, _largest(np.einsum("oahw,h->woa", half, turn)))
    return best


def frobenius_norm(weight: Floats, convolution: str = "kernel", size: int = 32) -> float:
    """The root of the sum of squares. A convolution's operator holds every weight once for each
    pixel."""
    norm = float(np.linalg.norm(weight))
    if weight.ndim == 2 or convolution == "kernel":
        return norm
    return norm * math.sqrt(max(size, weight.shape[2]) * max(size, weight.shape[3]))


def _largest(matrices: NDArray[Any]) -> float:
    """The largest singular value of any of the matrices [..., a, b], by the smaller of the two Gram
    matrices."""
    if matrices.shape[-2] > matrices.shape[-1]:
        matrices = matrices.swapaxes(-1, -2)
    gram = matrices @ matrices.swapaxes(-1, -2).conj()
    return math.sqrt(max(float(np.linalg.eigvalsh(gram)[..., -1].max()), 0.0))


@dataclass(frozen=True)
class WeightNorm(Measure):
    """Minus the sum over layers of log ||W||^2, for the norm of a subclass: smaller norms are the
    larger measure."""

    convolution: str = knob(
        "kernel",
        domain="{kernel, operator}",
        source="ours",
        doc="the matrix that a convolution is taken as",
    )
    size: int = knob(
        32,
        domain="[1, inf)",
        source="ours",
        doc="side in pixels of the images that `operator` assumes",
    )

    @abstractmethod
    def norm(self, weight: Floats) -> float:
        """The norm of one layer."""

    def measure(self, target: Answers) -> float:
        """Minus the sum of logarithms; not a number where no tensor counts, or one is not finite or
        all zeros."""
        tensors = list(layers(target.weights or {}).values())
        if not tensors or not all(np.isfinite(weight).all() and weight.any() for weight in tensors):
            return math.nan
        return -2 * sum(math.log(self.norm(weight)) for weight in tensors)


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


@final
@register("spectral-norm", kind="estimator")
@dataclass(frozen=True)
class SpectralNorm(WeightNorm):
    """Spectral norms: minus the logarithm of the product over layers of the squared largest
    singular value.

    Measures: -sum_l log ||W_l||^2, so that smaller weights are the larger measure. The product
    itself overflows.
    Assumes: among networks of one architecture the smaller weights generalise better. Ng et al.
    2022 found correlations with accuracy near 0 or negative.
    Reads: the weights; no row. It tells networks apart, and no two sets of one network.
    Convolutions: `kernel` takes the weights as [out, in x height x width]. `operator` takes the
    periodic convolution of images of `size` x `size` pixels, of stride 1 and one group: 0.6 s for a
    layer of 64 channels, 18 s for one of 256.
    Reference: Yoshida & Miyato 2017, "Spectral Norm Regularization for Improving the
    Generalizability of Deep Learning";
    as a baseline Ng et al. 2022, appendix B.1.
    """

    version = 1
    access = Access(scores="labels", pool=True, weights=True)

    def norm(self, weight: Floats) -> float:
        """The largest singular value."""
        return spectral_norm(weight, self.convolution, self.size)
