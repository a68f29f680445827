"""Mixup between environments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from crosswind.core.errors import NeedsError
from crosswind.core.knobs import Limit, Needs, knob, log
from crosswind.core.registry import register
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, RunContext, State
from crosswind.methods.functional import row_keys, row_losses

__all__ = ["Mixup"]


@final
@register("mixup", kind="method")
@dataclass(frozen=True)
class Mixup(Method):
    """Inter-domain mixup: images blended with images of another environment, and their labels in
    the same proportion.

    Objective: with lambda ~ Beta(alpha, alpha), one draw a batch, and p(i) the partner of row i,
        mean over i of  lambda L(z_i, y_i) + (1 - lambda) L(z_i, y_p(i)),    z_i = f(lambda x_i + (1 - lambda) x_p(i))
    L the cross-entropy. The environments of the batch are put in a random circle at every step, and
    the rows of each are paired, at random, with rows of the next. So every row is blended with one
    of another environment, whatever their labels; where that one has fewer rows, some of them serve
    several times.
    Assumes: at least two environments with training rows; refused otherwise, since what is then
        left is mixup without domains. Each batch holds equal shares of them (`needs.sampler`), as
        in DomainBed. Inputs are numbers that can be blended: texts are refused.
    Knobs: alpha 0.2, that of DomainBed and of Wiles et al. 2022; DomainBed's search is 0.1 to 10.
    The smaller it is, the
        more often lambda is nearly 0 or 1, and one image is nearly untouched.
    Limits: at alpha = 0 nothing is blended: lambda is 1, ERM on the same batches.
    Deviations: Yan et al. blend a labelled environment with an unlabelled one, whose labels the
        model guesses; here all are labelled, as in Wang et al. and DomainBed. DomainBed draws a
        lambda for each pair of environments and drops the rows for which the smaller one has no
        partner.
    Reference:
        @article{yan2020improve, title={Improve Unsupervised Domain Adaptation with Mixup Training},
        author={Yan, Shen and Song, Huan and Li, Nanxiang and Zou, Lincan and Ren, Liu},
        journal={arXiv:2001.00677}, year={2020}} @inproceedings{wang2020heterogeneous,
        title={Heterogeneous Domain Generalization Via Domain Mixup}, author={Wang, Yufei and Li,
        Haoliang and Kot, Alex C.}, booktitle={ICASSP}, year={2020}}
    Checked against: hand-worked numbers; pairs listed by a plain loop; SciPy's Beta distribution.
    """

    alpha: float = knob(
        0.2,
        domain="[0, inf)",
        search=log(0.1, 10.0),
        grid={"wiles2022": [0.2]},
        source="DomainBed; Wiles et al. 2022",
        doc="both parameters of lambda's Beta distribution; 0: nothing is blended",
    )

    needs = Needs(environments=True, sampler="per-environment", numbers="alpha")
    limit = Limit({"alpha": 0.0}, equals="erm")
    version = 1
    family = {"wiles2022": "domain generalisation"}

    def state(self, info: Info) -> State:
        """`environment_rows` int64 [e]: training rows of each environment; a loss needs their
        number without asking the device."""
        return {"environment_rows": torch.tensor(info.environment_counts, dtype=torch.int64)}

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """One descent; overridden because a loss that draws is not one of several runs at once."""
        return super().update(context, batch)

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        if self.alpha == 0.0:
            return super().loss(modules, batch, state)
        if not batch.x.is_floating_point():
            raise NeedsError("method 'mixup' blends inputs, and these are texts")
        assert batch.environment is not None
        n_environments = len(state["environment_rows"])
        partner = _partners(batch.ids, batch.environment, n_environments)
        share = _symmetric_beta(self.alpha, (), batch.x.device)
        mixed = torch.lerp(batch.x, _taken(batch.x, partner), (1.0 - share).to(batch.x.dtype))
        logits = modules["model"](mixed)
        own_loss = row_losses(logits, batch.y).mean()
        partner_loss = row_losses(logits, batch.y[partner]).mean()
        return Loss(share * own_loss + (1.0 - share) * partner_loss)


def _partners(ids: Tensor, environment: Tensor, n_environments: int) -> Tensor:
    """For every row the place of a row of the next environment, in a random circle of those in the
    batch: int64 [n].

    `ids`, `environment` int64 [n], the latter in [0, many). The batch's only environment is its own
    next. Draws on the device.
    """
    turns = torch.arange(n_environments, device=ids.device)
    turn = torch.rand(n_environments, device=ids.device).argsort()[
        environment
    ]  # the place of a row's environment in the circle
    counts = (turn[:, None] == turns).sum(0)
    starts = counts.cumsum(0) - counts
    shuffled = row_keys(ids).argsort(stable=True)
    positions = shuffled[
        turn[shuffled].argsort(stable=True)
    ]  # the rows, one environment after another, each in random order
    rank = positions.argsort() - starts[turn]
    ahead = (
        turns - turns[:, None] - 1
    ) % n_environments + 1  # steps from each to each other one; to itself once round
    following = torch.where(counts > 0, ahead, n_environments + 1).argmin(1)[turn]
    return positions[starts[following] + rank % counts[following]]


def _taken(x: Tensor, rows: Tensor) -> Tensor:
    """`x[rows]` in the memory layout of x, which indexing keeps at twice the time."""
    if x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last):
        return x.permute(0, 2, 3, 1).index_select(0, rows).permute(0, 3, 1, 2)
    return x.index_select(0, rows)


def _symmetric_beta(alpha: float, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Draws of Beta(alpha, alpha), float32 in [0, 1], from two uniform numbers each, on the device
    and without rejections.

    t = sqrt(u^(-1/alpha) - 1) cos(2 pi v) is Student's t of 2 alpha degrees of freedom divided by
    sqrt(2 alpha) (Bailey 1994), and then (1 + t / sqrt(1 + t^2)) / 2 is the Beta draw. Written by q
    = u^(1/alpha), which cannot overflow.
    """
    u, v = torch.rand((2, *shape), device=device)
    q = (1.0 - u) ** (1.0 / alpha)  # 1 - u is never 0
    cosine = torch.cos(2.0 * math.pi * v)
    squared = (1.0 - q) * cosine.square()
    return 0.5 + 0.5 * cosine.sign() * (squared / (q + squared)).sqrt()
