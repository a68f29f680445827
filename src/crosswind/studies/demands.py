"""What methods and models demand of the rows, images and steps of a run, refused at planning where they are not met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crosswind.core.errors import InputError, NeedsError
from crosswind.core.registry import facts, listing
from crosswind.core.types import InputSpec
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import check_channels
from crosswind.models.form import check_form
from crosswind.studies.axes import MethodEntry, Point
from crosswind.studies.counting import DrawCounts
from crosswind.training.pairings import Pairing, refuse
from crosswind.training.pairings import doubts as pairing_doubts
from crosswind.training.settings import TrainingSettings, check_switches

__all__ = ["check_forms", "check_lengths", "check_models", "check_needs", "doubts", "pairings"]


def check_needs(method: MethodEntry, split: Mapping[str, Any], counts: DrawCounts, title: str) -> None:
    """Refuse a method whose groups or environments the training rows do not give."""
    needs = method.facts.needs
    if needs is None:
        return
    where = f"methods.{method.label} ({title})"
    if needs.groups:
        have = counts.count(split["groups"], with_label=True)
        if have < 2:
            raise NeedsError(f"{where}: needs at least two groups with training rows, and there is {have}")
    have = counts.count(split["environments"], with_label=False)
    if needs.environments and have < 2:
        raise NeedsError(
            f"{where}: needs at least two environments with training rows, and there is {have}; "
            f"name others with 'environments' (valid: {', '.join(split['attributes'])})"
        )
    least = min(training["batch"] for _, _, training in method.points)
    if needs.sampler == "per-environment" and least < have:
        raise NeedsError(
            f"{where}: a batch holds rows of each of the {have} environments, and training.batch is {least}; "
            "make it larger, or name other 'environments'"
        )
    for pairing in pairings(method, split, counts):
        refuse(pairing, f"{where}:")


def check_models(method: MethodEntry, models: Mapping[str, dict[str, Any]], input: InputSpec | None, title: str) -> None:
    """Refuse a method on a model or on inputs that it cannot work with. What a model does not declare is not held against it."""
    needs = method.facts.needs
    if needs is None:
        return
    where = f"methods.{method.label} ({title}):"
    if input is not None:
        check_channels(where, needs, input)
    for label, model in models.items():
        form = facts("models", model["name"]).built
        norm = "" if form is None else form.norm_of(model["knobs"])
        if form is not None and form.of and model["knobs"][form.of] and needs.channels and method.on(label):
            raise NeedsError(f"{where} needs images, and {label!r} is trained on the features of another model")
        if method.on(label) and needs.norm and norm and norm != needs.norm:
            fitting = [item.name for item in listing("models") if item.built is not None and item.built.norm == needs.norm]
            raise InputError(
                f"methods.{method.label}",
                f"needs a model with {needs.norm} norm, and {label!r} has {'none' if norm == 'none' else f'{norm} norm'}; "
                f"name the models that it is run with in methods.{method.label}.models, or take another model",
                fitting,
            )


def check_forms(models: Mapping[str, dict[str, Any]], dataset: AttributedDataset, point: Point) -> None:
    """Refuse a model that cannot be built for the inputs of a data set."""
    for label, model in models.items():
        form = facts("models", model["name"]).built
        try:
            check_form(form, model["knobs"], dataset.input, f"models.{label}", model["name"])
        except InputError as error:
            raise InputError(error.field, f"{error.problem} (data.{point.data})", error.choices) from None
        per_visit = dataset.derived is not None and dataset.derived.mode != "fixed"
        if per_visit and form is not None and form.of and model["knobs"][form.of]:
            problem = f"reads each row of data.{point.data} once, and its derived attribute is drawn at every visit"
            raise InputError(f"models.{label}", f"{problem}; make its mode fixed")


def pairings(method: MethodEntry, split: Mapping[str, Any], counts: DrawCounts) -> Iterator[Pairing]:
    """The method at every point of its grid, with what this split gives it."""
    needs = method.facts.needs
    if needs is None:
        return
    environments = counts.together(split["environments"], with_label=False)
    groups = counts.together(split["groups"], with_label=True)
    drawn = counts.together(split["groups"], with_label=True, sampler=split["sampler"])
    undrawn = [counts.undrawn(split[key], key == "groups", split["sampler"]) for key in ("environments", "groups")]
    tied = counts.environments_are_classes(split["environments"])
    sampler = split["sampler"] if isinstance(split["sampler"], str) else "mixture"
    for _, knobs, training in method.points:
        yield Pairing(
            needs=needs,
            limit=method.facts.limit,
            knobs=knobs,
            batch=training["batch"],
            rows=counts.train_rows,
            environment_rows=environments.sum(axis=0).tolist(),
            group_rows=drawn.ravel().tolist(),
            environments_tied=tied,
            groups_tied=bool(((groups > 0).sum(axis=1) <= 1).all()),
            sampler=sampler,
            undrawn_environments=undrawn[0],
            undrawn_groups=undrawn[1],
            lots=counts.smallest_lot(knobs[needs.adapts]) if needs.adapts else None,
        )


def doubts(method: MethodEntry, split: Mapping[str, Any], counts: DrawCounts) -> list[str]:
    """What a method may do to its own end on these rows, a sentence each."""
    found: dict[str, None] = {}  # in order, each once
    needs = method.facts.needs
    if needs is not None and needs.sampler == "per-environment" and counts.count(split["environments"], with_label=False) < 2:
        found["compares environments, but here all training rows are of one, so it compares parts of it"] = None
    for pairing in pairings(method, split, counts):
        found |= dict.fromkeys(pairing_doubts(pairing))
    return [f"{method.label} {text}" for text in found]


def check_lengths(method: MethodEntry, rows: int, title: str) -> None:
    """Refuse a switch that no step reaches: the method would silently be another one."""
    if method.facts.needs is not None:
        for _, knobs, training in method.points:
            longest = TrainingSettings(**training).longest(rows)
            check_switches(method.facts.needs, knobs, longest, f"methods.{method.label} ({title})")
