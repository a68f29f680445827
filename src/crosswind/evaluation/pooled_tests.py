"""Tests of claims over several cases: a mean, a share of cases, an order of conditions, agreement of
two conditions, and whether one method is best everywhere.

Every test has a `value` that is above 0 where the claim is right, and a two-sided p. It has an
interval where there is one, and the least true value that it would have told. Plain numbers in,
plain values out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crosswind.evaluation.compare import Difference, Seeds, paired
from crosswind.evaluation.multiplicity import effects_told

Floats = NDArray[np.float64]
Interval = tuple[float, float]

MEAN, SHARE, ORDER, AGREEMENT, BEST, RANKS = (
    "mean",
    "share",
    "order",
    "agreement",
    "nobody-best",
    "ranks",
)
"""The names of the tests, as a claim names them."""


class PooledTest(Protocol):
    """The outcome that every test has."""

    @property
    def value(self) -> float:
        """Above 0 where the claim is right."""

    @property
    def p(self) -> float | None:
        """Two-sided p of a value of 0; None where there is none."""

    @property
    def n(self) -> int:
        """The number of what is counted: seeds, cases, blocks or rows."""

    def interval(self, level: float) -> Interval | None:
        """The interval of `value` at a level; None where there is none."""

    def detectable(self, level: float, power: float) -> Interval | None:
        """The true values that are told at `level` with this power, from the least to the largest
        likely spread; None where that is not known."""


@dataclass(frozen=True)
class MeanTest:
    """A mean difference over seeds, by the paired t-test: `differences` by run, each a mean over
    cases.

    `beyond` is taken off: the claim is that the mean is above it.
    """

    differences: Mapping[Any, float]
    beyond: float = 0.0

    def at_level(self, level: float) -> Difference | None:
        """The difference less `beyond`; None without a run."""
        return paired(dict.fromkeys(self.differences, self.beyond), self.differences, level)

    @cached_property
    def _difference(self) -> Difference | None:
        return self.at_level(0.95)

    @property
    def value(self) -> float:
        """The mean, less `beyond`."""
        return math.nan if self._difference is None else self._difference.mean

    @property
    def p(self) -> float | None:
        """By the t distribution, see `compare.paired`."""
        return None if self._difference is None else self._difference.p

    @property
    def n(self) -> int:
        """Runs."""
        return 0 if self._difference is None else self._difference.n

    def interval(self, level: float) -> Interval | None:
        """That of the t distribution; None without a spread."""
        difference = self.at_level(level)
        if difference is None or not difference.sd:
            return None
        if difference.low is None or difference.high is None:
            return None
        return difference.low, difference.high

    def detectable(self, level: float, power: float) -> Interval | None:
        """By the noncentral t distribution; None with several split seeds."""
        difference = self._difference
        if difference is None or not difference.sd or difference.splits != 1:
            return None
        return effects_told(difference.sd, difference.n, level, power)


@dataclass(frozen=True)
class ShareTest:
    """In what share of the cases a difference is above 0, by the exact binomial test; cases count as
    independent draws from such cases.

    `positive` of `n` cases are; the claim is a share above `share`.
    """

    positive: int
    n: int
    share: float = 0.5

    @property
    def value(self) -> float:
        """The share of the cases less the claimed one."""
        return self.positive / self.n - self.share if self.n else math.nan

    @property
    def p(self) -> float | None:
        """Twice the smaller tail, at most 1; None without a case."""
        if not self.n:
            return None
        from scipy.special import bdtr, bdtrc

        below = float(bdtr(self.positive, self.n, self.share))
        above = float(bdtrc(self.positive - 1, self.n, self.share)) if self.positive else 1.0
        return min(1.0, 2 * below, 2 * above)

    def interval(self, level: float) -> Interval | None:
        """That of Clopper and Pearson 1934, less the claimed share."""
        if not self.n:
            return None
        from scipy.stats import binomtest

        ends = binomtest(self.positive, self.n, self.share).proportion_ci(level, "exact")
        return float(ends.low) - self.share, float(ends.high) - self.share

    def detectable(self, level: float, power: float) -> Interval | None:
        """How far above the claimed share the true one must be; None where even 1 is not told."""
        if not self.n:
            return None
        from scipy.special import bdtrc

        tail = (1 - level) / 2
        needed = next(
            (
                count
                for count in range(self.n + 1)
                if (bdtrc(count - 1, self.n, self.share) if count else 1.0) < tail
            ),
            None,
        )
        if needed is None:
            return None
        low, high = self.share, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            reached = float(bdtrc(needed - 1, self.n, middle)) >= power
            low, high = (low, middle) if reached else (middle, high)
        return high - self.share, high - self.share


@dataclass(frozen=True)
class OrderTest:
    """Whether scores rise in a stated order of conditions, by Page's test (1963): `blocks` [blocks,
    conditions], in the order in which they are claimed to rise.

    A block is a data set and seed, say. `value` is the mean over blocks of Spearman's rank
    correlation between the stated order and that of the scores, from -1 to 1.
    """

    blocks: Floats

    @cached_property
    def _ranks(self) -> Floats:
        return ranks_of_blocks(self.blocks)

    @property
    def n(self) -> int:
        """Blocks."""
        return len(self.blocks)

    @property
    def value(self) -> float:
        """A linear function of Page's L, so that both are tested alike."""
        if not self.n:
            return math.nan
        conditions = self.blocks.shape[1]
        centre = (conditions + 1) / 2
        stated = np.arange(1, conditions + 1) - centre
        return float(((self._ranks - centre) @ stated).mean() / (stated @ stated))

    @property
    def p(self) -> float | None:
        """Twice the smaller of the two one-sided p of Page's test, at most 1; exact for few blocks
        and conditions, else normal. None without three conditions and two blocks."""
        if self.n < 2 or self.blocks.shape[1] < 3:
            return None
        from scipy.stats import page_trend_test

        stated = np.arange(1, self.blocks.shape[1] + 1)
        one_sided = [
            float(
                page_trend_test(
                    self._ranks, ranked=True, predicted_ranks=ranks, method="auto"
                ).pvalue
            )
            for ranks in (stated, stated[::-1])
        ]
        return min(1.0, 2 * min(one_sided))

    def interval(self, level: float) -> Interval | None:
        """None: the test is of ranks."""
        return None

    def detectable(self, level: float, power: float) -> Interval | None:
        """By the normal approximation, with the variance 1 / (blocks (conditions - 1)) that the mean
        correlation has where there is no order."""
        if self.n < 2 or self.blocks.shape[1] < 3:
            return None
        spread = 1 / math.sqrt(self.n * (self.blocks.shape[1] - 1))
        least = _normal_sum(level, power) * spread
        return None if least > 1 else (least, least)


@dataclass(frozen=True)
class AgreementTest:
    """Whether two conditions order methods alike, by Kendall's tau-b (1938) of their scores `first`
    and `second`; methods count as draws from such methods."""

    first: Sequence[float]
    second: Sequence[float]

    @cached_property
    def _tau(self) -> tuple[float, float | None]:
        if self.n < 3:
            return math.nan, None
        from scipy.stats import kendalltau

        answer = kendalltau(self.first, self.second)
        if math.isnan(answer.statistic):  # one side is constant
            return math.nan, None
        return float(answer.statistic), float(answer.pvalue)

    @property
    def n(self) -> int:
        """Methods."""
        return len(self.first)

    @property
    def value(self) -> float:
        """Tau, from -1 to 1; not a number where one side is constant."""
        return self._tau[0]

    @property
    def p(self) -> float | None:
        """Exact for few methods without ties, else normal."""
        return self._tau[1]

    def interval(self, level: float) -> Interval | None:
        """By Fisher's z with the variance 0.437 / (n - 4) (Fieller, Hartley and Pearson 1957); None
        below 5 methods."""
        if self.n < 5 or math.isnan(self.value):
            return None
        from scipy.special import ndtri

        half = float(ndtri((1 + level) / 2)) * math.sqrt(0.437 / (self.n - 4))
        middle = math.atanh(max(-1 + 1e-12, min(1 - 1e-12, self.value)))
        return math.tanh(middle - half), math.tanh(middle + half)

    def detectable(self, level: float, power: float) -> Interval | None:
        """By the same z; None below 5 methods."""
        if self.n < 5:
            return None
        least = math.tanh(_normal_sum(level, power) * math.sqrt(0.437 / (self.n - 4)))
        return least, least


@dataclass(frozen=True)
class RanksTest:
    """Whether rows differ in rank at all, by the test of Friedman (1937): `blocks` [blocks, rows].

    `value` is Kendall's coefficient of concordance W, from 0 (no common order) to 1.
    """

    blocks: Floats

    @cached_property
    def _statistic(self) -> tuple[float, float | None]:
        n_blocks, n_rows = self.blocks.shape
        if n_blocks < 2 or n_rows < 3:
            return math.nan, None
        from scipy.special import chdtrc  # scipy.stats would cost every report its import

        centred = ranks_of_blocks(self.blocks) - (n_rows + 1) / 2
        spread = float((centred**2).sum())
        if not spread:  # all rows are equal in every block
            return math.nan, None
        # Ties take from the spread that ranks have, so that the statistic is larger.
        statistic = (n_rows - 1) * float((centred.sum(axis=0) ** 2).sum()) / spread
        return statistic / (n_blocks * (n_rows - 1)), float(chdtrc(n_rows - 1, statistic))

    @property
    def n(self) -> int:
        """Blocks."""
        return len(self.blocks)

    @property
    def value(self) -> float:
        """Kendall's W; not a number where nothing differs."""
        return self._statistic[0]

    @property
    def p(self) -> float | None:
        """By the chi-square distribution with rows - 1 degrees of freedom."""
        return self._statistic[1]

    def interval(self, level: float) -> Interval | None:
        """None: W is bounded by 0."""
        return None

    def detectable(self, level: float, power: float) -> Interval | None:
        """By the noncentral chi-square distribution; None where even W = 1 is not told."""
        n_blocks, n_rows = self.blocks.shape
        if n_blocks < 2 or n_rows < 3:
            return None
        from scipy.special import chdtri, chndtr

        free = n_rows - 1
        needed = float(chdtri(free, 1 - level))
        low, high = 0.0, 1.0
        if 1 - float(chndtr(needed, free, n_blocks * free)) < power:
            return None
        for _ in range(40):
            middle = (low + high) / 2
            reached = 1 - float(chndtr(needed, free, middle * n_blocks * free)) >= power
            low, high = (low, middle) if reached else (middle, high)
        return high, high


@dataclass(frozen=True)
class NobodyBestTest:
    """Whether no row is best in every case: `cases` hold, each, the scores by row and run.

    A row is refuted as best everywhere where some other is better in some case: the least one-sided
    p of the paired t-tests, times their number (Bonferroni). That no row is best is told where every
    row is refuted: its p is the largest (an intersection-union test, Berger 1982). The opposite, that
    some row is best in every case, is told by the same tests the other way round. `p` is twice the
    smaller, at most 1.
    """

    cases: Sequence[Mapping[str, Mapping[Any, float]]]

    @property
    def rows(self) -> list[str]:
        """The rows that every case has."""
        first = list(self.cases[0]) if self.cases else []
        return [row for row in first if all(row in case for case in self.cases)]

    @property
    def n(self) -> int:
        """Cases."""
        return len(self.cases)

    @cached_property
    def _pairs(self) -> tuple[Floats, Floats]:
        """By case, row and other row: the mean lead of the other, and its one-sided p, which is 1
        where there is none."""
        rows = self.rows
        pairs = [_leads([case[row] for row in rows]) for case in self.cases]
        leads = np.stack([case_leads for case_leads, _ in pairs])
        return leads, np.stack([p_values for _, p_values in pairs])

    @property
    def value(self) -> float:
        """By how much even the row that is nearest to best everywhere is beaten in some case; 0
        where a row has the highest mean in all of them."""
        if len(self.rows) < 2:
            return math.nan
        largest_leads = self._pairs[0].max(axis=(0, 2))
        return float(max(0.0, largest_leads.min()))

    @cached_property
    def _one_sided(self) -> tuple[float, float]:
        """The p of the claim, and that of the opposite."""
        p_values = self._pairs[1]
        n_rows = len(self.rows)
        refuted = p_values.min(axis=(0, 2)) * self.n * (n_rows - 1)
        # That a row leads another is the other's test; its own entry beside itself asks nothing.
        of_leader = np.swapaxes(p_values, 1, 2).copy()
        of_leader[:, range(n_rows), range(n_rows)] = 0.0
        best = of_leader.max(axis=(0, 2)) * n_rows
        return min(1.0, float(refuted.max())), min(1.0, float(best.min()))

    @property
    def is_opposite(self) -> bool:
        """Whether the scores speak for a row that is best in every case."""
        return self.p is not None and self._one_sided[1] < self._one_sided[0]

    @property
    def p(self) -> float | None:
        """None without two rows."""
        if len(self.rows) < 2:
            return None
        return min(1.0, 2 * min(self._one_sided))

    @property
    def firsts(self) -> dict[str, int]:
        """In how many cases each row has the highest mean; the first of equal ones."""
        counts = dict.fromkeys(self.rows, 0)
        for leads in self._pairs[0]:
            behind = leads.max(axis=1)
            counts[self.rows[int(behind.argmin())]] += 1
        return counts

    def interval(self, level: float) -> Interval | None:
        """None: the value is a least of largest leads."""
        return None

    def detectable(self, level: float, power: float) -> Interval | None:
        """The lead in one case, of the median spread of its pairs, that refutes a row."""
        rows = self.rows
        spreads: list[float] = []
        runs = 0
        for case in self.cases:
            first = case[rows[0]] if rows else {}
            for row in rows[1:]:
                difference = paired(first, case[row])
                if difference is not None and difference.sd and difference.splits == 1:
                    spreads.append(difference.sd)
                    runs = max(runs, difference.n)
        if not spreads or len(rows) < 2:
            return None
        n_tests = self.n * (len(rows) - 1)
        return effects_told(float(np.median(spreads)), runs, 1 - (1 - level) / n_tests, power)


def _leads(scores: Sequence[Mapping[Any, float]]) -> tuple[Floats, Floats]:
    """By row and other row of one case: how far the other is ahead (minus infinity for the row
    itself). Beside it is the one-sided p of the paired t-test that it is (1 where there is
    none)."""
    n_rows = len(scores)
    leads = np.full((n_rows, n_rows), -np.inf)
    p_values = np.ones((n_rows, n_rows))
    for first in range(n_rows):
        for second in range(first):
            difference = paired(scores[first], scores[second])
            if difference is None:
                continue
            leads[first, second], leads[second, first] = difference.mean, -difference.mean
            if difference.p is not None:
                tail = difference.p / 2 if difference.mean > 0 else 1 - difference.p / 2
                p_values[first, second], p_values[second, first] = tail, 1 - tail
    return leads, p_values


def _normal_sum(level: float, power: float) -> float:
    """The standard errors that a normal statistic must lie from 0 to be told with this power."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2) + ndtri(power))


def ranks_of_blocks(blocks: Floats) -> Floats:
    """The ranks of scores within each block [blocks, rows]: the lowest has rank 1, equal ones share
    the mean of their ranks."""
    below = (blocks[:, :, None] > blocks[:, None, :]).sum(axis=2)
    equal = (blocks[:, :, None] == blocks[:, None, :]).sum(axis=2)
    return np.asarray(below + (equal + 1) / 2, dtype=np.float64)


def mean_by_run(values: Sequence[Mapping[Any, float]]) -> dict[Any, float]:
    """The mean of several values of each run that has all of them."""
    if not values:
        return {}
    return {
        run: math.fsum(of_run[run] for of_run in values) / len(values)
        for run in values[0]
        if all(run in of_run for of_run in values)
    }


def run_words(runs: Sequence[Any]) -> str:
    """The word for the runs of a mean: seeds, or pairs with split seeds."""
    return "runs" if any(isinstance(run, Seeds) for run in runs) else "seeds"
