"""Comparisons over seeds and split seeds: intervals, paired differences, corrections for many
comparisons, ranks.

Plain numbers in, plain values out; nothing here knows where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

K = TypeVar("K", bound=Hashable)

# Differences of accuracies that are equal on paper differ in the last bits; a spread below this is
# none.
_ROUNDING = 1e-12


class Seeds(NamedTuple):
    """The seeds of a run where a study has several split seeds: it is run at every pair of both."""

    split: int
    seed: int

    def __str__(self) -> str:
        return f"{self.seed} of split {self.split}"


@dataclass(frozen=True)
class DifferenceSummary:
    """Mean of `n` values, their standard deviation (n - 1 in the denominator) and an interval of
    the mean; None where n < 2.

    `splits`: the split seeds among the values; with several, `n` is their number times that of the
    seeds. `left_out`: values that are not used, since their split seed or seed lacks others.
    """

    mean: float
    sd: float | None
    n: int
    low: float | None
    high: float | None
    splits: int = 1
    left_out: int = 0

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2

    @property
    def crossed(self) -> bool:
        """Whether several split seeds have several seeds each: the interval is then not that of the
        t-test, whose power says nothing of it."""
        return 1 < self.splits < self.n


@dataclass(frozen=True)
class Difference(DifferenceSummary):
    """A difference to a reference, paired by run. `missing` runs had one side only or are left out.

    `p` is two-sided and agrees with the interval: it is below 1 - level where the interval excludes
    0. None without a spread.
    """

    missing: int = 0
    p: float | None = None

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0. False without a spread: equal differences say nothing
        about their uncertainty."""
        return (
            self.low is not None
            and self.high is not None
            and bool(self.sd)
            and (self.low > 0 or self.high < 0)
        )


def summary(values: Sequence[float], level: float = 0.95) -> DifferenceSummary:
    """Mean, standard deviation and the two-sided t-interval of the mean at `level`.

    The interval is mean +- t * sd / sqrt(n) with n - 1 degrees of freedom. It takes the values as
    independent draws from a normal distribution; it is not cut at 0 or 1. Raises `ValueError` where
    there is no value or one is not finite.
    """
    n = len(values)
    if n == 0:
        raise ValueError("there is no value to summarise")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("a value is not finite")
    mean = math.fsum(values) / n
    if n == 1:
        return DifferenceSummary(mean, None, 1, None, None)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    if sd < _ROUNDING:
        sd = 0.0
    half = t_quantile(n - 1, level) * sd / math.sqrt(n)
    low = mean - half
    high = mean + half
    return DifferenceSummary(mean, sd, n, low, high)


def over_runs(values: Mapping[Any, float], level: float = 0.95) -> DifferenceSummary:
    """Mean and interval over runs: keys are seeds, and `summary` is taken; or they are `Seeds`, of
    several split seeds.

    Split seeds (a of them) and seeds (b) are crossed random effects: y_ij = m + S_i + T_j + E_ij,
    all normal. MS_S and MS_T are the mean squares of the means by split seed and by seed, MS_E that
    of the rest. The half-width h of the interval is h^2 = (t^2 MS_S + t'^2 MS_T) / (a b), where t
    and t' are the t-quantiles for a - 1 and b - 1 degrees of freedom. It is at least that of MS_E
    alone, for (a - 1) (b - 1). Its coverage is at least `level` for any variances (Banerjee 1960):
    an interval by Satterthwaite's degrees of freedom is narrower and falls to 0.89 with two split
    seeds (`benchmarks/papers/intervals.py`).

    Where pairs are missing, the split seed or seed that has the smallest share of its runs is left
    out, until none is missing. Of equal ones a seed goes before a split seed, the last first.
    Raises `ValueError` as `summary` does.
    """
    whole_runs = _rectangle(values)
    splits = len({key.split for key in whole_runs if isinstance(key, Seeds)}) or 1
    left_out = len(values) - len(whole_runs)
    averaged = replace(summary(list(whole_runs.values()), level), splits=splits, left_out=left_out)
    if not averaged.sd or splits in (1, averaged.n):
        return averaged
    half = _crossed_half_width(whole_runs)(1 - level)
    low = averaged.mean - half
    high = averaged.mean + half
    return replace(averaged, low=low, high=high)


def paired(
    reference: Mapping[K, float], values: Mapping[K, float], level: float = 0.95
) -> Difference | None:
    """Mean of `values - reference` over the runs that both have, as `over_runs` gives it; None
    where they share no run."""
    differences = {key: values[key] - reference[key] for key in values if key in reference}
    if not differences:
        return None
    difference = over_runs(differences, level)
    p = None
    if difference.sd and difference.splits in (1, difference.n):
        from scipy.special import stdtr

        standard_error = difference.sd / math.sqrt(difference.n)
        t = -abs(difference.mean) / standard_error
        p = float(2 * stdtr(difference.n - 1, t))
    elif difference.sd:
        p = _p_of(_crossed_half_width(_rectangle(differences)), difference.mean)
    missing = len(set(values) | set(reference)) - difference.n
    return Difference(**{**vars(difference), "missing": missing, "p": p})


def _p_of(half: Callable[[float], float], mean: float) -> float:
    """The p at which the interval of level 1 - p around `mean` ends at 0, of its half-width by p."""
    low, high = math.log(1e-100), 0.0  # by halving: the half-width falls as p grows
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if half(math.exp(middle)) > abs(mean) else (low, middle)
    return math.exp(high)


def unpaired_runs(
    reference: Mapping[Any, float], values: Mapping[Any, float], level: float = 0.95
) -> Difference:
    """Mean of `values` minus mean of `reference` over runs by seed, the two taken as independent.

    Of one split seed on both sides as `unpaired` has it. Where a side has several split seeds
    crossed with several seeds its runs are not independent, and the half-width is h^2 = h_a^2 +
    h_b^2 of those that `over_runs` gives to both means: at least `level` is covered for any
    variances, as of one mean (Banerjee 1960).
    """
    sides = [over_runs(reference, level), over_runs(values, level)]
    if not any(side.crossed for side in sides):
        return unpaired(list(reference.values()), list(values.values()), level)
    mean = sides[1].mean - sides[0].mean
    n = sides[0].n + sides[1].n
    n_splits = max(side.splits for side in sides)
    spreads = [side.sd for side in sides if side.sd is not None]
    if len(spreads) < 2 or not any(spreads):
        return Difference(mean, None, n, None, None, n_splits)
    halves = [_half_width(runs) for runs in (reference, values)]

    def half(p: float) -> float:
        return math.hypot(*(half_of_side(p) for half_of_side in halves))

    low = mean - half(1 - level)
    high = mean + half(1 - level)
    return Difference(mean, math.hypot(*spreads), n, low, high, n_splits, p=_p_of(half, mean))


def _half_width(values: Mapping[Any, float]) -> Callable[[float], float]:
    """The half-width of the interval of a mean over runs, at level 1 - p."""
    averaged = over_runs(values)
    if averaged.crossed and averaged.sd:
        return _crossed_half_width(_rectangle(values))
    from scipy.special import stdtrit

    df = max(1, averaged.n - 1)  # of a single run there is no spread, and the error is 0
    error = (averaged.sd or 0.0) / math.sqrt(averaged.n)
    return lambda p: -float(stdtrit(df, p / 2)) * error


def unpaired(
    reference: Sequence[float], values: Sequence[float], level: float = 0.95
) -> Difference:
    """Mean of `values` minus mean of `reference`, taken as independent, with the interval and p of
    Welch (1947).

    Without a second value on both sides, or without any spread, there is neither. Raises
    `ValueError` as `summary` does.
    """
    from scipy.special import stdtr, stdtrit

    reference_summary = summary(reference, level)
    summary_of_values = summary(values, level)
    n = reference_summary.n + summary_of_values.n
    mean = summary_of_values.mean - reference_summary.mean
    variances = [(side.sd or 0.0) ** 2 / side.n for side in (reference_summary, summary_of_values)]
    if reference_summary.sd is None or summary_of_values.sd is None or not any(variances):
        return Difference(mean, None, n, None, None)
    error = math.sqrt(sum(variances))
    free = sum(variances) ** 2 / sum(
        variance**2 / (side.n - 1)
        for variance, side in zip(variances, (reference_summary, summary_of_values), strict=True)
    )
    half = float(stdtrit(free, (1 + level) / 2)) * error
    p = float(2 * stdtr(free, -abs(mean) / error))
    return Difference(mean, error * math.sqrt(n), n, mean - half, mean + half, p=p)


def _crossed_half_width(values: Mapping[Seeds, float]) -> Callable[[float], float]:
    """The half-width of the interval at level 1 - p, of a whole rectangle of several split seeds
    and several seeds."""
    from scipy.special import stdtrit

    splits, seeds = (list(dict.fromkeys(key[axis] for key in values)) for axis in (0, 1))
    mean = math.fsum(values.values()) / len(values)
    rows = {i: math.fsum(values[Seeds(i, j)] for j in seeds) / len(seeds) for i in splits}
    columns = {j: math.fsum(values[Seeds(i, j)] for i in splits) / len(splits) for j in seeds}
    free = (len(splits) - 1, len(seeds) - 1, (len(splits) - 1) * (len(seeds) - 1))
    by_split = len(seeds) * math.fsum((value - mean) ** 2 for value in rows.values()) / free[0]
    by_seed = len(splits) * math.fsum((value - mean) ** 2 for value in columns.values()) / free[1]
    residual = (
        math.fsum((value - rows[i] - columns[j] + mean) ** 2 for (i, j), value in values.items())
        / free[2]
    )

    def half(p: float) -> float:
        t, u, v = (float(stdtrit(df, p / 2)) for df in free)
        of_splits_and_seeds = t * t * by_split + u * u * by_seed
        return math.sqrt(max(of_splits_and_seeds, v * v * residual) / len(values))

    return half


def _rectangle(values: Mapping[Any, float]) -> Mapping[Any, float]:
    """The runs of split seeds and seeds of which none is missing, see `over_runs`; all where there
    is one split seed."""
    complete = values
    if not all(isinstance(key, Seeds) for key in values):
        return complete
    while len(complete) < len(splits := {key.split for key in complete}) * len(
        seeds := {key.seed for key in complete}
    ):
        shares = []
        for seed in seeds:
            shares.append((sum(key.seed == seed for key in complete) / len(splits), 0, -seed))
        for split in splits:
            shares.append((sum(key.split == split for key in complete) / len(seeds), 1, -split))
        _, axis, name = min(shares)
        complete = {
            key: value
            for key, value in complete.items()
            if (key.split if axis else key.seed) != -name
        }
    return complete


@cache
def t_quantile(df: int, level: float = 0.95) -> float:
    """The t with P(|T| <= t) = `level` for `df` degrees of freedom."""
    if df < 1 or not 0 < level < 1:
        raise ValueError(f"no t quantile for {df} degrees of freedom at level {level}")
    from scipy.special import stdtrit  # scipy.stats would cost half a second of import

    return float(stdtrit(df, (1 + level) / 2))


def seeds_to_tell(
    sd: float, effect: float, level: float = 0.95, power: float = 0.8, most_seeds: int = 10_000
) -> int | None:
    """The least number of seeds, at least 2, at which a paired t-test tells a mean difference of
    `effect` with this power.

    `sd`: of the differences. Two-sided at 1 - `level`, by the noncentral t distribution; None where
    `most_seeds` are not enough.
    """

    def reached(n: int) -> bool:
        return _told(n, effect / sd * math.sqrt(n), level, power)

    low, high = 1, 2
    while not reached(high):
        low = high
        high = 2 * high
        if low >= most_seeds:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def told_effect(sd: float, n: int, level: float = 0.95, power: float = 0.8) -> float:
    """The least mean difference that a paired t-test over `n` seeds, at least 2, tells with this
    power; see `seeds_to_tell`."""
    low, high = 0.0, 1.0
    while not _told(n, high * math.sqrt(n), level, power):
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if _told(n, middle * math.sqrt(n), level, power) else (middle, high)
        )
    return high * sd


def sd_bounds(sd: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """The interval of a standard deviation that `n` normal values, at least 2, show as `sd`; by the
    chi-square distribution.

    Of 3 values it reaches from half to six times what they show. Raises `ValueError` for fewer than
    2.
    """
    if n < 2:
        raise ValueError(f"{n} values have no spread")
    from scipy.special import chdtri  # of the upper tail

    tail = (1 - level) / 2
    least = math.sqrt((n - 1) / float(chdtri(n - 1, tail)))
    greatest = math.sqrt((n - 1) / float(chdtri(n - 1, (1 - tail))))
    return sd * least, sd * greatest


def _told(n: int, shift: float, level: float, power: float) -> bool:
    """Whether a two-sided t-test of `n` values has this power where the noncentrality is
    `shift`."""
    from scipy.special import nctdtr

    t = t_quantile(n - 1, level)
    # The tail on the wrong side is below 0.001 here, and not a number for some shifts. Far beyond
    # the answer this one overflows.
    return shift > max(30.0, 4 * t) or float(1 - nctdtr(n - 1, shift, t)) >= power


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Adjusted p-values that control the chance of any false finding among them (Holm 1979).

    The i-th smallest of m is multiplied by m - i + 1, made monotone and cut at 1. In the order of
    `p_values`.
    """
    adjusted = dict(p_values)
    largest = 0.0
    for rank, key in enumerate(_sorted(p_values)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[key]))
        adjusted[key] = largest
    return adjusted


def benjamini_hochberg(p_values: Mapping[K, float]) -> dict[K, float]:
    """Adjusted p-values that control the expected share of false findings among the findings
    (Benjamini and Hochberg 1995).

    The i-th smallest of m is multiplied by m / i, made monotone from the largest down. In the order
    of `p_values`.
    """
    adjusted = dict(p_values)
    smallest = 1.0
    for rank, key in reversed(list(enumerate(_sorted(p_values), 1))):
        smallest = min(smallest, p_values[key] * len(p_values) / rank)
        adjusted[key] = smallest
    return adjusted


def _sorted(p_values: Mapping[K, float]) -> list[K]:
    if any(not 0 <= p <= 1 for p in p_values.values()):
        raise ValueError("a p-value is not in [0, 1]")
    return sorted(p_values, key=lambda name: p_values[name])


@dataclass(frozen=True)
class Ranks:
    """Mean rank of each name (1 is best) over `blocks`; `left_out` blocks lacked a name, so that
    their ranks do not compare."""

    mean: Mapping[str, float]
    blocks: int
    left_out: int


def mean_ranks(blocks: Sequence[Mapping[str, float]]) -> Ranks:
    """Rank the names inside each block (one data set, shift and seed), equal values sharing the
    mean of their ranks, and average.

    The highest value has rank 1. Only blocks that have every name count; without such a block the
    means are empty.
    """
    names = list(dict.fromkeys(name for block in blocks for name in block))
    full_blocks = [block for block in blocks if len(block) == len(names)]
    totals = np.zeros(len(names))
    for start in range(0, len(full_blocks), 1000):  # pairs of all blocks would fill the memory
        chunk = full_blocks[start : start + 1000]
        values = np.array([[block[name] for name in names] for block in chunk])
        better = (values[:, None, :] > values[:, :, None]).sum(axis=2)
        equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
        totals += (better + (equal + 1) / 2).sum(axis=0)  # halves: exact in any order
    means: dict[str, float] = {}
    if full_blocks:
        means = dict(zip(names, (totals / len(full_blocks)).tolist(), strict=True))
    left_out = len(blocks) - len(full_blocks)
    return Ranks(means, len(full_blocks), left_out)
