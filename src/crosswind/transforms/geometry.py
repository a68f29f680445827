"""Where the pixels of an image come from: crops, flips, resampling; a batch at a time, with parameters for every sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.transforms.boxes import shapes
from crosswind.transforms.layout import is_channels_last, laid_out_as, on_device, planes

__all__ = ["CROP_DRAWS", "affine", "crop_boxes", "resized_crop"]

TRIES = 10
CROP_DRAWS = 2 * TRIES + 2  # uniform numbers that one sample's crop takes
CHUNK = 131_072  # pixels at a time: their coordinates stay in the cache
BLENDED = 131_072  # the same where four pixels are blended
CROPPED = 32_768  # and where they become floats
ONE = 1 << 16  # a pixel's side in fixed point
SHARES = 1 << 11  # in how many parts the way from one pixel to the next is divided
_LAST = torch.empty(1, 2, 2, 2).contiguous(memory_format=torch.channels_last)


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
    steps = _fixed(matrices.detach().cpu().numpy().astype(np.float64), height, width)
    sampled = _nearest if interpolation == "nearest" else _bilinear
    # Moves and shears of whole lines copy them in one piece: a tenth of the time.
    whole = (steps[:, 0, 0] == ONE) & (steps[:, 1, 0] == 0)
    if interpolation == "bilinear":
        whole &= (steps[:, 0, 1] == 0) & (steps[:, 1, 1] == ONE) & (steps[:, :, 2] % ONE == ONE // 2).all(1)
    if whole.all() or not whole.any():
        out = torch.empty_like(x)
        (_lines if whole.any() else sampled)(x, steps, fill, last, out)
        return out
    # Samples are brought together and put back by gathers of images in one piece; a scatter would take thirty times as long.
    images = x.permute(0, 2, 3, 1) if last else x
    order = np.concatenate([np.flatnonzero(whole), np.flatnonzero(~whole)])
    cut = int(whole.sum())
    images = images.index_select(0, on_device(order, x.device))
    x = images.permute(0, 3, 1, 2) if last else images
    out = torch.empty_like(x)
    steps = steps[order]
    _lines(x[:cut], steps[:cut], fill, last, out[:cut])
    sampled(x[cut:], steps[cut:], fill, last, out[cut:])
    images = out.permute(0, 2, 3, 1) if last else out
    images = images.index_select(0, on_device(np.argsort(order), x.device))
    return images.permute(0, 3, 1, 2) if last else images


def _fixed(matrices: NDArray[np.float64], height: int, width: int) -> NDArray[np.signedinteger[Any]]:
    """Integers [n, 2, 3]: what one step right, one step down and the first centre mean in the image, in 1/65536 pixel."""
    matrices[:, :, 2] += matrices[:, :, 0] * 0.5 + matrices[:, :, 1] * 0.5
    steps = np.floor(matrices * ONE + 0.5)
    reach = np.abs(steps).max(initial=0.0) * (height + width + 2)
    if not reach < 1 << 60:
        raise ValueError("affine needs finite matrices, whose places lie within 2^43 pixels")
    return steps.astype(np.int32 if reach < 1 << 31 else np.int64)


def _sides(steps: NDArray[np.signedinteger[Any]], axis: int, offset: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """What the place of a pixel's centre along one axis is the sum of: a number a line [n, h, 1], and one a column [n, 1, w].

    Where the place is the same in all lines, or all columns, of every image, that side has the length 1: shears and moves take
    half of the time.
    """
    right, down, start = (steps[:, axis, part, None] for part in range(3))
    lines, columns = start + steps.dtype.type(offset), np.zeros_like(start)
    if down.any():
        lines = lines + down * np.arange(x.shape[2], dtype=steps.dtype)
    if right.any():
        columns = right * np.arange(x.shape[3], dtype=steps.dtype)
    return on_device(lines[:, :, None], x.device), on_device(columns[:, None, :], x.device)


def _cells(lines: Tensor, columns: Tensor, size: int, space: Tensor) -> Tensor:
    """The cells of a framed side in which places lie: integers in [0, size + 1], [n, h or 1, w or 1]; `space` [n, h, w] is used."""
    full = lines.shape[1] == space.shape[1] and columns.shape[2] == space.shape[2]
    return torch.add(lines, columns, out=space if full else None).bitwise_right_shift_(16).clamp_(0, size + 1)


def _nearest(x: Tensor, steps: NDArray[np.signedinteger[Any]], fill: int, last: bool, out: Tensor) -> None:
    n, channels, height, width = x.shape
    # A frame of one pixel of `fill` all round: what lies outside is found there, so that nothing need be chosen afterwards.
    high, wide = height + 2, width + 2
    down, across = _sides(steps, 1, ONE, x), _sides(steps, 0, ONE, x)
    size = max(1, min(n, CHUNK // max(1, height * width)))
    # Used again for every chunk: new memory costs as much as the arithmetic.
    index, space = down[0].new_empty(2, size, height, width).unbind(0)
    bases = torch.arange(size, dtype=index.dtype, device=x.device).mul_(high * wide)[:, None, None]
    framed = x.new_full((size, high, wide, channels if last else 1), fill)
    inside = framed[:, 1:-1, 1:-1]
    taken = x.new_empty(size, height, width)
    for start in range(0, n, size):
        count, part = min(size, n - start), slice(start, start + size)
        if count < size:
            index, space, bases, framed, inside, taken = (a[:count] for a in (index, space, bases, framed, inside, taken))
        below = _cells(down[0][part], down[1][part], height, index).mul_(wide).add_(bases)
        torch.add(below.expand_as(index), _cells(across[0][part], across[1][part], width, space), out=index)
        if last:
            inside.copy_(x[part].permute(0, 2, 3, 1))
            found = out[part].permute(0, 2, 3, 1).view(-1, channels)
            torch.index_select(framed.view(-1, channels), 0, index.view(-1), out=found)
            continue
        for channel in range(channels):
            inside[..., 0].copy_(x[part, channel])
            torch.index_select(framed.view(-1), 0, index.view(-1), out=taken.view(-1))
            out[part, channel] = taken


def _lines(x: Tensor, steps: NDArray[np.signedinteger[Any]], fill: int, last: bool, out: Tensor) -> None:
    """`_nearest` where one step to the right is one pixel to the right: every line comes from one place in one line."""
    n, channels, height, width = x.shape
    if not last and channels > 1:
        planes = [part.view(n * channels, 1, height, width) for part in (x, out)]
        _lines(planes[0], steps.repeat(channels, axis=0), fill, last, planes[1])
        return
    numbers = np.arange(height)
    line = (steps[:, 1, 1:2] * numbers + steps[:, 1, 2:]) >> 16
    first = np.clip((steps[:, 0, 1:2] * numbers + steps[:, 0, 2:]) >> 16, -width, width)
    inside = (line >= 0) & (line < height)
    # Before every line, and after the last, stand as many pixels of `fill`.
    begin = np.where(inside, (2 * line + 1) * width + first, 0).astype(np.int64)
    size = max(1, min(n, CHUNK // max(1, height * width)))
    begin += (np.arange(n) % size * (2 * height * width))[:, None]
    index = on_device(begin, x.device)
    framed = x.new_full((size * 2 * height * width + width, channels), fill)
    pieces = framed.as_strided((size * 2 * height * width + 1, width * channels), (channels, 1))
    images = framed[:-width].view(size, height, 2, width, channels)[:, :, 1]
    for start in range(0, n, size):
        part, count = slice(start, start + size), min(size, n - start)
        images[:count].copy_(x[part].permute(0, 2, 3, 1))
        found = out[part].permute(0, 2, 3, 1).view(-1, width * channels)
        torch.index_select(pieces, 0, index[part].view(-1), out=found)


def _bilinear(x: Tensor, steps: NDArray[np.signedinteger[Any]], fill: int, last: bool, out: Tensor) -> None:
    n, channels, height, width = x.shape
    down, across = _sides(steps, 1, 0, x), _sides(steps, 0, 0, x)
    size = max(1, BLENDED // max(1, height * width))
    for start in range(0, n, size):
        part = slice(start, start + size)
        places = [lines[part] + columns[part] for lines, columns in (down, across)]
        _blended(x[part], places[0], places[1], fill, last, out[part])


def _blended(x: Tensor, down: Tensor, across: Tensor, fill: int, last: bool, out: Tensor) -> None:
    n, channels, height, width = x.shape
    # Negative where a centre comes from outside: as a mask of bits, since comparisons are many times as slow.
    outside = (down | (height * ONE - 1 - down)) | (across | (width * ONE - 1 - across))
    inside = outside.bitwise_right_shift_(31).to(torch.int32).bitwise_not_()
    # In a frame of one pixel that continues the edge all round, the four pixels of every place lie side by side.
    wide = width + 2
    (line, v), (column, u) = _neighbours(down, height), _neighbours(across, width)
    bases = torch.arange(n, dtype=torch.int32, device=x.device).mul_((height + 2) * wide)[:, None, None]
    index = (line.mul_(wide).add_(bases) + column).expand(n, height, width).reshape(-1)
    fourth = u * v
    second, third = u * SHARES - fourth, v * SHARES - fourth
    weights = (SHARES * SHARES - u * SHARES - third, second, third, fourth)
    framed = torch.empty(n, height + 2, wide, dtype=torch.int32, device=x.device)
    flat = framed.view(-1)
    for channel in range(channels):
        plane = x[:, channel]
        framed[:, 1:-1, 1:-1] = plane
        framed[:, 0, 1:-1] = plane[:, 0]
        framed[:, -1, 1:-1] = plane[:, -1]
        framed[:, :, 0] = framed[:, :, 1]
        framed[:, :, -1] = framed[:, :, -2]
        # The four in the bytes of one word: one gather in place of four.
        words = flat[1:] << 8
        words += flat[:-1]
        words = (words[wide:] << 16).add_(words[:-wide])
        taken = words.index_select(0, index).view(n, height, width)
        found = (taken & 255).mul_(weights[0])
        for weight in weights[1:]:
            found += (taken.bitwise_right_shift_(8) & 255).mul_(weight)
        found.add_(SHARES * SHARES // 2).bitwise_right_shift_(2 * SHARES.bit_length() - 2).bitwise_and_(inside)
        out[:, channel] = found.add_(~inside & fill) if fill else found


def _neighbours(place: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The first of the two framed pixels between whose centres each place lies, and how far from it in 1/2048, int32."""
    place = (place + ONE // 2).clamp_(0, size * ONE + ONE - 1)
    share = (place & (ONE - 1)).bitwise_right_shift_(5).to(torch.int32)
    return place.bitwise_right_shift_(16).to(torch.int32), share


def crop_boxes(draws: Tensor, size: tuple[int, int], scale: tuple[float, float], ratio: tuple[float, float]) -> Tensor:
    """Random boxes inside images of `size` (h, w): int64 [n, 4], each top, left, height, width, inside the image.

    `draws` [n, CROP_DRAWS]: uniform numbers in (0, 1). The share of the area is uniform in `scale`, the logarithm of width / height
    uniform in the logarithms of `ratio`; a box that does not fit is drawn again, ten times at most, then it is the largest one in
    the middle whose shape lies in `ratio`. Szegedy et al. 2015, "Going Deeper with Convolutions", section 6, as in torchvision's
    RandomResizedCrop.
    """
    height, width = size
    area = height * width * (scale[0] + (scale[1] - scale[0]) * draws[:, :TRIES].double())
    shape = shapes(draws[:, TRIES : 2 * TRIES], ratio)
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
    """Every image's box, resized to the image's own size and mirrored left to right where `flip`: bilinear, as Pillow's.

    `x` uint8 [n, c, h, w]; `boxes` int64 [n, 4]: top, left, height, width; `flip` bool [n]. Nothing is averaged, since a box is
    never larger than what it is resized to; half-pixel centres, the box's own edge continued. The memory layout of `x` is kept. A
    box that is the whole image gives the same bits.

    Colour images on the CPU get Pillow's levels, thus those of torchvision's `resized_crop` on Pillow images: all of them where a
    side is a power of two or three of them, else but for one in a hundred, where torch's places in single precision lie a hair
    off. Grey images and other devices are rounded once instead of after either side, on a grid of 1/256 pixel: a quarter of the
    levels may differ, by at most 2.
    """
    coloured = x.shape[1] == 3
    return _by_image(x, boxes, flip) if coloured and x.device.type == "cpu" else _cropped_levels(x, boxes, flip)


def _by_image(x: Tensor, boxes: Tensor, flip: Tensor) -> Tensor:
    # For a colour image with channels last torch's own kernel for bytes takes less time than the passes of a batch take for it; for
    # a grey one it is slower.
    size = list(x.shape[2:])
    given = x if is_channels_last(x) else laid_out_as(x.contiguous(), _LAST)
    out = torch.empty_like(given)
    for i, ((top, left, h, w), mirrored) in enumerate(zip(boxes.tolist(), flip.tolist(), strict=True)):
        box = given[i : i + 1, :, top : top + h, left : left + w]
        # Where nothing is made smaller, antialiasing changes nothing; this kernel has Pillow's whole numbers.
        resized = torch.ops.aten._upsample_bilinear2d_aa(box, size, False)[0]
        out[i] = resized.flip(2) if mirrored else resized
    return planes(out) if given is not x else out


def _cropped_levels(x: Tensor, boxes: Tensor, flip: Tensor) -> Tensor:
    """The same for a whole batch at a time; every step is exact in float32, so the bits are the same in any batch and layout."""
    n, channels, height, width = x.shape
    last = channels > 1 and x.is_contiguous(memory_format=torch.channels_last)
    x = x if last else x.contiguous()
    top, left, h, w = on_device(boxes, x.device).unbind(1)
    flip = on_device(flip, x.device)[:, None]
    upper, lower, down = _taps(top, h, height)
    nearer, farther, across = (part.where(~flip, part.flip(1)) for part in _taps(left, w, width))
    down, across = down.float()[:, None, :, None], across.float()[:, None, :, None]
    size = max(1, min(n, CROPPED // max(1, height * width)))
    planes = torch.arange(size * channels, device=x.device).view(size, channels, 1)
    turned = torch.empty(size, channels, width, height, device=x.device)
    out = torch.empty_like(x)
    for start in range(0, n, size):
        part, count = slice(start, start + size), min(size, n - start)
        if last:
            lines = x[part].permute(0, 2, 3, 1).view(count * height, width * channels)
            base, shape = planes[:count, 0] // channels * height, (count, 1, height, width * channels)
        else:
            lines = x[part].view(count * channels * height, width)
            base, shape = planes[:count] * height, (count, channels, height, width)
        places = (base + (tap[part] if last else tap[part, None]) for tap in (upper, lower))
        near, far = (lines.index_select(0, place.reshape(-1)).float().view(shape) for place in places)
        lines = near.lerp_(far, down[part])
        if last:
            lines = lines.view(count, height, width, channels).permute(0, 3, 1, 2)
        columns = turned[:count].copy_(lines.transpose(2, 3)).view(count * channels * width, height)
        # Columns lie in one piece now.
        places = (planes[:count] * width + tap[part, None] for tap in (nearer, farther))
        near, far = (columns.index_select(0, place.view(-1)).view(count, channels, width, height) for place in places)
        # By way of int16: torch casts floats to uint8 several times as slowly.
        levels = near.lerp_(far, across[part]).add_(0.5).to(torch.int16)
        out[part].copy_(levels.transpose(2, 3))
    return out


def _taps(start: Tensor, extent: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """For `size` outputs along one side [n, size]: the two inputs that each lies between, and how far it is from the first.

    The distance is float64, in whole 256ths of a pixel.
    """
    place = (torch.arange(size, device=start.device) + 0.5) * (extent[:, None].double() / size) - 0.5
    place = place.clamp(min=0.0).mul(256).add(0.5).floor().div(256)
    first = place.long().minimum(extent[:, None] - 1)
    second = (first + 1).minimum(extent[:, None] - 1)
    return start[:, None] + first, start[:, None] + second, place - first
