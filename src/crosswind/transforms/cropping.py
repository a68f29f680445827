"""Transforms that enlarge a random box of an image to the whole, and the random boxes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.colour import JITTER_DRAWS, jitter, jitter_draws
from crosswind.transforms.draws import uniforms
from crosswind.transforms.layout import laid_out_as, on_device, parts, planes

TRIES = 10
BOX_DRAWS = 2 * TRIES + 2  # uniform numbers that one sample's box takes
_LAST = torch.empty(1, 2, 2, 2).contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class _Crop(Transform):
    scale: float = knob(
        0.08,
        domain="(0, 1]",
        source="Szegedy et al. 2015",
        doc="smallest share of the area that a crop keeps",
    )
    flip: float = knob(
        0.5, domain="[0, 1]", source="He et al. 2016", doc="probability of a mirrored image"
    )
    narrowest: float = knob(
        3 / 4,
        domain="(0, 10]",
        source="Szegedy et al. 2015",
        doc="smallest width / height of a crop",
    )
    widest: float = knob(
        4 / 3,
        domain="(0, 10]",
        source="Szegedy et al. 2015",
        doc="largest width / height of a crop",
    )

    strengths = ("scale", (0.9, 0.7, 0.5, 0.3, 0.08))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.narrowest > self.widest:
            problem = f"must be at most {self.widest:g} (the widest), not {self.narrowest:g}"
            raise InputError(f"{self.title}.narrowest", problem)

    def _cropped(self, x: Tensor, drawn: Tensor) -> Tensor:
        ratios = (self.narrowest, self.widest)
        size = (x.shape[2], x.shape[3])
        boxes = crop_boxes(drawn[:, :BOX_DRAWS], size, (self.scale, 1.0), ratios)
        return resized_crop(x, boxes, drawn[:, BOX_DRAWS].double() < self.flip)


@register("flip-crop", kind="transform")
@dataclass(frozen=True)
class FlipCrop(_Crop):
    """A box of random size and shape, resized to the whole image, mirrored left to right half of
    the time.

    The box's share of the area is uniform in [scale, 1], the logarithm of width / height in those
    of [narrowest, widest]. A box that does not fit is drawn again, ten times at most. Colour images
    on the CPU get the levels of torchvision's `resized_crop` on Pillow images but for one in a
    hundred. Grey ones, and other devices, are rounded once instead of twice: a fifth of the levels
    differ, nearly always by one.
    Reference: Szegedy et al., Going Deeper with Convolutions, CVPR 2015, section 6; as in
    torchvision's RandomResizedCrop.
    """

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        drawn = uniforms(keys, BOX_DRAWS + 1, x.device)
        return self._cropped(x, drawn)


@register("imagenet", kind="transform")
@dataclass(frozen=True)
class ImageNet(_Crop):
    """ImageNet's augmentation: a crop as of `flip-crop`, then brightness, contrast, saturation and
    hue jittered in random order.

    The factors are uniform in [1 - jitter, 1 + jitter], the turn of hue in [-hue, hue] of a full
    circle; by default hue stays. Each step is torchvision's ColorJitter on Pillow images, to the
    level. `hue_model: matrix` is another, faster model: hue turns the colour differences of YIQ,
    and the whole jitter is one matrix a sample, rounded once (see `crosswind.transforms.colour`).
    Reference: He, Zhang, Ren and Sun, Deep Residual Learning for Image Recognition, CVPR 2016;
    torchvision's ColorJitter.
    """

    jitter: float = knob(
        0.4,
        domain="[0, 1]",
        source="torchvision's ImageNet recipe",
        doc="largest change of the factors of the three adjustments",
    )
    hue: float = knob(
        0.0, domain="[0, 0.5]", doc="largest turn of hue, as a share of a full circle"
    )
    hue_model: str = knob(
        "exact",
        domain="{exact, matrix}",
        doc="the jitter step by step, or as one matrix with hue turned in YIQ",
    )

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        # Drawn on the host, which decides what is done to which sample: the device need not be
        # asked.
        drawn = uniforms(keys, BOX_DRAWS + 1 + JITTER_DRAWS, torch.device("cpu"))
        x = self._cropped(x, on_device(drawn[:, : BOX_DRAWS + 1], x.device))
        reaches = (self.jitter, self.jitter, self.jitter, self.hue)
        amounts, order = jitter_draws(drawn[:, BOX_DRAWS + 1 :], reaches)
        return jitter(x, amounts, order, self.hue_model)


def ratios(draws: Tensor, ends: tuple[float, float]) -> Tensor:
    """Ratios of sides, uniform in the logarithm between `ends`: float64 of the shape of `draws`,
    uniform numbers in (0, 1).

    From a table over the 65,536 numbers that can be drawn: the last bit of an exponential depends
    on its place in a batch.
    """
    return _ratio_table(ends, str(draws.device))[(draws.double() * 65536).long()]


@cache
def _ratio_table(ends: tuple[float, float], device: str) -> Tensor:
    low = math.log(ends[0])
    high = math.log(ends[1])
    return on_device(np.exp(low + (high - low) * ((np.arange(65536) + 0.5) / 65536)), device)


def first_that_fits(h: Tensor, w: Tensor, fits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row's tries [n, TRIES] the first that fits: its height and width, int64 [n], and
    whether there is one, bool [n]."""
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    return h.gather(1, first)[:, 0], w.gather(1, first)[:, 0], fits.any(1)


def crop_boxes(
    draws: Tensor, size: tuple[int, int], scale: tuple[float, float], ratio: tuple[float, float]
) -> Tensor:
    """Random boxes inside images of `size` (h, w): int64 [n, 4], each top, left, height, width,
    inside the image.

    `draws` [n, BOX_DRAWS]: uniform numbers in (0, 1). The share of the area is uniform in `scale`,
    the logarithm of width / height uniform in the logarithms of `ratio`. A box that does not fit is
    drawn again, ten times at most; then it is the largest one in the middle whose shape lies in
    `ratio`. Szegedy et al. 2015, "Going Deeper with Convolutions", section 6, as in torchvision's
    RandomResizedCrop.
    """
    height, width = size
    share = scale[0] + (scale[1] - scale[0]) * draws[:, :TRIES].double()
    area = height * width * share
    shape = ratios(draws[:, TRIES : 2 * TRIES], ratio)
    w = torch.round(torch.sqrt(area * shape)).long()
    h = torch.round(torch.sqrt(area / shape)).long()
    inside = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    h, w, fits = first_that_fits(h, w, inside)
    middle_h = height
    middle_w = width
    if width / height < ratio[0]:
        middle_h = round(width / ratio[0])
    elif width / height > ratio[1]:
        middle_w = round(height * ratio[1])
    h = torch.where(fits, h, middle_h)
    w = torch.where(fits, w, middle_w)
    where = draws[:, 2 * TRIES :].double()
    drawn_top = (where[:, 0] * (height - h + 1)).long()
    top = torch.where(fits, drawn_top, (height - middle_h) // 2)
    drawn_left = (where[:, 1] * (width - w + 1)).long()
    left = torch.where(fits, drawn_left, (width - middle_w) // 2)
    return torch.stack([top, left, h, w], dim=1)


def resized_crop(x: Tensor, boxes: Tensor, flip: Tensor) -> Tensor:
    """Every image's box, resized to the image's own size and mirrored left to right where `flip`:
    bilinear, as Pillow's.

    `x` uint8 [n, c, h, w]; `boxes` int64 [n, 4]: top, left, height, width; `flip` bool [n].
    Half-pixel centres, the box's own edge continued; nothing is averaged, since a box is never
    larger than the image. A box that is the whole image gives the same bits.

    Colour images on the CPU get Pillow's levels, thus those of torchvision's `resized_crop` on
    Pillow images. All pixels do where a side is a power of two or three of them. Else all but one
    in a hundred do, where torch's places in single precision lie a hair off. Grey images and other
    devices are rounded once instead of after either side, on a grid of 1/256 pixel: a quarter of
    the levels may differ, by at most 2.
    """
    return (_by_image if x.shape[1] == 3 and x.device.type == "cpu" else _by_batch)(x, boxes, flip)


def _by_image(x: Tensor, boxes: Tensor, flip: Tensor) -> Tensor:
    # For a colour image with channels last, torch's own kernel for bytes takes less time than the
    # passes of a batch; for a grey one it takes more.
    channels_last = laid_out_as(x, _LAST)
    out = torch.empty_like(channels_last)
    for i, ((top, left, h, w), mirrored) in enumerate(
        zip(boxes.tolist(), flip.tolist(), strict=True)
    ):
        box = channels_last[i : i + 1, :, top : top + h, left : left + w]
        # Where nothing is made smaller, antialiasing changes nothing; this kernel has Pillow's
        # whole numbers.
        resized = torch.ops.aten._upsample_bilinear2d_aa(box, list(x.shape[2:]), False)[0]
        out[i] = resized.flip(2) if mirrored else resized
    return laid_out_as(out, x)


def _by_batch(x: Tensor, boxes: Tensor, flip: Tensor) -> Tensor:
    """The same for a whole batch at a time; every step is exact in float32, so the bits are the
    same in any batch."""
    x = planes(x)
    _, channels, height, width = x.shape
    top, left, h, w = on_device(boxes, x.device).unbind(1)
    flip = on_device(flip, x.device)[:, None]
    upper, lower, down = _taps(top, h, height)
    nearer, farther, across = (tap.where(~flip, tap.flip(1)) for tap in _taps(left, w, width))
    down = down.float()[:, None, :, None]
    across = across.float()[:, None, :, None]
    out = torch.empty_like(x)
    for chunk in parts(x, 6):
        count = len(x[chunk])
        plane = torch.arange(count * channels, device=x.device).view(count, channels, 1)
        # The two lines that each line of the result lies between; then the same of the columns,
        # laid in one piece.
        lines = x[chunk].view(-1, width)
        taps = ((plane * height + tap[chunk, None]).view(-1) for tap in (upper, lower))
        near_lines, far = (
            lines.index_select(0, tap).float().view(count, channels, height, width) for tap in taps
        )
        columns = near_lines.lerp_(far, down[chunk]).transpose(2, 3).contiguous().view(-1, height)
        taps = ((plane * width + tap[chunk, None]).view(-1) for tap in (nearer, farther))
        near_lines, far = (
            columns.index_select(0, tap).view(count, channels, width, height) for tap in taps
        )
        # By way of int16: torch casts floats to uint8 several times as slowly.
        out[chunk] = near_lines.lerp_(far, across[chunk]).add_(0.5).to(torch.int16).transpose(2, 3)
    return out


def _taps(start: Tensor, extent: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """For `size` outputs along one side [n, size]: the two inputs that each lies between, and how
    far it is from the first.

    The distance is float64, in whole 256ths of a pixel.
    """
    position = (torch.arange(size, device=start.device) + 0.5) * (
        extent[:, None].double() / size
    ) - 0.5
    position = position.clamp(min=0.0).mul(256).add(0.5).floor().div(256)
    first = position.long().minimum(extent[:, None] - 1)
    second = (first + 1).minimum(extent[:, None] - 1)
    return start[:, None] + first, start[:, None] + second, position - first
