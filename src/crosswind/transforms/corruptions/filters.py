"""Linear filters of images that give the same bits in any batch, in any order of summation, on any
device.

Weights are whole multiples of a power of two, so coarse that every product with a grey level and
every sum of such products is a float64 without rounding. Matrix products may then take whatever
kernel fits the size of the batch. What the coarser weights cost is at most 2e-3 of a grey level (sd
6; `gaussian_weights`), and a constant image keeps its level exactly.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from torch import Tensor

from crosswind.transforms.layout import on_device, parts, put_cut, put_numbers

BITS = 22  # of a weight of one pass; 8 of a grey level and twice as many as this are 52
CORRELATE_BITS = 30
FIELD_BITS = 18  # of a weight of a field, the same
ONE = 1 << (2 * FIELD_BITS)  # by what `smoothed` and `stretched` multiply a constant field
# outputs of a line that one product makes: a larger tile wastes products with zeros, a smaller one
# calls
TILE = 64
GAUSSIAN_COPIES = 0.75  # of a batch as numbers that are used together, for `parts`
PAIR_COPIES = 4


def in_steps(weights: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """`weights` [..., k] as multiples of 2**-bits with the weights' sum, rounded: the largest takes
    what is left."""
    steps = np.rint(weights * 2.0**bits)
    remainder = np.rint(weights.sum(-1) * 2.0**bits) - steps.sum(-1)
    largest = np.expand_dims(weights.argmax(-1), -1)
    corrected = np.take_along_axis(steps, largest, -1) + np.expand_dims(remainder, -1)
    np.put_along_axis(steps, largest, corrected, -1)
    return steps * 2.0**-bits


def gaussian_weights(sd: float) -> NDArray[np.float64]:
    """The normal density at whole numbers to 4 `sd` either side, with sum 1: float64 [2 r + 1], in
    steps of 2**-22.

    As in scipy.ndimage.gaussian_filter1d with `truncate=4`, which scikit-image's `gaussian` calls.
    """
    radius = int(4 * sd + 0.5)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sd) ** 2)
    return in_steps(weights / weights.sum(), BITS)


@lru_cache(maxsize=32)
def gaussian_matrix(size: int, sd: float) -> Tensor:
    """The matrix by which `gaussian_weights` act on a line of `size` pixels whose ends go on for
    ever: float64 [size, size], output by input."""
    weights = gaussian_weights(sd)
    radius = len(weights) // 2
    out = np.arange(size)[:, None]
    matrix = np.zeros((size, size))
    nearest = np.clip(out + np.arange(-radius, radius + 1), 0, size - 1)
    np.add.at(matrix, (out, nearest), weights)
    return torch.from_numpy(matrix)


def gaussian_smooth(x: Tensor, sd: float) -> Tensor:
    """Images uint8 [n, c, h, w] smoothed by a normal density of `sd` pixels, the edges continued:
    uint8, cut downwards.

    scikit-image's `gaussian` (mode nearest) in exact arithmetic; any order of rows and any memory
    layout gives the same bits.
    """
    height, width = x.shape[2:]
    radius = int(4 * sd + 0.5)
    if radius == 0:
        return x.clone()
    across = on_device(gaussian_matrix(width, sd), x.device)
    down = on_device(gaussian_matrix(height, sd), x.device)
    out = torch.empty_like(x)
    # Always in the same memory, which so stays in the cache.
    levels, middle = (_space(x, GAUSSIAN_COPIES) for _ in range(2))
    for chunk in parts(x, GAUSSIAN_COPIES):
        count = len(x[chunk])
        put_numbers(x[chunk], levels[:count])
        _along_lines(levels[:count], across, _bands(width, radius, TILE // 2), middle[:count])
        bands = _bands(height, radius, TILE // 2)
        _along_columns(middle[:count], down, bands, levels[:count])
        put_cut(levels[:count], out[chunk])
    return out


def _space(x: Tensor, copies: float) -> Tensor:
    """Room for the largest of the `parts` of `x` as numbers: float64."""
    length = max(len(x[chunk]) for chunk in parts(x, copies))
    return torch.zeros(length, *x.shape[1:], dtype=torch.float64, device=x.device)


def _along_lines(
    levels: Tensor, matrix: Tensor, bands: list[tuple[slice, slice]], out: Tensor
) -> None:
    """`levels` [..., h, w] times the transposed `matrix` [w, w], which is zero outside `bands`."""
    lines, lines_out = (each.view(-1, each.shape[-1]) for each in (levels, out))
    for cut, window in bands:
        # Straight into their columns: joined afterwards, the bands would be copied.
        torch.mm(lines[:, window], matrix[cut, window].T, out=lines_out[:, cut])


def _along_columns(
    levels: Tensor, matrix: Tensor, bands: list[tuple[slice, slice]], out: Tensor
) -> None:
    """The `matrix` [h, h], which is zero outside `bands`, times `levels` [..., h, w]."""
    planes, planes_out = (each.view(-1, *each.shape[-2:]) for each in (levels, out))
    for cut, window in bands:
        steps = matrix[cut, window].expand(len(planes), -1, -1)
        torch.bmm(steps, planes[:, window], out=planes_out[:, cut])


def mirrored(size: int, margin: int) -> NDArray[np.int64]:
    """Which pixel of a line lies at -margin to size + margin - 1 where it is mirrored about its
    first and last pixel: int64.

    `margin` may be larger than the line: it is mirrored again.
    """
    if size == 1:
        return np.zeros(1 + 2 * margin, np.int64)
    distance = np.abs(np.arange(-margin, size + margin)) % (2 * size - 2)
    return np.minimum(distance, 2 * size - 2 - distance)


def correlate(x: Tensor, kernel: NDArray[np.float64]) -> Tensor:
    """Images uint8 [n, c, h, w] under a `kernel` [2 r + 1, 2 r + 1] that is its own mirror image
    both ways; uint8, cut downwards.

    The image is mirrored about its edge pixels. The kernel's weights, 0 or more with a sum of about
    1, are multiples of 2**-30, and so is every true result. Half such a step, hundreds of times the
    error of a Fourier transform in float64, is added before the cut. The cut then finds the true
    result's whole part in whatever order the transform adds. What is within 2**-16 of the next
    whole number, as sums of equal weights that should be whole are, counts as that.
    """
    n, channels, height, width = x.shape
    reach = len(kernel) // 2
    # Lengths of fours without large factors, which transforms are fastest of.
    size = tuple(4 * next_fast_len((side + 2 * reach + 3) // 4) for side in (height, width))
    response = on_device(_response(kernel.tobytes(), len(kernel), size), x.device)
    planes = x.reshape(n * channels, height, width)
    out = torch.empty_like(planes)
    shown = (slice(None), slice(reach, reach + height), slice(reach, reach + width))
    rounding = 2.0**-16 + 0.5 * 2.0**-CORRELATE_BITS
    # Two planes at a time, as the real and the imaginary part of one: the kernel is real, so they
    # stay apart, and transforms of complex numbers are faster than those of real ones.
    pairs = len(_space(planes[::2], PAIR_COPIES))
    wide = torch.zeros(2 * pairs, *size, dtype=torch.uint8, device=x.device)
    levels = torch.zeros(pairs, *size, dtype=torch.complex128, device=x.device)
    for start in range(0, len(planes), 2 * pairs):
        chunk = planes[start : start + 2 * pairs]
        _put_mirrored(chunk, wide, reach)
        for part, parity in zip(torch.view_as_real(levels).unbind(-1), (0, 1), strict=True):
            put_numbers(wide[parity::2], part)
        waves = torch.fft.fft2(levels[: (len(chunk) + 1) // 2]).mul_(response)
        waves[:, 0, 0] += rounding * size[0] * size[1] * (1 + 1j)  # to every pixel
        filtered = torch.view_as_real(torch.fft.ifft2(waves))
        if kernel.sum() > 1:
            filtered.clamp_(max=255)
        for part, parity in zip(filtered[shown].unbind(-1), (0, 1), strict=True):
            out_part = out[start : start + 2 * pairs][parity::2]
            put_cut(part[: len(out_part)], out_part)
    return out.view(x.shape)


def _put_mirrored(planes: Tensor, wide: Tensor, margin: int) -> None:
    """Write `planes` [n, h, w], mirrored on all sides as by `mirrored`, into the upper left of the
    first n of `wide`."""
    n, height, width = planes.shape
    # NumPy takes a third of the time of torch for so few bytes with gaps.
    levels: Any = planes.numpy() if planes.device.type == "cpu" else planes
    room: Any = wide.numpy() if wide.device.type == "cpu" else wide
    middle = room[:n, margin : margin + height]
    middle[:, :, margin : margin + width] = levels
    for lines, side in ((middle.swapaxes(1, 2), width), (room[:n], height)):
        edge, source = _margins(side, margin)
        lines[:, edge] = lines[:, source]


@cache
def _margins(size: int, margin: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places on both sides of a mirrored line that begins `margin` before it, and the places
    that they show."""
    edge = np.r_[:margin, margin + size : size + 2 * margin]
    return edge, mirrored(size, margin)[edge] + margin


@lru_cache(maxsize=32)
def _response(kernel: bytes, side: int, size: tuple[int, int]) -> Tensor:
    """The factor of each wave: complex128 [size]; the kernel's middle is at the origin."""
    reach = side // 2
    weights = np.zeros(size)
    weights[:side, :side] = np.frombuffer(kernel).reshape(side, side)
    return torch.fft.fft2(torch.from_numpy(np.roll(weights, (-reach, -reach), (0, 1))))


def _bands(size: int, radius: int, tile: int) -> list[tuple[slice, slice]]:
    """The outputs of a line in tiles of about `tile`, and the inputs that each needs."""
    tiles = max(1, round(size / tile))
    ends = [size * number // tiles for number in range(tiles + 1)]
    bands: list[tuple[slice, slice]] = []
    for low, high in zip(ends, ends[1:], strict=False):
        bands.append((slice(low, high), slice(max(0, low - radius), high + radius)))
    return bands


def smoothed(field: Tensor, sd: float, edge: str, reach: float) -> Tensor:
    """The last two dimensions of `field` smoothed, times `ONE`: float64 of the same shape, whole
    numbers, exact.

    `field`: whole numbers below 2**17 in size, of any dtype, [..., h, w]. `sd`: the standard
    deviation in pixels, at least 0. `edge`, `reach`: as in `weights`.
    """
    height, width = field.shape[-2:]
    radius = int(reach * sd + 0.5)
    across = on_device(weights(width, sd, edge, reach), field.device)
    down = on_device(weights(height, sd, edge, reach), field.device)
    levels = field.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    tile = TILE if radius > TILE // 4 else TILE // 2
    middle = torch.empty_like(levels)
    _along_lines(levels, across, _bands(width, radius, tile), middle)
    _along_columns(middle, down, _bands(height, radius, tile), levels)
    return levels


def stretched(field: Tensor, size: tuple[int, int], zoom: float) -> Tensor:
    """The middle `size` (h, w) of `field` stretched by `zoom`, times `ONE`: float64 [..., h, w],
    whole numbers, exact.

    `field`: as in `smoothed`, [..., ceil(h / zoom), ceil(w / zoom)].
    """
    down, across = (stretching(side, zoom).to(field.device) for side in size)
    return down @ (field.to(torch.float64) @ across.mT)


@cache
def stretching(side: int, zoom: float) -> Tensor:
    """The weights of ceil(side / zoom) pixels in a line for `side` ones: float64, whole numbers,
    each row 2**18 in all.

    The first and last pixel keep their places at the ends of the stretched line. The line has zoom
    times as many pixels, rounded, and loses what is too much at both ends. That is SciPy's zoom of
    order 1, and clipped_zoom of ImageNet-C.
    """
    before = math.ceil(side / zoom)
    after = max(side, round(before * zoom))
    source_place = (np.arange(side) + (after - side) // 2) * ((before - 1) / max(1, after - 1))
    first = np.minimum(source_place.astype(np.int64), max(0, before - 2))
    share = np.rint((source_place - first) * (1 << FIELD_BITS))
    table = np.zeros((side, before))
    table[np.arange(side), first] = (1 << FIELD_BITS) - share
    table[np.arange(side), np.minimum(first + 1, before - 1)] += share
    return torch.from_numpy(table)


@cache
def weights(side: int, sd: float, edge: str, reach: float) -> Tensor:
    """The weights of `side` pixels in a line, for each of them: float64 [side, side], whole
    numbers, each row 2**18 in all.

    A normal density at whole pixels as far as `reach` standard deviations, rounded. Beyond the ends
    the line is continued by its mirror image with the last pixel repeated (`edge` "reflect") or by
    its last pixel ("nearest"), as in SciPy's gaussian_filter.
    """
    far = int(reach * sd + 0.5)
    share = np.array([math.exp(-0.5 * (k / sd) ** 2) if sd else 1.0 for k in range(-far, far + 1)])
    source = np.arange(side)[:, None] + np.arange(-far, far + 1)
    if edge == "reflect":
        source = source % (2 * side)
        source = np.minimum(source, 2 * side - 1 - source)
    else:
        source = source.clip(0, side - 1)
    table = np.zeros((side, side))
    rows_of_source = np.broadcast_to(np.arange(side)[:, None], source.shape)
    np.add.at(table, (rows_of_source, source), share / share.sum())
    table = np.rint(table * (1 << FIELD_BITS))
    # What rounding lost or won goes to the pixel with the largest weight: constants stay what they
    # are.
    table[np.arange(side), table.argmax(1)] += (1 << FIELD_BITS) - table.sum(1)
    return torch.from_numpy(table)
