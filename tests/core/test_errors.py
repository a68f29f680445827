"""Sentences for a terminal: one line, nothing in them that steers it."""

from __future__ import annotations

import pytest

from crosswind.core.errors import CrosswindError, one_line, plain


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


def test_plain_keeps_spaces() -> None:
    assert plain("  a  b ") == "  a  b "
