"""How a batch of images lies in memory: by planes, or with the channels of a pixel side by side;
and work in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CHUNK = 200_000  # values at a time: as floats they stay in a core's own cache


def on_device(values: NDArray[Any] | Tensor, device: torch.device | str) -> Tensor:
    """An array or a tensor as a tensor on the device, without waiting for it; itself where it is
    there already."""
    if isinstance(values, Tensor):
        tensor = values
    else:
        tensor = torch.from_numpy(values)
    target = torch.device(device)
    if target.type == tensor.device.type and target.index in (None, tensor.device.index):
        return tensor
    if target.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(target)
    # A copy out of ordinary memory would make the host wait until the device has done all that it
    # was given before.
    return tensor.pin_memory().to(target, non_blocking=True)


def is_channels_last(x: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side; False for one channel, where both layouts
    are the same."""
    return (
        x.shape[1] > 1
        and not x.is_contiguous()
        and x.is_contiguous(memory_format=torch.channels_last)
    )


def lines_of(x: Tensor) -> Tensor:
    """A view of `x` [n, c, h, w] whose dimensions follow its memory: [n, h, w, c] if channels last,
    else `x` itself."""
    if is_channels_last(x):
        return x.permute(0, 2, 3, 1)
    return x


def images_of(lines: Tensor, like: Tensor) -> Tensor:
    """The view [n, c, h, w] of what `lines_of` gave for `like`, or of anything shaped so."""
    if is_channels_last(like):
        return lines.permute(0, 3, 1, 2)
    return lines


def along_memory(values: Tensor, like: Tensor) -> Tensor:
    """`values` [n, c, 1, 1] so that arithmetic with `like` [n, c, h, w] is fast: channels last, a
    line of them is written out, and lines meet lines, not pixels pixels."""
    if is_channels_last(like):
        lines = values.expand(-1, -1, -1, like.shape[3])
        return lines.contiguous(memory_format=torch.channels_last)
    return values


def dense(x: Tensor) -> Tensor:
    """`x` [n, c, h, w] itself if it lies by planes or channels last without gaps, else a copy by
    planes."""
    if is_channels_last(x):
        return x
    return x.contiguous()


def planes(x: Tensor) -> Tensor:
    """The same values [n, c, h, w], one plane after the other; `x` itself if they already lie
    so."""
    if x.is_contiguous() or x.device.type != "cpu":
        return x.contiguous()
    # torch copies bytes with gaps one by one: NumPy is three times as fast.
    out = torch.empty(x.shape, dtype=x.dtype)
    out.numpy()[...] = x.numpy()
    return out


def laid_out_as(y: Tensor, x: Tensor) -> Tensor:
    """The values of `y` [n, c, h, w] in the memory layout of `x`; `y` itself if it already lies
    so."""
    if not is_channels_last(x):
        return planes(y)
    if is_channels_last(y):
        return y
    out = torch.empty_like(y, memory_format=torch.channels_last)
    for channel in range(y.shape[1]):
        if y.device.type == "cpu":
            out.numpy()[:, channel] = y.numpy()[:, channel]
        else:
            out[:, channel] = y[:, channel]
    return out


def looked_up(values: Tensor, table: NDArray[np.uint8]) -> Tensor:
    """Every byte of `values` [...], without gaps, replaced by its entry in the `table` of 256: new,
    in planes."""
    if values.device.type != "cpu":
        index = values.reshape(-1).to(torch.int32)
        return on_device(table, values.device).index_select(0, index).view(values.shape)
    # Bytes have a faster table than torch, NumPy and Pillow.
    shown = bytearray(values.numpy().reshape(-1).data).translate(table.tobytes())
    return torch.frombuffer(shown, dtype=torch.uint8).view(values.shape)


def put_cut(levels: Tensor, out: Tensor) -> None:
    """Write numbers from 0 to below 256 into the bytes `out`, of the same shape, cut to whole
    levels downwards."""
    if out.device.type == "cpu":
        # torch turns floats into bytes one by one: NumPy takes a sixth of the time.
        np.copyto(out.numpy(), levels.numpy(), casting="unsafe")
    else:
        out.copy_(levels.to(torch.int32))


def put_numbers(x: Tensor, out: Tensor) -> None:
    """Write the bytes of `x`, in any memory layout, into the numbers `out` of the same shape."""
    if out.device.type == "cpu":
        # Bytes with gaps are slow in torch.
        np.copyto(out.numpy(), x.numpy())
    else:
        out.copy_(x)


def parts(x: Tensor, copies: float = 1) -> Iterator[slice]:
    """Slices of samples to work on one after the other, so that intermediate values stay in the
    cache.

    The more `copies` of the values are alive at a time, the smaller the slices.
    """
    size = 1
    if len(x):
        size = max(1, int(CHUNK / copies) // max(1, x[0].numel()))
    for start in range(0, len(x), size):
        yield slice(start, start + size)


def in_groups(
    x: Tensor,
    groups: NDArray[np.int64],
    change: Callable[[int, int, Tensor, NDArray[np.int64]], Tensor],
    none: int = 0,
) -> Tensor:
    """Images changed step by step, each by what its group is at that step: new, in the memory
    layout of `x`.

    `groups`: int64 [n, steps]; the group `none` is left alone. `change(step, group, images, rows)`
    gives the changed images of a group, in their memory layout; `rows` are their places in `x`.
    """
    x = dense(x)
    lines_in = lines = lines_of(x)
    order = np.arange(len(x))
    # At each step the samples of one group stand side by side, so that a group is a piece of
    # memory.
    for step in range(groups.shape[1]):
        order, lines = _sorted(lines, order, groups[:, step])
        lines = lines.clone() if lines is lines_in else lines
        codes, starts = np.unique(groups[order, step], return_index=True)
        for group, start, end in zip(codes.tolist(), starts, [*starts[1:], len(x)], strict=True):
            if group != none:
                changed = change(step, group, images_of(lines[start:end], x), order[start:end])
                lines[start:end] = changed.permute(0, 2, 3, 1) if is_channels_last(x) else changed
    return images_of(_sorted(lines, order, np.arange(len(x)))[1], x)


def _sorted(
    lines: Tensor, order: NDArray[np.int64], keys: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Tensor]:
    """The images, which stand in some order, by the `keys` of their samples instead: their new
    order and themselves.

    Gathers of whole images: a scatter to their own places would take many times as long.
    """
    moved = np.argsort(keys[order], kind="stable")
    if (moved[:-1] < moved[1:]).all():
        return order, lines
    return order[moved], lines.index_select(0, on_device(moved, lines.device))
