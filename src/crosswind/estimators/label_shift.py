"""Whether answers look as under a shift of labels alone: the classes come in other shares, and each looks as it did.

Under such a shift the target's answers and confidences are a mixture, with unknown weights, of what the source shows class by
class (black-box shift estimation, Lipton et al. 2018). Two tests say so: the shares of the answers differ from the source's, and
the mixture fits. Calibration, thresholds and label shares of the source do not hold then, so that no estimator here is exact but by
chance.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls
from scipy.special import chdtrc

from crosswind.estimators.base import Answers, Floats, Labelled

DIFFERS = 0.001
"""The p-value below which the answers have other shares than on the source."""

FITS = 0.01
"""The p-value from which the mixture fits."""

PARTS = 3
"""Into which the confidences of each answer are divided, at quantiles of the source."""

MOST = 100
"""Classes; with more the fit would take long, and nothing is said."""

_LEAST = 10
"""Rows of a cell; smaller cells are one."""


def label_shift(source: Labelled, target: Answers) -> tuple[str, ...]:
    """A sentence where the target looks as under a shift of labels alone; none where it does not, or where it cannot be told."""
    known, k = source.answers, target.classes
    if known.logits is None or target.logits is None or not len(known) or known.classes != k or not 1 < k <= MOST:
        return ()
    if not np.isfinite(known.logits.max(axis=1)).all() or not np.isin(source.label, np.arange(k)).all():
        return ()
    differs, fits = label_shift_test(source, target)
    if differs >= DIFFERS or fits < FITS:
        return ()
    return (f"the answers look as under a shift of labels alone (p {differs:.1g}), under which this estimate is not exact",)


def label_shift_test(source: Labelled, target: Answers) -> tuple[float, float]:
    """Two p-values: of equal shares of the answers on source and target, and of the mixture (0 where it cannot be tested).

    The first is Pearson's test of two rows of counts. The second is a chi-squared test on cells of answer and part of confidence,
    the weights of the classes fitted by non-negative least squares; the variance of a cell holds the chance of both sets.
    """
    k, here, there = target.classes, source.answers, target
    shares = np.stack([np.bincount(item.answer[item.answer >= 0], minlength=k) for item in (here, there)]).astype(np.float64)
    shares = shares[:, shares.sum(axis=0) > 0]
    even = np.outer(shares.sum(axis=1), shares.sum(axis=0)) / shares.sum()
    differs = _tail(shares.shape[1] - 1, ((shares - even) ** 2 / even).sum()) if shares.shape[1] > 1 and even.all() else 1.0
    cells = [np.zeros(len(item), dtype=np.int64) for item in (here, there)]
    for code in np.unique(here.answer):
        ends = np.quantile(here.confidence[here.answer == code], np.arange(1, PARTS) / PARTS)
        for item, cell in zip((here, there), cells, strict=True):
            rows = item.answer == code
            cell[rows] = 1 + PARTS * (code + 1) + np.searchsorted(ends, item.confidence[rows])
    codes = np.unique(source.label)
    many = 1 + PARTS * (k + 1)
    by_class = np.stack([np.bincount(cells[0][source.label == code], minlength=many) for code in codes], axis=1).astype(np.float64)
    counts = np.bincount(cells[1], minlength=many).astype(np.float64)
    small = by_class.sum(axis=1) + counts < _LEAST
    by_class = np.vstack([by_class[~small], by_class[small].sum(axis=0)])
    counts = np.append(counts[~small], counts[small].sum())
    used = by_class.sum(axis=1) + counts > 0
    return differs, _mixture(by_class[used], counts[used])


def _mixture(by_class: Floats, counts: Floats) -> float:
    rows, m = by_class.sum(axis=0), counts.sum()
    profile = by_class / rows
    variance = np.maximum(counts, 1)
    for _ in range(4):
        weight, _ = nnls(m * profile / np.sqrt(variance)[:, None], counts / np.sqrt(variance))
        variance = np.maximum(m * profile @ weight + m**2 * profile @ (weight**2 / rows), 1)
    return _tail(len(counts) - profile.shape[1], (((counts - m * profile @ weight) ** 2) / variance).sum())


def _tail(freedom: int, statistic: float) -> float:
    """The chance of as large a chi-squared; 0 without a degree of freedom."""
    return float(chdtrc(freedom, statistic)) if freedom > 0 else 0.0
