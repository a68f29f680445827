"""Average confidence and difference of confidences: values by hand and against loops."""

from __future__ import annotations

import numpy as np
import pytest
from tests.estimators.made import drawn, known, of_two, rows_by_hand

from crosswind.estimators.base import Estimate, Labelled
from crosswind.estimators.confidence import AverageConfidence, DifferenceOfConfidences
from crosswind.estimators.estimating import estimated

BOTH = [AverageConfidence(), DifferenceOfConfidences()]


def test_values_by_hand() -> None:
    """Confidences .9 .6 on the target: mean .75. Source: .8 .7, one of two right: .5 - .75 = -.25,
    so the difference is .5."""
    source, target = known(of_two([0.8, 0.7]), [0, 1]), of_two([0.9, 0.4])
    mean, moved = (estimated(estimator, source, target) for estimator in BOTH)
    assert (
        isinstance(mean, Estimate)
        and mean.accuracy == pytest.approx(0.75, abs=1e-9)
        and mean.basis == "rows"
    )
    assert isinstance(moved, Estimate) and moved.accuracy == pytest.approx(0.5, abs=1e-9)


def test_the_interval_of_rows_by_hand() -> None:
    """Rows that are all alike leave the chance of the answers alone: the exact bounds of 9 of
    12."""
    source = known(of_two([0.75] * 40), [0, 0, 0, 1] * 10)
    for estimator in BOTH:
        estimate = estimated(estimator, source, of_two([0.75] * 12))
        # The share that is right of the source varies too, as 200 draws tell it.
        variance = 0.75 * 0.25 / 40 if estimator is BOTH[1] else 0.0
        ends = rows_by_hand(0.75, variance, 12, 0.75, 40)
        assert isinstance(estimate, Estimate) and estimate.low is not None
        assert (estimate.low, estimate.high) == pytest.approx(ends, abs=0.01)


def test_both_equal_an_obvious_reference() -> None:
    for seed in range(10):
        source, target = drawn(seed, 70), drawn(20 + seed, 40, strength=1.0).answers
        means = [
            np.mean([max(np.exp(row) / np.exp(row).sum()) for row in estimator.logits])
            for estimator in (source.answers, target)
        ]
        right = np.mean(
            [
                answer == label
                for answer, label in zip(source.answers.answer, source.label, strict=True)
            ]
        )
        assert BOTH[0].estimate(BOTH[0].fit(source), target) == pytest.approx(means[1], abs=1e-6)
        expected = np.clip(right + means[1] - means[0], 0, 1)
        estimate = estimated(BOTH[1], source, target)
        assert isinstance(estimate, Estimate) and estimate.accuracy == pytest.approx(
            expected, abs=1e-6
        )


def test_on_the_source_itself_the_difference_is_the_accuracy() -> None:
    for p, label in (
        ([0.9, 0.8, 0.6], [0, 1, 0]),
        ([0.9, 0.9], [1, 1]),
        ([1 - 1e-7, 0.99], [0, 0]),
    ):
        source: Labelled = known(of_two(p), label)
        estimate = estimated(BOTH[1], source, source.answers)
        assert isinstance(estimate, Estimate) and estimate.accuracy == pytest.approx(
            source.accuracy, abs=1e-9
        )
