"""Files cut short and files with damaged bytes: what every reader of foreign files is tried
with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from crosswind.core.errors import DataError


def spoiled(whole: bytes, count: int = 25, seed: int = 0) -> Iterator[bytes]:
    """`count` beginnings of a file, down to none, then `count` copies of it with one byte
    changed."""
    draw = np.random.default_rng(seed)
    for cut in sorted({0, 1, 4, len(whole) - 1, *draw.integers(0, len(whole), count).tolist()}):
        yield whole[:cut]
    for place in draw.integers(0, len(whole), count).tolist():
        yield (
            whole[:place] + bytes([whole[place] ^ int(draw.integers(1, 256))]) + whole[place + 1 :]
        )


def refused_or_the_same(
    path: Path,
    read: Callable[[Path], object],
    same: Callable[[object], bool],
    least: int,
    **how: int,
) -> None:
    """Every spoiled file ends in one sentence that names it, or is read as it was; at least `least`
    are refused."""
    whole, refusals = path.read_bytes(), 0
    for data in spoiled(whole, **how):
        path.write_bytes(data)
        try:
            found = read(path)
        except DataError as error:
            refusals += 1
            assert path.name in str(error) and "\n" not in str(error)
        else:
            assert same(found), "a damaged file was read as another"
    path.write_bytes(whole)
    assert same(read(path)) and refusals >= least


def refused(path: Path, words: str, read: Callable[[Path], object]) -> None:
    """The file is refused in one sentence with these words that begins with its path."""
    with pytest.raises(DataError, match=words) as caught:
        read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
