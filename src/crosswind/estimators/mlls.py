"""Maximum likelihood label shift."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import (
    Answers,
    DrawnRows,
    Estimate,
    Estimator,
    Floats,
    Labelled,
    order_of_rows,
)
from crosswind.estimators.transport import marginal_of

LEAST_LOGIT = -1e6
"""What stands for a logit of minus infinity, below the largest one of its row."""

SHARPNESS = (-15.0, 4.0)
"""Bounds of the logarithm of 1 / temperature: the lower one calibrates logits that are as far apart
as half precision holds."""

PENALTY = 1e-3
"""Of a squared bias, in the mean log-likelihood: a class without a row would have an infinite one.
"""

STEPS, DECREASE = 100, 1e-13
"""Most steps of Newton's method, and the decrease of the loss that a step promises, below which it
is the last."""

LAST_DECREASE, LAST_STEP = 1e-10, 1e-3
"""Where a step promises less, and moves no parameter further, the next would promise its square: it
is the last, and its loss is not looked at."""

FURTHEST = 4.0
"""How far a step moves the logarithm of the sharpness or a bias at most: where all probabilities are
0 or 1 the loss has no curvature."""

PORTION = 1 << 16
"""Numbers that are computed with at once: as many as stay in a processor's cache."""

ROUNDING = 1e-13
"""By how much rounding lets a mean logarithm of likelihoods fall."""

PASSES, CLOSE = 300, 1e-6
"""Most passes of the EM algorithm, and the change of the shares, summed over classes, below which
it ends."""


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """Bias-corrected temperature scaling: logits times `sharpness`, plus `bias` float64 [k].
    `shares` float64 [k] of the source's labels."""

    sharpness: float
    bias: Floats
    shares: Floats

    def probabilities(self, answers: Answers) -> Floats:
        """Calibrated probabilities on the source, float64 [n, k]."""
        logits = _lowered(answers) * self.sharpness + self.bias
        return np.asarray(np.exp(_log_softmax(logits)))


@final
@register("mlls", kind="estimator")
@dataclass(frozen=True)
class Mlls(Estimator):
    """Maximum likelihood label shift (MLLS): the mean probability of the answer, after the shares
    of the labels were corrected.

    Estimates: the shares q of the target's labels that make its calibrated probabilities p
    likeliest, by the EM algorithm: w_ij = p_ij q_j / s_j, scaled to sum to 1 over j, and q_j = 1/n
    sum_i w_ij until q stays, with s the source's shares. Then accuracy = 1/n sum_i w_i,answer. p is
    calibrated on the source by one temperature and a bias a class (BCTS).
    Assumes: the classes come in other shares, and each looks as it did on the source. A change of
    the inputs is taken for one.
    Reads: probabilities; labels of the source.
    Deviations: a small penalty keeps biases finite. The papers estimate shares and adapt answers;
    the accuracy is of the answers as they are.
    Reference: Saerens et al. 2002, "Adjusting the Outputs of a Classifier to New a Priori
    Probabilities", equations 2.6 and 2.9; Alexandari et al. 2020, "Maximum Likelihood with
    Bias-Corrected Calibration is Hard-To-Beat at Label Shift Adaptation".
    """

    bias: bool = knob(
        True,
        source="Alexandari et al. 2020",
        doc="whether the calibration has a bias for every class, too",
    )
    version = 2
    access = Access()
    resamples = 50
    corrects_labels = True

    def fit(self, source: Labelled) -> Calibration:
        """The calibration, and the shares of the labels."""
        return fitted_calibration(source, self.bias)

    def estimate(self, fitted: Calibration, target: Answers) -> float:
        """The mean probability of the answers under the target's shares; an answer that names no
        class has none."""
        probabilities = fitted.probabilities(target)
        _, weights = fitted_target_shares(probabilities, fitted.shares)
        named = target.answer >= 0
        return float(weights[named, target.answer[named]].sum() / len(target))

    def redrawn(
        self, source: Labelled, target: Answers, draws: Iterable[DrawnRows]
    ) -> Iterator[float | Estimate]:
        """See `Estimator.redrawn`. A draw is how often each row is there, and Newton's method begins
        at the calibration of all rows. A fit and an estimate of copied rows give the same within
        1e-9; only where rounding decides whether the EM algorithm needs one more pass, within 1e-6.
        """
        rows = _ordered(source)
        start = _fitted_parameters(source, self.bias)
        target_logits = np.ascontiguousarray(_lowered(target).T)
        for source_rows, target_rows in draws:
            assert source_rows is not None
            times = np.bincount(source_rows, minlength=len(source.label))[rows.order]
            drawn = np.flatnonzero(times)
            some = _in_portions(rows, drawn)
            minimum = _minimum(some, times[drawn], self.bias, start)
            by_label = np.bincount(some.label, weights=times[drawn], minlength=target.classes)
            shares = by_label.astype(np.float64) / times.sum()
            there, counts = np.unique(target_rows, return_counts=True)
            probabilities = target_logits.take(there, axis=1)
            probabilities *= np.exp(minimum[0])
            probabilities += minimum[1:, None]
            _to_softmax(probabilities)
            ratio, totals = _likeliest_ratio(probabilities, shares, counts)
            answer = target.answer[there]
            named = np.flatnonzero(answer >= 0)
            of_answers = probabilities[answer[named], named] * ratio[answer[named]] / totals[named]
            yield float((of_answers * counts[named]).sum() / len(target_rows))


def fitted_calibration(source: Labelled, bias: bool = True) -> Calibration:
    """The temperature and biases that minimise the mean negative log-likelihood of the labels.

    Rows are taken in the order of their logits, so that the last digits do not depend on that in
    which they were given.
    """
    minimum = _fitted_parameters(source, bias)
    shares = marginal_of(source.label, source.answers.classes)
    return Calibration(float(np.exp(minimum[0])), minimum[1:], shares)


_parameters: WeakKeyDictionary[Labelled, dict[bool, Floats]] = WeakKeyDictionary()
"""Of labelled rows that are there, with biases or without: several ask for them."""


def _fitted_parameters(source: Labelled, bias: bool) -> Floats:
    """The logarithm of the sharpness and the biases, float64 [k + 1]."""
    by_bias = _parameters.setdefault(source, {})
    if bias not in by_bias:
        n = len(source.label)
        rows = _in_portions(_ordered(source), np.arange(n))
        by_bias[bias] = _minimum(rows, np.ones(n), bias)
    return by_bias[bias]


class _OrderedRows(NamedTuple):
    """Rows of a source: which, int64 [n]; their logits float64 [k, n], a class after the other; and
    their labels int64 [n]."""

    order: NDArray[np.int64]
    logits: Floats
    label: NDArray[np.int64]


def _ordered(source: Labelled) -> _OrderedRows:
    logits = _lowered(source.answers)
    order = order_of_rows(logits, source.label)
    return _OrderedRows(order, np.ascontiguousarray(logits[order].T), source.label[order])


class _SourceRows(NamedTuple):
    """Rows in portions, each float64 [k, some of n] of its own and a slice: the `logits`, a class
    after the other. Then of all rows the labels, and the logits of these, [n]."""

    logits: tuple[Floats, ...]
    slices: tuple[slice, ...]
    label: NDArray[np.int64]
    logits_of_label: Floats


def _in_portions(rows: _OrderedRows, drawn: NDArray[np.int64]) -> _SourceRows:
    """Some of the rows, int64 [n]."""
    size = max(1, PORTION // len(rows.logits))
    slices = tuple(slice(start, start + size) for start in range(0, len(drawn), size))
    logits = tuple(rows.logits.take(drawn[some], axis=1) for some in slices)
    label = rows.label[drawn]
    return _SourceRows(logits, slices, label, rows.logits[label, drawn])


class _Slope(NamedTuple):
    """Loss, its gradient [k + 1] by the logarithm of the sharpness and the biases, and what its
    curvature is made of: `probabilities` in portions, rows' mean logits [n] under them, and sums over rows
    by class of the probabilities, of these times the logits, and of p (1 - p); the sum of p z^2 over
    both."""

    loss: float
    gradient: Floats
    probabilities: tuple[Floats, ...]
    mean_logits: Floats
    by_class: Floats
    logits_by_class: Floats
    spread: Floats
    squared_logits: float


def _slope(rows: _SourceRows, share: Floats, parameters: Floats) -> _Slope:
    """`share` float64 [n]: how much of the whole each row is. Sums are NumPy's own (einsum), whose
    digits do not depend on the number of threads as those of matrix products do."""
    n, k = len(rows.label), len(parameters) - 1
    sharpness = np.exp(parameters[0])
    biases = parameters[1:]
    mean_logits, log_totals = np.empty(n), np.empty(n)
    by_class, logits_by_class, squares = np.zeros(k), np.zeros(k), np.zeros(k)
    squared_logits = 0.0
    portions = []
    for logits, some in zip(rows.logits, rows.slices, strict=True):
        probabilities = logits * sharpness
        probabilities += biases[:, None]
        log_totals[some] = _to_softmax(probabilities)
        by_class += np.einsum("kn,n->k", probabilities, share[some])
        weighted = probabilities * share[some]
        squares += np.einsum("kn,kn->k", weighted, probabilities)
        weighted *= logits
        logits_by_class += weighted.sum(axis=1)
        squared_logits += float(np.einsum("kn,kn->", weighted, logits))
        mean_logits[some] = np.einsum("kn,kn->n", probabilities, logits)
        portions.append(probabilities)
    of_label = rows.logits_of_label * sharpness + biases[rows.label]
    loss = float(np.einsum("n,n->", share, log_totals - of_label))
    loss += PENALTY / 2 * float((biases**2).sum())
    labelled = np.bincount(rows.label, weights=share, minlength=k)
    by_sharpness = sharpness * np.einsum("n,n->", share, mean_logits - rows.logits_of_label)
    gradient = np.append(by_sharpness, by_class - labelled + PENALTY * biases)
    return _Slope(
        loss,
        gradient,
        tuple(portions),
        mean_logits,
        by_class,
        logits_by_class,
        by_class - squares,
        squared_logits,
    )


def _minimum(
    rows: _SourceRows, times: NDArray[Any], bias: bool, start: Floats | None = None
) -> Floats:
    """The logarithm of the sharpness and the biases, float64 [k + 1], at which the loss of rows that
    are there so many `times` is least: Newton's method, each step by conjugate gradients."""
    k = len(rows.logits[0])
    share = times / times.sum()
    parameters = np.zeros(k + 1) if start is None else start
    slope = _slope(rows, share, parameters)
    for _ in range(STEPS):
        free = np.ones(k + 1, dtype=bool)
        free[1:] = bias
        beyond = np.clip(parameters[0] - np.sign(slope.gradient[0]), *SHARPNESS)
        free[0] = beyond != parameters[0]
        step = _newton_step(rows, slope, share, float(np.exp(parameters[0])), free)
        step *= min(1.0, FURTHEST / max(float(np.abs(step).max()), 1e-300))
        promised = -float(slope.gradient @ step)
        if promised <= 0:
            break
        if promised < LAST_DECREASE and np.abs(step).max() < LAST_STEP:
            parameters = parameters + step
            parameters[0] = np.clip(parameters[0], *SHARPNESS)
            break
        length = 1.0
        while True:
            tried = parameters + length * step
            tried[0] = np.clip(tried[0], *SHARPNESS)
            tried_slope = _slope(rows, share, tried)
            if tried_slope.loss <= slope.loss - 1e-4 * length * promised + 1e-14:
                break
            length /= 2
            if length < 1e-9:
                return parameters
        parameters = tried
        slope = tried_slope
        if promised < 2 * DECREASE:
            break
    return parameters


def _newton_step(
    rows: _SourceRows, slope: _Slope, share: Floats, sharpness: float, free: NDArray[np.bool_]
) -> Floats:
    """Less the gradient over the curvature of the free parameters, float64 [k + 1]; the curvature by
    the logarithm of the sharpness without the gradient's part, which is 0 at the minimum."""
    portions = tuple(zip(slope.probabilities, rows.slices, strict=True))

    def curved(direction: Floats) -> Floats:
        stretch = sharpness * direction[0]
        mean = np.empty(len(share))
        by_class = np.zeros(len(direction) - 1)
        for probabilities, some in portions:
            of_some = stretch * slope.mean_logits[some]
            of_some += np.einsum("kn,k->n", probabilities, direction[1:])
            of_some *= share[some]
            by_class += np.einsum("kn,n->k", probabilities, of_some)
            mean[some] = of_some
        by_sharpness = (
            stretch * slope.squared_logits
            + np.einsum("k,k->", direction[1:], slope.logits_by_class)
            - np.einsum("n,n->", mean, slope.mean_logits)
        )
        by_bias = (
            stretch * slope.logits_by_class + direction[1:] * (slope.by_class + PENALTY) - by_class
        )
        return np.where(free, np.append(sharpness * by_sharpness, by_bias), 0.0)

    mean_logits = slope.mean_logits
    around = slope.squared_logits - np.einsum("n,n,n->", share, mean_logits, mean_logits)
    diagonal = np.append(sharpness**2 * max(around, 0.0) + 1e-12, slope.spread + PENALTY)
    remainder = np.where(free, -slope.gradient, 0.0)
    step = np.zeros_like(remainder)
    scaled = remainder / diagonal
    direction = scaled
    length = float(np.einsum("k,k->", remainder, scaled))
    enough = length * min(1e-2, length)
    for _ in range(2 * len(remainder)):
        if length <= enough:
            break
        image = curved(direction)
        curvature = float(np.einsum("k,k->", direction, image))
        if curvature <= 1e-14 * float(np.einsum("k,k->", direction, diagonal * direction)):
            return step if step.any() else direction
        step = step + length / curvature * direction
        remainder = remainder - length / curvature * image
        scaled = remainder / diagonal
        before = length
        length = float(np.einsum("k,k->", remainder, scaled))
        direction = scaled + length / before * direction
    return step


def _to_softmax(logits: Floats) -> Floats:
    """Logits float64 [k, n] made probabilities where they stand; the logarithms [n] of what their
    exponentials sum to."""
    largest = logits.max(axis=0)
    logits -= largest
    np.exp(logits, out=logits)
    totals = logits.sum(axis=0)
    logits /= totals
    return np.asarray(largest + np.log(totals))


def fitted_target_shares(probabilities: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """The likeliest shares of the labels float64 [k], and the probabilities under them, float64 [n,
    k].

    `probabilities` float64 [n, k] belong to the source's `shares` float64 [k]. A class that the
    source lacks has none. A row that no class of the source explains has probabilities of 0.
    """
    by_class = np.ascontiguousarray(probabilities.T)
    ratio, totals = _likeliest_ratio(by_class, shares, np.ones(len(probabilities)))
    weights = probabilities * ratio / totals[:, None]
    return weights.mean(axis=0), weights


def _likeliest_ratio(
    probabilities: Floats, shares: Floats, times: NDArray[Any]
) -> tuple[Floats, Floats]:
    """By how much the last pass of the EM algorithm multiplied each class, float64 [k], and what the
    products of a row then sum to, float64 [n]: 1 where it is 0.

    Two passes show where the next ones lead; the jump there (Varadhan and Roland 2008, "Simple and
    Globally Convergent Methods for Accelerating the Convergence of Any EM Algorithm", scheme S3)
    takes a tenth of the passes and is taken back where the likelihood falls.
    `probabilities` float64 [k, n], of rows that are there so many `times` [n].
    """
    weights = times / times.sum()
    start = shares
    before_jump: _Pass | None = None
    for _ in range(PASSES // 2):
        first = _em_pass(probabilities, shares, weights, start)
        if before_jump is not None and first.likelihood < before_jump.likelihood - ROUNDING:
            start, before_jump = before_jump.target_shares, None
            continue
        if np.abs(first.target_shares - start).sum() < CLOSE:
            return first.ratio, first.totals
        second = _em_pass(probabilities, shares, weights, first.target_shares)
        if np.abs(second.target_shares - first.target_shares).sum() < CLOSE:
            return second.ratio, second.totals
        start, before_jump = _jumped(start, first.target_shares, second.target_shares), second
    return second.ratio, second.totals


class _Pass(NamedTuple):
    """A pass of the EM algorithm: by how much it multiplied each class [k], what the products of a
    row sum to [n], the mean logarithm of these, and the shares [k] that it led to."""

    ratio: Floats
    totals: Floats
    likelihood: float
    target_shares: Floats


def _em_pass(
    probabilities: Floats, shares: Floats, weights: Floats, target_shares: Floats
) -> _Pass:
    ratio = np.divide(target_shares, shares, out=np.zeros_like(shares), where=shares > 0)
    totals = np.einsum("kn,k->n", probabilities, ratio)
    totals[totals <= 0] = 1  # the row is zeros, and stays so
    likelihood = float(np.einsum("n,n->", weights, np.log(totals)))
    by_class = np.einsum("kn,n->k", probabilities, weights / totals)
    return _Pass(ratio, totals, likelihood, ratio * by_class)


def _jumped(start: Floats, first: Floats, second: Floats) -> Floats:
    """Where passes that led from `start` to `first` and to `second` lead further on. A class keeps
    a tenth of its share: one of none would never have any again."""
    step = first - start
    bend = second - first - step
    longer = max(1.0, float(np.linalg.norm(step)) / max(float(np.linalg.norm(bend)), 1e-300))
    jumped = np.maximum(start + 2 * longer * step + longer**2 * bend, second / 10)
    return np.asarray(jumped / jumped.sum() * second.sum())


def _lowered(answers: Answers) -> Floats:
    assert answers.logits is not None
    logits: NDArray[np.float64] = answers.logits.astype(np.float64)
    return np.maximum(logits - logits.max(axis=1, keepdims=True), LEAST_LOGIT)


def _log_softmax(logits: Floats) -> Floats:
    logits = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))
