"""Changes of the values of pixels: brightness, contrast, equalizing; a batch at a time, with
parameters for every sample.

Images are uint8 [n, c, h, w], c 1 or 3, and factors float [n]: 1 leaves an image as it is, 0 takes
all of that quality from it. The levels are Pillow's, thus those of torchvision's functions for
Pillow images. (Its functions for uint8 tensors differ from both by a level here and there.) Results
are new and keep the memory layout. Only integers, tables and single steps of float arithmetic are
used: the same bits in any batch, layout and device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crosswind.transforms.layout import (
    along_memory,
    is_channels_last,
    laid_out_as,
    lines_of,
    on_device,
    parts,
    planes,
)


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """uint8 images between black (factor 0) and as they are (1), and beyond: Pillow's
    `ImageEnhance.Brightness` to the level."""
    return _blended(x, factor, lambda part: None)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """uint8 images between their mean luminance, a whole level (factor 0), and as they are (1), and
    beyond: Pillow's likewise."""
    return _blended(x, factor, _mean_luminance)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """uint8 images between their luminance (factor 0) and as they are (1), and beyond: Pillow's
    `ImageEnhance.Color` to the level.

    A grey image stays as it is.
    """
    if x.shape[1] == 1:
        return x.clone()
    return laid_out_as(_blended(planes(x), factor, _luminance), x)


def sharpness(x: Tensor, factor: Tensor) -> Tensor:
    """uint8 images between smoothed (factor 0) and as they are (1), and beyond: Pillow's
    `ImageEnhance.Sharpness` to the level.

    Smoothed: the mean of the 3 x 3 pixels around, the middle one counted 5 times, rounded; the
    image's border stays.
    """
    return _blended(x, factor, _smoothed)


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """uint8 images with only the upper `bits` of every value kept: integers [n] from 0 (black) to 8
    (as it is)."""
    kept_bits = (256 - (256 >> on_device(bits, x.device).to(torch.int32))).to(torch.uint8)
    return x & _each(kept_bits, x)


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """uint8 images with every value of at least `threshold` [n] inverted; 0: all, over 255:
    none."""
    start = on_device(threshold, x.device).to(torch.float64).ceil().clamp(0, 256).to(torch.int32)
    # In bytes, since comparisons are many times as slow: 255 where value > start - 1, and
    # everywhere where start is 0.
    below = _each(torch.where(start == 0, 255, start - 1).to(torch.uint8), x)
    everywhere = _each(torch.where(start == 0, 255, 0).to(torch.uint8), x)
    out = torch.maximum(x, below).sub_(below).clamp_(max=1).neg_()
    return out.bitwise_xor_(everywhere).bitwise_xor_(x)


def invert(x: Tensor) -> Tensor:
    """uint8 images with every value v as 255 - v."""
    return 255 - x


def autocontrast(x: Tensor) -> Tensor:
    """uint8 images, each channel stretched so that its darkest value is 0 and its lightest 255:
    Pillow's to the level."""
    low = (255 - _lightest(255 - x)).double()
    high = _lightest(x).double()
    flat = low == high  # of one value: stays as it is
    low = low.masked_fill_(flat, 0.0)
    high = high.masked_fill_(flat, 255.0)
    scale = torch.full_like(low, 255.0) / (
        high - low
    )  # a number over a tensor would become a product with its inverse
    # One product, then one sum, as Pillow has it: a single fused step would be rounded in another
    # way.
    tables = (
        (torch.arange(256, dtype=torch.float64, device=x.device) * scale)
        .add_(-low * scale)
        .clamp_(0, 255)
    )
    return _looked_up(x, tables.to(torch.int32).to(torch.uint8))


def equalize(x: Tensor) -> Tensor:
    """uint8 images, each channel's values spread so that all levels are about as frequent: Pillow's
    `ImageOps.equalize`."""
    out = torch.empty_like(x)
    pixels = x.shape[2] * x.shape[3]
    for chunk in parts(x):
        value_places = _places(x[chunk])
        shape = (len(value_places), x.shape[1], 256)
        # Whole numbers in double precision: divided many times as fast as integers, and exact.
        counts = _counts(_flat(value_places), shape[0] * shape[1] * 256).view(shape).double()
        lightest = counts.gather(2, _lightest(x[chunk]).long())
        step = ((pixels - lightest) / 255).floor_()
        flat = step == 0  # too few pixels apart from the lightest: stays as it is
        below = counts.cumsum(2).sub_(counts).add_((step / 2).floor_())
        tables = (
            below.div_(step.masked_fill_(flat, 1.0)).clamp_(max=255).to(torch.int32).to(torch.uint8)
        )
        tables = torch.where(flat, torch.arange(256, dtype=torch.uint8, device=x.device), tables)
        _take(tables, value_places, out[chunk])
    return out


def _each(values: Tensor, x: Tensor) -> Tensor:
    return on_device(values, x.device).view(-1, 1, 1, 1)


def _blended(x: Tensor, factor: Tensor, other_image: Callable[[Tensor], Tensor | None]) -> Tensor:
    """Pillow's blend, in its order of single-precision steps: other + factor * (image - other),
    cut, the fraction dropped."""
    out = torch.empty_like(x)
    share = _each(factor.to(torch.float32), x)
    for chunk in parts(x):
        mixed = x[chunk].to(torch.float32)
        ground = other_image(x[chunk])
        if ground is not None:
            mixed -= ground
        mixed *= share[chunk]
        if ground is not None:
            mixed += ground
        # Through int32: floats to bytes at once are converted one by one.
        out[chunk] = mixed.clamp_(0, 255).to(torch.int32)
    return out


def _luminance(x: Tensor) -> Tensor:
    """Pillow's luminance of uint8 images [n, c, h, w]: whole levels, float [n, 1, h, w]."""
    levels = planes(x).to(torch.float32)
    if x.shape[1] == 1:
        return levels
    # Sums of whole numbers below 2^24: exact, in any order.
    light = levels[:, 0:1] * 19595.0
    light.add_(levels[:, 1:2], alpha=38470.0).add_(levels[:, 2:3], alpha=7471.0).add_(32768.0)
    return light.mul_(2.0**-16).floor_()


def _mean_luminance(x: Tensor) -> Tensor:
    # The sum of a line is exact in single precision, that of an image is not.
    total = _luminance(x).sum(3).double().sum((1, 2))
    return _each((total / (x.shape[2] * x.shape[3]) + 0.5).floor().to(torch.float32), x)


def _smoothed(x: Tensor) -> Tensor:
    """Pillow's SMOOTH filter of uint8 images: whole levels, float, in the layout of `x`."""
    out = x.to(torch.float32)
    if min(x.shape[2:]) < 3:
        return out
    # Sums along the memory, whatever the line's end: they are wrong on the border only, which stays
    # as it is.
    across = x.shape[1] if is_channels_last(x) else 1
    down = across * x.shape[3]
    values = _flat(x).to(torch.int16)
    total = values[: -2 * across] + values[across:-across]
    total += values[2 * across :]
    around = total[: -2 * down] + total[down:-down]
    around += total[2 * down :]
    around.add_(values[across + down : -across - down], alpha=4)
    # Thirteenths are never halves: half of one keeps whole numbers clear of rounding.
    _flat(out)[across + down : -across - down] = (
        around.to(torch.float32).add_(6.5).mul_(1 / 13).floor_()
    )
    for border in (0, -1):
        out[:, :, border] = x[:, :, border]
        out[:, :, :, border] = x[:, :, :, border]
    return out


def _lightest(x: Tensor) -> Tensor:
    """The largest value in every channel of every image: uint8 [n, c, 1]."""
    # Halves against halves: reductions are many times as slow where the channels lie side by side.
    while x.shape[2] > 1 and is_channels_last(x):
        half = (x.shape[2] + 1) // 2
        x = torch.maximum(x[:, :, :half], x[:, :, -half:])
    return x.amax((2, 3))[:, :, None]


def _looked_up(x: Tensor, tables: Tensor) -> Tensor:
    """Every value replaced by its entry in the table of its sample and channel: `tables` uint8 [n,
    c, 256]."""
    out = torch.empty_like(x)
    for chunk in parts(x):
        _take(tables[chunk], _places(x[chunk]), out[chunk])
    return out


def _places(x: Tensor) -> Tensor:
    """For every value its place among 256 for each sample and channel: int32 in the layout of
    `x`."""
    n, channels = x.shape[:2]
    table_places = x.to(torch.int32)
    row = (
        torch.arange(n * channels, dtype=torch.int32, device=x.device)
        .mul_(256)
        .view(n, channels, 1, 1)
    )
    return table_places.add_(along_memory(row, x))


def _flat(x: Tensor) -> Tensor:
    return lines_of(x).reshape(-1)


def _counts(table_places: Tensor, size: int) -> Tensor:
    """How often each number below `size` occurs: whole numbers [size]."""
    if table_places.device.type == "cpu":
        return torch.bincount(table_places, minlength=size)
    # Another device would be asked for the largest one, and adds in whatever order its blocks end.
    ends = torch.searchsorted(
        table_places.sort().values,
        torch.arange(size + 1, dtype=table_places.dtype, device=table_places.device),
    )
    return ends.diff()


def _take(tables: Tensor, table_places: Tensor, out: Tensor) -> None:
    torch.index_select(tables.reshape(-1), 0, _flat(table_places), out=_flat(out))
