"""In which order training rows come, and how likely each is: a function of the seed and of names,
without a sampler's state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosswind.core.seeds import stream


class Lengths(NamedTuple):
    """The length of each member, int64 [m]; of every `pool` batches of `batch` members, those of
    similar length stand together."""

    of: NDArray[np.int64]
    batch: int
    pool: int


class Order:
    """The members of a set in an endless order: one block after another, each a permutation or as
    many weighted draws.

    With `lengths`, a permutation is cut into pools of batches, each pool sorted by length (equal
    ones as they came) and cut into batches, and these put in random order. A block's first members,
    as many as fill the batch that the one before began, stay.

    `members` int64 [m], repeats allowed. `weights` float64 [m]: probabilities of draws with
    replacement; None: permutations. Blocks are drawn from `stream(seed, *names, block)`.
    """

    def __init__(
        self,
        members: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        seed: int,
        *names: object,
        lengths: Lengths | None = None,
    ) -> None:
        self.members = members
        self._seed = seed
        self._names = names
        self._lengths = lengths
        self.size = len(members)
        self._cumulated: NDArray[np.float64] | None = None
        if weights is not None:
            total = np.cumsum(weights)
            self._cumulated = total / total[-1]
        self._blocks: dict[int, NDArray[np.int64]] = {}

    @property
    def permuted(self) -> bool:
        """Whether each block holds every member once."""
        return self._cumulated is None

    def take(self, start: int, count: int) -> NDArray[np.int64]:
        """The members at places start, ..., start + count - 1 of the endless order."""
        blocks = []
        end = start + count
        while start < end:
            number, offset = divmod(start, self.size)
            block = self._block(number)[offset : offset + end - start]
            blocks.append(block)
            start += len(block)
        if len(blocks) == 1:
            return blocks[0]
        return np.concatenate(blocks)

    def _block(self, number: int) -> NDArray[np.int64]:
        if number not in self._blocks:
            generator = stream(self._seed, *self._names, number)
            if self._cumulated is None:
                positions = generator.permutation(self.size)
                if self._lengths is not None:
                    positions = self._by_length(
                        positions, -number * self.size % self._lengths.batch, generator
                    )
                block = self.members[positions]
            else:
                block = self.members[
                    np.searchsorted(self._cumulated, generator.random(self.size), side="right")
                ]
            self._blocks = {
                key: cached_block for key, cached_block in self._blocks.items() if key == number - 1
            } | {number: block}
        return self._blocks[number]

    def _by_length(
        self, positions: NDArray[np.int64], begun: int, generator: np.random.Generator
    ) -> NDArray[np.int64]:
        assert self._lengths is not None
        length, batch, pool = self._lengths
        sorted_parts = [positions[:begun]]
        for start in range(begun, self.size, batch * pool):
            pool_positions = positions[start : start + batch * pool]
            pool_positions = pool_positions[np.argsort(length[pool_positions], kind="stable")]
            n_whole = len(pool_positions) - len(pool_positions) % batch
            cut = pool_positions[:n_whole].reshape(-1, batch)
            sorted_parts += [*cut[generator.permutation(len(cut))], pool_positions[n_whole:]]
        return np.concatenate(sorted_parts)


def row_weights(
    weight: NDArray[np.float64], group: NDArray[np.int64], sampler: str
) -> NDArray[np.float64] | None:
    """The probabilities [n] with which rows are drawn, None where every row is as likely, so that
    epochs are permutations.

    `weight`: the study's sampler. `sampler` `"balanced"` gives every group with rows the same mass
    and keeps the study's proportions inside each group.
    """
    weight = np.asarray(weight, dtype=np.float64)
    if sampler == "balanced":
        law = np.ones((len(weight), 1))
        weight, _ = even_groups(weight, group, law)
    if np.allclose(weight, weight[0], rtol=1e-9, atol=0.0):
        return None
    return weight / weight.sum()


def even_groups(
    weight: NDArray[np.float64], group: NDArray[np.int64], law: NDArray[np.float64], step: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights and laws under which every group has the same mass, each keeping its proportions:
    float64 [n] and [n, V].

    `law` float64 [n, V]: the probabilities of the values that a row of weight `weight` [n] is seen
    under; row i under value v is of group `group[i]` + `step` x v. A row without mass, as of a
    group that the study's sampler never draws, gets weight 0 and keeps its law.
    """
    joint = weight[:, None] * law
    group_of_visit = group[:, None] + step * np.arange(law.shape[1])
    mass = np.bincount(group_of_visit.ravel(), weights=joint.ravel())[group_of_visit]
    joint = np.divide(joint, mass, out=np.zeros(joint.shape), where=mass > 0)
    even: NDArray[np.float64] = joint.sum(axis=1)
    return even, np.divide(joint, even[:, None], out=law.copy(), where=even[:, None] > 0)


def undrawn(
    codes: NDArray[np.int64],
    size: int,
    weight: NDArray[np.float64],
    law: NDArray[np.float64] | None,
    step: int,
) -> NDArray[np.bool_]:
    """Which of `size` groups or environments have rows but none with a probability: bool [size].

    Row i, of weight `weight[i]`, is of `codes[i]`; where `law` float64 [n, V] is given, `codes[i]`
    + `step` x v under value v.
    """
    if law is None:
        law = np.ones((len(codes), 1))
    code_of_visit = (codes[:, None] + step * np.arange(law.shape[1])).ravel()
    has_rows, drawn = (
        np.bincount(code_of_visit, mass.ravel(), minlength=size) > 0
        for mass in (law, weight[:, None] * law)
    )
    return has_rows & ~drawn
