"""What the methods that train on augmented pictures have in common. The transforms themselves are
tested with the transforms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.methods.digits import finished
from tests.training.world import DATA, dataset, run, split

from crosswind.core.errors import NeedsError
from crosswind.core.registry import facts
from crosswind.core.types import InputSpec
from crosswind.data.derive import training_keys
from crosswind.methods.augmix import AugMixTraining
from crosswind.methods.autoaugment import AutoAugmentTraining
from crosswind.methods.base import Method
from crosswind.methods.erm import ERM
from crosswind.methods.randaugment import RandAugmentTraining
from crosswind.models.build import build_model, unnamed
from crosswind.training.loader import TrainingRows
from crosswind.training.settings import TrainingSettings
from crosswind.transforms.base import Transform
from crosswind.transforms.policies import augmix, autoaugment, randaugment

KEYS = training_keys(np.arange(40), 0, 0)
METHODS: dict[str, tuple[Any, Any]] = {
    "augmix": (AugMixTraining(), augmix.AugMix),
    "randaugment": (RandAugmentTraining(), randaugment.RandAugment),
    "autoaugment": (AutoAugmentTraining(), autoaugment.AutoAugment),
}
BOTH = pytest.mark.parametrize("name", METHODS)
# Knobs of the method -> those of its transform.
KNOBS: list[tuple[Method, Transform]] = [
    (AugMixTraining(), augmix.AugMix(severity=3, width=3)),
    (AugMixTraining(severity=7, width=5), augmix.AugMix(severity=7, width=5)),
    (RandAugmentTraining(), randaugment.RandAugment(count=3, magnitude=5)),
    (RandAugmentTraining(count=2, magnitude=9), randaugment.RandAugment()),
    (
        RandAugmentTraining(count=1, operations="shear-x"),
        randaugment.RandAugment(count=1, magnitude=5, operations="shear-x"),
    ),
    (AutoAugmentTraining(), autoaugment.AutoAugment()),
    (AutoAugmentTraining(policy="cifar10"), autoaugment.AutoAugment(policy="cifar10")),
]


def pictures(n: int = 40, side: int = 16) -> torch.Tensor:
    return torch.randint(
        0, 256, (n, 3, side, side), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )


@pytest.mark.parametrize(("method", "transform"), KNOBS)
def test_what_is_trained_on_is_the_transform_with_the_methods_knobs(
    method: Method, transform: Transform
) -> None:
    (view,) = method.views()
    assert view == transform and view is not None
    assert not torch.equal(view(pictures(), KEYS), pictures())
    assert view(pictures()[:, :1], KEYS).shape == (40, 1, 16, 16)


@BOTH
def test_every_row_is_changed_anew_at_every_visit(name: str) -> None:
    settings = TrainingSettings(batch=len(split().train.rows))
    rows = TrainingRows(split().train, DATA, settings, 0, "epoch", METHODS[name][0].views())  # type: ignore[arg-type]
    first, second = rows.batch(0, 9), rows.batch(1, 9)
    assert sorted(first.ids.tolist()) == sorted(second.ids.tolist())
    first_x, two = first.x[first.ids.argsort()], second.x[second.ids.argsort()]
    same = (first_x == two).flatten(1).all(1)
    assert len(same) > 40 and float(same.double().mean()) < 0.2


@BOTH
def test_only_training_batches_are_augmented(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 steps, 12 calls with a training batch; what validation and test sets are predicted with is
    the model alone."""
    method, transform = METHODS[name]
    calls: list[int] = []
    plain = transform.apply

    def counted(self: Any, x: torch.Tensor, keys: NDArray[np.uint64]) -> torch.Tensor:
        calls.append(len(x))
        done: torch.Tensor = plain(self, x, keys)
        return done

    monkeypatch.setattr(transform, "apply", counted)
    # After a run its augmentation is tried on noise, which is no batch.
    monkeypatch.setattr("crosswind.training.requirements.changes_nothing", lambda *given: False)
    trajectory = run(method, model="small-cnn", steps=12)
    assert calls == [16] * 12 + [60], (
        "and once all 60 training pictures, to tell how far they were moved"
    )
    still = run(ERM(), model="small-cnn", steps=0).predictions["last"]
    untouched = run(method, model="small-cnn", steps=0).predictions["last"]
    for set_name in ("validation", "test"):
        assert np.array_equal(still[set_name].logits, untouched[set_name].logits)  # type: ignore[arg-type]
    model = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0)
    selected_weights = trajectory.weights("last").items()
    model.load_state_dict(
        {
            key.removeprefix("model."): value
            for key, value in selected_weights
            if key.startswith("model.")
        }
    )
    x = torch.from_numpy(DATA.inputs(np.arange(90, 120))).permute(0, 3, 1, 2).float() / 127.5 - 1
    with torch.inference_mode():
        expected = model.eval()(x).numpy()
    assert np.allclose(trajectory.predictions["last"]["validation"].logits, expected, atol=1e-5)  # type: ignore[arg-type]


@BOTH
def test_training_differs_from_erms(name: str) -> None:
    """Also where there is no limit whose twin would show it: first losses are of the same network
    on other pictures."""
    first_loss, two = (
        run(method, steps=1, validate_every=1).history[0]["train"]["loss"]
        for method in (METHODS[name][0], ERM())
    )
    assert abs(first_loss - two) > 1e-4


@BOTH
def test_inputs_that_are_no_pictures_are_refused(name: str) -> None:
    data = dataset()
    four = replace(
        data,
        read=lambda rows: np.concatenate([data.inputs(rows), data.inputs(rows)[..., :1]], axis=3),
        input=InputSpec.image(8, 8, 4),
    )
    with pytest.raises(
        NeedsError,
        match=rf"method '{name}' needs images of 1 or 3 channels, and is given images of 8 x 8 x 4",
    ):
        run(METHODS[name][0], split(), data=four)


def test_they_are_listed_as_augmentations() -> None:
    assert {facts("methods", name).kind for name in METHODS} == {"augmentation"}


@pytest.mark.slow
def test_each_is_a_row_of_a_study_and_so_is_an_operation_alone(tmp_path: Path) -> None:
    alone = {"method": "randaugment", "count": 1, "magnitude": 15}
    rows = finished(
        tmp_path,
        {
            "augmix": {},
            "autoaugment": {},
            "shear": {**alone, "operations": "shear-x"},
            "invert": {**alone, "operations": "solarize"},
        },
    )
    nll = {
        row["method"]: row["metrics"]["nll"]
        for row in rows
        if (row["rule"], row["set"]) == ("last", "test")
    }
    assert (
        set(nll) == {"erm", "augmix", "autoaugment", "shear", "invert"}
        and len(set(nll.values())) == 5
    )
