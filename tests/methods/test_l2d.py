from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, GROUPS, run, same_weights, split
from torch import Tensor, nn

from crosswind.core.exhibits import Picture
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info
from crosswind.methods.erm import ERM
from crosswind.methods.l2d import (
    L2D,
    Augmenter,
    class_distance,
    contrast,
    convolved,
    information,
    spread_out,
)
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


def made(method: L2D) -> tuple[Any, Any]:
    torch.manual_seed(0)
    modules = method.modules(
        INFO, lambda **changes: build_model("small-cnn", {}, INFO.input, unnamed(2), 0)
    )
    return modules, method.state(INFO)


def given(n: int = 12) -> Batch:
    x = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(3)) * 1.6 - 0.8
    return Batch(x, torch.arange(n) % 2, torch.arange(n), torch.arange(n) % 4)


def test_contrast_by_hand() -> None:
    """Directions (1, 0), (1, 0), (0, 1) of labels 0, 0, 1 at temperature 1/2: of rows 1 and 2 it is
    log(e^2 + 1) - 2."""
    codes, y = torch.tensor([[2.0, 0.0], [5.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 0, 1])
    assert float(contrast(codes, y, 0.5)) == pytest.approx(math.log(math.exp(2) + 1) - 2, rel=1e-5)


def test_contrast_is_that_of_a_loop() -> None:
    codes, y = (
        torch.randn(8, 5, generator=torch.Generator().manual_seed(1)),
        torch.tensor([0, 1, 2, 0, 1, 2, 0, 3]),
    )
    unit = (codes / codes.norm(dim=1, keepdim=True)).double().numpy()
    rows = []
    for i in range(8):
        other_rows = [j for j in range(8) if j != i]
        below = sum(math.exp(unit[i] @ unit[j] / 0.07) for j in other_rows)
        mates = [j for j in other_rows if y[j] == y[i]]
        if mates:
            rows.append(-np.mean([unit[i] @ unit[j] / 0.07 - math.log(below) for j in mates]))
    assert len(rows) == 7
    assert float(contrast(codes, y, 0.07)) == pytest.approx(np.mean(rows), rel=1e-5)


def test_the_distance_is_that_of_a_loop_over_classes() -> None:
    """Class 2 has one row, and class 3 of 5 none: the others alone count."""
    generator = torch.Generator().manual_seed(2)
    first, second = (
        torch.randn(7, 3, generator=generator).double() + shift for shift in (0.0, 0.4)
    )
    y = torch.tensor([0, 1, 1, 4, 0, 1, 2])
    distances = []
    for label in (0, 1, 2, 4):
        both_codes = np.concatenate([codes[y == label].numpy() for codes in (first, second)])
        n = len(both_codes) // 2
        apart = ((both_codes[:, None] - both_codes) ** 2).sum(2)
        width = apart.sum() / (len(both_codes) ** 2 - len(both_codes))
        kernel = sum(np.exp(-apart / (width * 2.0**power)) for power in (-2, -1, 0, 1, 2))
        distances.append((kernel[:n, :n] + kernel[n:, n:] - kernel[:n, n:] - kernel[n:, :n]).mean())
    assert float(class_distance(first, second, y)) == pytest.approx(np.mean(distances), rel=1e-9)
    assert float(class_distance(first, first, y)) == pytest.approx(0.0, abs=1e-9)


def test_information_by_hand() -> None:
    """Codes 1 and 3 of means 0 and 1 and variances 1 and e: (9 - 1) and (0 - 4) / e, and half their
    mean is 2 - 1 / e."""
    information_found = information(
        torch.tensor([[0.0], [1.0]]),
        torch.tensor([[0.0], [1.0]]),
        torch.tensor([[1.0], [3.0]]),
        torch.tensor([1, 0]),
    )
    assert float(information_found) == pytest.approx(2 - 1 / math.e, rel=1e-6)


def test_the_augmenter_is_made_of_torchs_own_layers() -> None:
    torch.manual_seed(4)
    augmenter, x = Augmenter((3, 20, 20)), torch.rand(5, 3, 20, 20) * 2 - 1
    assert augmenter.kernels == (9, 9, 9, 5)
    tensors = [getattr(augmenter, f"fixed{index}") for index in range(18)]
    branches = [torch.tanh(nn.functional.conv2d(x, tensors[0], tensors[1]))]
    for index, size in enumerate(augmenter.kernels):
        down, up = nn.Conv2d(3, 3, size), nn.ConvTranspose2d(3, 3, size)
        for layer, (weight, bias) in (
            (down, tensors[2 + 4 * index : 4 + 4 * index]),
            (up, tensors[4 + 4 * index : 6 + 4 * index]),
        ):
            layer.weight.data.copy_(weight)
            layer.bias.data.copy_(bias)  # type: ignore[union-attr]
        maps = nn.InstanceNorm2d(3)(down(x))
        branches.append(torch.tanh(up(augmenter.scale[index] * maps + augmenter.shift[index])))
    augmented, plain = augmenter(x, False), torch.stack(branches).mean(0)
    assert torch.allclose(augmented, plain, atol=1e-5) and augmented.shape == x.shape
    trained = [*augmenter.scale, *augmenter.shift]
    ours, theirs = (
        torch.autograd.grad(first.square().sum(), trained) for first in (augmented, plain)
    )
    assert all(
        torch.allclose(first, second, rtol=1e-3, atol=1e-4) and first.any()
        for first, second in zip(ours, theirs, strict=True)
    )
    with torch.no_grad():
        assert torch.equal(augmented, augmenter(x, False)), "its own convolutions stay"
        first, two = augmenter(x, True), augmenter(x, True)
        assert not torch.allclose(first, two) and not torch.allclose(first, augmented)
    assert (
        (augmenter.scale[0].mean() - 1).abs() < 0.05
        and augmenter.shift[0].mean().abs() < 0.05
        and not augmenter.noise.any()
    )


@pytest.mark.parametrize(
    ("sides", "size"), [((20, 20), 9), ((16, 16), 7), ((13, 18), 3), ((8, 8), 1)]
)
def test_convolutions_by_transforms_are_torchs(sides: tuple[int, int], size: int) -> None:
    """There and back, in 64 bits: what they give, and the slopes by what goes in."""
    generator = torch.Generator().manual_seed(9)
    x, kernel = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((4, 3, *sides), (3, 3, size, size))
    )
    offset, found = torch.randn(3, generator=generator, dtype=torch.float64), []
    for by_transforms in (False, True):
        x_with_gradient = x.clone().requires_grad_(True)
        maps = (
            convolved(x_with_gradient, [kernel])[0]
            if by_transforms
            else nn.functional.conv2d(x_with_gradient, kernel)
        )
        back = (
            spread_out(maps, kernel, offset)
            if by_transforms
            else nn.functional.conv_transpose2d(maps, kernel, offset)
        )
        (slope,) = torch.autograd.grad(back.square().sum(), x_with_gradient)
        found.append((maps.detach(), back.detach(), slope))
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_fifth_of_the_colours_is_left_out_of_a_random_pass() -> None:
    """A picture of one colour, and only the colour branch: zeros are a fifth, and the others are a
    quarter larger."""
    torch.manual_seed(3)
    augmenter, x = Augmenter((3, 32, 32)), torch.full((8, 3, 32, 32), 0.3)
    augmenter.kernels = ()
    with torch.no_grad():
        augmented = augmenter(x, True)
        assert float((augmented == 0).float().mean()) == pytest.approx(0.2, abs=0.02)
        for channel in range(3):
            values = augmented[:, channel][augmented[:, channel] != 0]
            assert float(values.max() - values.min()) < 1e-5
        assert not (augmenter(x, False) == 0).any()


@pytest.mark.parametrize(
    ("side", "kernels"),
    [
        (224, (9, 13, 17, 5)),
        (64, (9, 13, 17, 5)),
        (32, (9, 13, 15, 5)),
        (16, (7, 7, 7, 5)),
        (8, (3, 3, 3, 3)),
    ],
)
def test_kernels_are_the_published_ones_where_half_a_picture_holds_them(
    side: int, kernels: tuple[int, ...]
) -> None:
    assert Augmenter((3, side, side)).kernels == kernels
    assert Augmenter((1, side, side))(torch.zeros(2, 1, side, side), True).shape == (
        2,
        1,
        side,
        side,
    )


def test_convolutions_are_drawn_by_torchs_own_law() -> None:
    torch.manual_seed(5)
    augmenter = Augmenter((3, 40, 40))
    drawn = [augmenter._drawn(torch.zeros(())) for _ in range(20)]
    for index, (size, layer) in {
        0: (1, nn.Conv2d),
        2: (9, nn.Conv2d),
        8: (13, nn.ConvTranspose2d),
    }.items():
        layers = [layer(3, 3, size) for _ in range(20)]
        for offset, name in enumerate(("weight", "bias")):
            ours = torch.cat([tensor[index + offset].flatten() for tensor in drawn])
            theirs = torch.cat([getattr(tensor, name).detach().flatten() for tensor in layers])
            bound = 1 / math.sqrt(3 * size * size)
            assert (
                ours.shape == theirs.shape
                and ours.abs().max() <= bound
                and theirs.abs().max() <= bound
            )
            assert ours.abs().max() > 0.9 * bound and abs(float(ours.mean())) < 0.2 * bound


def test_the_classifiers_loss_is_that_of_a_loop() -> None:
    method = L2D(alpha1=0.7, alpha2=0.3, spread=0.5)
    modules, state = made(method)
    batch = given()
    copies: list[Tensor] = []
    codes_of = L2D._codes

    def spied(self: L2D, modules: Any, x: Tensor) -> Any:
        out = codes_of(self, modules, x)
        copies.extend([x, *out])
        return out

    L2D._codes = spied  # type: ignore[method-assign]
    try:
        torch.manual_seed(6)
        loss = method.loss(modules, batch, state)
    finally:
        L2D._codes = codes_of  # type: ignore[method-assign]
    x, mean, spread, codes = (pictures.detach() for pictures in copies)
    assert torch.equal(x[12:], batch.x) and not torch.allclose(x[:12], batch.x, atol=0.1)
    mixed = (x[:12] - 0.4 * batch.x) / 0.6
    assert mixed.abs().max() <= 1 + 1e-5, (
        "what the augmenter gives is in the range of inputs, and is 0.6 of a copy"
    )
    logits = modules["model"].head(codes)
    both_labels = torch.cat([batch.y, batch.y])
    classed = nn.functional.cross_entropy(logits, both_labels).detach()
    unlike = np.mean(
        [
            float(
                (codes[i, j] - mean[12 + i, j]) ** 2 / spread[12 + i, j].exp() + spread[12 + i, j]
            )
            for i in range(12)
            for j in range(codes.shape[1])
        ]
    )
    expected = float(classed) + 0.7 * float(contrast(codes, both_labels, 0.07)) + 0.3 * unlike
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-5)
    assert float(loss.terms["likelihood"]) == pytest.approx(unlike, rel=1e-4)
    noise = (codes - mean) / (0.5 * (spread / 2).exp())
    assert abs(float(noise.mean())) < 0.1 and float(noise.std()) == pytest.approx(1.0, abs=0.1)
    assert spread.min() >= 0 and (mean < 0).any()


def test_the_augmenter_lowers_distance_and_information() -> None:
    """The opposite sign of the information, which the authors' code has, is another objective."""
    method = L2D(beta=5.0)
    modules, _ = made(method)

    def objective() -> Any:
        torch.manual_seed(7)
        return method._restyled(modules, given())

    objective_value = objective()
    expected = float(objective_value.terms["distance"]) + 5.0 * float(
        objective_value.terms["information"]
    )
    assert (
        float(objective_value.total.detach()) == pytest.approx(expected, rel=1e-5)
        and float(objective_value.terms["distance"]) > 0
    )
    parameters = list(modules["augmenter"].parameters())
    slopes = torch.autograd.grad(objective_value.total, parameters)
    assert len(parameters) == 9 and all(bool(slope.any()) for slope in slopes)
    with torch.no_grad():
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter -= 1e-2 * slope
    assert float(objective().total.detach()) < float(objective_value.total.detach())


@pytest.mark.slow
def test_each_optimiser_moves_its_own_networks() -> None:
    sets = split()
    first, two, still = (
        run(L2D(augmenter_lr=lr), sets, model="small-cnn", steps=4).weights("last")
        for lr in (0.005, 0.5, 0.0)
    )
    fresh = run(L2D(), sets, model="small-cnn", steps=0).weights("last")
    moved = [
        key
        for key in fresh
        if key.startswith("augmenter.") and not torch.equal(first[key], fresh[key])
    ]
    assert sorted(moved) == sorted(
        key for key in fresh if key.startswith("augmenter.") and "fixed" not in key
    )
    assert all(torch.equal(still[key], fresh[key]) for key in fresh if key.startswith("augmenter."))
    assert any(not torch.equal(first[key], two[key]) for key in fresh if key.startswith("model."))
    assert all(not torch.equal(first[key], fresh[key]) for key in fresh if key.startswith("code."))


def test_predictions_are_of_the_mean_code() -> None:
    trajectory = run(L2D(), model="small-cnn", steps=8)
    modules, _ = made(L2D())
    for name, module in modules.items():
        prefix = f"{name}."
        module.load_state_dict(
            {
                k.removeprefix(prefix): v
                for k, v in trajectory.weights("last").items()
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
        mean = nn.functional.leaky_relu(modules["code"].mean(modules["model"].features(x)))
        expected = modules["model"].head(mean).numpy()
    assert np.allclose(trajectory.predictions["last"]["test"].logits, expected, atol=1e-5)  # type: ignore[arg-type]


def test_a_batch_in_another_order_is_the_same_batch() -> None:
    modules, state = made(L2D())
    batch, order = given(), torch.randperm(12)
    permuted = replace(
        batch, x=batch.x[order], y=batch.y[order], ids=batch.ids[order], group=batch.group[order]
    )
    losses = []
    for ordered_batch in (batch, permuted):
        torch.manual_seed(8)
        losses.append(float(L2D().loss(modules, ordered_batch, state).total.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.slow
def test_30_steps_at_defaults_are_not_erm_and_runs_repeat() -> None:
    plainly, first, two = (run(each, model="small-cnn", steps=30) for each in (ERM(), L2D(), L2D()))
    logits = [trajectory.predictions["last"]["test"].logits for trajectory in (plainly, first)]
    assert abs(logits[0] - logits[1]).max() > 1e-2 and same_weights(first, two)  # type: ignore[operator]


def test_pictures_and_their_copies_are_shown() -> None:
    (sheet,) = run(L2D(), model="small-cnn", steps=4).exhibits.values()
    assert isinstance(sheet, Picture) and list(sheet.columns) == ["picture", "copy"]
    modules, state = made(L2D())
    shown = L2D().loss(modules, given(), state).state["shown"]
    assert torch.equal(shown[:, 0], ((given().x[:6] + 1) * 127.5).round().to(torch.uint8))
    assert (shown[:, 1] != shown[:, 0]).any()
    assert L2D().exhibits(INFO, state) == {}
