"""Both CausIRL methods: one objective, two distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import dataset, run, same_weights, split, with_train
from torch import Tensor, nn

from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info, Loss
from crosswind.methods.causirl_coral import CausIRLCORAL
from crosswind.methods.causirl_mmd import CausIRLMMD

BOTH = [CausIRLMMD, CausIRLCORAL]
HALVING = 1 / math.sqrt(
    2 * math.log(2)
)  # the width at which exp(-|a - b|^2 / (2 w^2)) is 2^(-|a - b|^2)
NOBODY_KNOWS = (
    "all training rows are of one environment, so the mixtures were random halves of it and no"
    " invariance was asked for"
)


class CausirlNetwork(nn.Module):
    """The inputs are the features, and the logits too."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Identity()

    def features(self, x: Tensor) -> Tensor:
        return x


def batch(x: Any, environment: list[int] | None) -> Batch:
    rows = torch.as_tensor(np.asarray(x), dtype=torch.float64).requires_grad_()
    zeros = torch.zeros(len(rows), dtype=torch.int64)
    return Batch(
        rows,
        zeros,
        torch.arange(len(rows)),
        zeros,
        None if environment is None else torch.tensor(environment),
    )


def found(method: Any, given: Batch, counts: tuple[int, ...] = (20, 20)) -> Loss:
    state = method.state(
        Info(InputSpec.image(8, 8, 3), 2, sum(counts) or 40, environment_counts=counts)
    )
    return method.loss({"model": CausirlNetwork()}, given, state)  # type: ignore[no-any-return]


def put(monkeypatch: pytest.MonkeyPatch, drawn: list[int]) -> None:
    """Let the rows go to these mixtures."""
    monkeypatch.setattr(
        "crosswind.methods.random_mixtures.mixtures", lambda *_: torch.tensor(drawn)
    )


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (CausIRLMMD(weight=2.0, widths=[HALVING]), 1 / 4),
        (CausIRLMMD(weight=2.0, widths=[HALVING], estimate="unbiased"), -15 / 32),
        (CausIRLMMD(weight=2.0), (1 - math.exp(-0.5)) / 2),
        (CausIRLCORAL(weight=2.0), 9 / 16 + 1 / 8),
        (CausIRLCORAL(weight=2.0, form="covariance"), 9 / 64),
    ],
)
def test_loss_by_hand(monkeypatch: pytest.MonkeyPatch, method: Any, expected: float) -> None:
    """The rows (0, 0) and (1, 0) are in one mixture, (0, 0) and (2, 0) in the other, whatever their
    environments.

    With the kernel 2^(-d^2): 3/4 + 17/32 - 2 x 33/64 = 1/4; without pairs with themselves 1/2 +
    1/16 - 33/32 = -15/32. The median distance is 1, which gives (1 - exp(-1/2)) / 2. Means 1/2 and
    1, squared distance 1/4, over d = 2 1/8; covariances 1/2 and 2, squared distance 9/4, over d^2
    9/16, over 4 d^2 9/64. The cross-entropies of label 0 are ln 2, ln(1 + 1/e), ln 2, ln(1 +
    1/e^2).
    """
    put(monkeypatch, [0, 1, 0, 1])
    loss = found(method, batch([[0, 0], [0, 0], [1, 0], [2, 0]], [0, 0, 1, 1]))
    classed = (2 * math.log(2) + math.log1p(math.exp(-1)) + math.log1p(math.exp(-2))) / 4
    assert {name: float(value) for name, value in loss.terms.items()} == pytest.approx(
        {"classification": classed, "alignment": expected}
    )
    assert loss.total.item() == pytest.approx(classed + 2 * expected)


@pytest.mark.parametrize(
    "method",
    [
        CausIRLMMD(),
        CausIRLMMD(estimate="unbiased"),
        CausIRLCORAL(),
        CausIRLCORAL(form="covariance"),
    ],
)
@pytest.mark.parametrize("drawn", [[0], [1, 1, 1], [0, 1], [1, 0, 0], [1, 0, 0, 1]])
def test_small_and_empty_mixtures_give_numbers(
    monkeypatch: pytest.MonkeyPatch, method: Any, drawn: list[int]
) -> None:
    put(monkeypatch, drawn)
    mixed_batch = batch(np.random.default_rng(0).normal(size=(len(drawn), 3)), [0] * len(drawn))
    loss = found(method, mixed_batch)
    least = 2 if "unbiased" in vars(method).values() or "covariance" in vars(method).values() else 1
    none = min(drawn.count(0), drawn.count(1)) < least
    assert torch.isfinite(loss.total) and (float(loss.terms["alignment"]) == 0.0) == none
    loss.total.backward()
    assert mixed_batch.x.grad is not None and torch.isfinite(mixed_batch.x.grad).all()


@pytest.mark.slow
@pytest.mark.parametrize("cls", BOTH)
def test_mixtures_differ_where_environments_do(cls: Any) -> None:
    """Averaged over draws: environments 3 apart cost several times what two halves of the same rows
    cost as one environment."""
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 2)) + np.repeat([[0.0, 0.0], [3.0, 0.0]], 16, axis=0)
    torch.manual_seed(0)

    def mean(environment: list[int] | None, counts: tuple[int, ...]) -> float:
        draws = [
            float(found(cls(), batch(x, environment), counts).terms["alignment"])
            for _ in range(100)
        ]
        assert len(set(draws)) > 90
        return float(np.mean(draws))

    assert mean([0] * 16 + [1] * 16, (20, 20)) > 2 * mean([0] * 32, (40,))
    assert mean([1] * 32, (0, 40)) == pytest.approx(mean(None, ()), rel=0.3)


@pytest.mark.parametrize("cls", BOTH)
def test_draws_go_with_the_seed_and_the_step(cls: Any) -> None:
    first, again, other_seed = (
        run(cls(), steps=4, seed=seed, validate_every=1) for seed in (0, 0, 1)
    )
    alignments = [
        [entry["train"]["alignment"] for entry in trajectory.history]
        for trajectory in (first, again, other_seed)
    ]
    assert (
        alignments[0] == alignments[1]
        and len(set(alignments[0])) == 4
        and alignments[0] != alignments[2]
    )


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("environment", [np.ones(60, dtype=np.int64), None])
def test_one_environment_is_trained_on_halves_and_told_of(cls: Any, environment: Any) -> None:
    single_environment = with_train(split(), environment=environment)
    single = run(cls(), single_environment)
    assert single.status == "finished" and single.warnings == [
        f"{cls.registered_name}: {NOBODY_KNOWS}"
    ]
    assert not same_weights(single, run(cls(weight=0.0), single_environment))
    assert run(cls()).warnings == []


def test_every_knob_changes_the_run() -> None:
    ended = [
        CausIRLMMD(),
        CausIRLMMD(estimate="unbiased"),
        CausIRLMMD(widths=[1.0, 0.1]),
        CausIRLMMD(weight=0.5),
    ]
    first = run(ended[0])
    assert all(not same_weights(first, run(method)) for method in ended[1:])
    plain = run(CausIRLCORAL())
    assert not same_weights(plain, run(CausIRLCORAL(form="covariance")))
    assert not same_weights(plain, run(CausIRLCORAL(weight=0.5)))


@pytest.mark.slow
@pytest.mark.parametrize("cls", BOTH)
def test_distance_is_brought_down(cls: Any) -> None:
    """A strong tint shifts the features of a plain run; with weight 1 the mixtures' distance ends
    at less than 0.6 of that."""
    ended = {}
    for weight in (0.0, 1.0):
        history = run(
            cls(weight=weight), steps=100, batch=48, patience=None, data=dataset(tint=100)
        ).history
        ended[weight] = np.mean([entry["train"]["alignment"] for entry in history[-10:]])
        assert history[-1]["validation"]["validation"]["accuracy"] > 0.9
    assert ended[1.0] < 0.6 * ended[0.0]
