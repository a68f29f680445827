"""A table and its forms: monospaced text wrapped into blocks, CSV, LaTeX, plain values for JSON.

A cell is text, a number, a `ScoreCell` or None. None is `-` in text, nothing in CSV and a dash in
LaTeX.
"""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from crosswind.core.errors import plain


@dataclass(frozen=True)
class ScoreCell:
    """A mean with half of its 95% interval (None where there is none) over `n` runs, in `unit`;
    `marks` stand behind it in text.

    `signed`: a difference, shown with its sign.
    """

    mean: float
    half_width: float | None
    n: int
    unit: str
    marks: str = ""
    signed: bool = False

    def __str__(self) -> str:
        digits = 1 if self.unit == "percent" else 3
        half = "" if self.half_width is None else f" ± {self.half_width:.{digits}f}"
        return f"{self.mean:{'+' if self.signed else ''}.{digits}f}{half}{self.marks}"

    def in_percent(self) -> ScoreCell:
        """The score of a fraction in percent."""
        half = None if self.half_width is None else 100 * self.half_width
        return replace(self, mean=100 * self.mean, half_width=half, unit="percent")

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: `excludes_zero` and `doubted` stand for the marks `*` and `†`."""
        json_values = {
            "mean": self.mean,
            "half_width": self.half_width,
            "n": self.n,
            "unit": self.unit,
            "doubted": "†" in self.marks,
        }
        return json_values | ({"excludes_zero": "*" in self.marks} if self.signed else {})


Cell = str | int | float | ScoreCell | None

_GAP = "  "
_NUMERIC = re.compile(r"^[+-]?\d")
_LATEX = {
    "\\": r"\textbackslash{}",
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
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


@dataclass(frozen=True)
class ReportTable:
    """A titled table. The first `keys` columns name the rows; `name` is fit for a file."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    keys: int = 1

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        rows: Sequence[Mapping[str, Any]],
        notes: Sequence[str] = (),
        keys: int = 1,
    ) -> ReportTable:
        """The table of rows that are mappings, column -> cell: one or more, all with the same
        columns."""
        return cls(name, title, tuple(rows[0]), [tuple(row.values()) for row in rows], notes, keys)

    def __post_init__(self) -> None:
        # Names and reasons come from a store, which may hold anything; a table goes to terminals
        # and files.
        rows = tuple(
            tuple(plain(cell) if isinstance(cell, str) else cell for cell in row)
            for row in self.rows
        )
        words = {
            "title": plain(self.title),
            "columns": tuple(map(plain, self.columns)),
            "notes": tuple(map(plain, self.notes)),
        }
        vars(self).update(words, rows=rows)

    @cached_property
    def cells(self) -> list[list[str]]:
        """The rows as a reader sees them: numbers with three decimals, scores padded so that means
        stand under means."""
        shown = [list(map(_cell_text, row)) for row in self.rows]
        for i in range(len(self.columns)):
            scores = {
                row_number: cell
                for row_number, row in enumerate(self.rows)
                if isinstance(cell := row[i], ScoreCell)
            }
            in_percent = any(score.unit == "percent" for score in scores.values())
            for tail in (" ± 0.0" if in_percent else " ± 0.000", " *", " †"):
                mark = tail[:2]
                without = [row_number for row_number in scores if mark not in shown[row_number][i]]
                if len(without) < len(scores):
                    for row_number in without:
                        shown[row_number][i] += " " * len(tail)
        return shown

    @cached_property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers; these are aligned to the right."""
        columns = [
            [row[i] for row in self.cells if row[i] not in ("", "-")]
            for i in range(len(self.columns))
        ]
        return [bool(column) and all(map(_NUMERIC.match, column)) for column in columns]

    def to_text(self, width: int = 100) -> str:
        """Title, columns and notes as monospaced text of at most `width` columns where the cells
        allow it.

        A wider table becomes blocks of columns that repeat the keys. A block has at least one
        column beside them.
        """
        sizes = [max(map(len, column)) for column in zip(self.columns, *self.cells, strict=True)]

        aligned = [">" if numeric else "<" for numeric in self.numeric]

        def line(cells: Sequence[str], block: Sequence[int]) -> str:
            return _GAP.join(f"{cells[i]:{aligned[i]}{sizes[i]}}" for i in block).rstrip()

        lines = textwrap.wrap(self.title, width, break_long_words=False)
        for block in self._blocks(sizes, width):
            rule = _GAP.join("-" * sizes[i] for i in block)
            lines += ["", line(self.columns, block), rule]
            lines += [line(row, block) for row in self.cells]
        lines += [""] if self.notes else []
        for note in self.notes:
            lines += textwrap.wrap(
                note, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
            )
        return "\n".join(lines) + "\n"

    def _blocks(self, sizes: Sequence[int], width: int) -> list[list[int]]:
        keys = list(range(min(self.keys, len(sizes))))
        blocks: list[list[int]] = []
        block = list(keys)
        for i in range(len(keys), len(sizes)):
            wide = sum(sizes[j] + len(_GAP) for j in block) + sizes[i] > width
            if wide and len(block) > len(keys):
                blocks.append(block)
                block = list(keys)
            block.append(i)
        return [*blocks, block]

    def to_csv(self) -> str:
        """Comma-separated values: a header, numbers with twelve digits, nothing for None. Notes are
        left out."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(
            [f"{cell:.12g}" if isinstance(cell, float) else _stripped(cell) for cell in row]
            for row in self.rows
        )
        return out.getvalue()

    def to_latex(self) -> str:
        """A `table` with booktabs rules, the title as caption, the notes below; every text is
        escaped.

        The preamble needs the packages booktabs and fontenc with T1.
        """

        def row(cells: Iterable[str]) -> str:
            return " & ".join(map(escape_latex, cells)) + r" \\"

        label = re.sub(r"[^A-Za-z0-9:-]+", "-", self.name)
        alignment = "".join("r" if numeric else "l" for numeric in self.numeric)
        lines = [
            "\\begin{table}\n\\centering",
            rf"\caption{{{escape_latex(self.title)}}}",
            rf"\label{{tab:{label}}}",
            rf"\begin{{tabular}}{{{alignment}}}",
            f"\\toprule\n{row(self.columns)}\n\\midrule",
        ]
        for raw_row, cells in zip(self.rows, self.cells, strict=True):
            pairs = zip(raw_row, cells, strict=True)
            lines.append(row("--" if raw is None else cell.strip() for raw, cell in pairs))
        lines += [
            "\\bottomrule\n\\end{tabular}",
            *([r"\par\smallskip\raggedright\footnotesize"] if self.notes else []),
            *(f"{escape_latex(note)}\\par" for note in self.notes),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: name, title, columns, rows, notes."""
        rows = [
            [cell.to_json() if isinstance(cell, ScoreCell) else _stripped(cell) for cell in row]
            for row in self.rows
        ]
        return {
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "rows": rows,
            "notes": list(self.notes),
        }

    def written(self, form: str) -> str:
        """The table as `text`, `csv`, `latex` or `json`."""
        if form == "json":
            return json.dumps(self.to_json(), indent=2)
        return {"text": self.to_text, "csv": self.to_csv, "latex": self.to_latex}[form]()


def on_page(table: ReportTable, study: str = "") -> ReportTable:
    """The table as a page shows it: differences of shares in percentage points with their interval,
    as every sentence has them. The title without what headings of the page of `study` say."""
    rows = [[_in_points(cell) for cell in row] for row in table.rows]
    title = (
        re.sub(rf" \({re.escape(study)}(, [^()]*)?\)$", "", table.title) if study else table.title
    )
    if rows != [list(row) for row in table.rows]:
        title += ", in points"
    return table if title == table.title else replace(table, rows=rows, title=title)


def _in_points(cell: Cell) -> Cell:
    """A difference of shares with its interval in points; other cells as they are."""
    if not isinstance(cell, ScoreCell) or not cell.signed or cell.unit != "fraction":
        return cell
    mean = f"{100 * cell.mean:+.1f}"
    if cell.half_width is None:
        return f"{mean}{cell.marks}"
    low, high = (100 * (cell.mean + side * cell.half_width) for side in (-1, 1))
    return f"{mean} [{low:+.1f}, {high:+.1f}]{cell.marks}"


LONG_NUMBER = re.compile(r"(?<![\w.])\d+\.\d{7,}(?![\w.])")
"""A number with more decimals than anybody reads, as a border between classes may have."""
_DIGITS = range(5, 18)


def short_numbers(texts: Iterable[str]) -> dict[str, str]:
    """The long numbers of some texts, and how they are written with as few digits as tell them
    apart."""
    numbers = dict.fromkeys(number for text in texts for number in LONG_NUMBER.findall(text))
    for digits in _DIGITS:
        short = {number: f"{float(number):.{digits}g}" for number in numbers}
        if len(set(short.values())) == len(short):
            return short
    return {number: number for number in numbers}


def shortened(text: str, short: Mapping[str, str]) -> str:
    """A text with its long numbers written short."""
    if not short:
        return text
    return LONG_NUMBER.sub(lambda match: short.get(match[0], match[0]), text)


def escape_latex(text: str) -> str:
    """`text` as LaTeX prints it letter by letter; a sign before digits becomes a minus."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w.)-])-(?=\d)", r"$-$", escaped)


def _cell_text(cell: Cell) -> str:
    """A cell as a reader sees it, without padding."""
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def picked(entry_shown: object, **names: str) -> dict[str, Any]:
    """Cells by column: the attribute of `entry_shown` that is named for each; None everywhere
    without an
    item."""
    return {
        column: None if entry_shown is None else getattr(entry_shown, name)
        for column, name in names.items()
    }


def slug(*words: str) -> str:
    """The parts that are not empty as a name fit for files and LaTeX labels."""
    return re.sub(r"[^a-z0-9+.]+", "-", "-".join(filter(None, words)).lower()).strip("-")


def distinct(names: Iterable[str]) -> list[str]:
    """The names with `-2`, `-3`, ... behind those that were there before."""
    out: dict[str, None] = {}
    for name in names:
        number, tried = 2, name
        while tried in out:
            number, tried = number + 1, f"{name}-{number}"
        out[tried] = None
    return list(out)


def _stripped(cell: Cell) -> Cell:
    return cell.strip() if isinstance(cell, str) else cell
