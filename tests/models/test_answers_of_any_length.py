"""Answers of hostile length are read in time that grows with their length, as short ones were
always read."""

from __future__ import annotations

import random
import re
import time
import unicodedata
from collections.abc import Callable

import pytest

from crosswind.models.language import answers
from crosswind.models.language.answers import Parser

YES_NO, ANIMALS = Parser(("yes", "no")), Parser(("dog", "cat", "mini dress"))

ADVERSARIES = {
    "articles": "the ",
    "two articles": "a the ",
    "short articles": "a ",
    "lead-ins": "the answer is ",
    "lead-in without its end": "best most likely ",
    "lead-in without its sign": "answer      ",
    "quoted articles": "' the ",
    "dots": ".....",
    "blanks": "        ",
    "lines": " \n ",
    "blanks and one line": "   \t   ",
    "dashes": "- ",
    "dashes at words": "-a ",
    "emphasis": "*_",
    "low lines": "_ ",
    "numbers": "1,",
    "digits": "11111",
    "items": "a) ",
    "the same answer": "dog ",
    "two answers": "yes no ",
    "one long word": "dog-",
    "accents": "\u0315\u0300" * 3,
    "letters that are eighteen": "\ufdfa ",
    "denials": "isn't ",
}


def quickest(parse: Callable[[], object]) -> float:
    """The least processor seconds of five readings: of one alone, another program's work on the
    same core can be ten times that."""
    seconds = []
    for _ in range(5):
        began = time.process_time()
        parse()
        seconds.append(time.process_time() - began)
    return min(seconds)


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_eight_times_the_length_takes_about_eight_times_the_seconds(adversary: str) -> None:
    """Eight thousand times `the ` took 24 seconds. The square would take 64 times the seconds."""
    piece = ADVERSARIES[adversary]

    def read(repeats: int) -> None:
        for text in (piece * repeats, f"x {piece * repeats} x"):
            YES_NO(text)
            ANIMALS(text)

    assert quickest(lambda: read(4_000)) < 24 * max(quickest(lambda: read(500)), 0.0005)


# -- the rule as it is defined: pass after pass over the whole text --------------------------------

_LEAD = re.compile(rf"^{answers._LEAD_WORDS.pattern}{answers._LEAD_NOUN.pattern}")
_EDGES = re.compile(
    rf"^(?:[{answers._SIDE}]|[-–—<>~](?!\w))+|(?:[{answers._SIDE}]|(?<!\w)[-–—<>~])+$"
)


def defined_low(text: str) -> str:
    low = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("\r", "\n")
    return re.sub(
        r"\s*\n\s*", "\n", low.replace("**", "").replace("__", "").replace("_", " ")
    ).strip()


def defined_plain(text: str) -> str:
    low = defined_low(text)
    while True:
        words = _LEAD.sub("", _EDGES.sub("", low)).split()
        bare = " ".join(words[1:] if len(words) > 1 and words[0] in ("a", "an", "the") else words)
        if bare == low:
            return re.sub(r"(?<=\w)-(?=\w)", " ", bare)
        low = bare


def defined_bare(low: str) -> str:
    edged = _EDGES.sub("", low) if low[:1] not in "-" else low.lstrip("- ")
    return re.sub(r"^[\s\"'“”‘«`*#>(\[{]+", "", _LEAD.sub("", edged))


PIECES = [
    *(
        "the",
        "a",
        "an",
        "The",
        "answer",
        "is",
        "label",
        "name of the label",
        "best",
        "most likely",
        "final",
        "would be",
    ),
    *(
        "yes",
        "no",
        "dog",
        "cat",
        "mini dress",
        "x",
        "-a",
        "1.",
        "a)",
        "not",
        "é",
        "e\u0301",
        "\u202e",
        "\x00",
    ),
    *(
        " ",
        "  ",
        "\n",
        " \n ",
        "\t",
        "\r",
        "\u2028",
        "\x1c",
        ".",
        "..",
        "-",
        "–",
        "—",
        "<",
        ">",
        "~",
        "_",
        "__",
        "**",
        "*",
    ),
    *("'", "’", '"', "(", ")", "[", "]", ":", "：", "=", "!", "?", "#", "`", "·", "、"),
]


def test_short_answers_are_read_as_the_rule_is_defined() -> None:
    draw = random.Random(7)
    for _ in range(3_000):
        text = "".join(
            draw.choice(PIECES) + draw.choice(["", "", " "]) for _ in range(draw.randint(1, 12))
        )
        low = answers._lowered(text)
        assert low == defined_low(text), repr(text)
        assert answers._plain(text) == defined_plain(text), repr(text)
        assert answers._bare(low) == defined_bare(low), repr(text)


def test_a_letter_keeps_as_many_accents_as_any_language_has() -> None:
    word = "e" + "\u0301\u0323" * 15
    assert answers._lowered(word) == unicodedata.normalize("NFKC", word)


STEERING = [
    "\x1b[31myes\x1b[0m",
    "\x1b]0;yes\x07",
    "\u202eyes\u202c",
    "y\x00es",
    "\x9b2Jyes",
    "no\x08\x08\x08yes",
    "\u2066no\u2069 yes",
]


@pytest.mark.parametrize("text", STEERING, ids=ascii)
def test_an_answer_that_steers_a_terminal_is_no_answer(text: str) -> None:
    assert YES_NO(text) is None
