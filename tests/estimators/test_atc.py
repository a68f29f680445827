"""Average thresholded confidence: by hand, against loops, exact on its own source whatever the
ties, and faults of others' code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tests.estimators.made import drawn, known, of_probabilities, of_two, said

from crosswind.estimators.base import Answers, Estimate, Labelled
from crosswind.estimators.calibration import BOUNDS, fitted_temperature
from crosswind.estimators.confidence import DifferenceOfConfidences
from crosswind.estimators.estimating import estimated
from crosswind.estimators.thresholds import (
    AtcMaximumConfidence,
    AtcNegativeEntropy,
    confidence_score,
    entropy_score,
)

BOTH = [AtcMaximumConfidence(), AtcNegativeEntropy()]
NAMES = ["mc", "ne"]


def value(
    estimator: AtcMaximumConfidence | AtcNegativeEntropy, source: Labelled, target: Answers
) -> float:
    return estimator.estimate(estimator.fit(source), target)


def test_values_by_hand() -> None:
    """Confidences .9 right, .8 wrong, .7 right, .6 wrong: two errors, so (.7 + .8) / 2 = .75. Two
    of .95 .76 .74 .6 .55 are above.

    With three classes: (.6, .2, .2) is wrong and (.5, .5, 0) right. Negative entropies .6 ln .6 +
    .4 ln .2 = -.950, ln .5 = -.693; the middle is -.822: (.56, .44, 0) with -.686 is above, (.6,
    .3, .1) with -.898 below. Confidences: .55, and both are above.
    """
    source = known(of_two([0.9, 0.8, 0.7, 0.6]), [0, 1, 0, 1])
    target = of_two([0.95, 0.76, 0.26, 0.4, 0.55])
    for estimator in BOTH:
        assert value(estimator, source, target) == 2 / 5
    source = known(of_probabilities([[0.6, 0.2, 0.2], [0.5, 0.5, 0]]), [1, 0])
    target = of_probabilities([[0.56, 0.44, 0], [0.6, 0.3, 0.1]])
    assert [value(estimator, source, target) for estimator in BOTH] == [1.0, 0.5]


@pytest.mark.parametrize("which", [0, 1], ids=NAMES)
def test_equals_an_obvious_reference(which: int) -> None:
    for seed in range(20):
        source, target = drawn(seed, 60 + seed), drawn(100 + seed, 83, strength=1.0).answers
        for choice in ("none", "fit"):
            temperature = 1.0 if choice == "none" else fitted_temperature(source)
            scores = []
            for answers in (source.answers, target):
                assert answers.logits is not None
                rows = []
                for z in answers.logits:
                    p = np.exp(z / temperature) / np.exp(z / temperature).sum()
                    rows.append(max(p) if which == 0 else sum(x * np.log(x) for x in p))
                scores.append(rows)
            wrong = sum(not right for right in source.right)
            rising = sorted(scores[0])
            threshold = (rising[wrong - 1] + rising[wrong]) / 2
            expected = sum(score > threshold for score in scores[1]) / len(target)
            estimator = (AtcMaximumConfidence, AtcNegativeEntropy)[which](temperature=choice)
            assert value(estimator, source, target) == pytest.approx(expected, abs=1e-6)


def tied_sources() -> list[Labelled]:
    random = np.random.default_rng(0)
    few = random.choice(
        [1.0, 2.0, 3.0], size=(49, 3)
    )  # most rows share a score, in every order of the classes
    flat = np.zeros((11, 3))
    sure = np.eye(3)[random.integers(3, size=50)] * 6e4  # 1 in every precision
    nearly_sure = np.stack(
        [np.zeros(50), -40 - np.arange(50.0)], axis=1
    )  # 1 in float64, and yet in order
    logits_of_sources = [
        few,
        flat,
        sure,
        sure.astype(np.float16),
        nearly_sure,
        random.normal(size=(37, 5)).astype(np.float16),
    ]
    return [known(said(z), random.integers(z.shape[1], size=len(z))) for z in logits_of_sources]


@pytest.mark.parametrize("number", range(6))
def test_the_estimate_for_the_source_is_its_accuracy_exactly(number: int) -> None:
    """Also with none and with all right, with one row, and where some of a tie are wrong."""
    source = tied_sources()[number]
    n, k = len(source.answers), source.answers.classes
    right = source.answers.answer
    labels = [source.label, right, (right + 1) % k]
    labels += [np.where(np.arange(n) < wrong, (right + 1) % k, right) for wrong in range(1, n)]
    for label in labels:
        labelled = known(source.answers, label)
        for estimator in BOTH:
            assert value(estimator, labelled, labelled.answers) == labelled.accuracy
            assert (
                value(type(estimator)(temperature="fit"), labelled, labelled.answers)
                == labelled.accuracy
            )
        difference = DifferenceOfConfidences()
        assert difference.estimate(difference.fit(labelled), labelled.answers) == pytest.approx(
            labelled.accuracy, abs=1e-12
        )


def test_a_tie_counts_on_the_target_as_on_the_source() -> None:
    """Confidence 1 in ten rows of the source, 8 right: a target row with it counts .8, one with
    less nothing."""
    sure = np.array([[6e4, -6e4]] * 10, dtype=np.float16)
    source = known(said(sure), [0] * 8 + [1] * 2)
    target = said(np.array([[0, 0], [6e4, -6e4], [-6e4, 6e4], [0, 1]], dtype=np.float16))
    for estimator in BOTH:
        assert value(estimator, source, target) == pytest.approx((0 + 0.8 + 0.8 + 0) / 4, abs=1e-12)
    nearly_tied = known(of_order := said([[0.0, -40.0], [0.0, -50.0], [0.0, -60.0]]), [1, 0, 0])
    assert np.ptp(of_order.confidence) == 0, "equal in float64"
    assert value(BOTH[0], nearly_tied, said([[0.0, -40.3], [0.0, -55.0]])) == 0.5, (
        "and yet told apart"
    )


def test_rows_that_differ_by_rounding_are_tied() -> None:
    """Logits in another order have the same score; rounding makes several of it. With 9 of 24 right
    each row counts 9 / 24."""
    random = np.random.default_rng(0)
    orders = said(random.permuted(np.tile(random.normal(size=9), (24, 1)), axis=1))
    assert np.ptp(confidence_score(orders)) > 0 and np.ptp(entropy_score(orders)) > 0
    source = known(orders, np.where(np.arange(24) < 9, orders.answer, (orders.answer + 1) % 9))
    for estimator in BOTH:
        for i in range(24):
            assert value(estimator, source, orders.take(np.array([i]))) == 9 / 24


def test_without_an_error_everything_counts_and_without_a_right_answer_nothing() -> None:
    source, target = (
        drawn(0, 30, strength=9.0),
        said(np.random.default_rng(0).normal(size=(20, 4)) / 9),
    )
    assert target.confidence.max() < source.answers.confidence.min()
    right = known(source.answers, source.answers.answer)
    wrong = known(target, (target.answer + 1) % 4)
    for estimator in BOTH:
        assert (
            value(estimator, right, target) == 1.0
            and value(estimator, wrong, source.answers) == 0.0
        )


def test_faults_of_the_public_code() -> None:
    """1: a fitted temperature is applied. 2: no error gives 1, not 0. 3: 13 of 20 right give .65,
    not .7; p = 0 is no NaN."""
    source, target = drawn(1, 400, strength=3.0), drawn(2, 400, strength=1.0).answers
    scaled = Labelled(Answers(source.answers.answer, source.answers.logits * 5), source.label)
    assert fitted_temperature(scaled) == pytest.approx(5 * fitted_temperature(source), rel=1e-6)
    assert all(
        value(type(estimator)(temperature="fit"), scaled, Answers(target.answer, target.logits * 5))
        == pytest.approx(value(type(estimator)(temperature="fit"), source, target), abs=1e-12)
        for estimator in BOTH
    )
    plain, fitted = (
        AtcNegativeEntropy(choice).estimate(AtcNegativeEntropy(choice).fit(scaled), target)
        for choice in ("none", "fit")
    )
    assert plain != fitted
    perfect = known(source.answers, source.answers.answer)
    assert all(value(estimator, perfect, source.answers) == 1.0 for estimator in BOTH)
    twenty = known(of_two(np.linspace(0.55, 0.95, 20)), [1] * 7 + [0] * 13)
    assert all(value(estimator, twenty, twenty.answers) == 0.65 for estimator in BOTH)
    zero = known(of_probabilities([[1, 0, 0], [0.6, 0.4, 0], [0.5, 0.3, 0.2]]), [0, 0, 1])
    assert all(
        value(type(estimator)(choice), zero, zero.answers) == 2 / 3
        for estimator in BOTH
        for choice in ("none", "fit")
    )


def test_the_framework_makes_an_interval_around_it() -> None:
    source, target = drawn(3, 150), drawn(4, 150)
    for estimator in BOTH:
        estimate = estimated(estimator, source, target.answers)
        assert (
            isinstance(estimate, Estimate)
            and estimate.basis == "rows"
            and estimate.low is not None
            and estimate.high is not None
        )
        assert (
            estimate.low < estimate.accuracy < estimate.high
            and estimate.low <= target.accuracy <= estimate.high
        )


def test_temperature() -> None:
    """Logits (1, 0) in four rows, three right: sigmoid(1 / T) = .75, so T = 1 / ln 3. On random
    rows, as a plain minimiser says."""
    four = known(said([[1.0, 0.0]] * 4), [0, 0, 0, 1])
    assert fitted_temperature(four) == pytest.approx(1 / np.log(3), abs=1e-9)
    for seed in range(5):
        source = drawn(seed, 200)

        def loss(log_temperature: float, source: Labelled = source) -> float:
            z = source.answers.logits / np.exp(log_temperature)
            return float(
                np.mean(
                    [
                        np.log(np.exp(row).sum()) - row[label]
                        for row, label in zip(z, source.label, strict=True)
                    ]
                )
            )

        minimum = minimize_scalar(
            loss, bounds=np.log(BOUNDS), method="bounded", options={"xatol": 1e-10}
        )
        assert fitted_temperature(source) == pytest.approx(np.exp(minimum.x), rel=1e-5)
    right = known(source.answers, source.answers.answer)
    wrong = known(source.answers, source.answers.logits.argmin(axis=1))
    assert (fitted_temperature(right), fitted_temperature(wrong)) == BOUNDS
    never = known(of_probabilities([[1, 0], [1, 0]]), [1, 1])
    assert fitted_temperature(never) == 1.0, "labels of probability 0 tell nothing"
    ruled_out = known(said([[1.0, 0.0, -np.inf]] * 4 + [[1.0, 0.0, -np.inf]]), [0, 0, 0, 1, 2])
    assert fitted_temperature(ruled_out) == pytest.approx(1 / np.log(3), abs=1e-9)
