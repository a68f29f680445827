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
    parts_of_texts = [text.split(PART_MARK) for text in texts]
    numbers = np.array(
        [number for text_parts in parts_of_texts for number in range(len(text_parts))],
        dtype=np.int64,
    )
    keys_of_parts = np.repeat(keys, [len(text_parts) for text_parts in parts_of_texts])
    seeds = keys_of_parts ^ hash64(numbers, seed_of(0, "parts"))
    keys_of_parts = np.where(
        numbers == 0, keys_of_parts, hash64(seeds, seed_of(0, "parts of texts"))
    )
    flat = [text_part for text_parts in parts_of_texts for text_part in text_parts]
    if transform.whole:
        tokens = [[text_part] if text_part.strip() else [] for text_part in flat]
    else:
        tokens = [WORDS.findall(text_part) for text_part in flat]
    changed = iter(transform(tokens, keys_of_parts))
    out = np.empty(len(parts_of_texts), dtype=object)
    out[:] = [
        PART_MARK.join(" ".join(next(changed)) for _ in text_parts) for text_parts in parts_of_texts
    ]
    return out
