"""Entries of a study written once for many values: `each` makes an entry of every combination."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from crosswind.core.errors import InputError, shown
from crosswind.core.types import canonical

FIELDS = ("models", "methods", "estimators")
MOST = 10_000
"""Entries of one field."""


def written_out(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The study with an entry for every combination of the lists in the `each` of its entries, in
    their order.

    A key of `each` is the path of a setting inside the entry (`training.batch`). The new entry is
    named by the old one and the values, `cnn-1-128`; where the old one's name says what it is, as
    `erm` does, so it is of the new ones. A method whose `models` name the old one is run with all
    that were made of it. Raises `InputError`.
    """
    out = dict(values)
    expanded_models: dict[str, list[str]] = {}
    for field in FIELDS:
        entries = values.get(field)
        if not isinstance(entries, Mapping) or not any(
            isinstance(declared, Mapping) and "each" in declared for declared in entries.values()
        ):
            continue
        out[field] = {}
        for label, settings in entries.items():
            kind, path = field.removesuffix("s"), f"{where}: {field}.{label}"
            expanded = list(_entries_of_kind(kind, str(label), settings, path))
            if field == "models":
                expanded_models[str(label)] = [name for name, _ in expanded]
            for name, entry in expanded:
                if name in out[field]:
                    raise InputError(
                        f"{where}: {field}.{label}",
                        f"makes the entry {name!r}, which is there already",
                    )
                out[field][name] = entry
            if len(out[field]) > MOST:
                problem = f"makes more than {MOST:,} entries"
                raise InputError(f"{where}: {field}.{label}.each", problem)
    if expanded_models and isinstance(out.get("methods"), Mapping):
        out["methods"] = {
            label: _of_models(settings, expanded_models)
            for label, settings in out["methods"].items()
        }
    return out


def _entries_of_kind(kind: str, label: str, settings: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The entries made of one, each with its `kind`: what the one is called, unless it says so."""
    for name, entry in _entries(label, settings, path):
        if name != label:
            entry.setdefault(kind, label)
        yield name, entry


def _entries(label: str, settings: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(settings, Mapping) or "each" not in settings:
        yield label, settings
        return
    each = settings["each"]
    base = {key: value for key, value in settings.items() if key != "each"}
    if not isinstance(each, Mapping) or not each:
        raise InputError(f"{path}.each", f"must map settings to lists of values, not {shown(each)}")
    for key, chosen in each.items():
        if not isinstance(chosen, list) or not chosen:
            field = f"{path}.each.{key}"
            raise InputError(field, f"must be a list of values, not {shown(chosen)}")
    for number, picked in enumerate(product(*each.values())):
        if number == MOST:
            raise InputError(f"{path}.each", f"makes more than {MOST:,} entries")
        entry = copy.deepcopy(base)
        for key, value in zip(each, picked, strict=True):
            *inside, last = str(key).split(".")
            target = entry
            for word in inside:
                target = target.setdefault(word, {})
                if not isinstance(target, dict):
                    problem = f"{word!r} holds {shown(target)}, which has no settings inside"
                    raise InputError(f"{path}.each.{key}", problem)
            target[last] = value
        yield (
            "-".join(
                [
                    label,
                    *(value if isinstance(value, str) else canonical(value) for value in picked),
                ]
            ),
            entry,
        )


def _of_models(settings: Any, expanded_models: Mapping[str, list[str]]) -> Any:
    names = settings.get("models") if isinstance(settings, Mapping) else None
    if not isinstance(names, list):
        return settings
    models = []
    for model in names:
        for name in expanded_models.get(model, [model]) if isinstance(model, str) else [model]:
            models.append(name)
    return {**settings, "models": models}
