"""Scores of single answers, and the threshold at which as large a share of them is above as is
right.

Ties are what makes a threshold wrong: where many rows have the score of the threshold, as with
saturated confidences, only a part of them may count. That part is kept with the threshold, so that
on the source the share is its accuracy whatever the scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, DrawnRows, Estimate, Estimator, Floats, Labelled
from crosswind.estimators.calibration import scaled_log_probabilities, temperature_of

TOLERANCE = 1e-12
"""Scores whose difference is at most this share of the threshold are tied: so far apart can
rounding bring equal ones."""


def confidence_score(answers: Answers, temperature: float = 1.0) -> Floats:
    """The largest softmax probability less 1, float64 [n] in (-1, 0]: it orders confidences that
    are 1 in any precision."""
    return np.asarray(np.expm1(scaled_log_probabilities(answers, temperature).max(axis=1)))


def entropy_score(answers: Answers, temperature: float = 1.0) -> Floats:
    """The negative entropy of the softmax, sum_k p_k log p_k in nats with 0 log 0 = 0, float64 [n]
    in [-log k, 0]."""
    logs = np.maximum(scaled_log_probabilities(answers, temperature), -1e4)
    return np.asarray((np.exp(logs) * logs).sum(axis=1))


@final
@dataclass(frozen=True)
class Threshold:
    """Scores above `at` count in full, those tied with it `right` times in `tied`."""

    at: float
    right: int = 0
    tied: int = 1

    def share(self, scores: Floats) -> float:
        """The share of the scores that is above, in [0, 1]."""
        room = 0.0
        if np.isfinite(self.at):
            room = TOLERANCE * abs(self.at)
        above = int((scores > self.at + room).sum())
        level = int((scores >= self.at - room).sum()) - above
        return (above + self.right * level / self.tied) / len(scores)


def fitted_threshold(scores: Floats, right: NDArray[np.bool_]) -> Threshold:
    """The threshold below which there are as many scores as wrong answers.

    With e of n answers wrong it lies halfway between the e-th and the next score in rising order;
    below all where none is wrong, above all where all are. Where the two are tied it is their
    score, of which as large a part counts as is missing.
    """
    wrong = int((~right).sum())
    n = len(scores)
    if wrong in (0, n):
        return Threshold(-np.inf if wrong == 0 else np.inf)
    rising = np.sort(scores)
    low = float(rising[wrong - 1])
    high = float(rising[wrong])
    room = TOLERANCE * abs(high)
    if high - low > 2 * room:
        return Threshold((low + high) / 2)
    below = int((rising < high - room).sum())
    upto = int((rising <= high + room).sum())
    return Threshold(high, upto - wrong, upto - below)


@dataclass(frozen=True)
class Thresholded(Estimator):
    """The share of target rows whose `score` is above the threshold that is right on the source."""

    refits = False

    temperature: str = knob(
        "none",
        domain="{none, fit}",
        doc="the temperature of the softmax: 1, or fitted on the source",
        source="Ng et al. 2022",
    )

    @abstractmethod
    def score(self, answers: Answers, temperature: float) -> Floats:
        """A number a row that is larger for surer answers, float64 [n]."""

    def fit(self, source: Labelled) -> tuple[float, Threshold]:
        """The temperature and the threshold."""
        temperature = temperature_of(self.temperature, source)
        scores = self.score(source.answers, temperature)
        return temperature, fitted_threshold(scores, source.right)

    def estimate(self, fitted: tuple[float, Threshold], target: Answers) -> float:
        """The share above the threshold."""
        temperature, threshold = fitted
        return threshold.share(self.score(target, temperature))

    def redrawn(
        self, source: Labelled, target: Answers, draws: Iterable[DrawnRows]
    ) -> Iterator[float | Estimate]:
        """See `Estimator.redrawn`. A temperature that is fitted is another one for every draw, and a
        subclass may fit in its own way."""
        own_fit = type(self).fit is not Thresholded.fit
        own_estimate = type(self).estimate is not Thresholded.estimate
        if self.temperature == "fit" or own_fit or own_estimate:
            yield from super().redrawn(source, target, draws)
            return
        source_scores = self.score(source.answers, 1.0)
        scores = self.score(target, 1.0)
        right = source.right
        for source_rows, rows in draws:
            threshold = fitted_threshold(source_scores[source_rows], right[source_rows])
            yield threshold.share(scores[rows])


@final
@register("atc-mc", kind="estimator")
@dataclass(frozen=True)
class AtcMaximumConfidence(Thresholded):
    """Average thresholded confidence (ATC), maximum confidence: the share of target rows whose
    confidence is above a threshold.

    Estimates: accuracy = 1/n sum_i [c_i > t], with t such that on the source this is the accuracy.
    Rows that are tied at t count in part, so that it is the accuracy exactly.
    Assumes: the share of rows above the threshold goes down by as much as the accuracy. No label
    shift is accounted for.
    Reads: probabilities; labels of the source.
    Deviations: the public code takes a score as its threshold and counts one row too many; here it
    lies between two scores.
    Reference: Garg et al. 2022, "Leveraging Unlabeled Data to Predict Out-of-Distribution
    Performance".
    """

    version = 1
    access = Access()

    def score(self, answers: Answers, temperature: float) -> Floats:
        """The confidence less 1 of each row."""
        return confidence_score(answers, temperature)


@final
@register("atc-ne", kind="estimator")
@dataclass(frozen=True)
class AtcNegativeEntropy(Thresholded):
    """Average thresholded confidence (ATC), negative entropy: the share of target rows whose
    entropy is below a threshold.

    Estimates: accuracy = 1/n sum_i [s_i > t], s = sum_k p_k log p_k, with t such that on the source
    this is the accuracy. Rows that are tied at t count in part, so that it is the accuracy exactly.
    Assumes: the share of rows above the threshold goes down by as much as the accuracy. No label
    shift is accounted for.
    Reads: probabilities; labels of the source.
    Deviations: the public code takes a score as its threshold and counts one row too many; here it
    lies between two scores.
    Reference: Garg et al. 2022, "Leveraging Unlabeled Data to Predict Out-of-Distribution
    Performance".
    """

    version = 1
    access = Access()

    def score(self, answers: Answers, temperature: float) -> Floats:
        """The negative entropy of each row."""
        return entropy_score(answers, temperature)
