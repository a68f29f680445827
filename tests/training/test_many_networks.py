from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError
from crosswind.training.many_networks import Descent, Stack

N, ROWS, WIDTH, CLASSES = 6, 20, 12, 3


def perceptron(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, CLASSES)
    return nn.Sequential(*layers).double()


def unbiased(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = (
        nn.Linear(WIDTH, 8, bias=False),
        nn.ReLU(),
        nn.Linear(8, 5),
        nn.Linear(5, CLASSES, bias=False),
    )
    return nn.Sequential(*layers).double()


def linear(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(WIDTH, CLASSES).double()


KINDS: dict[str, Callable[[int], nn.Module]] = {
    "perceptron": perceptron,
    "no bias": unbiased,
    "linear": linear,
}


def given(sets: int = N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(sets, ROWS, WIDTH, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, CLASSES, (N, ROWS), generator=generator)


def alone(
    network: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, list[Tensor]]:
    losses = nn.functional.cross_entropy(network(x), y, reduction="none")
    loss = (losses if weight is None else losses * weight).mean()
    return loss.detach(), list(torch.autograd.grad(loss, list(network.parameters())))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sets", [1, 2, N])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cached", [2**21, 1])
def test_a_stack_gives_what_each_network_gives(
    kind: str, sets: int, weighted: bool, cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosswind.training.many_networks._CACHED", cached)
    networks = [KINDS[kind](seed) for seed in range(N)]
    stack, (x, y), share = Stack(networks), given(sets), N // sets
    weight = torch.rand(N, ROWS, dtype=torch.float64) if weighted else None

    def part(first: int, last: int) -> tuple[Tensor, Tensor, Tensor | None]:
        own_values = slice(first * share, last * share)
        return x[first:last], y[own_values], None if weight is None else weight[own_values]

    losses, gradients = stack.gradients_by_parts(sets, 1, part)
    logits = stack.logits(x)
    for number, network in enumerate(networks):
        shown = x[number // share]
        loss, own_values = alone(
            network, shown, y[number], None if weight is None else weight[number]
        )
        assert torch.allclose(losses[number], loss, atol=1e-12)
        assert torch.allclose(logits[number], network(shown), atol=1e-12)
        for name, mine, theirs in zip(stack.parameters, gradients, own_values, strict=True):
            assert torch.allclose(mine[number], theirs, atol=1e-12), name


@pytest.mark.parametrize("where", ["parameter", "input"])
def test_not_a_number_of_one_network_reaches_no_other(where: str) -> None:
    networks, (x, y) = [perceptron(seed) for seed in range(N)], given()
    sound, spoilt = Stack(networks), Stack(networks)
    broken = x.clone()
    if where == "input":
        broken[2] = torch.nan
    else:
        for value in spoilt.parameters.values():
            value[2] = torch.nan
    for stack, shown in ((sound, x), (spoilt, broken)):
        descent = Descent(stack, "adamw", [1e-2 * (number + 1) for number in range(N)], [0.1] * N)
        for _ in range(3):
            descent.step(stack.gradients(shown, y)[1])
    other_networks = [0, 1, 3, 4, 5]
    for name, value in spoilt.parameters.items():
        assert torch.equal(value[other_networks], sound.parameters[name][other_networks]), name
        assert value[2].isnan().any()


def torch_optimiser(
    kind: str, parameters: Sequence[Tensor], lr: float, decay: float
) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=decay)
    optimiser_class = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    return optimiser_class(parameters, lr=lr, weight_decay=decay)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("rates", ["one", "each"])
@pytest.mark.parametrize("decays", ["none", "each"])
def test_fifty_steps_equal_those_of_torch_for_each_network(
    kind: str, rates: str, decays: str
) -> None:
    lr = [3e-3 * 1.7 ** (number if rates == "each" else 0) for number in range(N)]
    decay = [0.05 * number if decays == "each" else 0.0 for number in range(N)]
    networks, (x, y) = [perceptron(seed).float() for seed in range(N)], given()
    x = x.float()
    stack = Stack(networks)
    descent = Descent(stack, kind, lr, decay, 0.9)
    for step in range(50):
        shown = torch.arange(step, step + 8) % ROWS
        descent.step(stack.gradients(x[:, shown], y[:, shown])[1])
    for number, own_values in enumerate(networks):
        reference = torch_optimiser(kind, list(own_values.parameters()), lr[number], decay[number])
        for step in range(50):
            shown = torch.arange(step, step + 8) % ROWS
            reference.zero_grad()
            nn.functional.cross_entropy(own_values(x[number, shown]), y[number, shown]).backward()
            reference.step()
        for name, value in own_values.named_parameters():
            assert torch.allclose(stack.parameters[name][number], value, atol=1e-6), (number, name)


def shared() -> nn.Module:
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, layer)


@pytest.mark.parametrize(
    "networks",
    [
        [],
        [nn.Linear(3, 2), nn.Linear(4, 2)],
        [nn.Linear(3, 2), nn.Linear(3, 2, bias=False)],
        [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))],
        [nn.Sequential(nn.ReLU(), nn.Linear(2, 2))],
        [nn.Sequential(nn.Linear(3, 2), nn.ReLU())],
        [nn.Sequential()],
        [nn.ModuleDict({"a": nn.Linear(3, 2)})],
        [shared()],
    ],
)
def test_other_networks_are_refused(networks: list[Any]) -> None:
    with pytest.raises(
        InputError,
        match="^networks: must be (at least one, and all of|sequences of distinct linear layers)",
    ):
        Stack(networks)


def test_an_unknown_optimiser_is_refused() -> None:
    with pytest.raises(InputError, match="adam, adamw, sgd"):
        Descent(Stack([nn.Linear(3, 2)]), "lion", [0.1], [0.0])
