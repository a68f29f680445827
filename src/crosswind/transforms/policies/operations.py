"""The operations of the augmentation policies, how strong each is at each level, and a batch carried through chains of them.

Names and magnitudes are torchvision's (RandAugment, TrivialAugmentWide, AutoAugment, AugMix); what an operation does is what
torchvision's function does to a Pillow image, to the level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.transforms import photometry
from crosswind.transforms.geometry import affine
from crosswind.transforms.layout import in_groups

__all__ = ["GEOMETRIC", "OPERATIONS", "SIGNED", "Chains", "carried_out", "codes", "levels", "matrix_of", "pick", "signed"]

OPERATIONS = (
    "identity",
    "shear-x",
    "shear-y",
    "translate-x",
    "translate-y",
    "rotate",
    "brightness",
    "colour",
    "contrast",
    "sharpness",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
    "invert",
)
"""All operations; a number stands for the operation at that place."""

GEOMETRIC = ("shear-x", "shear-y", "translate-x", "translate-y", "rotate")
SIGNED = (*GEOMETRIC, "brightness", "colour", "contrast", "sharpness")
"""Operations whose magnitude is as often negative as positive."""

_CODE = {name: code for code, name in enumerate(OPERATIONS)}
_IS_GEOMETRIC = np.array([name in GEOMETRIC for name in OPERATIONS])
_RESAMPLED = _CODE["shear-x"]  # stands for all geometric operations where samples are grouped
_IS_SIGNED = np.array([name in SIGNED for name in OPERATIONS])


@dataclass(frozen=True)
class Chains:
    """What every sample goes through, one operation after the other.

    `operations` int64 [n, steps]: places in `OPERATIONS`. `magnitudes` float64 [n, steps], with their sign: shears as the ratio of
    pixels, translations in pixels (the fraction is dropped), rotations in degrees against the clock, brightness to sharpness as
    what is added to a factor of 1, posterize in bits that stay, solarize as the first level that is inverted; else 0.
    """

    operations: NDArray[np.int64]
    magnitudes: NDArray[np.float64]


def pick(bits: NDArray[np.integer[Any]], count: int) -> NDArray[np.int64]:
    """Whole numbers uniform in [0, count) out of uniform ones in [0, 65536)."""
    return (bits.astype(np.int64) * count) >> 16


def codes(names: tuple[str, ...]) -> NDArray[np.int64]:
    """The numbers of operations."""
    return np.array([_CODE[name] for name in names])


def signed(operations: NDArray[np.int64], magnitudes: NDArray[np.float64], negative: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Magnitudes with a minus where `negative`, if the operation has a sign."""
    return np.where(_IS_SIGNED[operations] & negative, -magnitudes, magnitudes)


@cache
def levels(space: str, bins: int, size: tuple[int, int]) -> NDArray[np.float64]:
    """The magnitude of every operation at every level, without sign: float64 [len(OPERATIONS), bins], not to be changed.

    `space`: "randaugment" (also AutoAugment's), "trivialaugment" or "augmix". `size`: height and width of the images, of which the
    longest translations are shares (150/331, in AugMix 1/3; 32 pixels in TrivialAugment). The numbers are torchvision's, rounded
    to single precision as they are there.
    """
    shear, turn, factor, lost = {
        "randaugment": (0.3, 30.0, 0.9, 4),
        "trivialaugment": (0.99, 135.0, 0.99, 6),
        "augmix": (0.3, 30.0, 0.9, 4),
    }[space]
    share = {"randaugment": 150.0 / 331.0, "augmix": 1.0 / 3.0}.get(space)
    across, down = (32.0, 32.0) if share is None else (share * size[1], share * size[0])
    if space == "augmix":
        across, down = size[1] / 3.0, size[0] / 3.0
    reach = dict(zip(GEOMETRIC, (shear, shear, across, down, turn), strict=True))
    reach |= dict.fromkeys(("brightness", "colour", "contrast", "sharpness"), factor)
    table = torch.zeros(len(OPERATIONS), bins, dtype=torch.float64)
    for name, most in reach.items():
        table[_CODE[name]] = torch.linspace(0.0, most, bins, dtype=torch.float32)
    # AugMix begins where half of the bits are gone.
    kept = (4 if space == "augmix" else 8) - (torch.arange(bins) / ((bins - 1) / lost)).round()
    table[_CODE["posterize"]] = kept
    table[_CODE["solarize"]] = torch.linspace(255.0, 0.0, bins, dtype=torch.float32)
    found = table.numpy()
    found.flags.writeable = False
    return found


def matrix_of(operation: str, magnitudes: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float64]:
    """The affine maps [n, 2, 3] of a geometric operation, from places in the result to places in the image as in `affine`.

    Shears leave the upper left corner where it is, rotations turn round the middle of an image of `size` (h, w).
    """
    out = np.zeros((len(magnitudes), 2, 3))
    out[:, 0, 0] = out[:, 1, 1] = 1.0
    if operation == "shear-x":
        out[:, 0, 1] = magnitudes
    elif operation == "shear-y":
        out[:, 1, 0] = magnitudes
    elif operation == "translate-x":
        out[:, 0, 2] = -np.trunc(magnitudes)
    elif operation == "translate-y":
        out[:, 1, 2] = -np.trunc(magnitudes)
    else:
        # Each angle on its own: the last bit of a vectorised cosine may depend on where it stands.
        angles, where = np.unique(magnitudes, return_inverse=True)
        turned = [math.radians(angle % 360.0) for angle in angles.tolist()]
        cosine = np.array([round(math.cos(angle), 15) for angle in turned])[where]
        sine = np.array([round(math.sin(angle), 15) for angle in turned])[where]
        middle_x, middle_y = size[1] / 2, size[0] / 2
        out[:, 0, 0] = out[:, 1, 1] = cosine
        out[:, 0, 1], out[:, 1, 0] = -sine, sine
        out[:, 0, 2] = middle_x - cosine * middle_x + sine * middle_y
        out[:, 1, 2] = middle_y - sine * middle_x - cosine * middle_y
    return out


def carried_out(x: Tensor, chains: Chains, interpolation: str = "nearest", once: bool = True) -> Tensor:
    """The images uint8 [n, c, h, w] after every step of their `chains`: new, in the memory layout of `x`.

    Samples are grouped by operation at each step. `once`: geometric operations that follow each other (with nothing or an identity
    between) are composed and resampled once, so nothing is rounded between them, and what one moves out of the image the next may
    bring back; else one by one. `interpolation` as in `geometry.affine`; outside is black.
    """
    matrices, resampled = _geometry(chains, (x.shape[2], x.shape[3]), once)
    # All that is resampled at a step is one group; what is resampled later, with what follows, waits among the identities.
    groups = np.where(_IS_GEOMETRIC[chains.operations], np.where(resampled, _RESAMPLED, 0), chains.operations)

    def change(step: int, group: int, images: Tensor, rows: NDArray[np.int64]) -> Tensor:
        if group == _RESAMPLED:
            return affine(images, torch.from_numpy(matrices[rows, step]), 0, interpolation)
        return _changed(OPERATIONS[group], images, torch.from_numpy(chains.magnitudes[rows, step]))

    return in_groups(x, groups, change)


def _geometry(chains: Chains, size: tuple[int, int], once: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """At which steps a sample is resampled (bool [n, steps]), and along which map (float64 [n, steps, 2, 3])."""
    n, steps = chains.operations.shape
    geometric = _IS_GEOMETRIC[chains.operations]
    # Whether the next step of the sample that is no identity is geometric as well: then that one resamples.
    goes_on = np.zeros_like(geometric)
    if once:
        for step in range(steps - 2, -1, -1):
            following = chains.operations[:, step + 1]
            goes_on[:, step] = np.where(following == 0, goes_on[:, step + 1], _IS_GEOMETRIC[following])
    matrices = np.empty((n, steps, 2, 3))
    pending = np.tile(np.eye(3)[:2], (n, 1, 1))
    for step in range(steps):
        code = chains.operations[:, step]
        for number in np.unique(code[geometric[:, step]]):
            rows = np.flatnonzero(code == number)
            pending[rows] = _after(pending[rows], matrix_of(OPERATIONS[number], chains.magnitudes[rows, step], size))
        matrices[:, step] = pending
        pending[geometric[:, step] & ~goes_on[:, step]] = np.eye(3)[:2]
    return matrices, geometric & ~goes_on


def _after(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The maps of `second` done to the result of `first`."""
    # Written out: the order of sums inside a product of matrices may depend on how many there are.
    out = first[:, :, 0:1] * second[:, 0:1] + first[:, :, 1:2] * second[:, 1:2]
    out[:, :, 2] += first[:, :, 2]
    return out


def _changed(name: str, x: Tensor, magnitudes: Tensor) -> Tensor:
    match name:
        case "brightness":
            return photometry.brightness(x, 1.0 + magnitudes)
        case "colour":
            return photometry.saturation(x, 1.0 + magnitudes)
        case "contrast":
            return photometry.contrast(x, 1.0 + magnitudes)
        case "sharpness":
            return photometry.sharpness(x, 1.0 + magnitudes)
        case "posterize":
            return photometry.posterize(x, magnitudes)
        case "solarize":
            return photometry.solarize(x, magnitudes)
        case "autocontrast":
            return photometry.autocontrast(x)
        case "equalize":
            return photometry.equalize(x)
        case _:
            return photometry.invert(x)
