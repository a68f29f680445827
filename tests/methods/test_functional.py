from __future__ import annotations

import pytest
import torch
from torch import nn

from crosswind.methods.functional import (
    frozen,
    group_means,
    kernel_distance,
    mixtures,
    moment_distance,
    row_keys,
    row_losses,
    with_slopes,
)


def test_group_means_are_those_of_a_plain_loop() -> None:
    """Groups 0: (1 + 3) / 2 = 2; 1: nobody, 0; 2: 5."""
    values = torch.tensor([1.0, 5.0, 3.0], requires_grad=True)
    means, counts = group_means(values, torch.tensor([0, 2, 0]), 4)
    assert means.tolist() == [2.0, 0.0, 5.0, 0.0]
    assert counts.tolist() == [2.0, 0.0, 1.0, 0.0]
    means.sum().backward()
    assert values.grad is not None and values.grad.tolist() == [0.5, 1.0, 0.5]


def test_group_means_keep_their_digits_under_bf16() -> None:
    """(1.001 + 2.003) / 2 = 1.502; in bfloat16, of 8 bits, it would be 1.5."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        means, _ = group_means(torch.tensor([1.001, 2.003]), torch.tensor([0, 0]), 1)
    assert means.dtype == torch.float32 and abs(float(means) - 1.502) < 1e-6


def test_row_losses_are_computed_at_least_in_float32() -> None:
    logits = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    losses = row_losses(logits.bfloat16(), torch.tensor([0, 1]))
    assert losses.dtype == torch.float32
    assert torch.allclose(losses, torch.tensor([0.693147, 2.126928]), atol=1e-6)
    assert row_losses(logits.double(), torch.tensor([0, 1])).dtype == torch.float64


def test_frozen_stays_in_evaluation_mode_inside_a_training_parent() -> None:
    parent = nn.Sequential(nn.BatchNorm1d(2), frozen(nn.Sequential(nn.BatchNorm1d(2))))
    parent.train()
    parent(torch.rand(4, 2) + 3)
    assert parent[0].running_mean.abs().sum() > 0 and parent[1][0].running_mean.abs().sum() == 0  # type: ignore[index,union-attr,operator]
    assert not any(p.requires_grad for p in parent[1].parameters())


# -- distances of groups; mmd and deepcoral test them through their losses -------------------------


def test_distances_of_one_row_and_of_no_pair_are_zero() -> None:
    single_row = torch.ones(1, 3, requires_grad=True)
    total = kernel_distance(single_row, torch.tensor([1]), 3) + moment_distance(
        single_row, torch.tensor([1]), 3, 1.0, 1.0
    )
    total.backward()
    assert (
        total.item() == 0.0
        and single_row.grad is not None
        and single_row.grad.tolist() == [[0.0, 0.0, 0.0]]
    )


@pytest.mark.parametrize("kind", ["moments", "median", "widths", "unbiased", "unbiased median"])
def test_slopes_of_distances_are_those_of_their_values(kind: str) -> None:
    """By differences: the formulas of the gradients are written beside those of the values. Groups
    of 4, 3, 1, 0 and 2 rows."""
    group = torch.tensor([0, 1, 0, 4, 2, 0, 1, 4, 1, 0])

    def distance(x: torch.Tensor) -> torch.Tensor:
        if kind == "moments":
            return moment_distance(x, group, 5, 0.7, 0.3)
        return kernel_distance(
            x, group, 5, None if "median" in kind else [0.5, 2.0], unbiased="unbiased" in kind
        )

    x = torch.randn(
        10, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True
    )
    assert torch.autograd.gradcheck(distance, (x,))
    several = torch.stack([x.detach(), x.detach() + 1, 2 * x.detach()]).requires_grad_()
    distances = torch.func.vmap(distance)(several)
    expected = torch.stack([distance(single) for single in several])
    assert torch.allclose(distances, expected, atol=1e-12)
    slopes = [torch.autograd.grad(values.sum(), several)[0] for values in (distances, expected)]
    assert torch.allclose(*slopes, atol=1e-12)


def test_a_value_with_slopes_is_itself_and_has_them() -> None:
    a, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([[3.0]], requires_grad=True)
    value = with_slopes(
        torch.tensor(0.1), [a, b], [torch.tensor([4.0, 5.0]), torch.tensor([[6.0]])]
    )
    assert value.item() == torch.tensor(0.1).item()
    slope_of_a, two = torch.autograd.grad(2.0 * value, [a, b])
    assert slope_of_a.tolist() == [8.0, 10.0] and two.tolist() == [[12.0]]


# -- random numbers of rows ------------------------------------------------------------------------


def test_row_keys_go_with_ids_and_not_with_places() -> None:
    ids = torch.tensor([7, 3, 7, 10**12])
    torch.manual_seed(0)
    keys = row_keys(ids)
    torch.manual_seed(0)
    assert torch.equal(row_keys(ids.flip(0)), keys.flip(0))
    assert keys[0] == keys[2] and len(set(keys.tolist())) == 3 and int(keys.min()) >= 0
    assert not torch.equal(row_keys(ids), keys)


def test_row_keys_are_even_and_tell_nothing_of_neighbours() -> None:
    """Ids in a row: shares of 16 bins within 5 standard deviations, keys and next keys, and next
    draws, uncorrelated."""
    torch.manual_seed(1)
    keys, other_keys = (row_keys(torch.arange(40000)).double() / 2.0**63 for _ in range(2))
    counts = torch.bincount((keys * 16).long(), minlength=16)
    assert (counts - 2500).abs().max() < 5 * (2500 * 15 / 16) ** 0.5
    for first, two in ((keys[:-1], keys[1:]), (keys, other_keys)):
        assert abs(torch.corrcoef(torch.stack([first, two]))[0, 1]) < 5 / 200


# -- mixtures --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_any_number_of_an_environments_rows_is_as_likely_in_a_mixture() -> None:
    """Four rows of one environment and three of another: 5 x 4 pairs of numbers, each of chance
    1/20, in 4000 draws 200 +- 14."""
    torch.manual_seed(0)
    ids, environment = torch.arange(7) * 3, torch.tensor([0, 2, 0, 2, 0, 2, 0])
    counts = torch.zeros(5, 4)
    for _ in range(4000):
        went = mixtures(ids, environment, torch.tensor([40, 0, 30]))
        counts[int(went[environment == 0].sum()), int(went[environment == 2].sum())] += 1
    assert (counts - 200).abs().max() < 5 * 14


@pytest.mark.parametrize("rows", [[0, 9], [9]])
def test_one_environment_is_cut_into_random_halves(rows: list[int]) -> None:
    """Every row goes to either mixture with chance 1/2, each for itself: of 64 rows 32 +- 4, two
    rows alike half the time."""
    torch.manual_seed(0)
    environment = None if len(rows) == 1 else torch.ones(64, dtype=torch.int64)
    drawn = torch.stack(
        [mixtures(torch.arange(64), environment, torch.tensor(rows)) for _ in range(400)]
    ).double()
    assert abs(drawn.sum(1).mean() - 32) < 5 * 4 / 20 and drawn.sum(1).std() < 5
    assert (drawn.mean(0) - 0.5).abs().max() < 5 * 0.5 / 20
    alike = (drawn[:, :-1] == drawn[:, 1:]).double().mean(0)
    assert (alike - 0.5).abs().max() < 5 * 0.5 / 20
