"""Drops of water or spots of mud on the lens, and the outlines and distances that shape the
drops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.transforms.corruptions.base import Corruption
from crosswind.transforms.corruptions.filters import ONE, smoothed
from crosswind.transforms.draws import bits16, normal_quantiles
from crosswind.transforms.layout import looked_up, on_device, parts, put_cut

# Mean and sd of the noise, what it is smoothed by, what is liquid of it, how strong or how smooth
# it is, whether it is mud.
SPATTER = (
    (
        (0.65, 0.3, 4.0, 0.69, 0.6, False),
        (0.65, 0.3, 3.0, 0.68, 0.6, False),
        (0.65, 0.3, 2.0, 0.68, 0.5, False),
        (0.65, 0.3, 1.0, 0.65, 1.5, True),
        (0.67, 0.4, 1.0, 0.65, 1.5, True),
    ),
    (
        (0.62, 0.1, 0.7, 0.7, 0.5, False),
        (0.65, 0.1, 0.8, 0.7, 0.5, False),
        (0.65, 0.3, 1.0, 0.69, 0.5, False),
        (0.65, 0.1, 0.7, 0.69, 0.6, True),
        (0.65, 0.1, 0.5, 0.68, 0.6, True),
    ),
)
WATER, MUD = (175, 238, 238), (63, 42, 20)
GREY = (0.2989, 0.587, 0.114)
UNIT = 1 << 15  # 1 of the noise in whole numbers
DISTANCE = 1 << 16  # of a pixel, in what `distances` gives
# One step along a line, one along a diagonal and one as a chess knight: Borgefors 1986, as OpenCV
# rounds them.
STRAIGHT, DIAGONAL, KNIGHT = DISTANCE, round(1.4 * DISTANCE), round(2.1969 * DISTANCE)
TANGENT = 13573  # of 22.5 degrees, times 2 to the 15th


@register("spatter", kind="transform")
@dataclass(frozen=True)
class Spatter(Corruption):
    """Turquoise drops of water (severity 1 to 3) or brown spots of mud (4 and 5).

    Smoothed normal noise above a threshold is liquid. Water is added with a relief: the distance
    from its outlines, sharpened and equalised, times the liquid, scaled to a largest value. Mud
    covers the image by the smoothed outline of the liquid, where that is at least 0.8. Mean and sd
    of the noise, sd of the smoothing, threshold, and water's largest value or the sd of mud's
    outline are, at severity 1 to 5 (`constants` imagenet): (.65, .3, 4, .69, .6), (.65, .3, 3, .68,
    .6), (.65, .3, 2, .68, .5), (.65, .3, 1, .65, 1.5), (.67, .4, 1, .65, 1.5); cifar: (.62, .1, .7,
    .7, .5), (.65, .1, .8, .7, .5), (.65, .3, 1, .69, .5), (.65, .1, .7, .69, .6), (.65, .1, .5,
    .68, .6). A grey image (1 channel) gets the liquid's luminance. Values are cut to whole grey
    levels downwards. Deviation: an image without liquid, where the original divides by zero, or
    with a side under two pixels stays as it is.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        _, _, height, width = x.shape
        if min(height, width) < 2:
            return x.clone()
        mean, sd, smooth, threshold, last, mud = self.constant(SPATTER, x)
        normal = on_device(normal_quantiles(sd * UNIT), x.device)
        out = torch.empty_like(x)
        for chunk in parts(x[:, :1], 0.5):
            drawn = bits16(keys[chunk], height * width, x.device).view(-1)
            noise = normal.index_select(0, drawn).add_(round(mean * UNIT))
            field = noise.view(-1, height, width)
            liquid = smoothed(field, smooth, "nearest", 4.0).mul_(1 / (ONE * UNIT))
            if mud:
                spots = liquid > threshold
                out[chunk] = _muddy(x[chunk], spots, last)
            else:
                wet = torch.empty(liquid.shape, dtype=torch.uint8, device=x.device)
                put_cut(liquid.mul_(liquid >= threshold).mul_(255).clamp_(0, 255), wet)
                _put_wet(x[chunk], wet, last, out[chunk])
        return out


def relief(liquid: Tensor) -> Tensor:
    """How bright drops are: float32 [n, h, w], whole numbers below 2**16. `liquid`: uint8 [n, h,
    w], 0 where there is none."""
    nearness = distances(edges(liquid, 50, 150), 20)
    # The mean of nine in floats as OpenCV has it, cut to whole pixels.
    nearness = (
        box_sums(reflected(nearness))
        .to(torch.float64)
        .mul_(1 / 9)
        .mul_(1 / DISTANCE)
        .to(torch.float32)
        .to(torch.int64)
    )
    even = reflected(equalised(nearness).to(torch.int16))  # what follows stays below 2 to the 15th

    def beside(rows: int, columns: int) -> Tensor:
        return even[
            :, 1 + rows : even.shape[1] - 1 + rows, 1 + columns : even.shape[2] - 1 + columns
        ]

    lit = (beside(0, 0) - beside(-1, 0) - beside(0, -1)).add_(beside(0, 1)).add_(beside(1, 0))
    lit.sub_(beside(-1, -1), alpha=2).add_(beside(1, 1), alpha=2).clamp_(0, 255)
    mean = box_sums(reflected(lit)).to(torch.float32).div_(9).round_()  # a ninth is never a half
    return mean.mul_(liquid)


def _colours(x: Tensor, colour: tuple[int, int, int]) -> tuple[float, ...]:
    """The liquid's level in each channel; its luminance in a grey image."""
    if x.shape[1] == 3:
        return colour
    return (sum(share * level for share, level in zip(GREY, colour, strict=True)),)


def _put_wet(x: Tensor, liquid: Tensor, strength: float, out: Tensor) -> None:
    light = relief(liquid)
    light /= light.amax((1, 2), keepdim=True).clamp_(min=1)
    # A product, then a sum, each rounded: no fused operation.
    for i, colour in enumerate(_colours(x, WATER)):
        levels = x[:, i].to(torch.float32)
        put_cut(levels.add_(light.mul(strength * colour)).clamp_(max=255), out[:, i])


def _muddy(x: Tensor, spots: Tensor, smooth: float) -> Tensor:
    cover = smoothed(spots, smooth, "nearest", 4.0)
    cover = cover.mul_(cover >= 0.8 * ONE).mul_((1 << 14) / ONE).round_().to(torch.int32)
    pixels = x.to(torch.int32)
    mud = torch.tensor(
        [round(colour * 256) for colour in _colours(x, MUD)], dtype=torch.int32, device=x.device
    )
    total = (mud.view(-1, 1, 1) - (pixels << 8)).mul_(cover[:, None]).add_(pixels << 22)
    return total.bitwise_right_shift_(22)


def reflected(x: Tensor) -> Tensor:
    """[n, h, w] with one more pixel on each side, the mirror image without its edge: [n, h + 2, w +
    2]; h, w at least 2."""
    n, height, width = x.shape
    out = x.new_empty(n, height + 2, width + 2)
    out[:, 1:-1, 1:-1] = x
    out[:, 0, 1:-1] = x[:, 1]
    out[:, -1, 1:-1] = x[:, -2]
    out[:, :, 0] = out[:, :, 2]
    out[:, :, -1] = out[:, :, -3]
    return out


def box_sums(x: Tensor) -> Tensor:
    """Sums over 3 x 3 neighbourhoods: [n, h, w] of [n, h + 2, w + 2], same dtype."""
    lines = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    return lines[:, :, :-2] + lines[:, :, 1:-1] + lines[:, :, 2:]


def edges(levels: Tensor, low: int, high: int) -> Tensor:
    """Canny's edges of uint8 [n, h, w]: bool [n, h, w].

    Slopes by Sobel's 3 x 3 filters with the edge continued; steepness |dx| + |dy|, thin along the
    slope in four directions; kept above `high`, and above `low` where connected to what is kept.
    The same pixels as OpenCV's Canny.
    """
    n, height, width = levels.shape
    # All in numbers of 16 bits, truth as all bits or none: comparisons are many times as slow.
    x = torch.empty(n, height + 2, width + 2, dtype=torch.int16, device=levels.device)
    x[:, 1:-1, 1:-1] = levels
    x[:, 0, 1:-1] = levels[:, 0]
    x[:, -1, 1:-1] = levels[:, -1]
    x[:, :, 0] = x[:, :, 1]
    x[:, :, -1] = x[:, :, -2]
    down = (x[:, :-2] + x[:, 2:]).add_(x[:, 1:-1], alpha=2)
    across = (x[:, :, :-2] + x[:, :, 2:]).add_(x[:, :, 1:-1], alpha=2)
    dx = down[:, :, 2:] - down[:, :, :-2]
    dy = across[:, 2:] - across[:, :-2]
    run = dx.abs()
    rise = dy.abs()
    steep = torch.zeros_like(x)
    middle = steep[:, 1:-1, 1:-1]
    torch.add(run, rise, out=middle)

    def above(rows: int, columns: int) -> Tensor:
        """Where the middle is steeper than the pixel beside it."""
        beside = steep[:, 1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]
        return (beside - middle).bitwise_right_shift_(15)

    shallow = run.to(torch.int32) * TANGENT
    scaled = rise.to(torch.int32) << 15
    level = (scaled - shallow).bitwise_right_shift_(31).to(torch.int16)
    shallow += run.to(torch.int32) << 16
    upright = (shallow - scaled).bitwise_right_shift_(31).to(torch.int16)
    falling = (dx ^ dy).bitwise_right_shift_(15)
    # At least as steep as the next one: that one is not steeper.
    along_row = above(0, -1) & (middle - steep[:, 1:-1, 2:]).bitwise_right_shift_(15).bitwise_not_()
    along_column = (
        above(-1, 0) & (middle - steep[:, 2:, 1:-1]).bitwise_right_shift_(15).bitwise_not_()
    )
    rising_left = above(-1, 1) & above(1, -1)
    rising_right = above(-1, -1) & above(1, 1)
    slanted = rising_right ^ ((rising_right ^ rising_left) & falling)
    thin = slanted ^ ((slanted ^ along_column) & upright)
    thin ^= (thin ^ along_row) & level
    thin &= (low - middle).bitwise_right_shift_(15)
    strong = thin & (high - middle).bitwise_right_shift_(15)
    return _connected(strong, thin)


def _connected(strong: Tensor, thin: Tensor) -> Tensor:
    """The pixels of `thin` that hang together with such as are `strong`, by sides or corners: bool
    [n, h, w]; both integers, 0 where there is nothing, all that is strong is thin."""
    n, height, width = thin.shape
    # A frame between images; nearly all is strong, so that only the few others are looked at.
    grown = np.zeros((n, height + 2, width + 2), bool)
    weak = np.zeros_like(grown)
    inner = (slice(None), slice(1, -1), slice(1, -1))
    grown[inner] = strong.cpu().numpy()
    weak[inner] = (thin ^ strong).cpu().numpy()
    flat = grown.reshape(-1)
    waiting = np.flatnonzero(weak)
    line = width + 2
    around = np.array([-line - 1, -line, -line + 1, -1, 1, line - 1, line, line + 1])
    while len(waiting):
        is_beside = flat[waiting[:, None] + around].any(1)
        if not is_beside.any():
            break
        flat[waiting[is_beside]] = True
        waiting = waiting[~is_beside]
    return on_device(np.ascontiguousarray(grown[inner]), thin.device)


def distances(marked: Tensor, furthest: int) -> Tensor:
    """How far each pixel is from the nearest marked one, `furthest` pixels at the furthest: int32
    [n, h, w], in 1/65536 of a pixel.

    `marked`: bool [n, h, w]. `furthest`: up to 24; further there are more lengths than a byte holds.
    Along paths of straight, diagonal and knight's steps: the same numbers as OpenCV's
    distanceTransform with DIST_L2 and a mask of 5.
    """
    height, width = marked.shape[1:]
    # Bytes: the numbers are below 64, and a processor takes four times as many of them at a time.
    distance_so_far = (1 - marked.to(torch.uint8)).mul_(furthest + 1)
    for step in (1, 2, 4, 8, 16):  # up and down the columns: doubling reaches 31 pixels
        before = distance_so_far + step
        if step < height:
            torch.minimum(
                distance_so_far[:, step:], before[:, :-step], out=distance_so_far[:, step:]
            )
            torch.minimum(
                distance_so_far[:, :-step], before[:, step:], out=distance_so_far[:, :-step]
            )
    # Of all lengths there are, a path has the rank: a byte, again. Between lines stand as many
    # pixels that nothing is near to as a look goes far, so that all of them are one line.
    ranks, lengths = _steps(furthest)
    n_lines = len(marked) * height
    columns = distance_so_far.new_full((furthest + n_lines * (width + furthest),), furthest + 1)
    columns[furthest:].view(n_lines, -1)[:, :width] = distance_so_far.view(n_lines, width)
    far = looked_up(columns, ranks[0])
    for off in range(1, min(furthest, width)):
        if int(far.max()) <= int(ranks[off, 0]):
            break
        # The nearest of a column is the nearest at all, among those as far to the left or right.
        beside = torch.minimum(columns[: -2 * off], columns[2 * off :])
        between = far[off:-off]
        torch.minimum(between, looked_up(beside, ranks[off]), out=between)
    index = far[furthest:].view(n_lines, -1)[:, :width].to(torch.int32).reshape(-1)
    return on_device(lengths, far.device).index_select(0, index).view(marked.shape)


@cache
def _steps(furthest: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The shortest path by columns and rows, `furthest` pixels at the furthest: uint8 [most, 256],
    the place of its length among all lengths, which come second."""
    shorter = np.arange(furthest)[:, None]
    low, high = np.sort(np.broadcast_arrays(shorter, np.arange(furthest + 2)), axis=0)
    straight = (high - 2 * low) * STRAIGHT + low * KNIGHT
    diagonal = (high - low) * KNIGHT + (2 * low - high) * DIAGONAL
    paths = np.where(2 * low <= high, straight, diagonal)
    paths[:, furthest + 1] = furthest * DISTANCE  # nothing marked in that column
    lengths, ranks_of_paths = np.unique(np.minimum(paths, furthest * DISTANCE), return_inverse=True)
    ranks = np.zeros((furthest, 256), np.uint8)
    ranks[:, : furthest + 2] = ranks_of_paths.reshape(paths.shape)
    return ranks, lengths.astype(np.int32)


def equalised(levels: Tensor) -> Tensor:
    """Levels made even in number: int32 [n, h, w] of levels below 256. The same numbers as OpenCV's
    equalizeHist."""
    n = len(levels)
    pixels = levels[0].numel()
    image = torch.arange(n, device=levels.device).view(n, 1, 1) * 256
    where = (levels + image).view(-1)
    counts = torch.bincount(where, minlength=n * 256).view(n, 256)
    total = counts.cumsum(1)
    lowest_value = (counts > 0).to(torch.uint8).argmax(1, keepdim=True)
    first = counts.gather(1, lowest_value)
    # Floats as there: one division, one product, halves to the even number.
    scale = torch.full_like(first, 255, dtype=torch.float32).div_((pixels - first).clamp_(min=1))
    table = (total - first).clamp_(min=0).to(torch.float32).mul_(scale).round_()
    even = first == pixels  # a single level stays
    table = torch.where(even, torch.arange(256, device=levels.device, dtype=torch.float32), table)
    return table.to(torch.int32).view(-1).index_select(0, where).view_as(levels)
