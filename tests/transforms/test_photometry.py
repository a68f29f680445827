"""What becomes of the values of pixels: torchvision's, one image at a time with the same parameters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from PIL import ImageOps
from tests.transforms.pictures import assert_same_bits, image, pictures, tensor
from torchvision.transforms import functional as theirs

from crosswind.core.seeds import hash64
from crosswind.transforms import layout, photometry
from crosswind.transforms.draws import uniforms
from crosswind.transforms.photometry import ADJUSTMENTS, jitter, jitter_parameters


def noise(channels: int = 3, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(32, channels, 12, 10, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("name", ADJUSTMENTS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_adjustments_are_torchvisions(name: str, channels: int, dtype: torch.dtype) -> None:
    """Factors from 0 to 2, cut at both ends; 1e-6 in float32, 1e-12 in float64."""
    x, factor = noise(channels, dtype), torch.linspace(0, 2, 32, dtype=dtype)
    found = getattr(photometry, f"adjust_{name}")(x, factor)
    for i in range(32):
        expected = getattr(theirs, f"adjust_{name}")(x[i], float(factor[i]))
        assert float((found[i] - expected).abs().max()) < (1e-6 if dtype == torch.float32 else 1e-12)
    assert found.min() >= 0 and found.max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_is_the_three_in_each_images_order(channels: int) -> None:
    """Every one of the six orders; a pass that served another order or mixed samples up would be off by far more than 1e-12."""
    x = noise(channels)
    factors, order = jitter_parameters(uniforms(hash64(np.arange(32), 3), 6), (0.4, 0.4, 0.4))
    assert len({tuple(row) for row in order.tolist()}) == 6
    found = jitter(x, factors, order)
    for i in range(32):
        expected = x[i]
        for place in order[i].tolist():
            expected = getattr(theirs, f"adjust_{ADJUSTMENTS[place]}")(expected, float(factors[i, place]))
        assert float((found[i] - expected).abs().max()) < 1e-12
    assert float((found - x).abs().max()) > 0.1
    assert torch.allclose(jitter(x, torch.ones(32, 3), order), x, atol=1e-15)


def test_grey_by_hand() -> None:
    """Saturation 0 of pure red (1, 0, 0) is 0.2989 everywhere; half of it and red is (0.64945, 0.14945, 0.14945)."""
    red = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).view(1, 3, 1, 1)
    assert photometry.adjust_saturation(red, torch.tensor([0.0])).flatten().tolist() == pytest.approx([0.2989] * 3)
    assert photometry.adjust_saturation(red, torch.tensor([0.5])).flatten().tolist() == pytest.approx([0.64945, 0.14945, 0.14945])


def test_factors_and_orders_are_uniform() -> None:
    """60,000 samples: each of six orders 10,000 times, sd 91; factors on [0.6, 1.4] have mean 1, sd 0.2309; 1 - 1.2 is cut to 0."""
    factors, order = jitter_parameters(uniforms(hash64(np.arange(60_000), 3), 6), (0.4, 0.2, 1.2))
    counts = Counter(map(tuple, order.tolist()))
    assert len(counts) == 6 and max(abs(count - 10_000) for count in counts.values()) < 500
    assert factors.min(0).values.tolist() == pytest.approx([0.6, 0.8, 0.0], abs=1e-3)
    assert factors.max(0).values.tolist() == pytest.approx([1.4, 1.2, 2.2], abs=1e-3)
    assert float(factors[:, 0].mean()) == pytest.approx(1.0, abs=0.005) and float(factors[:, 0].std()) == pytest.approx(
        0.2309, abs=0.003
    )
    assert abs(float(torch.corrcoef(factors[:, :2].T)[0, 1])) < 0.02


# Of uint8 images.

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
