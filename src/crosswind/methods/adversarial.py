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
        out = {"moved": torch.tensor(-1.0)}
        if self.phases and info.input.kind == "image":
            out["shown"] = torch.zeros(SHOWN, self.phases + 1, *info.input_shape, dtype=torch.uint8)
        return out

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """Minimisation phases, then the rest of the run; each after the first on the rows and all
        copies made so far."""
        if index > self.phases:
            return None
        extra = self._appended(index, context) if index else None
        steps = context.info.steps
        each = min(max(1, round(self.share * steps)), steps // (self.phases + 1))
        if index < self.phases:
            return Stage(f"phase {index + 1}", extra=extra, steps=each, stop=False)
        return Stage(extra=extra, steps=steps - self.phases * each) if self.phases else Stage()

    def _appended(self, index: int, context: RunContext) -> Examples:
        """The copies made so far, and one more of every row and of each of them."""
        n, before = len(context.y), context.last.extra if context.last else None
        rows = torch.arange(n, device=context.y.device)
        like = context.inputs(rows[:1])
        n_copies = n if before is None else n + len(before.y)
        # On the CPU: a run may hold several times its training rows.
        new_copies = torch.empty(n_copies, *like.shape[1:])
        moved = torch.zeros((), dtype=torch.float64)
        size = context.info.batch
        for start in range(0, n_copies, size):
            chunks = (
                [
                    (
                        context.inputs(rows[start : min(start + size, n)]),
                        context.y[start : start + size],
                    )
                ]
                if start < n
                else []
            )
            if before is not None and start + size > n:
                positions = slice(max(start - n, 0), start + size - n)
                chunks.append((before.x[positions].to(like), before.y[positions].to(context.y)))
            x, y = (torch.cat([chunk[member] for chunk in chunks]) for member in (0, 1))
            copies = self._ascended(cast(Model, context.modules["model"]), x, y, size)
            moved += (copies - x).abs().mean(tuple(range(1, x.ndim))).double().sum().cpu()
            new_copies[start : start + size] = copies.float().cpu()
        context.state["moved"] = (moved / n_copies).float().to(context.y.device)
        parents = rows if before is None else torch.cat([rows, before.parents.to(rows)])
        if "shown" in context.state:
            self._show(index, context, new_copies)
        y = context.y if before is None else torch.cat([context.y, before.y.to(context.y)])
        all_copies = (
            (new_copies, y, parents)
            if before is None
            else (_both(before.x, new_copies), _both(before.y, y), _both(before.parents, parents))
        )
        return Examples(*all_copies)

    def _ascended(self, model: Model, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """Copies of inputs x [n, ...] with labels y, moved up the objective; each row by itself, in
        steps of rate / `batch`.

        A row whose copy is not all numbers stays as it is.
        """
        with torch.no_grad():
            features_held = model.features(x)
        copies = x.detach()
        for _ in range(self.ascent_steps):
            with torch.enable_grad():
                copies = copies.requires_grad_(True)
                features = model.features(copies)
                logits = model.head(features)
                gains = row_losses(logits, y) - self.gamma * (
                    features - features_held
                ).square().mean(1)
                if self._entropy_weight():
                    log_probabilities = logits.log_softmax(1)
                    gains = gains - self._entropy_weight() * (
                        log_probabilities.exp() * log_probabilities
                    ).sum(1)
                (slope,) = torch.autograd.grad(gains.sum(), copies)
            copies = (copies + (self.rate / batch) * slope).detach()
        # A rate that is far too high drives values beyond numbers, and one of them would end the
        # training.
        copies = torch.where(
            copies.isfinite().flatten(1).all(1).view(-1, *[1] * (x.ndim - 1)), copies, x
        )
        return copies.clamp(-1.0, 1.0) if x.ndim == 4 else copies

    def _show(self, index: int, context: RunContext, copies: Tensor) -> None:
        """Keep the copies of a few rows, and at first the rows themselves; classes in turn."""
        y = context.y
        rank = (
            (y[:, None] == y).tril(-1).sum(1)
            if len(y) <= 1000
            else (y[:1000, None] == y[:1000]).tril(-1).sum(1)
        )
        rows = (rank * context.info.n_classes + y[: len(rank)]).argsort()[:SHOWN]
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
        added = 128 + LARGER * (images[:, -1:].astype(np.int32) - images[:, :1])
        images = np.concatenate([images, added.clip(0, 255).astype(np.uint8)], 1)
        columns = [
            "picture",
            *(f"copy {phase + 1}" for phase in range(self.phases)),
            f"change x {LARGER}",
        ]
        return {"adversarial copies": Picture.sheet(images, caption, columns=columns)}


def _both(before: Tensor, after: Tensor) -> Tensor:
    return torch.cat([before.to(after), after])
