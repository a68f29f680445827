"""Pictures of ice for `frost`: made by rule, or the user's own."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.errors import InputError
from crosswind.core.files import check_file
from crosswind.core.seeds import stream

SIDE = 384
CELLS = (128, 64, 32)  # sides of the cells in which needles are parallel, in pixels
WEIGHTS = (1.0, 0.8, 0.6)
# Means and standard deviations of red, green and blue in the first five photographs of ImageNet-C's
# frost.
LOOKS = (
    ((78, 149, 166), (27, 17, 15)),
    ((201, 205, 214), (21, 22, 23)),
    ((201, 205, 214), (21, 22, 23)),
    ((138, 153, 165), (29, 29, 30)),
    ((112, 123, 135), (44, 43, 42)),
)
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")


def image_files(folder: str, field: str) -> tuple[str, ...]:
    """The pictures in a folder by name. Raises `InputError` for `field` if there is no such folder
    or no picture in it."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise InputError(field, f"no folder {folder!r}")
    files = tuple(
        sorted(
            str(file)
            for file in path.iterdir()
            if file.suffix.lower() in ENDINGS and file.is_file()
        )
    )
    if not files:
        problem = f"folder {folder!r} holds no picture ({', '.join(ENDINGS)})"
        raise InputError(field, problem)
    return files


@lru_cache(maxsize=8)
def textures(
    files: tuple[str, ...] | None, every: int, height: int, width: int
) -> tuple[Tensor, ...]:
    """Pictures of ice, each uint8 [3, H, W] with H >= height, W >= width: those in `files`, or
    procedural ones.

    Of each picture, every `every`-th pixel is taken both ways; then it is enlarged if it is too
    small. Raises `InputError` for a file that is no picture.
    """
    from PIL import Image

    sheets = []
    for pixels in procedural_ice() if files is None else map(_read, files):
        picture = Image.fromarray(
            np.ascontiguousarray(pixels[every // 2 :: every, every // 2 :: every])
        )
        scale = max(1.0, height / picture.height, width / picture.width)
        if scale > 1:
            size = (
                max(width, round(picture.width * scale)),
                max(height, round(picture.height * scale)),
            )
            picture = picture.resize(size, Image.Resampling.BICUBIC)
        sheets.append(torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous())
    return tuple(sheets)


def _read(file: str) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        check_file(Path(file))
        with Image.open(file) as picture:
            return np.asarray(picture.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError("frost.pictures", f"cannot read {file!r} as a picture ({error})") from None


@lru_cache(maxsize=1)
def procedural_ice() -> tuple[NDArray[np.uint8], ...]:
    """Five pictures of needles of ice, uint8 [384, 384, 3]: always the same ones, made in less than
    a second.

    Each is a sum of three scales of needles, of which there are two textures, turned, and of
    clouds. The sum is given the mean and spread of a photograph of frost. Only operations that are
    rounded in one way are used, so that machines agree.
    """
    random = stream(0, "procedural ice needles")
    textures = []
    for _ in range(2):
        textures.append(
            np.sum(
                [
                    weight * _needles(random, cell)
                    for weight, cell in zip(WEIGHTS, CELLS, strict=True)
                ],
                axis=0,
            )
        )
    return tuple(_sheet(number, textures[number % 2], *look) for number, look in enumerate(LOOKS))


def _sheet(
    number: int, needles: NDArray[np.float64], means: tuple[int, ...], spreads: tuple[int, ...]
) -> NDArray[np.uint8]:
    random = stream(0, "procedural ice", number)
    height = np.rot90(needles, number // 2) + _cloud(random, 6) * 1.5 + _cloud(random, 24) * 0.5
    height -= height.mean()
    height /= height.std()
    levels = np.array(means) + np.array(spreads) * height[..., None]
    return np.rint(levels.clip(0, 255)).astype(np.uint8)


def _cloud(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Smooth noise of `count` bumps a side."""
    grid = random.random((count + 1, count + 1))
    coordinate = np.arange(SIDE, dtype=np.float64) * (count / SIDE)
    first = coordinate.astype(np.int64)
    share = _eased(coordinate - first)
    lines = grid[first] + (grid[first + 1] - grid[first]) * share[:, None]
    return lines[:, first] + (lines[:, first + 1] - lines[:, first]) * share


def _needles(random: np.random.Generator, cell: int) -> NDArray[np.float64]:
    """Cells about random points, each with parallel needles in a direction of its own and a bright
    rim."""
    count = SIDE // cell
    points = random.integers(0, cell, (2, count, count), dtype=np.int32)
    number = np.arange(count * count, dtype=np.int32).reshape(count, count)
    coordinate = np.arange(cell, dtype=np.int32)
    shape = (
        count,
        cell,
        count,
        cell,
    )  # pixels by the square that they lie in: each looks at the points of nine squares
    nearest = np.full(shape, 1 << 30, dtype=np.int32)
    second = np.full(shape, 1 << 30, dtype=np.int32)
    owner = np.zeros(shape, dtype=np.int32)
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            y, x, who = (
                np.roll(point, (-down, -across), (0, 1))[:, None, :, None]
                for point in (*points, number)
            )
            far_down = y + (down * cell - coordinate[:, None, None])
            far_across = x + (across * cell - coordinate)
            far = far_down**2 + far_across**2
            closer = far < nearest
            second = np.minimum(second, np.where(closer, nearest, far))
            np.copyto(owner, who, where=closer)
            np.minimum(nearest, far, out=nearest)
    whose = owner.reshape(SIDE, SIDE)
    gap = np.sqrt(second.reshape(SIDE, SIDE)) - np.sqrt(nearest.reshape(SIDE, SIDE))
    # A direction from its half tangent: no sine whose last bit is the processor's.
    half = random.uniform(-1, 1, count * count)
    cosine = (1 - half * half) / (1 + half * half)
    sine = 2 * half / (1 + half * half)
    upright = random.random(count * count) < 0.5
    cosine, sine = np.where(upright, -sine, cosine), np.where(upright, cosine, sine)
    size = cell / random.uniform(14, 28, count * count)
    line = np.arange(SIDE)[:, None]
    pixel = np.arange(SIDE)
    off = (cosine / size)[whose] * line - (sine / size)[whose] * pixel
    along = (sine / (9 * size))[whose] * line + (cosine / (9 * size))[whose] * pixel
    lattice = _lattice(random.random(1 << 14), whose, off, along)
    return lattice + 0.7 * np.maximum(0.0, 1 - gap / (0.06 * cell))


def _lattice(
    levels: NDArray[np.float64],
    owner: NDArray[np.int32],
    u: NDArray[np.float64],
    v: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Smooth noise of 2**14 random `levels` at (u, v), read from another place for each owner."""
    i = np.floor(u)
    j = np.floor(v)
    s = _eased(u - i)
    t = _eased(v - j)
    start = owner * 2741 + i.astype(np.int32) * 127 + j.astype(np.int32)
    first, second, third, fourth = (
        levels[(start + step) & (levels.size - 1)] for step in (0, 1, 127, 128)
    )
    upper = first + (second - first) * t
    lower = third + (fourth - third) * t
    return upper + (lower - upper) * s


def _eased(share: NDArray[np.float64]) -> NDArray[np.float64]:
    return share * share * (3 - 2 * share)
