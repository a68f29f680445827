"""Shifts of labels alone: which estimators stay right, which do not, and that such a target is told
of."""

from __future__ import annotations

import numpy as np
import pytest
from tests.estimators.made import known, said

from crosswind.estimators.base import Answers, Estimate, Estimator, Labelled
from crosswind.estimators.confidence import AverageConfidence, Cbpe, DifferenceOfConfidences
from crosswind.estimators.estimating import estimated
from crosswind.estimators.label_shift import UNEXPLAINED, fitted_shares, label_shift
from crosswind.estimators.thresholds import AtcMaximumConfidence, AtcNegativeEntropy
from crosswind.estimators.transport import Cot, Cott

THRESHOLDS = [AtcMaximumConfidence(), AtcNegativeEntropy(), DifferenceOfConfidences(), Cbpe()]
TRANSPORTS = [Cot(), Cott()]
ALIKE, APART = (2.5, 2.5, 2.5), (5.0, 2.5, 1.0)


def made(
    seed: int, n: int, shares: tuple[float, ...], strength: tuple[float, ...], noise: float = 1.5
) -> Labelled:
    """Logits given the label are the same law whatever the shares; `strength` says how easy each
    class is."""
    random = np.random.default_rng(seed)
    label = random.choice(3, size=n, p=shares)
    logits = random.normal(size=(n, 3)) * noise
    logits[np.arange(n), label] += np.array(strength)[label]
    return known(said(logits), label)


def errors(estimators: list[Estimator], source: Labelled, target: Labelled) -> list[float]:
    estimates = [
        estimator.estimate(estimator.fit(source), target.answers) for estimator in estimators
    ]
    return [
        abs((estimate.accuracy if isinstance(estimate, Estimate) else estimate) - target.accuracy)
        for estimate in estimates
    ]


def test_classes_that_are_alike() -> None:
    """Every class is as easy as another: confidences and accuracy do not move with the shares, and
    thresholds stay right.

    Transports assume the shares of the source, and are wrong by what it costs to move mass to
    labels that are rare now.
    """
    source, target = (
        made(0, 8000, (1 / 3, 1 / 3, 1 / 3), ALIKE),
        made(1, 8000, (0.8, 0.1, 0.1), ALIKE),
    )
    assert max(errors(THRESHOLDS, source, target)) < 0.02
    pytest.importorskip("ot", reason="POT, the extra `transport`, is not installed")
    assert min(errors(TRANSPORTS, source, target)) > 0.1
    same = made(2, 8000, (1 / 3, 1 / 3, 1 / 3), ALIKE)
    assert max(errors(THRESHOLDS + TRANSPORTS, source, same)) < 0.02


@pytest.mark.slow
def test_classes_that_are_not_alike_leave_none_exact_and_every_estimate_says_so() -> None:
    source, target = made(0, 8000, (0.8, 0.1, 0.1), APART), made(1, 8000, (0.05, 0.15, 0.8), APART)
    every: list[Estimator] = [*THRESHOLDS, AverageConfidence()]
    try:
        import ot  # noqa: F401

        every += TRANSPORTS
    except ImportError:
        pass
    assert min(errors(every, source, target)) > 0.02
    few = known(
        target.answers.take(np.arange(1500)), target.label[:1500]
    )  # enough to tell, and quick to draw anew
    for estimator in every:
        type(estimator).resamples, before = 2, type(estimator).resamples
        try:
            estimate = estimated(estimator, source, few.answers)
        finally:
            type(estimator).resamples = before
        assert isinstance(estimate, Estimate)
        assert any(
            text.startswith("the answers look as under a shift of labels alone")
            for text in estimate.warnings
        )


@pytest.mark.slow
def test_other_shifts_and_none_are_not_taken_for_one() -> None:
    """Without a shift at most 1 of 60 sets is told of, and of 30 with noisier inputs none; of 60
    with other shares 55."""
    even = (1 / 3, 1 / 3, 1 / 3)
    source = made(0, 3000, even, APART)
    none = [label_shift(source, made(seed, 1000, even, APART).answers) for seed in range(1, 61)]
    noise = [
        label_shift(source, made(seed, 2000, even, APART, noise=3.0).answers)
        for seed in range(1, 31)
    ]
    shifted = [
        label_shift(source, made(seed, 1000, (0.6, 0.2, 0.2), APART).answers)
        for seed in range(1, 61)
    ]
    assert (
        sum(map(bool, none)) <= 1 and sum(map(bool, noise)) == 0 and sum(map(bool, shifted)) >= 55
    )


@pytest.mark.slow
def test_the_shares_of_the_labels_are_found_again() -> None:
    """Also of a class that is gone and of one that the source lacks; without a shift p is below .05
    in 10 of 100 at most."""
    source, shares = made(0, 6000, (0.5, 0.3, 0.2), APART), (0.1, 0.3, 0.6)
    fitted_first = fitted_shares(source, made(1, 6000, shares, APART).answers)
    assert (
        fitted_first is not None
        and fitted_first.told
        and fitted_first.shares.tolist() == pytest.approx(shares, abs=0.03)
    )
    assert fitted_first.moved == pytest.approx(0.4, abs=0.03) and fitted_first.explained > 0.8
    gone = fitted_shares(source, made(2, 6000, (0.5, 0.5, 0.0), APART).answers)
    assert gone is not None and gone.shares.tolist() == pytest.approx((0.5, 0.5, 0.0), abs=0.03)
    lacks = fitted_shares(made(3, 6000, (0.5, 0.0, 0.5), APART), source.answers)
    assert lacks is not None and lacks.shares[1] == 0 and lacks.shares.sum() == pytest.approx(1)
    p = []
    for seed in range(200):
        first, second = (made(seed + base, 800, (0.5, 0.3, 0.2), APART) for base in (0, 1000))
        fitted = fitted_shares(first, second.answers)
        assert fitted is not None
        p.append(fitted.differs)
    assert (np.array(p) < 0.05).mean() <= 0.1


def test_where_it_cannot_be_told_nothing_is_said() -> None:
    source = made(0, 50, (0.4, 0.3, 0.3), ALIKE)
    bare = Answers(source.answers.answer, classes=3)
    broken = Answers(source.answers.answer, np.full((50, 3), np.nan))
    assert label_shift(source, bare) == label_shift(known(bare, source.label), source.answers) == ()
    assert label_shift(known(broken, source.label), source.answers) == ()
    assert label_shift(known(source.answers, source.label - 1), source.answers) == ()
    single_class = made(1, 40, (1.0, 0.0, 0.0), (9, 9, 9))
    assert (
        label_shift(single_class, single_class.answers) == ()
        and label_shift(source, source.answers.take(np.arange(1))) == ()
    )
    wide = known(said(np.zeros((5, 101))), [0] * 5)
    assert label_shift(wide, wide.answers) == ()


def corrupted(
    seed: int, n: int, strength: tuple[float, ...], fog: float, noise: float = 1.5
) -> Labelled:
    """As `made` with even shares, and every input mixed with fog, which looks a little like class
    0: answers drift to it, and confidences fall. A constant added to logits that stay as they are
    would be a change of shares, which outputs alone cannot tell apart."""
    clear = made(seed, n, (1 / 3, 1 / 3, 1 / 3), strength, noise)
    assert clear.answers.logits is not None
    foggy = (1 - fog) * clear.answers.logits + fog * np.array([2.0, 0.0, 0.0])
    return known(said(foggy), clear.label)


@pytest.mark.parametrize("fog", [0.4, 0.6, 0.8])
@pytest.mark.parametrize("strength", [ALIKE, APART])
def test_answers_that_drift_to_one_class_are_no_shift_of_labels(
    strength: tuple[float, ...], fog: float
) -> None:
    """Other shares explain much of the distance, and leave rows that no mixture of the source's
    classes holds."""
    source = made(0, 2000, (1 / 3, 1 / 3, 1 / 3), strength)
    for seed in range(1, 9):
        fitted = fitted_shares(source, corrupted(seed, 1000, strength, fog).answers)
        assert fitted is not None and fitted.differs < 0.001 and fitted.moved > 0.05
        assert fitted.unexplained > 10 * UNEXPLAINED and not fitted.told, fitted


def test_what_a_mixture_leaves_by_hand() -> None:
    """Classes that are told apart for certain: shares 3/4 and 1/4 for 1/2 each. The embedding of a
    row is (1, 0, 0, 0) or (0, 0, 0, 1) of its root probabilities, so that nothing is left of the
    distance; of rows that are torn between both, which no mixture holds, all but chance is."""
    sure = np.log(np.array([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]]))
    label = np.arange(400) % 2
    source = known(said(sure[label]), label)
    shifted = fitted_shares(source, said(sure[(np.arange(400) % 4 == 0).astype(int)]))
    assert shifted is not None and shifted.told and shifted.unexplained <= 1e-6
    assert shifted.shares == pytest.approx((0.75, 0.25), abs=1e-3)
    torn = fitted_shares(source, said(np.tile([1e-3, 0.0], (400, 1))))
    assert torn is not None and torn.unexplained > 0.5 and not torn.told


def test_what_a_mixture_leaves_does_not_grow_with_the_rows() -> None:
    """The verdict is by size: ten times as many rows tell the same of a shift of labels beside
    which the inputs change by little."""
    source = made(0, 4000, (0.5, 0.3, 0.2), APART)
    for n in (1000, 10000):
        target = made(1, n, (0.1, 0.3, 0.6), APART, noise=1.53)
        fitted = fitted_shares(source, target.answers)
        assert fitted is not None and fitted.told, (n, fitted)


def test_a_source_class_without_rows_and_an_unnamed_answer_leave_a_verdict() -> None:
    source = made(0, 900, (0.5, 0.0, 0.5), APART)
    target = made(1, 900, (0.9, 0.0, 0.1), APART).answers
    nameless = Answers(np.where(np.arange(900) % 9 == 0, -1, target.answer), target.logits)
    for answers in (target, nameless):
        fitted = fitted_shares(source, answers)
        assert fitted is not None and np.isfinite(fitted.unexplained)
    broken = Answers(target.answer, np.full((900, 3), np.nan))
    assert label_shift(source, broken) == ()
