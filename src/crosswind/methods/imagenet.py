"""The augmentation that ImageNet classifiers are trained with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Limit, Needs, choose, knob, linear
from crosswind.core.registry import register
from crosswind.methods.base import Method
from crosswind.transforms import cropping
from crosswind.transforms.base import Transform

__all__ = ["ImageNetAugmentation"]


@final
@register("imagenet", kind="augmentation")
@dataclass(frozen=True)
class ImageNetAugmentation(Method):
    """ImageNet augmentation: ERM on random crops, mirrored half of the time, with jittered
    brightness, contrast and saturation.

    Objective: min over theta of 1/n sum_i -log p_theta(y_i | T_i(x_i)), T_i drawn anew at every
        visit of a row: a box of a random share of the area in [scale, 1] and random shape in [3/4,
        4/3], resized to the image's size; a flip left to right; factors in [1 - jitter, 1 + jitter]
        of brightness, contrast and saturation, in random order.
    Assumes: the label survives all this. It does not where a mirrored or cut picture is of another
        class. Hue is left alone, since colour is an attribute here. Evaluation and validation see
        rows as they are.
    Knobs: scale 0.08, the ImageNet recipe's and that of the controlled data sets in Jeon et al.
        2025; 0.3 for their real ones. flip 0.5. jitter 0.4. The grids are those two values of
        scale; nothing else was searched.
    Limits: at scale 1, flip 0 and jitter 0 it is "erm" (for images whose sides are as 4 to 3 at
    most; longer ones are cropped).
    Deviations: parameters are drawn in steps of 1/65536, by row and visit: the same row has the
        same picture at a visit whatever the batch it falls into.
    Reference:
        @inproceedings{he2016deep, title={Deep Residual Learning for Image Recognition}, author={He,
        Kaiming and Zhang, Xiangyu and Ren, Shaoqing and Sun, Jian}, booktitle={CVPR}, year={2016}}
    Checked against: torchvision's functions on Pillow images, one by one, in the transform
    "imagenet".
    """

    scale: float = knob(
        0.08,
        domain="(0, 1]",
        search=choose(0.08, 0.3),
        grid={"jeon2025": [0.08, 0.3]},
        source="Szegedy et al. 2015",
        doc="smallest share of the area that a crop keeps",
    )
    flip: float = knob(
        0.5,
        domain="[0, 1]",
        search=choose(0.0, 0.5),
        source="He et al. 2016",
        doc="probability of a mirrored image",
    )
    jitter: float = knob(
        0.4,
        domain="[0, 1]",
        search=linear(0.0, 0.8),
        source="torchvision's ImageNet recipe",
        doc="largest change of the factors of brightness, contrast and saturation",
    )

    needs = Needs(channels=(1, 3))
    limit = Limit({"scale": 1.0, "flip": 0.0, "jitter": 0.0}, equals="erm")
    version = 2
    family = {"wiles2022": "heuristic augmentation", "jeon2025": "heuristic augmentation"}

    def views(self) -> tuple[Transform | None, ...]:
        """The augmented pictures."""
        return (cropping.ImageNet(scale=self.scale, flip=self.flip, jitter=self.jitter),)
