"""What the corruptions share: severity, the two tables of constants, and the file that ImageNet-C was kept in."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import knob
from crosswind.transforms.base import Transform

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SMALL_BELOW", "Corruption"]

SMALL_BELOW = 64  # pixels a side: smaller images take the constants made for CIFAR-10

T = TypeVar("T")


@dataclass(frozen=True)
class Corruption(Transform):
    """A corruption of ImageNet-C."""

    severity: int = knob(3, domain="[1, 5]", source="Hendrycks and Dietterich 2019", doc="1 weak to 5 strong")
    constants: str = knob(
        "auto", domain="{auto, imagenet, cifar}", doc="which table of constants; auto: cifar where a side is under 64 pixels"
    )
    jpeg_quality: int | None = knob(
        None, domain="[1, 95]", doc="compress the result as ImageNet-C's files were (85 there), null: leave it as it is in memory"
    )

    strengths: ClassVar[tuple[str, tuple[Any, ...]] | None] = ("severity", (1, 2, 3, 4, 5))

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """The corrupted images, compressed if `jpeg_quality` says so."""
        out = self.corrupted(x, keys)
        if self.jpeg_quality is not None:
            from crosswind.transforms.corruptions.compression import through_jpeg

            out = through_jpeg(out, self.jpeg_quality)
        return out

    @abstractmethod
    def corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """The corrupted images of uint8 ones [n, c, h, w], n > 0: a new uint8 tensor."""

    def constant(self, imagenet: tuple[T, T, T, T, T], cifar: tuple[T, T, T, T, T], x: Tensor) -> T:
        """The entry of the table that fits the images, at this severity."""
        small = min(x.shape[2:]) < SMALL_BELOW if self.constants == "auto" else self.constants == "cifar"
        return (cifar if small else imagenet)[self.severity - 1]
