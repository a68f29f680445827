"""What a draw's counts say: cells by name, groups and environments, which values go with which class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.shifts.base import Cells
from crosswind.shifts.split import parse_sampler
from crosswind.studies.build import build_shift
from crosswind.training.pairings import environments_are_classes

__all__ = ["DrawCounts", "matching_of"]

Sampler: TypeAlias = str | Mapping[str, Any]


class DrawCounts:
    """What `plan_counts` says of one draw, and what follows from it."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.study_cells: Cells = told["study_cells"]
        self.cells: Cells = told["train_cells"]  # without a derived attribute that is drawn at every visit
        self.counts: NDArray[np.int64] = told["train_counts"]
        self._origins: NDArray[np.float64] = told["train_visits"]  # by weights and of each supplement, see there
        self.visits: NDArray[np.float64] = self._origins.sum(axis=0)  # over the study's cells, drawn at every visit included
        self.train_rows: int = told["train_rows"]
        self.train_shared: float = told["train_shared"]
        self.set_rows: Mapping[str, int] = told["sets"]
        self.follow: Sequence[str] = told["follow"]
        self.warnings: list[str] = told["warnings"]
        self.notes: list[str] = told["notes"]
        self.test_cells: NDArray[np.float64] | None = told["test_cells"]
        self.test_counts: Mapping[str, tuple[Cells, NDArray[np.int64]]] = told["test_counts"]
        self.pictures: str | None = told["pictures"]
        self.defaults = {True: told["groups"], False: told["environments"]}

    def by_name(self) -> dict[str, int]:
        """Training rows of every cell that has any."""
        flat = self.counts.ravel()
        return {self.cells.cell_names[cell]: int(flat[cell]) for cell in np.flatnonzero(flat)}

    def together(self, names: Sequence[str] | None, with_label: bool, sampler: Sampler = "uniform") -> NDArray[np.float64]:
        """Training rows, of values drawn at every visit those expected, by label (axis 0) and by the cells of the named attributes
        (axis 1); None is the default. Without those that the sampler never draws."""
        axes = self._axes(names, with_label)
        other = tuple(axis for axis in range(1, self.visits.ndim) if axis not in axes)
        found: NDArray[np.float64] = self._drawn(sampler).sum(axis=other).reshape(self.visits.shape[0], -1)
        return found

    def undrawn(self, names: Sequence[str] | None, with_label: bool, sampler: Sampler) -> list[str]:
        """The groups (with the label) or environments (without) that have training rows of which the sampler never draws one."""
        there, drawn = self.together(names, with_label), self.together(names, with_label, sampler)
        left = (there > 0) & ~(drawn > 0) if with_label else ((there.sum(axis=0) > 0) & ~(drawn.sum(axis=0) > 0))[None]
        chosen = [0] * with_label + sorted(self._axes(names, with_label))
        axes = [self.study_cells.axes[axis] for axis in chosen]
        if not axes:  # no attributes, so one environment, which has no name
            return []
        codes = np.unravel_index(np.flatnonzero(left), [len(axis.values) for axis in axes])
        return [
            ", ".join(f"{axis.name}={axis.values[code]}" for axis, code in zip(axes, cell, strict=True))
            for cell in zip(*codes, strict=True)
        ]

    def _axes(self, names: Sequence[str] | None, with_label: bool) -> list[int]:
        chosen = self.defaults[with_label] if names is None else names
        return [self.study_cells.axis(name, "groups" if with_label else "environments") for name in chosen]

    def _drawn(self, sampler: Sampler) -> NDArray[np.float64]:
        """The visits of cells that the sampler gives a probability."""
        sampler = parse_sampler(sampler)
        if sampler == "reweight" and self.test_cells is not None:
            return self.visits * (self.test_cells > 0).reshape(self.visits.shape)
        if isinstance(sampler, Mapping):
            share, whole = sampler["mixture"], self._origins
            return whole[0] * (share < 1) + whole[1:].sum(axis=0) * (share > 0)
        return self.visits

    def count(self, names: Sequence[str] | None, with_label: bool) -> int:
        """How many groups (with the label) or environments (without) have training rows."""
        rows = self.together(names, with_label)
        return int(np.count_nonzero(rows if with_label else rows.sum(axis=0)))

    def check_sampler(self, sampler: Sampler, field: str) -> None:
        """Refuse a sampler that the drawn rows cannot serve, as drawing them would."""
        if sampler == "reweight":
            if self.test_cells is None:
                raise InputError(field, "reweight needs a set of role test over the cells of the study")
            if not self._drawn(sampler).any():
                raise InputError(field, "reweight finds no training row in a cell that the test law allows")
        if isinstance(sampler, Mapping) and not (self._origins[0].any() and self._origins[1:].any()):
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
