from __future__ import annotations

import json
import math

from crosswind.training.selection import ORACLES, RULES, Rule, Score, Selector, Stopper, start_of


def test_best_is_highest_then_lowest_loss_then_earliest() -> None:
    selector = Selector(["validation", "target-validation"])
    for step, accuracy, loss in [
        (1, 0.5, 1.0),
        (2, 0.7, 0.9),
        (3, 0.7, 0.8),
        (4, 0.7, 0.8),
        (5, 0.6, 0.1),
        (6, 0.7, math.nan),
    ]:
        selector.offer(
            step,
            {"validation": Score(accuracy, loss), "target-validation": Score(1 - accuracy, loss)},
        )
    selections = selector.selections
    assert set(selections) == {"best-id", "best-target", "last"}
    assert (
        selections["best-id"].step,
        selections["best-id"].ties,
        selections["best-id"].scores["validation"].loss,
    ) == (3, 4, 0.8)
    assert (selections["best-target"].step, selections["best-target"].ties) == (1, 1)
    assert selections["last"].step == 6
    assert selector.steps == {1, 3, 6}


def test_selector_goes_on_from_what_it_saved() -> None:
    first, two = Selector(["validation"]), Selector(["validation"])
    first.offer(1, {"validation": Score(0.5, math.nan)})
    two.restore(json.loads(json.dumps(first.save())))
    for selector in (first, two):
        selector.offer(2, {"validation": Score(0.5, 2.0)})
    assert first.selections == two.selections
    assert first.selections["best-id"].step == 2


def test_without_validation_only_the_last_is_taken() -> None:
    selector = Selector([])
    selector.offer(3, {})
    assert list(selector.selections) == ["last"]


def test_ties_of_every_score_go_to_the_lower_loss_then_the_earliest() -> None:
    selector = Selector(
        ["validation"],
        ["best-id-worst-group", "best-id-balanced-accuracy", "best-target-worst-group"],
    )
    offered = [
        (1, 0.9, 0.5, 0.2, 0.6),
        (2, 0.8, 0.7, 0.4, 0.6),
        (3, 0.8, 0.6, 0.4, 0.5),
        (4, 0.8, 0.6, 0.4, 0.6),
    ]
    for step, accuracy, loss, worst, balanced in offered:
        selector.offer(step, {"validation": Score(accuracy, loss, worst, balanced)})
    selections = selector.selections
    assert list(selections) == [
        "best-id",
        "best-id-worst-group",
        "best-id-balanced-accuracy",
        "last",
    ]
    assert [(selection.step, selection.ties) for selection in selections.values()] == [
        (1, 1),
        (3, 3),
        (1, 3),
        (4, 1),
    ]


def test_rules_name_their_set_and_score() -> None:
    assert RULES["best-ood-balanced-accuracy"] == Rule("ood-validation", "balanced_accuracy")
    assert ORACLES == ("best-target", "best-target-worst-group", "best-target-balanced-accuracy")


def test_steps_before_a_switch_count_only_until_there_is_one_after() -> None:
    """A switch at step 4 of 6: weights at step 4 took steps 0 to 3, all from before it, those at 5
    are the first from after."""
    start = start_of([2, 4], 6)
    assert start == 5
    selector = Selector(["validation"], start=start)
    for step, accuracy, best, ties in [
        (3, 0.9, 3, 1),
        (4, 0.95, 4, 1),
        (5, 0.5, 5, 1),
        (6, 0.5, 5, 2),
    ]:
        selector.offer(step, {"validation": Score(accuracy, 1.0)})
        assert (selector.selections["best-id"].step, selector.selections["best-id"].ties) == (
            best,
            ties,
        )
        assert selector.selections["last"].step == step
        saved = json.loads(json.dumps(selector.save()))
        selector = Selector(["validation"], start=start)
        selector.restore(saved)


def test_a_stage_without_a_switch_inside_starts_at_once() -> None:
    assert [
        start_of([], 10),
        start_of([0], 10),
        start_of([0], 0),
        start_of([12], 10),
        start_of([9], 10),
    ] == [0, 0, 0, 0, 10]


def test_stop_rule_begins_anew_at_the_switch() -> None:
    patient, reaching = Stopper(2, None, start=5), Stopper(None, 0.9, start=5)
    for step, accuracy in [(1, 1.0), (2, 0.3), (3, 0.3), (4, 0.95)]:
        assert not patient.offer(step, accuracy) and not reaching.offer(step, accuracy)
    assert not patient.offer(5, 0.5)  # the best of all from there on
    assert [patient.offer(step, 0.5) for step in (6, 7)] == [False, True]
    assert reaching.offer(6, 0.9)
