"""Confidence-based performance estimation: by hand, and against scikit-learn's isotonic regression
in a loop."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from tests.estimators.made import drawn, known, of_probabilities, of_two, said

from crosswind.estimators.base import Answers, Labelled
from crosswind.estimators.calibration import calibrated, fitted_calibrator
from crosswind.estimators.confidence import Cbpe


def value(source: Labelled, target: Answers) -> float:
    return Cbpe().estimate(Cbpe().fit(source), target)


def test_values_by_hand() -> None:
    """Source: .2 and .6 for class 0 are label 1, .8 is label 0. So class 0 is calibrated to 0 at .2
    and .6, to 1 at .8; class 1 to 0 at .2, to 1 at .4 and .8. Target .7: .5 and, of .3, .5; target
    .95, beyond: 1 and 0. Mean of .5 and 1. An answer that names no class has 0.

    Where a middle pair is out of order, (.3, label 0), (.4, label 1), it is pooled to a half.
    """
    source = known(of_two([0.2, 0.6, 0.8]), [1, 1, 0])
    assert value(source, of_two([0.7, 0.95])) == pytest.approx(0.75, abs=1e-9)
    target = of_two([0.7, 0.95])
    assert value(source, Answers(np.array([-1, 0]), target.logits)) == pytest.approx(0.5, abs=1e-9)
    pooled = fitted_calibrator(np.array([[0.1], [0.3], [0.4], [0.9]]), np.array([1, 0, 1, 0]))
    assert pooled[0][1].tolist() == [0, 0.5, 0.5, 1]


@pytest.mark.parametrize("seed", range(6))
def test_equals_the_isotonic_regressions_of_scikit_learn(seed: int) -> None:
    source, target = drawn(seed, 120), drawn(50 + seed, 90, strength=1.0).answers
    if seed > 3:  # few different probabilities, and ones out of range
        source = known(said(np.round(source.answers.logits)), source.label)
        target = said(np.round(target.logits * 3))
    columns = []
    for code in range(4):
        line = IsotonicRegression(out_of_bounds="clip")
        line.fit(source.answers.probabilities[:, code], source.label == code)
        columns.append(line.predict(target.probabilities[:, code]))
    total, expected = np.stack(columns, axis=1), 0.0
    for row, answer in zip(total, target.answer, strict=True):
        expected += (row[answer] / row.sum() if row.sum() else 0.25) / len(total)
    assert value(source, target) == pytest.approx(expected, abs=1e-6)


def test_it_corrects_confidences_that_are_too_high() -> None:
    """Rows that are drawn from the source's own distribution, with logits ten times too large:
    confidence says .9 and more."""
    source, target = drawn(1, 4000), drawn(2, 4000)
    sure = known(said(source.answers.logits * 10), source.label)
    overconfident = said(target.answers.logits * 10)
    assert overconfident.confidence.mean() > target.accuracy + 0.1
    assert value(sure, overconfident) == pytest.approx(target.accuracy, abs=0.03)


def test_a_row_without_mass_is_shared_out() -> None:
    calibrator = fitted_calibrator(np.array([[0.9, 0.1, 0.0]]), np.array([2]))
    assert np.allclose(calibrated(calibrator, np.array([[0.9, 0.1, 0.0]])), [[0, 0, 1]])
    nothing = tuple((knots, np.zeros_like(values)) for knots, values in calibrator)
    assert np.allclose(calibrated(nothing, np.array([[0.9, 0.1, 0.0]])), 1 / 3)
    source = known(of_probabilities([[1, 0, 0], [0, 1, 0]]), [2, 2])
    assert value(source, source.answers) == 0.0, "one label, and no answer of it"
