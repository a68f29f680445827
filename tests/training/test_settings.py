from __future__ import annotations

import dataclasses

import pytest

from crosswind.core.errors import InputError
from crosswind.core.knobs import Base, Needs
from crosswind.training.settings import TrainingSettings, base_settings


def test_defaults_are_the_papers() -> None:
    chosen = TrainingSettings.of({})
    assert (
        chosen.steps,
        chosen.batch,
        chosen.validate_every,
        chosen.patience,
        chosen.optimiser,
    ) == (10_000, 128, 100, 20, "adam")
    assert TrainingSettings(**dataclasses.asdict(chosen)) == chosen


def test_bad_values_name_the_field() -> None:
    for values, message in [
        (
            {"step": 3},
            "training.step: unknown setting of the training loop 'step', did you mean 'steps'",
        ),
        ({"steps": -1}, r"training.steps: must be in \[0, inf\), not -1"),
        ({"batch": "many"}, "training.batch: must be a whole number"),
        (
            {"precision": "fp16"},
            r"training.precision: unknown value 'fp16'.*fp32, tf32, bf16, fp64",
        ),
        (
            {"precision": "tf32"},
            (
                "training.precision: tf32 belongs to a cuda device, the device is cpu.*fp32, bf16,"
                " fp64"
            ),
        ),
        ({"lr": 0}, "training.lr"),
        ({"momentum": 0.9}, "training.momentum: belongs to sgd, the optimiser is adam"),
    ]:
        with pytest.raises(InputError, match=message):
            TrainingSettings.of(values)
    with pytest.raises(InputError, match="^momentum: "):
        TrainingSettings.of({"momentum": 0.9}, "")


def test_epochs_are_an_upper_bound() -> None:
    """50 epochs of 49 rows in batches of 128: ceil(2450 / 128) = 20 steps."""
    assert TrainingSettings(epochs=50).longest(49) == 20
    assert TrainingSettings(epochs=50, steps=7).longest(49) == 7
    assert TrainingSettings().longest(49) == 10_000


def test_base_run_has_its_own_settings() -> None:
    needs = Needs(base=Base("erm", settings={"patience": 10}, from_knobs={"epochs": "base_epochs"}))
    base = base_settings(TrainingSettings(lr=0.1), needs, {"base_epochs": 50})
    assert (base.lr, base.patience, base.epochs, base.steps) == (0.1, 10, 50.0, 10_000)
    needs = Needs(base=Base(scaled={"steps": "first", "epochs": "first"}))
    base = base_settings(TrainingSettings(steps=101), needs, {"first": 0.5})
    assert (base.steps, base.epochs) == (51, None)
