"""How a run is trained, as plain values. Never imports torch, so that study files are checked at
once."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crosswind.core.errors import InputError, shown
from crosswind.core.knobs import Needs, knob, knobs_of, log, resolve
from crosswind.training.automatic_device import auto_device

DEVICES = ("cpu", "cuda", "mps", "xpu")
WORKER_VARIABLE = "CROSSWIND_WORKER"
"""The environment variable that tells a worker process its place, from 0, among those that work at
once."""


@dataclass(frozen=True)
class ModelSpec:
    """A registered model's name and its knobs; those not named have their defaults."""

    name: str = "resnet18"
    knobs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """The settings that decide the model, as plain values: a file or folder whose hash is given
        counts by it, not by where it lies."""
        return {"name": self.name, "knobs": _without_places(self.knobs)}


def _without_places(knobs: Mapping[str, Any]) -> dict[str, Any]:
    knobs_without = {
        name: _without_places(value) if name == "settings" and value else value
        for name, value in knobs.items()
    }
    for name, value in knobs.items():
        if knobs.get(f"{name}_sha256") is not None and (
            name != "weights" or str(value).endswith(".safetensors")
        ):
            knobs_without[name] = "file"
    return knobs_without


@dataclass(frozen=True)
class TrainingSettings:
    """Length, stop rule, optimiser, precision and batch sizes of one run.

    Defaults are those of Jeon et al. 2025 (section 4: Adam, batch 128, at most 10,000 steps,
    validation each 100 steps, patience 20 validations) with the middle of their learning rates.
    Accuracies are fractions.
    """

    steps: int = knob(
        10_000,
        domain="[0, inf)",
        source="Jeon et al. 2025",
        doc="largest number of steps of a stage",
    )
    epochs: float | None = knob(
        None,
        domain="(0, inf)",
        doc="largest number of passes over the training rows, if fewer than steps",
    )
    batch: int = knob(128, domain="[1, inf)", source="Jeon et al. 2025", doc="rows a step")
    optimiser: str = knob(
        "adam",
        domain="{adam, adamw, sgd}",
        source="Jeon et al. 2025",
        doc="kind of the study's optimiser",
    )
    lr: float = knob(
        1e-3,
        domain="(0, inf)",
        search=log(1e-4, 1e-2),
        grid={"wiles2022": [1e-2, 1e-3, 1e-4], "jeon2025": [1e-2, 1e-3, 1e-4]},
        source="Jeon et al. 2025",
        doc="learning rate",
    )
    weight_decay: float = knob(0.0, domain="[0, inf)", doc="weight decay")
    momentum: float = knob(0.0, domain="[0, 1)", doc="momentum, sgd only")
    beta1: float = knob(0.9, domain="[0, 1)", doc="decay of the mean gradient, adam and adamw only")
    beta2: float = knob(
        0.999, domain="[0, 1)", doc="decay of the mean squared gradient, adam and adamw only"
    )
    eps: float = knob(
        1e-8, domain="(0, inf)", doc="added to the root of the mean square, adam and adamw only"
    )
    schedule: str = knob(
        "constant",
        domain="{constant, linear, cosine, step, inverse-sqrt}",
        doc=(
            "the learning rate after the warm-up, by the step of the stage: constant; linear and"
            " cosine to 0 at its end; step: times `decay` every `decay_every` steps; inverse-sqrt:"
            " by the root of the step"
        ),
    )
    warmup: int = knob(
        0, domain="[0, inf)", doc="steps of each stage in which the learning rate rises linearly"
    )
    decay: float = knob(0.1, domain="(0, 1)", doc="factor of the schedule step")
    decay_every: int | None = knob(
        None, domain="[1, inf)", doc="steps between two falls of the schedule step"
    )
    validate_every: int = knob(
        100, domain="[1, inf)", source="Jeon et al. 2025", doc="steps between validations"
    )
    patience: int | None = knob(
        20,
        domain="[1, inf)",
        source="Jeon et al. 2025",
        doc="validations without a new best after which the run stops",
    )
    stop_at: float | None = knob(
        None, domain="(0, 1]", doc="in-distribution validation accuracy at which the run stops"
    )
    fit_at: float | None = knob(
        None,
        domain="(0, 1]",
        doc=(
            "share of right training rows at which the run stops, all of them asked after every"
            " pass, un-augmented"
        ),
    )
    loss_at: float | None = knob(
        None,
        domain="(0, inf)",
        doc=(
            "mean cross-entropy on all training rows in nats, un-augmented, at or below which the"
            " run stops; asked after every pass"
        ),
    )
    select_before_switch: bool = knob(
        False, doc="whether a step before the method's last switch may be selected (irm)"
    )
    precision: str = knob(
        "fp32",
        domain="{fp32, tf32, bf16, fp64}",
        doc=(
            "arithmetic: float32, TF32 products (cuda only), bfloat16 autocast, or float64 for"
            " tests"
        ),
    )
    evaluation_batch: int = knob(
        256,
        domain="[1, inf)",
        doc="rows a forward pass in evaluation; fixed, so that numbers repeat",
    )
    length_pool: int = knob(
        0,
        domain="[0, inf)",
        doc=(
            "texts: of so many batches of an epoch, rows of similar length stand together, so that"
            " less is padding; 0: none do. Methods and samplers that draw rows by weight or"
            " environment keep their order"
        ),
    )
    checkpoint_seconds: float = knob(
        30.0,
        domain="[0, inf)",
        doc="seconds between checkpoints, each at a validation; a run that is shorter writes none",
    )
    device: str = knob(
        "auto",
        doc="torch device: cpu, cuda, cuda:1, mps, xpu; auto: cuda where there is one, else mps, else cpu",
    )
    devices: int = knob(
        1,
        domain="[1, 64]",
        doc=(
            "devices of this machine that one run is shared among, a process each; on cpu that many"
            " processors. Each passes its rows of every batch; another number differs by rounding"
        ),
    )
    channels_last: bool = knob(
        True, doc="memory layout of images and convolutions; speed only, safe for every network"
    )

    def __post_init__(self) -> None:
        if self.device == "auto":
            object.__setattr__(self, "device", auto_device(self.precision))

    @classmethod
    def of(cls, values: Mapping[str, Any], field: str = "training") -> TrainingSettings:
        """The settings with the user's values put in; each is checked and `InputError` names
        `field.name`."""
        settings = cls(**resolve(knobs_of(cls), values, field, "the training loop"))
        inside = f"{field}." if field else ""
        if settings.momentum and settings.optimiser != "sgd":
            raise InputError(
                f"{inside}momentum", f"belongs to sgd, the optimiser is {settings.optimiser}"
            )
        _check_schedule(settings, inside)
        _check_shared(settings, inside)
        if not re.fullmatch(rf"({'|'.join(DEVICES)})(:[0-9]{{1,3}})?", settings.device):
            raise InputError(
                f"{inside}device",
                f"{shown(settings.device)} is no kind of device",
                ("auto", *DEVICES),
            )
        if settings.precision == "tf32" and not settings.device.startswith("cuda"):
            problem = f"tf32 belongs to a cuda device, the device is {settings.device}"
            raise InputError(f"{inside}precision", problem, ("fp32", "bf16", "fp64"))
        return settings

    @property
    def stops_when_fitted(self) -> bool:
        """Whether a run stops once its training rows are right, or their loss is low."""
        return self.fit_at is not None or self.loss_at is not None

    def longest(self, n_rows: int) -> int:
        """The largest number of steps on `n_rows` training rows: `steps`, or what `epochs` amounts
        to if that is fewer."""
        if self.epochs is None:
            return self.steps
        return min(self.steps, steps_of(self.epochs, n_rows, self.batch))


def keyed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a run's key holds them: those that decide its numbers.

    Without one that is younger than stores and at its default, so that keys stay.
    """
    keyed_settings = {}
    for name, value in settings.items():
        if name not in _YOUNGER or value != _YOUNGER[name]:
            keyed_settings[name] = value
    keyed_settings.pop("checkpoint_seconds", None)
    return keyed_settings


_YOUNGER = {
    knob.name: knob.default
    for knob in knobs_of(TrainingSettings)
    if knob.name
    in (
        "select_before_switch",
        "length_pool",
        "beta1",
        "beta2",
        "eps",
        "schedule",
        "warmup",
        "decay",
        "decay_every",
        "loss_at",
        "devices",
    )
}
"""Settings that are younger than stores, with their defaults."""


def _check_schedule(settings: TrainingSettings, inside: str) -> None:
    """Refuse settings of an optimiser or a schedule that another one would ignore in silence."""
    for name in ("beta1", "beta2", "eps"):
        if settings.optimiser == "sgd" and getattr(settings, name) != _YOUNGER[name]:
            raise InputError(f"{inside}{name}", "belongs to adam and adamw, the optimiser is sgd")
    falls = settings.schedule == "step"
    if falls and settings.decay_every is None:
        raise InputError(f"{inside}decay_every", "must be given with schedule: step")
    for name in ("decay", "decay_every"):
        if not falls and getattr(settings, name) != _YOUNGER[name]:
            problem = f"belongs to schedule: step, the schedule is {settings.schedule}"
            raise InputError(f"{inside}{name}", problem)
    if settings.warmup and settings.warmup >= settings.steps:
        problem = f"must be below training.steps, it is {settings.warmup} of {settings.steps}: the rate would only rise"
        raise InputError(f"{inside}warmup", problem)
    if falls and settings.decay_every is not None and settings.decay_every >= settings.steps:
        problem = f"must be below training.steps, it is {settings.decay_every} of {settings.steps}: the rate would never fall"
        raise InputError(f"{inside}decay_every", problem)


def _check_shared(settings: TrainingSettings, inside: str) -> None:
    """Refuse one run on several devices where there are none to share it among."""
    if settings.devices == 1:
        return
    if ":" in settings.device:
        kind, _, _ = settings.device.partition(":")
        problem = f"is {settings.devices}, and training.device names one, {settings.device}; name its kind, {kind}"
        raise InputError(f"{inside}devices", problem)
    if settings.device in ("mps", "xpu"):
        problem = f"is {settings.devices}, and a run on {settings.device} is on one device; only cpu and cuda share one"
        raise InputError(f"{inside}devices", problem, (1,))
    if settings.batch < settings.devices:
        problem = f"is {settings.devices}, more than the {settings.batch} rows of a batch"
        raise InputError(f"{inside}devices", problem)


def rate_factor(settings: TrainingSettings, step: int, length: int) -> float:
    """The factor of the learning rate at a step of a stage of `length` steps, counted from 0; in
    [0, 1].

    `warmup`: (step + 1) / warmup. Then, with t = step - warmup of T = length - warmup: linear 1 - t /
    T, cosine (1 + cos(pi t / T)) / 2 (Loshchilov and Hutter 2017, equation 5, without restarts), step
    decay ^ floor(step / decay_every), inverse-sqrt sqrt(max(1, warmup) / (step + 1)) (Vaswani et al.
    2017, equation 3, as a share of its highest rate).
    """
    if step < settings.warmup:
        return (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, length - settings.warmup)
    if settings.schedule == "linear":
        return max(0.0, 1 - done)
    if settings.schedule == "cosine":
        return (1 + math.cos(math.pi * min(1.0, done))) / 2
    if settings.schedule == "step":
        assert settings.decay_every is not None
        return settings.decay ** (step // settings.decay_every)
    if settings.schedule == "inverse-sqrt":
        return math.sqrt(max(1, settings.warmup) / (step + 1))
    return 1.0


def steps_of(epochs: float, n_rows: int, batch: int) -> int:
    """The steps in which batches have covered `n_rows` rows `epochs` times, at least one."""
    return max(1, math.ceil(epochs * n_rows / batch))


def base_settings(
    settings: TrainingSettings, needs: Needs, knobs: Mapping[str, Any], field: str = "method"
) -> TrainingSettings:
    """The settings of the base run that `needs` declares, for a method with these knob values."""
    if needs.base is None:
        raise ValueError("the method declares no base run")
    values = {
        **vars(settings),
        **needs.base.settings,
        **{name: knobs[knob] for name, knob in needs.base.from_knobs.items()},
    }
    for name, source in needs.base.scaled.items():
        run_value = getattr(settings, name)
        if run_value is not None:
            values[name] = (
                math.ceil(run_value * knobs[source])
                if isinstance(run_value, int)
                else run_value * knobs[source]
            )
    return TrainingSettings.of(values, field)
