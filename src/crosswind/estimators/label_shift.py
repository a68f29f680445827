"""Whether answers look as under a shift of labels alone: the classes come in other shares, and each
looks as it did.

Under such a shift the target's answers and confidences are a mixture, with unknown weights, of what
the source shows class by class (black-box shift estimation, Lipton et al. 2018). The weights are
fitted, and the verdict is by size and not by significance: with a thousand rows any two real sets
differ for certain. A shift of labels is one that moves more than `MOVED` of the labels and leaves
less than `UNEXPLAINED` of the squared distance between source and target. That distance is the
maximum mean discrepancy (Gretton et al. 2012) of the calibrated outputs p and q under the kernel
(sum_j sqrt(p_j q_j))^2, less what chance makes it. A corruption moves the answers as other shares
would, and leaves outputs that no mixture of the source's classes holds: rows between two classes.
Calibration, thresholds and label shares of the source do not hold under a shift of labels, so that
no estimator here is exact but by chance. How often it is right:
`benchmarks/papers/label_shifts.py`.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import chdtrc

from crosswind.estimators.base import Answers, Floats, Labelled
from crosswind.estimators.mlls import Calibration, fitted_calibration

DIFFERS = 0.001
"""The p-value below which source and target differ."""

MOVED = 0.1
"""The share of the labels that lies in other classes, above which a shift of labels is told of."""

UNEXPLAINED = 0.001
"""The part of the squared distance between source and target that other shares of the labels leave,
below which it is told of. Chosen on networks of which no reported figure is made: between 0 and
0.001 nothing changed, and at 0.01 a strong corruption was taken for a shift of labels."""

PARTS = 3
"""Into which the confidences of each answer are divided, at quantiles of the source."""

MOST = 100
"""Classes; with more the fit would take long, and nothing is said."""

_LEAST = 10
"""Rows of a cell; smaller cells are one."""

TEXT = "the answers look as under a shift of labels alone, under which this estimate is not exact"


class FittedShares(NamedTuple):
    """`differs`: the p-value of no difference. `moved`: the share of the labels in other classes
    than on the source. `explained`: 1 less the distance of the best mixture to the target over that
    of the source, both total variation. `unexplained`: the same quotient of squared distances of
    whole outputs, less what chance makes them, 0 or below where nothing is left. `shares` float64
    [k]."""

    differs: float
    moved: float
    explained: float
    unexplained: float
    shares: Floats

    @property
    def told(self) -> bool:
        """Whether it looks as under a shift of labels alone."""
        return self.differs < DIFFERS and self.moved > MOVED and self.unexplained < UNEXPLAINED


_fitted: WeakKeyDictionary[Labelled, WeakKeyDictionary[Answers, FittedShares | None]] = (
    WeakKeyDictionary()
)


def label_shift(source: Labelled, target: Answers) -> tuple[str, ...]:
    """A sentence where the target looks as under a shift of labels alone; none where it does not,
    or where it cannot be told."""
    fit = fitted_shares(source, target)
    if fit is not None and fit.told:
        return (TEXT,)
    return ()


def fitted_shares(source: Labelled, target: Answers) -> FittedShares | None:
    """The shares of the labels that explain the target best; None where that cannot be told.

    It is fitted once for a source and a target, and remembered as long as both are there: every
    estimator asks for it.
    """
    of_source = _fitted.setdefault(source, WeakKeyDictionary())
    if target not in of_source:
        of_source[target] = _fit(source, target)
    return of_source[target]


def _fit(source: Labelled, target: Answers) -> FittedShares | None:
    """See `fitted_shares`.

    Cells are an answer and a part of its confidence. The weights of the classes are fitted by
    non-negative least squares; the variance of a cell holds the chance of both sets.
    """
    source_answers = source.answers
    k = target.classes
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
    codes = np.unique(source.label)
    n_cells = 1 + PARTS * (k + 1)
    by_class = np.stack(
        [np.bincount(cells[0][source.label == code], minlength=n_cells) for code in codes], axis=1
    ).astype(np.float64)
    counts = np.bincount(cells[1], minlength=n_cells).astype(np.float64)
    small = by_class.sum(axis=1) + counts < _LEAST
    by_class = np.vstack([by_class[~small], by_class[small].sum(axis=0)])
    counts = np.append(counts[~small], counts[small].sum())
    used = by_class.sum(axis=1) + counts > 0
    by_class = by_class[used]
    counts = counts[used]
    rows_of = by_class.sum(axis=0)
    m = counts.sum()
    profile = by_class / rows_of
    before = rows_of / rows_of.sum()
    weight = _weights(profile, rows_of, counts)
    expected = m * profile @ before
    variance = np.maximum(expected + m**2 * profile @ (before**2 / rows_of), 1)
    statistic = float(((counts - expected) ** 2 / variance).sum())
    far = 0.5 * float(np.abs(counts / m - profile @ before).sum())
    left = 0.5 * float(np.abs(counts / m - profile @ weight).sum())
    if weight.sum() > 0:
        after = weight / weight.sum()
    else:
        after = before
    shares = np.zeros(k)
    shares[codes] = after
    differs = 1.0
    if len(counts) > 1:
        differs = float(chdtrc(len(counts) - 1, statistic))
    moved = 0.5 * float(np.abs(after - before).sum())
    explained = 1 - left / far if far > 0 else 0.0
    return FittedShares(differs, moved, explained, _unexplained(source, target), shares)


class _ShareProfile(NamedTuple):
    """The source's outputs: `calibration`; `roots` float64 [n, k] of calibrated probabilities;
    `codes` of the classes that it has, and `basis`, `triangle`: QR of their mean embeddings."""

    calibration: Calibration
    roots: Floats
    codes: NDArray[np.int64]
    basis: Floats
    triangle: Floats


_profiles: WeakKeyDictionary[Labelled, _ShareProfile] = WeakKeyDictionary()


def _profile(source: Labelled) -> _ShareProfile:
    profile = _profiles.get(source)
    if profile is None:
        calibration = fitted_calibration(source)
        roots = np.sqrt(calibration.probabilities(source.answers))
        codes = np.unique(source.label)
        by_class = []
        for code in codes:
            rows = source.label == code
            by_class.append(_embedded(roots[rows], source.answers.answer[rows]))
        basis, triangle = np.linalg.qr(np.vstack([np.stack(by_class, axis=1), _one(len(codes))]))
        profile = _profiles.setdefault(
            source, _ShareProfile(calibration, roots, codes, basis, triangle)
        )
    return profile


def _one(classes: int) -> Floats:
    """A heavy row of the least squares, by which the shares sum to 1."""
    return np.full((1, classes), 10.0)


def _embedded(roots: Floats, answer: NDArray[np.int64]) -> Floats:
    """Mean products of root probabilities, and behind them the shares of the answers, -1 last:
    float64 [k k + k + 1]."""
    k = roots.shape[1]
    shares = np.bincount(np.where(answer < 0, k, answer), minlength=k + 1) / len(answer)
    return np.append((roots.T @ roots / len(roots)).ravel(), shares)


def _unexplained(source: Labelled, target: Answers) -> float:
    """The unexplained part of the squared distance between the outputs of source and target; 1
    where there is no distance. The source's rows weigh as the best mixture of their classes.

    The mixture is fitted to the mean embedding and to the shares of the answers: those have less
    chance in them.
    """
    if not np.isfinite(target.log_probabilities.max(axis=1)).all():
        return 1.0
    profile = _profile(source)
    roots = np.sqrt(profile.calibration.probabilities(target))
    target_embedding = np.append(_embedded(roots, target.answer), _one(1))
    weight = nnls(profile.triangle, profile.basis.T @ target_embedding)[0]
    class_index = np.searchsorted(profile.codes, source.label)
    rows_of = np.bincount(class_index)
    if weight.sum() <= 0:
        return 1.0
    rows = (weight / weight.sum() / rows_of)[class_index]
    even = np.full(len(rows), 1 / len(rows))
    far = _squared_distance(profile.roots, even, roots)
    left = _squared_distance(profile.roots, rows, roots)
    if far > 0:
        return left / far
    return 1.0


def _squared_distance(first_rows: Floats, weights: Floats, second_rows: Floats) -> float:
    """Between the mean embeddings of weighted rows `first_rows` and of rows `second_rows`, less its
    expectation
    where both are draws of one law. Every row is embedded at length 1."""
    mean = (first_rows * weights[:, None]).T @ first_rows
    second_mean = second_rows.T @ second_rows / len(second_rows)
    onto = ((first_rows @ mean) * first_rows).sum(axis=1)
    chance_of_first = float((weights**2 * (1 - 2 * onto + (mean**2).sum())).sum())
    chance_of_second = float(1 - (second_mean**2).sum()) / max(len(second_rows) - 1, 1)
    return float(((mean - second_mean) ** 2).sum()) - chance_of_first - chance_of_second


def _weights(profile: Floats, rows: Floats, counts: Floats) -> Floats:
    m = counts.sum()
    variance = np.maximum(counts, 1)
    for _ in range(4):
        sd = np.sqrt(variance)
        weight: Floats = nnls(m * profile / sd[:, None], counts / sd)[0]
        expected = m * profile @ weight
        variance = np.maximum(expected + m**2 * profile @ (weight**2 / rows), 1)
    return weight
