"""The prompts that a study compares: which of its models are one model that is asked in other words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from crosswind.core.errors import InputError, unknown
from crosswind.studies.axes import MethodEntry, data_of
from crosswind.studies.spec import Study

Entries = dict[tuple[str, str], list[str]]
"""From (model, prompt) to the entries of the study's models that ask it so, each on data sets of its own."""


def entries_of(prompts: Mapping[str, Any]) -> Entries:
    """The entries of every model and prompt, of the study's field `prompts` as plain values."""
    return {
        (model, prompt): [given] if isinstance(given, str) else list(given)
        for model, asked in prompts["models"].items()
        for prompt, given in asked.items()
    }


def fixed_of(prompts: Mapping[str, Any]) -> str:
    """The prompt that the best ones are set beside: the one named, else the first of the first model that has several."""
    several = [list(asked) for asked in prompts["models"].values() if len(asked) > 1] or [
        list(asked) for asked in prompts["models"].values()
    ]
    return str(prompts["fixed"] or several[0][0])


def check_prompts(study: Study, given: Collection[str], trained: Collection[str], methods: Mapping[str, MethodEntry]) -> None:
    """Refuse prompts of models that the study does not ask, or that ask of one data set twice. Raises `InputError`."""
    if study.prompts is None:
        return
    prompts, of_data = study.prompts, data_of(study.models)
    for (model, prompt), labels in entries_of(prompts.model_dump()).items():
        path = f"prompts.models.{model}.{prompt}"
        seen: dict[str, str] = {}
        if not labels:
            raise InputError(path, "must name an entry of 'models'", given)
        for label in labels:
            if label not in given:
                raise unknown(path, "model of this study that is not trained", label, given)
            for data in of_data.get(label, study.data):
                if data in seen:
                    raise InputError(path, f"{seen[data]!r} and {label!r} are both asked about {data!r}; give each its own 'data'")
                seen[data] = label
    known = {prompt for asked in prompts.models.values() for prompt in asked}
    if prompts.fixed is not None and prompts.fixed not in known:
        raise unknown("prompts.fixed", "prompt", prompts.fixed, known)
    for model, tuned in prompts.tuned.items():
        if model not in prompts.models:
            raise unknown("prompts.tuned", "model of prompts.models", model, prompts.models)
        if tuned.method not in methods:
            raise unknown(f"prompts.tuned.{model}.method", "method of this study", tuned.method, methods)
        if tuned.model not in trained:
            raise unknown(f"prompts.tuned.{model}.model", "model of this study that is trained", tuned.model, trained)
        if not methods[tuned.method].on(tuned.model):
            raise InputError(f"prompts.tuned.{model}", f"{tuned.method!r} is not run with {tuned.model!r}", [tuned.method])
    for name, averaged in prompts.averages.items():
        for one in averaged:
            if one not in study.data:
                raise unknown(f"prompts.averages.{name}", "data set", one, study.data)
