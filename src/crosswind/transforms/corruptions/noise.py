"""Random noise on the values of pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.transforms.corruptions.base import Corruption
from crosswind.transforms.draws import bits16, normal_quantiles

__all__ = ["GaussianNoise"]

IMAGENET_SD = (0.08, 0.12, 0.18, 0.26, 0.38)
CIFAR_SD = (0.04, 0.06, 0.08, 0.09, 0.10)
CHUNK = 200_000  # pixels at a time: the integers of a chunk stay in the cache


@register("gaussian-noise", kind="transform")
@dataclass(frozen=True)
class GaussianNoise(Corruption):
    """Normal noise on every channel of every pixel, cut to the range of the pixels.

    With image values in [0, 1] the noise has a standard deviation of 0.08, 0.12, 0.18, 0.26 or 0.38 at severity 1 to 5
    (`constants` imagenet), or 0.04, 0.06, 0.08, 0.09, 0.10 (cifar); `auto` takes cifar's where a side is under 64 pixels.
    As in ImageNet-C, values are cut to whole grey levels downwards, not rounded, which lowers the mean by half a level.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        n, *shape = x.shape
        pixels = int(np.prod(shape))
        table = normal_quantiles(self.constant(IMAGENET_SD, CIFAR_SD, x) * 255 * 65536).to(x.device)
        out = torch.empty_like(x)
        step = max(1, CHUNK // max(1, pixels))
        for start in range(0, n, step):
            part = slice(start, start + step)
            drawn = bits16(keys[part], pixels, x.device)
            # Fixed point, 16 bits below the grey level: a sum of integers is the same on every device.
            noise = table.index_select(0, drawn.reshape(-1)).view(-1, *shape)
            noise.add_(x[part], alpha=1 << 16)
            out[part] = noise.clamp_(0, 255 << 16) >> 16
        return out
