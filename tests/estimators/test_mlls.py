"""Maximum likelihood label shift: shares and accuracy by hand, calibration, and what it
corrects."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_softmax
from tests.estimators.made import known, of_probabilities, of_two, said

from crosswind.estimators.base import Estimate, Labelled
from crosswind.estimators.estimating import estimated
from crosswind.estimators.mlls import (
    LEAST_LOGIT,
    PENALTY,
    SHARPNESS,
    Calibration,
    Mlls,
    fitted_calibration,
    fitted_target_shares,
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mlls, "resamples", 3)


def classified(seed: int, n: int, shares: list[float], sharp: float = 1.0) -> Labelled:
    """Three classes at unlike distances: a mixture of normals, answered by its posterior under
    equal shares."""
    random = np.random.default_rng(seed)
    label = random.choice(3, size=n, p=shares)
    x = np.array([0.0, 1.2, 4.0])[label] + random.normal(size=n)
    logits = -0.5 * (x[:, None] - np.array([0.0, 1.2, 4.0])) ** 2
    return known(said(sharp * logits), label)


def test_shares_by_hand() -> None:
    """Two classes, equally frequent on the source; 3 rows of (.8, .2), 1 of (.2, .8).

    For a share q of the first the likelihood is (.2 + .6 q)^3 (.8 - .6 q). Its slope, 1.8 (.8 - .6
    q) - .6 (.2 + .6 q), is 1.32 - 1.44 q but for a factor: 0 at q = 11/12. The first answers then
    have the probability .8 q / (.2 + .6 q) = 44/45, the last .8 (1 - q) / (.8 - .6 q) = 4/15.
    """
    p = np.array([[0.8, 0.2]] * 3 + [[0.2, 0.8]])
    shares, weights = fitted_target_shares(p, np.array([0.5, 0.5]))
    assert shares == pytest.approx([11 / 12, 1 / 12], abs=1e-6)
    assert weights[0, 0] == pytest.approx(44 / 45, abs=1e-4) and weights[3, 1] == pytest.approx(
        4 / 15, abs=1e-3
    )
    fitted = Calibration(1.0, np.zeros(2), np.array([0.5, 0.5]))
    assert Mlls().estimate(fitted, of_probabilities(p)) == pytest.approx(
        (3 * 44 / 45 + 4 / 15) / 4, abs=1e-3
    )


@pytest.mark.parametrize("k", [2, 3, 10, 40])
@pytest.mark.parametrize("sharp", [0.3, 1.0, 4.0])
def test_the_shares_are_the_likeliest(k: int, sharp: float) -> None:
    """No class could have more of the likelihood: where the mean of p_ij / (s_j t_i), t_i the row's
    sum under the shares, is at most 1 for all j, none is likelier (Kuhn and Tucker)."""
    random = np.random.default_rng(k)
    logits = sharp * random.normal(size=(400, k))
    logits[np.arange(400), random.integers(max(1, k // 2), size=400)] += 2 * sharp
    p = np.exp(log_softmax(logits, axis=1))
    source_shares = random.dirichlet(np.ones(k))
    shares, weights = fitted_target_shares(p, source_shares)
    assert shares.sum() == pytest.approx(1) and weights.sum(axis=1) == pytest.approx(np.ones(400))
    rows = p / source_shares
    slopes = (rows / (rows @ shares)[:, None]).mean(axis=0)
    assert slopes.max() < 1 + 1e-5 and shares @ np.abs(slopes - 1) < 1e-5


@pytest.mark.slow
def test_classes_that_overlap_have_the_likeliest_shares_too() -> None:
    """Of these the plain EM algorithm needs 7,000 passes; after 300 it was 1.7e-6 from the end."""
    random = np.random.default_rng(20_000)
    logits = 0.3 * random.normal(size=(2000, 10))
    for most in (10, 5):
        logits[np.arange(2000), random.integers(most, size=2000)] += 0.6
    p = np.exp(log_softmax(logits, axis=1))
    source_shares = p.mean(axis=0) * random.random(10)
    source_shares /= source_shares.sum()
    rows = p / source_shares
    plain = source_shares
    for _ in range(10_000):
        plain = plain * (rows / (rows @ plain)[:, None]).mean(axis=0)
    shares, _ = fitted_target_shares(p, source_shares)
    gap = np.log(rows @ plain).mean() - np.log(rows @ shares).mean()
    assert abs(gap) < 1e-6


def test_shares_of_the_source_change_nothing() -> None:
    """Where the mean probabilities are the source's shares, these are the likeliest."""
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    shares, weights = fitted_target_shares(p, np.array([0.6, 0.4]))
    assert shares == pytest.approx([0.6, 0.4]) and weights == pytest.approx(p)
    lacking, none = fitted_target_shares(
        np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]), np.array([0.5, 0.5, 0.0])
    )
    assert lacking[2] == 0 and none[0].tolist() == [
        0,
        0,
        0,
    ], "a class that the source lacks explains no row"


def test_calibration_by_hand() -> None:
    """Rows of (.9, .1) of which three quarters are right, both ways round: log 3 over log 9 is a
    half, and no class is favoured."""
    p = [0.9] * 4 + [0.1] * 4
    calibration = fitted_calibration(known(of_two(p), [0, 0, 0, 1, 1, 1, 1, 0]))
    assert calibration.sharpness == pytest.approx(
        0.5, abs=1e-4
    ) and calibration.bias == pytest.approx([0, 0], abs=1e-4)
    favoured = known(of_two([0.5] * 10), [0] * 8 + [1] * 2)
    assert fitted_calibration(favoured).probabilities(favoured.answers)[0] == pytest.approx(
        [0.8, 0.2], abs=0.005
    )
    bare = fitted_calibration(favoured, bias=False).probabilities(favoured.answers)[0]
    assert bare == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("sharp", [0.5, 1.0, 3.0, 1e4])
@pytest.mark.parametrize(
    "shares", [[0.8, 0.15, 0.05], [0.05, 0.9, 0.05], [0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]]
)
def test_it_is_right_under_a_shift_of_labels(shares: list[float], sharp: float) -> None:
    source, target = classified(0, 3000, [1 / 3] * 3, sharp), classified(1, 3000, shares, sharp)
    estimate = estimated(Mlls(), source, target.answers)
    assert isinstance(estimate, Estimate)
    assert estimate.accuracy == pytest.approx(target.accuracy, abs=0.025)
    assert not any("shift of labels" in text for text in estimate.warnings), "it allows for it"
    if max(shares) > 0.5:
        assert abs(source.accuracy - target.accuracy) > 0.03, "the source's accuracy is no answer"


def test_an_answer_that_names_no_class_is_not_right() -> None:
    source = classified(0, 500, [1 / 3] * 3)
    target = classified(1, 200, [1 / 3] * 3).answers
    all_readable = Mlls().estimate(Mlls().fit(source), target)
    target.answer[:100] = -1
    assert Mlls().estimate(Mlls().fit(source), target) < 0.6 * all_readable


@pytest.mark.parametrize("sharp", [1e-4, 1.0, 40.0, 1e4])
@pytest.mark.parametrize("right", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("bias", [True, False])
def test_no_other_calibration_is_likelier(bias: bool, right: float, sharp: float) -> None:
    """Around the calibration that is found the loss rises or stays, in every direction that may be
    gone: its bounds, answers that are all right, and a label of probability 0 included."""
    random = np.random.default_rng(3)
    label = random.integers(4, size=300)
    shown = np.where(random.random(300) < right, label, random.integers(4, size=300))
    logits = random.normal(size=(300, 4))
    logits[np.arange(300), shown] += 3
    logits *= sharp
    if right < 1:
        logits[0, label[0]] = -np.inf
    source = known(said(logits), label)
    calibration = fitted_calibration(source, bias)

    def loss(sharpness: float, biases: NDArray[np.float64]) -> float:
        scaled = np.maximum(logits - logits.max(axis=1, keepdims=True), LEAST_LOGIT) * sharpness
        logs = log_softmax(scaled + biases, axis=1)
        return float(-logs[np.arange(300), label].mean() + PENALTY / 2 * (biases**2).sum())

    least = loss(calibration.sharpness, calibration.bias)
    low, high = np.exp(SHARPNESS)
    assert low <= calibration.sharpness * (1 + 1e-9) and calibration.sharpness <= high * (1 + 1e-9)
    for far in (1e-3, 0.1, 1.0):
        for factor in (np.exp(-far), np.exp(far)):
            tried = float(np.clip(calibration.sharpness * factor, low, high))
            assert loss(tried, calibration.bias) >= least - 1e-11
        if not bias:
            assert not calibration.bias.any()
            continue
        for _ in range(5):
            moved = calibration.bias + far * random.normal(size=4)
            assert loss(calibration.sharpness, moved) >= least - 1e-11
