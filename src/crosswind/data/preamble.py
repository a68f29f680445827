"""The lines above a table in a text file, and how its cells are kept apart.

Spreadsheets write `sep=;` and titles, instruments and people write comments and blank lines, and the lists of
CelebA begin with the number of rows and separate cells by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crosswind.data.decoding import IMAGE_ENDINGS

SEPARATORS = ",;\t|"
_DECLARED = re.compile(rb"^\s*\"?sep=(.)\"?\s*$", re.IGNORECASE)
_COUNT = re.compile(rb"^\s*\d+\s*$")
_NUMBER = re.compile(r"^[+-]?\d+(\.\d*)?$")
_FIRST_COLUMN = "path"
"""What the first column of a list is called whose line of names is one cell short."""


def plain_table(text: bytes) -> bytes:
    """A CSV table in UTF-8 without what stands above it: a line of names or of cells comes first.

    Cells that stand apart by spaces are separated by tabs afterwards.
    """
    text = text.removeprefix(b"\xef\xbb\xbf")
    text = _without_comments(_without_blank_lines(text))
    first, _, below = text.partition(b"\n")
    declared = _DECLARED.match(first)
    if declared is not None and declared.group(1).decode(errors="replace") in SEPARATORS:
        text = _without_comments(_without_blank_lines(below))
    return tabs_for_spaces(_without_count(_without_titles(text)))


def separator_of(text: bytes) -> str:
    """The separator of the cells of a CSV's first line: a comma where there is one, not counting
    what names in quotes hold."""
    return _mark_in(text.partition(b"\n")[0]) or ","


def _mark_in(line: bytes) -> str | None:
    """The separator of a line, None where it has none outside quotes."""
    unquoted = re.sub('"[^"]*"', "", line.decode(errors="replace"))
    return next((mark for mark in SEPARATORS if mark in unquoted), None)


def _without_blank_lines(text: bytes) -> bytes:
    """The text from its first line on that holds something; separators alone hold nothing."""
    while text:
        line, newline, below = text.partition(b"\n")
        if line.strip(b" \t\r,;|") or not newline:
            return text
        text = below
    return text


def _without_comments(text: bytes) -> bytes:
    """The text below its comments, lines that begin with a number sign.

    The last of them is the line of names where the line below it has a number or a picture among
    its cells. Both must have as many cells, two or more.
    """
    last = b""
    while text.lstrip(b" \t").startswith(b"#"):
        last, _, below = text.partition(b"\n")
        if not below.strip():
            return text
        text = _without_blank_lines(below)
    names = last.strip().lstrip(b"#").strip()
    first = text.partition(b"\n")[0]
    mark = _mark_in(first)
    if not names or mark is None:
        return text
    cells = _unquoted(first).split(mark)
    cell_names = _unquoted(names).split(mark)
    is_row = any(_is_value(cell.strip()) for cell in cells)
    if len(cells) == len(cell_names) and is_row:
        return names + b"\n" + text
    return text


def _without_titles(text: bytes) -> bytes:
    """The text below the titles that spreadsheets write above a table.

    A title is a line whose first cell alone holds something, with separators for the others or a
    blank line behind it. Below the titles must stand a line of two or more words, none of them
    empty, a number or a picture: a line of names.
    """
    below = text
    while True:
        line, _, below_line = below.partition(b"\n")
        next_line = below_line.partition(b"\n")[0]
        mark = _mark_in(line)
        unquoted_line = re.sub('"[^"]+"', "title", line.decode(errors="replace"))
        title, *further_cells = unquoted_line.split(mark) if mark else [unquoted_line]
        blank_behind = bool(below_line) and not next_line.strip(b" \t\r,;|")
        if not title.strip() or any(cell.strip() for cell in further_cells):
            break
        if mark is None and not blank_behind:
            break
        below = _without_blank_lines(below_line)
    names = below.partition(b"\n")[0].strip(b"\r")
    mark = _mark_in(names)
    if below is text or mark is None:
        return text
    cells = [cell.strip() for cell in names.decode(errors="replace").split(mark)]
    are_names = all(cell and not _is_value(cell.strip('"')) for cell in cells)
    return below if are_names else text


def _is_value(cell: str) -> bool:
    """Whether a cell is a number or a picture, and so no name of a column."""
    return bool(_NUMBER.match(cell)) or cell.lower().endswith(IMAGE_ENDINGS)


def _unquoted(line: bytes) -> str:
    return re.sub('"[^"]*"', "", line.decode(errors="replace"))


def _without_count(text: bytes) -> bytes:
    """The text below a first line that is the number of the rows, where more than one cell stands
    in each of them."""
    first, _, below = text.partition(b"\n")
    if not _COUNT.match(first) or not below:
        return text
    rows = [line for line in below.splitlines() if line.strip()]
    several_cells = all(len(re.split(rb"[,;\t| ]+", line.strip())) > 1 for line in rows[1:])
    if several_cells and int(first) in (len(rows), len(rows) - 1):
        return below
    return text


def tabs_for_spaces(text: bytes) -> bytes:
    """A table whose cells stand apart by spaces, with tabs instead; any other text as it is.

    Texts have spaces too: every line must have as many words, two at least, one of which is an
    image in each but perhaps the first. The first may lack a name for the column of images, which
    is then the first one.
    """
    first, _, below = text.partition(b"\n")
    second = below.partition(b"\n")[0]
    marked = any(mark.encode() in first for mark in SEPARATORS)
    if marked or b" " not in (second or first).strip():
        return text
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and len(lines[0]) == len(lines[1]) - 1:
        lines[0].insert(0, _FIRST_COLUMN.encode())
    alike = all(len(cells) == len(lines[0]) for cells in lines)
    listed = alike and _lists_images(lines[1:] or lines)
    if listed:
        return b"\n".join(b"\t".join(cells) for cells in lines)
    return text


def _lists_images(rows: Sequence[Sequence[bytes]]) -> bool:
    """Whether one column of rows of equal length holds an image in each."""
    endings = tuple(ending.encode() for ending in IMAGE_ENDINGS)
    columns = zip(*rows, strict=True)
    return any(all(cell.lower().endswith(endings) for cell in column) for column in columns)
