"""Results of runs in order for reports: one point chosen where a grid was searched, scores by seed,
counts of runs.

A result is one mapping a (run, rule, set): study, data, shift, size, model, method, point, seed,
split_seed, rule, set, status, reason and metrics. A run without scores (failed, not yet run) is one
mapping without rule and set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from crosswind.evaluation.compare import Difference, DifferenceSummary, Seeds, over_runs, paired
from crosswind.evaluation.metrics import ESTIMATE, HEADLINE
from crosswind.storage.json_columns import columns_of, names_in
from crosswind.training.selection import ORACLES, RULES, Rule

LEVEL = 0.95
"""The level of every interval in a report."""
_RUN_LABELS = ("study", "data", "shift", "size", "model", "method", "point")
_RULE_ORDER = (*(rule for rule in RULES if rule not in ORACLES), "last", *ORACLES)


class Place(NamedTuple):
    """The place of one table: everything but method and shift."""

    study: str
    data: str
    size: str
    model: str
    set: str
    rule: str

    @property
    def title_words(self) -> str:
        """Study, size and selection rule, as the titles of tables over data and models say them."""
        size = self.size and f"size {self.size}"
        return ", ".join(filter(None, (self.study, size, f"selection {self.rule}")))


class ScoredRun(NamedTuple):
    """The key of a run in a report."""

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

    `tried` points were planned; `chosen` names the point of each seed; `by_point` has the accuracy of
    every point by seed, chosen or not. `partial` seeds chose among
    fewer points than planned. `undecided` seeds had several points and no validation score to
    choose by; they are left out. `diverged` seeds count as scored. `stopped` has by seed how many
    of its points a search that halves did not train to the end.
    """

    role: str = "test"
    metrics: dict[int | Seeds, Mapping[str, Any]] = field(default_factory=dict)
    chosen: dict[int | Seeds, str] = field(default_factory=dict)
    by_point: dict[str, dict[int | Seeds, float]] = field(default_factory=dict)
    tried: int = 1
    partial: list[int | Seeds] = field(default_factory=list)
    undecided: list[int | Seeds] = field(default_factory=list)
    diverged: list[int | Seeds] = field(default_factory=list)
    stopped: dict[int | Seeds, int] = field(default_factory=dict)
    # Tables, figures and notes ask for the same statistics; an entry does not change once results
    # are in order.
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)
    _columns: Callable[[str], Sequence[Any]] = field(default=columns_of(()), repr=False)
    _n_read: int = field(default=0, repr=False)

    def column(self, metric: str) -> Sequence[Any]:
        """One metric of every seed, in their order; None where a seed does not have it."""
        if len(self.metrics) != self._n_read:
            self._columns = columns_of(list(self.metrics.values()))
            self._n_read = len(self.metrics)
        return self._columns(metric)

    def values(self, metric: str) -> dict[int | Seeds, float]:
        """One metric by seed, without the seeds that do not have it."""
        return {
            seed: float(value)
            for seed, value in zip(self.metrics, self.column(metric), strict=True)
            if value is not None
        }

    @property
    def estimators(self) -> list[str]:
        """The labels of the estimators that told an accuracy of some seed."""
        names = names_in(self.metrics.values())
        return [name.removeprefix(ESTIMATE) for name in names if name.startswith(ESTIMATE)]

    @property
    def doubts(self) -> dict[str, list[int | Seeds]]:
        """The seeds whose run told its reader to doubt it, by the sentence that it told."""
        if (cached := self._known.get(("doubts", len(self.metrics)))) is not None:
            return cached
        seeds_by_doubt: dict[str, list[int | Seeds]] = {}
        for seed, sentences in zip(self.metrics, self.column("doubts"), strict=True):
            for text in sentences if sentences and isinstance(sentences, list) else ():
                seeds_by_doubt.setdefault(str(text), []).append(seed)
        self._known["doubts", len(self.metrics)] = seeds_by_doubt
        return seeds_by_doubt

    @property
    def doubted(self) -> int:
        """The number of seeds with a run that told its reader to doubt it."""
        return len({seed for seeds in self.doubts.values() for seed in seeds})

    def largest(self, metric: str) -> int | None:
        """The largest whole number that any seed has for the metric; None where none has it."""
        numbers = self.column(metric)
        return max((int(number) for number in numbers if number is not None), default=None)

    @property
    def _is_one_run(self) -> bool:
        """Whether no step was taken and every seed gave the same numbers."""
        first_scores = next(iter(self.metrics.values()))
        if first_scores.get("selected_step") != 0:
            return False
        answer_scores = set(zip(*map(self.column, _SAME), strict=True))
        return len(answer_scores) == 1

    def summary(self, metric: str) -> DifferenceSummary | None:
        """Mean and interval over seeds (and split seeds), or None where no run has the metric.

        What took no step and gave the same numbers at every seed, as a model that is only asked, is
        one run without interval.
        """
        if metric not in self._known:
            values = self.values(metric)
            if len(values) > 1 and self._is_one_run:
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
        differences: dict[tuple[str, str], Difference] = {}
        for shift, method, entry in self.grid():
            if entry is None or method == self.reference:
                continue
            reference_entry = self.entries.get((shift, self.reference))
            difference = entry.difference(reference_entry, metric)
            if difference is not None:
                differences[shift, method] = difference
        return differences

    @property
    def is_of_test(self) -> bool:
        """Whether the set is one for testing."""
        return any(entry.role == "test" for entry in self.entries.values())

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
        return [
            setting_results
            for setting_results in self.places.values()
            if (rules is None or setting_results.place.rule in rules) and setting_results.is_of_test
        ]


def choosing_rule(rule: str) -> Rule:
    """The validation set and the score by which a rule chooses among the points of a grid; `last`
    by accuracy on `validation`."""
    return RULES.get(rule, Rule("validation"))


def rule_title(rule: str) -> str:
    """The rule as columns and legends name it."""
    return f"{rule} (ORACLE)" if rule in ORACLES else rule


_Metrics = Mapping[str, Any]
_SetScores = dict[str, _Metrics]
"""The metrics of one run by the name of the set."""


def arrange(entries_scored: Iterable[Mapping[str, Any]], reference: str = "erm") -> Results:
    """Bring results into order and choose one point a (data, shift, size, model, method, seed,
    rule).

    The point is the one with the highest score on the rule's own validation set, ties by the lower
    loss, then the earlier step, then the first. A point that a search stopped is chosen only where
    none was trained to the end. Raises `ValueError` where one run has two results
    for one rule and set.
    """
    runs, scored = _read_runs(entries_scored)
    points: dict[tuple[str, ...], set[str]] = {}
    axes: dict[tuple[str, ...], _Axes] = {}
    for run in runs:
        points.setdefault(run[:6], set()).add(run.point)
        axes.setdefault((run.study, run.data, run.size, run.model), _Axes()).add(run)
    entries: dict[Place, dict[tuple[str, str], Entry]] = {}
    several_splits = len({run.split_seed for run in runs}) > 1
    for (group, seed_key, rule), candidates in _candidates(scored, several_splits).items():
        tried = len(points[group])
        first = next(iter(candidates))
        chosen = first if tried == 1 else _choose(candidates, choosing_rule(rule))
        run = chosen or first
        for set_name, metrics in candidates[run].items():
            setting = Place(run.study, run.data, run.size, run.model, set_name, rule)
            setting_entries = entries.setdefault(setting, {})
            entry = setting_entries.setdefault((run.shift, run.method), Entry(tried=tried))
            entry.role = _role(set_name, metrics)
            for candidate, candidate_sets in candidates.items():
                accuracy = candidate_sets.get(set_name, {}).get(HEADLINE.name)
                if accuracy is not None:
                    entry.by_point.setdefault(candidate.point, {})[seed_key] = float(accuracy)
            if tried > 1 and (n_stopped := sum(map(_was_stopped, candidates.values()))):
                entry.stopped[seed_key] = n_stopped
            if chosen is None:
                entry.undecided.append(seed_key)
                continue
            entry.metrics[seed_key] = metrics
            entry.chosen[seed_key] = chosen.point
            if len(candidates) < tried:
                entry.partial.append(seed_key)
            if runs[chosen][0] == "diverged":
                entry.diverged.append(seed_key)
    places: dict[Place, PlaceResults] = {}
    for setting in _ordered(list(entries)):
        planned = axes[setting[:4]]
        methods = sorted(planned.methods, key=lambda method: method != reference)
        places[setting] = PlaceResults(
            setting, reference, list(planned.shifts), methods, entries[setting]
        )
    return Results(places, runs)


@dataclass
class _Axes:
    """The shifts and the methods planned at a place, each in the order of the study."""

    shifts: dict[str, None] = field(default_factory=dict)
    methods: dict[str, None] = field(default_factory=dict)

    def add(self, run: ScoredRun) -> None:
        """Add those of one run."""
        self.shifts[run.shift] = None
        self.methods[run.method] = None


def _read_runs(
    entries_scored: Iterable[Mapping[str, Any]],
) -> tuple[dict[ScoredRun, tuple[str, str]], dict[ScoredRun, dict[str, _SetScores]]]:
    """The state and reason of every run, and its metrics by rule and set where it has any."""
    runs: dict[ScoredRun, tuple[str, str]] = {}
    scored: dict[ScoredRun, dict[str, _SetScores]] = {}
    # The results of one run follow each other: what they share is looked at once. A large study has
    # many thousand.
    for (*labels, seed, split_seed), run_results in groupby(entries_scored, key=_names_run):
        study, data, shift, size, model, method, point = (
            "" if value is None else str(value) for value in labels
        )
        run = ScoredRun(study, data, shift, size, model, method, point, int(seed), int(split_seed))
        for scored_set in run_results:
            runs[run] = (str(scored_set["status"]), str(scored_set.get("reason") or ""))
            rule, metrics = scored_set.get("rule"), scored_set.get("metrics")
            if rule is None or metrics is None:
                continue
            sets = scored.setdefault(run, {}).setdefault(str(rule), {})
            set_name = scored_set["set"]
            if set_name in sets:
                raise ValueError(f"two results for {run}, rule {rule}, set {set_name}")
            sets[str(set_name)] = metrics
    return runs, scored


def _candidates(
    scored: Mapping[ScoredRun, Mapping[str, _SetScores]], several_splits: bool
) -> dict[tuple[tuple[str, ...], int | Seeds, str], dict[ScoredRun, _SetScores]]:
    """The runs that differ in their point alone, under each rule that has scores of them."""
    candidates: dict[tuple[tuple[str, ...], int | Seeds, str], dict[ScoredRun, _SetScores]] = {}
    for run, rules in scored.items():
        seed_key = Seeds(run.split_seed, run.seed) if several_splits else run.seed
        for rule, sets in rules.items():
            candidates.setdefault((run[:6], seed_key, rule), {})[run] = sets
    return candidates


def _role(set_name: str, metrics: _Metrics) -> str:
    """The role of a set; results of older stores do not say it, but rules name their sets."""
    if metrics.get("role"):
        return str(metrics["role"])
    validates = any(set_name == rule.set for rule in RULES.values())
    return "validation" if validates else "test"


def _choose(
    points: Mapping[ScoredRun, Mapping[str, Mapping[str, Any]]], rule: Rule
) -> ScoredRun | None:
    chosen_sets = {run: sets[rule.set] for run, sets in points.items() if rule.set in sets}
    if len(chosen_sets) < len(points):
        return None

    def rank(run: ScoredRun) -> tuple[bool, float, float, float]:
        metrics = chosen_sets[run]
        score, loss = metrics.get(rule.score), metrics.get("nll")
        step = metrics.get("selected_step")
        if score is None:
            # Where no row is in a group the worst group is all rows, as in training.
            score = metrics["accuracy"]
        loss = math.inf if loss is None else float(loss)
        step = 0.0 if step is None else float(step)
        return _was_stopped(points[run]), -float(score), loss, step

    return min(chosen_sets, key=rank)  # of equal ones min gives the first


def _was_stopped(sets: Mapping[str, _Metrics]) -> bool:
    """Whether a search that halves stopped the run before its end."""
    return any(metrics.get("stopped") for metrics in sets.values())


def _ordered(settings: Sequence[Place]) -> list[Place]:
    """The places by what came first of each field, those that differ in the rule alone by rule."""
    columns = list(zip(*settings, strict=True))[:5]
    ranks = [_ranks(column) for column in columns]
    rule_ranks = _ranks(_RULE_ORDER)

    def key(setting: Place) -> tuple[Any, ...]:
        field_ranks = [rank[value] for rank, value in zip(ranks, setting[:5], strict=True)]
        rule_rank = rule_ranks.get(setting.rule, len(_RULE_ORDER))
        return *field_ranks, rule_rank, setting.rule

    return sorted(settings, key=key)


def _ranks(values: Iterable[str]) -> dict[str, int]:
    """The position of each value among those that differ, in the order of their first."""
    return {value: i for i, value in enumerate(dict.fromkeys(values))}


def _names_run(scored_set: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *map(scored_set.get, _RUN_LABELS),
        scored_set["seed"],
        scored_set.get("split_seed", 0),
    )  # older stores do not have it
