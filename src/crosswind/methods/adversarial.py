"""The training that ADA and ME-ADA share: phases between which adversarial copies of the training
pictures are appended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from crosswind.core.exhibits import Exhibit, Picture
from crosswind.core.knobs import knob, log
from crosswind.methods.base import Examples, Info, Method, RunContext, Stage, State
from crosswind.methods.functional import levels, row_losses
from crosswind.models.build import Model

__all__ = ["Adversarial"]

SHOWN = 6  # pictures of the exhibit
RANKED = 1000  # first training rows, among which those of the exhibit are chosen
LEVELS = 127.5  # grey levels in a unit of inputs in (-1, 1)
LARGER = 8  # times by which the exhibit enlarges what a copy adds
UNMOVED = 0.5  # grey levels below which a copy is the picture itself, as a screen shows it


@dataclass(frozen=True)
class Adversarial(Method):
    """Minimisation phases with a maximisation after each; see `ADA`, whose objective of a copy a
    subclass may extend."""

    phases: int = knob(
        2,
        domain="[0, inf)",
        grid={"jeon2025": [2]},
        source="Zhao et al. 2020; Jeon et al. 2025",
        doc="maximisation phases (K)",
    )
    share: float = knob(
        0.1,
        domain="(0, 1)",
        source="Zhao et al. 2020, CIFAR-10: 10 of 100 epochs",
        doc="length of the minimisation before each, as a share of the run's steps",
    )
    ascent_steps: int = knob(
        15,
        domain="[1, inf)",
        grid={"jeon2025": [15]},
        source="Volpi et al. 2018; Jeon et al. 2025",
        doc="steps of an ascent (T_max)",
    )
    rate: float = knob(
        20.0,
        domain="(0, inf)",
        search=log(1.0, 500.0),
        source="Zhao et al. 2020",
        doc="step size of the ascent on a batch's mean",
    )
    gamma: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(1e-2, 10.0),
        grid={"jeon2025": [1.0]},
        source="Volpi et al. 2018; Jeon et al. 2025",
        doc="weight of the distance",
    )

    def _entropy_weight(self) -> float:
        """The weight of the entropy of a copy's answer."""
        return 0.0

    def state(self, info: Info) -> State:
        """`moved` []: mean distance of the last copies from what they were made of, in units of
        inputs, -1 before there are any.

        `shown` uint8 [6, phases + 1, c, h, w]: pictures of training and their copies of each phase;
        of pictures only.
        """
        state = {"moved": torch.tensor(-1.0)}
        if self.phases and info.input.kind == "image":
            shape = (SHOWN, self.phases + 1, *info.input_shape)
            state["shown"] = torch.zeros(shape, dtype=torch.uint8)
        return state

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """Minimisation phases, then the rest of the run; each after the first on the rows and all
        copies made so far."""
        if index > self.phases:
            return None
        examples = self._appended(index, context) if index else None
        steps = context.info.steps
        even_share = steps // (self.phases + 1)
        phase_steps = min(max(1, round(self.share * steps)), even_share)
        if index < self.phases:
            return Stage(f"phase {index + 1}", extra=examples, steps=phase_steps, stop=False)
        if not self.phases:
            return Stage()
        return Stage(extra=examples, steps=steps - self.phases * phase_steps)

    def _appended(self, index: int, context: RunContext) -> Examples:
        """The copies of the phases before, and one more of every training row and of each of those
        copies."""
        earlier = context.last.extra if context.last else None
        n_rows = len(context.y)
        rows = torch.arange(n_rows, device=context.y.device)
        new_copies, moved = self._new_copies(context, earlier)
        context.state["moved"] = moved.float().to(context.y.device)
        if "shown" in context.state:
            self._show(index, context, new_copies)
        if earlier is None:
            return Examples(new_copies, context.y, rows)
        labels = torch.cat([context.y, earlier.y.to(context.y)])
        parents = torch.cat([rows, earlier.parents.to(rows)])
        return Examples(
            _joined(earlier.x, new_copies),
            _joined(earlier.y, labels),
            _joined(earlier.parents, parents),
        )

    def _new_copies(self, context: RunContext, earlier: Examples | None) -> tuple[Tensor, Tensor]:
        """A copy of every training row, then of each of the `earlier` copies: float32 [n, ...] on
        the CPU; and the mean distance that they were moved, float64 []."""
        n_copies = len(context.y) + (0 if earlier is None else len(earlier.y))
        first_input = context.inputs(torch.arange(1, device=context.y.device))
        # On the CPU: a run may hold several times its training rows.
        new_copies = torch.empty(n_copies, *first_input.shape[1:])
        distance_sum = torch.zeros((), dtype=torch.float64)
        size = context.info.batch
        for start in range(0, n_copies, size):
            x, y = _originals(context, earlier, start, start + size, first_input)
            copies = self._ascended(cast(Model, context.modules["model"]), x, y, size)
            distances = (copies - x).abs().mean(tuple(range(1, x.ndim)))
            distance_sum += distances.double().sum().cpu()
            new_copies[start : start + size] = copies.float().cpu()
        return new_copies, distance_sum / n_copies

    def _ascended(self, model: Model, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """Copies of inputs x [n, ...] with labels y, moved up the objective; each row by itself, in
        steps of rate / `batch`.

        A row whose copy is not all numbers stays as it is.
        """
        with torch.no_grad():
            original_features = model.features(x)
        copies = x.detach()
        for _ in range(self.ascent_steps):
            with torch.enable_grad():
                copies = copies.requires_grad_(True)
                gains = self._gains(model, copies, y, original_features)
                (slope,) = torch.autograd.grad(gains.sum(), copies)
            copies = (copies + (self.rate / batch) * slope).detach()
        # A rate that is far too high drives values beyond numbers, and one of them would end the
        # training.
        is_finite = copies.isfinite().flatten(1).all(1)
        copies = torch.where(is_finite.view(-1, *[1] * (x.ndim - 1)), copies, x)
        return copies.clamp(-1.0, 1.0) if x.ndim == 4 else copies

    def _gains(self, model: Model, copies: Tensor, y: Tensor, original_features: Tensor) -> Tensor:
        """The objective that each copy climbs, [n]: its loss, less gamma times how far its features
        are from `original_features` [n, d], plus the entropy of its answer by its weight."""
        features = model.features(copies)
        logits = model.head(features)
        distances = (features - original_features).square().mean(1)
        gains = row_losses(logits, y) - self.gamma * distances
        if self._entropy_weight():
            log_probabilities = logits.log_softmax(1)
            negative_entropies = (log_probabilities.exp() * log_probabilities).sum(1)
            gains = gains - self._entropy_weight() * negative_entropies
        return gains

    def _show(self, index: int, context: RunContext, copies: Tensor) -> None:
        """Keep the copies of a few rows, and at first the rows themselves; classes in turn."""
        y = context.y[:RANKED]
        rank_in_class = (y[:, None] == y).tril(-1).sum(1)
        rows = (rank_in_class * context.info.n_classes + y).argsort()[:SHOWN]
        shown = context.state["shown"].clone()
        if index == 1:
            shown[: len(rows), 0] = levels(context.inputs(rows))
        shown[: len(rows), index] = levels(copies[rows.cpu()]).to(shown.device)
        context.state["shown"] = shown

    def doubts(self, state: State) -> list[str]:
        """Copies that are the pictures again."""
        moved = float(state["moved"]) * LEVELS
        if "shown" not in state or not 0 <= moved < UNMOVED:
            return []
        return [
            f"the ascent moved pictures by {moved:.2g} grey levels at the mean, so the copies that"
            " it appended are the training rows again; raise `rate` or `ascent_steps`"
        ]

    def exhibits(self, info: Info, state: State) -> Mapping[str, Exhibit]:
        """Pictures of training and what became of them."""
        if "shown" not in state or not bool(state["shown"].any()):
            return {}
        images = state["shown"].cpu().permute(0, 1, 3, 4, 2).numpy()
        if images.shape[4] not in (1, 3):
            return {}
        moved = float(state["moved"]) * LEVELS
        caption = (
            "Pictures of training and their copies of each phase; last what the last copy adds,"
            f" {LARGER} times, grey for nothing. The last copies are {moved:.1f} grey levels of 255"
            " away at the mean."
        )
        change = images[:, -1:].astype(np.int32) - images[:, :1]
        enlarged = (128 + LARGER * change).clip(0, 255).astype(np.uint8)
        columns = [
            "picture",
            *(f"copy {phase + 1}" for phase in range(self.phases)),
            f"change x {LARGER}",
        ]
        sheet = np.concatenate([images, enlarged], 1)
        return {"adversarial copies": Picture.sheet(sheet, caption, columns=columns)}


def _originals(
    context: RunContext, earlier: Examples | None, start: int, stop: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Inputs and labels at positions `start` to `stop` of the training rows followed by the
    `earlier` copies, on the device and in the dtype of the inputs `like`."""
    n_rows = len(context.y)
    inputs, labels = [], []
    if start < n_rows:
        rows = torch.arange(start, min(stop, n_rows), device=context.y.device)
        inputs.append(context.inputs(rows))
        labels.append(context.y[start:stop])
    if earlier is not None and stop > n_rows:
        positions = slice(max(start - n_rows, 0), stop - n_rows)
        inputs.append(earlier.x[positions].to(like))
        labels.append(earlier.y[positions].to(context.y))
    return torch.cat(inputs), torch.cat(labels)


def _joined(earlier: Tensor, later: Tensor) -> Tensor:
    """Two tensors one after the other, on the device and in the dtype of the second."""
    return torch.cat([earlier.to(later), later])
