"""Attributes computed from texts: lengths, words, patterns; and what is no rule."""

from __future__ import annotations

import numpy as np
import pytest

from crosswind.core.errors import DataError, InputError
from crosswind.core.types import PART_MARK, InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.rules import with_rule

TEXTS = [
    "But why?",
    "a rebuttal of 3 words more",
    "no, BUT well",
    "",
    "it's fine",
    f"one two{PART_MARK}three but",
    "on  the\nother hand",
]


def texts(kind: str = "text") -> AttributedDataset:
    held = np.array(TEXTS, dtype=object)
    spec = InputSpec.text() if kind == "text" else InputSpec.features(3)
    table = AttributeTable((Attribute("label", ("a", "b")),), np.arange(len(TEXTS))[None] % 2)
    return AttributedDataset("reviews", table, lambda rows: held[rows], spec)


def values(rule: dict[str, object]) -> list[str]:
    made = with_rule(texts(), "new", rule)
    return [made.attribute("new").values[code] for code in made.table.column("new")]


def test_length_is_in_words_and_classes_lie_between_the_cuts():
    assert values({"words": [2, 3, 6]}) == ["2", "6+", "3-5", "0-1", "2", "3-5", "3-5"]
    assert with_rule(texts(), "new", {"words": [2, 3, 6]}).attribute("new").values == (
        "0-1",
        "2",
        "3-5",
        "6+",
    )
    assert values({"words": [1]}) == ["1+", "1+", "1+", "0", "1+", "1+", "1+"]


def test_a_word_stands_whole_in_any_case_and_a_phrase_over_white_space_but_not_over_parts():
    assert values({"contains": "but"}) == ["yes", "no", "yes", "no", "no", "yes", "no"]
    assert values({"contains": ["it's", "on the other hand"]}) == ["no"] * 4 + ["yes", "no", "yes"]
    assert (
        values({"contains": "two three"})[5] == "no" and values({"contains": "one two"})[5] == "yes"
    )
    assert values({"contains": "3"}) == ["no", "yes"] + ["no"] * 5
    assert values({"matches": r"\d|\?$"}) == ["yes", "yes"] + ["no"] * 5


def test_the_attribute_is_part_of_the_data_set_and_of_its_fingerprint():
    one, other = (with_rule(texts(), "new", {"contains": word}) for word in ("but", "fine"))
    assert len({one.fingerprint, other.fingerprint, texts().fingerprint}) == 3
    assert one.table.names == ("label", "new") and one.inputs(np.array([4])).tolist() == [
        "it's fine"
    ]
    assert with_rule(one, "long", {"words": [3]}).table.names == ("label", "new", "long")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({}, "rules.new: needs exactly one rule, not {}"),
        ({"words": [2], "contains": "x"}, "rules.new: needs exactly one rule"),
        (
            {"words": []},
            "rules.new.words: must be a list of increasing numbers of words from 1 on, not []",
        ),
        ({"words": [3, 3]}, "rules.new.words: must be a list of increasing"),
        ({"words": [0]}, "rules.new.words: must be a list of increasing"),
        ({"words": [True]}, "rules.new.words: must be a list of increasing"),
        ({"contains": []}, "rules.new.contains: must be a word or a list of words"),
        ({"contains": ["a", " "]}, "rules.new.contains: must be a word or a list of words"),
        ({"matches": "("}, "rules.new.matches: must be a regular expression, not '('"),
        ({"matches": 3}, "rules.new.matches: must be a regular expression, not 3"),
    ],
)
def test_what_is_no_rule_is_one_sentence(rule, words):
    with pytest.raises(InputError) as caught:
        with_rule(texts(), "new", rule)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_names_are_new_and_inputs_are_texts():
    with pytest.raises(
        InputError, match=r"^rules\.label: data set 'reviews' already has an attribute"
    ):
        with_rule(texts(), "label", {"words": [3]})
    with pytest.raises(
        InputError,
        match="rules.new: reads texts, and the inputs of 'reviews' are features of 3 numbers",
    ):
        with_rule(texts("features"), "new", {"words": [3]})
    with pytest.raises(DataError, match="has attributes but no inputs"):
        with_rule(AttributedDataset("plain", texts().table), "new", {"words": [3]})
