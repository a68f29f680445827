"""Whether a method does what it is for: how much of a run's loss, and of its gradient, is the
method's own.

Released implementations of several methods come out as plain training, and so may a run whose own
term is too small to matter. At a few steps of a run its loss and gradient are taken twice. One is
as the method has them, one at the setting at which its own term is gone (`Action.idle`), with the
same weights, rows and random numbers. The difference is what the method adds. Nothing is moved: a
run with looks has the bits of one without. A look costs two gradients; once one has found a share
of `IDLE_SHARE`, there are no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from crosswind.core.actions import IDLE_SHARE, Action, action_of
from crosswind.data.derive import training_keys
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, Output, Stage, State
from crosswind.methods.functional import wide
from crosswind.training.predicting import autocast
from crosswind.training.run_context import LoopContext
from crosswind.training.settings import TrainingSettings

if TYPE_CHECKING:
    from crosswind.training.loader import EvaluationRows

__all__ = [
    "MOST_LOOKS",
    "SPAN",
    "STEPS_A_LOOK",
    "OwnAction",
    "declared_action",
    "look_steps",
    "moved_levels",
]

MAIN = "main"
"""The optimiser of what answers."""
MOST_LOOKS, LEAST_LOOKS = 8, 2
"""Looks at a stage, beside that before its first validation."""
STEPS_A_LOOK = 200
"""Steps of a stage for each look above the least: two gradients in so many are a hundredth of its
time."""
SPAN = "look at the method's own term"
"""What a look is called in a trace, which else would show it as part of a training step."""
PICTURES = 64
"""Training pictures by which augmentations are measured."""


class Share(NamedTuple):
    """One look: the step, counted in its stage, and the method's own share of the loss and of the
    gradient, in [0, inf)."""

    step: int
    loss: float
    gradient: float


def declared_action(method: Method) -> Action:
    """How a run of this method measures its action; see `action_of`."""
    hooks = []
    for name, value in vars(Method).items():
        if callable(value) and not name.startswith("_"):
            hooks.append(name)
    overridden = [
        name for name in hooks if getattr(type(method), name) is not getattr(Method, name)
    ]
    return action_of(
        str(getattr(method, "registered_name", "")), method.action, method.limit, overridden
    )


def look_steps(length: int, first: int, switches: Sequence[int] = ()) -> list[int]:
    """The steps of a stage of `length` steps before which a run looks, in order.

    The last before the validation at step `first`, so that a run that stops early has one. Evenly
    spread ones up to the last. And those at which the method changes.
    """
    if length < 1:
        return []
    n_looks = min(max(length // STEPS_A_LOOK, LEAST_LOOKS), MOST_LOOKS)
    spread = [round((number + 1) * (length - 1) / n_looks) for number in range(n_looks)]
    return sorted({min(first, length) - 1, *spread, *(step for step in switches if step < length)})


class OwnAction:
    """The looks of one run. `shares`: those so far, read from the device at validations."""

    def __init__(
        self, method: Method, info: Info, context: LoopContext, settings: TrainingSettings
    ) -> None:
        self.action = declared_action(method)
        self.shares: list[Share] = []
        self._method = method
        self._context = context
        self._settings = settings
        self._switches = method.switch_steps(info.steps)
        self._without: Method | None = (
            replace(method, **self.action.idle)  # type: ignore[type-var]
            if self.action.idle
            else None
        )
        self._steps: set[int] = set()
        self._waiting: list[tuple[int, Tensor]] = []

    @property
    def settled(self) -> bool:
        """Whether a look has found that the method does something, after which nothing is looked
        at."""
        return any(max(share.loss, share.gradient) >= IDLE_SHARE for share in self.shares)

    def begin(self, length: int, validate_every: int) -> None:
        """A stage of `length` steps begins, or goes on."""
        looks = self._without is not None and self._context.has_optimiser(MAIN)
        if looks:
            self._steps = set(look_steps(length, validate_every, self._switches))
        else:
            self._steps = set()

    def due(self, step: int) -> bool:
        """Whether to look before this step of the stage."""
        return step in self._steps and not self.settled

    def look(self, batch: Batch, number: int) -> None:
        """Take both losses and gradients on a batch, with `number` as the seed of all that is
        drawn; the run is left as it is."""
        assert self._without is not None
        with torch.profiler.record_function(SPAN):
            with _untouched(self._context.modules, self._settings.device):
                total, slopes = self._taken(self._method, dict(self._context.state), batch, number)
            if self.action.anew:
                state = self._begun(self._without)
            else:
                state = dict(self._context.state)
            with _untouched(self._context.modules, self._settings.device):
                loss_without, slopes_without = self._taken(self._without, state, batch, number)
            self._waiting.append((batch.step, _shares(total, slopes, loss_without, slopes_without)))

    def settle(self) -> None:
        """Read what was looked at from the device, which the loop does where it waits for it
        anyway."""
        for step, shares in self._waiting:
            loss, gradient = shares.tolist()
            if math.isfinite(loss) and math.isfinite(gradient):
                self.shares.append(Share(step, loss, gradient))
        self._waiting = []

    def _begun(self, method: Method) -> State:
        state = method.state(self._context.info)
        return {name: value.to(self._settings.device) for name, value in state.items()}

    def _taken(
        self, method: Method, state: State, batch: Batch, number: int
    ) -> tuple[Tensor, list[Tensor]]:
        torch.default_generator.manual_seed(number)
        if torch.device(self._settings.device).type == "cuda":
            torch.cuda.manual_seed_all(number)
        taken = _Taken(self._context, state, batch, self._settings)
        loss = method.update(taken, batch)
        return loss.total.detach(), taken.slopes()

    # -- what it comes to
    # ----------------------------------------------------------------------------------------------

    def save(self) -> list[list[float]]:
        """The state for `restore`, as plain numbers."""
        return [list(share) for share in self.shares]

    def restore(self, saved: Sequence[Sequence[float]]) -> None:
        """Go on from what `save` gave."""
        self.shares = [Share(int(step), loss, gradient) for step, loss, gradient in saved]

    def numbers(self) -> dict[str, float]:
        """The action of the method in numbers, by name: its largest shares of loss and gradient,
        and at how many steps they were looked for."""
        if not self.shares:
            return {}
        largest = {}
        for name in ("loss", "gradient"):
            largest[f"share_of_{name}"] = max(getattr(share, name) for share in self.shares)
        return {
            **largest,
            "looks": float(len(self.shares)),
        }  # no time: the same run has the same numbers

    def doubts(self) -> list[str]:
        """That the method's own term was next to nothing, where it was so at every look."""
        if not self.shares or self.settled:
            return []
        # Without numbers of the run, so that a report can say of how many runs it is so; the
        # numbers stand in its table.
        at_most = f"{IDLE_SHARE:.0%} of the loss and of the gradient"
        return [
            f"its own term stayed below {at_most} wherever it was looked at: this run is as it"
            f" would be at {self.action.setting()}"
        ]


def moved_levels(method: Method, images: EvaluationRows, seed: int) -> float | None:
    """How far the views of a method move training pictures, in grey levels at the mean; None where
    it has none, or no pictures."""
    views = [view for view in method.views() if view is not None]
    rows = images.rows.rows
    if not views or images.dataset.check_inputs().kind != "image" or not len(rows):
        return None
    positions = np.unique(np.linspace(0, len(rows) - 1, PICTURES).round().astype(np.int64))
    x = images.images(positions)
    keys = training_keys(positions, np.zeros_like(positions), seed)
    moved = [(view(x, keys).float() - x.float()).abs().mean() for view in views]
    return float(torch.stack(moved).mean())


class _Taken:
    """The stand-in for the loop in `update`: a descent leaves its gradient here and moves
    nothing."""

    last: Stage | None

    def __init__(
        self, context: LoopContext, state: State, batch: Batch, settings: TrainingSettings
    ) -> None:
        self.info = context.info
        self.modules = context.modules
        self.state = state
        self.batch = batch
        self.y = context.y
        self.group = context.group
        self.environment = context.environment
        self.holdout = context.holdout
        self.seed = context.seed
        self.last = context.last
        self._context = context
        self._settings = settings
        self._places = {
            id(parameter): number for number, parameter in enumerate(context.parameters(MAIN))
        }
        self._slopes = [torch.zeros_like(parameter) for parameter in context.parameters(MAIN)]

    def descend(self, name: str, loss: Callable[[], Loss]) -> Loss:
        """See `RunContext.descend`."""
        parameters = self._context.parameters(name)
        with autocast(self._settings):
            loss_terms = loss()
        slopes = torch.autograd.grad(loss_terms.total, parameters, allow_unused=True)
        self.state.update({key: value.detach() for key, value in loss_terms.state.items()})
        moved = [
            (id(parameter), slope)
            for parameter, slope in zip(parameters, slopes, strict=True)
            if slope is not None
        ]
        own_slopes = [(self._places[key], slope) for key, slope in moved if key in self._places]
        if not own_slopes:
            return loss_terms
        # An optimiser of its own takes steps of its own size, whatever the weight of its loss: they
        # count as much as the others.
        scale = (
            1.0
            if name == MAIN
            else _norm(self._slopes) / _norm([slope for _, slope in own_slopes]).clamp(min=1e-30)
        )
        for number, slope in own_slopes:
            self._slopes[number] = self._slopes[number] + scale * slope
        return loss_terms

    def slopes(self) -> list[Tensor]:
        """The gradient in the parameters of what answers."""
        return self._slopes

    def reset(self, name: str) -> None:
        """See `RunContext.reset`; nothing was gathered."""

    def inputs(self, rows: Tensor | None = None) -> Tensor:
        """See `RunContext.inputs`."""
        return self._context.inputs(rows)

    def predict(self, rows: Tensor | None = None, *, base: bool = False) -> Output:
        """See `RunContext.predict`."""
        return self._context.predict(rows, base=base)

    def features(self, rows: Tensor | None = None, *, base: bool = False) -> Tensor:
        """See `RunContext.features`."""
        return self._context.features(rows, base=base)


@contextmanager
def _untouched(modules: Modules, device: str) -> Iterator[None]:
    """Put back what a pass changes without a step: running statistics, and the generators of random
    numbers."""
    buffers = [buffer for module in modules.values() for buffer in module.buffers()]
    saved = [buffer.clone() for buffer in buffers]
    cuda = torch.device(device).type == "cuda"
    drawn = torch.default_generator.get_state()
    drawn_there: Any = torch.cuda.get_rng_state(device) if cuda else None
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(buffers, saved, strict=True):
                buffer.copy_(value)
        torch.default_generator.set_state(drawn)
        if cuda:
            torch.cuda.set_rng_state(drawn_there, device)


def _shares(
    total: Tensor, slopes: Sequence[Tensor], other: Tensor, others: Sequence[Tensor]
) -> Tensor:
    """The shares of the difference in the larger loss, and in the longer gradient, float32 [2]; 0
    where nothing differs."""
    apart = [wide(slope) - wide(two) for slope, two in zip(slopes, others, strict=True)]
    loss = wide(total)
    without = wide(other)
    of_loss = torch.maximum(loss.abs(), without.abs())
    of_slopes = torch.maximum(_norm(slopes), _norm(others))
    pairs = (((loss - without).abs(), of_loss), (_norm(apart), of_slopes))
    return torch.stack(
        [
            torch.where(difference == 0, difference, difference / larger).float()
            for difference, larger in pairs
        ]
    )


def _norm(parts: Sequence[Tensor]) -> Tensor:
    """The length of a gradient, at least float32."""
    norms = torch.stack([torch.linalg.vector_norm(wide(slope)) for slope in parts])
    return torch.linalg.vector_norm(norms)
