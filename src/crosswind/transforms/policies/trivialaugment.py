"""TrivialAugment: one operation of any magnitude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.draws import bits16
from crosswind.transforms.policies.operations import Chains, carried_out, codes, levels, pick, signed
from crosswind.transforms.policies.randaugment import ALL

__all__ = ["TrivialAugment"]


@register("trivialaugment", kind="transform")
@dataclass(frozen=True)
class TrivialAugment(Transform):
    """TrivialAugment (wide): one of fourteen operations, at a level drawn uniformly, with a sign that is drawn.

    Operations: identity, shears (up to 0.99), translations (up to 32 pixels, whatever the size), rotate (135 degrees), brightness,
    colour, contrast, sharpness (factors 1 +- 0.99), posterize (8 to 2 bits), solarize (from 255 to 0), autocontrast, equalize.
    Every sample draws its own. Each is torchvision's on Pillow images to the level, with its defaults: nearest, black outside.
    Deviations: operations and levels are drawn in steps of 1/65536.
    Reference: Müller and Hutter, TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation, ICCV 2021; magnitudes from
        torchvision's TrivialAugmentWide.
    """

    bins: int = knob(31, domain="[2, 256]", source="Müller and Hutter 2021", doc="number of levels")

    def chains(self, keys: NDArray[np.uint64], size: tuple[int, int]) -> Chains:
        """What each sample goes through, images being of `size` (h, w)."""
        drawn = bits16(keys, 3).numpy()
        operations = codes(ALL)[pick(drawn[:, :1], len(ALL))]
        magnitudes = levels("trivialaugment", self.bins, size)[operations, pick(drawn[:, 1:2], self.bins)]
        return Chains(operations, signed(operations, magnitudes, drawn[:, 2:] < 32768))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        return carried_out(x, self.chains(keys, (x.shape[2], x.shape[3])))
