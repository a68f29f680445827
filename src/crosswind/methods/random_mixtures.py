"""Methods that align two random mixtures of the environments (CausIRL): a base class for them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from crosswind.core.knobs import knob, log
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, RunContext, State
from crosswind.methods.functional import mixtures, row_losses

if TYPE_CHECKING:
    from crosswind.models.build import Model

__all__ = ["MixtureAlignment"]


@dataclass(frozen=True)
class MixtureAlignment(Method):
    """The mean cross-entropy plus `weight` times a distance of two mixtures of the environments,
    drawn anew at every step; see `crosswind.methods.functional.mixtures`.

    A method adds `_distance` and its knobs.
    """

    weight: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(1e-2, 10.0),
        grid={"jeon2025": [0.1, 0.3, 0.5, 1.0]},
        source="DomainBed; Jeon et al. 2025",
        doc="weight of the distance between the mixtures (gamma)",
    )

    @abstractmethod
    def _distance(self, features: Tensor, mixture: Tensor) -> Tensor:
        """The distance of the two mixtures, a scalar that gradients flow through.

        `features`: float [n, d], the head's input; `mixture`: int64 [n], 0 or 1, which of the
        mixtures a row is in.
        """

    def state(self, info: Info) -> State:
        """`environment_rows` int64 [e]: training rows of each environment, of the only one where
        none is declared."""
        environment_rows = torch.tensor(
            info.environment_counts or (info.n_rows,), dtype=torch.int64
        )
        return {"environment_rows": environment_rows}

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """One descent; overridden because a loss that draws is not one of several runs at once."""
        return super().update(context, batch)

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        model = cast("Model", modules["model"])
        features = model.features(batch.x)
        classification = row_losses(model.head(features), batch.y).mean()
        mixture = mixtures(batch.ids, batch.environment, state["environment_rows"])
        distance = self._distance(features, mixture)
        terms = {"classification": classification.detach(), "alignment": distance.detach()}
        return Loss(classification + self.weight * distance, terms)

    def doubts(self, state: State) -> list[str]:
        """One environment makes the mixtures the same distribution."""
        if int((state["environment_rows"] > 0).sum()) > 1:
            return []
        return [
            "all training rows are of one environment, so the mixtures were random halves of it and"
            " no invariance was asked for"
        ]
