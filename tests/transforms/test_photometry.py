"""What becomes of the values of pixels: torchvision's, one image at a time with the same parameters."""

from __future__ import annotations

import pytest
import torch
from PIL import ImageOps
from tests.transforms.pictures import assert_same_bits, image, pictures, tensor
from torchvision.transforms import functional as theirs

from crosswind.transforms import layout, photometry

FACTORS = torch.cat([1 + sign * torch.linspace(0, most, 31) for most in (0.9, 0.99) for sign in (-1, 1)]).double()
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
    ):
        found = getattr(photometry, name)(x, factors)
        for i, factor in enumerate(factors.tolist()):
            assert torch.equal(found[i], tensor(BLENDS[name](image(x[i]), factor))), (i, factor)
        assert channels == 1 or float((found != x).double().mean()) > 0.3


@pytest.mark.parametrize("channels", [1, 3])
def test_operations_on_levels_are_pillows_to_the_level(channels: int) -> None:
    x = pictures(channels)
    for bits in range(1, 9):
        assert torch.equal(photometry.posterize(x[:1], torch.tensor([bits]))[0], tensor(theirs.posterize(image(x[0]), bits)))
    assert int(photometry.posterize(x[:1], torch.tensor([0])).max()) == 0
    thresholds = torch.cat([torch.linspace(255, 0, 31), torch.linspace(255, 0, 10), torch.tensor([0.5, 254.5, 256.0, 300.0])])
    ramp = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(len(thresholds), channels, -1, -1).contiguous()
    found = photometry.solarize(ramp, thresholds)
    for i, threshold in enumerate(thresholds.tolist()):
        assert torch.equal(found[i], tensor(ImageOps.solarize(image(ramp[i]), threshold))), threshold
    for ours, other in (
        (photometry.autocontrast, theirs.autocontrast),
        (photometry.equalize, theirs.equalize),
        (photometry.invert, theirs.invert),
    ):
        for batch in (x, pictures(channels, 64, 64), pictures(channels, 3, 5)):
            found = ours(batch)
            for i in range(len(batch)):
                assert torch.equal(found[i], tensor(other(image(batch[i])))), (ours, i)


def test_solarize_add_by_hand() -> None:
    x = torch.tensor([0, 10, 127, 128, 200], dtype=torch.uint8).view(1, 1, 1, 5).expand(3, 3, -1, -1).contiguous()
    found = photometry.solarize_add(x, torch.tensor([0, 110, -20]))
    assert found[:, 0, 0].tolist() == [[0, 10, 127, 128, 200], [110, 120, 237, 128, 200], [0, 0, 107, 128, 200]]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", [*BLENDS, "posterize", "solarize", "solarize_add", "autocontrast", "equalize", "invert"])
def test_uint8_operations_give_the_same_bits_alone_in_a_batch_and_by_layout(
    name: str, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "CHUNK", 9000)  # some three pictures at a time
    strengths = {"posterize": torch.arange(32) % 9, "solarize": torch.linspace(0, 256, 32), "solarize_add": torch.arange(32) * 3}
    own = strengths.get(name, torch.linspace(0, 2, 32))
    alone = name in ("autocontrast", "equalize", "invert")
    operation = getattr(photometry, name)
    assert_same_bits(lambda x, rows: operation(x) if alone else operation(x, own[torch.from_numpy(rows)]), pictures(channels))


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (3, 3), (1, 7)])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_smallest_pictures(channels: int, shape: tuple[int, int]) -> None:
    x = torch.randint(0, 256, (3, channels, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    for name in BLENDS:
        found = getattr(photometry, name)(x, torch.full((3,), 0.4))
        for i in range(3):
            assert torch.equal(found[i], tensor(BLENDS[name](image(x[i]), 0.4)))
    for i in range(3):
        assert torch.equal(photometry.equalize(x)[i], tensor(theirs.equalize(image(x[i]))))
        assert torch.equal(photometry.autocontrast(x)[i], tensor(theirs.autocontrast(image(x[i]))))
