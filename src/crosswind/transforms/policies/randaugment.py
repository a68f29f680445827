"""RandAugment, some operations in a row of one magnitude, and TrivialAugment, one operation of any
magnitude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.draws import bits16
from crosswind.transforms.policies.operations import (
    USUAL,
    Chains,
    carried_out,
    codes,
    levels,
    pick,
    signed,
)


@register("randaugment", kind="transform")
@dataclass(frozen=True)
class RandAugment(Transform):
    """RandAugment: `count` operations one after the other, each drawn from fourteen, all of one
    magnitude, their signs drawn.

    Operations: identity, shears (up to 0.3), translations (up to 150/331 of the side), rotate (30
    degrees), brightness, colour, contrast, sharpness (factors 1 +- 0.9), posterize (8 to 4 bits),
    solarize (from 255 to 0), autocontrast, equalize. `magnitude` is a level out of `bins` between
    nothing and these. Every sample draws its own operations and signs; with `draw` uniform each
    operation its own level too, uniform from 0 to `magnitude`.
    Each operation is torchvision's on Pillow images to the level, with its defaults: nearest pixel,
    black outside.
    Deviations: geometric operations that follow each other are one resampling (`resampling: once`),
        where torchvision resamples after each: nothing is rounded between them, and what one moves
        out of the image the next may bring back. `each` does it torchvision's way, to the pixel.
        Operations are drawn in steps of 1/65536.
    Reference: Cubuk, Zoph, Shlens and Le, RandAugment: Practical Automated Data Augmentation with a
        Reduced Search Space, NeurIPS 2020; magnitudes from torchvision.
    """

    count: int = knob(2, domain="[1, 16]", source="Cubuk et al. 2020", doc="operations in a row")
    magnitude: int = knob(
        9,
        domain="[0, 255]",
        below="bins",
        source="Cubuk et al. 2020",
        doc="level of all operations, from 0 to bins - 1",
    )
    draw: str = knob(
        "fixed",
        domain="{fixed, uniform}",
        doc="whether magnitude is every operation's, or the largest that is drawn",
    )
    bins: int = knob(
        31,
        domain="[2, 256]",
        source="torchvision",
        doc="number of levels between nothing and the strongest",
    )
    operations: str = knob(
        "all",
        domain=(
            "{all, identity, shear-x, shear-y, translate-x, translate-y, rotate, brightness,"
            " colour, contrast, sharpness, posterize, solarize, autocontrast, equalize}"
        ),
        doc="all fourteen, or the name of the only one that is drawn",
    )
    resampling: str = knob(
        "once",
        domain="{once, each}",
        doc="geometric operations in a row: composed into one, or one by one",
    )

    strengths = ("magnitude", (3, 9, 15, 21, 30))

    def chains(self, keys: NDArray[np.uint64], size: tuple[int, int]) -> Chains:
        """The operations of each sample, images being of `size` (h, w)."""
        drawn = bits16(keys, 3 * self.count).numpy()
        drawn, levelled = drawn[:, : 2 * self.count], drawn[:, 2 * self.count :]
        names = codes(USUAL if self.operations == "all" else (self.operations,))
        operations = names[pick(drawn[:, 0::2], len(names))]
        level = self.magnitude if self.draw == "fixed" else pick(levelled, self.magnitude + 1)
        magnitudes = levels("randaugment", self.bins, size)[operations, level]
        return Chains(operations, signed(operations, magnitudes, drawn[:, 1::2] < 32768))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        size = (x.shape[2], x.shape[3])
        chains = self.chains(keys, size)
        return carried_out(x, chains, once=self.resampling == "once")


@register("trivialaugment", kind="transform")
@dataclass(frozen=True)
class TrivialAugment(Transform):
    """TrivialAugment (wide): one of fourteen operations, at a level drawn uniformly, with a sign
    that is drawn.

    Operations: identity, shears (up to 0.99), translations (up to 32 pixels, whatever the size),
    rotate (135 degrees), brightness, colour, contrast, sharpness (factors 1 +- 0.99), posterize (8
    to 2 bits), solarize (from 255 to 0), autocontrast, equalize. Every sample draws its own. Each
    is torchvision's on Pillow images to the level, with its defaults: nearest, black outside.
    Deviations: operations and levels are drawn in steps of 1/65536.
    Reference: Müller and Hutter, TrivialAugment: Tuning-free Yet State-of-the-Art Data
        Augmentation, ICCV 2021; magnitudes from torchvision's TrivialAugmentWide.
    """

    bins: int = knob(31, domain="[2, 256]", source="Müller and Hutter 2021", doc="number of levels")

    def chains(self, keys: NDArray[np.uint64], size: tuple[int, int]) -> Chains:
        """The operations of each sample, images being of `size` (h, w)."""
        drawn = bits16(keys, 3).numpy()
        operations = codes(USUAL)[pick(drawn[:, :1], len(USUAL))]
        magnitudes = levels("trivialaugment", self.bins, size)[
            operations, pick(drawn[:, 1:2], self.bins)
        ]
        return Chains(operations, signed(operations, magnitudes, drawn[:, 2:] < 32768))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        size = (x.shape[2], x.shape[3])
        chains = self.chains(keys, size)
        return carried_out(x, chains)
