"""Where the pixels of an image come from: crops, flips, resampling; a batch at a time, with parameters for every sample."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["CROP_DRAWS", "affine", "crop_boxes", "resized_crop"]

TRIES = 10
CROP_DRAWS = 2 * TRIES + 2  # uniform numbers that one sample's crop takes
CHUNK = 65_536  # pixels at a time: their coordinates stay in the cache
ONE = 1 << 16  # a pixel's side in fixed point
FAR = 1 << 30  # coordinates up to here leave room for sums in 32 bits


def affine(x: Tensor, matrices: Tensor, fill: int = 0, interpolation: str = "nearest") -> Tensor:
    """Every image resampled once along its own affine map: a new tensor uint8 [n, c, h, w] in the memory layout of `x`.

    `x`: uint8 [n, c, h, w], c 1 or 3. `matrices`: float64 [n, 2, 3], from places in the result to places in the image, x before y,
    in Pillow's coordinates: pixel i of a side reaches from i to i + 1, its centre lies at i + 1/2. So [[1, 0, t], [0, 1, 0]] moves
    the picture t pixels to the left. A centre that comes from outside the image takes the value `fill` (0 to 255) in all channels.
    `interpolation`: `nearest`, the pixel in which the place lies, or `bilinear` between four centres, the outermost ones continued
    to the edge, rounded to the nearest level.

    Coordinates are whole numbers of 1/65536 pixel as in Pillow's own nearest neighbour, which this equals to the pixel; weights
    are whole numbers of 1/2048: the same bits in any batch, layout and device. Raises `ValueError` for other arguments.
    """
    n, channels, height, width = x.shape
    if x.dtype != torch.uint8 or matrices.shape != (n, 2, 3) or interpolation not in ("nearest", "bilinear"):
        given = f"{x.dtype}, matrices {list(matrices.shape)} for {n} images, interpolation {interpolation!r}"
        raise ValueError(f"affine needs uint8 images, a matrix [2, 3] for each, nearest or bilinear, not {given}")
    last = channels > 1 and x.is_contiguous(memory_format=torch.channels_last)
    x = x if last else x.contiguous()
    out = torch.empty_like(x)
    steps = _fixed(matrices.to(x.device, torch.float64), height, width)
    sampled = _nearest if interpolation == "nearest" else _bilinear
    size = max(1, CHUNK // max(1, height * width))
    for start in range(0, n, size):
        part = slice(start, start + size)
        sampled(x[part], steps[part], fill, last, out[part])
    return out


def _fixed(matrices: Tensor, height: int, width: int) -> Tensor:
    """Integers [n, 2, 3]: what one step right, one step down and the first centre mean in the image, in 1/65536 pixel."""
    start = matrices[:, :, 2] + matrices[:, :, 0] * 0.5 + matrices[:, :, 1] * 0.5
    steps = torch.stack([matrices[:, :, 0], matrices[:, :, 1], start], dim=2).mul(ONE).add(0.5).floor()
    reach = (steps[:, :, 0].abs() * width + steps[:, :, 1].abs() * height + steps[:, :, 2].abs()).amax() if len(steps) else 0
    if not reach < 1 << 60:
        raise ValueError("affine needs finite matrices, whose places lie within 2^44 pixels")
    return steps.to(torch.int32 if reach < FAR else torch.int64)


def _places(steps: Tensor, axis: int, offset: int, height: int, width: int) -> Tensor:
    """Where the centres of all pixels come from along one axis: integers [n, h, w] in 1/65536 pixel."""
    right, down, start = (part[:, None] for part in steps[:, axis].unbind(1))
    lines = torch.arange(height, dtype=steps.dtype, device=steps.device) * down
    columns = torch.arange(width, dtype=steps.dtype, device=steps.device) * right
    columns += start + offset
    return lines[:, :, None] + columns[:, None, :]


def _nearest(x: Tensor, steps: Tensor, fill: int, last: bool, out: Tensor) -> None:
    n, channels, height, width = x.shape
    # A frame of one pixel of `fill` all round: what lies outside is found there, so that nothing need be chosen afterwards.
    high, wide = height + 2, width + 2
    place = _places(steps, 1, ONE, height, width)
    place >>= 16
    place.clamp_(0, high - 1)
    place *= wide
    across = _places(steps, 0, ONE, height, width)
    across >>= 16
    place += across.clamp_(0, wide - 1)
    place += torch.arange(n, dtype=place.dtype, device=x.device).mul_(high * wide)[:, None, None]
    where = place.view(-1)
    if last:
        framed = x.new_full((n, high, wide, channels), fill)
        framed[:, 1:-1, 1:-1] = x.permute(0, 2, 3, 1)
        torch.index_select(framed.view(-1, channels), 0, where, out=out.permute(0, 2, 3, 1).view(-1, channels))
        return
    framed = x.new_full((n, high, wide), fill)
    for channel in range(channels):
        framed[:, 1:-1, 1:-1] = x[:, channel]
        out[:, channel] = framed.view(-1).index_select(0, where).view(n, height, width)


def _bilinear(x: Tensor, steps: Tensor, fill: int, last: bool, out: Tensor) -> None:
    n, channels, height, width = x.shape
    down, across = _places(steps, 1, 0, height, width), _places(steps, 0, 0, height, width)
    outside = (down < 0) | (down >= height * ONE) | (across < 0) | (across >= width * ONE)
    (upper, lower, v), (nearer, farther, u) = _neighbours(down, height), _neighbours(across, width)
    base = torch.arange(n, dtype=steps.dtype, device=x.device).mul_(height * width)[:, None, None]
    upper, lower = upper.mul_(width).add_(base), lower.mul_(width).add_(base)
    corners = [(line + column).view(-1) for line in (upper, lower) for column in (nearer, farther)]
    pixels = x.permute(0, 2, 3, 1).reshape(-1, channels) if last else x.transpose(0, 1).reshape(channels, -1)
    taken = [pixels.index_select(0 if last else 1, corner).to(torch.int32) for corner in corners]
    shape = (-1, 1) if last else (1, -1)
    u, v = u.view(shape), v.view(shape)
    for left, right in (taken[:2], taken[2:]):
        right.sub_(left).mul_(u)
        left.mul_(2048).add_(right)
    top, bottom = taken[0], taken[2]
    bottom.sub_(top).mul_(v)
    found = top.mul_(2048).add_(bottom).add_(1 << 21).bitwise_right_shift_(22)
    found.masked_fill_(outside.view(shape), fill)
    if last:
        out.permute(0, 2, 3, 1).view(-1, channels).copy_(found)
    else:
        out.copy_(found.view(channels, n, height, width).transpose(0, 1))


def _neighbours(place: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The two pixels between whose centres each place lies, inside the image, and how far from the first, int32 in 1/2048."""
    place = place - ONE // 2
    first = place >> 16
    share = place.bitwise_and_(ONE - 1).bitwise_right_shift_(5).to(torch.int32)
    return first.clamp(0, size - 1), first.add_(1).clamp_(0, size - 1), share


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
