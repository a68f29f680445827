from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError
from crosswind.core.seeds import stream, torch_seed
from crosswind.training.linear_probes import Probes, logistic_probes, train_probes
from crosswind.training.many_networks import Member, Stack, train_stack

ROWS, WIDTH, CLASSES = 60, 7, 3


def world(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    y = (
        features[:, :CLASSES] + torch.randn(ROWS, CLASSES, generator=generator, dtype=torch.float64)
    ).argmax(1)
    return features, y


def members() -> list[Member]:
    """Two of each seed, with rates, decays, rows and weights of their own."""
    weight = np.random.default_rng(1).random(ROWS)
    first_rows = np.arange(0, 50)
    return [
        Member(lr=1e-2, seed=0),
        Member(lr=3e-2, weight_decay=0.1, seed=1),
        Member(lr=1e-3, weight_decay=0.2, seed=0),
        Member(lr=1e-2, seed=2, rows=first_rows),
        Member(lr=2e-2, seed=1, weight=weight),
        Member(lr=5e-3, seed=2, rows=first_rows, weight=weight),
    ]


def alone(
    features: Tensor,
    y: Tensor,
    member: Member,
    steps: int,
    batch: int | None,
    optimiser: str = "adam",
) -> nn.Linear:
    """One head the ordinary way, in the loop's order of rows."""
    torch.manual_seed(torch_seed(member.seed, "weights"))
    head = nn.Linear(WIDTH, CLASSES).to(features)
    optimiser_of = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[
        optimiser
    ]
    descent = optimiser_of(head.parameters(), lr=member.lr, weight_decay=member.weight_decay)
    rows = np.arange(ROWS) if member.rows is None else member.rows
    blocks = [
        rows[stream(member.seed, "order", "main", number).permutation(len(rows))]
        for number in range(steps)
    ]
    order = np.concatenate(blocks)
    weight = (
        torch.ones(ROWS).to(features) if member.weight is None else torch.from_numpy(member.weight)
    )
    for step in range(steps):
        shown = torch.from_numpy(
            rows if batch is None else order[step * batch : (step + 1) * batch]
        )
        losses = nn.functional.cross_entropy(head(features[shown]), y[shown], reduction="none")
        descent.zero_grad()
        (losses * weight[shown]).mean().backward()
        descent.step()
    return head


@pytest.mark.parametrize("optimiser", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("batch", [16, None])
def test_probes_are_those_that_are_trained_alone(optimiser: str, batch: int | None) -> None:
    features, y = world()
    heads = train_probes(
        features, y, CLASSES, members(), steps=30, batch=batch, optimiser=optimiser
    )
    for number, member in enumerate(members()):
        alone_trained = alone(features, y, member, 30, batch, optimiser)
        assert torch.allclose(heads.weight[number], alone_trained.weight, atol=1e-10), number
        assert torch.allclose(heads.bias[number], alone_trained.bias, atol=1e-10), number
        assert torch.allclose(heads.logits(features)[number], alone_trained(features), atol=1e-9)


def test_seeds_of_unequal_numbers_and_labels_of_each_head() -> None:
    """Rows cannot then be shared between heads; float32, as probes are trained."""
    features, _ = world()
    features = features.float()
    labels = torch.stack([world(seed)[1] for seed in range(5)])
    chosen = members()[:5]
    chosen[4] = replace(
        chosen[4], rows=np.arange(10, 60)
    )  # of the seed of member 1, and other rows
    heads = train_probes(features, labels, CLASSES, chosen, steps=30, batch=16)
    for number, member in enumerate(chosen):
        weight = None if member.weight is None else member.weight.astype(np.float32)
        alone_trained = alone(features, labels[number], replace(member, weight=weight), 30, 16)
        assert torch.allclose(heads.weight[number], alone_trained.weight, atol=1e-6), number


def test_a_probe_that_is_trained_longer_than_what_is_made_ready_at_once() -> None:
    features, y = world()
    probes = train_probes(features, y, CLASSES, members()[:1], steps=150, batch=16)
    alone_trained = alone(features, y, members()[0], 150, 16)
    assert torch.allclose(probes.weight[0], alone_trained.weight, atol=1e-10) and torch.allclose(
        probes.bias[0], alone_trained.bias, atol=1e-10
    )


def test_losses_and_networks_come_back_in_the_order_of_the_members() -> None:
    features, y = world()
    chosen = members()
    order = [4, 2, 0, 5, 1, 3]

    def trained(places: list[int]) -> tuple[Stack, Tensor]:
        networks = []
        for number in places:
            torch.manual_seed(number)
            networks.append(
                nn.Sequential(nn.Linear(WIDTH, 5), nn.ReLU(), nn.Linear(5, CLASSES)).double()
            )
        stack = Stack(networks)
        return stack, train_stack(
            stack, features, y, [chosen[number] for number in places], steps=12, batch=16
        )

    (first, losses), (second, moved) = trained(list(range(6))), trained(order)
    assert losses.shape == (12, 6)
    assert torch.allclose(moved, losses[:, order], atol=1e-12)
    for name, value in second.parameters.items():
        assert torch.allclose(value, first.parameters[name][order], atol=1e-12)


def test_logistic_regressions_are_at_the_optimum_of_what_they_say_they_minimise() -> None:
    features, y = world()
    chosen = [
        Member(weight_decay=0.01),
        Member(weight_decay=0.1, rows=np.arange(0, 60, 2)),
        Member(weight_decay=0.1, weight=np.random.default_rng(1).random(ROWS)),
        Member(weight_decay=0.05, rows=np.flatnonzero(y.numpy() != 1)),
    ]
    heads = logistic_probes(features, y, CLASSES, chosen, tolerance=1e-9)
    for number, member in enumerate(chosen):
        weight, bias = (
            value[number].clone().requires_grad_() for value in (heads.weight, heads.bias)
        )
        rows = torch.arange(ROWS) if member.rows is None else torch.from_numpy(member.rows)
        each = (
            torch.ones(ROWS).double() if member.weight is None else torch.from_numpy(member.weight)
        )
        losses = nn.functional.cross_entropy(
            features[rows] @ weight.T + bias, y[rows], reduction="none"
        )
        objective = (losses * each[rows]).mean() + member.weight_decay / 2 * weight.square().sum()
        slopes = torch.autograd.grad(objective, [weight, bias])
        assert all(slope.abs().max() < 1e-6 for slope in slopes), number
    assert heads.bias[3, 1] == -torch.inf  # of the class that it has not seen
    assert set(heads.logits(features)[3].argmax(1).tolist()) == {0, 2}


def test_probes_give_logits_of_any_rows() -> None:
    heads = Probes(
        torch.arange(12.0).view(2, 3, 2), torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    )
    logits = heads.logits(
        torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    )
    assert logits.shape == (2, 4, 3)
    assert logits[1, 2].tolist() == [6 + 7 + 3, 8 + 9 + 4, 10 + 11 + 5]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"y": torch.zeros(5, dtype=torch.int64)},
            r"y: has shape \(5,\), not \(60,\) or \(1, 60\)",
        ),
        ({"batch": 0}, "batch: must be at least 1, not 0"),
        (
            {"member": Member(rows=np.array([60]))},
            r"rows: those of member 0 must be at least one, each in \[0, 60\)",
        ),
        ({"member": Member(rows=np.array([], dtype=np.int64))}, "must be at least one"),
        (
            {"member": Member(weight=np.full(ROWS, np.nan))},
            "weight: that of member 0 must be 60 numbers of at least 0",
        ),
        ({"y": torch.full((ROWS,), CLASSES)}, r"y: labels must lie in \[0, 3\)"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], words: str) -> None:
    features, y = world()
    arguments = {"y": y, "member": Member(), "batch": 16, **changes}
    with pytest.raises(InputError, match=words):
        train_probes(
            features,
            arguments["y"],
            CLASSES,
            [arguments["member"]],
            steps=1,
            batch=arguments["batch"],
        )


def test_members_and_logistic_regressions_refuse_what_does_not_fit() -> None:
    features, y = world()
    with pytest.raises(InputError, match="members: there are 2 for 1 networks"):
        train_stack(
            Stack([nn.Linear(WIDTH, CLASSES).double()]), features, y, [Member(), Member()], steps=1
        )
    with pytest.raises(InputError, match="weight_decay: .* needs one above 0, member 0 has 0.0"):
        logistic_probes(features, y, CLASSES, [Member()])
    with pytest.raises(
        InputError, match="rows: .* needs rows of two classes, member 0 has those of 1"
    ):
        logistic_probes(
            features, y, CLASSES, [Member(weight_decay=0.1, rows=np.flatnonzero(y.numpy() == 0))]
        )
