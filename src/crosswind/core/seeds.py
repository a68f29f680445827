"""Randomness as an argument: named streams, stable hashes of row ids, keyed permutations.

Nothing here has state. Every stage of a run draws from `stream(seed, "stage name", ...)`, so a stage that draws once more
changes nothing in another stage. Torch generators are seeded with `torch_seed` of the same names.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["hash64", "permuted", "seed_of", "stream", "torch_seed"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def seed_of(seed: int, *names: object) -> int:
    """A 64-bit unsigned integer that depends on `seed` and every name, and on nothing else (not on PYTHONHASHSEED)."""
    text = "\x1f".join([str(int(seed)), *(str(name) for name in names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def stream(seed: int, *names: object) -> np.random.Generator:
    """The random generator of one stage: same seed and names, same draws."""
    return np.random.Generator(np.random.PCG64(seed_of(seed, *names)))


def torch_seed(seed: int, *names: object) -> int:
    """The seed of a torch generator for one stage, in [0, 2**63)."""
    return seed_of(seed, "torch", *names) >> 1


def hash64(ids: NDArray[np.integer], key: int) -> NDArray[np.uint64]:
    """A well-mixed 64-bit hash of every integer id under `key` (SplitMix64's finaliser, Steele et al. 2014).

    `ids`: any integer dtype, any shape. Distinct ids have distinct hashes under one key (the finaliser is a bijection).
    """
    with np.errstate(over="ignore"):
        z = ids.astype(np.uint64) * _GOLDEN + np.uint64(key & 0xFFFFFFFFFFFFFFFF)
        z ^= z >> np.uint64(30)
        z *= _MIX1
        z ^= z >> np.uint64(27)
        z *= _MIX2
        z ^= z >> np.uint64(31)
    return z


def permuted(positions: NDArray[np.integer], sizes: NDArray[np.integer], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where each position goes under a keyed random permutation of range(size): many small draws without loops.

    `positions`, `sizes`, `keys`: int or uint64 [n], one permutation per (size, key), 0 <= position < size < 2**62.
    For one size and key, distinct positions have distinct images in range(size), and the images of 0..k-1 are a uniform-looking
    draw of k without replacement whose first j are the draw of j: draws nest. Cost O(n), whatever the sizes.

    A balanced Feistel network over the next even power of two, walking until the image falls inside (Black & Rogaway 2002).
    """
    sizes = np.asarray(sizes).astype(np.int64)
    out = np.asarray(positions).astype(np.int64).copy()
    if out.size == 0:
        return out
    half_bits = np.zeros(out.shape, dtype=np.uint64)
    biggest = int(sizes.max())
    bits = 1
    while (1 << (2 * bits)) < biggest:
        bits += 1
    for b in range(1, bits + 1):
        half_bits[(sizes > (1 << (2 * (b - 1)))) | (b == 1)] = b
    keys = np.asarray(keys).astype(np.uint64)
    todo = np.arange(out.size)
    value = out.astype(np.uint64)
    while todo.size:
        moved = _feistel(value[todo], half_bits[todo], keys[todo])
        value[todo] = moved
        todo = todo[moved >= sizes[todo].astype(np.uint64)]
    return value.astype(np.int64)


def _feistel(value: NDArray[np.uint64], half: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = value >> half, value & mask
    with np.errstate(over="ignore"):
        for turn in range(12):  # fewer leave pairs uneven in domains of 3 to 16
            mixed = (right + np.uint64(1)) * _GOLDEN + keys + np.uint64(turn) * _MIX1
            mixed ^= mixed >> np.uint64(30)
            mixed *= _MIX1
            mixed ^= mixed >> np.uint64(27)
            mixed *= _MIX2
            mixed ^= mixed >> np.uint64(31)
            left, right = right, left ^ (mixed & mask)
    return (left << half) | right
