"""Affine maps of pictures as matrices, a set of parameters for every sample; composed, they are one resampling.

A matrix float64 [n, 2, 3] leads from places in the result to places in the image, x before y, in Pillow's coordinates (pixel i of
a side reaches from i to i + 1), as `geometry.affine` takes it. Parameters are float64 [n], computed on the CPU, where the sine of
a number does not depend on the batch in which it stands.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["composed", "rotation", "shear", "translation"]

Numbers = NDArray[np.float64]


def translation(right: Numbers, down: Numbers) -> Tensor:
    """Moves the picture by pixels to the right and down (negative: left, up); torchvision's `translate`."""
    right, down = np.broadcast_arrays(np.asarray(right, dtype=np.float64), np.asarray(down, dtype=np.float64))
    out = _identity(len(right))
    out[:, 0, 2], out[:, 1, 2] = -right, -down
    return torch.from_numpy(out)


def shear(across: Numbers, down: Numbers, size: tuple[int, int], about: str = "middle") -> Tensor:
    """Shears the picture: a pixel one further down moves `across` pixels to the left, one further right `down` pixels up.

    `size` (h, w); `about` says what stays: the `middle`, or the upper left `corner` as in RandAugment's shears. The parameters are
    the tangents of the angles that torchvision's `affine(shear=)` takes; where both differ from 0, lines are sheared first.
    """
    across, down = np.broadcast_arrays(np.asarray(across, dtype=np.float64), np.asarray(down, dtype=np.float64))
    out = _identity(len(across))
    out[:, 0, 0] += across * down
    out[:, 0, 1], out[:, 1, 0] = across, down
    if about == "middle":
        right, below = size[1] / 2, size[0] / 2
        out[:, 0, 2] = right - out[:, 0, 0] * right - across * below
        out[:, 1, 2] = -down * right
    return torch.from_numpy(out)


def rotation(degrees: Numbers, size: tuple[int, int]) -> Tensor:
    """Rotates the picture of `size` (h, w) about its middle, counter-clockwise; at multiples of 90 degrees without any rest.

    As Pillow's `rotate`, which rounds sine and cosine to 15 digits, so that those of right angles are exact.
    """
    out = _identity(len(degrees))
    middle = size[1] / 2, size[0] / 2
    for matrix, angle in zip(out, np.asarray(degrees, dtype=np.float64).tolist(), strict=True):
        turn = -math.radians(angle % 360.0)
        cosine, sine = round(math.cos(turn), 15), round(math.sin(turn), 15)
        matrix[:] = [[cosine, sine, 0.0], [-sine, cosine, 0.0]]
        matrix[:, 2] = middle[0] - middle[0] * cosine - middle[1] * sine, middle[1] + middle[0] * sine - middle[1] * cosine
    return torch.from_numpy(out)


def composed(*matrices: Tensor) -> Tensor:
    """The map that applies the first to a picture, then the next, and so on."""
    first, *rest = (matrix.numpy() for matrix in matrices)
    for then in rest:
        # Places in the result lead through the last map first. Written out: a product of stacks may depend on their height.
        turned = [
            [
                first[:, i, 0] * then[:, 0, j] + first[:, i, 1] * then[:, 1, j] + (first[:, i, 2] if j == 2 else 0.0)
                for j in range(3)
            ]
            for i in range(2)
        ]
        first = np.stack([np.stack(line, axis=1) for line in turned], axis=1)
    return torch.from_numpy(np.ascontiguousarray(first))


def _identity(n: int) -> Numbers:
    return np.tile(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), (n, 1, 1))
