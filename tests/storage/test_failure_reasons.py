"""Reasons that are handed on to the jobs that need a failed one, and told once."""

from __future__ import annotations

from crosswind.storage.failure_reasons import (
    different_reasons,
    handed_on,
    root_reason,
    shared_reason,
)

FIRST, SECOND = "0bf241b5e4991111", "a1b16df4a31e2222"
SENTENCE = "a.csv has two rows, which failed: twice"


def test_a_reason_is_handed_on_with_the_job_that_has_it() -> None:
    assert handed_on(FIRST) == "needs 0bf241b5e499, which failed"
    assert handed_on(FIRST, "whose files are gone") == "needs 0bf241b5e499, whose files are gone"
    reason = handed_on(FIRST, reason=SENTENCE)
    assert reason == f"needs 0bf241b5e499, which failed: {SENTENCE}"
    assert root_reason(reason) == root_reason(SENTENCE) == SENTENCE


def test_reasons_that_say_the_same_are_one() -> None:
    first, second = (handed_on(key, reason=SENTENCE) for key in (FIRST, SECOND))
    assert shared_reason([first, first]) == first
    assert shared_reason([first, second]) == (
        f"needs 0bf241b5e499 or another, which failed: {SENTENCE}"
    )
    assert shared_reason([first, SENTENCE]) == SENTENCE
    assert different_reasons([first, "b", second, "b"]) == [shared_reason([first, second]), "b"]
