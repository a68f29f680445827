"""The operations of the policies on a picture at a time: for large pictures in a processor's
memory.

A large picture stays in a core's own cache while it goes through all of its operations, and NumPy
has for bytes what torch lacks: tables, comparisons, copies with gaps. The levels are those of
`photometry` and `geometry`, thus Pillow's.

Pixels are uint8 arrays without gaps, [h, w, c] where `last` says that the channels of a pixel lie
side by side, else [c, h, w]. Results are new, or the pixels themselves where nothing changes; no
function writes to what it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crosswind.transforms.geometry import ONE, Fixed
from crosswind.transforms.words import fits, pixels_of, words_of

Pixels = NDArray[np.uint8]
Levels = NDArray[np.float32]
Whole = NDArray[np.signedinteger[Any]]

LUMINANCE = np.array([19595, 38470, 7471], np.float32) / np.float32(65536)  # Pillow's, exact
MAPS = 64  # maps of pixels that stay in memory: a policy of one level has few
LARGEST_MAP = 1 << 16  # pixels of such a map: all of them take 16 MiB
_EVERY_LEVEL = np.arange(256)


def brightness(pixels: Pixels, last: bool, factor: float) -> Pixels:
    """`photometry.brightness` of one picture."""
    return _shown_by(pixels, _blended(_EVERY_LEVEL.astype(np.float32), None, factor))


def contrast(pixels: Pixels, last: bool, factor: float) -> Pixels:
    """`photometry.contrast` of one picture."""
    light = _luminance(pixels, last)
    # The sum of a line is exact in single precision, that of an image is not.
    total = float(light.sum(-1, dtype=np.float32).sum(dtype=np.float64))
    mean = np.float32(np.floor(total / light.size + 0.5))
    return _shown_by(pixels, _blended(_EVERY_LEVEL.astype(np.float32), mean, factor))


def saturation(pixels: Pixels, last: bool, factor: float) -> Pixels:
    """`photometry.saturation` of one picture."""
    if pixels.shape[2 if last else 0] == 1:
        return pixels
    if last:
        # By planes, and back: lines of three are slow to work on.
        planes = np.ascontiguousarray(pixels.transpose(2, 0, 1))
        return _with_channels_last(saturation(planes, False, factor))
    levels = pixels.astype(np.float32)
    return _blended(levels, _luminance(pixels, last, levels), factor)


def sharpness(pixels: Pixels, last: bool, factor: float) -> Pixels:
    """`photometry.sharpness` of one picture."""
    height, width = pixels.shape[:2] if last else pixels.shape[1:]
    if min(height, width) < 3:
        return pixels
    # Sums along the memory, whatever the line's end: they are wrong on the border only, which stays
    # as it is.
    across = pixels.shape[2] if last else 1
    down = across * width
    values = pixels.reshape(-1).astype(np.int16)
    total = values[: -2 * across] + values[across:-across]
    total += values[2 * across :]
    around = total[: -2 * down] + total[down:-down]
    around += total[2 * down :]
    middle = slice(across + down, -across - down)
    around += values[middle] << 2
    # Thirteenths are never halves: half of one keeps whole numbers clear of rounding.
    smooth = around.astype(np.float32)
    smooth += np.float32(6.5)
    smooth *= np.float32(1 / 13)
    out = pixels.copy()
    out.reshape(-1)[middle] = _blended(
        values[middle].astype(np.float32), np.floor(smooth, out=smooth), factor
    )
    lines_in, lines_out = (each if last else each.transpose(1, 2, 0) for each in (pixels, out))
    for border in (0, -1):
        lines_out[border] = lines_in[border]
        lines_out[:, border] = lines_in[:, border]
    return out


def posterize(pixels: Pixels, last: bool, bits: float) -> Pixels:
    """`photometry.posterize` of one picture."""
    return pixels & np.uint8(256 - (256 >> int(bits)))


def solarize(pixels: Pixels, last: bool, threshold: float) -> Pixels:
    """`photometry.solarize` of one picture."""
    start = int(np.clip(np.ceil(threshold), 0, 256))
    if start == 256:
        return pixels
    # Minus one is 255 among bytes, and the levels that it meets are inverted.
    inverted = (pixels >= np.uint8(start)).view(np.uint8)
    return pixels ^ np.negative(inverted, out=inverted)


def invert(pixels: Pixels, last: bool, magnitude: float) -> Pixels:
    """`photometry.invert` of one picture."""
    return ~pixels


def autocontrast(pixels: Pixels, last: bool, magnitude: float) -> Pixels:
    """`photometry.autocontrast` of one picture."""
    if last:
        # Lines with lines first: channels that lie side by side are slow to compare one by one.
        low, high = pixels.min(0).min(0), pixels.max(0).max(0)
    else:
        low, high = pixels.min((1, 2)), pixels.max((1, 2))
    tables = [_stretched_levels(*ends) for ends in zip(low.tolist(), high.tolist(), strict=True)]
    if all(table is None for table in tables):
        return pixels
    return _looked_up(pixels, last, _planes_of(pixels, last), tables)


def equalize(pixels: Pixels, last: bool, magnitude: float) -> Pixels:
    """`photometry.equalize` of one picture."""
    planes = _planes_of(pixels, last)
    return _looked_up(pixels, last, planes, _even_levels(planes))


def nearest(pixels: Pixels, last: bool, steps: Fixed) -> Pixels:
    """`geometry.affine` of one picture, nearest pixel, black outside; `steps` [2, 3], its map in
    1/65536 pixel."""
    height, width = pixels.shape[:2] if last else pixels.shape[1:]
    (across_right, across_down, across), (down_right, down_down, down) = steps.tolist()
    if across_right == ONE and down_right == 0:
        if across_down == 0 and down_down == ONE:
            return _moved(pixels, last, across >> 16, down >> 16)
        numbers = np.arange(height)
        lines = (down_down * numbers + down) >> 16
        return _moved_lines(pixels, last, lines, (across_down * numbers + across) >> 16)
    fixed_map = tuple(steps.reshape(-1).tolist())
    maps = _kept_map if height * width <= LARGEST_MAP else _map_of_pixels
    index = maps(fixed_map, height, width)
    if last and fits(pixels):
        return _three_gathered(pixels, index)
    out = np.empty_like(pixels)
    framed = np.zeros((height + 2, width + 2), np.uint8)
    source = torch.from_numpy(framed).view(-1)
    taken = np.empty((height, width), np.uint8)
    for plane, shown in zip(_channels(pixels, last), _channels(out, last), strict=True):
        framed[1:-1, 1:-1] = plane
        torch.index_select(source, 0, index, out=torch.from_numpy(taken).view(-1))
        shown[...] = taken
    return out


def _channels(pixels: Pixels, last: bool) -> Iterator[Pixels]:
    """A view [h, w] of each channel."""
    return iter(pixels.transpose(2, 0, 1) if last else pixels)


def _planes_of(pixels: Pixels, last: bool) -> list[Pixels]:
    """Each channel [h, w] without gaps."""
    return [np.ascontiguousarray(channel) for channel in _channels(pixels, last)]


def _with_channels_last(planes: Pixels) -> Pixels:
    """Planes [c, h, w] as pixels [h, w, c]."""
    out = np.empty((*planes.shape[1:], len(planes)), np.uint8)
    for channel, plane in enumerate(planes):
        out[:, :, channel] = plane
    return out


def _looked_up(
    pixels: Pixels, last: bool, planes: list[Pixels], tables: Sequence[Pixels | None]
) -> Pixels:
    """Every channel's levels replaced by those of its table, None: as they are; `planes` are the
    channels without gaps."""
    if all(table is None for table in tables):
        return pixels
    out = np.empty_like(pixels)
    for shown, plane, table in zip(_channels(out, last), planes, tables, strict=True):
        shown[...] = plane if table is None else _shown_by(plane, table)
    return out


def _shown_by(values: Pixels, table: Pixels) -> Pixels:
    """Every value replaced by its entry in the `table` of 256."""
    # Bytes have the fastest table of all that NumPy, torch and Pillow offer.
    shown = bytearray(values.reshape(-1).data).translate(table.tobytes())
    return np.frombuffer(shown, np.uint8).reshape(values.shape)


def _stretched_levels(low: float, high: float) -> Pixels | None:
    if low == high or (low, high) == (0, 255):
        return None
    scale = 255.0 / (high - low)
    levels = _EVERY_LEVEL * scale
    levels += -low * scale
    return levels.clip(0, 255).astype(np.uint8)


def _even_levels(planes: list[Pixels]) -> list[Pixels | None]:
    flat_planes = [torch.from_numpy(plane.reshape(-1)) for plane in planes]
    counts = np.stack([torch.bincount(plane, minlength=256).numpy() for plane in flat_planes])
    lightest = [int(number_of[number_of > 0][-1]) for number_of in counts]
    steps = [(planes[0].size - number) // 255 for number in lightest]
    divisors = np.array(steps)[:, None].clip(min=1)
    below = counts.cumsum(1)
    below -= counts
    below += divisors // 2
    tables = (below // divisors).clip(max=255).astype(np.uint8)
    # No step: too few pixels apart from the lightest, whose channel stays as it is.
    return [table if step else None for step, table in zip(steps, tables, strict=True)]


def _blended(levels: Levels, ground: Levels | np.float32 | None, factor: float) -> Pixels:
    """Pillow's blend, in its order of single-precision steps: ground + factor * (level - ground),
    cut, the fraction dropped; writes to `levels`."""
    if ground is not None:
        levels -= ground
    levels *= np.float32(factor)
    if ground is not None:
        levels += ground
    return np.clip(levels, 0, 255, out=levels).astype(np.uint8)


def _luminance(pixels: Pixels, last: bool, levels: Levels | None = None) -> Levels:
    """Pillow's luminance: whole levels [h, w]."""
    if levels is None:
        levels = pixels.astype(np.float32)
    if pixels.shape[2 if last else 0] == 1:
        return levels.reshape(pixels.shape[:2] if last else pixels.shape[1:])
    # Products and sums of 24 bits: exact, in any order. NumPy has them faster than torch.
    sums: Levels
    if last:
        sums = np.matmul(levels.reshape(-1, 3), LUMINANCE)
    else:
        sums = np.matmul(LUMINANCE, levels.reshape(3, -1))
    sums += np.float32(0.5)
    return np.floor(sums, out=sums).reshape(pixels.shape[:2] if last else pixels.shape[1:])


def _moved_lines(pixels: Pixels, last: bool, lines_in: Whole, first: Whole) -> Pixels:
    """`nearest` where every line shows one of `lines_in`, from its pixel `first` on; both may lie
    outside."""
    height, width = pixels.shape[:2] if last else pixels.shape[1:]
    first = first.clip(-width, width)
    is_inside = (lines_in >= 0) & (lines_in < height)
    # Between lines, and before the first, stand as many black pixels as a line is moved by; a whole
    # line of them follows the last.
    margin = int(np.abs(first).max())
    begin = np.where(is_inside, margin + lines_in * (width + margin) + first, 0)
    begin[~is_inside] = margin + height * (width + margin)
    across = pixels.shape[2] if last else 1
    framed = np.zeros((margin + height * (width + margin) + width, across), np.uint8)
    pieces = np.ndarray((len(framed) - width + 1, width * across), np.uint8, framed, 0, (across, 1))
    lines = framed[margin : margin + height * (width + margin)]
    lines = lines.reshape(height, width + margin, across)[:, :width]
    if last:
        lines[...] = pixels
        return pieces[begin].reshape(pixels.shape)
    out = np.empty_like(pixels)
    for plane, shown in zip(pixels, out, strict=True):
        lines[:, :, 0] = plane
        shown[...] = pieces[begin]
    return out


def _moved(pixels: Pixels, last: bool, right: int, down: int) -> Pixels:
    """`nearest` where every pixel shows the one `right` of it and `down`."""
    out = np.zeros_like(pixels)
    shown, source = (each if last else each.transpose(1, 2, 0) for each in (out, pixels))
    height, width = shown.shape[:2]
    if abs(down) < height and abs(right) < width:
        shown[max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)] = (
            source[max(0, down) : height + min(0, down), max(0, right) : width + min(0, right)]
        )
    return out


def _three_gathered(pixels: Pixels, index: torch.Tensor) -> Pixels:
    """The pixels [h, w, 3] that the `index` names in a frame of black ones."""
    height, width, _ = pixels.shape
    # A pixel and the byte after it make one word, of which there is one gather in place of three.
    framed = np.zeros((height + 2, width + 2), np.int32)
    framed.view(np.uint32)[1:-1, 1:-1] = words_of(pixels)
    gathered = torch.from_numpy(framed.reshape(-1)).index_select(0, index)
    return pixels_of(gathered.numpy().view(np.uint32).reshape(height, width))


def _map_of_pixels(fixed_map: tuple[int, ...], height: int, width: int) -> torch.Tensor:
    """Which pixel of a frame [h + 2, w + 2] each pixel shows: int32 [h * w]."""
    reach = max(abs(number) for number in fixed_map) * (height + width + 2)
    kind = np.dtype(np.int32 if reach < 1 << 31 else np.int64)
    index = _cells(fixed_map[3:], (height, width), height, kind)
    index *= width + 2
    index = index + _cells(fixed_map[:3], (height, width), width, kind)
    return torch.from_numpy(index.astype(np.int32, copy=False).reshape(-1))


def _cells(terms: tuple[int, ...], size: tuple[int, int], side: int, kind: np.dtype[Any]) -> Whole:
    """The cells of a framed `side` in which pixels lie: [h, w or 1]; `terms`: what a step right, a
    step down and the start mean along it, in 1/65536 pixel."""
    right, down, start = terms
    cells: Whole = np.arange(size[0], dtype=kind)[:, None] * down + (start + ONE)
    # A term that is the same in all columns is left out: shears take half of the time.
    if right:
        cells = cells + np.arange(size[1], dtype=kind) * right
    cells >>= 16
    return cells.clip(0, side + 1, out=cells)


_kept_map = lru_cache(maxsize=MAPS)(_map_of_pixels)
