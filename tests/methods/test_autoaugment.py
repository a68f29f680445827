"""AutoAugment as a method; what it shares with the other augmentations is in
`test_augmentations`."""

from __future__ import annotations

import numpy as np
import torch

from crosswind.data.derive import training_keys
from crosswind.methods.autoaugment import AutoAugmentTraining


def test_policies_differ() -> None:
    x = torch.randint(
        0, 256, (100, 3, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    keys = training_keys(np.arange(100), 0, 0)
    pictures = []
    for policy in ("cifar10", "imagenet", "svhn"):
        (view,) = AutoAugmentTraining(policy=policy).views()
        assert view is not None
        pictures.append(view(x, keys))
    for first, two in ((0, 1), (0, 2), (1, 2)):
        assert float((pictures[first] != pictures[two]).flatten(1).any(1).double().mean()) > 0.5
