"""Augmentation by operations drawn at random, all of one magnitude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Limit, Needs, choose, knob
from crosswind.core.registry import register
from crosswind.methods.base import Method
from crosswind.transforms.base import Transform
from crosswind.transforms.policies import randaugment

__all__ = ["RandAugmentTraining"]

BINS = 31  # levels of magnitude, as in torchvision


@final
@register("randaugment", kind="augmentation")
@dataclass(frozen=True)
class RandAugmentTraining(Method):
    """RandAugment: ERM on pictures that have gone through `count` operations drawn at random, or
    through one operation alone.

    Objective: min over theta of 1/n sum_i -log p_theta(y_i | T_i(x_i)), T_i drawn anew at every
        visit of a row: `count` operations, each uniform among fourteen (identity, shears,
        translations, rotate, brightness, colour, contrast, sharpness, posterize, solarize,
        autocontrast, equalize) and all at level `magnitude` of 30, with drawn signs. With
        `operations` the name of one, it is always that one: the study of each alone in Wiles et al.
        2022, appendix B.2.
    Assumes: the label survives each operation. Evaluation and validation see rows as they are.
    Knobs: count 3 and magnitude 5, Jeon et al. 2025's for controlled data sets; 2 and 9,
        torchvision's defaults, for their real ones. operations all. For an operation alone, count 1
        does it once; signs are drawn at every visit.
    Limits: at count 0 it is "erm". So it is where the only operation does nothing at its magnitude
        (identity; a translation of less than a pixel), which a run warns of.
    Deviations: those of the transform: consecutive geometric operations are resampled once, as is
    told there.
    Reference:
        @inproceedings{cubuk2020randaugment, title={{RandAugment}: Practical Automated Data
        Augmentation with a Reduced Search Space}, author={Cubuk, Ekin D. and Zoph, Barret and
        Shlens, Jonathon and Le, Quoc V.}, booktitle={NeurIPS}, year={2020}}
    Checked against: torchvision's functions on Pillow images, one by one, in the transform
    "randaugment".
    """

    count: int = knob(
        3,
        domain="[0, 16]",
        search=choose(1, 2, 3),
        grid={"jeon2025": [3, 2]},
        source="Jeon et al. 2025, table 9",
        doc="operations in a row; 0: pictures as they are",
    )
    magnitude: int = knob(
        5,
        domain="[0, 30]",
        search=choose(3, 5, 9, 15),
        grid={"jeon2025": [5, 9]},
        source="Jeon et al. 2025, table 9",
        doc="level of all operations",
    )
    operations: str = knob(
        "all",
        domain=(
            "{all, identity, shear-x, shear-y, translate-x, translate-y, rotate, brightness,"
            " colour, contrast, sharpness, posterize, solarize, autocontrast, equalize}"
        ),
        source="Wiles et al. 2022, appendix B.2",
        doc="all fourteen, or the name of the only one that is done",
    )

    needs = Needs(channels=(1, 3))
    # Whether a translation moves a picture by a pixel depends on its size, so that only a run can
    # tell.
    limit = Limit(
        {"count": 0},
        equals="erm",
        also=[
            {"operations": ["identity"]},
            {
                "operations": [
                    "shear-x",
                    "shear-y",
                    "translate-x",
                    "translate-y",
                    "rotate",
                    "brightness",
                    "colour",
                    "contrast",
                    "sharpness",
                ],
                "magnitude": [0],
            },
            {"operations": ["posterize"], "magnitude": [0, 1, 2, 3]},
        ],
    )
    version = 1
    family = {"wiles2022": "heuristic augmentation", "jeon2025": "heuristic augmentation"}

    def views(self) -> tuple[Transform | None, ...]:
        """The augmented pictures."""
        if self.count == 0:
            return (None,)
        return (
            randaugment.RandAugment(
                count=self.count, magnitude=self.magnitude, bins=BINS, operations=self.operations
            ),
        )
