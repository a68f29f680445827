"""Maths that several methods share, as pure functions of tensors."""

from __future__ import annotations

import types
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor, nn

__all__ = [
    "frozen",
    "group_means",
    "kernel_distance",
    "membership",
    "mixtures",
    "moment_distances",
    "row_keys",
    "row_losses",
    "without_autocast",
]

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
    return torch.nn.functional.cross_entropy(_wide(logits), y, reduction="none")


def moment_distances(features: Tensor, group: Tensor, many: int, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The mean over pairs of groups of |m_i - m_j|^2, and of |C_i - C_j|_F^2; 0 where there is no pair.

    m and C: the mean and the covariance (over n - 1) of a group's features. A group without rows is in no pair, one of a single
    row in none of the second; `rows` int64 [many]: how many it has in training, since a batch may hold a row several times.
    `features` [n, d], `group` int64 [n] in [0, many). At least float32, whatever the arithmetic around it.
    """
    with without_autocast(features):
        wide = _wide(features)
        members = membership(group, many).to(wide.dtype)
        counts = members.sum(0)
        means = members.T @ wide / counts.clamp(min=1.0)[:, None]
        # The squared distances of all pairs of k points add up to k times those from their mean.
        seen = (counts > 0).to(wide.dtype)
        spread = (seen[:, None] * (means - (seen @ means) / seen.sum())).square().sum()
        # <C_i, C_j> from the n x n products of centred rows: no d x d matrix for each of perhaps many groups.
        centred = wide - members @ means
        shares = members / (counts - 1.0).clamp(min=1.0)
        inner = shares.T @ (centred @ centred.T).square() @ shares
        return seen.sum() * spread / _pairs(seen), _mean_distance(inner, _several(counts, rows).to(wide.dtype))


def kernel_distance(
    features: Tensor,
    group: Tensor,
    many: int,
    widths: Sequence[float] | None = None,
    *,
    unbiased: bool = False,
    rows: Tensor | None = None,
) -> Tensor:
    """The mean over pairs of groups of the squared maximum mean discrepancy under Gaussian kernels; 0 where there is no pair.

    Its estimates by all pairs of rows, a row with itself included or not (Gretton et al. 2012, equations 5 and 3). The kernel is
    the sum over widths w of exp(-|a - b|^2 / (2 w^2)). None: one width, the median distance of two rows of `features` (their
    section 8), which has its gradient too; at least a thirtieth of the root of the mean squared distance, where most rows
    coincide. A group without rows is in no pair, nor is one of a single row where `unbiased`. Else as `moment_distances`.
    """
    with without_autocast(features):
        wide = _wide(features)
        # Distances are the same from anywhere; from the middle of the rows the differences below lose fewest digits.
        centred = wide - wide.mean(0)
        products = centred @ centred.T
        norms = products.diagonal()
        squared = (norms[:, None] + norms - 2.0 * products).clamp(min=0.0)  # exactly 0 of a row and itself
        scales = [_doubled_median(squared)] if widths is None else [2.0 * width**2 for width in widths]
        kernel = torch.stack([torch.exp(-squared / scale) for scale in scales]).sum(0)
        members = membership(group, many).to(wide.dtype)
        counts = members.sum(0)
        shares = members / counts.clamp(min=1.0)
        inner = shares.T @ kernel @ shares
        if not unbiased:
            return _mean_distance(inner, (counts > 0).to(wide.dtype))
        same = torch.eye(len(wide), dtype=torch.bool, device=wide.device)
        others = (members * (kernel.masked_fill(same, 0.0) @ members)).sum(0) / (counts * (counts - 1.0)).clamp(min=1.0)
        inner = torch.where(torch.eye(many, dtype=torch.bool, device=wide.device), others, inner)
        return _mean_distance(inner, _several(counts, rows).to(wide.dtype))


def _several(counts: Tensor, rows: Tensor | None) -> Tensor:
    """Which groups have two different rows in a batch, bool [k], as far as numbers of rows tell."""
    return counts > 1 if rows is None else (counts > 1) & (rows > 1)


def _doubled_median(squared: Tensor) -> Tensor:
    """2 w^2 of the median heuristic, a scalar; `squared` [n, n]: squared distances of rows."""
    n = len(squared)
    above = torch.triu_indices(n, n, 1, device=squared.device)
    # torch's own derivative of a median asks the CPU's tensor for its value.
    held = squared.detach()
    middle = (held == held[above[0], above[1]].median()).to(held.dtype)
    scale = torch.maximum((squared * middle).sum() / middle.sum(), 1e-3 * squared.mean())
    return 2.0 * torch.where(scale > 0, scale, torch.ones_like(scale))  # a single row has no median, and any width will do


def _mean_distance(inner: Tensor, usable: Tensor) -> Tensor:
    """The mean of |v_i - v_j|^2 over pairs of usable vectors, by their inner products [k, k]; `usable` [k]: 1 or 0."""
    inner = usable[:, None] * inner * usable
    summed = usable.sum() * inner.diagonal().sum() - inner.sum()
    return summed / _pairs(usable)


def _pairs(flags: Tensor) -> Tensor:
    """The number of pairs of flagged members, at least 1 to divide by."""
    k = flags.sum()
    return (k * (k - 1.0) / 2.0).clamp(min=1.0)


def mixtures(ids: Tensor, environment: Tensor | None, environment_rows: Tensor) -> Tensor:
    """Which of two random mixtures of the batch's environments each row goes to: int64 [n], 0 or 1.

    The share of an environment's rows that go to the first is drawn for each evenly from [0, 1], so that their number is any from
    none to all with equal chance. With training rows in fewer than two environments it is one half: two random halves.
    `environment_rows` int64 [e]: training rows of each environment; None for `environment`: all are of one. Draws on the device.
    """
    several = (environment_rows > 0).sum() > 1
    shares = torch.where(several, torch.rand(len(environment_rows), device=ids.device), 0.5)
    # 24 bits are what a float32 holds.
    drawn = (row_keys(ids) >> 39 & 0xFFFFFF).float() / 2.0**24
    return (drawn >= (shares[0] if environment is None else shares[environment])).long()


def row_keys(ids: Tensor) -> Tensor:
    """A number drawn evenly for every row, int64 [n] from 0, the same for two rows of one id; the device draws one number.

    By ids and not by places, so that a batch in another order is the same batch.
    """
    # SplitMix64's finaliser (Steele et al. 2014) of a counter that starts anywhere; shifts here keep the sign, which is one to one.
    keys = ids + torch.randint(-(2**62), 2**62, (), device=ids.device)
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        keys = (keys ^ (keys >> shift)) * factor
    return (keys ^ (keys >> 31)) & 0x7FFFFFFFFFFFFFFF


def _wide(values: Tensor) -> Tensor:
    """At least float32."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def frozen(module: M) -> M:
    """`module` without gradients and in evaluation mode for good, whatever mode its parents are put in; changed in place."""
    module.requires_grad_(False)
    for part in module.modules():
        part.training = False
        part.train = types.MethodType(_stay, part)  # type: ignore[method-assign]
    return module


def _stay(self: nn.Module, mode: bool = True) -> nn.Module:
    return self
