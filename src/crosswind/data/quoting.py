"""The quotes of a CSV table that are not as CSV has them: single ones, ones that are signs of the
text, ones behind backslashes, and one pair around every line."""

from __future__ import annotations

import csv
import re

from crosswind.core.errors import DataError

_CLOSED = re.compile(rb'"(?:[^"]|"")*"')


def quote_of(text: bytes, separator: str, path: str, lines_above: int) -> str | None:
    """The sign that cells of a table stand in that hold a separator: a double quote, a single one
    where all names stand in them, None where quotes are signs of the text.

    `lines_above`: of the file, above `text`. Raises `DataError` for quotes that would be read as
    something else than they mean.
    """
    mark = separator.encode()
    if b'"' not in text:
        names = text.partition(b"\n")[0].rstrip(b"\r")
        single = rb"'[^']*'(?:" + re.escape(mark) + rb"'[^']*')+"
        return "'" if re.fullmatch(single, names) else '"'
    if re.search(rb"(?:^|[\r\n]|" + re.escape(mark) + rb') *"', text) is None:
        return None
    _refuse_lines_in_quotes(text, path, lines_above)
    if mark == b"\t" and _quotes_are_text(text, path, lines_above):
        return None
    _refuse_backslashes(text, mark, path, lines_above)
    return '"'


def stray_quote(text: bytes, separator: str, path: str, lines_above: int) -> str | None:
    """The sentence about the first cell that holds a quote and does not begin with one, if there is
    one; `text`: of a table in which other cells stand in quotes."""
    quote = '"' if b'"' in text else "'"
    in_quotes = rf"{quote}(?:[^{quote}]|{quote * 2})*{quote}"
    cells = re.finditer(rf"{in_quotes}|([^\r\n{re.escape(separator)}]+)".encode(), text)
    match = next((cell for cell in cells if quote.encode() in (cell[1] or b"")), None)
    if match is None:
        return None
    cell = match[1].decode(errors="replace")
    doubled = cell.replace(quote, 2 * quote)
    line = lines_above + text.count(b"\n", 0, match.start(1)) + 1
    return (
        f"{path}, line {line}: the cell {cell[:40]} holds a quote and does not begin with one, and"
        f" other cells stand in quotes; write it as {quote}{doubled[:40]}{quote}"
    )


def _refuse_lines_in_quotes(text: bytes, path: str, lines_above: int) -> None:
    """Refuse a table of which every line stands in one pair of quotes, the line of names perhaps
    not. Raises `DataError`."""
    lines = [line.rstrip(b"\r") for line in text.split(b"\n", 3)[:3]]
    if len(lines) < 2 or not all(_CLOSED.fullmatch(line) for line in lines[1:2]):
        return
    names = _inside(lines[0]) if _CLOSED.fullmatch(lines[0]) else lines[0].decode()
    separator = next((mark for mark in ",;\t|" if mark in names), None)
    if separator is None:
        return
    n_names = len(_cells(names, separator))
    for line in text.split(b"\n")[1:]:
        row = line.rstrip(b"\r")
        if row.strip() and (
            not _CLOSED.fullmatch(row) or len(_cells(_inside(row), separator)) != n_names
        ):
            return
    raise DataError(
        f"{path}, line {lines_above + 2}: every line stands in one pair of quotes, as Excel writes"
        " what it holds in one column; take these quotes out, and write those within a line once"
    )


def _inside(line: bytes) -> str:
    return line.decode(errors="replace")[1:-1].replace('""', '"')


def _cells(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator), [])


def _quotes_are_text(text: bytes, path: str, lines_above: int) -> bool:
    """Whether the quotes of a table of tabs are signs of its texts: some begin a cell and do not
    end it, and without them every line has as many cells as the first.

    Raises `DataError` where other cells stand in quotes, so that nobody can tell.
    """
    lines = text.split(b"\n")
    n_tabs = lines[0].count(b"\t")
    unclosed, n_closed, doubled = None, 0, False
    for number, line in enumerate(lines):
        if line.count(b"\t") != n_tabs and line.strip():
            return False
        if b'"' not in line:
            continue
        cells = [cell for cell in line.rstrip(b"\r").split(b"\t") if cell.startswith(b'"')]
        closed = [cell for cell in cells if _CLOSED.fullmatch(cell)]
        if len(closed) < len(cells) and unclosed is None:
            unclosed = number
        n_closed += bool(closed)
        doubled = doubled or any(b'""' in cell[1:-1] for cell in closed)
    if unclosed is None:
        return False
    if doubled or 2 * n_closed > len(lines):
        raise DataError(
            f"{path}, line {lines_above + unclosed + 1}: a quote begins a cell and does not end it,"
            " while other cells stand in quotes; take it out, or put the cell into quotes and double"
            " its own"
        )
    return True


def _refuse_backslashes(text: bytes, mark: bytes, path: str, lines_above: int) -> None:
    """Refuse quotes that stand behind a backslash in a cell in quotes, as MySQL writes them. Raises
    `DataError`."""
    if b'\\"' not in text:
        return
    within = rb'(?:[^"\\]|""|\\(?!"))*+'
    match = re.search(
        rb"(?m)(?:^|" + re.escape(mark) + rb')"' + within + rb'\\"(?=[^"\r\n' + mark + rb"])", text
    )
    if match is not None:
        line = lines_above + text.count(b"\n", 0, match.end()) + 1
        raise DataError(
            f"{path}, line {line}: a quote within a cell stands behind a backslash, as MySQL writes it;"
            ' a CSV table doubles it: "" in place of \\"'
        )
