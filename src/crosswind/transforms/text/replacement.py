"""Random replacement: some tokens of a text become random tokens of a vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.text.draws import Draws, edits
from crosswind.transforms.text.synonyms import bundled_words


@final
@register("random-replacement", kind="text-transform")
@dataclass(frozen=True)
class RandomReplacement(Transform):
    """Replaces a share of the tokens, at random places, by random tokens of a vocabulary.

    max(1, floor(rate x length)) different places are drawn, and for each a token of the vocabulary,
    all equally likely but the one that stands there. The paper gives the share alone and draws from
    the word pieces of its networks; that a place keeps no token, the rounding, and the vocabulary
    are ours. The bundled one is the same for every data set, so that a copy of a text is decided by
    the text and its key. At its defaults it is the transform of NI-RandRep (Ng et al. 2022,
    appendix A.5).
    """

    takes = "text"

    vocabulary: str | Sequence[str] = knob(
        "bundled",
        doc=(
            "The tokens to draw from: bundled, the single words of the bundled lexicon, or a list,"
            " each token once."
        ),
    )
    rate: float = knob(
        0.15, domain="[0, 1]", source="ng2022 A.5", doc="The share of tokens that is replaced."
    )

    def __post_init__(self) -> None:
        words: object
        if self.vocabulary == "bundled":
            words = bundled_words()
        else:
            words = self.vocabulary
        field = f"{self.title}.vocabulary"
        if (
            isinstance(words, str)
            or not isinstance(words, Sequence)
            or not all(isinstance(token, str) for token in words)
        ):
            raise InputError(field, f"must be bundled or a list of tokens, not {shown(words)}")
        if not words:
            raise InputError(field, "is empty: there is no token to draw")
        if len(set(words)) < len(words):
            problem = f"holds the token {Counter(words).most_common(1)[0][0]!r} more than once"
            raise InputError(field, problem)
        super().__post_init__()
        object.__setattr__(self, "vocabulary", tuple(words))

    def apply(self, texts: list[list[str]], keys: NDArray[np.uint64]) -> list[list[str]]:
        """See the class."""
        return [
            self._replaced(tokens, draws)
            for tokens, draws in zip(texts, Draws.of(keys), strict=True)
        ]

    def _replaced(self, tokens: list[str], draws: Draws) -> list[str]:
        size = len(self.vocabulary)
        for position in draws.distinct(edits(self.rate, len(tokens)), len(tokens)):
            drawn = draws.below(size)
            if self.vocabulary[drawn] == tokens[position] and size > 1:
                # One of the others: with the chance of coming here, all of them stay equally
                # likely.
                drawn = (drawn + 1 + draws.below(size - 1)) % size
            tokens[position] = self.vocabulary[drawn]
        return tokens


def random_replacement(
    tokens: Sequence[str], key: int, vocabulary: str | Sequence[str] = "bundled", rate: float = 0.15
) -> list[str]:
    """One text by `RandomReplacement`: a new list of as many tokens, decided by the arguments
    alone.

    `key`: a whole number, of which the lower 64 bits count. `vocabulary`: `"bundled"` or different
    tokens; they are checked at every call, so for many texts make the `RandomReplacement` once.
    `rate` in [0, 1]. Raises `InputError`.
    """
    return RandomReplacement(vocabulary, rate)(
        [tokens], np.array([key & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    )[0]
