"""Every transform at settings of its own: the same bits for an image and its key alone, in any
batch, layout and size of pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.transforms.corruptions.oracle import batch, photographs
from tests.transforms.pictures import assert_same_bits, pictures

from crosswind.core.registry import listing, load
from crosswind.core.seeds import hash64
from crosswind.transforms import geometry, layout
from crosswind.transforms.corruptions import blur, filters

KEYS = hash64(np.arange(32), 1)
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "randaugment": (
        {"count": 3, "magnitude": 25},
        {"operations": "rotate"},
        {"resampling": "each"},
    ),
    "trivialaugment": ({"bins": 5},),
    "autoaugment": ({"policy": "cifar10"}, {"policy": "imagenet"}, {"policy": "svhn"}),
    "augmix": (
        {"severity": 10, "width": 2, "depth": 4},
        {"all_ops": False, "interpolation": "nearest", "alpha": 0.2},
    ),
    "imagenet": ({"hue": 0.2}, {"hue": 0.2, "hue_model": "matrix"}),
    "rotate": ({"interpolation": "nearest"}, {"fill": 5}),
    "shear": ({"interpolation": "bilinear", "fill": 7},),
}
CORRUPTIONS = [item.name for item in listing("transforms") if ".corruptions." in item.module]
CASES = [(name, settings) for name, several in SETTINGS.items() for settings in several]
CASES += [
    (name, settings)
    for name in CORRUPTIONS
    for settings in ({"severity": 2}, {"severity": 5, "constants": "imagenet"})
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_same_bits_always(
    name: str, settings: dict[str, Any], channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    transform, x = load("transforms", name)(**settings), pictures(channels)
    whole = transform(x, KEYS)
    assert_same_bits(lambda images, rows: transform(images, KEYS[rows]), x)
    assert torch.equal(
        transform(x[:, :, ::2, ::2].contiguous(), KEYS), transform(x[:, :, ::2, ::2], KEYS)
    )
    for module, size in ((layout, "CHUNK"), (geometry, "CHUNK"), (blur, "SMEARED")):
        monkeypatch.setattr(module, size, 5000)
    monkeypatch.setattr(blur, "ZOOM_COLUMNS", 7)
    monkeypatch.setattr(filters, "TILE", 16)
    assert torch.equal(transform(x, KEYS), whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruptions_of_every_severity_table_and_size(name: str) -> None:
    """Each severity changes the image, and one by its own amount; the smallest images keep their
    shape."""
    for size in ((28, 28), (120, 29), (37, 100)):
        x = batch(photographs(1, *size))
        for table in ("imagenet", "cifar"):
            results = [
                load("transforms", name)(severity, table)(x, KEYS[:1]) for severity in range(1, 6)
            ]
            # CIFAR-10-C's motion blur is the same at severities 3 and 4: they differ in places
            # whose weight is nothing.
            alike = (name, table) == ("motion-blur", "cifar")
            assert len({result.numpy().tobytes() for result in [x, *results]}) >= 6 - alike
    for shape in ((3, 1, 1, 1), (3, 3, 2, 5), (3, 3, 1, 256)):
        x = torch.randint(
            0, 256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8
        )
        for severity in (1, 5):
            found = load("transforms", name)(severity)(x, KEYS[:3])
            assert found.shape == x.shape and found.dtype == torch.uint8
