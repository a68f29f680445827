from __future__ import annotations

import torch
from torch import nn

from crosswind.methods.functional import frozen, group_means, row_losses


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
    found = row_losses(logits.bfloat16(), torch.tensor([0, 1]))
    assert found.dtype == torch.float32
    assert torch.allclose(found, torch.tensor([0.693147, 2.126928]), atol=1e-6)
    assert row_losses(logits.double(), torch.tensor([0, 1])).dtype == torch.float64


def test_frozen_stays_in_evaluation_mode_inside_a_training_parent() -> None:
    parent = nn.Sequential(nn.BatchNorm1d(2), frozen(nn.Sequential(nn.BatchNorm1d(2))))
    parent.train()
    parent(torch.rand(4, 2) + 3)
    assert parent[0].running_mean.abs().sum() > 0 and parent[1][0].running_mean.abs().sum() == 0  # type: ignore[index,union-attr,operator]
    assert not any(p.requires_grad for p in parent[1].parameters())
