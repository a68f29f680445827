"""The words that a page explains: those of a study with its own classes, and none that is no term."""

from __future__ import annotations

from typing import Any

import pytest

from crosswind.reports.glossary import TERMS, glossary_of

STUDY: dict[str, Any] = {
    "shifts": {"none": [], "SC": {"type": "spurious-correlation", "attribute": "ink"}},
    "methods": {"erm": {}, "jtt": {}},
    "data": {"digits": {"label": "half", "attributes": ["ink"]}},
}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("No run failed and none diverged.", ["run"]),
        ("none", ["none"]),
        ("the last value of ink is never seen under SC", ["SC"]),
    ],
)
def test_a_word_of_a_sentence_is_no_name_of_a_shift(text: str, terms: list[str]) -> None:
    """`none` of "none diverged" led to "No shift: training rows are drawn evenly"."""
    marked = str(glossary_of("s", STUDY).marked(text))
    assert [
        piece.partition("</a>")[0].rpartition(">")[2] for piece in marked.split("<a ")[1:]
    ] == terms


def test_the_label_and_the_attributes_are_explained_by_their_values() -> None:
    """A question about "the label (half)" asks about something that stands nowhere else."""
    classes, values = (
        {"half": ["0-4", "5-9"]},
        {"ink": ["red", "green", "blue"], "pen": list("abcdefg")},
    )
    meanings = glossary_of("s", STUDY, classes, values).meanings
    assert meanings["label"] == "What a model is to tell of a row; here half (0-4 or 5-9)."
    assert meanings["attribute"].endswith("; here ink (red, green or blue) and pen (one of 7).")
    assert glossary_of("s", STUDY).meanings["label"] == TERMS["label"]


def test_summaries_of_methods_are_words_without_marks_of_code() -> None:
    meanings = glossary_of("s", STUDY).meanings
    assert "wrong up times" in meanings["jtt"]
    assert not any("`" in meaning for meaning in meanings.values())
