"""Maximum likelihood label shift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimator, Floats, Labelled, order_of_rows
from crosswind.estimators.transport import marginal_of

LEAST_LOGIT = -1e6
"""What stands for a logit of minus infinity, below the largest one of its row."""

SHARPNESS = (-15.0, 4.0)
"""Bounds of the logarithm of 1 / temperature: the lower one calibrates logits that are as far apart
as half precision holds."""

PENALTY = 1e-3
"""Of a squared bias, in the mean log-likelihood: a class without a row would have an infinite one.
"""

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
    version = 1
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


def fitted_calibration(source: Labelled, bias: bool = True) -> Calibration:
    """The temperature and biases that minimise the mean negative log-likelihood of the labels.

    Rows are taken in the order of their logits, so that the last digits do not depend on that in
    which they were given.
    """
    logits = _lowered(source.answers)
    order = order_of_rows(logits, source.label)
    logits = logits[order]
    label = source.label[order]
    n, k = logits.shape
    rows = np.arange(n)

    logs = np.empty_like(logits)
    slope = np.empty_like(logits)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        sharpness = np.exp(parameters[0])
        np.multiply(logits, sharpness, out=logs)
        np.add(logs, parameters[1:], out=logs)
        np.subtract(logs, logs.max(axis=1, keepdims=True), out=logs)
        np.exp(logs, out=slope)
        np.subtract(logs, np.log(slope.sum(axis=1, keepdims=True)), out=logs)
        np.exp(logs, out=slope)
        slope[rows, label] -= 1
        value = -logs[rows, label].mean() + PENALTY / 2 * (parameters[1:] ** 2).sum()
        by_bias = slope.mean(axis=0) + PENALTY * parameters[1:]
        np.multiply(slope, logits, out=slope)
        return float(value), np.append(slope.sum() * sharpness / n, by_bias)

    bounds = [SHARPNESS, *[(None, None) if bias else (0.0, 0.0)] * k]
    minimum = minimize(
        loss,
        np.zeros(k + 1),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-12, "gtol": 1e-7},
    )
    shares = marginal_of(source.label, k)
    return Calibration(float(np.exp(minimum.x[0])), np.asarray(minimum.x[1:]), shares)


def fitted_target_shares(probabilities: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """The likeliest shares of the labels float64 [k], and the probabilities under them, float64 [n,
    k].

    `probabilities` float64 [n, k] belong to the source's `shares` float64 [k]. A class that the
    source lacks has none. A row that no class of the source explains has probabilities of 0.
    """
    present = shares > 0
    now = shares
    weights = np.empty_like(probabilities)  # one array for all passes: they are most of the time
    for _ in range(PASSES):
        ratio = np.divide(now, shares, out=np.zeros_like(shares), where=present)
        np.multiply(probabilities, ratio, out=weights)
        totals = weights.sum(axis=1, keepdims=True)
        totals[totals <= 0] = 1  # the row is zeros, and stays so
        weights /= totals
        before = now
        now = weights.mean(axis=0)
        if np.abs(now - before).sum() < CLOSE:
            break
    return now, weights


def _lowered(answers: Answers) -> Floats:
    assert answers.logits is not None
    logits: NDArray[np.float64] = answers.logits.astype(np.float64)
    return np.maximum(logits - logits.max(axis=1, keepdims=True), LEAST_LOGIT)


def _log_softmax(logits: Floats) -> Floats:
    logits = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))
