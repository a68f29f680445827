"""Systematic shift: which classes are seen in which environments, by lists, by shares dealt by
seed, or by superclasses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import hash64, seed_of
from crosswind.data.attributes import Attribute
from crosswind.shifts.base import Cells, NormalForm, Shift, code_of, exact

Table = NDArray[np.bool_]
_NAMED = 6  # classes that a note names


@register("systematic", kind="shift")
@final
@dataclass(frozen=True)
class Systematic(Shift):
    """Weight 1 where an environment shows the class, 0 elsewhere; an environment that is not named
    is unseen.

    `classes` lists what an environment shows; `shares` fills it up, at random by `seed`, to that
    share of all classes, from those that no list names. Of two shares the smaller one's classes are
    among the larger one's. A share of 1 is all.
    An item of a list is a class, a superclass, or `A..B`, the classes from A to B in the order of
    the data set. Superclasses are dealt whole. Every class is in one environment at most beside
    those that show all classes, unless `overlapping`. Reference: Omran and Schiele 2022, section
    3.1: robustness is measured on the pairs kept apart.
    """

    environment: str = knob(doc="the attribute whose values are the environments")
    classes: Any = knob({}, doc='a map from environment to its list of classes, or to "all"')
    shares: Any = knob(
        {},
        doc=(
            "a map from environment to the share of all classes that it shows, the rest of them"
            " dealt at random"
        ),
    )
    superclasses: Any = knob(
        {},
        doc="a map from a name to its classes: lists may say it, and shares are dealt them whole",
    )
    spare: Any = knob([], doc="classes and superclasses that are not dealt to shares")
    seed: int = knob(0, domain="[0, inf)", doc="deals the classes to shares")
    overlapping: bool = knob(
        False, doc="whether a class may be in several environments that do not show all classes"
    )
    version = 1
    numbers = ("shares",)

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """1 on the pairs of class and environment that are seen."""
        axis, table = self.table(cells, field)
        factors = (cells.along([0, axis], table.astype(np.float64)),)
        return NormalForm(cells.shape, factors)

    def table(self, cells: Cells, field: str = "shift") -> tuple[int, Table]:
        """The axis of the environments, and which class is seen in which: bool [classes,
        environments]."""
        axis = cells.axis(self.environment, f"{field}.environment")
        label = cells.label
        environment = cells.axes[axis]
        if axis == 0:
            raise InputError(
                f"{field}.environment", f"{self.environment!r} is the label", cells.names[1:]
            )
        for name, entry_name in (
            ("classes", "list of classes"),
            ("shares", "share of the classes"),
            ("superclasses", "list of classes"),
        ):
            if not isinstance(getattr(self, name), Mapping):
                problem = f"must be a map to a {entry_name}, not {shown(getattr(self, name))}"
                raise InputError(f"{field}.{name}", problem)
        if not self.classes and not self.shares:
            raise InputError(
                f"{field}.classes",
                "must be a map from environment to its list of classes",
                environment.values,
            )
        families = self._families(label, f"{field}.superclasses")
        table = np.zeros((cells.shape[0], cells.shape[axis]), dtype=bool)
        for code, value, classes in _entries(self.classes, environment, f"{field}.classes"):
            everything = classes == "all" and "all" not in label.values
            table[
                (
                    slice(None)
                    if everything
                    else _listed(classes, label, families, f"{field}.classes.{value}")
                ),
                code,
            ] = True
        self._check_apart(table, cells, axis, f"{field}.classes")
        self._deal(table, label, environment, families, field)
        return axis, table

    def clean(self, cells: Cells, field: str = "shift") -> int | None:
        """The code of the first environment that shows every class; None where none does."""
        full = np.flatnonzero(self.table(cells, field)[1].all(axis=0))
        if len(full):
            return int(full[0])
        return None

    def attributes(self) -> tuple[str, ...]:
        """The environment."""
        return (self.environment,)

    def notes(self, cells: Cells) -> tuple[str, ...]:
        """Which classes were dealt to each environment of `shares`."""
        axis, table = self.table(cells)
        sentences = []
        for code, value, _ in _entries(self.shares, cells.axes[axis], "shift.shares"):
            names = []
            for class_code in np.flatnonzero(table[:, code]):
                names.append(cells.label.values[class_code])
            more_classes = ""
            if len(names) > _NAMED:
                more_classes = f" and {len(names) - _NAMED} more"
            sentences.append(
                f"systematic deals to {value} {len(names)} of {len(table)}:"
                f" {', '.join(names[:_NAMED])}{more_classes}"
            )
        return tuple(sentences)

    def warnings(self, cells: Cells) -> tuple[str, ...]:
        """A warning that names the classes that no environment shows."""
        table = self.table(cells)[1]
        never = []
        for value, row in zip(cells.label.values, table, strict=True):
            if not row.any():
                never.append(value)
        if never:
            return (f"systematic shows no environment of {cells.label.name} {', '.join(never)}",)
        return ()

    def _families(self, label: Attribute, field: str) -> dict[str, list[int]]:
        families: dict[str, list[int]] = {}
        for name, classes in self.superclasses.items():
            families[str(name)] = _listed(classes, label, {}, f"{field}.{name}")
            for other_family, codes in list(families.items())[:-1]:
                if shared := set(codes) & set(families[str(name)]):
                    problem = f"has {label.values[min(shared)]!r}, which {other_family!r} has too"
                    raise InputError(f"{field}.{name}", problem)
        return families

    def _check_apart(self, table: Table, cells: Cells, axis: int, field: str) -> None:
        several = np.flatnonzero((table & ~table.all(axis=0)).sum(axis=1) > 1)
        if len(several) and not self.overlapping:
            values = cells.axes[axis].values
            where = []
            for code in np.flatnonzero(table[several[0]] & ~table.all(axis=0)):
                where.append(values[code])
            problem = (
                f"puts {cells.label.values[several[0]]!r} in {' and in '.join(map(repr, where))}"
            )
            raise InputError(field, f"{problem}; say overlapping: true where that is meant")

    def _deal(
        self,
        table: Table,
        label: Attribute,
        environment: Attribute,
        families: Mapping[str, Sequence[int]],
        field: str,
    ) -> None:
        """Fill up the environments of `shares`, one after another."""
        n = len(table)
        total = Fraction(0)
        free: Table = np.logical_not((table & ~table.all(axis=0)).any(axis=1))
        free[_listed(self.spare, label, families, f"{field}.spare") if self.spare else []] = False
        units = [list(codes) for codes in families.values()]
        units += [
            [code] for code in range(n) if not any(code in codes for codes in families.values())
        ]
        ids = np.array([min(unit) for unit in units], dtype=np.int64)
        ranks = hash64(ids, seed_of(self.seed, "classes of environments"))
        queue = [
            units[environment_code]
            for environment_code in np.argsort(ranks, kind="stable")
            if free[units[environment_code]].all()
        ]
        for code, value, share in _entries(self.shares, environment, f"{field}.shares"):
            path = f"{field}.shares.{value}"
            share_of_classes = exact(share, path, 0, 1)
            if share_of_classes == 1:
                table[:, code] = True
                continue
            # Bounds are rounded, not parts: four quarters of ten classes are 3, 2, 3 and 2.
            n_classes = math.floor((total + share_of_classes) * n + Fraction(1, 2)) - math.floor(
                total * n + Fraction(1, 2)
            )
            total += share_of_classes
            if n_classes == 0:
                problem = (
                    f"leaves {value!r} empty: {share} of {n} classes is less than half a class"
                )
                raise InputError(path, problem)
            need = n_classes - int(table[:, code].sum())
            chosen = _filling(queue, need)
            if chosen is None:
                left = sum(map(len, queue))
                if need < 0:
                    lack = f"{-need} more are listed"
                else:
                    lack = f"{need} more cannot be dealt of the {left} that are left"
                raise InputError(path, f"asks for {n_classes} of {n} classes, and {lack}")
            table[[member for unit in chosen for member in unit], code] = True
            queue = [unit for unit in queue if unit not in chosen]


def _filling(units: Sequence[list[int]], need: int) -> list[list[int]] | None:
    """The first units in order that have `need` classes together; None where none have."""
    # Bit s of reach[i]: whether some of the units from i on have s classes together.
    reach = [1]
    for unit in reversed(units):
        reach.append(reach[-1] | reach[-1] << len(unit))
    if need < 0 or not reach[-1] >> need & 1:
        return None
    chosen = []
    for unit, reachable in zip(units, reversed(reach[:-1]), strict=True):
        if len(unit) <= need and reachable >> (need - len(unit)) & 1:
            chosen.append(unit)
            need -= len(unit)
    return chosen


def _entries(
    entries: Mapping[Any, Any], environment: Attribute, field: str
) -> list[tuple[int, str, Any]]:
    """Code, name and entry of every environment of a map, in its order; `InputError` where one is
    named twice."""
    entries_in_order: list[tuple[int, str, Any]] = []
    for value, entry in entries.items():
        code = code_of(environment, value, field)
        if any(code == other_code for other_code, _, _ in entries_in_order):
            problem = f"names the environment {environment.values[code]!r} twice"
            raise InputError(f"{field}.{value}", problem)
        entries_in_order.append((code, environment.values[code], entry))
    return entries_in_order


def _listed(
    classes: Any, label: Attribute, families: Mapping[str, Sequence[int]], field: str
) -> list[int]:
    """The codes of the classes that a list names, at least one, none twice."""
    is_list = isinstance(classes, Sequence) and not isinstance(classes, str)
    codes: list[int] = []
    for name in classes if is_list else [classes]:
        codes += _codes_of_name(name, label, families, field)
    if not codes:
        raise InputError(field, f"names no value of {label.name!r}", label.values)
    if len(set(codes)) < len(codes):
        twice = next(code for position, code in enumerate(codes) if code in codes[:position])
        problem = f"names {label.values[twice]!r} of {label.name!r} twice"
        raise InputError(field, problem)
    return codes


def _codes_of_name(
    name: Any, label: Attribute, families: Mapping[str, Sequence[int]], field: str
) -> Sequence[int]:
    """The codes of a class, of a superclass, or of `A..B`; a class of that very name comes first."""
    if not isinstance(name, str) or name in label.values:
        return [code_of(label, name, field)]
    if name in families:
        return families[name]
    ends = name.split("..")
    if len(ends) != 2 or not all(ends):
        return [code_of(label, name, field)]
    first, last = (code_of(label, end, field) for end in ends)
    if last < first:
        problem = f"{name!r} goes backwards: {ends[1]!r} comes before {ends[0]!r}"
        raise InputError(field, problem)
    return range(first, last + 1)
