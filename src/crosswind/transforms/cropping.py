"""Parts of pictures blown up to the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.colour import JITTER_DRAWS, jitter, jitter_draws
from crosswind.transforms.draws import uniforms
from crosswind.transforms.geometry import CROP_DRAWS, crop_boxes, resized_crop
from crosswind.transforms.layout import on_device

__all__ = ["FlipCrop", "ImageNet"]


@dataclass(frozen=True)
class _Crop(Transform):
    scale: float = knob(0.08, domain="(0, 1]", source="Szegedy et al. 2015", doc="smallest share of the area that a crop keeps")
    flip: float = knob(0.5, domain="[0, 1]", source="He et al. 2016", doc="probability of a mirrored image")
    narrowest: float = knob(3 / 4, domain="(0, 10]", source="Szegedy et al. 2015", doc="smallest width / height of a crop")
    widest: float = knob(4 / 3, domain="(0, 10]", source="Szegedy et al. 2015", doc="largest width / height of a crop")

    strengths: ClassVar[tuple[str, tuple[Any, ...]] | None] = ("scale", (0.9, 0.7, 0.5, 0.3, 0.08))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.narrowest > self.widest:
            raise InputError(f"{self.title}.narrowest", f"must be at most {self.widest:g} (the widest), not {self.narrowest:g}")

    def cropped(self, x: Tensor, drawn: Tensor) -> Tensor:
        """The crops of uint8 images, by uniform numbers [n, CROP_DRAWS + 1 or more]."""
        size = (x.shape[2], x.shape[3])
        boxes = crop_boxes(drawn[:, :CROP_DRAWS], size, (self.scale, 1.0), (self.narrowest, self.widest))
        return resized_crop(x, boxes, drawn[:, CROP_DRAWS].double() < self.flip)


@register("flip-crop", kind="transform")
@dataclass(frozen=True)
class FlipCrop(_Crop):
    """A box of random size and shape, resized to the whole image, mirrored left to right half of the time.

    The box's share of the area is uniform in [scale, 1], the logarithm of width / height in those of [narrowest, widest]; one that
    does not fit is drawn again, ten times at most. Colour images on the CPU get the levels of torchvision's `resized_crop`
    on Pillow images but for one in a hundred; grey ones, and other devices, are rounded once instead of twice (a fifth of the
    levels differ, by one nearly always).
    Reference: Szegedy et al., Going Deeper with Convolutions, CVPR 2015, section 6; as in torchvision's RandomResizedCrop.
    """

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        return self.cropped(x, uniforms(keys, CROP_DRAWS + 1, x.device))


@register("imagenet", kind="transform")
@dataclass(frozen=True)
class ImageNet(_Crop):
    """ImageNet's augmentation: a crop as of `flip-crop`, then brightness, contrast, saturation and hue jittered in random order.

    The factors are uniform in [1 - jitter, 1 + jitter], the turn of hue in [-hue, hue] of a full circle; by default hue stays.
    Each step is torchvision's ColorJitter on Pillow images, to the level. `hue_model: matrix` is another, faster model: hue turns
    the colour differences of YIQ, and the whole jitter is one matrix a sample, rounded once (see `crosswind.transforms.colour`).
    Reference: He, Zhang, Ren and Sun, Deep Residual Learning for Image Recognition, CVPR 2016; torchvision's ColorJitter.
    """

    jitter: float = knob(
        0.4, domain="[0, 1]", source="torchvision's ImageNet recipe", doc="largest change of the factors of the three adjustments"
    )
    hue: float = knob(0.0, domain="[0, 0.5]", doc="largest turn of hue, as a share of a full circle")
    hue_model: str = knob("exact", domain="{exact, matrix}", doc="the jitter step by step, or as one matrix with hue turned in YIQ")

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        # Drawn on the host, which says what is done to whom: the device need not be asked.
        drawn = uniforms(keys, CROP_DRAWS + 1 + JITTER_DRAWS, torch.device("cpu"))
        x = self.cropped(x, on_device(drawn[:, : CROP_DRAWS + 1], x.device))
        amounts, order = jitter_draws(drawn[:, CROP_DRAWS + 1 :], (self.jitter, self.jitter, self.jitter, self.hue))
        return jitter(x, amounts, order, self.hue_model)
