from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.training.world import DATA, rows_of, run, split, with_train
from torch import nn

from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info
from crosswind.methods.groupdro import GroupDRO
from crosswind.training.loader import TrainingRows
from crosswind.training.settings import TrainingSettings

# Binary logits (z, 0) with label 0 have the loss ln(1 + e^-z); these z give losses 1, 2 and 4 nats.
LOGIT = {loss: -math.log(math.expm1(loss)) for loss in (1.0, 2.0, 4.0)}


def info(counts: tuple[int, ...]) -> Info:
    return Info(
        InputSpec.image(8, 8, 3), 2, sum(counts), tuple(str(g) for g in range(len(counts))), counts
    )


def batch(losses: list[float], groups: list[int]) -> Batch:
    x = torch.tensor([[LOGIT[loss], 0.0] for loss in losses], dtype=torch.float64)
    return Batch(
        x,
        torch.zeros(len(losses), dtype=torch.int64),
        torch.arange(len(losses)),
        torch.tensor(groups),
    )


def test_weights_and_loss_by_hand() -> None:
    """Groups 0 and 1 in the batch, 2 absent, 3 never trained; eta = ln 2.

    Means: group 0 (1 + 1) / 2 = 1, group 1 = 2. q starts (1/3, 1/3, 1/3, 0); times 2^1, 2^2, 1 it
    is (2, 4, 1) / 3, normalised (2, 4, 1) / 7. The loss is (2 x 1 + 4 x 2 + 1 x 0) / 7 = 10/7.
    Again with losses 1 for group 2 alone: (2, 4, 2) / 8, loss 1/4.
    """
    method = GroupDRO(eta=math.log(2))
    state = method.state(info((5, 3, 9, 0)))
    assert state["log_q"].exp().tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    modules = {"model": nn.Identity()}
    loss = method.loss(modules, batch([1, 2, 1], [0, 1, 0]), state)
    assert float(loss.total) == pytest.approx(10 / 7)
    assert loss.state["log_q"].exp().tolist() == pytest.approx([2 / 7, 4 / 7, 1 / 7, 0])
    assert float(loss.terms["worst_weight"]) == pytest.approx(4 / 7)
    again = method.loss(modules, batch([1], [2]), {**state, **loss.state})
    assert again.state["log_q"].exp().tolist() == pytest.approx([1 / 4, 1 / 2, 1 / 4, 0])
    assert float(again.total) == pytest.approx(1 / 4)
    assert state["log_q"].exp().tolist() == pytest.approx(
        [1 / 3, 1 / 3, 1 / 3, 0]
    )  # the state given is left as it was


def test_adjustment_by_hand() -> None:
    """C = 2, n = (4, 16, 1), eta = ln 2, losses 1 and 1, group 2 absent: exponents 1 + 2/2 = 2, 1 +
    2/4 = 1.5 and 0.

    q = (4, 2^1.5, 1) / (5 + 2^1.5); the loss is q_0 + q_1: the adjustment moves q and is no part of
    the loss.
    """
    method = GroupDRO(eta=math.log(2), adjustment=2.0)
    loss = method.loss(
        {"model": nn.Identity()}, batch([1, 1], [0, 1]), method.state(info((4, 16, 1)))
    )
    total = 5 + 2**1.5
    assert loss.state["log_q"].exp().tolist() == pytest.approx(
        [4 / total, 2**1.5 / total, 1 / total]
    )
    assert float(loss.total) == pytest.approx((4 + 2**1.5) / total)


def test_no_gradient_flows_through_the_weights() -> None:
    x = torch.tensor(
        [[LOGIT[1.0], 0.0], [LOGIT[2.0], 0.0]], dtype=torch.float64, requires_grad=True
    )
    method = GroupDRO(eta=3.0)
    tried_batch = Batch(x, torch.zeros(2, dtype=torch.int64), torch.arange(2), torch.tensor([0, 1]))
    loss = method.loss({"model": nn.Identity()}, tried_batch, method.state(info((1, 1))))
    q = loss.state["log_q"].exp()
    loss.total.backward()
    slope = torch.tensor(
        [-(1 - math.exp(-1.0)), -(1 - math.exp(-2.0))], dtype=torch.float64
    )  # d ln(1 + e^-z)/dz = -(1 - e^-loss)
    assert x.grad is not None and torch.allclose(x.grad[:, 0], q * slope)


def test_weights_survive_losses_that_would_overflow() -> None:
    method = GroupDRO(eta=1.0)
    state = method.state(info((1, 1)))
    x = torch.tensor([[-1e4, 0.0], [0.0, 0.0]])
    tried_batch = Batch(x, torch.zeros(2, dtype=torch.int64), torch.arange(2), torch.tensor([0, 1]))
    loss = method.loss({"model": nn.Identity()}, tried_batch, state)
    assert loss.state["log_q"].exp().tolist() == [1.0, 0.0]
    assert math.isfinite(float(loss.total))


def test_groups_are_drawn_evenly() -> None:
    """Sagawa et al.'s --reweight_groups: 48 rows of group 0 and 4 of each other one come equally
    often."""
    group = DATA.table.column("light").astype(int) * 2 + DATA.table.column("tint")
    rows = np.concatenate(
        [np.flatnonzero(group[:200] == code)[: 48 if code == 0 else 4] for code in range(4)]
    )
    loader = TrainingRows(
        rows_of(DATA, rows), DATA, TrainingSettings(batch=4000), 0, GroupDRO.needs.sampler
    )  # type: ignore[arg-type]
    share = torch.bincount(loader.batch(0, 1).group).double() / 4000
    assert (share - 0.25).abs().max() < 0.03


def test_worst_group_gains_weight_in_training() -> None:
    sets = split()
    # Half of group 3 is told the other class: its loss cannot fall far below ln 2.
    noisy = (sets.train.group == 3) & (np.arange(60) % 8 < 4)
    hard = with_train(sets, label=np.where(noisy, 1 - sets.train.label, sets.train.label))
    loss = run(GroupDRO(eta=0.5), hard, steps=150, lr=3e-3)
    assert int(loss.weights("last")["state/log_q"].argmax()) == 3
