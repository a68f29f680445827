"""Fields of a study that can be checked only beside its data, models and methods; each refusal is an
`InputError` that names the field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from crosswind.core.errors import InputError, unknown
from crosswind.core.registry import facts
from crosswind.data.dataset import AttributedDataset
from crosswind.data.one_value import refuse_doubts
from crosswind.models.form import check_form
from crosswind.shifts.split import parse_sampler
from crosswind.studies.axes import (
    MethodEntry,
    StudyPoint,
    data_of,
    points_of,
)
from crosswind.studies.build import (
    CLUSTERS_AS_BEFORE,
)
from crosswind.studies.claims import check_claims
from crosswind.studies.estimates import source_set
from crosswind.studies.pooled_claims import check_pooled_claims
from crosswind.studies.prompts import check_prompts
from crosswind.studies.resources import parse_resources
from crosswind.studies.spec import DataSpec, Study
from crosswind.studies.split_counts import DrawCounts
from crosswind.training.requirements import check_has_lengths
from crosswind.training.selection import RULES


def check_names(
    study: Study,
    models: Mapping[str, Any],
    trained: Mapping[str, Any],
    methods: Mapping[str, MethodEntry],
) -> None:
    """Refuse names that clash, that nothing runs, or that claims and prompts do not find."""
    external = models.keys() - trained
    for label in models:
        if label in methods and label in external:
            raise InputError(
                f"models.{label}", "has the name of a method of this study; give it another"
            )
    parse_sampler(study.sampler)
    parse_resources(study.resources, "resources")
    points = list(points_of(study))
    _check_each_runs(study, points, models, trained, methods)
    if study.reference not in methods:
        raise unknown("reference", "method of this study", study.reference, methods)
    check_prompts(study, external, trained, methods)
    if study.claims:
        data_names = data_of(study.models)
        of_data = {label: {"data": names} for label, names in data_names.items()}
        external_entries = {
            label: MethodEntry(
                label, facts("models", models[label]["name"]), (), {}, of_data.get(label, {})
            )
            for label in external
        }
        check_claims(study, points, models, {**external_entries, **methods})
        check_pooled_claims(
            study, points, {name: data_names.get(name) for name in trained}, methods
        )


def _check_each_runs(
    study: Study,
    points: Sequence[StudyPoint],
    models: Iterable[str],
    trained: Iterable[str],
    methods: Mapping[str, MethodEntry],
) -> None:
    """Refuse a model and a method that no run of the study has, so that no table would show them."""
    names = data_of(study.models)
    data_of_model = {label: names.get(label, list(study.data)) for label in models}
    trained_on = {point.data for point in points}
    for label, of_model in data_of_model.items():
        if not trained_on & set(of_model):
            problem = f"is run on {', '.join(of_model)} alone, on which the study trains nothing"
            raise InputError(f"models.{label}.data", problem, sorted(trained_on))
    for label, method in methods.items() if trained else ():
        at_points = [point for point in points if method.at(point)]
        pairs = product(at_points, (model for model in trained if method.on(model)))
        if any(point.data in data_of_model[model] for point, model in pairs):
            continue
        conditions = [f"{key} ({', '.join(listed)})" for key, listed in method.only.items()]
        problem = (
            f"is run nowhere: with {' and '.join(conditions)} it has none of the runs that the study's"
            " sizes and the data of its models leave; widen one of them, or take it out"
        )
        raise InputError(f"methods.{label}", problem)


def check_data(dataset: AttributedDataset, spec: DataSpec, path: str) -> None:
    """Refuse a label, attributes or roles that a data set does not have."""
    names, listed = [attribute.name for attribute in dataset.schema], spec.attribute_names
    official = (
        []
        if spec.roles.official is None
        else [("roles.official.column", spec.roles.official.column)]
    )
    for where, name in [
        ("label", spec.label),
        *(("attributes", name) for name in listed),
        *official,
    ]:
        if where == "label":
            dataset.refuse_label_as_input(name, f"{path}.label")
        if name not in names:
            raise dataset.no_attribute(name, f"{path}.{where}")
    if spec.label in listed:
        raise InputError(
            f"{path}.attributes",
            f"{spec.label!r} is the label, so it cannot be an attribute of a shift too",
        )
    for position, name in enumerate(listed):
        if name in listed[:position]:
            raise InputError(f"{path}.attributes", f"names {name!r} twice")
    refuse_doubts(dataset, [spec.label, *listed, *(name for _, name in official)], path)
    if spec.clusters is not None and spec.clusters.max_k != CLUSTERS_AS_BEFORE["max_k"]:
        if spec.clusters.k != "silhouette":
            problem = f"belongs to k: silhouette, and k is {spec.clusters.k}; leave one of them out"
            raise InputError(f"{path}.clusters.max_k", problem)
    if len(dataset.attribute(spec.label, f"{path}.label").values) < 2:
        raise InputError(
            f"{path}.label", f"{spec.label!r} has one value, so there is nothing to classify"
        )


def check_selection(study: Study, point: StudyPoint, counts: DrawCounts, estimates: bool) -> None:
    """Refuse a rule whose validation set is not there, so that nothing would be scored, and
    estimators without one."""
    for rule in study.selection:
        name = "" if rule == "last" else RULES[rule].set
        if not name or counts.set_rows.get(name):
            continue
        problem = f"{rule} reads a set {name!r} of role validation, and 'sets' has none"
        if name in study.sets and study.sets[name].role == "validation":
            start = f"set {name!r} has no rows"
            reasons = [
                text.removeprefix(start) for text in counts.warnings if text.startswith(start)
            ]
            why = reasons[0] if reasons else ""
            problem = f"{rule} reads the set {name!r}, which has no rows{why} ({point.title})"
        choices = [other for other, each in RULES.items() if counts.set_rows.get(each.set)]
        raise InputError("selection", problem, [*choices, "last"])
    if estimates and not counts.set_rows.get(
        source_set({name: set_spec.role for name, set_spec in study.sets.items()})
    ):
        problem = "learn from the labels of a set of role validation with rows, and there is none"
        raise InputError("estimators", f"{problem} ({point.title})")


def check_lengths(data: AttributedDataset, methods: Iterable[MethodEntry]) -> None:
    """Refuse `training.length_pool` for rows without a length."""
    if any(training["length_pool"] for method in methods for _, _, training in method.points):
        check_has_lengths(data, "training.length_pool")


def check_inputs(
    used: Mapping[str, AttributedDataset], main: str, models: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse data sets whose inputs differ from those of `main`, and models that cannot take
    these."""
    ours = used[main].input
    for name, dataset in used.items():
        theirs = dataset.input
        if ours is not None and theirs is not None and theirs != ours:
            sizes = ours.kind == theirs.kind == "image" and ours.shape[2] == theirs.shape[2]
            path = f"data.{name}.options.size" if sizes else f"data.{name}"
            raise InputError(
                path, f"{theirs} cannot be tested by a model trained on the {ours} of {main!r}"
            )
    derived = used[main].derived
    for label, model in models.items():
        form = facts("models", model["name"]).built
        try:
            check_form(form, model["knobs"], ours, f"models.{label}", model["name"])
        except InputError as error:
            raise InputError(error.field, f"{error.problem} (data.{main})", error.choices) from None
        reads_rows_once = form is not None and (
            not form.gradient or bool(form.of and model["knobs"][form.of])
        )
        if derived is not None and derived.mode != "fixed" and reads_rows_once:
            problem = (
                f"reads each row of data.{main} once, and its derived attribute is drawn at every"
                " visit"
            )
            raise InputError(f"models.{label}", f"{problem}; make its mode fixed")
