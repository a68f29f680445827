"""What is refused before a run does any work, and what its reader is told after it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.core.knobs import knobs_of
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import split_rows, training_keys
from crosswind.methods.base import Info, Method, check_needs
from crosswind.training.device import check_device
from crosswind.training.pairings import Pairing, doubts, environments_are_classes, lot_doubt, refuse
from crosswind.training.samplers import undrawn
from crosswind.training.selection import RULES, Selection
from crosswind.training.settings import TrainingSettings, check_switches

if TYPE_CHECKING:
    from torch import Tensor

    from crosswind.shifts.split import RowSet, Split

__all__ = ["changes_nothing", "check_run", "lot_doubts", "run_doubts"]


def check_run(
    method: Method, split: Split, images: Mapping[str, AttributedDataset], settings: TrainingSettings, info: Info
) -> None:
    """Refuse what the method cannot be trained on: `NeedsError`, `InputError`, `DataError`, each naming what is wrong."""
    name = method.registered_name  # type: ignore[attr-defined]
    check_needs(name, method.needs, info)
    refuse(_pairing(method, split, info), f"method {name!r}")
    check_switches(method.needs, vars(method), info.steps)
    own = images[split.train.source].input
    for name, rows in {**split.validation, **split.evaluation}.items():
        other = images[rows.source].input
        if other != own:
            raise DataError(f"set {name!r} has {other} from {rows.source!r}, training has {own}: make them alike")
    check_device(settings.device)
    knob = method.needs.adapts
    if knob and getattr(method, knob) is not None:
        for rows in split.evaluation.values():
            images[rows.source].attribute(getattr(method, knob), f"method.{knob}")


def run_doubts(
    method: Method,
    split: Split,
    images: Mapping[str, AttributedDataset],
    info: Info,
    state: Mapping[str, Tensor],
    selections: Mapping[str, Selection],
    start: int,
) -> dict[str, list[str]]:
    """For each selection rule what the reader of its numbers must be told, a sentence each: what the method found out itself, what
    its rows say, and what the rule took.

    `state` is that at the end; `start`: the first step from after the method's last switch, 0 where it has none.
    """
    name = method.registered_name  # type: ignore[attr-defined]
    own = method.doubts(dict(state))
    found = doubts(_pairing(method, split, info))
    if not any(text.startswith("is ") for text in found) and changes_nothing(method, info.input_shape):
        found.append("changes no picture of this size at these settings: tried on noise, all stayed as they were")
    if own:
        found = [text for text in found if not text.startswith("is ")]  # it knows better why it is another method
    if selections["last"].step == 0:
        found.append("took no step, so its networks are as they began")
    common = [*(f"{name}: {text}" for text in own), *(f"{name} {text}" for text in found)]
    return {
        rule: [*common, *_rule_doubts(method, split, info, item, selections["last"].step, start)]
        for rule, item in selections.items()
    }


def changes_nothing(method: Method, shape: tuple[int, ...]) -> bool:
    """Whether the method augments pictures, and none of some noise of this shape (c, h, w) is changed by it.

    Of two kinds: levels over the whole range, which equalising the contrast leaves alone, and over half of it.
    """
    views = [view for view in method.views() if view is not None]
    if not views:
        return False
    import torch

    many = 16
    noise = torch.randint(0, 256, (many, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    keys = training_keys(np.arange(many), 0, 0)
    return all(torch.equal(view(x, keys), x) for view in views for x in (noise, noise // 2 + 64))


def _rule_doubts(method: Method, split: Split, info: Info, item: Selection, end: int, start: int) -> list[str]:
    found = []
    if item.step < start:
        at = method.needs.switch_steps(vars(method), info.steps)
        knob = max(at, key=lambda name: at[name])
        why = "as training.select_before_switch allows" if end >= start else "since the run ended there"
        name = method.registered_name  # type: ignore[attr-defined]
        found.append(f"{name}: {item.rule} took a step before the switch at step {at[knob]} ({knob}), {why}")
    rule = RULES.get(item.rule)
    if rule is not None and rule.score != "accuracy":
        rows = split.validation[rule.set]
        what, codes = ("group", rows.group) if rule.score == "worst_group" else ("class", rows.label)
        if len(np.unique(codes[codes >= 0])) < 2:
            found.append(f"{item.rule} found no second {what} in the set {rule.set}, so it chose by accuracy")
    return found


def _pairing(method: Method, split: Split, info: Info) -> Pairing:
    rows = split.train
    tied = rows.environment is not None and environments_are_classes(*_tables(rows, rows.environment, info.n_classes))
    groups = _table(rows, rows.group, rows.visit_step[0], info.n_classes)
    return Pairing(
        needs=method.needs,
        limit=method.limit,
        knobs={item.name: getattr(method, item.name) for item in knobs_of(type(method))},
        batch=info.batch,
        rows=info.n_rows,
        environment_rows=info.environment_counts,
        group_rows=info.group_counts,
        environments_tied=tied,
        groups_tied=bool(((groups > 0).sum(axis=1) <= 1).all()),
        sampler=_sampler(rows),
        undrawn_environments=_undrawn(rows, rows.environment, rows.environment_names, rows.visit_step[1]),
        undrawn_groups=_undrawn(rows, rows.group, rows.group_names, rows.visit_step[0]),
    )


def _tables(rows: RowSet, environment: NDArray[np.int64], n_classes: int) -> list[NDArray[np.float64]]:
    """Rows of every class and environment, and of every class and value of each attribute that makes environments."""
    whole = _table(rows, environment, rows.visit_step[1], n_classes)
    sizes = rows.environment_sizes
    if len(sizes) < 2:
        return [whole]
    cells = np.zeros((n_classes, math.prod(sizes)))
    cells[:, : whole.shape[1]] = whole
    cells = cells.reshape(n_classes, *sizes)
    axes = range(1, len(sizes) + 1)
    return [whole, *(cells.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes)]


def _table(rows: RowSet, codes: NDArray[np.int64], step: int, n_classes: int) -> NDArray[np.float64]:
    """Rows of every class and code, float64 [classes, codes]; of values drawn at every visit those expected."""
    law = np.ones((len(codes), 1)) if rows.visit_law is None or step == 0 else rows.visit_law
    found = codes[:, None] + step * np.arange(law.shape[1])
    table = np.zeros((n_classes, int(found.max(initial=0)) + 1))
    np.add.at(table, (np.broadcast_to(rows.label[:, None], found.shape), found), law)
    return table


def _undrawn(rows: RowSet, codes: NDArray[np.int64] | None, names: Sequence[str], step: int) -> list[str]:
    if codes is None:
        return []
    left = undrawn(codes, len(names), rows.weight, rows.visit_law, step)
    return [name for name, none in zip(names, left, strict=True) if none]


def _sampler(rows: RowSet) -> str:
    """The study's sampler, or what the probabilities of the training rows say of it where they are given otherwise."""
    if rows.sampler != "uniform":
        return rows.sampler
    if np.allclose(rows.weight, rows.weight[:1]):
        return "uniform"
    mass = np.bincount(rows.group, weights=rows.weight)
    alike = np.allclose(rows.weight, (mass / np.maximum(np.bincount(rows.group), 1))[rows.group])
    return "balanced" if alike and np.allclose(mass[mass > 0], mass.max()) else "of the study"


def lot_doubts(method: Method, sets: Mapping[str, RowSet], images: Mapping[str, AttributedDataset]) -> list[str]:
    """What the reader of its predictions must be told of a method that adapts to rows, a sentence each."""
    if not method.needs.adapts:
        return []
    attribute = getattr(method, method.needs.adapts)
    lots = []
    for name, rows in sets.items():
        if attribute is None:
            lots.append((len(rows.rows), f"set {name!r}"))
            continue
        dataset = images[rows.source]
        base, drawn = split_rows(dataset, rows.rows)
        derived = dataset.derived is not None and dataset.derived.name == attribute
        codes = drawn if derived else dataset.table.column(attribute)[base].astype(np.int64)
        values = dataset.attribute(attribute).values
        lots += [
            (int(count), f"{attribute} {values[code]!r} of set {name!r}") for code, count in enumerate(np.bincount(codes)) if count
        ]
    return [f"{method.registered_name} {text}" for text in lot_doubt(min(lots, default=None))]  # type: ignore[attr-defined]
