"""Many runs of one method on tiny networks trained as one: what `fit` gives for each alone, within float error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from crosswind.core.errors import DataError, InputError, NeedsError
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Batch, Info, Method, check_needs
from crosswind.models.build import Model, build_model
from crosswind.training.checks import check_run, run_doubts
from crosswind.training.device import reproducible
from crosswind.training.identity import info_of
from crosswind.training.loader import DTYPES
from crosswind.training.memory import keep_freed_memory
from crosswind.training.metering import Meter, finished_work
from crosswind.training.predicting import score
from crosswind.training.selection import Score, Selector, Stopper, check_rules, start_of
from crosswind.training.settings import ModelSpec, TrainingSettings
from crosswind.training.side_by_side import EvaluationSets, SharedRows, feed_of
from crosswind.training.stack_optimiser import StackOptimiser
from crosswind.training.stacked import Stack, check_stackable
from crosswind.training.trajectory import Trajectory

if TYPE_CHECKING:
    from crosswind.core.types import Predictions
    from crosswind.shifts.split import Split

__all__ = ["fit_together", "why_not_together"]

_OWN = ("loss", "state", "views", "doubts")  # the hooks that a method may override
_HOOKS = ("modules", "optimisers", "update", "stage", "predict", "adapt")


def fit_together(
    method: Method,
    runs: Sequence[tuple[Split, int]],
    images: Mapping[str, AttributedDataset],
    model: ModelSpec,
    settings: TrainingSettings,
    rules: Sequence[str] = (),
) -> list[Trajectory]:
    """For every (split, seed) what `fit` gives for it alone: same batches, validations, selections and end; logits within 1e-4.

    Networks are held in one stack and stepped together; one that has stopped leaves it. Each one's `cost` and the seconds of its
    history are an equal share of the whole's, its peak memory is the whole's. No progress is told and no checkpoint is written.
    Raises what `fit` raises before any work; `NeedsError` or `InputError` for what cannot be trained as one: see
    `why_not_together`, and runs whose sets, classes or inputs differ.
    """
    meter = Meter()
    if not runs:
        raise InputError("runs", "there is none to train")
    reason = why_not_together(method, settings)
    if reason is not None:
        raise reason
    infos = [info_of(split, images, settings) for split, _ in runs]
    for (split, _), info in zip(runs, infos, strict=True):
        check_run(method, split, images, settings, info)
        check_rules(rules, split.validation)
    _check_alike(method, runs, infos)
    keep_freed_memory()
    meter.on(settings.device)
    with reproducible(settings):
        with meter.part("prepare"):
            group = _Group(method, runs, images, model, settings, infos, rules, meter)
        group.train()
        return group.results()


def why_not_together(method: Method, settings: TrainingSettings) -> NeedsError | InputError | None:
    """Why runs of this method under these settings are not trained as one, None where they are, its model and loss allowing it.

    The model must do without batch norm, dropout, buffers and frozen parameters. A loss must be one that `torch.func.vmap` can
    take: no random draw, no decision by a tensor's value.
    """
    name = method.registered_name  # type: ignore[attr-defined]
    for hook in _HOOKS:
        if getattr(type(method), hook) is not getattr(Method, hook):
            return NeedsError(f"method {name!r} is not trained as one: it has a {hook!r} of its own, beside {', '.join(_OWN)}")
    if method.needs.base is not None:
        return NeedsError(f"method {name!r} is not trained as one: it needs a base run")
    if settings.fit_at is not None:
        return InputError("training.fit_at", "networks that are trained as one are not asked for their training rows", ["null"])
    if settings.precision not in ("fp32", "fp64"):
        return InputError("training.precision", "networks are trained as one in full precision only", ["fp32", "fp64"])
    return None


@dataclass(eq=False)
class _Solo:
    """One run's own part of the group."""

    place: int
    split: Split
    length: int
    start: int
    selector: Selector
    stopper: Stopper
    status: str = "finished"
    steps: int = 0  # done at the last validation
    history: list[dict[str, Any]] = field(default_factory=list)
    snapshots: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)


class _Group:
    def __init__(
        self,
        method: Method,
        runs: Sequence[tuple[Split, int]],
        images: Mapping[str, AttributedDataset],
        model: ModelSpec,
        settings: TrainingSettings,
        infos: Sequence[Info],
        rules: Sequence[str],
        meter: Meter,
    ) -> None:
        self.method, self.images, self.settings, self.infos, self.meter = method, images, settings, infos, meter
        self.bare = type(method).loss is Method.loss
        self.stack = _stack_of(method, model, settings, infos, [seed for _, seed in runs])
        states = [method.state(info) for info in infos]
        self.state = {key: torch.stack([own[key] for own in states]).to(settings.device) for key in states[0]}
        self.optimiser = StackOptimiser(self.stack, settings.optimiser, settings.lr, settings.weight_decay, settings.momentum)
        self.feed = feed_of(method, runs, images, settings, labels_only=self.bare)
        first = runs[0][0]
        self.validation = {
            name: EvaluationSets([split.validation[name] for split, _ in runs], images, settings, resident=True)
            for name in first.validation
        }
        self.evaluation = {
            name: EvaluationSets([split.evaluation[name] for split, _ in runs], images, settings, resident=False)
            for name in first.evaluation
        }
        self.solos = [
            self._solo(place, split, info, rules) for place, ((split, _), info) in enumerate(zip(runs, infos, strict=True))
        ]
        self.active = list(self.solos)
        self.logged: dict[str, list[Tensor]] = {}

    def _solo(self, place: int, split: Split, info: Info, rules: Sequence[str]) -> _Solo:
        settings, start = self.settings, start_of(self.method.switch_steps(info.steps), info.steps)
        selector = Selector(list(split.validation), rules, 0 if settings.select_before_switch else start)
        return _Solo(place, split, info.steps, start, selector, Stopper(settings.patience, settings.stop_at, start))

    def train(self) -> None:
        """Step all runs that go on, until none does."""
        step, every = 0, self.settings.validate_every
        ends = {solo.length for solo in self.solos}
        if 0 in ends:
            self._validate(0, [solo for solo in self.active if solo.length == 0])
        longest = max(ends)
        while self.active:
            self._log(self._step(step, longest))
            step += 1
            if step % every == 0 or step in ends:
                self._validate(step, [solo for solo in self.active if step % every == 0 or step >= solo.length])

    def _step(self, step: int, length: int) -> dict[str, Tensor]:
        if self.bare and isinstance(self.feed, SharedRows):
            with self.meter.part("data"):
                given = self.feed.given(step, length)
            with self.meter.part("step"):  # and the gathers, which are made between its parts
                losses, gradients = self.stack.gradients_by_parts(len(self.active), self.feed.size, given)
                self.optimiser.step(gradients)
            return {"loss": losses}
        with self.meter.part("data"):
            batch = self.feed.batch(step, length)
        with self.meter.part("step"):
            return self._descend(batch)

    def _descend(self, batch: Batch) -> dict[str, Tensor]:
        if self.bare:
            losses, gradients = self.stack.gradients(batch.x, batch.y)
            self.optimiser.step(gradients)
            return {"loss": losses}
        try:
            losses, (terms, state), gradients = self._gradients(batch)
        except RuntimeError as error:
            name = self.method.registered_name  # type: ignore[attr-defined]
            raise NeedsError(f"method {name!r} is not trained as one: torch cannot vectorise its loss ({error})") from None
        self.optimiser.step(gradients)
        self.state |= {key: value.detach() for key, value in state.items()}
        return {"loss": losses, **{key: value.detach() for key, value in terms.items()}}

    def _gradients(self, batch: Batch) -> tuple[Tensor, Any, list[Tensor]]:
        tensors: dict[str, Any] = {"x": batch.x, "y": batch.y, "ids": batch.ids, "group": batch.group, "views": batch.views}
        if batch.environment is not None:
            tensors["environment"] = batch.environment
        plain: dict[str, Any] = {name: getattr(batch, name) for name in ("step", "steps", "epoch", "progress", "stage")}

        def loss(model: nn.Module, own: dict[str, Any], state: dict[str, Tensor]) -> tuple[Tensor, Any]:
            found = self.method.loss({"model": model}, Batch(**own, **plain), state)
            return found.total, (dict(found.terms), dict(found.state))

        return self.stack.gradients_of(loss, (tensors, self.state))

    def _log(self, found: Mapping[str, Tensor]) -> None:
        for name, values in found.items():
            self.logged.setdefault(name, []).append(values)

    # -- validation --------------------------------------------------------------------------------------------------------

    def _validate(self, step: int, due: Sequence[_Solo]) -> None:
        with self.meter.part("step"):
            finished_work(self.settings.device)
            logged = {name: torch.stack(values).double() for name, values in self.logged.items()}
        with self.meter.part("evaluation", "validation"):
            places = [place for place, solo in enumerate(self.active) if solo in due]
            stack = self.stack if len(places) == len(self.active) else self.stack.part(places)
            runs = [solo.place for solo in due]
            scores = {name: [score(one) for one in sets.predictions(stack, runs)] for name, sets in self.validation.items()}
        over: list[_Solo] = []
        for turn, (place, solo) in enumerate(zip(places, due, strict=True)):
            means = {name: float(values[:, place].mean()) for name, values in logged.items()}
            solo.steps = step
            if self._judged(solo, place, means, {name: each[turn] for name, each in scores.items()}):
                over.append(solo)
        # All that go on were last validated together: only its last step parts a run from the others.
        if len(due) == len(self.active):
            self.logged = {}
        if over:
            self._leave(over)

    def _judged(self, solo: _Solo, place: int, means: Mapping[str, float], scores: Mapping[str, Score]) -> bool:
        """Take one validation of one run into account; whether the run is over."""
        solo.selector.offer(solo.steps, scores)
        wanted = solo.selector.steps
        solo.snapshots = {step: kept for step, kept in solo.snapshots.items() if step in wanted}
        solo.state = {key: value[place].to("cpu", copy=True) for key, value in self.state.items()}
        solo.snapshots[solo.steps] = {
            **{f"module/model/{name}": value for name, value in self.stack.weights(place).items()},
            **{f"state/{name}": value for name, value in solo.state.items()},
        }
        stopped = "validation" in scores and solo.stopper.offer(solo.steps, scores["validation"].accuracy)
        if not all(math.isfinite(value) for value in means.values()):
            solo.status, stopped = "diverged", True
        solo.history.append(
            {
                "stage": "main",
                "step": solo.steps,
                "train": {name: _finite(value) for name, value in means.items()},
                "validation": {name: {"accuracy": _finite(s.accuracy), "loss": _finite(s.loss)} for name, s in scores.items()},
                "seconds": self.meter.total() / len(self.solos),
            }
        )
        return stopped or solo.steps >= solo.length

    def _leave(self, over: Sequence[_Solo]) -> None:
        gone = {solo.place for solo in over}
        places = [place for place, solo in enumerate(self.active) if solo.place not in gone]
        self.active = [self.active[place] for place in places]
        if not places:
            return
        self.stack.keep(places)
        self.optimiser.keep(places)
        self.feed.keep(places)
        self.state = {key: value[places] for key, value in self.state.items()}
        self.logged = {name: [values[places] for values in kept] for name, kept in self.logged.items()}

    # -- the end -----------------------------------------------------------------------------------------------------------

    def results(self) -> list[Trajectory]:
        """A trajectory a run, each distinct snapshot predicted with once."""
        said: list[dict[int, dict[str, Predictions]]] = [{} for _ in self.solos]
        with self.meter.part("evaluation"):
            steps = [sorted(solo.selector.steps) for solo in self.solos]
            for turn in range(max(len(own) for own in steps)):
                chosen = [solo for solo in self.solos if turn < len(steps[solo.place])]
                prefix = "module/model/"
                kept = [solo.snapshots[steps[solo.place][turn]] for solo in chosen]
                self.stack.load([{key.removeprefix(prefix): value for key, value in own.items()} for own in kept])
                for name, sets in {**self.validation, **self.evaluation}.items():
                    found = sets.predictions(self.stack, [solo.place for solo in chosen])
                    for solo, predictions in zip(chosen, found, strict=True):
                        said[solo.place].setdefault(steps[solo.place][turn], {})[name] = predictions
        whole, batch, n = self.meter.cost(), self.settings.batch, len(self.solos)
        total = batch * sum(solo.steps for solo in self.solos)
        busy = whole["data_seconds"] + whole["step_seconds"] + whole["waiting_seconds"]
        shares = {name: value / n if name.endswith("seconds") else value for name, value in whole.items()}
        shares["images_per_second"] = total / busy if busy else 0.0
        return [
            Trajectory(
                solo.status,
                solo.history,
                solo.selector.selections,
                {rule: said[solo.place][item.step] for rule, item in solo.selector.selections.items()},
                {**shares, "images": float(solo.steps * batch), "steps": float(solo.steps)},
                run_doubts(
                    self.method,
                    solo.split,
                    self.images,
                    self.infos[solo.place],
                    solo.state,
                    solo.selector.selections,
                    solo.start,
                ),
                dict(solo.snapshots),
                {},
            )
            for solo in self.solos
        ]


def _check_alike(method: Method, runs: Sequence[tuple[Split, int]], infos: Sequence[Info]) -> None:
    first, info = runs[0][0], infos[0]
    for (split, _), other in zip(runs[1:], infos[1:], strict=True):
        if (other.input_shape, other.n_classes) != (info.input_shape, info.n_classes):
            raise DataError(
                f"runs trained as one need inputs of one shape and as many classes: there are {info.input_shape} with"
                f" {info.n_classes} and {other.input_shape} with {other.n_classes}"
            )
        if list(split.validation) != list(first.validation) or list(split.evaluation) != list(first.evaluation):
            raise InputError("runs", "those trained as one need validation and evaluation sets of the same names")
        if type(method).loss is not Method.loss and (other.n_rows, other.steps) != (info.n_rows, info.steps):
            name = method.registered_name  # type: ignore[attr-defined]
            raise NeedsError(
                f"runs of method {name!r} are trained as one only with as many training rows each: there are {info.n_rows} and"
                f" {other.n_rows}, and its loss may read the epoch"
            )


def _stack_of(method: Method, model: ModelSpec, settings: TrainingSettings, infos: Sequence[Info], seeds: Sequence[int]) -> Stack:
    made: list[nn.Module] = []
    for info, seed in zip(infos, seeds, strict=True):
        network: Model = build_model(model.name, model.knobs, info.input_shape, info.n_classes, seed)
        if not made:
            check_stackable(network)
            check_needs(method.registered_name, method.needs, info, network.stages)  # type: ignore[attr-defined]
        network.to(device=settings.device, dtype=DTYPES[settings.precision])
        made.append(network.train())
    return Stack(made)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
