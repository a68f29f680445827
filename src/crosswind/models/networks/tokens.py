"""Texts as numbers of a given tokenizer's tokens, 0 after the end."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.errors import InputError, one_line
from crosswind.core.types import PART_MARK
from crosswind.models.folders import TOKENIZER, contents_hash

__all__ = [
    "given_tokenizer",
    "plain_tokens",
    "rounded_lengths",
    "special_tokens",
    "text_lengths",
    "trimmed",
]

SHORTEST = 8


def given_tokenizer(path: str, digest: str | None, field: str) -> Any:
    """The tokenizer of the library tokenizers in a file, or in tokenizer.json of a folder; its file
    must hash to `digest`.

    Raises `InputError` on `field`.
    """
    from tokenizers import Tokenizer

    if Path(path).is_dir():
        file = Path(path) / TOKENIZER
    else:
        file = Path(path)
    if digest is not None and file.is_file() and contents_hash(file, "tokenizer") != digest:
        raise InputError(
            field, f"{str(file)!r} has changed: its sha256 is no longer {digest[:12]}..."
        )
    try:
        tokenizer = Tokenizer.from_buffer(file.read_bytes())
    except Exception as error:  # the library raises plain exceptions
        problem = f"{str(file)!r} cannot be read as a tokenizer ({one_line(str(error), 200)})"
        raise InputError(field, problem) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def plain_tokens(texts: NDArray[Any], tokenizer: Any, length: int) -> NDArray[np.int64]:
    """int64 [n, length]: 1 + each number, without special tokens; for the mark between parts 1 +
    the tokens that there are."""
    mark = tokenizer.get_vocab_size() + 1
    parts_of_texts = [text.split(PART_MARK) for text in texts]
    encodings = iter(
        tokenizer.encode_batch(
            [text_part for row in parts_of_texts for text_part in row], add_special_tokens=False
        )
    )
    out = np.zeros((len(texts), length), dtype=np.int64)
    for row, of_row in enumerate(parts_of_texts):
        numbers: list[int] = []
        for part_number in range(len(of_row)):
            numbers += [mark] * (part_number > 0) + [
                number + 1 for number in next(encodings).ids[:length]
            ]
        out[row, : len(numbers)] = numbers[:length]
    return out


def special_tokens(
    texts: NDArray[Any], tokenizer: Any, length: int, vocabulary: int, kinds: int
) -> NDArray[np.int64]:
    """int64 [n, length]: 1 + number + `vocabulary` x kind, with the tokenizer's special tokens; two
    parts make a pair.

    `kinds`: how many kinds of token (first or second text) the model knows. A third part belongs to
    the second text.
    """
    tokenizer.enable_truncation(length)
    parts_of_texts = [text.split(PART_MARK, 1) for text in texts]
    singles_and_pairs = []
    for text_parts in parts_of_texts:
        singles_and_pairs.append(
            text_parts[0]
            if len(text_parts) == 1
            else (text_parts[0], text_parts[1].replace(PART_MARK, " "))
        )
    out = np.zeros((len(texts), length), dtype=np.int64)
    for row, encoding in enumerate(tokenizer.encode_batch(singles_and_pairs)):
        kind = np.minimum(np.asarray(encoding.type_ids, dtype=np.int64), kinds - 1)
        token_ids = np.asarray(encoding.ids, dtype=np.int64)
        out[row, : len(encoding.ids)] = 1 + token_ids + vocabulary * kind
    return out


def rounded_lengths(lengths: NDArray[Any], greatest: int) -> NDArray[np.int64]:
    """Each length rounded up to 8, 12, 16, 24, 32, 48, ..., at most `greatest`: few shapes, of
    which a
    third at most is padding."""
    sizes = _sizes(greatest)
    return sizes[np.searchsorted(sizes, lengths)]


@cache
def _sizes(greatest: int) -> NDArray[np.int64]:
    steps = SHORTEST * 2 ** np.arange(max(1, greatest.bit_length()))
    return np.unique(np.minimum(np.concatenate([steps, steps * 3 // 2]), greatest)).astype(np.int64)


def text_lengths(tokens: NDArray[Any]) -> NDArray[np.int64]:
    """Of rows of tokens [n, length] how many each has up to its last one, int64 [n]."""
    is_token = tokens != 0
    return np.where(is_token.any(1), tokens.shape[1] - is_token[:, ::-1].argmax(1), 0)


def trimmed(x: Tensor, longest: int | None = None) -> Tensor:
    """Tokens int64 [n, length] without places that are empty in all of them, the rest rounded up;
    anything else as it is.

    `longest`: the tokens of the longest text, where it is known: else `x` is asked, which on an
    accelerator waits for it.
    """
    if x.dtype != torch.int64 or x.ndim != 2:
        return x
    if longest is None:
        tokens = (x != 0).any(0)[None].cpu().numpy()
        longest = int(text_lengths(tokens)[0])
    lengths = np.asarray(longest)
    greatest = x.shape[1]
    return x[:, : int(rounded_lengths(lengths, greatest))]
