"""From answers to an estimate: what is refused, the map of a measure, both intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.estimators.made import drawn, known, of_two, rows_by_hand, said

from crosswind.core.knobs import Access
from crosswind.core.registry import listing, load
from crosswind.core.seeds import seed_of
from crosswind.estimators.base import Answers, Estimate, Estimator, Labelled, Measure
from crosswind.estimators.confidence import AverageConfidence, DifferenceOfConfidences
from crosswind.estimators.estimating import estimated, fitted_map, refusal
from crosswind.estimators.intervals import Held, conformal, least_families, with_pool


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


# -- what is refused -------------------------------------------------------------------------------


def drawn_logits() -> tuple[Labelled, Any]:
    good = drawn(0, 12)
    assert good.answers.logits is not None
    return good, good.answers.logits


def why(
    target: Answers | None = None,
    source: Labelled | None = None,
    pool: Any = (),
    **access: Any,
) -> str:
    """The refusal of an estimator with this access; "" for none."""
    good, _ = drawn_logits()
    target = good.answers if target is None else target
    source = good if source is None else source
    reason = refusal(Reading(Access(**access)), source, target, pool)
    assert estimated(Reading(Access(**access)), source, target, pool) == reason or not reason
    return reason


def with_logits(rows: Any) -> Answers:
    good, _ = drawn_logits()
    return Answers(good.answers.answer[: len(rows)], np.asarray(rows))


def test_missing_rows_labels_and_probabilities_are_refused_in_one_sentence() -> None:
    good, _ = drawn_logits()
    nothing, bare = (
        good.answers.take(np.empty(0, np.int64)),
        Answers(good.answers.answer, classes=4),
    )
    assert why() == ""
    assert why(nothing) == "there are no rows to estimate"
    assert why(source=known(nothing, [])) == "there are no labelled rows of the source"
    assert why(bare) == "the model gives labels without probabilities for the rows of the set"
    assert (
        why(source=known(bare, good.label))
        == "the model gives labels without probabilities for the rows of the source"
    )
    assert (
        why(bare, scores="logits")
        == "the model gives labels without logits for the rows of the set"
    )
    assert why(bare, known(bare, good.label), scores="labels") == ""


def test_logits_that_are_not_finite_are_refused_in_one_sentence() -> None:
    good, z = drawn_logits()
    for row in ([np.nan, 0, 1, 2], [np.inf, 0, 1, 2], [-np.inf] * 4):
        estimate = "the model gave logits that are not finite for the rows of the "
        assert why(with_logits([*z[:11], row])) == estimate + "set"
        assert why(source=known(with_logits([*z[:11], row]), good.label)) == estimate + "source"
        assert why(pool=[known(with_logits([*z[:11], row]), good.label, "fog")]) == estimate + "fog"
    ruled_out = with_logits([*z[:11], [-np.inf, 0, 1, 2]])
    assert why(ruled_out) == ""
    assert why(with_logits(z.astype(np.float16) * 0 + 60_000)) == ""
    infinite = (
        "the model gave logits of minus infinity for the rows of the set, as of probabilities that"
        " are 0"
    )
    assert why(ruled_out, scores="logits") == infinite


def test_other_classes_are_refused_in_one_sentence() -> None:
    good, z = drawn_logits()
    assert why(with_logits(z[:, :3])) == "the source has 4 classes and the set 3"
    assert (
        why(pool=[known(with_logits(z[:, :3]), good.label, "fog")])
        == "the fog has 3 classes and the set 4"
    )
    foreign = "the source has labels that are none of the model's 4 classes"
    assert (
        why(source=known(good.answers, good.label + 4))
        == why(source=known(good.answers, good.label * 0 - 1))
        == foreign
    )


def test_missing_inputs_of_an_estimator_are_refused_in_one_sentence() -> None:
    good, _ = drawn_logits()
    assert (
        why(neighbourhood="near")
        == "the model was not asked for the neighbours (near) of the rows of the source"
    )
    assert why(features=True) == "there are no features for the rows of the source"
    assert why(weights=True, source=good) == "the weights of the network are not at hand"
    two = "it needs a pool of labelled sets of other distributions, of two families at least"
    fog = [known(good.answers, good.label, f"fog {level}", "fog") for level in range(3)]
    assert refusal(ShareOfFirst(), good, good.answers, fog) == two
    assert (
        refusal(ShareOfFirst(), good, good.answers, [*fog, known(good.answers, good.label, "snow")])
        == ""
    )


def test_without_access_to_the_source_its_rows_are_not_asked_for() -> None:
    nothing = known(Answers(np.empty(0, np.int64), np.empty((0, 2))), [])
    estimate = estimated(AverageConfidence(), nothing, of_two([0.9, 0.7]))
    assert isinstance(estimate, Estimate)
    assert estimate.accuracy == pytest.approx(0.8)


# -- the map of a measure --------------------------------------------------------------------------


def test_map_by_hand() -> None:
    """Measures .2 .4 .6, accuracies .3 .5 .6: slope (.2 x .1667 + .2 x .1333) / .08 = .75,
    intercept .4667 - .3 = .1667."""
    line = fitted_map(np.array([0.2, 0.4, 0.6]), np.array([0.3, 0.5, 0.6]))
    assert line == pytest.approx((0.75, 1 / 6))
    assert fitted_map(np.array([0.1, 0.1, 0.1]), np.array([0.1, 0.2, 0.3])) is None
    pool = [shares(2, 3, "a"), shares(4, 5, "b"), shares(6, 6, "c")]
    estimate = estimated(ShareOfFirst(), shares(5, 0), shares(5, 0).answers, pool)
    assert isinstance(estimate, Estimate)
    assert estimate.accuracy == pytest.approx(0.75 * 0.5 + 1 / 6)
    beyond = estimated(ShareOfFirst(), shares(5, 0), shares(7, 0).answers, pool)
    assert isinstance(beyond, Estimate)
    assert (
        "the measure lies outside those of the pool, so that the line is extrapolated"
        in beyond.warnings
    )
    same = [shares(4, right, name) for right, name in ((3, "a"), (5, "b"))]
    assert str(estimated(ShareOfFirst(), shares(5, 0), shares(5, 0).answers, same)).startswith(
        "its measure is the same number for every set"
    )


def test_a_set_is_not_in_the_line_by_which_it_is_judged() -> None:
    """Ten families on one line, but for one, whose error is counted from the line of the other
    nine: on it, and off by .4."""
    pool = [shares(i % 10, i % 10, f"set {i}") for i in range(9)] + [shares(5, 9, "odd")]
    estimate = estimated(ShareOfFirst(), shares(9, 9), shares(4, 0).answers, pool)
    line = fitted_map(np.array([*range(9), 5]) / 10, np.array([*range(9), 9]) / 10)
    assert isinstance(estimate, Estimate)
    assert line is not None
    assert estimate.high is not None
    assert estimate.low is not None
    without = fitted_map(np.arange(9) / 10, np.arange(9) / 10)
    assert without == pytest.approx((1, 0), abs=1e-12)
    held_out = []
    for i, pool_set in enumerate(pool):
        other_sets = [other_set for j, other_set in enumerate(pool) if j != i]
        fit = np.polyfit(
            [(other_set.answers.answer == 0).mean() for other_set in other_sets],
            [other_set.accuracy for other_set in other_sets],
            1,
        )
        value = float(np.clip(np.polyval(fit, (pool_set.answers.answer == 0).mean()), 0, 1))
        held_out.append((value, pool_set.accuracy))
    assert (estimate.low, estimate.high) == pytest.approx(
        by_hand(held_out, estimate.accuracy, shares(9, 9).accuracy, 1 / 10 + 2 / 10 - 1 / 10)
    )


def by_hand(
    held_out: list[tuple[float, float]], e: float, anchor: float, excess: float
) -> tuple[float, float]:
    """The interval of fewer than nineteen families of one set each: absolute scores in order, until
    nine tenths of the mass."""
    ranked = sorted(
        (abs(a - value) / (0.1 + abs(anchor - value)), math.exp(-abs(value - e) / 0.1))
        for value, a in held_out
    )
    total = sum(weight for _, weight in ranked) * (1 + 1 / len(held_out))
    mass = np.cumsum([weight for _, weight in ranked]) / total
    score = float(np.interp(0.9, mass, [score for score, _ in ranked]))
    length = score * (0.1 + abs(anchor - e))
    chance = 1.644854 * math.sqrt(max(e * (1 - e), 0.01) * max(excess, 0))
    half = math.sqrt(length**2 + chance**2)
    return max(e - half, 0), min(e + half, 1)


# -- intervals -------------------------------------------------------------------------------------


def test_conformal_quantiles_by_hand() -> None:
    """Nine families weigh 1/10 each, as does the one to come: the end is the ninth absolute score.
    Of ten, .9 is 9.9 of 11.

    Signed scores miss .05 on each side. Nineteen: the first and the last. Twenty-nine: .95 of 30
    are 28.5 of them. Where the last of nineteen has two sets, these weigh 1/40 each, and .95 is
    reached with the second alone. Near sets weigh more: of ten families, one of weight 10 has half
    of the mass.
    """
    names = [str(i) for i in range(100)]
    scores = np.array([0.1, -0.9, 0.3, 0.2, 0.5, -0.4, 0.6, 0.7, 0.8])
    assert conformal(scores, names[:9]) == pytest.approx((-0.9, 0.9))
    assert conformal(scores[:8], names[:8]) == (-np.inf, np.inf)
    assert conformal(np.arange(1.0, 11), names[:10]) == pytest.approx((-9.9, 9.9))
    assert conformal(np.arange(1.0, 20), names[:19]) == pytest.approx((1, 19))
    assert conformal(np.arange(1.0, 30), names[:29]) == pytest.approx((1.5, 28.5))
    assert conformal(
        np.append(np.arange(1.0, 20), 30.0), [*names[:19], names[18]]
    ) == pytest.approx((1, 30))
    assert conformal(np.arange(1.0, 19), ["fog"] * 9 + ["snow"] * 9) == (-np.inf, np.inf)
    nearness = np.array([10.0, *[1.0] * 9])
    assert conformal(np.arange(1.0, 11), names[:10], nearness) == pytest.approx((-9.81, 9.81)), (
        "of 19, .99 x 19 = 18.81"
    )
    assert (least_families(), least_families(sides=2), least_families(0.8)) == (9, 19, 4)


@pytest.mark.slow
def test_conformal_intervals_cover_as_often_as_they_say() -> None:
    """A family that can be exchanged with those of the pool is held 9 times in 10, however many
    there are: of one set each."""
    random, coverage_of = np.random.default_rng(0), {}
    for n_scores, draw in (
        (19, random.standard_cauchy),
        *((n_scores, random.standard_normal) for n_scores in (19, 23, 29)),
    ):
        covered = []
        for _ in range(4000):
            scores = draw(n_scores + 1)
            low, high = conformal(scores[:n_scores], [str(i) for i in range(n_scores)])
            covered.append(low <= scores[n_scores] <= high)
        coverage_of[f"{draw.__name__} {n_scores}"] = float(np.mean(covered))
    assert len(coverage_of) == 4 and all(
        0.885 <= share <= 0.915 for share in coverage_of.values()
    ), coverage_of


@pytest.mark.parametrize(
    ("alike", "least", "most"), [(0.0, 0.935, 0.975), (0.5, 0.91, 0.965), (1.0, 0.885, 0.915)]
)
def test_conformal_intervals_of_families_of_three(alike: float, least: float, most: float) -> None:
    """As the pool has them: a family is one observation, so that sets that err alike are not taken
    for three."""
    random, names, covered = np.random.default_rng(1), [str(i // 3) for i in range(66)], []
    for _ in range(4000):
        own_scores, family = random.standard_normal((23, 3)), random.standard_normal((23, 1))
        scores = math.sqrt(alike) * family + math.sqrt(1 - alike) * own_scores
        low, high = conformal(scores[:22].ravel(), names)
        covered.append(low <= scores[22, 0] <= high)
    assert least <= np.mean(covered) <= most


def test_intervals_of_small_pools_cover_the_chance_of_rows() -> None:
    """A model whose estimates are right but for chance: rows of source, pool and target are few,
    and its interval still holds."""
    random, cases = np.random.default_rng(2), []
    for n, n_pool in ((800, 60), (60, 60), (60, 200), (400, 400)) * 150:
        source = random.random(400) < 0.7
        pool = [source[random.permutation(400)[:n_pool]].mean() for _ in range(22)]
        held_out = [
            Held(str(i), float(source.mean()), float(accuracy), n_pool)
            for i, accuracy in enumerate(pool)
        ]
        estimate = with_pool(Estimate(float(source.mean())), float(source.mean()), held_out, n, 400)
        assert estimate.low is not None
        assert estimate.high is not None
        cases.append((n, n_pool, estimate.low <= (random.random(n) < 0.7).mean() <= estimate.high))
    shares = {
        key: np.mean([right for *case, right in cases if tuple(case) == key])
        for key in {case_of[:2] for case_of in cases}
    }
    assert len(shares) == 4 and all(share >= 0.85 for share in shares.values()), shares


def test_without_an_interval_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = drawn(0, 60), drawn(30, 45, strength=1.0).answers
    pool = [replace(drawn(i, 50, strength=0.3 * i), name=str(i)) for i in range(1, 10)]
    plain = estimated(DifferenceOfConfidences(), source, target, pool)
    monkeypatch.setattr(DifferenceOfConfidences, "no_pool_interval", "it fails under fog")
    estimate = estimated(DifferenceOfConfidences(), source, target, pool)
    assert isinstance(plain, Estimate)
    assert plain.low is not None
    assert plain.no_interval == ""
    assert estimate == replace(
        plain, low=None, high=None, basis="", no_interval="it fails under fog", warnings=()
    )
    bare = estimated(DifferenceOfConfidences(), source, target)
    assert isinstance(bare, Estimate) and bare.basis == "rows" and bare.no_interval == "", (
        "rows are another matter"
    )
    monkeypatch.setattr(DifferenceOfConfidences, "resamples", 0)
    monkeypatch.setattr(DifferenceOfConfidences, "no_rows_interval", "draws take long")
    none = estimated(DifferenceOfConfidences(), source, target)
    assert isinstance(none, Estimate)
    assert none.low is None
    assert none.no_interval == "draws take long"


def test_every_estimator_without_an_interval_says_why() -> None:
    every = [load("estimators", estimator.name) for estimator in listing("estimators")]
    direct = [known for known in every if issubclass(known, Estimator)]
    assert len(direct) == 8
    assert all(known.resamples or known.no_rows_interval for known in direct)
    assert sum(not known.no_pool_interval for known in direct) >= 3
    whys = [
        why
        for known in every
        for key in ("no_pool_interval", "no_rows_interval")
        if (why := getattr(known, key, ""))
    ]
    assert len(whys) == 12
    assert not any(why.endswith(".") for why in whys)


def test_a_pool_too_small_gives_all_and_says_so() -> None:
    source = drawn(0, 50)
    pool = [drawn(i, 40, strength=1.0) for i in range(1, 9)]
    pool = [replace(pool_set, name=f"set {i}") for i, pool_set in enumerate(pool)]
    estimate = estimated(DifferenceOfConfidences(), source, pool[0].answers, pool)
    assert isinstance(estimate, Estimate)
    assert (estimate.low, estimate.high, estimate.basis) == (
        0.0,
        1.0,
        "pool",
    )
    assert (
        estimate.warnings[-1]
        == "a pool of 8 families is too small for a 90% interval, which needs 9"
    )
    with_one_more = estimated(
        DifferenceOfConfidences(), source, pool[0].answers, [*pool, replace(pool[0], name="set 8")]
    )
    assert isinstance(with_one_more, Estimate)
    assert not any("too small" in text for text in with_one_more.warnings)


def test_interval_of_a_pool_by_hand() -> None:
    source = drawn(0, 60)
    pool = [replace(drawn(i, 50, strength=0.3 * i), name=str(i)) for i in range(1, 10)]
    target = drawn(30, 45, strength=1.0).answers
    gap = source.accuracy - source.answers.confidence.mean()
    e = float(np.clip(target.confidence.mean() + gap, 0, 1))
    held_out = [
        (float(np.clip(pool_set.answers.confidence.mean() + gap, 0, 1)), pool_set.accuracy)
        for pool_set in pool
    ]
    estimate = estimated(DifferenceOfConfidences(), source, target, pool)
    assert isinstance(estimate, Estimate)
    assert estimate.accuracy == pytest.approx(e, abs=1e-9)
    assert (estimate.low, estimate.high) == pytest.approx(
        by_hand(held_out, e, source.accuracy, 1 / 45 + 2 / 60 - 1 / 50)
    )
    assert 0 < estimate.low < estimate.high < 1


def test_an_interval_leans_where_all_errors_do() -> None:
    """Nineteen families whose accuracy is .1 below the estimate: the interval lies around .5, as
    far as chance goes."""
    held_out = [Held(str(i), 0.6, 0.5, 500) for i in range(19)]
    estimate = with_pool(Estimate(0.6), 0.9, held_out, 100, 1000)
    chance = 1.644854 * math.sqrt(0.24 * (1 / 100 + 2 / 1000 - 1 / 500))
    middle = (0.6 - math.hypot(0.1, chance) + 0.5 + chance) / 2
    assert middle == pytest.approx(0.526, abs=0.001)
    assert (estimate.low, estimate.high) == pytest.approx(
        rows_by_hand(middle, 0.0, 100, 0.9, 1000)
    ), "as wide as chance is, at least"


def test_interval_of_rows_equals_an_obvious_reference() -> None:
    source, target = drawn(1, 60), drawn(2, 45, strength=1.0).answers
    estimate = estimated(DifferenceOfConfidences(), source, target)
    random, values = np.random.default_rng(seed_of(0, "rows of estimates")), []
    for _ in range(200):
        again = source.take(random.integers(60, size=60))
        c = target.take(random.integers(45, size=45)).confidence.mean()
        values.append(np.clip(again.accuracy - again.answers.confidence.mean() + c, 0, 1))
    assert isinstance(estimate, Estimate)
    assert (estimate.low, estimate.high) == pytest.approx(
        rows_by_hand(estimate.accuracy, float(np.var(values)), 45, source.accuracy, 60)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", [AverageConfidence(), DifferenceOfConfidences()], ids=["average", "difference"]
)
def test_the_interval_of_rows_covers_calibrated_answers(
    estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 times confidences are the chances that the answers are right: of 100 intervals 85 to 97
    hold the accuracy.

    That of the mean confidence holds more: the source's rows leave open that confidences are wrong
    by as much as they may be.
    """
    monkeypatch.setattr(type(estimator), "resamples", 20)
    random, n_covered = np.random.default_rng(0), 0
    for _ in range(300):
        sides = []
        for n in (150, 200):
            p = random.uniform(0.5, 1, n)
            sides.append(known(of_two(p), random.uniform(size=n) > p))
        estimate = estimated(estimator, sides[0], sides[1].answers)
        assert isinstance(estimate, Estimate)
        assert estimate.low is not None
        assert estimate.high is not None
        n_covered += estimate.low <= sides[1].accuracy <= estimate.high
    largest_share = 0.99 if isinstance(estimator, AverageConfidence) else 0.97
    assert 0.85 * 300 <= n_covered <= largest_share * 300


def test_estimates_are_cut_and_their_warnings_kept() -> None:
    @dataclass(frozen=True)
    class Beyond(Estimator):
        """Says too much."""

        resamples = 0

        def fit(self, source: Labelled) -> None:
            return None

        def estimate(self, fitted: None, target: Answers) -> Estimate:
            return Estimate(1.3, warnings=("beware",))

    told = estimated(Beyond(), drawn(0, 40), said(np.zeros((3, 4))))
    assert told == Estimate(1.0, warnings=("beware",))
