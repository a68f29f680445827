"""Intervals where the rows hold no mistake, or few rows: the exact bounds of what they could have
held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.estimators.made import known, of_two, said

from crosswind.core.registry import listing, load
from crosswind.estimators.agreement import AgreementOnTheLine, Disagreement
from crosswind.estimators.base import Estimate, Estimator, Labelled
from crosswind.estimators.confidence import AverageConfidence, DifferenceOfConfidences
from crosswind.estimators.diagnosis import diagnosed
from crosswind.estimators.estimating import estimated, estimated_jointly
from crosswind.estimators.intervals import (
    DrawnSource,
    Held,
    exact_bounds,
    few_rows,
    with_pool,
    with_rows,
)
from crosswind.estimators.thresholds import AtcMaximumConfidence

BY_ROWS = {
    item.name: made()
    for item in listing("estimators")
    if issubclass(made := load("estimators", item.name), Estimator) and made.resamples
}


def answering(
    random: np.random.Generator, n: int, accuracy: float, margins: str = "telling"
) -> Labelled:
    """Three classes, so many right. `margins` by which answers win: larger for right ones, all
    equal, all saturated, or tied."""
    label = random.integers(3, size=n)
    right = random.random(n) < accuracy
    answer = np.where(right, label, (label + 1 + random.integers(2, size=n)) % 3)
    margin = {
        "telling": np.where(right, random.gamma(4, 1, n), random.gamma(1.5, 0.6, n)),
        "equal": np.full(n, 3.0),
        "saturated": np.full(n, 200.0),
        "tied": random.integers(1, 4, n).astype(float),
    }[margins]
    logits = np.zeros((n, 3))
    logits[np.arange(n), answer] = margin
    return known(said(logits), label)


# -- the bounds ------------------------------------------------------------------------------------


def test_exact_bounds_by_hand() -> None:
    """Of n right ones the probability is p^n = .05 at the lower end; 1 of 2: 1 - (1 - p)^2 = .05
    and p^2 = .95 at the ends."""
    assert exact_bounds(1.0, 264) == pytest.approx((0.05 ** (1 / 264), 1.0))
    assert exact_bounds(1.0, 3) == pytest.approx((0.368403, 1.0), abs=1e-6)
    assert exact_bounds(0.0, 3) == pytest.approx((0.0, 0.631597), abs=1e-6)
    assert exact_bounds(0.5, 2) == pytest.approx((1 - 0.95**0.5, 0.95**0.5))
    low, high = exact_bounds(0.95, 10)
    assert (
        exact_bounds(0.9, 10)[0] < low < exact_bounds(1.0, 10)[0]
        and exact_bounds(0.9, 10)[1] < high <= 1
    ), "half a row"


def test_an_interval_of_rows_by_hand() -> None:
    """No mistake in 264: the source reaches 1 - .05^(1/264), the target of 200 rows 1 -
    .05^(1/200), in quadrature."""
    estimate = with_rows(Estimate(1.0), 0.0, 200, DrawnSource(1.0, 264, 1.0))
    assert estimate.low == pytest.approx(1 - np.hypot(1 - 0.05 ** (1 / 264), 1 - 0.05 ** (1 / 200)))
    assert (estimate.high, estimate.basis) == (1.0, "rows")
    off = with_rows(Estimate(1.0), 0.0, 200, DrawnSource(0.9, 264, 1.0))
    reach = 1 - exact_bounds(0.9, 264)[0]
    assert off.low == pytest.approx(1 - np.hypot(reach, 1 - 0.05 ** (1 / 200))), (
        "it is .1 too high on the source itself"
    )
    assert off.high == 1.0
    of_one_row = with_rows(Estimate(1.0), 0.0, 200, DrawnSource(1.0, 1, 1.0))
    assert (of_one_row.low, of_one_row.high) == (0.0, 1.0), "one labelled row"


@pytest.mark.parametrize("margins", ["telling", "equal", "saturated", "tied"])
@pytest.mark.parametrize("accuracy", [1.0, 0.0, 0.9])
@pytest.mark.parametrize("name", BY_ROWS)
def test_no_interval_of_rows_collapses(
    name: str, accuracy: float, margins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(BY_ROWS[name]), "resamples", 3)
    random = np.random.default_rng(0)
    target = answering(random, 50, accuracy, margins).answers
    for rows in (1, 3, 10, 264):
        source = answering(random, rows, accuracy, margins)
        estimate = estimated(BY_ROWS[name], source, target)
        assert (
            isinstance(estimate, Estimate)
            and estimate.low is not None
            and estimate.high is not None
        )
        least = 0.02 if rows > 3 else 0.35
        assert estimate.high - estimate.low >= least, (rows, estimate)
        assert 0 <= estimate.low <= estimate.accuracy <= estimate.high <= 1


def test_one_row_to_estimate_may_be_right_or_wrong() -> None:
    source, target = (
        answering(np.random.default_rng(0), 100, 1.0),
        answering(np.random.default_rng(1), 1, 1.0),
    )
    for estimator in (AtcMaximumConfidence(), AverageConfidence()):
        estimate = estimated(estimator, source, target.answers)
        assert isinstance(estimate, Estimate) and estimate.low is not None and estimate.low < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "new"), [(3, 100), (10, 40), (40, 150), (300, 200)])
@pytest.mark.parametrize("name", BY_ROWS)
def test_intervals_of_few_rows_hold(
    name: str, rows: int, new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 90% at least 85 in 100 hold, without a shift; four kinds of confidences, accuracies of
    0.9, 0.97 and 1. Calibration by class that was learned from three rows holds 80."""
    estimator = BY_ROWS[name]
    monkeypatch.setattr(type(estimator), "resamples", 12)
    random, covered = np.random.default_rng([rows, new]), []
    for trial in range(72):
        accuracy, margins = (
            (0.9, 0.97, 1.0)[trial % 3],
            ("telling", "equal", "saturated", "tied")[trial % 4],
        )
        source, target = (answering(random, n, accuracy, margins) for n in (rows, new))
        estimate = estimated(estimator, source, target.answers)
        assert (
            isinstance(estimate, Estimate)
            and estimate.low is not None
            and estimate.high is not None
        )
        covered.append(estimate.low - 1e-9 <= target.accuracy <= estimate.high + 1e-9)
    assert np.mean(covered) >= (0.85 if rows > 3 else 0.8)


# -- with a pool, and of several models ------------------------------------------------------------


def test_an_interval_of_a_pool_without_a_mistake_does_not_collapse() -> None:
    """Many rows of the target and none wrong anywhere: nothing is left of the pool, and the rows'
    own chance stands."""
    held_out = [Held(str(i), 1.0, 1.0, 100) for i in range(23)]
    estimate = with_pool(Estimate(1.0), 1.0, held_out, 5000, 264)
    assert estimate.low == pytest.approx(
        1 - np.hypot(1 - 0.05 ** (1 / 264), 1 - 0.05 ** (1 / 5000))
    )
    assert estimate.high == 1.0
    nothing = with_pool(
        Estimate(0.0),
        0.0,
        [replace(pool_set, estimate=0.0, accuracy=0.0) for pool_set in held_out],
        5000,
        264,
    )
    assert nothing.low == 0.0 and nothing.high == pytest.approx(1 - estimate.low)  # type: ignore[operator]
    leaning = with_pool(
        Estimate(0.9), 0.9, [replace(pool_set, estimate=0.9) for pool_set in held_out], 5000, 264
    )
    assert (
        leaning.low is not None and leaning.high is not None and leaning.high - leaning.low > 0.01
    ), "all err alike"


@pytest.mark.parametrize("accuracy", [0.0, 1.0])
@pytest.mark.parametrize(
    "estimator", [Disagreement(), AgreementOnTheLine()], ids=["disagreement", "line"]
)
def test_models_that_agree_on_every_row(
    estimator: Disagreement | AgreementOnTheLine, accuracy: float
) -> None:
    source, target = (
        answering(np.random.default_rng(0), 200, accuracy),
        answering(np.random.default_rng(1), 90, accuracy),
    )
    estimates = estimated_jointly(estimator, [source] * 3, [target.answers] * 3)
    assert isinstance(estimates, list)
    for estimate_of in estimates:
        assert (
            estimate_of.low is not None
            and estimate_of.high is not None
            and estimate_of.high - estimate_of.low > 0.02
        )
    few = estimated_jointly(
        AgreementOnTheLine(), [source.take(np.arange(5))] * 3, [target.answers] * 3
    )
    assert isinstance(few, list) and few[0].warnings[-1].startswith(
        "the source has 5 labelled rows"
    )


# -- what is told ----------------------------------------------------------------------------------


def test_few_rows_and_no_mistakes_are_told_of() -> None:
    random = np.random.default_rng(0)
    target = answering(random, 60, 0.9).answers
    for rows, word in ((1, "1 labelled row,"), (3, "3 labelled rows,"), (29, "29 labelled rows,")):
        source = answering(random, rows, 0.6)
        estimate = estimated(DifferenceOfConfidences(), source, target)
        assert isinstance(estimate, Estimate) and any(word in text for text in estimate.warnings)
        by_name = {finding.name: finding for finding in diagnosed(source, target)}
        assert (
            by_name["source-rows"].value == rows
            and by_name["source-rows"].warning in estimate.warnings
        )
    bare = estimated(AverageConfidence(), answering(random, 3, 1.0), target)
    assert isinstance(bare, Estimate) and not any(
        "labelled row" in text for text in bare.warnings
    ), "it learns nothing from them"
    assert few_rows(30) == few_rows(0) == ()
    right = {finding.name: finding for finding in diagnosed(answering(random, 40, 1.0), target)}
    assert (
        right["source-mistakes"].value == 0
        and "none of the 40 answers on source is wrong" in right["source-mistakes"].warning
    )
    usual = {
        finding.name: finding.warning for finding in diagnosed(answering(random, 400, 0.9), target)
    }
    assert usual["source-rows"] == usual["source-mistakes"] == ""


def test_confidence_that_is_wrong_on_the_source_reaches_as_far() -> None:
    """Confidences of 1, of which 80% are right on the source: the interval of the mean confidence
    reaches down to that."""
    sure = of_two(np.full(200, 1.0))
    estimate = estimated(AverageConfidence(), known(sure, (np.arange(200) < 40).astype(int)), sure)
    assert (
        isinstance(estimate, Estimate)
        and estimate.low is not None
        and estimate.accuracy == 1
        and estimate.low < 0.8
    )
    unusable = known(said(np.full((9, 2), np.nan)), [0] * 9)
    bare = estimated(AverageConfidence(), unusable, sure)
    assert isinstance(bare, Estimate) and bare.low == pytest.approx(0.05 ** (1 / 200)), (
        "the rows of the target alone"
    )
