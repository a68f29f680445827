"""The summary of a draw's counts: cells by name, groups and environments, which values go with
which class."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.types import InputSpec
from crosswind.shifts.base import Cells, parse_shift
from crosswind.shifts.split import SplitCounts, parse_sampler
from crosswind.shifts.split.sampling import NO_ENVIRONMENTS, Environments
from crosswind.studies.axes import MethodEntry
from crosswind.training.requirements import Pairing
from crosswind.training.settings import ModelSpec, TrainingSettings

Sampler: TypeAlias = str | Mapping[str, Any]
UNLIKE = 0.03
"""How far a value's share of a class's rows may be from what a shift asks before a plan warns."""
_SHARE_FIELDS = {"spurious-correlation": "strength", "low-data-drift": "ratio"}


@dataclass(frozen=True)
class DrawReport:
    """The counts of one shift on one data set at one size, planned without drawing rows.

    `train_shared`: the share of the training rows that two seeds are expected to share. `cells`:
    the training rows of every cell that has any. `matching`: for each spurious correlation the
    values that go with each class; `matched_shares`: the share of each class's training rows that
    show one of them. `environments`: of a systematic shift, class -> environment that
    training shows -> share of all its visits, by the study's sampler; 0 for pairs kept apart.
    """

    source: str
    shift: str
    size: str
    train_rows: int
    validation_rows: int
    test_rows: int
    train_shared: float
    cells: dict[str, int]
    matching: dict[str, dict[str, list[str]]]
    matched_shares: dict[str, dict[str, float]]
    warnings: list[str]
    environments: dict[str, dict[str, float]]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


class DrawCounts:
    """The counts of one draw of a study, and what follows from them."""

    def __init__(self, split_counts: SplitCounts) -> None:
        self.study_cells = split_counts.study_cells
        # Without a derived attribute that is drawn at every visit.
        self.cells = split_counts.train_cells
        self.counts = split_counts.train_counts
        # By weights and of each supplement, see `SplitCounts.train_visits`.
        self._origins = split_counts.train_visits
        # Over the study's cells, drawn at every visit included.
        self.visits: NDArray[np.float64] = self._origins.sum(axis=0)
        self.train_rows = split_counts.train_rows
        self.train_shared = split_counts.train_shared
        self.set_rows: Mapping[str, int] = split_counts.set_rows
        self.follow: Sequence[str] = split_counts.follow
        self.merge: Sequence[str] = split_counts.merge
        self.fills = split_counts.fills
        self.lacks_share = split_counts.lacks_share
        self.warnings = split_counts.warnings
        self.test_cells = split_counts.test_cells
        self.test_counts = split_counts.test_counts
        self.pictures = split_counts.pictures
        self.environments = Environments.of(
            split_counts.shift, self.study_cells, *self._base_cells()
        )
        self.defaults = {True: split_counts.groups, False: split_counts.environments}

    def together(
        self, names: Sequence[str] | None, with_label: bool, sampler: Sampler = "uniform"
    ) -> NDArray[np.float64]:
        """Training rows, of values drawn at every visit those expected, by label (axis 0) and by
        the cells of the named attributes (axis 1); None is the default. Without those that the
        sampler never draws."""
        visits = self._drawn(sampler)
        axes = self._axes(names, with_label)
        summed_axes = tuple(axis for axis in range(1, visits.ndim) if axis not in axes)
        row_counts: NDArray[np.float64] = visits.sum(axis=summed_axes).reshape(visits.shape[0], -1)
        return row_counts

    def undrawn(self, names: Sequence[str] | None, with_label: bool, sampler: Sampler) -> list[str]:
        """The groups (with the label) or environments (without) that have training rows of which
        the sampler never draws one."""
        present, drawn = (self.together(names, with_label, each) for each in ("uniform", sampler))
        if not with_label:
            if not self._axes(
                names, with_label
            ):  # no attributes, so one environment, which has no name
                return []
            present = present.sum(axis=0)
            drawn = drawn.sum(axis=0)
        cell_names = self._names(names, with_label)
        return [cell_names[code] for code in np.flatnonzero((present > 0) & ~(drawn > 0))]

    def _names(self, names: Sequence[str] | None, with_label: bool = False) -> list[str]:
        """Of all groups (with the label) or environments (without), in the order of their codes."""
        axes = []
        for axis in [0] * with_label + sorted(self._axes(names, with_label)):
            axes.append(self.study_cells.axes[axis])
        words = ([f"{axis.name}={value}" for value in axis.values] for axis in axes)
        return [", ".join(cell) for cell in itertools.product(*words)]

    def _axes(self, names: Sequence[str] | None, with_label: bool) -> list[int]:
        chosen = self.defaults[with_label] if names is None else names
        return [
            self.study_cells.axis(name, "groups" if with_label else "environments")
            for name in chosen
        ]

    def _drawn(self, sampler: Sampler) -> NDArray[np.float64]:
        """The visits of cells that the sampler gives a probability; where it is by environments, as
        many as it gives each."""
        sampler = parse_sampler(sampler)
        if sampler == "reweight" and self.test_cells is not None:
            return self.visits * (self.test_cells > 0).reshape(self.visits.shape)
        if isinstance(sampler, Mapping) and "mixture" in sampler:
            share = sampler["mixture"]
            visits_by_origin = self._origins
            return visits_by_origin[0] * (share < 1) + visits_by_origin[1:].sum(axis=0) * (
                share > 0
            )
        if isinstance(sampler, Mapping) and self.environments is not None:
            mass = self.visits.reshape(len(self.environments.label), -1)
            shares = self.environments.shares(sampler, mass)
            return shares.reshape(self.visits.shape) * self.visits.sum()
        return self.visits

    def check_sampler(self, sampler: Sampler, field: str) -> None:
        """Refuse a sampler that the drawn rows cannot serve, as drawing them would."""
        if sampler == "reweight" and self.test_cells is None:
            raise InputError(field, "reweight needs a set of role test over the cells of the study")
        if sampler == "reweight" and not self._drawn(sampler).any():
            raise InputError(
                field, "reweight finds no training row in a cell that the test law allows"
            )
        if isinstance(sampler, Mapping):
            if "mixture" not in sampler and self.environments is None:
                raise InputError(field, NO_ENVIRONMENTS.format(next(iter(sampler))))
            if "mixture" in sampler and not (self._origins[0].any() and self._origins[1:].any()):
                raise InputError(
                    field, "a mixture needs a shift with a supplement, and rows beside it"
                )

    def _base_cells(self) -> tuple[NDArray[np.int64], int]:
        """The first cell of each that training's rows are counted by, and how many there are from
        it on: one for every value."""
        values = self.study_cells.size // self.cells.size
        return np.arange(self.cells.size) * values, values

    def shown_in(self, sampler: Sampler) -> dict[str, dict[str, float]]:
        """Class -> environment that training shows -> the share of all visits that show the two; {}
        without environments."""
        if self.environments is None:
            return {}
        environments = self.environments
        mass = self._drawn(sampler).ravel()
        pair = (environments.label[:, None] * environments.size + environments.environment).ravel()
        table = np.bincount(pair, mass, minlength=self.study_cells.shape[0] * environments.size)
        table = table.reshape(-1, environments.size) / max(mass.sum(), 1)
        names = next(
            axis.values for axis in self.study_cells.axes if axis.name == environments.name
        )
        return {
            label: {
                name: float(share)
                for name, share, any_class in zip(names, row, table.any(axis=0), strict=True)
                if any_class
            }
            for label, row in zip(self.study_cells.label.values, table, strict=True)
        }

    def pairings(
        self,
        method: MethodEntry,
        split: Mapping[str, Any],
        input_spec: InputSpec | None,
        models: Mapping[str, Mapping[str, Any]],
    ) -> Iterator[Pairing]:
        """The method at every point of its grid, with what this split gives it.

        `input_spec`: a row of the data; `models`: name and knobs of the models that it is run with, by
        label.
        """
        needs, groups, environments, sampler = (
            method.facts.needs,
            *(split[key] for key in ("groups", "environments", "sampler")),
        )
        if needs is None:
            return
        chosen = self.defaults[False] if environments is None else environments
        tables = []
        for names in (chosen, *([name] for name in chosen)):
            tables.append(self.together(names, with_label=False))
        group_rows = self.together(groups, True, sampler).ravel().tolist()
        environment_rows = tables[0].sum(axis=0).tolist()
        models_by_label = {
            label: ModelSpec(model["name"], model["knobs"]) for label, model in models.items()
        }
        is_visited = any(
            name in chosen for name in self.study_cells.names if name not in self.cells.names
        )
        if isinstance(sampler, str):
            sampler_name = sampler
        else:
            sampler_name = next(iter(sampler))
        validation_rows = {}
        for name, set_values in split["sets"].items():
            if set_values["role"] == "validation":
                validation_rows[name] = self.set_rows.get(name, 0)
        shared: dict[str, Any] = {
            "validation_rows": validation_rows,
            "environment_rows": environment_rows,
            "group_rows": group_rows,
            "environment_tables": tables,
            "group_table": self.together(groups, True),
            "sampler": sampler_name,
            "undrawn_environments": self.undrawn(environments, False, sampler),
            "undrawn_groups": self.undrawn(groups, True, sampler),
            "input": input_spec,
            "models": models_by_label,
            "attributes": split["attributes"],
            "environment_names": self._names(environments),
            "name": method.facts.name,
            "visited": is_visited,
        }
        for _, knobs, training in method.points:
            steps = TrainingSettings(**training).longest(self.train_rows)
            lots = None
            if needs.adapts:
                lots = self._smallest_lot(knobs[needs.adapts])
            yield Pairing(
                needs, method.facts.limit, knobs, training["batch"], steps, lots=lots, **shared
            )

    def _smallest_lot(self, attribute: str | None) -> tuple[int, str] | None:
        """The fewest test rows that share a value of an attribute, and what they are called; None
        where that is not counted."""
        lots = []
        for name, (cells, counts) in self.test_counts.items():
            if attribute is None:
                lots.append((int(counts.sum()), f"set {name!r}"))
            elif attribute in cells.names:
                axis = cells.names.index(attribute)
                row_counts = (
                    np.moveaxis(counts, axis, 0).reshape(counts.shape[axis], -1).sum(axis=1)
                )
                values = zip(cells.axes[axis].values, row_counts, strict=True)
                for value, count in values:
                    if count:
                        lots.append((int(count), f"{attribute} {value!r} of set {name!r}"))
        return min(lots, default=None)

    def _matched_shares(
        self, matching: Mapping[str, Mapping[str, Sequence[str]]]
    ) -> dict[str, dict[str, float]]:
        """For each attribute the share of every class's training rows that show one of the values
        matched with it; classes without rows have none."""
        shares: dict[str, dict[str, float]] = {}
        for attribute, pairs in matching.items():
            axis = self.study_cells.axis(attribute, "attribute")
            rows_by_value = self.together([attribute], with_label=True)
            values = self.study_cells.axes[axis].values
            shares[attribute] = {
                label: round(
                    float(row[[values.index(value) for value in pairs[label]]].sum() / n), 4
                )
                for label, row in zip(self.study_cells.label.values, rows_by_value, strict=True)
                if (n := float(row.sum()))
            }
        return shares

    def shares_asked_otherwise(self, split: Mapping[str, Any]) -> list[str]:
        """Where every row is drawn, the attributes whose values a shift gives other shares of a class
        than it asks for, since the rows of the cells are uneven."""
        form = parse_shift(split["shift"]).normal_form(self.study_cells)
        if form.supplements or split["draw"] != "all" or split["dataset_size"] is not None:
            return []
        warnings = []
        for component in split["shift"]:
            field = _SHARE_FIELDS.get(str(component.get("type")), "")
            if component.get(field, 1) in (None, 1) or component["attribute"] == split["label"]:
                continue
            axis = self.study_cells.axis(component["attribute"], "attribute")
            summed_axes = tuple(number for number in range(1, form.weights.ndim) if number != axis)
            weights, rows = form.weights.sum(axis=summed_axes), self.visits.sum(axis=summed_axes)
            with_rows = rows.sum(axis=1) > 0
            law, drawn = (
                table[with_rows] / table[with_rows].sum(axis=1, keepdims=True)
                for table in (weights, rows)
            )
            row, value = np.unravel_index(int(np.abs(drawn - law).round(9).argmax()), law.shape)
            if abs(drawn[row, value] - law[row, value]) <= UNLIKE:
                continue
            label = self.study_cells.label.values[int(np.flatnonzero(with_rows)[row])]
            value_name = self.study_cells.axes[axis].values[int(value)]
            number = component[field]
            setting = field if isinstance(number, Mapping) else f"{field}: {number}"
            warnings.append(
                f"the size is all, and {setting} takes its share of each cell's rows as they are:"
                f" {drawn[row, value]:.0%} of {label} show {component['attribute']} {value_name},"
                f" not the {law[row, value]:.0%} that the shift asks for, which the sizes equal,"
                " balanced and {total: n} draw"
            )
        return warnings

    def report(self, names: tuple[str, str, str], split: Mapping[str, Any]) -> DrawReport:
        """The report of the draw in a plan; `names`: the data set, the shift and the size."""
        rows = {}
        for role in ("test", "validation"):
            set_names = []
            for name, set_values in split["sets"].items():
                if set_values["role"] == role:
                    set_names.append(name)
            rows[role] = self.set_rows.get(
                role if role in set_names else next(iter(set_names), ""), 0
            )
        flat = self.counts.ravel()
        cells = {self.cells.cell_names[cell]: int(flat[cell]) for cell in np.flatnonzero(flat)}
        matching = _matching(split, self.study_cells)
        environments = self.shown_in(split["sampler"])
        train_shared = round(self.train_shared, 4)
        warnings = list(self.warnings)
        return DrawReport(
            *names,
            train_rows=self.train_rows,
            validation_rows=rows["validation"],
            test_rows=rows["test"],
            train_shared=train_shared,
            cells=cells,
            matching=matching,
            matched_shares=self._matched_shares(matching),
            warnings=warnings,
            environments=environments,
        )


def _matching(split: Mapping[str, Any], cells: Cells) -> dict[str, dict[str, list[str]]]:
    """For each spurious correlation of the draw: the values that go with each class."""
    out = {}
    for component in split["shift"]:
        if component.get("type") == "spurious-correlation":
            axis = cells.axis(component["attribute"], "attribute")
            weights = np.moveaxis(parse_shift([component]).normal_form(cells).weights, axis, 1)
            table = weights.reshape(*weights.shape[:2], -1).max(axis=2)
            values = cells.axes[axis].values
            out[component["attribute"]] = {
                label: [values[code] for code in np.flatnonzero(row == table.max())]
                for label, row in zip(cells.label.values, table, strict=True)
            }
    return out
