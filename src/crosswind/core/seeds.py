"""Randomness as an argument: named streams, stable hashes of row ids, keyed permutations.

Nothing here has state. Every stage of a run draws from `stream(seed, "stage name", ...)`, so a
stage that draws once more changes nothing in another stage. Torch generators are seeded with
`torch_seed` of the same names.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def seed_of(seed: int, *names: object) -> int:
    """A 64-bit unsigned integer that depends on `seed` and every name, and on nothing else (not on
    PYTHONHASHSEED)."""
    text = "\x1f".join([str(int(seed)), *(str(name) for name in names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def stream(seed: int, *names: object) -> np.random.Generator:
    """The random generator of one stage: same seed and names, same draws."""
    return np.random.Generator(np.random.PCG64(seed_of(seed, *names)))


def torch_seed(seed: int, *names: object) -> int:
    """The seed of a torch generator for one stage, in [0, 2**63)."""
    return seed_of(seed, "torch", *names) >> 1


def hash64(ids: NDArray[np.integer], key: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A well-mixed 64-bit hash of every integer id under `key` (SplitMix64's finaliser, Steele et
    al. 2014).

    `ids`: any integer dtype, any shape; an array of keys is broadcast against them. Distinct ids
    have distinct hashes under one key (the finaliser is a bijection).
    """
    with np.errstate(over="ignore"):
        z = ids.astype(np.uint64) * _GOLDEN + np.uint64(key & 0xFFFFFFFFFFFFFFFF)
        z ^= z >> np.uint64(30)
        z *= _MIX1
        z ^= z >> np.uint64(27)
        z *= _MIX2
        z ^= z >> np.uint64(31)
    return z


def permuted(
    positions: NDArray[np.integer], sizes: NDArray[np.integer], keys: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Where each position goes under a keyed random permutation of range(size): many small draws
    without loops.

    `positions`, `sizes`, `keys`: int or uint64 [n], one permutation per (size, key), 0 <= position
    < size < 2**62.
    For one size and key, distinct positions have distinct images in range(size). The images of
    0..k-1 are a uniform-looking draw of k without replacement, whose first j are the draw of j:
    draws nest. Cost O(n), whatever the sizes.

    A Feistel network over the smallest rectangle that holds the range, its rounds adding modulo the
    sides, walking until the image falls inside (Black and Rogaway 2002). A rectangle near the
    square leaves next to nothing to walk over; a power of two would leave up to three quarters.
    Ranges to 256 take 16 rounds, larger ones 8: fewer leave triples uneven in ranges of 5 and 6,
    and pairs in ranges near 40.
    """
    value = np.asarray(positions).astype(np.uint64)
    if value.size == 0:
        return value.astype(np.int64)
    bounds = np.asarray(sizes).astype(np.uint64)
    keys = np.asarray(keys).astype(np.uint64)
    small = bounds <= np.uint64(256)
    if small.all() or not small.any():
        return _walk(value, bounds, keys, 16 if small[0] else 8).astype(np.int64)
    for chosen, rounds in ((small, 16), (~small, 8)):
        value[chosen] = _walk(value[chosen], bounds[chosen], keys[chosen], rounds)
    return value.astype(np.int64)


def _walk(
    value: NDArray[np.uint64], bounds: NDArray[np.uint64], keys: NDArray[np.uint64], rounds: int
) -> NDArray[np.uint64]:
    rows = np.ceil(np.sqrt(bounds)).astype(np.uint64)
    columns = (bounds + rows - np.uint64(1)) // rows
    value = _feistel(value, rows, columns, keys, rounds)
    todo = np.flatnonzero(value >= bounds)
    while todo.size:
        moved = _feistel(value[todo], rows[todo], columns[todo], keys[todo], rounds)
        value[todo] = moved
        todo = todo[moved >= bounds[todo]]
    return value


def _feistel(
    value: NDArray[np.uint64],
    rows: NDArray[np.uint64],
    columns: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    rounds: int,
) -> NDArray[np.uint64]:
    row = value // columns
    column = value - row * columns
    mixed = np.empty_like(value)
    spare = np.empty_like(value)
    with np.errstate(over="ignore"):
        for turn in range(rounds):
            source, target, side = (column, row, rows) if turn % 2 == 0 else (row, column, columns)
            np.add(source, np.uint64(1), out=mixed)
            mixed *= _GOLDEN
            mixed += keys
            mixed += np.uint64(turn) * _MIX1
            np.right_shift(mixed, np.uint64(30), out=spare)
            mixed ^= spare
            mixed *= _MIX1
            np.right_shift(mixed, np.uint64(27), out=spare)
            mixed ^= spare
            mixed *= _MIX2
            mixed >>= np.uint64(32)
            mixed *= side
            mixed >>= np.uint64(32)
            target += mixed
            np.subtract(target, side, out=spare)  # wraps round to a huge number where target < side
            np.minimum(target, spare, out=target)
    return row * columns + column
