"""Which estimators a question about one model is put to, and their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from crosswind.core.knobs import Access, resolve
from crosswind.core.registry import Facts, facts, listing
from crosswind.models.form import check_extra
from crosswind.studies.estimates import check_handed, kind_of_neighbours
from crosswind.transforms.neighbourhood import CHOSEN, gathered_settings

Asked: TypeAlias = Sequence[str] | Mapping[str, Mapping[str, Any]] | None
"""Names of estimators, with their settings where there are any; None for all that apply."""


def estimator_settings(
    chosen_estimators: Sequence[Facts], settings_given: Any, kind: str
) -> dict[str, dict[str, Any]]:
    """The settings of the estimators, checked; what a neighbourhood's transform needs must be
    there. Raises `InputError`."""
    out = {}
    for estimator_facts in chosen_estimators:
        path = f"estimators.{estimator_facts.name}"
        access = estimator_facts.access or Access()
        settings: Mapping[str, Any] = {}
        if isinstance(settings_given, Mapping):
            settings = settings_given.get(estimator_facts.name) or {}
        if access.neighbourhood == CHOSEN:
            own_knobs = [declared.name for declared in estimator_facts.knobs]
            settings = gathered_settings(settings, own_knobs, path)
        knobs = resolve(estimator_facts.knobs, settings, path, estimator_facts.name)
        out[estimator_facts.name] = knobs
        if access.handed and kind_of_neighbours(access, knobs) == kind:
            check_extra(estimator_facts.extra, path, estimator_facts.name)
            check_handed(path, access, out[estimator_facts.name])
    return out


def wanted_estimators(names: Asked) -> list[Facts]:
    """The estimators of these names, by default all that apply. Raises `InputError`."""
    if names is not None:
        return [facts("estimators", name, "estimators") for name in names]
    # Of the neighbourhoods one of images and one of texts: each takes ten passes more.
    every = []
    for estimator_facts in listing("estimators"):
        every.append(
            (
                estimator_facts,
                "" if estimator_facts.access is None else estimator_facts.access.neighbourhood,
            )
        )
    return [
        estimator_facts
        for estimator_facts, neighbourhood_name in every
        if neighbourhood_name in ("", "ni-randaugment", "ni-eda")
    ]
