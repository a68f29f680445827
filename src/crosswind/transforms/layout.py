"""How a batch of images lies in memory: by planes, or with the channels of a pixel side by side; and work in pieces."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["dense", "is_channels_last", "laid_out_as", "parts", "planes"]

CHUNK = 200_000  # values at a time: as floats they stay in a core's own cache


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


def parts(x: Tensor) -> Iterator[slice]:
    """Slices of samples that are worked on one after the other, so that what is made on the way stays in the cache."""
    size = max(1, CHUNK // max(1, x[0].numel())) if len(x) else 1
    for start in range(0, len(x), size):
        yield slice(start, start + size)
