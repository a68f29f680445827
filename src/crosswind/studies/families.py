"""The families of a study's methods, such as heuristic augmentation, by the paper that places most of
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.registry import facts

OTHER = "other"
"""The family of methods that no paper places."""


def registered_name(label: str, resolved: Mapping[str, Any]) -> str:
    """The registered method that a label of a study with defaults stands for."""
    methods_given = resolved.get("methods")
    settings = methods_given.get(label) if isinstance(methods_given, Mapping) else None
    return str((settings or {}).get("method", label))


def families_of(labels: Iterable[str], resolved: Mapping[str, Any]) -> dict[str, str]:
    """The family of each label of a method; `resolved`: the study with every default."""
    families_known: dict[str, Mapping[str, str]] = {}
    for label in dict.fromkeys(labels):
        try:
            families_known[label] = facts("methods", registered_name(label, resolved)).family or {}
        except InputError:  # a method of a package that is not here
            families_known[label] = {}
    papers = Counter(paper for families in families_known.values() for paper in families)
    paper = max(papers, key=lambda name: papers[name], default="")
    return {label: str(families.get(paper, OTHER)) for label, families in families_known.items()}


def method_names(
    data_and_labels: Collection[tuple[str, str]], resolved: Mapping[str, Any]
) -> dict[str, str]:
    """The name of each label of a method: the method, where no other label of it runs on the same
    data set, else the label. `data_and_labels`: which labels run on which data sets."""
    methods = {label: registered_name(label, resolved) for _, label in data_and_labels}
    labels_of = Counter((data, methods[label]) for data, label in set(data_and_labels))
    double = {method for (_, method), count in labels_of.items() if count > 1}
    return {label: label if method in double else method for label, method in methods.items()}


def row_names(
    runs: Iterable[tuple[str, str]], main: str, reference: str, name_of: Mapping[str, str]
) -> dict[tuple[str, str], str]:
    """The row of every model and method; the reference on several models stands for these."""
    runs = list(runs)
    several_models = len({model for model, _ in runs}) > 1
    row_of: dict[tuple[str, str], str] = {}
    for model, method in runs:
        if method == reference and several_models:
            row_of[model, method] = model
        elif model == main:
            row_of[model, method] = name_of[method]
        else:
            row_of[model, method] = f"{name_of[method]} on {model}"
    return row_of
