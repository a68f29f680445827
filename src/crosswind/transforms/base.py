"""What a transform is: a frozen set of knobs that changes a batch of images, each sample by randomness of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import knobs_of, resolve

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Transform"]


@dataclass(frozen=True)
class Transform(ABC):
    """A change of images. Its fields are knobs, checked when it is made (`InputError`).

    A call is a pure function: the same image, knobs and key give the same bits, alone or in any batch.
    """

    strengths: ClassVar[tuple[str, tuple[Any, ...]] | None] = None
    """The knob that says how strong the transform is, and values of it from weak to strong, as a contact sheet shows them."""

    random: ClassVar[bool] = True
    """Whether the result depends on the key; False where the same image always becomes the same picture."""

    def __post_init__(self) -> None:
        knobs = knobs_of(type(self))
        values: dict[str, Any] = {item.name: getattr(self, item.name) for item in knobs}
        for key, value in resolve(knobs, values, self.title, f"transform {self.title!r}").items():
            object.__setattr__(self, key, value)

    @property
    def title(self) -> str:
        """The registered name."""
        return getattr(type(self), "registered_name", type(self).__name__)

    @final
    def __call__(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """The changed images: a new tensor of the shape, dtype, device and memory layout of `x`, which stays as it is.

        `x`: [n, c, h, w], c 1 (grey) or 3 (red, green, blue), any h and w, also n = 0; uint8, or floats in [0, 1], which are
        rounded to the 256 levels of uint8 first. `keys`: uint64 [n], the randomness of each sample. Raises `InputError`.
        """
        import torch

        whose = f"transform {self.title!r}"
        if x.ndim != 4 or x.shape[1] not in (1, 3) or not (x.dtype == torch.uint8 or x.is_floating_point()):
            shape = f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
            raise InputError(whose, f"needs images of 1 or 3 channels, uint8 or float [n, c, h, w], not {shape}")
        if len(keys) != len(x):
            raise InputError(whose, f"needs one key for each of {len(x)} images, not {len(keys)}")
        if x.numel() == 0:
            return x.clone()
        if x.dtype == torch.uint8:
            return self._in_layout_of(x, self.apply(x, keys))
        low, high = x.aminmax()
        if not (low >= 0 and high <= 1):
            raise InputError(whose, f"needs float images in [0, 1], not in [{low:g}, {high:g}]")
        changed = self.apply(x.mul(255).round_().to(torch.uint8), keys)
        return self._in_layout_of(x, changed.to(x.dtype).div_(255))

    @abstractmethod
    def apply(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """The changed images of uint8 ones [n, c, h, w], n > 0: a new uint8 tensor of the same shape; called by `__call__` only."""

    def _in_layout_of(self, x: Tensor, out: Tensor) -> Tensor:
        import torch

        last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        return out.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
