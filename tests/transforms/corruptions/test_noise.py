"""Noise: sizes, laws, cuts and bits; distributions beside those of the `imagecorruptions` package
at 224-pixel constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import skimage.util
import torch
from scipy import stats

from crosswind.core.seeds import hash64
from crosswind.transforms.corruptions.noise import (
    AMOUNT,
    RATE,
    SD,
    SPECKLE,
    GaussianNoise,
    ImpulseNoise,
    ShotNoise,
    SpeckleNoise,
    shot_counts,
)
from crosswind.transforms.draws import _quantiles, bits16

KEYS = hash64(np.arange(32), 1)
ALL = (GaussianNoise, ShotNoise, ImpulseNoise, SpeckleNoise)


def grey(level: int, side: int = 64, n: int = 32) -> torch.Tensor:
    return torch.full((n, 3, side, side), level, dtype=torch.uint8)


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("side", "table"), [(64, SD[0]), (32, SD[1])])
def test_noise_has_its_standard_deviation_and_cuts_downwards(
    severity: int, side: int, table: tuple[float, ...]
) -> None:
    """Against clip and truncation of normal noise by NumPy: means and sds of 98,304 values or more
    agree within 6 errors."""
    noisy = GaussianNoise(severity)(grey(128, side), KEYS).double()
    sd = table[severity - 1]
    reference = np.floor(
        np.clip(128 / 255 + np.random.default_rng(0).normal(size=2_000_000) * sd, 0, 1) * 255
    )
    error = reference.std() / np.sqrt(noisy.numel())
    assert abs(float(noisy.mean()) - reference.mean()) < 6 * error
    assert abs(float(noisy.std()) - reference.std()) < 6 * error


def test_first_values_by_the_definition_in_floats() -> None:
    """floor(255 clip(x / 255 + sd q)) in float64 with the same quantiles; fixed point differs only
    where that is nearly whole."""
    x = torch.randint(
        0, 256, (4, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    q = _quantiles()[bits16(KEYS[:4], 3 * 64 * 64).numpy()].reshape(4, 3, 64, 64)
    exact = np.clip(x.numpy() + 0.18 * 255 * q, 0, 255)
    noisy = GaussianNoise(3)(x, KEYS[:4]).numpy()
    differ = noisy != np.floor(exact)
    assert np.abs(exact - np.rint(exact))[differ].max(initial=0) < 2**-15
    assert differ.mean() < 1e-3


@pytest.mark.parametrize(("table", "rates"), [("imagenet", RATE[0]), ("cifar", RATE[1])])
def test_shot_noise_is_poissons_law_at_every_level(table: str, rates: tuple[int, ...]) -> None:
    """The table of 65,536 draws against scipy's law, for all 256 levels and five rates: every
    probability, mean and variance.

    A grey level's probability is off by the rounding of two sums, at most 1/65536.
    """
    for rate in rates:
        counts = shot_counts(rate)
        assert counts.shape == (256, 256) and (counts >= 0).all() and (counts.sum(1) == 65536).all()
        photons = np.arange(4 * rate + 60)
        exact = np.zeros((256, 256))
        levels = np.uint8(np.clip(photons / float(rate), 0, 1) * 255)
        law = stats.poisson.pmf(photons, np.arange(256)[:, None] / 255 * rate)
        np.add.at(exact.T, levels, law.T)
        assert np.abs(counts / 65536 - exact).max() <= 1.001 / 65536
        shown = np.arange(256)
        mean, table_mean = exact @ shown, counts / 65536 @ shown
        assert np.abs(mean - table_mean).max() < 0.01
        assert (
            np.abs(exact @ shown**2 - mean**2 - (counts / 65536 @ shown**2 - table_mean**2)).max()
            < 1.5
        )


@pytest.mark.parametrize(("severity", "side"), [(2, 64), (1, 32)])
def test_shot_noise_draws_the_table(severity: int, side: int) -> None:
    """All 256 levels, 12,288 draws each or more: chi-square over grey levels that 5 draws or more
    are expected at."""
    rate = RATE[side == 32][severity - 1]
    counts = shot_counts(rate)
    n = 1 if side == 64 else 4
    x = (
        torch.arange(256, dtype=torch.uint8)
        .repeat_interleave(n)
        .view(-1, 1, 1, 1)
        .expand(-1, 3, side, side)
    )
    drawn = ShotNoise(severity)(x, hash64(np.arange(256 * n), 9)).view(256, -1).numpy()
    scores = []
    for level in range(256):
        expected = counts[level] / 65536 * drawn.shape[1]
        observed = np.bincount(drawn[level], minlength=256)
        assert (observed[counts[level] == 0] == 0).all()
        often = expected >= 5
        pooled = [(observed[often], expected[often])] + [
            (observed[~often].sum(), max(expected[~often].sum(), 1.0))
        ]
        score = sum(float(np.sum((f - e) ** 2 / e)) for f, e in pooled)
        scores.append((score - often.sum()) / np.sqrt(2 * often.sum() + 2))
    assert len(scores) == 256 and max(scores) < 6 and abs(np.mean(scores[1:])) < 0.5
    assert (drawn[0] == 0).all()


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("side", "table"), [(64, AMOUNT[0]), (32, AMOUNT[1])])
def test_impulse_noise_hits_values_as_often_with_salt_as_with_pepper(
    severity: int, side: int, table: tuple[float, ...]
) -> None:
    """Of 393,216 values (or 98,304) as many as a binomial law says, 5 sds; channels are hit
    together by chance only."""
    noisy = ImpulseNoise(severity)(grey(128, side), KEYS)
    hits = noisy != 128
    amount, n = table[severity - 1], noisy.numel()
    assert abs(int(hits.sum()) - amount * n) < 5 * np.sqrt(amount * n) + n / 65536
    salt = int((noisy == 255).sum())
    assert salt + int((noisy == 0).sum()) == int(hits.sum())
    assert abs(salt - amount / 2 * n) < 5 * np.sqrt(amount / 2 * n) + n / 65536
    hit_twice = int((hits[:, 0] & hits[:, 1]).sum())
    assert abs(hit_twice - amount**2 * n / 3) < 5 * np.sqrt(amount**2 * n / 3) + 5


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("side", "table"), [(64, SPECKLE[0]), (32, SPECKLE[1])])
def test_speckle_noise_grows_with_the_value(
    severity: int, side: int, table: tuple[float, ...]
) -> None:
    """floor(255 clip(v + v sd q)) in float64 with the same quantiles; black stays; sd at a dark
    level as NumPy's."""
    sd = table[severity - 1]
    x = torch.randint(
        0, 256, (4, 3, side, side), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    q = _quantiles()[bits16(KEYS[:4], 3 * side * side).numpy()].reshape(x.shape)
    exact = np.clip(x.numpy() * (1 + sd * q), 0, 255)
    noisy_values = SpeckleNoise(severity)(x, KEYS[:4]).numpy()
    differ = noisy_values != np.floor(exact)
    assert np.abs(exact - np.rint(exact))[differ].max(initial=0) < 2**-11 and differ.mean() < 1e-3
    assert bool((SpeckleNoise(severity)(grey(0, side), KEYS) == 0).all())
    noisy = SpeckleNoise(severity)(grey(90, side), KEYS).double()
    reference = np.floor(
        np.clip(90 * (1 + np.random.default_rng(0).normal(size=1_000_000) * sd), 0, 255)
    )
    assert float(noisy.mean()) == pytest.approx(
        reference.mean(), abs=6 * reference.std() / np.sqrt(noisy.numel())
    )
    assert float(noisy.std()) == pytest.approx(reference.std(), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_noise_has_the_packages_distribution(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grey wedge of 64 x 64 x 3, 30 draws of each at severities 1, 3 and 5: histograms, means,
    sds, neighbours, flat spectrum."""
    theirs = pytest.importorskip("imagecorruptions")
    # Impulse noise is scikit-image's. The package hands it no seed, so it would draw from the
    # system's entropy.
    drawn, random = skimage.util.random_noise, np.random.default_rng(0)
    monkeypatch.setattr(
        "skimage.util.random_noise",
        lambda image, mode, seed, amount: drawn(image, mode, random, amount=amount),
    )
    wedge = np.repeat(np.tile(np.arange(0, 256, 4, dtype=np.uint8), (64, 1))[..., None], 3, axis=2)
    x = torch.from_numpy(np.repeat(wedge[None], 30, axis=0)).permute(0, 3, 1, 2)
    np.random.seed(0)  # noqa: NPY002  (the package draws from numpy's own generator)
    for severity in (1, 3, 5):
        ours = kind(severity, "imagenet")(x, KEYS[:30]).permute(0, 2, 3, 1).numpy()
        expected = np.stack(
            [
                theirs.corrupt(wedge, severity, kind.registered_name.replace("-", "_"))
                for _ in range(30)
            ]
        )
        for channel in range(3):
            our_counts, their_counts = (
                np.bincount(images[..., channel].ravel(), minlength=256)
                for images in (ours, expected)
            )
            assert (
                (our_counts - their_counts) ** 2 / (our_counts + their_counts).clip(1)
            ).sum() < 255 + 6 * np.sqrt(2 * 255)
        error = np.sqrt(
            (ours.astype(float).var((0, 1)) + expected.astype(float).var((0, 1))) / (30 * 64) + 1e-9
        )
        assert (
            np.abs(ours.astype(float).mean((0, 1)) - expected.astype(float).mean((0, 1)))
            < 5 * error
        ).all()
        spreads = [
            images.astype(float).var((0, 1)).reshape(8, -1).mean(1) for images in (ours, expected)
        ]  # of eighths of the wedge
        assert np.allclose(*np.sqrt(spreads), rtol=0.08)
        residual = ours.astype(float) - ours.mean((0, 1))
        spread = residual.std() ** 2
        for shifted in (np.roll(residual, 1, 1), np.roll(residual, 1, 2), np.roll(residual, 1, 3)):
            assert abs((residual * shifted).mean() / spread) < 6 / np.sqrt(residual.size)
        power = (np.abs(np.fft.fft2(residual, axes=(1, 2))) ** 2).mean((0, 3)) / (spread * 64 * 64)
        assert np.sort(power.ravel())[40] > 0.5 and power.max() < 1.9
