"""Random numbers for one text: a sequence of whole numbers that its key alone decides; and how many
edits a rate stands for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosswind.core.seeds import hash64, seed_of

_BLOCK, _FIRST, _TEXTS = 64, 32, 1024
"""Numbers made at a time; the first of a text among many; texts whose first are made at once."""
_STREAM = seed_of(0, "text draws")


class Draws:
    """The random numbers of one text, in the order in which they are asked for.

    Number j is a hash of the key and j (`core.seeds.hash64`): nothing else decides it, no generator
    and no other text.
    """

    def __init__(self, key: int) -> None:
        """`key`: any whole number, of which the lower 64 bits count."""
        bits = np.array([int(key) & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
        # Hashed once more: numbers under two keys that differ by the hash's own step would be one
        # sequence, begun at two places.
        self._begin(int(hash64(bits, _STREAM)[0]), [])

    @classmethod
    def of(cls, keys: NDArray[np.uint64]) -> list[Draws]:
        """Those of many texts. The first numbers of all are made at once, in a third of the
        time."""
        streams = []
        stream_keys = hash64(np.asarray(keys), _STREAM)
        for start in range(0, len(stream_keys), _TEXTS):
            chunk = stream_keys[start : start + _TEXTS]
            for key, first in zip(
                chunk.tolist(),
                hash64(np.arange(_FIRST)[None], chunk[:, None]).tolist(),
                strict=True,
            ):
                draws = cls.__new__(cls)
                draws._begin(key, first)
                streams.append(draws)
        return streams

    def _begin(self, key: int, first: list[int]) -> None:
        self._key = key
        self._made = len(first)
        self._at = 0
        self._block = first

    def below(self, bound: int) -> int:
        """A whole number of range(bound), each equally likely to within bound / 2**64; bound >
        0."""
        return (self._word() * bound) >> 64

    def uniform(self) -> float:
        """A number in [0, 1), a multiple of 2**-53."""
        return (self._word() >> 11) * 2.0**-53

    def distinct(self, count: int, bound: int) -> list[int]:
        """`count` different whole numbers of range(bound) in random order; all of them where there
        are fewer."""
        # Fisher and Yates's shuffle, of which only the places that were touched are kept: two of a
        # thousand cost two steps.
        moved: dict[int, int] = {}
        out = []
        for position in range(min(count, bound)):
            swapped = position + self.below(bound - position)
            out.append(moved.get(swapped, swapped))
            moved[swapped] = moved.get(position, position)
        return out

    def _word(self) -> int:
        if self._at == len(self._block):
            ids = np.arange(self._made, self._made + _BLOCK)
            self._block = hash64(ids, self._key).tolist()
            self._at = 0
            self._made = self._made + _BLOCK
        self._at += 1
        return self._block[self._at - 1]


def copy_keys(ids: NDArray[np.integer], copy: int, seed: int) -> NDArray[np.uint64]:
    """The keys of the `copy`-th changed copy of texts: uint64 [n], by seed, row id and copy number,
    and nothing else.

    `ids`: int64 [n], the stable ids of the rows.
    """
    # Ids and copies are small whole numbers: each is hashed before they meet, or their sums would
    # collide.
    row = hash64(np.asarray(ids), seed_of(seed, "text rows"))
    return hash64(row ^ np.uint64(seed_of(seed, "text copies", copy)), seed_of(seed, "text keys"))


def edits(rate: float, count: int) -> int:
    """How many of `count` tokens a rate stands for: max(1, floor(rate x count)), as the code of Wei
    and Zou (2019) has it.

    0 for a rate of 0 and for no tokens. A product that is whole but for rounding counts as whole:
    0.29 x 100 is 29.
    """
    if rate == 0 or count == 0:
        return 0
    return min(count, max(1, int(rate * count + 1e-9)))
