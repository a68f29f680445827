"""EDA: each edit by hand, how often and where it strikes, and that the key alone decides."""

from __future__ import annotations

import os
import pickle
import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.transforms.text.test_draws import even

from crosswind.core.errors import DataError, InputError
from crosswind.core.registry import facts
from crosswind.transforms.text.draws import copy_keys, edits
from crosswind.transforms.text.eda import EDA, OPERATIONS, eda
from crosswind.transforms.text.synonyms import Bundled, is_stop_word

DATA = Path(
    os.environ.get("CROSSWIND_TEST_DATA", Path(__file__).resolve().parents[4] / "shared" / "data")
)
SENTENCES = (
    "The acting was not very good , but the story is a masterpiece .",
    "I bought this camera last year and it broke after two days !",
    "Great book .",
)
TOKENS = st.lists(
    st.sampled_from(
        ["good", "Film", "BUY", "the", "not", ".", "", "é", "日本", "😀", "\n", "xyz", "ice cream"]
    ),
    max_size=30,
)


class Marked:
    """A provider that knows two synonyms of every word."""

    def of(self, word: str) -> Sequence[str]:
        return (f"{word}1", f"{word}2")


class KnownSynonyms(dict[str, tuple[str, ...]]):
    """A provider that knows what it is given."""

    def of(self, word: str) -> Sequence[str]:
        return self.get(word, ())


def only(operation: str, rate: float, provider: Any = "bundled") -> EDA:
    return EDA(**{**dict.fromkeys(OPERATIONS, 0.0), operation: rate, "synonyms": provider})


def many(transform: EDA, tokens: Sequence[str], count: int) -> list[list[str]]:
    return transform([tokens] * count, np.arange(count, dtype=np.uint64))


def test_replacement_by_hand() -> None:
    """One word has a synonym, so all keys replace it; capitals go over, and several words are
    several tokens."""
    synonyms = KnownSynonyms(cat=("feline",), big=("very large",), not_=("x",))
    for tokens, expected in {
        "The Cat sat": "The Feline sat",
        "a CAT !": "a FELINE !",
        "cat": "feline",
        "so BIG": "so VERY LARGE",
        "Big deal": "Very large deal",
        "no dog": "no dog",
    }.items():
        assert {
            " ".join(out) for out in many(only("replace", 0.5, synonyms), tokens.split(), 20)
        } == {expected}
    assert only("replace", 0.5, synonyms)([["big", "."]], np.zeros(1, np.uint64)) == [
        ["very", "large", "."]
    ]


@pytest.mark.parametrize(("rate", "replaced"), [(0.1, 1), (0.2, 2), (0.29, 2), (1.0, 10), (0.0, 0)])
def test_so_many_words_are_replaced_at_places_drawn_evenly(rate: float, replaced: int) -> None:
    tokens = [f"w{number}" for number in range(10)]
    counts, choices = Counter[object](), Counter[object]()
    for out in many(only("replace", rate, Marked()), tokens, 1000):
        changed = [position for position in range(10) if out[position] != tokens[position]]
        assert len(out) == 10
        assert len(changed) == replaced
        assert all(out[position][:-1] == tokens[position] for position in changed)
        counts.update(changed)
        choices.update(out[position][-1] for position in changed)
    if replaced:
        assert even(counts, 10)
        assert even(choices, 2)


def test_stop_words_are_not_replaced_nor_their_synonyms_inserted() -> None:
    tokens = [
        "this",
        "is",
        "not",
        "the",
        "one",
        "that",
        "you",
        "and",
        "I",
        "will",
        "have",
        ",",
        "n't",
        "it",
        "?",
    ]
    assert sum(map(is_stop_word, tokens)) == len(tokens) - 2
    for out in many(only("replace", 1.0, Marked()), tokens, 50):
        assert [word for word in out if not re.fullmatch(r"[,?][12]", word)] == [
            word for word in tokens if word not in ",?"
        ]
    stops = [word for word in tokens if is_stop_word(word)]
    for operation in ("replace", "insert"):
        assert many(only(operation, 1.0, Marked()), stops, 20) == [stops] * 20


@pytest.mark.parametrize(("rate", "inserted"), [(0.1, 1), (0.5, 3), (1.0, 6)])
def test_so_many_synonyms_are_inserted(rate: float, inserted: int) -> None:
    """Six tokens, of which b and d have synonyms: the text itself stays, in its order."""
    tokens = ["a", "b", "c", "D", "e", "f"]
    synonyms = KnownSynonyms(b=("x", "y"), d=("z z z",))
    for out in many(only("insert", rate, synonyms), tokens, 200):
        assert [word for word in out if word in tokens] == tokens
        new = " ".join(word for word in out if word not in tokens).replace("Z z z", "Z")
        assert re.fullmatch(rf"([xyZ] ?){{{inserted}}}", new), new


def test_insertion_is_even_over_places_words_and_synonyms() -> None:
    """One insertion into three tokens: four places, two words that have synonyms, two synonyms
    each: 16 outcomes."""
    out = Counter(
        tuple(out) for out in many(only("insert", 0.1, Marked()), ["p", "the", "q"], 3000)
    )
    assert len(out) == 16
    assert even(out, 16)


def test_one_swap_exchanges_two_places_drawn_evenly() -> None:
    tokens = list("abcde")
    swapped = Counter(
        tuple(i for i in range(5) if out[i] != tokens[i])
        for out in many(only("swap", 0.2), tokens, 2000)
    )
    assert set(swapped) == set(combinations(range(5), 2))
    assert even(swapped, 10)
    assert all(sorted(out) == tokens for out in many(only("swap", 1.0), tokens, 50))
    assert many(only("swap", 1.0), ["one"], 3) == [["one"]] * 3
    assert many(only("swap", 0.1), ["one", "two"], 3) == [["two", "one"]] * 3


def test_deletion_takes_each_token_with_its_probability() -> None:
    tokens = list("abcdefghij")
    out = many(only("delete", 0.3), tokens, 2000)
    assert all(
        [word for word in tokens if word in left_tokens] == left_tokens for left_tokens in out
    )
    gone = Counter(word for left_tokens in out for word in tokens if word not in left_tokens)
    for word in tokens:
        assert gone[word] / 2000 == pytest.approx(0.3, abs=5 * (0.21 / 2000) ** 0.5)
    # Independently: the variance of the number deleted is that of a binomial.
    assert np.var([10 - len(left_tokens) for left_tokens in out]) == pytest.approx(
        10 * 0.21, rel=0.15
    )


def test_a_text_never_becomes_empty() -> None:
    left = Counter(
        tuple(left_tokens) for left_tokens in many(only("delete", 1.0), list("abcd"), 1000)
    )
    assert set(left) == {("a",), ("b",), ("c",), ("d",)}
    assert even(left, 4)
    assert many(only("delete", 1.0), ["one"], 3) == [["one"]] * 3
    assert many(only("replace", 1.0, KnownSynonyms(uno=(" ",))), ["uno"], 1) == [["uno"]]
    assert many(EDA(), [], 20) == [[]] * 20


def named(out: list[str], tokens: list[str]) -> str:
    """The edit that a text of different words shows."""
    if len(out) != len(tokens):
        return "insert" if len(out) > len(tokens) else "delete"
    return "unchanged" if out == tokens else "swap" if sorted(out) == sorted(tokens) else "replace"


def test_the_four_edits_are_equally_likely() -> None:
    """Deletion leaves ten tokens whole with probability 0.9^10."""
    tokens = list("abcdefghij")
    tokens = [f"w{letter}" for letter in tokens]
    edit_counts = Counter(named(out, tokens) for out in many(EDA(synonyms=Marked()), tokens, 4000))
    unchanged_share = 0.25 * 0.9**10
    for name, share in {
        "replace": 0.25,
        "insert": 0.25,
        "swap": 0.25,
        "delete": 0.25 - unchanged_share,
        "unchanged": unchanged_share,
    }.items():
        assert edit_counts[name] / 4000 == pytest.approx(
            share, abs=5 * (share * (1 - share) / 4000) ** 0.5
        ), name


def test_a_rate_of_0_takes_its_edit_out() -> None:
    tokens = [f"w{number}" for number in range(8)]
    edit_counts = Counter(
        named(out, tokens) for out in many(EDA(delete=0, insert=0, synonyms=Marked()), tokens, 1000)
    )
    assert set(edit_counts) == {"replace", "swap"}
    assert even(edit_counts, 2)
    assert many(EDA(0, 0, 0, 0), tokens, 5) == [tokens] * 5


def test_same_text_alone_and_in_any_batch() -> None:
    texts = [sentence.split() for sentence in SENTENCES] * 4 + [[], ["one"]]
    keys = copy_keys(np.arange(len(texts)), 3, 1)
    before = [list(text) for text in texts]
    random.seed(0)
    together = EDA()(texts, keys)
    random.seed(1)
    assert texts == before
    order = np.random.default_rng(0).permutation(len(texts))
    assert EDA()([texts[i] for i in order], keys[order]) == [together[i] for i in order]
    again = pickle.loads(pickle.dumps(EDA()))
    for text, key, out in zip(texts, keys, together, strict=True):
        assert again([tuple(text)], np.array([key])) == [out] == [eda(text, int(key))]
    assert len({tuple(out) for out in many(EDA(), texts[0], 40)}) > 20, "copies of one text differ"
    assert together[0] != together[3], "so do equal texts in different rows"


def test_the_values_of_version_1() -> None:
    assert [" ".join(eda(SENTENCES[0].split(), key)) for key in range(8)] == GOLDEN
    assert facts("text-transforms", "eda").version == 1


def test_the_function_is_the_transform() -> None:
    tokens = SENTENCES[1].split()
    rates = {"replace": 0.3, "insert": 0.2, "swap": 0.4, "delete": 0.5}
    assert (
        eda(tokens, 9, **rates, synonyms=Marked())
        == EDA(**rates, synonyms=Marked())([tokens], np.array([9], np.uint64))[0]
    )
    assert eda(tokens, -1) == eda(tokens, 2**64 - 1)


@settings(max_examples=60)
@given(TOKENS, st.integers(0, 2**64 - 1), st.tuples(*[st.floats(0, 1)] * 4))
def test_any_text(tokens: list[str], key: int, rates: tuple[float, float, float, float]) -> None:
    before = list(tokens)
    out = eda(tokens, key, **dict(zip(OPERATIONS, rates, strict=True)))
    assert tokens == before
    assert bool(out) == bool(tokens)
    assert out == eda(tokens, key, **dict(zip(OPERATIONS, rates, strict=True)))
    longest = max(
        len(synonym.split())
        for token in [*tokens, ""]
        for synonym in [*Bundled().of(token.lower()), "x"]
    )
    assert len(out) <= len(tokens) * (1 + longest)


@pytest.mark.parametrize("name", OPERATIONS)
def test_rates_out_of_range_are_refused_by_name(name: str) -> None:
    for bad in (-0.01, 1.5, float("nan"), "0.1", None, True):
        with pytest.raises(InputError, match=f"eda.{name}: must be "):
            EDA(**{name: bad})
        with pytest.raises(InputError, match=f"eda.{name}: must be "):
            eda(["a"], 0, **{name: bad})


def test_other_things_that_are_refused() -> None:
    with pytest.raises(InputError, match="eda.synonyms: must be text or have a method of"):
        EDA(synonyms=7)  # type: ignore[arg-type]
    for texts, words in (
        ("a text", "needs a list of texts"),
        (["a text"], "needs each text as a list of tokens, not as 'a text'"),
        ([[1, 2]], "needs each text as a list of tokens"),
        ([["a"], ["b"]], "needs one key for each of 2 texts, not 1"),
    ):
        with pytest.raises(InputError, match=f"text transform 'eda': {words}"):
            EDA()(texts, np.zeros(1, np.uint64))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no-such-place has no file index.noun"):
        many(only("replace", 0.1, "no-such-place"), ["word"], 1)


def check_edit(name: str, before: list[str], after: list[str]) -> None:
    """Compare the tokens lost and gained by one operation at a rate of 0.1 with its definition."""
    lost, new = Counter(before) - Counter(after), Counter(after) - Counter(before)
    count = edits(0.1, len(before))
    with_synonyms = [token for token in before if Bundled().of(token.lower())]
    if name == "replace":
        able = sum(not is_stop_word(token) for token in with_synonyms)
        # A word may be replaced by one that another place loses.
        assert sum(lost.values()) <= min(count, able)
        assert not [token for token in lost if is_stop_word(token)]
    elif name == "insert":
        assert not lost
        assert sum(new.values()) >= count * bool(with_synonyms)
    elif name == "swap":
        assert not lost
        assert not new
    else:
        assert not new
        assert after


@pytest.mark.slow
@pytest.mark.parametrize("file", ["fdu_mtl_12domains.parquet", "cad_imdb.parquet"])
def test_real_reviews(file: str) -> None:
    if not (DATA / file).is_file():
        pytest.skip(f"{DATA / file} is not there (CROSSWIND_TEST_DATA)")
    column = polars.read_parquet(DATA / file, columns=["text"])["text"]
    texts = [re.findall(r"\w[\w'-]*|[^\w\s]", text) for text in column[:: len(column) // 250]]
    assert len(texts) >= 250
    assert min(map(len, texts)) >= 1
    keys = copy_keys(np.arange(len(texts)), 0, 0)
    for name in OPERATIONS:
        out = only(name, 0.1)(texts, keys)
        for before, after in zip(texts, out, strict=True):
            check_edit(name, before, after)
        changed = np.mean([original != edited for original, edited in zip(texts, out, strict=True)])
        assert changed > 0.95, name
    together = EDA()(texts, keys)
    assert [
        out
        for start in range(0, len(texts), 7)
        for out in EDA()(texts[start : start + 7], keys[start : start + 7])
    ] == together


# What changes these, the lexicon too, changes the class's `version` as well.
GOLDEN = [
    "The was not very good , but the is a masterpiece .",
    "The acting was not performance very good , but the story is a masterpiece .",
    "The acting was not is good , but the story very a masterpiece .",
    "The acting was not very good , but the story is a masterpiece .",
    "The acting was not very good , but the story is a masterpiece .",
    "The acting was but very good , not the story is a masterpiece .",
    "The acting gem was not very good , but the story is a masterpiece .",
    "The acting was not very good , but the a is story masterpiece .",
]
