"""Maths that several methods share, as pure functions of tensors."""

from __future__ import annotations

import types
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor, nn

__all__ = ["frozen", "group_means", "membership", "row_losses", "without_autocast"]

M = TypeVar("M", bound=nn.Module)


def group_means(values: Tensor, group: Tensor, n_groups: int) -> tuple[Tensor, Tensor]:
    """The mean of `values` [n] in each group [g], 0 where a group has no row, and the number of rows in each, float [g].

    `group`: int64 [n] in [0, n_groups). Differentiable in `values`.
    """
    # A product with the one-hot matrix and not scatter_add: its order of summation is fixed on every device. Autocast would round
    # the values to bfloat16 for it.
    with without_autocast(values):
        members = membership(group, n_groups).to(values.dtype)
        counts = members.sum(0)
        return (values @ members) / counts.clamp(min=1.0), counts


def without_autocast(values: Tensor) -> AbstractContextManager[object]:
    """The block in the dtypes that its tensors have, on the device of `values`."""
    device = values.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def membership(codes: Tensor, many: int) -> Tensor:
    """Which of `many` values each code is: bool [n, many] of int64 [n]."""
    # torch's `one_hot` asks some devices whether all codes are in range, which waits for them.
    return codes[:, None] == torch.arange(many, device=codes.device)


def row_losses(logits: Tensor, y: Tensor) -> Tensor:
    """The cross-entropy of every row, [n], in nats and at least float32; logits [n, k], y int64 [n]."""
    wide = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    return torch.nn.functional.cross_entropy(wide, y, reduction="none")


def frozen(module: M) -> M:
    """`module` without gradients and in evaluation mode for good, whatever mode its parents are put in; changed in place."""
    module.requires_grad_(False)
    for part in module.modules():
        part.training = False
        part.train = types.MethodType(_stay, part)  # type: ignore[method-assign]
    return module


def _stay(self: nn.Module, mode: bool = True) -> nn.Module:
    return self
