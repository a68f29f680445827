"""Which estimators a question about one model is put to, and their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from crosswind.core.knobs import Access, resolve
from crosswind.core.registry import Facts, facts, listing
from crosswind.models.form import check_extra
from crosswind.studies.estimates import check_handed
from crosswind.transforms.neighbourhood import neighbourhood

Asked: TypeAlias = Sequence[str] | Mapping[str, Mapping[str, Any]] | None
"""Names of estimators, with their settings where there are any; None for all that apply."""


def estimator_settings(wanted: Sequence[Facts], given: Any, kind: str) -> dict[str, dict[str, Any]]:
    """The settings of the estimators, checked; what a neighbourhood's transform needs must be
    there. Raises `InputError`."""
    out = {}
    for item in wanted:
        path, access = f"estimators.{item.name}", item.access or Access()
        out[item.name] = resolve(
            item.knobs,
            given.get(item.name) or {} if isinstance(given, Mapping) else {},
            path,
            item.name,
        )
        if access.handed and neighbourhood(access.neighbourhood).takes == kind:
            check_extra(item.extra, path, item.name)
            check_handed(path, access, out[item.name])
    return out


def wanted_estimators(names: Asked) -> list[Facts]:
    """The estimators of these names, by default all that apply. Raises `InputError`."""
    if names is not None:
        return [facts("estimators", name, "estimators") for name in names]
    # Of the neighbourhoods one of images and one of texts: each takes ten passes more.
    every = [
        (item, "" if item.access is None else item.access.neighbourhood)
        for item in listing("estimators")
    ]
    return [item for item, near in every if near in ("", "ni-randaugment", "ni-eda")]
