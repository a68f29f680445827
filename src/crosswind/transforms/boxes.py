"""Random boxes inside images, and what is painted into them."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor

from crosswind.transforms.layout import on_device

__all__ = ["ERASE_DRAWS", "centred_boxes", "erase_boxes", "painted", "shapes"]

TRIES = 10
ERASE_DRAWS = 2 * TRIES + 2  # uniform numbers that one sample's erased box takes


def shapes(draws: Tensor, ratio: tuple[float, float]) -> Tensor:
    """Ratios of sides whose logarithm is uniform between those of `ratio`: float64 of the shape of `draws`, uniform in (0, 1).

    From a table over the 65,536 numbers that can be drawn: the last bit of an exponential depends on its place in a batch.
    """
    return _table(ratio, str(draws.device))[(draws.double() * 65536).long()]


@cache
def _table(ratio: tuple[float, float], device: str) -> Tensor:
    low, high = math.log(ratio[0]), math.log(ratio[1])
    steps = (np.arange(65536) + 0.5) / 65536
    return on_device(np.exp(low + (high - low) * steps), device)


def erase_boxes(draws: Tensor, size: tuple[int, int], area: tuple[float, float], ratio: tuple[float, float]) -> Tensor:
    """Random boxes inside images of `size` (h, w): int64 [n, 4], each top, left, height, width; height and width 0 for none.

    `draws` [n, ERASE_DRAWS]: uniform numbers in (0, 1). The share of the area is uniform in `area`, the logarithm of height / width
    uniform in the logarithms of `ratio`; a box that is not smaller than the image on both sides is drawn again, ten times at most.
    Zhong et al. 2020, "Random Erasing Data Augmentation", algorithm 1, as in torchvision's RandomErasing.
    """
    height, width = size
    share = area[0] + (area[1] - area[0]) * draws[:, :TRIES].double()
    shape = shapes(draws[:, TRIES : 2 * TRIES], ratio)
    h = torch.sqrt(height * width * share * shape).round().long()
    w = torch.sqrt(height * width * share / shape).round().long()
    fits = (h < height) & (w < width)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    h, w = (side.gather(1, first)[:, 0] * fits.any(1) for side in (h, w))
    where = draws[:, 2 * TRIES :].double()
    top, left = (where[:, 0] * (height - h + 1)).long(), (where[:, 1] * (width - w + 1)).long()
    return torch.stack([top, left, h, w], dim=1)


def centred_boxes(draws: Tensor, size: tuple[int, int], side: int) -> Tensor:
    """Squares of `side` pixels about random pixels of images of `size` (h, w), cut at the edges: int64 [n, 4] as `erase_boxes`.

    `draws` [n, 2]: uniform numbers in (0, 1). DeVries and Taylor 2017, "Improved Regularization of Convolutional Neural Networks
    with Cutout", section 3: the centre is uniform over the pixels, so that a square may lie partly outside.
    """
    limits = torch.tensor(size, device=draws.device)
    start = (draws.double() * limits).long() - side // 2
    first, last = start.clamp(min=0), (start + side).minimum(limits)
    return torch.cat([first, last - first], dim=1)


def painted(x: Tensor, boxes: Tensor, level: int) -> Tensor:
    """Images [n, c, h, w] with each one's box (int64 [n, 4]: top, left, height, width) of one level in all channels; new."""
    top, left, h, w = (part[:, None] for part in on_device(boxes, x.device).unbind(1))
    lines, columns = torch.arange(x.shape[2], device=x.device), torch.arange(x.shape[3], device=x.device)
    inside = ((lines >= top) & (lines < top + h))[:, :, None] & ((columns >= left) & (columns < left + w))[:, None, :]
    return x.masked_fill(inside[:, None], level)
