"""Scores worked by hand, and the slow obvious way beside the fast one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosswind.core.errors import DataError
from crosswind.core.types import Predictions, canonical
from crosswind.evaluation.metrics import calibration_error, log_likelihoods, scores

GROUPS = ["0|red", "0|blue", "1|red", "1|blue"]
CLASSES = ["0", "1"]


def _predictions(
    label: list[int], answer: list[int], group: list[int], logits: object = None
) -> Predictions:
    arrays = [np.array(values, dtype=np.int64) for values in (label, group, answer)]
    table = None if logits is None else np.array(logits, dtype=np.float32)
    return Predictions(np.arange(100, 100 + len(label), dtype=np.int64), *arrays, table)


def test_accuracy_groups_and_balance_by_hand() -> None:
    """Eight rows, right: 1 1 0 1 1 0 0 1 = 5/8.

    0|red rows 0-3: 3/4. 0|blue rows 4, 5: 1/2. 1|red row 6: 0/1. 1|blue row 7: 1/1.
    Recall of class 0 = 4/6, of class 1 = 1/2: balanced (4/6 + 1/2) / 2 = 7/12.
    """
    score_values = scores(
        _predictions([0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 0, 0, 1, 0, 1], [0, 0, 0, 0, 1, 1, 2, 3]),
        GROUPS,
        CLASSES,
    )
    assert score_values["n"] == 8
    assert score_values["accuracy"] == 5 / 8
    assert score_values["balanced_accuracy"] == pytest.approx(7 / 12, abs=1e-15)
    assert score_values["groups"] == {
        "0|red": {"n": 4, "accuracy": 0.75},
        "0|blue": {"n": 2, "accuracy": 0.5},
        "1|red": {"n": 1, "accuracy": 0.0},
        "1|blue": {"n": 1, "accuracy": 1.0},
    }
    assert (
        score_values["worst_group"],
        score_values["worst_group_name"],
        score_values["worst_group_n"],
    ) == (
        0.0,
        "1|red",
        1,
    )
    assert score_values["groups_skipped"] == 0


def test_worst_group_skips_small_groups_and_says_so() -> None:
    """As above, groups of one row skipped: the worst of 3/4 and 1/2 is 0|blue."""
    data = _predictions(
        [0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 0, 0, 1, 0, 1], [0, 0, 0, 0, 1, 1, 2, 3]
    )
    score_values = scores(data, GROUPS, CLASSES, min_rows=2)
    assert (
        score_values["worst_group"],
        score_values["worst_group_name"],
        score_values["worst_group_n"],
    ) == (
        0.5,
        "0|blue",
        2,
    )
    assert score_values["groups_skipped"] == 2
    assert len(score_values["groups"]) == 4
    none = scores(data, GROUPS, CLASSES, min_rows=5)
    assert (none["worst_group"], none["worst_group_name"], none["worst_group_n"]) == (
        None,
        None,
        None,
    )


def test_equal_worst_groups_give_the_first() -> None:
    score_values = scores(_predictions([0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 2, 2]), GROUPS, CLASSES)
    assert (score_values["worst_group"], score_values["worst_group_name"]) == (0.5, "0|blue")


def test_rows_outside_any_group_count_only_overall() -> None:
    score_values = scores(_predictions([0, 0], [0, 1], [0, -1]), GROUPS, CLASSES)
    assert score_values["accuracy"] == 0.5
    assert score_values["groups"] == {"0|red": {"n": 1, "accuracy": 1.0}}


def test_unparsed_answers_are_wrong_and_counted_apart() -> None:
    score_values = scores(_predictions([0, 1, 1, 0], [0, -1, 1, -1], [0, 2, 2, 0]), GROUPS, CLASSES)
    assert (score_values["accuracy"], score_values["unparsed"]) == (0.5, 2)


def test_without_logits_there_is_no_likelihood_and_no_calibration() -> None:
    score_values = scores(_predictions([0, 1], [0, 1], [0, 2]), GROUPS, CLASSES)
    assert (
        score_values["nll"] is None
        and score_values["ece"] is None
        and score_values["non_finite"] is None
    )


def test_likelihood_and_calibration_by_hand() -> None:
    """Probabilities by logits log p: rows (0.9, 0.1), (0.79, 0.21), (0.35, 0.65), labels 0, 1, 1;
    answers 0, 0, 1.

    nll = -(ln 0.9 + ln 0.21 + ln 0.65) / 3. Confidences 0.9, 0.79, 0.65 lie in the bins (13/15,
    14/15], (11/15, 12/15] and (9/15, 10/15]: ece = (|1 - 0.9| + |0 - 0.79| + |1 - 0.65|) / 3 = 1.24
    / 3.
    """
    probabilities = np.array([[0.9, 0.1], [0.79, 0.21], [0.35, 0.65]])
    score_values = scores(
        _predictions([0, 1, 1], [0, 0, 1], [0, 2, 2], np.log(probabilities)), GROUPS, CLASSES
    )
    assert score_values["nll"] == pytest.approx(
        -(math.log(0.9) + math.log(0.21) + math.log(0.65)) / 3, abs=1e-6
    )
    assert score_values["ece"] == pytest.approx((0.1 + 0.79 + 0.35) / 3, abs=1e-6)
    assert score_values["non_finite"] == 0


def test_calibration_error_pools_rows_of_a_bin() -> None:
    """Two bins of width 1/2. Confidences 0.6 (right), 0.8 (wrong), 1.0 (right) share bin (0.5, 1]:
    |2/3 - 0.8| * 3/4;
    0.5 (wrong) belongs to (0, 0.5]: |0 - 0.5| * 1/4. Sum 0.1 + 0.125 = 0.225.
    """
    score_values = calibration_error(
        np.array([0.6, 0.8, 1.0, 0.5]), np.array([True, False, True, False]), bins=2
    )
    assert score_values == pytest.approx(0.225, abs=1e-15)


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_calibration_error_equals_the_loop(rows: list[tuple[float, bool]]) -> None:
    confidence, right = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    total = 0.0
    for m in range(1, 16):
        inside = [(c, r) for c, r in rows if (math.ceil(c * 15) or 1) == m]
        if inside:
            accuracy, mean = (
                sum(r for _, r in inside) / len(inside),
                sum(c for c, _ in inside) / len(inside),
            )
            total += len(inside) / len(rows) * abs(accuracy - mean)
    assert calibration_error(confidence, right) == pytest.approx(total, abs=1e-12)


def test_log_likelihoods_are_stable() -> None:
    score_values = log_likelihoods(np.array([[1e4, 0.0], [-1e4, -1e4]], dtype=np.float32))
    assert score_values[0].tolist() == [0.0, -1e4]
    assert score_values[1] == pytest.approx([-math.log(2)] * 2)


def test_a_diverged_model_has_scores_that_json_can_hold() -> None:
    score_values = scores(
        _predictions([0, 1], [0, 0], [0, 2], [[math.nan, 1.0], [2.0, 1.0]]), GROUPS, CLASSES
    )
    assert (
        score_values["accuracy"],
        score_values["non_finite"],
        score_values["nll"],
        score_values["ece"],
    ) == (
        0.5,
        1,
        None,
        None,
    )
    masked = scores(
        _predictions([0, 1], [0, 0], [0, 2], [[1.0, 0.0], [2.0, -math.inf]]), GROUPS, CLASSES
    )
    assert masked["nll"] is None and masked["ece"] is not None
    for score_of_json in (score_values, masked):
        canonical(score_of_json)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (_predictions([], [], []), "no predictions"),
        (_predictions([0, -1, -1], [0, 0, 0], [0, 0, 0]), "2 of 3 rows have no label"),
        (_predictions([0, 2], [0, 0], [0, 0]), "label 2 of row 101"),
        (_predictions([0, 1], [0, 5], [0, 0]), "answer 5 of row 101"),
        (_predictions([0, 1], [0, 1], [4, 0]), "group 4 of row 100"),
        (_predictions([0, 1], [0, 1], [0, 0], [[1, 2, 3], [1, 2, 3]]), "3 columns for 2 classes"),
    ],
)
def test_what_cannot_be_scored_is_refused(data: Predictions, words: str) -> None:
    with pytest.raises(DataError, match=words):
        scores(data, GROUPS, CLASSES)
