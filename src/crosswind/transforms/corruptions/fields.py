"""Smoothing and stretching of fields of whole numbers, exact: a batch at a time, the same bits in any batch and on any device.

The weights are whole numbers too, so that a matrix product in float64 adds whole numbers below 2 to the 53rd: it has no rounding
that could depend on the order of the sums.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor

__all__ = ["ONE", "smoothed", "stretched", "stretching", "weights"]

WEIGHT_BITS = 18
ONE = 1 << (2 * WEIGHT_BITS)  # by what all of these multiply a constant field


def smoothed(field: Tensor, sd: float, edge: str, reach: float) -> Tensor:
    """The last two dimensions of `field` smoothed, times `ONE`: float64 of the same shape, whole numbers, exact.

    `field`: whole numbers below 2**17 in size, of any dtype, [..., h, w]. `sd`: the standard deviation in pixels, at least 0.
    `edge`, `reach`: as in `weights`.
    """
    down, across = (weights(side, sd, edge, reach).to(field.device) for side in field.shape[-2:])
    return down @ (field.to(torch.float64) @ across.mT)


def stretched(field: Tensor, size: tuple[int, int], zoom: float) -> Tensor:
    """The middle `size` (h, w) of `field` stretched by `zoom`, times `ONE`: float64 [..., h, w], whole numbers, exact.

    `field`: as in `smoothed`, [..., ceil(h / zoom), ceil(w / zoom)].
    """
    down, across = (stretching(side, zoom).to(field.device) for side in size)
    return down @ (field.to(torch.float64) @ across.mT)


@cache
def stretching(side: int, zoom: float) -> Tensor:
    """The weights of ceil(side / zoom) pixels in a line for `side` ones: float64, whole numbers, each row 2**18 in all.

    The first and last pixel keep their places at the ends of the stretched line, which has zoom times as many pixels, rounded, and
    loses what is too much at both ends: SciPy's zoom of order 1, and clipped_zoom of ImageNet-C.
    """
    before = math.ceil(side / zoom)
    after = max(side, round(before * zoom))
    place = (np.arange(side) + (after - side) // 2) * ((before - 1) / max(1, after - 1))
    first = np.minimum(place.astype(np.int64), max(0, before - 2))
    share = np.rint((place - first) * (1 << WEIGHT_BITS))
    table = np.zeros((side, before))
    table[np.arange(side), first] = (1 << WEIGHT_BITS) - share
    table[np.arange(side), np.minimum(first + 1, before - 1)] += share
    return torch.from_numpy(table)


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
