"""From answers to an estimate: what is refused, the map of a measure, both intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.estimators.made import drawn, known, of_two, said

from crosswind.core.knobs import Access
from crosswind.core.registry import listing, load
from crosswind.core.seeds import seed_of
from crosswind.estimators.average_confidence import AverageConfidence
from crosswind.estimators.base import Answers, Estimate, Estimator, Labelled, Measure
from crosswind.estimators.difference_of_confidences import DifferenceOfConfidences
from crosswind.estimators.estimating import estimated, fitted_map, refusal
from crosswind.estimators.intervals import Held, Z, conformal, least_families, with_pool


@dataclass(frozen=True)
class ShareOfFirst(Measure):
    """How many answers are class 0."""

    access = Access(scores="labels", source=False, pool=True)

    def measure(self, target: Answers) -> float:
        return float((target.answer == 0).mean())


@dataclass(frozen=True)
class Reading(Estimator):
    """Reads what it is told to, and says a half."""

    access: Access = Access()  # type: ignore[misc]

    def fit(self, source: Labelled) -> None:
        return None

    def estimate(self, fitted: None, target: Answers) -> float:
        return 0.5


def shares(zeros: int, right: int, name: str = "set", family: str = "") -> Labelled:
    """Ten answers of which so many are class 0 and so many are right."""
    answer = np.repeat([0, 1], [zeros, 10 - zeros])
    label = np.where(np.arange(10) < right, answer, 1 - answer)
    return known(Answers(answer, classes=2), label, name, family)


# -- what is refused ----------------------------------------------------------------------------------------------------------


def test_every_refusal_is_one_sentence() -> None:
    good = drawn(0, 12)
    z = good.answers.logits
    assert z is not None

    def why(target: Answers = good.answers, source: Labelled = good, pool: Any = (), **access: Any) -> str:
        found = refusal(Reading(Access(**access)), source, target, pool)
        assert estimated(Reading(Access(**access)), source, target, pool) == found or not found
        return found

    def with_logits(rows: Any) -> Answers:
        return Answers(good.answers.answer[: len(rows)], np.asarray(rows))

    nothing, bare = good.answers.take(np.empty(0, np.int64)), Answers(good.answers.answer, classes=4)
    assert why() == ""
    assert why(nothing) == "there are no rows to estimate"
    assert why(source=known(nothing, [])) == "there are no labelled rows of the source"
    assert why(bare) == "the model gives labels without probabilities for the rows of the set"
    assert why(source=known(bare, good.label)) == "the model gives labels without probabilities for the rows of the source"
    assert why(bare, scores="logits") == "the model gives labels without logits for the rows of the set"
    assert why(bare, known(bare, good.label), scores="labels") == ""
    for row in ([np.nan, 0, 1, 2], [np.inf, 0, 1, 2], [-np.inf] * 4):
        told = "the model gave logits that are not finite for the rows of the "
        assert why(with_logits([*z[:11], row])) == told + "set"
        assert why(source=known(with_logits([*z[:11], row]), good.label)) == told + "source"
        assert why(pool=[known(with_logits([*z[:11], row]), good.label, "fog")]) == told + "fog"
    ruled_out = with_logits([*z[:11], [-np.inf, 0, 1, 2]])
    assert why(ruled_out) == "" and why(with_logits(z.astype(np.float16) * 0 + 60_000)) == ""
    infinite = "the model gave logits of minus infinity for the rows of the set, as of probabilities that are 0"
    assert why(ruled_out, scores="logits") == infinite
    assert why(with_logits(z[:, :3])) == "the source has 4 classes and the set 3"
    assert why(pool=[known(with_logits(z[:, :3]), good.label, "fog")]) == "the fog has 3 classes and the set 4"
    foreign = "the source has labels that are none of the model's 4 classes"
    assert why(source=known(good.answers, good.label + 4)) == why(source=known(good.answers, good.label * 0 - 1)) == foreign
    assert why(neighbourhood="near") == "the model was not asked for the neighbours (near) of the rows of the source"
    assert why(features=True) == "there are no features for the rows of the source"
    assert why(weights=True, source=good) == "the weights of the network are not at hand"
    two = "it needs a pool of labelled sets of other distributions, of two families at least"
    fog = [known(good.answers, good.label, f"fog {level}", "fog") for level in range(3)]
    assert refusal(ShareOfFirst(), good, good.answers, fog) == two
    assert refusal(ShareOfFirst(), good, good.answers, [*fog, known(good.answers, good.label, "snow")]) == ""


def test_without_access_to_the_source_its_rows_are_not_asked_for() -> None:
    nothing = known(Answers(np.empty(0, np.int64), np.empty((0, 2))), [])
    told = estimated(AverageConfidence(), nothing, of_two([0.9, 0.7]))
    assert isinstance(told, Estimate) and told.accuracy == pytest.approx(0.8)


# -- the map of a measure -----------------------------------------------------------------------------------------------------


def test_map_by_hand() -> None:
    """Measures .2 .4 .6, accuracies .3 .5 .6: slope (.2 x .1667 + .2 x .1333) / .08 = .75, intercept .4667 - .3 = .1667."""
    found = fitted_map(np.array([0.2, 0.4, 0.6]), np.array([0.3, 0.5, 0.6]))
    assert found == pytest.approx((0.75, 1 / 6))
    assert fitted_map(np.array([0.1, 0.1, 0.1]), np.array([0.1, 0.2, 0.3])) is None
    pool = [shares(2, 3, "a"), shares(4, 5, "b"), shares(6, 6, "c")]
    told = estimated(ShareOfFirst(), shares(5, 0), shares(5, 0).answers, pool)
    assert isinstance(told, Estimate) and told.accuracy == pytest.approx(0.75 * 0.5 + 1 / 6)
    beyond = estimated(ShareOfFirst(), shares(5, 0), shares(7, 0).answers, pool)
    assert (
        isinstance(beyond, Estimate)
        and "the measure lies outside those of the pool, so that the line is extrapolated" in beyond.warnings
    )
    same = [shares(4, right, name) for right, name in ((3, "a"), (5, "b"))]
    assert str(estimated(ShareOfFirst(), shares(5, 0), shares(5, 0).answers, same)).startswith(
        "its measure is the same number for every set"
    )


def test_a_set_is_not_in_the_line_by_which_it_is_judged() -> None:
    """Ten families on one line, but for one, whose error is counted from the line of the other nine: on it, and off by .4."""
    pool = [shares(i % 10, i % 10, f"set {i}") for i in range(9)] + [shares(5, 9, "odd")]
    told = estimated(ShareOfFirst(), shares(9, 9), shares(4, 0).answers, pool)
    line = fitted_map(np.array([*range(9), 5]) / 10, np.array([*range(9), 9]) / 10)
    assert isinstance(told, Estimate) and line is not None and told.high is not None and told.low is not None
    without = fitted_map(np.arange(9) / 10, np.arange(9) / 10)
    assert without == pytest.approx((1, 0), abs=1e-12)
    held = []
    for i, item in enumerate(pool):
        rest = [other for j, other in enumerate(pool) if j != i]
        fit = np.polyfit([(other.answers.answer == 0).mean() for other in rest], [other.accuracy for other in rest], 1)
        value = float(np.clip(np.polyval(fit, (item.answers.answer == 0).mean()), 0, 1))
        held.append((value, item.accuracy))
    assert (told.low, told.high) == pytest.approx(by_hand(held, told.accuracy, shares(9, 9).accuracy, 10))


def by_hand(held: list[tuple[float, float]], e: float, anchor: float, n: int) -> tuple[float, float]:
    """The interval of fewer than nineteen families of one set each: absolute scores in order, until nine tenths of the mass."""
    ranked = sorted((abs(a - value) / (0.2 + abs(anchor - value)), math.exp(-abs(value - e) / 0.1)) for value, a in held)
    whole = sum(weight for _, weight in ranked) * (1 + 0.1 / len(held))
    enough = [score for i, (score, _) in enumerate(ranked) if sum(weight for _, weight in ranked[: i + 1]) / whole >= 0.9]
    length = enough[0] * (0.2 + abs(anchor - e))
    chance = 1.644854 * math.sqrt(max(e * (1 - e), 0.01) / n)
    half = math.sqrt(length**2 + chance**2)
    return max(e - half, 0), min(e + half, 1)


# -- intervals ----------------------------------------------------------------------------------------------------------------


def test_conformal_quantiles_by_hand() -> None:
    """Nine families weigh 1/9.1 each: the end is the ninth absolute score, of ten the tenth (.89 at the ninth).

    Signed scores miss .02 below and .08 above. Nineteen weigh 1/19.1: counted from above 18 have .942 and 19 .995, the first is
    the end; from below 17 have .89 and 18 .942. Thirty-nine: 38 have .972, and 36 .921. Where the 18th of nineteen has two sets,
    they weigh 1/38.2 each, and .92 is reached with the second alone. Near sets weigh more: of ten families, one of weight 10 has
    half of the mass.
    """
    names = [str(i) for i in range(40)]
    scores = np.array([0.1, -0.9, 0.3, 0.2, 0.5, -0.4, 0.6, 0.7, 0.8])
    assert conformal(scores, names[:9]) == (-0.9, 0.9)
    assert conformal(scores[:8], names[:8]) == (-np.inf, np.inf)
    assert conformal(np.arange(1.0, 11), names[:10]) == (-10, 10)
    assert conformal(np.arange(1.0, 20), names[:19]) == (1, 18)
    assert conformal(np.arange(1.0, 40), names[:39]) == (1, 36)
    assert conformal(np.append(np.arange(1.0, 20), 18.5), [*names[:19], names[17]]) == (1, 18.5)
    assert conformal(np.arange(1.0, 19), ["fog"] * 9 + ["snow"] * 9) == (-np.inf, np.inf)
    near = np.array([10.0, *[1.0] * 9])
    assert conformal(np.arange(1.0, 11), names[:10], near) == (-9, 9), "18 of 19.19 at the ninth"
    assert conformal(np.arange(10.0, 0, -1), names[:10], near) == (-10, 10)
    assert conformal(np.arange(1.0, 11), names[:10], np.array([1.0] * 8 + [92.0, 0.1])) == (-9, 9)
    assert (least_families(), least_families(sides=2), least_families(0.8)) == (9, 19, 4)


def test_conformal_intervals_miss_as_often_as_they_say() -> None:
    """Of 23 families that can be exchanged with the one to come, one lies below and two above: it is held 21 times in 24."""
    random, names, sides = np.random.default_rng(0), [str(i) for i in range(23)], []
    for _ in range(4000):
        scores = random.standard_cauchy(24)
        low, high = conformal(scores[:23], names)
        sides.append((scores[23] < low, scores[23] > high))
    assert np.mean(sides, axis=0) == pytest.approx([1 / 24, 2 / 24], abs=0.012)


def test_without_an_interval_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = drawn(0, 60), drawn(30, 45, strength=1.0).answers
    pool = [replace(drawn(i, 50, strength=0.3 * i), name=str(i)) for i in range(1, 10)]
    plain = estimated(DifferenceOfConfidences(), source, target, pool)
    monkeypatch.setattr(DifferenceOfConfidences, "no_pool_interval", "it fails under fog")
    told = estimated(DifferenceOfConfidences(), source, target, pool)
    assert isinstance(plain, Estimate) and plain.low is not None and plain.no_interval == ""
    assert told == replace(plain, low=None, high=None, basis="", no_interval="it fails under fog")
    bare = estimated(DifferenceOfConfidences(), source, target)
    assert isinstance(bare, Estimate) and bare.basis == "rows" and bare.no_interval == "", "rows are another matter"
    monkeypatch.setattr(DifferenceOfConfidences, "resamples", 0)
    monkeypatch.setattr(DifferenceOfConfidences, "no_rows_interval", "draws take long")
    none = estimated(DifferenceOfConfidences(), source, target)
    assert isinstance(none, Estimate) and none.low is None and none.no_interval == "draws take long"


def test_every_estimator_without_an_interval_says_why() -> None:
    every = [load("estimators", item.name) for item in listing("estimators")]
    direct = [item for item in every if issubclass(item, Estimator)]
    assert len(direct) == 7 and all(item.resamples or item.no_rows_interval for item in direct)
    assert sum(not item.no_pool_interval for item in direct) >= 3
    whys = [why for item in every for key in ("no_pool_interval", "no_rows_interval") if (why := getattr(item, key, ""))]
    assert len(whys) == 9 and not any(why.endswith(".") for why in whys)


def test_a_pool_too_small_gives_all_and_says_so() -> None:
    source = drawn(0, 50)
    pool = [drawn(i, 40, strength=1.0) for i in range(1, 9)]
    pool = [replace(item, name=f"set {i}") for i, item in enumerate(pool)]
    told = estimated(DifferenceOfConfidences(), source, pool[0].answers, pool)
    assert isinstance(told, Estimate) and (told.low, told.high, told.basis) == (0.0, 1.0, "pool")
    assert told.warnings[-1] == "a pool of 8 families is too small for a 90% interval, which needs 9"
    more = estimated(DifferenceOfConfidences(), source, pool[0].answers, [*pool, replace(pool[0], name="set 8")])
    assert isinstance(more, Estimate) and not any("too small" in text for text in more.warnings)


def test_interval_of_a_pool_by_hand() -> None:
    source = drawn(0, 60)
    pool = [replace(drawn(i, 50, strength=0.3 * i), name=str(i)) for i in range(1, 10)]
    target = drawn(30, 45, strength=1.0).answers
    gap = source.accuracy - source.answers.confidence.mean()
    e = float(np.clip(target.confidence.mean() + gap, 0, 1))
    held = [(float(np.clip(item.answers.confidence.mean() + gap, 0, 1)), item.accuracy) for item in pool]
    told = estimated(DifferenceOfConfidences(), source, target, pool)
    assert isinstance(told, Estimate) and told.accuracy == pytest.approx(e, abs=1e-9)
    assert (told.low, told.high) == pytest.approx(by_hand(held, e, source.accuracy, 45))
    assert 0 < told.low < told.high < 1


def test_an_interval_leans_where_all_errors_do() -> None:
    """Nineteen families whose accuracy is .1 below the estimate: with chance in quadrature, .1 below is the middle no more."""
    held = [Held(str(i), 0.6, 0.5) for i in range(19)]
    told = with_pool(Estimate(0.6), 0.9, held, 1000)
    chance = 1.644854 * math.sqrt(0.24 * 0.001)
    assert (told.low, told.high) == pytest.approx((0.6 - math.hypot(0.1, chance), 0.5 + chance))


def test_interval_of_rows_equals_an_obvious_reference() -> None:
    source, target = drawn(1, 60), drawn(2, 45, strength=1.0).answers
    told = estimated(DifferenceOfConfidences(), source, target)
    random, values = np.random.default_rng(seed_of(0, "rows of estimates")), []
    for _ in range(200):
        again = source.take(random.integers(60, size=60))
        c = target.take(random.integers(45, size=45)).confidence.mean()
        values.append(np.clip(again.accuracy - again.answers.confidence.mean() + c, 0, 1))
    assert isinstance(told, Estimate)
    half = Z * np.sqrt(np.var(values) + told.accuracy * (1 - told.accuracy) / 45)
    assert (told.low, told.high) == pytest.approx((told.accuracy - half, min(told.accuracy + half, 1)))


@pytest.mark.parametrize("estimator", [AverageConfidence(), DifferenceOfConfidences()], ids=["average", "difference"])
def test_the_interval_of_rows_covers_calibrated_answers(estimator: Estimator, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 times confidences are the chances that the answers are right: of 100 intervals 85 to 97 hold the accuracy."""
    monkeypatch.setattr(type(estimator), "resamples", 20)
    random, held = np.random.default_rng(0), 0
    for _ in range(300):
        sides = []
        for n in (150, 200):
            p = random.uniform(0.5, 1, n)
            sides.append(known(of_two(p), random.uniform(size=n) > p))
        told = estimated(estimator, sides[0], sides[1].answers)
        assert isinstance(told, Estimate) and told.low is not None and told.high is not None
        held += told.low <= sides[1].accuracy <= told.high
    assert 0.85 * 300 <= held <= 0.97 * 300


def test_estimates_are_cut_and_their_warnings_kept() -> None:
    @dataclass(frozen=True)
    class Beyond(Estimator):
        """Says too much."""

        resamples = 0

        def fit(self, source: Labelled) -> None:
            return None

        def estimate(self, fitted: None, target: Answers) -> Estimate:
            return Estimate(1.3, warnings=("beware",))

    told = estimated(Beyond(), drawn(0, 20), said(np.zeros((3, 4))))
    assert told == Estimate(1.0, warnings=("beware",))
