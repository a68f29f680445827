"""Weather and digital corruptions: the same bits for an image and its key in any batch, place and memory layout."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from tests.transforms.corruptions.oracle import batch, photographs

from crosswind.core.registry import load
from crosswind.core.seeds import hash64

RANDOM = ("fog", "frost", "snow", "spatter", "elastic")
FIXED = ("brightness", "contrast", "saturate", "pixelate", "jpeg")
KEYS = hash64(np.arange(32), 1)


@pytest.mark.parametrize(("size", "severity", "channels"), [((64, 64), 2, 3), ((31, 45), 5, 1)])
@pytest.mark.parametrize("name", RANDOM + FIXED)
def test_alone_in_batches_permuted_and_channels_last(name: str, size: tuple[int, int], severity: int, channels: int) -> None:
    x = batch(photographs(KEYS.size, *size))[:, :channels].contiguous()
    transform = load("transforms", name)(severity)
    together = transform(x, KEYS)
    assert together.shape == x.shape and together.dtype == torch.uint8
    for count in (1, 2, 3, 7, 32):
        rows = np.random.default_rng(count).permutation(32)[:count]
        given, keys = x[torch.from_numpy(rows)], KEYS[rows]
        assert torch.equal(transform(given, keys), together[torch.from_numpy(rows)])
        last = given.contiguous(memory_format=torch.channels_last)
        assert torch.equal(transform(last, keys), together[torch.from_numpy(rows)])
    assert torch.equal(transform(x[:, :, ::2, ::2].contiguous(), KEYS), transform(x[:, :, ::2, ::2], KEYS))


@pytest.mark.parametrize(
    ("module", "names"),
    [("weather", ("fog", "frost", "snow")), ("spatter", ("spatter",)), ("elastic", ("elastic",)), ("digital", FIXED)],
)
def test_chunks_change_nothing(module: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    x = batch(photographs(16, 40, 33))
    whole = {name: load("transforms", name)(3)(x, KEYS[:16]) for name in names}
    monkeypatch.setattr(importlib.import_module(f"crosswind.transforms.corruptions.{module}"), "CHUNK", 5000)
    for name in names:
        assert torch.equal(load("transforms", name)(3)(x, KEYS[:16]), whole[name])


@pytest.mark.parametrize("name", RANDOM + FIXED)
def test_an_image_repeated_differs_where_it_is_random_and_stays_itself(name: str) -> None:
    one = batch(photographs(1, 64, 64))
    x = one.expand(8, -1, -1, -1).contiguous()
    done = load("transforms", name)(3)(x, KEYS[:8])
    assert torch.equal(x, one.expand(8, -1, -1, -1))
    different = len({row.numpy().tobytes() for row in done})
    assert different == (8 if name in RANDOM else 1)
    assert load("transforms", name).random == (name in RANDOM)


@pytest.mark.parametrize("size", [(28, 28), (256, 29), (37, 200)])
@pytest.mark.parametrize("name", RANDOM + FIXED)
def test_every_severity_table_and_size(name: str, size: tuple[int, int]) -> None:
    """Each severity changes the image, and one by its own amount."""
    x = batch(photographs(1, *size))
    for table in ("imagenet", "cifar"):
        results = [load("transforms", name)(severity, table)(x, KEYS[:1]) for severity in range(1, 6)]
        assert len({result.numpy().tobytes() for result in [x, *results]}) == 6
