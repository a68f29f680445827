"""Claims over several cases: which planned runs a side is, and what is refused before anything runs.

A cell is what a study plans at one data set, shift and size with one model and method, all seeds and
points together. A row is a method on a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from crosswind.core.errors import InputError, unknown
from crosswind.evaluation.metrics import METRICS
from crosswind.evaluation.pooled_tests import AGREEMENT, BEST, MEAN, ORDER, RANKS, SHARE
from crosswind.studies.axes import MethodEntry, StudyPoint
from crosswind.studies.claims import check_metric, refuse_unheard_limits
from crosswind.studies.families import families_of, method_names
from crosswind.studies.spec import PooledClaim, RowsSpec, Study

ALL = "all"
"""Every method of a study."""
CONDITIONS = ("data", "shift", "size")
"""What a case is, beside its row."""
_SIDED = (MEAN, SHARE, ORDER)
Row = tuple[str, str]
"""The name of a method, and a model."""
_FIELDS: Mapping[str, Collection[str]] = {
    "better": _SIDED,
    "than": _SIDED,
    "rows": (AGREEMENT, BEST, RANKS),
    "along": (ORDER, AGREEMENT),
    "by": (MEAN, SHARE),
    "share": (SHARE,),
}
"""The tests that a field of a claim is for."""


class PlannedCell(NamedTuple):
    """The runs planned of one row at one data set, shift and size."""

    data: str
    shift: str
    size: str
    model: str
    method: str


@dataclass(frozen=True)
class PlannedCells:
    """The cells of a study's trained methods in the order of the study.

    `families` and `names` are of its methods by label: the labels of one method that run on
    different data sets are one row.
    """

    cells: Sequence[PlannedCell]
    reference: str
    families: Mapping[str, str]
    names: Mapping[str, str]

    def row_of(self, cell: PlannedCell) -> Row:
        """The row of a cell: the name of its method, and its model."""
        return self.names[cell.method], cell.model

    @cached_property
    def main_model(self) -> str:
        """The model that most methods run on; the first of equal ones."""
        counts = Counter(model for _, model in dict.fromkeys(map(self.row_of, self.cells)))
        return max(counts, key=lambda model: counts[model], default="")

    @property
    def baseline(self) -> tuple[str, str]:
        """The label of the reference, and the main model."""
        return self.reference, self.main_model

    def of_side(self, side: Mapping[str, Any], claim: Mapping[str, Any]) -> list[PlannedCell]:
        """The cells that a side is about; both as plain values with every default."""
        limits = {
            name: listed(claim.get(name) if side.get(name) is None else side[name])
            for name in CONDITIONS
        }
        rows = self.rows_of(side)
        return [
            cell
            for cell in self.cells
            if self.row_of(cell) in rows
            and all(not names or getattr(cell, name) in names for name, names in limits.items())
        ]

    def rows_of(self, side: Mapping[str, Any]) -> set[Row]:
        """The rows that a side names: of methods named alone those on the main model, where they
        run on it."""
        methods, families = listed(side.get("methods")), listed(side.get("family"))
        models = listed(side.get("model"))
        every = not methods or methods == [ALL]
        rows: set[Row] = set()
        for cell in self.cells:
            row = self.row_of(cell)
            is_named = every or bool({cell.method, row[0]}.intersection(methods))
            on_model = not models or cell.model in models
            of_family = not families or self.families[cell.method] in families
            if all((is_named, on_model, of_family)):
                rows.add(row)
        return rows if every or models else self._on_main_model(rows)

    def _on_main_model(self, rows: Collection[Row]) -> set[Row]:
        """The rows on the main model, and those of methods that do not run on it."""
        on_main = {row for row in rows if row[1] == self.main_model}
        methods_there = {method for method, _ in on_main}
        return on_main | {row for row in rows if row[0] not in methods_there}


def planned_cells(
    cells: Iterable[PlannedCell], methods: Collection[str], resolved: Mapping[str, Any]
) -> PlannedCells:
    """The cells of trained `methods`, which a study with defaults names."""
    trained = [cell for cell in dict.fromkeys(cells) if cell.method in methods]
    return PlannedCells(
        trained,
        str(resolved["reference"]),
        families_of([cell.method for cell in trained], resolved),
        method_names({(cell.data, cell.method) for cell in trained}, resolved),
    )


def listed(value: Any) -> list[str]:
    """Names that a claim gives as one or several; none where it gives none."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def side_of(value: Any) -> dict[str, Any]:
    """A side as plain values: a method alone is its label."""
    if isinstance(value, str):
        return {"methods": value}
    return dict(value or {})


def minus_of(side: Mapping[str, Any]) -> dict[str, Any]:
    """The rows whose mean a side is less of, as a side; empty where it is no gap. Rows that are
    named take the place of the side's, by whichever of label and family these are named."""
    minus = {name: value for name, value in (side.get("minus") or {}).items() if value is not None}
    if not minus:
        return {}
    taken_over = {name: value for name, value in side.items() if name != "minus"}
    if minus.keys() & {"methods", "family"}:
        taken_over = {**taken_over, "methods": None, "family": None}
    return {**taken_over, **minus}


def along_of(claim: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The field that conditions of a claim differ in, and the conditions in order; nothing where it
    has none."""
    along = claim.get("along") or {}
    return next(iter(along.items()), ("", []))


# -- what is refused -------------------------------------------------------------------------------


def check_pooled_claims(
    study: Study,
    points: Sequence[StudyPoint],
    models: Mapping[str, Sequence[str] | None],
    methods: Mapping[str, MethodEntry],
) -> None:
    """Refuse claims over cases that the study does not run. Raises `InputError` that names the field.

    `models`: those that are trained, each with the data sets that it is run on, None for all;
    `methods`: those that are trained.
    """
    claims = {
        f"claims.{number}": claim
        for number, claim in enumerate(study.claims)
        if isinstance(claim, PooledClaim)
    }
    if not claims:
        return
    named_methods = (
        study.methods if isinstance(study.methods, dict) else dict.fromkeys(study.methods)
    )
    resolved = {"reference": study.reference, "methods": named_methods}
    planned: list[PlannedCell] = []
    for point, model, (label, entry) in product(points, models, methods.items()):
        on_data = models[model] or [point.data]
        if entry.at(point) and entry.on(model) and point.data in on_data:
            planned.append(PlannedCell(point.data, point.shift, point.size, model, label))
    cells = planned_cells(planned, methods, resolved)
    names = _Names(study, points, models, methods, cells)
    for path, claim in claims.items():
        _check_claim(path, claim, names)


def _check_claim(path: str, claim: PooledClaim, names: _Names) -> None:
    values = claim.model_dump()
    study, cells = names.study, names.cells
    _check_fields(path, claim)
    _check_along(path, claim)
    if claim.rule is not None and claim.rule not in study.selection:
        raise unknown(f"{path}.rule", "selection rule of this study", claim.rule, study.selection)
    names.check(path, values)
    refuse_unheard_limits(path, claim, _declared_sides(claim))
    sides = {
        name: side_of(values[name])
        for name in ("better", "than", "rows")
        if values[name] is not None
    }
    for name, side in sides.items():
        if not cells.of_side(side, values):
            raise InputError(f"{path}.{name}", "is about no run of this study")
    sides_of_claim = list(sides.values()) or [{}]
    scored = [cell for side in sides_of_claim for cell in cells.of_side(side, values)]
    check_metric(f"{path}.metric", claim.metric, study, {cell.shift for cell in scored})
    if claim.test in (AGREEMENT, BEST, RANKS):
        _check_rows(path, cells, sides.get("rows", {}), values)
    if claim.test in (MEAN, SHARE):
        better = sides["better"]
        than = sides.get("than", {"methods": study.reference})
        _check_gaps(path, claim, better, than, names)
        same = [
            left.get("set") == right.get("set")
            and cells.of_side(left, values) == cells.of_side(right, values)
            for left, right in ((better, than), (minus_of(better), minus_of(than)))
        ]
        if all(same):
            raise InputError(
                f"{path}.than", "is the same side as 'better', so there is nothing to compare"
            )


def _declared_sides(claim: PooledClaim) -> list[str | RowsSpec | None]:
    """The sides of a claim as its study writes them, None where one is left out."""
    if claim.test in (MEAN, SHARE) or claim.than is not None:
        return [claim.better, claim.than]
    return [claim.better if claim.test in _SIDED else claim.rows]


def _check_gaps(
    path: str,
    claim: PooledClaim,
    better: Mapping[str, Any],
    than: Mapping[str, Any],
    names: _Names,
) -> None:
    """Refuse a gap that is compared with no gap, one that is of no run, and one of a score with
    itself."""
    sides = {"better": better, "than": than}
    gaps = {name: minus_of(side) for name, side in sides.items() if minus_of(side)}
    if not gaps:
        return
    values = claim.model_dump()
    if claim.test != MEAN:
        raise InputError(f"{path}.{next(iter(gaps))}.minus", f"is not for the test {claim.test}")
    for name, side in sides.items():
        if name not in gaps:
            raise InputError(
                f"{path}.{name}", "needs a minus too: a gap is compared with another gap"
            )
        minus = gaps[name]
        if not names.cells.of_side(minus, values):
            raise InputError(f"{path}.{name}.minus", "is about no run of this study")
        is_one_set = minus.get("set") == side.get("set")
        if is_one_set and names.cells.of_side(minus, values) == names.cells.of_side(side, values):
            raise InputError(
                f"{path}.{name}.minus",
                "is the same rows as its side's, so there is no gap: name other rows, another"
                " shift, data set, size or set",
            )


def _check_fields(path: str, claim: PooledClaim) -> None:
    """Refuse a field that the test does not have, and a missing side."""
    for name, tests in _FIELDS.items():
        if getattr(claim, name) is not None and claim.test not in tests:
            raise InputError(f"{path}.{name}", f"is not for the test {claim.test}", list(tests))
    if claim.test in _SIDED and claim.better is None:
        raise InputError(f"{path}.better", f"is missing, and the test {claim.test} needs it")
    is_share = METRICS[claim.metric].unit == "fraction" and not claim.relative
    if claim.by is not None and is_share and abs(claim.by) >= 1:
        problem = f"is {claim.by:g}, and no two scores between 0 and 1 differ by that"
        remedy = f"write {claim.by / 100:g} for {claim.by:g} points, or relative: true for percent"
        raise InputError(f"{path}.by", f"{problem}; {remedy}")


def _check_along(path: str, claim: PooledClaim) -> None:
    """Refuse conditions that make no order, or no pair."""
    if claim.test not in (ORDER, AGREEMENT):
        return
    name, conditions = along_of(claim.model_dump())
    wanted = "three or more" if claim.test == ORDER else "two"
    fits = len(conditions) == 2 if claim.test == AGREEMENT else len(conditions) >= 3
    if claim.along is None or len(claim.along) != 1 or not fits:
        raise InputError(
            f"{path}.along",
            f"must name {wanted} conditions of one kind, such as {{shift: [A, B]}}",
            list(CONDITIONS),
        )
    if len(set(conditions)) != len(conditions):
        raise InputError(f"{path}.along.{name}", "must name each condition once")
    if name in claim.each:
        raise InputError(f"{path}.each", f"{name!r} is what the conditions differ in")
    if getattr(claim, name) is not None:
        raise InputError(f"{path}.{name}", f"{name!r} is what the conditions of along differ in")
    for side_name, side in (("better", claim.better), ("rows", claim.rows)):
        own_names = listed(getattr(side, name, None))
        if own_names and not set(conditions) <= set(own_names):
            raise InputError(
                f"{path}.{side_name}.{name}",
                f"{', '.join(own_names)} leaves out conditions of along ({', '.join(conditions)}), which"
                " differ in it; leave it out",
            )


def _check_rows(
    path: str, cells: PlannedCells, side: Mapping[str, Any], claim: Mapping[str, Any]
) -> None:
    """Refuse to compare fewer than three rows; two where it is asked which is best."""
    least = 2 if claim["test"] == BEST else 3
    rows = {cells.row_of(cell) for cell in cells.of_side(side, claim)}
    if len(rows) < least:
        raise InputError(
            f"{path}.rows", f"are {len(rows)}, and the test {claim['test']} needs {least} or more"
        )


@dataclass(frozen=True)
class _Names:
    """The names that a claim may use."""

    study: Study
    points: Sequence[StudyPoint]
    models: Collection[str]
    methods: Collection[str]
    cells: PlannedCells

    def check(self, path: str, claim: Mapping[str, Any]) -> None:
        """Refuse names that the study does not have, in a claim and its sides. Raises
        `InputError`."""
        self._check_names(path, claim)
        for side in ("better", "than", "rows"):
            if claim[side] is not None:
                values = side_of(claim[side])
                self._check_names(f"{path}.{side}", values, isinstance(claim[side], str))
                self._check_names(f"{path}.{side}.minus", values.get("minus") or {})
        name, conditions = along_of(claim)
        for condition in conditions:
            self._check_name(f"{path}.along.{name}", name, condition)

    def _check_names(self, path: str, values: Mapping[str, Any], is_label: bool = False) -> None:
        for name in ("methods", "family", "model", *CONDITIONS, "set"):
            for value in listed(values.get(name)):
                self._check_name(path if is_label else f"{path}.{name}", name, value)

    def _check_name(self, field: str, name: str, value: str) -> None:
        kind, names = self._known(name)
        if value not in names and not (name == "methods" and value == ALL):
            raise unknown(field, kind, value, names)

    def _known(self, name: str) -> tuple[str, Collection[str]]:
        """The kind of a name, and the names that there are."""
        study = self.study
        tested = [label for label, entry in study.sets.items() if entry.role == "test"]
        families = sorted(set(self.cells.families.values()))
        sizes = dict.fromkeys(point.size for point in self.points)
        known: dict[str, tuple[str, Collection[str]]] = {}
        known["methods"] = "method of this study that is trained", self.methods
        known["family"] = "family of this study", families
        known["model"] = "model of this study that is trained", self.models
        known["data"] = "data set", study.data
        known["shift"] = "shift", study.shifts
        known["size"] = "size", sizes
        known["set"] = "set of role test", tested
        return known[name]
