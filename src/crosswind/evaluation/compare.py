"""Comparisons over seeds: intervals, paired differences, corrections for many comparisons, ranks.

Plain numbers in, plain values out; nothing here knows where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

__all__ = ["Difference", "Ranks", "Summary", "holm", "mean_ranks", "paired", "summary", "t_quantile"]

K = TypeVar("K", bound=Hashable)

# Differences of accuracies that are equal on paper differ in the last bits; a spread below this is none.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Summary:
    """Mean of `n` values, their standard deviation (n - 1 in the denominator) and a t-interval of the mean; None where n < 2."""

    mean: float
    sd: float | None
    n: int
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


@dataclass(frozen=True)
class Difference(Summary):
    """A difference to a reference, paired by seed. `missing` seeds had one side only; `p` is of the two-sided paired t-test."""

    missing: int
    p: float | None

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0. False without a spread: equal differences say nothing about their uncertainty."""
        return self.low is not None and self.high is not None and bool(self.sd) and (self.low > 0 or self.high < 0)


def summary(values: Sequence[float], level: float = 0.95) -> Summary:
    """Mean, standard deviation and the two-sided t-interval of the mean at `level`.

    The interval is mean +- t * sd / sqrt(n) with n - 1 degrees of freedom. It takes the values as
    independent draws from a normal distribution; it is not cut at 0 or 1. Raises `ValueError` where there is no value or one is
    not finite.
    """
    n = len(values)
    if n == 0:
        raise ValueError("there is no value to summarise")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("a value is not finite")
    mean = math.fsum(values) / n
    if n == 1:
        return Summary(mean, None, 1, None, None)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    if sd < _ROUNDING:
        sd = 0.0
    half = t_quantile(n - 1, level) * sd / math.sqrt(n)
    return Summary(mean, sd, n, mean - half, mean + half)


def paired(reference: Mapping[K, float], values: Mapping[K, float], level: float = 0.95) -> Difference | None:
    """Mean of `values - reference` over the seeds that both have, as `summary` gives it; None where they share no seed."""
    shared = [seed for seed in values if seed in reference]
    missing = len(set(values) | set(reference)) - len(shared)
    if not shared:
        return None
    found = summary([values[seed] - reference[seed] for seed in shared], level)
    p = None
    if found.sd:
        from scipy.special import stdtr

        p = float(2 * stdtr(found.n - 1, -abs(found.mean) / (found.sd / math.sqrt(found.n))))
    return Difference(found.mean, found.sd, found.n, found.low, found.high, missing, p)


@cache
def t_quantile(df: int, level: float = 0.95) -> float:
    """The t with P(|T| <= t) = `level` for `df` degrees of freedom."""
    if df < 1 or not 0 < level < 1:
        raise ValueError(f"no t quantile for {df} degrees of freedom at level {level}")
    from scipy.special import stdtrit  # scipy.stats would cost half a second of import

    return float(stdtrit(df, (1 + level) / 2))


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Adjusted p-values that control the chance of any false finding among them (Holm 1979).

    The i-th smallest of m is multiplied by m - i + 1, made monotone and cut at 1. In the order of `p_values`.
    """
    if any(not 0 <= p <= 1 for p in p_values.values()):
        raise ValueError("a p-value is not in [0, 1]")
    adjusted: dict[K, float] = {}
    largest = 0.0
    for rank, key in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[key]))
        adjusted[key] = largest
    return {key: adjusted[key] for key in p_values}


@dataclass(frozen=True)
class Ranks:
    """Mean rank of each name (1 is best) over `blocks`; `left_out` blocks lacked a name, so that their ranks do not compare."""

    mean: Mapping[str, float]
    blocks: int
    left_out: int


def mean_ranks(blocks: Sequence[Mapping[str, float]], higher_is_better: bool = True) -> Ranks:
    """Rank the names inside each block (one data set, shift and seed), equal values sharing the mean of their ranks, and average.

    Only blocks that have every name count. Without such a block the means are empty.
    """
    names = list(dict.fromkeys(name for block in blocks for name in block))
    whole = [block for block in blocks if all(name in block for name in names)]
    totals = dict.fromkeys(names, 0.0)
    for block in whole:
        for name, value in block.items():
            better = sum((other > value) if higher_is_better else (other < value) for other in block.values())
            equal = sum(other == value for other in block.values())
            totals[name] += better + (equal + 1) / 2
    means = {name: total / len(whole) for name, total in totals.items()} if whole else {}
    return Ranks(means, len(whole), len(blocks) - len(whole))
