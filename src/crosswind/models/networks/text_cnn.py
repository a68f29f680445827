"""The convolutional network on words that Ng et al. 2022 train on reviews and on pairs of
sentences."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from crosswind.core.knobs import Form, choose, knob
from crosswind.core.registry import register
from crosswind.core.types import PART_MARK, InputSpec
from crosswind.models.build import Backbone, Encoder, Model
from crosswind.models.networks.tokens import given_tokenizer, plain_tokens

__all__ = ["TextCNN"]

_WORD = re.compile(rf"\w+(?:['\u2019]\w+)*|[^\w\s]|{PART_MARK}")
KERNELS = (3, 4, 5)


@register("text-cnn", kind="model")
@dataclass(frozen=True)
class TextCNN(Backbone):
    """Convolutions of 3, 4 and 5 words side by side, the largest answer of each filter, and a
    hidden layer.

    Each of the three has `depth` layers of `width` filters and ReLU; a filter's features are its
    maxima over the text. Padding changes nothing. Tokens are words in lower case and single marks,
    each hashed into one of `buckets` vectors (CRC-32), so that there is no vocabulary to be fitted.
    Or those of `tokenizer`, without special tokens. Stages embedding, convolutions, hidden;
    features of `hidden`. Kim 2014, "Convolutional Neural Networks for Sentence Classification",
    section 2; sizes by Ng et al. 2022, appendix A.3 and table 6. The authors' tokens are GPT-2's,
    of 50,263 types.
    """

    words: int = knob(
        256, domain="[1, inf)", doc="tokens that are read of a text; the rest is cut off"
    )
    embedding: int = knob(512, domain="[1, inf)", source="ng2022 A.3", doc="numbers in a vector")
    depth: int = knob(1, domain="[1, 8]", grid={"ng2022": [1, 2, 3]}, doc="layers of convolution")
    width: int = knob(
        256,
        domain="[1, inf)",
        grid={"ng2022": [128, 256, 512]},
        doc="filters of a layer, for each kernel",
    )
    hidden: int = knob(512, domain="[1, inf)", source="ng2022 A.3", doc="units of the hidden layer")
    dropout: float = knob(
        0.2,
        domain="[0, 1)",
        search=choose(0.0, 0.25, 0.5),
        grid={"ng2022": [0.0, 0.25, 0.5]},
        source="ng2022 A.3",
        doc=(
            "share of values that are dropped of the vectors, and before and after the hidden layer"
        ),
    )
    tokenizer: str | None = knob(
        None,
        doc=(
            "a tokenizer.json of the library tokenizers, or its folder (extra `transformers`);"
            " null: words and marks by hash"
        ),
    )
    tokenizer_sha256: str | None = knob(None, doc="what the tokenizer's file must hash to")
    buckets: int = knob(
        50263,
        domain="[2, inf)",
        doc="vectors that tokens are hashed into; one of them stands for none",
    )

    built = Form(norm="none", takes=("text", "tokens"), folders={"tokenizer": "tokenizer"})
    family = {"ng2022": "architecture"}

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        embedding = _Embedding(input.vocabulary, self.embedding, self.dropout)
        convolutions = _Convolutions(self.embedding, self.width, self.depth)
        layer = nn.Linear(len(KERNELS) * self.width, self.hidden)
        hidden = nn.Sequential(nn.Dropout(self.dropout), layer, nn.ReLU(), nn.Dropout(self.dropout))
        fc = nn.Linear(self.hidden, len(class_names))
        children: dict[str, nn.Module] = {
            "embedding": embedding,
            "convolutions": convolutions,
            "hidden": hidden,
            "fc": fc,
        }
        stages = {name: (name,) for name in children if name != "fc"}
        return Model(children, stages=stages, pool=(), head="fc", width=self.hidden)

    def encoder(self, input: InputSpec, seed: int, device: str = "cpu") -> Encoder | None:
        """Texts as numbers of their words: int64 [n, words], 0 where a text has ended."""
        if input.kind != "text":
            return None
        if self.tokenizer is None:
            return Encoder(InputSpec.tokens(self.words, self.buckets), self._tokens)
        tokenizer = given_tokenizer(self.tokenizer, self.tokenizer_sha256, "model.tokenizer")
        # Beside its tokens 0 for none, and the mark between parts.
        spec = InputSpec.tokens(self.words, tokenizer.get_vocab_size() + 2)
        return Encoder(spec, partial(plain_tokens, tokenizer=tokenizer, length=self.words))

    def _tokens(self, texts: NDArray[Any]) -> NDArray[Any]:
        out = np.zeros((len(texts), self.words), dtype=np.int64)
        for row, text in enumerate(texts):
            words = _WORD.findall(text.lower())[: self.words]
            out[row, : len(words)] = [
                zlib.crc32(word.encode()) % (self.buckets - 1) + 1 for word in words
            ]
        return out


class _Embedding(nn.Module):
    """int64 [n, length] -> [n, d + 1, length]: vectors, and as the last channel 1 where there is a
    word."""

    def __init__(self, vocabulary: int, width: int, dropout: float) -> None:
        super().__init__()
        self.vectors = nn.Embedding(vocabulary, width, padding_idx=0)
        # As fairseq begins, with which the authors trained: the sum over a text is of a size that
        # does not depend on the width.
        std = width**-0.5
        nn.init.normal_(self.vectors.weight, std=std)
        self.vectors.weight.data[0] = 0.0
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        is_token = x != 0
        vectors = self.dropout(self.vectors(x))
        return torch.cat([vectors, is_token[..., None].to(vectors.dtype)], 2).transpose(1, 2)


class _Convolutions(nn.Module):
    """[n, d + 1, length] -> [n, 3 width]: the largest answer of each filter over the words that
    there are."""

    def __init__(self, before: int, width: int, depth: int) -> None:
        super().__init__()
        sizes = [before, *[width] * (depth - 1)]
        self.branches = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(size, width, kernel) for size in sizes) for kernel in KERNELS
        )

    def forward(self, x: Tensor) -> Tensor:
        words = x[:, :-1]
        is_token = x[:, -1:]
        out = []
        for kernel, layers in zip(KERNELS, self.branches, strict=True):
            hidden = words
            for layer in layers:  # type: ignore[attr-defined]
                # The place of a window is that of its middle word; answers beyond the end are 0,
                # the least that ReLU gives.
                padded = functional.pad(hidden, ((kernel - 1) // 2, kernel // 2))
                hidden = functional.relu(layer(padded)) * is_token
            out.append(hidden.amax(2))
        return torch.cat(out, 1)
