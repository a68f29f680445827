"""From plain values to the things a run works with: data sets, shifts, split plans.

A run's specification is plain JSON, so that it can be stored, hashed and sent to a worker. The planner and the run build the
same things from it with these functions, so what was planned is what is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crosswind.core.errors import DataError, InputError, shown, unknown
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts, listing
from crosswind.core.types import canonical
from crosswind.data.attributes import DerivedAttribute
from crosswind.data.clusters import with_clusters
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import derive
from crosswind.data.prepared.paths import root_folder
from crosswind.data.sources.base import open_source
from crosswind.shifts.base import Shift, parse_shift
from crosswind.shifts.draw import parse_draw, parse_size
from crosswind.shifts.noise import parse_noise
from crosswind.shifts.split import LAWS, Roles, SetPlan, SplitPlan, parse_sampler
from crosswind.studies.spec import DataSpec

# Knobs of sources that say where data lies, or whether an original's pixels are taken: what it then is, the data's fingerprint
# says in a run's key, and they stay out of it.
PATH_KNOBS = ("path", "images", "features", "root", "original")
_KEPT = 8
_datasets: dict[str, AttributedDataset] = {}


def data_values(spec: DataSpec, field: str, folder: Path | None) -> dict[str, Any]:
    """A data set's entry as plain values with the source's settings resolved.

    Relative paths are looked for beside the study file (`folder`) first, then in the working directory.
    """
    known = facts("sources", spec.source, f"{field}.source")
    options = {name: _beside(value, folder) if name in PATH_KNOBS else value for name, value in spec.options.items()}
    values: dict[str, Any] = {
        "source": spec.source,
        "options": resolve(known.knobs, options, f"{field}.options", f"source {spec.source!r}"),
        "keep": {name: list(kept) for name, kept in spec.keep.items()},
        "unit": spec.unit,
        "derive": None if spec.derive is None else spec.derive.model_dump(),
    }
    if spec.clusters is not None:  # else not named at all, so that the keys of studies without clusters stay what they were
        clusters = spec.clusters.model_dump()
        values["clusters"] = {**clusters, "features": _beside(clusters["features"], folder)}
    return values


def _beside(value: Any, folder: Path | None) -> Any:
    if isinstance(value, str) and value and folder is not None and not Path(value).is_absolute() and (folder / value).exists():
        return str((folder / value).resolve())
    return value


def build_dataset(values: Mapping[str, Any], field: str = "data") -> AttributedDataset:
    """The data set that `data_values` describes; the last few are kept, since a worker serves many runs on one."""
    # A notebook may plan again after its table was edited: the files' stamps are part of what is kept.
    places = {name: values["options"].get(name) for name in PATH_KNOBS}
    if "root" in values["options"]:
        places["root"] = root_folder(places["root"])  # a copy that is made anew is renamed into it, which changes its time
    clusters = values.get("clusters")
    if clusters is not None:
        places["features"] = clusters["features"]
    key = canonical([values, [_stamp(place) for place in places.values()]])
    if key in _datasets:
        return _datasets[key]
    try:
        dataset = open_source(values["source"], values["options"], f"{field}.options")
    except DataError as error:
        raise DataError(str(error) if field == "data" else f"{field}: {error}") from None
    if clusters is not None:
        dataset = _clustered(dataset, clusters, f"{field}.clusters")
    if values["keep"]:
        dataset = dataset.keep(values["keep"], field=f"{field}.keep")
    if values["unit"] is not None:
        dataset = dataset.with_units(values["unit"], field=f"{field}.unit")
    if values["derive"] is not None:
        try:
            dataset = derive(dataset, _derived(values["derive"], f"{field}.derive"))
        except InputError as error:
            if error.field.startswith("derive."):
                raise InputError(f"{field}.{error.field}", error.problem, error.choices) from None
            if error.field != values["derive"]["name"]:
                raise
            raise InputError(f"{field}.derive.name", error.problem, error.choices) from None
    while len(_datasets) >= _KEPT:
        del _datasets[next(iter(_datasets))]
    _datasets[key] = dataset
    return dataset


def _clustered(dataset: AttributedDataset, values: Mapping[str, Any], field: str) -> AttributedDataset:
    try:
        return with_clusters(dataset, **values, field=field)
    except DataError as error:
        raise DataError(f"{field}.features: {error}") from None


def _stamp(path: Any) -> list[int]:
    try:
        state = Path(path).expanduser().stat()
    except (OSError, TypeError, ValueError):
        return []
    return [state.st_mtime_ns, state.st_size, state.st_ino]


def _derived(values: Mapping[str, Any], field: str) -> DerivedAttribute:
    settings = values["values"]
    try:
        return DerivedAttribute(
            values["name"], tuple(settings), values["transform"], tuple(settings[name] for name in settings), values["mode"]
        )
    except InputError as error:
        # The transform's settings stand beside the names of the values in a study file.
        path = error.field.partition(".")[2] or "name"
        path = path.replace("settings", "values", 1) if path.startswith("settings") else path
        raise InputError(f"{field}.{path}", error.problem, error.choices) from None


def check_pixels(dataset: AttributedDataset, workers: int = 1) -> None:
    """Decode every image of a data set of files once, so that a damaged one is named before any run starts.

    `workers`: threads (decoders let go of the interpreter). Nothing is kept. Raises `DataError` for the first damaged row, and
    for a data set without inputs.
    """
    dataset.check_inputs()
    if not dataset.from_files:
        return
    from concurrent.futures import ThreadPoolExecutor

    chunks = [np.arange(start, min(start + 256, dataset.n_base)) for start in range(0, dataset.n_base, 256)]
    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(dataset.inputs, rows) for rows in chunks]:
            future.result()


Parts = list[tuple[str, dict[str, Any]]]


def shift_parts(shifts: Mapping[str, Any], name: str, data: DataSpec) -> Parts:
    """The components of a named shift as plain values, each with the path where it was written: names of other shifts followed,
    slots made attributes.

    An entry is one shift, a list of shifts that act together, or names of other entries.
    """
    return _components(shifts[name], shifts, data, f"shifts.{name}", (name,))


def law_parts(law: Any, shifts: Mapping[str, Any], data: DataSpec, field: str) -> Parts:
    """The components of a law that is written out in place; it may use names of shifts and any attribute of the data."""
    return _components(law, shifts, data, field, (), anything=True)


def _components(
    entry: Any, shifts: Mapping[str, Any], data: DataSpec, field: str, trail: tuple[str, ...], anything: bool = False
) -> Parts:
    if entry is None:
        return []
    if isinstance(entry, str):
        if entry not in shifts:
            if entry in [item.name for item in listing("shifts")]:
                raise InputError(field, f"{entry!r} is a kind of shift, written as a mapping: {{type: {entry}, ...}}", shifts)
            raise unknown(field, "shift", entry, shifts)
        if entry in trail:
            raise InputError(field, f"the shift {entry!r} is made of itself: {' -> '.join([*trail, entry])}")
        return _components(shifts[entry], shifts, data, f"shifts.{entry}", (*trail, entry), anything)
    if isinstance(entry, list):
        found = [_components(item, shifts, data, f"{field}.{place}", trail, anything) for place, item in enumerate(entry)]
        return [component for part in found for component in part]
    if isinstance(entry, Mapping):
        component = dict(entry)
        for key in ("attribute", "environment"):
            if isinstance(component.get(key), str):
                component[key] = _attribute(component[key], data, f"{field}.{key}", anything)
        return [(field, component)]
    raise InputError(field, f"must be a shift (a mapping with 'type'), a list of shifts or the name of one, not {shown(entry)}")


def _attribute(word: str, data: DataSpec, field: str, anything: bool) -> str:
    if word in data.slots:
        return data.slots[word]
    if word not in data.attribute_names and word != data.label and not anything:
        raise unknown(field, "attribute", word, [*data.slots, *data.attribute_names])
    return word


def build_shift(components: Any, field: str) -> Shift:
    """A shift from its plain values."""
    return parse_shift(components, field)


def build_split_plan(values: Mapping[str, Any]) -> SplitPlan:
    """The plan of a split from plain values. Errors name its parts: `shift.0.attribute`, `draw`, `sets.test.law`."""
    sets = {name: _set_plan(item, f"sets.{name}") for name, item in values["sets"].items()}
    roles = values["roles"]
    noise = values["label_noise"]
    return SplitPlan(
        label=values["label"],
        attributes=tuple(values["attributes"]),
        shift=build_shift(values["shift"], "shift"),
        draw=parse_draw(values["draw"], "draw"),
        roles=Roles(test=roles["test"], validation=roles["validation"], official=roles["official"]),
        sets=sets,
        groups=None if values["groups"] is None else tuple(values["groups"]),
        environments=None if values["environments"] is None else tuple(values["environments"]),
        label_noise=None if not noise else parse_noise(noise, "label_noise"),
        dataset_size=parse_size(values["dataset_size"], "dataset_size"),
        sampler=parse_sampler(values["sampler"]),
        split_seed=values["split_seed"],
        overlap=values.get("overlap", "refused"),
    )


def _set_plan(values: Mapping[str, Any], field: str) -> SetPlan:
    law = values["law"]
    draw = values["draw"]
    return SetPlan(
        role=values["role"],
        law=law if law in LAWS else build_shift(law, f"{field}.law"),
        draw=None if draw is None else parse_draw(draw, f"{field}.draw"),
        source=values["source"],
        labels=values["labels"],
    )
