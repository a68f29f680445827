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
                for name, scores_told in entry["validation"].items():
                    values.setdefault(name, {}).setdefault(int(entry["step"]), []).append(
                        float(scores_told["accuracy"])
                    )
            for rule, scores_told in about["rules"].items():
                chosen.setdefault(str(rule), Counter())[int(scores_told["selected_step"])] += 1
    curve_of_set = {}
    for name, by_step in values.items():
        if means := {
            step: float(np.mean(step_accuracies))
            for step, step_accuracies in sorted(by_step.items())
            if len(step_accuracies) == seeds
        }:
            curve_of_set[name] = means
    first = next(iter(curve_of_set), "")
    reads = {
        rule: name if (name := choosing_rule(rule).set) in curve_of_set else first
        for rule in chosen
    }
    marked = {
        name: {rule: steps for rule, steps in chosen.items() if reads[rule] == name}
        for name in curve_of_set
    }
    return [
        Curve(setting, shift, method, seeds, name, means, marked[name])
        for name, means in curve_of_set.items()
    ]
