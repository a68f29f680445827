"""Transforms that paint over a box of an image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.cropping import BOX_DRAWS, TRIES, first_that_fits, ratios
from crosswind.transforms.draws import uniforms
from crosswind.transforms.layout import on_device


@register("erase", kind="transform")
@dataclass(frozen=True)
class Erase(Transform):
    """Random erasing: a box of random size, shape and place is painted with `fill`.

    Its share of the image's area is uniform in [smallest, largest], the logarithm of height / width
    in those of
    [1 / widest, tallest]; it lies wholly inside. A box as large as the image on a side is drawn
    again, ten times at most. If none fits the image stays as it is: almost never, unless `smallest`
    is large. `draw` fixed: the share is `largest`.
    Reference: Zhong, Zheng, Kang, Li and Yang, Random Erasing Data Augmentation, AAAI 2020; the law
        is torchvision's RandomErasing. Ng et al. 2022 erase up to 33% with aspects from 1/3 to
        10/3.
    """

    largest: float = knob(
        0.33,
        domain="(0, 1]",
        source="Zhong et al. 2020",
        doc="largest share of the area that is erased",
    )
    smallest: float = knob(
        0.02,
        domain="(0, 1]",
        source="Zhong et al. 2020",
        doc="smallest share of the area that is erased",
    )
    widest: float = knob(
        3.0, domain="[1, 100]", source="Ng et al. 2022", doc="largest width over height of a box"
    )
    tallest: float = knob(
        10 / 3, domain="[1, 100]", source="Ng et al. 2022", doc="largest height over width of a box"
    )
    probability: float = knob(
        1.0, domain="[0, 1]", doc="share of the images in which a box is erased"
    )
    draw: str = knob("uniform", domain="{uniform, fixed}", doc="how the share of the area is drawn")
    fill: int = knob(0, domain="[0, 255]", doc="the level that is painted")

    strengths = ("largest", (0.05, 0.1, 0.2, 0.33, 0.5))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draw == "uniform" and self.smallest > self.largest:
            problem = f"must be at most {self.largest:g} (the largest), not {self.smallest:g}"
            raise InputError(f"{self.title}.smallest", problem)

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        drawn = uniforms(keys, BOX_DRAWS + 1)
        area = (self.largest if self.draw == "fixed" else self.smallest, self.largest)
        size = (x.shape[2], x.shape[3])
        ratios = (1 / self.widest, self.tallest)
        boxes = erase_boxes(drawn[:, 1:], size, area, ratios)
        boxes *= (drawn[:, :1].double() < self.probability).long()
        return painted(x, boxes, self.fill)


@register("cutout", kind="transform")
@dataclass(frozen=True)
class Cutout(Transform):
    """A square about a random pixel is painted with `fill`; what reaches over the image's edge is
    lost.

    Its side is `share` of the image's shorter side, rounded to whole pixels.
    Reference: DeVries and Taylor, Improved Regularization of Convolutional Neural Networks with
    Cutout, 2017, where it is half of
        the side for CIFAR-10 and a quarter for CIFAR-100.
    """

    share: float = knob(
        0.5,
        domain="(0, 1]",
        source="DeVries and Taylor 2017",
        doc="the square's side over the shorter side",
    )
    fill: int = knob(0, domain="[0, 255]", doc="the level that is painted")

    strengths = ("share", (0.1, 0.2, 0.3, 0.4, 0.5))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        size = (x.shape[2], x.shape[3])
        side = max(1, round(self.share * min(size)))
        boxes = centred_boxes(uniforms(keys, 2), size, side)
        return painted(x, boxes, self.fill)


def erase_boxes(
    draws: Tensor, size: tuple[int, int], area: tuple[float, float], ratio: tuple[float, float]
) -> Tensor:
    """Random boxes inside images of `size` (h, w): int64 [n, 4], each top, left, height, width;
    height and width 0 for none.

    `draws` [n, BOX_DRAWS]: uniform numbers in (0, 1). `area`, `ratio` (height / width): see
    `Erase`.
    """
    height, width = size
    share = area[0] + (area[1] - area[0]) * draws[:, :TRIES].double()
    shape = ratios(draws[:, TRIES : 2 * TRIES], ratio)
    h = torch.sqrt(height * width * share * shape).round().long()
    w = torch.sqrt(height * width * share / shape).round().long()
    h, w, fits = first_that_fits(h, w, (h < height) & (w < width))
    h = h * fits
    w = w * fits
    where = draws[:, 2 * TRIES :].double()
    top = (where[:, 0] * (height - h + 1)).long()
    left = (where[:, 1] * (width - w + 1)).long()
    return torch.stack([top, left, h, w], dim=1)


def centred_boxes(draws: Tensor, size: tuple[int, int], side: int) -> Tensor:
    """Squares of `side` pixels about random pixels of images of `size` (h, w), cut at the edges:
    int64 [n, 4] as `erase_boxes`.

    `draws` [n, 2]: uniform numbers in (0, 1). DeVries and Taylor 2017, section 3: the centre is
    uniform over the pixels.
    """
    limits = torch.tensor(size, device=draws.device)
    start = (draws.double() * limits).long() - side // 2
    first = start.clamp(min=0)
    last = (start + side).minimum(limits)
    return torch.cat([first, last - first], dim=1)


def painted(x: Tensor, boxes: Tensor, level: int) -> Tensor:
    """Images [n, c, h, w], new, with each one's box (int64 [n, 4]: top, left, height, width) of one
    level in all channels."""
    top, left, h, w = (side[:, None] for side in on_device(boxes, x.device).unbind(1))
    lines = torch.arange(x.shape[2], device=x.device)
    columns = torch.arange(x.shape[3], device=x.device)
    in_lines = (lines >= top) & (lines < top + h)
    in_columns = (columns >= left) & (columns < left + w)
    inside = in_lines[:, :, None] & in_columns[:, None, :]
    return x.masked_fill(inside[:, None], level)
