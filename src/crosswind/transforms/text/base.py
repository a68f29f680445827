"""What a transform of texts is: a frozen set of knobs that changes lists of tokens, each by randomness of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.knobs import knobs_of, resolve
from crosswind.transforms.text.draws import Draws

__all__ = ["TextTransform", "edits"]


@dataclass(frozen=True)
class TextTransform(ABC):
    """A change of texts. Its fields are knobs, checked when it is made (`InputError`).

    A call is a pure function: the same tokens, knobs and key give the same tokens, alone or in any batch. A text of at least one
    token never becomes empty. Tokens are the caller's: words and punctuation marks, split as the model wants them.
    """

    def __post_init__(self) -> None:
        knobs = knobs_of(type(self))
        values: dict[str, Any] = {item.name: getattr(self, item.name) for item in knobs}
        for key, value in resolve(knobs, values, self.title, f"text transform {self.title!r}").items():
            object.__setattr__(self, key, value)

    @property
    def title(self) -> str:
        """The registered name."""
        return getattr(type(self), "registered_name", type(self).__name__)

    @final
    def __call__(self, tokens_batch: Sequence[Sequence[str]], keys: NDArray[np.uint64]) -> list[list[str]]:
        """The changed texts: new lists of tokens; those given stay as they are.

        `tokens_batch`: n texts, each a sequence of tokens, also an empty one. `keys`: uint64 [n], the randomness of each text
        (`transforms.text.draws.copy_keys`). Raises `InputError`.
        """
        whose = f"text transform {self.title!r}"
        if isinstance(tokens_batch, str):
            raise InputError(whose, f"needs a list of texts, each a list of tokens, not the text {shown(tokens_batch)}")
        if len(keys) != len(tokens_batch):
            raise InputError(whose, f"needs one key for each of {len(tokens_batch)} texts, not {len(keys)}")
        out = []
        for tokens, key in zip(tokens_batch, keys, strict=True):
            if isinstance(tokens, str) or not all(isinstance(token, str) for token in tokens):
                raise InputError(whose, f"needs each text as a list of tokens, not as {shown(tokens)}")
            out.append(self.changed(list(tokens), Draws(int(key))) if len(tokens) else [])
        return out

    @abstractmethod
    def changed(self, tokens: list[str], draws: Draws) -> list[str]:
        """The changed tokens of one text of at least one token, a list of its own; called by `__call__` only."""


def edits(rate: float, count: int) -> int:
    """How many of `count` tokens a rate stands for: max(1, floor(rate x count)), as the code of Wei and Zou (2019) has it.

    0 for a rate of 0 and for no tokens. A product that is whole but for rounding counts as whole: 0.29 x 100 is 29.
    """
    return 0 if rate == 0 or count == 0 else min(count, max(1, int(rate * count + 1e-9)))
