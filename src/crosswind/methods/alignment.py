"""The training that COS, VICReg and MMD-align share: pairs of rows of two environments, both
classified and their embeddings aligned."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor

from crosswind.core.knobs import knob, log
from crosswind.methods.base import (
    Batch,
    Info,
    Loss,
    Method,
    Modules,
    Partners,
    State,
    aligned_codes,
)
from crosswind.methods.functional import row_losses
from crosswind.transforms.cropping import FlipCrop

if TYPE_CHECKING:
    from crosswind.models.build import Model

__all__ = ["Alignment", "AlignedPairs"]


class AlignedPairs(NamedTuple):
    """The pairs of a batch: `clean` and `other` embeddings [n, d]; which count, bool [n];
    `environment` int64 [n] of the others, of so many `environments`.
    """

    clean: Tensor
    other: Tensor
    counts: Tensor
    environment: Tensor
    environments: int

    def mean(self, values: Tensor) -> Tensor:
        """The mean of `values` [n] over the pairs that count; 0 where none does."""
        # By weights and not by an index: how many count is known to the device alone.
        return torch.where(self.counts, values, 0.0).sum() / self.counts.sum().clamp(min=1)


@dataclass(frozen=True)
class Alignment(Method):
    """The mean cross-entropy of both members of every pair plus weight x how far their embeddings
    are apart, by a subclass.

    `pairs` is "view", "instance" or "class". "view" pairs an image with the same under another
    value of the derived attribute that makes environments. "instance" pairs the same with a random
    crop for either. "class" pairs it with another row of the class. See `Partners`, for which pairs
    are made of a batch.
    """

    weight: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(1e-2, 10.0),
        source="ours; the paper prints none",
        doc="weight of the alignment",
    )
    pairs: str = knob(
        "view",
        domain="{view, instance, class}",
        source="Omran and Schiele 2022, figure 5",
        doc="what the rows of a pair share",
    )
    clean: str | None = knob(
        None,
        source="ours",
        doc="the environment that others are aligned to; null: the first with training rows",
    )
    aligned: list[str] | None = knob(
        None,
        source="Omran and Schiele 2022, table 3",
        doc="the environments that are aligned to it; null: all others",
    )
    crop: float = knob(
        1.0,
        domain="(0, 1]",
        source="ours; Omran and Schiele 2022 crop, at no stated size",
        doc="smallest share of the area in a crop",
    )
    flip: float = knob(0.0, domain="[0, 1]", source="ours", doc="probability of a mirrored image")

    @abstractmethod
    def _apart(self, modules: Modules, pairs: AlignedPairs) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the pairs that count are apart, and parts of it to be logged."""

    def partners(self, info: Info) -> Partners:
        """By the settings; nothing is cropped where nothing would change."""
        crop = (
            None
            if self.crop == 1.0 and self.flip == 0.0
            else FlipCrop(scale=self.crop, flip=self.flip)
        )
        return Partners(self.pairs, self._codes(info)[0], crop)

    def state(self, info: Info) -> State:
        """Which environment is the clean one and which are aligned to it: `clean` and `aligned`,
        bool [e]."""
        clean, aligned = self._codes(info)
        codes = torch.arange(len(info.environment_names))
        return {"clean": codes == clean, "aligned": torch.isin(codes, torch.tensor(aligned))}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        assert batch.pair is not None and batch.environment is not None
        model, (first, second) = (
            cast("Model", modules["model"]),
            (batch.environment, batch.pair.environment),
        )
        features = model.features(
            torch.cat([batch.x, batch.pair.x])
        )  # one pass, so that both share the batch's statistics
        classed = row_losses(model.head(features), torch.cat([batch.y, batch.y])).mean()
        first_half, two = features.chunk(2)
        is_clean = state["clean"][first]
        counts = torch.where(
            is_clean, state["aligned"][second], state["clean"][second] & state["aligned"][first]
        )
        clean, partner = (
            torch.where(is_clean[:, None], *members)
            for members in ((first_half, two), (two, first_half))
        )
        pairs = AlignedPairs(
            clean, partner, counts, torch.where(is_clean, second, first), len(state["clean"])
        )
        apart, own_terms = self._apart(modules, pairs)
        terms = {"classification": classed, "alignment": apart, **own_terms}
        return Loss(
            classed + self.weight * apart, {name: term.detach() for name, term in terms.items()}
        )

    def _codes(self, info: Info) -> tuple[int, list[int]]:
        return aligned_codes(
            info.environment_names, info.environment_counts, self.clean, self.aligned
        )
