"""Outlines of shapes and distances to them, in whole numbers: what the water of `spatter` is shaped by."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from crosswind.transforms.layout import on_device

__all__ = ["DISTANCE", "box_sums", "distances", "edges", "equalised", "reflected"]

DISTANCE = 1 << 16  # of a pixel, in what `distances` gives
# One step along a line, one along a diagonal and one as a chess knight: Borgefors 1986, as OpenCV rounds them.
STRAIGHT, DIAGONAL, KNIGHT = DISTANCE, round(1.4 * DISTANCE), round(2.1969 * DISTANCE)
TANGENT = 13573  # of 22.5 degrees, times 2 to the 15th


def reflected(x: Tensor) -> Tensor:
    """[n, h, w] with one more pixel on each side, the mirror image without its edge: [n, h + 2, w + 2]; h, w at least 2."""
    for side in (1, 2):
        size = x.shape[side]
        x = x.index_select(side, on_device(torch.tensor([1, *range(size), size - 2]), x.device))
    return x


def box_sums(x: Tensor) -> Tensor:
    """Sums over 3 x 3 neighbourhoods: [n, h, w] of [n, h + 2, w + 2], same dtype."""
    lines = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    return lines[:, :, :-2] + lines[:, :, 1:-1] + lines[:, :, 2:]


def edges(levels: Tensor, low: int, high: int) -> Tensor:
    """Canny's edges of uint8 [n, h, w]: bool [n, h, w].

    Slopes by Sobel's 3 x 3 filters with the edge continued; steepness |dx| + |dy|, thin along the slope in four directions; kept
    above `high`, and above `low` where connected to what is kept. The same pixels as OpenCV's Canny.
    """
    n, height, width = levels.shape
    x = levels.to(torch.int32)
    x = torch.cat([x[:, :1], x, x[:, -1:]], 1)
    x = torch.cat([x[:, :, :1], x, x[:, :, -1:]], 2)
    down = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
    across = x[:, :, :-2] + 2 * x[:, :, 1:-1] + x[:, :, 2:]
    dx, dy = down[:, :, 2:] - down[:, :, :-2], across[:, 2:] - across[:, :-2]
    run, rise = dx.abs(), dy.abs()
    steep = torch.zeros(n, height + 2, width + 2, dtype=torch.int32, device=x.device)
    middle = steep[:, 1:-1, 1:-1]
    middle += run
    middle += rise

    def beside(rows: int, columns: int) -> Tensor:
        return steep[:, 1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]

    shallow, scaled = run * TANGENT, rise << 15
    level, upright = scaled < shallow, scaled > shallow + (run << 16)
    falling = (dx ^ dy) < 0
    along_row = (middle > beside(0, -1)) & (middle >= beside(0, 1))
    along_column = (middle > beside(-1, 0)) & (middle >= beside(1, 0))
    slanted = torch.where(
        falling,
        (middle > beside(-1, 1)) & (middle > beside(1, -1)),
        (middle > beside(-1, -1)) & (middle > beside(1, 1)),
    )
    thin = torch.where(level, along_row, torch.where(upright, along_column, slanted)) & (middle > low)
    return _connected(thin & (middle > high), thin)


def _connected(kept: Tensor, thin: Tensor) -> Tensor:
    while True:
        # As many rounds as the batch needs; an image that is done does not change in more of them.
        wide = kept.clone()
        wide[:, 1:] |= kept[:, :-1]
        wide[:, :-1] |= kept[:, 1:]
        grown = wide.clone()
        grown[:, :, 1:] |= wide[:, :, :-1]
        grown[:, :, :-1] |= wide[:, :, 1:]
        grown &= thin
        if torch.equal(grown, kept):
            return kept
        kept = grown


def distances(marked: Tensor, most: int) -> Tensor:
    """How far each pixel is from the nearest marked one, `most` pixels at the furthest: int32 [n, h, w], in 1/65536 of a pixel.

    `marked`: bool [n, h, w]. `most`: up to 30. Along paths of straight, diagonal and knight's steps: the same numbers as OpenCV's
    distanceTransform with DIST_L2 and a mask of 5.
    """
    height, width = marked.shape[1:]
    near = torch.where(marked, 0, most + 1).to(torch.int32)
    for step in (1, 2, 4, 8, 16):  # up and down the columns: doubling reaches 31 pixels
        before = near.clone()
        if step < height:
            near[:, step:] = torch.minimum(near[:, step:], before[:, :-step] + step)
            near[:, :-step] = torch.minimum(near[:, :-step], before[:, step:] + step)
    table = _steps(most).to(marked.device)
    far = table[0].index_select(0, near.view(-1)).view_as(near)
    for off in range(1, min(most, width)):
        if int(far.max()) <= off * STRAIGHT:
            break
        # The nearest of a column is the nearest at all, among those as far to the left or right.
        beside = torch.full_like(near, most + 1)
        beside[:, :, off:] = near[:, :, :-off]
        beside[:, :, :-off] = torch.minimum(beside[:, :, :-off], near[:, :, off:])
        far = torch.minimum(far, table[off].index_select(0, beside.view(-1)).view_as(near))
    return far


@cache
def _steps(most: int) -> Tensor:
    """The length of the shortest path by columns and rows, `most` pixels at the furthest: int32 [most, most + 2]."""
    low, high = np.sort(np.broadcast_arrays(np.arange(most)[:, None], np.arange(most + 2)), axis=0)
    paths = np.where(
        2 * low <= high, (high - 2 * low) * STRAIGHT + low * KNIGHT, (high - low) * KNIGHT + (2 * low - high) * DIAGONAL
    )
    paths[:, most + 1] = most * DISTANCE  # nothing marked in that column
    return torch.from_numpy(np.minimum(paths, most * DISTANCE).astype(np.int32))


def equalised(levels: Tensor) -> Tensor:
    """Levels made even in number: int32 [n, h, w] of levels below 256. The same numbers as OpenCV's equalizeHist."""
    n, pixels = len(levels), levels[0].numel()
    image = torch.arange(n, device=levels.device).view(n, 1, 1) * 256
    where = (levels + image).view(-1)
    counts = torch.bincount(where, minlength=n * 256).view(n, 256)
    total = counts.cumsum(1)
    first = counts.gather(1, (counts > 0).to(torch.uint8).argmax(1, keepdim=True))
    # Floats as there: one division, one product, halves to the even number.
    scale = torch.full_like(first, 255, dtype=torch.float32).div_((pixels - first).clamp_(min=1))
    table = (total - first).clamp_(min=0).to(torch.float32).mul_(scale).round_()
    even = first == pixels  # a single level stays
    table = torch.where(even, torch.arange(256, device=levels.device, dtype=torch.float32), table)
    return table.to(torch.int32).view(-1).index_select(0, where).view_as(levels)
