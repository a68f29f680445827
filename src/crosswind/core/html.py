"""Small pieces of HTML for notebooks: tables, lists and lines, with everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MAX_ROWS = 40
"""Rows of a table that are shown."""


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A titled table; of many rows the first, and how many more there are."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows[:MAX_ROWS]
    )
    hidden_rows = ""
    if len(rows) > MAX_ROWS:
        hidden_rows = line(f"and {len(rows) - MAX_ROWS:,} more rows")
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{hidden_rows}"


def line(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"


def points(title: str, sentences: Iterable[str]) -> str:
    """A heading with a list; nothing where the list is empty."""
    list_items = "".join(f"<li>{escape(text)}</li>" for text in sentences)
    if list_items:
        return f"<p><b>{escape(title)}</b></p><ul>{list_items}</ul>"
    return ""
