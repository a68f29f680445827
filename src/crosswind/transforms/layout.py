"""How a batch of images lies in memory: by planes, or with the channels of a pixel side by side; and work in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["dense", "in_groups", "is_channels_last", "laid_out_as", "on_device", "parts", "planes"]

CHUNK = 200_000  # values at a time: as floats they stay in a core's own cache


def on_device(values: NDArray[Any] | Tensor, device: torch.device | str) -> Tensor:
    """An array or a tensor as a tensor on the device, without waiting for it; itself where it is there already."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(values)
    place = torch.device(device)
    if place.type == tensor.device.type and place.index in (None, tensor.device.index):
        return tensor
    if place.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(place)
    # Out of ordinary memory the copy would make the host wait until the device has done all that it was given before.
    return tensor.pin_memory().to(place, non_blocking=True)


def is_channels_last(x: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side; False where there is only one channel, and both are the same."""
    return x.shape[1] > 1 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)


def dense(x: Tensor) -> Tensor:
    """`x` [n, c, h, w] itself if it lies by planes or channels last without gaps, else a copy by planes."""
    return x if is_channels_last(x) else x.contiguous()


def planes(x: Tensor) -> Tensor:
    """The same values [n, c, h, w], one plane after the other; `x` itself if they already lie so."""
    if x.is_contiguous():
        return x
    if x.device.type != "cpu":
        return x.contiguous()
    # torch copies bytes with gaps one by one: NumPy is three times as fast.
    out = torch.empty(x.shape, dtype=x.dtype)
    out.numpy()[...] = x.numpy()
    return out


def laid_out_as(y: Tensor, x: Tensor) -> Tensor:
    """The values of `y`, planes [n, c, h, w], in the memory layout of `x`; `y` itself if `x` lies by planes."""
    if not is_channels_last(x):
        return y
    out = torch.empty_like(y, memory_format=torch.channels_last)
    for channel in range(y.shape[1]):
        if y.device.type == "cpu":
            out.numpy()[:, channel] = y.numpy()[:, channel]
        else:
            out[:, channel] = y[:, channel]
    return out


def parts(x: Tensor, copies: int = 1) -> Iterator[slice]:
    """Slices of samples that are worked on one after the other, so that what is made on the way stays in the cache.

    The more `copies` of the values are alive at a time, the smaller the slices.
    """
    size = max(1, CHUNK // copies // max(1, x[0].numel())) if len(x) else 1
    for start in range(0, len(x), size):
        yield slice(start, start + size)


def in_groups(
    x: Tensor, groups: NDArray[np.int64], change: Callable[[int, int, Tensor, NDArray[np.int64]], Tensor], none: int = 0
) -> Tensor:
    """Images that are changed step by step, each by what its group is at that step: new, in the memory layout of `x`.

    `groups`: int64 [n, steps]; the group `none` is left alone. `change(step, group, images, rows)` gives the changed images of a
    group, in their memory layout; `rows` are their places in `x`.
    """
    x = dense(x)
    last = is_channels_last(x)
    images = (x.permute(0, 2, 3, 1) if last else x).clone()
    order = np.arange(len(x))
    # At each step the samples of one group stand side by side, so that a group is a piece of memory.
    for step in range(groups.shape[1]):
        order, images = _sorted(images, order, groups[:, step])
        found, starts = np.unique(groups[order, step], return_index=True)
        for group, start, end in zip(found.tolist(), starts, [*starts[1:], len(x)], strict=True):
            if group != none:
                part = images[start:end].permute(0, 3, 1, 2) if last else images[start:end]
                done = change(step, group, part, order[start:end])
                images[start:end] = done.permute(0, 2, 3, 1) if last else done
    _, images = _sorted(images, order, np.arange(len(x)))
    return images.permute(0, 3, 1, 2) if last else images


def _sorted(images: Tensor, order: NDArray[np.int64], keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], Tensor]:
    """Images that stand in some order, by the `keys` of their samples instead: their new order and themselves.

    Gathers of whole images; to scatter them back where they came from would take many times as long.
    """
    moved = np.argsort(keys[order], kind="stable")
    if (moved[:-1] < moved[1:]).all():
        return order, images
    return order[moved], images.index_select(0, on_device(moved, images.device))
