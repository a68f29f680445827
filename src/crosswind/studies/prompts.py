"""The prompts that a study compares: which of its models are one model that is asked in other
words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from crosswind.core.errors import InputError, unknown
from crosswind.studies.axes import MethodEntry, data_of
from crosswind.studies.spec import Study, TunedSpec

Entries = dict[tuple[str, str], list[str]]
"""From (model, prompt) to the entries of the study's models that ask it so, each on data sets of
its own."""


def entries_of(prompts: Mapping[str, Any]) -> Entries:
    """The entries of every model and prompt, of the study's field `prompts` as plain values."""
    entries = {}
    for model, by_prompt in prompts["models"].items():
        for prompt, entry in by_prompt.items():
            entries[(model, prompt)] = labels_of(entry)
    return entries


def labels_of(entry: str | Sequence[str]) -> list[str]:
    """One entry of the study's models, or several."""
    if isinstance(entry, str):
        return [entry]
    return list(entry)


def fixed_of(prompts: Mapping[str, Any]) -> str:
    """The prompt that the best ones are set beside: the one named, else the first of the first
    model that has several."""
    several = [
        list(by_prompt) for by_prompt in prompts["models"].values() if len(by_prompt) > 1
    ] or [list(by_prompt) for by_prompt in prompts["models"].values()]
    return str(prompts["fixed"] or several[0][0])


def check_prompts(
    study: Study,
    external: Collection[str],
    trained: Collection[str],
    methods: Mapping[str, MethodEntry],
) -> None:
    """Refuse prompts of models that the study does not ask, or that ask of one data set twice.
    Raises `InputError`."""
    if study.prompts is None:
        return
    prompts = study.prompts
    for (model, prompt), labels in entries_of(prompts.model_dump()).items():
        path = f"prompts.models.{model}.{prompt}"
        if not labels:
            raise InputError(path, "must name an entry of 'models'", external)
        for label in labels:
            if label not in external:
                raise unknown(path, "model of this study that is not trained", label, external)
        _once_each(path, labels, study)
    prompt_names = {prompt for by_prompt in prompts.models.values() for prompt in by_prompt}
    if prompts.fixed is not None and prompts.fixed not in prompt_names:
        raise unknown("prompts.fixed", "prompt", prompts.fixed, prompt_names)
    for model, tuned in prompts.tuned.items():
        if model not in prompts.models:
            raise unknown("prompts.tuned", "model of prompts.models", model, prompts.models)
        _check_tuned(model, tuned, trained, methods, study)
    for name, averaged in prompts.averages.items():
        for data in averaged:
            if data not in study.data:
                raise unknown(f"prompts.averages.{name}", "data set", data, study.data)


def _check_tuned(
    model: str,
    tuned: TunedSpec,
    trained: Collection[str],
    methods: Mapping[str, MethodEntry],
    study: Study,
) -> None:
    """Refuse a tuned model of no method or model of the study, or of two that are not run
    together."""
    path = f"prompts.tuned.{model}"
    if tuned.method not in methods:
        raise unknown(f"{path}.method", "method of this study", tuned.method, methods)
    for label in _once_each(f"{path}.model", labels_of(tuned.model), study):
        if label not in trained:
            kind = "model of this study that is trained"
            raise unknown(f"{path}.model", kind, label, trained)
        if not methods[tuned.method].on(label):
            problem = f"{tuned.method!r} is not run with {label!r}"
            raise InputError(path, problem, [tuned.method])


def _once_each(path: str, labels: list[str], study: Study) -> list[str]:
    """The same entries, when no two of them are of one data set. Raises `InputError`."""
    of_data = data_of(study.models)
    label_of_data = dict[str, str]()
    for label in labels:
        for data in of_data.get(label, study.data):
            if data in label_of_data:
                problem = (
                    f"{label_of_data[data]!r} and {label!r} are both asked about {data!r}; give each its own"
                    " 'data'"
                )
                raise InputError(path, problem)
            label_of_data[data] = label
    return labels
