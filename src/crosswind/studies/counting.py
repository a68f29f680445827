"""What a draw's counts say: cells by name, groups and environments, which values go with which class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.shifts.base import Cells
from crosswind.studies.build import build_shift

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
        self.test_cells: NDArray[np.bool_] | None = told["test_cells"]
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
            if not self.counts.ravel()[self.test_cells].any():
                raise InputError(field, "reweight finds no training row in a cell that the test law allows")
        if isinstance(sampler, Mapping) and not (self.origins[0] > 0 and self.origins[1:].sum() > 0):
            raise InputError(field, "a mixture needs a shift with a supplement, and rows beside it")

    def environment_is_class(self, names: Sequence[str] | None) -> bool:
        """Whether environments nearly tell classes, or classes environments: then aligning environments erases the label.

        It is so where one of Goodman and Kruskal's two lambdas is above 0.8, for the environments or for one of the attributes that
        make them. With two even ones of each, 0.8 is nine rows in ten.
        """
        chosen = self.defaults[False] if names is None else names
        tables = [self.together(part, False) for part in (chosen, *([name] for name in chosen))]
        return any(max(_fewer_errors(rows), _fewer_errors(rows.T)) > 0.8 for rows in tables)


def _fewer_errors(rows: NDArray[np.float64]) -> float:
    """Goodman and Kruskal's lambda: the share of wrong guesses of axis 0 by its commonest that knowing axis 1 spares."""
    wrong = rows.sum() - rows.sum(axis=1).max()
    spared = rows.max(axis=0).sum() - rows.sum(axis=1).max()
    return float(spared / wrong) if wrong else 0.0


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
