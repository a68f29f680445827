"""From texts to tokens and back: words, parts, keys; and the changes of the pool that are ours."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.transforms.text.test_draws import even

from crosswind.core.errors import InputError
from crosswind.core.registry import facts, listing, load
from crosswind.core.seeds import hash64
from crosswind.core.types import PART_MARK
from crosswind.transforms.text.changing import WORDS, changed_texts

REVIEW = "The acting wasn't very good, but the story is a masterpiece."
KEYS = hash64(np.arange(400), 7)
NAMES = [
    text_transform.name
    for text_transform in listing("text-transforms")
    if not any(knob.required for knob in text_transform.knobs)
]


def made(name: str, **knobs: Any) -> Any:
    return load("text-transforms", name)(**knobs)


@pytest.mark.parametrize("name", NAMES)
def test_each_part_is_changed_by_itself_and_the_marks_stay(name: str) -> None:
    assert len(NAMES) >= 5
    transform, pair = made(name), PART_MARK.join([REVIEW, REVIEW, "", "Great!"])
    found = changed_texts(transform, [pair, REVIEW, "", PART_MARK], KEYS[[0, 0, 1, 2]])
    parts = found[0].split(PART_MARK)
    assert len(parts) == 4 and parts[2] == "" and parts[3]
    assert parts[0] == found[1], "the first part has the key of the text"
    assert list(found[2:]) == ["", PART_MARK]
    assert changed_texts(transform, [pair], KEYS[:1])[0] == found[0], "alone as beside others"
    if transform.random and name not in ("typos", "drop-words", "excerpt"):
        assert parts[0] != parts[1], "other parts have keys of their own"
    assert len(changed_texts(transform, [], KEYS[:0])) == 0


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        ("swap", {"olve", "lvoe", "loev"}),
        ("omit", {"ove", "lve", "loe", "lov"}),
        ("double", {"llove", "loove", "lovve", "lovee"}),
        ("neighbour", {"kove", "live", "lpve", "loce", "lobe", "lovw", "lovr"}),
        ("digits", {"l0v3"}),
        ("vowels", {"lv"}),
        ("cut", {"lo"}),
        ("split", {"l ove", "lo ve", "lov e"}),
        ("join", {"loveit"}),
        ("repeat", {"love love"}),
        ("capitals", {"LOVE"}),
    ],
)
def test_typing_errors(kind: str, allowed: set[str]) -> None:
    found = Counter(" ".join(out) for out in made("typos", kind=kind)([["love", "it"]] * 400, KEYS))
    assert {text.removesuffix(" it") for text in found} == allowed
    tokens = WORDS.findall(REVIEW)
    long = sum(len(token) >= 3 for token in tokens)
    for rate, many in ((0.0, 0), (0.01, 1), (0.5, long // 2), (1.0, long)):
        out = made("typos", kind="capitals", rate=rate)(
            [[token.lower() for token in tokens]], KEYS[:1]
        )[0]
        assert sum(token.isupper() for token in out) == many
    assert made("typos", kind=kind)([["a", "."], [], ["日本語"]], KEYS[:3])[:2] == [["a", "."], []]


def test_excerpts() -> None:
    tokens = [str(number) for number in range(10)]
    assert made("excerpt", share=0.25)([tokens], KEYS[:1]) == [["0", "1", "2"]]
    assert made("excerpt", part="end", share=0.3)([tokens, ["a"]], KEYS[:2]) == [
        ["7", "8", "9"],
        ["a"],
    ]
    starts = Counter(out[0] for out in made("excerpt", part="any", share=0.5)([tokens] * 400, KEYS))
    assert set(starts) == set("012345") and even(starts, 6)
    assert made("excerpt", share=1.0)([tokens], KEYS[:1]) == [tokens]


def test_words_of_one_sort_go() -> None:
    tokens = WORDS.findall(REVIEW)
    assert (
        " ".join(made("drop-words", rate=1.0)([tokens], KEYS[:1])[0])
        == "acting good , story masterpiece ."
    )
    assert (
        " ".join(made("drop-words", sort="content", rate=1.0)([tokens], KEYS[:1])[0])
        == "The wasn't very , but the is a ."
    )
    assert not {",", "."} & set(made("drop-words", sort="marks", rate=1.0)([tokens], KEYS[:1])[0])
    gone = Counter(
        token
        for out in made("drop-words", sort="marks")([tokens] * 400, KEYS)
        for token in {",", "."} - set(out)
    )
    assert sum(gone.values()) == 400 and even(gone, 2)
    assert made("drop-words", sort="marks", rate=1.0)([[".", "!"]], KEYS[:1]) == [["."]]


@pytest.mark.parametrize(
    ("name", "knobs", "words"),
    [
        ("typos", {"kind": "swp"}, "typos.kind: .*did you mean 'swap'"),
        ("typos", {"rate": 2.0}, r"typos.rate: must be in \[0, 1\]"),
        ("excerpt", {"share": 0.0}, r"excerpt.share: must be in \(0, 1\]"),
        ("excerpt", {"part": "middle"}, "excerpt.part: "),
        ("drop-words", {"sort": "stops"}, "drop-words.sort: "),
    ],
)
def test_what_is_refused(name: str, knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(name, **knobs)


def test_the_values_of_version_1() -> None:
    """What changes one of these changes the class's `version` as well."""
    told = {
        ("typos", "neighbour"): changed_texts(
            made("typos", kind="neighbour", rate=0.5), [REVIEW], KEYS[:1]
        )[0],
        ("excerpt", "any"): changed_texts(made("excerpt", part="any"), [REVIEW], KEYS[:1])[0],
        ("drop-words", ""): changed_texts(made("drop-words"), [REVIEW], KEYS[:1])[0],
        ("eda", "second part"): changed_texts(made("eda"), [f"{PART_MARK}{REVIEW}"], KEYS[:1])[0],
    }
    assert told == GOLDEN
    assert all(facts("text-transforms", name).version == 1 for name, _ in told)


GOLDEN = {
    ("typos", "neighbour"): "Tge acting wasn't very good , vut the story is a masteepiece .",
    ("excerpt", "any"): "good , but the story is a",
    ("drop-words", ""): "acting very good , but story is a masterpiece .",
    ("eda", "second part"): "\x1facting wasn't very good , but the story is a masterpiece .",
}
