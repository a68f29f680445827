"""Intervals of estimated accuracies: from labelled sets of other distributions, or from the rows.

*Interval of a pool.* On every set p of the pool the estimator is e_p and the accuracy a_p. The error is counted in units of
s(e) = FLOOR + |a_S - e|, which grow with the drop from the accuracy a_S on the source. The interval of a target with estimate e is
e + s(e) q, with q the quantiles of the signed scores (a_p - e_p) / s(e_p): split conformal prediction (Vovk et al. 2005) with
normalised scores (Papadopoulos et al. 2002), localised: a set weighs exp(-|e_p - e| / BANDWIDTH) (Guan 2023). A family of the pool
is one observation, shared by its sets, and the family to come weighs as much as one and may lie as far out as can be (Dunn et al.
2023). Between two scores the quantile is interpolated. In quadrature comes the chance of which rows were drawn, those of the source
and the target, as far as it exceeds that of a set of the pool, which is in the scores already. For that the families of a pool
should show rows of their own draw.
FLOOR and BANDWIDTH were chosen on networks of which no reported figure is made, so that weak and strong shifts are covered about
alike. The interval covers where the target misleads the estimator no more than a further family of the pool would, and nowhere else
for certain: `benchmarks/coverage.py` measures it. Where families can be exchanged with the target's it holds 9 times in 10 if the
sets of a family err alike, and more often the less they do.

*Interval of rows.* Source and target rows are drawn anew with replacement; to that variance comes e (1 - e) / n, the chance of n
answers with this accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crosswind.estimators.base import LEVEL, Estimate, Floats

FLOOR = 0.1
"""Room for error where no drop is estimated, as an accuracy."""

BANDWIDTH = 0.1
"""How far apart two estimates are, as accuracies, of which one tells a third as much of the other's error as of its own."""

Z = 1.644854
"""Half the width of a normal 90% interval, in standard errors."""


@dataclass(frozen=True)
class Held:
    """An estimate for a set of the pool that did not learn from the set's family, and its accuracy."""

    family: str
    estimate: float
    accuracy: float
    rows: int


def with_pool(found: Estimate, anchor: float, held: Sequence[Held], n: int, n_source: int) -> Estimate:
    """The estimate with the interval of a pool. `anchor`: the accuracy on the source; `n`, `n_source`: rows of target and source.

    With sets of n_p rows out of the source's n_S the variance p (1 - p) (1 / n_p - 1 / n_S) is in the scores, and that of the
    target is p (1 - p) (1 / n + 1 / n_S). `n_source` is 0 where there is no source.
    """
    value = found.accuracy
    scores = np.array([(item.accuracy - item.estimate) / _room(anchor, item.estimate) for item in held])
    near = np.array([np.exp(-abs(item.estimate - value) / BANDWIDTH) for item in held])
    families = [item.family for item in held]
    low, high = conformal(scores, families, near)
    if not np.isfinite([low, high]).all():
        many = len(set(families))
        short = f"a pool of {many} families is too small for a {LEVEL:.0%} interval, which needs {least_families()}"
        return replace(found, low=0.0, high=1.0, basis="pool", warnings=(*found.warnings, short))
    twice = 2 / n_source if n_source else 0.0
    excess = max(1 / n + twice - float(np.mean([1 / item.rows for item in held])), 0)
    chance = Z * float(np.sqrt(max(value * (1 - value), 0.01) * excess))
    room = _room(anchor, value)
    ends = value - _wider(-room * low, chance), value + _wider(room * high, chance)
    return replace(found, low=float(np.clip(ends[0], 0, 1)), high=float(np.clip(ends[1], 0, 1)), basis="pool")


def _room(anchor: float, value: float) -> float:
    return FLOOR + abs(anchor - value)


def _wider(length: float, chance: float) -> float:
    """The length of one side of an interval with chance added; a negative side, where all errors have one sign, is shortened."""
    return float(np.hypot(length, chance)) if length >= 0 else length + chance


def with_rows(found: Estimate, variance: float, n: int) -> Estimate:
    """The estimate with the interval of rows. `variance`: of the estimate when rows are drawn anew; `n`: rows of the target."""
    error = float(np.sqrt(variance + found.accuracy * (1 - found.accuracy) / n))
    low, high = (float(np.clip(found.accuracy + side * Z * error, 0, 1)) for side in (-1, 1))
    return replace(found, low=low, high=high, basis="rows")


def least_families(level: float = LEVEL, *, sides: int = 1) -> int:
    """The smallest number of families with which an interval ends: 9 by absolute scores, 19 by signed ones, at 90%."""
    return int(np.ceil(sides / (1 - level) - 1 - 1e-9))


def conformal(scores: Floats, families: Sequence[str], near: Floats | None = None, level: float = LEVEL) -> tuple[float, float]:
    """The two numbers between which a further score lies with probability `level`, if its family is as one of these.

    `near`: weights > 0 of the sets, None for equal ones; a family shares its sets' mean out among them. With
    `least_families(sides=2)` the ends are quantiles of the signed scores, with fewer those of their absolute values, with fewer
    than `least_families()` they are infinite.
    """
    names, inverse, counts = np.unique(np.asarray(families), return_inverse=True, return_counts=True)
    if len(names) < least_families(level):
        return -float("inf"), float("inf")
    weight = (np.ones(len(scores)) if near is None else near) / counts[inverse]
    weight = weight / weight.sum() * len(names) / (len(names) + 1)
    if len(names) >= least_families(level, sides=2):
        tail = (1 - level) / 2
        return -_quantile(-scores, weight, 1 - tail), _quantile(scores, weight, 1 - tail)
    end = _quantile(np.abs(scores), weight, level)
    return -end, end


def _quantile(values: Floats, weight: Floats, share: float) -> float:
    """The value below which `share` of the mass lies, between two values interpolated; infinite where all of them have less."""
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weight[order])
    return float(np.interp(share, mass, values[order])) if share <= mass[-1] + 1e-9 else float("inf")
