"""Augmentation by pairs of operations that a search has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Limit, Needs, choose, knob
from crosswind.core.registry import register
from crosswind.methods.base import Method
from crosswind.transforms.base import Transform
from crosswind.transforms.policies import autoaugment

__all__ = ["AutoAugmentTraining"]


@final
@register("autoaugment", kind="augmentation")
@dataclass(frozen=True)
class AutoAugmentTraining(Method):
    """AutoAugment: ERM on pictures that have gone through one of 25 pairs of operations, found by
    search on another data set.

    Objective: min over theta of 1/n sum_i -log p_theta(y_i | T_i(x_i)), T_i drawn anew at every
        visit of a row: a pair of the policy, uniformly, whose two operations are each done with
        their own probability, at their own level, with a drawn sign. The transform "autoaugment"
        has the tables.
    Assumes: the label survives what the policy does, colours inverted or solarised among it, and
        what helped where the policy was searched helps here. Nothing is searched here. Evaluation
        and validation see rows as they are.
    Knobs: policy imagenet; Jeon et al. 2025 take cifar10 for dSprites, Shapes3D and SmallNORB,
        imagenet for all others (table 9), which the study of each says: a method knows no data
        set's name.
    Limits: none, a policy's probabilities are fixed and none leaves every picture as it is.
    Deviations: those of the transform: consecutive geometric operations are resampled once, as is
    told there.
    Reference:
        @inproceedings{cubuk2019autoaugment, title={{AutoAugment}: Learning Augmentation Strategies
        from Data}, author={Cubuk, Ekin D. and Zoph, Barret and Man{\\'e}, Dandelion and Vasudevan,
        Vijay and Le, Quoc V.}, booktitle={CVPR}, year={2019}}
    Checked against: torchvision's functions on Pillow images, one by one, in the transform
    "autoaugment".
    """

    policy: str = knob(
        "imagenet",
        domain="{cifar10, imagenet, svhn}",
        search=choose("cifar10", "imagenet", "svhn"),
        grid={"jeon2025": ["cifar10", "imagenet"]},
        source="Jeon et al. 2025, table 9; Cubuk et al. 2019",
        doc="the data set on which the pairs were searched",
    )

    needs = Needs(channels=(1, 3))
    limit = Limit.none("every policy changes pictures with probabilities that are fixed")
    version = 1
    family = {"wiles2022": "heuristic augmentation", "jeon2025": "heuristic augmentation"}

    def views(self) -> tuple[Transform | None, ...]:
        """The augmented pictures."""
        return (autoaugment.AutoAugment(policy=self.policy),)
