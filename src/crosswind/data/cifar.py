"""What CIFAR-10 and the sets made after it share: the names of ten classes, and parts of pictures and labels as one data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, shown
from crosswind.data.archives.npz import Expected
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.resizing import of_parts

__all__ = ["CLASSES", "LABELS", "PIXELS", "SIDE", "Piece", "checked_labels", "checked_names", "in_parts"]

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""The ten classes in CIFAR-10's order, by its names; one set's classes are found in another's by these names."""
SIDE = 32
PIXELS = Expected("uint8", (None, SIDE, SIDE, 3))
LABELS = Expected("integers", (None,))

Piece = tuple[NDArray[np.int64], Callable[[], NDArray[np.uint8]]]


def checked_labels(labels: NDArray[np.integer[Any]], place: Path | str, pictures: int | None = None) -> NDArray[np.int64]:
    """The labels int64 [n]. Raises `DataError`, naming the place, for one outside 0 to 9 and for other than one a picture."""
    if pictures is not None and len(labels) != pictures:
        raise DataError(f"{place} holds {len(labels):,} labels for {pictures:,} pictures")
    wrong = np.flatnonzero((labels < 0) | (labels >= len(CLASSES)))
    if wrong.size:
        row = int(wrong[0])
        raise DataError(f"{place}: picture {row + 1:,} has label {int(labels[row])}, and labels are 0 to {len(CLASSES) - 1}")
    return labels.astype(np.int64)


def checked_names(names: list[str], place: Path | str) -> None:
    """Raises `DataError` where names of classes, in the order of their labels, are not those of CIFAR-10."""
    if tuple(names) != CLASSES:
        raise DataError(f"{place} is not of CIFAR-10's classes: it names {shown(', '.join(names), 120)}")


def in_parts(name: str, parts: Mapping[str, Sequence[Piece]], size: int) -> tuple[AttributedDataset, dict[str, int]]:
    """Parts one after the other, and their numbers of rows: attribute `class`, and `split` where there is more than one part.

    `parts`: name -> pieces, each of labels int64 [n] and what gives its pictures, uint8 [n, 32, 32, 3], asked once when one of them
    is first needed.
    """
    counts = {part: sum(len(labels) for labels, _ in pieces) for part, pieces in parts.items()}
    pieces = [piece for part in parts.values() for piece in part]
    attributes, codes = [Attribute("class", CLASSES)], [np.concatenate([labels for labels, _ in pieces])]
    if len(parts) > 1:  # a study tests on all rows of a target without a column of parts
        attributes.append(Attribute("split", tuple(parts)))
        codes.append(np.repeat(np.arange(len(parts)), list(counts.values())))
    images = of_parts([pictures for _, pictures in pieces], [len(labels) for labels, _ in pieces], size)
    return AttributedDataset(name, AttributeTable(tuple(attributes), np.stack(codes)), images, (size, size, 3)), counts
