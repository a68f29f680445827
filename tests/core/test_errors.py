"""Sentences for a terminal: one line, nothing in them that steers it."""

from __future__ import annotations

import pytest

from crosswind.core.errors import CrosswindError, InputError, counted, nearest, one_line, plain


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("two\n lines\t here ", "two lines here"),
        ("a\x1b[2Jb\x07", "a\ufffd[2Jb\ufffd"),
        ("zero\0", "zero"),
        ("abc\u202exyz", "abc\ufffdxyz"),
        ("half \ud800", "half \ufffd"),
        ("é 漢 \U0001f600 ±", "é 漢 \U0001f600 ±"),
    ],
)
def test_one_line(text: str, told: str) -> None:
    assert one_line(text) == told == str(CrosswindError(text))
    told.encode("utf-8")


def test_a_long_text_is_cut() -> None:
    assert one_line("x" * 2000) == "x" * 997 + "..."
    assert one_line("x" * 30, 10) == "xxxxxxx..."


def test_one_long_value_does_not_hide_the_sentence() -> None:
    path = "/rows/" + "/".join(["folder"] * 40)
    message = str(CrosswindError(f"{path}, row 1 has a line break: '{'x' * 700}y'; mend it"))
    assert message.startswith(f"{path}, row 1 ") and message.endswith("xy'; mend it")
    assert len(message) < len(path) + 150
    assert len(str(CrosswindError("x" * 700, 2000))) == 700, "what is to be copied stays whole"


def test_plain_keeps_spaces() -> None:
    assert plain("  a  b ") == "  a  b "


@pytest.mark.parametrize(
    ("choices", "most"),
    [
        (["red", "x" * 5000], 200),  # a value of a column may be a page of text
        (["y" * 90] * 25, 1200),
        ([f"name {number}" for number in range(2000)], 400),
    ],
)
def test_choices_are_listed_in_a_line_that_can_be_read(choices: list[str], most: int) -> None:
    message = str(InputError("shifts.UDS.unseen", "unknown value 'blue'", choices))
    assert message.startswith("shifts.UDS.unseen: unknown value 'blue' (valid: ")
    assert len(message) < most and choices[0] in message
    listed, _, more = message.partition(" and ")
    assert listed.count(", ") + 1 + int(more.split(" ")[0] or 0 if more else 0) == len(choices)


@pytest.mark.parametrize(
    ("n", "noun", "words"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (2000, "row", "2,000 rows"),
        (1, "more such row", "1 more such row"),
        (3, "class", "3 classes"),
    ],
)
def test_one_of_a_thing_is_no_plural(n: int, noun: str, words: str) -> None:
    assert counted(n, noun) == words


def test_a_word_of_other_programs_is_answered_by_the_setting_here() -> None:
    settings = ["steps", "batch", "lr", "warmup", "precision", "patience"]
    words = {"learning_rate": "lr", "learningRate": "lr", "amp": "precision"}
    words |= {"early-stopping": "patience", "batch_size": "batch"}
    assert {word: nearest(word, settings) for word in words} == words
    assert nearest("learning_rate", ["steps"]) is None
