"""The ratio of two laws as a product of factors: how often training shows a row, beside the target.

Both tables are counted together, by distinct row: `train[i]` and `target[i]` rows carry the same
values. p is the probability that a row of the pool comes from training. Under weights on cells
log(p / (1 - p)) is a sum of one number for each level of each factor (Qin 1998). So a logistic
regression on factors estimates the weights, and Rao's score test says whether a further factor is
needed beside those in the model. A factor is an integer level for each distinct row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.shifts.association import log_tail

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RIDGE = 0.02
"""The weight of the squared parameters: keeps them finite where a level was seen on one side only.
"""
SPARSE = 1.0
"""Added to the variance of every direction of a test: where a row or less is expected, one more is
no wonder."""


@final
@dataclass(frozen=True, eq=False)
class Factor:
    """`level` int64 [m], each in [0, size)."""

    level: Ints
    size: int

    def __matmul__(self, values: Floats) -> Floats:
        """The sum of `values` [m] over each level: float64 [size]."""
        out: Floats = np.bincount(self.level, values, self.size).astype(np.float64, copy=False)
        return out


@final
@dataclass(frozen=True, eq=False)
class LoglinearPool:
    """Distinct rows of both tables: `codes` int64 [1 + attributes, m], the label first; `train`,
    `target` float64 [m]."""

    codes: Ints
    sizes: tuple[int, ...]
    train: Floats
    target: Floats

    @property
    def rows(self) -> Floats:
        """The number of rows of both tables: float64 [m]."""
        return self.train + self.target

    def main(self, axis: int) -> Factor:
        """The values of the label (0) or an attribute."""
        level = self.codes[axis]
        size = self.sizes[axis]
        return Factor(level, size)

    def cross(self, axis: int) -> Factor:
        """The pairs of class and value."""
        level = self.codes[0] * self.sizes[axis] + self.codes[axis]
        size = self.sizes[0] * self.sizes[axis]
        return Factor(level, size)

    def by_pair(self, axis: int, level: NDArray[np.integer]) -> Factor:
        """The level that a table [classes, values] gives to each pair."""
        size = int(level.max()) + 1
        return Factor(np.asarray(level, dtype=np.int64)[self.codes[0], self.codes[axis]], size)

    def table(self, axis: int, values: Floats) -> Floats:
        """Sums of `values` [m] by class and value: float64 [classes, values]."""
        return (self.cross(axis) @ values).reshape(self.sizes[0], self.sizes[axis])


@final
@dataclass(frozen=True, eq=False)
class LoglinearFit:
    """A fitted product: `p` float64 [m], the factors, the inverse of their information, and the log
    likelihood."""

    p: Floats
    factors: tuple[Factor, ...]
    inverse: Floats
    log_likelihood: float


@final
@dataclass(frozen=True)
class Test:
    """A score test: statistic, degrees of freedom and the natural logarithm of its p-value."""

    statistic: float
    freedom: float
    log_p: float


def fit(pool: LoglinearPool, factors: Sequence[Factor]) -> LoglinearFit:
    """The most likely product of `factors`, by Newton's method with halved steps; a constant is
    always in it."""
    rows = pool.rows
    train = pool.train
    level = np.zeros(len(rows), dtype=np.int64)
    factors = (Factor(level, 1), *factors)
    sizes = [factor.size for factor in factors]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    theta = np.zeros(starts[-1])
    share = train.sum() / rows.sum()
    theta[0] = math.log(share / (1 - share))
    penalty = np.full(len(theta), RIDGE)
    penalty[0] = 1e-9

    def predictor(theta: Floats) -> Floats:
        total = np.zeros(len(rows))
        for factor, start in zip(factors, starts[:-1], strict=True):
            total += theta[start + factor.level]
        return np.clip(total, -30, 30)

    def likelihood(eta: Floats, theta: Floats) -> float:
        return float(train @ eta - rows @ np.log1p(np.exp(eta)) - 0.5 * penalty @ (theta * theta))

    eta = predictor(theta)
    now = likelihood(eta, theta)
    information = np.eye(len(theta))
    for _ in range(40):
        p = 1 / (1 + np.exp(-eta))
        information = _information(factors, starts, rows * p * (1 - p))
        information[np.diag_indices(len(theta))] += penalty
        gradient = (
            np.concatenate([factor @ (train - rows * p) for factor in factors]) - penalty * theta
        )
        step = np.linalg.solve(information, gradient)
        for _ in range(12):
            stepped = predictor(theta + step)
            then = likelihood(stepped, theta + step)
            if then >= now - 1e-9:
                break
            step = step / 2
        gain = then - now
        theta = theta + step
        eta = stepped
        now = then
        if gain < 1e-5:
            break
    p = 1 / (1 + np.exp(-eta))
    weight = rows * p * (1 - p)
    information = _information(factors, starts, weight)
    information[np.diag_indices(len(theta))] += penalty
    inverse = np.linalg.inv(information).astype(np.float64, copy=False)
    return LoglinearFit(p, tuple(factors), inverse, now)


def _information(factors: Sequence[Factor], starts: Ints, weight: Floats) -> Floats:
    out = np.zeros((starts[-1], starts[-1]))
    for i, row_factor in enumerate(factors):
        for j, column_factor in enumerate(factors[: i + 1]):
            block = np.bincount(
                row_factor.level * column_factor.size + column_factor.level,
                weight,
                row_factor.size * column_factor.size,
            ).reshape(row_factor.size, column_factor.size)
            out[starts[i] : starts[i + 1], starts[j] : starts[j + 1]] = block
            out[starts[j] : starts[j + 1], starts[i] : starts[i + 1]] = block.T
    return out


def score_test(pool: LoglinearPool, fitted: LoglinearFit, factor: Factor) -> Test:
    """Whether the pool asks for `factor` beside those of `fitted`."""
    weight = pool.rows * fitted.p * (1 - fitted.p)
    residual = factor @ (pool.train - pool.rows * fitted.p)
    between = []
    for fitted_factor in fitted.factors:
        between.append(
            np.bincount(
                fitted_factor.level * factor.size + factor.level,
                weight,
                fitted_factor.size * factor.size,
            ).reshape(fitted_factor.size, factor.size)
        )
    shared = np.concatenate(between)
    variance = np.diag(factor @ weight) - shared.T @ fitted.inverse @ shared
    size, direction = np.linalg.eigh((variance + variance.T) / 2)
    size = np.where(size > 1e-6 * max(float(size[-1]), 1.0), size, 0.0)
    statistic = float(
        (np.where(size > 0, (direction.T @ residual) ** 2, 0.0) / (size + SPARSE)).sum()
    )
    freedom = float((size / (size + SPARSE)).sum())  # its expectation
    log_p = log_tail(statistic, freedom) if freedom > 0.1 else 0.0
    return Test(statistic, freedom, log_p)


def rake(pool: LoglinearPool, start: Floats, factors: Sequence[Factor], sweeps: int = 60) -> Floats:
    """The law nearest to `start` [m] in which every factor has training's shares: float64 [m], sum
    1.

    Iterative proportional fitting (Deming and Stephan 1940). A level that `start` lacks stays
    without mass.
    """
    weight = start / start.sum()
    train = pool.train / pool.train.sum()
    goals = [factor @ train for factor in factors]
    for _ in range(sweeps):
        worst = 0.0
        for factor, goal in zip(factors, goals, strict=True):
            have = factor @ weight
            scale = np.divide(goal, have, out=np.zeros_like(goal), where=have > 0)
            worst = max(worst, float(np.abs(have - goal)[have > 0].max(initial=0)))
            weight = weight * scale[factor.level]
        total = weight.sum()
        if total <= 0:
            return start / start.sum()
        weight = weight / total
        if worst < 1e-5:
            break
    return weight
