"""Blurs that are not random: smoothed, out of focus, zoomed."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.transforms.corruptions.base import FixedCorruption
from crosswind.transforms.corruptions.filters import CORRELATE_BITS, correlate, gaussian_smooth, in_steps

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


@register("gaussian-blur", kind="transform")
@dataclass(frozen=True)
class GaussianBlur(FixedCorruption):
    """Smoothed by a normal density whose standard deviation in pixels is 1, 2, 3, 4 or 6 at severity 1 to 5, edges continued.

    0.4, 0.6, 0.7, 0.8 or 1 with `constants` cifar. Nothing is random. Values are cut to whole grey levels downwards. A constant
    image stays as it is; in the original some levels fall by one, where a float is just short of a whole number.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        return gaussian_smooth(x, self.constant(GAUSSIAN, x))


@register("defocus-blur", kind="transform")
@dataclass(frozen=True)
class DefocusBlur(FixedCorruption):
    """Out of focus: every point becomes a disk of radius 3, 4, 6, 8 or 10 pixels at severity 1 to 5, edges mirrored.

    The disk's rim is smoothed by a standard deviation of 0.1, then 0.5. With `constants` cifar the radii are 0.3, 0.4, 0.5, 1, 1.5,
    smoothed by 0.4, 0.5, 0.6, 0.2, 0.1. Nothing is random. As in the original, severities 4 and 5 of imagenet also brighten by 1%
    (`disk`). Values are cut to whole grey levels downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        return correlate(x, disk(*self.constant(DEFOCUS, x)))


@register("zoom-blur", kind="transform")
@dataclass(frozen=True)
class ZoomBlur(FixedCorruption):
    """Zoomed while the shutter was open: the mean of the image and its enlargements by a row of factors from 1.

    The factors go up to 1.11, 1.15, 1.2, 1.24 or 1.3 at severity 1 to 5 by 0.01, 0.01, 0.02, 0.02, 0.03; with `constants` cifar up
    to 1.06, 1.11, 1.15, 1.2 or 1.25 by 0.01 (numpy's arange to 1.11, 1.16, 1.21, 1.26, 1.31 and 1.06 to 1.26, whose rounding takes
    some ends in). The image counts twice, since 1 is among the factors. Nothing is random. Values are cut to whole grey levels
    downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        # Every output is a weighted sum of few inputs, the same for all images: one sparse matrix; exact, see `filters`.
        n, channels, height, width = x.shape
        matrix = _zoom_matrix(height, width, *self.constant(ZOOM, x), str(x.device))
        lines = x.view(n * channels, height * width)
        out = torch.empty_like(lines)
        for start in range(0, len(lines), ZOOM_COLUMNS):
            part = lines[start : start + ZOOM_COLUMNS].t().to(torch.float64, memory_format=torch.contiguous_format)
            out[start : start + ZOOM_COLUMNS] = (matrix @ part).to(torch.uint8).t()
        return out.view(x.shape)


@cache
def disk(radius: float, sd: float) -> NDArray[np.float64]:
    """A disk of pixels, its rim smoothed: float64 [2 r + 1, 2 r + 1], without lines of zeros, in steps of 2**-30.

    The pixels whose centres are at most `radius` from the middle, on a square of at least 17 pixels a side, smoothed by 3 x 3
    weights (5 x 5 for a radius above 8) of a normal density of `sd`, mirrored at the edge of the square. The sum is 1, but for
    disks that reach the edge: 1.0130 for radius 8, 1.0108 for radius 10, as in the original, which so brightens images a little.
    """
    reach = max(8, math.ceil(radius))
    half = 1 if radius <= 8 else 2
    place = np.arange(-reach, reach + 1)
    flat = (place[:, None] ** 2 + place**2 <= radius**2).astype(np.float64)
    flat /= flat.sum()
    weights = np.exp(-(np.arange(-half, half + 1) ** 2) / (2 * sd**2))
    weights /= weights.sum()
    for _ in range(2):
        wide = np.pad(flat, ((half, half), (0, 0)), mode="reflect")
        flat = sum(weight * wide[line : line + len(place)] for line, weight in enumerate(weights)).T
    # What is less than 2**-30 would move no image by a grey level.
    used = int(np.abs(place[(flat > 2.0**-30).any(1)]).max())
    flat = flat[reach - used : reach + used + 1, reach - used : reach + used + 1]
    return in_steps(flat.reshape(1, -1), CORRELATE_BITS).reshape(flat.shape)


def zoom_line(size: int, factor: float) -> NDArray[np.float64]:
    """Which pixels of a line show in each of the `size` pixels of its enlargement: float64 [size, size], output by input.

    The middle ceil(size / factor) pixels, enlarged by `factor` with linear interpolation whose first and last pixels are those of
    what was kept, then cut at the end to `size`: scipy.ndimage.zoom of order 1.
    """
    kept = math.ceil(size / factor)
    if kept == 1:
        return np.eye(size)[[(size - 1) // 2] * size]
    first = (size - kept) // 2
    large = round(kept * factor)
    place = np.arange(size) * ((kept - 1) / (large - 1))
    lower = np.minimum(place.astype(np.int64), kept - 1)
    share = np.minimum(place, kept - 1) - lower
    matrix = np.zeros((size, size))
    np.add.at(matrix, (np.arange(size), first + lower), 1 - share)
    np.add.at(matrix, (np.arange(size), first + np.minimum(lower + 1, kept - 1)), share)
    return matrix


@lru_cache(maxsize=6)  # up to 20 MB each at 256 pixels
def _zoom_matrix(height: int, width: int, end: float, step: float, device: str) -> Tensor:
    from scipy import sparse

    factors = np.arange(1, end, step)
    total = sparse.identity(height * width, format="csr")
    for factor in factors:
        total = total + sparse.kron(
            sparse.csr_matrix(zoom_line(height, factor)), sparse.csr_matrix(zoom_line(width, factor)), "csr"
        )
    total = (total / (len(factors) + 1)).tocsr()
    # In whole steps, what is left over to the first weight of each line, so that a constant image stays as it is.
    steps = np.rint(total.data * 2.0**ZOOM_BITS)
    steps[total.indptr[:-1]] += 2.0**ZOOM_BITS - np.add.reduceat(steps, total.indptr[:-1])
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Sparse (CSR tensor support is in beta|invariant checks are implicitly disabled)", UserWarning
        )
        lines, columns = (torch.from_numpy(part.astype(np.int64)) for part in (total.indptr, total.indices))
        values = torch.from_numpy(steps * 2.0**-ZOOM_BITS)
        return torch.sparse_csr_tensor(lines, columns, values, size=total.shape, device=device, check_invariants=False)
