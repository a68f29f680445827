"""One run of the training loop: its stages, steps, validations, checkpoints and predictions.

A run's randomness is a function of seed, stage and step, so a stopped run goes on with the same
bits from tensors and numbers alone. The training loss is read at validations only; between them
nothing waits for the device.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from crosswind.core.errors import RunError
from crosswind.core.seeds import torch_seed
from crosswind.core.types import Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Info, Loss, Method, Stage, State
from crosswind.models.build import Model
from crosswind.models.networks.encoding import encoded
from crosswind.training import checkpoint as files
from crosswind.training.action_numbers import number_doubts, numbers_of
from crosswind.training.cuda_graphs import Steps
from crosswind.training.identity import identity, pairing_of, smallest_lot
from crosswind.training.loader import EvaluationRows, TrainingRows
from crosswind.training.metering import Meter, finished_work
from crosswind.training.own_action import OwnAction, moved_levels
from crosswind.training.predicting import predict, predict_adapted, score
from crosswind.training.requirements import check_stages, lot_warnings, run_warnings
from crosswind.training.run_context import ContextRows, LoopContext
from crosswind.training.samplers import row_weights
from crosswind.training.selection import Score, Selector, Stopper, start_of
from crosswind.training.settings import ModelSpec, TrainingSettings
from crosswind.training.trajectory import Trajectory

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet, Split
    from crosswind.training.profiling import Profile
    from crosswind.training.several_devices import RankGroup


Report = Callable[[dict[str, Any]], object]


Sets = Mapping[str, AttributedDataset]


def given_sets(
    images: Sets, model: ModelSpec, settings: TrainingSettings, seed: int
) -> dict[str, AttributedDataset]:
    """The data sets as the model takes them."""
    cache_key = model.name, model.knobs, seed, settings.device, settings.precision
    return {name: encoded(dataset, *cache_key) for name, dataset in images.items()}


@dataclass(frozen=True)
class RunInputs:
    """The method, the rows and the settings that decide every number of a run.

    `images`: data sets by source name, as the model takes them. `info`: counts of the rows and
    steps of the run. `base`: weights that the method starts from. `rules`: selection rules beside
    `last` and those by accuracy. `held_out`: labelled rows of the method's own that nothing else
    reads. `ranks`: the processes that share the run, if several do.
    """

    method: Method
    split: Split
    images: Mapping[str, AttributedDataset]
    model: ModelSpec
    settings: TrainingSettings
    seed: int
    info: Info
    base: Mapping[str, Tensor] | None = None
    rules: Sequence[str] = ()
    held_out: RowSet | None = None
    ranks: RankGroup | None = None


class Run:
    """A method in training; `train`, then `result`."""

    def __init__(
        self,
        inputs: RunInputs,
        meter: Meter,
        checkpoint: Path | None = None,
        progress: Report | None = None,
        profile: Profile | None = None,
        pause: float = 1.0,
    ) -> None:
        self.rules = inputs.rules
        self.model = inputs.model
        self.method = inputs.method
        self.split = inputs.split
        self.images = inputs.images
        self.settings = inputs.settings
        self.seed = inputs.seed
        self.info = inputs.info
        self.ranks = inputs.ranks
        self.path = checkpoint
        self.progress = progress
        self.meter = meter
        self.profile = profile
        self._make_ready(inputs)
        # Training goes no further than the first validation of a stage at or after this step.
        if pause >= 1:
            self.pause_step = None
        else:
            self.pause_step = math.ceil(pause * self.info.steps)
        self.index = -1
        self.stage = Stage()
        self.step, self.before = 0, 0  # steps done in the stage, and in earlier ones
        self.saved = time.monotonic()  # when the last checkpoint was written
        self.stage_over = True
        self.over = False
        self.status = "finished"
        self.history: list[dict[str, Any]] = []
        self.snapshots: dict[int, dict[str, Tensor]] = {}
        self.said: dict[
            int, dict[str, Predictions]
        ] = {}  # of validation sets, at the steps of the snapshots
        self.taken: dict[str, int] = {}  # the step of every rule, once training is over
        self._follow()
        self.logged: dict[str, list[Tensor]] = {}
        meter.watch(self.rows, *self.validation.values())
        self._resume()

    def _make_ready(self, inputs: RunInputs) -> None:
        """The rows that train and are evaluated, the network and what its method has beside it."""
        method, settings, images = inputs.method, inputs.settings, inputs.images
        drawn = method.needs.sampler, method.views(), method.partners(inputs.info)
        train = inputs.split.train
        dataset = images[train.source]
        self.rows = TrainingRows(train, dataset, settings, inputs.seed, *drawn)
        self.training = EvaluationRows(train, dataset, settings, resident=False)
        holdout = None
        if inputs.held_out is not None:
            source = images[inputs.held_out.source]
            holdout = EvaluationRows(inputs.held_out, source, settings, resident=False)
        self.context = LoopContext(
            method,
            inputs.info,
            inputs.model,
            settings,
            inputs.seed,
            ContextRows(self.rows, self.training, holdout),
            inputs.base,
        )
        network = self.context.modules.get("model")
        if isinstance(network, Model):
            check_stages(method.registered_name, method.needs, network.stages)  # type: ignore[attr-defined]
        self.validation = {
            name: EvaluationRows(rows, images[rows.source], settings, resident=True)
            for name, rows in inputs.split.validation.items()
        }
        self.own = OwnAction(method, inputs.info, self.context, settings)
        self.identity = identity(
            method,
            inputs.split,
            images,
            inputs.model,
            settings,
            inputs.seed,
            inputs.base,
            inputs.rules,
        )

    # -- training
    # ----------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Stage after stage until the method names no further one or the run pauses, from the
        checkpoint if there is one. A run that pauses leaves a checkpoint to go on from."""
        while not (self.over or self.paused):
            with self.meter.part("step"):
                ended = self.stage_over and not self._begin_next()
            if ended:
                self.over = True
                self._save()
                break
            self._train_stage()
        if self.pause_step is not None and self.path is not None:
            with self.meter.part("waiting"):
                self._write(self.path)

    @property
    def paused(self) -> bool:
        """Whether the run is where it pauses: at a validation, so that every rule has a step."""
        at_validation = bool(self.history) and self.history[-1]["step"] == self.before + self.step
        return (
            self.pause_step is not None
            and at_validation
            and self.stage.validate
            and self.before + self.step >= self.pause_step
        )

    def _begin_next(self) -> bool:
        if self.index >= 0 and self.stage.end == "best":
            best = self.selector.selections.get("best-id")
            if best is None:
                raise RunError(
                    f"stage {self.stage.name!r} ends with its best weights, but there is no"
                    " validation to tell them by"
                )
            self.context.load_weights(self.snapshots[best.step])
        torch.default_generator.manual_seed(torch_seed(self.seed, "stage", self.index + 1))
        self.context.train(False)
        if self.index >= 0:
            self.context.last = self.stage
        else:
            self.context.last = None
        stage = self.method.stage(self.index + 1, self.context)
        if stage is None:
            if self.index < 0:
                raise RunError("the method names no stage")
            return False
        fresh = self.index >= 0 and stage.start == "fresh"
        self.context.begin(stage, fresh=fresh)
        self.index = self.index + 1
        self.stage = stage
        self.stage_over = False
        self.before = self.before + self.step
        self.step = 0
        self.snapshots = {}
        self.said = {}
        self._follow()
        self.rows.begin(stage)
        return True

    def _follow(self) -> None:
        """Selection and stop rule of the stage, as they begin."""
        settings = self.settings
        stage = self.stage
        switches = self.method.switch_steps(self.info.steps)
        start = start_of(switches, self.length)
        self.start = (
            self.before + start if start else 0
        )  # the first step after the last switch, counted over all stages
        sets = list(self.validation) if stage.validate else []
        self.selector = Selector(
            sets, self.rules, 0 if settings.select_before_switch else self.start
        )
        patience = settings.patience if stage.patience is None else stage.patience
        self.stopper = Stopper(patience, settings.stop_at, self.start)

    @property
    def length(self) -> int:
        """Steps of the stage, at most."""
        if self.stage.steps is None:
            return self.info.steps
        return self.stage.steps

    def _train_stage(self) -> None:
        if not self.context.descends:
            self._fit_stage_at_once()
            return
        length = self.length
        every = self.settings.validate_every
        context = self.context
        steps = self._steps(length)
        clock = time.perf_counter
        seconds = self.meter.seconds
        profile = self.profile
        context.train()
        self.own.begin(length, every)
        if length == 0:
            self._validate()
            if not all(
                bool(torch.isfinite(value).all())
                for value in self.context.modules["model"].parameters()
            ):
                self.status, self.over = "diverged", True  # as the run that it begins with did
        ended = clock()
        while not (self.stage_over or self.paused):
            if profile is not None:
                profile.step_begins()
                ended = clock()
            batch = self.rows.batch(self.step, length)
            ready = clock()
            seconds["data"] += ready - ended
            number = torch_seed(self.seed, "step", self.stage.name, self.step)
            if self.own.due(self.step):
                with steps.beside():
                    self.own.look(batch, number)
                ready = clock()
            self._log(steps.take(batch, number))
            self.step += 1
            ended = clock()
            seconds["step"] += ended - ready
            fitted = self._fitted()
            if fitted or self.step % every == 0 or self.step >= length:
                self._validate(fitted)
                ended = clock()

    def _steps(self, length: int) -> Steps:
        """The steps of a stage of `length` steps, by this process or by all that share the run."""
        stage_steps = (self.method, self.context, self.settings.device, length)
        if self.ranks is None:
            return Steps(*stage_steps)
        from crosswind.training.several_devices import SplitSteps

        return SplitSteps(*stage_steps, self.ranks)

    def _fit_stage_at_once(self) -> None:
        """One step: every training row once, weighted as the study's sampler and the stage draw
        it."""
        rows = self.split.train
        stage = self.stage
        if rows.visit_law is not None:
            raise RunError(
                "the model reads each training row once, and an attribute is drawn at every visit;"
                " make its mode fixed"
            )
        weight = np.asarray(rows.weight, dtype=np.float64)
        for factor in (stage.weights, stage.copies):
            if factor is not None:
                weight = weight * factor.cpu().double().numpy()
        weights = row_weights(weight, rows.group, self.method.needs.sampler)
        with self.meter.part("step"):
            self.context.fit_at_once(None if weights is None else weights * len(weights))
        self.step += 1
        self._validate(fitted=True)

    def _fitted(self) -> bool:
        """Whether a pass over the training rows has ended and so many of them are right, or their
        loss is so low, that the run stops."""
        share_wanted = self.settings.fit_at
        loss_wanted = self.settings.loss_at
        within_pass = self.step % math.ceil(self.info.steps_per_epoch)
        if not self.settings.stops_when_fitted or not self.stage.stop or within_pass:
            return False
        with self.meter.part("evaluation", "validation"):
            training_predictions = self.context.predict()
            if training_predictions.logits is None:
                answers = training_predictions.label
            else:
                answers = training_predictions.logits.argmax(1)
            assert answers is not None
            labels = self.context.y.cpu()
            if share_wanted is not None and _share_right(answers, labels) >= share_wanted:
                return True
            if loss_wanted is None:
                return False
            if training_predictions.logits is None:
                raise RunError("training.loss_at needs a model that answers with logits")
            logits = training_predictions.logits.double()
            return float(nn.functional.cross_entropy(logits, labels)) <= loss_wanted

    def _log(self, loss: Loss) -> None:
        self.logged.setdefault("loss", []).append(loss.total.detach())
        for name, term in loss.terms.items():
            self.logged.setdefault(name, []).append(term.detach())

    # -- validation
    # ----------------------------------------------------------------------------------------------

    def _validate(self, fitted: bool = False) -> None:
        self.meter.settle("data")
        with self.meter.part("step"):
            finished_work(self.settings.device)
            means = self._means_logged()
            self.own.settle()
        self.logged = {}
        total = self.before + self.step
        with (
            nullcontext() if self.profile is None else self.profile.validation(),
            self.meter.part("evaluation", "validation"),
        ):
            if self.stage.validate:
                predictions_by_set = self._say(predict, self.validation)
            else:
                predictions_by_set = {}
            scores = {}
            for name, set_predictions in predictions_by_set.items():
                scores[name] = score(set_predictions)
            self.selector.offer(total, scores)
            self._keep_snapshots(total, predictions_by_set)
        accuracy = scores["validation"].accuracy if "validation" in scores else None
        stopped = self.stage.stop and accuracy is not None and self.stopper.offer(total, accuracy)
        if not all(math.isfinite(value) for value in means.values()):
            self.status = "diverged"
            self.over = True
        self.stage_over = stopped or fitted or self.over or self.step >= self.length
        position = {"stage": self.stage.name, "step": total}
        criterion = {"fitted": fitted} if self.settings.stops_when_fitted else {}
        mean_terms = {name: _finite(value) for name, value in means.items()}
        self.history.append(
            {
                **position,
                **criterion,
                "train": mean_terms,
                "validation": _plain_scores(scores),
                "seconds": self.meter.total(),
            }
        )
        self._save()
        if self.progress is not None:
            steps = self.before + self.length
            self.progress({**position, "steps": steps, "accuracy": accuracy})

    def _means_logged(self) -> dict[str, float]:
        """The mean of each term of the loss since the validation before."""
        return {
            name: float(torch.stack(values).double().mean()) for name, values in self.logged.items()
        }

    def _say(
        self, how: Callable[..., Predictions], sets: Mapping[str, EvaluationRows]
    ) -> dict[str, Predictions]:
        method_modules_state = self.method, self.context.modules, self.context.state
        return {
            name: how(*method_modules_state, rows, self.settings) for name, rows in sets.items()
        }

    def _keep_snapshots(self, total: int, predictions_by_set: dict[str, Predictions]) -> None:
        steps_selected = self.selector.steps
        # Only the last validation's weights are at hand; every other step that a rule takes was
        # kept when it was that.
        self.snapshots = {
            step: snapshot for step, snapshot in self.snapshots.items() if step in steps_selected
        }
        self.said = {
            step: snapshot for step, snapshot in self.said.items() if step in steps_selected
        } | {total: predictions_by_set}
        self.snapshots[total] = {
            key: value.detach().to("cpu", copy=True)
            for key, value in self.context.weights().items()
        }

    # -- checkpoint
    # ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Write a checkpoint if the last one, or the start, is `checkpoint_seconds` ago: a stop
        costs no more than that."""
        if self.path is None or time.monotonic() - self.saved < self.settings.checkpoint_seconds:
            return
        with self.meter.part("waiting"):
            self._write(self.path)
        self.saved = time.monotonic()

    def _write(self, path: Path) -> None:
        if self.ranks is not None and not self.ranks.leads:
            return
        tensors = {
            **self.context.weights(),
            **self.context.gathered(),
            **files.stage_tensors(self.stage),
        }
        for step, snapshot in self.snapshots.items():
            tensors |= {f"snapshot/{step}/{key}": value for key, value in snapshot.items()}
        stage = files.stage_values(self.stage)
        stopper = [_finite(self.stopper.best), self.stopper.waited]
        selector = self.selector.save()
        seconds = self.meter.saved()
        shares = self.own.save()
        values = {
            "identity": self.identity,
            "stage": stage,
            "selector": selector,
            "stopper": stopper,
            "seconds": seconds,
            "shares": shares,
            **{key: getattr(self, key) for key in _NUMBERS},
        }
        files.save(path, tensors, values)

    def _resume(self) -> None:
        checkpoint_files = None
        if self.path is not None:
            checkpoint_files = files.load(self.path)
        if checkpoint_files is None:
            return
        tensors, values = checkpoint_files
        if values.get("identity") != self.identity:
            raise RunError(
                f"checkpoint {self.path.name!r} belongs to another run; remove it to begin anew"  # type: ignore[union-attr]
            )
        for key in _NUMBERS:
            setattr(self, key, values[key])
        self.meter.restore(values["seconds"])
        self.own.restore(values.get("shares", ()))  # a checkpoint of an earlier version has none
        self.stage = files.stage_from(values["stage"], tensors)
        self.context.load_weights(tensors)
        self.context.begin(self.stage, fresh=False)
        self.context.load_gathered(tensors)
        for name, value in tensors.items():
            if name.startswith("snapshot/"):
                _, step, key = name.split("/", 2)
                self.snapshots.setdefault(int(step), {})[key] = value
        self._follow()
        self.selector.restore(values["selector"])
        best, self.stopper.waited = values["stopper"]
        if best is None:
            self.stopper.best = -math.inf
        else:
            self.stopper.best = best
        self.rows.begin(self.stage)

    # -- the end
    # ----------------------------------------------------------------------------------------------

    def result(self) -> Trajectory:
        """Predictions of every set by every rule, each distinct snapshot predicted with once."""
        if self.status == "diverged" and not self.stage.validate:
            self.selector.complete(list(self.validation), self.rules)
        selections = self.selector.selections
        state = dict(
            self.context.state
        )  # as it is at the end, before earlier weights are looked at
        self.taken = {rule: selection.step for rule, selection in selections.items()}
        with self.meter.part("evaluation"):
            # What a validation said is still here unless the run was stopped since: the same
            # weights say the same bits again.
            steps = sorted(self.selector.steps)
            by_step = {}
            for step in steps:
                by_step[step] = self.said.get(step) or self._at(step, predict, self.validation)
            answers, doubts = self.answer(self.split.evaluation, self.images, given=True)
        predictions = {rule: by_step[step] | answers[rule] for rule, step in self.taken.items()}
        self.meter.images += (self.before + self.step) * self.settings.batch
        cost = {**self.meter.cost(), "steps": float(self.before + self.step)}
        frozen = {key: value.detach().cpu() for key, value in self.context.frozen().items()}
        pairing = pairing_of(self.method, self.split, self.info, self.model)
        action, idle = self._action(state)
        doubts_by_rule = run_warnings(
            self.method, self.split, self.info, pairing, state, selections, self.start, idle
        )
        doubts_by_rule = {
            rule: [*rule_doubts, *doubts] for rule, rule_doubts in doubts_by_rule.items()
        }
        ended = (
            self.status,
            self.history,
            selections,
            predictions,
            cost,
            doubts_by_rule,
            self.snapshots,
            frozen,
            self.answer,
        )
        # A state that is no longer finite shows nothing.
        exhibits = {} if self.status == "diverged" else self.method.exhibits(self.info, state)
        return Trajectory(*ended, exhibits, action)

    def _action(self, state: State) -> tuple[dict[str, float], list[str]]:
        """The action of the method beside plain training, in numbers by name, and the doubts where
        that was next to nothing."""
        with self.meter.part("evaluation"):
            moved = None
            if self.own.action.views:
                moved = moved_levels(self.method, self.training, self.seed)
        numbers = {**self.own.numbers(), **numbers_of(self.method, state)}
        if moved is not None:
            numbers["moved_grey_levels"] = moved
        return numbers, [
            *self.own.doubts(),
            *number_doubts(numbers, said=bool(self.method.doubts(state))),
        ]

    def answer(
        self,
        sets: Mapping[str, RowSet],
        images: Mapping[str, AttributedDataset],
        *,
        given: bool = False,
    ) -> tuple[dict[str, dict[str, Predictions]], list[str]]:
        """See `Answer`. `given`: the data sets are already as the model takes them. Each distinct
        snapshot predicts once."""
        if not given:
            images = given_sets(images, self.model, self.settings, self.seed)
        if not sets:
            return {rule: {} for rule in self.taken}, []
        rows = {}
        for name, rows_of_set in sets.items():
            dataset = images[rows_of_set.source]
            rows[name] = EvaluationRows(rows_of_set, dataset, self.settings, resident=False)
        self.meter.watch(*rows.values())
        how = predict_adapted if self.method.needs.adapts else predict
        by_step = {step: self._at(step, how, rows) for step in sorted(set(self.taken.values()))}
        lot = smallest_lot(self.method, sets, images)
        lot_doubts = lot_warnings(self.method, lot)
        return {rule: by_step[step] for rule, step in self.taken.items()}, lot_doubts

    def _at(
        self, step: int, how: Callable[..., Predictions], sets: Mapping[str, EvaluationRows]
    ) -> dict[str, Predictions]:
        self.context.load_weights(self.snapshots[step])
        return self._say(how, sets)


_NUMBERS = ("index", "step", "before", "stage_over", "over", "status", "history")


def _share_right(answers: Tensor, labels: Tensor) -> float:
    """The share of rows whose answer is their label, in [0, 1]."""
    return float(torch.eq(answers, labels).double().mean())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain_scores(scores: Mapping[str, Score]) -> dict[str, dict[str, float | None]]:
    """Accuracy and loss of each set as plain values."""
    plain_scores: dict[str, dict[str, float | None]] = {}
    for name, set_score in scores.items():
        accuracy = _finite(set_score.accuracy)
        loss = _finite(set_score.loss)
        plain_scores[name] = {"accuracy": accuracy, "loss": loss}
    return plain_scores
