"""The augmentation that ImageNet classifiers are trained with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from crosswind.core.knobs import Limit, Needs, choose, knob, linear
from crosswind.core.registry import register
from crosswind.methods.base import Batch, Loss, Method, Modules, State
from crosswind.methods.functional import row_losses
from crosswind.transforms.draws import hashed, uniforms
from crosswind.transforms.geometry import CROP_DRAWS, crop_boxes, resized_crop
from crosswind.transforms.photometry import jitter, jitter_parameters

__all__ = ["ImageNet"]


@final
@register("imagenet", kind="augmentation")
@dataclass(frozen=True)
class ImageNet(Method):
    """ImageNet augmentation: ERM on random crops, mirrored half of the time, with jittered brightness, contrast and saturation.

    Objective: min over theta of 1/n sum_i -log p_theta(y_i | T_i(x_i)), T_i drawn anew at every visit of a row: a box of a random
        share of the area in [scale, 1] and random shape in [3/4, 4/3], resized to the image's size; a flip left to right; factors
        in [1 - jitter, 1 + jitter] of brightness, contrast and saturation, in random order.
    Assumes: the label survives all this. It does not where a mirrored or cut picture is of another class. Hue is left alone, since
        colour is an attribute here. Evaluation and validation see rows as they are.
    Knobs: scale 0.08, the ImageNet recipe's and that of the controlled data sets in Jeon et al. 2025; 0.3 for their real ones.
        flip 0.5. jitter 0.4. The grids are those two values of scale; nothing else was searched.
    Limits: at scale 1, flip 0 and jitter 0 it is "erm" (for images whose sides are as 4 to 3 at most; longer ones are cropped).
    Deviations: the pictures are floats between the steps, where the recipe rounds to 256 levels after each. Crop and flip are one
        resampling. Parameters are drawn in steps of 1/65536.
    Reference:
        @inproceedings{he2016deep, title={Deep Residual Learning for Image Recognition}, author={He, Kaiming and Zhang, Xiangyu
        and Ren, Shaoqing and Sun, Jian}, booktitle={CVPR}, year={2016}}
    Checked against: torchvision's functions, each image on its own with the same parameters.
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
        0.5, domain="[0, 1]", search=choose(0.0, 0.5), source="He et al. 2016", doc="probability of a mirrored image"
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
    version = 1
    family = {"wiles2022": "heuristic augmentation", "jeon2025": "heuristic augmentation"}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        return Loss(row_losses(modules["model"](self.augmented(batch.x, batch.ids)), batch.y).mean())

    def augmented(self, x: Tensor, ids: Tensor) -> Tensor:
        """The pictures [n, c, h, w] in (-1, 1) under transforms drawn from torch's generator and each row's place `ids` int64 [n].

        The same row has the same transform wherever it stands in the batch; one that stands there twice has two.
        """
        earlier = (ids[:, None] == ids).tril(-1).sum(1)
        keys = hashed(ids + (earlier << 40), int(torch.randint(1 << 62, ()).item()))
        drawn = uniforms(keys, CROP_DRAWS + 7)
        boxes = crop_boxes(drawn[:, :CROP_DRAWS], (x.shape[2], x.shape[3]), (self.scale, 1.0), (3 / 4, 4 / 3))
        x = resized_crop(x, boxes, drawn[:, CROP_DRAWS] < self.flip)
        factors, order = jitter_parameters(drawn[:, CROP_DRAWS + 1 :], (self.jitter,) * 3)
        return jitter((x + 1) / 2, factors, order) * 2 - 1
