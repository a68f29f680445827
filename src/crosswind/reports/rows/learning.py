"""How training went: accuracy on every validation set by step, read from the histories of fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crosswind.reports.runs.job_files import JobFiles
from crosswind.reports.scores.results import Place, choosing_rule


class Curve(NamedTuple):
    """Mean accuracy over seeds on a validation set by step, and how many seeds chose which step, by
    each rule that reads the set.

    The rule `last` reads none; its steps are marked on `validation`. A rule whose set is not there
    is marked on the first set.
    """

    place: Place
    shift: str
    method: str
    seeds: int
    set: str
    accuracy: Mapping[int, float]
    chosen: Mapping[str, Mapping[int, int]]


def curves_of(
    reader: JobFiles, setting: Place, shift: str, method: str, keys: Sequence[str]
) -> list[Curve]:
    """The curves of a method under a shift, `validation` first; none of what was not trained or not
    validated."""
    values: dict[str, dict[int, list[float]]] = {"validation": {}}
    chosen: dict[str, Counter[int]] = {}
    seeds = 0
    for key in keys:
        for need, about in reader.jobs(key):
            if about["kind"] != "fit":
                continue
            seeds += 1
            for entry in reader.json(need, "history.json") or ():
                step = int(entry["step"])
                for name, set_scores in entry["validation"].items():
                    accuracies = values.setdefault(name, {}).setdefault(step, [])
                    accuracies.append(float(set_scores["accuracy"]))
            for rule, rule_scores in about["rules"].items():
                chosen.setdefault(str(rule), Counter())[int(rule_scores["selected_step"])] += 1
    curve_of_set: dict[str, dict[int, float]] = {}
    for name, by_step in values.items():
        means = _means(by_step, seeds)
        if means:
            curve_of_set[name] = means
    marked = _marked(chosen, list(curve_of_set))
    return [
        Curve(setting, shift, method, seeds, name, means, marked[name])
        for name, means in curve_of_set.items()
    ]


def _means(by_step: Mapping[int, Sequence[float]], seeds: int) -> dict[int, float]:
    """The mean accuracy of the steps that all seeds have."""
    return {
        step: float(np.mean(accuracies))
        for step, accuracies in sorted(by_step.items())
        if len(accuracies) == seeds
    }


def _marked(
    chosen: Mapping[str, Mapping[int, int]], sets: Sequence[str]
) -> dict[str, dict[str, Mapping[int, int]]]:
    """By set the rules that are marked on it, with how many seeds chose which step."""
    marked: dict[str, dict[str, Mapping[int, int]]] = {name: {} for name in sets}
    for rule, steps in chosen.items():
        name = choosing_rule(rule).set
        if name not in marked and sets:
            name = sets[0]
        if name in marked:
            marked[name][rule] = steps
    return marked
