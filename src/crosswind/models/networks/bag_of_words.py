"""A text as the mean of its words' vectors, for small studies of texts."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Backbone, Encoder, Model

__all__ = ["BagOfWords"]

_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")


@register("bag-of-words", kind="model")
@dataclass(frozen=True)
class BagOfWords(Backbone):
    """The mean of the vectors of a text's words and pairs of words, and a linear layer: fastText's
    classifier.

    Words are those between other marks, in lower case. Each, and each pair that stands together, is
    hashed into one of `buckets` vectors (CRC-32), so there is no vocabulary to be fitted. One
    stage, embedding; features of `width`. Joulin et al. 2017, "Bag of Tricks for Efficient Text
    Classification", section 2; vectors begin uniform in (-1 / width, 1 / width), as in their code.
    """

    words: int = knob(
        256, domain="[1, inf)", doc="words that are read of a text; the rest is cut off"
    )
    width: int = knob(64, domain="[1, inf)", doc="numbers in a vector")
    buckets: int = knob(
        16384,
        domain="[2, inf)",
        doc="vectors that words and pairs are hashed into; one of them stands for none",
    )

    built = Form(norm="none", takes=("text", "tokens"), linear=False)

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        bag = nn.EmbeddingBag(input.vocabulary, self.width, mode="mean", padding_idx=0)
        nn.init.uniform_(bag.weight, -1 / self.width, 1 / self.width)
        bag.weight.data[0] = 0.0
        fc = nn.Linear(self.width, len(class_names))
        children = {"embedding": bag, "fc": fc}
        return Model(
            children, stages={"embedding": ("embedding",)}, pool=(), head="fc", width=self.width
        )

    def encoder(self, input: InputSpec, seed: int, device: str = "cpu") -> Encoder | None:
        """Texts as numbers of their words, then of their pairs: int64 [n, 2 * words - 1], 0 where
        there is none."""
        if input.kind != "text":
            return None
        return Encoder(InputSpec.tokens(2 * self.words - 1, self.buckets), self._tokens)

    def _tokens(self, texts: NDArray[Any]) -> NDArray[Any]:
        out = np.zeros((len(texts), 2 * self.words - 1), dtype=np.int64)
        for row, text in enumerate(texts):
            words = _WORD.findall(text.lower())[: self.words]
            tokens = [
                *words,
                *(f"{first} {two}" for first, two in zip(words, words[1:], strict=False)),
            ]
            out[row, : len(tokens)] = [
                zlib.crc32(token.encode()) % (self.buckets - 1) + 1 for token in tokens
            ]
        return out
