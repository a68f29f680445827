"""From weights to numbers of rows: how many rows each cell gives, by weights and by each
supplement, before any row is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.seeds import seed_of, stream
from crosswind.shifts.base import NormalForm, Supplement
from crosswind.shifts.draw import Draw
from crosswind.shifts.split.assign_roles import Pool
from crosswind.shifts.split.rounding import controlled_rounding

_HEAVIEST = 1e100  # sums and products of weights stay finite

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fields:
    """The names in errors of the law, the draw and the set."""

    law: str = "shift"
    draw: str = "draw"
    what: str = "the training set"


@final
@dataclass
class Allotment:
    """The numbers of rows of one set.

    `mode` says what a row is. "rows" is a row of the table, "fixed" a base row with one value of
    the derived attribute, "each" a base row with every value. "visits" is a base row whose value is
    drawn at every visit. `counts` int64 [1 + supplements, cells]: rows by weights, then those of
    each supplement; with "visits" over base cells. `planned` float64 [cells]: what the weights ask;
    `expected`: what of it there is, with what short cells lack spread over the others, before
    rounding. `short`: cell -> (wanted, got). `asked`, one number a supplement.
    """

    mode: str
    form: NormalForm
    counts: Counts
    planned: Floats
    expected: Floats
    asked: list[int] = field(default_factory=list)
    short: dict[int, tuple[float, int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of rows of the set."""
        return int(self.counts.sum())

    @property
    def lacks_share(self) -> bool:
        """Whether a supplement that is a share of the rows by weights has rows, and fewer than
        that."""
        drawn = self.counts[1:].sum(axis=1).tolist()
        return any(
            supplement.share is not None and 0 < got < n_asked
            for supplement, n_asked, got in zip(
                self.form.supplements, self.asked, drawn, strict=True
            )
        )

    def visits(self, by_weights: Floats | None = None) -> Floats:
        """The rows by weights and of each supplement in each cell, float64 [1 + supplements, shape
        of the form]. Where values are drawn at every visit, those that one pass is expected to
        show. `by_weights`: other numbers than the counts by weights."""
        counts = self.counts.astype(np.float64)
        if by_weights is not None:
            counts[0] = by_weights
        if self.mode == "visits":
            laws = visit_laws(self.form).reshape(*counts.shape, -1)
            counts = counts[:, :, None] * (
                laws / np.maximum(laws.sum(axis=2, keepdims=True), np.finfo(float).tiny)
            )
        return counts.reshape(-1, *self.form.shape)

    @cached_property
    def law(self) -> Floats:
        """The cells in the proportions of the rows, float64 of the form's shape: by weights as
        expected, supplements as drawn.

        Rounding puts whole rows into cells by chance; a set that is to follow this one must not
        repeat that.
        """
        return self.visits(self.expected).sum(axis=0)


def visit_laws(form: NormalForm) -> Floats:
    """The weights and each supplement's region, float64 [1 + supplements, shape of the form]."""
    return np.stack(
        [form.weights, *(supplement.region.astype(np.float64) for supplement in form.supplements)]
    )


def allot(
    form: NormalForm,
    pool: Pool,
    mode: str,
    draw: Draw,
    seed: int,
    fields: Fields,
    lenient: bool = False,
) -> Allotment:
    """The numbers of rows that a normal form and a draw take from a pool.

    A cell that is asked for more than it has gives what it has; with the draw "total" the others
    give the rest in proportion. Raises `InputError` where nothing is left to draw, or more is asked
    than there is (`lenient`: as many as there are).
    """
    if form.weights.min(initial=0.0) < 0:
        raise InputError(fields.law, f"gives a cell of {fields.what} a weight below 0")
    if not form.weights.max(initial=0.0) <= _HEAVIEST:
        problem = f"gives a cell of {fields.what} a weight above {_HEAVIEST:g}"
        raise InputError(fields.law, problem)
    weights, sizes = _weights_and_sizes(form, pool, mode)
    if not (weights * sizes).any() and not any(
        _reach(supplement, sizes, mode).any() for supplement in form.supplements
    ):
        raise InputError(fields.law, f"leaves no row for {fields.what}")
    counts, planned, expected = _by_weights(form, weights, sizes, draw, seed, fields, lenient)
    left = sizes - counts
    short = {}
    if draw.mode != "all":
        n_values = pool.n_values if mode == "fixed" else 1
        short = _short_cells(planned, sizes, counts, n_values)
    if mode == "fixed":
        by_value = form.weights
        counts = _over_values(counts, by_value, seed_of(seed, "values"))
        heavy = np.where(weights > 0, weights, 1.0)[..., None]
        planned = planned[..., None] * by_value / heavy
        expected = expected[..., None] * by_value / heavy
    rows = np.zeros((1 + len(form.supplements), counts.size), np.int64)
    rows[0] = counts.ravel()
    allotment = Allotment(mode, form, rows, planned.ravel(), expected.ravel(), short=short)
    _supplements(allotment, left, draw, seed)
    if allotment.total == 0:
        raise InputError(fields.law, f"leaves no row for {fields.what}")
    return allotment


def _weights_and_sizes(form: NormalForm, pool: Pool, mode: str) -> tuple[Floats, Counts]:
    """The weights of a form and the rows of a pool, in the cells that rows are drawn by. These are
    base cells, but with "each" every value of the derived attribute has one."""
    weights = form.weights
    if mode == "rows" or pool.n_values == 1:
        sizes = pool.sizes.reshape(pool.cells.shape)
        n_copies = 1
    else:
        sizes = pool.sizes.reshape(pool.cells.shape[:-1])
        n_copies = pool.n_values
    if mode == "each":
        return weights, np.repeat(sizes[..., None], n_copies, axis=-1)
    if mode == "visits":
        return weights.max(axis=-1), sizes  # a base row is there as long as one value of it is
    if mode == "fixed":
        return weights.sum(axis=-1), sizes
    return weights, sizes


def _short_cells(
    planned: Floats, sizes: Counts, counts: Counts, n_values: int
) -> dict[int, tuple[float, int]]:
    """The cells that have fewer rows than planned: (planned, got), under the number of the first of
    their `n_values` cells."""
    short = {}
    for cell in np.flatnonzero(((planned > sizes + 1e-9) & (counts <= sizes)).ravel()):
        planned_rows = round(float(planned.flat[cell]), 4)
        short[int(cell) * n_values] = (planned_rows, int(counts.flat[cell]))
    return short


def _by_weights(
    form: NormalForm,
    weights: Floats,
    sizes: Counts,
    draw: Draw,
    seed: int,
    fields: Fields,
    lenient: bool,
) -> tuple[Counts, Floats, Floats]:
    """The rows by weights: what each cell gives, what it was asked, and what of it it has, before
    rounding."""
    cells_seed = seed_of(seed, "cells")
    if draw.mode == "base":
        planned = weights * min(float(draw.value or 0), _HEAVIEST)
        number = round(float(planned.sum()))
        available = int(sizes.sum())
        if number > available:
            raise InputError(
                fields.draw,
                f"asks for {number} rows for {fields.what}, {float(draw.value or 0):g} of each cell, of"
                f" {available} that there are",
            )
        # Cut to what there is before it is rounded: the number of rows must not depend on which
        # cells are rounded up.
        expected = np.minimum(planned, sizes)
        return controlled_rounding(expected, cells_seed), planned, expected
    if draw.mode == "all":
        heaviest = weights[sizes > 0].max(initial=0.0)
        if heaviest > 0:
            planned = sizes * (weights / heaviest)
        else:
            planned = np.zeros(sizes.shape)
        return controlled_rounding(planned, cells_seed), planned, planned
    total = int(draw.value or 0)
    available = int(sizes[weights > 0].sum())
    number = _base_of_total(total, form)
    if number > available and lenient:
        number = available
    if number > available:
        problem = (
            f"asks for {total} rows for {fields.what}, of {available + total - number} that the law"
            " leaves"
        )
        raise InputError(fields.draw, problem)
    if number == 0:
        numbers = [
            f"{supplement.count:,} {supplement.content}"
            for supplement in form.supplements
            if supplement.count is not None
        ]
        raise InputError(
            fields.law,
            f"asks for {' and '.join(numbers)}, and {fields.what} has {total:,} rows in all, so that"
            " no row beside them is left: ask for fewer, or for a larger size",
        )
    planned = weights / weights.sum() * number  # in this order no weight is too small
    expected = _filled(planned, weights, sizes, number)
    return controlled_rounding(expected, cells_seed, number), planned, expected


def _filled(planned: Floats, weights: Floats, sizes: Counts, number: int) -> Floats:
    """The expectations with none above its cell's size: what short cells lack is spread over the
    others in proportion."""
    filled = planned
    full = np.zeros(sizes.shape, dtype=bool)
    while (over := ~full & (filled > sizes + 1e-9)).any():
        full |= over
        open_weights = np.where(full, 0.0, weights)
        n_open = number - int(sizes[full].sum())
        if open_weights.any():
            open_shares = open_weights / open_weights.sum()
        else:
            open_shares = open_weights
        filled = np.where(full, sizes, open_shares * n_open)
    return filled


def _base_of_total(total: int, form: NormalForm) -> int:
    """The rows by weights that, with the supplements they bring, make up `total`; the last
    supplement gives way to fit."""
    low = 0
    high = total
    while low < high:
        middle = (low + high) // 2
        if middle + sum(supplement.asked(middle) for supplement in form.supplements) >= total:
            high = middle
        else:
            low = middle + 1
    return low


def _over_values(counts: Counts, by_value: Floats, seed: int) -> Counts:
    """Rows of base cells over the values of the derived attribute, by weights: base cells exactly,
    values evenly."""
    weights = by_value.reshape(-1, by_value.shape[-1])
    heavy = weights.sum(axis=1, keepdims=True)
    expected = counts.reshape(-1, 1) * (weights / np.where(heavy > 0, heavy, 1.0))
    total = int(counts.sum())
    return controlled_rounding(expected, seed, total).reshape(by_value.shape)


def _reach(supplement: Supplement, sizes: Counts, mode: str) -> NDArray[np.bool_]:
    """The cells that a supplement can draw from, in the shape of `sizes`."""
    region = supplement.region if mode in ("rows", "each") else supplement.region.any(axis=-1)
    return region & (sizes > 0)


def _supplements(allotment: Allotment, left: Counts, draw: Draw, seed: int) -> None:
    drawn = int(allotment.counts[0].sum())
    room = None
    if draw.mode == "total":
        room = int(draw.value or 0) - drawn
    for index, supplement in enumerate(allotment.form.supplements):
        n_asked = supplement.asked(drawn)
        if room is not None:
            n_asked = min(n_asked, room)
            room -= n_asked
        allotment.asked.append(n_asked)
        region = _reach(supplement, left, allotment.mode)
        available = int(left[region].sum())
        number = min(n_asked, available)
        if number < n_asked:
            allotment.warnings.append(_lack_of(supplement, n_asked, available))
        if number == 0:
            continue
        taken = np.zeros(left.shape, dtype=np.int64)
        generator = stream(seed, "supplement", index)
        if supplement.over == "cells":
            even = region.astype(np.float64)
            expected = _filled(even * (number / even.sum()), even, left, number)
            taken = controlled_rounding(expected, seed_of(seed, "supplement", index), number)
        else:
            taken[region] = generator.multivariate_hypergeometric(
                left[region], number, method="marginals"
            )
        left -= taken
        if allotment.mode == "fixed":
            taken = _any_value(taken, supplement.region, generator)
        allotment.counts[1 + index] = taken.ravel()


def _lack_of(supplement: Supplement, n_asked: int, available: int) -> str:
    """The warning that fewer rows are left than a supplement asks for."""
    asked = f"{n_asked:,} {supplement.content} are asked for"
    if available:
        return (
            f"{asked}, and {available:,} {'row is' if available == 1 else 'rows are'} left for them"
        )
    has_cells = bool(supplement.region.any())
    reason = (
        "no row is left for them" if has_cells else "the shifts together leave no cell for them"
    )
    return f"{asked}, and {reason}{supplement.effect}"


def _any_value(
    base_counts: Counts, region: NDArray[np.bool_], generator: np.random.Generator
) -> Counts:
    """Rows of base cells, each with one of the region's values of the derived attribute at
    random."""
    cells = np.repeat(np.arange(base_counts.size), base_counts.ravel())
    allowed = region.reshape(-1, region.shape[-1])
    pick = (generator.random(len(cells)) * allowed.sum(axis=1)[cells]).astype(np.int64)
    value = np.argmax(np.cumsum(allowed[cells], axis=1) > pick[:, None], axis=1)
    out = np.zeros(region.shape, dtype=np.int64)
    np.add.at(out.reshape(-1, region.shape[-1]), (cells, value), 1)
    return out


def followed(
    training: Allotment, form: NormalForm, pool: Pool, draw: Draw, exactly: bool
) -> tuple[NormalForm, bool]:
    """The form of a set of law "train", and whether it differs from the weights of training alone.

    A number of rows in all is shared out as training's rows are (`Allotment.law`). Draws by the
    cell take the weights, and so do data sets that have other cells than training (not `exactly`).
    They take each supplement in its share of the rows that training draws by weights. `form`: the
    training shift on the cells of `pool`.
    """
    if draw.mode == "total" and exactly:
        has_rows = np.repeat(pool.sizes, pool.cells.size // pool.sizes.size).reshape(form.shape) > 0
        law = training.law
        weights = form.weights * (
            has_rows | (law > 0)
        )  # a cell that has no rows here or there changes nothing
        if np.allclose(law * weights.sum(), weights * law.sum(), rtol=1e-9, atol=0):
            return form.without_supplements(), False
        return NormalForm(form.shape, (law,)), True
    if not form.supplements:
        return form, False
    base, *drawn = training.counts.sum(axis=1).tolist()
    supplements = (
        replace(
            supplement, count=None if base else rows, share=Fraction(rows, base) if base else None
        )
        for supplement, rows in zip(form.supplements, drawn, strict=True)
    )
    return NormalForm(form.shape, form.factors, tuple(supplements)), True


def left_out(form: NormalForm, field: str) -> NormalForm:
    """Weight 1 on the cells from which neither the weights of a shift nor its supplements draw."""
    unseen = ~visit_laws(form).any(axis=0)
    if not unseen.any():
        raise InputError(field, "finds no unseen cell: training draws from all of them")
    factors = (np.asarray(unseen, dtype=np.float64),)
    return NormalForm(form.shape, factors)
