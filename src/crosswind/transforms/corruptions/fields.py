"""Gaussian smoothing of fields of whole numbers, exact: a batch at a time, the same bits in any batch and on any device.

The weights are whole numbers too, so that a matrix product in float64 adds whole numbers below 2 to the 53rd: it has no rounding
that could depend on the order of the sums.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor

__all__ = ["ONE", "smoothed", "weights"]

WEIGHT_BITS = 18
ONE = 1 << (2 * WEIGHT_BITS)  # by what `smoothed` multiplies a constant field


def smoothed(field: Tensor, sd: float, edge: str, reach: float) -> Tensor:
    """The last two dimensions of `field` smoothed, times `ONE`: float64 of the same shape, whole numbers, exact.

    `field`: whole numbers below 2**17 in size, of any dtype, [..., h, w]. `sd`: the standard deviation in pixels, at least 0.
    `edge`, `reach`: as in `weights`.
    """
    down, across = (weights(side, sd, edge, reach).to(field.device) for side in field.shape[-2:])
    return down @ (field.to(torch.float64) @ across.mT)


@cache
def weights(side: int, sd: float, edge: str, reach: float) -> Tensor:
    """The weights of `side` pixels in a line, for each of them: float64 [side, side], whole numbers, each row 2**18 in all.

    A normal density at whole pixels as far as `reach` standard deviations, rounded. Beyond the ends the line is continued by its
    mirror image with the last pixel repeated (`edge` "reflect") or by its last pixel ("nearest"), as in SciPy's gaussian_filter.
    """
    far = int(reach * sd + 0.5)
    share = np.array([math.exp(-0.5 * (k / sd) ** 2) if sd else 1.0 for k in range(-far, far + 1)])
    source = np.arange(side)[:, None] + np.arange(-far, far + 1)
    if edge == "reflect":
        source = source % (2 * side)
        source = np.minimum(source, 2 * side - 1 - source)
    else:
        source = source.clip(0, side - 1)
    table = np.zeros((side, side))
    np.add.at(table, (np.broadcast_to(np.arange(side)[:, None], source.shape), source), share / share.sum())
    table = np.rint(table * (1 << WEIGHT_BITS))
    # What rounding lost or won goes to the pixel with the largest weight: constants stay what they are.
    table[np.arange(side), table.argmax(1)] += (1 << WEIGHT_BITS) - table.sum(1)
    return torch.from_numpy(table)
