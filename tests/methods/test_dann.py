from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import run, same_weights, split, with_train
from torch import Tensor, nn

from crosswind.core.errors import NeedsError
from crosswind.core.knobs import Limit
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, RunContext, State
from crosswind.methods.dann import DANN
from crosswind.methods.erm import ERM
from crosswind.methods.functional import row_losses

LOG3 = math.log(3.0)


class DannNetwork(nn.Module):
    """The inputs are the features, and the logits too."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Identity()

    def features(self, x: Tensor) -> Tensor:
        return x


def batch(z: list[float], environment: list[int], progress: float = 0.0) -> Batch:
    """Features (z, 0), every label 0."""
    x = torch.tensor([[value, 0.0] for value in z], dtype=torch.float64)
    zeros = torch.zeros(len(z), dtype=torch.int64)
    return Batch(
        x, zeros, torch.arange(len(z)), zeros, torch.tensor(environment), progress=progress
    )


def test_loss_by_hand() -> None:
    """Features (ln 3, 0) are logits of both label and environment: probabilities 3/4 and 1/4. Label
    0 costs ln(4/3); of two rows with environments 0 and 1 the discriminator's mean loss is (ln(4/3)
    + ln 4) / 2 = ln 4 - ln3/2.

    Constant weight 1/2: ln(4/3) - (ln 4 - ln3/2) / 2. On the ramp the weight is 0 at the start,
    times tanh(1/2) = 2/(1 + 1/e) - 1 a tenth of the way on, as good as 1 near the end.
    """
    modules = {"model": DannNetwork(), "discriminator": nn.Identity()}
    label, domain_loss = math.log(4 / 3), math.log(4) - LOG3 / 2
    loss = DANN(weight=0.5, schedule="constant").loss(modules, batch([LOG3, LOG3], [0, 1]), {})
    assert loss.total.item() == pytest.approx(label - domain_loss / 2)
    assert {name: float(value) for name, value in loss.terms.items()} == pytest.approx(
        {"classification": label, "discriminator": domain_loss}
    )
    for progress, share in ((0.0, 0.0), (0.1, math.tanh(0.5)), (1.0, math.tanh(5.0))):
        ramped = DANN(weight=0.5).loss(modules, batch([LOG3, LOG3], [0, 1], progress), {})
        assert ramped.total.item() == pytest.approx(label - share * domain_loss / 2)


@dataclass
class DescentSpy:
    """A run context that takes no step and keeps what was to be descended."""

    modules: Modules
    state: State = field(default_factory=dict)
    asked: list[tuple[str, Loss]] = field(default_factory=list)

    def descend(self, name: str, loss: Any) -> Loss:
        self.asked.append((name, loss()))
        return self.asked[-1][1]


def test_gradient_penalty_by_hand() -> None:
    """Discriminator logits (f1, 0): the loss of environment 0 has the slope p - 1 in f1, that of
    environment 1 has p = 3/4.

    Squared norms 1/16 and 9/16, mean 5/16. With weight 2 the discriminator descends ln 4 - ln3/2 +
    5/8; the model's objective does not hold the penalty.
    """
    linear = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    spy = DescentSpy({"model": DannNetwork(), "discriminator": linear})
    loss = DANN(gradient_penalty=2.0, schedule="constant").update(spy, batch([LOG3, LOG3], [0, 1]))  # type: ignore[arg-type]
    domain_loss = math.log(4) - LOG3 / 2
    assert [name for name, _ in spy.asked] == ["main", "discriminator"]
    assert spy.asked[1][1].total.item() == pytest.approx(domain_loss + 5 / 8)
    assert loss.total.item() == pytest.approx(math.log(4 / 3) - domain_loss)
    spy.asked[1][1].total.backward()
    assert linear.weight.grad is not None and linear.weight.grad.abs().sum() > 0


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: float) -> Tensor:  # type: ignore[override]
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return -ctx.weight * gradient, None


@dataclass(frozen=True)
class Reversal(Method):
    """The paper's own construction: one loss, one optimiser, a layer that turns the gradient
    round."""

    registered_name = "reversal"
    limit = Limit.none("a reference")
    needs = DANN.needs
    state = DANN.state  # one run has what the other has
    weight: float = 0.5

    def modules(self, info: Info, make_model: Any) -> Modules:
        return DANN(width=8).modules(info, make_model)

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        model: Any = modules["model"]
        features = model.features(batch.x)
        domain_losses = row_losses(
            modules["discriminator"](Reverse.apply(features, self.weight)), batch.environment
        )  # type: ignore[arg-type]
        return Loss(row_losses(model.head(features), batch.y).mean() + domain_losses.mean())


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_two_optimisers_are_a_gradient_reversal_layer(optimiser: str) -> None:
    settings: dict[str, Any] = {"precision": "fp64", "optimiser": optimiser, "lr": 0.02}
    method = DANN(weight=0.5, schedule="constant", width=8)
    assert same_weights(run(method, **settings), run(Reversal(), **settings), tolerance=1e-12)
    assert not same_weights(
        run(method, **settings), run(Reversal(weight=0.4), **settings), tolerance=1e-6
    )


SEEN: dict[str, list[Any]] = {}


@dataclass(frozen=True)
class WatchedReversal(Reversal):
    """DANN, with the weights kept after every step."""

    registered_name = "watched"
    steps: int = 3
    lr: float | None = None

    @property
    def inner(self) -> DANN:
        return DANN(discriminator_steps=self.steps, width=8, discriminator_lr=self.lr)

    def optimisers(self, info: Info, modules: Modules, stage: str) -> Any:
        return self.inner.optimisers(info, modules, stage)

    def update(self, context: RunContext, batch: Batch) -> Loss:
        loss = self.inner.update(context, batch)
        for name in ("model", "discriminator"):
            flat = torch.cat(
                [p.detach().flatten().clone() for p in context.modules[name].parameters()]
            )
            SEEN.setdefault(name, []).append(flat)
        model: Any = context.modules["model"]
        SEEN.setdefault("head", []).append(model.head.weight.detach().clone())
        return loss


def test_classifier_and_discriminator_train_on_every_step() -> None:
    """In DomainBed's code the classifier stands still on discriminator_steps of every 1 +
    discriminator_steps."""
    SEEN.clear()
    run(WatchedReversal())
    for name in ("model", "head", "discriminator"):
        weights_seen = SEEN[name]
        assert len(weights_seen) == 12
        assert all(
            not torch.equal(before, two)
            for before, two in zip(weights_seen, weights_seen[1:], strict=False)
        ), name


def test_discriminator_takes_its_steps_at_its_own_rate() -> None:
    """SGD on the same features at a tiny rate: three steps move it three times as far as one, a
    tenth of the rate a tenth."""
    moved = {}
    for steps, lr in ((1, None), (3, None), (1, 1e-5)):
        trajectories = [
            run(
                WatchedReversal(steps=steps, lr=lr),
                steps=n,
                optimiser="sgd",
                lr=1e-4,
                precision="fp64",
            )
            for n in (0, 1)
        ]
        first, two = (trained.weights("last")["discriminator.0.weight"] for trained in trajectories)
        moved[steps, lr] = float((two - first).norm())
    assert moved[3, None] == pytest.approx(3 * moved[1, None], rel=1e-3)
    assert moved[1, 1e-5] == pytest.approx(moved[1, None] / 10, rel=1e-3)


def test_neither_descent_moves_the_other() -> None:
    """At weight 0 the model is ERM's whatever the discriminator does; and the discriminator learns
    though the model is not told."""
    reference = type("Reference", (ERM,), {"needs": DANN.needs, "__doc__": "A reference."})()
    still = run(DANN(weight=0.0, discriminator_steps=3, gradient_penalty=1.0), precision="fp64")
    plain = run(reference, precision="fp64").weights("last")
    assert plain and all(
        torch.allclose(value, still.weights("last")[key], atol=1e-12)
        for key, value in plain.items()
    )


def test_batch_statistics_move_once_a_step() -> None:
    trained_weights = run(DANN(discriminator_steps=4), model="small-cnn", steps=5).weights("last")
    tracked = [
        int(value) for key, value in trained_weights.items() if key.endswith("num_batches_tracked")
    ]
    assert tracked and set(tracked) == {5}


def test_discriminator_reads_features_and_knows_all_environments() -> None:
    trained_weights = run(DANN(width=32, layers=3), steps=1).weights("last")
    shapes = [
        tuple(value.shape)
        for key, value in trained_weights.items()
        if key.startswith("discriminator") and value.ndim == 2
    ]
    assert shapes == [(32, 16), (32, 32), (32, 32), (2, 32)]
    flat = run(DANN(layers=0), steps=1).weights("last")
    assert [
        tuple(value.shape) for key, value in flat.items() if key == "discriminator.0.weight"
    ] == [(2, 16)]


@pytest.mark.slow
def test_model_hides_the_environment() -> None:
    """Looking on (weight 0) the discriminator tells the tint better than by chance, a loss of ln 2;
    with weight 0.3 it cannot."""
    ended = {}
    for weight in (0.0, 0.3):
        history = run(
            DANN(weight=weight, schedule="constant", width=32), steps=400, patience=None
        ).history
        ended[weight] = np.mean([entry["train"]["discriminator"] for entry in history[-10:]])
        assert history[-1]["validation"]["validation"]["accuracy"] > 0.9
    assert ended[0.0] < 0.7 * math.log(2)
    assert ended[0.3] > 0.9 * math.log(2)


def test_one_environment_is_refused() -> None:
    single_environment = with_train(split(), environment=np.zeros(60, dtype=np.int64))
    with pytest.raises(
        NeedsError,
        match="'dann' needs at least two environments with training rows, and there is 1",
    ):
        run(DANN(), single_environment)


def test_a_ramp_of_one_step_says_that_it_asked_nothing() -> None:
    why, looked = run(DANN(), steps=1).warnings
    assert (
        why == "dann: the run has one step, at which the ramp is 0, so nothing was asked of the"
        " features"
    )
    assert looked.startswith("dann: its own term stayed below 1%") and looked.endswith(
        "this run is as it would be at weight = 0"
    )
    assert run(DANN(schedule="constant"), steps=1).warnings == run(DANN(), steps=2).warnings == []
