"""Tests that are judged together: adjusted p-values, and the one level whose intervals say what the
adjusted verdicts say."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from crosswind.evaluation.compare import (
    Difference,
    benjamini_hochberg,
    holm,
    sd_bounds,
    seeds_to_tell,
    t_quantile,
    told_effect,
)

K = TypeVar("K", bound=Hashable)

ALPHA = 0.05
"""A test is told where its adjusted p-value is below this."""

ADJUST: Mapping[str, tuple[str, Callable[[Mapping[Any, float]], Mapping[Any, float]]]] = {
    "holm": ("Holm", holm),
    "fdr": ("Benjamini-Hochberg", benjamini_hochberg),
}
"""The name and the correction of every `multiplicity` that corrects."""


@dataclass(frozen=True)
class Family(Generic[K]):
    """Tests that are judged together. `adjusted`: their p-values after the correction for all of
    them.

    `threshold`: the unadjusted p-value below which a test of this family is told. It depends on how
    many are told.
    """

    multiplicity: str
    adjusted: Mapping[K, float]
    threshold: float

    @property
    def level(self) -> float:
        """The level at which an interval excludes 0 exactly where its test is told."""
        return 1 - self.threshold

    @property
    def hardest_level(self) -> float:
        """The level that the smallest p-value must reach where no other test is told: enough
        whatever the others show."""
        return hardest_level(self.multiplicity, len(self.adjusted))

    def tells(self, name: K) -> bool:
        """Whether a test is told; False for one that is not of the family."""
        return self.adjusted.get(name, 1.0) < ALPHA


def judged_together(p_values: Mapping[K, float], multiplicity: str) -> Family[K]:
    """The family of some tests, by `multiplicity`: holm, fdr or none. Raises `ValueError` for a
    p-value outside [0, 1].

    With r of m tests told, a p-value is told below 0.05 / (m - r + 1) by Holm, below 0.05 r / m by
    Benjamini and Hochberg, and r counts as 1 where nothing is. Of the intervals of told differences
    at that level at most 5% are expected to miss. Intervals of r of m at 1 - 0.05 r / m have that
    (Benjamini and Yekutieli 2005), and those of Holm are wider.
    """
    if multiplicity in ADJUST:
        adjusted = ADJUST[multiplicity][1](p_values)
    else:
        adjusted = p_values
    n_told = max(1, sum(p < ALPHA for p in adjusted.values()))
    n_tests = len(p_values)
    fdr = ALPHA * n_told / max(1, n_tests)
    thresholds = {"holm": ALPHA / max(1, n_tests - n_told + 1), "fdr": fdr}
    return Family(multiplicity, adjusted, thresholds.get(multiplicity, ALPHA))


def hardest_level(multiplicity: str, n_tests: int) -> float:
    """The level of one test among `n_tests` that is told whatever the others show: 1 - 0.05 / many,
    and 0.95 uncorrected."""
    return 1 - ALPHA / (max(1, n_tests) if multiplicity in ADJUST else 1)


def at_level(difference: Difference | None, level: float) -> Difference | None:
    """A difference of one mean over `n` values with its t-interval at another level; as it is where
    it has no spread."""
    if difference is None or not difference.sd:
        return difference
    df = difference.n - 1
    half = t_quantile(df, level) * difference.sd / math.sqrt(difference.n)
    low = difference.mean - half
    high = difference.mean + half
    return replace(difference, low=low, high=high)


def percent(level: float) -> str:
    """A level in words, with as many decimals as tell it from 100%: 95%, 99.3%, 99.993%."""
    missed = 100 * (1 - level)
    decimals = max(1, -math.floor(math.log10(missed)))
    return f"{f'{100 - missed:.{decimals}f}'.rstrip('0').rstrip('.')}%"


def seeds_needed(sd: float, n: int, effect: float, level: float) -> tuple[int | None, int | None]:
    """The seeds that tell a mean difference of `effect` with 80% power: of the least and of the
    largest likely spread.

    `sd`: of the differences of `n` seeds, at least 2; the spread is known no better than its 95%
    interval says. `level`: of the interval that must exclude 0. None where 10,000 seeds are not
    enough.
    """
    least, greatest_sd = sd_bounds(sd, n)
    return seeds_to_tell(least, effect, level), seeds_to_tell(greatest_sd, effect, level)


def effects_told(sd: float, n: int, level: float, power: float) -> tuple[float, float]:
    """The mean differences that `n` seeds tell with this power, of the least and of the largest
    likely spread (95%)."""
    least, greatest_sd = sd_bounds(sd, n)
    return told_effect(least, n, level, power), told_effect(greatest_sd, n, level, power)
