"""Confidence-based performance estimation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimator, Labelled
from crosswind.estimators.calibration import Calibrator, calibrated, fitted_calibrator


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
