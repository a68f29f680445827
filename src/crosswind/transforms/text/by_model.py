"""What transforms of texts by networks have in common: whole texts, batches of about equal lengths,
results kept on disk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import knobs_of
from crosswind.core.types import digest
from crosswind.transforms.base import Transform
from crosswind.transforms.text.kept import Kept
from crosswind.transforms.text.pretrained import identity

AT_ONCE = 256
"""Texts after which what is made is put on the disk."""


@dataclass(frozen=True)
class ByModel(Transform):
    """A change of texts by networks of others. What a text becomes is kept on disk, and made once.

    The numbers that are drawn are those of the text's key. The networks' outputs differ by rounding
    with the batch, the number of threads and the device, which decides a token where a drawn number
    lies as near as that to the border of two. What was made first is kept, and is what every later
    call gives.
    """

    takes = "text"
    whole = True
    version: ClassVar[int] = 1
    models: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The knobs that name a model, each with the one that names its commit."""

    @property
    def identity(self) -> dict[str, Any]:
        """See `Transform`: the models count by their files. Raises `InputError` where one is not
        there."""
        told = {item.name: getattr(self, item.name) for item in knobs_of(type(self))}
        for name, revision in self.models:
            told[name] = identity(told[name], told.pop(revision), f"{self.title}.{name}")
        return {**told, "version": self.version}

    def apply(self, texts: list[list[str]], keys: NDArray[np.uint64]) -> list[list[str]]:
        """Every text as one token."""
        given = [" ".join(tokens) for tokens in texts]
        out = ["" for _ in given]
        kept = Kept(self.title, digest(self.identity))
        left = [place for place, text in enumerate(given) if text.strip()]
        # Texts of about equal lengths stand together: a batch is as long as its longest.
        left.sort(key=lambda place: len(given[place]))
        for start in range(0, len(left), AT_ONCE):
            part = np.array(left[start : start + AT_ONCE])
            mine = [given[place] for place in part]
            there = kept.get(mine, keys[part])
            for place, changed in there.items():
                out[part[place]] = changed
            new = [place for place in range(len(part)) if place not in there]
            if new:
                made = self.changed([mine[place] for place in new], keys[part[new]])
                kept.put([mine[place] for place in new], keys[part[new]], made)
                for place, changed in zip(new, made, strict=True):
                    out[part[place]] = changed
        return [[text] if text else [] for text in out]

    @abstractmethod
    def check(self) -> None:
        """Load what the transform needs. Raises `InputError` in one sentence where it cannot be had
        or does not fit."""

    @abstractmethod
    def changed(self, texts: Sequence[str], keys: NDArray[np.uint64]) -> list[str]:
        """The changed texts, none of them empty or of white space; called with such texts only."""


def batches(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Places in batches of up to `most` tokens with those that fill them up, the shorter first, one
    place at least in each."""
    out: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not out or lengths[place] * (len(out[-1]) + 1) > most:
            out.append([])
        out[-1].append(place)
    return out


def padded(rows: Sequence[Sequence[int]], filler: int) -> tuple[Any, Any]:
    """Token numbers and the mask of those that are any: int64 tensors [n, longest], on the CPU."""
    import torch

    longest = max(len(row) for row in rows)
    numbers = torch.full((len(rows), longest), filler, dtype=torch.int64)
    mask = torch.zeros((len(rows), longest), dtype=torch.int64)
    for place, row in enumerate(rows):
        numbers[place, : len(row)] = torch.tensor(row)
        mask[place, : len(row)] = 1
    return numbers, mask


def drawn(logits: Any, temperatures: Any, uniform: Any) -> Any:
    """A token of each row by its number in [0, 1): int64 [n]. `logits` [n, k]; temperature 0 takes
    the likeliest.

    The first token up to which more than that share of the probability lies, in float64.
    """
    import torch

    scores = logits.double()
    scores = scores - scores.max(dim=1, keepdim=True).values
    mass = (scores / temperatures.clamp_min(1e-9)[:, None]).exp().cumsum(dim=1)
    whole = mass[:, -1:]
    asked = torch.minimum(uniform[:, None] * whole, torch.nextafter(whole, torch.zeros_like(whole)))
    places = torch.searchsorted(mass, asked, right=True)[:, 0]
    return torch.where(temperatures > 0, places, scores.argmax(dim=1))
