"""Warnings and notes of a plan: what a study asks for, and its data or its machine do not give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from crosswind.core.errors import InputError, counted
from crosswind.core.registry import load
from crosswind.core.types import InputSpec, Job
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.split.pictures import said_of_data
from crosswind.shifts.ties import tie_of
from crosswind.studies.axes import (
    MethodEntry,
    StudyPoint,
)
from crosswind.studies.halving import rungs_of
from crosswind.studies.job_specs import FitSpec
from crosswind.studies.spec import DataSpec, RolesSpec, Study
from crosswind.studies.split_counts import DrawCounts
from crosswind.training.requirements import refuse, warnings_of

UNEVEN = 2
"""How many times the rows of its smallest cell the largest cell of a test set may have before a plan
warns that units or a share of each cell made it so."""

UNHASHED = (
    "what its rows hold cannot be hashed before planning, as the program did not say it (contents):"
    " equal rows are not known"
)
"""What a plan says of a data set that a program made itself."""


def method_warnings(
    point: StudyPoint,
    method: MethodEntry,
    counts: DrawCounts,
    split: Mapping[str, Any],
    inputs: InputSpec | None,
    trained: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """The warnings of a method at a point; refuses one whose needs the point does not meet."""
    where = f"methods.{method.label} ({point.title})"
    if "sampler" in method.overrides:
        field_name = f"methods.{method.label}.sampler ({point.title})"
        counts.check_sampler(method.overrides["sampler"], field_name)
    models = {label: model for label, model in trained.items() if method.on(label)}
    warnings: list[str] = []
    for pairing in counts.pairings(method, {**split, **method.overrides}, inputs, models):
        refuse(pairing, f"{where}:", where)
        warnings += [f"{method.label} {text}" for text in warnings_of(pairing)]
    return warnings


def device_notes(study: Study, jobs: Sequence[Job]) -> list[str]:
    """On which device networks are trained, where the study leaves that to the machine."""
    # By identity: the fits of a plan share their settings, and a large one has 100,000 of them.
    settings = {id(job.spec["training"]): job.spec for job in jobs if job.kind == "fit"}
    devices = sorted({FitSpec.of(spec).device for spec in settings.values()})
    if not devices or study.training.get("device", "auto") != "auto":
        return []
    return [f"training.device: auto, which is {' or '.join(devices)} on this machine"]


def idle_switch_setting(methods: Iterable[MethodEntry], jobs: Sequence[Job]) -> list[str]:
    """That steps before a switch are let be selected where no method of the study has a switch."""
    training = {id(job.spec["training"]): job.spec["training"] for job in jobs if job.kind == "fit"}
    is_set = any(settings.get("select_before_switch") for settings in training.values())
    needs_of_methods = [method.facts.needs for method in methods]
    if not is_set or any(needs is not None and needs.switches for needs in needs_of_methods):
        return []
    return [
        "training.select_before_switch: changes nothing here, since no method of the study changes at"
        " a step of its training, as irm does; leave it out"
    ]


def halving_notes(study: Study, methods: Iterable[MethodEntry]) -> list[str]:
    """How many points of a search that halves go on from each rung, and what that costs."""
    search = study.search
    if search is None or search.halving is None or search.points < 2:
        return []
    rungs = rungs_of(search.points, search.halving.factor, search.halving.rungs)
    lengths = {
        (training["steps"], training["epochs"], training["validate_every"])
        for method in methods
        for _, _, training in method.points
    }
    waiting = ""
    if len(lengths) == 1:
        steps, epochs, validate_every = lengths.pop()
        validated = rungs.at_validations(steps, validate_every)
        if epochs is None and not np.allclose(validated.shares, rungs.shares, rtol=0, atol=0.005):
            rungs = validated
            waiting = f", as validations are {counted(validate_every, 'step')} apart"
    going_on = [
        f"{promoted} after {share:.3g} of the steps"
        for share, promoted in zip(rungs.shares, rungs.promoted, strict=True)
    ]
    cost = f"{100 * rungs.cost(search.points):.0f}% of the steps of training all to the end"
    going = f"of {search.points} points of a method go on {', '.join(going_on)}{waiting}"
    return [f"search: {going}: {cost}"]


def unused_columns(study: Study, name: str, spec: DataSpec) -> list[str]:
    """The attributes that a data set computes and nothing reads, a sentence each."""
    computed = dict.fromkeys(spec.rules or {}, "rules")
    if spec.clusters is not None:
        computed[spec.clusters.name] = "clusters"
    roles = spec.roles.official
    columns = {spec.label, *spec.attribute_names, *spec.keep, spec.unit}
    columns |= {*(study.groups or ()), *(study.environments or ())}
    columns |= set() if roles is None else {roles.column}
    if spec.clusters is not None:
        columns |= {spec.clusters.within, *spec.clusters.fit}
    laws = [study.shifts, *(set_spec.law for set_spec in study.sets.values())]
    spoken = {str(word) for law in laws for word in _words_of(law)}
    return [
        f"data.{name}.{field}: {column!r} is computed and read by nothing; name it in"
        f" data.{name}.attributes, or leave it out"
        for column, field in computed.items()
        if column not in columns | spoken
    ]


def _words_of(value: Any) -> Iterator[Any]:
    """All values in plain mappings and lists."""
    if isinstance(value, Mapping | list):
        for entry in value.values() if isinstance(value, Mapping) else value:
            yield from _words_of(entry)
    else:
        yield value


def data_notes(name: str, spec: DataSpec, dataset: AttributedDataset) -> list[str]:
    """The notes on what is known of the rows of a data set, and what is not."""
    notes = said_of_data(name, dataset, (spec.label, *spec.attribute_names))
    if (
        spec.source == "memory"
        and dataset.read is not None
        and dataset.contents is None
        and not notes
    ):
        notes.append(f"{name}: {UNHASHED}")
    return notes


def tie_notes(name: str, spec: DataSpec, dataset: AttributedDataset) -> list[str]:
    """Which attributes of a study go with the label in the rows of a data set, and how strongly."""
    attributes = [
        attribute for attribute in spec.attribute_names if attribute in dataset.table.names
    ]
    if spec.label not in dataset.table.names:
        return []
    ties = [
        tie_of(dataset, spec.label, attribute)
        for attribute in attributes
        if attribute != spec.label
    ]
    return [f"{name}: {tie.in_words}" for tie in ties if tie.matching]


def sets_with_another_label(
    study: Study, point: StudyPoint, datasets: Mapping[str, AttributedDataset]
) -> list[str]:
    """That a set of another data set reads the attribute that this one predicts, and not the other's
    label. Raises `InputError` where the other has no such attribute."""
    label = study.data[point.data].label
    warnings = []
    for name, spec in study.sets.items():
        if spec.source not in study.data or study.data[spec.source].label == label:
            continue
        own_label = study.data[spec.source].label
        if label not in [attribute.name for attribute in datasets[spec.source].schema]:
            problem = (
                f"{spec.source!r} has no attribute {label!r}, which {point.data!r} predicts, and its"
                f" own label {own_label!r} has another name; give both columns one name, and say in"
                " 'labels' which class of the set is which"
            )
            raise InputError(f"sets.{name}.source", problem)
        warnings.append(
            f"set {name} reads {label!r} of {spec.source}, which {point.data} predicts, and not its"
            f" label {own_label!r}"
        )
    return warnings


def uneven_tests(
    study: Study, data: str, counts: DrawCounts, dataset: AttributedDataset
) -> list[str]:
    """That a test set has far more rows of one cell than of another, because units bring their rows
    of other cells along or because a share of every cell is tested, and how to draw an even one.
    Official roles test on the rows that they name."""
    roles = study.data[data].roles
    if roles.official is not None:
        return []
    warnings = []
    for name, (_, cell_counts) in counts.test_counts.items():
        rows_of_cells = cell_counts[cell_counts > 0]
        if not len(rows_of_cells) or rows_of_cells.max() <= UNEVEN * rows_of_cells.min():
            continue
        n_fewest, n_largest = int(rows_of_cells.min()), int(rows_of_cells.max())
        numbers = f"test set {name} has {n_fewest:,} rows of one cell and {n_largest:,} of another, because"
        if dataset.units is not None:
            warnings.append(
                f"{numbers} a unit"
                " is dealt with all its rows, so that attributes tell of the label in it too and a cost"
                f" may not show; `sets: {{validation: {{role: validation, law: train}}, {name}: {{role:"
                f" test, draw: {{base: {n_fewest}}}}}}}` draws as many of each cell"
            )
        elif _tests_a_share(study, name, roles):
            warnings.append(
                f"{numbers} roles.test is a share of each cell, so that cells weigh in it as in the"
                " rows, and where an attribute goes with the label there a cost may not show; a whole"
                f" number, such as `roles: {{test: {n_fewest}}}`, is as many rows of each cell"
            )
    return warnings


def short_validation(study: Study, data: str, counts: DrawCounts) -> list[str]:
    """That an official validation part has fewer rows than the share that a study asks for."""
    roles = study.data[data].roles
    is_asked = "validation" in roles.model_fields_set and not isinstance(roles.validation, int)
    if roles.official is None or roles.official.validation is None or not is_asked:
        return []
    share = Fraction(str(roles.validation))
    asked_rows = round(counts.train_rows * share / (1 - share))
    return [
        f"set {name} has {counts.set_rows.get(name, 0):,} of the {asked_rows:,} rows that"
        f" roles.validation: {roles.validation} asks for beside {counts.train_rows:,} training rows:"
        " the official validation part has no more"
        for name, spec in study.sets.items()
        if spec.role == "validation"
        and (spec.source, spec.draw) == (None, None)
        and counts.set_rows.get(name, 0) < asked_rows - 1
    ]


def _tests_a_share(study: Study, name: str, roles: RolesSpec) -> bool:
    """Whether a set that is to have all cells alike takes a share of each."""
    spec = study.sets[name]
    is_share = not isinstance(roles.test, int)
    return is_share and spec.law in ("uniform", []) and spec.draw in (None, "all")


def single_rows(counts: DrawCounts) -> list[str]:
    """That a cell has one row to test, whose answer would be an accuracy of 0 or 1."""
    warnings = []
    for name, (cells, cell_counts) in counts.test_counts.items():
        singles = np.argwhere(cell_counts == 1)
        if len(singles) and cell_counts.max() > 1:
            codes = singles[0].tolist()
            cell = ", ".join(
                f"{axis.name}={axis.values[code]}"
                for axis, code in zip(cells.axes, codes, strict=True)
            )
            more = f" and {len(singles) - 1:,} more" if len(singles) > 1 else ""
            warnings.append(
                f"test set {name} has 1 row of {cell}{more}: where that is the worst group nothing"
                " can be told of it; leave its value out (keep), join it with another, or test more"
                " of its rows"
            )
    return warnings


def unread_settings(models: Mapping[str, Any]) -> list[str]:
    """The dependencies of answers that no key knows, a sentence for each kind of model."""
    labels: dict[str, list[str]] = {}
    for label, model in models.items():
        if "files" in model and (unread := getattr(load("models", model["name"]), "unread", "")):
            labels.setdefault(unread, []).append(label)
    return [f"models.{', '.join(named)}: {unread}" for unread, named in labels.items()]
