"""The one way in which a method is trained: what is checked, the run, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from crosswind.core.errors import InputError
from crosswind.core.registry import load as load_class
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Method
from crosswind.training.device import reproducible
from crosswind.training.holdout import set_apart
from crosswind.training.identity import info_of, pairing_of
from crosswind.training.memory import keep_freed_memory
from crosswind.training.metering import Meter
from crosswind.training.requirements import check_run
from crosswind.training.run import Report, Run, RunInputs, given_sets
from crosswind.training.selection import check_rules
from crosswind.training.settings import ModelSpec, TrainingSettings, base_settings
from crosswind.training.trajectory import Answer, Trajectory, inner_name

if TYPE_CHECKING:
    from crosswind.shifts.split import Split
    from crosswind.training.profiling import Profile
    from crosswind.training.several_devices import RankGroup


def fit(  # noqa: PLR0913 - settings by name
    method: Method,
    split: Split,
    images: Mapping[str, AttributedDataset],
    model: ModelSpec,
    settings: TrainingSettings,
    seed: int,
    checkpoint: Path | None = None,
    progress: Report | None = None,
    *,
    base: Mapping[str, Tensor] | None = None,
    rules: Sequence[str] = (),
    meter: Meter | None = None,
    profile: Profile | None = None,
    pause: float = 1.0,
    ranks: RankGroup | None = None,
) -> Trajectory:
    """Train `method` on a split, validate, select by every rule, predict every set.

    `images` by source name hold the inputs of the split's rows. `checkpoint`: a file that is
    written at validations and that a later call with the same arguments goes on from, with the same
    bits. `progress` is called at each validation. `base`: weights of the base run that the method
    needs (`Trajectory.weights`); None: it is trained here first. `rules`: selection rules to follow
    beside `last` and those by accuracy, each of which may keep one more step. `meter`: of a run
    that began before this. `profile`: takes a trace of a few steps and a validation, and changes no
    number. `pause`: the share of the steps of a stage after which training stops at a validation
    and leaves its state in `checkpoint`. From there a later call with a larger share goes on with
    the same bits. `ranks`: the processes that do this run together, where `settings.devices` is above 1; all call
    this with the same arguments. Raises `NeedsError`, `InputError`, `DataError` before any work; `RunError` for a
    checkpoint of another run.
    """
    meter = Meter() if meter is None else meter
    with ExitStack() as stack:
        with meter.part("prepare"):
            sets = given_sets(images, model, settings, seed)
            info = info_of(split, sets, settings)
            pairing = pairing_of(method, split, info, model)
            check_run(method, split, images, settings, pairing)
            _check_ranks(settings, ranks)
            own_split, held_out = set_apart(method, split, images, seed)
            check_rules(rules, split.validation)
            keep_freed_memory()
            meter.on(settings.device)
            stack.enter_context(
                reproducible(settings)
            )  # in a new process torch loads more of itself here
        if method.needs.base is not None and base is None:
            base_wanted = method.needs.base
            base_meter = Meter(inside=True)
            trainer = load_class("methods", base_wanted.method)()
            shorter = base_settings(settings, method.needs, vars(method))
            path = None
            if checkpoint is not None:
                path = checkpoint.with_name(f"{checkpoint.name}.base")
            base_run = fit(
                trainer,
                split,
                images,
                model,
                shorter,
                seed,
                path,
                progress,
                meter=base_meter,
                ranks=ranks,
            )
            meter.include(base_meter)
            base = base_run.weights(
                base_wanted.rule if base_wanted.rule in base_run.selections else "last"
            )
        with meter.part("prepare"):
            inputs = RunInputs(
                method, own_split, sets, model, settings, seed, info, base, rules, held_out, ranks
            )
            run = Run(inputs, meter, checkpoint, progress, profile, pause)
            if ranks is not None:
                _check_steps(run)
                ranks.wait()  # until all have read the checkpoint, which the first may now write
        with nullcontext() if profile is None else profile.of(info.steps):
            run.train()
        if profile is not None:
            meter.leave_out(profile.seconds)
        return run.result()


def _check_ranks(settings: TrainingSettings, ranks: RankGroup | None) -> None:
    """Refuse a run on several devices that was begun in one process."""
    count = 1 if ranks is None else ranks.count
    if settings.devices != count:
        problem = (
            f"is {settings.devices}, and this call trains in one process; `crosswind run` and `cw.run_study`"
            " start a process for each device"
        )
        raise InputError("training.devices", problem, (1,))


def _check_steps(run: Run) -> None:
    """Refuse to share a model that is fitted at once."""
    if not run.context.descends:
        problem = f"is {run.settings.devices}, and the model {run.model.name!r} is fitted at once, not by steps"
        raise InputError("training.devices", problem, (1,))


def trained(
    method: Method,
    split: Split,
    images: Mapping[str, AttributedDataset],
    model: ModelSpec,
    settings: TrainingSettings,
    seed: int,
    weights: Mapping[str, Mapping[str, Tensor]],
    *,
    base: Mapping[str, Tensor] | None = None,
) -> Answer:
    """`Trajectory.answer` of a run that ended before, from its weights by selection rule
    (`Trajectory.weights`); else as `fit`."""
    sets = given_sets(images, model, settings, seed)
    info = info_of(split, sets, settings)
    split, held_out = set_apart(method, split, images, seed)
    with reproducible(settings):
        inputs = RunInputs(
            method, split, sets, model, settings, seed, info, base, held_out=held_out
        )
        run = Run(inputs, Meter(inside=True))
    for number, (rule, tensors) in enumerate(weights.items()):
        run.snapshots[number] = {inner_name(name): value for name, value in tensors.items()}
        run.taken[rule] = number
    return run.answer
