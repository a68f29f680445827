from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, GROUPS, run, same_weights, split
from torch import Tensor, nn

from crosswind.core.errors import NeedsError
from crosswind.core.exhibits import Bars, Grid, Picture
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info
from crosswind.methods.erm import ERM
from crosswind.methods.occamnets import Exit, OccamNets, _answers, _left, gate_losses, suppression
from crosswind.models.build import build_model, unnamed

INFO = Info(
    InputSpec.image(8, 8, 3),
    2,
    12,
    GROUPS,
    (3, 3, 3, 3),
    ("red", "blue"),
    (6, 6),
    (6, 6),
    (),
    100,
    6,
)


def made(method: OccamNets) -> tuple[Any, Any]:
    torch.manual_seed(0)
    modules = method.modules(
        INFO, lambda **changes: build_model("small-cnn", {}, INFO.input, unnamed(2), 0)
    )
    return modules, method.state(INFO)


def given(n: int = 12, **changes: Any) -> Batch:
    x = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(3)) * 1.6 - 0.8
    return Batch(
        x,
        torch.arange(n) % 2,
        torch.arange(n),
        torch.arange(n) % 4,
        **{"step": 1, "steps": 100, **changes},
    )


def sums(method: OccamNets, modules: Any, batch: Batch, state: Any) -> Any:
    with torch.no_grad():
        return method.loss(modules, batch, state)


def test_places_where_the_class_is_below_its_mean_are_pulled_to_even() -> None:
    """Of the class map (0, 3) of the row's class and (0, 1) of the other only the first place
    counts, and it is even: 0.

    With (0, 3) and (2, 1) it is KL(even || softmax(0, 2)) = log cosh 1, over two places.
    """
    y = torch.tensor([0])
    maps = torch.tensor([[[[0.0, 3.0]], [[0.0, 1.0]]]])
    assert float(suppression(maps, y)) == pytest.approx(0.0, abs=1e-7)
    maps = torch.tensor([[[[0.0, 3.0]], [[2.0, 1.0]]]])
    assert float(suppression(maps, y)) == pytest.approx(math.log(math.cosh(1.0)) / 2, rel=1e-5)
    assert float(suppression(maps, 1 - y)) > 0, (
        "of the other class the second place is below the mean"
    )
    assert float(suppression(maps[..., :1], y)) == 0.0, "one place is not below its own mean"


def test_gates_are_weighed_by_how_rare_their_target_is() -> None:
    """Three of four leave: the one that stays weighs (1/3)^-0.5, and the cross-entropy of a gate of
    1/2 is log 2."""
    gate_loss = gate_losses(torch.zeros(4), torch.tensor([1.0, 1.0, 1.0, 0.0]), 0.5)
    expected = [math.log(2)] * 3 + [math.log(2) * math.sqrt(1 / (1 / 3 + 1e-5))]
    assert gate_loss.tolist() == pytest.approx(expected, rel=1e-4)
    alone = gate_losses(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 1.0]), 0.5)
    assert alone.tolist() == pytest.approx(
        [math.log1p(math.exp(-2)), math.log1p(math.exp(1))], rel=1e-4
    )


def test_a_row_leaves_at_the_first_sure_exit_past_the_first() -> None:
    """Gates of four exits, of which the first never answers and the last needs no gate."""
    gates = [
        torch.tensor(gate)
        for gate in ([9.0, 9.0, 9.0, -9.0], [0.0, -1.0, -1.0, 1.0], [-1.0, 2.0, -0.1, 1.0])
    ]
    assert _left(gates, 4).tolist() == [1, 2, 3, 1]
    assert _left(gates[:1], 4).tolist() == [1, 1, 1, 1]


def test_the_loss_is_that_of_a_loop() -> None:
    method = OccamNets(gamma0=2.0, gamma=1.5, offset=0.2, suppression=0.3, gate_weight=0.7)
    modules, state = made(method)
    batch = given()
    loss_sums = sums(method, modules, batch, state)
    with torch.no_grad():
        maps, logits, gates = _answers(modules, batch.x)
    assert len(logits) == 3
    assert len(gates) == 2
    assert [exit_maps.shape[1] for exit_maps in maps] == [2, 2, 2]
    total, largest = 0.0, []
    for j in range(3):
        p = logits[j].softmax(1)
        weights = [
            (
                float(p[i, batch.y[i]]) ** 2
                if j == 0
                else (1 - float(gates[j - 1][i].sigmoid())) ** 1.5
            )
            for i in range(12)
        ]
        largest.append(max(weights))
        total += np.mean(
            [
                (w / (max(weights) + 1e-5) + 0.2) * -math.log(p[i, batch.y[i]])
                for i, w in enumerate(weights)
            ]
        )
        suppressions = []
        for i in range(12):
            class_map = maps[j][i, batch.y[i]].flatten()
            for cell in range(len(class_map)):
                q = maps[j][i].flatten(1)[:, cell].softmax(0)
                suppressions.append(
                    float(-(q * 2).log().mean())
                    if len(class_map) > 1 and class_map[cell] < class_map.mean()
                    else 0.0
                )
        total += 0.3 * np.mean(suppressions)
        if j < 2:
            right = (logits[j].argmax(1) == batch.y).float()
            total += 0.7 * float(gate_losses(gates[j], right, 0.5).mean())
            assert loss_sums.state["right"][j].tolist() == right.tolist()
    assert float(loss_sums.total) == pytest.approx(total, rel=1e-4)
    assert loss_sums.state["largest"][:3].tolist() == pytest.approx(largest, rel=1e-5)
    assert loss_sums.state["seen"].tolist() == [6, 6]
    assert int(loss_sums.state["epoch"]) == 0
    assert loss_sums.state["hits"].sum() == sum(
        float((logit.argmax(1) == batch.y).sum()) for logit in logits
    )


def test_largest_weights_and_accuracies_are_those_of_an_epoch() -> None:
    """The second batch of an epoch is over the largest weight of both, and counts with it; the next
    epoch begins anew."""
    method = OccamNets()
    modules, state = made(method)
    first = sums(method, modules, given(), state)
    state = {**state, **first.state, "largest": torch.tensor([2.0, 0.5, 3.0, 0.0])}
    again = sums(method, modules, given(step=2), state)
    assert again.state["largest"][0] == 2.0
    assert again.state["largest"][1] > 0.5
    assert again.state["seen"].tolist() == [12, 12]
    anew = sums(method, modules, given(epoch=1), state)
    assert anew.state["largest"].tolist() == pytest.approx(first.state["largest"].tolist())
    assert anew.state["seen"].tolist() == [
        6,
        6,
    ]


@pytest.mark.parametrize(
    ("threshold", "epoch", "learns"), [(0.9, 1, True), (0.0, 0, True), (0.0, 1, False)]
)
def test_what_is_remembered_changes_below_the_threshold_and_in_the_first_epoch(
    threshold: float, epoch: int, learns: bool
) -> None:
    """A gate's targets: answers of now, or those last remembered; a row that was never remembered
    has those of now."""
    method = OccamNets(threshold=threshold)
    modules, state = made(method)
    modules["model"].train(False)
    modules["exits"].train(False)
    now = [(logits.argmax(1) == given().y).float() for logits in _answers(modules, given().x)[1]]
    assert 0 < now[0].mean() < 1, "neither all right nor all wrong"
    state["right"][:, 1:] = 1.0 - now[0][1:]
    remembered = sums(method, modules, given(epoch=epoch), state).state["right"][0]
    assert remembered[0] == now[0][0]
    assert torch.equal(remembered[1:], now[0][1:] if learns else 1.0 - now[0][1:])


def test_gradients_reach_what_they_should() -> None:
    """The first exit does not train the trunk, and gates train nothing but themselves."""
    modules, _ = made(OccamNets())
    maps, logits, gates = _answers(modules, given().x)
    trunk = [p for name, p in modules["model"].named_parameters() if not name.startswith("fc")]
    assert all(
        gradient is None
        for gradient in torch.autograd.grad(
            logits[0].sum(), trunk, retain_graph=True, allow_unused=True
        )
    )
    assert all(
        gradient is not None
        for gradient in torch.autograd.grad(
            logits[2].sum(), trunk, retain_graph=True, allow_unused=True
        )
    )
    convolutions = list(modules["exits"][0].read.parameters()) + list(
        modules["exits"][0].classes.parameters()
    )
    assert all(
        gradient is None
        for gradient in torch.autograd.grad(
            gates[0].sum(), convolutions, retain_graph=True, allow_unused=True
        )
    )
    total = OccamNets(gate_weight=0.0).loss(modules, given(), made(OccamNets())[1]).total
    total.backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is None or not p.grad.any() for p in modules["exits"][0].gate.parameters())
    assert len(maps) == 3


@pytest.mark.parametrize("answer", ["sure", "last"])
def test_predictions_are_the_exits_in_evaluation_mode(answer: str) -> None:
    trained = run(OccamNets(answer=answer), model="small-cnn", steps=12)
    modules, _ = made(OccamNets())
    for name, module in modules.items():
        prefix = f"{name}."
        module.load_state_dict(
            {
                k.removeprefix(prefix): v
                for k, v in trained.weights("last").items()
                if k.startswith(prefix)
            }
        )
        module.eval()
    x = (
        torch.from_numpy(DATA.inputs(split().evaluation["test"].rows)).permute(0, 3, 1, 2).float()
        / 127.5
        - 1
    )
    with torch.inference_mode():
        _, logits, gates = _answers(modules, x)
        sure = gates[1].sigmoid() >= 0.5
        expected = (
            torch.where(sure[:, None], logits[1], logits[2]) if answer == "sure" else logits[2]
        )
    assert bool(sure.any()) or answer == "last"
    assert np.allclose(trained.predictions["last"]["test"].logits, expected.numpy(), atol=1e-5)  # type: ignore[arg-type]


@pytest.mark.slow
def test_30_steps_at_defaults_are_not_erm_and_runs_repeat() -> None:
    plainly, first_run, second_run, last = (
        run(each, model="small-cnn", steps=30)
        for each in (ERM(), OccamNets(), OccamNets(), OccamNets(answer="last"))
    )
    test_logits = [trained.predictions["last"]["test"].logits for trained in (plainly, first_run)]
    assert abs(test_logits[0] - test_logits[1]).max() > 1e-2
    assert same_weights(first_run, second_run)
    assert same_weights(first_run, last), "what answers is no part of training"


def test_exits_are_told_by_true_group() -> None:
    trained = run(OccamNets(), model="small-cnn", steps=12)
    grid, bars = (trained.exhibits[name] for name in ("exits by group", "exits that answered"))
    assert isinstance(bars, Bars)
    assert isinstance(grid, Grid)
    assert list(bars.values) == ["exit 1", "exit 2", "exit 3"]
    shares = [sum(float(row[column]) * int(row[1]) for row in grid.rows) for column in (2, 3)]  # type: ignore[arg-type]
    assert bars.values["exit 1"] == 0
    assert list(bars.values.values())[1:] == pytest.approx(shares, abs=0.01)
    assert list(grid.columns) == ["group", "training rows", "exit 2", "exit 3"]
    assert {row[0] for row in grid.rows} == set(GROUPS)
    assert sum(row[1] for row in grid.rows) == 60
    for row in grid.rows:
        assert sum(row[2:]) == pytest.approx(1.0, abs=1e-3)  # type: ignore[arg-type]


def test_where_exits_looked_is_shown_beside_pictures() -> None:
    trained = run(OccamNets(), model="small-cnn", steps=12)
    sheet = trained.exhibits["where exits looked"]
    assert isinstance(sheet, Picture)
    assert list(sheet.columns) == ["picture", "exit 1", "exit 2", "exit 3"]
    modules, state = made(OccamNets())
    shown = sums(OccamNets(), modules, given(step=99), state).state["shown"]
    assert torch.equal(shown[:, 0], ((given().x[:6] + 1) * 127.5).round().to(torch.uint8))
    assert (shown[:, 1].flatten(1).amax(1) == 255).all()
    assert (shown[:, 1].flatten(1).amin(1) == 0).all()
    assert not shown[:, 4].any()
    assert "shown" not in sums(OccamNets(), modules, given(step=3), state).state
    assert OccamNets().exhibits(INFO, state) == {}


@pytest.mark.parametrize("name", ["mlp", "vit-tiny"])
def test_a_network_without_maps_is_refused(name: str) -> None:
    spec = InputSpec.image(32, 32, 3)
    with pytest.raises(NeedsError, match="method 'occamnets' needs maps"):
        OccamNets().modules(
            replace(INFO, input=spec), lambda **changes: build_model(name, {}, spec, unnamed(2), 0)
        )


def test_a_residual_network_has_exits_of_the_published_sizes() -> None:
    spec = InputSpec.image(32, 32, 3)
    modules = OccamNets().modules(
        replace(INFO, input=spec),
        lambda **changes: build_model("resnet18", {}, spec, unnamed(2), 0),
    )
    exits = [module for module in modules["exits"].children() if isinstance(module, Exit)]
    shapes = [
        [tuple(module.weight.shape) for module in exit.modules() if isinstance(module, nn.Conv2d)]
        for exit in exits
    ]
    assert shapes == [
        [(w // 4, w, 3, 3), (w, w // 4, 3, 3), (2, w, 1, 1)] for w in (64, 128, 256, 512)
    ]
    assert [exit.gated for exit in exits] == [True, True, True, False]
    first: Tensor = exits[0].gate[0].weight  # type: ignore[assignment]
    assert tuple(first.shape) == (16, 64)
