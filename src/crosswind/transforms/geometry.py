"""Affine maps of images, a batch at a time with parameters for every sample, and the transforms
that move images.

A map is a matrix float64 [n, 2, 3] from places in the result to places in the image, x before y, in
Pillow's coordinates. Pixel i of a side reaches from i to i + 1, its centre lies at i + 1/2. So [[1,
0, t], [0, 1, 0]] moves the image t pixels to the left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.draws import uniforms
from crosswind.transforms.layout import dense, images_of, is_channels_last, lines_of, on_device

CHUNK = 131_072  # pixels at a time: their coordinates stay in the cache
ONE = 1 << 16  # a pixel's side in fixed point
SHARES = 1 << 11  # in how many parts the way from one pixel to the next is divided

Numbers = NDArray[np.float64]
Fixed = NDArray[np.signedinteger[Any]]


@register("rotate", kind="transform")
@dataclass(frozen=True)
class Rotate(Transform):
    """Rotates images about their middle, counter-clockwise, within their frame; what comes from
    outside is `fill`.

    `draw` says which angle: `uniform` in [-degrees, degrees]; `multiples`, a multiple of `step`
    from `step` to `degrees`, each as likely (Omran and Schiele 2022: step 18, degrees 90); `fixed`,
    `degrees` itself. Right angles are exact: every pixel of a square image is one of the original,
    whatever the interpolation. Checked against: torchvision's `rotate` on Pillow images, nearest to
    the pixel, bilinear to one level (Pillow cuts levels downwards, here they are rounded).
    """

    degrees: float = knob(30.0, domain="[-360, 360]", doc="the angle, or the largest that is drawn")
    draw: str = knob(
        "uniform", domain="{uniform, multiples, fixed}", doc="how each image's angle is drawn"
    )
    step: float = knob(
        18.0,
        domain="(0, 360]",
        source="Omran and Schiele 2022",
        doc="with multiples: what they are multiples of",
    )
    interpolation: str = knob(
        "bilinear", domain="{nearest, bilinear}", doc="how values between pixels are found"
    )
    fill: int = knob(0, domain="[0, 255]", doc="the level outside the image")

    strengths = ("degrees", (10.0, 20.0, 30.0, 60.0, 90.0))

    def angles(self, keys: NDArray[np.uint64]) -> Numbers:
        """The angle of each image in degrees."""
        if self.draw == "fixed":
            return np.full(len(keys), self.degrees)
        drawn = uniforms(keys, 1).double().numpy()[:, 0]
        if self.draw == "uniform":
            return self.degrees * (2 * drawn - 1)
        # A little more, so that 5 times 18 degrees count as 90 whatever the rounding.
        choices = max(1, int(abs(self.degrees) / self.step + 1e-9))
        return np.copysign(self.step * (1 + np.floor(drawn * choices)), self.degrees)

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        degrees = self.angles(keys)
        size = (x.shape[2], x.shape[3])
        matrices = rotation(degrees, size)
        return affine(x, matrices, self.fill, self.interpolation)


@register("translate", kind="transform")
@dataclass(frozen=True)
class Translate(Transform):
    """Moves images by whole pixels; what comes from outside is `fill`.

    `draw` says how far. `uniform`: to each side and to either with the same chance, at most by
    `horizontal` times the width and `vertical` times the height. `fixed`: by just as much to the
    right and down (negative: to the left and up). Fractions of a pixel are rounded. Checked
    against: torchvision's `affine` on Pillow images, to the pixel.
    """

    horizontal: float = knob(
        0.1, domain="[-1, 1]", source="Ng et al. 2022", doc="share of the width"
    )
    vertical: float = knob(
        0.1, domain="[-1, 1]", source="Ng et al. 2022", doc="share of the height"
    )
    draw: str = knob("uniform", domain="{uniform, fixed}", doc="how far each image is moved")
    fill: int = knob(0, domain="[0, 255]", doc="the level outside the image")

    strengths = ("horizontal", (0.05, 0.1, 0.2, 0.3, 0.5))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        farthest = (self.horizontal * x.shape[3], self.vertical * x.shape[2])
        far = np.rint(_either_way(self.draw, keys) * farthest)
        right = far[:, 0]
        down = far[:, 1]
        matrices = translation(right, down)
        return affine(x, matrices, self.fill)


@register("shear", kind="transform")
@dataclass(frozen=True)
class Shear(Transform):
    """Shears images about their middle; what comes from outside is `fill`.

    `horizontal` is the angle by which upright lines lean, `vertical` that of level lines.
    `uniform`: each up to the knob's value to either side. `fixed`: just as much, positive: the
    lower part to the left, the right part up. Where both are used, lines are sheared first. Checked
    against: torchvision's `affine(shear=)` on Pillow images, nearest to the pixel.
    """

    horizontal: float = knob(
        15.0, domain="[-80, 80]", source="Ng et al. 2022", doc="degrees by which upright lines lean"
    )
    vertical: float = knob(0.0, domain="[-80, 80]", doc="degrees by which level lines lean")
    draw: str = knob("uniform", domain="{uniform, fixed}", doc="how far each image is sheared")
    interpolation: str = knob(
        "nearest", domain="{nearest, bilinear}", doc="how values between pixels are found"
    )
    fill: int = knob(0, domain="[0, 255]", doc="the level outside the image")

    strengths = ("horizontal", (5.0, 10.0, 15.0, 30.0, 45.0))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        # The tangent of an angle of 16 bits, rounded far above the last bit: the same wherever the
        # sample stands in the batch.
        angles: Numbers = np.radians(
            _either_way(self.draw, keys) * (self.horizontal, self.vertical)
        )
        leaning = np.asarray(np.round(np.tan(angles), 12), dtype=np.float64)
        across = leaning[:, 0]
        down = leaning[:, 1]
        size = (x.shape[2], x.shape[3])
        matrices = shear(across, down, size)
        return affine(x, matrices, self.fill, self.interpolation)


def _either_way(draw: str, keys: NDArray[np.uint64]) -> Numbers:
    """How much of the two knobs each image gets: [n, 2], 1 where `draw` is fixed, else uniform in
    (-1, 1)."""
    if draw == "fixed":
        return np.ones((len(keys), 2))
    return 2 * uniforms(keys, 2).double().numpy() - 1


def translation(right: Numbers, down: Numbers) -> Tensor:
    """The maps that move the image by pixels to the right and down (negative: left, up);
    torchvision's `translate`."""
    out = _identity(len(right))
    out[:, 0, 2], out[:, 1, 2] = -right, -down
    return torch.from_numpy(out)


def shear(across: Numbers, down: Numbers, size: tuple[int, int], about: str = "middle") -> Tensor:
    """The maps that shear: a pixel one further down moves `across` pixels to the left, one further
    right `down` pixels up.

    `size` (h, w); `about` says what stays: the `middle`, or the upper left `corner` as in
    RandAugment's shears. The parameters are the tangents of the angles that torchvision's
    `affine(shear=)` takes; where both differ from 0, lines are sheared first.
    """
    out = _identity(len(across))
    out[:, 0, 0] += across * down
    out[:, 0, 1], out[:, 1, 0] = across, down
    if about == "middle":
        right = size[1] / 2
        below = size[0] / 2
        out[:, 0, 2] = right - out[:, 0, 0] * right - across * below
        out[:, 1, 2] = -down * right
    return torch.from_numpy(out)


def rotation(degrees: Numbers, size: tuple[int, int]) -> Tensor:
    """The maps that rotate an image of `size` (h, w) about its middle, counter-clockwise; exact at
    multiples of 90 degrees.

    As Pillow's `rotate`, which rounds sine and cosine to 15 digits. Each angle is taken on its own:
    the last bit of a vectorised cosine may depend on its place in the batch.
    """
    angles, where = np.unique(degrees, return_inverse=True)
    turns = [-math.radians(angle % 360.0) for angle in angles.tolist()]
    cosine = np.array([round(math.cos(turn), 15) for turn in turns])[where]
    sine = np.array([round(math.sin(turn), 15) for turn in turns])[where]
    right = size[1] / 2
    below = size[0] / 2
    out = np.empty((len(degrees), 2, 3))
    out[:, 0, 0] = out[:, 1, 1] = cosine
    out[:, 0, 1], out[:, 1, 0] = sine, -sine
    right_of_corner = right - right * cosine - below * sine
    below_corner = below + right * sine - below * cosine
    out[:, 0, 2] = right_of_corner
    out[:, 1, 2] = below_corner
    return torch.from_numpy(out)


def _identity(n: int) -> Numbers:
    out = np.zeros((n, 2, 3))
    out[:, 0, 0] = out[:, 1, 1] = 1.0
    return out


def affine(x: Tensor, matrices: Tensor, fill: int = 0, interpolation: str = "nearest") -> Tensor:
    """Every image resampled once along its own affine map: a new tensor uint8 [n, c, h, w] in the
    memory layout of `x`.

    `x`: uint8 [n, c, h, w], c 1 or 3. `matrices`: float64 [n, 2, 3], see this file's head. A centre
    from outside the image takes the value `fill` (0 to 255) in all channels. `interpolation`:
    `nearest`, the pixel in which the place lies, or `bilinear` between four centres, the outermost
    ones continued to the edge, rounded to the nearest level.

    Coordinates are whole numbers of 1/65536 pixel as in Pillow's own nearest neighbour, which this
    equals to the pixel. Weights are whole numbers of 1/2048: the same bits in any batch, layout and
    device. Raises `ValueError` for other arguments.
    """
    n, _, height, width = x.shape
    if (
        x.dtype != torch.uint8
        or matrices.shape != (n, 2, 3)
        or interpolation not in ("nearest", "bilinear")
    ):
        arguments = (
            f"{x.dtype}, matrices {list(matrices.shape)} for {n} images, interpolation"
            f" {interpolation!r}"
        )
        raise ValueError(
            "affine needs uint8 images, a matrix [2, 3] for each, nearest or bilinear, not"
            f" {arguments}"
        )
    steps = fixed_point(matrices.detach().cpu().numpy().astype(np.float64), height, width)
    # Moves and shears of whole lines copy them in one piece: a tenth of the time.
    is_whole = (steps[:, 0, 0] == ONE) & (steps[:, 1, 0] == 0)
    if interpolation == "bilinear":
        is_upright = (steps[:, 0, 1] == 0) & (steps[:, 1, 1] == ONE)
        is_whole &= is_upright & (steps[:, :, 2] % ONE == ONE // 2).all(1)

    sampled = _nearest if interpolation == "nearest" else _bilinear
    x = dense(x)
    if is_whole.all() or not is_whole.any():
        out = torch.empty_like(x)
        (_lines if is_whole.any() else sampled)(x, steps, fill, out)
        return out
    # Samples are brought together and put back by gathers of images in one piece; a scatter would
    # take thirty times as long.
    order = np.argsort(~is_whole, kind="stable")
    cut = int(is_whole.sum())
    lines = lines_of(x).index_select(0, on_device(order, x.device))
    x = images_of(lines, x)
    out = torch.empty_like(x)
    _lines(x[:cut], steps[order[:cut]], fill, out[:cut])
    sampled(x[cut:], steps[order[cut:]], fill, out[cut:])
    return images_of(lines_of(out).index_select(0, on_device(np.argsort(order), x.device)), out)


def fixed_point(matrices: Numbers, height: int, width: int) -> Fixed:
    """Integers [n, 2, 3]: what one step right, one step down and the first centre mean in the
    image, in 1/65536 pixel."""
    matrices[:, :, 2] += matrices[:, :, 0] * 0.5 + matrices[:, :, 1] * 0.5
    steps = np.floor(matrices * ONE + 0.5)
    reach = np.abs(steps).max(initial=0.0) * (height + width + 2)
    if not reach < 1 << 60:
        raise ValueError("affine needs finite matrices, whose places lie within 2^43 pixels")
    return steps.astype(np.int32 if reach < 1 << 31 else np.int64)


def _sides(steps: Fixed, axis: int, offset: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """The two terms of a centre's place along one axis: a number a line [n, h, 1], and one a column
    [n, 1, w].

    A term that is the same in all lines, or all columns, of every image has the length 1: shears
    and moves take half of the time.
    """
    right, down, start = (steps[:, axis, entry, None] for entry in range(3))
    lines = start + steps.dtype.type(offset)
    columns = np.zeros_like(start)
    if down.any():
        lines = lines + down * np.arange(x.shape[2], dtype=steps.dtype)
    if right.any():
        columns = right * np.arange(x.shape[3], dtype=steps.dtype)
    return on_device(lines[:, :, None], x.device), on_device(columns[:, None, :], x.device)


def _nearest(x: Tensor, steps: Fixed, fill: int, out: Tensor) -> None:
    n, channels, height, width = x.shape
    # A frame of one pixel of `fill` all round: what lies outside is found there, so that nothing
    # need be chosen afterwards.
    high = height + 2
    wide = width + 2
    down = _sides(steps, 1, ONE, x)
    across = _sides(steps, 0, ONE, x)
    size = max(1, min(n, CHUNK // max(1, height * width)))
    # Used again for every chunk: new memory costs as much as the arithmetic.
    index, space = down[0].new_empty(2, size, height, width).unbind(0)
    bases = torch.arange(size, dtype=index.dtype, device=x.device).mul_(high * wide)[:, None, None]
    last = is_channels_last(x)
    framed = x.new_full((size, high, wide, channels if last else 1), fill)
    taken = x.new_empty(size, height, width)
    for start in range(0, n, size):
        count = min(size, n - start)
        chunk = slice(start, start + size)
        if count < size:
            index, space, bases, framed, taken = (
                buffer[:count] for buffer in (index, space, bases, framed, taken)
            )
        below = _cells(down[0][chunk], down[1][chunk], height, index).mul_(wide).add_(bases)
        cells = _cells(across[0][chunk], across[1][chunk], width, space)
        torch.add(below.expand_as(index), cells, out=index)
        # Channels that lie side by side are looked up together, else plane by plane.
        if last:
            framed[:, 1:-1, 1:-1].copy_(lines_of(x[chunk]))
            lines_out = lines_of(out[chunk]).view(-1, channels)
            torch.index_select(framed.view(-1, channels), 0, index.view(-1), out=lines_out)
            continue
        for channel in range(channels):
            framed[:, 1:-1, 1:-1, 0].copy_(x[chunk, channel])
            torch.index_select(framed.view(-1), 0, index.view(-1), out=taken.view(-1))
            out[chunk, channel] = taken


def _cells(lines: Tensor, columns: Tensor, size: int, space: Tensor) -> Tensor:
    """The cells of a framed side in which places lie: integers in [0, size + 1], [n, h or 1, w or
    1]; `space` [n, h, w] is used."""
    full = lines.shape[1] == space.shape[1] and columns.shape[2] == space.shape[2]
    return (
        torch.add(lines, columns, out=space if full else None)
        .bitwise_right_shift_(16)
        .clamp_(0, size + 1)
    )


def _lines(x: Tensor, steps: Fixed, fill: int, out: Tensor) -> None:
    """`_nearest` where one step to the right is one pixel to the right: every line comes from one
    place in one line."""
    n, channels, height, width = x.shape
    if not is_channels_last(x) and channels > 1:
        x = x.view(n * channels, 1, height, width)
        out = out.view(n * channels, 1, height, width)
        return _lines(x, steps.repeat(channels, axis=0), fill, out)
    numbers = np.arange(height)
    line = (steps[:, 1, 1:2] * numbers + steps[:, 1, 2:]) >> 16
    steps_right = (steps[:, 0, 1:2] * numbers + steps[:, 0, 2:]) >> 16
    first = np.clip(steps_right, -width, width)
    inside = (line >= 0) & (line < height)
    # Before every line, and after the last, stand as many pixels of `fill`.
    begin = np.where(inside, (2 * line + 1) * width + first, 0).astype(np.int64)
    size = max(1, min(n, CHUNK // max(1, height * width)))
    begin += (np.arange(n) % size * (2 * height * width))[:, None]
    index = on_device(begin, x.device)
    framed = x.new_full((size * 2 * height * width + width, channels), fill)
    pieces = framed.as_strided((size * 2 * height * width + 1, width * channels), (channels, 1))
    images = framed[:-width].view(size, height, 2, width, channels)[:, :, 1]
    for start in range(0, n, size):
        chunk = slice(start, start + size)
        count = min(size, n - start)
        images[:count].copy_(x[chunk].permute(0, 2, 3, 1))
        lines_out = out[chunk].permute(0, 2, 3, 1).view(-1, width * channels)
        torch.index_select(pieces, 0, index[chunk].view(-1), out=lines_out)


def _bilinear(x: Tensor, steps: Fixed, fill: int, out: Tensor) -> None:
    n, channels, height, width = x.shape
    sides = _sides(steps, 1, 0, x), _sides(steps, 0, 0, x)
    size = max(1, CHUNK // max(1, height * width))
    for start in range(0, n, size):
        chunk = slice(start, start + size)
        down, across = (lines[chunk] + columns[chunk] for lines, columns in sides)
        # Negative where a centre comes from outside: as a mask of bits, since comparisons are many
        # times as slow.
        outside = (down | (height * ONE - 1 - down)) | (across | (width * ONE - 1 - across))
        inside = outside.bitwise_right_shift_(31).to(torch.int32).bitwise_not_()
        # In a frame of one pixel that continues the edge all round, the four pixels of every place
        # lie side by side.
        wide = width + 2
        (line, v), (column, u) = _neighbours(down, height), _neighbours(across, width)
        count = len(inside)
        bases = torch.arange(count, dtype=torch.int32, device=x.device).mul_((height + 2) * wide)[
            :, None, None
        ]
        index = (line.mul_(wide).add_(bases) + column).expand(count, height, width).reshape(-1)
        fourth = u * v
        second = u * SHARES - fourth
        third = v * SHARES - fourth
        weights = (SHARES * SHARES - u * SHARES - third, second, third, fourth)
        framed = torch.empty(count, height + 2, wide, dtype=torch.int32, device=x.device)
        flat = framed.view(-1)
        for channel in range(channels):
            plane = x[chunk, channel]
            framed[:, 1:-1, 1:-1] = plane
            framed[:, 0, 1:-1] = plane[:, 0]
            framed[:, -1, 1:-1] = plane[:, -1]
            framed[:, :, 0] = framed[:, :, 1]
            framed[:, :, -1] = framed[:, :, -2]
            # The four in the bytes of one word: one gather in place of four.
            words = flat[1:] << 8
            words += flat[:-1]
            words = (words[wide:] << 16).add_(words[:-wide])
            taken = words.index_select(0, index).view(count, height, width)
            blended = (taken & 255).mul_(weights[0])
            for weight in weights[1:]:
                blended += (taken.bitwise_right_shift_(8) & 255).mul_(weight)
            blended.add_(SHARES * SHARES // 2).bitwise_right_shift_(
                2 * SHARES.bit_length() - 2
            ).bitwise_and_(inside)
            out[chunk, channel] = blended.add_(~inside & fill) if fill else blended


def _neighbours(position: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The first of the two framed pixels between whose centres each place lies, and how far from it
    in 1/2048, int32."""
    position = (position + ONE // 2).clamp_(0, size * ONE + ONE - 1)
    share = (position & (ONE - 1)).bitwise_right_shift_(5).to(torch.int32)
    return position.bitwise_right_shift_(16).to(torch.int32), share
