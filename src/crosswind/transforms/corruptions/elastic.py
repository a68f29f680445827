"""Elastic distortion: a random affine map, then a random smooth displacement of every pixel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.core.seeds import hash64
from crosswind.transforms.corruptions.base import Corruption
from crosswind.transforms.corruptions.filters import ONE, smoothed
from crosswind.transforms.draws import bits16
from crosswind.transforms.layout import on_device, parts

# How far pixels are moved, over how many pixels the displacement is smoothed, how far the corners
# of the affine map move: in sides.
WARP = (
    ((2.0, 0.7, 0.1), (2.0, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)),
    ((0.0, 0.0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
)
SLIP = 244 / 224  # the original wrote 244 where it meant the side of 224; its numbers are kept
FIELD = (
    21  # bits of a channel: three of them are one 64-bit word, and one multiplication serves all
)
PLACE_BITS = 8  # below a pixel


@register("elastic", kind="transform")
@dataclass(frozen=True)
class Elastic(Corruption):
    """A random affine map, then a random displacement that is smoothed by a normal density: two
    bilinear resamplings.

    The unit is the image's shorter side. The displacement of a pixel is uniform in [-1, 1],
    smoothed with a standard deviation of 0.7, 0.08, 0.01, 0.01 or 0.01, times 2, 2, 0.05, 0.07 or
    0.12. Three points of the affine map move by a uniform number of up to 0.1, 0.2, 0.02, 0.02 or
    0.02 at severity 1 to 5 (`constants` imagenet; all of it times 244 / 224, as in the original).
    For cifar the three are (0, 0, 0.08), (0.2, 0.05, 0.07), (0.06, 0.08, 0.06), (0.04, 0.1, 0.05),
    (0.03, 0.1, 0.03). Beyond the edges the image is mirrored; one with a side under three pixels
    stays as it is. Places are whole numbers of 1/256 pixel, values between the resamplings of 1/8
    of a grey level; the result is cut to whole levels downwards.
    Deviations: in images that are not square the original mixes up the two coordinates of the
    affine map's centre; here it is the middle. The PyPI package imagecorruptions leaves the affine
    map out and has other constants.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019; Simard, Steinkraus and Platt, Best Practices for
    Convolutional Neural Networks, ICDAR 2003.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        _, channels, height, width = x.shape
        if min(height, width) < 3:
            return x.clone()
        unit = min(height, width) * (1.0 if self._is_small(x) else SLIP)
        far, smooth, corner = (share * unit for share in self.constant(WARP, x))
        out = torch.empty_like(x)
        for chunk in parts(x[:, :1], 5):
            maps = affine_maps(keys[chunk], height, width, corner)
            packed = _resampled(_pack(x[chunk]), *_affine_places(maps, height, width, x.device))
            if far:
                # To 1/8 of a grey level: room for the weights of the second resampling. 1/64 makes
                # up for what was cut.
                number = (1 << 9) + (1 << 7)
                packed.add_(_in_each(number)).bitwise_right_shift_(10).bitwise_and_(
                    _in_each((1 << 11) - 1)
                )
                packed = _resampled(
                    packed, *_displaced_places(keys[chunk], height, width, far, smooth, x.device)
                )
            for channel in range(channels):
                out[chunk, channel] = (packed >> (FIELD * channel + 13)).to(
                    torch.uint8
                )  # the lowest 8 bits
        return out


def affine_maps(
    keys: NDArray[np.uint64], height: int, width: int, corner: float
) -> NDArray[np.float64]:
    """Where each output pixel (x, y, 1) comes from: float64 [n, 2, 3].

    Three points, a third of the shorter side from the middle, move by uniform numbers in [-corner,
    corner]; the map takes the moved points back. Three points nearly in a line would have none:
    their determinant is kept away from 0.
    """
    draws = bits16(hash64(keys, 1), 6).numpy()
    moved = ((2 * draws - 65535) / 65536 * corner).reshape(-1, 3, 2)
    middle = np.array([width // 2, height // 2], dtype=np.float64)
    third = min(height, width) // 3
    points = middle + np.array([[third, third], [third, -third], [-third, -third]])
    moved += points
    ax, ay = (moved[:, 0] - moved[:, 2]).T
    bx, by = (moved[:, 1] - moved[:, 2]).T
    px, py = points[0] - points[2]
    qx, qy = points[1] - points[2]
    area = ax * by - ay * bx
    area = np.where(area < 0, -1.0, 1.0) * np.maximum(np.abs(area), 1.0)
    maps = np.empty((len(keys), 2, 3))
    maps[:, 0, 0] = (px * by - qx * ay) / area
    maps[:, 0, 1] = (qx * ax - px * bx) / area
    maps[:, 1, 0] = (py * by - qy * ay) / area
    maps[:, 1, 1] = (qy * ax - py * bx) / area
    for row in (0, 1):
        moved_along = maps[:, row, 0] * moved[:, 2, 0] + maps[:, row, 1] * moved[:, 2, 1]
        maps[:, row, 2] = points[2, row] - moved_along
    return maps


def _affine_places(
    maps: NDArray[np.float64], height: int, width: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Rows and columns that pixels come from, in 1/256: two int32 [n, h, w], mirrored at the
    middles of the outermost pixels."""
    positions = []
    for row, side in ((1, height), (0, width)):
        along = maps[:, row, :1] * np.arange(width) + maps[:, row, 2:]
        down = maps[:, row, 1:2] * np.arange(height)
        # In 1/1024 first: the two are rounded one by one. A map that goes further than half a
        # million pixels ends there.
        first = np.rint(along * 1024).clip(-(2**29), 2**29).astype(np.int32)
        second = np.rint(down * 1024).clip(-(2**29), 2**29).astype(np.int32)
        total = on_device(first, device)[:, None] + on_device(second, device)[:, :, None]
        total.add_(2).bitwise_right_shift_(2)
        end = (side - 1) << PLACE_BITS
        if np.abs(first).max() + np.abs(second).max() >= 4 * 2 * end:
            total.remainder_(2 * end)  # mirrored more than once
        positions.append(torch.minimum(total.abs_(), 2 * end - total))
    return positions[0], positions[1]


def _displaced_places(
    keys: NDArray[np.uint64],
    height: int,
    width: int,
    far: float,
    smooth: float,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """The same for pixels that are displaced by smoothed noise of `far` pixels, mirrored at the
    image's edges, once."""
    count = 2 * height * width
    noise = bits16(hash64(keys, 2), count, device).view(-1, 2, height, width)
    field = noise.mul_(2).sub_(65535)
    moves = (
        smoothed(field, smooth, "reflect", 3.0)
        .mul_(far * 256 / (65536 * ONE))
        .round_()
        .to(torch.int32)
    )
    positions = []
    for axis, side in enumerate((height, width)):
        grid = (torch.arange(side, dtype=torch.int32, device=device) << PLACE_BITS) + 128
        coordinate = (moves[:, axis] + (grid[:, None] if axis == 0 else grid)).abs_()
        nearest = torch.minimum(coordinate, 512 * side - coordinate)
        positions.append(nearest.sub_(128).clamp_(0, (side - 1) << PLACE_BITS))
    return positions[0], positions[1]


def _pack(x: Tensor) -> Tensor:
    """The channels of uint8 [n, c, h, w] in one word, each in 1/8 of a level: int64 [n, h, w]."""
    packed = x[:, 0].to(torch.int64)
    for channel in range(1, x.shape[1]):
        alpha = 1 << FIELD * channel
        packed.add_(x[:, channel], alpha=alpha)
    return packed.bitwise_left_shift_(3)


def _in_each(number: int) -> int:
    return number | number << FIELD | number << 2 * FIELD


def _resampled(packed: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Bilinear values at places inside the image, two int32 [n, h, w] in 1/256: int64 [n, h, w],
    channels in 1/8192 of a level.

    `packed`: int64 [n, h, w] as by `_pack`. A linear sum of packed words is the packed linear sum,
    as long as no field overflows.
    """
    n, height, width = packed.shape
    # The last place in a line lies a whole pixel behind the last but one, so that there always is a
    # pixel behind.
    row = (y >> PLACE_BITS).clamp_(max=height - 2)
    column = (x >> PLACE_BITS).clamp_(max=width - 2)
    down = y.sub_(row << PLACE_BITS).to(torch.int64)
    across = x.sub_(column << PLACE_BITS).to(torch.int64)
    row += torch.arange(0, n * height, height, dtype=torch.int32, device=packed.device).view(
        n, 1, 1
    )
    index = row.mul_(width).add_(column).view(-1)
    pixels = packed.reshape(-1)

    def line(start: int) -> Tensor:
        first, second = (
            pixels[start + step :].index_select(0, index).view_as(packed) for step in (0, 1)
        )
        second.sub_(first).mul_(across).add_(first, alpha=256)
        # 19 bits to 13, cut downwards by 1/64 of a level in the mean: the other line's weights need
        # eight.
        return second.bitwise_right_shift_(6).bitwise_and_(_in_each((1 << 13) - 1))

    above = line(0)
    below = line(width)
    return below.sub_(above).mul_(down).add_(above, alpha=256)
