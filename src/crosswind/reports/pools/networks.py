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
class Pool:
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
                replace(point, value=float(np.clip(told, 0, 1)))
                for point, told in zip(
                    points, predictions(points, "test", by_architecture=self.apart), strict=True
                )
                if told is not None
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


def pools_of(places: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> list[Pool]:
    """The pools of a study, by its first selection rule; `resolved` is the study with defaults.

    One has five networks, or three shifted domains, that an estimator told something of.
    """
    estimators = _named(resolved.get("estimators") or {}, "estimator")
    if not estimators:
        return []
    rule = str(resolved["selection"][0])
    seen = list(_seen([at for at in places if at.place.rule == rule], resolved))
    domains: dict[str, set[str]] = {}
    for item in seen:
        domains.setdefault(item.data, set()).add(item.test)
    # Data sets that share a test domain are one task.
    every = list(domains)
    one_task = any(domains[a] & domains[b] for i, a in enumerate(every) for b in every[:i])
    pools = []
    for names in [every] if one_task else [[name] for name in every]:
        pool = _pool(
            ", ".join(names), [item for item in seen if item.data in names], estimators, resolved
        )
        shifted = {
            p.test for points in pool.values.values() for p in points if p.test != p.training
        }
        if pool.judged or len(shifted) >= LEAST:
            pools.append(pool)
    return pools


def _pool(
    name: str,
    seen: Sequence[_Seen],
    estimators: Mapping[str, Mapping[str, Any]],
    resolved: Mapping[str, Any],
) -> Pool:
    pool, methods = Pool(name), _named(resolved["methods"], "method")
    rises: dict[str, list[float]] = {}
    laws: dict[str, dict[str, None]] = {}
    for item in seen:
        laws.setdefault(item.law, {})[item.test] = None
    pool.again = next((list(tests) for tests in laws.values() if len(tests) > 1), [])
    pool.missed = list(
        dict.fromkeys(item.network for item in seen if item.metrics.get("fitted") is False)
    )
    for item in seen:
        if item.metrics.get("fitted") is not None:
            settings = {**resolved["training"], **(methods[item.method].get("training") or {})}
            pool.criteria[item.network] = float(settings["fit_at"])
        if item.network in pool.missed:
            continue
        for label in estimators:
            told, low, high = (
                item.metrics.get(f"{start}{label}")
                for start in (ESTIMATE, ESTIMATE_LOW, ESTIMATE_HIGH)
            )
            measure, rise = (
                item.metrics.get(f"{start}{label}") for start in (MEASURE, ENTROPY_RISE)
            )
            about = item.network, item.training, item.test
            accuracy = float(item.metrics[HEADLINE.name])
            if told is not None:
                point = Point(*about, float(told), accuracy, item.architecture, low, high)
                pool.estimates.setdefault(label, []).append(point)
            if measure is not None:
                pool.values.setdefault(label, []).append(
                    Point(*about, float(measure), accuracy, item.architecture)
                )
            elif told is not None:
                pool.values.setdefault(label, []).append(pool.estimates[label][-1])
            if measure is not None or told is not None:
                pool.methods[item.network] = item.method
            if rise is not None and item.test != item.training:
                rises.setdefault(label, []).append(float(rise))
    pool.rises = {label: float(np.mean(found)) for label, found in rises.items()}
    pool.names = {label: str(estimators[label]["estimator"]) for label in pool.values}
    for label in pool.values:
        access = facts("estimators", pool.names[label]).access
        if access is not None and access.neighbourhood:
            pool.neighbourhoods[label] = str(estimators[label].get("form", "largest"))
    return pool


def _seen(places: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> Iterator[_Seen]:
    """Every network on every test set, given models once."""
    models, methods = _named(resolved["models"], "model"), _named(resolved["methods"], "method")
    trained = {
        (at.place.data, shift): _domain(at.place.data, law)
        for at in places
        for shift, law in resolved["shifts"].items()
    }
    datas, shifts, sizes = (
        {getattr(at.place, name) for at in places} for name in ("data", "data", "size")
    )
    shifts = {shift for at in places for shift in at.shifts}
    names = {
        key: data if len(shifts) == 1 else f"{data} under {shift}"
        for (data, shift), key in reversed(trained.items())
    }
    said: set[tuple[str, str]] = set()
    for at in places:
        place, spec = at.place, resolved["sets"][at.place.set]
        for shift, method, entry in at.grid():
            if entry is None or entry.role != "test" or shift not in resolved["shifts"]:
                continue
            own, law = trained[place.data, shift], spec.get("law", "uniform")
            key = own if law == "train" and spec.get("source") in (None, place.data) else None
            key = key or _domain(str(spec.get("source") or place.data), law)
            plain = (
                place.set
                if spec.get("source") or len(datas) == 1
                else f"{place.set} of {place.data}"
            )
            given = method in models and method not in methods
            words = [method] if given else [place.model, method]
            words += (
                [place.data] * (len(datas) > 1)
                + [shift] * (len(shifts) > 1)
                + [place.size] * (len(sizes) > 1)
            )
            for seed, metrics in list(entry.metrics.items())[: 1 if given else None]:
                network = ", ".join(
                    [*words, *([] if given or len(entry.metrics) == 1 else [f"seed {seed}"])]
                )
                test = names.get(key, plain)
                if (network, test) in said:
                    continue
                said.add((network, test))
                kind = models[method if given else place.model]["model"]
                yield _Seen(place.data, network, names[own], test, key, str(kind), method, metrics)


def _named(given: Any, word: str) -> dict[str, dict[str, Any]]:
    """Label -> settings, the registered name among them."""
    entries = given if isinstance(given, Mapping) else dict.fromkeys(given)
    return {str(label): {word: label, **(settings or {})} for label, settings in entries.items()}


def _domain(data: str, law: Any) -> str:
    """What decides a domain, as text: the data set and the law of the rows."""
    parts = [law] if isinstance(law, Mapping) else law
    return json.dumps([data, parts or "uniform"], sort_keys=True, default=str)
