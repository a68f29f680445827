"""What a draw's counts say: cells by name, groups and environments, which values go with which class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.shifts.base import Cells
from crosswind.studies.build import build_shift
from crosswind.training.pairings import environments_are_classes

__all__ = ["DrawCounts", "matching_of"]


class DrawCounts:
    """What `plan_counts` says of one draw, and what follows from it."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.study_cells: Cells = told["study_cells"]
        self.cells: Cells = told["train_cells"]  # without a derived attribute that is drawn at every visit
        self.counts: NDArray[np.int64] = told["train_counts"]
        self.visits: NDArray[np.float64] = told["train_visits"]  # over the study's cells, what is drawn at every visit included
        self.train_rows: int = told["train_rows"]
        self.set_rows: Mapping[str, int] = told["sets"]
        self.warnings: list[str] = told["warnings"]
        self.notes: list[str] = told["notes"]
        self.origins: NDArray[np.int64] = told["origins"]
        self.test_cells: NDArray[np.float64] | None = told["test_cells"]
        self.test_counts: Mapping[str, tuple[Cells, NDArray[np.int64]]] = told["test_counts"]
        self.defaults = {True: told["groups"], False: told["environments"]}

    def by_name(self) -> dict[str, int]:
        """Training rows of every cell that has any."""
        flat = self.counts.ravel()
        return {self.cells.cell_names[cell]: int(flat[cell]) for cell in np.flatnonzero(flat)}

    def together(self, names: Sequence[str] | None, with_label: bool) -> NDArray[np.float64]:
        """Training rows, of values drawn at every visit those expected, by label (axis 0) and by the cells of the named attributes
        (axis 1); None is the default."""
        chosen = self.defaults[with_label] if names is None else names
        axes = [self.study_cells.axis(name, "groups" if with_label else "environments") for name in chosen]
        other = tuple(axis for axis in range(1, self.visits.ndim) if axis not in axes)
        found: NDArray[np.float64] = self.visits.sum(axis=other).reshape(self.visits.shape[0], -1)
        return found

    def count(self, names: Sequence[str] | None, with_label: bool) -> int:
        """How many groups (with the label) or environments (without) have training rows."""
        rows = self.together(names, with_label)
        return int(np.count_nonzero(rows if with_label else rows.sum(axis=0)))

    def check_sampler(self, sampler: str | Mapping[str, Any], field: str) -> None:
        """Refuse a sampler that the drawn rows cannot serve, as drawing them would."""
        if sampler == "reweight":
            if self.test_cells is None:
                raise InputError(field, "reweight needs a set of role test over the cells of the study")
            if not self.counts.ravel()[self.test_cells > 0].any():
                raise InputError(field, "reweight finds no training row in a cell that the test law allows")
        if isinstance(sampler, Mapping) and not (self.origins[0] > 0 and self.origins[1:].sum() > 0):
            raise InputError(field, "a mixture needs a shift with a supplement, and rows beside it")

    def environments_are_classes(self, names: Sequence[str] | None) -> bool:
        """Whether the environments, or one of the attributes that make them, nearly tell classes: see the function."""
        chosen = self.defaults[False] if names is None else names
        return environments_are_classes(*(self.together(part, False) for part in (chosen, *([name] for name in chosen))))

    def smallest_lot(self, attribute: str | None) -> tuple[int, str] | None:
        """The fewest test rows that share a value of an attribute, and what they are called; None where that is not counted."""
        lots = []
        for name, (cells, counts) in self.test_counts.items():
            if attribute is None:
                lots.append((int(counts.sum()), f"set {name!r}"))
            elif attribute in cells.names:
                axis = cells.names.index(attribute)
                found = counts.sum(axis=tuple(other for other in range(counts.ndim) if other != axis))
                values = zip(cells.axes[axis].values, found, strict=True)
                lots += [(int(count), f"{attribute} {value!r} of set {name!r}") for value, count in values if count]
        return min(lots, default=None)


def matching_of(split: Mapping[str, Any], cells: Cells) -> dict[str, dict[str, list[str]]]:
    """For each spurious correlation of the draw: the values that go with each class."""
    out = {}
    for component in split["shift"]:
        if component.get("type") != "spurious-correlation":
            continue
        name = component["attribute"]
        weights = build_shift([component], "shift").normal_form(cells).weights
        axis = cells.axis(name, "attribute")
        table = weights.max(axis=tuple(other for other in range(1, weights.ndim) if other != axis))
        values = cells.axes[axis].values
        out[name] = {
            label: [values[code] for code in np.flatnonzero(row == table.max())]
            for label, row in zip(cells.label.values, table, strict=True)
        }
    return out
