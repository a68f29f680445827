"""Controlled rounding: whole numbers of rows near fractional ones, with even margins.

Every cell becomes the whole number below or above its expectation, the total is exact, and the margin of every axis of the
cells is the whole number below or above its expectation, the label's first. It is known as controlled rounding (Cox 1987).
With three axes and more, and cells left out, no such table may exist; then as few rows as possible are out of place.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from crosswind.core.seeds import stream

__all__ = ["controlled_rounding", "margin_excess", "whole"]

_NEAR = 1e-7  # expectations are sums of products in floating point: this far from a whole number is that whole number
_LABEL_FIRST = 1000.0  # what a misplaced row of the label's margin costs, against 1 in the other margins

Counts = NDArray[np.int64]
Expected = NDArray[np.float64]


def whole(expected: Expected) -> Counts | None:
    """The expectations as whole numbers, or None where one of them is not."""
    near = np.rint(expected)
    return near.astype(np.int64) if (np.abs(expected - near) <= _NEAR).all() else None


def controlled_rounding(expected: Expected, seed: int, total: int | None = None) -> Counts:
    """Whole numbers for the expectations, int64 of the same shape; ties are broken by `seed`.

    `expected`: float64 >= 0, axis 0 the label. `total`: their sum rounded up or down, default to the nearest. Common cases cost
    a fraction of a millisecond at 1,000 cells; what local repair cannot settle is solved as an integer programme.
    """
    ready = whole(expected)
    if ready is not None and (total is None or total == int(ready.sum())):
        return ready
    base = np.floor(expected + _NEAR)
    part = expected - base
    part[part < _NEAR] = 0.0
    if total is None:
        total = round(float(expected.sum()))
    extra = total - int(base.sum())
    free = part > 0
    n_free = int(free.sum())
    if not 0 <= extra <= n_free:
        raise ValueError(f"{expected.sum()} rows cannot be rounded to {total}")
    generator = stream(seed, "controlled rounding")
    if extra in (0, n_free):
        chosen = free if extra else np.zeros_like(free)
    else:
        even = _even_product(part, free, extra, generator)
        chosen = _general(expected, base, part, free, extra, generator) if even is None else even
    return base.astype(np.int64) + chosen


def margin_excess(counts: Counts, expected: Expected) -> list[int]:
    """How many rows each axis has out of place: counts of its values beyond the whole numbers around their expectation."""
    return [int(_beyond(_margin(counts, axis), *_bounds(expected, axis)).sum()) for axis in range(expected.ndim)]


def _margin(values: NDArray[np.generic], axis: int) -> NDArray[np.float64]:
    return values.sum(axis=tuple(other for other in range(values.ndim) if other != axis), dtype=np.float64)


def _bounds(expected: Expected, axis: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    margin = _margin(expected, axis)
    return np.floor(margin + _NEAR), np.ceil(margin - _NEAR)


def _beyond(margin: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(low - margin, 0) + np.maximum(margin - high, 0)


def _even_product(part: Expected, free: NDArray[np.bool_], extra: int, generator: np.random.Generator) -> NDArray[np.bool_] | None:
    """The choice where all fractions are equal and the cells are all combinations of some values of each axis, else None.

    Stepping all axes at once, (i, j, ...) -> (i + 1, j + 1, ...), runs through orbits of lcm(sizes) cells. Any stretch of an
    orbit has even margins on every axis, and a whole orbit exactly even ones: so some whole orbits and a stretch of one.
    """
    parts = part[free]
    if parts.max() - parts.min() > _NEAR:
        return None
    kept = [np.flatnonzero(free.any(axis=tuple(other for other in range(free.ndim) if other != axis))) for axis in range(free.ndim)]
    sizes = [len(values) for values in kept]
    if math.prod(sizes) != parts.size:
        return None
    length, starts = 1, []
    for size in sizes:
        starts.append(math.gcd(size, length))
        length = math.lcm(length, size)
    whole_orbits, stretch = divmod(extra, length)
    orbits = generator.permutation(math.prod(starts))[: whole_orbits + 1]
    steps = np.arange(extra) % length
    steps[whole_orbits * length :] += generator.integers(length)
    heads = np.unravel_index(np.repeat(orbits, length)[:extra], starts)
    cells = [generator.permutation(values)[(head + steps) % len(values)] for values, head in zip(kept, heads, strict=True)]
    chosen = np.zeros_like(free)
    chosen[tuple(cells)] = True
    return chosen


def _general(
    expected: Expected, base: Expected, part: Expected, free: NDArray[np.bool_], extra: int, generator: np.random.Generator
) -> NDArray[np.bool_]:
    bounds = []
    for axis in range(expected.ndim):
        low, high = _bounds(expected, axis)
        settled = _margin(base, axis)
        bounds.append((low - settled, high - settled))
    chosen = _systematic(part, extra, generator)
    for axis in range(1, expected.ndim):
        _move_along(chosen, free, axis, *bounds[axis], generator)
    if not _settled(chosen, bounds):
        _exchange(chosen, free, bounds, generator)
    if not _settled(chosen, bounds):
        chosen = _programme(part, free, extra, bounds, generator)
    return chosen


def _settled(chosen: NDArray[np.bool_], bounds: list[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> bool:
    return all(not _beyond(_margin(chosen, axis), *bound).any() for axis, bound in enumerate(bounds))


def _systematic(part: Expected, extra: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Systematic sampling by the fractions, label after label: the label's margin and the total come out right."""
    label = np.repeat(np.arange(part.shape[0]), part[0].size)
    order = generator.permutation(part.size)
    order = order[np.argsort(label[order], kind="stable")]
    cumulative = np.cumsum(part.ravel()[order])
    top = cumulative[-1]
    remainder = top - math.floor(top + _NEAR)
    if remainder < _NEAR:
        start = generator.random()
    elif extra > top:
        start = remainder * generator.random()
    else:
        start = remainder + (1 - remainder) * generator.random()
    points = np.minimum(np.ceil(cumulative - min(max(start, 1e-6), 1 - 1e-6)).astype(np.int64), extra)
    points[-1] = extra
    chosen = np.zeros(part.size, dtype=bool)
    taken = np.diff(points, prepend=0) > 0
    chosen[order[taken]] = True
    missing = extra - int(chosen.sum())
    if missing:  # rounding put a point on a cell without a fraction, or two on one cell
        chosen &= part.ravel() > 0
        missing = extra - int(chosen.sum())
        chosen[generator.permutation(np.flatnonzero((part.ravel() > 0) & ~chosen))[:missing]] = True
    return chosen.reshape(part.shape)


def _move_along(
    chosen: NDArray[np.bool_],
    free: NDArray[np.bool_],
    axis: int,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    generator: np.random.Generator,
) -> None:
    """Even out one axis by moving rows between its values with all other values kept, so that no other margin changes."""
    picked, open_ = np.moveaxis(chosen, axis, 0), np.moveaxis(free, axis, 0)
    margin = _margin(chosen, axis)
    stuck: set[tuple[int, int]] = set()
    while _beyond(margin, low, high).any():
        move = _best_move(margin, low, high, stuck)
        if move is None:
            return
        giver, taker, wanted = move
        places = np.flatnonzero(picked[giver] & open_[taker] & ~picked[taker])
        if not places.size:
            stuck.add((giver, taker))
            continue
        if places.size > wanted:
            places = generator.permutation(places)[:wanted]
        where = np.unravel_index(places, picked.shape[1:])
        picked[giver][where] = False
        picked[taker][where] = True
        margin[giver] -= places.size
        margin[taker] += places.size
        stuck = {pair for pair in stuck if giver not in pair and taker not in pair}


def _best_move(
    margin: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], stuck: set[tuple[int, int]]
) -> tuple[int, int, int] | None:
    """From which value to which, and how many rows: the largest need that can be served without making another one."""
    over, under, spare, room = margin - high, low - margin, margin - low, high - margin
    best, found = 0.0, None
    for giver in np.flatnonzero(spare > 0):
        for taker in np.flatnonzero(room > 0):
            if giver == taker or (int(giver), int(taker)) in stuck or (over[giver] <= 0 and under[taker] <= 0):
                continue
            # Beyond the need a move would only shuffle; more than spare or room would make a new need.
            wanted = min(max(over[giver], under[taker]), spare[giver], room[taker])
            gain = min(wanted, max(over[giver], 0)) + min(wanted, max(under[taker], 0))
            if gain > best:
                best, found = gain, (int(giver), int(taker), int(wanted))
    return found


def _exchange(
    chosen: NDArray[np.bool_],
    free: NDArray[np.bool_],
    bounds: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
    generator: np.random.Generator,
) -> None:
    """Swap a chosen cell for a free one, both anywhere, as long as that brings margins nearer; at most 64 swaps."""
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
            more = _beyond(margin + 1, low, high) - now
            price = _LABEL_FIRST if axis == 0 else 1.0
            giver, taker = ins[:, axis][:, None], outs[:, axis][None, :]
            change += price * np.where(giver == taker, 0.0, less[giver] + more[taker])
        best = int(np.argmin(change))
        if change.flat[best] >= 0:
            return
        leave, enter = divmod(best, len(outs))
        chosen[tuple(ins[leave])] = False
        chosen[tuple(outs[enter])] = True


def _programme(
    part: Expected,
    free: NDArray[np.bool_],
    extra: int,
    bounds: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
    generator: np.random.Generator,
) -> NDArray[np.bool_]:
    """The choice with the fewest rows out of place, as an integer programme (rarely needed: local repair failed)."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    cells = np.argwhere(free)
    n, margins = len(cells), sum(free.shape)
    offsets = np.cumsum([0, *free.shape[:-1]])
    rows = (cells + offsets).ravel()
    columns = np.repeat(np.arange(n), free.ndim)
    # One slack below and one above each margin, and one row of ones for the total.
    each = np.arange(margins)
    data = np.concatenate([np.ones(n * free.ndim), np.ones(margins), -np.ones(margins), np.ones(n)])
    down = np.concatenate([rows, each, each, np.full(n, margins)])
    across = np.concatenate([columns, n + each, n + margins + each, np.arange(n)])
    matrix = coo_array((data, (down, across)), shape=(margins + 1, n + 2 * margins)).tocsr()
    low = np.concatenate([*(bound[0] for bound in bounds), [extra]])
    high = np.concatenate([*(bound[1] for bound in bounds), [extra]])
    price = np.concatenate([np.full(size, _LABEL_FIRST if axis == 0 else 1.0) for axis, size in enumerate(free.shape)])
    # Ties: small random prices, all of them together below one row out of place.
    tie = (generator.random(n) - part[free]) / (4 * n)
    found = milp(
        np.concatenate([tie, price, price]),
        constraints=LinearConstraint(matrix, low, high),
        bounds=Bounds(0, np.concatenate([np.ones(n), np.full(2 * margins, np.inf)])),
        integrality=np.concatenate([np.ones(n), np.zeros(2 * margins)]),
    )
    if found.x is None:
        raise RuntimeError(f"the integer programme of controlled rounding failed: {found.message}")
    chosen = np.zeros_like(free)
    chosen[free] = found.x[:n] > 0.5
    return chosen
