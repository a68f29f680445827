"""What holds for every registered estimator: order, no label of the target, input that is not
usable."""

from __future__ import annotations

import dataclasses
import gc
import inspect
from typing import Any, get_type_hints

import numpy as np
import pytest
from tests.estimators.made import drawn, known, said

from crosswind.core import registry
from crosswind.core.types import Predictions
from crosswind.estimators.base import Answers, Estimate, Estimator, Joint, Labelled, Measure
from crosswind.estimators.estimating import estimated, estimated_jointly
from crosswind.testing import Check, estimator_checks

pytest.importorskip("ot", reason="POT, the extra `transport`, is not installed")

KNOWN = {
    item.name: registry.load("estimators", item.name) for item in registry.listing("estimators")
}
DIRECT = {name: made() for name, made in KNOWN.items() if issubclass(made, Estimator)}
JOINT = {name: made() for name, made in KNOWN.items() if issubclass(made, Joint)}
MEASURES = {name: made for name, made in KNOWN.items() if issubclass(made, Measure)}
PLAIN = {
    name: made
    for name, made in DIRECT.items()
    if made.access.scores == "probabilities" and not made.access.neighbourhood
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for made in (*DIRECT.values(), *JOINT.values()):
        monkeypatch.setattr(type(made), "resamples", min(made.resamples, 3))


def told(estimator: Estimator, source: Labelled, target: Answers) -> float:
    estimate = estimated(estimator, source, target)
    assert isinstance(estimate, Estimate), estimate
    assert 0 <= estimate.accuracy <= 1 and (
        estimate.low is None
        or estimate.high is not None
        and estimate.low <= estimate.accuracy <= estimate.high
    )
    return estimate.accuracy


def test_how_many_there_are() -> None:
    assert {
        "atc-mc",
        "atc-ne",
        "average-confidence",
        "cbpe",
        "cot",
        "cott",
        "difference-of-confidences",
    } <= set(DIRECT)
    assert {"agreement-on-the-line", "disagreement"} <= set(JOINT)
    assert (
        len(PLAIN) >= 7
        and len(JOINT) >= 2
        and len(DIRECT) + len(JOINT) + len(MEASURES) == len(KNOWN)
    )


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{name}-{check}")
        for name, estimator in KNOWN.items()
        for check in estimator_checks(estimator)
    ],
)
def test_the_contract_holds(check: Check) -> None:
    check()


@pytest.mark.parametrize("name", KNOWN)
def test_each_says_what_it_assumes_and_where_it_is_from(name: str) -> None:
    facts = registry.facts("estimators", name)
    assert facts.access is not None and facts.access == KNOWN[name].access
    for word in ("Assumes:", "Reads:", "Reference:"):
        assert word in facts.doc, word


@pytest.mark.parametrize("name", PLAIN)
def test_the_order_of_rows_is_nothing_to_a_direct_estimator(name: str) -> None:
    random = np.random.default_rng(0)
    for seed in range(4):
        source, target = drawn(seed, 90), drawn(10 + seed, 70, strength=1.0).answers
        if seed > 1:  # ties
            source, target = (
                known(said(np.round(source.answers.logits)), source.label),
                said(np.round(target.logits)),
            )
        first = told(DIRECT[name], source, target)
        assert told(DIRECT[name], source, target) == first, "equal answers, equal estimates"
        turned = Answers(target.answer, np.asfortranarray(target.logits))
        assert told(DIRECT[name], source, turned) == pytest.approx(first, abs=1e-9)
        permuted = told(
            DIRECT[name], source.take(random.permutation(90)), target.take(random.permutation(70))
        )
        assert permuted == pytest.approx(first, abs=1e-9)
        doubled = told(
            DIRECT[name],
            source.take(np.repeat(np.arange(90), 2)),
            target.take(np.repeat(np.arange(70), 2)),
        )
        assert doubled == pytest.approx(first, abs=0.02), "every row twice"


@pytest.mark.parametrize("name", JOINT)
def test_the_order_of_rows_and_of_models_is_nothing_to_a_joint_one(name: str) -> None:
    random, models = np.random.default_rng(0), 4
    sources = [drawn(0, 80, strength=1 + 0.5 * i) for i in range(models)]
    sources = [known(model_rows.answers, sources[0].label) for model_rows in sources]
    targets = [drawn(1, 60, strength=0.5 + 0.5 * i).answers for i in range(models)]
    first = JOINT[name].estimate(sources, targets)
    rows, other_rows, order = (
        random.permutation(80),
        random.permutation(60),
        random.permutation(models),
    )
    again = JOINT[name].estimate(
        [sources[i].take(rows) for i in order], [targets[i].take(other_rows) for i in order]
    )
    assert [model_rows.accuracy for model_rows in again] == pytest.approx(
        [first[i].accuracy for i in order], abs=1e-9
    )
    estimates = estimated_jointly(JOINT[name], sources, targets)
    assert isinstance(estimates, list) and all(
        0 <= model_rows.low <= model_rows.accuracy <= model_rows.high <= 1
        for model_rows in estimates
    )  # type: ignore[operator]


# -- no label of the target ------------------------------------------------------------------------


def test_by_type_no_label_of_the_target_reaches_an_estimator() -> None:
    fields = {field.name for field in dataclasses.fields(Answers)}
    assert fields == {
        "answer",
        "logits",
        "classes",
        "neighbours",
        "entropies",
        "features",
        "weights",
    }
    assert not {"label", "labels", "right", "accuracy", "group", "y"} & {
        name for name, _ in inspect.getmembers(Answers)
    }
    with pytest.raises(TypeError, match="label"):
        Answers(np.zeros(2, np.int64), label=np.zeros(2))  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Answers(np.zeros(2, np.int64)).label = np.zeros(2)  # type: ignore[attr-defined]
    for estimator in KNOWN.values():
        function = estimator.measure if issubclass(estimator, Measure) else estimator.estimate
        hints = {
            name: kind
            for name, kind in get_type_hints(function).items()
            if name in ("target", "targets")
        }
        assert str(list(hints.values())[0]).endswith(("base.Answers'>", "base.Answers]")), estimator
        other_names = set(inspect.signature(function).parameters) - {
            "self",
            "fitted",
            "target",
            "sources",
            "targets",
        }
        assert not other_names, estimator


def test_an_estimator_that_looks_for_labels_of_the_target_finds_none() -> None:
    """It follows every reference from what it is handed, and compares all arrays that it meets with
    the labels."""
    source, target = drawn(0, 31), drawn(1, 37)
    met: list[int] = []

    @dataclasses.dataclass(frozen=True)
    class LabelSpy(Estimator):
        """Looks for labels."""

        resamples = 2

        def fit(self, source: Labelled) -> Labelled:
            return source

        def estimate(self, fitted: Labelled, target: Answers) -> float:
            objects_seen: dict[int, Any] = {}
            left: list[Any] = [fitted, target]
            while left:
                value = left.pop()
                if id(value) in objects_seen or inspect.ismodule(value) or isinstance(value, type):
                    continue
                objects_seen[id(value)] = value
                left += gc.get_referents(value)
                left += (
                    [value.base] if isinstance(value, np.ndarray) and value.base is not None else []
                )
            arrays = [value for value in objects_seen.values() if isinstance(value, np.ndarray)]
            met.append(len(arrays))
            assert not any(
                value.shape == labels.shape and np.array_equal(value, labels) for value in arrays
            )
            return 0.5

    labels = target.label
    assert not np.array_equal(labels, target.answers.answer)
    assert isinstance(estimated(LabelSpy(), source, target.answers), Estimate)
    assert len(met) == 4 and min(met) >= 4, (
        "once, twice of other rows, and of the source: its labels, answers and logits of both"
    )
    for mine in (
        target,
        Predictions(np.arange(37), labels, labels, target.answers.answer, target.answers.logits),
    ):
        with pytest.raises(TypeError, match="come as Answers, which hold no labels"):
            estimated(LabelSpy(), source, mine)  # type: ignore[arg-type]
    smuggled = dataclasses.replace(target.answers)
    object.__setattr__(smuggled, "label", labels)
    with pytest.raises(TypeError, match="come as Answers, which hold no labels"):
        estimated(LabelSpy(), source, smuggled)


# -- input that is not usable ----------------------------------------------------------------------


@pytest.mark.parametrize("name", PLAIN)
def test_bad_input_is_one_sentence_or_a_right_number(name: str) -> None:
    estimator, good = DIRECT[name], drawn(0, 40)
    z = good.answers.logits
    assert z is not None
    for bad in (np.nan, np.inf):
        broken = z.copy()
        broken[3, 1] = bad
        sets = [(good, Answers(good.answers.answer, broken))]
        sets += [
            (known(Answers(good.answers.answer, broken), good.label), good.answers)
        ] * estimator.access.source
        for source, target in sets:
            assert str(estimated(estimator, source, target)).startswith(
                "the model gave logits that are not finite for the rows of the "
            )
    assert (
        estimated(estimator, good, good.answers.take(np.empty(0, np.int64)))
        == "there are no rows to estimate"
    )
    bare = Answers(good.answers.answer, classes=4)
    assert (
        estimated(estimator, good, bare)
        == "the model gives labels without probabilities for the rows of the set"
    )
    if estimator.access.source:
        assert (
            estimated(estimator, good, said(z[:, :3])) == "the source has 4 classes and the set 3"
        )
        assert (
            estimated(estimator, good.take(np.empty(0, np.int64)), good.answers)
            == "there are no labelled rows of the source"
        )
        assert "none of the model's 4 classes" in str(
            estimated(estimator, known(good.answers, good.label + 4), good.answers)
        )
    single_class = known(said(np.zeros((6, 1), dtype=np.float32)), [0] * 6)
    assert told(estimator, single_class, single_class.answers) == 1.0, "one class"
    always = known(
        good.answers.take(np.flatnonzero(good.label == 2)), [2] * int((good.label == 2).sum())
    )
    told(estimator, always, good.answers)
    told(estimator, good.take(np.array([0])), good.answers.take(np.array([1])))
    # logits as large as half precision holds: confidence 1 everywhere, 32 of 40 right
    sure = said((np.eye(4)[np.arange(40) % 4] * 6e4).astype(np.float16))
    label = np.where(np.arange(40) < 8, (sure.answer + 1) % 4, sure.answer)
    value = told(estimator, known(sure, label), sure)
    assert value == pytest.approx(1.0 if name in ("average-confidence", "cot") else 0.8, abs=0.01)
    zero = z.copy()
    zero[:, 3] = -np.inf  # a class that is ruled out
    ruled = known(said(zero), np.minimum(good.label, 2))
    assert abs(told(estimator, ruled, ruled.answers) - ruled.accuracy) < 0.3


@pytest.mark.parametrize("name", JOINT)
def test_bad_input_of_several_models(name: str) -> None:
    estimator, good = JOINT[name], drawn(0, 40)
    three, sources = [good.answers] * 3, [good] * 3
    assert "there are no rows to estimate" in str(
        estimated_jointly(estimator, sources, [good.answers.take(np.empty(0, np.int64))] * 3)
    )
    assert "classes" in str(
        estimated_jointly(estimator, sources, [*three[:2], said(np.zeros((40, 3)))])
    )
    assert "at least, not of 1" in str(estimated_jointly(estimator, sources[:1], three[:1]))
    assert isinstance(estimated_jointly(estimator, sources, three), list)
