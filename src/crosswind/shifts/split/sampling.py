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
from crosswind.shifts.base import All, Cells, NormalForm, Shift
from crosswind.shifts.split.plan import parse_sampler
from crosswind.shifts.systematic import Systematic

NO_ENVIRONMENTS = "{} needs a systematic shift, a single one: its environments are what is sampled"


@final
@dataclass(frozen=True, eq=False)
class Grouping:
    """The cells of some attributes, with the classes of a label or without.

    `of_cell` int64 [cells]: the number of each cell by its attributes. `size`: how many there are,
    the product of `sizes`, the numbers of values of the attributes, of which the last one runs
    fastest. The group of class y is y x size + number. `names`: of all groups, class after class;
    of all environments where there are no classes.
    """

    of_cell: NDArray[np.int64]
    size: int
    names: tuple[str, ...]
    sizes: tuple[int, ...]


def grouping(
    cells: Cells, attributes: Sequence[str], label: Attribute | None, field: str
) -> Grouping:
    """The groups (with a label) or environments (without) that some attributes of the cells
    make."""
    axes = []
    for name in attributes:
        if name == cells.label.name or name not in cells.names:
            raise unknown(field, "attribute of the study", name, cells.names[1:])
        axes.append(cells.names.index(name))
    number = np.zeros((1,) * len(cells.shape), dtype=np.int64)
    if label is None:
        names = [""]
    else:
        names = [f"{label.name}={value}" for value in label.values]
    for axis in axes:
        attribute = cells.axes[axis]
        value_codes = np.arange(len(attribute.values))
        number = number * len(attribute.values) + cells.along([axis], value_codes)
        names = [
            f"{before}, {attribute.name}={value}" if before else f"{attribute.name}={value}"
            for before in names
            for value in attribute.values
        ]
    sizes = tuple(len(cells.axes[axis].values) for axis in axes)
    of_cell = np.broadcast_to(number, cells.shape).ravel()
    size = math.prod(sizes)
    return Grouping(of_cell, size, tuple(name or "all" for name in names), sizes)


def default_attributes(cells: Cells, form: NormalForm, shifted: Sequence[str]) -> tuple[str, ...]:
    """The shifted attributes that have two values or more in training; where there are none, all
    attributes."""
    present = form.support
    for supplement in form.supplements:
        present = present | supplement.region
    varied = []
    for axis, name in enumerate(cells.names):
        other_axes = tuple(other_axis for other_axis in range(present.ndim) if other_axis != axis)
        if axis and name in shifted and present.any(axis=other_axes).sum() > 1:
            varied.append(name)
    return tuple(varied) or cells.names[1:]


@final
@dataclass(frozen=True, eq=False)
class Environments:
    """The environments of a systematic shift, row by row.

    `label` int64 [n]; `environment` int64 [n, V], under each of V values that a row may be seen
    under, in [0, size): the values of attribute `name`. `clean`: the environment that shows every
    class, None where none does.
    """

    name: str
    label: NDArray[np.int64]
    environment: NDArray[np.int64]
    size: int
    clean: int | None

    @classmethod
    def of(
        cls, shift: Shift, cells: Cells, cell: NDArray[np.int64], values: int = 1
    ) -> Environments | None:
        """Those of rows in cells `cell` int64 [n], of each of `values` values of the last attribute
        from there on. None where no part of the shift is systematic, or several are."""
        systematic_shifts = []
        for joined_shift in shift.parts if isinstance(shift, All) else (shift,):
            if isinstance(joined_shift, Systematic):
                systematic_shifts.append(joined_shift)
        if len(systematic_shifts) != 1:
            return None
        axis, _ = systematic_shifts[0].table(cells)
        codes = np.unravel_index(cell, cells.shape)
        if axis == len(cells.shape) - 1:
            varies = np.arange(values)
        else:
            varies = np.zeros(values, dtype=np.int64)
        environment_codes = codes[axis][:, None] + varies
        return cls(
            systematic_shifts[0].environment,
            codes[0],
            environment_codes,
            cells.shape[axis],
            systematic_shifts[0].clean(cells),
        )

    def shares(
        self, sampler: Mapping[str, float], mass: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The probability of each row under each value, float64 [n, V], sum 1.

        `mass` float64 [n, V]: that without a sampler, up to a factor. Rows of one environment (with
        "image" of one class in it) keep the proportions of their weights.

        {"environment": p}: a draw is of the clean environment with probability p, else of any other
        that has rows, all as likely, and then of a row of it. Classes that are in more environments
        are seen more often. {"image": p}: a draw is of a row, and it is seen clean but with
        probability p. Then it is seen in another environment of its class, if there is any, all as
        likely. Classes are seen as often as they have rows. Omran and Schiele 2022, appendix A.1: p
        = 0.75 from scratch, 0.5 in fine-tuning.
        """
        kind, p = next(iter(sampler.items()))
        if (
            kind == "environment"
        ):  # a row that may be seen in two environments is a whole row of both
            largest_mass = np.maximum(mass.max(axis=1, keepdims=True), np.finfo(float).tiny)
            mass = mass * (mass.sum(axis=1, keepdims=True) / largest_mass)
        of_clean = p if kind == "environment" else 1 - p
        block_of = self.environment + (self.size * self.label[:, None] if kind == "image" else 0)
        blocks = 1
        if kind == "image":
            blocks = int(self.label.max(initial=0)) + 1
        block_mass = np.bincount(
            block_of.ravel(), mass.ravel(), minlength=blocks * self.size
        ).reshape(blocks, self.size)
        is_clean = np.arange(self.size) == self.clean
        clean = (block_mass > 0) & is_clean
        has_noise = (block_mass > 0) & ~is_clean
        noisy_share = (1 - of_clean) / np.maximum(has_noise.sum(axis=1, keepdims=True), 1)
        target_shares = clean * of_clean + has_noise * noisy_share
        # What has no clean rows, or no others, is seen under what it has.
        tiny = np.finfo(float).tiny
        present_mass = np.maximum(target_shares.sum(axis=1, keepdims=True), tiny)
        target_shares *= block_mass.sum(axis=1, keepdims=True) / present_mass
        factor = np.divide(
            target_shares, block_mass, out=np.zeros(block_mass.shape), where=block_mass > 0
        ).ravel()
        joint: NDArray[np.float64] = mass * factor[block_of]
        return joint / joint.sum()


def sampling_weights(
    sampler: str | Mapping[str, Any],
    cell: NDArray[np.int64],
    group: NDArray[np.int64],
    origin: NDArray[np.int8],
    test_cells: NDArray[np.float64] | None,
    visits: NDArray[np.float64] | None = None,
    step: int = 0,
    environments: Environments | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The probability of each training row, float64 [n], sum 1, and the law of the values that it
    is then seen under.

    `cell`, `group` int64 [n]. `origin` int8 [n], above 0 for rows of supplements. `test_cells`
    float64 [cells]: the test law, up to a factor, for "reweight" (p_test / p_train of a row's cell,
    Wiles et al. 2022, where p_test is uniform over all cells). A cell without training rows is left
    out, so that the others share its part. `visits`: where a value is drawn at every visit of a
    row, the probability of each, float64 [n, values]. A row under a value is then weighed, which is
    in cell `cell` x values + value and in group `group` + `step` x value. `environments`: of these
    rows, for the samplers that are by them. Raises `InputError`.
    """
    sampler = parse_sampler(sampler)
    n = len(cell)
    if sampler == "uniform":
        return np.full(n, 1.0 / n), visits
    if isinstance(sampler, Mapping) and "mixture" in sampler:
        mass = float(sampler["mixture"])
        extra = origin > 0
        if not extra.any() or extra.all():
            raise InputError(
                "sampler", "a mixture needs a shift with a supplement, and rows beside it"
            )
        weights = np.where(extra, mass / extra.sum(), (1 - mass) / (~extra).sum())
        return weights / weights.sum(), visits
    if visits is None:
        visits_of = np.ones((n, 1))
    else:
        visits_of = visits
    if isinstance(sampler, Mapping):
        if environments is None:
            raise InputError("sampler", NO_ENVIRONMENTS.format(next(iter(sampler))))
        joint = environments.shares(sampler, visits_of)
    else:
        value = np.arange(visits_of.shape[1])
        if sampler == "balanced":
            cell_of = group[:, None] + step * value
            target_law = np.ones(int(cell_of.max()) + 1)
        else:
            if test_cells is None:
                raise InputError(
                    "sampler", "reweight needs a set of role test over the cells of the study"
                )
            cell_of = cell[:, None] * len(value) + value
            target_law = test_cells
        present_law = np.bincount(cell_of.ravel(), visits_of.ravel(), minlength=len(target_law))
        joint = (
            visits_of
            * np.divide(
                target_law, present_law, out=np.zeros(len(target_law)), where=present_law > 0
            )[cell_of]
        )
    weights = joint.sum(axis=1)
    if not weights.any():
        raise InputError(
            "sampler", "reweight finds no training row in a cell that the test law allows"
        )
    if visits is not None:
        visits = np.divide(joint, weights[:, None], out=visits.copy(), where=weights[:, None] > 0)
    return weights / weights.sum(), visits
