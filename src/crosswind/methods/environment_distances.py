"""Methods that align the features of every pair of environments: a base class for them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from crosswind.core.knobs import knob, log
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, State
from crosswind.methods.functional import row_losses

if TYPE_CHECKING:
    from crosswind.models.build import Model

__all__ = ["EnvironmentAlignment"]


@dataclass(frozen=True)
class EnvironmentAlignment(Method):
    """The mean cross-entropy plus `weight` times the mean distance of two environments' features.

    A method adds `_distance` and its knobs.
    """

    weight: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(1e-2, 10.0),
        source="DomainBed",
        doc="weight of the alignment",
    )

    @abstractmethod
    def _distance(self, features: Tensor, environment: Tensor, rows: Tensor) -> Tensor:
        """The mean distance over the pairs of environments in the batch, a scalar that gradients
        flow through.

        `features`: float [n, d], the head's input; `environment`: int64 [n], each in [0, e);
        `rows`: int64 [e], the training rows of each environment.
        """

    def state(self, info: Info) -> State:
        """`environment_rows` int64 [e]: training rows of each environment; a loss needs their
        number without asking the device."""
        return {"environment_rows": torch.tensor(info.environment_counts, dtype=torch.int64)}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        assert batch.environment is not None
        model = cast("Model", modules["model"])
        features = model.features(batch.x)
        classification = row_losses(model.head(features), batch.y).mean()
        distance = self._distance(features, batch.environment, state["environment_rows"])
        terms = {"classification": classification.detach(), "alignment": distance.detach()}
        return Loss(classification + self.weight * distance, terms)
