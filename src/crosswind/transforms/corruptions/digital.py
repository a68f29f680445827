"""Changes of colour and detail: brightness, contrast, saturation, coarse pixels, compression.
Nothing here is random."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.transforms.corruptions.base import FixedCorruption, through_jpeg
from crosswind.transforms.layout import (
    along_memory,
    dense,
    is_channels_last,
    lines_of,
    on_device,
    parts,
    planes,
    put_cut,
    put_numbers,
)
from crosswind.transforms.words import pixels_of, words_of

BRIGHTER = ((0.1, 0.2, 0.3, 0.4, 0.5), (0.05, 0.1, 0.15, 0.2, 0.3))
LEFT = ((0.4, 0.3, 0.2, 0.1, 0.05), (0.75, 0.5, 0.4, 0.3, 0.15))
SATURATION = (
    ((0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2)),
    ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)),
)
QUALITY = ((25, 18, 15, 10, 7), (80, 65, 58, 50, 40))
SCALE = ((0.6, 0.5, 0.4, 0.3, 0.25), (0.95, 0.9, 0.85, 0.75, 0.65))

LARGE = 96 * 96  # pixels from which images are resized one by one
BAND = 40  # pixels of a line that one product makes boxes of
BITS = 22  # below a grey level in fixed point: 255 levels take 8 bits, one is left for the sign


@register("brightness", kind="transform")
@dataclass(frozen=True)
class Brightness(FixedCorruption):
    """A constant added to the value V of hue, saturation and value, cut at 1.

    The constant is 0.1, 0.2, 0.3, 0.4 or 0.5 at severity 1 to 5 (`constants` imagenet), or 0.05,
    0.1, 0.15, 0.2, 0.3 (cifar). V is the largest channel. Hue and saturation stay, so every channel
    grows by the same factor as V, and black becomes grey. A grey image (1 channel) gets the
    constant itself. Values are cut to whole grey levels downwards. In whole numbers throughout:
    where the exact result is whole, the original's floats may lie one level below. Nothing is
    random.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        added = self.constant(BRIGHTER, x)
        factor = on_device(_brightness_table(added), x.device)
        out = torch.empty_like(x)
        for chunk in parts(x, 0.5):
            pixels = x[chunk].to(torch.int32)
            # Where all channels are 0 each counts as 1, so that black has a factor too.
            if pixels.shape[1] == 3:
                value = pixels.amax(1, keepdim=True)
            else:
                value = pixels.clone()
            grown = factor.index_select(0, value.view(-1)).view_as(value)
            pixels += value == 0
            out[chunk] = pixels.mul_(grown).bitwise_right_shift_(BITS)
        return out


@register("contrast", kind="transform")
@dataclass(frozen=True)
class Contrast(FixedCorruption):
    """Every channel drawn towards its own mean over the image.

    0.4, 0.3, 0.2, 0.1 or 0.05 of the difference is left at severity 1 to 5 (`constants` imagenet),
    or 0.75, 0.5, 0.4, 0.3, 0.15 (cifar). Values are cut to whole grey levels downwards; a whole one
    stays, which the original's floats may just miss. Nothing is random.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    by_planes = False

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        left = self.constant(LEFT, x)
        size = x.shape[2] * x.shape[3]
        # Sums of whole numbers are exact in any order, as long as they stay below 2 to the 24th in
        # float32.
        if size * 255 < 1 << 24:
            kind = torch.float32
        else:
            kind = torch.float64
        x = dense(x)
        out = torch.empty_like(x)
        for chunk in parts(x):
            pixels = torch.empty_like(x[chunk], dtype=kind)
            put_numbers(x[chunk], pixels)
            share = _sums(pixels).double().mul_((1 - left) / size).to(kind)
            put_cut(pixels.mul_(left).add_(along_memory(share, pixels)), out[chunk])
        return out


@register("saturate", kind="transform")
@dataclass(frozen=True)
class Saturate(FixedCorruption):
    """Saturation S of hue, saturation and value made a S + b, cut at 1.

    (a, b) is (0.3, 0), (0.1, 0), (2, 0), (5, 0.1) or (20, 0.2) at severity 1 to 5 (`constants`
    imagenet), or (0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2) (cifar). V, the largest
    channel, and the hue stay, so the distances of a pixel's channels from V grow by one factor;
    whole numbers, as in `brightness`. As in the original a grey pixel has the hue of red: b > 0
    makes it reddish. An image of 1 channel stays as it is. Values are cut to whole grey levels
    downwards. Nothing is random. Reference: Hendrycks and Dietterich, Benchmarking Neural Network
    Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        if x.shape[1] == 1:
            return x.clone()
        factor, added = self.constant(SATURATION, x)
        table = on_device(_saturation_table(factor, added), x.device)
        out = torch.empty_like(x)
        for chunk in parts(x, 0.5):
            pixels = x[chunk].to(torch.int32)
            low = pixels.amin(1, keepdim=True)
            high = pixels.amax(1, keepdim=True)
            grown = table.index_select(0, low.add_(high, alpha=256).view(-1)).view_as(high)
            if added:
                # Without a hue the tint is red: the other two channels lie one level below V, and
                # the factor is meant for one.
                pixels[:, 1:] -= (low == high * 257).to(torch.int32)
            pixels.sub_(high).mul_(grown)  # the distance from V, negative
            out[chunk] = pixels.add_(high << BITS).bitwise_right_shift_(BITS)
        return out


@register("pixelate", kind="transform")
@dataclass(frozen=True)
class Pixelate(FixedCorruption):
    """Images made smaller by the means of boxes, and as large as before by repeating pixels.

    The scale is 0.6, 0.5, 0.4, 0.3 or 0.25 at severity 1 to 5 (`constants` imagenet), or 0.95, 0.9,
    0.85, 0.75, 0.65 (cifar); the small sides are cut to whole pixels, at least 1. The levels are
    those of Pillow's resize with BOX there and back, except that Pillow takes the columns of some
    tall images first, which may cost a level of rounding. Nothing is random.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    by_planes = False

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        scale = self.constant(SCALE, x)
        size = (x.shape[2], x.shape[3])
        smaller = (max(1, int(size[0] * scale)), max(1, int(size[1] * scale)))
        fits_words = x.shape[1] == 1 or sys.byteorder == "little"
        if x.device.type == "cpu" and size[0] * size[1] >= LARGE and fits_words:
            rows, columns = (_repeated(*sides) for sides in zip(smaller, size, strict=True))
            if rows is not None and columns is not None:
                return _pixelated(x, smaller, rows, columns)
        x = planes(x)
        return torch.cat([_resized(_resized(x[chunk], smaller), size) for chunk in parts(x, 0.5)])


@register("jpeg", kind="transform")
@dataclass(frozen=True)
class Jpeg(FixedCorruption):
    """JPEG compression, by Pillow with 4:2:0 colours, image by image.

    The quality is 25, 18, 15, 10 or 7 at severity 1 to 5 (`constants` imagenet), or 80, 65, 58, 50,
    40 (cifar). An image of
    1 channel is compressed as a grey one. Nothing is random.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    by_planes = False

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        return through_jpeg(x, self.constant(QUALITY, x))


@cache
def _brightness_table(added: float) -> Tensor:
    """The factor of a channel, in fixed point, for V of 0 to 255: int32 [256]; for V = 0 it is what
    1 is."""
    value = np.arange(256)
    # Thousandths of 255 make the sum a whole number: a float would be 60.999 where 61 is meant.
    grown = np.minimum(value * 1000 + round(added * 1000) * 255, 255_000)
    # Rounded up: a product whose exact value is whole stays so when it is cut.
    return torch.from_numpy(-(-(grown << BITS) // (1000 * np.maximum(value, 1)))).to(torch.int32)


def _sums(pixels: Tensor) -> Tensor:
    """The sum of every channel of every image: [n, c, 1, 1], exact for whole numbers."""
    if not is_channels_last(pixels):
        return pixels.sum((2, 3), keepdim=True)
    # Lines are added to lines: channels that lie side by side are slow to add up one by one.
    n, channels, height, width = pixels.shape
    total = lines_of(pixels).reshape(n, height, width * channels).sum(1)
    return total.view(n, width, channels).sum(1).view(n, channels, 1, 1)


@cache
def _saturation_table(factor: float, added: float) -> Tensor:
    """By what the distance from V grows, in fixed point, at 256 V + the smallest channel: int32
    [65536].

    Where the two are equal it is what a distance of 1 becomes. The result's saturation is at most
    1, so no product exceeds 255 levels.
    """
    high, low = np.divmod(np.arange(65536), 256)
    distance = np.maximum(high - low, 0)
    grown = np.minimum(round(factor * 1000) * distance + round(added * 1000) * high, 1000 * high)
    # Rounded down: what is taken from V is never too much.
    return torch.from_numpy((grown << BITS) // (1000 * np.maximum(distance, 1))).to(torch.int32)


def _pixelated(
    x: Tensor, smaller: tuple[int, int], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> Tensor:
    """`pixelate` image by image, for large ones in a processor's memory; `rows` and `columns`: of
    the smaller image, which each row and column shows."""
    pixels = np.ascontiguousarray(x.permute(0, 2, 3, 1).numpy())
    height, width, channels = pixels.shape[1:]
    out = np.empty_like(pixels)
    for image, shown in zip(pixels, out, strict=True):
        words = words_of(image) if channels == 3 else image[:, :, 0]
        # Along the lines first, as Pillow; turned, so that whole lines are added up.
        small = _in_boxes(_in_boxes(words.T, smaller[1]).T, smaller[0])
        wide = small[:, columns]
        lines = (pixels_of(wide) if channels == 3 else wide).reshape(smaller[0], -1)
        np.take(lines, rows, 0, out=shown.reshape(height, -1), mode="clip")
    return torch.from_numpy(out).permute(0, 3, 1, 2)


def _in_boxes(words: NDArray[Any], after: int) -> NDArray[Any]:
    """The means of lines in `after` boxes, byte by byte, as by Pillow: [after, w] of `words`
    [h, w]."""
    lines = np.ascontiguousarray(words)
    levels = lines.view(np.uint8)
    out = np.empty((after, levels.shape[1]), np.uint8)
    for count, boxes, first_lines in _boxes_by_count(len(levels), after):
        total = levels[first_lines].astype(np.uint16)
        for line in range(1, count):
            total += levels[first_lines + line]
        total += count // 2
        total //= count
        out[boxes] = total.astype(np.uint8)
    return out.view(lines.dtype)


@cache
def _boxes_by_count(
    before: int, after: int
) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """For each number of pixels that a box holds: it, the boxes that do, and the first pixel of
    each."""
    inside, counts, _ = (
        None if table is None else table.numpy() for table in _boxes(before, after)
    )
    assert inside is not None and counts is not None
    groups = []
    for count in np.unique(counts).tolist():
        boxes = np.flatnonzero(counts == count)
        groups.append((int(count), boxes, inside[:, boxes].argmax(0)))
    return groups


@cache
def _repeated(before: int, after: int) -> NDArray[np.int64] | None:
    """The pixel of `before` in each of `after` boxes; None unless Pillow finds the same ones
    nearest, which takes it an eighth of the time."""
    from PIL import Image

    single = _boxes(before, after)[2]
    numbers = Image.fromarray(np.arange(before, dtype=np.int32)[None])
    nearest = np.asarray(numbers.resize((after, 1), Image.Resampling.NEAREST))[0]
    if single is None or not np.array_equal(single.numpy(), nearest):
        return None
    return nearest.astype(np.int64)


def _resized(x: Tensor, size: tuple[int, int]) -> Tensor:
    # Along the lines first, as Pillow.
    lines = x
    for side in (3, 2):
        before = lines.shape[side]
        after = size[side - 2]
        inside, counts, single = _boxes(before, after)
        if single is not None:
            lines = lines.index_select(side, on_device(single, x.device))
            continue
        # Sums of whole numbers are exact in float32, whatever the order that a matrix product takes
        # them in.
        levels = lines.to(torch.float32)
        boxes = on_device(inside, x.device)
        sums = []
        for cut, window in _bands(before, after):
            if side == 3:
                sums.append(levels[..., window] @ boxes[window, cut])
            else:
                sums.append(boxes[window, cut].mT @ levels[:, :, window])
        total = torch.cat(sums, side)
        counts = on_device(counts if side == 3 else counts[:, None], x.device)
        lines = total.add_(counts / 2).div_(counts).floor_()
    return lines.to(torch.uint8)


def _bands(before: int, after: int) -> list[tuple[slice, slice]]:
    """The boxes of a line in tiles, and the pixels that lie in them: a product with all pixels would
    be one with zeros for the most part."""
    tiles = max(1, round(before / BAND))
    ends = [after * number // tiles for number in range(tiles + 1)]
    bands: list[tuple[slice, slice]] = []
    for low, high in zip(ends, ends[1:], strict=False):
        first_pixel = max(0, low * before // after - 1)
        bands.append((slice(low, high), slice(first_pixel, -(-high * before // after) + 1)))
    return bands


@cache
def _boxes(before: int, after: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """How `before` pixels in a line become `after` ones in Pillow with BOX, where they are as many
    or fewer, or more.

    Float32 [before, after], 1 where a pixel lies in a box. Float32 [after], the pixels in each box.
    Int64 [after], the one pixel in each box, if it is one in all. A pixel lies in a box if its
    centre does, at the box's end included. In Pillow's floats that end may lie a little before or
    behind a centre that it meets exactly, and the same floats are used here.
    """
    scale = before / after
    wide = max(scale, 1.0)
    middle = (np.arange(after) + 0.5) * scale
    first = (middle - wide / 2 + 0.5).astype(np.int64)
    end = (middle + wide / 2 + 0.5).astype(np.int64)
    pixel = np.arange(before)[:, None]
    position = (pixel - middle + 0.5) * (1 / wide)
    inside = (position > -0.5) & (position <= 0.5) & (pixel >= first) & (pixel < end)
    counts = inside.sum(0)
    single = None
    if (counts == 1).all():
        single = torch.from_numpy(inside.argmax(0))
    return (
        torch.from_numpy(inside.astype(np.float32)),
        torch.from_numpy(counts.astype(np.float32)),
        single,
    )
