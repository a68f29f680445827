"""The identity of a run, known before it starts: to its method, to the rules that it must meet, and
to a checkpoint of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import knobs_of
from crosswind.core.types import digest, digest_arrays
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import split_rows
from crosswind.methods.base import Info, Method
from crosswind.training.requirements import Pairing
from crosswind.training.samplers import undrawn
from crosswind.training.settings import ModelSpec, TrainingSettings, keyed

if TYPE_CHECKING:
    from torch import Tensor

    from crosswind.shifts.split import RowSet, Split


def info_of(
    split: Split, images: Mapping[str, AttributedDataset], settings: TrainingSettings
) -> Info:
    """The facts that the method may know of a run."""
    rows = split.train
    classes = split.class_names
    environment = rows.environment
    group_step, environment_step = rows.visit_step
    groups = _counts(rows.group, len(rows.group_names), rows.visit_law, group_step)
    # A group that the sampler never draws is not shown: a method that waits for it would give it a
    # weight for ever.
    left = undrawn(rows.group, len(groups), rows.weight, rows.visit_law, group_step)
    group_counts = np.where(left, 0, groups).tolist()
    environment_names: tuple[str, ...] = ()
    environment_counts: tuple[int, ...] = ()
    if environment is not None:
        environment_names = tuple(rows.environment_names)
        n_environments = len(environment_names)
        environment_counts = _counts(environment, n_environments, rows.visit_law, environment_step)
    class_counts = _counts(rows.label, len(classes))
    steps = settings.longest(len(rows.rows))
    n_rows = len(rows.rows)
    group_names = tuple(rows.group_names)
    input_spec = images[rows.source].check_inputs()
    return Info(
        input=input_spec,
        n_classes=len(classes),
        n_rows=n_rows,
        class_names=tuple(classes),
        group_names=group_names,
        group_counts=tuple(group_counts),
        environment_names=environment_names,
        environment_counts=environment_counts,
        class_counts=class_counts,
        steps=steps,
        batch=settings.batch,
        lr=settings.lr,
    )


def pairing_of(method: Method, split: Split, info: Info, model: ModelSpec | None = None) -> Pairing:
    """The method and what a run on these rows gives it; `model`: what is trained, where it is to be
    looked at."""
    rows = split.train
    n_classes = info.n_classes
    group_step, environment_step = rows.visit_step
    environment = rows.environment
    environment_tables = () if environment is None else _tables(rows, environment, n_classes)
    group_table = _table(rows, rows.group, group_step, n_classes)
    undrawn_environments = _undrawn(rows, environment, rows.environment_names, environment_step)
    undrawn_groups = _undrawn(rows, rows.group, rows.group_names, group_step)
    return Pairing(
        needs=method.needs,
        limit=method.limit,
        knobs=_knob_values(method),
        batch=info.batch,
        steps=info.steps,
        environment_rows=info.environment_counts,
        group_rows=info.group_counts,
        environment_tables=environment_tables,
        group_table=group_table,
        sampler=rows.sampler,
        undrawn_environments=undrawn_environments,
        undrawn_groups=undrawn_groups,
        input=info.input,
        models={} if model is None else {model.name: model},
        environment_names=info.environment_names,
        visited=environment_step > 0,
        name=str(method.registered_name),  # type: ignore[attr-defined]
        validation_rows={name: len(named) for name, named in split.validation.items()},
    )


def _knob_values(method: Method) -> dict[str, Any]:
    """The settings of a method by name."""
    return {declared.name: getattr(method, declared.name) for declared in knobs_of(type(method))}


def _tables(
    rows: RowSet, environment: NDArray[np.int64], n_classes: int
) -> list[NDArray[np.float64]]:
    """Rows of every class and environment, and of every class and value of each attribute that
    makes environments."""
    class_by_environment = _table(rows, environment, rows.visit_step[1], n_classes)
    tables = [class_by_environment]
    sizes = rows.environment_sizes
    if len(sizes) < 2:
        return tables
    cells = np.zeros((n_classes, math.prod(sizes)))
    cells[:, : class_by_environment.shape[1]] = class_by_environment
    cells = cells.reshape(n_classes, *sizes)
    axes = range(1, len(sizes) + 1)
    for axis in axes:
        other_axes = tuple(other_axis for other_axis in axes if other_axis != axis)
        tables.append(cells.sum(axis=other_axes))
    return tables


def _table(
    rows: RowSet, codes: NDArray[np.int64], step: int, n_classes: int
) -> NDArray[np.float64]:
    """Rows of every class and code, float64 [classes, codes]; of values drawn at every visit those
    expected."""
    if rows.visit_law is None or step == 0:
        law = np.ones((len(codes), 1))
    else:
        law = rows.visit_law
    codes_of_visits = codes[:, None] + step * np.arange(law.shape[1])
    labels_of_visits = np.broadcast_to(rows.label[:, None], codes_of_visits.shape)
    n_codes = int(codes_of_visits.max(initial=0)) + 1
    table = np.zeros((n_classes, n_codes))
    np.add.at(table, (labels_of_visits, codes_of_visits), law)
    return table


def _undrawn(
    rows: RowSet, codes: NDArray[np.int64] | None, names: Sequence[str], step: int
) -> list[str]:
    if codes is None:
        return []
    left = undrawn(codes, len(names), rows.weight, rows.visit_law, step)
    return [name for name, none in zip(names, left, strict=True) if none]


def smallest_lot(
    method: Method, sets: Mapping[str, RowSet], images: Mapping[str, AttributedDataset]
) -> tuple[int, str] | None:
    """The fewest rows of the sets that the method adapts to at once, and their name; None where it
    does not adapt."""
    if not method.needs.adapts:
        return None
    attribute = getattr(method, method.needs.adapts)
    if attribute is None:
        return min(((len(rows.rows), f"set {name!r}") for name, rows in sets.items()), default=None)
    lots = []
    for name, rows in sets.items():
        dataset = images[rows.source]
        base, drawn = split_rows(dataset, rows.rows)
        derived = dataset.derived is not None and dataset.derived.name == attribute
        if derived:
            codes = drawn
        else:
            codes = dataset.table.column(attribute)[base].astype(np.int64)
        values = dataset.attribute(attribute).values
        counted = enumerate(np.bincount(codes))
        for code, count in counted:
            if count:
                lots.append((int(count), f"{attribute} {values[code]!r} of set {name!r}"))
    return min(lots, default=None)


def identity(
    method: Method,
    split: Split,
    images: Mapping[str, AttributedDataset],
    model: ModelSpec,
    settings: TrainingSettings,
    seed: int,
    base: Mapping[str, Tensor] | None,
    rules: Sequence[str] = (),
) -> str:
    """A digest of all that decides a run's numbers: what a checkpoint belongs to."""
    rows = split.train
    sources = sorted({rows.source, *(named.source for named in split.validation.values())})
    fingerprints = {name: images[name].fingerprint for name in sources}
    base_digest = None
    if base is not None:
        arrays = {name: value.numpy() for name, value in base.items()}
        base_digest = digest_arrays(arrays)
    settings_keyed = keyed(vars(settings))
    # Another worker, on another device of the kind, may go on with the run.
    settings_keyed["device"] = settings.device.partition(":")[0]
    if rules:
        settings_keyed = {**settings_keyed, "rules": sorted(rules)}
    return digest(
        {
            "method": method.registered_name,  # type: ignore[attr-defined]
            "version": method.version,
            "knobs": _knob_values(method),
            "model": model.identity(),
            "settings": settings_keyed,
            "seed": seed,
            "rows": _digest_of_rows(split),
            "data": fingerprints,
            "base": base_digest,
        }
    )


def _digest_of_rows(split: Split) -> str:
    """A digest of the rows that train and validate, of their labels, groups and weights."""
    rows = split.train
    arrays: dict[str, NDArray[Any]] = {
        "rows": rows.rows,
        "label": rows.label,
        "group": rows.group,
        "weight": rows.weight,
    }
    if rows.visit_law is not None:
        arrays["visit_law"] = rows.visit_law
    arrays |= {f"validation/{name}": named.rows for name, named in split.validation.items()}
    return digest_arrays({name: np.asarray(array) for name, array in arrays.items()})


def _counts(
    codes: NDArray[np.int64], size: int, law: NDArray[np.float64] | None = None, step: int = 0
) -> tuple[int, ...]:
    if law is None or step == 0:
        return tuple(int(count) for count in np.bincount(codes, minlength=size))
    # The value is drawn at every visit: what is expected, at least 1 where it can happen at all.
    codes_of_visits = codes[:, None] + step * np.arange(law.shape[1])
    expected = np.bincount(codes_of_visits.ravel(), weights=law.ravel(), minlength=size)
    return tuple(max(int(round(count)), 1) if count > 0 else 0 for count in expected)
