"""Validation rows that are a method's own: which they are, and what is left for selection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import NeedsError
from crosswind.core.seeds import hash64, seed_of
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Method

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet, Split

Images = Mapping[str, AttributedDataset]


def set_apart(
    method: Method, split: Split, images: Images, seed: int
) -> tuple[Split, RowSet | None]:
    """The split whose validation sets lack the held-out rows of a method, and these rows; the split
    itself and None where the method declares none.

    The same share of every group of the set, rounded up, is drawn by `seed`. A row that shows what a
    held-out one shows, or is of its unit, is left out of every validation set.
    Raises `NeedsError` where a class that trains has no held-out row, and where no row of a set is
    left.
    """
    holdout = method.needs.holdout
    if holdout is None:
        return split, None
    name = f"method {method.registered_name!r}"  # type: ignore[attr-defined]
    held_set = holdout.set_of(vars(method))
    rows = split.validation[held_set]
    share = float(getattr(method, holdout.share))
    held_out = _chosen(rows, _draw(rows, images, share, seed))
    _check_classes(name, held_set, split, held_out)
    validation = {}
    for set_name, set_rows in split.validation.items():
        is_left = ~_shares_a_unit(set_rows, held_out, images)
        if not is_left.any():
            raise NeedsError(
                f"{name} holds out rows of set {held_set!r} and leaves none of set {set_name!r} to"
                f" validate on; lower {holdout.share!r}, or give roles.validation more rows"
            )
        validation[set_name] = _chosen(set_rows, is_left)
    note = (
        f"{name} reads {len(held_out)} of the {len(rows)} rows of set {held_set!r}; no selection"
        " rule, score or estimator reads them"
    )
    return replace(split, validation=validation, notes=(*split.notes, note)), held_out


def _draw(rows: RowSet, images: Images, share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows are held out, bool [n]: of each group those first by a hash of their units."""
    keys = hash64(_units(rows, images), seed_of(seed, "holdout"))
    is_held = np.zeros(len(rows), dtype=bool)
    for group in np.unique(rows.group):
        members = np.flatnonzero(rows.group == group)
        first = np.argsort(keys[members], kind="stable")[: math.ceil(share * len(members))]
        is_held[members[first]] = True
    return is_held


def _check_classes(name: str, held_set: str, split: Split, held_out: RowSet) -> None:
    for code in np.unique(split.train.label):
        if not (held_out.label == code).any():
            raise NeedsError(
                f"{name} finds no row of class {split.class_names[code]!r} among the"
                f" {len(held_out)} that it holds out of set {held_set!r}; give roles.validation more"
                " rows"
            )


def _shares_a_unit(rows: RowSet, held_out: RowSet, images: Images) -> NDArray[np.bool_]:
    """Which rows are of a unit of the held-out ones, or show what one of them shows, bool [n]."""
    if rows.source == held_out.source:
        return np.isin(_units(rows, images), _units(held_out, images))
    if images[rows.source].origin != images[held_out.source].origin:
        return np.zeros(len(rows), dtype=bool)
    return np.isin(_originals(rows, images), _originals(held_out, images))


def _units(rows: RowSet, images: Images) -> NDArray[np.int64]:
    """The unit of each row, int64 [n], as roles are dealt; its id where it is its own."""
    from crosswind.shifts.split.pictures import joined_units

    dataset = images[rows.source]
    units = joined_units(dataset)
    if units is None:
        units = dataset.ids if dataset.units is None else dataset.units
    return units[_base(rows, dataset)]


def _originals(rows: RowSet, images: Images) -> NDArray[np.uint64]:
    dataset = images[rows.source]
    names = dataset.ids.astype(np.uint64) if dataset.originals is None else dataset.originals
    return names[_base(rows, dataset)]


def _base(rows: RowSet, dataset: AttributedDataset) -> NDArray[np.int64]:
    """The base row of each row."""
    return rows.rows if rows.visit_law is not None else rows.rows // dataset.n_derived


def _chosen(rows: RowSet, is_chosen: NDArray[np.bool_]) -> RowSet:
    """Some rows of a set, each with its part of the weights, which sum to 1 again."""
    weight = rows.weight[is_chosen]
    return replace(
        rows,
        rows=rows.rows[is_chosen],
        label=rows.label[is_chosen],
        true_label=rows.true_label[is_chosen],
        group=rows.group[is_chosen],
        environment=None if rows.environment is None else rows.environment[is_chosen],
        weight=weight / weight.sum() if weight.sum() else weight,
        origin=rows.origin[is_chosen],
        visit_law=None if rows.visit_law is None else rows.visit_law[is_chosen],
    )
