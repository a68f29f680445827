"""The contract of a method: what it is given, what it gives back, and the hooks that it may
override.

A method computes, the training loop acts: a method builds no optimiser, moves no device, seeds
nothing, reads no file, prints nothing and knows no data set's name. Use the weakest hook that
serves:

    loss         nearly always; a pure function of modules, batch and state
    modules      more networks, changed networks, fresh copies
    optimisers   more than one, or other than the study's
    views        training images are changed at every visit: an augmentation, or several pictures of one row
    partners     every row of a batch has a partner in another environment
    state        tensors that live as long as the run: running weights, a memory per row
    update       more than one descent a step, or alternation
    stage        a later stage depends on an earlier one
    predict      the prediction is not the model's forward pass
    adapt        unlabelled evaluation inputs are used (declared by `needs.adapts`)
    doubts       a run may come out as another method's, which its reader must be told
    measured     how much the method did is a number that its state holds

This module does not import torch, so that `Info` serves planning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from crosswind.core.actions import Action
from crosswind.core.environments import aligned_codes
from crosswind.core.exhibits import Exhibit
from crosswind.core.knobs import Limit, Needs
from crosswind.core.types import InputSpec

if TYPE_CHECKING:
    from torch import Tensor, nn

    from crosswind.models.build import Model
    from crosswind.transforms.base import Transform

__all__ = [
    "Batch",
    "Examples",
    "HeldOut",
    "Info",
    "Loss",
    "MakeModel",
    "Method",
    "Modules",
    "OptimiserSpec",
    "Output",
    "Pair",
    "Partners",
    "Stage",
    "State",
    "RunContext",
    "Unlabelled",
    "aligned_codes",
]

Modules: TypeAlias = "dict[str, nn.Module]"
"""The networks of a run by name, on its device."""
State: TypeAlias = "dict[str, Tensor]"
"""What a method keeps beside its networks, by name, on the run's device."""


@dataclass(frozen=True)
class Info:
    """Facts that a method may know of a run before it starts; plain values.

    `input`: a row as the model takes it. `n_classes`: outputs of the classifier. `n_rows` training
    rows. `group_names`, `environment_names` and `class_names` are in the order of their codes;
    `group_counts[g]`, `environment_counts[e]` and `class_counts[k]` are numbers of training rows, 0
    for a cell that training never shows. `steps` is the largest number of steps of a stage, `lr` and `batch` are the study's.
    """

    input: InputSpec
    n_classes: int
    n_rows: int
    group_names: tuple[str, ...] = ()
    group_counts: tuple[int, ...] = ()
    environment_names: tuple[str, ...] = ()
    environment_counts: tuple[int, ...] = ()
    class_names: tuple[str, ...] = ()
    class_counts: tuple[int, ...] = ()
    steps: int = 0
    batch: int = 128
    lr: float = 1e-3

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of a row as a network takes it: (c, h, w), (length,) or (width,)."""
        return self.input.tensor_shape

    @property
    def n_groups(self) -> int:
        """The number of cells that have a name, with or without training rows."""
        return len(self.group_counts)

    @property
    def steps_per_epoch(self) -> float:
        """Steps in which the batches cover the training rows once."""
        return self.n_rows / self.batch


@dataclass(frozen=True)
class Partners:
    """How each row of a batch gets a partner of its class, one of the two in the environment
    `clean` (its code), the other not.

    A row seen elsewhere has its partner in `clean`; one seen in `clean` has it in another
    environment, drawn as the partner's visits are. No partner is shown where training never shows
    it. A row for which there is none is its own, where it was seen. `by` is `"view"`, the same
    image, both cropped alike; `"instance"`, the same image, each with a crop of its own; or
    `"class"`. `"class"` is another row, drawn evenly from those of the class, or the row itself
    where it is the only one. `crop`: what both members, uint8 images, go through before
    environments are made of them.
    """

    by: str
    clean: int
    crop: Transform | None = None


@dataclass(frozen=True)
class Pair:
    """The partner of every row of a batch, of its class: `x` like the batch's, `ids` int64 [n],
    `environment` int64 [n]."""

    x: Tensor
    ids: Tensor
    environment: Tensor


@dataclass(frozen=True)
class Batch:
    """One batch of training rows.

    `x`: what the model takes; images float [n, c, h, w] in (-1, 1), features float [n, d], texts
    int64 [n, t]. `y` int64 [n], noise included. `ids` int64 [n]: the row's place in the training
    set, in [0, Info.n_rows), the same in every stage; an extra example carries its parent's. A row
    occurs twice where draws are with replacement or the set is smaller than a batch. `group` int64
    [n]: cell; `environment` int64 [n] or None. `pair`: the partners that `Method.partners` asks for.
    `views`: what `Method.views` asks for beyond the
    first, each like `x`. `step` counts from 0 in each stage, `steps` is the stage's length, `epoch`
    is that of the first row, `progress` = step / steps, in [0, 1). `stage` is the stage's name.
    """

    x: Tensor
    y: Tensor
    ids: Tensor
    group: Tensor
    environment: Tensor | None = None
    pair: Pair | None = None
    views: tuple[Tensor, ...] = ()
    step: int = 0
    epoch: int = 0
    progress: float = 0.0
    stage: str = "main"
    steps: int = 0


@dataclass(frozen=True)
class Loss:
    """The value of a loss function.

    `total`: the scalar that is descended, in nats. `terms`: scalars to be logged, without gradient;
    left as tensors, they are read at validation only. `state`: new values of state tensors, put in
    place after the descent.
    """

    total: Tensor
    terms: Mapping[str, Tensor] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class OptimiserSpec:
    """One declared optimiser: the loop builds, steps and checkpoints it.

    `parameters`: what it updates; a parameter may stand in two optimisers. `kind`: `sgd`, `adam` or
    `adamw`. `lr`, `weight_decay`, `momentum`, `betas` and `eps` are torch's. None means the study's
    value. `clip`: largest norm of the gradient over all its parameters. `schedule(step,
    epoch)` multiplies the learning rate, both counted in the stage; None with the study's learning
    rate: the study's schedule.
    """

    parameters: Sequence[nn.Parameter]
    kind: str | None = None
    lr: float | None = None
    weight_decay: float | None = None
    momentum: float | None = None
    betas: tuple[float, float] | None = None
    eps: float | None = None
    clip: float | None = None
    schedule: Callable[[int, int], float] | None = None


@dataclass(frozen=True)
class Examples:
    """Training examples made by a method, added to the training rows of a stage.

    `x` float [m, c, h, w] in (-1, 1) or uint8; `y` int64 [m]; `parents` int64 [m]: the training row
    each was made of, whose group and environment it takes.
    """

    x: Tensor
    y: Tensor
    parents: Tensor


@dataclass(frozen=True)
class Stage:
    """One stage of training.

    `name` keys the random streams: two methods whose stages have the same name see the same
    batches. `start`: `"fresh"`, the networks as at the run's beginning, or `"last"`, as they are.
    The first stage takes them as `stage` leaves them, whatever its `start`. Optimisers always start
    anew, state goes on. `end`: what the stage
    hands on, and the next call of `stage` sees: `"last"`, or `"best"` by in-distribution
    validation, state included. `weights` float [n_rows]: rows are drawn in proportion, with
    replacement. `copies` int64 [n_rows]: how often a row stands in each epoch's permutation.
    `extra`: rows beside them. `steps`: length, None for the study's; 0 where what `stage` did to the
    networks is all. `stop`: whether the stop rule applies; `patience`
    replaces the study's. `validate` False: nothing is measured, as where no classifier is trained
    yet. Selection rules read the last stage.
    """

    name: str = "main"
    start: str = "last"
    end: str = "last"
    weights: Tensor | None = None
    copies: Tensor | None = None
    extra: Examples | None = None
    steps: int | None = None
    stop: bool = True
    patience: int | None = None
    validate: bool = True


@dataclass(frozen=True)
class Output:
    """The answers of a method for n inputs: `logits` float [n, k], or `label` int64 [n] with -1
    where the answer had none.

    `label` is needed where the answer is not the largest logit; `parsed` bool [n] marks the answers
    that could be read.
    """

    logits: Tensor | None = None
    label: Tensor | None = None
    parsed: Tensor | None = None


@dataclass(frozen=True)
class Unlabelled:
    """Evaluation inputs without labels: `n` rows of one evaluation set that share `value` of
    `attribute` (None: the whole set).

    `batches()` yields x of at most the evaluation batch's rows, in a fixed order. There is no
    label, group or environment here, so that none can leak.
    """

    n: int
    batches: Callable[[], Iterator[Tensor]]
    attribute: str | None = None
    value: str | None = None


class MakeModel(Protocol):
    """Builds one more model as the study configures it:
    `make_model(*, n_classes=None, base=False, **knobs)`.

    `n_classes`: outputs, None for the data's. `knobs` replace those of the study's model. The first
    call of a run has the initial weights that every method of the seed starts from, each further
    call others. `base`: the weights of the base run that `needs.base` declares.
    """

    def __call__(self, *, n_classes: int | None = None, base: bool = False, **knobs: Any) -> Model:
        """See the class."""
        ...


class HeldOut(Protocol):
    """The m rows of a validation set that `needs.holdout` declares.

    `y` int64 [m]: classes. `group` int64 [m]: the place of each row's cell in `group_names`. Both on
    the run's device.
    """

    y: Tensor
    group: Tensor
    group_names: tuple[str, ...]

    def inputs(self, rows: Tensor | None = None) -> Tensor:
        """As `RunContext.inputs`, of these rows."""
        ...

    def features(self, rows: Tensor | None = None, *, base: bool = False) -> Tensor:
        """As `RunContext.features`, of these rows."""
        ...


class RunContext(Protocol):
    """The services of the loop for `update` and `stage`.

    `info`: facts of the run. `modules` and `state` are the run's own and change as it goes on. `y`, `group` int64 [n_rows]
    and `environment` int64 [n_rows] or None are the training rows', on the run's device; `holdout`
    is None unless `needs.holdout` declares it; `seed` is for `torch_seed` and `stream` inside
    `stage`; `last` is the stage that has ended, None before the first.
    """

    info: Info
    modules: Modules
    state: State
    y: Tensor
    group: Tensor
    environment: Tensor | None
    holdout: HeldOut | None
    seed: int
    last: Stage | None

    def descend(self, name: str, loss: Callable[[], Loss]) -> Loss:
        """One step of the optimiser `name` down `loss()`; only its parameters get gradients. The
        default one is `"main"`."""
        ...

    def reset(self, name: str) -> None:
        """Forget what the optimiser `name` has gathered."""
        ...

    def inputs(self, rows: Tensor | None = None) -> Tensor:
        """Training inputs as the model takes them, un-augmented, float [m, c, h, w]; None: all."""
        ...

    def predict(self, rows: Tensor | None = None, *, base: bool = False) -> Output:
        """The method's present answers for training rows, or those of the base run's model, in
        evaluation mode; on the CPU."""
        ...

    def features(self, rows: Tensor | None = None, *, base: bool = False) -> Tensor:
        """Features [m, d] of training rows by `modules["model"]` or the base run's model, in
        evaluation mode; on the CPU. They are of the training's precision, so that a run in bfloat16
        has them in bfloat16: `.float()` before numpy."""
        ...


class Method:
    """A way to train a classifier and to predict with it. Subclasses are frozen dataclasses whose
    fields are knobs.

    Every subclass declares `needs`, what it cannot do without; `limit`, the setting at which it
    equals another method, or why there is none; and `version`, raised when it computes other
    numbers. `action`: how a run measures what the method adds to plain training, where that does not
    follow from the limit.
    """

    needs: ClassVar[Needs] = Needs()
    limit: ClassVar[Limit] = Limit.none("abstract")
    action: ClassVar[Action | None] = None
    version: ClassVar[int] = 1

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """Mean cross-entropy of the model's logits."""
        from crosswind.methods.functional import row_losses  # not at the top: it imports torch

        total = row_losses(modules["model"](batch.x), batch.y).mean()
        return Loss(total)

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The networks by name; `"model"` is the classifier unless `predict` says otherwise.

        Parameters that want no gradient here are never saved: they must come out the same whenever
        this is called.
        """
        return {"model": make_model()}

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """The optimisers of a stage by name: one, the study's, over every parameter that wants a
        gradient."""
        parameters = [
            p for module in modules.values() for p in module.parameters() if p.requires_grad
        ]
        main = OptimiserSpec(parameters)
        return {"main": main}

    def views(self) -> tuple[Transform | None, ...]:
        """The transforms of the uint8 images of a training batch: the first gives `batch.x`,
        further ones `batch.views`.

        None leaves the images as they are. Each view of each visit of a row has randomness of its
        own, by row, visit and view. Applied to images of 1 or 3 channels (`InputError` otherwise),
        after the data's own per-visit transforms and before normalisation; never to validation and
        evaluation sets nor to examples that a stage added.
        """
        return (None,)

    def partners(self, info: Info) -> Partners | None:
        """How the rows of a batch get partners, `batch.pair`; None: there are none. Declared by
        `needs.pairs`."""
        return None

    def state(self, info: Info) -> State:
        """Tensors kept beside the weights, saved in checkpoints and with every selected model."""
        return {}

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """One training step; what it gives back is logged."""
        return context.descend("main", lambda: self.loss(context.modules, batch, context.state))

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """The stage that follows `index` finished ones, None when there is no more.

        Called once before each stage, so what it computes from `context` is that of the last one;
        networks are in evaluation mode. It keeps nothing in variables: what a later call needs goes
        into `context.state`, or is in `context.last`.
        """
        return Stage() if index == 0 else None

    def predict(self, modules: Modules, x: Tensor, state: State) -> Output:
        """The answers of the trained method for x [n, ...]. Modules are in evaluation mode and must
        stay as they are."""
        return Output(logits=modules["model"](x))

    def adapt(self, modules: Modules, state: State, data: Unlabelled) -> tuple[Modules, State]:
        """Modules and state to predict `data` with; called where `needs.adapts` is declared, on
        copies that are thrown away."""
        return modules, state

    def switch_steps(self, steps: int) -> tuple[int, ...]:
        """The steps at which the method changes in a run of `steps` steps: see
        `Needs.switch_steps`, which planning asks too."""
        return tuple(self.needs.switch_steps(vars(self), steps).values())

    def exports(self, weights: State) -> dict[str, bytes]:
        """Files for other programs, by name, made of a rule's weights where weights are kept."""
        return {}

    def doubts(self, state: State) -> list[str]:
        """The doubts that a reader of the run's numbers must be told, a sentence each; `state` is
        that at the end of training."""
        return []

    def measured(self, state: State) -> Mapping[str, float]:
        """How much the method did, by name and unit, as `moved_grey_levels`; declared by
        `action.tells`. `state`: at the end."""
        return {}

    def exhibits(self, info: Info, state: State) -> Mapping[str, Exhibit]:
        """The exhibits to look at after training, by name; `state` is that at its end. Reports draw
        it, and no number reads it."""
        return {}
