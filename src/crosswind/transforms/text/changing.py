"""From texts as they stand in a data set to what a transform takes, and back again: words, parts
and their keys."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import PART_MARK
from crosswind.transforms.base import Transform

WORDS = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
"""The tokens of a text for a transform: words, an apostrophe inside included, and single marks.
They are joined by spaces again."""


def changed_texts(
    transform: Transform, texts: Iterable[str], keys: NDArray[np.uint64]
) -> NDArray[np.object_]:
    """The texts under a transform: strings as an object array [n]; `keys` uint64 [n].

    Each part of a text of several is changed by itself, by a key of its own; the marks between them
    stay. The first part has the key of the text. A transform that reads texts as they are
    (`Transform.whole`) gets each part as one token.
    """
    parts = [text.split(PART_MARK) for text in texts]
    numbers = np.array([number for one in parts for number in range(len(one))], dtype=np.int64)
    own = np.repeat(keys, [len(one) for one in parts])
    own = np.where(
        numbers == 0,
        own,
        hash64(own ^ hash64(numbers, seed_of(0, "parts")), seed_of(0, "parts of texts")),
    )
    flat = [part for one in parts for part in one]
    tokens = (
        [[part] if part.strip() else [] for part in flat]
        if transform.whole
        else [WORDS.findall(part) for part in flat]
    )
    changed = iter(transform(tokens, own))
    out = np.empty(len(parts), dtype=object)
    out[:] = [PART_MARK.join(" ".join(next(changed)) for _ in one) for one in parts]
    return out
