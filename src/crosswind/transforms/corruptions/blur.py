"""Blurred images: out of focus, behind glass, moved, zoomed, smoothed."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.core.seeds import hash64
from crosswind.transforms.corruptions.base import Corruption
from crosswind.transforms.corruptions.filters import CORRELATE_BITS, correlate, gaussian_smooth, in_steps
from crosswind.transforms.corruptions.glass import BANK, glass_maps
from crosswind.transforms.corruptions.motion import motion_paths, motion_weights, smear
from crosswind.transforms.draws import uniforms
from crosswind.transforms.layout import laid_out_as, on_device, planes

__all__ = ["DefocusBlur", "GaussianBlur", "GlassBlur", "MotionBlur", "ZoomBlur", "disk", "zoom_line"]

IMAGENET_GAUSSIAN = (1.0, 2.0, 3.0, 4.0, 6.0)
CIFAR_GAUSSIAN = (0.4, 0.6, 0.7, 0.8, 1.0)
# sd of the smoothing, reach of a look, passes
IMAGENET_GLASS = ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2))
CIFAR_GLASS = ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2))
# radius of the disk, sd of its smoothing
IMAGENET_DEFOCUS = ((3.0, 0.1), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5), (10.0, 0.5))
CIFAR_DEFOCUS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
# radius, sd along the line
IMAGENET_MOTION = ((10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0))
CIFAR_MOTION = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))
# where the zoom factors end (numpy's arange), and their distance
IMAGENET_ZOOM = ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03))
CIFAR_ZOOM = ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01))
ZOOM_BITS = 40
ZOOM_COLUMNS = 48  # planes at a time
ANGLE = 45.0


@register("gaussian-blur", kind="transform")
@dataclass(frozen=True)
class GaussianBlur(Corruption):
    """Smoothed by a normal density whose standard deviation in pixels is 1, 2, 3, 4 or 6 at severity 1 to 5, edges continued.

    0.4, 0.6, 0.7, 0.8 or 1 with `constants` cifar. Nothing is random. Values are cut to whole grey levels downwards. A constant
    image stays as it is; in the original some levels fall by one, where a float is just short of a whole number.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    random: ClassVar[bool] = False

    def corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        return laid_out_as(gaussian_smooth(planes(x), self.constant(IMAGENET_GAUSSIAN, CIFAR_GAUSSIAN, x)), x)


@register("glass-blur", kind="transform")
@dataclass(frozen=True)
class GlassBlur(Corruption):
    """As through frosted glass: smoothed, pixels replaced by near ones, smoothed again.

    The smoothing has a standard deviation of 0.7, 0.9, 1, 1.1 or 1.5 pixels at severity 1 to 5, a pixel shows one up to 1, 2, 2, 3
    or 4 away, in 2, 1, 3, 2 or 2 passes; with `constants` cifar 0.05, 0.25, 0.4, 0.25, 0.4 pixels, 1 away, 1, 1, 1, 2, 2 passes.
    Pixels are copied, not swapped, as the original's code does whatever it says (`glass.glass_map`). Which one shows which comes
    from one of 256 maps of a size and severity, chosen by the sample's key. Values are cut to whole grey levels downwards, twice.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        n, channels, height, width = x.shape
        sd, reach, times = self.constant(IMAGENET_GLASS, CIFAR_GLASS, x)
        numbers = (hash64(np.asarray(keys), 0) % np.uint64(BANK)).astype(np.int64)
        maps = on_device(glass_maps(height, width, reach, times, numbers), x.device)
        smooth = gaussian_smooth(planes(x), sd).view(n, channels, -1)
        shuffled = smooth.gather(2, maps.view(n, 1, -1).expand(n, channels, -1))
        return laid_out_as(gaussian_smooth(shuffled.view(n, channels, height, width), sd), x)


@register("defocus-blur", kind="transform")
@dataclass(frozen=True)
class DefocusBlur(Corruption):
    """Out of focus: every point becomes a disk of radius 3, 4, 6, 8 or 10 pixels at severity 1 to 5, edges mirrored.

    The disk's rim is smoothed by a standard deviation of 0.1, then 0.5. With `constants` cifar the radii are 0.3, 0.4, 0.5, 1, 1.5,
    smoothed by 0.4, 0.5, 0.6, 0.2, 0.1. Nothing is random. As in the original, severities 4 and 5 of imagenet also brighten by 1%
    (`disk`). Values are cut to whole grey levels downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    random: ClassVar[bool] = False

    def corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        return laid_out_as(correlate(planes(x), disk(*self.constant(IMAGENET_DEFOCUS, CIFAR_DEFOCUS, x))), x)


@register("motion-blur", kind="transform")
@dataclass(frozen=True)
class MotionBlur(Corruption):
    """Moved while the shutter was open: smeared along a line whose angle is uniform in [-45, 45] degrees, drawn for each sample.

    The line has 2 r + 1 places, r 10, 15, 15, 15 or 20 at severity 1 to 5, weighted by half a normal density whose standard
    deviation is 3, 5, 8, 12 or 15 pixels; with `constants` cifar 6, 6, 6, 8, 9 and 1, 1.5, 2, 2, 2.5. Edges are continued, and the
    angle is one of 65,536. ImageNet-C called ImageMagick; line, places and weights are as in the `imagecorruptions` package, which
    follows ImageMagick's source. Values are cut to whole grey levels downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        radius, sd = self.constant(IMAGENET_MOTION, CIFAR_MOTION, x)
        angles = (uniforms(keys, 1)[:, 0].numpy().astype(np.float64) * 2 - 1) * ANGLE
        return laid_out_as(smear(planes(x), motion_paths(angles, radius), motion_weights(radius, sd)), x)


@register("zoom-blur", kind="transform")
@dataclass(frozen=True)
class ZoomBlur(Corruption):
    """Zoomed while the shutter was open: the mean of the image and its enlargements by a row of factors from 1.

    The factors go up to 1.11, 1.15, 1.2, 1.24 or 1.3 at severity 1 to 5 by 0.01, 0.01, 0.02, 0.02, 0.03; with `constants` cifar up
    to 1.06, 1.11, 1.15, 1.2 or 1.25 by 0.01 (numpy's arange to 1.11, 1.16, 1.21, 1.26, 1.31 and 1.06 to 1.26, whose rounding takes
    some ends in). The image counts twice, since 1 is among the factors. Nothing is random. Values are cut to whole grey levels
    downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    random: ClassVar[bool] = False

    def corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """Every output is a weighted sum of few inputs, the same for all images: one sparse matrix; exact, see `filters`."""
        n, channels, height, width = x.shape
        matrix = _zoom_matrix(height, width, *self.constant(IMAGENET_ZOOM, CIFAR_ZOOM, x), str(x.device))
        lines = planes(x).view(n * channels, height * width)
        out = torch.empty_like(lines)
        for start in range(0, len(lines), ZOOM_COLUMNS):
            part = lines[start : start + ZOOM_COLUMNS].t().to(torch.float64, memory_format=torch.contiguous_format)
            out[start : start + ZOOM_COLUMNS] = (matrix @ part).to(torch.uint8).t()
        return laid_out_as(out.view(x.shape), x)


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
