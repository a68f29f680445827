"""All that keeps a study from being planned here, told at once. That is data sets that are not
prepared, folders and files of models that are not there, extras that are not installed, names that
are wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from typing import Any

from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts
from crosswind.studies.axes import data_of, methods_of, points_of
from crosswind.studies.spec import Study

__all__ = ["Obstacles", "count_runs"]

_FIELD = re.compile(r"(data\.[^\s:]+): ")
"""How a `DataError` of a study begins."""
_FIELDS = 3
"""Fields with one problem that are named."""
_CHARACTERS = 1000
"""The most that one obstacle takes of the sentence."""


class Obstacles:
    """The refusals met while the parts of a study are read."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._refusals: dict[
            str, CrosswindError
        ] = {}  # by message: several parts may lack one file

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note a refusal that is raised inside, and go on."""
        try:
            yield
        except (InputError, DataError) as error:
            self._refusals.setdefault(str(error), error)

    def gather(
        self, declared: Any, read: Callable[[dict[str, Any]], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The values that `read` makes of each entry of `models` or `estimators` by itself, as a
        study declares them; those that it refuses are noted and left out."""
        if isinstance(declared, Mapping):
            entries = declared
        else:
            entries = dict.fromkeys(declared)
        read_entries: dict[str, Any] = {}
        for label, settings in entries.items():
            with self.noted():
                read_entries |= read({label: settings})
        return read_entries

    def refuse(self) -> None:
        """Raise what was noted: one refusal as it is, several as one sentence that names them all,
        those of one kind together."""
        refusals = list(self._refusals.values())
        if not refusals:
            return
        if len(refusals) == 1:
            raise refusals[0]
        fields: dict[str, list[str]] = {}
        for message, error in self._refusals.items():
            written = _FIELD.match(message)
            if isinstance(error, InputError):
                field = error.field
            elif written:
                field = written[1]
            else:
                field = ""
            problem = message.removeprefix(f"{field}: ") if field else message
            fields.setdefault(problem, []).append(field)
        texts = [_with_fields(named, problem) for problem, named in fields.items()]
        limit = _CHARACTERS * len(texts)
        if len(texts) == 1:
            raise InputError("", texts[0], limit=limit)
        runs = ""
        with suppress(CrosswindError):
            runs = f" of the {count_runs(self._study):,} runs"
        listed = "; ".join(f"({number}) {text}" for number, text in enumerate(texts, 1))
        sentence = f"{len(texts)} things stand in the way{runs} of study {self._study.name}"
        raise InputError("", f"{sentence}: {listed}", limit=limit)


def _with_fields(fields: Sequence[str], problem: str) -> str:
    """A problem after the fields that have it, of many the first."""
    named = [field for field in fields if field]
    if not named:
        return problem
    hidden = ""
    if len(named) > _FIELDS:
        hidden = f" and {len(named) - _FIELDS} more"
    return f"{', '.join(named[:_FIELDS])}{hidden}: {problem}"


def count_runs(study: Study) -> int:
    """The number of a study's runs, the rows of its tables, without its data and the files of its
    models. Raises `InputError` for names and settings that are wrong."""
    methods = methods_of(study).values()
    data_names = data_of(study.models)
    trained = _is_trained_by_label(study)
    runs = 0
    for point in points_of(study):
        here = [label for label in trained if point.data in data_names.get(label, [point.data])]
        models = [label for label in here if trained[label]]
        external = len(here) - len(models)
        runs += external * max(1, len(models))
        runs += sum(
            len(method.points)
            for method, label in product(methods, models)
            if method.at(point) and method.on(label)
        )
    return runs * len(study.seed_list) * len(study.split_seed_list)


def _is_trained_by_label(study: Study) -> dict[str, bool]:
    """Whether each model of a study is trained here."""
    if isinstance(study.models, Mapping):
        entries = study.models
    else:
        entries = dict.fromkeys(study.models)
    trained = {}
    for label, settings in entries.items():
        settings = {key: value for key, value in (settings or {}).items() if key != "data"}
        name = settings.pop("model", label)
        form = facts("models", name, f"models.{label}").built
        knobs = resolve(facts("models", name).knobs, settings, f"models.{label}", f"model {name!r}")
        trained[label] = form is None or form.is_trained(knobs)
    return trained
