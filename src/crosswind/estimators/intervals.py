"""Intervals of estimated accuracies: from labelled sets of other distributions, or from the rows.

*Interval of a pool.* On every set p of the pool the estimator is e_p and the accuracy a_p. The
error is counted in units of s(e) = FLOOR + |a_S - e|, which grow with the drop from the accuracy
a_S on the source. The interval of a target with estimate e is e + s(e) q, with q the quantiles of
the signed scores (a_p - e_p) / s(e_p). That is split conformal prediction (Vovk et al. 2005) with
normalised scores (Papadopoulos et al. 2002), localised: a set weighs exp(-|e_p - e| / BANDWIDTH)
(Guan 2023). Where the labels of the target have shifted, a set weighs more if its own have
(`shifted_pool`). A family of the pool is one observation, shared by its sets. The family to come
weighs as much as one and may lie as far out as can be (Dunn et al. 2023). Between two scores the
quantile is interpolated. In quadrature comes the chance of which rows were drawn, those of the
source and the target. It counts as far as it exceeds that of a set of the pool, which is in the
scores already. For that the families of a pool should show rows of their own draw. FLOOR and
BANDWIDTH were chosen on networks of which no reported figure is made, so that weak and strong
shifts are covered about alike. The interval covers where the target misleads the estimator no more
than a further family of the pool would, and nowhere else for certain:
`benchmarks/papers/interval_coverage.py` measures it. Where families can be exchanged with the
target's it holds 9 times in 10 if the sets of a family err alike, and more often the less they do.

*Interval of rows.* Source and target rows are drawn anew with replacement, which tells how far the
estimate moves. Few rows make that a guess, so that its quantile is Student's for as many rows. Rows
drawn anew hold no mistake where there is none. So each side is at least as long as the exact bounds
of the source's accuracy (Clopper and Pearson 1934) lie from the estimate for the source itself. In
quadrature come the exact bounds of n answers of which a share e is right, the chance of the target.
No interval of a pool is narrower than the chance of source and target around its own middle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from crosswind.estimators.base import LEVEL, Estimate, Floats
from crosswind.evaluation import binomial

FLOOR = 0.1
"""Room for error where no drop is estimated, as an accuracy."""

BANDWIDTH = 0.1
"""How far apart two estimates are, as accuracies, of which one tells a third as much of the other's
error as of its own."""

Z = 1.644854
"""Half the width of a normal 90% interval, in standard errors."""


DOUBTFUL = 0.05
"""Mean error on the sets of a pool with about this estimate, as an accuracy, above which there is a
warning. Chosen on networks of which no reported figure is made."""

DOUBT = "where it gave about this estimate on changed copies of labelled rows, it erred by"

FEW = 30
"""Labelled rows of the source below which there is a warning: of 29 that are all right, 9.8% of the
answers may be wrong."""


@dataclass(frozen=True)
class Held:
    """An estimate for a set of the pool that did not learn from the set's family, and its accuracy.
    `like`: how much the set resembles the target by the shares of its labels."""

    family: str
    estimate: float
    accuracy: float
    rows: int
    like: float = 1.0

    @property
    def error(self) -> float:
        """How far the estimate is off."""
        return abs(self.estimate - self.accuracy)


@dataclass(frozen=True)
class DrawnSource:
    """The labelled rows of a source: the share `right`, how many, and what the estimator says of
    them, `estimate`. `read`: whether it learns from them."""

    right: float
    rows: int
    estimate: float
    read: bool = True


def with_pool(
    estimate: Estimate, anchor: float, held_out: Sequence[Held], n: int, n_source: int
) -> Estimate:
    """The estimate with the interval of a pool. `anchor`: the accuracy on the source; `n`,
    `n_source`: rows of target and source.

    With sets of n_p rows out of the source's n_S the variance p (1 - p) (1 / n_p - 1 / n_S) is in
    the scores, and that of the target is p (1 - p) (1 / n + 1 / n_S). `n_source` is 0 where there
    is no source.
    """
    value = estimate.accuracy
    scores = np.array(
        [
            (pool_set.accuracy - pool_set.estimate) / _room(anchor, pool_set.estimate)
            for pool_set in held_out
        ]
    )
    nearness = np.array(
        [
            pool_set.like * np.exp(-abs(pool_set.estimate - value) / BANDWIDTH)
            for pool_set in held_out
        ]
    )
    nearness = np.maximum(nearness, 1e-12)
    warnings = (*estimate.warnings, *_doubt(estimate, held_out, nearness))
    estimate = replace(estimate, warnings=warnings)
    families = [pool_set.family for pool_set in held_out]
    low, high = conformal(scores, families, nearness)
    if not np.isfinite([low, high]).all():
        n_families = len(set(families))
        short = (
            f"a pool of {n_families} families is too small for a {LEVEL:.0%} interval, which needs"
            f" {least_families()}"
        )
        return replace(
            estimate, low=0.0, high=1.0, basis="pool", warnings=(*estimate.warnings, short)
        )
    twice = 2 / n_source if n_source else 0.0
    excess = max(1 / n + twice - float(np.mean([1 / pool_set.rows for pool_set in held_out])), 0)
    chance = Z * float(np.sqrt(max(value * (1 - value), 0.01) * excess))
    room = _room(anchor, value)
    length = -room * low
    ends = _cut(value - _wider(length, chance)), _cut(value + _wider(room * high, chance))
    # Where neither the pool nor the rows hold a mistake all of these lengths are 0.
    middle = (ends[0] + ends[1]) / 2
    source = DrawnSource(anchor, n_source, anchor) if n_source else None
    below, above = _chance_of_rows(middle, n, source)
    lowest = _cut(min(ends[0], middle - below))
    highest = _cut(max(ends[1], middle + above))
    return replace(estimate, low=lowest, high=highest, basis="pool")


def _doubt(estimate: Estimate, held_out: Sequence[Held], nearness: Floats) -> tuple[str, ...]:
    """The warning that it erred much on the sets that had about this estimate."""
    error = float(np.average([pool_set.error for pool_set in held_out], weights=nearness))
    if error <= DOUBTFUL:
        return ()
    return (f"{DOUBT} {100 * error:.0f} points on average",)


def mean_error(held_out: Sequence[Held]) -> float:
    """The mean absolute error, families alike, and of each those sets most that resemble the
    target."""
    sets_of_family = Counter(pool_set.family for pool_set in held_out)
    weights = [pool_set.like / sets_of_family[pool_set.family] for pool_set in held_out]
    return float(np.average([pool_set.error for pool_set in held_out], weights=weights))


def _cut(value: float) -> float:
    return float(np.clip(value, 0, 1))


def _room(anchor: float, value: float) -> float:
    return FLOOR + abs(anchor - value)


def _wider(length: float, chance: float) -> float:
    """The length of one side of an interval with chance added; a negative side, where all errors
    have one sign, is shortened."""
    if length >= 0:
        return float(np.hypot(length, chance))
    return length + chance


def with_rows(
    estimate: Estimate, variance: float, n: int, source: DrawnSource | None = None
) -> Estimate:
    """The estimate with the interval of rows. `variance`: of the estimate when rows are drawn anew;
    `n`: rows of the target; `source`: what is known of the labelled rows, None without any."""
    if source is not None and source.read:
        learned = source.rows
    else:
        learned = n
    if learned < 2:
        moved = 1.0
    else:
        half = np.sqrt(variance * learned / (learned - 1))
        moved = float(stdtrit(learned - 1, (1 + LEVEL) / 2) * half)
    below, above = _chance_of_rows(estimate.accuracy, n, source, moved)
    low = _cut(estimate.accuracy - below)
    high = _cut(estimate.accuracy + above)
    return replace(estimate, low=low, high=high, basis="rows")


def exact_bounds(share: float, rows: int, level: float = LEVEL) -> tuple[float, float]:
    """The bounds of Clopper and Pearson (1934) for the probability behind a share of so many
    rows."""
    return binomial.exact_bounds(share, rows, level)


def few_rows(n_source: int) -> tuple[str, ...]:
    """The warning that the source has too few labelled rows to learn from; none where there are
    none at all."""
    if not 0 < n_source < FEW:
        return ()
    counted_rows = "1 labelled row" if n_source == 1 else f"{n_source} labelled rows"
    return (
        f"the source has {counted_rows}, from which little can be learned; give {FEW} at least",
    )


def _chance_of_rows(
    value: float, n: int, source: DrawnSource | None, moved: float = 0.0
) -> tuple[float, float]:
    """How far below and above `value` chance reaches: that of the source's rows, at least `moved`,
    and that of the target's."""
    below = above = moved
    if source is not None:
        low, high = exact_bounds(source.right, source.rows)
        below = max(moved, source.estimate - low)
        above = max(moved, high - source.estimate)
    least, greatest = exact_bounds(value, n)
    return float(np.hypot(below, value - least)), float(np.hypot(above, greatest - value))


def least_families(level: float = LEVEL, *, sides: int = 1) -> int:
    """The smallest number of families with which an interval ends: 9 by absolute scores, 19 by
    signed ones, at 90%."""
    return int(np.ceil(sides / (1 - level) - 1 - 1e-9))


def conformal(
    scores: Floats, families: Sequence[str], nearness: Floats | None = None, level: float = LEVEL
) -> tuple[float, float]:
    """The two numbers between which a further score lies with probability `level`, if its family is
    as one of these.

    `nearness`: weights > 0 of the sets, None for equal ones; a family shares its sets' mean out
    among
    them. With `least_families(sides=2)` the ends are quantiles of the signed scores, with fewer
    those of their absolute values, with fewer than `least_families()` they are infinite.
    """
    names, inverse, counts = np.unique(
        np.asarray(families), return_inverse=True, return_counts=True
    )
    if len(names) < least_families(level):
        return -float("inf"), float("inf")
    weight = (np.ones(len(scores)) if nearness is None else nearness) / counts[inverse]
    weight = weight / weight.sum() * len(names) / (len(names) + 1)
    if len(names) >= least_families(level, sides=2):
        tail = (1 - level) / 2
        return -_quantile(-scores, weight, 1 - tail), _quantile(scores, weight, 1 - tail)
    end = _quantile(np.abs(scores), weight, level)
    return -end, end


def _quantile(values: Floats, weight: Floats, share: float) -> float:
    """The value below which `share` of the mass lies, between two values interpolated; infinite
    where all of them have less."""
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weight[order])
    if share <= mass[-1] + 1e-9:
        return float(np.interp(share, mass, values[order]))
    return float("inf")
