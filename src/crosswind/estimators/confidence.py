"""Mean confidences: `average-confidence`, `difference-of-confidences`, and `cbpe`, which calibrates
them on the source first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, DrawnRows, Estimate, Estimator, Labelled
from crosswind.estimators.calibration import Calibrator, calibrated, fitted_calibrator
from crosswind.estimators.drawn_calibration import DrawnCalibration


@final
@register("average-confidence", kind="estimator")
@dataclass(frozen=True)
class AverageConfidence(Estimator):
    """Average confidence: the mean of the largest softmax probability over the target rows.

    Estimates: accuracy = 1/n sum_i max_k p_k(x_i).
    Assumes: confidences are calibrated on the target. Under a shift they are mostly too high, and
    so is the estimate.
    Reads: probabilities; nothing of the source.
    Reference: Hendrycks & Gimpel 2017, "A Baseline for Detecting Misclassified and
    Out-of-Distribution Examples"; as an estimate of accuracy the baseline of Guillory et al. 2021
    and Garg et al. 2022.
    """

    version = 2
    refits = False
    no_pool_interval = (
        "of those measured fewer than 85% held the accuracy under strong shifts (81% of 101)"
    )
    access = Access(source=False)

    def fit(self, source: Labelled) -> None:
        """Nothing is kept."""

    def estimate(self, fitted: None, target: Answers) -> float:
        """The mean confidence."""
        return float(target.confidence.mean())

    def redrawn(
        self, source: Labelled, target: Answers, draws: Iterable[DrawnRows]
    ) -> Iterator[float | Estimate]:
        """See `Estimator.redrawn`."""
        confidence = target.confidence
        for _, rows in draws:
            yield float(confidence[rows].mean())


@final
@register("difference-of-confidences", kind="estimator")
@dataclass(frozen=True)
class DifferenceOfConfidences(Estimator):
    """Difference of confidences: the source accuracy, less the drop of the mean confidence from
    source to target.

    Estimates: accuracy = acc_S + 1/n sum_i c_i - 1/m sum_j c_j, i over target rows and j over
    source rows, cut to [0, 1].
    Assumes: confidence exceeds accuracy by as much on the target as on the source.
    Reads: probabilities; labels of the source.
    Deviations: the paper fits a regression of the drop of accuracy on that of confidence over many
    shifts. Its slope is 1 here, as in the public code of Garg et al. 2022.
    Reference: Guillory et al. 2021, "Predicting with Confidence on Unseen Distributions".
    """

    version = 2
    refits = False
    access = Access()

    def fit(self, source: Labelled) -> float:
        """By how much accuracy exceeds confidence on the source."""
        return float((source.right - source.answers.confidence).mean())

    def estimate(self, fitted: float, target: Answers) -> float:
        """The mean confidence, moved by the gap of the source."""
        return float(target.confidence.mean()) + fitted

    def redrawn(
        self, source: Labelled, target: Answers, draws: Iterable[DrawnRows]
    ) -> Iterator[float | Estimate]:
        """See `Estimator.redrawn`."""
        confidence = target.confidence
        gaps = source.right - source.answers.confidence
        for source_rows, rows in draws:
            yield float(confidence[rows].mean()) + float(gaps[source_rows].mean())


@final
@register("cbpe", kind="estimator")
@dataclass(frozen=True)
class Cbpe(Estimator):
    """Confidence-based performance estimation (CBPE): the mean of the calibrated probability of the
    answer.

    Estimates: accuracy = 1/n sum_i g_i, with g_i the probability of row i's answer after isotonic
    calibration on the source, one class against the rest, rows scaled to sum to 1. Beyond the
    probabilities of the source the calibration is constant.
    Assumes: calibration carries over from source to target. No label shift is accounted for.
    Reads: probabilities; labels of the source.
    Deviations: NannyML calibrates only where that lowers the calibration error on ten held-out
    tenths of the source. Here it always does. That rule needs random splits, and the estimate would
    jump where the two errors are close.
    Reference: NannyML, "Confidence-based Performance Estimation"; Bialek et al. 2024, "Estimating
    Model Performance Under Covariate Shift Without Labels". Calibration as in Zadrozny & Elkan
    2002.
    """

    version = 1
    access = Access()

    def fit(self, source: Labelled) -> Calibrator:
        """The steps of each class's calibration."""
        return fitted_calibrator(source.answers.probabilities, source.label)

    def estimate(self, fitted: Calibrator, target: Answers) -> float:
        """The mean calibrated probability of the answers; an answer that names no class has
        none."""
        named = target.answer >= 0
        of_rows = calibrated(fitted, target.probabilities)
        return float(of_rows[named, target.answer[named]].sum() / len(target))

    def redrawn(
        self, source: Labelled, target: Answers, draws: Iterable[DrawnRows]
    ) -> Iterator[float | Estimate]:
        """See `Estimator.redrawn`. Rows are sorted once: a draw only says how often each is there. The
        numbers are equal within 1e-12."""
        calibration = DrawnCalibration(source, target)
        for source_rows, rows in draws:
            assert source_rows is not None
            yield float(calibration.of_answers(source_rows)[rows].sum() / len(rows))
