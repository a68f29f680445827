"""Results of runs in order for reports: one point chosen where a grid was searched, scores by seed,
counts of runs.

A result is one mapping a (run, rule, set): study, data, shift, size, model, method, point, seed,
split_seed, rule, set, status, reason and metrics. A run without scores (failed, not yet run) is one
mapping without rule and set.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from crosswind.evaluation.compare import Difference, DifferenceSummary, Seeds, over_runs, paired
from crosswind.evaluation.metrics import ESTIMATE, HEADLINE
from crosswind.training.selection import ORACLES, RULES, Rule

LEVEL = 0.95
"""The level of every interval in a report."""
_RUN_LABELS = ("study", "data", "shift", "size", "model", "method", "point")
_RULE_ORDER = (*(rule for rule in RULES if rule not in ORACLES), "last", *ORACLES)


class Place(NamedTuple):
    """What one table is about: everything but method and shift."""

    study: str
    data: str
    size: str
    model: str
    set: str
    rule: str


class ScoredRun(NamedTuple):
    """What names a run in a report."""

    study: str
    data: str
    shift: str
    size: str
    model: str
    method: str
    point: str
    seed: int
    split_seed: int = 0


_SAME = ("n", "accuracy", "balanced_accuracy", "worst_group", "nll", "ece", "unparsed")
"""Metrics of the answers alone; others are of the training rows as well, which seeds draw anew."""


@dataclass(eq=False)
class Entry:
    """One method under one shift at one place: metrics by seed, of the chosen point; by `Seeds` of
    several split seeds.

    `tried` points were planned; `chosen` names the point of each seed. `partial` seeds chose among
    fewer points than planned. `undecided` seeds had several points and no validation score to
    choose by; they are left out. `diverged` seeds count as scored.
    """

    role: str = "test"
    metrics: dict[int | Seeds, Mapping[str, Any]] = field(default_factory=dict)
    chosen: dict[int | Seeds, str] = field(default_factory=dict)
    tried: int = 1
    partial: list[int | Seeds] = field(default_factory=list)
    undecided: list[int | Seeds] = field(default_factory=list)
    diverged: list[int | Seeds] = field(default_factory=list)
    # Tables, figures and notes ask for the same statistics; an entry does not change once results
    # are in order.
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    def values(self, metric: str) -> dict[int | Seeds, float]:
        """One metric by seed, without the seeds that do not have it."""
        return {
            seed: float(run_scores[metric])
            for seed, run_scores in self.metrics.items()
            if run_scores.get(metric) is not None
        }

    @property
    def estimators(self) -> list[str]:
        """The labels of the estimators that told an accuracy of some seed."""
        names = dict.fromkeys(name for run_scores in self.metrics.values() for name in run_scores)
        return [name.removeprefix(ESTIMATE) for name in names if name.startswith(ESTIMATE)]

    @property
    def doubts(self) -> dict[str, list[int | Seeds]]:
        """The seeds whose run told its reader to doubt it, by the sentence that it told."""
        seeds_by_doubt: dict[str, list[int | Seeds]] = {}
        for seed, run_scores in self.metrics.items():
            sentences = run_scores.get("doubts")
            for text in sentences if isinstance(sentences, list) else ():
                seeds_by_doubt.setdefault(str(text), []).append(seed)
        return seeds_by_doubt

    @property
    def doubted(self) -> int:
        """The number of seeds with a run that told its reader to doubt it."""
        return len({seed for seeds in self.doubts.values() for seed in seeds})

    def largest(self, metric: str) -> int | None:
        """The largest whole number that any seed has for the metric; None where none has it."""
        return max(
            (
                int(run_scores[metric])
                for run_scores in self.metrics.values()
                if run_scores.get(metric) is not None
            ),
            default=None,
        )

    def summary(self, metric: str) -> DifferenceSummary | None:
        """Mean and interval over seeds (and split seeds), or None where no run has the metric.

        What took no step and gave the same numbers at every seed, as a model that is only asked, is
        one run without interval.
        """
        if metric not in self._known:
            values = self.values(metric)
            group_names = [
                tuple(run_scores.get(name) for name in _SAME)
                for run_scores in self.metrics.values()
            ]
            if (
                len(values) > 1
                and next(iter(self.metrics.values())).get("selected_step") == 0
                and len({*group_names}) == 1
            ):
                values = dict(list(values.items())[:1])
            self._known[metric] = over_runs(values, LEVEL) if values else None
        cached_summary: DifferenceSummary | None = self._known[metric]
        return cached_summary

    def difference(
        self, reference: Entry | None, metric: str, level: float = LEVEL
    ) -> Difference | None:
        """Difference to the reference, paired by seed; None without a reference or where they share
        no seed."""
        if reference is None:
            return None
        if (reference, metric, level) not in self._known:
            self._known[reference, metric, level] = paired(
                reference.values(metric), self.values(metric), level
            )
        cached_difference: Difference | None = self._known[reference, metric, level]
        return cached_difference


@dataclass(frozen=True)
class PlaceResults:
    """One place: its entries by (shift, method), and the `shifts` and `methods` planned there, with
    a result or not.

    The `reference`, the method that others are compared with, is the first of the methods where it
    was planned.
    """

    place: Place
    reference: str
    shifts: Sequence[str]
    methods: Sequence[str]
    entries: dict[tuple[str, str], Entry]

    def grid(self) -> Iterator[tuple[str, str, Entry | None]]:
        """(shift, method, entry) of everything planned, shift by shift; None without a result."""
        for shift in self.shifts:
            for method in self.methods:
                yield shift, method, self.entries.get((shift, method))

    def differences(self, metric: str = HEADLINE.name) -> dict[tuple[str, str], Difference]:
        """By (shift, method), every method less the reference, paired by seed; only those that
        share a seed with it."""
        difference_of = {
            (shift, method): entry.difference(self.entries.get((shift, self.reference)), metric)
            for shift, method, entry in self.grid()
            if entry is not None and method != self.reference
        }
        return {
            key: difference for key, difference in difference_of.items() if difference is not None
        }

    def has(self, metric: str) -> bool:
        """Whether some run has the metric."""
        return any(entry.values(metric) for entry in self.entries.values())


@dataclass(frozen=True)
class Results:
    """Everything a report needs, in the order of the study: results by place, and the state and
    reason of every run."""

    places: dict[Place, PlaceResults]
    runs: dict[ScoredRun, tuple[str, str]]

    def shown(self, rules: Sequence[str] | None = None) -> list[PlaceResults]:
        """The places that have tables: those of test sets, by the selection rules asked for (None:
        by all)."""
        chosen = [
            setting_results
            for setting_results in self.places.values()
            if rules is None or setting_results.place.rule in rules
        ]
        return [
            setting_results
            for setting_results in chosen
            if any(entry.role == "test" for entry in setting_results.entries.values())
        ]


def choosing_rule(rule: str) -> Rule:
    """The validation set and the score by which a rule chooses among the points of a grid; `last`
    by accuracy on `validation`."""
    return RULES.get(rule, Rule("validation"))


def rule_title(rule: str) -> str:
    """The rule as columns and legends name it."""
    return f"{rule} (ORACLE)" if rule in ORACLES else rule


def arrange(entries_scored: Iterable[Mapping[str, Any]], reference: str = "erm") -> Results:
    """Bring results into order and choose one point a (data, shift, size, model, method, seed,
    rule).

    The point is the one with the highest score on the rule's own validation set, ties by the lower
    loss, then the earlier step, then the first. Raises `ValueError` where one run has two results
    for one rule and set.
    """
    runs: dict[ScoredRun, tuple[str, str]] = {}
    scored: dict[ScoredRun, dict[str, dict[str, Mapping[str, Any]]]] = {}
    # The results of one run follow each other: what they share is looked at once. A large study has
    # many thousand.
    for (*labels, seed, split_seed), run_results in groupby(entries_scored, key=_names_run):
        study, data, shift, size, model, method, point = (
            "" if value is None else str(value) for value in labels
        )
        run = ScoredRun(study, data, shift, size, model, method, point, int(seed), int(split_seed))
        for scored_set in run_results:
            runs[run] = (str(scored_set["status"]), str(scored_set.get("reason") or ""))
            if scored_set.get("rule") is None or scored_set.get("metrics") is None:
                continue
            sets = scored.setdefault(run, {}).setdefault(str(scored_set["rule"]), {})
            if scored_set["set"] in sets:
                raise ValueError(
                    f"two results for {run}, rule {scored_set['rule']}, set {scored_set['set']}"
                )
            sets[str(scored_set["set"])] = scored_set["metrics"]

    several = len({run.split_seed for run in runs}) > 1
    points: dict[tuple[str, ...], dict[str, None]] = {}
    axes: dict[tuple[str, ...], tuple[dict[str, None], dict[str, None]]] = {}
    for run in runs:
        points.setdefault(run[:6], {})[run.point] = None
        shifts, methods = axes.setdefault((run.study, run.data, run.size, run.model), ({}, {}))
        shifts[run.shift] = methods[run.method] = None
    candidates: dict[
        tuple[tuple[str, ...], int | Seeds, str], dict[ScoredRun, dict[str, Mapping[str, Any]]]
    ] = {}
    for run, rules in scored.items():
        for rule, sets in rules.items():
            seeds = Seeds(run.split_seed, run.seed) if several else run.seed
            candidates.setdefault((run[:6], seeds, rule), {})[run] = sets

    entries: dict[Place, dict[tuple[str, str], Entry]] = {}
    for (group, seed_key, rule), candidate_runs in candidates.items():
        tried = len(points[group])
        best = (
            next(iter(candidate_runs))
            if tried == 1
            else _choose(candidate_runs, choosing_rule(rule))
        )
        run = best or next(iter(candidate_runs))
        for set_name, metrics in candidate_runs[run].items():
            setting_entries = entries.setdefault(
                Place(run.study, run.data, run.size, run.model, set_name, rule), {}
            )
            entry = setting_entries.get((run.shift, run.method))
            if entry is None:
                entry = setting_entries[run.shift, run.method] = Entry(tried=tried)
            validates = any(set_name == other_rule.set for other_rule in RULES.values())
            entry.role = str(metrics.get("role") or ("validation" if validates else "test"))
            if best is None:
                entry.undecided.append(seed_key)
                continue
            entry.metrics[seed_key], entry.chosen[seed_key] = metrics, best.point
            if len(candidate_runs) < tried:
                entry.partial.append(seed_key)
            if runs[best][0] == "diverged":
                entry.diverged.append(seed_key)
    results_by_setting = {}
    for setting in _ordered(list(entries)):
        shifts, methods = axes[setting[:4]]
        first = sorted(methods, key=lambda method: method != reference)
        results_by_setting[setting] = PlaceResults(
            setting, reference, list(shifts), first, entries[setting]
        )
    return Results(results_by_setting, runs)


def _choose(
    points: Mapping[ScoredRun, Mapping[str, Mapping[str, Any]]], rule: Rule
) -> ScoredRun | None:
    chosen_sets = {run: sets[rule.set] for run, sets in points.items() if rule.set in sets}
    if len(chosen_sets) < len(points):
        return None

    def rank(run: ScoredRun) -> tuple[float, float, float]:
        metrics = chosen_sets[run]
        value, loss, step = (
            metrics.get(rule.score),
            metrics.get("nll"),
            metrics.get("selected_step"),
        )
        # Where no row is in a group the worst group is all rows, as in training.
        value = metrics["accuracy"] if value is None else value
        return (
            -float(value),
            math.inf if loss is None else float(loss),
            0.0 if step is None else float(step),
        )

    return min(chosen_sets, key=rank)  # of equal ones min gives the first


def _ordered(settings: Sequence[Place]) -> list[Place]:
    columns = list(zip(*settings, strict=True))[:5]
    ranks = [{value: i for i, value in enumerate(dict.fromkeys(column))} for column in columns]

    def key(setting: Place) -> tuple[Any, ...]:
        rule = _RULE_ORDER.index(setting.rule) if setting.rule in _RULE_ORDER else len(_RULE_ORDER)
        return (
            *(rank[value] for rank, value in zip(ranks, setting[:5], strict=True)),
            rule,
            setting.rule,
        )

    return sorted(settings, key=key)


def _names_run(scored_set: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *map(scored_set.get, _RUN_LABELS),
        scored_set["seed"],
        scored_set.get("split_seed", 0),
    )  # older stores do not have it
