"""The registered geometric transforms: what their knobs mean, and the laws of their draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.transforms.pictures import image, pictures, tensor
from torchvision.transforms import functional as theirs

from crosswind.core.errors import InputError
from crosswind.core.seeds import hash64
from crosswind.transforms.cropping import FlipCrop
from crosswind.transforms.erasing import Cutout, Erase
from crosswind.transforms.moving import Rotate, Shear, Translate


def keys(n: int) -> np.ndarray:
    return hash64(np.arange(n), 2)


def picture(n: int = 1, size: int = 40) -> torch.Tensor:
    return pictures(3, size, size, 9)[:1].expand(n, -1, -1, -1)


@pytest.mark.parametrize("degrees", [18.0, 36.0, 54.0, 72.0, 90.0, -30.0, 180.0])
def test_fixed_angles_are_torchvisions(degrees: float) -> None:
    transform = Rotate(degrees=degrees, draw="fixed", interpolation="nearest", fill=3)
    found = transform(picture(3), keys(3))
    expected = tensor(theirs.rotate(image(picture()[0]), degrees, fill=[3, 3, 3]))
    assert all(torch.equal(row, expected) for row in found)


def test_angles_follow_their_law() -> None:
    """30,000 angles: uniform in +-30 has sd 17.32; multiples of 18 up to 90 are five values, 6,000 times each, sd 69."""
    angles = Rotate(degrees=30.0).angles(keys(30_000))
    assert abs(angles.mean()) < 0.5 and abs(angles.std() - 17.32) < 0.3 and np.abs(angles).max() <= 30
    found, counts = np.unique(Rotate(degrees=90.0, draw="multiples", step=18.0).angles(keys(30_000)), return_counts=True)
    assert found.tolist() == [18, 36, 54, 72, 90] and np.abs(counts - 6000).max() < 350
    assert np.unique(Rotate(degrees=-50.0, draw="multiples", step=20.0).angles(keys(99))).tolist() == [-40, -20]
    assert np.unique(Rotate(degrees=5.0, draw="multiples", step=18.0).angles(keys(9))).tolist() == [18]


def test_translations_are_whole_pixels_up_to_the_share() -> None:
    """10% of 40 pixels is 4: rightwards 4 and down 4 where fixed, every whole number from -4 to 4 where uniform."""
    x = picture(400)
    fixed = Translate(draw="fixed", fill=7)(x[:2], keys(2))
    assert torch.equal(fixed[:, :, 4:, 4:], x[:2, :, :-4, :-4]) and (fixed[:, :, :4] == 7).all() and (fixed[:, :, :, :4] == 7).all()
    up = Translate(horizontal=0.0, vertical=-0.25, draw="fixed")(x[:1], keys(1))
    assert torch.equal(up[:, :, :30], x[:1, :, 10:])
    found = Translate(vertical=0.0)(x, keys(400))
    seen = set()
    for row in found:
        for by in range(-4, 5):
            if torch.equal(row, x[0].roll(by, 2).masked_fill(torch.arange(40).sub(by).clamp(-1, 40).remainder(41).ge(40), 0)):
                seen.add(by)
    assert seen == set(range(-4, 5))


@pytest.mark.parametrize(("horizontal", "vertical"), [(15.0, 0.0), (0.0, -20.0), (15.0, 10.0)])
def test_fixed_shears_are_torchvisions(horizontal: float, vertical: float) -> None:
    found = Shear(horizontal=horizontal, vertical=vertical, draw="fixed")(picture(), keys(1))[0]
    expected = tensor(theirs.affine(image(picture()[0]), 0.0, [0, 0], 1.0, [horizontal, vertical]))
    assert torch.equal(found, expected)


def test_erasing_paints_one_box_of_the_given_share() -> None:
    x = torch.full((2000, 1, 40, 40), 255, dtype=torch.uint8)
    share = (Erase(largest=0.33)(x, keys(2000)) == 0).double().mean((1, 2, 3))
    assert float(share.min()) > 0.015 and float(share.max()) < 0.345 and abs(float(share.mean()) - 0.175) < 0.01
    fixed = (Erase(largest=0.2, draw="fixed")(x, keys(2000)) == 0).double().mean((1, 2, 3))
    assert abs(float(fixed.mean()) - 0.2) < 0.002 and float(fixed.std()) < 0.01
    half = (Erase(probability=0.5, fill=1)(x, keys(2000)) == 1).flatten(1).any(1).double().mean()
    assert abs(float(half) - 0.5) < 0.06
    assert not (Erase(probability=0.0)(x[:9], keys(9)) == 0).any()
    with pytest.raises(InputError, match=r"erase.smallest: must be at most 0.1 \(the largest\), not 0.2"):
        Erase(largest=0.1, smallest=0.2)
    inner = (Cutout(share=0.5)(x, keys(2000)) == 0).sum((1, 2, 3))
    assert int(inner.max()) == 400 and 100 <= int(inner.min()) < 130  # 20 x 20, or about a quarter of it in a corner


def test_crops_flip_half_of_the_time() -> None:
    x = picture(2000, 28)
    found = FlipCrop(scale=1.0, narrowest=1.0, widest=1.0)(x, keys(2000))
    mirrored = (found == x.flip(3)).flatten(1).all(1)
    assert (mirrored | (found == x).flatten(1).all(1)).all() and abs(float(mirrored.double().mean()) - 0.5) < 5 * math.sqrt(
        1 / 8000
    )
    assert torch.equal(FlipCrop(scale=1.0, flip=1.0, narrowest=1.0, widest=1.0)(x[:9], keys(9)), x[:9].flip(3))
    with pytest.raises(InputError, match=r"flip-crop.narrowest: must be at most 0.5 \(the widest\), not 0.75"):
        FlipCrop(widest=0.5)
