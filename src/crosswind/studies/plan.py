"""From a study to its runs and to the numbers that describe its splits, without training and without torch.

Everything that can be wrong with a study is found here, before any work starts: unknown names, values out of their domain,
attributes and values that the data does not have, shifts that empty the training set, needs that a method cannot have met.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, NeedsError, unknown
from crosswind.core.knobs import Knob, resolve
from crosswind.core.registry import Facts, facts
from crosswind.core.types import PlannedRun, canonical, digest
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells
from crosswind.shifts.split import plan_counts
from crosswind.studies.build import PATH_KNOBS, build_dataset, build_shift, build_split_plan, data_values, shift_values
from crosswind.studies.spec import DataSpec, SetSpec, Study
from crosswind.training.settings import TrainingSettings

__all__ = ["DrawReport", "Plan", "make_plan"]

FORMAT = 1
RESERVED = ("method", "training", "sampler", "groups", "environments")
SAMPLERS = ("uniform", "reweight", "balanced")


@dataclass(frozen=True)
class DrawReport:
    """What one shift does to one data set at one size: counts of rows, planned without drawing them."""

    source: str
    shift: str
    size: str
    train_rows: int
    validation_rows: int
    test_rows: int
    cells: Mapping[str, int]
    matching: Mapping[str, Mapping[str, list[str]]]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain values; `cells` maps every cell that is trained on to its rows."""
        return {
            "source": self.source,
            "shift": self.shift,
            "size": self.size,
            "train_rows": self.train_rows,
            "validation_rows": self.validation_rows,
            "test_rows": self.test_rows,
            "cells": dict(self.cells),
            "matching": {name: dict(pairs) for name, pairs in self.matching.items()},
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class Plan:
    """A study's runs, in the order in which they are started, and what its shifts draw."""

    study: Study
    runs: tuple[PlannedRun, ...]
    draws: tuple[DrawReport, ...]
    warnings: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """What `crosswind plan --json` prints."""
        return {
            "study": self.study.name,
            "draws": [draw.to_json() for draw in self.draws],
            "runs": len(self.runs),
            "warnings": list(self.warnings),
        }


def make_plan(study: Study, folder: Path | None = None) -> Plan:
    """Plan a study; `folder` is the study file's, where relative data paths are looked for first.

    Raises `InputError`, `DataError` or `NeedsError` with one sentence.
    """
    models = _models(study)
    training = _grid(_training_knobs(), study.training, "training", "the training loop")
    methods = _methods(study, training)
    if study.reference not in methods:
        raise unknown("reference", "method of this study", study.reference, methods)
    values = {name: data_values(spec, f"data.{name}", folder) for name, spec in study.data.items()}
    datasets = {name: build_dataset(value, f"data.{name}") for name, value in values.items()}
    for name, spec in study.data.items():
        _check_data(datasets[name], spec, f"data.{name}")
    fingerprints = {name: dataset.fingerprint for name, dataset in datasets.items()}
    keyed = {name: {**_without_paths(value), "fingerprint": fingerprints[name]} for name, value in values.items()}

    draws: list[DrawReport] = []
    runs: list[PlannedRun] = []
    warnings: dict[str, list[str]] = {}  # text -> the draws it is about
    for point in _points(study):
        data = study.data[point.data]
        split = _split_values(study, data, point)
        others = {item["source"] for item in split["sets"].values() if item["source"] is not None}
        for other in others - set(datasets):
            raise unknown("sets", "data set", other, datasets)
        used = {name: datasets[name] for name in (point.data, *sorted(others))}
        with _named(split):
            counts = _Counts(plan_counts(used, point.data, build_split_plan(split)))
        draws.append(_report(point, counts, split, _matching(split, counts.cells)))
        for text in counts.warnings:
            warnings.setdefault(text, []).append(point.title)
        for method in methods.values():
            _check_needs(method, split, counts, point.title)
            for text in _doubts(method, split, counts):
                warnings.setdefault(text, []).append(point.title)
        base = {
            "format": FORMAT,
            "data": {name: values[name] for name in used},
            "main": point.data,
            "split": split,
            "keep": study.keep,
            "threads": 1,
        }
        base_key = {**base, "data": {name: keyed[name] for name in used}}
        runs += _runs(study, point, base, base_key, models, methods)
    _distinct(runs)
    told = [f"{titles[0]}{f' and {len(titles) - 1} more' if len(titles) > 1 else ''}: {text}" for text, titles in warnings.items()]
    return Plan(study, tuple(runs), tuple(draws), tuple(told))


# -- the axes ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Point:
    data: str
    shift: str
    size: str
    draw: Any
    noise: Any
    rows: int | None

    @property
    def title(self) -> str:
        return f"{self.data}, {self.shift}, {self.size}"


@dataclass(frozen=True)
class _MethodEntry:
    label: str
    facts: Facts
    points: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]  # (point label, method knobs, training settings)
    overrides: Mapping[str, Any]


def _points(study: Study) -> Iterator[_Point]:
    noises = study.label_noise if isinstance(study.label_noise, list) else [study.label_noise]
    if not noises:
        raise InputError("label_noise", "must not be empty; 0 is none")
    rows = study.dataset_size if isinstance(study.dataset_size, list) else [study.dataset_size]
    if not rows:
        raise InputError("dataset_size", "must not be empty; leave it out for the size that the draw gives")
    found = 0
    for data, shift in itertools.product(study.data, study.shifts):
        for size, entry in study.sizes.items():
            draw = _draw_of(entry, data, shift, f"sizes.{size}", study)
            if draw is None:
                continue
            for n, noise in itertools.product(rows, noises):
                found += 1
                label = size if n is None else (f"n={n}" if len(study.sizes) == 1 else f"{size}, n={n}")
                label_noise = noise if isinstance(noise, dict) else float(noise)
                named = label if len(noises) == 1 else f"{label}, noise={canonical(noise)}"
                yield _Point(data, shift, named, draw, label_noise, n)
    if not found:
        raise InputError("sizes", "no size names a shift of a data set of this study, so there is nothing to run", study.sizes)


def _draw_of(entry: Any, data: str, shift: str, path: str, study: Study) -> Any:
    for names, chosen in ((study.data, data), (study.shifts, shift)):
        if not isinstance(entry, Mapping) or set(entry) & {"base", "total", "all"}:
            return entry
        for key in entry:
            if key not in names:
                what = "data set" if names is study.data else "shift"
                raise unknown(f"{path}.{key}", what, key, names)
        if chosen not in entry:
            return None
        path, entry = f"{path}.{chosen}", entry[chosen]
    return entry


def _models(study: Study) -> dict[str, dict[str, Any]]:
    entries = study.models if isinstance(study.models, dict) else dict.fromkeys(study.models, {})
    if not entries:
        raise InputError("models", "must not be empty")
    out = {}
    for label, settings in entries.items():
        settings = dict(settings or {})
        name = settings.pop("model", label)
        known = facts("models", name, f"models.{label}")
        out[label] = {"name": name, "knobs": resolve(known.knobs, settings, f"models.{label}", f"model {name!r}")}
    return out


def _methods(study: Study, training: list[tuple[str, dict[str, Any]]]) -> dict[str, _MethodEntry]:
    entries = study.methods if isinstance(study.methods, dict) else dict.fromkeys(study.methods, {})
    if not entries:
        raise InputError("methods", "must not be empty")
    out = {}
    for label, settings in entries.items():
        path = f"methods.{label}"
        if settings is not None and not isinstance(settings, dict):
            raise InputError(path, f"must be a mapping of settings, not {settings!r}")
        settings = dict(settings or {})
        known = facts("methods", settings.pop("method", label), path)
        overrides = {key: settings.pop(key) for key in RESERVED if key in settings}
        _check_overrides(overrides, path)
        grid = training
        if "training" in overrides:
            own = overrides.pop("training")
            if not isinstance(own, dict):
                raise InputError(f"{path}.training", f"must be a mapping of settings, not {own!r}")
            grid = _grid(_training_knobs(), {**study.training, **own}, f"{path}.training", "the training loop")
        knobs = _grid(known.knobs, settings, path, f"method {known.name!r}")
        points = tuple(
            (", ".join(part for part in (first, second) if part), values, train)
            for (first, values), (second, train) in itertools.product(knobs, grid)
        )
        out[label] = _MethodEntry(label, known, points, overrides)
    return out


def _check_overrides(overrides: Mapping[str, Any], path: str) -> None:
    if "sampler" in overrides:
        _check_sampler(overrides["sampler"], f"{path}.sampler")
    for key in ("groups", "environments"):
        value = overrides.get(key)
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise InputError(f"{path}.{key}", f"must be a list of attributes, not {value!r}")


def _check_sampler(value: Any, path: str) -> None:
    if isinstance(value, Mapping):
        if set(value) != {"mixture"}:
            raise InputError(path, "must be a word or {mixture: share}", [*SAMPLERS, "{mixture: share}"])
        share = value["mixture"]
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise InputError(f"{path}.mixture", f"must be a share in [0, 1], not {share!r}")
    elif value not in SAMPLERS:
        raise unknown(path, "sampler", value, [*SAMPLERS, "{mixture: share}"])


def _training_knobs() -> tuple[Knob, ...]:
    from crosswind.core.knobs import knobs_of

    return knobs_of(TrainingSettings)


def _grid(knobs: tuple[Knob, ...], settings: Mapping[str, Any], path: str, what: str) -> list[tuple[str, dict[str, Any]]]:
    """Every combination of the settings that are lists, with a label that names what varies."""
    listed = {item.name for item in knobs if "list" in item.annotation or "tuple" in item.annotation}
    axes = {name: value for name, value in settings.items() if isinstance(value, list) and name not in listed}
    for name, values in axes.items():
        if not values:
            raise InputError(f"{path}.{name}", "is an empty list; give at least one value")
        if len({canonical(value) for value in values}) != len(values):
            raise InputError(f"{path}.{name}", "names a value twice")
    out = []
    for chosen in itertools.product(*axes.values()):
        picked = dict(zip(axes, chosen, strict=True))
        resolved = resolve(knobs, {**settings, **picked}, path, what)
        out.append((", ".join(f"{name}={_short(value)}" for name, value in picked.items()), resolved))
    return out


def _short(value: Any) -> str:
    return format(value, "g") if isinstance(value, float) else str(value)


# -- splits -----------------------------------------------------------------------------------------------------------------


def _split_values(study: Study, data: DataSpec, point: _Point) -> dict[str, Any]:
    _check_sampler(study.sampler, "sampler")
    sets = {name: _set_values(study, data, item, name) for name, item in study.sets.items()}
    if not any(item["role"] == "test" for item in sets.values()):
        raise InputError("sets", "no set has the role 'test', so there is nothing to evaluate on")
    return {
        "label": data.label,
        "attributes": data.attribute_names,
        "shift": shift_values(study.shifts, point.shift, data),
        "shift_name": point.shift,
        "draw": point.draw,
        "size_field": f"sizes.{point.size}",
        "roles": data.roles.model_dump(),
        "sets": sets,
        "groups": study.groups,
        "environments": study.environments,
        "label_noise": point.noise,
        "dataset_size": point.rows,
        "sampler": study.sampler,
        "split_seed": study.split_seed,
    }


def _set_values(study: Study, data: DataSpec, item: SetSpec, name: str) -> dict[str, Any]:
    law: Any = item.law
    if law != "train":
        if law == "uniform" and "uniform" not in study.shifts:
            law = []
        elif isinstance(law, str):
            law = shift_values(study.shifts, law, data) if law in study.shifts else _law_error(study, name, law)
        else:
            law = shift_values({"law": law}, "law", data, f"sets.{name}")
    return {"role": item.role, "law": law, "draw": item.draw, "source": item.source, "labels": item.labels}


def _law_error(study: Study, name: str, law: str) -> Any:
    raise unknown(f"sets.{name}.law", "law", law, ["train", "uniform", *study.shifts])


@contextmanager
def _named(split: Mapping[str, Any]) -> Iterator[None]:
    """Name fields as the study file does: a split knows only one shift and one draw."""
    names = {"shift": f"shifts.{split['shift_name']}", "draw": split["size_field"]}
    try:
        yield
    except InputError as error:
        head, dot, rest = error.field.partition(".")
        if head not in names:
            raise
        raise InputError(names[head] + dot + rest, error.problem, error.choices) from None


def _check_data(dataset: AttributedDataset, spec: DataSpec, path: str) -> None:
    names = [item.name for item in dataset.schema]
    if spec.label not in names:
        raise unknown(f"{path}.label", "attribute", spec.label, names)
    seen: set[str] = set()
    for name in spec.attribute_names:
        if name not in names:
            raise unknown(f"{path}.attributes", "attribute", name, names)
        if name == spec.label:
            raise InputError(f"{path}.attributes", f"{name!r} is the label, so it cannot be an attribute of a shift too")
        if name in seen:
            raise InputError(f"{path}.attributes", f"names {name!r} twice")
        seen.add(name)
    if len(dataset.attribute(spec.label, f"{path}.label").values) < 2:
        raise InputError(f"{path}.label", f"{spec.label!r} has one value, so there is nothing to classify")
    if spec.roles.official is not None and spec.roles.official.column not in names:
        raise unknown(f"{path}.roles.official.column", "attribute", spec.roles.official.column, names)


class _Counts:
    """What `plan_counts` says of one draw, and what follows from it."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.cells: Cells = told["train_cells"]
        self.counts: NDArray[np.int64] = told["train_counts"]
        self.train_rows: int = told["train_rows"]
        self.set_rows: Mapping[str, int] = told["sets"]
        self.warnings: list[str] = told["warnings"]
        self.notes: list[str] = told["notes"]
        self.defaults = {True: told["groups"], False: told["environments"]}

    def by_name(self) -> dict[str, int]:
        """Training rows of every cell that has any."""
        flat = self.counts.ravel()
        return {self.cells.cell_names[cell]: int(flat[cell]) for cell in np.flatnonzero(flat)}

    def together(self, names: Sequence[str] | None, with_label: bool) -> NDArray[np.int64]:
        """Training rows by label (axis 0) and by the cells of the named attributes (axis 1); None is the default."""
        chosen = self.defaults[with_label] if names is None else names
        axes = [self.cells.axis(name, "groups" if with_label else "environments") for name in chosen if name in self.cells.names]
        other = tuple(axis for axis in range(1, len(self.cells.shape)) if axis not in axes)
        return self.counts.sum(axis=other).reshape(self.cells.shape[0], -1)

    def count(self, names: Sequence[str] | None, with_label: bool) -> int:
        """How many groups (with the label) or environments (without) have training rows."""
        rows = self.together(names, with_label)
        return int(np.count_nonzero(rows if with_label else rows.sum(axis=0)))

    def environment_is_class(self, names: Sequence[str] | None) -> bool:
        """Whether most rows of the environments have one class: then aligning environments erases the label."""
        rows = self.together(names, False)
        by_environment = rows[:, rows.sum(axis=0) > 0]
        shares = by_environment.max(axis=0).sum() / max(1, by_environment.sum())
        even = (by_environment.sum(axis=1) > 0).sum()
        return bool(even > 1 and shares > 0.9)


def _matching(split: Mapping[str, Any], cells: Cells) -> dict[str, dict[str, list[str]]]:
    """For each spurious correlation of the draw: the values that go with each class."""
    out = {}
    for component in split["shift"]:
        if component.get("type") != "spurious-correlation":
            continue
        name = component["attribute"]
        weights = build_shift([component], f"shifts.{split['shift_name']}").normal_form(cells).weights
        axis = cells.axis(name, "attribute")
        table = weights.max(axis=tuple(other for other in range(1, weights.ndim) if other != axis))
        values = cells.axes[axis].values
        out[name] = {
            label: [values[code] for code in np.flatnonzero(row == table.max())]
            for label, row in zip(cells.label.values, table, strict=True)
        }
    return out


def _report(
    point: _Point, counts: _Counts, split: Mapping[str, Any], matching: Mapping[str, Mapping[str, list[str]]]
) -> DrawReport:
    tests = [name for name, item in split["sets"].items() if item["role"] == "test"]
    main_test = "test" if "test" in tests else tests[0]
    validations = [name for name, item in split["sets"].items() if item["role"] == "validation"]
    main_validation = "validation" if "validation" in validations else (validations[0] if validations else None)
    return DrawReport(
        source=point.data,
        shift=point.shift,
        size=point.size,
        train_rows=counts.train_rows,
        validation_rows=counts.set_rows.get(main_validation, 0) if main_validation else 0,
        test_rows=counts.set_rows[main_test],
        cells=counts.by_name(),
        matching=matching,
        warnings=tuple(counts.warnings),
    )


# -- needs ------------------------------------------------------------------------------------------------------------------


def _check_needs(method: _MethodEntry, split: Mapping[str, Any], counts: _Counts, title: str) -> None:
    needs = method.facts.needs
    if needs is None:
        return
    where = f"methods.{method.label} ({title})"
    if needs.groups:
        groups = method.overrides.get("groups", split["groups"])
        have = counts.count(groups, with_label=True)
        if have < 2:
            raise NeedsError(f"{where}: needs at least two groups with training rows, and there is {have}")
    if needs.environments:
        environments = method.overrides.get("environments", split["environments"])
        have = counts.count(environments, with_label=False)
        if have < 2:
            raise NeedsError(
                f"{where}: needs at least two environments with training rows, and there is {have}; "
                f"name others with 'environments' (valid: {', '.join(split['attributes'])})"
            )


def _doubts(method: _MethodEntry, split: Mapping[str, Any], counts: _Counts) -> list[str]:
    needs = method.facts.needs
    environments = method.overrides.get("environments", split["environments"])
    if needs is None or not needs.environments or not counts.environment_is_class(environments):
        return []
    return [f"{method.label} aligns environments, but here an environment is nearly one class, so aligning them erases the label"]


# -- runs -------------------------------------------------------------------------------------------------------------------


def _runs(
    study: Study,
    point: _Point,
    base: Mapping[str, Any],
    base_key: Mapping[str, Any],
    models: Mapping[str, dict[str, Any]],
    methods: Mapping[str, _MethodEntry],
) -> Iterator[PlannedRun]:
    # What the runs of one point share is hashed once: planning 10,000 runs stays well under two seconds.
    heads: dict[str, tuple[dict[str, Any], str]] = {}
    for label, method in methods.items():
        split = {**base["split"], **method.overrides}
        key_split = {name: value for name, value in split.items() if name not in ("shift_name", "size_field")}
        heads[label] = ({**base, "split": split}, digest({**base_key, "split": key_split}))
    for seed, (model_label, model), method in itertools.product(study.seed_list, models.items(), methods.values()):
        spec_head, head = heads[method.label]
        for point_label, knobs, training in method.points:
            tail = {
                "method": {"name": method.facts.name, "version": method.facts.version, "knobs": knobs},
                "model": model,
                "training": training,
                "seed": seed,
            }
            labels = {
                "data": point.data,
                "shift": point.shift,
                "size": point.size,
                "model": model_label,
                "method": method.label,
                "point": point_label,
                "seed": seed,
            }
            yield PlannedRun(digest({"head": head, **tail}), {**spec_head, **tail}, labels)


def _distinct(runs: list[PlannedRun]) -> None:
    seen: dict[str, PlannedRun] = {}
    for run in runs:
        other = seen.setdefault(run.key, run)
        if other is not run:
            first, second = (f"{item.labels['data']}/{item.labels['shift']}/{item.labels['size']}/{item.labels['method']}" for item in (other, run))
            if (other.labels["data"], other.labels["method"]) == (run.labels["data"], run.labels["method"]):
                continue  # two shifts or sizes that draw alike: one run serves both rows of the table
            raise InputError("methods", f"{first} and {second} describe the same run; remove one")


def _without_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in values["options"].items() if name not in PATH_KNOBS}
    return {**values, "options": options}

