"""Pictures that the transforms are tried on: crops of scikit-learn's photographs, and such as have
few levels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image


@cache
def photograph() -> Image.Image:
    import sklearn.datasets

    return Image.open(Path(sklearn.datasets.__file__).parent / "images" / "flower.jpg").convert(
        "RGB"
    )


@cache
def pictures(channels: int = 3, height: int = 33, width: int = 29, count: int = 32) -> torch.Tensor:
    """uint8 [count, channels, height, width]: crops; the last five of one level, of two, of
    neighbouring levels, noise, one dot."""
    whole = photograph() if channels == 3 else photograph().convert("L")
    crops = [
        whole.crop((9 * i + 80, 7 * i, 9 * i + 80 + width, 7 * i + height)) for i in range(count)
    ]
    x = torch.stack([tensor(crop) for crop in crops])
    generator = torch.Generator().manual_seed(0)
    x[-5] = 93
    x[-4] = torch.where(torch.rand(x[0].shape, generator=generator) < 0.3, 20, 230)
    x[-3] = torch.randint(100, 104, x[0].shape, generator=generator)
    x[-2] = torch.randint(0, 256, x[0].shape, generator=generator)
    x[-1] = 0
    x[-1, :, height // 2, width // 3] = 255
    return x


def image(x: torch.Tensor) -> Image.Image:
    """One picture [c, h, w] for Pillow."""
    pixels = x.permute(1, 2, 0).numpy()
    return Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])


def tensor(picture: Image.Image) -> torch.Tensor:
    """A picture of Pillow as uint8 [c, h, w]."""
    pixels = np.array(picture)
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)


def assert_same_bits(
    change: Callable[[torch.Tensor, np.ndarray], torch.Tensor], x: torch.Tensor
) -> None:
    """`change(images, rows)` gives a row the same bits alone, among any others, in any order and
    memory layout."""
    n = len(x)
    together = change(x, np.arange(n))
    assert together.dtype == torch.uint8 and together.shape == x.shape
    for size in (1, 2, 3, 7, n):
        rows = np.random.default_rng(size).permutation(n)[:size]
        part = x[torch.from_numpy(rows)]
        for layout in (torch.contiguous_format, torch.channels_last):
            given = part.contiguous(memory_format=layout)
            kept = given.clone()
            assert torch.equal(change(given, rows), together[torch.from_numpy(rows)]), (
                size,
                layout,
            )
            assert torch.equal(given, kept)


def bilinear(picture: Image.Image, operation: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """A resampling of Pillow done in floats and rounded to levels; of bytes it would drop the
    fractions."""
    bands = [operation(band.convert("F")) for band in picture.split()]
    levels = [Image.fromarray(np.rint(np.asarray(band)).astype(np.uint8)) for band in bands]
    return Image.merge(picture.mode, levels)
