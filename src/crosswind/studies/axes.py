"""The axes of a study: its points (data, shift, size, noise), its models, estimators and methods,
and the points of every method.

Names and settings are checked here against what is registered; nothing is loaded.

A method's points are the grid of its settings that are lists, or those of a random search. There
are as many for every method, so that none is tuned more than another. A search keeps what a study
gives and takes a list as a set of choices. It draws what is left out from the range that the
setting declares (`crosswind show method NAME`). Settings of the training loop are drawn alike for
all methods: the i-th point of each has the same learning rate. Bergstra and Bengio 2012, "Random
search for hyper-parameter optimization", is why it is no grid.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from crosswind.core.errors import InputError, nearest, one_line, shown, unknown
from crosswind.core.knobs import Form, Knob, Log, choose, keyed_knobs, knobs_of, resolve
from crosswind.core.registry import Facts, facts, listing
from crosswind.core.seeds import stream
from crosswind.core.types import canonical
from crosswind.models.folders import contents_hash
from crosswind.models.form import check_extra, check_form, inner_model
from crosswind.shifts.base import exact
from crosswind.shifts.split import parse_sampler
from crosswind.studies.given_files import given_file, hash_of, place_of
from crosswind.studies.resources import parse_resources
from crosswind.studies.spec import Search, Study
from crosswind.training.settings import TrainingSettings
from crosswind.transforms.neighbourhood import CHOSEN, gathered_settings

TRIES = 50
"""Draws a point before it is said that there are no more that differ."""

METHOD_FIELDS = (
    *("method", "training", "sampler", "groups", "environments", "label_noise"),
    *("data", "shifts", "models", "resources", "each"),
)
MODEL_FIELDS = ("model", "data", "each")
"""What an entry of `methods` and of `models` may set beside the settings of its own."""
Values = Mapping[str, Any]
Points = tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]
"""The points of a method: label, knobs of the method, training settings."""


@dataclass(frozen=True)
class StudyPoint:
    """One place of a study: a data set under a shift, at a size, with label noise; every method and
    model is run there."""

    data: str
    shift: str
    size: str
    draw: Any
    noise: Any
    rows: int | None
    fields: Mapping[
        str, str
    ]  # what errors call the draw, the noise and the number of rows -> where they were written

    @property
    def title(self) -> str:
        """How errors and warnings name it."""
        return f"{self.data}, {self.shift}, {self.size}"


@dataclass(frozen=True)
class MethodEntry:
    """A row of the study's tables: a method with its grid or search, and what it sets for
    itself."""

    label: str
    facts: Facts
    points: Points
    overrides: Values
    only: Mapping[
        str, Sequence[str]
    ]  # the shifts, models and data sets that it is run with; what is not named is run with all

    def at(self, point: StudyPoint) -> bool:
        """Whether it is run at a point: on its data set and under its shift."""
        shifts = self.only.get("shifts", [point.shift])
        return point.shift in shifts and point.data in self.only.get("data", [point.data])

    def on(self, model: str) -> bool:
        """Whether it is run with a model."""
        return model in self.only.get("models", [model])


_VERSION_BESIDE_KNOB = {"callable": 2}
"""Versions of the code of models whose `version` is a setting."""


def points_of(study: Study) -> Iterator[StudyPoint]:
    """Every point of the study, in the order of the file. Raises `InputError` where there is
    none."""
    noises = _axis(study.label_noise, "label_noise")
    rows = _axis(study.dataset_size, "dataset_size")
    point_count = 0
    for data, shift, (size, entry) in product(study.data, study.shifts, study.sizes.items()):
        path, draw = _draw_of(entry, data, shift, f"sizes.{size}", study)
        if draw is None:
            continue
        for (row_path, n), (noise_path, noise) in product(rows.items(), noises.items()):
            point_count += 1
            if n is None:
                label = size
            elif len(study.sizes) == 1:
                label = f"n={n}"
            else:
                label = f"{size}, n={n}"
            label += f", noise={_noise_name(noise)}" if len(noises) > 1 else ""
            fields = {"draw": path, "dataset_size": row_path, "label_noise": noise_path}
            yield StudyPoint(
                data,
                shift,
                label,
                draw,
                noise if isinstance(noise, dict) else float(noise),
                n,
                fields,
            )
    if not point_count:
        raise InputError(
            "sizes",
            "no size names a shift of a data set of this study, so there is nothing to run",
            study.sizes,
        )


def _axis(setting: Any, field: str) -> dict[str, Any]:
    """From the path of each value of a field to the value; a list is several."""
    if isinstance(setting, list):
        return {f"{field}.{position}": value for position, value in enumerate(setting)}
    return {field: setting}


def _noise_name(noise: Any) -> str:
    if not isinstance(noise, dict):
        return canonical(noise)
    return " ".join(
        f"{noise[key]}" if key == "rate" else f"{key}={canonical(noise[key])}"
        for key in sorted(noise, reverse=True)
    )


def _draw_of(entry: Any, data: str, shift: str, path: str, study: Study) -> tuple[str, Any]:
    """Where the draw of a data set and shift was written, and the draw; None where the size has
    none for them."""
    for kind, names, chosen in (("data set", study.data, data), ("shift", study.shifts, shift)):
        if not isinstance(entry, Mapping) or set(entry) & {"base", "total", "all"}:
            break  # "equal" too, which the plan turns into a total
        size = path.removeprefix("sizes.")
        if size in study.data and entry and set(entry) <= set(study.shifts):
            problem = "is the name of a size, and the shifts of a data set stand one level below it"
            raise InputError(
                path, f"{problem}: `sizes: {{equal: {{{size}: {{{next(iter(entry))}: ...}}}}}}`"
            )
        _check_names(entry, names, kind, path)
        if chosen not in entry:
            return path, None
        path = f"{path}.{chosen}"
        entry = entry[chosen]
    return path, entry


def misleading_sizes(study: Study) -> Iterator[str]:
    """Warnings of sizes whose names are words of the language, so that another draw may be meant."""
    for size, entry in study.sizes.items():
        if size in ("total", "base") and isinstance(entry, int | float):
            yield (
                f"sizes.{size}: is a size of the name {size!r} that draws {entry:g} rows of each cell;"
                f" for {entry:g} rows in all write `sizes: {{equal: {{total: {entry:g}}}}}`"
            )
        if isinstance(entry, float) and entry < 1:
            yield (
                f"sizes.{size}: {entry:g} is a part of one row of each cell, and no share of all rows;"
                " for a number of rows in all write {total: ...}"
            )
    by_shift = [size for size in study.sizes if size in study.shifts]
    if len(by_shift) > 1:
        yield (
            f"sizes: {', '.join(by_shift)} are names of shifts, and each of these sizes is drawn under"
            " every shift; for one draw a shift write"
            f" `sizes: {{equal: {{{next(iter(study.data))}: {{{by_shift[0]}: ...}}}}}}`"
        )


def _check_names(
    listed: Collection[str], names: Collection[str], kind: str, path: str, name_in_path: bool = True
) -> None:
    for name in listed:
        if name not in names:
            field = f"{path}.{name}" if name_in_path else path
            raise unknown(field, kind, name, names)


# -- models and estimators -------------------------------------------------------------------------


def _entries(declared: Any, room: str) -> Iterator[tuple[str, str, Facts, dict[str, Any]]]:
    """Label, path, facts and settings of each entry of `models`, `methods` or `estimators`; the
    label is the name by default.

    A model whose extra is missing is refused where it is named.
    """
    word = room.removesuffix("s")
    for label, settings in (
        declared if isinstance(declared, dict) else dict.fromkeys(declared)
    ).items():
        settings = dict(settings or {})
        path = f"{room}.{label}"
        name = settings.pop(word, label)
        if not isinstance(name, str):
            field = f"{path}.{word}"
            raise InputError(
                field,
                f"must be the name of {'an' if word[0] == 'e' else 'a'} {word}, not {shown(name)}",
            )
        if name is label:
            named = path
        else:
            named = f"{path}.{word}"
        if (
            name is label
            and "name" in settings
            and settings["name"] in [known.name for known in listing(room)]
        ):
            problem = f"is written {label}: {{{word}: {settings['name']}}}, without 'name'"
            raise InputError(path, f"a label of one's own {problem}")
        component_facts = facts(room, name, named)
        check_extra(component_facts.extra, named, name)
        yield label, path, component_facts, settings


def estimators_of(study: Study, folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Label -> name, version and resolved knobs of every estimator; a folder of a model is looked
    for in `folder` first."""
    out = {}
    for label, path, estimator_facts, settings in _entries(study.estimators, "estimators"):
        if estimator_facts.access is not None and estimator_facts.access.neighbourhood == CHOSEN:
            own_knobs = [declared.name for declared in estimator_facts.knobs]
            settings = gathered_settings(settings, own_knobs, path)
        knobs = resolve(
            estimator_facts.knobs, settings, path, f"estimator {estimator_facts.name!r}"
        )
        for name in () if estimator_facts.access is None else estimator_facts.access.handed:
            if folder is not None and isinstance(knobs[name], str) and knobs[name]:
                candidates = [folder / knobs[name]]
            else:
                candidates = []
            knobs[name] = next(
                (str(candidate.resolve()) for candidate in candidates if candidate.is_dir()),
                knobs[name],
            )
        out[label] = {
            "name": estimator_facts.name,
            "version": estimator_facts.version,
            "knobs": knobs,
        }
    return out


def models_of(study: Study, folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Label -> name and resolved knobs of every model; a relative file is looked for in `folder`
    first.

    A model that is not trained here has its `version` too. `keyed` has its knobs without the places
    of its files and without what stands apart, and `files` maps the name of a knob to its hash and
    function.
    """
    out: dict[str, dict[str, Any]] = {}
    for label, path, model_facts, settings in _entries(study.models, "models"):
        if (data := settings.pop("data", None)) is not None:
            if not data or not _is_names(data):
                raise InputError(
                    f"{path}.data",
                    f"must be a list of data sets of this study, not {shown(data)}",
                    study.data,
                )
            _check_names(data, study.data, "data set", f"{path}.data", name_in_path=False)
        owner = f"model {model_facts.name!r}"
        _check_settings(settings, model_facts.knobs, MODEL_FIELDS, path, owner)
        knobs = resolve(model_facts.knobs, settings, path, owner)
        out[label] = {"name": model_facts.name, "knobs": knobs}
        knobs |= _folders(model_facts.built, knobs, path, folder)
        check_form(model_facts.built, knobs, None, path, model_facts.name)
        if model_facts.built is not None and not model_facts.built.is_trained(knobs):
            files = {}
            for name in model_facts.built.files:
                files[name] = given_file(model_facts.name, name, knobs, folder, f"{path}.{name}")
            contents = {
                name for name in model_facts.built.folders if knobs[f"{name}_sha256"] is not None
            }  # by their hashes
            keyed = {
                name: value
                for name, value in knobs.items()
                if name not in {*files, *contents, *model_facts.built.apart}
            }
            paths = {name: file.setting for name, file in files.items()}
            hashes = {name: file.keyed for name, file in files.items()}
            read = {}
            for file in files.values():
                for file_path, sha256 in file.read.items():
                    read[file_path] = sha256
            out[label] |= {
                "version": _VERSION_BESIDE_KNOB.get(model_facts.name, model_facts.version),
                "knobs": {**knobs, **paths},
                "keyed": keyed,
                "files": hashes,
                "read": read,
            }
        else:
            knobs |= _weights(knobs, path, folder)
            out[label]["knobs"] = keyed_knobs(model_facts.knobs, knobs)
    return out


def data_of(models: Any) -> dict[str, list[str]]:
    """Label -> the data sets that a model is run on, of those that name some; `models` as a study
    gives them."""
    by_label = models if isinstance(models, Mapping) else {}
    return {
        label: settings["data"]
        for label, settings in by_label.items()
        if settings and settings.get("data") is not None
    }


def _folders(form: Form | None, knobs: Values, path: str, folder: Path | None) -> dict[str, Any]:
    """Places and hashes of the folders that a model is made from, looked for beside the study
    first; none of what is not there."""
    if form is not None and form.of and knobs[form.of] is not None:
        inner, settings = inner_model(knobs, path)
        inner_folders = _folders(inner.built, settings, f"{path}.settings", folder)
        if inner_folders:
            return {"settings": {**(knobs["settings"] or {}), **inner_folders}}
        return {}
    out: dict[str, Any] = {}
    for name, kind in ({} if form is None else form.folders).items():
        folder_name = str(knobs[name])
        hash_knob = f"{name}_sha256"
        source_folder = next(
            (
                candidate
                for candidate in ([] if folder is None else [folder / folder_name])
                + [Path(folder_name)]
                if candidate.exists()
            ),
            None,
        )
        if knobs[name] is None or source_folder is None:
            continue
        try:
            sha256 = contents_hash(source_folder, kind)
        except FileNotFoundError:
            out[name] = str(
                source_folder.resolve()
            )  # a folder that lacks what is read, as `check_form` says
            continue
        except OSError as error:
            field = f"{path}.{name}"
            raise InputError(field, f"cannot read {folder_name!r}: {error.strerror}") from None
        if knobs[hash_knob] not in (None, sha256):
            problem = f"the sha256 of {folder_name!r} is {sha256}, not {knobs[hash_knob]}"
            raise InputError(f"{path}.{hash_knob}", problem)
        out |= {name: str(source_folder.resolve()), hash_knob: sha256}
    return out


def _weights(knobs: Values, path: str, folder: Path | None) -> dict[str, str]:
    """Place and hash of a model's file of weights: another file under the same name is another run.

    A file that is no safetensors is refused by its header; whether its tensors fit the model is
    seen when it is built.
    """
    file_name = knobs.get("weights")
    if (
        not isinstance(file_name, str)
        or not file_name.endswith(".safetensors")
        or "weights_sha256" not in knobs
    ):
        return {}
    from safetensors import SafetensorError, safe_open

    file = place_of(file_name, folder, f"{path}.weights")
    sha256 = hash_of(file, file_name, f"{path}.weights")
    try:
        with safe_open(file, "np") as opened:
            empty = not opened.keys()
    except (SafetensorError, OSError) as error:
        problem = f"{file_name!r} cannot be read as safetensors ({one_line(str(error), 200)})"
        raise InputError(f"{path}.weights", problem) from None
    if empty:
        raise InputError(f"{path}.weights", f"{file_name!r} holds no tensors")
    if knobs["weights_sha256"] not in (None, sha256):
        raise InputError(
            f"{path}.weights_sha256",
            f"the sha256 of {file_name!r} is {sha256}, not {knobs['weights_sha256']}",
        )
    return {"weights": str(file), "weights_sha256": sha256}


# -- methods and their points ----------------------------------------------------------------------


def methods_of(study: Study) -> dict[str, MethodEntry]:
    """Label -> method with the points of its grid, or of the study's search."""
    if study.search is None:
        _grid(
            (), {}, study.training, ("", "training"), ""
        )  # refused under its own name, whatever the methods
    out = {}
    for label, path, method_facts, settings in _entries(study.methods, "methods"):
        overrides: dict[str, Any] = {
            key: settings.pop(key)
            for key in ("training", "sampler", "groups", "environments", "label_noise")
            if key in settings
        }
        parse_resources(settings.pop("resources", None), f"{path}.resources")
        known_names = {
            "shifts": ("shift", study.shifts),
            "models": ("model", study.models),
            "data": ("data set", study.data),
        }
        only = {key: settings.pop(key) for key in known_names if key in settings}
        only = {key: names for key, names in only.items() if names is not None}
        for key, names in only.items():
            kind, all_names = known_names[key]
            if not names or not _is_names(names):
                problem = f"must be a list of {kind}s of this study, not {shown(names)}"
                raise InputError(f"{path}.{key}", problem, all_names)
            _check_names(names, all_names, kind, f"{path}.{key}", name_in_path=False)
        if "sampler" in overrides:
            parse_sampler(overrides["sampler"] or "", f"{path}.sampler")
        if "label_noise" in overrides:
            if len(_axis(study.label_noise, "label_noise")) > 1:
                problem = (
                    "is a rate of its own, and label_noise of the study lists several: its runs would"
                    " stand under each of them as if they had that rate; leave out one of the two"
                )
                raise InputError(f"{path}.label_noise", problem)
            overrides["label_noise"] = float(
                exact(overrides["label_noise"], f"{path}.label_noise", 0, 1)
            )
        for key in ("groups", "environments"):
            if overrides.get(key) is not None and not _is_names(overrides[key]):
                field = f"{path}.{key}"
                raise InputError(
                    field, f"must be a list of attributes, not {shown(overrides[key])}"
                )
        loop_overrides = overrides.pop("training", {})
        if not isinstance(loop_overrides, dict):
            raise InputError(
                f"{path}.training", f"must be a mapping of settings, not {shown(loop_overrides)}"
            )
        paths = (path, f"{path}.training" if loop_overrides else "training")
        owner = f"method {method_facts.name!r}"
        _check_settings(settings, method_facts.knobs, METHOD_FIELDS, path, owner)
        loop = {**study.training, **loop_overrides}
        if study.search is None:
            points = _grid(method_facts.knobs, settings, loop, paths, owner)
        else:
            points = _searched(study.search, method_facts.knobs, settings, loop, paths, owner)
        out[label] = MethodEntry(label, method_facts, points, overrides, only)
    return out


def _check_settings(
    settings: Values, knobs: Sequence[Knob], fields: Sequence[str], path: str, owner: str
) -> None:
    """Refuse a setting that an entry of `methods` or `models` cannot have; one of the training loop
    with where it goes. `fields`: what an entry has beside the settings of its owner."""
    names = [knob.name for knob in knobs]
    of_loop = [knob.name for knob in knobs_of(TrainingSettings)]
    for name in settings:
        if name in names:
            continue
        if name in of_loop and "training" in fields:
            problem = f"is a setting of the training loop: training: {{{name}: ...}}"
            raise InputError(f"{path}.{name}", problem)
        choices = [*names, *fields]
        of_training = nearest(name, of_loop) if "training" in fields else None
        if of_training is not None and nearest(name, choices) is None:
            problem = f"unknown setting of {owner}: {name!r}, did you mean training: {{{of_training}: ...}}?"
            raise InputError(f"{path}.{name}", problem, choices)
        raise unknown(f"{path}.{name}", f"setting of {owner}", name, choices)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _grid(
    knobs: tuple[Knob, ...], settings: Values, training: Values, paths: tuple[str, str], owner: str
) -> Points:
    """Every combination of the settings that are lists."""
    axes = _choices(knobs, settings, paths[0])
    picked = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    method_points = []
    for choice in picked:
        method_points.append((choice, resolve(knobs, {**settings, **choice}, paths[0], owner)))
    axes = _choices(knobs_of(TrainingSettings), training, paths[1])
    picked = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    loop_points = [
        (choice, vars(TrainingSettings.of({**training, **choice}, paths[1]))) for choice in picked
    ]
    return tuple(
        (_label(choice, loop_choice), values, dict(train))
        for (choice, values), (loop_choice, train) in product(method_points, loop_points)
    )


def _label(method_choice: Values, loop_choice: Values) -> str:
    """The label of a point names what varies."""
    varied = [*method_choice.items(), *loop_choice.items()]
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in varied
    )


def _choices(knobs: tuple[Knob, ...], settings: Values, path: str) -> dict[str, list[Any]]:
    """The settings that are given as a list of values to choose from, in their order."""
    listed = {
        knob.name for knob in knobs if "list" in knob.annotation or "tuple" in knob.annotation
    }
    choices = {
        name: values
        for name, values in settings.items()
        if isinstance(values, list) and name not in listed
    }
    for name, values in choices.items():
        if not values:
            raise InputError(f"{path}.{name}", "is an empty list; give at least one value")
        if len({canonical(value) for value in values}) != len(values):
            raise InputError(f"{path}.{name}", "names a value twice")
    return choices


def _searched(
    search: Search,
    knobs: tuple[Knob, ...],
    settings: Values,
    training: Values,
    paths: tuple[str, str],
    owner: str,
) -> Points:
    """Every point of a search, all different. Raises `InputError` where there are fewer than asked
    for."""
    path, where = paths
    ranges = _ranges(knobs, settings, path)
    loop_ranges = _ranges(knobs_of(TrainingSettings), training, where)
    points: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {}
    # Without anything to draw every try is the same one, and 10,000 points would take ten seconds
    # to refuse.
    for number in range(TRIES * search.points if ranges or loop_ranges else 1):
        values = {}
        for name, knob_range in ranges.items():
            values[name] = _drawn(knob_range, stream(search.seed, "search", owner, name, number))
        shared = {
            name: _drawn(knob_range, stream(search.seed, "search", name, number))
            for name, knob_range in loop_ranges.items()
        }
        key = canonical([values, shared])
        if key in points:
            continue
        train = dict(vars(TrainingSettings.of({**training, **shared}, where)))
        points[key] = (
            _label(values, shared),
            resolve(knobs, {**settings, **values}, path, owner),
            train,
        )
        if len(points) == search.points:
            return tuple(points.values())
    points_in_words = "1 is"
    if len(points) != 1:
        points_in_words = f"{len(points)} are"
    drawn_names = ", ".join([*ranges, *loop_ranges]) or "nothing"
    problem = (
        f"search asks for {search.points} points, and"
        f" {points_in_words} all that differ: {owner} draws"
        f" {drawn_names}; leave out 'training.lr', or give it a list"
    )
    raise InputError(path, problem)


def _ranges(knobs: tuple[Knob, ...], settings: Values, path: str) -> dict[str, tuple[Knob, Log]]:
    """The ranges to draw from: settings given as a list of choices, and those left out that declare
    a range."""
    chosen = {name: choose(*values) for name, values in _choices(knobs, settings, path).items()}
    ranges = {}
    for knob in knobs:
        if knob.name not in settings or knob.name in chosen:
            ranges[knob.name] = (knob, chosen.get(knob.name, knob.search))
    return {name: (knob, where) for name, (knob, where) in ranges.items() if where is not None}


def _drawn(knob_range: tuple[Knob, Log], generator: np.random.Generator) -> Any:
    knob, space = knob_range
    if space.choices:
        return space.choices[int(generator.integers(len(space.choices)))]
    u = float(generator.random())
    value = space.low + u * (space.high - space.low)
    if space.log:
        lowest = math.log(space.low)
        value = math.exp(lowest + u * (math.log(space.high) - lowest))
    if "int" in knob.annotation and "float" not in knob.annotation:
        return min(int(space.high), max(int(space.low), round(value)))
    # Three digits: what a table shows is what was run.
    return min(space.high, max(space.low, float(f"{value:.3g}")))
