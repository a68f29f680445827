"""What becomes of the values of pixels: torchvision's, one image at a time with the same
parameters."""

from __future__ import annotations

import pytest
import torch
from PIL import ImageOps
from tests.transforms.pictures import image, pictures, tensor
from torchvision.transforms import functional as theirs

from crosswind.transforms import photometry

FACTORS = torch.cat(
    [1 + sign * torch.linspace(0, most, 31) for most in (0.9, 0.99) for sign in (-1, 1)]
).double()
BLENDS = {
    "brightness": theirs.adjust_brightness,
    "contrast": theirs.adjust_contrast,
    "saturation": theirs.adjust_saturation,
    "sharpness": theirs.adjust_sharpness,
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", BLENDS)
def test_blends_are_pillows_to_the_level(name: str, channels: int) -> None:
    """Every factor of RandAugment's and TrivialAugment's levels, and 3; four pictures each."""
    factors = torch.cat([FACTORS, torch.tensor([0.0, 3.0], dtype=torch.float64)])
    for x in (
        pictures(channels)[[i % 32 for i in range(len(factors))]],
        pictures(channels)[[31 - i % 32 for i in range(len(factors))]],
        pictures(channels, 2, 5)[[i % 32 for i in range(len(factors))]],
    ):
        found = getattr(photometry, name)(x, factors)
        for i, factor in enumerate(factors.tolist()):
            assert torch.equal(found[i], tensor(BLENDS[name](image(x[i]), factor))), (i, factor)
        assert channels == 1 or x.shape[2] < 3 or float((found != x).double().mean()) > 0.3


@pytest.mark.parametrize("channels", [1, 3])
def test_operations_on_levels_are_pillows_to_the_level(channels: int) -> None:
    x = pictures(channels)
    for bits in range(1, 9):
        assert torch.equal(
            photometry.posterize(x[:1], torch.tensor([bits]))[0],
            tensor(theirs.posterize(image(x[0]), bits)),
        )
    assert int(photometry.posterize(x[:1], torch.tensor([0])).max()) == 0
    thresholds = torch.cat(
        [
            torch.linspace(255, 0, 31),
            torch.linspace(255, 0, 10),
            torch.tensor([0.5, 254.5, 256.0, 300.0]),
        ]
    )
    ramp = (
        torch.arange(256, dtype=torch.uint8)
        .view(1, 1, 16, 16)
        .expand(len(thresholds), channels, -1, -1)
        .contiguous()
    )
    found = photometry.solarize(ramp, thresholds)
    for i, threshold in enumerate(thresholds.tolist()):
        assert torch.equal(found[i], tensor(ImageOps.solarize(image(ramp[i]), threshold))), (
            threshold
        )
    for ours, other in (
        (photometry.autocontrast, theirs.autocontrast),
        (photometry.equalize, theirs.equalize),
        (photometry.invert, theirs.invert),
    ):
        for batch in (
            x,
            pictures(channels, 64, 64),
            pictures(channels, 3, 5),
            pictures(channels, 1, 7),
        ):
            found = ours(batch)
            for i in range(len(batch)):
                assert torch.equal(found[i], tensor(other(image(batch[i])))), (ours, i)
