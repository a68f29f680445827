"""Plain values that several layers share, and how a value becomes a key.

Units, once and for all: accuracy is a fraction in [0, 1], loss is in nats, time in seconds, memory
in bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.files import check_file

_DTYPES = {
    "image": "uint8",
    "tokens": "int64",
    "features": "float32",
    "text": "object",
    "image-and-text": "object",
}


PART_MARK = "\x1f"
"""What stands between the parts of a text that has several, such as a premise and a hypothesis."""

KINDS_OF_INPUTS = {
    "image": "images",
    "tokens": "tokens",
    "features": "numbers",
    "text": "texts",
    "image-and-text": "images with texts",
}
"""The kinds of inputs, and what sentences call several of one."""


@dataclass(frozen=True)
class InputColumn:
    """A column of a table that is an input of a model: a number as it is, or for a category one
    input a value, 1 where a row has it.

    `name`: the column's. `values`: those of the category in the order of its inputs, None for a
    number. `coded`: whether a category is a single input instead, the position of the row's value.
    """

    name: str
    values: tuple[str, ...] | None = None
    coded: bool = False

    @property
    def width(self) -> int:
        """How many inputs it is."""
        return 1 if self.values is None or self.coded else len(self.values)


@dataclass(frozen=True)
class InputSpec:
    """The kind and shape of the input that one row of a data set gives a model.

    `kind` and what n rows are: `image` uint8 [n, h, w, c]. `tokens`: int64 [n, length], each in [0,
    vocabulary), 0 where a text has ended. `features`: float32 [n, width]. `text`: n strings as an
    object array [n]. `image-and-text`: an object array [n] of pairs of an image uint8 [h, w, c] and
    a string. `shape` is (h, w, c), (length,), (width,) or (). Strings reach a network by its
    model's `encode`. Made by the class methods.
    """

    kind: str
    shape: tuple[int, ...] = ()
    vocabulary: int = 0

    @classmethod
    def image(cls, height: int, width: int, channels: int) -> InputSpec:
        """Images."""
        return cls("image", (height, width, channels))

    @classmethod
    def tokens(cls, length: int, vocabulary: int) -> InputSpec:
        """Texts as numbers of tokens."""
        return cls("tokens", (length,), vocabulary)

    @classmethod
    def features(cls, width: int) -> InputSpec:
        """Vectors of numbers."""
        return cls("features", (width,))

    @classmethod
    def text(cls) -> InputSpec:
        """Texts."""
        return cls("text")

    @classmethod
    def image_and_text(cls, height: int, width: int, channels: int) -> InputSpec:
        """Images, each with a text."""
        return cls("image-and-text", (height, width, channels))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of an array of rows."""
        return np.dtype(_DTYPES[self.kind])

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of a row in an array of rows; () where a row is a Python object."""
        if self.dtype == object:
            return ()
        return self.shape

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The shape in which a network takes a row: (c, h, w) for images."""
        if self.kind == "image":
            return (self.shape[2], *self.shape[:2])
        return self.row_shape

    def __str__(self) -> str:
        """Such as `images of 32 x 32 x 3` or `features of 64 numbers`."""
        size = " x ".join(str(side) for side in self.shape)
        tokens = f"texts of {size} tokens"
        features = f"features of {size} numbers"
        words = {"image": f"images of {size}", "tokens": tokens, "features": features}
        return words.get(
            self.kind, "texts" if self.kind == "text" else f"images of {size} with texts"
        )


@dataclass(frozen=True)
class Predictions:
    """The answers of one model for one set of rows.

    `ids` int64 [n] row ids of the source. `label` int64 [n] true labels, -1 where there is none.
    `group` int64 [n] cell of each row for per-group scores. `answer` int64 [n] predicted labels, -1
    for an answer that could not be parsed. `logits` float32 [n, k] or None where the model gives
    only answers. `texts` the n answers in words, or None where it has none.
    """

    ids: NDArray[np.int64]
    label: NDArray[np.int64]
    group: NDArray[np.int64]
    answer: NDArray[np.int64]
    logits: NDArray[np.float32] | None = None
    texts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name in ("label", "group", "answer"):
            if getattr(self, name).shape != (n,):
                problem = f"Predictions.{name} has shape {getattr(self, name).shape}, not ({n},)"
                raise ValueError(problem)
        if self.logits is not None and (self.logits.ndim != 2 or len(self.logits) != n):
            raise ValueError(f"Predictions.logits has shape {self.logits.shape}, not ({n}, k)")
        if self.texts is not None and len(self.texts) != n:
            raise ValueError(f"Predictions.texts has {len(self.texts)} texts, not {n}")

    def __len__(self) -> int:
        return len(self.ids)


def listed(names: str | Sequence[str]) -> list[str]:
    """Names as a list; a text is one of them, and not its letters, and so is a number."""
    alone = column_name(names)
    return [alone] if isinstance(alone, str) else [column_name(name) for name in names]


def column_name(name: Any) -> Any:
    """The name of a column, which a frame of pandas may have as a number."""
    is_number = isinstance(name, int | np.integer) and not isinstance(name, bool)
    return str(name) if is_number else name


def one_column(name: Any, field: str) -> str | None:
    """The name of one column, None for none. Raises `InputError` where the column itself is in its
    place, such as a pandas Series or an array of labels."""
    column = column_name(name)
    if column is None or isinstance(column, str):
        return column
    if isinstance(column, tuple):
        return str(column)  # a column of a frame whose names have several levels
    raise InputError(
        field,
        f"is the name of a column, not {shown(column)}; put the values into a column of the table and"
        " name it",
    )


def canonical(value: Any) -> str:
    """`value` as JSON that is the same for equal values: sorted keys, no spaces, NaN refused."""
    return _ENCODER.encode(value)


def digest(value: Any, length: int = 32) -> str:
    """The first `length` hexadecimal digits of the SHA-256 of `canonical(value)`."""
    return _digest_of(canonical(value), length)


def canonical_values(values: Mapping[str, Any]) -> dict[str, str]:
    """The `canonical` text of each value by its name, for a `DigestPattern`."""
    return {name: canonical(value) for name, value in values.items()}


class DigestPattern:
    """`digest` of many mappings that differ in the values of a few names alone: what they share is
    put into text once, and of a plan of 300,000 jobs most is.

    `texts`: the `canonical` text of each value that they share; `varied`: the names of the others.
    """

    def __init__(self, texts: Mapping[str, str], varied: Sequence[str]) -> None:
        marked = {name: text.replace("%", "%%") for name, text in texts.items()}
        marked |= dict.fromkeys(varied, "%s")
        entries = [f"{_quoted(name).replace('%', '%%')}:{marked[name]}" for name in sorted(marked)]
        self._layout = f"{{{','.join(entries)}}}"

    def of(self, *texts: str) -> str:
        """The digest with these `canonical` texts of what is varied, by the order of the names."""
        return _digest_of(self._layout % texts, 32)


@lru_cache(1000)
def _quoted(name: str) -> str:
    return canonical(name)


def _digest_of(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def digest_arrays(arrays: Mapping[str, NDArray[Any]], length: int = 32) -> str:
    """A digest of named arrays: names, dtypes, shapes and bytes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        total.update(array.tobytes() if array.size < 1 else array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()[:length]


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises `OSError`, also for what is no plain file."""
    check_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.integer | np.floating | np.bool_):
        return value.item()
    if isinstance(value, tuple | set | frozenset):
        if isinstance(value, set | frozenset):
            return sorted(value)
        return list(value)
    raise TypeError(f"{type(value).__name__} has no canonical form")


_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=_plain
)

ROWS = "score"
"""The kind of job that is a row of the tables: a run, as a study counts them."""


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work as the plan knows it.

    `key` names the job everywhere and is the digest of everything that decides its numbers. `spec`
    is the resolved specification as plain JSON values. `labels` are the columns by which reports
    group scores (data, shift, size, method, model, seed, point); `needs` are the keys of the jobs
    that must be finished first. `kind`: what it does, see `crosswind.execution.jobs`. `follows`: the
    key of the job after which it is done at once, in the same process, which still holds what that
    job made; empty for none.
    """

    key: str
    spec: Mapping[str, Any]
    labels: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    kind: str = ROWS
    follows: str = ""
