"""Rows ranked over blocks: Friedman's test, the critical difference of Nemenyi, and how often one row
beats another."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from crosswind.evaluation.compare import DifferenceSummary, mean_ranks, over_runs
from crosswind.evaluation.pooled_tests import RanksTest

K = TypeVar("K", bound=Hashable)

ALPHA = 0.05


@dataclass(frozen=True)
class RankedRows:
    """The mean ranks of rows over `blocks` blocks, the best first. `statistic`: chi-square of
    Friedman's test; `p`: its p-value; `concordance`: Kendall's W.

    Two rows differ by Nemenyi's test at 5% where their mean ranks are `critical_difference` or more
    apart, if Friedman's test tells that any do (Demsar 2006).
    """

    mean_rank: Mapping[str, float]
    blocks: int
    statistic: float
    p: float
    concordance: float
    critical_difference: float

    @property
    def differ(self) -> bool:
        """Whether Friedman's test tells that rows differ."""
        return self.p < ALPHA

    def apart(self, first: str, second: str) -> bool:
        """Whether two rows are told apart."""
        distance = abs(self.mean_rank[first] - self.mean_rank[second])
        return self.differ and distance >= self.critical_difference


def ranked_rows(blocks: Sequence[Mapping[str, float]]) -> RankedRows | None:
    """Rank rows in blocks of scores, the highest first; blocks that lack a row are left out.

    None for fewer than two whole blocks or three rows, or where all rows are equal.
    """
    ranks = mean_ranks(blocks)
    names = list(ranks.mean)
    whole = [block for block in blocks if len(block) == len(names)]
    if len(whole) < 2 or len(names) < 3:
        return None
    test = RanksTest(np.array([[block[name] for name in names] for block in whole]))
    if test.p is None:
        return None
    best_first = dict(sorted(ranks.mean.items(), key=lambda item: item[1]))
    return RankedRows(
        best_first,
        len(whole),
        test.value * len(whole) * (len(names) - 1),
        test.p,
        test.value,
        critical_difference(len(names), len(whole)),
    )


def critical_difference(n_rows: int, n_blocks: int, alpha: float = ALPHA) -> float:
    """The difference of mean ranks of `n_rows` rows over `n_blocks` blocks that Nemenyi's test tells:
    q sqrt(k (k + 1) / (6 N)), q the studentised range over sqrt 2 (Demsar 2006, section 3.2.2)."""
    q = _range_quantile(n_rows, 1 - alpha) / math.sqrt(2)
    return q * math.sqrt(n_rows * (n_rows + 1) / (6 * n_blocks))


@cache
def _range_quantile(n: int, level: float) -> float:
    """The quantile of the range of `n` standard normal values."""
    from scipy.special import ndtr  # scipy.stats would cost every report its import

    z = np.linspace(-9, 9, 2001)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    low, high = 0.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        inside = n * density * (ndtr(z) - ndtr(z - middle)) ** (n - 1)
        low, high = (middle, high) if np.trapezoid(inside, z) < level else (low, middle)
    return high


def beats(
    first: Mapping[K, Mapping[object, float]], second: Mapping[K, Mapping[object, float]]
) -> DifferenceSummary | None:
    """The probability that a row beats another at the same case and run, ties half.

    Scores are by case and run. The mean over runs of the share of cases; its t-interval is cut at 0
    and 1. None where they share no run of every case.
    """
    cases = [case for case in first if case in second]
    runs = [
        run
        for run in (first[cases[0]] if cases else {})
        if all(run in first[case] and run in second[case] for case in cases)
    ]
    if not runs:
        return None
    shares = {
        run: math.fsum(_wins(first[case][run], second[case][run]) for case in cases) / len(cases)
        for run in runs
    }
    share = over_runs(shares)
    if share.low is None or share.high is None:
        return share
    return DifferenceSummary(
        share.mean,
        share.sd,
        share.n,
        max(0.0, share.low),
        min(1.0, share.high),
        share.splits,
        share.left_out,
    )


def _wins(first: float, second: float) -> float:
    """1 for more, a half for as much, 0 for less."""
    return (1.0 + (first > second) - (first < second)) / 2
