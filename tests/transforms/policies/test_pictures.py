"""Pictures that go through their operations one after the other: the same bits as in groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.transforms.pictures import pictures

from crosswind.transforms.policies import operations
from crosswind.transforms.policies.operations import OPERATIONS, Chains, carried_out, levels, signed
from crosswind.transforms.policies.pictures import LARGEST_MAP, nearest

BINS = {"randaugment": 31, "trivialaugment": 31, "augmix": 10}


def chains(space: str, n: int, steps: int, size: tuple[int, int]) -> Chains:
    """Operations drawn from all, at drawn levels."""
    generator = np.random.default_rng(steps)
    codes = generator.integers(0, len(OPERATIONS), (n, steps))
    drawn = generator.integers(0, BINS[space], (n, steps))
    magnitudes = levels(space, BINS[space], size)[codes, drawn]
    return Chains(codes, signed(codes, magnitudes, generator.random((n, steps)) < 0.5))


def in_groups(x: torch.Tensor, of: Chains, once: bool, patch: pytest.MonkeyPatch) -> torch.Tensor:
    with patch.context() as changed:
        changed.setattr(operations, "LARGE", 1 << 40)
        changed.setattr(operations, "FEW", 0)
        return carried_out(x, of, once=once)


def by_themselves(
    x: torch.Tensor, of: Chains, once: bool, patch: pytest.MonkeyPatch
) -> torch.Tensor:
    with patch.context() as changed:
        changed.setattr(operations, "LARGE", 0)
        return carried_out(x, of, once=once)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(33, 29), (224, 224), (2, 5), (1, 1)])
def test_pictures_by_themselves_are_those_of_groups(
    size: tuple[int, int],
    channels: int,
    layout: torch.memory_format,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 32 if size == (224, 224) else 64
    x = pictures(channels, 33, 29) if max(size) < 33 else pictures(channels, *size)
    x = x[:, :, : size[0], : size[1]][torch.arange(n) % 32].contiguous(memory_format=layout)
    before = x.clone()
    for space in BINS:
        for steps in (1, 3):
            drawn = chains(space, n, steps, size)
            alone = by_themselves(x, drawn, steps == 1, monkeypatch)
            assert torch.equal(alone, in_groups(x, drawn, steps == 1, monkeypatch)), (space, steps)
            assert alone.stride() == before.stride() or min(size) == 1
    assert torch.equal(x, before)


def test_a_picture_too_large_for_a_map_that_stays_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = pictures(3, 260, 254)[:2]
    assert x.shape[2] * x.shape[3] > LARGEST_MAP
    drawn = Chains(np.full((2, 1), OPERATIONS.index("rotate")), np.array([[30.0], [-9.0]]))
    alone = by_themselves(x, drawn, True, monkeypatch)
    assert torch.equal(alone, in_groups(x, drawn, True, monkeypatch))


@pytest.mark.parametrize("last", [False, True])
def test_what_is_moved_out_of_the_picture_is_black(last: bool) -> None:
    pixels = np.full((5, 7, 3) if last else (3, 5, 7), 9, np.uint8)
    for right, down in ((7, 0), (-7, 0), (0, 5), (0, -5), (1 << 20, 0), (6, -4)):
        steps = np.array([[1, 0, right], [0, 1, down]]) * (1 << 16) + [[0, 0, 1 << 15]]
        count = max(0, 7 - abs(right)) * max(0, 5 - abs(down)) * 3
        assert (nearest(pixels, last, steps) == 9).sum() == count
