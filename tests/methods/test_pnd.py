from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, GROUPS, run, same_weights, split
from torch import Tensor, nn

from crosswind.core.errors import NeedsError
from crosswind.core.exhibits import Bars, Grid
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info, Stage
from crosswind.methods.erm import ERM
from crosswind.methods.pnd import DEPTHS, WARM_UP, Expert, PnD, _drawn, _gated, apart, generalised
from crosswind.models.build import Model, build_model, unnamed

SPEC = InputSpec.image(8, 8, 3)
INFO = Info(
    SPEC,
    2,
    12,
    GROUPS,
    (3, 3, 3, 3),
    class_names=("dark", "bright"),
    class_counts=(6, 6),
    steps=100,
    batch=6,
)


def make_model() -> Any:
    copies = iter(range(9))
    return lambda **changes: build_model("small-cnn", {}, SPEC, unnamed(2), 0, copy=next(copies))


def made(method: PnD) -> tuple[dict[str, nn.Module], dict[str, Tensor]]:
    torch.manual_seed(0)
    modules, state = method.modules(INFO, make_model()), method.state(INFO)
    state["label"] = torch.arange(12) % 2
    state["group"] = torch.arange(12) % 4
    return modules, state


def given(ids: list[int], stage: str = WARM_UP) -> Batch:
    rows = torch.tensor(ids)
    x = torch.from_numpy(DATA.inputs(np.array(ids))).permute(0, 3, 1, 2).float() / 127.5 - 1
    return Batch(x, rows % 2, rows, rows % 4, rows % 2, stage=stage)


def test_generalised_cross_entropy_by_hand() -> None:
    """p = 1/2: (1 - 2^-0.7) / 0.7; p = 1: nothing. Towards q = 0 it is the cross-entropy, at q = 1
    1 - p."""
    losses = -torch.tensor([0.5, 1.0]).log()
    assert generalised(losses, 0.7).tolist() == pytest.approx([(1 - 2**-0.7) / 0.7, 0.0])
    assert generalised(losses, 1.0).tolist() == pytest.approx([0.5, 0.0])
    assert generalised(losses, 1e-6).tolist() == pytest.approx([np.log(2), 0.0], abs=1e-5)


def test_neighbours_that_answer_alike_cost_one_and_unlike_ones_less() -> None:
    """p = (1/4, 3/4), r = (1/2, 1/2): the mean of exp(-1/4 log 1/2) and exp(-3/4 log 3/2)."""
    p = torch.tensor([[0.25, 0.75]]).log()
    assert float(apart(p, p)) == 1.0
    assert float(apart(p, torch.zeros(1, 2))) == pytest.approx((0.5**-0.25 + 1.5**-0.75) / 2)
    assert float(apart(torch.tensor([[9.0, -9.0]]), torch.tensor([[-9.0, 9.0]]))) < 0.6


def test_the_gate_mixes_answers_and_teaches_them_nothing() -> None:
    """A gate of zeros gives equal shares; with a bias of log 3 the second expert has three
    quarters."""
    gate = nn.Linear(4, 2)
    nn.init.zeros_(gate.weight)
    nn.init.zeros_(gate.bias)
    answers = [
        torch.tensor([[1.0, 0.0]], requires_grad=True),
        torch.tensor([[5.0, 2.0]], requires_grad=True),
    ]
    assert _gated({"gate": gate}, answers).tolist() == [[3.0, 1.0]]
    with torch.no_grad():
        gate.bias.copy_(torch.tensor([0.0, np.log(3.0)]))
    out = _gated({"gate": gate}, answers)
    assert out.tolist()[0] == pytest.approx([4.0, 1.5])
    out.sum().backward()
    assert answers[0].grad is None and gate.bias.grad is not None


def plain(
    method: PnD, modules: Any, state: dict[str, Tensor], batch: Batch
) -> tuple[float, dict[str, list[list[float]]]]:
    """The warm-up's objective by loops over experts and rows, and the running losses after it."""
    model, biased = modules["model"], modules["biased"]
    names = [name for name in model.stages if name != "stem"]
    ours, theirs = model.taps(batch.x, names), biased.taps(batch.x, names)
    total, scores_of_half, answers, before = 0.0, {"intrinsic": [], "biased": []}, [], None  # type: ignore[var-annotated]
    for e, name in enumerate(names):
        expert = modules["experts"][e]
        u, v = expert.ours(ours[name]), expert.theirs(theirs[name])
        d, b = expert.intrinsic(torch.cat([u, v], 1)), expert.biased(torch.cat([u, v], 1))
        answers.append(d)
        running = {half: state[half][e].tolist() for half in scores_of_half}
        right, wrong = (-logits.log_softmax(1)[range(len(b)), batch.y] for logits in (d, b))
        for i, row in enumerate(batch.ids.tolist()):
            for half, losses in (("intrinsic", right), ("biased", wrong)):
                old = running[half][row]
                running[half][row] = (
                    method.ema * old + (1 - method.ema) * float(losses[i])
                    if state["seen"][row]
                    else float(losses[i])
                )
        for half in scores_of_half:
            scores_of_half[half].append(running[half])
        weights = []
        for row, label in zip(batch.ids.tolist(), batch.y.tolist(), strict=True):
            same = [
                row_of_label
                for row_of_label in range(12)
                if int(state["label"][row_of_label]) == label
            ]
            shares = {
                half: running[half][row] / max(running[half][row_of_label] for row_of_label in same)
                for half in scores_of_half
            }
            weights.append(shares["biased"] / (shares["biased"] + shares["intrinsic"]))
        total += (
            method.alpha1
            * sum(w * float(loss) for w, loss in zip(weights, right, strict=True))
            / len(weights)
        )
        total += sum((1 - np.exp(-float(loss)) ** method.q) / method.q for loss in wrong) / len(
            weights
        )
        if before is not None:
            p, r = before.softmax(1), b.softmax(1)
            total += float(torch.exp(-p * (p / r).log()).mean())
        before = b
    shares = modules["gate"](torch.cat(answers, 1)).softmax(1)
    mixed = sum(shares[:, e : e + 1] * expert_logits for e, expert_logits in enumerate(answers))
    return total + float(nn.functional.cross_entropy(mixed, batch.y)), scores_of_half  # type: ignore[arg-type]


def test_warm_up_as_loops_over_experts_and_rows() -> None:
    method = PnD()
    modules, state = made(method)
    for module in modules.values():
        module.eval()  # so that two passes are the same
    with torch.no_grad():
        for ids in ([0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8, 9], [0, 3, 11, 10, 6, 1]):
            expected, scores_of_half = plain(method, modules, state, given(ids))
            losses = method.loss(modules, given(ids), state)
            assert float(losses.total) == pytest.approx(expected, rel=1e-5)
            for half, values in scores_of_half.items():
                assert losses.state[half][:3].tolist() == [
                    pytest.approx(score, abs=1e-6) for score in values
                ]
            state = {**state, **losses.state}
    assert state["seen"].all()
    assert torch.equal(state["intrinsic"][3:], torch.zeros(DEPTHS - 3, 12)), (
        "small-cnn has three depths"
    )


def test_the_main_stage_adds_the_contrast_of_drawn_anchors() -> None:
    """With the same draws, by a loop over anchors, their positive and their negatives."""
    method = PnD(anchors=4, negatives=3)
    modules, state = made(method)
    for module in modules.values():
        module.eval()
    batch, names = given(list(range(12)), "main"), ("block1", "block2", "block3")
    with torch.no_grad():
        torch.manual_seed(5)
        losses = method.loss(modules, batch, state)
        plainly = method.loss(modules, replace(batch, stage=WARM_UP), state)
        torch.manual_seed(5)
        expected = []
        ours, theirs = modules["model"].taps(batch.x, names), modules["biased"].taps(batch.x, names)
        for expert, name in zip(modules["experts"], names, strict=True):  # type: ignore[call-overload]
            anchors, partner_rows, rows = _drawn(batch.ids, 4, 3)
            assert set(partner_rows.tolist()) == set(anchors.tolist()) and len(rows) == 12
            u, v = expert.ours(ours[name]), expert.theirs(theirs[name])
            for pair_index, (i, j) in enumerate(
                zip(anchors.tolist(), partner_rows.tolist(), strict=True)
            ):
                similarity_input = expert.intrinsic(torch.cat([u[i], v[i]])[None])[0]
                offered = [expert.intrinsic(torch.cat([u[i], v[j]])[None])[0]]
                offered += [
                    expert.biased(torch.cat([u[int(k)], v[i]])[None])[0]
                    for k in rows[3 * pair_index : 3 * pair_index + 3]
                ]
                logits = torch.stack(
                    [-0.1 * (similarity_input - candidate).square().mean() for candidate in offered]
                )
                expected.append(float(-logits.log_softmax(0)[0]))
    assert float(losses.terms["contrast"]) == pytest.approx(np.mean(expected), rel=1e-5)
    contrast_total = 4.0 * np.mean(expected) + (2.0 - 0.2) * float(plainly.terms["intrinsic"])
    assert float(losses.total) == pytest.approx(float(plainly.total) + contrast_total, rel=1e-5)


def test_each_half_learns_from_its_own_loss_alone() -> None:
    """The biased halves' gradients do not depend on alpha, nor the intrinsic ones' on the biased
    loss's exponent."""

    def slopes(**knobs: float) -> dict[str, Tensor]:
        method = PnD(beta=0.0, **knobs)  # type: ignore[arg-type]
        modules, state = made(method)
        method.loss(modules, given(list(range(12))), state).total.backward()
        return {
            f"{name}.{key}": value.grad.clone()
            for name, module in modules.items()
            for key, value in module.named_parameters()
            if value.grad is not None
        }

    default_slopes, two, three = slopes(), slopes(alpha1=0.7), slopes(q=0.3)
    ours = [
        key
        for key in default_slopes
        if key.startswith("model.") or ".ours." in key or ".intrinsic." in key
    ]
    theirs = [
        key
        for key in default_slopes
        if key.startswith("biased.") or ".theirs." in key or ".biased." in key
    ]
    assert len(ours) > 10 and len(theirs) > 10 and not set(ours) & set(theirs)
    assert all(torch.allclose(default_slopes[key], two[key]) for key in theirs) and any(
        not torch.allclose(default_slopes[key], two[key]) for key in ours
    )
    assert all(torch.allclose(default_slopes[key], three[key]) for key in ours) and any(
        not torch.allclose(default_slopes[key], three[key]) for key in theirs
    )


@pytest.mark.slow
def test_stages_are_a_warm_up_and_then_its_best_networks() -> None:
    class Context:
        info, y, group, state = INFO, torch.arange(12) % 2, torch.arange(12) % 4, {}  # type: ignore[var-annotated]

    stages = [PnD().stage(index, Context()) for index in range(3)]  # type: ignore[arg-type]
    assert stages == [Stage("warm-up", end="best", steps=100, patience=10), Stage(), None]
    short = PnD(warm_up_epochs=3.0).stage(0, Context())  # type: ignore[arg-type]
    assert short is not None and short.steps == 6, "three passes over 12 rows in batches of 6"
    trained = run(PnD(warm_up_patience=None), model="small-cnn", steps=8)
    assert [look["stage"] for look in trained.history] == ["warm-up"] * 2 + ["main"] * 2


@pytest.mark.slow
def test_30_steps_at_defaults_are_not_erm_and_the_sigmoid_is_another_method() -> None:
    plainly, defaults, squashed = (
        run(each, model="small-cnn", steps=30) for each in (ERM(), PnD(), PnD(probabilities=True))
    )
    logits_of_runs = [
        trained.predictions["last"]["test"].logits for trained in (plainly, defaults, squashed)
    ]
    assert (
        abs(logits_of_runs[0] - logits_of_runs[1]).max() > 1e-2
        and abs(logits_of_runs[1] - logits_of_runs[2]).max() > 1e-2
    )  # type: ignore[operator]
    assert logits_of_runs[2].min() >= 0 and logits_of_runs[2].max() <= 1  # type: ignore[union-attr]


@pytest.mark.slow
def test_predictions_are_the_gates_in_evaluation_mode() -> None:
    trained = run(PnD(), model="small-cnn", steps=12)
    modules, _ = made(PnD())
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
    rows = split().evaluation["test"].rows
    x = torch.from_numpy(DATA.inputs(rows)).permute(0, 3, 1, 2).float() / 127.5 - 1
    with torch.inference_mode():
        logits = PnD().predict(modules, x, {}).logits
    assert logits is not None and torch.allclose(
        logits, torch.from_numpy(trained.predictions["last"]["test"].logits), atol=1e-5
    )


@pytest.mark.slow
def test_runs_repeat_and_seeds_differ() -> None:
    first_run, two, three = (
        run(PnD(), model="small-cnn", steps=6, seed=seed) for seed in (0, 0, 1)
    )
    assert same_weights(first_run, two) and not same_weights(first_run, three)


@pytest.mark.slow
def test_weights_are_shown_by_true_group() -> None:
    trained = run(PnD(), model="small-cnn", steps=12)
    bars, grid = trained.exhibits["weights by group"], trained.exhibits["weights by expert"]
    assert isinstance(grid, Grid) and isinstance(bars, Bars)
    assert [round(value, 4) for value in bars.values.values()] == [row[2] for row in grid.rows]
    assert list(bars.values) == [f"{row[0]} ({row[1]})" for row in grid.rows]
    assert list(grid.columns) == [
        "group",
        "training rows",
        "mean weight",
        "expert 1",
        "expert 2",
        "expert 3",
    ]
    assert {row[0] for row in grid.rows} == set(GROUPS) and sum(row[1] for row in grid.rows) == 60  # type: ignore[misc]
    for row in grid.rows:
        assert 0 < row[2] < 1 and row[2] == pytest.approx(np.mean(row[3:]), abs=1e-3)  # type: ignore[arg-type, operator]


@pytest.mark.parametrize("name", ["mlp", "vit-tiny"])
def test_a_network_without_maps_is_refused(name: str) -> None:
    spec = InputSpec.image(32, 32, 3)
    with pytest.raises(NeedsError, match="method 'pnd' needs maps"):
        PnD().modules(
            replace(INFO, input=spec), lambda **changes: build_model(name, {}, spec, unnamed(2), 0)
        )


def test_a_residual_network_has_an_expert_at_four_stages_of_the_published_sizes() -> None:
    spec = InputSpec.image(32, 32, 3)
    modules = PnD().modules(
        replace(INFO, input=spec),
        lambda **changes: build_model("resnet18", {}, spec, unnamed(2), 0),
    )
    experts = [child for child in modules["experts"].children() if isinstance(child, Expert)]
    shapes = [
        [tuple(layer.weight.shape[:2]) for layer in expert.ours if isinstance(layer, nn.Conv2d)]
        for expert in experts
    ]
    assert shapes == [[(128, width), (512, 128)] for width in (64, 128, 256, 512)]
    assert isinstance(modules["model"], Model) and tuple(modules["gate"].weight.shape) == (4, 8)  # type: ignore[union-attr, arg-type]
