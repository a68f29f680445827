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
    "levels",
    "membership",
    "mixtures",
    "moment_distance",
    "row_keys",
    "row_losses",
    "wide",
    "with_slopes",
    "without_autocast",
]

M = TypeVar("M", bound=nn.Module)


def group_means(values: Tensor, group: Tensor, n_groups: int) -> tuple[Tensor, Tensor]:
    """The mean of `values` [n] in each group [g], 0 where a group has no row, and the number of
    rows in each, float [g].

    `group`: int64 [n] in [0, n_groups). Differentiable in `values`.
    """
    # A product with the one-hot matrix and not scatter_add: its order of summation is fixed on
    # every device. Autocast would round the values to bfloat16 for it.
    with without_autocast(values):
        members = membership(group, n_groups).to(values.dtype)
        counts = members.sum(0)
        return (values @ members) / counts.clamp(min=1.0), counts


def without_autocast(values: Tensor) -> AbstractContextManager[object]:
    """The block in the dtypes that its tensors have, on the device of `values`."""
    device = values.device.type
    on = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    if on:
        return torch.autocast(device, enabled=False)
    return nullcontext()


def membership(codes: Tensor, n_values: int) -> Tensor:
    """Which of `n_values` values each code is: bool [n, many] of int64 [n]."""
    # torch's `one_hot` asks some devices whether all codes are in range, which waits for them.
    return codes[:, None] == torch.arange(n_values, device=codes.device)


def row_losses(logits: Tensor, y: Tensor) -> Tensor:
    """The cross-entropy of every row, [n], in nats and at least float32; logits [n, k], y int64
    [n]."""
    return torch.nn.functional.cross_entropy(wide(logits), y, reduction="none")


def moment_distance(
    features: Tensor,
    group: Tensor,
    n_groups: int,
    by_mean: float,
    by_covariance: float,
    rows: Tensor | None = None,
) -> Tensor:
    """`by_mean` x the mean over pairs of groups of |m_i - m_j|^2 + `by_covariance` x that of |C_i -
    C_j|_F^2; 0 without a pair.

    m and C: the mean and the covariance (over n - 1) of a group's features. A group without rows is
    in no pair, one of a single row in none of the second. `rows` int64 [many]: how many it has in
    training, since a batch may hold a row several times. `features` [n, d], `group` int64 [n] in
    [0, many). At least float32, whatever the arithmetic around it. Differentiable once.
    """
    with without_autocast(features):
        wide_features = wide(features)
        with torch.no_grad():
            x = wide_features.detach()
            members = membership(group, n_groups).to(x.dtype)
            counts = members.sum(0)
            shares = members / counts.clamp(min=1.0)
            means = shares.T @ x
            # The squared distances of all pairs of k points add up to k times those from their
            # mean.
            has_rows = (counts > 0).to(x.dtype)
            k = has_rows.sum()
            apart = has_rows[:, None] * (means - (has_rows @ means) / k)
            factor = by_mean * k / _pairs(k)
            # <C_i, C_j> from the n x n products of centred rows: no d x d matrix for each of
            # perhaps many groups.
            centred = torch.addmm(x, members, means, alpha=-1.0)
            products = centred @ centred.T
            inverse = 1.0 / (counts - 1.0).clamp(min=1.0)
            weighed = products * _pair_weights(members, inverse, _several(counts, rows))
            total = factor * apart.square().sum() + by_covariance * torch.dot(
                weighed.flatten(), products.flatten()
            )
            pulled = weighed @ centred
            # A group's mean moves with its rows.
            means_moved = torch.sub(
                2.0 * factor * apart, members.T @ pulled, alpha=4.0 * by_covariance
            )
            slope = torch.addmm(pulled, shares, means_moved, beta=4.0 * by_covariance)
        return with_slopes(total, [wide_features], [slope])


def kernel_distance(
    features: Tensor,
    group: Tensor,
    n_groups: int,
    widths: Sequence[float] | None = None,
    *,
    unbiased: bool = False,
    rows: Tensor | None = None,
    centre: int | None = None,
) -> Tensor:
    """The mean over pairs of groups of the squared maximum mean discrepancy under Gaussian kernels;
    0 where there is no pair.

    Its estimates by all pairs of rows, a row with itself included or not (Gretton et al. 2012,
    equations 5 and 3). The kernel is the sum over widths w of exp(-|a - b|^2 / (2 w^2)). None: one
    width, the median distance of two rows of `features` (their section 8), which has its gradient
    too. At least a thirtieth of the root of the mean squared distance, where most rows coincide. A
    group without rows is in no pair, nor is one of a single row where `unbiased`. `centre`: the
    group that one of each pair is; None: all pairs count. A row of group -1 is in no group, but in
    the median. Else as `moment_distance`.
    """
    with without_autocast(features):
        wide_features = wide(features)
        with torch.no_grad():
            x = wide_features.detach()
            members = membership(group, n_groups).to(x.dtype)
            counts = members.sum(0)
            usable = _several(counts, rows) if unbiased else counts > 0
            unbiased_factor = None
            if unbiased:
                unbiased_factor = counts / (counts - 1.0).clamp(min=1.0)
            inverse = 1.0 / counts.clamp(min=1.0)
            weights = _pair_weights(members, inverse, usable, unbiased_factor, centre)
            # Distances are the same from anywhere; from the middle of the rows the differences
            # below lose fewest digits.
            centred = x - x.mean(0)
            products = centred @ centred.T
            # A product's two halves may differ in the last bit, and the pair at the median must be
            # found in both.
            products = (products + products.T) / 2.0
            norms = products.diagonal().contiguous()
            squared = (
                (norms[:, None] + norms).sub(products, alpha=2.0).clamp(min=0.0)
            )  # exactly 0 of a row and itself
            if widths is None:
                scale, middle, slope_at, elsewhere = _doubled_median(squared)
                weighed = weights * torch.exp(squared / -scale)
                distance = weighed.sum()
                moves = torch.dot(weighed.flatten(), squared.flatten()) / scale.square()
                by_squared = torch.where(middle, slope_at * moves, elsewhere * moves).sub(
                    weighed / scale
                )
            else:
                distance = squared.new_zeros(())
                by_squared = torch.zeros_like(squared)
                for rate in (0.5 / width**2 for width in widths):
                    weighed = weights * torch.exp(squared * -rate)
                    distance = distance + weighed.sum()
                    by_squared = by_squared.sub(weighed, alpha=rate)
            # Every pair stands there twice, and |a - b|^2 has the slope 2 (a - b).
            slope = torch.addmm(
                by_squared.sum(1, keepdim=True) * centred, by_squared, centred, beta=4.0, alpha=-4.0
            )
        return with_slopes(distance, [wide_features], [slope])


def with_slopes(value: Tensor, inputs: Sequence[Tensor], slopes: Sequence[Tensor]) -> Tensor:
    """`value`, a scalar, as a function of `inputs` whose gradients are known: `slopes`, each like
    its input. Differentiable once.

    For what is made without a graph because its gradient costs less by a formula, or is at hand.
    """
    # Adds exactly 0. No `torch.autograd.Function`, whose Python costs as much as all of a small
    # penalty.
    pairs = []
    for input_tensor, slope in zip(inputs, slopes, strict=True):
        pairs.append((wide(input_tensor).flatten(), wide(slope).flatten()))
    line = torch.stack([torch.dot(input_tensor, slope) for input_tensor, slope in pairs]).sum()
    return value + (line - line.detach())


def _pair_weights(
    members: Tensor,
    inverse: Tensor,
    usable: Tensor,
    unbiased_factor: Tensor | None = None,
    centre: int | None = None,
) -> Tensor:
    """The weight of every pair of rows in the mean over pairs of usable groups (i, j) of |v_i -
    v_j|^2, [n, n]; i is `centre`.

    v is a group's sum of rows times `inverse` [k], and |v_i - v_j|^2 is made of products of two
    rows each. `unbiased_factor` [k]: a row's products with itself are left out, and those with
    other rows of
    its group multiplied by so much.
    """
    usable_weight = usable.to(members.dtype)
    each = inverse * usable_weight
    k = usable_weight.sum()
    # In sums over all pairs v_i stands with itself once for each partner, and with each partner
    # once on either side.
    within = torch.ones_like(each) if unbiased_factor is None else unbiased_factor
    by_groups = torch.diag((k - 1.0) * within + 1.0) - 1.0
    pairs = _pairs(k)
    if centre is not None:
        star = torch.zeros_like(by_groups)
        star[centre], star[:, centre] = usable_weight[centre], usable_weight[centre]
        star[centre, centre] = 0.0
        partners = (star * usable_weight).sum(1)
        by_groups = torch.diag(partners * within) - star
        pairs = (k - 1.0).clamp(min=1.0)
    out = members @ (by_groups * (each / pairs) * each[:, None]) @ members.T
    if unbiased_factor is None:
        return out
    return out - torch.diag(out.diagonal())


def _several(counts: Tensor, rows: Tensor | None) -> Tensor:
    """Which groups have two different rows in a batch, bool [k], as far as numbers of rows tell."""
    if rows is None:
        return counts > 1
    return (counts > 1) & (rows > 1)


def _doubled_median(squared: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """2 w^2 of the median heuristic, by squared distances of rows [n, n]; and its slope by each of
    them.

    A scalar; which pairs are at the median, bool [n, n]; its slopes by those that are and by those
    that are not, scalars.
    """
    n = len(squared)
    row, column = torch.triu_indices(n, n, 1, device=squared.device)
    # torch's own derivative of a median asks the CPU's tensor for its value.
    median = squared.flatten().index_select(0, row * n + column).median()
    least = 1e-3 * squared.mean()
    middle = squared == median
    above = median >= least
    scale = torch.maximum(median, least)
    none = ~(scale > 0)  # a single row has no median, and any width will do
    slope_at = torch.where(above & ~none, 2.0 / middle.sum(), 0.0).to(scale.dtype)
    elsewhere = torch.where(above | none, 0.0, 2e-3 / n**2).to(scale.dtype)
    return 2.0 * torch.where(none, 1.0, scale), middle, slope_at + elsewhere, elsewhere


def _pairs(k: Tensor) -> Tensor:
    """The number of pairs of `k` things, at least 1 to divide by."""
    return (k * (k - 1.0) / 2.0).clamp(min=1.0)


def mixtures(ids: Tensor, environment: Tensor | None, environment_rows: Tensor) -> Tensor:
    """Which of two random mixtures of the batch's environments each row goes to: int64 [n], 0 or 1.

    The share of an environment's rows that go to the first is drawn for each evenly from [0, 1], so
    that their number is any from none to all with equal chance. With training rows in fewer than
    two environments it is one half: two random halves. `environment_rows` int64 [e]: training rows
    of each environment; None for `environment`: all are of one. Draws on the device.
    """
    several = (environment_rows > 0).sum() > 1
    shares = torch.where(several, torch.rand(len(environment_rows), device=ids.device), 0.5)
    # 24 bits are what a float32 holds.
    drawn = (row_keys(ids) >> 39 & 0xFFFFFF).float() / 2.0**24
    return (drawn >= (shares[0] if environment is None else shares[environment])).long()


def row_keys(ids: Tensor) -> Tensor:
    """A number drawn evenly for every row, int64 [n] from 0, the same for two rows of one id; the
    device draws one number.

    By ids and not by places, so that a batch in another order is the same batch.
    """
    # SplitMix64's finaliser (Steele et al. 2014) of a counter that starts anywhere; shifts here
    # keep the sign, which is one to one.
    keys = ids + torch.randint(-(2**62), 2**62, (), device=ids.device)
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        keys = (keys ^ (keys >> shift)) * factor
    return (keys ^ (keys >> 31)) & 0x7FFFFFFFFFFFFFFF


def wide(values: Tensor) -> Tensor:
    """At least float32: what sums and exponentials are to be made of."""
    if values.dtype in (torch.bfloat16, torch.float16):
        return values.float()
    return values


def levels(x: Tensor) -> Tensor:
    """Inputs in (-1, 1) as the uint8 pictures that they are of, without gradient."""
    return ((x.detach().float() + 1.0) * 127.5).round().clamp(0, 255).to(torch.uint8)


def frozen(module: M) -> M:
    """`module` without gradients and in evaluation mode for good, whatever mode its parents are put
    in; changed in place."""
    module.requires_grad_(False)
    for submodule in module.modules():
        submodule.training = False
        submodule.train = types.MethodType(_stay, submodule)  # type: ignore[method-assign]
    return module


def _stay(self: nn.Module, mode: bool = True) -> nn.Module:
    return self
