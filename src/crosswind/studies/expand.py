"""The runs of one point of a study: their specifications, keys, labels and needs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts
from crosswind.core.types import Job, digest
from crosswind.studies.axes import MethodEntry, Point
from crosswind.studies.build import PATH_KNOBS
from crosswind.studies.spec import Study
from crosswind.training.settings import ModelSpec, TrainingSettings, base_settings, keyed

__all__ = ["check_distinct", "runs_of", "without_paths"]


def runs_of(
    study: Study,
    point: Point,
    common: Mapping[str, Any],
    common_key: Mapping[str, Any],
    models: Mapping[str, dict[str, Any]],
    methods: Mapping[str, MethodEntry],
    own: Mapping[str, Mapping[str, Any]],
) -> Iterator[Job]:
    """The runs of one point. A run that others start from comes before them, once."""

    def head_of(overrides: Mapping[str, Any], keep: str) -> tuple[dict[str, Any], str]:
        # What the runs of one point share is hashed once: planning 10,000 runs stays well under two seconds.
        split = {**common["split"], **overrides}
        return {**common, "split": split, "keep": keep}, digest({**common_key, "split": split, "keep": keep})

    heads = {label: head_of(own[label], study.keep) for label in methods}
    base_head = head_of({}, "all" if study.keep == "all" else "selected")
    place = {"data": point.data, "shift": point.shift, "size": point.size}
    split_seed = {"split_seed": common["split"]["split_seed"]}
    told: set[str] = set()
    for seed, (model_label, model), method in itertools.product(study.seed_list, models.items(), methods.values()):
        if not method.on(model_label):
            continue
        for point_label, knobs, training in method.points:
            labels = {**place, "model": model_label, "method": method.label, "point": point_label, "seed": seed, **split_seed}
            needed = []
            if method.facts.needs is not None and method.facts.needs.base is not None:
                base = _base_run(method, knobs, training, base_head, model, {**labels, "point": ""})
                needed = [base.key]
                if base.key not in told:
                    told.add(base.key)
                    yield base
            named = {"name": method.facts.name, "version": method.facts.version, "knobs": knobs}
            yield _planned(
                heads[method.label], {"method": named, "model": model, "training": training, "seed": seed}, labels, needed
            )


def _base_run(
    method: MethodEntry,
    knobs: Mapping[str, Any],
    training: Mapping[str, Any],
    head: tuple[dict[str, Any], str],
    model: Mapping[str, Any],
    labels: Mapping[str, Any],
) -> Job:
    needs = method.facts.needs
    assert needs is not None and needs.base is not None
    known = facts("methods", needs.base.method)
    settings = base_settings(TrainingSettings(**training), needs, knobs, f"methods.{method.label}")
    defaults = resolve(known.knobs, {}, "", f"method {known.name!r}")
    named = {"name": known.name, "version": known.version, "knobs": defaults}
    tail = {"method": named, "model": model, "training": dict(vars(settings)), "seed": labels["seed"]}
    return _planned(head, tail, {**labels, "method": f"{known.name} (base)", "role": "base"}, [])


def _planned(head: tuple[dict[str, Any], str], tail: Mapping[str, Any], labels: Mapping[str, Any], needs: Sequence[str]) -> Job:
    # What a run starts from decides its numbers as much as its own settings do.
    told = {"head": head[1], **tail, "training": keyed(tail["training"]), "model": ModelSpec(**tail["model"]).identity()}
    if needs:
        told["needs"] = list(needs)
    return Job(digest(told), {**head[0], **tail}, labels, tuple(needs))


def check_distinct(runs: Sequence[Job]) -> None:
    """Refuse two methods of a study that are one: a table would compare a run with itself."""
    seen: dict[str, Job] = {}
    for run in runs:
        other = seen.setdefault(run.key, run)
        if other is not run:
            first, second = (
                f"{item.labels['data']}/{item.labels['shift']}/{item.labels['size']}/{item.labels['method']}"
                for item in (other, run)
            )
            if (other.labels["data"], other.labels["method"]) == (run.labels["data"], run.labels["method"]):
                continue  # two shifts or sizes that draw alike: one run serves both rows of the table
            raise InputError("methods", f"{first} and {second} describe the same run; remove one")


def without_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """A data set's values without the places where its files lie: a key says what the data is, not where."""
    options = {name: value for name, value in values["options"].items() if name not in PATH_KNOBS}
    told = {**values, "options": options}
    if "clusters" in values:
        told["clusters"] = {name: value for name, value in values["clusters"].items() if name != "features"}
    return told
