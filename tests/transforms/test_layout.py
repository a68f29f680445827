"""Memory layouts, and samples that are changed group by group."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.transforms.pictures import pictures

from crosswind.transforms import layout
from crosswind.transforms.layout import (
    along_memory,
    in_groups,
    is_channels_last,
    laid_out_as,
    parts,
    planes,
    put_cut,
    put_numbers,
)


@pytest.mark.parametrize("channels", [1, 3])
def test_there_and_back(channels: int) -> None:
    x = pictures(channels)
    last = x.contiguous(memory_format=torch.channels_last)
    assert is_channels_last(last) == (channels == 3) and not is_channels_last(x)
    assert planes(x) is x and planes(last).is_contiguous() and torch.equal(planes(last), x)
    assert laid_out_as(x, x) is x
    back = laid_out_as(planes(last), last)
    assert torch.equal(back, x) and is_channels_last(back) == (channels == 3)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_bytes_become_numbers_and_numbers_are_cut_to_bytes(
    kind: torch.dtype, memory: torch.memory_format
) -> None:
    x = pictures(3).contiguous(memory_format=memory)
    levels = torch.empty(x.shape, dtype=kind)
    put_numbers(x, levels)
    assert torch.equal(levels, x.to(kind))
    out = torch.empty_like(x)
    put_cut(levels + 0.99, out)
    assert torch.equal(out, x)
    assert torch.equal(
        x + along_memory(torch.arange(3).view(1, 3, 1, 1), x), x + torch.arange(3).view(1, 3, 1, 1)
    )


def test_parts_cover_all_samples_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = pictures()
    for size, copies in ((1, 1), (3 * 33 * 29 * 5, 1), (3 * 33 * 29 * 5, 2), (10**9, 1)):
        monkeypatch.setattr(layout, "CHUNK", size)
        found = list(parts(x, copies))
        assert [i for part in found for i in range(32)[part]] == list(range(32))
        assert len(found) == {1: 32, 3 * 33 * 29 * 5: 7 if copies == 1 else 16}.get(size, 1)
    assert list(parts(x[:0])) == []


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_every_sample_goes_through_its_own_groups_in_order(memory: torch.memory_format) -> None:
    """Doubling and adding do not commute, so a wrong order or a wrong sample shows."""
    x = (pictures() % 16).contiguous(memory_format=memory)
    kept = x.clone()
    groups = np.random.default_rng(0).integers(0, 3, (32, 3))
    asked = []

    def change(step: int, group: int, images: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        assert (groups[rows, step] == group).all() and is_channels_last(images) == (
            memory == torch.channels_last
        )
        asked.append((step, group, len(rows)))
        return images * 2 if group == 1 else images + 1

    found = in_groups(x, groups, change)
    assert found.stride() == x.stride() and torch.equal(x, kept)
    assert len(asked) == 6 and sum(count for *_, count in asked) == int((groups > 0).sum())
    for i in range(32):
        wanted = x[i]
        for group in groups[i]:
            wanted = wanted if group == 0 else wanted * 2 if group == 1 else wanted + 1
        assert torch.equal(found[i], wanted), i
