"""Group distributionally robust optimisation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch

from crosswind.core.exhibits import Bars, Exhibit
from crosswind.core.knobs import Limit, Needs, choose, knob, log
from crosswind.core.registry import register
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, State
from crosswind.methods.functional import group_means, row_losses

__all__ = ["GroupDRO"]


@final
@register("groupdro", kind="method")
@dataclass(frozen=True)
class GroupDRO(Method):
    """GroupDRO: minimise the loss of the worst group by weights on groups that grow with their
    losses.

    Objective: min over theta, max over q in the simplex of sum_g q_g L_g(theta), L_g the mean
    cross-entropy of group g. In each step, with L_g the mean over the batch's rows of g and 0 where
    it has none,
        q_g <- q_g exp(eta (L_g + C / sqrt(n_g)))    for groups in the batch; the others keep their q; then q <- q / sum q
        theta <- one step down sum_g q_g L_g         with the new q, through which no gradient flows
    (their algorithm 1 and section 3.3). n_g is the number of training rows of g. q is kept and
    normalised in logarithms.
    Assumes: a group for every training row, at least two with rows; refused otherwise, because with
        one group it is ERM. The default grouping of a study is label x attribute. Groups are drawn
        evenly (`needs.sampler`), as in the authors' released settings, which pass --reweight_groups
        with --robust; q then weighs groups that a batch sees equally often.
    Knobs: eta 0.01, the authors' default (--robust_step_size); C 0 (their search is 0 to 5).
    Limits: at eta = 0 q stays uniform and the loss is 1/G sum_g L_g ("erm-group-mean", G the groups
    that have training rows).
    Deviations: a group that training never shows has q = 0 for good, where the authors' code gives
        it 1/G for ever and thereby scales the loss of the others. With C > 0 the authors multiply
        groups absent from the batch by exp(eta C / sqrt(n_g)); here they keep their q. With C = 0
        both are the same.
    Reference:
        @inproceedings{sagawa2020distributionally, title={Distributionally Robust Neural Networks
        for Group Shifts: On the Importance of Regularization for Worst-Case Generalization},
        author={Sagawa, Shiori and Koh, Pang Wei and Hashimoto, Tatsunori B. and Liang, Percy},
        booktitle={ICLR}, year={2020}}
    Checked against: hand-worked numbers.
    """

    eta: float = knob(
        1e-2,
        domain="[0, inf)",
        search=log(1e-3, 1e-1),
        grid={"jeon2025": [1e-2]},
        source="Sagawa et al. 2020",
        doc="step size of the group weights",
    )
    adjustment: float = knob(
        0.0,
        domain="[0, inf)",
        search=choose(0.0, 1.0, 2.0, 3.0, 4.0, 5.0),
        source="Sagawa et al. 2020, section 3.3",
        doc="C of the generalisation adjustment C / sqrt(n_g)",
    )

    needs = Needs(groups=True, sampler="balanced")
    limit = Limit({"eta": 0.0}, equals="erm-group-mean")
    version = 1
    family = {"jeon2025": "worst case"}

    def state(self, info: Info) -> State:
        """`log_q` [g]: uniform over groups with training rows, -inf for the others; `margin` [g]: C
        / sqrt(n_g)."""
        counts = torch.tensor(info.group_counts, dtype=torch.float64)
        has_rows = counts > 0
        log_q = torch.where(has_rows, -math.log(int(has_rows.sum())), -math.inf)
        margins = self.adjustment / counts.clamp(min=1.0).sqrt()
        return {"log_q": log_q, "margin": torch.where(has_rows, margins, 0.0)}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        losses = row_losses(modules["model"](batch.x), batch.y)
        log_q = state["log_q"]
        group_losses, counts = group_means(losses, batch.group, len(log_q))
        gain = self.eta * (group_losses.detach() + state["margin"])
        raised_log_q = torch.where(counts > 0, log_q + gain, log_q)
        log_q = torch.log_softmax(raised_log_q, dim=0)
        q = log_q.exp()
        total = (q.to(group_losses.dtype) * group_losses).sum()
        return Loss(total, {"worst_weight": q.max()}, {"log_q": log_q})

    def exhibits(self, info: Info, state: State) -> dict[str, Exhibit]:
        """q at the end of training, the largest first."""
        q = dict(zip(info.group_names, state["log_q"].exp().tolist(), strict=True))
        ordered = dict(sorted(q.items(), key=lambda pair: -pair[1]))
        caption = "Weight of each group at the end of training. They add up to 1."
        return {"group weights": Bars(ordered, "weight q", caption)}
