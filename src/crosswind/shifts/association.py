"""How far two tables of counts are apart: Cramér's V, total variation, ratios of shares, and their
bootstrap intervals.

Intervals redraw both tables from what was observed, as multinomial counts, all draws at once. They
hold 95% unless said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DRAWS = 1000
LARGE = 2_000_000
"""The most numbers that one bootstrap draws at a time; fewer draws of larger tables."""


@final
@dataclass(frozen=True)
class Interval:
    """A number with the bounds of its interval."""

    value: float
    low: float
    high: float


def cramers_v(table: Floats, corrections: float = 1.0, rows: float | None = None) -> Floats:
    """Cramér's V of tables of counts or shares [..., classes, values], corrected for bias (Bergsma
    2013): float64 [...] in [0, 1].

    With r rows and c columns that are not empty and phi2 = chi2 / n, V is sqrt(phi2' / min(r' - 1,
    c' - 1)), where
    phi2' = max(0, phi2 - (r - 1)(c - 1) / (n - 1)), r' = r - (r - 1)^2 / (n - 1), and c' alike.
    `corrections` times the bias is taken off: 0 for the plain V, 2 for a table redrawn from a
    sample, which is off twice. `rows`: the n that shares stand for. With fewer than two rows or
    columns V is 0.
    """
    table = np.asarray(table, dtype=np.float64)
    if rows is None:
        n = table.sum(axis=(-2, -1))
    else:
        n = np.full(table.shape[:-2], rows)
    total = np.maximum(table.sum(axis=(-2, -1), keepdims=True), 1e-300)
    share = table / total
    across = share.sum(axis=-1)
    down = share.sum(axis=-2)
    expected = across[..., :, None] * down[..., None, :]
    zeros = np.zeros_like(share)
    squares = np.divide(share * share, expected, out=zeros, where=expected > 0)
    square = squares.sum(axis=(-2, -1))
    n_rows = (across > 0).sum(axis=-1)
    n_columns = (down > 0).sum(axis=-1)
    inside = np.maximum(n - 1, 1)
    phi = np.maximum(square - 1 - corrections * (n_rows - 1) * (n_columns - 1) / inside, 0)
    rows_left = n_rows - corrections * (n_rows - 1) ** 2 / inside
    columns_left = n_columns - corrections * (n_columns - 1) ** 2 / inside
    less = np.minimum(rows_left, columns_left) - 1
    enough = (n_rows > 1) & (n_columns > 1) & (less > 0)
    squared_v = np.divide(phi, less, out=np.zeros(enough.shape), where=enough)
    v: Floats = np.sqrt(np.minimum(squared_v, 1))
    return v


def total_variation(train: Floats, target: Floats) -> Floats:
    """Half the sum of the differences of shares, of counts [..., values]: float64 [...] in [0,
    1]."""
    out: Floats = 0.5 * np.abs(_shares(train) - _shares(target)).sum(axis=-1)
    return out


def redrawn(counts: Floats, generator: np.random.Generator) -> Floats:
    """Tables drawn like the one observed, the first axis over draws."""
    counts = np.asarray(counts, dtype=np.float64)
    n = int(counts.sum())
    draws = max(100, min(DRAWS, LARGE // max(counts.size, 1)))
    flat = generator.multinomial(n, counts.ravel() / max(n, 1), size=draws).astype(np.float64)
    return flat.reshape(draws, *counts.shape)


def v_interval(train: Floats, target: Floats, generator: np.random.Generator) -> Interval:
    """V in training less V in the target, by their tables of class and value, bias taken off."""
    difference = float(cramers_v(train) - cramers_v(target))
    draws = cramers_v(redrawn(train, generator), 2.0) - cramers_v(redrawn(target, generator), 2.0)
    return _around(difference, draws)


def variation_interval(train: Floats, target: Floats, generator: np.random.Generator) -> Interval:
    """The total variation of two rows of counts; the interval is reflected, since chance adds
    distance and takes none away."""
    distance = float(total_variation(train, target))
    draws = total_variation(redrawn(train, generator), redrawn(target, generator))
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(
        distance,
        min(max(2 * distance - float(high), 0.0), distance),
        max(2 * distance - float(low), distance),
    )


def homogeneity(train: Floats, target: Floats) -> float:
    """The logarithm of p of Pearson's test that two rows of counts have one law."""
    n = float(train.sum())
    m = float(target.sum())
    totals = train + target
    occupied = totals > 0
    if not n or not m or occupied.sum() < 2:
        return 0.0
    gap = train[occupied] * math.sqrt(m / n) - target[occupied] * math.sqrt(n / m)
    statistic = float((gap * gap / totals[occupied]).sum())
    return log_tail(statistic, int(occupied.sum()) - 1)


def ratio_intervals(train: Floats, target: Floats) -> list[Interval]:
    """Share in training over share in the target of each value; without a row in the target
    infinite.

    The interval is Katz's on the log scale, log(ratio) +- 1.96 sqrt(1/a - 1/n + 1/b - 1/m) for a of
    n and b of m rows. For a = 0 it is [0, 3/n over the share in the target], by the rule of three.
    """
    n = float(train.sum())
    m = float(target.sum())
    counts = zip(train.tolist(), target.tolist(), strict=True)
    return [_ratio_interval(a, n, b, m) for a, b in counts]


def _ratio_interval(a: float, n: float, b: float, m: float) -> Interval:
    """The share a of n over the share b of m."""
    if a == 0 and b == 0:
        return Interval(math.nan, 0.0, math.inf)
    if b == 0:
        return Interval(math.inf, (a / n) / rule_of_three(m), math.inf)
    if a == 0:
        return Interval(0.0, 0.0, rule_of_three(n) / (b / m))
    ratio = (a / n) / (b / m)
    half = 1.959964 * math.sqrt(1 / a - 1 / n + 1 / b - 1 / m)
    low = ratio * math.exp(-half)
    high = ratio * math.exp(half)
    return Interval(ratio, low, high)


def rule_of_three(rows: float) -> float:
    """The share that a value may have when `rows` rows show none of it, at 95%: 3 / rows, at most
    1."""
    if rows:
        return min(1.0, 3 / rows)
    return 1.0


def share_interval(rows: int, n_rows: int) -> Interval:
    """The share that `rows` of `n_rows` rows have, with Wilson's interval; for none the rule of
    three."""
    if rows == 0:
        return Interval(0.0, 0.0, rule_of_three(n_rows))
    q = rows / n_rows
    z = 1.959964
    scale = 1 + z * z / n_rows
    middle = (q + z * z / (2 * n_rows)) / scale
    variance = q * (1 - q) / n_rows + z * z / (4 * n_rows * n_rows)
    half = z / scale * math.sqrt(variance)
    low = max(0.0, middle - half)
    high = min(1.0, middle + half)
    return Interval(q, low, high)


def _around(estimate: float, draws: Floats) -> Interval:
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate))


def _shares(counts: Floats) -> Floats:
    counts = np.asarray(counts, dtype=np.float64)
    out: Floats = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1e-300)
    return out


def log_tail(statistic: float, freedom: float) -> float:
    """The logarithm of the probability that chi-squared with `freedom` exceeds `statistic`."""
    from scipy.special import gammaincc

    tail = float(gammaincc(freedom / 2, statistic / 2))
    if tail > 1e-290:
        return math.log(tail)
    half = freedom / 2
    return (
        -statistic / 2 + (half - 1) * math.log(statistic / 2) - math.lgamma(half)
    )  # the first term of its expansion
