"""Whether answers look as under a shift of labels alone: the classes come in other shares, and each
looks as it did.

Under such a shift the target's answers and confidences are a mixture, with unknown weights, of what
the source shows class by class (black-box shift estimation, Lipton et al. 2018). The weights are
fitted, and the verdict is by size and not by significance: with a thousand rows any two real sets
differ for certain. A shift of labels is one that moves more than `MOVED` of the labels and explains
more than `EXPLAINED` of the distance between source and target. Calibration, thresholds and label
shares of the source do not hold then, so that no estimator here is exact but by chance. How often
it is right: `benchmarks/papers/label_shifts.py`.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.optimize import nnls
from scipy.special import chdtrc

from crosswind.estimators.base import Answers, Floats, Labelled

DIFFERS = 0.001
"""The p-value below which source and target differ."""

MOVED = 0.1
"""The share of the labels that lies in other classes, above which a shift of labels is told of."""

EXPLAINED = 0.35
"""The part of the distance between source and target that other shares of the labels explain, above
which it is told of."""

PARTS = 3
"""Into which the confidences of each answer are divided, at quantiles of the source."""

MOST = 100
"""Classes; with more the fit would take long, and nothing is said."""

_LEAST = 10
"""Rows of a cell; smaller cells are one."""

TEXT = "the answers look as under a shift of labels alone, under which this estimate is not exact"


class Fitted(NamedTuple):
    """`differs`: the p-value of no difference. `moved`: the share of the labels in other classes
    than on the source. `explained`: 1 less the distance of the best mixture to the target over that
    of the source, both total variation. `shares` float64 [k]."""

    differs: float
    moved: float
    explained: float
    shares: Floats

    @property
    def told(self) -> bool:
        """Whether it looks as under a shift of labels alone."""
        return self.differs < DIFFERS and self.moved > MOVED and self.explained > EXPLAINED


_fitted: WeakKeyDictionary[Labelled, WeakKeyDictionary[Answers, Fitted | None]] = (
    WeakKeyDictionary()
)


def label_shift(source: Labelled, target: Answers) -> tuple[str, ...]:
    """A sentence where the target looks as under a shift of labels alone; none where it does not,
    or where it cannot be told."""
    fit = fitted_shares(source, target)
    return (TEXT,) if fit is not None and fit.told else ()


def fitted_shares(source: Labelled, target: Answers) -> Fitted | None:
    """The shares of the labels that explain the target best; None where that cannot be told.

    It is fitted once for a source and a target, and remembered as long as both are there: every
    estimator asks for it.
    """
    of_source = _fitted.setdefault(source, WeakKeyDictionary())
    if target not in of_source:
        of_source[target] = _fit(source, target)
    return of_source[target]


def _fit(source: Labelled, target: Answers) -> Fitted | None:
    """See `fitted_shares`.

    Cells are an answer and a part of its confidence. The weights of the classes are fitted by
    non-negative least squares; the variance of a cell holds the chance of both sets.
    """
    source_answers, k = source.answers, target.classes
    if (
        source_answers.logits is None
        or target.logits is None
        or not len(source_answers)
        or source_answers.classes != k
        or not 1 < k <= MOST
    ):
        return None
    if (
        not np.isfinite(source_answers.logits.max(axis=1)).all()
        or not np.isin(source.label, np.arange(k)).all()
    ):
        return None
    cells = [np.zeros(len(answers), dtype=np.int64) for answers in (source_answers, target)]
    for code in np.unique(source_answers.answer):
        ends = np.quantile(
            source_answers.confidence[source_answers.answer == code], np.arange(1, PARTS) / PARTS
        )
        for answers, cell in zip((source_answers, target), cells, strict=True):
            rows = answers.answer == code
            cell[rows] = 1 + PARTS * (code + 1) + np.searchsorted(ends, answers.confidence[rows])
    codes, n_cells = np.unique(source.label), 1 + PARTS * (k + 1)
    by_class = np.stack(
        [np.bincount(cells[0][source.label == code], minlength=n_cells) for code in codes], axis=1
    ).astype(np.float64)
    counts = np.bincount(cells[1], minlength=n_cells).astype(np.float64)
    small = by_class.sum(axis=1) + counts < _LEAST
    by_class = np.vstack([by_class[~small], by_class[small].sum(axis=0)])
    counts = np.append(counts[~small], counts[small].sum())
    used = by_class.sum(axis=1) + counts > 0
    by_class, counts = by_class[used], counts[used]
    rows_of, m = by_class.sum(axis=0), counts.sum()
    profile, before = by_class / rows_of, rows_of / rows_of.sum()
    weight = _weights(profile, rows_of, counts)
    expected = m * profile @ before
    variance = np.maximum(expected + m**2 * profile @ (before**2 / rows_of), 1)
    statistic = float(((counts - expected) ** 2 / variance).sum())
    far, left = (
        0.5 * float(np.abs(counts / m - profile @ weights).sum()) for weights in (before, weight)
    )
    after = weight / weight.sum() if weight.sum() > 0 else before
    shares = np.zeros(k)
    shares[codes] = after
    differs = float(chdtrc(len(counts) - 1, statistic)) if len(counts) > 1 else 1.0
    return Fitted(
        differs,
        0.5 * float(np.abs(after - before).sum()),
        1 - left / far if far > 0 else 0.0,
        shares,
    )


def _weights(profile: Floats, rows: Floats, counts: Floats) -> Floats:
    m, variance = counts.sum(), np.maximum(counts, 1)
    for _ in range(4):
        weight: Floats = nnls(m * profile / np.sqrt(variance)[:, None], counts / np.sqrt(variance))[
            0
        ]
        variance = np.maximum(m * profile @ weight + m**2 * profile @ (weight**2 / rows), 1)
    return weight
