"""Affine maps: torchvision's functions on Pillow images, each strength and picture on its own, to the pixel."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from tests.transforms.pictures import assert_same_bits, image, pictures, tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as theirs

from crosswind.transforms.geometry import affine
from crosswind.transforms.matrices import composed, rotation, shear, translation

SIZES = [(28, 28), (31, 45), (64, 64)]
SHEARS = np.linspace(-0.99, 0.99, 31)  # RandAugment's reach to 0.3, TrivialAugment's to 0.99
PIXELS = np.arange(-33, 34)
ANGLES = np.array([*range(-180, 181, 7), *range(-30, 31), 0.5, 17.3, 90, 270, 360, -90])
ONES = Callable[[Image.Image, float], Image.Image]


def sheared(x: float, y: float, center: list[int] | None = None) -> ONES:
    return lambda picture, s: theirs.affine(
        picture, 0.0, [0, 0], 1.0, [math.degrees(math.atan(s)) * x, math.degrees(math.atan(s)) * y], center=center
    )


def moved(x: int, y: int) -> ONES:
    return lambda picture, t: theirs.affine(picture, 0.0, [int(t) * x, int(t) * y], 1.0, [0.0, 0.0])


CASES: dict[str, tuple[np.ndarray, Callable[[np.ndarray, tuple[int, int]], torch.Tensor], ONES]] = {
    "shear-x about the corner": (SHEARS, lambda s, size: shear(s, 0 * s, size, "corner"), sheared(1, 0, [0, 0])),
    "shear-y about the corner": (SHEARS, lambda s, size: shear(0 * s, s, size, "corner"), sheared(0, 1, [0, 0])),
    "shear-x": (SHEARS, lambda s, size: shear(s, 0 * s, size), sheared(1, 0)),
    "shear-y": (SHEARS, lambda s, size: shear(0 * s, s, size), sheared(0, 1)),
    "both shears": (SHEARS, lambda s, size: shear(s, s, size), sheared(1, 1)),
    "translate-x": (
        PIXELS,
        lambda t, size: translation(t, 0 * t),
        lambda p, t: theirs.affine(p, 0.0, [int(t), 0], 1.0, [0.0, 0.0]),
    ),
    "translate-y": (
        PIXELS,
        lambda t, size: translation(0 * t, t),
        lambda p, t: theirs.affine(p, 0.0, [0, int(t)], 1.0, [0.0, 0.0]),
    ),
    "rotate": (ANGLES, rotation, lambda p, a: theirs.rotate(p, float(a))),
}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_nearest_is_torchvisions_to_the_pixel(case: str, channels: int, size: tuple[int, int]) -> None:
    strengths, matrices, their = CASES[case]
    x = pictures(channels, *size, 16)
    x = x[torch.arange(len(strengths)) % 16]
    found = affine(x, matrices(strengths.astype(np.float64), size))
    changed = 0
    for i, strength in enumerate(strengths.tolist()):
        expected = tensor(their(image(x[i]), strength))
        assert torch.equal(found[i], expected), strength
        changed += not torch.equal(expected, x[i])
    assert changed > len(strengths) / 2


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bilinear_is_pillows_to_a_level(size: tuple[int, int]) -> None:
    """Pillow cuts levels downwards, here they are rounded: half of the values are one higher, none two.

    But for values at the rim, where the last bit of a place decides whether it is outside: 1 in 10,000 at most.
    """
    x = pictures(3, *size, 16)[torch.arange(len(ANGLES)) % 11]  # photographs only
    found = affine(x, rotation(ANGLES, size), 0, "bilinear").int()
    expected = torch.stack(
        [tensor(theirs.rotate(image(x[i]), float(a), InterpolationMode.BILINEAR)) for i, a in enumerate(ANGLES)]
    ).int()
    difference = found - expected
    assert ((difference < 0) | (difference > 1)).double().mean() < 1e-4
    assert 0.2 < (difference == 1).double().mean() < 0.55


def test_bilinear_by_hand() -> None:
    """Levels 0 100 200, moved right by 1/4: places -1/4, 3/4, 7/4 after the first centre; the first is 0 to the edge, 75, 175."""
    x = torch.tensor([0, 100, 200], dtype=torch.uint8).view(1, 1, 1, 3)
    assert affine(x, translation([0.25], [0.0]), 9, "bilinear").flatten().tolist() == [0, 75, 175]
    assert affine(x, translation([0.75], [0.0]), 9, "bilinear").flatten().tolist() == [9, 25, 125]


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_right_angles_are_exact(interpolation: str) -> None:
    x = pictures(3, 29, 29, 9)[:5]
    for turns in range(-4, 5):
        found = affine(x, rotation(np.full(5, 90.0 * turns), (29, 29)), 7, interpolation)
        assert torch.equal(found, x.rot90(turns, (2, 3)))


def test_composed_is_one_after_the_other() -> None:
    """Whole pixels and right angles lose nothing on the way, so one resampling and two are the same."""
    x = pictures(3, 29, 29, 9)[:4]
    turn, move = rotation(np.full(4, 90.0), (29, 29)), translation(np.arange(4.0), -np.arange(4.0))
    for first, second in ((turn, move), (move, turn)):
        assert torch.equal(affine(x, composed(first, second)), affine(affine(x, first), second))
    assert not torch.equal(affine(x, composed(turn, move)), affine(x, composed(move, turn)))
    back = composed(rotation(np.full(4, 30.0), (29, 29)), rotation(np.full(4, -30.0), (29, 29)))
    assert torch.equal(affine(x, back), x)


def test_any_map_is_pillows_transform_to_the_pixel() -> None:
    """Random matrices, among them mirrored, flat and far ones, whole lines in one piece and not, in one batch: no pixel differs."""
    generator = torch.Generator().manual_seed(0)
    for channels, height, width in ((3, 31, 45), (1, 5, 1), (3, 1, 7)):
        n = 60
        x = torch.randint(0, 256, (n, channels, height, width), dtype=torch.uint8, generator=generator)
        matrices = torch.eye(2, 3, dtype=torch.float64).repeat(n, 1, 1)
        matrices[:, 0, 1] = torch.randn(n, generator=generator)
        matrices[:, :, 2] = torch.randn(n, 2, generator=generator) * max(height, width) * 0.4
        matrices[::2, :, :2] += torch.randn(30, 2, 2, generator=generator) * 0.5
        matrices[1::6, 1, 1] = -1.0
        matrices[5] = torch.tensor([[0.0, 0.0, 2.0], [0.0, 0.0, 0.5]])
        found = affine(x, matrices, 77)
        for i in range(n):
            given = tuple(matrices[i].flatten().tolist())
            fill = (77,) * 3 if channels == 3 else 77
            expected = image(x[i]).transform(
                (width, height), Image.Transform.AFFINE, given, Image.Resampling.NEAREST, fillcolor=fill
            )
            assert torch.equal(found[i], tensor(expected)), given
    far = torch.tensor([[[1.0, 0.0, 1e9], [0.0, 1.0, -1e9]]], dtype=torch.float64)
    assert (affine(x[:1], far, 77) == 77).all()


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_the_same_bits_in_any_batch_and_layout(interpolation: str) -> None:
    matrices = rotation(np.linspace(-40, 40, 32), (33, 29))
    matrices[::3] = translation(np.arange(11.0), np.arange(11.0))
    assert_same_bits(lambda x, rows: affine(x, matrices[torch.from_numpy(rows)], 5, interpolation), pictures())


def test_wrong_arguments() -> None:
    x, still = pictures(3, 9, 9, 8)[:2], translation([0.0, 0.0], [0.0, 0.0])
    for given in ((x.float(), still), (x, still[:1]), (x, still, 0, "cubic"), (x, still * torch.inf), (x, still * torch.nan)):
        with pytest.raises(ValueError, match="affine needs"):
            affine(*given)
    assert affine(x[:0], still[:0]).shape == (0, 3, 9, 9)
    assert torch.equal(affine(x, still), x) and affine(x, still).data_ptr() != x.data_ptr()
