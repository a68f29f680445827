"""Blur as by ribbed glass: pixels shuffled by maps of which pixel comes from where."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.core.seeds import hash64, seed_of
from crosswind.transforms.corruptions.base import Corruption
from crosswind.transforms.corruptions.filters import gaussian_smooth
from crosswind.transforms.draws import bits16
from crosswind.transforms.layout import on_device

# sd of the smoothing, reach of a look, passes
GLASS = (
    ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
)
BANK = 256  # maps of a size and severity
MEMORY = 128 << 20  # bytes that all kept maps may take, five severities at 224 pixels; the kinds used longest ago go first

_banks: OrderedDict[tuple[int, int, int, int], dict[int, NDArray[np.unsignedinteger]]] = OrderedDict()


@register("glass-blur", kind="transform")
@dataclass(frozen=True)
class GlassBlur(Corruption):
    """As through frosted glass: smoothed, pixels replaced by near ones, smoothed again.

    The smoothing has a standard deviation of 0.7, 0.9, 1, 1.1 or 1.5 pixels at severity 1 to 5, a pixel shows one up to 1, 2, 2, 3
    or 4 away, in 2, 1, 3, 2 or 2 passes; with `constants` cifar 0.05, 0.25, 0.4, 0.25, 0.4 pixels, 1 away, 1, 1, 1, 2, 2 passes.
    Pixels are copied, not swapped, as in the original (`glass_map`), by one of 256 maps of a size and severity, which the sample's
    key chooses. Values are cut to whole grey levels downwards, twice.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        n, channels, height, width = x.shape
        sd, reach, times = self.constant(GLASS, x)
        numbers = (hash64(np.asarray(keys), 0) % np.uint64(BANK)).astype(np.int64)
        maps = on_device(glass_maps(height, width, reach, times, numbers), x.device)
        smooth = gaussian_smooth(x, sd).view(n, channels, -1)
        shuffled = smooth.gather(2, maps.view(n, 1, -1).expand(n, channels, -1))
        return gaussian_smooth(shuffled.view(x.shape), sd)


def glass_choices(height: int, width: int, reach: int, times: int, number: int) -> NDArray[np.int64]:
    """Where each pixel looks at each pass: int64 [times, height, width, 2], down and right, uniform in [-reach, reach)."""
    key = np.array([seed_of(0, "glass", height, width, reach, times, number)], dtype=np.uint64)
    side = 2 * reach
    drawn = bits16(key, times * height * width)[0].numpy().astype(np.int64).reshape(times, height, width)
    return np.stack(np.divmod(drawn * side * side >> 16, side), -1) - reach


def glass_map(height: int, width: int, reach: int, times: int, number: int) -> NDArray[np.int64]:
    """Map `number` of the bank: int64 [height x width], for each pixel the pixel that it shows.

    Pass after pass, from the lower right to the upper left, each pixel more than `reach` inside the edges becomes a *copy* of one
    that lies up to `reach` away: the original's `x[a], x[b] = x[b], x[a]` copies, since a row of an array is a view, which the
    first assignment has changed when the second reads it. A pixel not yet visited in this pass gives what it had before, another
    what it has become. So each pixel ends a chain of looks, found here by doubling.
    """
    pixels = np.arange(height * width).reshape(height, width)
    shown = pixels.ravel()
    # The original's ranges: from side - reach down to reach + 1.
    rows, columns = slice(reach + 1, height - reach + 1), slice(reach + 1, width - reach + 1)
    for moves in glass_choices(height, width, reach, times, number):
        looks = pixels.copy()
        looks[rows, columns] += (moves[..., 0] * width + moves[..., 1])[rows, columns]
        target = looks.ravel()
        # A later row, or further right in the same row, was visited before in this pass: there the look goes on.
        ahead = np.where(target > pixels.ravel(), target, pixels.ravel())
        while True:
            further = ahead[ahead]
            if np.array_equal(further, ahead):
                break
            ahead = further
        shown = shown[target[ahead]]
    return shown


def glass_maps(height: int, width: int, reach: int, times: int, numbers: NDArray[np.integer]) -> Tensor:
    """The maps of these numbers: int64 [n, height x width]. A map is made when first asked for, and kept while there is room."""
    key = (height, width, reach, times)
    bank = _banks.setdefault(key, {})
    _banks.move_to_end(key)
    kind = np.uint16 if height * width <= 1 << 16 else np.uint32
    out = np.empty((len(numbers), height * width), np.int64)
    for place, number in enumerate(numbers.tolist()):
        if number not in bank:
            bank[number] = glass_map(height, width, reach, times, number).astype(kind)
        out[place] = bank[number]
    held = [len(kept) * sizes[0] * sizes[1] * (2 if sizes[0] * sizes[1] <= 1 << 16 else 4) for sizes, kept in _banks.items()]
    while sum(held) > MEMORY:
        held.pop(0)
        _banks.popitem(last=False)
    return torch.from_numpy(out)
