"""Directions and lengths for rows of numbers, drawn by the key of each row alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosswind.transforms.draws import bits16, normal_quantiles

_STEPS = 1 << 24
"""Of a unit, in which quantiles are rounded."""


def normals(keys: NDArray[np.uint64], width: int) -> NDArray[np.float64]:
    """Standard normal numbers, float64 [n, width]: row i a function of `keys[i]` alone."""
    ranks = bits16(keys, width).numpy()
    quantiles = normal_quantiles(float(_STEPS)).numpy()
    return np.asarray(quantiles[ranks] / _STEPS)


def uniforms64(keys: NDArray[np.uint64], width: int) -> NDArray[np.float64]:
    """Uniform numbers in (0, 1), float64 [n, width]: row i a function of `keys[i]` alone."""
    return np.asarray((bits16(keys, width).numpy() + 0.5) / 65536)
