"""Data sets and splits of a study: as plain values, and from plain values as the things that a run
works with.

A run's specification is plain JSON, so that it can be stored, hashed and sent to a worker. The
planner and the run build the same things from it with these functions, so what was planned is what
is run.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, shown, unknown
from crosswind.core.files import root_folder
from crosswind.core.knobs import only_given, resolve
from crosswind.core.registry import facts, listing, load
from crosswind.core.types import canonical
from crosswind.data.aligned_columns import aligned, columns_of_values
from crosswind.data.attributes import DerivedAttribute, spelled
from crosswind.data.clusters import PIXELS, with_clusters
from crosswind.data.contents import picture_hashes
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import derive, materialised
from crosswind.data.one_value import refuse_doubts, with_distinct, with_same
from crosswind.data.rules import with_rule
from crosswind.data.sources.base import open_source
from crosswind.shifts.base import parse_shift, plain_number
from crosswind.shifts.draw import parse_draw, parse_size
from crosswind.shifts.noise import parse_noise
from crosswind.shifts.split import LAWS, Roles, SetPlan, SplitPlan, parse_sampler
from crosswind.studies.axes import StudyPoint
from crosswind.studies.spec import DataSpec, Study

PATH_KNOBS = ("path", "images", "features", "root", "original", "palette")
"""Knobs of sources that say where data lies, whether an original's pixels are taken, or in which
colours. What the data then are, their fingerprint says in a run's key, and these stay out of it."""
_KEPT = 8
_datasets: dict[str, AttributedDataset] = {}
_opened_at: dict[str, int] = {}
"""When each of these was opened, in nanoseconds since 1970."""

Values = Mapping[str, Any]
Parts = list[tuple[str, dict[str, Any]]]
"""The components of a shift as plain values, each with the path where it was written."""
BY_DATA = "by_data"
"""The field of a shift that has its settings on some data sets alone."""


# -- data sets -------------------------------------------------------------------------------------


CLUSTERS_AS_BEFORE = {"max_k": 10, "order": "size"}
"""Settings of clusters that came after their data sets had keys, and the values at which they are in
no key."""


def data_values(spec: DataSpec, field: str, folder: Path | None) -> dict[str, Any]:
    """A data set's entry as plain values with the source's settings resolved.

    Relative paths are looked for beside the study file (`folder`) first, then in the working
    directory.
    """
    source_facts = facts("sources", spec.source, f"{field}.source")
    options = {}
    for name, value in spec.options.items():
        options[name] = _beside(value, folder) if name in PATH_KNOBS else value
    owner = f"source {spec.source!r}"
    settings = resolve(source_facts.knobs, options, f"{field}.options", owner)
    values: dict[str, Any] = {
        "source": spec.source,
        "options": only_given(settings),
        **spec.model_dump(include={"keep", "unit", "derive"}),
    }
    if (
        spec.clusters is not None
    ):  # else not named at all, so that the keys of studies without clusters stay what they were
        features = _beside(spec.clusters.features, folder)
        values["clusters"] = {**spec.clusters.model_dump(), "features": features}
        for name, usual in CLUSTERS_AS_BEFORE.items():
            if values["clusters"][name] == usual:
                del values["clusters"][name]
    if spec.same:
        values["same"] = {name: dict(groups) for name, groups in spec.same.items()}
    if spec.distinct:
        values["distinct"] = list(spec.distinct)
    if spec.rules:
        values["rules"] = {
            name: rule.model_dump(exclude_none=True) for name, rule in spec.rules.items()
        }
    return values


def _beside(value: Any, folder: Path | None) -> Any:
    if not isinstance(value, str) or not value or folder is None or Path(value).is_absolute():
        return value
    beside = folder / value
    if not beside.exists() and not folder.exists():
        # A study that is planned before its folder is made: `..` is then no way out of it.
        beside = Path(os.path.normpath(beside))
    return str(beside.resolve()) if beside.exists() else value


def without_paths(values: Values) -> dict[str, Any]:
    """A data set's values without the places where its files lie: a key says what the data is, not
    where."""
    options = {name: value for name, value in values["options"].items() if name not in PATH_KNOBS}
    keyed_values = {**values, "options": options}
    if "clusters" in values:
        keyed_values["clusters"] = {
            name: value for name, value in values["clusters"].items() if name != "features"
        }
    return keyed_values


def _is_there(features: str) -> bool:
    """Whether features for clusters can be read: those of pixels always can."""
    return features == PIXELS or Path(features).expanduser().is_file()


def forget_changed_files() -> None:
    """Forget the data sets that are held whose files are others than when they were opened. A
    program may plan again after its pictures were edited, and a plan looks at them anew."""
    for key, dataset in list(_datasets.items()):
        if dataset.files is not None and dataset.files.changed_since(_opened_at[key]):
            del _datasets[key]


def build_dataset(values: Values, field: str = "data") -> AttributedDataset:
    """The data set that `data_values` describes; the last few are kept, since a worker serves many
    runs on one."""
    # A notebook may plan again after its table was edited: the files' stamps are part of what is
    # kept.
    clusters = values.get("clusters")
    options = values["options"]
    paths = {name: options.get(name) for name in PATH_KNOBS}
    if "root" in options:
        paths["root"] = root_folder(
            options["root"]
        )  # a copy that is made anew is renamed into it, which changes its time
    if clusters is not None:
        paths["features"] = clusters["features"]
    key = canonical([values, [_stamp(path) for path in paths.values()]])
    if key in _datasets:
        return _datasets[key]
    opened_at = time.time_ns()
    dataset = _opened(values, field)
    for name, rule in values.get("rules", {}).items():
        dataset = with_rule(dataset, name, rule, field=f"{field}.rules")
    same = values.get("same", {})
    dataset = with_same(dataset, same, field=f"{field}.same")
    dataset = with_distinct(dataset, values.get("distinct", []), field=f"{field}.distinct")
    attributes = [name for name in (*values["keep"], values["unit"]) if name is not None]
    refuse_doubts(dataset, attributes, field)
    if values["keep"]:
        dataset = dataset.keep(values["keep"], field=f"{field}.keep")
    if values["unit"] is not None:
        dataset = dataset.with_units(values["unit"], field=f"{field}.unit")
    if "input_columns" in values:
        columns = columns_of_values(values["input_columns"]["of"])
        reader = f"a model of data.{values['input_columns']['data']}"
        dataset, _ = aligned(dataset, columns, reader, field)
    dataset = _with_derived(dataset, values["derive"], f"{field}.derive")
    while len(_datasets) >= _KEPT:
        del _datasets[next(iter(_datasets))]
    _datasets[key], _opened_at[key] = dataset, opened_at
    return dataset


def _opened(values: Values, field: str) -> AttributedDataset:
    """The data set of a source, with its clusters."""
    clusters = values.get("clusters")
    try:
        dataset = open_source(values["source"], values["options"], f"{field}.options")
    except DataError as error:
        if field == "data":
            problem = str(error)
        else:
            problem = f"{field}: {error}"
        if clusters is not None and not _is_there(clusters["features"]):
            features = clusters["features"]
            problem += f"; {field}.clusters.features: there is no file {features!r} either"
        raise DataError(problem) from None
    if clusters is None:
        return dataset
    try:
        return with_clusters(dataset, **clusters, field=f"{field}.clusters")
    except DataError as error:
        raise DataError(f"{field}.clusters.features: {error}") from None


def _stamp(path: Any) -> list[int]:
    try:
        state = Path(path).expanduser().stat()
    except (OSError, TypeError, ValueError):
        return []
    return [state.st_mtime_ns, state.st_size, state.st_ino]


def _with_derived(dataset: AttributedDataset, derive: Any, field: str) -> AttributedDataset:
    """The data set with its derived attribute; of a list each on top of those before."""
    if derive is None:
        return dataset
    if not isinstance(derive, list):
        return _derived(dataset, derive, field)
    for position, values in enumerate(derive):
        try:
            dataset = materialised(dataset)
        except InputError as error:
            before = f"{field}.{position - 1}.{error.field}"
            raise InputError(before, error.problem, error.choices) from None
        dataset = _derived(dataset, values, f"{field}.{position}")
    return dataset


def _derived(dataset: AttributedDataset, values: Values, field: str) -> AttributedDataset:
    name = values["name"]
    settings = values["values"]
    try:
        attribute = DerivedAttribute(
            name, tuple(settings), values["transform"], tuple(settings.values()), values["mode"]
        )
        return derive(dataset, attribute)
    except InputError as error:
        # The transform's settings stand beside the names of the values in a study file.
        path = re.sub(rf"^(derive|{re.escape(name)})(\.|$)", "", error.field).replace(
            "settings", "values", 1
        )
        raise InputError(f"{field}.{path or 'name'}", error.problem, error.choices) from None


def check_pixels(dataset: AttributedDataset, workers: int = 1) -> NDArray[np.uint64] | None:
    """Decode every image of a data set of files once, so that a damaged one is named before any run
    starts.

    `workers`: threads (decoders let go of the interpreter). Returns a hash of the pixels of each
    base row, uint64 [n], of a data set of files; nothing else is kept. Raises `DataError` for the
    first damaged row, and for a data set without inputs.
    """
    dataset.check_inputs()
    if not dataset.from_files:
        return None
    chunks = []
    for start in range(0, dataset.n_base, 256):
        chunks.append(np.arange(start, min(start + 256, dataset.n_base)))
    with ThreadPoolExecutor(workers) as pool:
        waiting = [
            pool.submit(lambda rows: picture_hashes(dataset.inputs(rows)), rows) for rows in chunks
        ]
        return np.concatenate([future.result() for future in waiting])


# -- splits ----------------------------------------------------------------------------------------


def split_values(
    study: Study, point: StudyPoint, split_seed: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """The split of a point as plain values, and what errors call its parts -> where the study file
    has them."""
    data = study.data[point.data]
    fields = {**point.fields, "shift": f"shifts.{point.shift}"}
    fields |= {name: f"data.{point.data}.{name}" for name in ("label", "attributes", "roles")}

    def components(entry: Any, name: str, anything: bool = False) -> list[dict[str, Any]]:
        located = _components(entry, _ShiftWords(study, point.data, anything), name, ())
        fields.update({f"{name}.{number}": path for number, (path, _) in enumerate(located)})
        return [component for _, component in located]

    shift = components(point.shift, "shift")
    sets = {}
    # Sets for validation first: what is tested on is dealt after them, and never changes what a fit
    # sees.
    for name, set_spec in sorted(study.sets.items(), key=lambda entry: entry[1].role == "test"):
        law: Any = set_spec.law
        if set_spec.source is not None and set_spec.source not in study.data:
            raise unknown(f"sets.{name}.source", "data set", set_spec.source, study.data)
        if not isinstance(law, str):
            law = components(law, f"sets.{name}.law", anything=True)
        elif law in study.shifts and law != "train":
            law = components(law, f"sets.{name}.law")
        elif law == "uniform":
            law = []
        elif law not in LAWS:
            choices = [*LAWS, "uniform", *study.shifts]
            raise unknown(f"sets.{name}.law", "law", law, choices)
        labels = None
        if set_spec.labels is not None:
            labels = {key: _classes_spelled(to) for key, to in set_spec.labels.items()}
        sets[name] = {
            "role": set_spec.role,
            "law": law,
            "draw": set_spec.draw,
            "source": set_spec.source,
            "labels": labels,
        }
        if (
            set_spec.answers != "all"
        ):  # else not named at all, so that the keys of other studies stay what they were
            sets[name]["answers"] = set_spec.answers
    if not any(set_spec["role"] == "test" for set_spec in sets.values()):
        raise InputError("sets", "no set has the role 'test', so there is nothing to evaluate on")
    groups = named_attributes(study.groups, data, "groups")
    environments = named_attributes(study.environments, data, "environments")
    roles = data.roles.model_dump()
    values = {
        "label": data.label,
        "attributes": data.attribute_names,
        "shift": shift,
        "draw": point.draw,
        "roles": roles,
        "sets": sets,
        "groups": groups,
        "environments": environments,
        "label_noise": point.noise,
        "dataset_size": point.rows,
        "sampler": study.sampler,
        "split_seed": split_seed,
    }
    if (
        study.overlap != "refused"
    ):  # else not named at all, so that the keys of other studies stay what they were
        values["overlap"] = study.overlap
    return values, fields


def _classes_spelled(classes: Any) -> Any:
    """The names of one class of ours, of several, or None, as text."""
    if classes is None:
        return None
    if isinstance(classes, list):
        return [spelled(name) for name in classes]
    return spelled(classes)


def named_attributes(names: Sequence[str] | None, data: DataSpec, path: str) -> list[str] | None:
    """The attributes that `groups` or `environments` name, slots resolved."""
    if names is None:
        return None
    attributes: list[str] = []
    for name in names:
        attribute = data.slots.get(name, name)
        if attribute not in data.attribute_names:
            choices = [*data.slots, *data.attribute_names]
            raise unknown(path, "attribute of this study", name, choices)
        if attribute in attributes:
            raise InputError(path, f"names {name!r} twice")
        attributes.append(attribute)
    return attributes


@dataclass(frozen=True)
class _ShiftWords:
    """The things by which the words of a shift are read: the study, the name of the data set, and whether its
    attributes may be any of the data."""

    study: Study
    name: str
    anything: bool

    @property
    def data(self) -> DataSpec:
        """The data set."""
        return self.study.data[self.name]

    def component(self, entry: Values, field: str) -> dict[str, Any]:
        """One shift with its settings for this data set, slots made attributes."""
        component = {key: value for key, value in entry.items() if key != BY_DATA}
        component |= self._own_settings(entry.get(BY_DATA), f"{field}.{BY_DATA}")
        slots, data = self.data.slots, self.data
        for key in ("attribute", "environment"):
            if isinstance(name := component.get(key), str):
                known = [*slots, *data.attribute_names, data.label]
                if not self.anything and name not in known:
                    raise unknown(f"{field}.{key}", "attribute", name, known[:-1])
                component[key] = slots.get(name, name)
        return component

    def _own_settings(self, by_data: Any, field: str) -> Values:
        """The settings that a shift has on this data set alone."""
        if by_data is None:
            return {}
        if not isinstance(by_data, Mapping):
            problem = f"must be a mapping, data set -> settings, not {shown(by_data)}"
            raise InputError(field, problem, self.study.data)
        for name, settings in by_data.items():
            if name not in self.study.data:
                raise unknown(field, "data set", name, self.study.data)
            if not isinstance(settings, Mapping) or "type" in settings:
                problem = "must be a mapping of settings without 'type'"
                raise InputError(f"{field}.{name}", f"{problem}, not {shown(settings)}")
        settings_here: Values = by_data.get(self.name, {})
        return settings_here


def _components(entry: Any, words: _ShiftWords, field: str, trail: tuple[str, ...]) -> Parts:
    """The components of a shift: names of other shifts followed, slots made attributes.

    An entry is one shift, a list of shifts that act together, or the name of another entry.
    """
    if entry is None:
        return []
    if isinstance(entry, str):
        return _named_components(entry, words, field, trail)
    if isinstance(entry, list):
        nested = []
        for position, shift in enumerate(entry):
            nested.append(_components(shift, words, f"{field}.{position}", trail))
        return [component for components in nested for component in components]
    if not isinstance(entry, Mapping):
        raise InputError(
            field,
            "must be a shift (a mapping with 'type'), a list of shifts or the name of one, not"
            f" {shown(entry)}",
        )
    return [(field, words.component(entry, field))]


def _named_components(name: str, words: _ShiftWords, field: str, trail: tuple[str, ...]) -> Parts:
    """The components of the shift of a name."""
    shifts = words.study.shifts
    if name in trail:
        problem = f"the shift {name!r} is made of itself: {' -> '.join([*trail, name])}"
        raise InputError(field, problem)
    if name in shifts:
        return _components(shifts[name], words, f"shifts.{name}", (*trail, name))
    if name in [shift.name for shift in listing("shifts")]:
        raise InputError(
            field,
            f"{name!r} is a kind of shift, written as a mapping: {{type: {name}, ...}}",
            shifts,
        )
    raise unknown(field, "shift", name, shifts)


def spell_numbers(split: dict[str, Any]) -> None:
    """Spell every number of a split in one way, so that runs that are the same have the same
    key."""
    split["roles"] |= {name: plain_number(split["roles"][name]) for name in ("test", "validation")}
    if isinstance(split["label_noise"], Mapping) and "rate" in split["label_noise"]:
        rate = plain_number(split["label_noise"]["rate"])
        split["label_noise"] = {**split["label_noise"], "rate": rate}
    laws = [
        split["shift"],
        *(
            set_values["law"]
            for set_values in split["sets"].values()
            if isinstance(set_values["law"], list)
        ),
    ]
    for component in (component for law in laws for component in law):
        for name in component.keys() & set(load("shifts", component["type"]).numbers):  # type: ignore[attr-defined]
            number = plain_number(component[name])
            component[name] = (
                number if name == "counterexamples" else _whole(number)
            )  # there 1 is a row, and 1.0 a share
    for owner in (split, *split["sets"].values()):
        owner["draw"] = _whole(
            plain_number(owner["draw"]) if isinstance(owner["draw"], Mapping) else owner["draw"]
        )


def _whole(value: Any) -> Any:
    """3 for 3.0, where the two mean the same."""
    if isinstance(value, Mapping):
        return {key: _whole(child) for key, child in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def build_split_plan(values: Values) -> SplitPlan:
    """The plan of a split from plain values. Errors name its parts: `shift.0.attribute`, `draw`,
    `sets.test.law`."""
    sets = {}
    for name, set_values in values["sets"].items():
        law = set_values["law"]
        draw = set_values["draw"]
        field = f"sets.{name}"
        if law in LAWS:
            parsed = law
        else:
            parsed = parse_shift(law, f"{field}.law")
        number = None
        if draw is not None:
            number = parse_draw(draw, f"{field}.draw")
        answers = set_values.get("answers", "all")
        sets[name] = SetPlan(
            set_values["role"], parsed, number, set_values["source"], set_values["labels"], answers
        )
    noise = values["label_noise"]
    return SplitPlan(
        label=values["label"],
        attributes=tuple(values["attributes"]),
        shift=parse_shift(values["shift"], "shift"),
        draw=parse_draw(values["draw"], "draw"),
        roles=Roles(**values["roles"]),
        sets=sets,
        groups=None if values["groups"] is None else tuple(values["groups"]),
        environments=None if values["environments"] is None else tuple(values["environments"]),
        label_noise=parse_noise(noise, "label_noise") if noise else None,
        dataset_size=parse_size(values["dataset_size"], "dataset_size"),
        sampler=parse_sampler(values["sampler"]),
        split_seed=values["split_seed"],
        overlap=values.get("overlap", "refused"),
    )
