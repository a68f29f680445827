"""The base of transforms of texts by networks: whole texts, batches of about equal lengths, results
kept on disk."""

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
    with the batch, the number of threads and the device. That decides a token where a drawn number
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
        knob_values = {}
        for declared in knobs_of(type(self)):
            knob_values[declared.name] = getattr(self, declared.name)
        for name, revision in self.models:
            knob_values[name] = identity(
                knob_values[name], knob_values.pop(revision), f"{self.title}.{name}"
            )
        return {**knob_values, "version": self.version}

    def apply(self, texts: list[list[str]], keys: NDArray[np.uint64]) -> list[list[str]]:
        """Every text as one token."""
        joined_texts = [" ".join(tokens) for tokens in texts]
        out = ["" for _ in joined_texts]
        store = Kept(self.title, digest(self.identity))
        left = [position for position, text in enumerate(joined_texts) if text.strip()]
        # Texts of about equal lengths stand together: a batch is as long as its longest.
        left.sort(key=lambda position: len(joined_texts[position]))
        for start in range(0, len(left), AT_ONCE):
            chunk = np.array(left[start : start + AT_ONCE])
            mine = [joined_texts[position] for position in chunk]
            stored = store.get(mine, keys[chunk])
            for position, changed in stored.items():
                out[chunk[position]] = changed
            new = [position for position in range(len(chunk)) if position not in stored]
            if new:
                new_texts = self.changed([mine[position] for position in new], keys[chunk[new]])
                store.put([mine[position] for position in new], keys[chunk[new]], new_texts)
                for position, changed in zip(new, new_texts, strict=True):
                    out[chunk[position]] = changed
        return [[text] if text else [] for text in out]

    @abstractmethod
    def check(self) -> None:
        """Load what the transform needs. Raises `InputError` in one sentence where it cannot be had
        or does not fit."""

    @abstractmethod
    def changed(self, texts: Sequence[str], keys: NDArray[np.uint64]) -> list[str]:
        """The changed texts, none of them empty or of white space; called with such texts only."""


def batches(lengths: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Places in batches of up to `most_tokens` tokens with those that fill them up, the shorter
    first, one
    place at least in each."""
    out: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not out or lengths[position] * (len(out[-1]) + 1) > most_tokens:
            out.append([])
        out[-1].append(position)
    return out


def padded(rows: Sequence[Sequence[int]], filler: int) -> tuple[Any, Any]:
    """Token numbers and the mask of those that are any: int64 tensors [n, longest], on the CPU."""
    import torch

    longest = max(len(row) for row in rows)
    numbers = torch.full((len(rows), longest), filler, dtype=torch.int64)
    mask = torch.zeros((len(rows), longest), dtype=torch.int64)
    for row_number, row in enumerate(rows):
        numbers[row_number, : len(row)] = torch.tensor(row)
        mask[row_number, : len(row)] = 1
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
    total = mass[:, -1:]
    threshold = torch.minimum(
        uniform[:, None] * total, torch.nextafter(total, torch.zeros_like(total))
    )
    token_numbers = torch.searchsorted(mass, threshold, right=True)[:, 0]
    return torch.where(temperatures > 0, token_numbers, scores.argmax(dim=1))
