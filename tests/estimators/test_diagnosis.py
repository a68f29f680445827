"""Signs against an estimate: numbers by hand, what each warning is for, and that nothing is warned
of without cause."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from crosswind.estimators.base import Answers, Labelled
from crosswind.estimators.diagnosis import DiagnosisFinding, diagnosed


def told(source: Labelled, target: Answers, **options: Any) -> dict[str, DiagnosisFinding]:
    findings = diagnosed(source, target, **options)
    assert len({finding.name for finding in findings}) == len(findings) and all(
        math.isfinite(finding.value) for finding in findings
    )
    return {finding.name: finding for finding in findings}


def labelled(answer: Any, label: Any, classes: int, **options: Any) -> Labelled:
    return Labelled(Answers(np.asarray(answer), classes=classes, **options), np.asarray(label))


def drawn(label: np.ndarray, k: int, seed: int, accuracy: float = 0.8) -> np.ndarray:
    """Right with this chance, else the next class."""
    wrong = np.random.default_rng(seed).uniform(size=len(label)) >= accuracy
    return np.asarray((label + wrong) % k)


def test_entropy_of_neighbours_and_the_accuracy_that_they_lose() -> None:
    """Source: entropies .1 and .3 of two rows, .2 .3 and .4 .5 of their neighbours: .35 - .2 = .15.
    Right 2 of 2, then 1 of 4: lost .75. Target: .2 and .2, .25 all: .05."""
    name = "ni-erase"
    source = labelled(
        [0, 1],
        [0, 1],
        2,
        neighbours={name: np.array([[0, 1, 0], [1, 0, -1]])},
        entropies={name: np.array([[0.1, 0.2, 0.3], [0.3, 0.4, 0.5]], dtype=np.float16)},
    )
    votes = {name: np.array([[0, 0, 0], [1, 1, 1]])}
    target = Answers(
        np.array([0, 1]),
        classes=2,
        neighbours=votes,
        entropies={name: np.array([[0.2, 0.25, 0.25]] * 2)},
    )
    findings = told(source, target)
    rise = findings[f"entropy-rise:{name}:source"]
    assert (
        rise.value == pytest.approx(0.15, abs=1e-3)
        and "0.15 nats" in rise.warning
        and "source" in rise.warning
    )
    assert findings[f"entropy-rise:{name}:target"] == DiagnosisFinding(
        f"entropy-rise:{name}:target", pytest.approx(0.05)
    )
    lost = findings[f"lost-accuracy:{name}"]
    assert lost.value == pytest.approx(0.75) and "from 1.000 to 0.250" in lost.warning
    assert findings[f"unsteady:{name}:target"] == DiagnosisFinding(f"unsteady:{name}:target", 0.0)
    # A model in training mode says something else of the same row in another batch.
    moved = Answers(np.array([1, 1]), classes=2, neighbours=votes)
    assert (
        "50.0% of the rows got another answer"
        in told(source, moved)[f"unsteady:{name}:target"].warning
    )


def test_a_neighbourhood_that_keeps_the_label_is_not_warned_of() -> None:
    random = np.random.default_rng(0)
    label = random.integers(5, size=400)
    votes = np.tile(label[:, None], (1, 11))
    votes[:, 1:][random.uniform(size=(400, 10)) < 0.08] = 0
    entropies = random.uniform(0.2, 0.3, size=(400, 11))
    label[:2] = 1, 2
    votes[:2, 0] = 2, 1
    source = labelled(
        votes[:, 0],
        label,
        5,
        neighbours={"ni-translate": votes},
        entropies={"ni-translate": entropies},
    )
    findings = told(source, source.answers)
    assert [finding for finding in findings.values() if finding.warning] == []
    assert 0.04 < findings["lost-accuracy:ni-translate"].value < 0.1 and len(findings) == 9


def test_labels_that_have_shifted() -> None:
    """Told of with the share that moved where the shares explain the answers, not where there are
    labels only."""
    random = np.random.default_rng(0)

    def of(label: np.ndarray) -> Labelled:
        logits = 2 * random.normal(size=(len(label), 3))
        logits[np.arange(len(label)), label] += 4
        return Labelled(Answers(logits.argmax(1), logits), label)

    source, same = of(np.arange(3000) % 3), of(np.arange(1500) % 3)
    moved = of(random.choice(3, size=1500, p=[0.7, 0.2, 0.1]))
    finding = told(source, moved.answers)["label-shift"]
    assert (
        finding.value == pytest.approx(0.7 - 1 / 3, abs=0.03)
        and "a shift of labels alone" in finding.warning
    )
    assert told(source, same.answers)["label-shift"].warning == ""
    assert "label-shift" not in told(source, Answers(moved.answers.answer, classes=3))


def test_accuracy_near_that_of_guessing() -> None:
    """Labels 6 of 10 of class 0: guessing is right on .6. The source, at .9, is .3 above; an
    estimate of .64 is .04 above."""
    label = np.array([0] * 6 + [1] * 4)
    source = labelled(np.array([1] + [0] * 5 + [1] * 4), label, 2)
    findings = told(source, source.answers, accuracy=0.64)
    assert findings["above-chance:source"] == DiagnosisFinding(
        "above-chance:source", pytest.approx(0.3)
    )
    assert (
        findings["above-chance:target"].value == pytest.approx(0.04)
        and "0.640" in findings["above-chance:target"].warning
    )
    assert told(source, source.answers, accuracy=0.66)["above-chance:target"].warning == ""
    assert "above-chance:target" not in told(source, source.answers)
    guessing = labelled(np.zeros(10, dtype=np.int64), label, 2)
    assert "0.600 of guessing" in told(guessing, source.answers)["above-chance:source"].warning


def test_nearly_constant_answers() -> None:
    """Four classes alike: .75 of the labels differ from any one, a quarter of that is .1875."""
    label = np.repeat(np.arange(4), 25)
    source = labelled(label, label, 4)
    for other_answers, warns in ((19, False), (18, True)):
        finding = told(
            source, Answers(np.array([2] * (100 - other_answers) + [0] * other_answers), classes=4)
        )["commonest-answer"]
        assert (
            finding.value == pytest.approx(1 - other_answers / 100)
            and (f"{finding.value:.1%}" in finding.warning) == warns
        )
    # Nothing unusual where the labels of the source are as lopsided; and an answer that names no
    # class is one too.
    rare = labelled([0] * 95 + [1] * 5, [0] * 95 + [1] * 5, 4)
    assert told(rare, rare.answers)["commonest-answer"].warning == ""
    assert (
        "no class" in told(source, Answers(np.full(10, -1), classes=4))["commonest-answer"].warning
    )


def test_saturated_confidences() -> None:
    """A gap of 20 between two logits leaves 2e-9 for the other class, which single precision rounds
    to 0; one of 10 leaves 5e-5."""
    logits = np.array([[20.0, 0], [0, 20], [10, 0], [0, 20]])
    source = Labelled(Answers(logits.argmax(1), logits), logits.argmax(1))
    assert "75.0% of the confidences are 1" in told(source, source.answers)["saturated"].warning
    half = source.answers.take(np.array([0, 2]))
    assert told(source, half)["saturated"] == DiagnosisFinding("saturated", 0.5)
    assert "saturated" not in told(source, Answers(half.answer, classes=2))


def test_without_a_source_the_target_alone_is_told_of() -> None:
    votes = {"ni-erase": np.array([[0, 0], [1, 1]])}
    target = Answers(
        np.array([0, 1]),
        np.array([[1.0, 0], [0, 1]]),
        neighbours=votes,
        entropies={"ni-erase": np.zeros((2, 2))},
    )
    alone = Labelled(
        Answers(
            target.answer,
            classes=2,
            neighbours={"own": votes["ni-erase"][:, :1]},
            entropies={"own": np.zeros((2, 1))},
        ),
        target.answer,
    )
    assert not {
        name
        for name in told(alone, target)
        if name.endswith((":own", ":own:source")) and not name.startswith("unsteady")
    }
    empty = Labelled(target.take(np.array([], dtype=np.int64)), np.array([], dtype=np.int64))
    assert set(told(empty, target)) == {
        "entropy-rise:ni-erase:target",
        "unsteady:ni-erase:target",
        "commonest-answer",
        "saturated",
    }
