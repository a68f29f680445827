from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.training.world import DATA, run, same_weights, split
from torch import Tensor, nn

from crosswind.core.errors import NeedsError
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info
from crosswind.methods.erm import ERM
from crosswind.methods.ubnet import Combined, UBNet, likeness
from crosswind.models.build import Model, build_model, unnamed
from crosswind.training.settings import TrainingSettings, base_settings

SPEC = InputSpec.image(8, 8, 3)
INFO = Info(SPEC, 2, 60, class_names=("dark", "bright"), class_counts=(30, 30), steps=12, batch=16)


def make_model(**changes: Any) -> Model:
    return build_model("small-cnn", {}, SPEC, unnamed(2), 0)


def test_likeness_of_weights_by_hand() -> None:
    """Cosines 0.6 of one and two, 0 and 0.8 with the third: twice (0.36 + 0 + 0.64) over 9 pairs.
    Lengths do not matter."""
    weights = torch.tensor([[2.0, 0.0], [3.0, 4.0], [0.0, 7.0]])
    assert float(likeness(weights)) == pytest.approx(2.0 / 9.0)
    assert float(likeness(torch.eye(4))) == 0.0
    assert float(likeness(torch.ones(2, 3))) == pytest.approx(0.5)


def test_answer_of_one_channel_and_one_place_by_hand() -> None:
    """Two depths of one channel: pooled to a place, times 2 and leaky, times a kernel's middle 3, a
    weight, a head of 1 and -1."""
    net = Combined([1, 1], 2, 1, 1)
    with torch.no_grad():
        for reduction in net.reduce:
            reduction.weight.fill_(2.0)
            reduction.bias.zero_()
        net.mix.weight.fill_(3.0)  # of a map of one place, only its middle counts
        net.mix.bias.zero_()
        net.place.copy_(torch.tensor([1.0, 10.0]).view(2, 1, 1))
        for head in net.heads:
            head.weight.copy_(torch.tensor([[1.0], [-1.0]]))
            head.bias.zero_()
    maps = [torch.tensor([[[[1.0, 3.0]]]]), torch.tensor([[[[-5.0]]]])]
    # mean 2 -> 4 -> 12 -> 12; -5 -> -10 -> leaky -1 -> -3 -> -30; their mean is -9
    assert net(maps).tolist() == [[-9.0, 9.0]]


class Plainly(nn.Module):
    """The same by torch's own layers, one depth at a time, with the given weights."""

    def __init__(self, combined: Combined, channels: int) -> None:
        super().__init__()
        self.combined, self.channels = combined, channels

    def forward(self, maps: list[Tensor]) -> Tensor:
        depth_answers = []
        for depth, depth_maps in enumerate(maps):
            pooled = nn.AdaptiveAvgPool2d(self.combined.side)(depth_maps)
            reduced = nn.LeakyReLU(0.1)(self.combined.reduce[depth](pooled))
            mine = slice(depth * self.channels, (depth + 1) * self.channels)
            conv = nn.Conv2d(self.channels, self.channels, 3, padding=1)
            conv.load_state_dict(
                {"weight": self.combined.mix.weight[mine], "bias": self.combined.mix.bias[mine]}
            )
            weighed = conv(reduced) * self.combined.place[mine]
            depth_answers.append(self.combined.heads[depth](weighed.mean(-1).mean(-1)))
        return sum(depth_answers[1:], depth_answers[0]) / len(depth_answers)


def test_combined_as_one_depth_at_a_time() -> None:
    torch.manual_seed(1)
    net = Combined([3, 5, 8], 4, 6, 7)
    maps = [torch.randn(2, 3, 16, 16), torch.randn(2, 5, 8, 8), torch.randn(2, 8, 2, 2)]
    assert torch.allclose(net(maps), Plainly(net, 6)(maps), atol=1e-6)


def losses(method: UBNet) -> Any:
    torch.manual_seed(0)
    modules = method.modules(INFO, make_model)
    x, y = torch.rand(6, 3, 8, 8) * 2 - 1, torch.arange(6) % 2
    with torch.no_grad():
        return modules, x, y, method.loss(modules, Batch(x, y, torch.arange(6), y, y), {})


def test_objective_is_the_cross_entropy_and_the_likeness_of_both_weights() -> None:
    modules, x, y, step_loss = losses(UBNet(weight=0.7))
    model, net = modules["model"], modules["combined"].requires_grad_(False)
    maps = list(model.taps(x, model.stages).values())[: len(model.stages)]
    logits = net(maps)
    plain = nn.functional.cross_entropy(logits, y)
    alike = likeness(net.mix.weight.flatten().view(3, -1)) + likeness(
        net.place.flatten().view(3, -1)
    )
    assert float(step_loss.total) == pytest.approx(float(plain + 0.7 * alike), rel=1e-5)
    twice = losses(UBNet(weight=0.7, probabilities=True))[3]
    assert float(twice.terms["classification"]) == pytest.approx(
        float(nn.functional.cross_entropy(logits.softmax(1), y)), rel=1e-5
    )


def test_the_first_network_is_erms_is_frozen_and_never_in_training_mode() -> None:
    settings = TrainingSettings.of({"steps": 100, "patience": 3, "stop_at": 0.5})
    first = base_settings(settings, UBNet.needs, vars(UBNet()))
    assert (first.patience, first.epochs, first.stop_at) == (10, 50.0, None)
    base = run(ERM(), model="small-cnn", steps=6).weights("last")
    watched_models: list[Model] = []

    class WatchedUBNet(UBNet):
        def loss(self, modules: Any, batch: Batch, state: Any) -> Any:
            watched_models.append(modules["model"])
            assert (
                not any(module.training for module in modules["model"].modules())
                and modules["combined"].training
            )
            return super().loss(modules, batch, state)

    trained = run(WatchedUBNet(), model="small-cnn", steps=6, base=base)
    assert len(watched_models) == 6 + 2 * trained.action["looks"], (
        "in steps, and twice at each look at them"
    )
    frozen_weights = {
        f"model.{key}": value for key, value in watched_models[-1].state_dict().items()
    }
    assert all(torch.equal(value, frozen_weights[key]) for key, value in base.items()), (
        "statistics of batch norms too"
    )


@pytest.mark.slow
def test_predictions_are_of_the_combination_in_evaluation_mode() -> None:
    base = run(ERM(), model="small-cnn", steps=20).weights("last")
    trained = run(UBNet(), model="small-cnn", steps=30, lr=3e-3, base=base)
    plainly = run(ERM(), model="small-cnn", steps=30, lr=3e-3)
    test_logits, plain_logits = (
        network.predictions["last"]["test"].logits for network in (trained, plainly)
    )
    assert not (abs(test_logits - plain_logits) < 1e-3).all(), (
        "30 steps at its defaults are not ERM"
    )
    model, weights = make_model(), trained.weights("last")
    model.load_state_dict({key.removeprefix("model."): value for key, value in base.items()})
    net = Combined([32, 64, 128], 2, 64, 7)
    net.load_state_dict(
        {
            key.removeprefix("combined."): value
            for key, value in weights.items()
            if key.startswith("combined.")
        }
    )
    rows = split().evaluation["test"].rows
    x = torch.from_numpy(DATA.inputs(rows)).permute(0, 3, 1, 2).float() / 127.5 - 1
    model.eval()
    with torch.inference_mode():
        maps = list(model.taps(x, model.stages).values())[:3]
        assert torch.allclose(net(maps), torch.from_numpy(test_logits), atol=1e-5)


@pytest.mark.slow
def test_other_base_networks_give_other_answers_and_the_same_the_same() -> None:
    base, other_base = (
        run(ERM(), model="small-cnn", steps=6, seed=seed).weights("last") for seed in (0, 1)
    )
    first_run, repeated, of_other_base = (
        run(UBNet(), model="small-cnn", base=base_weights)
        for base_weights in (base, base, other_base)
    )
    assert same_weights(first_run, repeated) and not same_weights(first_run, of_other_base)


@pytest.mark.parametrize("name", ["mlp", "vit-tiny"])
def test_a_network_without_maps_is_refused(name: str) -> None:
    spec = InputSpec.image(32, 32, 3)
    with pytest.raises(NeedsError, match="method 'ubnet' needs maps .* gives none"):
        UBNet().modules(
            replace(INFO, input=spec), lambda **changes: build_model(name, {}, spec, unnamed(2), 0)
        )
