"""Gaussian noise: its size, its cut, and its bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crosswind.core.errors import InputError
from crosswind.core.registry import facts, load
from crosswind.core.seeds import hash64
from crosswind.transforms.corruptions import noise as noises
from crosswind.transforms.corruptions.noise import CIFAR_SD, IMAGENET_SD, GaussianNoise

KEYS = hash64(np.arange(32), 1)


def grey(level: int, side: int = 64, n: int = 32) -> torch.Tensor:
    return torch.full((n, 3, side, side), level, dtype=torch.uint8)


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("side", "table"), [(64, IMAGENET_SD), (32, CIFAR_SD)])
def test_noise_has_its_standard_deviation_and_cuts_downwards(severity: int, side: int, table: tuple[float, ...]) -> None:
    """Against clip and truncation of normal noise by NumPy: means and sds of 98,304 values or more agree within 6 errors."""
    noisy = GaussianNoise(severity)(grey(128, side), KEYS).double()
    sd = table[severity - 1]
    reference = np.floor(np.clip(128 / 255 + np.random.default_rng(0).normal(size=2_000_000) * sd, 0, 1) * 255)
    error = reference.std() / np.sqrt(noisy.numel())
    assert abs(float(noisy.mean()) - reference.mean()) < 6 * error
    assert abs(float(noisy.std()) - reference.std()) < 6 * error


def test_first_values_by_the_definition_in_floats() -> None:
    """floor(255 clip(x / 255 + sd q)) in float64 with the same quantiles; fixed point differs only where that is nearly whole."""
    from crosswind.transforms.draws import _quantiles, bits16

    x = torch.randint(0, 256, (4, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    q = _quantiles()[bits16(KEYS[:4], 3 * 64 * 64).numpy()].reshape(4, 3, 64, 64)
    exact = np.clip(x.numpy() + 0.18 * 255 * q, 0, 255)
    found = GaussianNoise(3)(x, KEYS[:4]).numpy()
    differ = found != np.floor(exact)
    assert np.abs(exact - np.rint(exact))[differ].max(initial=0) < 2**-15
    assert differ.mean() < 1e-3


def test_same_bits_alone_in_a_batch_in_chunks_and_by_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randint(0, 256, (32, 3, 40, 48), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    noise = GaussianNoise(2)
    together = noise(x, KEYS)
    assert torch.equal(together, noise(x, KEYS))
    for i in (0, 7, 31):
        assert torch.equal(noise(x[i : i + 1], KEYS[i : i + 1])[0], together[i])
    monkeypatch.setattr(noises, "CHUNK", 1)
    assert torch.equal(noise(x, KEYS), together)
    last = x.contiguous(memory_format=torch.channels_last)
    assert torch.equal(noise(last, KEYS), together)
    assert noise(last, KEYS).is_contiguous(memory_format=torch.channels_last)


def test_input_stays_and_keys_decide() -> None:
    x = grey(100, n=2)
    noise = GaussianNoise(1)
    first = noise(x, np.array([1, 2], dtype=np.uint64))
    assert bool((x == 100).all())
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, noise(x, np.array([3, 4], dtype=np.uint64)))
    assert torch.equal(noise(x, np.array([5, 5], dtype=np.uint64))[0], noise(x, np.array([5, 5], dtype=np.uint64))[1])


def test_extremes_stay_in_range() -> None:
    black, white = (GaussianNoise(5)(grey(level), KEYS) for level in (0, 255))
    assert int(black.min()) == 0 and int(white.max()) == 255
    assert (black == 0).double().mean() == pytest.approx(0.5, abs=0.01)
    assert (white == 255).double().mean() == pytest.approx(0.5, abs=0.01)


def test_an_empty_batch_is_empty() -> None:
    assert GaussianNoise()(grey(1, n=0), KEYS[:0]).shape == (0, 3, 64, 64)


def test_constants_can_be_forced() -> None:
    assert torch.equal(GaussianNoise(3, "cifar")(grey(128), KEYS), GaussianNoise(3, "cifar")(grey(128), KEYS))
    assert float(GaussianNoise(3, "cifar")(grey(128), KEYS).double().std()) == pytest.approx(0.08 * 255, rel=0.02)
    assert float(GaussianNoise(3, "imagenet")(grey(128, 32), KEYS).double().std()) == pytest.approx(0.18 * 255, rel=0.02)


def test_knobs_are_checked_and_found_without_the_class() -> None:
    for bad in ({"severity": 0}, {"severity": 2.5}, {"constants": "cifar10"}):
        with pytest.raises(InputError, match=f"gaussian-noise.{next(iter(bad))}"):
            GaussianNoise(**bad)
    assert [item.name for item in facts("transforms", "gaussian-noise").knobs] == ["severity", "constants", "jpeg_quality"]
    assert load("transforms", "gaussian-noise") is GaussianNoise
