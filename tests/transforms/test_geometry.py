"""Affine maps: torchvision's functions on Pillow images, to the pixel; and what the knobs of
rotate, translate and shear mean."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from tests.transforms.pictures import image, pictures, tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as theirs

from crosswind.core.seeds import hash64
from crosswind.transforms.geometry import (
    Rotate,
    Shear,
    Translate,
    affine,
    rotation,
    shear,
    translation,
)

SIZES = [(28, 28), (31, 45), (64, 64)]
SHEARS = np.linspace(-0.99, 0.99, 31)  # RandAugment's reach to 0.3, TrivialAugment's to 0.99
PIXELS = np.arange(-33.0, 34.0)
ANGLES = np.array([*range(-180, 181, 7), *range(-30, 31), 0.5, 17.3, 90, 270, 360, -90])
ONE = Callable[[Image.Image, float], Image.Image]
MAPS = Callable[[np.ndarray, tuple[int, int]], torch.Tensor]


def sheared(x: float, y: float, center: list[int] | None = None) -> ONE:
    def shear(picture: Image.Image, s: float) -> Image.Image:
        degrees = math.degrees(math.atan(s))
        return theirs.affine(picture, 0.0, [0, 0], 1.0, [degrees * x, degrees * y], center=center)

    return shear


def moved(x: int, y: int) -> ONE:
    return lambda picture, t: theirs.affine(picture, 0.0, [int(t) * x, int(t) * y], 1.0, [0.0, 0.0])


CASES: dict[str, tuple[np.ndarray, MAPS, ONE]] = {
    "shear-x about the corner": (
        SHEARS,
        lambda s, size: shear(s, 0 * s, size, "corner"),
        sheared(1, 0, [0, 0]),
    ),
    "shear-y about the corner": (
        SHEARS,
        lambda s, size: shear(0 * s, s, size, "corner"),
        sheared(0, 1, [0, 0]),
    ),
    "shear-x": (SHEARS, lambda s, size: shear(s, 0 * s, size), sheared(1, 0)),
    "shear-y": (SHEARS, lambda s, size: shear(0 * s, s, size), sheared(0, 1)),
    "both shears": (SHEARS, lambda s, size: shear(s, s, size), sheared(1, 1)),
    "translate-x": (PIXELS, lambda t, size: translation(t, 0 * t), moved(1, 0)),
    "translate-y": (PIXELS, lambda t, size: translation(0 * t, t), moved(0, 1)),
    "rotate": (ANGLES, rotation, lambda p, a: theirs.rotate(p, float(a))),
}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_nearest_is_torchvisions_to_the_pixel(
    case: str, channels: int, size: tuple[int, int]
) -> None:
    strengths, matrices, their = CASES[case]
    x = pictures(channels, *size, 16)[torch.arange(len(strengths)) % 16]
    sampled = affine(x, matrices(strengths, size))
    expected = torch.stack(
        [
            tensor(their(image(row), strength))
            for row, strength in zip(x, strengths.tolist(), strict=True)
        ]
    )
    assert torch.equal(sampled, expected)
    assert (expected != x).flatten(1).any(1).sum() > len(strengths) / 2


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bilinear_is_pillows_to_a_level(size: tuple[int, int]) -> None:
    """Pillow cuts levels downwards, here they are rounded: half of the values are one higher, none
    two.

    But for values at the rim, where the last bit of a place decides whether it is outside: 1 in
    10,000 at most.
    """
    x = pictures(3, *size, 16)[torch.arange(len(ANGLES)) % 11]  # photographs only
    turned = affine(x, rotation(ANGLES, size), 0, "bilinear").int()
    expected = [
        tensor(theirs.rotate(image(x[i]), float(a), InterpolationMode.BILINEAR))
        for i, a in enumerate(ANGLES)
    ]
    difference = turned - torch.stack(expected).int()
    assert ((difference < 0) | (difference > 1)).double().mean() < 1e-4
    assert 0.2 < (difference == 1).double().mean() < 0.55


def test_bilinear_by_hand() -> None:
    """Levels 0 100 200, moved right by 1/4: places -1/4, 3/4, 7/4 after the first centre; the first
    is 0 to the edge, 75, 175."""
    x = torch.tensor([0, 100, 200], dtype=torch.uint8).view(1, 1, 1, 3)
    for right, expected in ((0.25, [0, 75, 175]), (0.75, [9, 25, 125])):
        assert (
            affine(x, translation(np.array([right]), np.zeros(1)), 9, "bilinear").flatten().tolist()
            == expected
        )


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_right_angles_are_exact(interpolation: str) -> None:
    x = pictures(3, 29, 29, 9)[:5]
    for turns in range(-4, 5):
        turned = affine(x, rotation(np.full(5, 90.0 * turns), (29, 29)), 7, interpolation)
        assert torch.equal(turned, x.rot90(turns, (2, 3)))


def test_any_map_is_pillows_transform_to_the_pixel() -> None:
    """Random matrices, among them mirrored, flat and far ones, whole lines in one piece and not, in
    one batch: no pixel differs."""
    generator = torch.Generator().manual_seed(0)
    for channels, height, width in ((3, 31, 45), (1, 5, 1), (3, 1, 7)):
        n = 60
        x = torch.randint(
            0, 256, (n, channels, height, width), dtype=torch.uint8, generator=generator
        )
        matrices = torch.eye(2, 3, dtype=torch.float64).repeat(n, 1, 1)
        matrices[:, 0, 1] = torch.randn(n, generator=generator)
        matrices[:, :, 2] = torch.randn(n, 2, generator=generator) * max(height, width) * 0.4
        matrices[::2, :, :2] += torch.randn(30, 2, 2, generator=generator) * 0.5
        matrices[1::6, 1, 1] = -1.0
        matrices[5] = torch.tensor([[0.0, 0.0, 2.0], [0.0, 0.0, 0.5]])
        sampled, fill = affine(x, matrices, 77), (77,) * 3 if channels == 3 else 77
        for row, matrix, sampled_row in zip(x, matrices, sampled, strict=True):
            coefficients = tuple(matrix.flatten().tolist())
            expected = image(row).transform(
                (width, height),
                Image.Transform.AFFINE,
                coefficients,
                Image.Resampling.NEAREST,
                fillcolor=fill,
            )
            assert torch.equal(sampled_row, tensor(expected)), coefficients
    far = torch.tensor([[[1.0, 0.0, 1e9], [0.0, 1.0, -1e9]]], dtype=torch.float64)
    assert (affine(x[:1], far, 77) == 77).all()


def test_wrong_arguments() -> None:
    x, still = pictures(3, 9, 9, 8)[:2], translation(np.zeros(2), np.zeros(2))
    for arguments in (
        (x.float(), still),
        (x, still[:1]),
        (x, still, 0, "cubic"),
        (x, still * torch.inf),
        (x, still * torch.nan),
    ):
        with pytest.raises(ValueError, match="affine needs"):
            affine(*arguments)
    assert affine(x[:0], still[:0]).shape == (0, 3, 9, 9)
    assert torch.equal(affine(x, still), x) and affine(x, still).data_ptr() != x.data_ptr()


def keys(n: int) -> np.ndarray:
    return hash64(np.arange(n), 2)


def picture(n: int = 1) -> torch.Tensor:
    return pictures(3, 40, 40, 9)[:1].expand(n, -1, -1, -1)


@pytest.mark.parametrize("degrees", [18.0, 90.0, -30.0])
def test_fixed_angles_are_torchvisions(degrees: float) -> None:
    turned = Rotate(degrees=degrees, draw="fixed", interpolation="nearest", fill=3)(
        picture(3), keys(3)
    )
    expected = tensor(theirs.rotate(image(picture()[0]), degrees, fill=[3, 3, 3]))
    assert all(torch.equal(row, expected) for row in turned)


def test_angles_follow_their_law() -> None:
    """30,000 angles: uniform in +-30 has sd 17.32; multiples of 18 up to 90 are five values, 6,000
    times each, sd 69."""
    angles = Rotate(degrees=30.0).angles(keys(30_000))
    assert (
        abs(angles.mean()) < 0.5 and abs(angles.std() - 17.32) < 0.3 and np.abs(angles).max() <= 30
    )
    angle_values, counts = np.unique(
        Rotate(degrees=90.0, draw="multiples", step=18.0).angles(keys(30_000)), return_counts=True
    )
    assert angle_values.tolist() == [18, 36, 54, 72, 90] and np.abs(counts - 6000).max() < 350
    assert np.unique(
        Rotate(degrees=-50.0, draw="multiples", step=20.0).angles(keys(99))
    ).tolist() == [-40, -20]
    assert np.unique(Rotate(degrees=5.0, draw="multiples", step=18.0).angles(keys(9))).tolist() == [
        18
    ]


def test_translations_are_whole_pixels_up_to_the_share() -> None:
    """10% of 40 pixels is 4: rightwards 4 and down 4 where fixed, every whole number from -4 to 4
    where uniform."""
    x = picture(400)
    fixed = Translate(draw="fixed", fill=7)(x[:2], keys(2))
    assert (
        torch.equal(fixed[:, :, 4:, 4:], x[:2, :, :-4, :-4])
        and (fixed[:, :, :4] == 7).all()
        and (fixed[:, :, :, :4] == 7).all()
    )
    up = Translate(horizontal=0.0, vertical=-0.25, draw="fixed")(x[:1], keys(1))
    assert torch.equal(up[:, :, :30], x[:1, :, 10:])
    padded = torch.nn.functional.pad(x[0], (4, 4))
    moves = [padded[:, :, 4 - by : 44 - by] for by in range(-4, 5)]
    translated = Translate(vertical=0.0)(x, keys(400))
    assert {
        next(by for by, move in enumerate(moves) if torch.equal(row, move)) for row in translated
    } == set(range(9))


@pytest.mark.parametrize(("horizontal", "vertical"), [(15.0, 0.0), (0.0, -20.0), (15.0, 10.0)])
def test_fixed_shears_are_torchvisions(horizontal: float, vertical: float) -> None:
    sheared_picture = Shear(horizontal=horizontal, vertical=vertical, draw="fixed")(
        picture(), keys(1)
    )[0]
    assert torch.equal(
        sheared_picture,
        tensor(theirs.affine(image(picture()[0]), 0.0, [0, 0], 1.0, [horizontal, vertical])),
    )
