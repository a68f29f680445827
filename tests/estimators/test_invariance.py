"""Neighbourhood invariance: values by hand, loops, floors of answers at random, answers that name
no class, black boxes."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from crosswind.core import registry
from crosswind.core.errors import DataError
from crosswind.estimators.base import Answers, Estimate, Labelled, Measure
from crosswind.estimators.estimating import estimated
from crosswind.estimators.invariance import Invariance, invariances
from crosswind.transforms.neighbourhood import NEIGHBOURHOODS, NEIGHBOURS

FORMS = ("largest", "entropy", "agreement")


def named(name: str, **knobs: Any) -> Invariance:
    cls: Any = registry.load("estimators", name)
    estimator = cls(**knobs)
    assert isinstance(estimator, Invariance) and isinstance(estimator, Measure)
    return estimator


def black_box(votes: np.ndarray, classes: int = 10, name: str = "ni-translate") -> Answers:
    return Answers(votes[:, 0], classes=classes, neighbours={name: votes})


def by_loops(votes: np.ndarray, form: str) -> float:
    total = 0.0
    for row in votes.tolist():
        counted_votes = Counter(
            vote if vote >= 0 else f"unreadable {i}" for i, vote in enumerate(row)
        )
        n = len(row)
        if form == "largest":
            total += max(counted_votes.values()) / n
        elif form == "entropy":
            total += sum(m / n * math.log(m / n) for m in counted_votes.values())
        else:
            total += sum(m * (m - 1) for m in counted_votes.values()) / (n * (n - 1))
    return total / len(votes)


def test_values_by_hand() -> None:
    """Votes 0 0 0 1: 3/4; 3/4 log 3/4 + 1/4 log 1/4; 3 x 2 / (4 x 3). Votes 2 2 3 3: 1/2; log 1/2;
    (2 + 2) / 12. Without the first: 0 0 1 and 2 3 3, both 2/3, 2/3 log 2/3 + 1/3 log 1/3, 2 / 6."""
    target = black_box(np.array([[0, 0, 0, 1], [2, 2, 3, 3]]))
    value_of_form = {form: named("ni-translate", form=form).measure(target) for form in FORMS}
    first = 0.75 * math.log(0.75) + 0.25 * math.log(0.25)
    assert value_of_form == pytest.approx(
        {"largest": 0.625, "entropy": (first - math.log(2)) / 2, "agreement": (1 / 2 + 1 / 3) / 2}
    )
    value_of_form = {
        form: named("ni-translate", form=form, original=False).measure(target) for form in FORMS
    }
    third = 2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)
    assert value_of_form == pytest.approx({"largest": 2 / 3, "entropy": third, "agreement": 1 / 3})
    assert named("ni-translate").measure(target) == pytest.approx(0.625), (
        "the paper's form, with the row itself"
    )


@pytest.mark.parametrize("form", FORMS)
def test_loops_say_the_same_and_order_does_not_matter(form: str) -> None:
    random = np.random.default_rng(0)
    for classes, count in ((2, 2), (3, 11), (50, 6)):
        votes = random.integers(-1, classes, size=(40, count))
        measured = named("ni-translate", form=form).measure(black_box(votes, classes))
        assert measured == pytest.approx(by_loops(votes, form), abs=1e-9)
        mixed = random.permuted(votes[random.permutation(40)], axis=1)
        assert named("ni-translate", form=form).measure(black_box(mixed, classes)) == pytest.approx(
            measured, abs=1e-12
        )


def test_an_answer_that_names_no_class_agrees_with_none() -> None:
    """-1 -1 -1: as three different answers. 4 4 -1: 2/3. As an index -1 would be the last class,
    here 9."""
    unreadable, partly_unreadable, last = (
        np.array([[-1, -1, -1]]),
        np.array([[4, 4, -1]]),
        np.array([[9, 9, -1]]),
    )
    assert [float(invariances(unreadable, form)[0]) for form in FORMS] == pytest.approx(
        [1 / 3, -math.log(3), 0]
    )
    assert [float(invariances(partly_unreadable, form)[0]) for form in FORMS] == [
        float(invariances(last, form)[0]) for form in FORMS
    ]
    assert float(invariances(partly_unreadable, "agreement")[0]) == pytest.approx(1 / 3)


@pytest.mark.slow
def test_floors_of_answers_at_random() -> None:
    """The largest share falls with the number of votes, the agreement is 1/k for all; the exact
    largest by counting all 2^5."""
    random = np.random.default_rng(1)
    floors = {
        (10, 5): 0.36,
        (10, 10): 0.27,
        (10, 50): 0.17,
        (2, 5): 0.69,
        (2, 10): 0.62,
        (2, 50): 0.56,
    }
    for (classes, count), floor in floors.items():
        votes = random.integers(classes, size=(20_000, count))
        assert float(invariances(votes, "largest").mean()) == pytest.approx(floor, abs=0.006), (
            classes,
            count,
        )
        assert float(invariances(votes, "agreement").mean()) == pytest.approx(
            1 / classes, abs=0.006
        ), (classes, count)
    every = np.array([[i >> bit & 1 for bit in range(5)] for i in range(32)])
    assert float(invariances(every, "largest").mean()) == pytest.approx(
        (2 * 5 + 10 * 4 + 20 * 3) / 32 / 5
    )


@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_rows_does_not_matter(form: str) -> None:
    random = np.random.default_rng(2)
    stays = random.uniform(0.3, 1, size=(50_000, 1))
    votes = np.where(
        random.uniform(size=(50_000, 11)) < stays, 0, random.integers(10, size=(50_000, 11))
    )
    measure = named("ni-erase", form=form)
    of_all_rows = measure.measure(black_box(votes, name="ni-erase"))
    of_parts = [
        measure.measure(black_box(vote_part, name="ni-erase")) for vote_part in np.split(votes, 100)
    ]
    assert np.mean(of_parts) == pytest.approx(of_all_rows, abs=1e-9) and abs(
        of_parts[0] - of_all_rows
    ) < 4 * np.std(of_parts)


def test_one_is_registered_for_each_neighbourhood_and_reads_labels_only() -> None:
    facts_of = {
        known_facts.name: known_facts
        for known_facts in registry.listing("estimators")
        if known_facts.name.startswith("ni-")
    }
    assert set(facts_of) == set(NEIGHBOURHOODS)
    for name, known_facts in facts_of.items():
        access = known_facts.access
        assert (
            access is not None
            and access.neighbourhood == name
            and access.pool
            and not access.weights
        )
        assert access.scores == "labels" and access.passes == NEIGHBOURS + 1
        assert [knob.name for knob in known_facts.knobs] == [
            "form",
            "original",
            "neighbours",
            *access.handed,
        ]
        room = "text-transforms" if NEIGHBOURHOODS[name].takes == "text" else "transforms"
        assert set(access.handed) <= {
            knob.name for knob in registry.facts(room, NEIGHBOURHOODS[name].transform).knobs
        }
        # Only the neighbourhood of its own name is read.
        other_votes = {
            other_name: np.zeros((2, 3), dtype=np.int64) for other_name in NEIGHBOURHOODS
        }
        target = Answers(
            np.zeros(2, dtype=np.int64),
            classes=4,
            neighbours={**other_votes, name: np.array([[0, 1, 2], [0, 0, 1]])},
        )
        assert named(name).measure(target) == pytest.approx((1 / 3 + 2 / 3) / 2)


def test_a_black_box_gets_an_estimate_from_a_pool() -> None:
    """Accuracy is the invariance less .1 on every set of the pool, so the line has slope 1; the
    target's .8 gives .7."""

    def answers(share: float) -> Answers:
        votes = np.zeros((10, 10), dtype=np.int64)
        votes[:, round(10 * share) :] = 1
        return black_box(votes, 2)

    def labelled(share: float, name: str) -> Labelled:
        label = np.ones(10, dtype=np.int64)
        label[: round(10 * share) - 1] = 0
        return Labelled(answers(share), label, name)

    pool = [labelled(share, f"set {share}") for share in (0.9, 0.7, 0.6)]
    estimate = estimated(named("ni-translate"), labelled(1.0, "source"), answers(0.8), pool)
    assert isinstance(estimate, Estimate) and estimate.accuracy == pytest.approx(0.7, abs=1e-9)
    assert "neighbours (ni-erase)" in str(estimated(named("ni-erase"), pool[0], answers(0.8), pool))


@pytest.mark.parametrize(
    ("votes", "knobs", "words"),
    [
        (np.zeros((3, 4), dtype=np.int64), {}, "neighbours of 2 rows have shape"),
        (np.zeros(2, dtype=np.int64), {}, "neighbours of 2 rows have shape"),
        (np.zeros((2, 1), dtype=np.int64), {"original": False}, "needs 1 or more answers"),
        (
            np.zeros((2, 2), dtype=np.int64),
            {"original": False, "form": "agreement"},
            "needs 2 or more answers",
        ),
    ],
)
def test_answers_of_another_shape_are_told_of(
    votes: np.ndarray, knobs: dict[str, Any], words: str
) -> None:
    target = Answers(np.zeros(2, dtype=np.int64), classes=2, neighbours={"ni-translate": votes})
    with pytest.raises(DataError, match=words):
        named("ni-translate", **knobs).measure(target)
