"""The networks of a study as pools that estimators of accuracy are judged on: a point a network and
test domain.

A pool is the networks of one task: of one data set, or of several that share test sets. A test set
drawn from the data and by the law that a network was trained on is in domain for it, every other
one is a domain of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from crosswind.reports.scores.results import PlaceResults


@dataclass
class ModelPool:
    """A pool of networks.

    `values`: by estimator, what is judged: the measure, or the estimated accuracy of `direct` ones.
    `methods`: of each network. `neighbourhoods`: by estimator that reads neighbours, its form.
    `rises`: by how many nats entropy rises near the rows of shifted domains, mean over networks.
    `criteria`: the share of training rows right at which a network's training stopped, of networks
    that had such a criterion. `missed`: networks that did not reach theirs; they are in no other
    field but `criteria`. `again`: test sets drawn by one law from one data set, which are one
    domain: over them no claim on domains is judged.
    """

    name: str
    values: dict[str, list[Point]] = field(default_factory=dict)
    estimates: dict[str, list[Point]] = field(default_factory=dict)
    methods: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    neighbourhoods: dict[str, str] = field(default_factory=dict)
    rises: dict[str, float] = field(default_factory=dict)
    criteria: dict[str, float] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)

    @property
    def direct(self) -> set[str]:
        """The estimators whose values are accuracies."""
        return {
            label for label, points in self.values.items() if self.estimates.get(label) == points
        }

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
        return 2 * sum(count for count in counts.values() if count >= LEAST) >= counts.total()

    @property
    def judged(self) -> bool:
        """Whether there are networks enough to judge estimators, rather than one alone over
        domains."""
        return len(self.methods) >= LEAST_FOR_INTERVAL

    def shown(self) -> dict[str, list[Point]]:
        """Estimated accuracies by estimator. Of a measure without an estimate, by lines that did
        not see the domain."""
        out = {}
        for label, points in self.values.items():
            out[label] = self.estimates.get(label) or [
                replace(point, value=float(np.clip(predicted, 0, 1)))
                for point, predicted in zip(
                    points, predictions(points, "test", by_architecture=self.apart), strict=True
                )
                if predicted is not None
            ]
        return {label: points for label, points in out.items() if points}


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
    seen_networks = list(
        _seen(
            [
                setting_results
                for setting_results in rule_results
                if setting_results.place.rule == rule
            ],
            resolved,
        )
    )
    domains: dict[str, set[str]] = {}
    for seen_network in seen_networks:
        domains.setdefault(seen_network.data, set()).add(seen_network.test)
    # Data sets that share a test domain are one task.
    every = list(domains)
    one_task = any(domains[a] & domains[b] for i, a in enumerate(every) for b in every[:i])
    pools = []
    for names in [every] if one_task else [[name] for name in every]:
        pool = _pool(
            ", ".join(names),
            [seen_network for seen_network in seen_networks if seen_network.data in names],
            estimators,
            resolved,
        )
        shifted = {
            p.test for points in pool.values.values() for p in points if p.test != p.training
        }
        if pool.judged or len(shifted) >= LEAST:
            pools.append(pool)
    return pools


def _pool(
    name: str,
    seen_networks: Sequence[_Seen],
    estimators: Mapping[str, Mapping[str, Any]],
    resolved: Mapping[str, Any],
) -> ModelPool:
    pool, methods = ModelPool(name), _named(resolved["methods"], "method")
    rises: dict[str, list[float]] = {}
    laws: dict[str, dict[str, None]] = {}
    for seen_network in seen_networks:
        laws.setdefault(seen_network.law, {})[seen_network.test] = None
    pool.again = next((list(tests) for tests in laws.values() if len(tests) > 1), [])
    pool.missed = list(
        dict.fromkeys(
            seen_network.network
            for seen_network in seen_networks
            if seen_network.metrics.get("fitted") is False
        )
    )
    for seen_network in seen_networks:
        if seen_network.metrics.get("fitted") is not None:
            settings = {
                **resolved["training"],
                **(methods[seen_network.method].get("training") or {}),
            }
            pool.criteria[seen_network.network] = float(settings["fit_at"])
        if seen_network.network in pool.missed:
            continue
        for label in estimators:
            estimate_told, low, high = (
                seen_network.metrics.get(f"{start}{label}")
                for start in (ESTIMATE, ESTIMATE_LOW, ESTIMATE_HIGH)
            )
            measure, rise = (
                seen_network.metrics.get(f"{start}{label}") for start in (MEASURE, ENTROPY_RISE)
            )
            about = seen_network.network, seen_network.training, seen_network.test
            accuracy = float(seen_network.metrics[HEADLINE.name])
            if estimate_told is not None:
                point = Point(
                    *about, float(estimate_told), accuracy, seen_network.architecture, low, high
                )
                pool.estimates.setdefault(label, []).append(point)
            if measure is not None:
                pool.values.setdefault(label, []).append(
                    Point(*about, float(measure), accuracy, seen_network.architecture)
                )
            elif estimate_told is not None:
                pool.values.setdefault(label, []).append(pool.estimates[label][-1])
            if measure is not None or estimate_told is not None:
                pool.methods[seen_network.network] = seen_network.method
            if rise is not None and seen_network.test != seen_network.training:
                rises.setdefault(label, []).append(float(rise))
    pool.rises = {label: float(np.mean(entropy_rise)) for label, entropy_rise in rises.items()}
    pool.names = {label: str(estimators[label]["estimator"]) for label in pool.values}
    for label in pool.values:
        access = facts("estimators", pool.names[label]).access
        if access is not None and access.neighbourhood:
            pool.neighbourhoods[label] = str(estimators[label].get("form", "largest"))
    return pool


def _seen(rule_results: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> Iterator[_Seen]:
    """Every network on every test set, given models once."""
    models, methods = _named(resolved["models"], "model"), _named(resolved["methods"], "method")
    trained = {
        (setting_results.place.data, shift): _domain(setting_results.place.data, law)
        for setting_results in rule_results
        for shift, law in resolved["shifts"].items()
    }
    datas, shifts, sizes = (
        {getattr(setting_results.place, name) for setting_results in rule_results}
        for name in ("data", "data", "size")
    )
    shifts = {shift for setting_results in rule_results for shift in setting_results.shifts}
    names = {
        key: data if len(shifts) == 1 else f"{data} under {shift}"
        for (data, shift), key in reversed(trained.items())
    }
    seen_already: set[tuple[str, str]] = set()
    for setting_results in rule_results:
        setting, spec = setting_results.place, resolved["sets"][setting_results.place.set]
        for shift, method, entry in setting_results.grid():
            if entry is None or entry.role != "test" or shift not in resolved["shifts"]:
                continue
            own_law, law = trained[setting.data, shift], spec.get("law", "uniform")
            key = own_law if law == "train" and spec.get("source") in (None, setting.data) else None
            key = key or _domain(str(spec.get("source") or setting.data), law)
            plain = (
                setting.set
                if spec.get("source") or len(datas) == 1
                else f"{setting.set} of {setting.data}"
            )
            is_given = method in models and method not in methods
            words = [method] if is_given else [setting.model, method]
            words += (
                [setting.data] * (len(datas) > 1)
                + [shift] * (len(shifts) > 1)
                + [setting.size] * (len(sizes) > 1)
            )
            for seed, metrics in list(entry.metrics.items())[: 1 if is_given else None]:
                network = ", ".join(
                    [*words, *([] if is_given or len(entry.metrics) == 1 else [f"seed {seed}"])]
                )
                test = names.get(key, plain)
                if (network, test) in seen_already:
                    continue
                seen_already.add((network, test))
                kind = models[method if is_given else setting.model]["model"]
                yield _Seen(
                    setting.data, network, names[own_law], test, key, str(kind), method, metrics
                )


def _named(given_entries: Any, word: str) -> dict[str, dict[str, Any]]:
    """Label -> settings, the registered name among them."""
    entries = given_entries if isinstance(given_entries, Mapping) else dict.fromkeys(given_entries)
    return {str(label): {word: label, **(settings or {})} for label, settings in entries.items()}


def _domain(data: str, law: Any) -> str:
    """What decides a domain, as text: the data set and the law of the rows."""
    law_parts = [law] if isinstance(law, Mapping) else law
    return json.dumps([data, law_parts or "uniform"], sort_keys=True, default=str)
