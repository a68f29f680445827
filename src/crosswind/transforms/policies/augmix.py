"""AugMix: an image mixed with several chains of operations of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.draws import bits16
from crosswind.transforms.layout import dense, images_of, lines_of, on_device, parts
from crosswind.transforms.policies.operations import (
    Chains,
    carried_out,
    codes,
    levels,
    pick,
    signed,
)

BASIC = (
    "shear-x",
    "shear-y",
    "translate-x",
    "translate-y",
    "rotate",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
)
MORE = ("brightness", "colour", "contrast", "sharpness")
BINS = 10
DEEPEST = 3  # of the chains whose depth is drawn
ONE = 1 << 16  # the sum of the weights of a mixture


@register("augmix", kind="transform")
@dataclass(frozen=True)
class AugMix(Transform):
    """AugMix: each image mixed with `width` chains of 1 to 3 operations of it, with random weights.

    mix = m x + (1 - m) sum_i w_i chain_i(x), w drawn from a Dirichlet distribution of `width` equal
    parameters `alpha`, m from Beta(alpha, alpha). Operations: shears (up to 0.3), translations (a
    third of the side), rotate (30 degrees), posterize (4 to 0 bits), solarize (from 255 to 0),
    autocontrast, equalize. With `all_ops` there are also brightness, colour, contrast, sharpness
    (factors 1 +- 0.9). Each is at a level below `severity` out of 10, which is drawn, as is its
    sign. Every sample draws its own chains and weights. Photometric operations are torchvision's on
    Pillow images to the level. Geometric ones are resampled as its AugMix does by default:
    bilinear, black outside, rounded to the nearest level (of bytes Pillow would drop the fraction).
    Deviations: geometric operations that follow each other are one resampling (`resampling: once`;
        see `randaugment`), where torchvision resamples after each (`each`). torchvision turns a
        Pillow image into a tensor first, whose operations differ from Pillow's by a level, and at
        the border by more. There it fades to black, here it ends. Weights are whole numbers of
        1/65536 that add up to 1; the mixture is cut to whole levels downwards as in torchvision.
        This is the transform alone, without the consistency loss of the paper.
    Reference: Hendrycks, Mu, Cubuk, Zoph, Gilmer and Lakshminarayanan, AugMix: A Simple Data
        Processing Method to Improve Robustness and Uncertainty, ICLR 2020; magnitudes from
        torchvision.
    """

    severity: int = knob(
        3, domain="[1, 10]", source="Hendrycks et al. 2020", doc="levels that are drawn from, of 10"
    )
    width: int = knob(3, domain="[1, 16]", source="Hendrycks et al. 2020", doc="number of chains")
    depth: int = knob(
        -1,
        domain="[-1, 16]",
        source="Hendrycks et al. 2020",
        doc="operations in a chain; 0 or -1: 1 to 3, drawn",
    )
    alpha: float = knob(
        1.0,
        domain="[0.05, 100]",
        source="Hendrycks et al. 2020",
        doc="small: one of the parts outweighs the others",
    )
    all_ops: bool = knob(
        True, source="torchvision", doc="also brightness, colour, contrast and sharpness"
    )
    interpolation: str = knob(
        "bilinear",
        domain="{nearest, bilinear}",
        source="torchvision",
        doc="of the geometric operations",
    )
    resampling: str = knob(
        "once",
        domain="{once, each}",
        doc="geometric operations in a row: composed into one, or one by one",
    )

    strengths = ("severity", (1, 3, 5, 7, 10))

    def chains(self, keys: NDArray[np.uint64], size: tuple[int, int]) -> Chains:
        """The operations of each sample in each chain, images being of `size` (h, w): [n * width,
        steps], a sample's together."""
        deepest = self.depth if self.depth > 0 else DEEPEST
        n_numbers = self.width * (1 + 3 * deepest)
        numbers = bits16(keys, n_numbers).numpy()
        drawn = numbers.reshape(len(keys) * self.width, -1)
        names = codes(BASIC + MORE if self.all_ops else BASIC)
        operations = names[pick(drawn[:, 1::3], len(names))]
        magnitudes = levels("augmix", BINS, size)[operations, pick(drawn[:, 2::3], self.severity)]
        magnitudes = signed(operations, magnitudes, drawn[:, 3::3] < 32768)
        if self.depth <= 0:
            operations[np.arange(deepest) > pick(drawn[:, :1], DEEPEST)] = 0
        return Chains(operations, magnitudes)

    def weights(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Of the image and of each chain: int64 [n, 1 + width] in 1/65536, every row's sum
        65536."""
        n_own_draws = self.width * (1 + 3 * (self.depth if self.depth > 0 else DEEPEST))
        drawn = bits16(keys, n_own_draws + 2 + self.width).numpy()[:, n_own_draws:]
        gammas = _gamma_quantiles(self.alpha)[drawn]
        image = gammas[:, :1]
        mixture = gammas[:, 1:2]
        chains = gammas[:, 2:]
        # Sums one by one: the order of a sum of NumPy may depend on how much there is to add.
        image_and_chains = image + mixture
        share = mixture / image_and_chains * chains / np.cumsum(chains, axis=1)[:, -1:]
        ends = np.rint(np.cumsum(share, axis=1) * ONE).astype(np.int64)
        return np.concatenate([ONE - ends[:, -1:], np.diff(ends, axis=1, prepend=0)], axis=1)

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        x = dense(x)
        lines = lines_of(x)
        copies = images_of(lines.repeat_interleave(self.width, 0), x)
        size = (x.shape[2], x.shape[3])
        chains = self.chains(keys, size)
        done = carried_out(copies, chains, self.interpolation, self.resampling == "once")
        done = lines_of(done).view(len(x), self.width, *lines.shape[1:])
        # Products and sums of 24 bits: exact in single precision, in any order.
        weights_of_rows = (self.weights(keys) / ONE).astype(np.float32)
        weights = on_device(weights_of_rows, x.device).view(len(x), -1, 1, 1, 1)
        out = torch.empty_like(lines)
        for chunk in parts(lines):
            mixed = lines[chunk] * weights[chunk, 0]
            for chain in range(self.width):
                mixed.addcmul_(done[chunk, chain].to(torch.float32), weights[chunk, chain + 1])
            out[chunk] = mixed.to(torch.int32)
        return images_of(out, x)


@cache
def _gamma_quantiles(alpha: float) -> NDArray[np.float64]:
    """Quantiles of the gamma distribution with shape `alpha` at (i + 1/2) / 65536: float64 [65536].
    Once an alpha, in 50 ms."""
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(alpha, (np.arange(65536) + 0.5) / 65536), dtype=np.float64)
