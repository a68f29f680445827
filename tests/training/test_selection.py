from __future__ import annotations

import json
import math

from crosswind.training.selection import Score, Selector


def test_best_is_highest_then_lowest_loss_then_earliest() -> None:
    selector = Selector(["validation", "target-validation"])
    for step, accuracy, loss in [(1, 0.5, 1.0), (2, 0.7, 0.9), (3, 0.7, 0.8), (4, 0.7, 0.8), (5, 0.6, 0.1), (6, 0.7, math.nan)]:
        selector.offer(step, {"validation": Score(accuracy, loss), "target-validation": Score(1 - accuracy, loss)})
    found = selector.selections
    assert set(found) == {"best-id", "best-target", "last"}
    assert (found["best-id"].step, found["best-id"].ties, found["best-id"].scores["validation"].loss) == (3, 4, 0.8)
    assert (found["best-target"].step, found["best-target"].ties) == (1, 1)
    assert found["last"].step == 6
    assert selector.steps == {1, 3, 6}


def test_selector_goes_on_from_what_it_saved() -> None:
    one, two = Selector(["validation"]), Selector(["validation"])
    one.offer(1, {"validation": Score(0.5, math.nan)})
    two.restore(json.loads(json.dumps(one.save())))
    for selector in (one, two):
        selector.offer(2, {"validation": Score(0.5, 2.0)})
    assert one.selections == two.selections
    assert one.selections["best-id"].step == 2


def test_without_validation_only_the_last_is_taken() -> None:
    selector = Selector([])
    selector.offer(3, {})
    assert list(selector.selections) == ["last"]
