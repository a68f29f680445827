"""RandAugment as a method; what it shares with the other augmentations is in
`test_augmentations`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.training.world import run

from crosswind.core.knobs import knobs_of
from crosswind.data.derive import training_keys
from crosswind.methods.randaugment import RandAugmentTraining
from crosswind.training.requirements import changes_nothing
from crosswind.transforms.policies.operations import USUAL

KEYS = training_keys(np.arange(64), 0, 0)
GREY = torch.randint(
    64, 192, (64, 3, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
)
LIGHT = GREY + 60  # up to 251: solarize begins below at most magnitudes


def test_every_operation_of_the_transform_can_be_alone() -> None:
    (domain,) = (item.domain for item in knobs_of(RandAugmentTraining) if item.name == "operations")
    assert set(domain.strip("{}").split(", ")) == {"all", *USUAL} and len(USUAL) == 14


@pytest.mark.parametrize("operation", [name for name in USUAL if name != "identity"])
def test_an_operation_alone_changes_pictures_as_no_other_does(operation: str) -> None:
    (view,) = RandAugmentTraining(count=1, magnitude=15, operations=operation).views()
    assert view is not None
    made = view(LIGHT, KEYS)
    assert not torch.equal(made, LIGHT)
    for other in USUAL:
        if other != operation:
            (beside,) = RandAugmentTraining(count=1, magnitude=15, operations=other).views()
            assert beside is not None and not torch.equal(made, beside(LIGHT, KEYS)), other


def test_without_an_operation_pictures_stay_as_they_are() -> None:
    assert RandAugmentTraining(count=0).views() == (None,)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["all", *USUAL])
@pytest.mark.parametrize("magnitude", [0, 1, 2, 5])
def test_who_is_idle_is_told_and_nobody_else_is(operation: str, magnitude: int) -> None:
    """A level is 1/30 of 150/331 of the side: of 64 pixels 0.97 at level 1, which is none, and 1.93
    at level 2, which is one."""
    method = RandAugmentTraining(magnitude=magnitude, operations=operation)
    wide = torch.randint(
        0, 256, (64, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    ).div(2, rounding_mode="floor")
    wide = wide + 128  # half of the levels, the highest among them
    (view,) = method.views()
    assert view is not None
    idle = torch.equal(view(wide, KEYS), wide)
    assert changes_nothing(method, (3, 64, 64)) == idle
    assert idle == (
        operation == "identity"
        or (magnitude == 0 and operation not in ("all", "solarize", "autocontrast", "equalize"))
        or (magnitude == 1 and operation in ("translate-x", "translate-y", "posterize"))
        or (magnitude == 2 and operation == "posterize")
    )


def test_an_idle_run_says_so() -> None:
    told = (
        "randaugment changes no picture of this size at these settings: tried on noise, all stayed"
        " as they were"
    )
    for operation in (
        "translate-x",
        "equalize",
    ):  # by 0.6 of the world's 8 pixels; needs 255 pixels apart from the lightest
        found = run(RandAugmentTraining(operations=operation), steps=1)
        assert found.warnings == [told] and all(texts == [told] for texts in found.doubts.values())
    assert not run(RandAugmentTraining(operations="translate-x", magnitude=9), steps=1).warnings
    assert run(RandAugmentTraining(operations="identity"), steps=1).warnings == [
        "randaugment is erm at operations = identity"
    ]


@pytest.mark.parametrize("channels,side", [(1, 8), (1, 28), (3, 8), (3, 15), (3, 16)])
def test_small_and_grey_pictures_are_left_alone_by_some_operations(
    channels: int, side: int
) -> None:
    """Colour has none to change in one channel; equalising divides by 255 the pixels that are not
    the lightest."""
    shape = (channels, side, side)
    assert changes_nothing(RandAugmentTraining(operations="colour"), shape) == (channels == 1)
    assert changes_nothing(RandAugmentTraining(operations="equalize"), shape) == (side < 16)
    for operation in (
        "rotate",
        "brightness",
        "contrast",
        "sharpness",
        "posterize",
        "solarize",
        "autocontrast",
        "all",
    ):
        assert not changes_nothing(RandAugmentTraining(operations=operation), shape), operation
