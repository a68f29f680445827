"""A record stays fresh where only words, layout and local names of its files change, and becomes
stale where code does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.code_hash import code_hash

SOURCE = '''"""A module."""
from crosswind.core.seeds import seed
LIMIT = 3


def total(rows, limit=LIMIT):
    """The sum of `rows`."""
    kept = [row for row in rows if row < limit]  # small ones
    return _share(sum(kept), of=seed)


def _share(number, of):
    return number / of.number
'''
SAME = {
    "layout": (
        "[row for row in rows if row < limit]",
        "[\n        row\n        for row in rows\n        if row < limit]",
    ),
    "comment": ("# small ones", "# others count elsewhere"),
    "docstring": ('"""The sum of `rows`."""', '"""Sums rows."""'),
    "local": ("kept", "small"),
    "private function": ("_share", "_quotient"),
    "private parameter": ("number", "amount"),
    "place of a module": ("crosswind.core.seeds", "crosswind.core.random.seeds"),
}
OTHER = {
    "number": ("LIMIT = 3", "LIMIT = 4"),
    "comparison": ("row < limit", "row <= limit"),
    "public parameter": ("limit", "at_most"),
    "global": ("LIMIT", "MOST"),
    "two names become one": ("kept", "limit"),
    "attribute": ("of.number", "of.real"),
    "imported name": ("seed", "key"),
}


def _hash(folder: Path, text: str) -> str:
    path = folder / "module.py"
    path.write_text(text, encoding="utf-8")
    return code_hash(path)


@pytest.mark.parametrize("change", SAME)
def test_words_layout_and_local_names_do_not_count(change: str, tmp_path: Path) -> None:
    old, new = SAME[change]
    # An attribute of another object is no name of the file's own.
    text = SOURCE.replace("of.number", "of.real")
    changed = text.replace(old, new)
    assert changed != text and _hash(tmp_path, changed) == _hash(tmp_path, text)


@pytest.mark.parametrize("change", OTHER)
def test_what_is_computed_counts(change: str, tmp_path: Path) -> None:
    old, new = OTHER[change]
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE and _hash(tmp_path, changed) != _hash(tmp_path, SOURCE)
