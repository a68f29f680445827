from __future__ import annotations

import pytest
import torch
from torch import nn

from crosswind.methods.base import Batch
from crosswind.methods.erm import ERM


def test_loss_is_the_mean_cross_entropy() -> None:
    """Logits (0, 0) and (2, 0) with labels 0 and 1: (ln 2 + ln(1 + e^2)) / 2 = (0.6931 + 2.1269) /
    2 = 1.4100."""
    x = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    nothing = torch.zeros(2, dtype=torch.int64)
    loss = ERM().loss(
        {"model": nn.Identity()}, Batch(x, torch.tensor([0, 1]), nothing, nothing), {}
    )
    assert float(loss.total) == pytest.approx(1.4100375, abs=1e-6)
