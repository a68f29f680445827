"""The parts that the corruptions share: severity, the two tables of constants, and the JPEG files
that ImageNet-C was kept in."""

from __future__ import annotations

import io
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.knobs import knob
from crosswind.transforms.base import Transform
from crosswind.transforms.layout import on_device, planes

SMALL_BELOW = 64  # pixels a side: smaller images take the constants made for CIFAR-10

T = TypeVar("T")


@dataclass(frozen=True)
class Corruption(Transform):
    """A corruption of ImageNet-C."""

    severity: int = knob(
        3, domain="[1, 5]", source="Hendrycks and Dietterich 2019", doc="1 weak to 5 strong"
    )
    constants: str = knob(
        "auto",
        domain="{auto, imagenet, cifar}",
        doc="which table of constants; auto: cifar where a side is under 64 pixels",
    )
    jpeg_quality: int | None = knob(
        None,
        domain="[1, 95]",
        doc=(
            "compress the result as ImageNet-C's files were (85 there), null: leave it as it is in"
            " memory"
        ),
    )

    strengths = ("severity", (1, 2, 3, 4, 5))
    by_planes: ClassVar[bool] = True
    """Whether the images are laid out plane by plane first."""

    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """The corrupted images, compressed if `jpeg_quality` says so."""
        out = self._corrupted(planes(x) if self.by_planes else x, keys)
        if self.jpeg_quality is None:
            return out
        return through_jpeg(out, self.jpeg_quality)

    @abstractmethod
    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """The corrupted images, new, of uint8 ones [n, c, h, w], n > 0, that lie by planes where
        `by_planes` says so."""

    def constant(self, tables: tuple[tuple[T, T, T, T, T], tuple[T, T, T, T, T]], x: Tensor) -> T:
        """The entry for this severity of the table, ImageNet's or CIFAR's, that fits the images."""
        return tables[self._is_small(x)][self.severity - 1]

    def _is_small(self, x: Tensor) -> bool:
        if self.constants == "auto":
            return min(x.shape[2:]) < SMALL_BELOW
        return self.constants == "cifar"


class FixedCorruption(Corruption):
    """A corruption that draws nothing."""

    random = False


def through_jpeg(x: Tensor, quality: int) -> Tensor:
    """Images uint8 [n, c, h, w] as they come out of JPEG files of this `quality` (1 to 95; Pillow,
    4:2:0), one by one."""
    from PIL import Image

    # All at once: picture by picture Pillow would copy each line of one that lies by planes anew.
    pixels = np.ascontiguousarray(x.permute(0, 2, 3, 1).cpu().numpy())
    out = np.empty_like(pixels)
    size = (x.shape[3], x.shape[2])
    mode = "RGB" if x.shape[1] == 3 else "L"
    for i, image in enumerate(pixels):
        file = io.BytesIO()
        Image.frombuffer(mode, size, image, "raw", mode, 0, 1).save(file, "JPEG", quality=quality)
        # Straight to the decoder: opening a file whose size and colours are known takes a fifth of
        # the whole.
        read = Image.frombytes(mode, size, file.getvalue(), "jpeg", mode, "")
        out[i] = np.asarray(read).reshape(image.shape)
    return on_device(out, x.device).permute(0, 3, 1, 2)
