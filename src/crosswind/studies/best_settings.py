"""The settings that a study's validation chose, as a study that runs them alone on fresh seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosswind.core.errors import InputError, unknown
from crosswind.core.types import canonical
from crosswind.studies.axes import MethodEntry, methods_of
from crosswind.studies.spec import Study, study_from
from crosswind.training.selection import RULES, Rule

__all__ = ["BestPoint", "best_points", "frozen_study"]


@dataclass(frozen=True)
class BestPoint:
    """The point of a method whose runs validated best.

    `score` in [0, 1]: the mean of the rule's score over the `runs` of the point, all data sets,
    shifts, sizes, models and seeds. `ended`: in how many of them it was trained to the end, all of
    them but of a search that halves. `tried`: the number of points, and `second` the score of the
    next one, None where there is none.
    """

    method: str
    point: str
    score: float
    runs: int
    ended: int
    tried: int
    second: float | None


def best_points(
    study: Study, results: Iterable[Mapping[str, Any]], rule_name: str, by_score: bool = False
) -> dict[str, BestPoint]:
    """The best point of each method of a study that has several, by the validation set and the score
    of a selection rule; of equal ones the first.

    Of a search that halves it is one of the points that were trained to the end in most runs, unless
    `by_score`: then a point that was stopped counts with the score that it had.

    `results`: those of the store. Each point is judged on the same runs: raises `InputError` where
    one has fewer than another, as long as the study is not done.
    """
    rule = RULES.get(rule_name, Rule("validation"))
    if rule_name not in (*RULES, "last"):
        raise unknown("--rule", "selection rule", rule_name, [*RULES, "last"])
    scores: dict[str, dict[str, list[float]]] = {}
    ended: Counter[tuple[str, str]] = Counter()
    for entry in results:
        if entry["rule"] == rule_name and entry["set"] == rule.set:
            by_point = scores.setdefault(str(entry["method"]), {})
            by_point.setdefault(str(entry["point"]), []).append(_score(entry["metrics"], rule))
            ended[str(entry["method"]), str(entry["point"])] += not entry["metrics"].get("stopped")
    best = {}
    for label, method in methods_of(study).items():
        points = [point for point, _, _ in method.points]
        if len(points) == 1:
            continue
        by_point = {point: scores.get(label, {}).get(point, []) for point in points}
        counts = {len(values) for values in by_point.values()}
        _check_counts(study, rule_name, label, counts)
        means = {point: math.fsum(values) / len(values) for point, values in by_point.items()}
        most_ended = 0 if by_score else max(ended[label, point] for point in points)
        ranked = sorted(points, key=lambda point: (ended[label, point] < most_ended, -means[point]))
        first, second = ranked[:2]
        numbers = max(counts), ended[label, first], len(points), means[second]
        best[label] = BestPoint(label, first, means[first], *numbers)
    return best


def _check_counts(study: Study, rule_name: str, label: str, counts: set[int]) -> None:
    """Refuse to compare points of different numbers of runs, and by a rule that no run followed: more
    of its runs would not have its scores. Raises `InputError`."""
    if len(counts) == 1 and counts != {0}:
        return
    rule = RULES.get(rule_name, Rule("validation"))
    if counts == {0} and rule.set not in study.sets:
        problem = f"chooses on the set {rule.set}, which study {study.name} has not"
        raise InputError("--rule", f"{rule_name!r} {problem}", study.selection)
    if counts == {0} and rule.score != "accuracy" and rule_name not in study.selection:
        problem = f"was followed by no run of study {study.name}, whose selection does not name it"
        raise InputError("--rule", f"{rule_name!r} {problem}", study.selection)
    problem = (
        f"holds from {min(counts)} to {max(counts)} runs of the points of {label} that"
        f" {rule_name} scored; points are compared once all of their runs are done"
    )
    raise InputError("STORE", problem)


def _score(metrics: Mapping[str, Any], rule: Rule) -> float:
    # Where no row is in a group the worst group is all rows, as in training.
    value = metrics.get(rule.score)
    return float(metrics["accuracy"] if value is None else value)


def frozen_study(
    given: Mapping[str, Any], study: Study, best: Mapping[str, BestPoint], seeds: int
) -> dict[str, Any]:
    """The fields of a study that runs each method at its best point, on `seeds` seeds that the study
    did not have.

    `given`: the study as it was written. Raises `InputError` where it chose between nothing.
    """
    if not best:
        raise InputError("STORE", f"study {study.name} has no method with several settings")
    methods = methods_of(study)
    if isinstance(study.methods, Mapping):
        written = study.methods
    else:
        written = dict.fromkeys(study.methods)
    frozen_methods = {}
    for label in methods:
        frozen_methods[label] = (
            _frozen(written[label], methods[label], best[label].point)
            if label in best
            else dict(written[label] or {})
        )
    fields = {name: value for name, value in given.items() if name not in ("search", "scales")}
    first = max(study.seed_list) + 1
    training = {}
    for name, value in dict(given.get("training") or {}).items():
        if not isinstance(value, list):
            training[name] = value
    fields |= {
        "name": f"{study.name}-best",
        "methods": frozen_methods,
        "seeds": list(range(first, first + seeds)),
        "training": training,
    }
    study_from(fields, where="the frozen study")
    return fields


def _frozen(written: Mapping[str, Any] | None, method: MethodEntry, point: str) -> dict[str, Any]:
    """The settings of a method in a study, with what its points vary as the chosen one has it."""
    settings = dict(written or {})
    _, chosen_knobs, chosen_training = next(each for each in method.points if each[0] == point)
    varied = _varied([knobs for _, knobs, _ in method.points])
    settings |= {name: chosen_knobs[name] for name in varied}
    varied = _varied([training for _, _, training in method.points])
    if varied:
        own_training = dict(settings.get("training") or {})
        settings["training"] = own_training | {name: chosen_training[name] for name in varied}
    return settings


def _varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names whose values differ between points."""
    return [
        name for name in settings[0] if len({canonical(values[name]) for values in settings}) > 1
    ]
