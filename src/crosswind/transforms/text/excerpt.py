"""An excerpt of a text: its start, its end, or a piece from between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.text.draws import Draws


@final
@register("excerpt", kind="text-transform")
@dataclass(frozen=True)
class Excerpt(Transform):
    """Keeps a run of ceil(share x length) tokens of a text, the first ones, the last ones, or from
    a random place on.

    It is ours: a change of the pool from which estimators of accuracy learn.
    """

    takes = "text"

    part: str = knob("start", domain="{start, end, any}", doc="Where it is taken.")
    share: float = knob(0.5, domain="(0, 1]", doc="The share of the tokens that stay.")

    def apply(self, texts: list[list[str]], keys: NDArray[np.uint64]) -> list[list[str]]:
        """See the class."""
        return [
            self._cut(tokens, draws) for tokens, draws in zip(texts, Draws.of(keys), strict=True)
        ]

    def _cut(self, tokens: list[str], draws: Draws) -> list[str]:
        # A product that is whole but for rounding counts as whole.
        length = int(np.ceil(self.share * len(tokens) - 1e-9))
        spare = len(tokens) - length
        first = {"start": 0, "end": spare}.get(self.part)
        if first is None:
            first = draws.below(spare + 1)
        return tokens[first : first + length]
