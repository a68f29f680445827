"""Learning-rate schedules, moments of Adam and the training loss that ends a run, against torch's own
optimisers and schedulers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, run, same_weights, split
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, SequentialLR, StepLR

from crosswind.core.errors import InputError
from crosswind.core.seeds import stream
from crosswind.core.types import InputSpec
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.training.settings import TrainingSettings, keyed, rate_factor

STEPS = 12
Scheduler = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]
SCHEDULES: dict[str, tuple[dict[str, Any], Scheduler]] = {
    "cosine": ({"schedule": "cosine"}, lambda of: CosineAnnealingLR(of, STEPS)),
    "linear": ({"schedule": "linear"}, lambda of: LinearLR(of, 1.0, 0.0, STEPS)),
    "step": (
        {"schedule": "step", "decay": 0.5, "decay_every": 5},
        lambda of: StepLR(of, 5, 0.5),
    ),
    "warm-up, then cosine": (
        {"schedule": "cosine", "warmup": 4},
        lambda of: SequentialLR(
            of, [LinearLR(of, 0.25, 1.0, 3), CosineAnnealingLR(of, STEPS - 4)], [4]
        ),
    ),
    "warm-up, then inverse root": (
        {"schedule": "inverse-sqrt", "warmup": 4},
        lambda of: LambdaLR(of, lambda step: min((step + 1) / 4, math.sqrt(4 / (step + 1)))),
    ),
}


def ordinary_loop(
    optimiser_of: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer],
    scheduler_of: Scheduler | None,
) -> dict[str, torch.Tensor]:
    """The weights of the same training written as usual, with torch's classes."""
    model = build_model(
        "mlp", {"hidden": 16, "layers": 2}, InputSpec.image(8, 8, 3), unnamed(2), 0
    ).double()
    optimiser = optimiser_of(list(model.parameters()))
    scheduler = None if scheduler_of is None else scheduler_of(optimiser)
    order = np.concatenate(
        [stream(0, "order", "main", epoch).permutation(60) for epoch in range(4)]
    )
    for step in range(STEPS):
        rows = order[step * 16 : step * 16 + 16]
        x = torch.from_numpy(DATA.inputs(rows)).permute(0, 3, 1, 2).double() / 127.5 - 1
        loss = torch.nn.functional.cross_entropy(model(x), torch.from_numpy(rows % 2))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if scheduler is not None:
            scheduler.step()
    return {f"model.{key}": value for key, value in model.state_dict().items()}


def assert_equal_weights(
    settings: dict[str, Any],
    optimiser_of: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer],
    scheduler_of: Scheduler | None = None,
) -> None:
    ours = run(ERM(), precision="fp64", steps=STEPS, **settings).weights("last")
    theirs = ordinary_loop(optimiser_of, scheduler_of)
    assert ours.keys() == theirs.keys() and len(ours) == 6
    for name, value in theirs.items():
        assert torch.allclose(value, ours[name], rtol=0, atol=1e-9), name


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_gives_the_weights_of_torch_s_own(name: str) -> None:
    settings, scheduler_of = SCHEDULES[name]
    assert_equal_weights(
        {**settings, "optimiser": "sgd", "lr": 0.05},
        lambda parameters: torch.optim.SGD(parameters, lr=0.05),
        scheduler_of,
    )


def test_moments_and_eps_are_those_of_the_study() -> None:
    moments = {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3}
    assert_equal_weights(
        {**moments, "optimiser": "adam", "lr": 1e-3},
        lambda parameters: torch.optim.Adam(parameters, lr=1e-3, betas=(0.8, 0.95), eps=1e-3),
    )


def test_factors_lie_between_nought_and_one_and_end_where_they_say() -> None:
    for settings, _ in SCHEDULES.values():
        chosen = TrainingSettings.of(settings)
        factors = [rate_factor(chosen, step, STEPS) for step in range(STEPS + 3)]
        assert all(0 <= factor <= 1 for factor in factors)
    constant = TrainingSettings.of({})
    assert {rate_factor(constant, step, STEPS) for step in range(STEPS)} == {1.0}
    warm = TrainingSettings.of({"warmup": 4})
    assert [rate_factor(warm, step, STEPS) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_run_that_was_stopped_goes_on_with_its_schedule(tmp_path: Any) -> None:
    settings = {"steps": STEPS, "schedule": "cosine", "warmup": 3, "checkpoint_seconds": 0}
    file = tmp_path / "state.safetensors"

    class StoppedFit(Exception):
        pass

    def stop(report: dict[str, Any]) -> None:
        if report["step"] == 8:
            raise StoppedFit

    with pytest.raises(StoppedFit):
        run(ERM(), checkpoint=file, progress=stop, **settings)
    assert file.exists()
    assert same_weights(run(ERM(), checkpoint=file, **settings), run(ERM(), **settings))


@pytest.mark.slow
def test_loss_at_ends_after_the_first_pass_with_so_low_a_loss_on_all_training_rows() -> None:
    """60 rows in batches of 16: a pass has ended after 4, 8, 12 ... steps."""
    settings: dict[str, Any] = {"patience": None, "lr": 3e-3, "validate_every": 7}
    sets_asked = dataclasses.replace(split(), evaluation={"train": split().train})
    losses = []
    for steps in range(4, 41, 4):
        predictions = run(ERM(), sets_asked, steps=steps, **settings).predictions["last"]["train"]
        logits = torch.from_numpy(predictions.logits).double()
        labels = torch.from_numpy(split().train.label)
        losses.append(float(torch.nn.functional.cross_entropy(logits, labels)))
    wanted = losses[5] * 1.0001
    ends = 4 * (1 + next(number for number, loss in enumerate(losses) if loss <= wanted))
    assert 4 < ends < 40 and losses[0] > wanted
    trajectory = run(ERM(), steps=40, loss_at=wanted, **settings)
    assert trajectory.history[-1]["step"] == ends and trajectory.fitted is True
    never = run(ERM(), steps=8, validate_every=8, lr=1e-9, loss_at=1e-6)
    assert never.history[-1]["step"] == 8 and never.fitted is False


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"schedule": "step"}, "training.decay_every: must be given with schedule: step"),
        ({"decay": 0.5}, "training.decay: belongs to schedule: step, the schedule is constant"),
        ({"schedule": "cosine", "decay_every": 5}, "training.decay_every: belongs to schedule"),
        ({"schedule": "warm"}, "training.schedule: unknown value 'warm'.*inverse-sqrt"),
        ({"optimiser": "sgd", "beta2": 0.9}, "training.beta2: belongs to adam and adamw"),
        ({"beta1": 1.0}, r"training.beta1: must be in \[0, 1\), not 1"),
        ({"warmup": 5, "steps": 5}, "training.warmup: must be below training.steps, it is 5 of 5"),
        (
            {"schedule": "step", "decay_every": 9, "steps": 5},
            "training.decay_every: must be below training.steps, it is 9 of 5: the rate would never",
        ),
        ({"loss_at": 0.0}, r"training.loss_at: must be in \(0, inf\), not 0"),
    ],
)
def test_what_would_be_ignored_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainingSettings.of(values)


def test_keys_of_runs_without_them_stay_and_with_them_differ() -> None:
    settings = dataclasses.asdict(TrainingSettings.of({}))
    younger = {"beta1", "beta2", "eps", "schedule", "warmup", "decay", "decay_every", "loss_at"}
    assert younger <= settings.keys() and not younger & keyed(settings).keys()
    study: dict[str, Any] = {
        "data": {"digits": {"source": "digits", "label": "digit", "attributes": ["ink"]}},
        "shifts": {"none": []},
        "models": ["mlp"],
        "methods": ["erm"],
        "training": {"steps": 4, "schedule": ["constant", "cosine"], "warmup": [0, 2]},
        "seeds": 1,
    }
    plan = make_plan(study_from(study))
    points = [job.labels["point"] for job in plan.jobs if job.kind == "fit"]
    assert points == [
        f"schedule={schedule}, warmup={warmup}"
        for schedule in ("constant", "cosine")
        for warmup in (0, 2)
    ]
    assert len({job.key for job in plan.jobs if job.kind == "fit"}) == 4
