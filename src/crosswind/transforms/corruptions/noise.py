"""Random noise on the values of pixels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.transforms.corruptions.base import Corruption
from crosswind.transforms.draws import bits16, normal_quantiles
from crosswind.transforms.layout import on_device, parts

SD = ((0.08, 0.12, 0.18, 0.26, 0.38), (0.04, 0.06, 0.08, 0.09, 0.10))
RATE = ((60, 25, 12, 5, 3), (500, 250, 100, 75, 50))
AMOUNT = ((0.03, 0.06, 0.09, 0.17, 0.27), (0.01, 0.02, 0.03, 0.05, 0.07))
SPECKLE = ((0.15, 0.2, 0.35, 0.45, 0.6), (0.06, 0.1, 0.12, 0.16, 0.2))
FINE = 20  # bits below the grey level of speckle noise: 255 x (1 + 4.33 x 0.6) x 2**20 fits 31 bits


@dataclass(frozen=True)
class _Noise(Corruption):
    """Noise that takes one 16-bit number for every value of a pixel."""

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        out = torch.empty_like(x)
        for chunk in parts(x):
            drawn = bits16(keys[chunk], x[0].numel(), x.device).view(-1, *x.shape[1:])
            out[chunk] = self._noisy(x[chunk], drawn)
        return out

    @abstractmethod
    def _noisy(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Images in [0, 255], any integer dtype, of uint8 ones and uniform numbers in [0, 65536),
        int32, of the same shape."""


@register("gaussian-noise", kind="transform")
@dataclass(frozen=True)
class GaussianNoise(_Noise):
    """Normal noise on every channel of every pixel, cut to the range of the pixels.

    With image values in [0, 1] the noise has a standard deviation of 0.08, 0.12, 0.18, 0.26 or 0.38
    at severity 1 to 5 (`constants` imagenet), or 0.04, 0.06, 0.08, 0.09, 0.10 (cifar); `auto` takes
    cifar's where a side is under 64 pixels.
    As in ImageNet-C, values are cut to whole grey levels downwards, not rounded, which lowers the
    mean by half a level. Reference: Hendrycks and Dietterich, Benchmarking Neural Network
    Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def _noisy(self, x: Tensor, drawn: Tensor) -> Tensor:
        # Fixed point, 16 bits below the grey level: a sum of integers is the same on every device.
        scale = self.constant(SD, x) * 255 * 65536
        table = on_device(normal_quantiles(scale), x.device)
        noise = table.index_select(0, drawn.view(-1)).view(x.shape)
        return noise.add_(x, alpha=1 << 16).clamp_(0, 255 << 16).bitwise_right_shift_(16)


@register("shot-noise", kind="transform")
@dataclass(frozen=True)
class ShotNoise(_Noise):
    """The noise of counting photons: every value v in [0, 1] becomes a Poisson number of mean c v,
    over c, cut to [0, 1].

    c is 60, 25, 12, 5 or 3 at severity 1 to 5 (`constants` imagenet), 500, 250, 100, 75 or 50
    (cifar). Cut to whole grey levels downwards. The probability of every grey level is that of the
    Poisson law to within 1/65536.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _noisy(self, x: Tensor, drawn: Tensor) -> Tensor:
        # Walker's alias method: a column by the upper 8 bits, the column's own level or its other
        # one by the lower 8.
        rate = self.constant(RATE, x)
        table = on_device(_shot_table(rate), x.device)
        column = drawn >> 8
        entry = table.index_select(0, (column + (x.to(torch.int32) << 8)).view(-1)).view(x.shape)
        takes_own = drawn.bitwise_and_(255) < (entry >> 8)
        return torch.where(takes_own, column, entry.bitwise_and_(255))


@register("impulse-noise", kind="transform")
@dataclass(frozen=True)
class ImpulseNoise(_Noise):
    """Salt and pepper: a share of the values becomes 0 or 255, each as likely; the channels of a
    pixel are hit one by one.

    The share is 0.03, 0.06, 0.09, 0.17 or 0.27 at severity 1 to 5 (`constants` imagenet), 0.01,
    0.02, 0.03, 0.05 or 0.07 (cifar), to within 1/65536.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _noisy(self, x: Tensor, drawn: Tensor) -> Tensor:
        # The lowest numbers are pepper, the highest salt.
        half = round(self.constant(AMOUNT, x) * 32768)
        # Masks of bytes, 0 or (being 0 - 1) 255: a quarter of the time of filling by masks.
        stays = (drawn >= half).view(torch.uint8).neg_()
        salt = (drawn >= 65536 - half).view(torch.uint8).neg_()
        return stays.bitwise_and_(x).bitwise_or_(salt)


@register("speckle-noise", kind="transform")
@dataclass(frozen=True)
class SpeckleNoise(_Noise):
    """Normal noise in proportion to the value: v becomes v + v z, cut to the range of the pixels;
    black stays black.

    z has a standard deviation of 0.15, 0.2, 0.35, 0.45 or 0.6 at severity 1 to 5 (`constants`
    imagenet), 0.06, 0.1, 0.12, 0.16 or 0.2 (cifar), and is drawn for every channel of every pixel.
    Cut to whole grey levels downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _noisy(self, x: Tensor, drawn: Tensor) -> Tensor:
        # A product of integers: the value and a factor in fixed point.
        sd = self.constant(SPECKLE, x)
        table = on_device(_speckle_factors(sd), x.device)
        changed = table.index_select(0, drawn.view(-1)).view(x.shape).mul_(x)
        return changed.clamp_(0, 255 << FINE).bitwise_right_shift_(FINE)


@cache
def _speckle_factors(sd: float) -> Tensor:
    scale = sd * (1 << FINE)
    return normal_quantiles(scale) + (1 << FINE)


def shot_counts(rate: int) -> NDArray[np.int64]:
    """How many of 65,536 draws make a value of one grey level another one under shot noise: int64
    [256, 256], rows sum to 65536."""
    from scipy.special import pdtr

    photons = np.arange(rate)  # `rate` photons and more are white
    means = np.arange(256)[:, None] / 255 * rate
    below = np.rint(pdtr(photons, means) * 65536).astype(np.int64)
    numbers = np.diff(below, axis=1, prepend=0, append=65536)
    counts = np.zeros((256, 256), np.int64)
    brightness = np.append(photons, rate) / float(rate) * 255
    np.add.at(counts.T, brightness.astype(np.uint8), numbers.T)
    return counts


@lru_cache(maxsize=10)
def _shot_table(rate: int) -> Tensor:
    """For every level and column the share of the column that is its own, in 256ths, and the level
    that has the rest."""
    left = shot_counts(rate)
    own_share = np.full((256, 256), 256)
    other_level = np.zeros((256, 256), np.int64)
    open_columns = np.ones((256, 256), bool)
    level = np.arange(256)
    # Once a column that wants less than 256 is filled up by one that wants more, it is done: one
    # column a level each time.
    for _ in range(255):
        small = np.where(open_columns, left, 1 << 20).argmin(1)
        large = np.where(open_columns, left, -1).argmax(1)
        wanted_share = left[level, small]
        own_share[level, small], other_level[level, small] = wanted_share, large
        left[level, large] -= 256 - wanted_share
        open_columns[level, small] = False
    return torch.from_numpy((own_share << 8 | other_level).astype(np.int32).reshape(-1))
