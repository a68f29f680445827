"""Sources whose originals are tables and JSON lines of texts, packed or not; and data sets of their
rows."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, shown
from crosswind.core.types import PART_MARK, InputSpec
from crosswind.data.archives.checks import damage, kind_of_file, watched
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import positions

LONGEST = 1 << 24
"""Bytes of a line; the longest review has some 30,000."""


def of_texts(
    name: str,
    columns: Mapping[str, tuple[Sequence[str], Sequence[str]]],
    texts: Sequence[str],
    units: Sequence[str] | None = None,
) -> AttributedDataset:
    """The data set of some texts. `columns`: attribute -> its values, and the value of each row.
    `units`: a name for each row's."""
    attributes = tuple(Attribute(name, tuple(values)) for name, (values, _) in columns.items())
    codes = np.stack([positions(cells, values) for values, cells in columns.values()])
    text_array = np.empty(len(texts), dtype=object)
    text_array[:] = texts
    belong = None
    if units is not None:
        belong = np.unique(np.array(units, dtype=object), return_inverse=True)[1].astype(np.int64)
    table = AttributeTable(attributes, codes)
    return AttributedDataset(
        name,
        table,
        text_array.__getitem__,
        InputSpec.text(),
        units=belong,
        contents=contents_of(text_array),
    )


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file, plain or packed by gzip or bzip2, one at a time. Raises `DataError` for
    a damaged one."""
    opened: dict[str, Any] = {"gzip": gzip.open, "bzip2": bz2.open}
    kind = kind_of_file(path)
    if kind not in ("", *opened):
        problem = (
            f"{path} holds no lines of text: it is"
            f" {'a web page' if kind == 'page' else f'a file of {kind}'}"
        )
        raise DataError(problem)
    with (
        damage(path),
        watched(path, "reading") as packed,
        opened[kind](packed) if kind else packed as file,
    ):
        while line := file.readline(LONGEST):
            if len(line) == LONGEST:
                raise DataError(f"{path} has a line of more than {LONGEST:,} bytes")
            yield line


def records(lines: Iterator[bytes], where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and record of every line that is not blank. Raises `DataError` for one that is no JSON
    object in UTF-8."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, record_of(line, f"{where}, line {number:,}")


def record_of(line: bytes, where: str) -> dict[str, Any]:
    """A line as a JSON object in UTF-8; `DataError` where it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        problem = f"{where} is no JSON object in UTF-8: {shown(line[:60].decode(errors='replace'))}"
        raise DataError(problem)
    return record


def word(
    record: Mapping[str, Any], key: str, where: str, known_words: Sequence[str] | None = None
) -> str:
    """The text under a key, not blank, and one of those known. Raises `DataError`."""
    text = record.get(key)
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where} has no text under {key!r}, but {shown(text)}")
    if known_words is not None and text not in known_words:
        problem = (
            f"{where}: {key} is {shown(text)}, which is not known (valid: {', '.join(known_words)})"
        )
        raise DataError(problem)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{where}: the text under {key!r} holds half of a pair of surrogates, which no"
            " UTF-8 has"
        ) from None
    return text


def joined(text_parts: Iterable[str]) -> str:
    """The parts of a text as one."""
    return PART_MARK.join(text_part.replace(PART_MARK, " ") for text_part in text_parts)


def contents_of(texts: Iterable[str]) -> NDArray[np.uint64]:
    """A hash of each text: uint64 [n], see `AttributedDataset`. Prepared copies have the same."""
    return np.frombuffer(
        b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts),
        dtype=np.uint64,
    )
