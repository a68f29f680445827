"""Disagreement and agreement on the line: by hand, against loops and a least-squares solver; what
is refused for several models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from tests.estimators.made import drawn, known, rows_by_hand

from crosswind.core.seeds import seed_of
from crosswind.estimators.agreement import (
    AgreementOnTheLine,
    Disagreement,
    agreements,
    from_means_of_pairs,
)
from crosswind.estimators.base import Answers, Estimate, Joint, Labelled
from crosswind.estimators.estimating import estimated, estimated_jointly
from crosswind.estimators.thresholds import AtcMaximumConfidence


def answers(*codes: int) -> Answers:
    return Answers(np.array(codes), classes=3)


def pool(seed: int, models: int, n: int, spread: float) -> list[Labelled]:
    """Models that share their rows; model i is right more often the larger i is, and errs on hard
    rows as others do."""
    random = np.random.default_rng(seed)
    label = random.integers(3, size=n)
    hard = random.normal(size=n)
    found = []
    for i in range(models):
        right = hard + random.normal(size=n) * 0.7 < 0.3 + 0.25 * i - spread
        found.append(
            known(Answers(np.where(right, label, random.integers(3, size=n)), classes=3), label)
        )
    return found


def test_disagreement_by_hand() -> None:
    """0 1 1 2, 0 1 0 2 and 0 0 0 none agree in 3, 1 and 2 of 4 rows: (3 + 1) / 8, (3 + 2) / 8, (1 +
    2) / 8. None is no answer."""
    three = [answers(0, 1, 1, 2), answers(0, 1, 0, 2), answers(0, 0, 0, -1)]
    estimates = estimated_jointly(Disagreement(), [], three)
    assert isinstance(estimates, list) and [model_rows.accuracy for model_rows in estimates] == [
        0.5,
        0.625,
        0.375,
    ]
    two = estimated_jointly(Disagreement(), [], three[:2])
    assert isinstance(two, list) and [model_rows.accuracy for model_rows in two] == [0.75, 0.75]
    assert agreements([three[2], three[2]]).tolist() == [[1, 0.75], [0.75, 1]]


def test_disagreement_is_the_error_of_models_that_err_apart_as_calibrated_votes_do() -> None:
    """A row with probabilities (.7, .3): each model answers by them, the label is drawn by them;
    both agree in .49 + .09 = .58."""
    random = np.random.default_rng(0)
    votes = (random.uniform(size=(3, 20_000)) > 0.7).astype(np.int64)
    estimates = estimated_jointly(
        Disagreement(), [], [Answers(row, classes=2) for row in votes[:2]]
    )
    assert isinstance(estimates, list) and estimates[0].accuracy == pytest.approx(0.58, abs=0.015)
    assert (votes[0] == votes[2]).mean() == pytest.approx(estimates[0].accuracy, abs=0.015)


def by_loops(form: str, sources: list[Labelled], targets: list[Answers]) -> list[float]:
    m = len(targets)
    cut = lambda rate: norm.ppf(min(max(rate, 1e-4), 1 - 1e-4))  # noqa: E731
    pairs = [(i, j) for i in range(m) for j in range(i)]
    source_values = [
        cut(np.mean(sources[i].answers.answer == sources[j].answers.answer)) for i, j in pairs
    ]
    target_values = [cut(np.mean(targets[i].answer == targets[j].answer)) for i, j in pairs]
    slope, intercept = np.polyfit(source_values, target_values, 1)
    accuracy = [cut(model_rows.accuracy) for model_rows in sources]
    if form == "S":
        return [float(norm.cdf(slope * value + intercept)) for value in accuracy]
    design, right_sides = np.zeros((len(pairs), m)), []
    for row, (i, j) in enumerate(pairs):
        design[row, i] = design[row, j] = 0.5
        right_sides.append(
            target_values[row] + slope * ((accuracy[i] + accuracy[j]) / 2 - source_values[row])
        )
    return [
        float(value)
        for value in norm.cdf(np.linalg.lstsq(design, np.array(right_sides), rcond=None)[0])
    ]


@pytest.mark.parametrize("form", ["D", "S"])
@pytest.mark.parametrize("models", [3, 4, 9])
def test_agreement_on_the_line_equals_an_obvious_reference(form: str, models: int) -> None:
    for seed in range(3):
        sources, targets = (
            pool(seed, models, 150, 0.0),
            [model_rows.answers for model_rows in pool(50 + seed, models, 170, 0.6)],
        )
        estimates = AgreementOnTheLine(form).estimate(sources, targets)
        assert [model_rows.accuracy for model_rows in estimates] == pytest.approx(
            by_loops(form, sources, targets), abs=1e-6
        )


def test_agreement_on_the_line_by_hand() -> None:
    """Means of pairs 2, 3, 4 of three numbers: x + y = 4, x + z = 6, y + z = 8, so 1, 3, 5.

    On its own source the agreements do not move: slope 1, intercept 0, and form D and S give the
    accuracies back.
    """
    assert from_means_of_pairs(
        np.array([[0.0, 2, 3], [2, 9, 4], [3, 4, 7]])
    ).tolist() == pytest.approx([1, 3, 5])
    sources = pool(3, 4, 200, 0.0)
    for form in "DS":
        estimates = AgreementOnTheLine(form).estimate(
            sources, [model_rows.answers for model_rows in sources]
        )
        assert [model_rows.accuracy for model_rows in estimates] == pytest.approx(
            [model_rows.accuracy for model_rows in sources], abs=1e-9
        )
        assert not any(model_rows.warnings for model_rows in estimates)


def test_a_line_that_does_not_fit_is_told_of() -> None:
    sources, targets = (
        pool(1, 6, 300, 0.0),
        [model_rows.answers for model_rows in pool(2, 6, 300, 0.5)],
    )
    good = AgreementOnTheLine().estimate(sources, targets)
    assert not good[0].warnings or "R2 of 0.9" in good[0].warnings[0]
    mixed = [targets[i] for i in (3, 0, 5, 1, 4, 2)]
    bad = AgreementOnTheLine().estimate(sources, mixed)
    assert all(
        "an R2 of 0." in model_rows.warnings[0]
        and model_rows.warnings[0].endswith("below 0.95 the estimates are doubtful")
        for model_rows in bad
    )
    alike = AgreementOnTheLine().estimate([sources[0]] * 3, targets[:3])
    assert alike[0].warnings == (
        "all pairs of models agree equally often on the source, so that there is no line",
    )
    assert all(np.isfinite(model_rows.accuracy) for model_rows in alike)


@pytest.mark.parametrize(
    "estimator", [Disagreement(), AgreementOnTheLine()], ids=["disagreement", "line"]
)
def test_rows_are_drawn_for_all_models_at_once(estimator: Joint) -> None:
    sources, targets = (
        pool(4, 5, 90, 0.0),
        [model_rows.answers for model_rows in pool(5, 5, 80, 0.4)],
    )
    estimates = estimated_jointly(estimator, sources, targets)
    assert isinstance(estimates, list)
    random, drawn_values = np.random.default_rng(seed_of(0, "rows of estimates")), []
    for _ in range(200):
        rows = random.integers(90, size=90) if estimator.access.source else None
        again = sources if rows is None else [model_rows.take(rows) for model_rows in sources]
        rows = random.integers(80, size=80)
        drawn_values.append(
            [
                model_rows.accuracy
                for model_rows in estimator.estimate(
                    again, [model_rows.take(rows) for model_rows in targets]
                )
            ]
        )
    plain = estimator.estimate(sources, targets)
    for model_rows, bare, column, source in zip(
        estimates, plain, np.array(drawn_values).T, sources, strict=True
    ):
        assert (
            model_rows.basis == "rows"
            and model_rows.accuracy == pytest.approx(bare.accuracy)
            and model_rows.warnings == bare.warnings
        )
        drawn_source = (source.accuracy, 90) if estimator.access.source else ()
        assert (model_rows.low, model_rows.high) == pytest.approx(
            rows_by_hand(bare.accuracy, float(np.var(column)), 80, *drawn_source)
        )


def test_what_is_refused() -> None:
    line, sources = AgreementOnTheLine(), pool(0, 3, 30, 0.0)
    targets = [model_rows.answers for model_rows in sources]

    def why(
        sources: list[Labelled], targets: list[Answers], estimator: Joint = line
    ) -> str | list[Estimate]:
        return estimated_jointly(estimator, sources, targets)

    assert why(sources[:2], targets[:2]) == "it needs the answers of 3 models at least, not of 2"
    assert (
        why([], targets[:1], Disagreement())
        == "it needs the answers of 2 models at least, not of 1"
    )
    assert why([], []) == "it needs the answers of 3 models at least, not of 0"
    assert (
        why(sources[:2], targets)
        == "3 models answered for the set, and 2 for the labelled rows of the source"
    )
    nothing = [model_rows.take(np.empty(0, np.int64)) for model_rows in targets]
    assert why(sources, nothing) == "model 1 of 3: there are no rows to estimate"
    assert (
        why([model_rows.take(np.empty(0, np.int64)) for model_rows in sources], targets)
        == "model 1 of 3: there are no labelled rows of the source"
    )
    few = [*targets[:2], targets[2].take(np.arange(7))]
    assert why(sources, few) == "model 3 of 3 answered for 7 rows of the set, and the first for 30"
    wide = replace(targets[1], classes=5)
    assert (
        why(sources, [targets[0], wide, targets[2]])
        == "model 2 of 3: the source has 3 classes and the set 5"
    )
    assert (
        why([], [targets[0], wide], Disagreement()) == "model 2 of 2 has 5 classes, and the first 3"
    )
    relabelled = known(sources[1].answers, (sources[1].label + 1) % 3)
    assert (
        why([sources[0], relabelled, sources[2]], targets)
        == "model 2 of 3 answered for other labelled rows of the source than the first"
    )
    single_model = drawn(0, 30)
    assert (
        estimated(line, single_model, single_model.answers)
        == "it compares what 3 models or more say of the same rows, and has one"
    )  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="come as Answers, which hold no labels"):
        estimated_jointly(line, sources, sources)  # type: ignore[arg-type]


def test_models_with_scores_are_read_by_their_labels() -> None:
    pair = [drawn(0, 40), drawn(0, 40, strength=1.0)]
    estimates = estimated_jointly(Disagreement(), [], [model_rows.answers for model_rows in pair])
    bare = estimated_jointly(
        Disagreement(), [], [Answers(model_rows.answers.answer, classes=4) for model_rows in pair]
    )
    assert estimates == bare
    assert isinstance(estimated(AtcMaximumConfidence(), pair[0], pair[1].answers), Estimate)
