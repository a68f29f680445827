"""Networks with few channels, whose strided convolutions torch's kernels once computed out of
bounds, are trained as any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.training.world import DATA, split

from crosswind.core.registry import load
from crosswind.training.loop import fit
from crosswind.training.settings import ModelSpec, TrainingSettings


def trained(method: str, width: int, **settings: Any) -> np.ndarray:
    """The logits on the test rows after a short run."""
    common = {
        "steps": 12,
        "batch": 16,
        "validate_every": 4,
        "evaluation_batch": 32,
        "checkpoint_seconds": 0,
    }
    chosen = TrainingSettings.of({**common, **settings})
    model = ModelSpec("cifar-resnet", {"depth": 1, "width": width})
    trajectory = fit(load("methods", method)(), split(), {"tiny": DATA}, model, chosen, 0)  # type: ignore[arg-type]
    assert trajectory.status == "finished"
    logits = trajectory.predictions["last"]["test"].logits
    assert logits is not None
    return logits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "width"), [("erm", 2), ("erm", 4), ("erm", 7), ("mixup", 4), ("dann", 3)]
)
def test_both_layouts_of_memory_give_the_same_run(method: str, width: int) -> None:
    """Up to the order of sums: a heap that is written over shows in numbers, if it does not end the
    process."""
    last, first = (
        trained(method, width, channels_last=layout, lr=1e-4) for layout in (True, False)
    )
    assert np.isfinite(last).all() and np.abs(last - first).max() < 1e-3 * np.abs(first).max()
