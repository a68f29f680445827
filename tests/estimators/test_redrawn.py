"""Rows that are drawn anew give the numbers of a fit and an estimate of them, however they are
computed: to the last digit, or within what a fit is exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from crosswind.core.registry import listing, load
from crosswind.estimators import calibration, estimating
from crosswind.estimators.base import Answers, DrawnRows, Estimator, Labelled, order_of_rows
from crosswind.estimators.calibration import fitted_temperature
from crosswind.estimators.thresholds import Thresholded, confidence_score

OTHER_WAYS = [
    facts.name
    for facts in listing("estimators")
    if issubclass(load("estimators", facts.name), Estimator)
    and load("estimators", facts.name).redrawn is not Estimator.redrawn
]


EXACT_WITHIN = {"mlls": 1e-9, "cbpe": 1e-12}
"""mlls fits by steps that end at 1e-13 of the loss, from another start; cbpe many classes at once.
"""


def set_of(rows: int, classes: int, seed: int) -> Labelled:
    """Logits with ties, repeated rows, certain ones, and answers that name no class."""
    random = np.random.default_rng(seed)
    label = random.integers(classes, size=rows)
    logits = random.normal(size=(rows, classes)).round(1).astype(np.float32)
    logits[np.arange(rows), label] += random.choice([0.5, 2.0, 60.0], size=rows)
    logits[: rows // 5] = logits[rows // 5 : 2 * (rows // 5)]
    answer = np.where(random.random(rows) < 0.05, -1, logits.argmax(axis=1))
    return Labelled(Answers(answer, logits), label)


def draws(m: int, n: int) -> Iterator[DrawnRows]:
    random = np.random.default_rng(5)
    for _ in range(6):
        yield random.integers(m, size=m), random.integers(n, size=n)


@pytest.mark.parametrize("classes", [2, 7, 40, 150])
@pytest.mark.parametrize("name", OTHER_WAYS)
def test_another_way_gives_equal_numbers(name: str, classes: int) -> None:
    estimator = load("estimators", name)()
    source, target = set_of(150, classes, 1), set_of(90, classes, 2).answers
    expected = list(Estimator.redrawn(estimator, source, target, draws(150, 90)))
    redrawn = list(estimator.redrawn(source, target, draws(150, 90)))
    assert redrawn == pytest.approx(expected, abs=EXACT_WITHIN.get(name, 0), rel=0)
    assert len(set(expected)) > 1


@pytest.mark.parametrize("seed", range(12))
def test_calibration_is_equal_where_chance_decides_what_is_tied(seed: int) -> None:
    """Probabilities about as far apart as rounding, chains of which a draw may break, rows with the
    label among them, and draws without a class."""
    random = np.random.default_rng(seed)
    classes, rows = random.choice([2, 3, 70]), random.choice([1, 20, 300])
    sets = []
    for _ in range(2):
        label = random.integers(classes, size=rows)
        logits = random.normal(size=(rows, classes)) * random.choice([1e-15, 1.0, 4.0])
        sure = np.where(random.random(rows) < 0.7, label, 0)
        logits[np.arange(rows), sure] += random.choice([0.0, 35.0, 36.0, 37.0], size=rows)
        sets.append(Labelled(Answers(logits.argmax(axis=1), logits), label))
    source, target = sets[0], sets[1].answers
    estimator = load("estimators", "cbpe")()
    expected = list(Estimator.redrawn(estimator, source, target, draws(rows, rows)))
    redrawn = list(estimator.redrawn(source, target, draws(rows, rows)))
    assert redrawn == pytest.approx(expected, abs=1e-12, rel=0)


def test_these_estimators_have_another_way() -> None:
    assert OTHER_WAYS == [
        "atc-mc",
        "atc-ne",
        "average-confidence",
        "cbpe",
        "difference-of-confidences",
        "mlls",
    ]


@dataclass(frozen=True)
class Halved(Thresholded):
    """A threshold that a subclass fits in its own way."""

    def score(self, answers: Answers, temperature: float) -> NDArray[np.float64]:
        return confidence_score(answers, temperature)

    def estimate(self, fitted: object, target: Answers) -> float:
        return super().estimate(fitted, target) / 2  # type: ignore[arg-type]


def test_a_subclass_with_a_way_of_its_own_is_asked_for_every_draw() -> None:
    source, target = set_of(150, 7, 1), set_of(90, 7, 2).answers
    for estimator in (Halved(), load("estimators", "atc-mc")(temperature="fit")):
        expected = list(Estimator.redrawn(estimator, source, target, draws(150, 90)))
        assert list(estimator.redrawn(source, target, draws(150, 90))) == expected


def test_rows_are_ordered_as_by_all_their_columns() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        shape = random.integers(0, 40), random.integers(1, 5)
        logits = random.integers(-2, 3, size=shape).astype(np.float32)
        logits *= random.choice([1, -0.0, np.float32(1.5)], size=shape).astype(np.float32)
        last = random.integers(-1, 3, size=len(logits))
        expected = np.lexsort((last, *logits.T[::-1]))
        assert order_of_rows(logits, last).tolist() == expected.tolist()


def test_a_temperature_is_fitted_once_for_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    source = set_of(150, 7, 1)
    expected = fitted_temperature(source)
    monkeypatch.setattr(calibration, "_likeliest_temperature", lambda source: 3.0)
    assert fitted_temperature(source) == expected != 3.0
    assert fitted_temperature(set_of(150, 7, 1)) == 3.0


def test_the_temperature_does_not_depend_on_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fitted_temperature(set_of(150, 7, 1))
    monkeypatch.setattr(calibration, "PORTION", 20)
    assert fitted_temperature(set_of(150, 7, 1)) == expected


@pytest.mark.parametrize("right", [0.0, 0.6, 1.0])
def test_the_temperature_of_many_numbers_is_the_same(
    right: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that of some rows is near, far away, or at an end of the bounds."""
    random = np.random.default_rng(4)
    logits = random.normal(size=(400, 7))
    best, worst = logits.argmax(axis=1), logits.argmin(axis=1)
    label = np.where(random.random(400) < right, best, worst)
    label[::23] = random.integers(7, size=len(label[::23]))
    label[::20] = best[::20]
    monkeypatch.setattr(calibration, "MANY", 10**9)
    expected = [
        fitted_temperature(Labelled(Answers(best, logits), answers)) for answers in (label, best)
    ]
    monkeypatch.setattr(calibration, "MANY", 7 * 20)
    near = [
        fitted_temperature(Labelled(Answers(best, logits), answers)) for answers in (label, best)
    ]
    assert near == pytest.approx(expected, rel=1e-12)
    assert near[1] == calibration.BOUNDS[0]


def test_many_numbers_are_drawn_less_often_where_each_draw_is_a_fit() -> None:
    refitted, scored = load("estimators", "cbpe")(), load("estimators", "atc-mc")()
    assert estimating._resamples(refitted, 2000 * 100) == 200 == estimating._resamples(scored, 2000)
    assert estimating._resamples(refitted, 2000 * 1000) == 25
    assert estimating._resamples(refitted, 10**9) == estimating.FEWEST_DRAWS
    assert estimating._resamples(scored, 10**9) == 200
