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
    """The n pairs of a batch.

    `clean` float [n, d]: embeddings of the members in the clean environment; `partner` float [n,
    d]: of the others; `counts` bool [n]: whether a pair is aligned; `environment` int64 [n]: that of
    the partners, below `n_environments`. Of a pair that does not count the members may stand either
    way round.
    """

    clean: Tensor
    partner: Tensor
    counts: Tensor
    environment: Tensor
    n_environments: int

    def mean(self, values: Tensor) -> Tensor:
        """The mean of `values` [n] over the pairs that count; 0 where none does."""
        # By weights and not by an index: how many count is known to the device alone.
        total = torch.where(self.counts, values, 0.0).sum()
        return total / self.counts.sum().clamp(min=1)


@dataclass(frozen=True)
class Alignment(Method):
    """The mean cross-entropy of both members of every pair plus weight x the distance of their
    embeddings, which a subclass defines.

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
    def _distance(self, modules: Modules, pairs: AlignedPairs) -> tuple[Tensor, dict[str, Tensor]]:
        """The distance of the pairs that count, a scalar, and its terms, which are logged."""

    def partners(self, info: Info) -> Partners:
        """By the settings; nothing is cropped where nothing would change."""
        clean, _ = self._codes(info)
        changes_nothing = self.crop == 1.0 and self.flip == 0.0
        crop = None if changes_nothing else FlipCrop(scale=self.crop, flip=self.flip)
        return Partners(self.pairs, clean, crop)

    def state(self, info: Info) -> State:
        """Which environment is the clean one and which are aligned to it: `clean` and `aligned`,
        bool [e]."""
        clean, aligned = self._codes(info)
        codes = torch.arange(len(info.environment_names))
        return {"clean": codes == clean, "aligned": torch.isin(codes, torch.tensor(aligned))}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        assert batch.pair is not None and batch.environment is not None
        model = cast("Model", modules["model"])
        # One pass, so that both members share the batch's statistics.
        features = model.features(torch.cat([batch.x, batch.pair.x]))
        labels = torch.cat([batch.y, batch.y])
        classification = row_losses(model.head(features), labels).mean()
        row_features, partner_features = features.chunk(2)
        pairs = _ordered(
            row_features, partner_features, batch.environment, batch.pair.environment, state
        )
        distance, distance_terms = self._distance(modules, pairs)
        terms = {"classification": classification, "alignment": distance, **distance_terms}
        total = classification + self.weight * distance
        return Loss(total, {name: term.detach() for name, term in terms.items()})

    def _codes(self, info: Info) -> tuple[int, list[int]]:
        """The code of the clean environment, and those of the environments aligned to it."""
        return aligned_codes(
            info.environment_names, info.environment_counts, self.clean, self.aligned
        )


def _ordered(
    row_features: Tensor,
    partner_features: Tensor,
    row_environment: Tensor,
    partner_environment: Tensor,
    state: State,
) -> AlignedPairs:
    """Rows and their partners, the clean member of every pair first.

    Features float [n, d], environments int64 [n]; `state`: see `Alignment.state`.
    """
    is_clean, is_aligned = state["clean"], state["aligned"]
    row_is_clean = is_clean[row_environment]
    counts = torch.where(
        row_is_clean,
        is_aligned[partner_environment],
        is_clean[partner_environment] & is_aligned[row_environment],
    )
    return AlignedPairs(
        clean=torch.where(row_is_clean[:, None], row_features, partner_features),
        partner=torch.where(row_is_clean[:, None], partner_features, row_features),
        counts=counts,
        environment=torch.where(row_is_clean, partner_environment, row_environment),
        n_environments=len(is_clean),
    )
