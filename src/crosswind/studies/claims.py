"""What a study claims: which of two sides is better, where and by which score; written before it
runs, judged by its report.

A claim is no part of a run: changing one changes what is said of the results and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from crosswind.core.errors import InputError, unknown
from crosswind.studies.axes import MethodEntry, Point
from crosswind.studies.spec import SideSpec, Study
from crosswind.training.selection import RULES


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
        given = value if isinstance(value, Mapping) else {"method": value}
        fields = {
            name: claim.get(name) if given.get(name) is None else given[name]
            for name in ("model", "shift", "set")
        }
        found = Side(str(given["method"]), **fields)
        minus = given.get("minus")
        if minus is None:
            return found
        return found._replace(
            minus=found._replace(
                **{name: value for name, value in minus.items() if value is not None}
            )
        )

    than = claim.get("than")
    return side(claim["better"]), side(reference if than is None else than)


def unshifted(shifts: Mapping[str, Any]) -> str | None:
    """The first shift of a study that has no part, beside which a cost is told."""
    return next((name for name, parts in shifts.items() if parts == []), None)


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
    points: Sequence[Point],
    models: Collection[str],
    methods: Mapping[str, MethodEntry],
) -> None:
    """Refuse a claim about what the study does not run. Raises `InputError` that names the claim's
    field."""
    known: dict[str, tuple[str, Collection[str]]] = {
        "data": ("data set", study.data),
        "shift": ("shift", study.shifts),
        "size": ("size", dict.fromkeys(point.size for point in points)),
        "model": ("model of this study", models),
        "set": (
            "set of role test",
            [name for name, item in study.sets.items() if item.role == "test"],
        ),
        "rule": ("selection rule of this study", study.selection),
    }
    for number, claim in enumerate(study.claims):
        path = f"claims.{number}"
        for name, (what, names) in known.items():
            if getattr(claim, name) is not None and getattr(claim, name) not in names:
                raise unknown(f"{path}.{name}", what, getattr(claim, name), names)
        settled = {
            name: value for name in ("data", "shift", "size") if (value := getattr(claim, name))
        }
        about = [
            point
            for point in points
            if all(getattr(point, name) == value for name, value in settled.items())
        ]
        told = " and ".join(f"{name} {value!r}" for name, value in settled.items())
        if not about:
            raise InputError(path, f"the study has no {told} together")
        sides = dict(
            zip(("better", "than"), sides_of(claim.model_dump(), study.reference), strict=True)
        )
        places = {
            name: about if side.shift in (None, claim.shift) else _under(points, settled, side)
            for name, side in sides.items()
        }
        for name, side in sides.items():
            given = getattr(claim, name)
            named = f"{path}.{name}.method" if isinstance(given, SideSpec) else f"{path}.{name}"
            if side.method not in methods:
                raise unknown(named, "method of this study", side.method, methods)
            if side.model is not None and side.model not in models:
                raise unknown(f"{path}.{name}.model", "model of this study", side.model, models)
            if side.shift is not None and side.shift not in study.shifts:
                raise unknown(
                    f"{path}.{name}.shift", "shift of this study", side.shift, study.shifts
                )
            there = [
                label
                for label, entry in methods.items()
                if any(entry.at(point) for point in places[name])
            ]
            fitting = [
                label
                for label, entry in methods.items()
                if side.model is None or entry.on(side.model)
            ]
            at = (
                f"under {side.shift!r}"
                if places[name] is not about
                else f"at {told or 'any point'}"
            )
            for labels, where in ((there, at), (fitting, f"with the model {side.model!r}")):
                if side.method not in labels:
                    left_out = "the reference " if given is None else ""
                    raise InputError(named, f"{left_out}{side.method!r} is not run {where}", labels)
            sets = known["set"][1]
            for at, one in ((f"{path}.{name}", side), (f"{path}.{name}.minus", side.minus)):
                if one is not None and one.set not in sets:
                    raise unknown(f"{at}.set", known["set"][0], one.set, sets)
            if side.minus is not None:
                _check_minus(f"{path}.{name}.minus", side, points, settled, models, methods, study)
        better, than = sides.values()
        if better == than:
            others = [label for label in methods if label != than.method]
            raise InputError(
                f"{path}.than",
                "is the same side as 'better', so there is nothing to compare",
                others,
            )
        first, second = methods[better.method], methods[than.method]
        pairs = [(better.model or model, than.model or model) for model in models]
        apart = better.shift != than.shift
        other = (
            apart
            or better.method != than.method
            or (better.set, better.minus) != (than.set, than.minus)
        )
        compared = [pair for pair in pairs if other or pair[0] != pair[1]]
        together = any(
            first.at(one)
            and second.at(other)
            and (one.data, one.size) == (other.data, other.size)
            and (apart or one == other)
            for one in places["better"]
            for other in places["than"]
        )
        if not together or not any(first.on(one) and second.on(other) for one, other in compared):
            raise InputError(
                path,
                f"{better.method!r} and {than.method!r} are never run under one shift and with the"
                " models compared",
            )
        if claim.wins_back is not None:
            whole = unshifted(study.shifts)
            problem = (
                "needs a shift of this study that is [], and there is none" if whole is None else ""
            )
            problem = "compares two sides under one shift" if apart else problem
            problem = (
                "takes no gap (minus) and no margin"
                if better.minus or than.minus or claim.margin
                else problem
            )
            if problem or whole in (better.shift, than.shift):
                raise InputError(
                    f"{path}.wins_back",
                    problem or f"{whole!r} costs nothing: name another shift",
                    study.shifts,
                )


def _check_minus(
    path: str,
    side: Side,
    points: Sequence[Point],
    settled: Mapping[str, str],
    models: Collection[str],
    methods: Mapping[str, MethodEntry],
    study: Study,
) -> None:
    """Refuse a gap whose second score is of runs that the study does not have, or is the first.
    Raises `InputError`."""
    less = side.minus
    assert less is not None
    for name, what, names in (
        ("method", "method of this study", methods),
        ("model", "model of this study", models),
        ("shift", "shift of this study", study.shifts),
    ):
        if (value := getattr(less, name)) is not None and value not in names:
            raise unknown(f"{path}.{name}", what, value, names)
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


def _under(points: Sequence[Point], settled: Mapping[str, str], side: Side) -> list[Point]:
    """The points of a claim at which a side that names its own shift is looked for."""
    wanted = settled if side.shift is None else {**settled, "shift": side.shift}
    return [
        point
        for point in points
        if all(getattr(point, name) == value for name, value in wanted.items())
    ]
