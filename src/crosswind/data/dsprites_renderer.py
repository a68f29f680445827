"""The pictures behind dSprites: drawing the three shapes.

It gives how far the shape covers each pixel, 0 to 255, without colour. Drawing uses additions,
products and square roots only, whose results do not depend on the batch: a row has the same bits
alone and among others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# Half the side of the square, the half axes of the ellipse and the unit of the heart at scale 1, in
# 64ths of the picture's side.
SQUARE, ELLIPSE, HEART = 10.5, (14.0, 7.5), 20.0
REACH = 16.0  # no shape reaches further from its centre, in 64ths
ORIENTATIONS = 40


def drawn_covers(
    shape: NDArray[np.integer[Any]],
    scale: NDArray[np.float64],
    orientation: NDArray[np.integer[Any]],
    x: NDArray[np.integer[Any]],
    y: NDArray[np.integer[Any]],
    size: int,
    antialias: bool,
) -> NDArray[np.uint8]:
    """How far the shapes cover the pixels: uint8 [n, size, size], 255 inside, 0 outside.

    `shape` 0 square, 1 ellipse, 2 heart; `scale` in (0, 1]; `orientation` 0-39; `x`, `y` 0-31, all
    [n]. Centres lie half a 64th apart from the grid of 64ths, from 16.5 to 47.5, so that every
    shape is whole.
    """
    n = len(shape)
    pixel = 64.0 / size
    side = min(size, int(np.ceil(2 * (REACH + 1) / pixel)) + 1)
    out = np.zeros((n, size, size), dtype=np.uint8)
    if not n:
        return out
    last = ORIENTATIONS - 1
    angle = (
        2 * np.pi * (np.arange(ORIENTATIONS) % last) / last
    )  # the last is a full turn: the first, to the last bit
    centre_x = x + 16.5
    centre_y = y + 16.5
    left, top = (
        np.clip(np.floor((c - REACH - 1) / pixel), 0, size - side).astype(np.int64)
        for c in (centre_x, centre_y)
    )
    # The shape's own coordinates, in 64ths, are a part by column plus a part by row: one addition a
    # pixel.
    cos = np.cos(angle)[orientation][:, None]
    sin = np.sin(angle)[orientation][:, None]
    steps = np.arange(side) + 0.5
    across = (left[:, None] + steps) * pixel - centre_x[:, None]
    down = (top[:, None] + steps) * pixel - centre_y[:, None]
    terms = []
    for term in (cos * across, sin * down, -sin * across, cos * down):
        terms.append(term.astype(np.float32))
    patches = np.empty((n, side, side), dtype=np.uint8)
    for code, distance in enumerate((_square, _ellipse, _heart)):
        rows = np.flatnonzero(shape == code)
        if not rows.size:
            continue
        ax, ay, bx, by = (term[rows] for term in terms)
        u = ax[:, None, :] + ay[:, :, None]
        v = bx[:, None, :] + by[:, :, None]
        outside = distance(u, v, scale[rows].astype(np.float32)[:, None, None])
        if antialias:
            outside *= np.float32(-255.0 / pixel)
            outside += np.float32(
                128.0
            )  # half covered at the edge, and rounded when it is made an integer
            np.clip(outside, 0, 255, out=outside)
            patches[rows] = outside.astype(np.uint8)
        else:
            patches[rows] = (outside <= 0).astype(np.uint8) * np.uint8(255)
    window = np.arange(side)
    lines_of_window = top[:, None, None] + window[:, None]
    columns_of_window = left[:, None, None] + window
    window_index = (np.arange(n)[:, None, None], lines_of_window, columns_of_window)
    out[window_index] = patches
    return out


def _square(u: Floats, v: Floats, scale: Floats) -> Floats:
    """How far points lie outside the square, negative inside; exact along its sides."""
    np.abs(u, out=u)
    np.abs(v, out=v)
    np.maximum(u, v, out=u)
    u -= np.float32(SQUARE) * scale
    return u


def _ellipse(u: Floats, v: Floats, scale: Floats) -> Floats:
    """How far points lie outside the ellipse, to first order at its edge: (k - 1) k / |gradient|, k
    the length in its axes."""
    a = np.float32(ELLIPSE[0]) * scale
    b = np.float32(ELLIPSE[1]) * scale
    u /= a
    v /= b
    k = np.sqrt(u * u + v * v)
    u /= a
    v /= b
    slope = np.sqrt(u * u + v * v)
    # k / slope lies between the half axes, and is made the smaller one at the centre, where both
    # are 0.
    inside = k - np.float32(1)
    k += np.float32(1e-3) * b
    k /= slope + np.float32(1e-3)
    k *= inside
    return k


def _heart(u: Floats, v: Floats, scale: Floats) -> Floats:
    """How far points lie outside the heart: two half discs on a square that stands on its corner
    (I. Quilez, 2D distances)."""
    unit = np.float32(HEART) * scale
    x = np.abs(u) / unit
    y = np.float32(0.55) - v / unit  # the origin in the middle of the heart, its tip below
    lobe_x = x - np.float32(0.25)
    lobe_y = y - np.float32(0.75)
    lobe = np.sqrt(lobe_x * lobe_x + lobe_y * lobe_y) - np.float32(np.sqrt(2) / 4)
    top = y - np.float32(1)
    along = np.float32(0.5) * np.maximum(x + y, np.float32(0))
    x_along = x - along
    y_along = y - along
    lower = np.sqrt(np.minimum(x * x + top * top, x_along * x_along + y_along * y_along))
    np.copysign(lower, x - y, out=lower)
    return np.asarray(np.where(x + y > 1, lobe, lower) * unit, dtype=np.float32)
