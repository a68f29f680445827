"""Pixels of three bytes, channels side by side, as words of four bytes: one of them is moved in
place of three bytes with gaps."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Words = NDArray[np.uint32]


def fits(pixels: Pixels) -> bool:
    """Whether pixels [h, w, c] can be seen as words here."""
    return pixels.shape[-1] == 3 and sys.byteorder == "little"


def words_of(pixels: Pixels) -> Words:
    """Every pixel of [h, w, 3], without gaps, with the byte after it: a view [h, w] of a copy, whose
    words overlap."""
    height, width, _ = pixels.shape
    padded = np.empty(pixels.size + 1, np.uint8)
    padded[:-1] = pixels.reshape(-1)
    return np.ndarray((height, width), np.uint32, padded, 0, (3 * width, 3))


def pixels_of(words: Words) -> Pixels:
    """The first three bytes of every word [h, w]: new, [h, w, 3]; writes to `words`, which lie
    without gaps."""
    height, width = words.shape
    # The byte after a pixel is made that of its neighbour: then words that overlap may be written
    # in any order.
    flat = words.reshape(-1)
    flat &= np.uint32(0xFFFFFF)
    flat[:-1] |= flat[1:] << 24
    out = np.empty(3 * words.size + 1, np.uint8)
    np.ndarray(words.shape, np.uint32, out, 0, (3 * width, 3))[...] = words
    return out[:-1].reshape(height, width, 3)
