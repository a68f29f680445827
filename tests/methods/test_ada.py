from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import GROUPS, run, same_weights, split
from torch import Tensor, nn

from crosswind.core.exhibits import Picture
from crosswind.core.registry import load
from crosswind.core.types import InputSpec
from crosswind.methods.ada import ADA
from crosswind.methods.adversarial import Adversarial
from crosswind.methods.base import Examples, Info, Stage
from crosswind.methods.erm import ERM
from crosswind.methods.me_ada import MEADA
from crosswind.models.build import build_model, unnamed

INFO = Info(
    InputSpec.image(8, 8, 3),
    2,
    10,
    GROUPS,
    (3, 3, 2, 2),
    ("red", "blue"),
    (5, 5),
    (5, 5),
    (),
    100,
    4,
)


class Line(nn.Module):
    """One feature z = 2 x and the logits (z, 0)."""

    def features(self, x: Tensor) -> Tensor:
        return 2.0 * x

    def head(self, z: Tensor) -> Tensor:
        return torch.cat([z, torch.zeros_like(z)], 1)


def network() -> Any:
    return build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0).eval()


def pictures(n: int = 10) -> Tensor:
    return torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(3)) * 1.6 - 0.8


class StageContext:
    """What `stage` needs of the loop, on ten pictures whose classes take turns."""

    def __init__(self, info: Info = INFO) -> None:
        self.info, self.y, self.modules, self.last = (
            info,
            torch.arange(info.n_rows) % 2,
            {"model": network()},
            None,
        )
        self.state = ADA().state(info)
        self.x = pictures(info.n_rows)

    def inputs(self, rows: Tensor | None = None) -> Tensor:
        return self.x if rows is None else self.x[rows]


@pytest.mark.parametrize("eta", [0.0, 0.5])
def test_two_steps_by_hand(eta: float) -> None:
    """x = 0.2 of class 0: p = sigmoid(2 x); the slopes are -2 (1 - p), -4 x p (1 - p) of the
    entropy, and 8 (x - 0.2)."""
    method = (
        MEADA(ascent_steps=2, rate=3.0, gamma=0.7, eta=eta)
        if eta
        else ADA(ascent_steps=2, rate=3.0, gamma=0.7)
    )
    ascended = method._ascended(Line(), torch.tensor([[0.2]]), torch.tensor([0]), 10)  # type: ignore[arg-type]
    x = 0.2
    for _ in range(2):
        p = 1 / (1 + math.exp(-2 * x))
        x += 0.3 * (-2 * (1 - p) - eta * 4 * x * p * (1 - p) - 0.7 * 8 * (x - 0.2))
    assert float(ascended) == pytest.approx(x, rel=1e-5)
    assert x < 0.2, "away from its class"


@pytest.mark.parametrize("method", [ADA(gamma=3.0), MEADA(gamma=3.0, eta=2.0)])
def test_it_is_plain_descent_of_a_batchs_mean_loss(method: Any) -> None:
    """The form of the authors' code: SGD at `rate` on minus the mean of a batch, here written with
    torch's own optimiser."""
    model, x, y = network(), pictures(6), torch.arange(6) % 2
    features_held = model.features(x).detach()
    moved = x.clone().requires_grad_(True)
    optimiser = torch.optim.SGD([moved], lr=20.0)
    for _ in range(15):
        optimiser.zero_grad()
        z = model.features(moved)
        probabilities = nn.functional.softmax(model.head(z), 1)
        entropy = -(probabilities * probabilities.log()).sum(1).mean()
        gain = nn.functional.cross_entropy(model.head(z), y) - 3.0 * nn.functional.mse_loss(
            z, features_held
        )
        gain = gain + (2.0 * entropy if isinstance(method, MEADA) else 0.0)
        (-gain).backward()
        optimiser.step()
    ascended = method._ascended(model, x, y, 6)
    assert (ascended - x).abs().max() > 0.05
    assert torch.allclose(ascended, moved.detach().clamp(-1, 1), atol=1e-5)
    alone = torch.cat([method._ascended(model, x[i : i + 1], y[i : i + 1], 6) for i in range(6)])
    assert torch.allclose(ascended, alone, atol=1e-5), "each row by itself"


def test_copies_are_harder_and_those_of_me_ada_less_sure() -> None:
    model, x, y = network(), pictures(), torch.arange(10) % 2
    plain, with_entropy = ADA()._ascended(model, x, y, 4), MEADA(eta=10.0)._ascended(model, x, y, 4)
    with torch.no_grad():
        losses = [float(nn.functional.cross_entropy(model(one), y)) for one in (x, plain)]
        probabilities = [model(one).softmax(1) for one in (plain, with_entropy)]
        unsure = [float(-(p * p.log()).sum(1).mean()) for p in probabilities]
    assert losses[1] > losses[0] + 0.02 and unsure[1] > unsure[0]
    assert (
        plain.min() >= -1
        and plain.max() <= 1
        and (ADA(rate=1e6)._ascended(model, x, y, 4).abs() == 1).any()
    )
    assert all(p.grad is None for p in model.parameters()), "the networks get no gradient"


def test_rows_become_twice_and_four_times_as_many() -> None:
    """Of 10 rows in batches of 4: phase 2 trains on 20, the rest on 40, and the second copies are
    those of all 20, in order."""
    context = StageContext()
    method = ADA()
    first = method.stage(0, context)  # type: ignore[arg-type]
    assert first == Stage("phase 1", steps=10, stop=False)
    context.last = first  # type: ignore[assignment]
    second = method.stage(1, context)  # type: ignore[arg-type]
    assert second is not None and (second.name, second.steps, second.start, second.stop) == (
        "phase 2",
        10,
        "last",
        False,
    )
    second_extra = second.extra
    assert (
        isinstance(second_extra, Examples)
        and second_extra.parents.tolist() == list(range(10))
        and second_extra.y.tolist() == context.y.tolist()
    )
    assert torch.allclose(
        second_extra.x,
        method._ascended(context.modules["model"], context.x, context.y, 4),
        atol=1e-5,
    )
    context.last, context.modules = (
        second,
        {"model": build_model("small-cnn", {}, INFO.input, unnamed(2), 1).eval()},
    )  # type: ignore[assignment]
    third = method.stage(2, context)  # type: ignore[arg-type]
    assert third is not None and (third.name, third.steps, third.stop) == ("main", 80, True)
    two = third.extra
    assert two is not None and len(two.y) == 30 and two.parents.tolist() == list(range(10)) * 3
    assert torch.equal(two.x[:10], second_extra.x) and two.y.tolist() == context.y.tolist() * 3
    all_inputs = torch.cat([context.x, second_extra.x])
    expected = method._ascended(
        context.modules["model"], all_inputs, torch.cat([context.y, context.y]), 4
    )
    assert torch.allclose(two.x[10:], expected, atol=1e-5)
    assert method.stage(3, context) is None  # type: ignore[arg-type]
    moved = (expected - all_inputs).abs().mean()
    assert float(context.state["moved"]) == pytest.approx(float(moved), rel=1e-4)


@pytest.mark.parametrize(
    ("share", "steps", "lengths"),
    [(0.1, 200, [20, 20, 160]), (0.9, 90, [30, 30, 30]), (0.1, 2, [0, 0, 2])],
)
def test_the_phases_and_the_rest_are_the_runs_steps(
    share: float, steps: int, lengths: list[int]
) -> None:
    context = StageContext(replace(INFO, steps=steps))
    stage_steps = []
    for index in range(3):
        stage = ADA(share=share).stage(index, context)  # type: ignore[arg-type]
        assert stage is not None
        stage_steps.append(stage.steps)
        context.last = stage  # type: ignore[assignment]
    assert stage_steps == lengths


@pytest.mark.slow
def test_without_entropy_it_is_ada_and_without_phases_both_are_erm() -> None:
    ada, two, three = run(ADA(), steps=20), run(MEADA(eta=0.0), steps=20), run(MEADA(), steps=20)
    assert same_weights(ada, two) and not same_weights(ada, three)
    plain = run(ERM(), steps=20)
    logits = [
        trajectory.predictions["last"]["test"].logits
        for trajectory in (plain, run(ADA(phases=0), steps=20), run(MEADA(phases=0), steps=20))
    ]
    assert np.array_equal(logits[0], logits[1]) and np.array_equal(logits[0], logits[2])  # type: ignore[arg-type]
    assert abs(logits[0] - ada.predictions["last"]["test"].logits).max() > 1e-3  # type: ignore[operator]


def test_the_loop_trains_on_the_rows_and_the_copies() -> None:
    """Stages and lengths in the history; the labels that copies carry are those that training sees,
    noise included."""
    trajectory = run(ADA(), steps=20)
    assert [entry_seen["stage"] for entry_seen in trajectory.history] == [
        "phase 1",
        "phase 2",
        *["main"] * 4,
    ]
    sets = split()
    flipped = 1 - sets.train.label
    wrong = replace(sets, train=replace(sets.train, label=flipped))
    extras_seen: list[Examples] = []

    class RecordedAdversarial(Adversarial):
        registered_name = "seen"
        limit = ADA.limit

        def stage(self, index: int, context: Any) -> Stage | None:
            stage = super().stage(index, context)
            if stage is not None and stage.extra is not None:
                extras_seen.append(stage.extra)
            return stage

    run(RecordedAdversarial(), wrong, steps=20)
    assert [len(entry_seen.y) for entry_seen in extras_seen] == [60, 180]
    assert extras_seen[1].y.tolist() == flipped.tolist() * 3


def test_copies_that_are_the_rows_again_are_doubted() -> None:
    still, moved, none = (
        run(ADA(rate=1e-6), steps=20),
        run(ADA(), steps=20),
        run(ADA(phases=0), steps=20),
    )
    assert [
        text
        for text in still.warnings
        if "the ascent moved pictures by" in text and "raise `rate`" in text
    ]
    assert not [text for text in (*moved.warnings, *none.warnings) if "ascent" in text]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ada", "me-ada"])
def test_pictures_and_their_copies_are_shown(name: str) -> None:
    trajectory = run(load("methods", name)(), model="small-cnn", steps=20)
    (sheet,) = trajectory.exhibits.values()
    assert isinstance(sheet, Picture) and list(trajectory.exhibits) == ["adversarial copies"]
    assert (
        list(sheet.columns) == ["picture", "copy 1", "copy 2", "change x 8"]
        and "grey levels" in sheet.caption
    )
    shown = (
        trajectory.weights("last")["state.shown"]
        if "state.shown" in trajectory.weights("last")
        else None
    )
    assert run(load("methods", name)(phases=0), steps=4).exhibits == {}
    if shown is not None:
        assert shown.shape == (6, 3, 3, 8, 8)


def test_shown_pictures_are_of_each_class_in_turn() -> None:
    context = StageContext()
    context.y = torch.tensor([0] * 7 + [1] * 3)
    context.last = ADA().stage(0, context)  # type: ignore[arg-type, assignment]
    ADA().stage(1, context)  # type: ignore[arg-type]
    shown = context.state["shown"]
    rows = [0, 7, 1, 8, 2, 9]
    assert torch.equal(shown[:, 0], ((context.x[rows] + 1) * 127.5).round().to(torch.uint8))
    assert (shown[:, 1] != shown[:, 0]).any() and not shown[:, 2].any()


def test_features_are_moved_too_and_are_not_bounded() -> None:
    x = torch.full((2, 1), 3.0)
    ascended = ADA(rate=0.2)._ascended(Line(), x, torch.tensor([1, 1]), 1)  # type: ignore[arg-type]
    assert (ascended > 3.0).all()
    assert torch.equal(ADA(rate=1e6)._ascended(Line(), x, torch.tensor([1, 1]), 1), x), (
        "beyond numbers"
    )  # type: ignore[arg-type]
    assert "shown" not in ADA().state(replace(INFO, input=InputSpec.features(4)))
