"""What a transform is: a frozen set of knobs that changes a batch of images, each sample by randomness of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import knobs_of, resolve

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Transform"]


@dataclass(frozen=True)
class Transform(ABC):
    """A change of images. Its fields are knobs, checked when it is made (`InputError`).

    A call is a pure function: the same image, knobs and key give the same bits, alone or in any batch, on any device.
    """

    def __post_init__(self) -> None:
        name = getattr(type(self), "registered_name", type(self).__name__)
        knobs = knobs_of(type(self))
        values: dict[str, Any] = {item.name: getattr(self, item.name) for item in knobs}
        for key, value in resolve(knobs, values, name, f"transform {name!r}").items():
            object.__setattr__(self, key, value)

    @abstractmethod
    def __call__(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """The changed images: a new uint8 [n, c, h, w] on the device of `x`, which stays as it is. `keys`: uint64 [n]."""
