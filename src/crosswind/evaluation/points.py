"""Points of a pool of networks as columns, lines and rank correlations in one cell of it, and
averages over cells.

What `crosswind.evaluation.pools` is made of. Every number is computed for all draws of networks at
once. A draw is a row of weights, how often it takes each network; the first row takes each once. A
number of a cell is float64 [draws], NaN where a draw has none, or the reason why there is none at
all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.seeds import stream
from crosswind.evaluation.compare import t_quantile

LEVEL = 0.9
"""Of every interval."""

Z = 1.644854
"""Half the width of a normal 90% interval, in standard errors."""

LEAST = 3
"""Networks below which a cell has no number."""

LEAST_FOR_INTERVAL = 5
"""Networks below which a number has no interval: drawing so few anew says little."""

RESAMPLES = 1000

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Found = Floats | str
"""A number of a cell for each draw, or why there is none."""


@final
@dataclass(frozen=True)
class Point:
    """A network on the rows of one test domain.

    `network`: its name; it has one `training` domain and one `architecture`. `value`: of a measure,
    in any unit, or an estimated accuracy. `accuracy` in [0, 1]. `low`, `high`: the interval of an
    estimate. `source`: the accuracy on the training domain. `severity`: of a synthetic shift.
    """

    network: str
    training: str
    test: str
    value: float
    accuracy: float
    architecture: str = ""
    low: float | None = None
    high: float | None = None
    source: float | None = None
    severity: float | None = None
    synthetic: bool = False


@final
@dataclass(frozen=True)
class Number:
    """A number with its interval; `value` is None where it is undefined, and `why` says the reason,
    also of a missing interval.

    `cells` are averaged; `left_out` more were undefined.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    cells: int = 0
    left_out: int = 0
    why: str = ""


class Cell(NamedTuple):
    """The networks of a pool that were trained on one domain, on a test domain; all by code."""

    pool: int
    training: int
    test: int


class PointRule(NamedTuple):
    """The points that a line is fitted on, in words and as a mask; the last argument is the
    architecture, or -1 for any.

    `uses_target_labels`: among them are accuracies on the test domain whose accuracies are
    predicted. `by_architecture`: each architecture has a line of its own.
    """

    words: str
    uses_target_labels: bool
    by_architecture: bool
    fitted_on: Callable[[Columns, Cell, int], Mask]


@dataclass(frozen=True, eq=False)
class Columns:
    """The table as columns [n], names as codes, and the weights of the draws, float64 [draws,
    networks].

    `cells`: those that have points and whose test domain is not the training domain.
    """

    value: Floats
    accuracy: Floats
    network: Rows
    architecture: Rows
    pool: Rows
    training: Rows
    test: Rows
    weights: Floats
    cells: tuple[Cell, ...] = ()

    def of_cell(self, cell: Cell) -> Mask:
        """Which points a cell has."""
        return np.asarray(
            (self.pool == cell.pool) & (self.training == cell.training) & (self.test == cell.test)
        )


HELD: Mapping[str, PointRule] = {
    "training": PointRule(
        "networks trained on domains other than i and o, on o (section 4.3)",
        True,
        False,
        lambda at, cell, _: (
            (at.pool == cell.pool)
            & (at.training != cell.training)
            & (at.training != cell.test)
            & (at.test == cell.test)
        ),
    ),
    "test": PointRule(
        "networks trained on i, on test domains other than o, i among them",
        False,
        False,
        lambda at, cell, _: (
            (at.pool == cell.pool) & (at.training == cell.training) & (at.test != cell.test)
        ),
    ),
    "in-sample": PointRule(
        "the very points that it predicts", True, False, lambda at, cell, _: at.of_cell(cell)
    ),
    "architecture": PointRule(
        "networks of other architectures trained on domains other than o, on o",
        True,
        True,
        lambda at, cell, kind: (
            (at.architecture != kind) & (at.training != cell.test) & (at.test == cell.test)
        ),
    ),
    "architecture and test": PointRule(
        "networks of other architectures, on test domains other than o",
        False,
        True,
        lambda at, cell, kind: (at.architecture != kind) & (at.test != cell.test),
    ),
}
"""What a line for training domain i and test domain o is fitted on. Rules without `by_architecture`
stay inside the pool."""


# -- the table -------------------------------------------------------------------------------------


def read(points: Sequence[Point], resamples: int, by_architecture: bool) -> Columns:
    """The table with `resamples` draws of networks; `by_architecture` as in `judge`. Raises
    `ValueError` for what is no table."""
    if not points:
        raise ValueError("there are no points to judge")
    value, accuracy = (
        np.array([getattr(point, name) for point in points], dtype=np.float64)
        for name in ("value", "accuracy")
    )
    if not np.isfinite(value).all():
        raise ValueError("a value of the points is not finite")
    if not ((accuracy >= 0) & (accuracy <= 1)).all():
        raise ValueError("an accuracy of the points is not in [0, 1]")
    n_networks = _count_networks(points)
    names = {point.training for point in points} | {point.test for point in points}
    domains = {name: code for code, name in enumerate(sorted(names))}
    network, architecture = (
        np.unique([getattr(point, name) for point in points], return_inverse=True)[1]
        for name in ("network", "architecture")
    )
    drawn = stream(0, "networks of pools").multinomial(
        n_networks, np.full(n_networks, 1 / n_networks), size=resamples
    )
    own_line = architecture if by_architecture else np.zeros_like(architecture)
    training_domain = np.array([domains[point.training] for point in points])
    test_domain = np.array([domains[point.test] for point in points])
    draws_of_networks = np.concatenate([np.ones((1, n_networks)), drawn])
    columns = Columns(
        value,
        accuracy,
        network,
        architecture,
        own_line,
        training_domain,
        test_domain,
        draws_of_networks,
    )
    codes = (columns.pool.tolist(), columns.training.tolist(), columns.test.tolist())
    cells = map(Cell._make, sorted(set(zip(*codes, strict=True))))
    return replace(columns, cells=tuple(cell for cell in cells if cell.training != cell.test))


def _count_networks(points: Sequence[Point]) -> int:
    """How many networks there are. Raises `ValueError` for one with two training domains or
    architectures."""
    kinds: dict[str, tuple[str, str]] = {}
    for point in points:
        kind = (point.training, point.architecture)
        if kinds.setdefault(point.network, kind) != kind:
            raise ValueError(
                f"network {point.network!r} has two training domains or architectures: give each"
                " network its own name"
            )
    return len(kinds)


def pairs(first_codes: Rows, second_codes: Rows, mask: Mask) -> list[tuple[int, int]]:
    """The pairs of codes that occur, in order."""
    return sorted(set(zip(first_codes[mask].tolist(), second_codes[mask].tolist(), strict=True)))


# -- numbers of one cell ---------------------------------------------------------------------------


_SAME = "all networks have the same accuracy"


def _constant(values: Floats) -> bool:
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def _refused(columns: Columns, rows: Rows) -> str:
    if len(np.unique(columns.network[rows])) < LEAST:
        return f"fewer than {LEAST} networks"
    if _constant(columns.value[rows]):
        return "all networks have the same value"
    if _constant(columns.accuracy[rows]):
        return _SAME
    return ""


def cell_tau(columns: Columns, rows: Rows) -> Found:
    """Kendall's tau-b of value and accuracy over some points."""
    return _refused(columns, rows) or tau_b(
        columns.value[rows], columns.accuracy[rows], columns.weights[:, columns.network[rows]]
    )


def tau_b(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Kendall's tau-b of n points, each taken as often as `weights` [draws, n] says: [draws], NaN
    where one side has no two values.

    As `scipy.stats.kendalltau`, but for all draws at once. A pair counts w_i w_j times, and a point
    that is taken twice makes a pair that is tied on both sides, which counts nowhere.
    """
    if not len(x):
        return np.full(len(weights), np.nan)
    sides = [np.sign(side[:, None] - side[None, :]).astype(np.float32) for side in (x, y)]
    taken = weights.astype(np.float32)

    def counted(pairs: NDArray[np.float32]) -> Floats:
        return np.asarray(((taken @ pairs).astype(np.float64) * weights).sum(axis=1))

    agree = counted(sides[0] * sides[1])
    first = counted(np.abs(sides[0]))
    second = counted(np.abs(sides[1]))
    return _ratio(agree, np.sqrt(first * second))


def across(columns: Columns, shifted: Mask) -> list[tuple[int, Found]]:
    """Kendall's tau over the test domains of each network, averaged over networks; one entry a
    pool."""
    taus_by_pool: list[tuple[int, Found]] = []
    for pool in np.unique(columns.pool):
        taus = []
        for network in np.unique(columns.network[shifted & (columns.pool == pool)]):
            rows = np.flatnonzero(shifted & (columns.network == network))
            if len(np.unique(columns.test[rows])) >= LEAST:
                tau = tau_b(columns.value[rows], columns.accuracy[rows], np.ones((1, len(rows))))[0]
                if not math.isnan(tau):
                    taus += [(network, tau)]
        if not taus:
            taus_by_pool.append((pool, f"no network has {LEAST} test domains of different values"))
            continue
        weights = columns.weights[:, [network for network, _ in taus]]
        above = weights @ np.array([tau for _, tau in taus])
        below = weights.sum(axis=1)
        mean_tau = _ratio(above, below)
        taus_by_pool.append((pool, mean_tau))
    return taus_by_pool


def _line(table: Columns, mask: Mask) -> tuple[Floats, Floats] | None:
    """Slope and intercept by least squares for each draw, from sums by network; None where there is
    no line."""
    rows = np.flatnonzero(mask)
    if len(np.unique(table.network[rows])) < LEAST or _constant(table.value[rows]):
        return None
    mean = float(table.value[rows].mean())
    x = table.value[rows] - mean
    y = table.accuracy[rows]
    n_draws = table.weights.shape[1]
    columns = []
    for term in (np.ones_like(x), x, y, x * x, x * y):
        columns.append(np.bincount(table.network[rows], weights=term, minlength=n_draws))
    n, sx, sy, sxx, sxy = (table.weights @ np.stack(columns, axis=1)).T
    spread = n * sxx - sx * sx
    above = n * sxy - sx * sy
    below = np.where(spread > 1e-12 * n * n * np.ptp(x) ** 2, spread, 0.0)
    slope = _ratio(above, below)
    return slope, _ratio(sy - slope * sx, n) - slope * mean


def predicted(columns: Columns, cell: Cell, rows: Rows, held_out: str) -> Floats:
    """Predictions [draws, rows] for the points of a cell, NaN where there is no line; "estimate"
    takes the values themselves."""
    draws = len(columns.weights)
    if held_out == "estimate":
        return np.broadcast_to(columns.value[rows], (draws, len(rows)))
    rule = HELD[held_out]
    predictions = np.full((draws, len(rows)), np.nan)
    if rule.by_architecture:
        kinds = np.unique(columns.architecture[rows])
    else:
        kinds = np.array([-1])
    for kind in kinds:
        mask = rule.fitted_on(columns, cell, int(kind))
        line = _line(columns, mask)
        if line is not None:
            if rule.by_architecture:
                mine = columns.architecture[rows] == kind
            else:
                mine = np.ones(len(rows), dtype=bool)
            values_of_mine = columns.value[rows][mine]
            predictions[:, mine] = line[0][:, None] * values_of_mine + line[1][:, None]
    return predictions


def errors(columns: Columns, cell: Cell, rows: Rows, held_out: str) -> tuple[Found, ...]:
    """Squared correlation, 1 - SSE/SST, mean absolute and mean signed error in percentage
    points."""
    predictions = predicted(columns, cell, rows, held_out)
    rows = rows[~np.isnan(predictions[0])]
    predictions = predictions[:, ~np.isnan(predictions[0])]
    if not len(rows):
        return ("there is nothing to fit the line on",) * 4
    if len(np.unique(columns.network[rows])) < LEAST:
        return (f"fewer than {LEAST} networks",) * 4
    x = columns.value[rows] - columns.value[rows].mean()
    y = columns.accuracy[rows] - columns.accuracy[rows].mean()
    weights = np.where(np.isnan(predictions), 0.0, columns.weights[:, columns.network[rows]])
    error = np.where(np.isnan(predictions), 0.0, predictions - columns.accuracy[rows])
    n = weights.sum(axis=1)
    sst = weights @ (y * y) - _ratio((weights @ y) ** 2, n)
    sxx = weights @ (x * x) - _ratio((weights @ x) ** 2, n)
    above = (weights @ x) * (weights @ y)
    sxy = weights @ (x * y) - _ratio(above, n)
    sst = np.where(sst > 1e-12 * n * np.ptp(y) ** 2, sst, 0.0)
    sxx = np.where(sxx > 1e-12 * n * np.ptp(x) ** 2, sxx, 0.0)
    mae = 100 * _ratio((weights * np.abs(error)).sum(axis=1), n)
    bias = 100 * _ratio((weights * error).sum(axis=1), n)
    flat = _SAME if _constant(columns.accuracy[rows]) else ""
    explained = flat or 1 - _ratio((weights * error**2).sum(axis=1), sst)
    return _refused(columns, rows) or _ratio(sxy**2, sxx * sst), explained, mae, bias


def _ratio(above: Floats, below: Floats) -> Floats:
    is_defined = ~np.isnan(below) & (below != 0)
    undefined = np.full(np.shape(above), np.nan)
    return np.divide(above, below, out=undefined, where=is_defined)


# -- from cells to numbers -------------------------------------------------------------------------


def mean_of(cells: Sequence[tuple[int, Found]]) -> tuple[Floats | None, str]:
    """The mean over pools of the mean over cells, [draws], and why cells were left out. A draw
    takes the cells that it has."""
    reasons = "; ".join(dict.fromkeys(value for _, value in cells if isinstance(value, str)))
    usable = [(pool, value) for pool, value in cells if not isinstance(value, str)]
    if not usable:
        return None, reasons or "there are no points of this kind"
    pools = []
    for name in dict.fromkeys(pool for pool, _ in usable):
        pools.append(_nanmean([value for pool, value in usable if pool == name]))
    return _nanmean(pools), reasons


def _nanmean(draws: Sequence[Floats]) -> Floats:
    stacked = np.stack(draws)
    above = np.where(np.isnan(stacked), 0.0, stacked).sum(axis=0)
    below = (~np.isnan(stacked)).sum(axis=0).astype(np.float64)
    return _ratio(above, below)


def standard_error(draws: Floats, networks: int) -> float | None:
    """From the 5% and 95% quantiles of the draws, as of a normal distribution, times sqrt(G / (G -
    1)) for G networks.

    Quantiles, since a draw of next to equal accuracies makes 1 - SSE/SST as low as may be. None
    where fewer than half of the draws have a number, or there are fewer than `LEAST_FOR_INTERVAL`
    networks.
    """
    finite = draws[1:][~np.isnan(draws[1:])]
    if networks < LEAST_FOR_INTERVAL or not 2 * len(finite) >= len(draws) - 1 > 0:
        return None
    low, high = np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(high - low) / (2 * Z) * math.sqrt(networks / (networks - 1))


def average(
    cells: Sequence[tuple[int, Found]],
    networks: int,
    least: float = -math.inf,
    highest: float = math.inf,
) -> Number:
    """The average as `mean_of` takes it, with its interval, cut to what the number can be."""
    draws, why = mean_of(cells)
    left_out = sum(isinstance(cell_value, str) for _, cell_value in cells)
    if draws is None:
        return Number(None, left_out=left_out, why=why)
    value = float(draws[0])
    count = len(cells) - left_out
    error = standard_error(draws, networks)
    if error is None:
        short = "no interval: few draws have a number"
        if networks < LEAST_FOR_INTERVAL:
            short = f"no interval from {networks} networks"
        return Number(
            value, cells=count, left_out=left_out, why="; ".join(filter(None, (why, short)))
        )
    half = t_quantile(networks - 1, LEVEL) * error
    low = max(least, value - half)
    high = min(highest, value + half)
    return Number(value, low, high, count, left_out, why)
