"""Normal noise on every number of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.vectors.draws import normals


@final
@register("jitter", kind="vector-transform")
@dataclass(frozen=True)
class Jitter(Transform):
    """Normal noise on every number of a row, of one deviation or in units of each column's.

    A number becomes x + scale x deviation of its column x z, with z standard normal. Without
    `deviations` the scale is that of the numbers themselves. A deviation of 0 leaves a column as
    it is, as the inputs of a category want; a missing number stays missing. It is ours: the paper
    of neighbourhood invariance changes images and texts, and vectors along a sphere.
    """

    takes = "features"
    strengths = ("scale", (0.01, 0.03, 0.1, 0.3, 1.0))

    scale: float = knob(0.1, domain="(0, inf)", doc="deviation of the noise, times `deviations`")
    deviations: list[float] | None = knob(
        None, domain="[0, inf)", doc="standard deviation of each column; left out: 1 for all"
    )

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """See `Transform.check_shape`."""
        if self.deviations is not None and len(self.deviations) != shape[0]:
            count = len(self.deviations)
            problem = f"needs a number for each of the {shape[0]} columns of a row, not {count}"
            raise InputError(f"{self.title}.deviations", problem)

    def apply(self, vectors: NDArray[np.float64], keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """See the class."""
        deviations = 1.0 if self.deviations is None else np.array(self.deviations)
        noise = normals(keys, vectors.shape[1])
        return np.asarray(vectors + self.scale * deviations * noise)
