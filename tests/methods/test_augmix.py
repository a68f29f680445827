"""AugMix as a method; what it shares with the other augmentations is in `test_augmentations`."""

from __future__ import annotations

import numpy as np
import torch

from crosswind.data.derive import training_keys
from crosswind.methods.augmix import AugMixTraining


def test_more_severity_and_chains_change_more() -> None:
    x = torch.randint(
        64, 192, (200, 3, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    keys = training_keys(np.arange(200), 0, 0)

    def changed(method: AugMixTraining) -> float:
        (view,) = method.views()
        assert view is not None
        return float((view(x, keys).float() - x.float()).abs().mean())

    assert (
        changed(AugMixTraining(severity=1))
        < changed(AugMixTraining())
        < changed(AugMixTraining(severity=10))
    )


def test_without_a_chain_pictures_stay_as_they_are() -> None:
    assert AugMixTraining(width=0).views() == (None,)
