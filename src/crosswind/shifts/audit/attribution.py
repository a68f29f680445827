"""Which attributes' weights are needed to make training's table out of the target's, and what each
needed one does.

First attributes are taken up, the most significant first, each with weights on its values or on its
pairs of class and value, until no other is needed beside them. Those that the others made
superfluous are dropped again. Then the weights of each attribute are told apart, given all others:
weights on its values alone are low-data drift. Weights that favour different values in different
classes are a spurious correlation. Weights that are low in every class, though unequally so, are
low-data drift by class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.shifts.association import cramers_v, log_tail, total_variation
from crosswind.shifts.audit.loglinear import (
    Factor,
    LoglinearFit,
    LoglinearPool,
    fit,
    rake,
    score_test,
)

Floats = NDArray[np.float64]

LOW = 0.8
"""A value whose odds fall below this part of what the others imply may be a low value."""
SURE = 2.5
"""Standard errors by which one value of one class must differ to count as higher or lower."""
HINT = math.log(0.01)
"""Pairs that hint at a correlation at this level are let explain the values first."""
CLEARLY = 4.0
"""The difference of log likelihoods from which one of two explanations is taken and not the
attribute's."""


@final
@dataclass(eq=False)
class AttributePart:
    """The finding on one attribute, given the others (the label is axis 0 and has only the second
    half).

    `v_left`: V in training less what the others and the attribute's own value weights imply, and
    `log_p_v` of the pairs' weights. `low`: values low in every class; `matched` bool [classes,
    values]: the pairs that training favours. `tv_left`: the total variation of training's shares
    and those that the others imply, and `log_p_tv` of the value weights; `drifts`: these count.
    `with_label`: value weights and the label's shift explain each other.
    """

    axis: int
    v_left: float = 0.0
    log_p_v: float = 0.0
    low: list[int] = field(default_factory=list)
    matched: NDArray[np.bool_] | None = None
    tv_left: float = 0.0
    log_p_tv: float = 0.0
    drifts: bool = False
    with_label: bool = False


@final
@dataclass(frozen=True, eq=False)
class Explanation:
    """`taken`: the attributes' axes, "main" or "cross"; `parts` by axis; `sources(axis)`: those
    taken that move it, most first."""

    taken: dict[int, str]
    parts: dict[int, AttributePart]
    sources: Callable[[int], list[int]]


class _AttributionSearch:
    def __init__(
        self,
        pool: LoglinearPool,
        level: float,
        least_v: float,
        least_tv: float,
        gaps: frozenset[int],
    ) -> None:
        self.pool = pool
        self.least_v = least_v
        self.least_tv = least_tv
        self.gaps = gaps
        self.axes = [axis for axis in range(1, len(pool.sizes)) if pool.sizes[axis] > 1]
        self.log_level = math.log(level / max(2 * len(self.axes), 1))
        self.taken: dict[int, str] = {}
        self.fits: dict[tuple[object, ...], LoglinearFit] = {}

    def factors(self, taken: dict[int, str], label: bool = True) -> list[Factor]:
        """The factors of the label and of the attributes taken."""
        if label and self.pool.sizes[0] > 1:
            of_label = [self.pool.main(0)]
        else:
            of_label = []
        return of_label + [self.factor(axis, kind) for axis, kind in taken.items()]

    def factor(self, axis: int, kind: str) -> Factor:
        """The weights of an attribute on its values, "main", or on its pairs with the classes,
        "cross"."""
        if kind == "cross":
            return self.pool.cross(axis)
        return self.pool.main(axis)

    def without(self, axis: int) -> dict[int, str]:
        """`taken` without one attribute."""
        return {attribute: kind for attribute, kind in self.taken.items() if attribute != axis}

    def fit(self, taken: dict[int, str]) -> LoglinearFit:
        """The fit of the label and the attributes taken, kept."""
        key = tuple(sorted(taken.items()))
        if key not in self.fits:
            self.fits[key] = fit(self.pool, self.factors(taken))
        return self.fits[key]

    def take(self) -> None:
        """Take attributes up until none is needed, drop those that are not needed any more."""
        for _ in range(3 * len(self.axes) + 1):
            needed = self._most_needed()
            if needed is None:
                break
            axis, kind = needed
            self.taken[axis] = kind
        for axis in list(self.taken)[::-1]:
            self._drop_superfluous(axis)

    def _most_needed(self) -> tuple[int, str] | None:
        """The attribute, and the kind of its weights, that the taken ones lack most significantly;
        None where they lack none."""
        fitted = self.fit(self.taken)
        best: tuple[float, int, str] | None = None
        for axis in self.axes:
            for kind in ("main", "cross")[: self.pool.sizes[0]]:
                if self.taken.get(axis) in (kind, "cross"):
                    continue
                factor = self.factor(axis, kind)
                log_p = score_test(self.pool, fitted, factor).log_p
                is_better = best is None or log_p < best[0] - 1e-6 * abs(best[0])
                if log_p < self.log_level and is_better:
                    best = (log_p, axis, kind)
        if best is None:
            return None
        return best[1:]

    def _drop_superfluous(self, axis: int) -> None:
        """Drop a taken attribute, or its pairs, where the others do without."""
        other_attributes = self.without(axis)
        fitted = self.fit(other_attributes)
        log_p = min(
            score_test(self.pool, fitted, self.factor(axis, kind)).log_p
            for kind in ("main", "cross")
        )
        if log_p >= self.log_level:
            del self.taken[axis]
        elif self.taken[axis] == "cross":
            beside = self.fit({**other_attributes, axis: "main"})
            if score_test(self.pool, beside, self.pool.cross(axis)).log_p >= self.log_level:
                self.taken[axis] = "main"

    def target_law(self, axis: int) -> Floats:
        """The target's law by the rows of both tables: those of training count by how likely they
        are in the target."""
        taken = {**self.taken, axis: "cross"} if axis else self.taken
        law: Floats = self.pool.rows * (1 - self.fit(taken).p)
        return law

    @cached_property
    def implied(self) -> Floats:
        """The target's law with the weights of all attributes taken."""
        factors = self.factors(self.taken)
        return rake(self.pool, self.pool.target, factors)

    def quiet_part(self, axis: int) -> AttributePart:
        """An attribute that was not taken: what is left is chance, or too small for these rows."""
        pool = self.pool
        fitted = self.fit(self.taken)
        implied = self.implied
        value_factor = pool.main(axis)
        values = score_test(pool, fitted, value_factor)
        pairs = score_test(pool, fitted, pool.cross(axis))
        statistic = max(pairs.statistic - values.statistic, 0.0)
        freedom = pairs.freedom - values.freedom
        train_table = pool.table(axis, pool.train)
        factors = [value_factor, *self.factors(self.taken)]
        fit_alone = rake(pool, implied, factors)
        n_effective = _effective(pool.target, fit_alone)
        v_explained = cramers_v(pool.table(axis, fit_alone), rows=n_effective)
        train_shares = train_table.sum(axis=0)
        v_left = float(cramers_v(train_table) - v_explained)
        log_p_v = log_tail(statistic, freedom) if freedom > 0.1 else 0.0
        tv_left = float(total_variation(train_shares, value_factor @ implied))
        return AttributePart(
            axis, v_left=v_left, log_p_v=log_p_v, tv_left=tv_left, log_p_tv=values.log_p
        )

    def part(self, axis: int) -> AttributePart:
        """The weights of an attribute that was taken, told apart."""
        pool = self.pool
        taken_part = AttributePart(axis)
        other_factors = self.factors(self.without(axis))
        law = self.target_law(axis)
        train_table = pool.table(axis, pool.train)
        n = float(train_table.sum())
        implied = rake(pool, law, other_factors)
        table = pool.table(axis, implied)
        marginal = train_table.sum(axis=0)
        taken_part.low = _low_values(train_table, table, _effective(pool.rows, implied))
        # The pairs, beside the attribute's own value weights and the low values' own by class.
        own_factors = [*other_factors, pool.main(axis)]
        if taken_part.low and len(taken_part.low) < pool.sizes[axis]:
            level = np.zeros(table.shape, dtype=np.int64)
            for number, value in enumerate(taken_part.low):
                level[:, value] = 1 + number * pool.sizes[0] + np.arange(pool.sizes[0])
            own_factors = [*own_factors, pool.by_pair(axis, level)]
        cross_test = score_test(pool, fit(pool, own_factors), pool.cross(axis))
        taken_part.log_p_v = cross_test.log_p
        raked = rake(pool, law, own_factors)
        explained = pool.table(axis, raked)
        rows = _effective(pool.rows, raked)
        taken_part.v_left = float(cramers_v(train_table) - cramers_v(explained, rows=rows))
        correlated = cross_test.log_p < self.log_level
        # The values, beside the matched pairs where there are such.
        beside = other_factors
        if correlated or (cross_test.log_p < HINT and taken_part.v_left >= self.least_v / 2):
            matched, factor = self._matched(axis, law, other_factors, by_class=True)
            if factor.size > 1:
                beside = [*other_factors, factor]
            if correlated:
                taken_part.low = []
                taken_part.matched = matched
        fitted = fit(pool, beside)
        taken_part.log_p_tv = score_test(pool, fitted, pool.main(axis)).log_p
        shares = rake(pool, law, beside)
        if correlated and taken_part.log_p_tv >= self.log_level:
            self._beside_label(taken_part, law, beside)
            if taken_part.with_label:
                shares = rake(pool, law, beside[1:])
        target = pool.main(axis) @ shares
        taken_part.tv_left = float(total_variation(marginal / n, target))
        taken_part.drifts = (
            taken_part.log_p_tv < self.log_level and taken_part.tv_left >= self.least_tv
        )
        return taken_part

    def _matched(
        self, axis: int, law: Floats, other_factors: list[Factor], by_class: bool
    ) -> tuple[NDArray[np.bool_], Factor]:
        """The pairs that training favours, and the factor they make.

        Rows of a pair are taken as c s x what the others imply where the pair is matched and c x
        that elsewhere. c may differ by class or not. s, c and the matched pairs are made to fit
        each other; a class without a matched pair keeps its highest.
        """
        train_table = self.pool.table(axis, self.pool.train)
        implied = rake(self.pool, law, other_factors)
        expected = self.pool.table(axis, implied) * train_table.sum()
        ratio = _odds(train_table, expected)
        rows = train_table.sum(axis=1)
        ratio_of_class = _odds(rows, expected.sum(axis=1))
        share = ratio / ratio_of_class[:, None]
        matched = share > 1
        for _ in range(8):
            if (
                by_class or axis not in self.gaps
            ):  # else the matched value of a class may be one that training never shows
                matched[np.arange(len(train_table)), share.argmax(axis=1)] = True
            s, scale = _strength(train_table, expected, matched, by_class)
            now = ratio / scale > (s - 1) / math.log(s)
            if (now == matched).all():
                break
            matched = now
        return matched, self.pool.by_pair(axis, matched.astype(np.int64))

    def _beside_label(self, explained: AttributePart, law: Floats, beside: list[Factor]) -> None:
        """A correlated attribute's values and the label can move as one: then both explain it, and
        the attribute is named."""
        if self.pool.sizes[0] < 2:
            return
        other_factors = beside[1:]
        alone = fit(self.pool, other_factors)
        factor = self.pool.main(explained.axis)
        test_beside = score_test(self.pool, alone, factor)
        if test_beside.log_p >= self.log_level:
            return
        with_values = fit(self.pool, [*other_factors, self.pool.main(explained.axis)])
        with_label = fit(self.pool, [*other_factors, self.pool.main(0)])
        # By the half of their parameters more that one has, its likelihood is larger by chance.
        chance = (self.pool.sizes[0] - self.pool.sizes[explained.axis]) / 2
        if with_label.log_likelihood - with_values.log_likelihood - chance < CLEARLY:
            explained.with_label = True
            explained.log_p_tv = test_beside.log_p

    def label(self, explained_attributes: dict[int, AttributePart]) -> AttributePart:
        """The rest of the label's shift when the attributes' weights are taken out."""
        explained_label = AttributePart(0)
        if self.pool.sizes[0] < 2:
            return explained_label
        factors: list[Factor] = []
        for axis in self.taken:
            attribute_part = explained_attributes[axis]
            if attribute_part.drifts or attribute_part.matched is None:
                factors.append(self.pool.main(axis))
                if attribute_part.low and len(attribute_part.low) < self.pool.sizes[axis]:
                    # A low value may be rarer in one class than in another, which takes rows from
                    # that class.
                    level = np.zeros((self.pool.sizes[0], self.pool.sizes[axis]), dtype=np.int64)
                    level[:, attribute_part.low] = 1 + np.arange(self.pool.sizes[0])[:, None]
                    factors.append(self.pool.by_pair(axis, level))
        law = self.target_law(0)
        correlated = [axis for axis in self.taken if explained_attributes[axis].matched is not None]
        pairs = {
            axis: self._unmatched(axis, np.asarray(explained_attributes[axis].matched))
            for axis in correlated
        }
        for axis in correlated:
            other_pairs = [pairs[attribute] for attribute in correlated if attribute != axis]
            other_factors = [*factors, *other_pairs]
            matched = self._matched(axis, law, other_factors, by_class=False)[0]
            pairs[axis] = self._unmatched(axis, matched)
        factors += [factor for factor in pairs.values() if factor.size > 1]
        fitted = fit(self.pool, factors)
        explained_label.log_p_tv = score_test(self.pool, fitted, self.pool.main(0)).log_p
        law = rake(self.pool, law, factors)
        label = self.pool.main(0)
        train = label @ self.pool.train
        explained_label.tv_left = float(total_variation(train, label @ law))
        return explained_label

    def _unmatched(self, axis: int, matched: NDArray[np.bool_]) -> Factor:
        """One level for all matched pairs, and one a class for the others, which at one strength
        weigh more or less by class."""
        return self.pool.by_pair(axis, np.where(matched, 0, 1 + np.arange(len(matched))[:, None]))

    def sources(self, axis: int) -> list[int]:
        """The attributes taken that move this one, those that move it most first."""
        pool = self.pool
        law = self.target_law(axis)
        before = pool.table(axis, law / law.sum()).ravel()
        moved = []
        for attribute, kind in self.taken.items():
            if attribute != axis:
                factors = self.factors({attribute: kind}, label=False)
                weighted = rake(pool, law, factors)
                after = pool.table(axis, weighted).ravel()
                moved.append((float(total_variation(before, after)), attribute))
        largest = max((distance for distance, _ in moved), default=0.0)
        least = max(0.4 * largest, 0.01)
        return [
            attribute for distance, attribute in sorted(moved, reverse=True) if distance >= least
        ]


def explain(
    pool: LoglinearPool,
    level: float = 0.05,
    least_v: float = 0.1,
    least_tv: float = 0.05,
    gaps: frozenset[int] = frozenset(),
) -> Explanation:
    """The effect of each attribute's weights, given all others. `level`: of all tests of a step
    together; `least_v`: see `AttributePart`."""
    search = _AttributionSearch(pool, level, least_v, least_tv, gaps)
    search.take()
    explained = {}
    for axis in search.axes:
        explained[axis] = search.part(axis) if axis in search.taken else search.quiet_part(axis)
    explained[0] = search.label(explained)
    return Explanation(search.taken, explained, search.sources)


def _odds(rows: Floats, expected: Floats) -> Floats:
    """Rows over those expected, with half a row more of each."""
    ratio: Floats = (rows + 0.5) / (expected + 0.5)
    return ratio


def _strength(
    train_table: Floats, expected: Floats, matched: NDArray[np.bool_], by_class: bool
) -> tuple[float, Floats]:
    """How many times likelier than others training makes the matched pairs, and the scale of each
    class (the same for all unless `by_class`)."""
    s = 3.0
    scale = np.ones((len(train_table), 1))
    rows_of_class = train_table.sum(axis=1, keepdims=True)
    for _ in range(6):
        mass = expected * np.where(matched, s, 1.0)
        if by_class:
            scale = _odds(rows_of_class, mass.sum(axis=1, keepdims=True))
        else:
            scale = np.full_like(scale, train_table.sum() / max(mass.sum(), 1e-9))
        scaled = scale * expected
        high = _odds(train_table[matched].sum(), scaled[matched].sum())
        rows = train_table[~matched].sum()
        low = _odds(rows, scaled[~matched].sum())
        s = float(np.clip(high / low, 1.1, 1e3))
    return s, scale


def _effective(rows: Floats, weight: Floats) -> float:
    """The number of rows that `rows` are worth under weights: (sum of weights)^2 over the sum of
    their squares, row by row."""
    squares = np.divide(weight * weight, rows, out=np.zeros_like(weight), where=rows > 0)
    sum_of_squares = max(float(squares.sum()), 1e-300)
    return float(weight.sum() ** 2 / sum_of_squares)


def _low_values(train_counts: Floats, table: Floats, rows: float) -> list[int]:
    """The values that are low in training as a whole, and in no class clearly high: beside the
    other values of the class."""
    n = train_counts.sum()
    marginal = train_counts.sum(axis=0)
    share = table.sum(axis=0)
    present = marginal + 0.5
    absent = n - marginal + 0.5
    implied = rows * share + 0.5
    implied_absent = rows * (1 - share) + 0.5
    ratio = np.log(present / absent) - np.log(implied / implied_absent)
    error = np.sqrt(1 / present + 1 / absent + 1 / implied + 1 / implied_absent)
    is_low = (ratio < math.log(LOW)) & (ratio < -SURE * error)
    low = np.flatnonzero(is_low).tolist()
    other_values = np.flatnonzero(~is_low).tolist()
    if not other_values or not low:
        return []
    others_in_class = train_counts[:, other_values].sum(axis=1)
    others_share = table[:, other_values].sum(axis=1)
    ratio_of_others = np.log((others_in_class + 0.5) / (n * others_share + 0.5))
    noise_of_others = 1 / (others_in_class + 0.5) + 1 / (rows * others_share + 0.5)
    low_everywhere = []
    for value in low:
        in_class = train_counts[:, value]
        share_in_class = table[:, value]
        high = np.log((in_class + 0.5) / (n * share_in_class + 0.5)) - ratio_of_others
        noise = 1 / (in_class + 0.5) + 1 / (rows * share_in_class + 0.5)
        noise += noise_of_others
        if not (high > SURE * np.sqrt(noise)).any():
            low_everywhere.append(value)
    return low_everywhere
