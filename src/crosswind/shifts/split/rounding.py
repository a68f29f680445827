"""Controlled rounding: whole numbers of rows near fractional ones, with even margins.

Every cell becomes the whole number below or above its expectation, and the total is exact. The
margin of every axis of the cells is the whole number below or above its expectation, the label's
first. It is known as controlled rounding (Cox 1987). With three axes and more, and cells left out,
no such table may exist; then as few rows as possible are out of place.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from crosswind.core.seeds import stream

# expectations are sums of products in floating point: this far from a whole number is that whole
# number
_NEAR = 1e-7
_LABEL_FIRST = (
    1000.0  # what a misplaced row of the label's margin costs, against 1 in the other margins
)

Counts = NDArray[np.int64]
Expected = NDArray[np.float64]
Chosen = NDArray[np.bool_]
Margin = NDArray[np.float64]
Bound = tuple[Margin, Margin]


def rounded_up(counts: Counts, share: Fraction) -> Counts:
    """The share, in [0, 1], of each count, rounded up: int64 of the same shape, exact for every
    share.

    The numerator of 0.3333333333333333 times 2,800 rows is more than 64 bits hold, so Python's
    integers multiply, once for each different count; n rows have at most sqrt(2 n) different ones.
    """
    different, value_of = np.unique(counts, return_inverse=True)
    shares = [math.ceil(count * share) for count in different.tolist()]
    return np.array(shares, dtype=np.int64)[value_of].reshape(counts.shape)


def controlled_rounding(expected: Expected, seed: int, total: int | None = None) -> Counts:
    """Whole numbers for the expectations, int64 of the same shape; ties are broken by `seed`.

    `expected`: float64 >= 0, axis 0 the label. `total`: their sum rounded up or down, default to
    the nearest. Common cases cost a fraction of a millisecond at 1,000 cells; what local repair
    cannot settle is solved as an integer programme.
    """
    tolerance = min(
        _NEAR, 0.25 / max(expected.size, 1)
    )  # so little that over all cells no row is lost
    base = np.floor(expected + tolerance)
    fractions = expected - base
    fractions[fractions < tolerance] = 0.0
    if total is None:
        total = round(float(expected.sum()))
    extra = total - int(base.sum())
    free = np.flatnonzero(fractions)
    if not 0 <= extra <= free.size:
        raise ValueError(f"{expected.sum()} rows cannot be rounded to {total}")
    counts = base.astype(np.int64)
    if extra in (0, free.size):
        counts.flat[free] += extra > 0
        return counts
    generator = stream(seed, "controlled rounding")
    chosen = _even_product(fractions, free, extra, generator)
    return counts + (_general(fractions, free, extra, generator) if chosen is None else chosen)


def _margin(values: NDArray[np.generic], axis: int) -> Margin:
    return values.sum(
        axis=tuple(other_axis for other_axis in range(values.ndim) if other_axis != axis),
        dtype=np.float64,
    )


def _bounds(expected: Expected, axis: int) -> Bound:
    margin = _margin(expected, axis)
    return np.floor(margin + _NEAR), np.ceil(margin - _NEAR)


def _beyond(margin: Margin, low: Margin, high: Margin) -> Margin:
    return np.maximum(low - margin, 0) + np.maximum(margin - high, 0)


def _even_product(
    fractions: Expected, free: Counts, extra: int, generator: np.random.Generator
) -> Chosen | None:
    """The choice where all fractions are equal and the cells are all combinations of some values of
    each axis, else None.

    Stepping all axes at once, (i, j, ...) -> (i + 1, j + 1, ...), runs through orbits of lcm(sizes)
    cells. Any stretch of an orbit has even margins on every axis, and a whole orbit exactly even
    ones: so some whole orbits and a stretch of one.
    """
    free_fractions = fractions.flat[free]
    if free_fractions.max() - free_fractions.min() > _NEAR:
        return None
    values_of_axis = [np.flatnonzero(_margin(fractions, axis)) for axis in range(fractions.ndim)]
    sizes = [len(values) for values in values_of_axis]
    if math.prod(sizes) != free.size:
        return None
    length = 1
    starts = []
    for size in sizes:
        starts.append(math.gcd(size, length))
        length = math.lcm(length, size)
    whole_orbits = extra // length
    orbits = generator.permutation(math.prod(starts))[: whole_orbits + 1]
    steps = np.arange(extra) % length
    steps[whole_orbits * length :] += generator.integers(length)
    heads = np.unravel_index(np.repeat(orbits, length)[:extra], starts)
    cells = []
    for values, head in zip(values_of_axis, heads, strict=True):
        cells.append(generator.permutation(values)[(head + steps) % len(values)])
    chosen = np.zeros(fractions.shape, dtype=bool)
    chosen[tuple(cells)] = True
    return chosen


def _general(
    fractions: Expected, free: Counts, extra: int, generator: np.random.Generator
) -> Chosen:
    bounds = [_bounds(fractions, axis) for axis in range(fractions.ndim)]
    chosen = _systematic(fractions, free, extra, generator)
    settled = True
    for axis, (low, high) in enumerate(bounds):
        margin = _margin(chosen, axis)
        if ((margin < low) | (margin > high)).any():
            settled = (
                axis > 0
                and _move_along(chosen, fractions, axis, margin, low, high, generator)
                and settled
            )
    if settled:
        return chosen
    _exchange(chosen, fractions > 0, bounds, generator)
    if any(_beyond(_margin(chosen, axis), *bound).any() for axis, bound in enumerate(bounds)):
        chosen = _programme(fractions, extra, bounds, generator)
    return chosen


def _systematic(
    fractions: Expected, free: Counts, extra: int, generator: np.random.Generator
) -> Chosen:
    """Systematic sampling by the fractions, label after label: the label's margin and the total
    come out right."""
    order = generator.permutation(free)
    order = order[np.argsort(order // fractions[0].size, kind="stable")]
    cumulative = np.cumsum(fractions.flat[order])
    top = float(cumulative[-1])
    remainder = top - math.floor(top + _NEAR)
    start = generator.random()
    if remainder >= _NEAR:
        # Points at start, start + 1, ...: below the remainder there is room for one more.
        if extra > top:
            start = remainder * start
        else:
            start = remainder + (1 - remainder) * start
    before = np.ceil(cumulative - min(max(start, 1e-6), 1 - 1e-6)).astype(np.int64)
    np.minimum(before, extra, out=before)
    before[-1] = extra
    taken = np.empty(order.size, dtype=bool)
    taken[0] = before[0] > 0
    np.greater(before[1:], before[:-1], out=taken[1:])
    chosen = np.zeros(fractions.shape, dtype=bool)
    chosen.flat[order[taken]] = True
    missing = extra - int(taken.sum())
    if missing:  # rounding in the sums put two points on one cell
        chosen.flat[order[~taken][:missing]] = True
    return chosen


def _move_along(
    chosen: Chosen,
    expectations: Expected,
    axis: int,
    margin: Margin,
    low: Margin,
    high: Margin,
    generator: np.random.Generator,
) -> bool:
    """Even out one axis by moving rows between its values with all other values kept, so that no
    other margin changes.

    Changes `chosen` and `margin`; says whether the axis came out even.
    """
    picked = np.moveaxis(chosen, axis, 0)
    fractions = np.moveaxis(expectations, axis, 0)
    stuck: set[tuple[int, int]] = set()
    while _beyond(margin, low, high).any():
        move = _best_move(margin.tolist(), low.tolist(), high.tolist(), stuck)
        if move is None:
            return False
        giver, taker, n_rows = move
        positions = np.flatnonzero(picked[giver] & (picked[taker] < (fractions[taker] > 0)))
        if not positions.size:
            stuck.add((giver, taker))
            continue
        if positions.size > n_rows:
            positions = generator.permutation(positions)[:n_rows]
        where = np.unravel_index(positions, picked.shape[1:])
        picked[giver][where] = False
        picked[taker][where] = True
        margin[giver] -= positions.size
        margin[taker] += positions.size
        stuck = {pair for pair in stuck if giver not in pair and taker not in pair}
    return True


def _best_move(
    margin: list[float], low: list[float], high: list[float], stuck: set[tuple[int, int]]
) -> tuple[int, int, int] | None:
    """From which value to which, and how many rows: the largest need that can be served without
    making another one."""
    values = range(len(margin))
    over = [margin[i] - high[i] for i in values]
    under = [low[i] - margin[i] for i in values]
    largest = max(over)
    least = max(under)
    # Nearly always the fullest value can give to the emptiest: no pairs need comparing.
    if largest > 0:
        giver = over.index(largest)
    else:
        giver = under.index(min(under))
    if least > 0:
        taker = under.index(least)
    else:
        taker = over.index(min(over))
    if giver != taker and (giver, taker) not in stuck:
        n_rows = min(max(over[giver], under[taker]), -under[giver], -over[taker])
        if n_rows > 0:
            return giver, taker, int(n_rows)
    best, move = 0.0, None
    for giver, taker in itertools.permutations(values, 2):
        spare = -under[giver]
        room = -over[taker]
        if (
            spare <= 0
            or room <= 0
            or (over[giver] <= 0 and under[taker] <= 0)
            or (giver, taker) in stuck
        ):
            continue
        # Beyond the need a move would only shuffle; more than spare or room would make a new need.
        n_rows = min(max(over[giver], under[taker]), spare, room)
        gain = min(n_rows, max(over[giver], 0)) + min(n_rows, max(under[taker], 0))
        if gain > best:
            best = gain
            move = (giver, taker, int(n_rows))
    return move


def _exchange(
    chosen: Chosen, free: Chosen, bounds: list[Bound], generator: np.random.Generator
) -> None:
    """Swap a chosen cell for a free one, both anywhere, as long as that brings margins nearer; at
    most 64 swaps."""
    for _ in range(64):
        ins = generator.permutation(np.argwhere(chosen))[:200]
        outs = generator.permutation(np.argwhere(free & ~chosen))[:200]
        if not len(ins) or not len(outs):
            return
        change = np.zeros((len(ins), len(outs)))
        for axis, (low, high) in enumerate(bounds):
            margin = _margin(chosen, axis)
            now = _beyond(margin, low, high)
            less = _beyond(margin - 1, low, high) - now
            cost_of_more = _beyond(margin + 1, low, high) - now
            price = _LABEL_FIRST if axis == 0 else 1.0
            giver = ins[:, axis][:, None]
            taker = outs[:, axis][None, :]
            change += price * np.where(giver == taker, 0.0, less[giver] + cost_of_more[taker])
        best = int(np.argmin(change))
        if change.flat[best] >= 0:
            return
        leave, enter = divmod(best, len(outs))
        chosen[tuple(ins[leave])] = False
        chosen[tuple(outs[enter])] = True


def _programme(
    fractions: Expected, extra: int, bounds: list[Bound], generator: np.random.Generator
) -> Chosen:
    """The choice with the fewest rows out of place, as an integer programme (rarely needed: local
    repair failed)."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    free = fractions > 0
    cells = np.argwhere(free)
    n = len(cells)
    margins = sum(free.shape)
    offsets = np.cumsum([0, *free.shape[:-1]])
    rows = (cells + offsets).ravel()
    columns = np.repeat(np.arange(n), free.ndim)
    # One slack below and one above each margin, and one row of ones for the total.
    each = np.arange(margins)
    data = np.concatenate([np.ones(n * free.ndim), np.ones(margins), -np.ones(margins), np.ones(n)])
    down = np.concatenate([rows, each, each, np.full(n, margins)])
    across = np.concatenate([columns, n + each, n + margins + each, np.arange(n)])
    shape = (margins + 1, n + 2 * margins)
    matrix = coo_array((data, (down, across)), shape=shape).tocsr()
    low = np.concatenate([*(bound[0] for bound in bounds), [extra]])
    high = np.concatenate([*(bound[1] for bound in bounds), [extra]])
    price = np.concatenate(
        [np.full(size, _LABEL_FIRST if axis == 0 else 1.0) for axis, size in enumerate(free.shape)]
    )
    # Ties: small random prices, all of them together below one row out of place.
    tie = (generator.random(n) - fractions[free]) / (4 * n)
    constraints = LinearConstraint(matrix, low, high)
    integrality = np.concatenate([np.ones(n), np.zeros(2 * margins)])
    solution = milp(
        np.concatenate([tie, price, price]),
        constraints=constraints,
        bounds=Bounds(0, np.concatenate([np.ones(n), np.full(2 * margins, np.inf)])),
        integrality=integrality,
    )
    if solution.x is None:
        raise RuntimeError(
            f"the integer programme of controlled rounding failed: {solution.message}"
        )
    chosen = np.zeros_like(free)
    chosen[free] = solution.x[:n] > 0.5
    return chosen
