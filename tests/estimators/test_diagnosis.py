"""Signs against an estimate: numbers by hand, what each warning is for, and that nothing is warned of without cause."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from crosswind.estimators.base import Answers, Labelled
from crosswind.estimators.diagnosis import Finding, diagnosed, target_marginals


def told(source: Labelled, target: Answers, **more: Any) -> dict[str, Finding]:
    found = diagnosed(source, target, **more)
    assert len({item.name for item in found}) == len(found) and all(math.isfinite(item.value) for item in found)
    return {item.name: item for item in found}


def labelled(answer: Any, label: Any, classes: int, **more: Any) -> Labelled:
    return Labelled(Answers(np.asarray(answer), classes=classes, **more), np.asarray(label))


def drawn(label: np.ndarray, k: int, seed: int, accuracy: float = 0.8) -> np.ndarray:
    """Right with this chance, else the next class."""
    wrong = np.random.default_rng(seed).uniform(size=len(label)) >= accuracy
    return np.asarray((label + wrong) % k)


def test_entropy_of_neighbours_and_the_accuracy_that_they_lose() -> None:
    """Source: entropies .1 and .3 of two rows, .2 .3 and .4 .5 of their neighbours: .35 - .2 = .15. Right 2 of 2, then 1 of 4: lost
    .75. Target: .2 and .2, .25 all: .05."""
    name = "ni-erase"
    source = labelled(
        [0, 1],
        [0, 1],
        2,
        neighbours={name: np.array([[0, 1, 0], [1, 0, -1]])},
        entropies={name: np.array([[0.1, 0.2, 0.3], [0.3, 0.4, 0.5]], dtype=np.float16)},
    )
    near = {name: np.array([[0, 0, 0], [1, 1, 1]])}
    target = Answers(np.array([0, 1]), classes=2, neighbours=near, entropies={name: np.array([[0.2, 0.25, 0.25]] * 2)})
    found = told(source, target)
    rise = found[f"entropy-rise:{name}:source"]
    assert rise.value == pytest.approx(0.15, abs=1e-3) and "0.15 nats" in rise.warning and "source" in rise.warning
    assert found[f"entropy-rise:{name}:target"] == Finding(f"entropy-rise:{name}:target", pytest.approx(0.05))
    lost = found[f"lost-accuracy:{name}"]
    assert lost.value == pytest.approx(0.75) and "from 1.000 to 0.250" in lost.warning
    assert found[f"unsteady:{name}:target"] == Finding(f"unsteady:{name}:target", 0.0)
    # A model in training mode says something else of the same row in another batch.
    moved = Answers(np.array([1, 1]), classes=2, neighbours=near)
    assert "50.0% of the rows got another answer" in told(source, moved)[f"unsteady:{name}:target"].warning


def test_a_neighbourhood_that_keeps_the_label_is_not_warned_of() -> None:
    random = np.random.default_rng(0)
    label = random.integers(5, size=400)
    votes = np.tile(label[:, None], (1, 11))
    votes[:, 1:][random.uniform(size=(400, 10)) < 0.08] = 0
    entropies = random.uniform(0.2, 0.3, size=(400, 11))
    source = labelled(label, label, 5, neighbours={"ni-translate": votes}, entropies={"ni-translate": entropies})
    found = told(source, source.answers)
    assert [item for item in found.values() if item.warning] == []
    assert 0.04 < found["lost-accuracy:ni-translate"].value < 0.1 and len(found) == 9


def test_label_shift_by_hand() -> None:
    """Answers 60 40 and 30 70: expected 45 and 55 each, 4 terms of 15^2: 2 x 225/45 + 2 x 225/55 = 18.1818, one degree."""
    source = labelled([0] * 60 + [1] * 40, [0] * 60 + [1] * 40, 2)
    target = Answers(np.array([0] * 30 + [1] * 70), classes=2)
    found = told(source, target)
    assert found["label-shift"].value == pytest.approx(float(chi2.sf(200 / 11, 1)), rel=1e-6)
    assert "chi-square 18.2, 1 degrees" in found["label-shift"].warning and "30.0% after 60.0%" in found["label-shift"].warning
    assert found["marginal-shift"].value == pytest.approx(0.3) and "class 0 with 30.0%" in found["marginal-shift"].warning


def test_marginals_are_found_again_where_only_they_have_changed() -> None:
    """C = (.4 .1; .1 .4), answers .35 .65 on the target: w solves .4 a + .1 b = .35, .1 a + .4 b = .65: .5 and 1.5, shares .25 .75.
    With many classes the true shares come back, those of the answers do not."""
    source = labelled([0, 0, 0, 0, 1] + [1, 1, 1, 1, 0], [0] * 5 + [1] * 5, 2)
    target = Answers(np.array([0] * 35 + [1] * 65), classes=2)
    assert target_marginals(source, target).tolist() == pytest.approx([0.25, 0.75])
    k, random = 6, np.random.default_rng(0)
    before = random.integers(k, size=40_000)
    share = np.array([0.4, 0.3, 0.1, 0.1, 0.1, 0.0])
    after = random.choice(k, size=40_000, p=share)
    big, moved = labelled(drawn(before, k, 1, 0.6), before, k), Answers(drawn(after, k, 2, 0.6), classes=k)
    found = target_marginals(big, moved)
    assert found.tolist() == pytest.approx(share.tolist(), abs=0.02) and found.sum() == pytest.approx(1) and found.min() >= 0
    assert abs(np.bincount(moved.answer, minlength=k) / 40_000 - share).max() > 0.05
    assert told(big, moved)["marginal-shift"].value == pytest.approx(0.5 * abs(share - 1 / 6).sum(), abs=0.02)


def test_marginals_of_degenerate_answers_are_still_shares() -> None:
    """A class that the source lacks, an answer that it never gave, answers that name no class: shares all the same."""
    source = labelled([0, 0, 1, -1], [0, 0, 1, 1], 4)
    for answer in ([2, 2], [3, 0], [-1, -1], [0, 1]):
        shares = target_marginals(source, Answers(np.array(answer), classes=4))
        assert shares.shape == (4,) and shares.sum() == pytest.approx(1) and shares.min() >= 0 and shares[2:].tolist() == [0, 0]
    # Half of class 1 gets no readable answer, on both sides: the shares are as they were.
    assert target_marginals(source, source.answers).tolist() == pytest.approx([0.5, 0.5, 0, 0])
    assert target_marginals(source, Answers(np.array([-1, 1]), classes=4))[1] == pytest.approx(1)


@pytest.mark.parametrize(("k", "n", "m"), [(10, 1000, 1000), (10, 1000, 60), (100, 300, 80), (2, 20, 4)])
def test_sets_of_one_distribution_are_seldom_said_to_differ(k: int, n: int, m: int) -> None:
    random, warned = np.random.default_rng(3), 0
    share = np.linspace(1, 3, k) / np.linspace(1, 3, k).sum()
    for _ in range(200):
        before, after = random.choice(k, size=n, p=share), random.choice(k, size=m, p=share)
        source = labelled(drawn(before, k, int(random.integers(1 << 30))), before, k)
        found = told(source, Answers(drawn(after, k, int(random.integers(1 << 30))), classes=k))
        warned += bool(found["label-shift"].warning)
        assert bool(found["marginal-shift"].warning) <= bool(found["label-shift"].warning)
    assert warned <= 7, "2 expected of 200 at the 1% level, more than 7 once in 900 times"


def test_accuracy_near_that_of_guessing() -> None:
    """Labels 6 of 10 of class 0: guessing is right on .6. The source, at .9, is .3 above; an estimate of .64 is .04 above."""
    label = np.array([0] * 6 + [1] * 4)
    source = labelled(np.array([1] + [0] * 5 + [1] * 4), label, 2)
    found = told(source, source.answers, accuracy=0.64)
    assert found["above-chance:source"] == Finding("above-chance:source", pytest.approx(0.3))
    assert found["above-chance:target"].value == pytest.approx(0.04) and "0.640" in found["above-chance:target"].warning
    assert told(source, source.answers, accuracy=0.66)["above-chance:target"].warning == ""
    assert "above-chance:target" not in told(source, source.answers)
    guessing = labelled(np.zeros(10, dtype=np.int64), label, 2)
    assert "0.600 of guessing" in told(guessing, source.answers)["above-chance:source"].warning


def test_nearly_constant_answers() -> None:
    """Four classes alike: .75 of the labels differ from any one, a quarter of that is .1875."""
    label = np.repeat(np.arange(4), 25)
    source = labelled(label, label, 4)
    for others, warns in ((19, False), (18, True)):
        found = told(source, Answers(np.array([2] * (100 - others) + [0] * others), classes=4))["commonest-answer"]
        assert found.value == pytest.approx(1 - others / 100) and (f"{found.value:.1%}" in found.warning) == warns
    # Nothing unusual where the labels of the source are as lopsided; and an answer that names no class is one too.
    rare = labelled([0] * 95 + [1] * 5, [0] * 95 + [1] * 5, 4)
    assert told(rare, rare.answers)["commonest-answer"].warning == ""
    assert "no class" in told(source, Answers(np.full(10, -1), classes=4))["commonest-answer"].warning


def test_saturated_confidences() -> None:
    """A gap of 20 between two logits leaves 2e-9 for the other class, which single precision rounds to 0; one of 10 leaves 5e-5."""
    logits = np.array([[20.0, 0], [0, 20], [10, 0], [0, 20]])
    source = Labelled(Answers(logits.argmax(1), logits), logits.argmax(1))
    assert "75.0% of the confidences are 1" in told(source, source.answers)["saturated"].warning
    half = source.answers.take(np.array([0, 2]))
    assert told(source, half)["saturated"] == Finding("saturated", 0.5)
    assert "saturated" not in told(source, Answers(half.answer, classes=2))


def test_without_a_source_the_target_alone_is_told_of() -> None:
    votes = {"ni-erase": np.array([[0, 0], [1, 1]])}
    target = Answers(np.array([0, 1]), np.array([[1.0, 0], [0, 1]]), neighbours=votes, entropies={"ni-erase": np.zeros((2, 2))})
    alone = Labelled(
        Answers(target.answer, classes=2, neighbours={"own": votes["ni-erase"][:, :1]}, entropies={"own": np.zeros((2, 1))}),
        target.answer,
    )
    assert not {name for name in told(alone, target) if name.endswith((":own", ":own:source")) and not name.startswith("unsteady")}
    empty = Labelled(target.take(np.array([], dtype=np.int64)), np.array([], dtype=np.int64))
    assert set(told(empty, target)) == {"entropy-rise:ni-erase:target", "unsteady:ni-erase:target", "commonest-answer", "saturated"}
