"""A pool that shows shifts of labels: what is drawn, which sets a target resembles, and that the
choice hears it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.estimators.made import known, said

from crosswind.estimators.base import Estimate, Labelled
from crosswind.estimators.confidence import DifferenceOfConfidences
from crosswind.estimators.estimating import PreparedEstimate
from crosswind.estimators.intervals import DOUBT, Held, mean_error, with_pool
from crosswind.estimators.label_shift import TEXT, fitted_shares
from crosswind.estimators.measures import MutualInformation
from crosswind.estimators.mlls import Mlls
from crosswind.estimators.shifted_pool import FAMILY, likeness, shifted_sets, with_other_shares
from crosswind.estimators.transport import Cott


def digits(seed: int, n: int, noise: float = 0.0, shares: list[float] | None = None) -> Labelled:
    """Five classes of unlike difficulty; noise makes all harder."""
    random = np.random.default_rng(seed)
    label = random.choice(5, size=n, p=shares)
    logits = random.normal(size=(n, 5)) * (1.2 + noise)
    logits[np.arange(n), label] += np.array([3.0, 3.5, 4.0, 4.5, 5.0])[label]
    return known(said(logits), label)


@pytest.fixture(scope="module")
def source() -> Labelled:
    return digits(0, 800)


@pytest.fixture(scope="module")
def pool() -> list[Labelled]:
    out = []
    for family in range(22):
        for level in range(2):
            pool_set = digits(100 + 3 * family + level, 150, 0.15 * (level + 1) * (1 + family % 4))
            out.append(
                replace(pool_set, name=f"change {family} {level}", family=f"change {family}")
            )
    return out


def test_sets_are_drawn_with_other_shares() -> None:
    labelled, random = digits(3, 400), np.random.default_rng(0)
    before = np.bincount(labelled.label, minlength=5) / 400
    for share in (0.15, 0.3, 0.45, 0.6) * 4:
        moved = with_other_shares(labelled, share, 400, random)
        after = np.bincount(moved.label, minlength=5) / 400
        assert 0.5 * np.abs(after - before).sum() == pytest.approx(share, abs=0.08)
        assert moved.answers.logits is not None
        assert labelled.answers.logits is not None
        rows = {
            row.tobytes(): code
            for row, code in zip(labelled.answers.logits, labelled.label, strict=True)
        }
        assert all(
            rows[row.tobytes()] == code
            for row, code in zip(moved.answers.logits, moved.label, strict=True)
        )


def test_the_same_sets_whatever_was_asked_before(source: Labelled, pool: list[Labelled]) -> None:
    first, again = shifted_sets(source, pool[:4]), shifted_sets(source, pool[:4])
    assert [id(drawn_set) for drawn_set in first] == [id(drawn_set) for drawn_set in again]
    assert len(first) == 8 + 2 * 4
    copied = shifted_sets(replace(source), [replace(drawn_set) for drawn_set in pool[:4]])
    assert all(
        np.array_equal(first_set.label, copied_set.label)
        for first_set, copied_set in zip(first, copied, strict=True)
    )
    assert {drawn_set.family for drawn_set in first} == {FAMILY, "change 0", "change 1"}


def test_one_class_alone_cannot_shift() -> None:
    single_class = known(said(np.zeros((30, 2))), [1] * 30)
    assert (
        with_other_shares(single_class, 0.5, 30, np.random.default_rng(0)).label.tolist()
        == [1] * 30
    )


def test_sets_are_like_a_target_by_what_moved(source: Labelled, pool: list[Labelled]) -> None:
    target = digits(5, 500, shares=[0.6, 0.1, 0.1, 0.1, 0.1]).answers
    fitted = fitted_shares(source, target)
    assert fitted is not None and fitted.told and fitted_shares(source, target) is fitted, (
        "fitted once"
    )
    sets = [*pool, *shifted_sets(source, pool)]
    like = likeness(fitted, source, sets, len(pool))
    assert like[: len(pool)].max() < 0.021
    assert like[len(pool) :].max() > 0.5


def test_a_target_without_a_shift_of_labels_learns_from_the_pool_as_it_is(
    source: Labelled, pool: list[Labelled]
) -> None:
    target = digits(6, 500, 0.3).answers
    prepared = PreparedEstimate(DifferenceOfConfidences(), source, pool)
    estimate = prepared(target)
    held_out = [
        Held(pool_set.family, prepared._direct(pool_set.answers).accuracy, pool_set.accuracy, 150)
        for pool_set in pool
    ]
    assert isinstance(estimate, Estimate)
    assert prepared.shifted(target) is None
    plain = with_pool(Estimate(estimate.accuracy), source.accuracy, held_out, 500, 800)
    assert (estimate.low, estimate.high) == (plain.low, plain.high)
    assert (
        prepared.pool_error(target) == prepared.pool_error() == pytest.approx(mean_error(held_out))
    )


def covering(estimator: PreparedEstimate, target: Labelled) -> Estimate:
    """The estimate for a target, whose interval must hold the accuracy."""
    estimate = estimator(target.answers)
    assert isinstance(estimate, Estimate)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low <= target.accuracy <= estimate.high
    return estimate


@pytest.mark.parametrize(
    "shares", [[0.6, 0.1, 0.1, 0.1, 0.1], [0.0, 0.1, 0.2, 0.3, 0.4], [0.05, 0.05, 0.1, 0.7, 0.1]]
)
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_choice_hears_that_labels_have_shifted(
    source: Labelled, pool: list[Labelled], shares: list[float], noise: float
) -> None:
    """Transport takes other shares for errors: on a pool of changes it errs least, on one whose
    labels shift it does not."""
    pytest.importorskip("ot", reason="POT, the extra `transport`, is not installed")
    target = digits(7, 600, noise, shares)
    transport, corrected, by_entropy = (
        PreparedEstimate(estimator_class(), source, pool)
        for estimator_class in (Cott, Mlls, MutualInformation)
    )
    estimate = covering(corrected, target)
    assert abs(estimate.accuracy - target.accuracy) < 0.06
    assert TEXT not in estimate.warnings
    wrong = covering(transport, target)  # its interval learned it
    assert TEXT in wrong.warnings
    assert abs(wrong.accuracy - target.accuracy) > 0.1
    errors = [
        prepared_estimator.pool_error(target.answers)
        for prepared_estimator in (transport, corrected)
    ]
    assert errors[0] is not None
    assert errors[1] is not None
    assert errors[1] < errors[0] / 2
    covering(by_entropy, target)


def test_a_doubt_where_like_estimates_erred() -> None:
    """Twenty changes: ten left 0.9 and were right, ten gave 0.6 and erred by .12."""
    held_out = [Held(str(i), 0.9, 0.9 - 0.01 * (i % 2), 200) for i in range(10)]
    held_out += [Held(str(i), 0.6, 0.48, 200) for i in range(10, 20)]
    low = with_pool(Estimate(0.6), 0.92, held_out, 500, 1000)
    assert [text for text in low.warnings if text.startswith(DOUBT)] == [
        f"{DOUBT} 11 points on average"
    ]
    assert with_pool(Estimate(0.9), 0.92, held_out, 500, 1000).warnings == ()
    assert mean_error(held_out) == pytest.approx(0.0625)
    assert mean_error(
        [replace(held_out[0], like=3.0), replace(held_out[10], like=1.0)]
    ) == pytest.approx(0.03)
