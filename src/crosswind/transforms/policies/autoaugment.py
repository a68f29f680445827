"""AutoAugment: pairs of operations that were found by search."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.draws import bits16
from crosswind.transforms.policies.operations import (
    Chains,
    carried_out,
    codes,
    levels,
    pick,
    signed,
)

BINS = 10

# Pairs of operation, probability, level out of ten (none: 0), as in the paper's tables 7 to 9 and
# in torchvision.
_POLICIES = {
    "cifar10": (
        """
        invert 0.1 0, contrast 0.2 6; rotate 0.7 2, translate-x 0.3 9; sharpness 0.8 1, sharpness 0.9 3;
        shear-y 0.5 8, translate-y 0.7 9; autocontrast 0.5 0, equalize 0.9 0; shear-y 0.2 7, posterize 0.3 7;
        colour 0.4 3, brightness 0.6 7; sharpness 0.3 9, brightness 0.7 9; equalize 0.6 0, equalize 0.5 0;
        contrast 0.6 7, sharpness 0.6 5; colour 0.7 7, translate-x 0.5 8; equalize 0.3 0, autocontrast 0.4 0;
        translate-y 0.4 3, sharpness 0.2 6; brightness 0.9 6, colour 0.2 8; solarize 0.5 2, invert 0.0 0;
        equalize 0.2 0, autocontrast 0.6 0; equalize 0.2 0, equalize 0.6 0; colour 0.9 9, equalize 0.6 0;
        autocontrast 0.8 0, solarize 0.2 8; brightness 0.1 3, colour 0.7 0; solarize 0.4 5, autocontrast 0.9 0;
        translate-y 0.9 9, translate-y 0.7 9; autocontrast 0.9 0, solarize 0.8 3; equalize 0.8 0, invert 0.1 0;
        translate-y 0.7 9, autocontrast 0.9 0
    """
    ),
    "imagenet": (
        """
        posterize 0.4 8, rotate 0.6 9; solarize 0.6 5, autocontrast 0.6 0; equalize 0.8 0, equalize 0.6 0;
        posterize 0.6 7, posterize 0.6 6; equalize 0.4 0, solarize 0.2 4; equalize 0.4 0, rotate 0.8 8;
        solarize 0.6 3, equalize 0.6 0; posterize 0.8 5, equalize 1.0 0; rotate 0.2 3, solarize 0.6 8;
        equalize 0.6 0, posterize 0.4 6; rotate 0.8 8, colour 0.4 0; rotate 0.4 9, equalize 0.6 0;
        equalize 0.0 0, equalize 0.8 0; invert 0.6 0, equalize 1.0 0; colour 0.6 4, contrast 1.0 8;
        rotate 0.8 8, colour 1.0 2; colour 0.8 8, solarize 0.8 7; sharpness 0.4 7, invert 0.6 0;
        shear-x 0.6 5, equalize 1.0 0; colour 0.4 0, equalize 0.6 0; equalize 0.4 0, solarize 0.2 4;
        solarize 0.6 5, autocontrast 0.6 0; invert 0.6 0, equalize 1.0 0; colour 0.6 4, contrast 1.0 8;
        equalize 0.8 0, equalize 0.6 0
    """
    ),
    "svhn": (
        """
        shear-x 0.9 4, invert 0.2 0; shear-y 0.9 8, invert 0.7 0; equalize 0.6 0, solarize 0.6 6;
        invert 0.9 0, equalize 0.6 0; equalize 0.6 0, rotate 0.9 3; shear-x 0.9 4, autocontrast 0.8 0;
        shear-y 0.9 8, invert 0.4 0; shear-y 0.9 5, solarize 0.2 6; invert 0.9 0, autocontrast 0.8 0;
        equalize 0.6 0, rotate 0.9 3; shear-x 0.9 4, solarize 0.3 3; shear-y 0.8 8, invert 0.7 0;
        equalize 0.9 0, translate-y 0.6 6; invert 0.9 0, equalize 0.6 0; contrast 0.3 3, rotate 0.8 4;
        invert 0.8 0, translate-y 0.0 2; shear-y 0.7 6, solarize 0.4 8; invert 0.6 0, rotate 0.8 4;
        shear-y 0.3 7, translate-x 0.9 3; shear-x 0.1 6, invert 0.6 0; solarize 0.7 2, translate-y 0.6 7;
        shear-y 0.8 4, invert 0.8 0; shear-x 0.7 9, translate-y 0.8 3; shear-y 0.8 5, autocontrast 0.7 0;
        shear-x 0.7 2, invert 0.1 0
    """
    ),
}


def policy_of(name: str) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """The pairs of a policy, "cifar10", "imagenet" or "svhn": operations, probabilities, levels out
    of ten; each [25, 2]."""
    words = re.split(r"[\s,;]+", _POLICIES[name].strip())
    shares = [float(word) for word in words[1::3]]
    level_numbers = [int(word) for word in words[2::3]]
    operation_codes = codes(tuple(words[::3])).reshape(-1, 2)
    share_pairs = np.array(shares).reshape(-1, 2)
    return (operation_codes, share_pairs, np.array(level_numbers).reshape(-1, 2))


@register("autoaugment", kind="transform")
@dataclass(frozen=True)
class AutoAugment(Transform):
    """AutoAugment: one of 25 pairs of operations that were found by search on CIFAR-10, ImageNet or
    SVHN (`policy`).

    The pair is drawn uniformly; each of its operations, which have their level, is then done with
    its own probability, with a sign that is drawn. Levels and strengths as in `randaugment` with 10
    bins; also invert. Every sample draws its own. Each operation is torchvision's on Pillow images
    to the level, with its defaults: nearest pixel, black outside.
    Deviations: geometric operations that follow each other are one resampling (`resampling: once`;
        see `randaugment`), where torchvision resamples after each (`each`). Probabilities are
        rounded to 1/65536.
    Reference: Cubuk, Zoph, Mané, Vasudevan and Le, AutoAugment: Learning Augmentation Strategies
        from Data, CVPR 2019; tables and magnitudes from torchvision.
    """

    policy: str = knob(
        "imagenet",
        domain="{cifar10, imagenet, svhn}",
        source="Cubuk et al. 2019",
        doc="on what it was searched",
    )
    resampling: str = knob(
        "once",
        domain="{once, each}",
        doc="geometric operations in a row: composed into one, or one by one",
    )

    strengths = ("policy", ("cifar10", "imagenet", "svhn"))

    def chains(self, keys: NDArray[np.uint64], size: tuple[int, int]) -> Chains:
        """The operations of each sample, images being of `size` (h, w)."""
        drawn = bits16(keys, 5).numpy()
        names, shares, level_numbers = policy_of(self.policy)
        pair = pick(drawn[:, 0], len(names))
        uniform = (drawn[:, 1:3] + 0.5) / 65536
        operations = np.where(uniform < shares[pair], names[pair], 0)
        magnitudes = levels("randaugment", BINS, size)[operations, level_numbers[pair]]
        return Chains(operations, signed(operations, magnitudes, drawn[:, 3:] < 32768))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        size = (x.shape[2], x.shape[3])
        chains = self.chains(keys, size)
        return carried_out(x, chains, once=self.resampling == "once")
