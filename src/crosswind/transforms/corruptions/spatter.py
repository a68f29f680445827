"""Drops of water or spots of mud on the lens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.transforms.corruptions.base import Corruption
from crosswind.transforms.corruptions.fields import ONE, smoothed
from crosswind.transforms.corruptions.outlines import DISTANCE, box_sums, distances, edges, equalised, reflected
from crosswind.transforms.draws import bits16, normal_quantiles
from crosswind.transforms.layout import on_device

__all__ = ["Spatter", "relief"]

# Mean and sd of the noise, what it is smoothed by, what is liquid of it, how strong or how smooth it is, whether it is mud.
SPATTER = (
    (
        (0.65, 0.3, 4.0, 0.69, 0.6, False),
        (0.65, 0.3, 3.0, 0.68, 0.6, False),
        (0.65, 0.3, 2.0, 0.68, 0.5, False),
        (0.65, 0.3, 1.0, 0.65, 1.5, True),
        (0.67, 0.4, 1.0, 0.65, 1.5, True),
    ),
    (
        (0.62, 0.1, 0.7, 0.7, 0.5, False),
        (0.65, 0.1, 0.8, 0.7, 0.5, False),
        (0.65, 0.3, 1.0, 0.69, 0.5, False),
        (0.65, 0.1, 0.7, 0.69, 0.6, True),
        (0.65, 0.1, 0.5, 0.68, 0.6, True),
    ),
)
WATER, MUD = (175, 238, 238), (63, 42, 20)
GREY = (0.2989, 0.587, 0.114)
UNIT = 1 << 15  # 1 of the noise in whole numbers
CHUNK = 200_000  # pixels at a time: the integers of a chunk stay in the cache


@register("spatter", kind="transform")
@dataclass(frozen=True)
class Spatter(Corruption):
    """Turquoise drops of water (severity 1 to 3) or brown spots of mud (4 and 5).

    Normal noise is smoothed, and what lies above a threshold is liquid. Water is added with a relief: the distance from the
    drops' outlines, sharpened and made even in number, times the liquid, scaled to a largest value. Mud covers the image by the
    smoothed outline of the liquid, where that is at least 0.8. Mean and sd of the noise, sd of the smoothing, threshold, and
    water's largest value or the sd of mud's outline are, at severity 1 to 5 (`constants` imagenet): (.65, .3, 4, .69, .6), (.65,
    .3, 3, .68, .6), (.65, .3, 2, .68, .5), (.65, .3, 1, .65, 1.5), (.67, .4, 1, .65, 1.5); cifar: (.62, .1, .7, .7, .5), (.65,
    .1, .8, .7, .5), (.65, .3, 1, .69, .5), (.65, .1, .7, .69, .6), (.65, .1, .5, .68, .6). A grey image (1 channel) gets the
    liquid's luminance. Values are cut to whole grey levels downwards, as in ImageNet-C. Deviation: without any liquid, where the
    original divides by zero, the image stays as it is; so does one with a side under two pixels.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        _, _, height, width = x.shape
        if min(height, width) < 2:
            return x.clone()
        mean, sd, smooth, threshold, last, mud = self.constant(*SPATTER, x)
        normal = on_device(normal_quantiles(sd * UNIT), x.device)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        step = max(1, CHUNK // (height * width))
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            noise = normal.index_select(0, bits16(keys[part], height * width, x.device).view(-1)).add_(round(mean * UNIT))
            liquid = smoothed(noise.view(-1, height, width), smooth, "nearest", 4.0).mul_(1 / (ONE * UNIT))
            if mud:
                out[part] = _muddy(x[part], liquid > threshold, last)
            else:
                out[part] = _wet(x[part], liquid.mul_(liquid >= threshold).mul_(255).clamp_(0, 255).to(torch.uint8), last)
        return out


def relief(liquid: Tensor) -> Tensor:
    """How bright drops are: float32 [n, h, w], whole numbers below 2**16. `liquid`: uint8 [n, h, w], 0 where there is none."""
    near = distances(edges(liquid, 50, 150), 20)
    # The mean of nine in floats as OpenCV has it, cut to whole pixels.
    near = box_sums(reflected(near)).to(torch.float64).mul_(1 / 9).mul_(1 / DISTANCE).to(torch.float32).to(torch.int64)
    even = reflected(equalised(near))

    def beside(rows: int, columns: int) -> Tensor:
        return even[:, 1 + rows : even.shape[1] - 1 + rows, 1 + columns : even.shape[2] - 1 + columns]

    lit = (beside(0, 0) - beside(-1, 0) - beside(0, -1)).add_(beside(0, 1)).add_(beside(1, 0))
    lit.sub_(beside(-1, -1), alpha=2).add_(beside(1, 1), alpha=2).clamp_(0, 255)
    mean = box_sums(reflected(lit)).to(torch.float32).div_(9).round_()  # a ninth is never a half
    return mean.mul_(liquid)


def _wet(x: Tensor, liquid: Tensor, strength: float) -> Tensor:
    light = relief(liquid)
    light /= light.amax((1, 2), keepdim=True).clamp_(min=1)
    colours = WATER if x.shape[1] == 3 else (sum(share * part for share, part in zip(GREY, WATER, strict=True)),)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    for channel, colour in enumerate(colours):
        # A product, then a sum, each rounded: no fused operation.
        out[:, channel] = light.mul(strength * colour).add_(x[:, channel]).clamp_(max=255)
    return out


def _muddy(x: Tensor, spots: Tensor, smooth: float) -> Tensor:
    cover = smoothed(spots, smooth, "nearest", 4.0)
    cover = cover.mul_(cover >= 0.8 * ONE).mul_((1 << 14) / ONE).round_().to(torch.int32)
    colours = MUD if x.shape[1] == 3 else (sum(share * part for share, part in zip(GREY, MUD, strict=True)),)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    for channel, colour in enumerate(colours):
        pixels = x[:, channel].to(torch.int32)
        total = (round(colour * 256) - (pixels << 8)).mul_(cover).add_(pixels << 22)
        out[:, channel] = total.bitwise_right_shift_(22)
    return out
