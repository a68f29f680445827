"""Isotonic calibration of rows that are drawn anew many times: what does not change with the draw is
computed once.

A draw only says how often each row is there. Rows are sorted for every class once. Isotonic
regression makes one step of rows without the label of the class that follow one another, so that it
is fitted to the few *runs* between the rows with the label, and not to rows. Its steps are constant:
only target rows between two of them are interpolated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from crosswind.estimators.base import Answers, Floats, Labelled
from crosswind.estimators.calibration import RESOLUTION

TOGETHER = 64
"""Classes of one regression: the more, the fewer digits of each are left."""

SAFE = 64
"""Rows before the first with the label of a class that are looked at in a draw."""

Numbers = NDArray[np.int64]


class _Runs(NamedTuple):
    """Rows of the source for some classes, by the probability of the class and one class after the
    other: which `rows` int64 [n], and their `probabilities` float64 [n].

    A run is rows that one point of the regression stands for: `starts` int64 [r] where each begins,
    `class_of` int64 [r] the number of its class among these, `chain` int64 [r] that of rows of which
    each is tied with the next. `labelled` int64 [l] are the places of
    rows with the label of the class, `run_of` int64 [l] their runs. `tie` int64 [n] is the place of
    the first row that is tied with each.

    Rows of a class far below the first that has its label are left out: calibration makes 0 of
    them, as of the next ones.
    """

    rows: Numbers
    probabilities: Floats
    starts: Numbers
    class_of: Numbers
    chain: Numbers
    labelled: Numbers
    run_of: Numbers
    tie: Numbers


class _TargetRows(NamedTuple):
    """Rows of the target for the same classes, sorted likewise: `rows` int64 [classes n] and their
    `probabilities`. `below` int64: for each of the source's rows, the place of the first target row
    that is not below it. `begins` int64 [classes + 1]: of each class. `answered` int64: the rows whose
    answer is one of the classes, and `places` int64 where they stand for it."""

    rows: Numbers
    probabilities: Floats
    below: Numbers
    begins: Numbers
    answered: Numbers
    places: Numbers


class _StepEnds(NamedTuple):
    """The ends of the steps of a regression: their places among the source's rows, their heights,
    and the numbers of their classes."""

    places: Numbers
    heights: Floats
    class_of: Numbers


class DrawnCalibration:
    """The calibrated probability of the answer of each target row, for many draws of the source."""

    def __init__(self, source: Labelled, target: Answers) -> None:
        probabilities = source.answers.probabilities
        target_probabilities = target.probabilities
        self._source_rows = len(source.label)
        self._target_rows, self._classes = target_probabilities.shape
        self._portions: list[tuple[_Runs, _TargetRows]] = []
        for first in range(0, self._classes, TOGETHER):
            codes = range(first, min(first + TOGETHER, self._classes))
            runs, ends = _runs(probabilities, source.label, codes)
            rows = _target_rows(target_probabilities, target.answer, codes, runs, ends)
            self._portions.append((runs, rows))

    def of_answers(self, drawn: Numbers) -> Floats:
        """Calibrated on some rows of the source, repeats allowed, int64 [m]; float64 [n], 0 where
        the answer names no class. What `calibrated` and `fitted_calibrator` give within 1e-12."""
        times = np.bincount(drawn, minlength=self._source_rows)
        total = np.zeros(self._target_rows)
        even = np.zeros(self._target_rows)
        of_answer = np.zeros(self._target_rows)
        for runs, target in self._portions:
            values = _values(_steps(runs, times[runs.rows]), runs, target)
            total += np.bincount(target.rows, weights=values, minlength=len(total))
            of_answer[target.answered] = values[target.places]
            even[target.answered] = 1 / self._classes
        return np.divide(of_answer, total, out=even, where=total > 0)


def _runs(probabilities: Floats, label: Numbers, codes: range) -> tuple[_Runs, Numbers]:
    """The runs of some classes, and where the rows of each class begin, int64 [classes + 1]."""
    columns, begins = [], [0]
    for code, order, column in _sorted_columns(probabilities, codes):
        has_label = label[order] == code
        from_row = _first_that_counts(column, has_label)
        columns.append((order[from_row:], column[from_row:], has_label[from_row:]))
        begins.append(begins[-1] + len(order) - from_row)
    rows, values, has_label = (np.concatenate(arrays) for arrays in zip(*columns, strict=True))
    bounds = np.array(begins)
    is_first = np.zeros(len(rows), dtype=bool)  # of its class
    is_first[bounds[:-1]] = True
    apart = is_first.copy()
    apart[1:] |= np.diff(values) > RESOLUTION
    chain = np.cumsum(apart) - 1
    chain_starts = np.flatnonzero(apart)
    chain_ends = np.append(chain_starts[1:], len(rows)) - 1
    # Rows that chance may leave in one tie or in several are each a run of their own.
    is_tie = (values[chain_ends] - values[chain_starts] <= RESOLUTION)[chain]
    without_label = np.add.reduceat(has_label, chain_starts, dtype=np.int64)[chain] == 0
    goes_on = ~apart | (without_label & np.roll(without_label, 1))
    goes_on &= is_tie & np.roll(is_tie, 1) & ~is_first
    starts = np.flatnonzero(~goes_on)
    labelled = np.flatnonzero(has_label)
    return _Runs(
        rows,
        values,
        starts,
        np.searchsorted(bounds, starts, side="right") - 1,
        chain[starts],
        labelled,
        np.searchsorted(starts, labelled, side="right") - 1,
        np.where(is_tie, chain_starts[chain], np.arange(len(rows))),
    ), bounds


def _sorted_columns(probabilities: Floats, codes: range) -> Iterator[tuple[int, Numbers, Floats]]:
    """Of each class its code, the rows in rising order of its probability, and these."""
    columns = np.ascontiguousarray(probabilities[:, codes.start : codes.stop].T)
    orders = np.argsort(columns, axis=1)
    yield from zip(codes, orders, np.take_along_axis(columns, orders, axis=1), strict=True)


def _first_that_counts(column: Floats, has_label: NDArray[np.bool_]) -> int:
    """The place of `SAFE` rows before the first with the label, and of what is tied with that; each
    draw has one of so many rows but for a chance of exp(-SAFE)."""
    first_row = int(has_label.argmax()) if has_label.any() else len(column) - 1
    first_row = max(0, first_row - SAFE)
    while first_row > 0 and column[first_row] - column[first_row - 1] <= RESOLUTION:
        first_row -= 1
    return first_row


def _target_rows(
    probabilities: Floats, answer: Numbers, codes: range, runs: _Runs, begins: Numbers
) -> _TargetRows:
    n = len(probabilities)
    orders, columns, below, answered, places = [], [], [], [], []
    for number, (code, order, column) in enumerate(_sorted_columns(probabilities, codes)):
        of_class = runs.probabilities[begins[number] : begins[number + 1]]
        below.append(number * n + np.searchsorted(column, of_class))
        answered_places = np.flatnonzero(answer[order] == code)
        answered.append(order[answered_places])
        places.append(number * n + answered_places)
        orders.append(order)
        columns.append(column)
    return _TargetRows(
        np.concatenate(orders),
        np.concatenate(columns),
        np.concatenate(below),
        np.arange(len(codes) + 1) * n,
        np.concatenate(answered),
        np.concatenate(places),
    )


def _steps(runs: _Runs, times: Numbers) -> _StepEnds:
    """The regressions on rows that are there so many `times`, int64 [n]: one for all classes, of
    which each lies 2 above the one before, since calling for each took most of the time."""
    counts = np.add.reduceat(times, runs.starts)
    labelled = np.bincount(runs.run_of, weights=times[runs.labelled], minlength=len(counts))
    drawn_runs = np.flatnonzero(counts)
    starts, chain = runs.starts[drawn_runs], runs.chain[drawn_runs]
    apart = np.ones(len(drawn_runs), dtype=bool)
    apart[1:] = (np.diff(chain) > 0) | (np.diff(runs.probabilities[starts]) > RESOLUTION)
    points = np.flatnonzero(apart)
    weights = np.add.reduceat(counts[drawn_runs], points)
    shares = np.add.reduceat(labelled[drawn_runs], points) / weights
    code = runs.class_of[drawn_runs[points]]
    fitted = isotonic_regression(shares + 2.0 * code, weights=weights)
    begins = np.zeros(len(points) + 1, dtype=bool)  # a step; a class begins one, too
    begins[fitted.blocks] = True
    begins[1:-1] |= code[1:] > code[:-1]
    left, right = np.flatnonzero(begins[:-1]), np.flatnonzero(begins[1:])
    heights = np.asarray(fitted.x)[left] - 2.0 * code[left]
    run_ends = np.append(runs.starts[1:], len(times))
    last = _drawn_place(times, run_ends[drawn_runs[points[right]]] - 1, -1)
    # A point lies where the first of the rows does that are tied.
    ends = np.stack(
        [_drawn_place(times, starts[points[left]], 1), _drawn_place(times, runs.tie[last], 1)],
        axis=1,
    )
    is_end = np.stack([np.ones(len(ends), dtype=bool), ends[:, 1] > ends[:, 0]], axis=1).ravel()
    return _StepEnds(
        ends.ravel()[is_end], np.repeat(heights, 2)[is_end], np.repeat(code[left], 2)[is_end]
    )


def _drawn_place(times: Numbers, places: Numbers, direction: int) -> Numbers:
    """The next places, from these on, whose rows are there."""
    places = places.copy()
    while (absent := times[places] == 0).any():
        places[absent] += direction
    return places


def _values(steps: _StepEnds, runs: _Runs, target: _TargetRows) -> Floats:
    """The calibrated probabilities of the target's rows as they are sorted: linear between the ends
    of steps, and constant beyond the first and the last of a class."""
    is_first = np.ones(len(steps.places), dtype=bool)
    is_first[1:] = steps.class_of[1:] > steps.class_of[:-1]
    below = target.below[steps.places]
    begins = np.where(is_first, target.begins[steps.class_of], below)
    values = np.repeat(steps.heights, np.diff(begins, append=target.begins[-1]))
    rising = np.flatnonzero((np.diff(steps.heights) != 0) & ~is_first[1:])
    knots = runs.probabilities[steps.places]
    slopes = (steps.heights[rising + 1] - steps.heights[rising]) / (
        knots[rising + 1] - knots[rising]
    )
    lengths = below[rising + 1] - below[rising]
    between = np.arange(lengths.sum()) + np.repeat(
        below[rising] - np.cumsum(lengths) + lengths, lengths
    )
    from_knot = target.probabilities[between] - np.repeat(knots[rising], lengths)
    values[between] += np.repeat(slopes, lengths) * from_knot
    return values
