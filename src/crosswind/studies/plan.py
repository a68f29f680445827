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
from crosswind.core.types import PlannedRun, digest
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells
from crosswind.shifts.split import plan_counts
from crosswind.studies.axes import MethodEntry, Point, check_sampler, grid_of, methods_of, models_of, points_of, training_knobs
from crosswind.studies.build import PATH_KNOBS, build_dataset, build_shift, build_split_plan, data_values, shift_values
from crosswind.studies.spec import DataSpec, SetSpec, Study

__all__ = ["DrawReport", "Plan", "make_plan"]

FORMAT = 1


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
    models = models_of(study)
    training = grid_of(training_knobs(), study.training, "training", "the training loop")
    methods = methods_of(study, training)
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
    for point in points_of(study):
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


# -- splits -----------------------------------------------------------------------------------------------------------------


def _split_values(study: Study, data: DataSpec, point: Point) -> dict[str, Any]:
    check_sampler(study.sampler, "sampler")
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


def _report(point: Point, counts: _Counts, split: Mapping[str, Any], matching: Mapping[str, Mapping[str, list[str]]]) -> DrawReport:
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


def _check_needs(method: MethodEntry, split: Mapping[str, Any], counts: _Counts, title: str) -> None:
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


def _doubts(method: MethodEntry, split: Mapping[str, Any], counts: _Counts) -> list[str]:
    needs = method.facts.needs
    environments = method.overrides.get("environments", split["environments"])
    if needs is None or not needs.environments or not counts.environment_is_class(environments):
        return []
    return [f"{method.label} aligns environments, but here an environment is nearly one class, so aligning them erases the label"]


# -- runs -------------------------------------------------------------------------------------------------------------------


def _runs(
    study: Study,
    point: Point,
    base: Mapping[str, Any],
    base_key: Mapping[str, Any],
    models: Mapping[str, dict[str, Any]],
    methods: Mapping[str, MethodEntry],
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
            first, second = (
                f"{item.labels['data']}/{item.labels['shift']}/{item.labels['size']}/{item.labels['method']}"
                for item in (other, run)
            )
            if (other.labels["data"], other.labels["method"]) == (run.labels["data"], run.labels["method"]):
                continue  # two shifts or sizes that draw alike: one run serves both rows of the table
            raise InputError("methods", f"{first} and {second} describe the same run; remove one")


def _without_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in values["options"].items() if name not in PATH_KNOBS}
    return {**values, "options": options}
