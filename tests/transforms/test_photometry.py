"""Brightness, contrast and saturation: torchvision's, one image at a time with the same factors and order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torchvision.transforms import functional as theirs

from crosswind.core.seeds import hash64
from crosswind.transforms import photometry
from crosswind.transforms.draws import uniforms
from crosswind.transforms.photometry import ADJUSTMENTS, jitter, jitter_parameters


def pictures(channels: int = 3, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(32, channels, 12, 10, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("name", ADJUSTMENTS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_adjustments_are_torchvisions(name: str, channels: int, dtype: torch.dtype) -> None:
    """Factors from 0 to 2, cut at both ends; 1e-6 in float32, 1e-12 in float64."""
    x, factor = pictures(channels, dtype), torch.linspace(0, 2, 32, dtype=dtype)
    found = getattr(photometry, f"adjust_{name}")(x, factor)
    for i in range(32):
        expected = getattr(theirs, f"adjust_{name}")(x[i], float(factor[i]))
        assert float((found[i] - expected).abs().max()) < (1e-6 if dtype == torch.float32 else 1e-12)
    assert found.min() >= 0 and found.max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_is_the_three_in_each_images_order(channels: int) -> None:
    """Every one of the six orders; a pass that served another order or mixed samples up would be off by far more than 1e-12."""
    x = pictures(channels)
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
