from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError, NeedsError
from crosswind.models.build import build_model
from crosswind.training.stack_optimiser import StackOptimiser
from crosswind.training.stacked import Stack

N, ROWS, WIDTH, CLASSES = 6, 20, 12, 3


def perceptron(seed: int) -> nn.Module:
    return build_model("mlp", {"hidden": 8, "layers": 2}, (3, 2, 2), CLASSES, seed).double()


def curved(seed: int) -> nn.Module:
    """Not a chain of ReLU: taken by vmap."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, CLASSES)).double()


def unbiased(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = nn.Linear(WIDTH, 8, bias=False), nn.ReLU(), nn.Linear(8, 5), nn.Identity(), nn.Linear(5, CLASSES, bias=False)
    return nn.Sequential(nn.Flatten(1), *layers).double()


def linear(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(WIDTH, CLASSES)).double()


KINDS: dict[str, Callable[[int], nn.Module]] = {"mlp": perceptron, "tanh": curved, "no bias": unbiased, "linear": linear}


def given(sets: int = N, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sets, ROWS, 3, 2, 2, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, CLASSES, (N, ROWS), generator=generator)


def alone(network: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    losses = nn.functional.cross_entropy(network(x), y, reduction="none")
    loss = (losses if weight is None else losses * weight).mean()
    return loss.detach(), list(torch.autograd.grad(loss, list(network.parameters())))


# -- values and gradients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sets", [1, 2, N])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_stack_gives_what_each_network_gives(kind: str, sets: int, weighted: bool) -> None:
    networks = [KINDS[kind](seed) for seed in range(N)]
    stack = Stack(networks)
    assert stack.chained == (kind != "tanh")
    x, y = given(sets)
    weight = torch.rand(N, ROWS, dtype=torch.float64) if weighted else None
    losses, gradients = stack.gradients(x, y, weight)
    logits = stack.logits(x)
    for place, network in enumerate(networks):
        shown = x[place * sets // N]
        loss, own = alone(network, shown, y[place], None if weight is None else weight[place])
        assert torch.allclose(losses[place], loss, atol=1e-12)
        assert torch.allclose(logits[place], network(shown), atol=1e-12)
        for name, mine, theirs in zip(stack.parameters, gradients, own, strict=True):
            assert torch.allclose(mine[place], theirs, atol=1e-12), name


def test_only_a_chain_that_uses_every_parameter_once_is_taken_for_one() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.a(self.a(x))

    class Beside(Twice):
        def forward(self, x: Tensor) -> Tensor:
            return self.a(x) + x

    class Judging(Twice):
        def forward(self, x: Tensor) -> Tensor:
            return self.a(x) if x.sum() > 0 else x

    class Dropping(Twice):
        def __init__(self) -> None:
            super().__init__()
            self.b = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            self.a(x)
            return self.b(x)

    ending = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    partly = nn.Sequential(nn.Linear(3, 12), nn.Unflatten(1, (3, 4)), nn.Flatten(2), nn.Linear(4, 2))
    for network in (Twice(), Beside(), Judging(), Dropping(), ending, partly):
        assert not Stack([network, network]).chained, network
    assert Stack([nn.Linear(3, 2)]).chained  # a single layer is a chain
    x, y = torch.randn(1, 5, 3), torch.zeros(1, 5, dtype=torch.int64)
    for network in (Twice(), Beside()):
        (_, own), (_, stacked) = alone(network, x[0], y[0]), Stack([network]).gradients(x, y)
        assert all(torch.allclose(a, b[0], atol=1e-6) for a, b in zip(own, stacked, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_networks_changes_nothing(kind: str) -> None:
    networks, (x, y), order = [KINDS[kind](seed) for seed in range(N)], given(), [3, 0, 5, 1, 4, 2]
    losses, gradients = Stack(networks).gradients(x, y)
    moved, others = Stack([networks[place] for place in order]).gradients(x[order], y[order])
    assert torch.equal(moved, losses[order])
    assert all(torch.equal(a, b[order]) for a, b in zip(others, gradients, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["parameter", "input"])
def test_not_a_number_of_one_network_reaches_no_other(kind: str, where: str) -> None:
    networks, (x, y) = [KINDS[kind](seed) for seed in range(N)], given()
    whole, spoilt = Stack(networks), Stack(networks)
    broken = x.clone()
    if where == "input":
        broken[2] = torch.nan
    else:
        for value in spoilt.parameters.values():
            value.data[2] = torch.nan
    rates = [1e-2 * (place + 1) for place in range(N)]
    for stack, shown in ((whole, x), (spoilt, broken)):
        optimiser = StackOptimiser(stack, "adamw", rates, 0.1)
        for _ in range(3):
            optimiser.step(stack.gradients(shown, y)[1])
    others = [0, 1, 3, 4, 5]
    for name, value in spoilt.parameters.items():
        assert torch.equal(value[others], whole.parameters[name][others]), name
        assert value[2].isnan().any()


# -- optimisers ---------------------------------------------------------------------------------------------------------------


def torch_optimiser(kind: str, parameters: Sequence[Tensor], lr: float, decay: float) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=decay)
    made = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    return made(parameters, lr=lr, weight_decay=decay)


@pytest.mark.parametrize("network", ["mlp", "tanh"])
@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("rates", ["one", "each"])
@pytest.mark.parametrize("decays", ["none", "one", "each"])
def test_fifty_steps_equal_those_of_torch_for_each_network(network: str, kind: str, rates: str, decays: str) -> None:
    lr = [3e-3 * 1.7 ** (place if rates == "each" else 0) for place in range(N)]
    decay = [{"none": 0.0, "one": 0.1, "each": 0.05 * place}[decays] for place in range(N)]
    networks, (x, y) = [KINDS[network](seed).float() for seed in range(N)], given()
    x = x.float()
    stack = Stack(networks)
    optimiser = StackOptimiser(
        stack,
        kind,
        lr if rates == "each" else lr[0],
        decay if decays == "each" else decay[0],
        momentum=0.9 if kind == "sgd" else 0.0,
    )
    for step in range(50):
        shown = torch.arange(step, step + 8) % ROWS
        optimiser.step(stack.gradients(x[:, shown], y[:, shown])[1])
    for place, own in enumerate(networks):
        reference = torch_optimiser(kind, list(own.parameters()), lr[place], decay[place])
        for step in range(50):
            shown = torch.arange(step, step + 8) % ROWS
            reference.zero_grad()
            nn.functional.cross_entropy(own(x[place, shown]), y[place, shown]).backward()
            reference.step()
        for name, value in own.named_parameters():
            assert torch.allclose(stack.parameters[name][place], value, atol=1e-6), (place, name)


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("rates", ["one", "each"])
def test_networks_that_are_left_go_on_as_if_all_were_there(kind: str, rates: str) -> None:
    networks, (x, y) = [perceptron(seed) for seed in range(N)], given()
    lr = [1e-2 * (place + 1) if rates == "each" else 1e-2 for place in range(N)]
    whole, thinned, left = Stack(networks), Stack(networks), [4, 1, 5]
    momentum = 0.9 if kind == "sgd" else 0.0
    first, second = (StackOptimiser(stack, kind, lr, 0.1, momentum) for stack in (whole, thinned))
    for step in range(9):
        first.step(whole.gradients(x, y)[1])
        if step == 4:
            thinned.keep(left)
            second.keep(left)
        places = list(range(N)) if step < 4 else left
        second.step(thinned.gradients(x[places], y[places])[1])
    assert len(thinned) == 3
    for name, value in thinned.parameters.items():
        assert torch.allclose(value, whole.parameters[name][left], atol=1e-14), name


def test_weights_are_copies_and_can_be_put_back() -> None:
    stack = Stack([perceptron(seed) for seed in range(N)])
    kept = [stack.weights(place) for place in (2, 0)]
    before = kept[0]["fc.bias"].clone()
    stack.parameters["fc.bias"].data += 1
    assert torch.equal(kept[0]["fc.bias"], before)
    part = stack.part([2, 0])
    stack.load(kept)
    assert (len(stack), len(part)) == (2, 2)
    x, _ = given(1)
    assert torch.allclose(stack.logits(x)[0], perceptron(2)(x[0]))
    assert torch.allclose(part.logits(x), stack.logits(x) + 1)


# -- what is refused ----------------------------------------------------------------------------------------------------------


def test_networks_that_depend_on_more_than_their_batch_are_refused() -> None:
    frozen = nn.Linear(3, 2)
    frozen.bias.requires_grad_(False)
    buffered = nn.Linear(3, 2)
    buffered.register_buffer("mean", torch.zeros(3))
    cases = {
        "batch norm": nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)),
        "draw random numbers": nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.1)),
        "beside their parameters": buffered,
        "frozen": frozen,
    }
    for words, network in cases.items():
        with pytest.raises(NeedsError, match=words):
            Stack([network])


def test_stacks_and_optimisers_refuse_what_does_not_fit() -> None:
    stack = Stack([nn.Linear(3, 2), nn.Linear(3, 2)])
    with pytest.raises(InputError, match="none to stack"):
        Stack([])
    with pytest.raises(InputError, match="of one architecture"):
        Stack([nn.Linear(3, 2), nn.Linear(4, 2)])
    with pytest.raises(InputError, match=r"lr: there are 3 numbers for 2 networks"):
        StackOptimiser(stack, "adam", [0.1, 0.2, 0.3])
    with pytest.raises(InputError, match=r"adam, adamw, sgd"):
        StackOptimiser(stack, "lion", 0.1)
