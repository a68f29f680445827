"""The claims of Ng et al. 2022 on pools of networks: differences by hand, verdicts both ways, and
what cannot be told."""

from __future__ import annotations

import numpy as np
import pytest

from crosswind.evaluation.compare import holm
from crosswind.evaluation.multiplicity import at_level
from crosswind.evaluation.points import Point
from crosswind.evaluation.pool_claims import (
    CANNOT_TELL,
    HOLDS,
    OPPOSITE,
    decide,
    falls,
    farthest,
    lost,
)
from crosswind.evaluation.pools import by_domain, comparison

RISING = (1, 2, 3, 4, 5)
TWO, FOUR = (2, 1, 4, 3, 5), (3, 2, 4, 5, 1)
"""Orders with 2 of 10 pairs the wrong way round, tau .6, and with 5 of 10, tau 0."""


def networks(
    orders: dict[str, tuple[int, ...]], drops: dict[str, float], noise: float = 0.0, seed: int = 0
) -> list[Point]:
    """Networks trained on S, on each domain: accuracies .8 less its drop and .01 apart, values in
    its order."""
    random = np.random.default_rng(seed)
    return [
        Point(
            f"n{i}", "S", test, value + noise * random.normal(), 0.8 - drops[test] + 0.01 * i, "cnn"
        )
        for test, order in orders.items()
        for i, value in enumerate(order)
    ]


DROPS = {"S": 0.0, "near": 0.1, "far": 0.2}


def test_numbers_by_domain_by_hand() -> None:
    """Tau 1, .6 and 0. Of near, values 2 1 4 3 5 against 1 2 3 4 5: sum of products of centred
    numbers 8, of squares 10 and 10."""
    points = networks({"S": RISING, "near": TWO, "far": FOUR}, DROPS)
    domains = by_domain(points)
    assert list(domains) == ["S", "near", "far"]
    assert [domain.tau.value for domain in domains.values()] == pytest.approx([1, 0.6, 0])
    assert domains["near"].r2.value == pytest.approx(0.64)
    assert domains["S"].r2.value == pytest.approx(1)
    assert domains["near"].micro.value is None
    assert domains["near"].micro.why == "the networks have one training domain"
    # Of far, 3 2 4 5 1: products -2x0 - 1x-1 + 0 + 1x2 + 2x-2 = -1, so that the squared correlation
    # is .01.
    assert domains["far"].r2.value == pytest.approx(0.01)


def test_on_a_domain_where_some_train_the_others_are_judged_by_hand() -> None:
    """On A the networks of B, values 1 2 3 against .2 .6 .4, have tau 1/3 and squared correlation
    .25; those of A are in domain, and would have -1. On C, those of A have 1/3 and those of B 1,
    mean 2/3; micro, of 15 pairs of which 2 are tied in value: inside A 1, inside B 3, between them
    six up and one down.
    """
    tables = {
        ("A", "A"): [(1, 0.9), (2, 0.8), (3, 0.7)],
        ("A", "C"): [(1, 0.2), (2, 0.6), (3, 0.4)],
        ("B", "A"): [(1, 0.2), (2, 0.6), (3, 0.4)],
        ("B", "C"): [(0, 0.1), (1, 0.3), (2, 0.5)],
    }
    points = [
        Point(f"{i}{n}", i, o, *pair)
        for (i, o), table in tables.items()
        for n, pair in enumerate(table)
    ]
    domains = by_domain(points)
    assert [
        domains["A"].tau.value,
        domains["A"].r2.value,
        domains["A"].micro.value,
    ] == pytest.approx([1 / 3, 0.25, 1 / 3])
    assert [domains["C"].tau.value, domains["C"].micro.value] == pytest.approx(
        [2 / 3, 9 / np.sqrt(13 * 15)]
    )
    assert (domains["C"].tau.cells, domains["A"].micro.cells) == (2, 1)


def test_how_far_a_domain_is_and_how_tau_falls_by_hand() -> None:
    """Accuracies fall by 0, 10 and 20 points, tau goes 1, .6, 0: the slope over x = 0, 1, 2 is (0 -
    1) / 2, a fall of .5."""
    points = networks({"S": RISING, "near": TWO, "far": FOUR}, DROPS)
    assert lost(points) == pytest.approx({"near": 0.1, "far": 0.2})
    assert farthest(points) == "far"
    decision = falls("ni", points)
    assert decision.found is not None
    assert decision.found.mean == pytest.approx(0.5)
    assert "over 3 domains" in decision.what
    two = falls("ni", networks({"S": RISING, "far": FOUR}, DROPS))
    assert two.found is None
    assert two.why == "fewer than 3 domains with a tau"
    assert two.verdict == CANNOT_TELL


def many(sign: float, seed: int, networks: int = 14) -> list[Point]:
    """Values that rise (sign 1), fall (-1) or do neither (0) with accuracy, with a little noise."""
    points = []
    for i in range(networks):
        for test, drop in DROPS.items():
            accuracy = 0.4 + 0.03 * i - drop
            noise = np.random.default_rng([seed, i, len(test)]).normal()
            points.append(
                Point(
                    f"n{i}",
                    "S",
                    test,
                    sign * accuracy + (0.02 if sign else 1) * noise,
                    accuracy,
                    "cnn",
                )
            )
    return points


def test_verdicts_both_ways_and_p_values_adjusted_together() -> None:
    good, none, bad = many(1, 1), many(0, 2), many(-1, 3)
    decisions = decide({"good": good, "bad": bad}, {"atc": none}, {"good": 0.02, "bad": 0.3})
    assert [
        (decision.claim, decision.verdict) for decision in decisions if decision.claim in (1, 3)
    ] == [
        (1, HOLDS),
        (1, OPPOSITE),
        (3, HOLDS),
        (3, OPPOSITE),
    ]
    (last,) = (decision for decision in decisions if decision.claim == 4)
    assert last.verdict == HOLDS
    assert "good, which stay below, less that of bad" in last.what
    assert len(decisions) == 2 + 2 + 2 + 1, "claims 1, 2 and 3 for both, and the fourth"
    p = {
        i: 1.0 if decision.found is None or decision.found.p is None else decision.found.p
        for i, decision in enumerate(decisions)
    }
    assert [decision.adjusted for decision in decisions] == [
        holm(p)[i] for i in range(len(decisions))
    ]
    assert max(p.values()) > min(p.values())
    compared_tau = comparison(none, good, held="in-sample").macro_tau
    assert decisions[0].found == at_level(compared_tau, decisions[0].level), (
        "the difference of macro tau, good less atc"
    )
    hard = [[decision for decision in side if decision.test == "far"] for side in (none, good)]
    assert decisions[4].found == at_level(
        comparison(*hard, held="in-sample").macro_tau, decisions[0].level
    )
    assert decisions[4].what.startswith("on far, ")
    assert all(
        decision.found is None or decision.found.excludes_zero == (decision.verdict != CANNOT_TELL)
        for decision in decisions
    )


def test_the_fourth_claim_by_hand() -> None:
    """Low: tau .6 and 0 on the shifted domains, mean .3. High: 0 and -1, mean -.5. The difference
    is .8; ID has no part."""
    low = networks({"S": RISING, "near": TWO, "far": FOUR}, DROPS)
    high = networks({"S": RISING, "near": FOUR, "far": RISING[::-1]}, DROPS)
    (decision,) = (
        decision_of
        for decision_of in decide({"low": low, "high": high}, {}, {"low": 0.1, "high": 0.11})
        if decision_of.claim == 4
    )
    assert decision.found is not None
    assert decision.found.mean == pytest.approx(0.8)
    (none,) = (
        decision_of
        for decision_of in decide({"low": low, "high": high}, {}, {"low": 0.0, "high": 0.1})
        if decision_of.claim == 4
    )
    assert none.found is None
    assert none.why == "no neighbourhood above 0.1 nats has a tau"
    assert none.verdict == CANNOT_TELL
    assert none.adjusted == 1.0


def test_tables_of_other_networks_are_not_compared() -> None:
    good = many(1, 1)
    first, *_ = decide({"ni": good[3:]}, {"atc": good}, {"ni": 0.0})
    assert first.found is None
    assert "points that are not the same" in first.why
