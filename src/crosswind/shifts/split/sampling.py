"""Groups, environments and the probabilities with which training samples its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, unknown
from crosswind.data.attributes import Attribute
from crosswind.shifts.base import Cells, NormalForm
from crosswind.shifts.split.plan import parse_sampler


@final
@dataclass(frozen=True, eq=False)
class Grouping:
    """The cells of some attributes, with the classes of a label or without.

    `of_cell` int64 [cells]: the number of each cell by its attributes; `size`: how many there are, the product of `sizes`, the
    numbers of values of the attributes, of which the last one runs fastest; the group of class y is y x size + number. `names`: of
    all groups, class after class; of all environments where there are no classes.
    """

    of_cell: NDArray[np.int64]
    size: int
    names: tuple[str, ...]
    sizes: tuple[int, ...]


def grouping(cells: Cells, attributes: Sequence[str], label: Attribute | None, field: str) -> Grouping:
    """The groups (with a label) or environments (without) that some attributes of the cells make."""
    axes = []
    for name in attributes:
        if name == cells.label.name or name not in cells.names:
            raise unknown(field, "attribute of the study", name, cells.names[1:])
        axes.append(cells.names.index(name))
    number = np.zeros((1,) * len(cells.shape), dtype=np.int64)
    names = [""] if label is None else [f"{label.name}={value}" for value in label.values]
    for axis in axes:
        attribute = cells.axes[axis]
        number = number * len(attribute.values) + cells.along([axis], np.arange(len(attribute.values)))
        names = [
            f"{before}, {attribute.name}={value}" if before else f"{attribute.name}={value}"
            for before in names
            for value in attribute.values
        ]
    sizes = tuple(len(cells.axes[axis].values) for axis in axes)
    of_cell = np.broadcast_to(number, cells.shape).ravel()
    return Grouping(of_cell, math.prod(sizes), tuple(name or "all" for name in names), sizes)


def default_attributes(cells: Cells, form: NormalForm, shifted: Sequence[str]) -> tuple[str, ...]:
    """The shifted attributes that have two values or more in training; where there are none, all attributes."""
    present = form.support
    for supplement in form.supplements:
        present = present | supplement.region
    found = []
    for axis, name in enumerate(cells.names):
        others = tuple(other for other in range(present.ndim) if other != axis)
        if axis and name in shifted and present.any(axis=others).sum() > 1:
            found.append(name)
    return tuple(found) or cells.names[1:]


def sampling_weights(
    sampler: str | Mapping[str, Any],
    cell: NDArray[np.int64],
    group: NDArray[np.int64],
    origin: NDArray[np.int8],
    test_cells: NDArray[np.float64] | None,
    visits: NDArray[np.float64] | None = None,
    step: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The probability of each training row, float64 [n], sum 1, and the law of the values that it is then seen under.

    `cell`, `group` int64 [n]; `origin` int8 [n], above 0 for rows of supplements; `test_cells` float64 [cells]: the test law, up to
    a factor, for "reweight" (p_test / p_train of a row's cell, Wiles et al. 2022, where p_test is uniform over all cells).
    A cell without training rows is left out, so that the others share its part. `visits`: where a value is drawn at every visit of
    a row, the probability of each, float64 [n, values]: what is weighed is then a row under a value, which is in cell `cell` x
    values + value and in group `group` + `step` x value. Raises `InputError`.
    """
    sampler = parse_sampler(sampler)
    n = len(cell)
    if sampler == "uniform":
        return np.full(n, 1.0 / n), visits
    if isinstance(sampler, Mapping):
        mass = float(sampler["mixture"])
        extra = origin > 0
        if not extra.any() or extra.all():
            raise InputError("sampler", "a mixture needs a shift with a supplement, and rows beside it")
        weights = np.where(extra, mass / extra.sum(), (1 - mass) / (~extra).sum())
        return weights / weights.sum(), visits
    seen = np.ones((n, 1)) if visits is None else visits
    value = np.arange(seen.shape[1])
    if sampler == "balanced":
        place = group[:, None] + step * value
        wanted = np.ones(int(place.max()) + 1)
    else:
        if test_cells is None:
            raise InputError("sampler", "reweight needs a set of role test over the cells of the study")
        place = cell[:, None] * len(value) + value
        wanted = test_cells
    there = np.bincount(place.ravel(), seen.ravel(), minlength=len(wanted))
    joint = seen * np.divide(wanted, there, out=np.zeros(len(wanted)), where=there > 0)[place]
    weights = joint.sum(axis=1)
    if not weights.any():
        raise InputError("sampler", "reweight finds no training row in a cell that the test law allows")
    if visits is not None:
        visits = np.divide(joint, weights[:, None], out=visits.copy(), where=weights[:, None] > 0)
    return weights / weights.sum(), visits
