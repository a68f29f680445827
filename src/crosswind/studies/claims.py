"""The claims of a study: which of two sides is better, where and by which score; written before it
runs, judged by its report.

A claim is no part of a run: changing one changes what is said of the results and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from crosswind.core.errors import InputError, unknown
from crosswind.studies.axes import MethodEntry, StudyPoint
from crosswind.studies.spec import Claim, PooledClaim, RowsSpec, SideSpec, Study
from crosswind.training.selection import RULES

PAIR_METRICS = ("seen_accuracy", "unseen_accuracy", "rho")
"""Scores that only runs under a systematic shift have."""


class Side(NamedTuple):
    """A method and, where the claim settles them, a model and a shift; `set` is scored. `minus`:
    what its score is less of."""

    method: str
    model: str | None
    shift: str | None = None
    set: str | None = None
    minus: Side | None = None


def sides_of(claim: Mapping[str, Any], reference: str) -> tuple[Side, Side]:
    """The better and the other side of a claim given as plain values, as a store keeps it."""

    def side(value: Any) -> Side:
        settings = value if isinstance(value, Mapping) else {"method": value}
        fields = {
            name: claim.get(name) if settings.get(name) is None else settings[name]
            for name in ("model", "shift", "set")
        }
        plain_side = Side(str(settings["method"]), **fields)
        minus = settings.get("minus")
        if minus is None:
            return plain_side
        return plain_side._replace(
            minus=plain_side._replace(
                **{name: value for name, value in minus.items() if value is not None}
            )
        )

    than = claim.get("than")
    return side(claim["better"]), side(reference if than is None else than)


def unshifted(shifts: Mapping[str, Any]) -> str | None:
    """The first shift of a study that has no part, beside which a cost is told."""
    for name, components in shifts.items():
        if components == []:
            return name
    return None


def component_counts(shifts: Mapping[str, Any]) -> dict[str, int]:
    """How many components each shift of a study has: 0 of none, 1 of one with its settings, and of
    several together, by their names or settings, the sum of theirs."""
    return {name: _count_components(name, shifts, ()) for name in shifts}


def _count_components(entry: Any, shifts: Mapping[str, Any], within: tuple[str, ...]) -> int:
    """`within`: the shifts whose components are being counted; none is a component of itself."""
    if isinstance(entry, list | tuple):
        return sum(_count_components(component, shifts, within) for component in entry)
    if isinstance(entry, str) and entry in shifts and entry not in within:
        return _count_components(shifts[entry], shifts, (*within, entry))
    return 1


def rule_of(claim: Mapping[str, Any], selection: Sequence[str]) -> str:
    """The selection rule that a claim is judged by: its own, else the study's first that chooses by
    its metric, else the first.

    A model that was chosen for its mean accuracy says little of what its method can do for the
    worst group. `last` takes no step by a score, and its point by accuracy.
    """
    alike = (
        rule
        for rule in selection
        if (RULES[rule].score if rule in RULES else "accuracy") == claim["metric"]
    )
    return str(claim["rule"] or next(alike, selection[0]))


def check_claims(
    study: Study,
    points: Sequence[StudyPoint],
    models: Collection[str],
    methods: Mapping[str, MethodEntry],
) -> None:
    """Refuse a claim about what the study does not run; claims over several cases are checked by
    `pooled_claims`. Raises `InputError` that names the claim's field."""
    checker = _ClaimChecker(study, points, models, methods)
    for number, claim in enumerate(study.claims):
        if isinstance(claim, Claim):
            checker.check(f"claims.{number}", claim)


@dataclass(frozen=True)
class _ClaimChecker:
    """The runs of a study, and the checks of a claim about them. All checks raise `InputError`."""

    study: Study
    points: Sequence[StudyPoint]
    models: Collection[str]
    methods: Mapping[str, MethodEntry]

    @property
    def test_sets(self) -> list[str]:
        """The names of the sets of role test."""
        return [name for name, entry in self.study.sets.items() if entry.role == "test"]

    def check(self, path: str, claim: Claim) -> None:
        """Check the claim whose field is `path`."""
        self._check_fields(path, claim)
        point_fields = {
            name: value for name in ("data", "shift", "size") if (value := getattr(claim, name))
        }
        claim_points = _matching_points(self.points, point_fields)
        description = " and ".join(f"{name} {value!r}" for name, value in point_fields.items())
        if not claim_points:
            raise InputError(path, f"the study has no {description} together")
        refuse_unheard_limits(path, claim, [claim.better, claim.than])
        if claim.margin == 1:
            problem = "is 1, which two scores between 0 and 1 always keep; write 0.01 for 1 point"
            raise InputError(f"{path}.margin", problem)
        better, than = sides_of(claim.model_dump(), self.study.reference)
        side_points = {}
        for name, side in (("better", better), ("than", than)):
            shared_shift = side.shift in (None, claim.shift)
            side_points[name] = (
                claim_points if shared_shift else _under(self.points, point_fields, side)
            )
        for name, side in (("better", better), ("than", than)):
            where = f"at {description or 'any point'}"
            if side_points[name] is not claim_points:
                where = f"under {side.shift!r}"
            declared = getattr(claim, name)
            points = side_points[name]
            self._check_side(f"{path}.{name}", declared, side, points, where)
            if side.minus is not None:
                _check_minus(
                    f"{path}.{name}.minus",
                    side,
                    self.points,
                    point_fields,
                    self.models,
                    self.methods,
                    self.study,
                )
        self._check_pair(path, better, than, side_points)
        shifts = {point.shift for points in side_points.values() for point in points}
        check_metric(f"{path}.metric", claim.metric, self.study, shifts)
        if claim.wins_back is not None:
            self._check_wins_back(f"{path}.wins_back", claim, better, than)

    def _check_fields(self, path: str, claim: Claim) -> None:
        """Refuse names that the study does not have."""
        study = self.study
        sizes = dict.fromkeys(point.size for point in self.points)
        _check_name(f"{path}.data", "data set", claim.data, study.data)
        _check_name(f"{path}.shift", "shift", claim.shift, study.shifts)
        _check_name(f"{path}.size", "size", claim.size, sizes)
        _check_name(f"{path}.model", "model of this study", claim.model, self.models)
        _check_name(f"{path}.set", "set of role test", claim.set, self.test_sets)
        _check_name(f"{path}.rule", "selection rule of this study", claim.rule, study.selection)

    def _check_side(
        self,
        path: str,
        declared: str | SideSpec | None,
        side: Side,
        points: Sequence[StudyPoint],
        place: str,
    ) -> None:
        """Refuse a side that is not run at any of its points; `place` names these in errors."""
        method_path = f"{path}.method" if isinstance(declared, SideSpec) else path
        if side.method not in self.methods:
            raise unknown(method_path, "method of this study", side.method, self.methods)
        if side.model is not None and side.model not in self.models:
            raise unknown(f"{path}.model", "model of this study", side.model, self.models)
        if side.shift is not None and side.shift not in self.study.shifts:
            raise unknown(f"{path}.shift", "shift of this study", side.shift, self.study.shifts)
        run_at_points = []
        for label, entry in self.methods.items():
            if any(entry.at(point) for point in points):
                run_at_points.append(label)
        run_with_model = [
            label
            for label, entry in self.methods.items()
            if side.model is None or entry.on(side.model)
        ]
        for labels, where in (
            (run_at_points, place),
            (run_with_model, f"with the model {side.model!r}"),
        ):
            if side.method not in labels:
                role = "the reference " if declared is None else ""
                problem = f"{role}{side.method!r} is not run {where}"
                raise InputError(method_path, problem, labels)
        for scored_path, scored in ((path, side), (f"{path}.minus", side.minus)):
            if scored is not None and scored.set not in self.test_sets:
                raise unknown(f"{scored_path}.set", "set of role test", scored.set, self.test_sets)

    def _check_pair(
        self, path: str, better: Side, than: Side, side_points: Mapping[str, Sequence[StudyPoint]]
    ) -> None:
        """Refuse sides that are one, a gap beside none, and sides that are never run so that they can
        be compared."""
        if (better.minus is None) != (than.minus is None):
            name = "better" if better.minus is None else "than"
            problem = "needs a minus too: a gap is compared with another gap"
            raise InputError(f"{path}.{name}", problem)
        if better == than:
            alternatives = [label for label in self.methods if label != than.method]
            raise InputError(
                f"{path}.than",
                "is the same side as 'better', so there is nothing to compare",
                alternatives,
            )
        first = self.methods[better.method]
        second = self.methods[than.method]
        shifts_differ = better.shift != than.shift
        scores_differ = (better.set, better.minus) != (than.set, than.minus)
        sides_differ = shifts_differ or better.method != than.method or scores_differ
        model_pairs = [(better.model or model, than.model or model) for model in self.models]
        compared = [pair for pair in model_pairs if sides_differ or pair[0] != pair[1]]
        share_point = any(
            first.at(point)
            and second.at(twin)
            and (point.data, point.size) == (twin.data, twin.size)
            and (shifts_differ or point == twin)
            for point, twin in product(side_points["better"], side_points["than"])
        )
        share_models = any(first.on(left) and second.on(right) for left, right in compared)
        if not share_point or not share_models:
            raise InputError(
                path,
                f"{better.method!r} and {than.method!r} are never run under one shift and with the"
                " models compared",
            )

    def _check_wins_back(self, path: str, claim: Claim, better: Side, than: Side) -> None:
        """Refuse a share of a shift's cost where no such cost is defined."""
        shifts = self.study.shifts
        unshifted_name = unshifted(shifts)
        problem = ""
        if better.minus or than.minus or claim.margin:
            problem = "takes no gap (minus) and no margin"
        elif better.shift != than.shift:
            problem = "compares two sides under one shift"
        elif unshifted_name is None:
            problem = "needs a shift of this study that is [], and there is none"
        if problem:
            raise InputError(path, problem)
        if unshifted_name in (better.shift, than.shift):
            costly = [name for name in shifts if name != unshifted_name]
            raise InputError(path, f"{unshifted_name!r} costs nothing: name another shift", costly)


def refuse_unheard_limits(
    path: str, claim: Claim | PooledClaim, sides: Sequence[str | SideSpec | RowsSpec | None]
) -> None:
    """Refuse a data set, shift, size, model or set of a claim that none of its sides takes, since
    each names another one. A side that names none, or is left out, takes the claim's. Raises
    `InputError`."""
    for name in ("data", "shift", "size", "model", "set"):
        if name not in claim.model_fields_set:
            continue
        limits = set(_as_list(getattr(claim, name)))
        named_by_sides = [_as_list(getattr(side, name, None)) for side in sides]
        if not sides or not all(named_by_sides):
            continue
        unheard = limits.difference(*named_by_sides)
        if unheard:
            of_sides = " and ".join(", ".join(map(repr, names)) for names in named_by_sides)
            listing = ", ".join(repr(value) for value in sorted(unheard))
            raise InputError(
                f"{path}.{name}",
                f"{listing} is not heard, since every side names its own {name} ({of_sides}): leave"
                " it out here, or in a side that is to take it",
            )


def _as_list(value: str | Sequence[str] | None) -> list[str]:
    """Names given as one or several; none where there is none."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def check_metric(field: str, metric: str, study: Study, shifts: Collection[str]) -> None:
    """Refuse a score of seen and unseen pairs where no shift keeps pairs apart: no run has it."""
    if metric not in PAIR_METRICS or any(_is_systematic(study, name, ()) for name in shifts):
        return
    systematic_shifts = [name for name in study.shifts if _is_systematic(study, name, ())]
    where = (
        f" is; such are {', '.join(systematic_shifts)}"
        if systematic_shifts
        else ", and the study has none"
    )
    problem = (
        f"{metric} is a score under a systematic shift, which none of {', '.join(sorted(shifts))}"
    )
    choices = ["accuracy", "worst_group", "balanced_accuracy"]
    raise InputError(field, f"{problem}{where}", choices)


def _is_systematic(study: Study, entry: Any, trail: tuple[str, ...]) -> bool:
    """Whether a shift, given by its name or written out, has a systematic part."""
    if isinstance(entry, str):
        is_new = entry in study.shifts and entry not in trail
        return is_new and _is_systematic(study, study.shifts[entry], (*trail, entry))
    if isinstance(entry, list):
        return any(_is_systematic(study, shift, trail) for shift in entry)
    return isinstance(entry, Mapping) and entry.get("type") == "systematic"


def _check_minus(
    path: str,
    side: Side,
    points: Sequence[StudyPoint],
    settled: Mapping[str, str],
    models: Collection[str],
    methods: Mapping[str, MethodEntry],
    study: Study,
) -> None:
    """Refuse a gap whose second score is of runs that the study does not have, or is the first.
    Raises `InputError`."""
    less = side.minus
    assert less is not None
    for name, kind, names in (
        ("method", "method of this study", methods),
        ("model", "model of this study", models),
        ("shift", "shift of this study", study.shifts),
    ):
        if (value := getattr(less, name)) is not None and value not in names:
            raise unknown(f"{path}.{name}", kind, value, names)
    if less == side._replace(minus=None):
        raise InputError(
            path,
            "is the same score as its side's, so there is no gap: name another set, shift, model or"
            " method",
        )
    entry = methods[less.method]
    if not any(entry.at(point) for point in _under(points, settled, less)) or not (
        less.model is None or entry.on(less.model)
    ):
        raise InputError(path, f"{less.method!r} is not run there")


def _under(
    points: Sequence[StudyPoint], settled: Mapping[str, str], side: Side
) -> list[StudyPoint]:
    """The points of a claim at which a side that names its own shift is looked for."""
    if side.shift is None:
        point_fields = settled
    else:
        point_fields = {**settled, "shift": side.shift}
    return _matching_points(points, point_fields)


def _matching_points(
    points: Sequence[StudyPoint], point_fields: Mapping[str, str]
) -> list[StudyPoint]:
    matching_points: list[StudyPoint] = []
    for point in points:
        if all(getattr(point, name) == value for name, value in point_fields.items()):
            matching_points.append(point)
    return matching_points


def _check_name(field: str, kind: str, name: Any, names: Collection[Any]) -> None:
    """Refuse a name, where there is one, that is none of `names`."""
    if name is not None and name not in names:
        raise unknown(field, kind, name, names)
