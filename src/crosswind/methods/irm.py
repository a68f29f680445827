"""Invariant risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from crosswind.core.knobs import Limit, Needs, knob, log
from crosswind.core.registry import register
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, RunContext, State
from crosswind.methods.functional import group_means, membership, row_losses

__all__ = ["IRM"]


@final
@register("irm", kind="method")
@dataclass(frozen=True)
class IRM(Method):
    """IRM: features on which one classifier is optimal in every environment at once.

    Objective: with R_e(w) the mean cross-entropy of environment e when the logits are multiplied by
    the scale w,
        min over theta of 1/E sum_e [ R_e(1) + lambda (dR_e/dw at w = 1)^2 ]
    (their IRMv1), E the environments that the batch shows. lambda is 1 up to the switch at
    `anneal_steps` and `penalty_weight` from then on. The slope of one row's loss is sum_k (p_k - [k
    = y]) z_k for logits z and probabilities p. dR_e/dw is its mean over the environment's rows, so
    no second pass is needed. `estimate`:
        squared   the square of that mean over the batch's rows; with n rows it is too large by the slopes' variance / n
        halves    the product of the means over two halves of the environment's rows, every other row to each; right on average,
                  and so negative at times (their appendix D). An environment of one row has no
                  halves: it adds no penalty.
    Assumes: at least two environments with training rows; refused otherwise, since one has no
        invariance to ask for. Each batch holds equal shares of them (`needs.sampler`), as in
        DomainBed. A run that ends before its switch is refused too.
    Knobs: the defaults are DomainBed's, whole: penalty_weight 100, the switch after a tenth of the
        run (500 of 5,001 steps there), estimate "halves", reset true, rescale false. As a share the
        switch is reached in a run of any length; `anneal_steps: 500` is theirs in steps, and with
        100 that of Jeon et al. 2025, in at most 10,000 steps. Adam begins anew at the switch, since
        its moments are of another loss's gradients. The recipe of the authors' experiments
        (Coloured MNIST) is another. It has estimate "squared", reset false, rescale true (the whole
        loss is divided by lambda where that is above 1), and a weight and a switch tuned by a
        random search. Adam without weight decay hardly feels rescale, plain gradient descent takes
        steps lambda times as short. Wiles et al. 2022 searched weights from 0.01 to 10.
    Limits: at anneal_steps = 0 and penalty_weight = 0 the loss is 1/E sum_e R_e
        ("erm-environment-mean"), which is the batch's mean where environments have equal shares of
        it.
    Deviations: means over environments where the paper writes sums, so lambda is comparable
        whatever their number; environments that a batch does not show are left out of both means.
    Reference:
        @article{arjovsky2019invariant, title={Invariant Risk Minimization}, author={Arjovsky,
        Martin and Bottou, L{\\'e}on and Gulrajani, Ishaan and Lopez-Paz, David},
        journal={arXiv:1907.02893}, year={2019}}
    Checked against: hand-worked numbers; loops over environments with the scale differentiated
    twice.
    """

    penalty_weight: float = knob(
        100.0,
        domain="[0, inf)",
        search=log(1e-1, 1e5),
        grid={"wiles2022": [0.01, 0.1, 1.0, 10.0], "jeon2025": [100.0]},
        source="DomainBed",
        doc="lambda after the switch",
    )
    anneal_steps: int | float = knob(
        0.1,
        domain="[0, inf)",
        grid={"jeon2025": [500]},
        source="DomainBed: 500 of 5,001 steps",
        doc=(
            "steps with lambda 1 before the switch to penalty_weight, fewer than the run has; below"
            " 1 a share of the run"
        ),
    )
    estimate: str = knob(
        "halves",
        domain="{squared, halves}",
        source="DomainBed; Arjovsky et al. 2019, appendix D (squared: their released experiments)",
        doc="the penalty: squared mean slope, or the product of those of two halves",
    )
    reset: bool = knob(
        True, source="DomainBed", doc="whether the optimiser begins anew at the switch"
    )
    rescale: bool = knob(
        False,
        source="DomainBed; true: Arjovsky et al. 2019, released experiments",
        doc="whether the whole loss is divided by a lambda above 1",
    )

    needs = Needs(
        environments=True,
        sampler="per-environment",
        switches=("anneal_steps",),
        spread={"estimate": "halves"},
    )
    limit = Limit({"penalty_weight": 0.0, "anneal_steps": 0}, equals="erm-environment-mean")
    version = 2
    family = {
        "wiles2022": "domain generalisation",
        "jeon2025": "out-of-distribution generalisation",
    }

    def state(self, info: Info) -> State:
        """`environment_rows` int64 [e]: training rows of each environment; a loss needs their
        number without asking the device."""
        return {"environment_rows": torch.tensor(info.environment_counts, dtype=torch.int64)}

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """One descent; before the first one with the new weight the optimiser begins anew."""
        if self.reset and batch.step == self._switch(batch):
            context.reset("main")
        return super().update(context, batch)

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        assert batch.environment is not None
        n_environments = len(state["environment_rows"])
        logits = modules["model"](batch.x)
        losses = row_losses(logits, batch.y)
        risks, counts = group_means(losses, batch.environment, n_environments)
        risk = risks.sum() / (counts > 0).sum()
        slopes = _slopes(logits, batch.y)
        penalty = self._penalty(slopes, batch.environment, n_environments)
        weight = 1.0 if batch.step < self._switch(batch) else self.penalty_weight
        total = risk + weight * penalty
        if self.rescale and weight > 1.0:
            total = total / weight
        return Loss(total, {"risk": risk.detach(), "penalty": penalty.detach()})

    def _switch(self, batch: Batch) -> int:
        """The first step with `penalty_weight`."""
        return self.switch_steps(batch.steps)[0]

    def _penalty(self, slopes: Tensor, environment: Tensor, n_environments: int) -> Tensor:
        """The mean penalty of the environments that have one, a scalar; slopes [n], environment
        int64 [n], below `n_environments`."""
        if self.estimate == "squared":
            means, counts = group_means(slopes, environment, n_environments)
            return means.square().sum() / (counts > 0).sum()
        # How many rows of a row's environment stand before it: even ones are of the first half.
        is_same = environment[:, None] == environment[None, :]
        n_earlier = torch.tril(is_same, -1).sum(1)
        half = 2 * environment + n_earlier % 2
        means, counts = group_means(slopes, half, 2 * n_environments)
        has_both_halves = (counts > 0).view(n_environments, 2).all(1)
        # The mean of an empty half is 0, so what has no second half adds nothing.
        penalties = means.view(n_environments, 2).prod(1)
        return penalties.sum() / has_both_halves.sum().clamp(min=1)


def _slopes(logits: Tensor, y: Tensor) -> Tensor:
    """The derivative of every row's cross-entropy by a scale on its logits, at scale 1: [n], at
    least float32."""
    wide = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    is_label = membership(y, wide.shape[1]).to(wide.dtype)
    logit_slopes = wide.softmax(1) - is_label
    return (logit_slopes * wide).sum(1)
