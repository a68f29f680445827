"""Pictures moved about: rotated, translated, sheared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.draws import uniforms
from crosswind.transforms.geometry import affine
from crosswind.transforms.matrices import rotation, shear, translation

__all__ = ["Rotate", "Shear", "Translate"]


@register("rotate", kind="transform")
@dataclass(frozen=True)
class Rotate(Transform):
    """Rotates images about their middle, counter-clockwise, within their frame; what comes from outside is `fill`.

    `draw` says which angle: `uniform` in [-degrees, degrees]; `multiples`, a multiple of `step` from `step` to `degrees`, each as
    likely (Omran and Schiele 2022: step 18, degrees 90); `fixed`, `degrees` itself. Right angles are exact: every pixel of a
    square image is one of the original, whatever the interpolation. Checked against: torchvision's `rotate` on Pillow images,
    nearest to the pixel, bilinear to one level (Pillow cuts levels downwards, here they are rounded).
    """

    degrees: float = knob(30.0, domain="[-360, 360]", doc="the angle, or the largest that is drawn")
    draw: str = knob("uniform", domain="{uniform, multiples, fixed}", doc="how each image's angle is drawn")
    step: float = knob(18.0, domain="(0, 360]", source="Omran and Schiele 2022", doc="with multiples: what they are multiples of")
    interpolation: str = knob("bilinear", domain="{nearest, bilinear}", doc="how values between pixels are found")
    fill: int = knob(0, domain="[0, 255]", doc="the level outside the image")

    strengths: ClassVar[tuple[str, tuple[Any, ...]] | None] = ("degrees", (10.0, 20.0, 30.0, 60.0, 90.0))

    def angles(self, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """The angle of each image in degrees."""
        if self.draw == "fixed":
            return np.full(len(keys), self.degrees)
        drawn = _uniform(keys, 1)[:, 0]
        if self.draw == "uniform":
            return self.degrees * (2 * drawn - 1)
        # A little more, so that 5 times 18 degrees count as 90 whatever the rounding.
        choices = max(1, int(abs(self.degrees) / self.step + 1e-9))
        return np.copysign(self.step * (1 + np.floor(drawn * choices)), self.degrees)

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        return affine(x, rotation(self.angles(keys), (x.shape[2], x.shape[3])), self.fill, self.interpolation)


@register("translate", kind="transform")
@dataclass(frozen=True)
class Translate(Transform):
    """Moves images by whole pixels; what comes from outside is `fill`.

    `draw` says how far: `uniform`, to each side and to either with the same chance, at most by `horizontal` times the width and
    `vertical` times the height; `fixed`, by just as much to the right and down (negative: to the left and up). Fractions of a
    pixel are rounded. Checked against: torchvision's `affine` on Pillow images, to the pixel.
    """

    horizontal: float = knob(0.1, domain="[-1, 1]", source="Ng et al. 2022", doc="share of the width")
    vertical: float = knob(0.1, domain="[-1, 1]", source="Ng et al. 2022", doc="share of the height")
    draw: str = knob("uniform", domain="{uniform, fixed}", doc="how far each image is moved")
    fill: int = knob(0, domain="[0, 255]", doc="the level outside the image")

    strengths: ClassVar[tuple[str, tuple[Any, ...]] | None] = ("horizontal", (0.05, 0.1, 0.2, 0.3, 0.5))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        drawn = np.ones((len(keys), 2)) if self.draw == "fixed" else 2 * _uniform(keys, 2) - 1
        far = np.rint(drawn * (self.horizontal * x.shape[3], self.vertical * x.shape[2]))
        return affine(x, translation(far[:, 0], far[:, 1]), self.fill)


@register("shear", kind="transform")
@dataclass(frozen=True)
class Shear(Transform):
    """Shears images about their middle; what comes from outside is `fill`.

    `horizontal` is the angle by which upright lines lean, `vertical` that of level lines: `uniform`, each up to the knob's value to
    either side; `fixed`, just as much, positive: the lower part to the left, the right part up. Where both are used, lines are
    sheared first. Checked against: torchvision's `affine(shear=)` on Pillow images, nearest to the pixel.
    """

    horizontal: float = knob(15.0, domain="[-80, 80]", source="Ng et al. 2022", doc="degrees by which upright lines lean")
    vertical: float = knob(0.0, domain="[-80, 80]", doc="degrees by which level lines lean")
    draw: str = knob("uniform", domain="{uniform, fixed}", doc="how far each image is sheared")
    interpolation: str = knob("nearest", domain="{nearest, bilinear}", doc="how values between pixels are found")
    fill: int = knob(0, domain="[0, 255]", doc="the level outside the image")

    strengths: ClassVar[tuple[str, tuple[Any, ...]] | None] = ("horizontal", (5.0, 10.0, 15.0, 30.0, 45.0))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """See the class."""
        size = (x.shape[2], x.shape[3])
        drawn = np.ones((len(keys), 2)) if self.draw == "fixed" else 2 * _uniform(keys, 2) - 1
        # The tangent of an angle of 16 bits, rounded far above the last bit: the same wherever the sample stands in the batch.
        angles: NDArray[np.float64] = np.radians(drawn * (self.horizontal, self.vertical))
        leaning = np.asarray(np.round(np.tan(angles), 12), dtype=np.float64)
        return affine(x, shear(leaning[:, 0], leaning[:, 1], size), self.fill, self.interpolation)


def _uniform(keys: NDArray[np.uint64], count: int) -> NDArray[np.float64]:
    return uniforms(keys, count).double().numpy()
