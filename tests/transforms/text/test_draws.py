"""The random numbers of one text: even, and decided by the key alone."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from crosswind.core.seeds import hash64
from crosswind.transforms.text.draws import Draws, copy_keys


def even(counts: Counter[object], cells: int) -> bool:
    """Whether a chi-squared statistic lies within 5 standard deviations of what even counts
    give."""
    total = sum(counts.values())
    chi = sum((count - total / cells) ** 2 for count in counts.values()) / (total / cells)
    chi += (cells - len(counts)) * total / cells
    return chi <= cells - 1 + 5 * (2 * (cells - 1)) ** 0.5


def test_the_key_alone_decides() -> None:
    first = [Draws(7).below(1000) for _ in range(3)]
    assert first == [first[0]] * 3
    draws = Draws(7)
    assert [draws.below(1 << 64) for _ in range(200)] != [Draws(8).below(1 << 64)] * 200
    assert (
        Draws(-1).below(1 << 64)
        == Draws(2**64 - 1).below(1 << 64)
        == Draws(np.uint64(2**64 - 1)).below(1 << 64)
    )


def test_neighbouring_keys_share_no_sequence() -> None:
    """Also where keys differ by the hash's own step, under which one sequence would be the other's,
    begun later."""
    step = 0x9E3779B97F4A7C15
    keys = [0, 1, 2, step, 2 * step % 2**64, 2**63]
    words = {
        key: {draws.below(1 << 64) for draws in [Draws(key)] for _ in range(300)} for key in keys
    }
    assert all(len(found) == 300 for found in words.values())
    assert len(set().union(*words.values())) == 300 * len(keys)


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 37])
def test_whole_numbers_are_even(bound: int) -> None:
    """Over one sequence, and over the first number of many."""
    draws = Draws(1)
    along = Counter(draws.below(bound) for _ in range(4000))
    across = Counter(Draws(key).below(bound) for key in range(1000))
    assert set(along) == set(across) == set(range(bound))
    assert even(along, bound) and even(across, bound)


def test_uniform_numbers() -> None:
    draws = Draws(3)
    found = np.array([draws.uniform() for _ in range(5000)])
    assert found.min() >= 0 and found.max() < 1
    assert found.mean() == pytest.approx(0.5, abs=5 / np.sqrt(12 * 5000))
    assert even(Counter((found * 16).astype(int).tolist()), 16)


def test_orders_are_even_and_without_repeats() -> None:
    orders = Counter(tuple(Draws(key).distinct(4, 4)) for key in range(2400))
    assert set(orders) == set(permutations(range(4)))
    assert even(orders, 24)
    pairs = Counter(tuple(Draws(key).distinct(2, 5)) for key in range(2000))
    assert set(pairs) == set(permutations(range(5), 2))
    assert even(pairs, 20)
    assert sorted(Draws(0).distinct(9, 5)) == list(range(5))
    assert Draws(0).distinct(0, 5) == Draws(0).distinct(3, 0) == []


def test_keys_of_copies() -> None:
    ids = np.array([5, 3, 900, 2**40])
    keys = copy_keys(ids, 2, 11)
    assert keys.dtype == np.uint64
    assert np.array_equal(keys[::-1], copy_keys(ids[::-1], 2, 11))
    assert np.array_equal(keys[1:2], copy_keys(ids[1:2], 2, 11))
    many = [copy_keys(np.arange(500), copy, seed) for copy in range(12) for seed in range(2)]
    assert len(np.unique(np.concatenate(many))) == 12 * 2 * 500
    assert not set(many[0].tolist()) & set(hash64(np.arange(500), 0).tolist())
