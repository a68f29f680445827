"""Blurred images: smoothed, out of focus, zoomed, behind glass, moved."""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.core.seeds import hash64, seed_of
from crosswind.transforms.corruptions.base import Corruption, FixedCorruption
from crosswind.transforms.corruptions.filters import (
    CORRELATE_BITS,
    correlate,
    gaussian_smooth,
    in_steps,
)
from crosswind.transforms.draws import bits16, uniforms
from crosswind.transforms.layout import on_device

GAUSSIAN = ((1.0, 2.0, 3.0, 4.0, 6.0), (0.4, 0.6, 0.7, 0.8, 1.0))
# radius of the disk, sd of its smoothing
DEFOCUS = (
    ((3.0, 0.1), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5), (10.0, 0.5)),
    ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)),
)
# where the zoom factors end (numpy's arange), and their distance
ZOOM = (
    ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
)
ZOOM_BITS = 40
ZOOM_COLUMNS = 48  # planes at a time
# sd of the smoothing, reach of a look, passes
GLASS = (
    ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
)
BANK = 256  # maps of a size and severity
MEMORY = (
    128 << 20
)  # bytes that all kept maps may take, five severities at 224 pixels; the kinds used longest ago go first
_banks: OrderedDict[tuple[int, int, int, int], dict[int, NDArray[np.unsignedinteger]]] = (
    OrderedDict()
)
# radius, sd along the line
MOTION = (
    ((10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0)),
    ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)),
)
ANGLE = 45.0
SMEAR_BITS = 22  # of a weight: 255 times their sum fits 31 bits
SMEARED = 1 << 19  # numbers at a time: what is added again and again stays in the cache


@register("gaussian-blur", kind="transform")
@dataclass(frozen=True)
class GaussianBlur(FixedCorruption):
    """Smoothed by a normal density whose standard deviation in pixels is 1, 2, 3, 4 or 6 at
    severity 1 to 5, edges continued.

    0.4, 0.6, 0.7, 0.8 or 1 with `constants` cifar. Nothing is random. Values are cut to whole grey
    levels downwards. A constant image stays as it is; in the original some levels fall by one,
    where a float is just short of a whole number.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    by_planes = False

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        return gaussian_smooth(x, self.constant(GAUSSIAN, x))


@register("defocus-blur", kind="transform")
@dataclass(frozen=True)
class DefocusBlur(FixedCorruption):
    """Out of focus: every point becomes a disk of radius 3, 4, 6, 8 or 10 pixels at severity 1 to
    5, edges mirrored.

    The disk's rim is smoothed by a standard deviation of 0.1, then 0.5. With `constants` cifar the
    radii are 0.3, 0.4, 0.5, 1, 1.5, smoothed by 0.4, 0.5, 0.6, 0.2, 0.1. Nothing is random. As in
    the original, severities 4 and 5 of imagenet also brighten by 1% (`disk`). Values are cut to
    whole grey levels downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        kernel = disk(*self.constant(DEFOCUS, x))
        return correlate(x, kernel)


@register("zoom-blur", kind="transform")
@dataclass(frozen=True)
class ZoomBlur(FixedCorruption):
    """Zoomed while the shutter was open: the mean of the image and its enlargements by a row of
    factors from 1.

    The factors go up to 1.11, 1.15, 1.2, 1.24 or 1.3 at severity 1 to 5 by 0.01, 0.01, 0.02, 0.02,
    0.03; with `constants` cifar up to 1.06, 1.11, 1.15, 1.2 or 1.25 by 0.01 (numpy's arange to
    1.11, 1.16, 1.21, 1.26, 1.31 and 1.06 to 1.26, whose rounding takes some ends in). The image
    counts twice, since 1 is among the factors. Nothing is random. Values are cut to whole grey
    levels downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        # Every output is a weighted sum of few inputs, the same for all images: one sparse matrix;
        # exact, see `filters`.
        n, channels, height, width = x.shape
        matrix = _zoom_matrix(height, width, *self.constant(ZOOM, x), str(x.device))
        lines = x.view(n * channels, height * width)
        out = torch.empty_like(lines)
        for start in range(0, len(lines), ZOOM_COLUMNS):
            line_chunk = (
                lines[start : start + ZOOM_COLUMNS]
                .t()
                .to(torch.float64, memory_format=torch.contiguous_format)
            )
            out[start : start + ZOOM_COLUMNS] = (matrix @ line_chunk).to(torch.uint8).t()
        return out.view(x.shape)


@cache
def disk(radius: float, sd: float) -> NDArray[np.float64]:
    """A disk of pixels, its rim smoothed: float64 [2 r + 1, 2 r + 1], without lines of zeros, in
    steps of 2**-30.

    The pixels whose centres are at most `radius` from the middle, on a square of at least 17 pixels
    a side. They are smoothed by 3 x 3 weights (5 x 5 for a radius above 8) of a normal density of
    `sd`, mirrored at the edge of the square. The sum is 1, but for disks that reach the edge:
    1.0130 for radius 8, 1.0108 for radius 10, as in the original, which so brightens images a
    little.
    """
    reach = max(8, math.ceil(radius))
    half = 1 if radius <= 8 else 2
    coordinate = np.arange(-reach, reach + 1)
    flat = (coordinate[:, None] ** 2 + coordinate**2 <= radius**2).astype(np.float64)
    flat /= flat.sum()
    weights = np.exp(-(np.arange(-half, half + 1) ** 2) / (2 * sd**2))
    weights /= weights.sum()
    for _ in range(2):
        wide = np.pad(flat, ((half, half), (0, 0)), mode="reflect")
        flat = sum(
            weight * wide[line : line + len(coordinate)] for line, weight in enumerate(weights)
        ).T
    # What is less than 2**-30 would move no image by a grey level.
    used = int(np.abs(coordinate[(flat > 2.0**-30).any(1)]).max())
    flat = flat[reach - used : reach + used + 1, reach - used : reach + used + 1]
    return in_steps(flat.reshape(1, -1), CORRELATE_BITS).reshape(flat.shape)


def zoom_line(size: int, factor: float) -> NDArray[np.float64]:
    """Which pixels of a line show in each of the `size` pixels of its enlargement: float64 [size,
    size], output by input.

    The middle ceil(size / factor) pixels, enlarged by `factor`, then cut at the end to `size`:
    scipy.ndimage.zoom of order 1. The first and last pixels of the linear interpolation are those
    of what was kept.
    """
    n_source = math.ceil(size / factor)
    if n_source == 1:
        return np.eye(size)[[(size - 1) // 2] * size]
    first = (size - n_source) // 2
    large = round(n_source * factor)
    source_place = np.arange(size) * ((n_source - 1) / (large - 1))
    lower = np.minimum(source_place.astype(np.int64), n_source - 1)
    share = np.minimum(source_place, n_source - 1) - lower
    matrix = np.zeros((size, size))
    np.add.at(matrix, (np.arange(size), first + lower), 1 - share)
    np.add.at(matrix, (np.arange(size), first + np.minimum(lower + 1, n_source - 1)), share)
    return matrix


@lru_cache(maxsize=6)  # up to 20 MB each at 256 pixels
def _zoom_matrix(height: int, width: int, end: float, step: float, device: str) -> Tensor:
    from scipy import sparse

    factors = np.arange(1, end, step)
    total = sparse.identity(height * width, format="csr")
    for factor in factors:
        total = total + sparse.kron(
            sparse.csr_matrix(zoom_line(height, factor)),
            sparse.csr_matrix(zoom_line(width, factor)),
            "csr",
        )
    total = (total / (len(factors) + 1)).tocsr()
    # In whole steps, what is left over to the first weight of each line, so that a constant image
    # stays as it is.
    steps = np.rint(total.data * 2.0**ZOOM_BITS)
    starts_of_rows = total.indptr[:-1]
    steps[starts_of_rows] += 2.0**ZOOM_BITS - np.add.reduceat(steps, starts_of_rows)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore",
            "Sparse (CSR tensor support is in beta|invariant checks are implicitly disabled)",
            UserWarning,
        )
        lines = torch.from_numpy(total.indptr.astype(np.int64))
        columns = torch.from_numpy(total.indices.astype(np.int64))
        values = torch.from_numpy(steps * 2.0**-ZOOM_BITS)
        return torch.sparse_csr_tensor(
            lines, columns, values, size=total.shape, device=device, check_invariants=False
        )


@register("glass-blur", kind="transform")
@dataclass(frozen=True)
class GlassBlur(Corruption):
    """As through frosted glass: smoothed, pixels replaced by near ones, smoothed again.

    The smoothing has a standard deviation of 0.7, 0.9, 1, 1.1 or 1.5 pixels at severity 1 to 5, a
    pixel shows one up to 1, 2, 2, 3 or 4 away, in 2, 1, 3, 2 or 2 passes; with `constants` cifar
    0.05, 0.25, 0.4, 0.25, 0.4 pixels, 1 away, 1, 1, 1, 2, 2 passes. Pixels are copied, not swapped,
    as in the original (`glass_map`), by one of 256 maps of a size and severity, which the sample's
    key chooses. Values are cut to whole grey levels downwards, twice.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        n, channels, height, width = x.shape
        sd, reach, times = self.constant(GLASS, x)
        ids = np.asarray(keys)
        numbers = (hash64(ids, 0) % np.uint64(BANK)).astype(np.int64)
        maps = on_device(glass_maps(height, width, reach, times, numbers), x.device)
        smooth = gaussian_smooth(x, sd).view(n, channels, -1)
        shuffled_positions = maps.view(n, 1, -1).expand(n, channels, -1)
        shuffled = smooth.gather(2, shuffled_positions)
        return gaussian_smooth(shuffled.view(x.shape), sd)


def glass_choices(
    height: int, width: int, reach: int, times: int, number: int
) -> NDArray[np.int64]:
    """Where each pixel looks at each pass: int64 [times, height, width, 2], down and right, uniform
    in [-reach, reach)."""
    key = np.array([seed_of(0, "glass", height, width, reach, times, number)], dtype=np.uint64)
    side = 2 * reach
    drawn = (
        bits16(key, times * height * width)[0]
        .numpy()
        .astype(np.int64)
        .reshape(times, height, width)
    )
    return np.stack(np.divmod(drawn * side * side >> 16, side), -1) - reach


def glass_map(height: int, width: int, reach: int, times: int, number: int) -> NDArray[np.int64]:
    """Map `number` of the bank: int64 [height x width], for each pixel the pixel that it shows.

    Pass after pass, from the lower right to the upper left, each pixel more than `reach` inside the
    edges becomes a *copy* of one that lies up to `reach` away. The original's `x[a], x[b] = x[b],
    x[a]` copies, since a row of an array is a view, which the first assignment has changed when the
    second reads it. A pixel not yet visited in this pass gives what it had before, another what it
    has become. So each pixel ends a chain of looks, found here by doubling.
    """
    pixels = np.arange(height * width).reshape(height, width)
    shown = pixels.ravel()
    # The original's ranges: from side - reach down to reach + 1.
    rows = slice(reach + 1, height - reach + 1)
    columns = slice(reach + 1, width - reach + 1)
    for moves in glass_choices(height, width, reach, times, number):
        looks = pixels.copy()
        steps = moves[..., 0] * width + moves[..., 1]
        looks[rows, columns] += steps[rows, columns]
        target = looks.ravel()
        # A later row, or further right in the same row, was visited before in this pass: there the
        # look goes on.
        ahead = np.where(target > pixels.ravel(), target, pixels.ravel())
        while True:
            further = ahead[ahead]
            if np.array_equal(further, ahead):
                break
            ahead = further
        shown = shown[target[ahead]]
    return shown


def glass_maps(
    height: int, width: int, reach: int, times: int, numbers: NDArray[np.integer]
) -> Tensor:
    """The maps of these numbers: int64 [n, height x width]. A map is made when first asked for, and
    kept while there is room."""
    key = (height, width, reach, times)
    bank = _banks.setdefault(key, {})
    _banks.move_to_end(key)
    kind = np.uint16 if height * width <= 1 << 16 else np.uint32
    out = np.empty((len(numbers), height * width), np.int64)
    for position, number in enumerate(numbers.tolist()):
        if number not in bank:
            bank[number] = glass_map(height, width, reach, times, number).astype(kind)
        out[position] = bank[number]
    bytes_held = []
    for sizes, maps_kept in _banks.items():
        n_pixels = sizes[0] * sizes[1]
        bytes_of_number = 2 if n_pixels <= 1 << 16 else 4
        bytes_held.append(len(maps_kept) * n_pixels * bytes_of_number)
    while sum(bytes_held) > MEMORY:
        bytes_held.pop(0)
        _banks.popitem(last=False)
    return torch.from_numpy(out)


@register("motion-blur", kind="transform")
@dataclass(frozen=True)
class MotionBlur(Corruption):
    """Moved while the shutter was open: smeared along a line whose angle is uniform in [-45, 45]
    degrees, drawn for each sample.

    The line has 2 r + 1 places, r 10, 15, 15, 15 or 20 at severity 1 to 5, weighted by half a
    normal density whose standard deviation is 3, 5, 8, 12 or 15 pixels; with `constants` cifar 6,
    6, 6, 8, 9 and 1, 1.5, 2, 2, 2.5. Edges are continued, and the angle is one of 65,536.
    ImageNet-C called ImageMagick; line, places and weights are as in the `imagecorruptions`
    package, which follows ImageMagick's source. Values are cut to whole grey levels downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        radius, sd = self.constant(MOTION, x)
        angles = (uniforms(keys, 1)[:, 0].numpy().astype(np.float64) * 2 - 1) * ANGLE
        paths = motion_paths(angles, radius)
        weights = motion_weights(radius, sd)
        return smear(x, paths, weights)


def motion_weights(radius: int, sd: float) -> NDArray[np.float64]:
    """How much each of the 2 `radius` + 1 places along the line counts: half a normal density, sum
    1: float64 [2 radius + 1]."""
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sd**2))
    return weights / weights.sum()


def motion_paths(angles: NDArray[np.float64], radius: int) -> NDArray[np.int64]:
    """Where along the line each picture is looked up: int64 [n, 2 radius + 1, 2], down and to the
    right of a pixel.

    `angles` [n], degrees. Place i is i pixels along the line, rounded to whole ones, halves
    downwards, as ImageMagick's MotionBlur does.
    """
    turned = np.deg2rad(np.asarray(angles, np.float64))
    along = np.arange(2 * radius + 1)[None, :, None]
    line = np.stack([np.sin(turned), np.cos(turned)], -1)[:, None, :]
    return np.ceil(along * line - 0.5).astype(np.int64)


def smear(
    x: Tensor, paths: NDArray[np.int64], weights: NDArray[np.float64], rounded: bool = False
) -> Tensor:
    """The weighted sum of every picture's shifted copies: uint8, cut downwards or `rounded`, of `x`
    uint8 [n, c, h, w].

    `paths` int64 [n, k, 2] as from `motion_paths`; `weights` [k], at least 0 with sum 1, rounded to
    steps of 2**-22. Edges are continued. From the first copy on that is moved by a whole height or
    width, none counts, as in the `imagecorruptions` package.
    """
    n, channels, height, width = x.shape
    steps = np.rint(weights * 2.0**SMEAR_BITS).astype(np.int64)
    steps[0] += (1 << SMEAR_BITS) - steps.sum()  # a constant image stays as it is
    inside = (np.abs(paths) < (height, width)).all(2)  # and once outside, for ever
    used = inside * steps
    top, left = (int(side) for side in np.maximum(0, -paths[inside].min(0)))
    bottom, right = (int(side) for side in np.maximum(0, paths[inside].max(0)))
    rows = torch.arange(-top, height + bottom, device=x.device).clamp_(0, height - 1)
    columns = torch.arange(-left, width + right, device=x.device).clamp_(0, width - 1)
    line = len(columns)
    first_pixels = (paths[..., 0] + top) * line + paths[..., 1] + left
    starts = np.where(inside, first_pixels, 0)
    out = torch.empty(n, channels, height, width, dtype=torch.uint8, device=x.device)
    add = _add_views if x.device.type == "cpu" else _add_gathered
    step = max(1, SMEARED // (channels * len(rows) * line))
    for start in range(0, n, step):
        chunk = slice(start, start + step)
        wide = x[chunk].contiguous().index_select(2, rows).index_select(3, columns).to(torch.int32)
        total = torch.zeros(out[chunk].shape, dtype=torch.int32, device=x.device)
        add(total, wide, starts[chunk], used[chunk])
        if rounded:
            total += 1 << (SMEAR_BITS - 1)
        out[chunk] = total.bitwise_right_shift_(SMEAR_BITS)
    return out


def _add_views(
    total: Tensor, wide: Tensor, starts: NDArray[np.int64], used: NDArray[np.int64]
) -> None:
    # A shifted copy is a view: picture by picture, adding them takes a third of the time of looking
    # up indices for all at once.
    n, channels, height, width = total.shape
    line = wide.shape[3]
    area = wide.shape[2] * wide.shape[3]
    for i in range(n):
        picture = total[i]
        first = i * channels * area
        for start, step in zip(starts[i].tolist(), used[i].tolist(), strict=True):
            if step:
                shifted = wide.as_strided((channels, height, width), (area, line, 1), first + start)
                picture.add_(shifted, alpha=step)


def _add_gathered(
    total: Tensor, wide: Tensor, starts: NDArray[np.int64], used: NDArray[np.int64]
) -> None:
    # On an accelerator a call costs more than its work: one for each place along the line, whatever
    # the number of pictures.
    n, channels, height, width = total.shape
    line = wide.shape[3]
    lines = wide.view(n, channels, -1)
    sums = total.view(n, channels, -1)
    first_of_rows = torch.arange(height, device=total.device)[:, None] * line
    pixels = (first_of_rows + torch.arange(width, device=total.device)).view(1, 1, -1)
    begins = torch.from_numpy(starts).to(total.device)
    shares = torch.from_numpy(used.astype(np.int32)).to(total.device)
    for column in range(starts.shape[1]):
        where = (pixels + begins[:, column].view(n, 1, 1)).expand(n, channels, -1)
        sums.add_(lines.gather(2, where).mul_(shares[:, column].view(n, 1, 1)))
