"""Where the pixels of an image come from: crops, flips, resampling; a batch at a time, with parameters for every sample."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["CROP_DRAWS", "crop_boxes", "resized_crop"]

TRIES = 10
CROP_DRAWS = 2 * TRIES + 2  # uniform numbers that one sample's crop takes


def crop_boxes(draws: Tensor, size: tuple[int, int], scale: tuple[float, float], ratio: tuple[float, float]) -> Tensor:
    """Random boxes inside images of `size` (h, w): int64 [n, 4], each top, left, height, width, inside the image.

    `draws` [n, CROP_DRAWS]: uniform numbers in (0, 1). The share of the area is uniform in `scale`, the logarithm of width / height
    uniform in the logarithms of `ratio`; a box that does not fit is drawn again, ten times at most, then it is the largest one in
    the middle whose shape lies in `ratio`. Szegedy et al. 2015, "Going Deeper with Convolutions", section 6, as in torchvision's
    RandomResizedCrop.
    """
    height, width = size
    areas, shapes = draws[:, :TRIES].double(), draws[:, TRIES : 2 * TRIES].double()
    area = height * width * (scale[0] + (scale[1] - scale[0]) * areas)
    low, high = math.log(ratio[0]), math.log(ratio[1])
    shape = torch.exp(low + (high - low) * shapes)
    w, h = torch.round(torch.sqrt(area * shape)).long(), torch.round(torch.sqrt(area / shape)).long()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    found = fits.any(1)
    middle_h, middle_w = height, width
    if width / height < ratio[0]:
        middle_h = round(width / ratio[0])
    elif width / height > ratio[1]:
        middle_w = round(height * ratio[1])
    h = torch.where(found, h.gather(1, first)[:, 0], middle_h)
    w = torch.where(found, w.gather(1, first)[:, 0], middle_w)
    where = draws[:, 2 * TRIES :].double()
    top = torch.where(found, (where[:, 0] * (height - h + 1)).long(), (height - middle_h) // 2)
    left = torch.where(found, (where[:, 1] * (width - w + 1)).long(), (width - middle_w) // 2)
    return torch.stack([top, left, h, w], dim=1)


def resized_crop(x: Tensor, boxes: Tensor, flip: Tensor) -> Tensor:
    """Every image's box, resized to the image's own size and mirrored left to right where `flip`: one bilinear resampling.

    `x` float [n, c, h, w], any values; `boxes` int64 [n, 4]: top, left, height, width; `flip` bool [n]. Nothing is averaged, since
    a box is never larger than what it is resized to; half-pixel centres, the box's own edge continued. The memory layout of `x`
    is kept. A box that is the whole image gives the same bits.
    """
    n, channels, height, width = x.shape
    top, left, h, w = boxes.unbind(1)
    upper, lower, down = _taps(top, h, height, x.dtype)
    nearer, farther, across = (part.where(~flip[:, None], part.flip(1)) for part in _taps(left, w, width, x.dtype))
    layout = torch.channels_last if x.is_contiguous(memory_format=torch.channels_last) else torch.contiguous_format
    # One side, then the other: what is gathered each time are whole lines that lie in one piece.
    base = torch.arange(n, device=x.device)[:, None]
    lines = x.permute(0, 2, 3, 1).reshape(n * height, width * channels)
    lines = _between(lines, base * height + upper, base * height + lower, down)
    lines = lines.view(n, height, width, channels).transpose(1, 2).reshape(n * width, height * channels)
    lines = _between(lines, base * width + nearer, base * width + farther, across)
    return lines.view(n, width, height, channels).permute(0, 3, 2, 1).contiguous(memory_format=layout)


def _taps(start: Tensor, extent: Tensor, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """For `size` outputs along one side [n, size]: the two inputs that each lies between, and how far it is from the first."""
    place = (torch.arange(size, device=start.device) + 0.5) * (extent[:, None].double() / size) - 0.5
    place = place.clamp(min=0.0)
    first = place.long().minimum(extent[:, None] - 1)
    second = (first + 1).minimum(extent[:, None] - 1)
    return start[:, None] + first, start[:, None] + second, (place - first).to(dtype)


def _between(table: Tensor, first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    left, right = table.index_select(0, first.reshape(-1)), table.index_select(0, second.reshape(-1))
    return left.lerp_(right, share.to(table.dtype).reshape(-1, 1))
