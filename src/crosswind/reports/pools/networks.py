"""The networks of a study as pools that estimators of accuracy are judged on: a point a network and
test domain.

A pool is the networks of one task: of one data set, or of several that share test sets. A test set
drawn from the data and by the law that a network was trained on is in domain for it. Every other
one is a domain of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np

from crosswind.core.registry import facts
from crosswind.evaluation.metrics import (
    ENTROPY_RISE,
    ESTIMATE,
    ESTIMATE_HIGH,
    ESTIMATE_LOW,
    HEADLINE,
    MEASURE,
)
from crosswind.evaluation.points import LEAST, LEAST_FOR_INTERVAL, Point
from crosswind.evaluation.pools import predictions
from crosswind.reports.scores.results import Place, PlaceResults


@dataclass
class ModelPool:
    """A pool of networks.

    `values`: by estimator, what is judged: the measure, or the estimated accuracy of `direct` ones.
    `methods`: of each network. `neighbourhoods`: by estimator that reads neighbours, its form.
    `rises`: by how many nats entropy rises near the rows of shifted domains, mean over networks.
    `criteria`: the share of training rows right at which a network's training stopped, of networks
    that had such a criterion; `losses`: the mean loss on them in nats, likewise. `missed`: networks
    that did not reach theirs; they are in no other field but these two. `again`: test sets drawn by
    one law from one data set, which are one domain: over them no claim on domains is judged.
    """

    name: str
    values: dict[str, list[Point]] = field(default_factory=dict)
    estimates: dict[str, list[Point]] = field(default_factory=dict)
    methods: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    neighbourhoods: dict[str, str] = field(default_factory=dict)
    rises: dict[str, float] = field(default_factory=dict)
    criteria: dict[str, float] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)

    def add_criterion(self, network: str, training: Mapping[str, Any]) -> None:
        """Note at which share of right training rows, or which loss, the training of a network
        stopped."""
        for name, criteria in (("fit_at", self.criteria), ("loss_at", self.losses)):
            if training.get(name) is not None:
                criteria[network] = float(training[name])

    @property
    def direct(self) -> set[str]:
        """The estimators whose values are accuracies."""
        labels = self.values.keys()
        return {label for label in labels if self.estimates.get(label) == self.values[label]}

    @property
    def architectures(self) -> Counter[str]:
        """How many networks each registered model has."""
        kinds = {
            point.network: point.architecture for points in self.values.values() for point in points
        }
        return Counter(kinds.values())

    @property
    def apart(self) -> bool:
        """Whether each architecture is judged alone, as in the paper: most networks have enough
        others of theirs for that."""
        counts = self.architectures
        among_enough = sum(count for count in counts.values() if count >= LEAST)
        return 2 * among_enough >= counts.total()

    @property
    def judged(self) -> bool:
        """Whether there are networks enough to judge estimators, rather than one alone over
        domains."""
        return len(self.methods) >= LEAST_FOR_INTERVAL

    def shown(self) -> dict[str, list[Point]]:
        """Estimated accuracies by estimator. Of a measure without an estimate, by lines that did
        not see the domain."""
        accuracies: dict[str, list[Point]] = {}
        for label, points in self.values.items():
            estimated = self.estimates.get(label) or self._told_by_lines(points)
            if estimated:
                accuracies[label] = estimated
        return accuracies

    def _told_by_lines(self, points: Sequence[Point]) -> list[Point]:
        """The points with the accuracy that a line tells in place of the measure, where there is
        one."""
        predicted = predictions(points, "test", by_architecture=self.apart)
        return [
            replace(point, value=float(np.clip(accuracy, 0, 1)))
            for point, accuracy in zip(points, predicted, strict=True)
            if accuracy is not None
        ]


class _Seen(NamedTuple):
    """A network on the rows of a set: what it is, and the metrics there."""

    data: str
    network: str
    training: str
    test: str
    law: str
    architecture: str
    method: str
    metrics: Mapping[str, Any]


def pools_of(rule_results: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> list[ModelPool]:
    """The pools of a study, by its first selection rule; `resolved` is the study with defaults.

    One has five networks, or three shifted domains, that an estimator told something of.
    """
    estimators = _named(resolved.get("estimators") or {}, "estimator")
    if not estimators:
        return []
    rule = str(resolved["selection"][0])
    first_rule_results = [
        setting_results for setting_results in rule_results if setting_results.place.rule == rule
    ]
    seen_networks = list(_seen(first_rule_results, resolved))
    pools: list[ModelPool] = []
    for names in _tasks(seen_networks):
        of_task = [seen_network for seen_network in seen_networks if seen_network.data in names]
        pool = _pool(", ".join(names), of_task, estimators, resolved)
        if pool.judged or len(_shifted_domains(pool)) >= LEAST:
            pools.append(pool)
    return pools


def _tasks(seen_networks: Sequence[_Seen]) -> list[list[str]]:
    """The data sets that are one task: all of them where some share a test domain, else each."""
    domains: dict[str, set[str]] = {}
    for seen_network in seen_networks:
        domains.setdefault(seen_network.data, set()).add(seen_network.test)
    for first, second in combinations(domains, 2):
        if domains[first] & domains[second]:
            return [list(domains)]
    return [[name] for name in domains]


def _shifted_domains(pool: ModelPool) -> set[str]:
    """The test domains other than that of training, over the networks of a pool."""
    points = [point for label_points in pool.values.values() for point in label_points]
    return {point.test for point in points if point.test != point.training}


def _pool(
    name: str,
    seen_networks: Sequence[_Seen],
    estimators: Mapping[str, Mapping[str, Any]],
    resolved: Mapping[str, Any],
) -> ModelPool:
    """The pool of the networks of one task."""
    pool = ModelPool(name)
    methods = _named(resolved["methods"], "method")
    rises: dict[str, list[float]] = {}
    pool.again = _drawn_again(seen_networks)
    missed = [
        seen_network.network
        for seen_network in seen_networks
        if seen_network.metrics.get("fitted") is False
    ]
    pool.missed = list(dict.fromkeys(missed))
    for seen_network in seen_networks:
        metrics = seen_network.metrics
        if metrics.get("fitted") is not None:
            own_training = methods[seen_network.method].get("training") or {}
            pool.add_criterion(seen_network.network, {**resolved["training"], **own_training})
        if seen_network.network in pool.missed:
            continue
        for label in estimators:
            _add_points(pool, label, seen_network)
            rise = metrics.get(f"{ENTROPY_RISE}{label}")
            if rise is not None and seen_network.test != seen_network.training:
                rises.setdefault(label, []).append(float(rise))
    pool.rises = {label: float(np.mean(entropy_rise)) for label, entropy_rise in rises.items()}
    pool.names = {label: str(estimators[label]["estimator"]) for label in pool.values}
    for label, estimator in pool.names.items():
        access = facts("estimators", estimator).access
        if access is not None and access.neighbourhood:
            pool.neighbourhoods[label] = str(estimators[label].get("form", "largest"))
    return pool


def _drawn_again(seen_networks: Sequence[_Seen]) -> list[str]:
    """The first test sets that are drawn by one law from one data set; empty without any."""
    laws: dict[str, dict[str, None]] = {}
    for seen_network in seen_networks:
        laws.setdefault(seen_network.law, {})[seen_network.test] = None
    return next((list(tests) for tests in laws.values() if len(tests) > 1), [])


def _add_points(pool: ModelPool, label: str, seen_network: _Seen) -> None:
    """Add what an estimator told of a network on a test domain: its measure, its estimate, both or
    neither. An estimate without a measure is what is judged."""
    metrics = seen_network.metrics
    estimate = metrics.get(f"{ESTIMATE}{label}")
    measure = metrics.get(f"{MEASURE}{label}")
    accuracy = float(metrics[HEADLINE.name])
    if estimate is None and measure is None:
        return
    pool.methods[seen_network.network] = seen_network.method

    def point(value: Any, low: float | None = None, high: float | None = None) -> Point:
        return Point(
            network=seen_network.network,
            training=seen_network.training,
            test=seen_network.test,
            value=float(value),
            accuracy=accuracy,
            architecture=seen_network.architecture,
            low=low,
            high=high,
        )

    judged_point = None if measure is None else point(measure)
    if estimate is not None:
        low, high = (metrics.get(f"{end}{label}") for end in (ESTIMATE_LOW, ESTIMATE_HIGH))
        estimate_point = point(estimate, low, high)
        pool.estimates.setdefault(label, []).append(estimate_point)
        judged_point = judged_point or estimate_point
    if judged_point is not None:
        pool.values.setdefault(label, []).append(judged_point)


class _Domains:
    """The domains of a study: those that networks are trained on, and those of its test sets."""

    def __init__(self, rule_results: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> None:
        datas = [setting_results.place.data for setting_results in rule_results]
        self._several_datas = len(set(datas)) > 1
        self._sets = resolved["sets"]
        self._trained = {
            (data, shift): _domain(data, law)
            for data in datas
            for shift, law in resolved["shifts"].items()
        }
        one_shift = len(_values_of("shift", rule_results)) == 1
        # Of shifts with one law the first names the domain.
        self._names = {
            domain: data if one_shift else f"{data} under {shift}"
            for (data, shift), domain in reversed(self._trained.items())
        }

    def training(self, data: str, shift: str) -> str:
        """The name of the domain that networks are trained on."""
        return self._names[self._trained[data, shift]]

    def test(self, setting: Place, shift: str) -> tuple[str, str]:
        """The domain of a test set, and its name: in domain that of training."""
        spec = self._sets[setting.set]
        source, law = spec.get("source"), spec.get("law", "uniform")
        if law == "train" and source in (None, setting.data):
            domain = self._trained[setting.data, shift]
        else:
            domain = _domain(str(source or setting.data), law)
        is_one_data_set = source or not self._several_datas
        plain = setting.set if is_one_data_set else f"{setting.set} of {setting.data}"
        return domain, self._names.get(domain, plain)


def _values_of(axis: str, rule_results: Sequence[PlaceResults]) -> set[str]:
    """The data sets, shifts or sizes of some places."""
    if axis == "shift":
        return {shift for setting_results in rule_results for shift in setting_results.shifts}
    return {getattr(setting_results.place, axis) for setting_results in rule_results}


def _axis_words(axes: Sequence[str], setting: Place, shift: str) -> list[str]:
    """The names that tell the networks at a place apart."""
    names = {"data": setting.data, "shift": shift, "size": setting.size}
    return [names[axis] for axis in axes]


def _seen(rule_results: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> Iterator[_Seen]:
    """Every network on every test set, given models once."""
    models, methods = _named(resolved["models"], "model"), _named(resolved["methods"], "method")
    domains = _Domains(rule_results, resolved)
    varying = [
        axis for axis in ("data", "shift", "size") if len(_values_of(axis, rule_results)) > 1
    ]
    yielded: set[tuple[str, str]] = set()
    for setting_results in rule_results:
        setting = setting_results.place
        for shift, method, entry in setting_results.grid():
            if entry is None or entry.role != "test" or shift not in resolved["shifts"]:
                continue
            is_given = method in models and method not in methods
            words = [method] if is_given else [setting.model, method]
            words += _axis_words(varying, setting, shift)
            law, test = domains.test(setting, shift)
            one_run = is_given or len(entry.metrics) == 1
            for seed, metrics in islice(entry.metrics.items(), 1 if is_given else None):
                network = ", ".join(words if one_run else [*words, f"seed {seed}"])
                if (network, test) in yielded:
                    continue
                yielded.add((network, test))
                kind = models[method if is_given else setting.model]["model"]
                yield _Seen(
                    data=setting.data,
                    network=network,
                    training=domains.training(setting.data, shift),
                    test=test,
                    law=law,
                    architecture=str(kind),
                    method=method,
                    metrics=metrics,
                )


def _named(given_entries: Any, word: str) -> dict[str, dict[str, Any]]:
    """Label -> settings, the registered name among them."""
    entries = given_entries if isinstance(given_entries, Mapping) else dict.fromkeys(given_entries)
    return {str(label): {word: label, **(settings or {})} for label, settings in entries.items()}


def _domain(data: str, law: Any) -> str:
    """The key of a domain, as text: the data set and the law of the rows."""
    law_parts = [law] if isinstance(law, Mapping) else law
    return json.dumps([data, law_parts or "uniform"], sort_keys=True, default=str)
