"""The tiny world of `crosswind.testing`, and what tests say of its split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crosswind.shifts.split import RowSet as Rows
from crosswind.shifts.split import Split as Sets
from crosswind.testing.world import (
    DATA,
    GROUPS,
    SIDE,
    dataset,
    rows_of,
    run,
    same_weights,
    split,
    with_train,
)

__all__ = [
    "DATA",
    "GROUPS",
    "QUICK",
    "SIDE",
    "Rows",
    "Sets",
    "dataset",
    "rows_of",
    "run",
    "same_weights",
    "sets_of",
    "split",
    "with_train",
]


def sets_of(train: Rows, validation: Mapping[str, Rows], evaluation: Mapping[str, Rows]) -> Sets:
    """A split of rows, with the two classes of the world and nothing to report."""
    classes = ("dark", "bright")
    return Sets(
        train,
        dict(validation),
        dict(evaluation),
        classes,
        warnings=(),
        notes=(),
        flips={},
        parts={},
    )


QUICK: dict[str, dict[str, Any]] = {
    "cyclegan": {"width": 4, "blocks": 1},
    "cos": {"pairs": "class"},
    "mmd-align": {"pairs": "class"},
    "vicreg": {"pairs": "class", "width": 16},
}
"""Settings with which sweeps over all methods try one whose published networks would take minutes,
or that pairs images with themselves, which the rows of a sweep do not allow."""
