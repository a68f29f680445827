"""What the corruptions are compared with: photographs, the PyPI package, and its random numbers
replaced by ours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import sklearn.datasets
import torch
from numpy.typing import NDArray
from PIL import Image

THEIR_NAMES = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}
PHOTOGRAPHS = Path(sklearn.datasets.__file__).parent / "images"


@cache
def photographs(n: int, height: int, width: int) -> NDArray[np.uint8]:
    """Pieces of scikit-learn's two photographs, in turn: uint8 [n, h, w, 3]."""
    random, out = np.random.default_rng(n), []
    for i in range(n):
        with Image.open(PHOTOGRAPHS / ("china.jpg", "flower.jpg")[i % 2]) as picture:
            side = int(random.integers(160, 400))
            left, top = (
                int(random.integers(0, picture.width - side)),
                int(random.integers(0, picture.height - side)),
            )
            out.append(
                np.asarray(
                    picture.crop((left, top, left + side, top + side)).resize((width, height))
                )
            )
    return np.stack(out)


def batch(pixels: NDArray[np.uint8]) -> torch.Tensor:
    """Pixels [n, h, w, c] as a batch [n, c, h, w]."""
    return torch.from_numpy(np.array(pixels)).permute(0, 3, 1, 2).contiguous()


def pixels(x: torch.Tensor) -> NDArray[np.int64]:
    """A batch as whole numbers [n, h, w, c] with a sign."""
    return x.permute(0, 2, 3, 1).numpy().astype(np.int64)


def theirs(name: str, images: NDArray[np.uint8], severity: int) -> NDArray[np.int64]:
    """The images as imagecorruptions corrupts them: whole numbers [n, h, w, c]."""
    import imagecorruptions

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own
        done = [
            imagecorruptions.corrupt(
                image, corruption_name=THEIR_NAMES.get(name, name), severity=severity
            )
            for image in images
        ]
    return np.stack(done).astype(np.int64)


@contextmanager
def numbers(normal: Any = None, uniform: Any = None) -> Iterator[None]:
    """NumPy's global normal or uniform draws replaced: `normal` [h, w] standard ones, `uniform` [k]
    in (0, 1), used in turn."""
    used = 0

    def next_uniform(low: float, high: float, size: tuple[int, ...] = ()) -> Any:
        nonlocal used
        count = int(np.prod(size))
        taken = uniform[used : used + count].reshape(size)
        used += count
        return low + (high - low) * taken

    def next_normal(size: tuple[int, int], loc: float, scale: float) -> Any:
        assert size == normal.shape
        return loc + scale * normal

    with patch("numpy.random.uniform", next_uniform), patch("numpy.random.normal", next_normal):
        yield
    assert uniform is None or used == len(uniform)
