"""What a study claims: which of two sides is better, where and by which score; written before it runs, judged by its report.

A claim is no part of a run: changing one changes what is said of the results and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from crosswind.core.errors import InputError, unknown
from crosswind.studies.axes import MethodEntry, Point
from crosswind.studies.spec import ModelSide, Study
from crosswind.training.selection import RULES


class Side(NamedTuple):
    """A method and, where the claim settles it, a model."""

    method: str
    model: str | None


def sides_of(claim: Mapping[str, Any], reference: str) -> tuple[Side, Side]:
    """The better and the other side of a claim given as plain values, as a store keeps it."""

    def side(value: Any) -> Side:
        method, model = (value["method"], value.get("model")) if isinstance(value, Mapping) else (value, None)
        return Side(str(method), model if model is not None else claim.get("model"))

    than = claim.get("than")
    return side(claim["better"]), side(reference if than is None else than)


def rule_of(claim: Mapping[str, Any], selection: Sequence[str]) -> str:
    """The selection rule that a claim is judged by: its own, else the study's first that chooses by its metric, else the first.

    A model that was chosen for its mean accuracy says little of what its method can do for the worst group. `last` takes no step by
    a score, and its point by accuracy.
    """
    alike = (rule for rule in selection if (RULES[rule].score if rule in RULES else "accuracy") == claim["metric"])
    return str(claim["rule"] or next(alike, selection[0]))


def check_claims(study: Study, points: Sequence[Point], models: Collection[str], methods: Mapping[str, MethodEntry]) -> None:
    """Refuse a claim about what the study does not run. Raises `InputError` that names the claim's field."""
    known: dict[str, tuple[str, Collection[str]]] = {
        "data": ("data set", study.data),
        "shift": ("shift", study.shifts),
        "size": ("size", dict.fromkeys(point.size for point in points)),
        "model": ("model of this study", models),
        "set": ("set of role test", [name for name, item in study.sets.items() if item.role == "test"]),
        "rule": ("selection rule of this study", study.selection),
    }
    for number, claim in enumerate(study.claims):
        path = f"claims.{number}"
        for name, (what, names) in known.items():
            if getattr(claim, name) is not None and getattr(claim, name) not in names:
                raise unknown(f"{path}.{name}", what, getattr(claim, name), names)
        settled = {name: value for name in ("data", "shift", "size") if (value := getattr(claim, name))}
        about = [point for point in points if all(getattr(point, name) == value for name, value in settled.items())]
        told = " and ".join(f"{name} {value!r}" for name, value in settled.items())
        if not about:
            raise InputError(path, f"the study has no {told} together")
        sides = dict(zip(("better", "than"), sides_of(claim.model_dump(), study.reference), strict=True))
        for name, side in sides.items():
            given = getattr(claim, name)
            named = f"{path}.{name}.method" if isinstance(given, ModelSide) else f"{path}.{name}"
            if side.method not in methods:
                raise unknown(named, "method of this study", side.method, methods)
            if side.model is not None and side.model not in models:
                raise unknown(f"{path}.{name}.model", "model of this study", side.model, models)
            there = [label for label, entry in methods.items() if any(entry.at(point) for point in about)]
            fitting = [label for label, entry in methods.items() if side.model is None or entry.on(side.model)]
            for labels, where in ((there, f"at {told or 'any point'}"), (fitting, f"with the model {side.model!r}")):
                if side.method not in labels:
                    left_out = "the reference " if given is None else ""
                    raise InputError(named, f"{left_out}{side.method!r} is not run {where}", labels)
        better, than = sides.values()
        if better == than:
            others = [label for label in methods if label != than.method]
            raise InputError(f"{path}.than", "is the same side as 'better', so there is nothing to compare", others)
        first, second = methods[better.method], methods[than.method]
        pairs = [(better.model or model, than.model or model) for model in models]
        compared = [pair for pair in pairs if better.method != than.method or pair[0] != pair[1]]
        together = any(first.at(point) and second.at(point) for point in about)
        if not together or not any(first.on(one) and second.on(other) for one, other in compared):
            raise InputError(
                path, f"{better.method!r} and {than.method!r} are never run under one shift and with the models compared"
            )
