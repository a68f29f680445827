"""How a table is laid out: columns of monospaced text wrapped into blocks, LaTeX, CSV. Plain values in, text out.

A cell is text, a number or None. None is shown as `-` in text, as nothing in CSV and as a dash in LaTeX.
"""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Sequence

__all__ = ["Cell", "escape_latex", "is_numeric", "layout_csv", "layout_latex", "layout_text", "shown"]

Cell = str | int | float | None

_GAP = "  "
_NUMERIC = re.compile(r"^[+-]?\d")
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "†": r"\dag{}",
    "×": r"$\times$",
    "*": r"$^{*}$",
}


def shown(cell: Cell) -> str:
    """A cell as a reader sees it: numbers with three decimals."""
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def layout_text(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], notes: Sequence[str], keys: int, width: int
) -> str:
    """Title, the columns in as many blocks as `width` asks for, each with the first `keys` columns, then the notes, wrapped.

    Columns of numbers are aligned to the right. A block has at least one column beside the keys, even where that is wider.
    """
    cells = [[shown(cell) for cell in row] for row in rows]
    right = [is_numeric([row[i] for row in cells]) for i in range(len(columns))]
    widths = [max(len(name), *(len(row[i]) for row in cells)) if cells else len(name) for i, name in enumerate(columns)]
    lines = textwrap.wrap(title, width, break_long_words=False)
    for block in _blocks(widths, keys, width):
        lines.append("")
        lines.append(_line([columns[i] for i in block], [widths[i] for i in block], [right[i] for i in block]))
        lines.append(_GAP.join("-" * widths[i] for i in block))
        lines += [_line([row[i] for i in block], [widths[i] for i in block], [right[i] for i in block]) for row in cells]
    if notes:
        lines.append("")
        for note in notes:
            lines += textwrap.wrap(note, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def layout_csv(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Comma-separated values: a header, numbers with twelve digits, nothing for None."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_plain(cell) for cell in row] for row in rows])
    return out.getvalue()


def layout_latex(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], notes: Sequence[str], name: str) -> str:
    """A `table` with `booktabs` rules (the preamble needs the packages booktabs and fontenc with T1); every text is escaped."""
    right = [is_numeric([shown(row[i]) for row in rows]) for i in range(len(columns))]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(title)}}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9:-]+', '-', name)}}}",
        rf"\begin{{tabular}}{{{''.join('r' if numeric else 'l' for numeric in right)}}}",
        r"\toprule",
        _latex_row(columns),
        r"\midrule",
        *[_latex_row(["--" if cell is None else shown(cell).strip() for cell in row]) for row in rows],
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if notes:
        lines.append(r"\par\smallskip\raggedright\footnotesize")
        lines += [f"{escape_latex(note)}\\par" for note in notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _plain(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.12g}" if isinstance(cell, float) else str(cell).strip()


def escape_latex(text: str) -> str:
    """`text` with every character that LaTeX reads as a command made one that it prints; a sign before digits becomes a minus."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w.)-])-(?=\d)", r"$-$", escaped)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(escape_latex(cell) for cell in cells) + r" \\"


def is_numeric(cells: Sequence[str]) -> bool:
    """Whether a column of shown cells is one of numbers, which is aligned to the right."""
    present = [cell for cell in cells if cell not in ("", "-")]
    return bool(present) and all(_NUMERIC.match(cell) for cell in present)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = [cell.rjust(size) if numeric else cell.ljust(size) for cell, size, numeric in zip(cells, widths, right, strict=True)]
    return _GAP.join(parts).rstrip()


def _blocks(widths: Sequence[int], keys: int, width: int) -> list[list[int]]:
    head = list(range(min(keys, len(widths))))
    used = sum(widths[i] + len(_GAP) for i in head) - len(_GAP)
    blocks, block, total = [], list(head), used
    for i in range(len(head), len(widths)):
        if len(block) > len(head) and total + len(_GAP) + widths[i] > width:
            blocks.append(block)
            block, total = list(head), used
        block.append(i)
        total += len(_GAP) + widths[i]
    return [*blocks, block]
