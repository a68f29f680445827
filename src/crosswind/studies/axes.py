"""The axes of a study: its points (data, shift, size, noise), its models and its methods with their grids.

Names and settings are checked here against what is registered; nothing is loaded.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, one_line, shown, unknown
from crosswind.core.knobs import Knob, knobs_of, resolve
from crosswind.core.registry import Facts, facts
from crosswind.core.types import canonical, file_hash
from crosswind.models.form import check_extra, check_form
from crosswind.shifts.split import parse_sampler
from crosswind.studies.search import choices_of, point_value, searched_points
from crosswind.studies.spec import Study
from crosswind.training.settings import TrainingSettings

RESERVED = ("method", "training", "sampler", "groups", "environments", "shifts", "models", "data")


@dataclass(frozen=True)
class Point:
    """One place of a study: a data set under a shift, at a size, with label noise; every method and model is run there."""

    data: str
    shift: str
    size: str
    draw: Any
    noise: Any
    rows: int | None
    fields: Mapping[str, str]  # what errors call the draw, the noise and the number of rows -> where they were written

    @property
    def title(self) -> str:
        """How errors and warnings name it."""
        return f"{self.data}, {self.shift}, {self.size}"


@dataclass(frozen=True)
class MethodEntry:
    """A row of the study's tables: a method with its grid, `points` of (label, knobs, training settings)."""

    label: str
    facts: Facts
    points: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]  # (point label, method knobs, training settings)
    overrides: Mapping[str, Any]
    shifts: tuple[str, ...] | None = None  # the shifts it is run under; None is all
    models: tuple[str, ...] | None = None  # the models it is run with; None is all
    data: tuple[str, ...] | None = None  # the data sets it is run on; None is all

    def at(self, point: Point) -> bool:
        """Whether it is run at a point: on its data set and under its shift."""
        return (self.shifts is None or point.shift in self.shifts) and (self.data is None or point.data in self.data)

    def on(self, model: str) -> bool:
        """Whether it is run with a model."""
        return self.models is None or model in self.models


def points_of(study: Study) -> Iterator[Point]:
    """Every point of the study, in the order of the file. Raises `InputError` where there is none."""
    noises = study.label_noise if isinstance(study.label_noise, list) else [study.label_noise]
    rows = study.dataset_size if isinstance(study.dataset_size, list) else [study.dataset_size]
    found = 0
    for data, shift in itertools.product(study.data, study.shifts):
        for size, entry in study.sizes.items():
            path, draw = _draw_of(entry, data, shift, f"sizes.{size}", study)
            if draw is None:
                continue
            for (row, n), (place, noise) in itertools.product(enumerate(rows), enumerate(noises)):
                found += 1
                fields = {
                    "draw": path,
                    "dataset_size": f"dataset_size.{row}" if isinstance(study.dataset_size, list) else "dataset_size",
                    "label_noise": f"label_noise.{place}" if isinstance(study.label_noise, list) else "label_noise",
                }
                label = size if n is None else (f"n={n}" if len(study.sizes) == 1 else f"{size}, n={n}")
                label_noise = noise if isinstance(noise, dict) else float(noise)
                named = label if len(noises) == 1 else f"{label}, noise={_noise_name(noise)}"
                yield Point(data, shift, named, draw, label_noise, n, fields)
    if not found:
        raise InputError("sizes", "no size names a shift of a data set of this study, so there is nothing to run", study.sizes)


def _noise_name(noise: Any) -> str:
    if not isinstance(noise, dict):
        return canonical(noise)
    return " ".join(
        f"{noise[name]}" if name == "rate" else f"{name}={canonical(noise[name])}" for name in sorted(noise, reverse=True)
    )


def _draw_of(entry: Any, data: str, shift: str, path: str, study: Study) -> tuple[str, Any]:
    """Where the draw of a data set and shift was written, and the draw; None where the size has none for them."""
    for names, chosen in ((study.data, data), (study.shifts, shift)):
        if not isinstance(entry, Mapping) or set(entry) & {"base", "total", "all"}:
            return path, entry  # "equal" too, which the plan turns into a total
        for key in entry:
            if key not in names:
                what = "data set" if names is study.data else "shift"
                raise unknown(f"{path}.{key}", what, key, names)
        if chosen not in entry:
            return path, None
        path, entry = f"{path}.{chosen}", entry[chosen]
    return path, entry


def _entries(given: Any, room: str) -> Iterator[tuple[str, str, Facts, dict[str, Any]]]:
    """Label, path, facts and settings of each entry of `models`, `methods` or `estimators`; the label is the name by default.

    A model whose extra is missing is refused where it is named.
    """
    word = room.removesuffix("s")
    article = "an" if word == "estimator" else "a"
    for label, settings in (given if isinstance(given, dict) else dict.fromkeys(given)).items():
        settings, path = dict(settings or {}), f"{room}.{label}"
        name = settings.pop(word, label)
        if not isinstance(name, str):
            raise InputError(f"{path}.{word}", f"must be the name of {article} {word}, not {shown(name)}")
        named = path if name is label else f"{path}.{word}"
        known = facts(room, name, named)
        check_extra(known.extra, named, name)
        yield label, path, known, settings


def models_of(study: Study, folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Label -> name and resolved knobs of every model; a relative file of weights is looked for in `folder` first."""
    out = {}
    for label, path, known, settings in _entries(study.models, "models"):
        knobs = resolve(known.knobs, settings, path, f"model {known.name!r}")
        if known.built is not None and not known.built.trained:
            out[label] = _given(known, knobs, path, folder)
            continue
        check_form(known.built, knobs, None, path, known.name)
        out[label] = {"name": known.name, "knobs": _with_hash(knobs, path, folder)}
    return out


def _given(known: Facts, knobs: dict[str, Any], path: str, folder: Path | None) -> dict[str, Any]:
    """A model that is not trained here: `knobs` with the places of its files, `keyed` without them, and the hashes of `files`."""
    assert known.built is not None
    found, files = dict(knobs), {}
    for name in known.built.files:
        # A function is named by its module, as `module:function`.
        given, colon, function = str(knobs[name]).rpartition(":") if name == "function" else (str(knobs[name]), "", "")
        file = _place_of(given, folder, f"{path}.{name}")
        if colon and file.suffix == ".py" or not colon:
            found[name] = f"{file}{colon}{function}"
        try:
            files[name] = [file_hash(file), function]
        except OSError as error:
            raise InputError(f"{path}.{name}", f"cannot read the file {str(file)!r}: {error.strerror}") from None
    keyed = {name: value for name, value in knobs.items() if name not in known.built.files}
    return {"name": known.name, "version": known.version, "knobs": found, "keyed": keyed, "files": files}


def _place_of(given: str, folder: Path | None, path: str) -> Path:
    """The file that a setting names, looked for beside the study first; or that of a module."""
    if not given:
        raise InputError(path, "must name a file; a function is written module:function")
    names = [given] if Path(given).suffix else [f"{given.replace('.', '/')}.py"]
    for name in names:
        for place in [*([] if folder is None else [folder / name]), Path(name)]:
            if place.is_file():
                return place.resolve()
    try:
        spec = None if Path(given).suffix else importlib.util.find_spec(given)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise InputError(path, f"there is no file {names[0]!r}" + ("" if Path(given).suffix else f" and no module {given!r}"))
    return Path(spec.origin)


def _with_hash(knobs: dict[str, Any], path: str, folder: Path | None) -> dict[str, Any]:
    """The knobs with the hash of their file of weights, so that another file under the same name is another run."""
    given = knobs.get("weights")
    if not isinstance(given, str) or not given.endswith(".safetensors") or "weights_sha256" not in knobs:
        return knobs
    beside = None if folder is None else folder / given
    file = beside if beside is not None and beside.is_file() else Path(given)
    try:
        found = file_hash(file)
    except OSError as error:
        raise InputError(f"{path}.weights", f"cannot read the file {given!r}: {error.strerror}") from None
    _check_safetensors(file, given, path)
    if knobs["weights_sha256"] not in (None, found):
        raise InputError(f"{path}.weights_sha256", f"the sha256 of {given!r} is {found}, not {knobs['weights_sha256']}")
    return {**knobs, "weights": str(file.resolve()), "weights_sha256": found}


def _check_safetensors(file: Path, given: str, path: str) -> None:
    """Refuse a file that is none by its header; whether its tensors fit the model is seen when it is built."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "np") as opened:
            names = list(opened.keys())
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}.weights", f"{given!r} cannot be read as safetensors ({one_line(str(error), 200)})") from None
    if not names:
        raise InputError(f"{path}.weights", f"{given!r} holds no tensors")


def estimators_of(study: Study) -> dict[str, dict[str, Any]]:
    """Label -> name, version and resolved knobs of every estimator."""
    out = {}
    for label, path, known, settings in _entries(study.estimators, "estimators"):
        knobs = resolve(known.knobs, settings, path, f"estimator {known.name!r}")
        out[label] = {"name": known.name, "version": known.version, "knobs": knobs}
    return out


def methods_of(study: Study) -> dict[str, MethodEntry]:
    """Label -> method with the points of its grid, or of the study's search."""
    if study.search is None:
        training_grid(study.training)  # refused under its own name, whatever the methods
    out = {}
    for label, path, known, settings in _entries(study.methods, "methods"):
        overrides = {key: settings.pop(key) for key in RESERVED if key in settings}
        _check_overrides(overrides, path)
        shifts = _some_of(overrides.pop("shifts", None), study.shifts, "shift", f"{path}.shifts")
        models = _some_of(overrides.pop("models", None), study.models, "model", f"{path}.models")
        data = _some_of(overrides.pop("data", None), study.data, "data set", f"{path}.data")
        own = overrides.pop("training", {})
        if not isinstance(own, dict):
            raise InputError(f"{path}.training", f"must be a mapping of settings, not {shown(own)}")
        loop, where, what = {**study.training, **own}, f"{path}.training" if own else "training", f"method {known.name!r}"
        if study.search is not None:
            points = searched_points(study.search, known.knobs, settings, loop, (path, where), what)
        else:
            grids = itertools.product(grid_of(known.knobs, settings, path, what), training_grid(loop, where))
            points = tuple((", ".join(part for part in (one, two) if part), values, train) for (one, values), (two, train) in grids)
        out[label] = MethodEntry(label, known, points, overrides, shifts, models, data)
    return out


def _some_of(value: Any, names: Collection[str], what: str, path: str) -> tuple[str, ...] | None:
    """The labels of this study that a method is restricted to; None is all."""
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise InputError(path, f"must be a list of {what}s of this study, not {shown(value)}", names)
    for name in value:
        if name not in names:
            raise unknown(path, what, name, names)
    return tuple(value)


def _check_overrides(overrides: Mapping[str, Any], path: str) -> None:
    if "sampler" in overrides:
        parse_sampler(overrides["sampler"] or "", f"{path}.sampler")
    for key in ("groups", "environments"):
        value = overrides.get(key)
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise InputError(f"{path}.{key}", f"must be a list of attributes, not {shown(value)}")


def training_grid(settings: Mapping[str, Any], path: str = "training") -> list[tuple[str, dict[str, Any]]]:
    """Every combination of the training settings that are lists, checked also for how they go together."""
    grid = grid_of(knobs_of(TrainingSettings), settings, path, "the training loop")
    for _, values in grid:
        TrainingSettings.of(values, path)
    return grid


def grid_of(knobs: tuple[Knob, ...], settings: Mapping[str, Any], path: str, what: str) -> list[tuple[str, dict[str, Any]]]:
    """Every combination of the settings that are lists, with a label that names what varies."""
    axes = choices_of(knobs, settings, path)
    out = []
    for chosen in itertools.product(*axes.values()):
        picked = dict(zip(axes, chosen, strict=True))
        resolved = resolve(knobs, {**settings, **picked}, path, what)
        out.append((", ".join(f"{name}={point_value(value)}" for name, value in picked.items()), resolved))
    return out
