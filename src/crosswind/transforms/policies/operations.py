"""The operations of the augmentation policies, how strong each is at each level, and a batch
carried through chains of them.

Names and magnitudes are torchvision's (RandAugment, TrivialAugmentWide, AutoAugment, AugMix); what
an operation does is what torchvision's function does to a Pillow image, to the level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.transforms import photometry
from crosswind.transforms.geometry import affine, fixed_point, rotation, shear, translation
from crosswind.transforms.layout import dense, images_of, in_groups, is_channels_last, lines_of
from crosswind.transforms.policies import pictures

GEOMETRIC = ("shear-x", "shear-y", "translate-x", "translate-y", "rotate")
_BLENDS = {
    "brightness": photometry.brightness,
    "colour": photometry.saturation,
    "contrast": photometry.contrast,
    "sharpness": photometry.sharpness,
}
_LEVELS = {"posterize": photometry.posterize, "solarize": photometry.solarize}
_WITHOUT = {
    "autocontrast": photometry.autocontrast,
    "equalize": photometry.equalize,
    "invert": photometry.invert,
}

_OF_ONE_PICTURE = {
    "brightness": pictures.brightness,
    "colour": pictures.saturation,
    "contrast": pictures.contrast,
    "sharpness": pictures.sharpness,
    "posterize": pictures.posterize,
    "solarize": pictures.solarize,
    "autocontrast": pictures.autocontrast,
    "equalize": pictures.equalize,
    "invert": pictures.invert,
}
LARGE = 25_000  # values of a picture from which it goes through its operations by itself
FEW = 32  # pictures that do so whatever their size: a group of theirs is not worth its calls

OPERATIONS = ("identity", *GEOMETRIC, *_BLENDS, *_LEVELS, *_WITHOUT)
"""All operations; a number stands for the operation at that place."""

USUAL = OPERATIONS[:-1]
"""The fourteen that RandAugment and TrivialAugment draw from: all but invert."""

SIGNED = (*GEOMETRIC, *_BLENDS)
"""Operations whose magnitude is as often negative as positive."""

_CODE = {name: code for code, name in enumerate(OPERATIONS)}
_IS_GEOMETRIC = np.array([name in GEOMETRIC for name in OPERATIONS])
_RESAMPLED = _CODE["shear-x"]  # stands for all geometric operations where samples are grouped
_IS_SIGNED = np.array([name in SIGNED for name in OPERATIONS])


@dataclass(frozen=True)
class Chains:
    """The operations of every sample, one after the other.

    `operations` int64 [n, steps]: places in `OPERATIONS`. `magnitudes` float64 [n, steps], with
    their sign. Shears are the ratio of pixels, translations pixels (the fraction is dropped),
    rotations degrees against the clock, brightness to sharpness what is added to a factor of 1.
    Posterize is in bits that stay, solarize the first level that is inverted; else 0.
    """

    operations: NDArray[np.int64]
    magnitudes: NDArray[np.float64]


def pick(bits: NDArray[np.integer[Any]], count: int) -> NDArray[np.int64]:
    """Whole numbers uniform in [0, count) out of uniform ones in [0, 65536)."""
    return (bits.astype(np.int64) * count) >> 16


def codes(names: tuple[str, ...]) -> NDArray[np.int64]:
    """The numbers of operations."""
    return np.array([_CODE[name] for name in names])


def signed(
    operations: NDArray[np.int64], magnitudes: NDArray[np.float64], negative: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Magnitudes with a minus where `negative`, if the operation has a sign."""
    return np.where(_IS_SIGNED[operations] & negative, -magnitudes, magnitudes)


@cache
def levels(space: str, bins: int, size: tuple[int, int]) -> NDArray[np.float64]:
    """The magnitude of every operation at every level, without sign: float64 [len(OPERATIONS),
    bins], read-only.

    `space`: "randaugment" (also AutoAugment's), "trivialaugment" or "augmix". `size`: height and
    width of the images, of which the longest translations are shares (150/331, in AugMix 1/3; 32
    pixels in TrivialAugment). The numbers are torchvision's, rounded to single precision as they
    are there.
    """
    height, width = size
    randaugment = (0.3, 30.0, 0.9, 8, 4, 150.0 / 331.0 * width, 150.0 / 331.0 * height)
    trivialaugment = (0.99, 135.0, 0.99, 8, 2, 32.0, 32.0)
    augmix = (0.3, 30.0, 0.9, 4, 0, width / 3.0, height / 3.0)
    shear, turn, factor, most_bits, least, across, down = {
        "randaugment": randaugment,
        "trivialaugment": trivialaugment,
        "augmix": augmix,
    }[space]
    table = torch.zeros(len(OPERATIONS), bins, dtype=torch.float64)
    for name, reach in zip(SIGNED, (shear, shear, across, down, turn, *[factor] * 4), strict=True):
        table[_CODE[name]] = torch.linspace(0.0, reach, bins, dtype=torch.float32)
    bits_taken = torch.arange(bins) / ((bins - 1) / (most_bits - least))
    table[_CODE["posterize"]] = most_bits - bits_taken.round()
    table[_CODE["solarize"]] = torch.linspace(255.0, 0.0, bins, dtype=torch.float32)
    magnitudes = table.numpy()
    magnitudes.flags.writeable = False
    return magnitudes


def matrix_of(
    operation: str, magnitudes: NDArray[np.float64], size: tuple[int, int]
) -> NDArray[np.float64]:
    """The affine maps [n, 2, 3] of a geometric operation, as `geometry.affine` takes them.

    Shears leave the upper left corner where it is, rotations turn about the middle of an image of
    `size` (h, w).
    """
    none = np.zeros_like(magnitudes)
    matrix_makers = {
        "shear-x": lambda: shear(magnitudes, none, size, "corner"),
        "shear-y": lambda: shear(none, magnitudes, size, "corner"),
        "translate-x": lambda: translation(np.trunc(magnitudes), none),
        "translate-y": lambda: translation(none, np.trunc(magnitudes)),
        "rotate": lambda: rotation(magnitudes, size),
    }[operation]()
    return matrix_makers.numpy()


def carried_out(
    x: Tensor, chains: Chains, interpolation: str = "nearest", once: bool = True
) -> Tensor:
    """The images uint8 [n, c, h, w] after every step of their `chains`: new, in the memory layout
    of `x`.

    Samples are grouped by operation at each step. `once`: geometric operations that follow each
    other (with nothing or an identity between) are composed and resampled once; else one by one. So
    nothing is rounded between them, and what one moves out of the image the next may bring back.
    `interpolation` as in `geometry.affine`; outside is black.
    """
    size = (x.shape[2], x.shape[3])
    matrices, resampled = _geometry(chains, size, once)
    is_by_itself = x[0].numel() >= LARGE or len(x) <= FEW
    if x.device.type == "cpu" and interpolation == "nearest" and is_by_itself:
        return _one_after_the_other(x, chains, matrices, resampled)
    # All that is resampled at a step is one group; what is resampled later, with what follows,
    # waits among the identities.
    groups = np.where(
        _IS_GEOMETRIC[chains.operations], np.where(resampled, _RESAMPLED, 0), chains.operations
    )

    def change(step: int, group: int, images: Tensor, rows: NDArray[np.int64]) -> Tensor:
        if group == _RESAMPLED:
            return affine(images, torch.from_numpy(matrices[rows, step]), 0, interpolation)
        return _changed(OPERATIONS[group], images, torch.from_numpy(chains.magnitudes[rows, step]))

    return in_groups(x, groups, change)


def _one_after_the_other(
    x: Tensor, chains: Chains, matrices: NDArray[np.float64], resampled: NDArray[np.bool_]
) -> Tensor:
    """`carried_out` picture by picture, nearest pixel, in a processor's memory."""
    lines = lines_of(dense(x))
    last = is_channels_last(x)
    steps = fixed_point(matrices.reshape(-1, 2, 3), x.shape[2], x.shape[3])
    steps = steps.reshape(matrices.shape)
    pixels_of_all = lines.numpy()
    out = np.empty_like(pixels_of_all)
    for row, pixels in enumerate(pixels_of_all):
        for step, code in enumerate(chains.operations[row].tolist()):
            if resampled[row, step]:
                pixels = pictures.nearest(pixels, last, steps[row, step])
            elif code and not _IS_GEOMETRIC[code]:
                name = OPERATIONS[code]
                magnitude = float(chains.magnitudes[row, step])
                amount = 1.0 + magnitude if name in _BLENDS else magnitude
                pixels = _OF_ONE_PICTURE[name](pixels, last, amount)
        out[row] = pixels
    return images_of(torch.from_numpy(out), x)


def _geometry(
    chains: Chains, size: tuple[int, int], once: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """At which steps a sample is resampled (bool [n, steps]), and along which map (float64 [n,
    steps, 2, 3])."""
    n, steps = chains.operations.shape
    geometric = _IS_GEOMETRIC[chains.operations]
    # Whether the next step of the sample that is no identity is geometric as well: then that one
    # resamples.
    goes_on = np.zeros_like(geometric)
    if once:
        for step in range(steps - 2, -1, -1):
            following = chains.operations[:, step + 1]
            is_geometric = _IS_GEOMETRIC[following]
            goes_on[:, step] = np.where(following == 0, goes_on[:, step + 1], is_geometric)
    still = np.eye(3)[:2]
    moves = np.empty((n, steps, 2, 3))
    for number in np.unique(chains.operations[geometric]).tolist():
        alike = chains.operations == number
        moves[alike] = matrix_of(OPERATIONS[number], chains.magnitudes[alike], size)
    moves[~geometric] = still
    matrices = np.empty((n, steps, 2, 3))
    pending = np.empty((n, 2, 3))
    pending[:] = still
    for step in range(steps):
        composed = _after(pending, moves[:, step])
        pending = np.where(geometric[:, step, None, None], composed, pending)
        matrices[:, step] = pending
        pending[geometric[:, step] & ~goes_on[:, step]] = still
    return matrices, geometric & ~goes_on


def _after(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The maps of `second` done to the result of `first`."""
    # Written out: the order of sums inside a product of matrices may depend on how many there are.
    out: NDArray[np.float64] = first[:, :, 0:1] * second[:, 0:1] + first[:, :, 1:2] * second[:, 1:2]
    out[:, :, 2] += first[:, :, 2]
    return out


def _changed(name: str, x: Tensor, magnitudes: Tensor) -> Tensor:
    if name in _BLENDS:
        return _BLENDS[name](x, 1.0 + magnitudes)
    if name in _LEVELS:
        return _LEVELS[name](x, magnitudes)
    return _WITHOUT[name](x)
