from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, GROUPS, run, same_weights, split
from torch import nn
from torch.distributions import Normal, kl_divergence

from crosswind.core.exhibits import Picture
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info, Stage
from crosswind.methods.beta_vae import BetaVAE, divergence
from crosswind.methods.erm import ERM

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
SMALL = BetaVAE(latents=5, channels=4)


def made(method: BetaVAE, info: Info = INFO) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return method.modules(info, None), method.state(info)  # type: ignore[arg-type]


def given(n: int = 12, stage: str = "encoder") -> Batch:
    x = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(3)) * 1.6 - 0.8
    return Batch(x, torch.arange(n) % 2, torch.arange(n), torch.arange(n) % 4, stage=stage)


def test_divergence_is_torchs_own() -> None:
    mean, spread = torch.randn(2, 6, generator=torch.Generator().manual_seed(1))
    expected = kl_divergence(
        Normal(mean, (spread / 2).exp()), Normal(torch.zeros(6), torch.ones(6))
    )
    assert torch.allclose(divergence(mean, spread), expected, atol=1e-6)
    assert float(divergence(torch.tensor(2.0), torch.tensor(0.0))) == 2.0


def test_the_autoencoders_loss_is_that_of_a_loop() -> None:
    method = replace(SMALL, beta=0.7)
    modules, state = made(method)
    batch = given()
    with torch.no_grad():
        torch.manual_seed(2)
        loss = method.loss(modules, batch, state)
        torch.manual_seed(2)
        noise = torch.randn(12, 5)
        rows = []
        for i in range(12):
            deepest = modules["model"].until(batch.x[i : i + 1], "encoder").flatten(1)
            mean, spread = modules["model"].mean(deepest)[0], modules["decoder"].spread(deepest)[0]
            rebuilt = modules["decoder"]((mean + (spread / 2).exp() * noise[i])[None])[0]
            error = float(((rebuilt - batch.x[i]) ** 2).sum())
            rows.append(error + 0.7 * float(divergence(mean, spread).sum()))
    assert float(loss.total) == pytest.approx(np.mean(rows), rel=1e-5)
    assert float(loss.terms["reconstruction"]) + 0.7 * float(
        loss.terms["divergence"]
    ) == pytest.approx(np.mean(rows), rel=1e-5)


def test_the_classifier_learns_from_mean_codes_and_moves_no_encoder() -> None:
    modules, state = made(SMALL)
    batch = given(stage="main")
    first, second = (SMALL.loss(modules, batch, state).total for _ in range(2))
    assert float(first.detach()) == float(second.detach()), "nothing is drawn"
    codes = modules["model"].mean(modules["model"].until(batch.x, "encoder").flatten(1))
    expected = nn.functional.cross_entropy(modules["model"].head(codes), batch.y)
    assert float(first.detach()) == pytest.approx(float(expected.detach()), rel=1e-6)
    first.backward()  # type: ignore[no-untyped-call]
    moved = {name for name, p in modules["model"].named_parameters() if p.grad is not None}
    assert moved and all(name.startswith("classifier.") for name in moved)


def test_every_parameter_learns_in_one_stage() -> None:
    modules, _ = made(SMALL)
    parameter_ids = [
        {id(p) for p in SMALL.optimisers(INFO, modules, stage)["main"].parameters}
        for stage in ("encoder", "main")
    ]
    every = {id(p) for module in modules.values() for p in module.parameters()}
    assert not parameter_ids[0] & parameter_ids[1] and parameter_ids[0] | parameter_ids[1] == every
    assert len(parameter_ids[1]) == 2 * 5, "four hidden layers and the last"


def test_a_batch_in_another_order_is_the_same_batch() -> None:
    modules, state = made(SMALL)
    batch, order = given(), torch.randperm(12)
    permuted = replace(batch, x=batch.x[order], y=batch.y[order], ids=batch.ids[order])
    losses = []
    for ordered_batch in (batch, permuted):
        torch.manual_seed(8)
        losses.append(float(SMALL.loss(modules, ordered_batch, state).total.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize(("share", "steps", "length"), [(1.0, 12, 12), (0.5, 12, 6), (2.0, 12, 24)])
def test_stages_are_the_autoencoder_and_the_classifier(
    share: float, steps: int, length: int
) -> None:
    method = replace(SMALL, share=share)
    modules, state = made(method)
    x = given().x
    context: Any = SimpleNamespace(
        info=replace(INFO, steps=steps),
        modules=modules,
        state=state,
        y=given().y,
        inputs=lambda rows: x[rows],
    )
    assert method.stage(0, context) == Stage("encoder", steps=length, stop=False, validate=False)
    assert method.stage(1, context) == Stage() and method.stage(2, context) is None
    with torch.no_grad():
        deepest = modules["model"].until(x, "encoder").flatten(1)
        expected = divergence(
            modules["model"].mean(deepest), modules["decoder"].spread(deepest)
        ).mean(0)
    assert torch.allclose(context.state["divergence"], expected, atol=1e-6)
    assert torch.equal(
        context.state["rebuilt"][:, 0], ((x[:6] + 1) * 127.5).round().to(torch.uint8)
    )


def test_labels_have_no_part_in_codes() -> None:
    sets = split()
    relabelled = replace(sets, train=replace(sets.train, label=1 - sets.train.label))
    weights_before, two = (run(SMALL, each, steps=8).weights("last") for each in (sets, relabelled))
    same = [key for key in weights_before if torch.equal(weights_before[key], two[key])]
    assert set(same) >= {
        key
        for key in weights_before
        if "encoder" in key or key.startswith(("model.mean", "decoder"))
    }
    assert not any(key.startswith("model.classifier") for key in same)


@pytest.mark.slow
def test_training_rebuilds_pictures_and_says_what_codes_hold() -> None:
    short, long = run(BetaVAE(beta=0.01), steps=1), run(BetaVAE(beta=0.01), steps=150)
    errors = []
    for trajectory in (short, long):
        modules, _ = made(BetaVAE())
        for name, module in modules.items():
            selected_weights = trajectory.weights("last").items()
            module.load_state_dict(
                {
                    k.removeprefix(f"{name}."): v
                    for k, v in selected_weights
                    if k.startswith(f"{name}.")
                }
            )
        x = torch.from_numpy(DATA.inputs(np.arange(60))).permute(0, 3, 1, 2).float() / 127.5 - 1
        with torch.inference_mode():
            errors.append(
                float((modules["decoder"](modules["model"].features(x)) - x).square().mean())
            )
    assert errors[1] < 0.5 * errors[0]
    (warning,) = long.warnings
    assert warning.startswith("beta-vae has 150 steps, and below 1000 ")
    assert {entry_of_history["stage"] for entry_of_history in long.history} == {"encoder", "main"}
    assert all(
        bool(entry_of_history["validation"]) == (entry_of_history["stage"] == "main")
        for entry_of_history in long.history
    )


@pytest.mark.slow
def test_codes_that_say_nothing_are_doubted() -> None:
    trajectory = run(BetaVAE(beta=1e4), steps=60, lr=0.01)
    assert [text for text in trajectory.warnings if "no latent tells pictures apart" in text]
    assert "0 of 256 latents say anything" in trajectory.exhibits["reconstructions"].caption


def test_predictions_are_of_mean_codes() -> None:
    first, two = (run(SMALL, steps=8) for _ in range(2))
    modules, _ = made(SMALL)
    modules["model"].load_state_dict(
        {
            k.removeprefix("model."): v
            for k, v in first.weights("last").items()
            if k.startswith("model.")
        }
    )
    x = (
        torch.from_numpy(DATA.inputs(split().evaluation["test"].rows)).permute(0, 3, 1, 2).float()
        / 127.5
        - 1
    )
    with torch.inference_mode():
        expected = modules["model"](x).numpy()
    assert np.allclose(first.predictions["last"]["test"].logits, expected, atol=1e-5)  # type: ignore[arg-type]
    assert same_weights(first, two)
    plain = run(ERM(), steps=8).predictions["last"]["test"].logits
    assert abs(plain - first.predictions["last"]["test"].logits).max() > 1e-2  # type: ignore[operator]


def test_reconstructions_and_traversals_are_shown() -> None:
    trajectory = run(SMALL, steps=8)
    assert list(trajectory.exhibits) == ["reconstructions", "traversals"]
    for sheet in trajectory.exhibits.values():
        assert isinstance(sheet, Picture) and "latents" in sheet.caption
    traversals = trajectory.exhibits["traversals"]
    assert isinstance(traversals, Picture) and list(traversals.columns) == [
        "-3",
        "-2",
        "-1",
        "+0",
        "+1",
        "+2",
        "+3",
        "diff.",
    ]
    nats = [float(name.removesuffix(" nats")) for name in traversals.rows]
    assert nats == sorted(nats, reverse=True) and len(nats) == 5
    assert SMALL.exhibits(INFO, SMALL.state(INFO)) == {}


@pytest.mark.parametrize(("side", "layers"), [(8, 1), (16, 2), (28, 2), (30, 2), (64, 4), (4, 1)])
def test_networks_fit_the_pictures(side: int, layers: int) -> None:
    info = replace(INFO, input=InputSpec.image(side, side, 1))
    modules, _ = made(BetaVAE(), info)
    x = torch.zeros(2, 1, side, side)
    codes = modules["model"].features(x)
    assert (
        codes.shape == (2, 256)
        and modules["decoder"](codes).shape == x.shape
        and modules["model"](x).shape == (2, 2)
    )
    assert (
        sum(isinstance(submodule, nn.Conv2d) for submodule in modules["model"].modules()) == layers
    )
    hidden = [
        submodule.out_features
        for submodule in modules["model"].head
        if isinstance(submodule, nn.Linear)
    ]
    assert hidden == [256] * 4 + [2]
