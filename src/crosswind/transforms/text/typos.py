"""Typing errors: some words of a text are spelled wrong, divided, joined, repeated or set in
capitals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.text.draws import Draws, edits

SHORTEST = 3
"""Letters of a word that may be mistyped: "a" and "an" would become other words, or none."""

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_BESIDE = {
    row[at]: row[max(at - 1, 0) : at] + row[at + 1 : at + 2]
    for row in _ROWS
    for at in range(len(row))
}
_DIGITS = str.maketrans("aeiostAEIOST", "431057431057")
_VOWELS = str.maketrans("", "", "aeiouAEIOU")


@final
@register("typos", kind="text-transform")
@dataclass(frozen=True)
class Typos(Transform):
    """Errors of one kind in some words, at random places.

    max(1, floor(rate x words)) of the tokens of three characters or more, or all that there are,
    are changed:
    swap: two neighbouring characters change places; omit: one is left out; double: one stands
    twice; neighbour: a letter becomes one beside it on an English keyboard; digits: a, e, i, o, s,
    t become digits that look like them; vowels: the vowels after the first character go; cut: its
    first half stays; split: it becomes two words; join: it joins the next token; repeat: it stands
    twice; capitals: all letters are capitals.
    It is ours: changes of the pool from which estimators of accuracy learn.
    """

    takes = "text"

    kind: str = knob(
        "swap",
        domain=(
            "{swap, omit, double, neighbour, digits, vowels, cut, split, join, repeat, capitals}"
        ),
        doc="What is done to a word.",
    )
    rate: float = knob(0.15, domain="[0, 1]", doc="The share of the longer words that is changed.")

    def apply(self, texts: list[list[str]], keys: NDArray[np.uint64]) -> list[list[str]]:
        """See the class."""
        return [
            self._mistyped(tokens, draws)
            for tokens, draws in zip(texts, Draws.of(keys), strict=True)
        ]

    def _mistyped(self, tokens: list[str], draws: Draws) -> list[str]:
        long = [position for position, token in enumerate(tokens) if len(token) >= SHORTEST]
        chosen = {long[kind] for kind in draws.distinct(edits(self.rate, len(long)), len(long))}
        out: list[str] = []
        for position, token in enumerate(tokens):
            if self.kind == "join" and position - 1 in chosen:
                out[-1] += token
            else:
                out += _changed(token, self.kind, draws) if position in chosen else [token]
        return out


def _changed(word: str, kind: str, draws: Draws) -> list[str]:
    """The words that one becomes; `join` is done where its neighbour is known."""
    position = draws.below(len(word))
    if kind in ("split", "repeat"):
        if kind == "repeat":
            return [word, word]
        return [word[: max(position, 1)], word[max(position, 1) :]]
    if kind == "swap":
        position = min(position, len(word) - 2)
        return [word[:position] + word[position + 1] + word[position] + word[position + 2 :]]
    if kind in ("omit", "double"):
        return [word[:position] + word[position] * 2 * (kind == "double") + word[position + 1 :]]
    if kind == "neighbour":
        beside = _BESIDE.get(word[position].lower(), word[position])
        return [word[:position] + beside[draws.below(len(beside))] + word[position + 1 :]]
    if kind == "vowels":
        return [word[0] + word[1:].translate(_VOWELS)]
    cut = word[: (len(word) + 1) // 2]
    digits = word.translate(_DIGITS)
    changed = {"digits": digits, "cut": cut, "capitals": word.upper()}
    return [changed.get(kind, word)]
