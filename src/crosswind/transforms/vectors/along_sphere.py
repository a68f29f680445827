"""Moves along the sphere about 0 that a row of numbers lies on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import hash64, seed_of
from crosswind.transforms.base import Transform
from crosswind.transforms.vectors.draws import normals, uniforms64


@final
@register("along-sphere", kind="vector-transform")
@dataclass(frozen=True)
class AlongSphere(Transform):
    """A row moves along the sphere about 0 that it lies on, in a random direction, and keeps its
    length.

    At a straight distance c of at most `reach`, or of the sphere's diameter. In m numbers c is
    reach x U^(1 / (m - 1)): such points are even on the cap, up to its curvature, a share of about
    (reach / length)^2. With `distances: even` c is even from 0 to reach. A row of length 0 stays;
    missing numbers stay missing, and the sphere is that of the others.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 5.1, which does not say how its distances are drawn.
    """

    takes = "features"
    strengths = ("reach", (0.003, 0.01, 0.03, 0.1, 0.3))

    reach: float = knob(
        0.01,
        domain="(0, inf)",
        source="Ng et al. 2022, section 5.1",
        doc="the largest straight distance from the row",
    )
    distances: str = knob(
        "cap",
        domain="{cap, even}",
        doc="cap: even over the reachable points; even: from 0 to reach",
    )

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """See `Transform.check_shape`."""
        if shape[0] < 2:
            problem = "moves rows of two numbers or more along a sphere, and these have one"
            raise InputError(self._whose, problem)

    def apply(self, vectors: NDArray[np.float64], keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """See the class."""
        self.check_shape(vectors.shape[1:])
        is_missing = np.isnan(vectors)
        filled = np.where(is_missing, 0.0, vectors)
        length = _lengths(filled)
        unit = filled / np.where(length > 0, length, 1)
        along = np.where(is_missing, 0.0, normals(keys, vectors.shape[1]))
        along -= (along * unit).sum(axis=1, keepdims=True) * unit
        size = _lengths(along)
        # A row with one number that is not missing has no direction to go in.
        along /= np.where(size > 1e-9, size, np.inf)
        chord = np.minimum(self.reach, 2 * length) * self._shares(keys, is_missing)
        # Of the angle a of a chord c: sin(a / 2) is c / 2 r, so that cos(a) is 1 - c^2 / 2 r^2.
        half_sine = chord / np.where(length > 0, 2 * length, np.inf)
        step = chord * np.sqrt(1 - half_sine**2)
        moved = (1 - 2 * half_sine**2) * filled + step * along
        is_still = (size <= 1e-9) | (length == 0) | is_missing
        return np.where(is_still, vectors, moved)

    def _shares(
        self, keys: NDArray[np.uint64], is_missing: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """The distance of each row as a share of the largest, float64 [n, 1]."""
        uniform = uniforms64(hash64(keys, seed_of(0, "distances")), is_missing.shape[1])
        if self.distances == "even":
            return uniform[:, :1]
        # The largest of m - 1 uniform numbers has the law of U^(1 / (m - 1)), and no power whose
        # last bit depends on the processor.
        is_free = ~is_missing
        is_free &= np.cumsum(is_free, axis=1) > 1
        return np.asarray(np.where(is_free, uniform, 0).max(axis=1, keepdims=True))


def _lengths(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Euclidean length of each row, float64 [n, 1]."""
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=1, keepdims=True)))
