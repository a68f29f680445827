"""Pixels of three bytes as words."""

from __future__ import annotations

import numpy as np
import pytest

from crosswind.transforms.words import fits, pixels_of, words_of


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (5, 1), (9, 4)])
def test_words_hold_the_pixels_they_are_made_of(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    if not fits(pixels):
        pytest.skip("bytes are in another order here")
    before = pixels.copy()
    words = np.ascontiguousarray(words_of(pixels))
    assert words.shape == size and np.array_equal(words & 255, pixels[:, :, 0])
    assert np.array_equal(pixels_of(words[::-1].copy()), pixels[::-1])
    assert np.array_equal(pixels, before)
    assert not fits(pixels[:, :, :1])
