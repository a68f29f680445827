"""Random replacement: how many tokens, where, and by what."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.transforms.text.test_draws import even

from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.core.registry import facts
from crosswind.transforms.text.draws import copy_keys, edits
from crosswind.transforms.text.replacement import RandomReplacement, random_replacement
from crosswind.transforms.text.synonyms import bundled_words

WORDS = tuple(f"w{number}" for number in range(50))
TOKENS = st.lists(st.text("aZ é日😀'\n\0", max_size=4), max_size=30)
TEXT = ["a", "text", "of", "just", "ten", "words", ",", "and", "a", "stop"]


@pytest.mark.parametrize(
    ("rate", "count", "expected"),
    [
        (0.15, 1, 1),
        (0.15, 6, 1),
        (0.15, 13, 1),
        (0.15, 14, 2),
        (0.15, 20, 3),
        (0.15, 100, 15),
        (0.1, 9, 1),
        (0.1, 19, 1),
        (0.1, 20, 2),
        (0.1, 30, 3),
        (0.29, 100, 29),
        (0.57, 100, 57),
        (0.0, 100, 0),
        (1.0, 7, 7),
        (1.0, 1, 1),
        (0.5, 0, 0),
        (1e-9, 5, 1),
    ],
)
def test_a_rate_stands_for_a_number_of_tokens(rate: float, count: int, expected: int) -> None:
    assert edits(rate, count) == expected


def test_exactly_so_many_places_change_and_all_are_equally_likely() -> None:
    """0.2 x 10: two of ten places, each as often as any other, by words of the vocabulary, each as
    often as any other."""
    places, words = Counter[object](), Counter[object]()
    for out in RandomReplacement(WORDS, 0.2)([TEXT] * 2000, np.arange(2000, dtype=np.uint64)):
        changed = [place for place in range(10) if out[place] != TEXT[place]]
        assert len(out) == 10 and len(changed) == 2
        places.update(changed)
        words.update(out[place] for place in changed)
    assert even(places, 10)
    assert even(words, 50)


def test_a_replaced_token_is_another_one_and_all_others_are_equally_likely() -> None:
    drawn = Counter(
        out
        for (out,) in RandomReplacement(WORDS[:4])(
            [["w1"]] * 2000, np.arange(2000, dtype=np.uint64)
        )
    )
    assert set(drawn) == {"w0", "w2", "w3"}
    assert even(drawn, 3)
    assert random_replacement(["w0", "x"], 0, ["w0"], 1.0) == ["w0", "w0"]


def test_same_text_alone_and_in_any_batch() -> None:
    texts = [TEXT[:length] for length in range(11)]
    keys = copy_keys(np.arange(11), 0, 0)
    transform = RandomReplacement(WORDS)
    together = transform(texts, keys)
    assert together[0] == [] and [len(out) for out in together] == list(range(11))
    order = np.random.default_rng(0).permutation(11)
    assert transform([texts[i] for i in order], keys[order]) == [together[i] for i in order]
    for text, key, out in zip(texts, keys, together, strict=True):
        assert (
            transform([text], np.array([key]))
            == [out]
            == [random_replacement(tuple(text), int(key), list(WORDS))]
        )
    assert texts[10] == TEXT
    assert transform([], keys[:0]) == []


def test_the_values_of_version_1() -> None:
    assert random_replacement(TEXT, 1, WORDS) == GOLDEN
    assert facts("text-transforms", "random-replacement").version == 1


@settings(max_examples=40)
@given(TOKENS, st.integers(0, 2**64 - 1), st.floats(0, 1), st.integers(1, 9))
def test_any_text(tokens: list[str], key: int, rate: float, size: int) -> None:
    before = list(tokens)
    out = random_replacement(tokens, key, WORDS[:size], rate)
    assert tokens == before
    assert len(out) == len(tokens)
    changed = sum(one != other for one, other in zip(out, tokens, strict=True))
    if size == 1:
        assert changed <= edits(rate, len(tokens))
    else:
        assert changed == edits(rate, len(tokens))
    assert out == random_replacement(tokens, key, WORDS[:size], rate)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": 1.01}, r"random-replacement.rate: must be in \[0, 1\], not 1.01"),
        ({"rate": -0.1}, "random-replacement.rate"),
        ({"rate": float("nan")}, "random-replacement.rate"),
        ({"rate": "0.1"}, "random-replacement.rate"),
        ({"vocabulary": []}, "random-replacement.vocabulary: is empty"),
        (
            {"vocabulary": "abc"},
            "random-replacement.vocabulary: must be bundled or a list of tokens",
        ),
        (
            {"vocabulary": [1, 2]},
            "random-replacement.vocabulary: must be bundled or a list of tokens",
        ),
        (
            {"vocabulary": None},
            "random-replacement.vocabulary: must be bundled or a list of tokens",
        ),
        (
            {"vocabulary": ["a", "b", "a"]},
            "random-replacement.vocabulary: holds the token 'a' more than once",
        ),
    ],
)
def test_what_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        RandomReplacement(**{"vocabulary": WORDS, **settings})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        random_replacement(TEXT, 0, **{"vocabulary": WORDS, **settings})  # type: ignore[arg-type]


def test_the_bundled_vocabulary_is_one_for_all() -> None:
    words = bundled_words()
    assert (
        len(words) > 2000
        and list(words) == sorted(set(words))
        and all(word.isalpha() and word.islower() for word in words)
    )
    drawn = {
        word
        for out in RandomReplacement(rate=1.0)([TEXT] * 400, np.arange(400, dtype=np.uint64))
        for word in out
    }
    assert drawn <= set(words) and len(drawn) > 0.7 * len(words)
    assert RandomReplacement() == RandomReplacement(words)
    assert random_replacement(TEXT, 5) == random_replacement(TEXT, 5, words)


def test_the_command_line_lists_and_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["list", "text-transforms", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    names = [
        "back-translation",
        "drop-words",
        "eda",
        "excerpt",
        "random-replacement",
        "ssmba",
        "typos",
    ]
    assert [row["name"] for row in rows] == names
    for row in rows:
        assert _status(["show", "text-transform", row["name"]]) == 0
        assert row["summary"] in " ".join(capsys.readouterr().out.split())


# What changes this changes the class's `version` as well.
GOLDEN = ["a", "text", "of", "w11", "ten", "words", ",", "and", "a", "stop"]
