"""Words of one sort go from a text: those of grammar, all others, or punctuation marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.text.draws import Draws, edits
from crosswind.transforms.text.synonyms import is_stop_word


@final
@register("drop-words", kind="text-transform")
@dataclass(frozen=True)
class DropWords(Transform):
    """Drops max(1, floor(rate x m)) of the m tokens of a sort, at random places; a text of nothing
    else keeps its first token.

    `stop-words` are those of English grammar, `marks` hold no letter or digit, `content` is the
    rest.
    It is ours: a change of the pool from which estimators of accuracy learn.
    """

    takes = "text"

    sort: str = knob("stop-words", domain="{stop-words, content, marks}", doc="Which tokens go.")
    rate: float = knob(0.5, domain="[0, 1]", doc="The share of them that goes.")

    def apply(self, texts: list[list[str]], keys: NDArray[np.uint64]) -> list[list[str]]:
        """See the class."""
        return [
            self._dropped(tokens, draws)
            for tokens, draws in zip(texts, Draws.of(keys), strict=True)
        ]

    def _dropped(self, tokens: list[str], draws: Draws) -> list[str]:
        candidates = []
        for position, token in enumerate(tokens):
            if _sort(token) == self.sort:
                candidates.append(position)
        gone = {
            candidates[candidate]
            for candidate in draws.distinct(edits(self.rate, len(candidates)), len(candidates))
        }
        return [token for position, token in enumerate(tokens) if position not in gone] or tokens[
            :1
        ]


def _sort(token: str) -> str:
    if not any(letter.isalnum() for letter in token):
        return "marks"
    return "stop-words" if is_stop_word(token) else "content"
