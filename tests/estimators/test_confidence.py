"""Average confidence and difference of confidences: values by hand, intervals on calibrated answers, no label of the target."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from crosswind.core.types import Predictions
from crosswind.estimators.average_confidence import AverageConfidence
from crosswind.estimators.base import Answers, Estimate, Estimator, estimated
from crosswind.estimators.difference_of_confidences import DifferenceOfConfidences

BOTH = [AverageConfidence(), DifferenceOfConfidences()]


def answered(p: list[float] | np.ndarray, label: list[int] | np.ndarray) -> Predictions:
    """Two classes; class 0 has probability p and is the answer from 0.5 on."""
    p = np.asarray(p, dtype=np.float64)
    logits = np.log(np.stack([p, 1 - p], axis=1)).astype(np.float32)
    n = len(p)
    return Predictions(np.arange(n), np.asarray(label), np.zeros(n, dtype=np.int64), logits.argmax(1), logits)


def test_values_by_hand() -> None:
    """Confidences .9 .6 on the target: mean .75, variance (.09 + .24) / 4. Source: .8 .7, one of two right: .5 - .75 = -.25."""
    source, target = answered([0.8, 0.7], [0, 1]), answered([0.9, 0.4], [0, 0])
    mean = estimated(BOTH[0], source, target)
    assert isinstance(mean, Estimate) and mean.accuracy == pytest.approx(0.75, abs=1e-6)
    assert mean.high == 1.0 and mean.low == pytest.approx(0.75 - 1.959964 * (0.33 / 4) ** 0.5, abs=1e-6)
    moved = estimated(BOTH[1], source, target)
    # right - confidence is .2 and -.7: variance .2025, over two rows
    error = (0.2025 / 2 + 0.33 / 4) ** 0.5
    assert isinstance(moved, Estimate) and moved.accuracy == pytest.approx(0.5, abs=1e-6)
    assert moved.low == 0.0 and moved.high == pytest.approx(min(0.5 + 1.959964 * error, 1.0), abs=1e-6)


@pytest.mark.parametrize("estimator", BOTH, ids=["average", "difference"])
def test_the_interval_holds_the_accuracy_of_calibrated_answers_19_times_of_20(estimator: Estimator) -> None:
    random, held = np.random.default_rng(0), 0
    for _ in range(400):
        sides = []
        for n in (150, 200):
            p = random.uniform(0.5, 1, n)
            sides.append(answered(p, (random.uniform(size=n) > p).astype(np.int64)))
        told = estimated(estimator, *sides)
        assert isinstance(told, Estimate) and told.low is not None and told.high is not None
        held += told.low <= float((sides[1].answer == sides[1].label).mean()) <= told.high
    assert 368 <= held <= 392  # 380 expected, three standard deviations are 13


def test_on_the_source_itself_the_difference_is_the_accuracy() -> None:
    for p, label in (([0.9, 0.8, 0.6], [0, 1, 0]), ([0.9, 0.9], [1, 1]), ([1 - 1e-7, 0.99], [0, 0])):
        source = answered(p, label)
        told = estimated(BOTH[1], source, source)
        assert isinstance(told, Estimate) and told.accuracy == pytest.approx(
            float((source.answer == source.label).mean()), abs=1e-6
        )


@pytest.mark.parametrize("estimator", BOTH, ids=["average", "difference"])
def test_labels_and_groups_of_the_target_are_not_read(estimator: Estimator) -> None:
    source, target = answered([0.8, 0.7, 0.3], [0, 1, 1]), answered([0.9, 0.4], [0, 0])
    others = dataclasses.replace(target, label=np.array([1, -1]), group=np.array([-1, 7]))
    assert estimated(estimator, source, target) == estimated(estimator, source, others)
    assert {field.name for field in dataclasses.fields(Answers)} == {"answer", "logits"}, "what an estimator is handed"


@pytest.mark.parametrize("estimator", BOTH, ids=["average", "difference"])
def test_answers_without_usable_logits_are_told_of(estimator: Estimator) -> None:
    good = answered([0.8, 0.7], [0, 1])
    none = dataclasses.replace(good, logits=None)
    broken = dataclasses.replace(good, logits=np.array([[np.nan, 0], [1, 0]], dtype=np.float32))
    # A class that is ruled out is no fault.
    ruled_out = dataclasses.replace(good, logits=np.array([[0, -np.inf], [1, 0]], dtype=np.float32))
    assert "labels without logits for the rows of the set" in str(estimated(estimator, good, none))
    assert "labels without logits for the rows of the source" in str(estimated(estimator, none, good))
    assert "not finite for the rows of the set" in str(estimated(estimator, good, broken))
    assert isinstance(estimated(estimator, good, ruled_out), Estimate)
