"""What the tests of methods that align pairs share: features that are the inputs, and rows that are
seen clean and with noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tests.training.test_pairs import NOISE, visited
from tests.training.world import Sets, run, sets_of, split, with_train
from torch import Tensor, nn

from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info, Loss, Method, Pair
from crosswind.training.loop import Trajectory

NAMES = ("clean", "noise", "blur")


class Plain(nn.Module):
    """The inputs are the features, and the logits."""

    width = 2

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Identity()

    def features(self, x: Tensor) -> Tensor:
        return x


def info(counts: tuple[int, ...] = (9, 9, 9)) -> Info:
    return Info(InputSpec.image(8, 8, 3), 2, 30, environment_names=NAMES, environment_counts=counts)


def given(first: Any, second: Any, environment: list[int], others: list[int]) -> Batch:
    """A batch of rows with the features `first` and of their partners with `second`, float64 [n,
    d]."""
    x, partner = (
        torch.as_tensor(np.asarray(rows, dtype=np.float64)).requires_grad_()
        for rows in (first, second)
    )
    zeros = torch.zeros(len(x), dtype=torch.int64)
    pair = Pair(partner, torch.arange(len(x)), torch.tensor(others))
    return Batch(x, zeros, torch.arange(len(x)), zeros, torch.tensor(environment), pair)


def found(method: Method, batch: Batch, modules: dict[str, nn.Module] | None = None) -> Loss:
    """The loss, whose total is that of its terms and has finite slopes."""
    loss = method.loss(
        {"model": Plain()} if modules is None else modules, batch, method.state(info())
    )
    total = loss.terms["classification"] + method.weight * loss.terms["alignment"]  # type: ignore[attr-defined]
    assert abs(loss.total.item() - float(total)) <= 1e-9 * abs(float(total))
    assert batch.pair is not None
    for slope in torch.autograd.grad(loss.total, [batch.x, batch.pair.x], retain_graph=True):
        assert torch.isfinite(slope).all()
    return loss


def kept_apart() -> Sets:
    """Dark rows are seen clean and under two noises, bright ones clean alone; tested with much
    noise."""
    sets = split()
    made = with_train(
        sets,
        **{
            key: value for key, value in vars(visited()).items() if key.startswith(("visit", "env"))
        },
    )
    test = sets.evaluation["test"]
    shown = {
        name: vars(rows) | {"rows": rows.rows * 3 + 1} for name, rows in made.validation.items()
    }
    validation = {name: type(test)(**values) for name, values in shown.items()}
    noisy = type(test)(**(vars(test) | {"rows": test.rows * 3}))
    return sets_of(made.train, validation, {"test": noisy})


def trained(method: Method, **settings: Any) -> Trajectory:
    """On those rows; pairs by view can be made of them."""
    return run(method, kept_apart(), data=NOISE, **settings)
