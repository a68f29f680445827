"""Quotes of tables that are not as CSV has them are read as they are meant, or refused with the line
where they begin; so is what is empty behind the last row and the last name."""

from __future__ import annotations

from pathlib import Path

import pytest

from crosswind.core.errors import DataError
from crosswind.data.tabular import read_table

N = 60
NAMES = "id,sex,note"
PLAIN = [f"p{row:02},{'mf'[row % 2]},n{row % 7}" for row in range(N)]


def noted(cells: dict[int, str], otherwise: str = "words", separator: str = ",") -> list[str]:
    """Lines of a table whose notes are some cells, by their row."""
    lines = [f"p{row:02},{'mf'[row % 2]},{cells.get(row, otherwise)}" for row in range(N)]
    return [NAMES.replace(",", separator), *(_apart(line, separator) for line in lines)]


def _apart(line: str, separator: str) -> str:
    return line if separator == "," else line.replace(",", separator, 2)


READ = {
    "inches": (noted({}, '5"'), '5"'),
    "inches among semicolons": (noted({}, '5"', ";"), '5"'),
    "a quote that begins a text": (noted({0: '"she said', 7: 'so"'}, "x", "\t"), '"she said'),
    "a quote that nobody closes": (noted({0: '"she said'}, "x", "\t"), '"she said'),
    "quotes around tabs": (noted({}, '"a\tb"', "\t"), "a\tb"),
    "quotes around lines": (noted({}, '"a\nb"', "\t"), "a\nb"),
    "doubled quotes": (noted({}, '"a ""b"", c"'), 'a "b", c'),
    "a folder of Windows": (noted({}, '"C:\\a, b\\"'), "C:\\a, b\\"),
    "JSON": (noted({}, '"{""a"": ""\\""b""}"'), '{"a": "\\"b"}'),
    "backslashes without quotes": (noted({}, 'a \\"b\\"'), 'a \\"b\\"'),
    "single quotes": (["'id','sex','note'", *["'1','m','a, b'"] * N], "a, b"),
    "single quotes around texts": (["'id','sex','note'", *["1,'m','a b'"] * N], "a b"),
    "apostrophes": (noted({}, "'tis"), "'tis"),
}
EMPTY = {
    "empty rows at the end": ([NAMES, *PLAIN, *[",,"] * 20], "20 empty rows at the end left out"),
    "blank rows at the end": ([NAMES, *PLAIN, " , ,"], "1 empty row at the end left out"),
    "a comma at the end of each row": (
        [NAMES, *(f"{line}," for line in PLAIN)],
        "cells behind the 3 of the first line are empty and left out",
    ),
    "commas at the end of some rows": (
        [NAMES, *(f"{line},," for line in PLAIN[:9]), *PLAIN[9:]],
        "cells behind the 3 of the first line are empty and left out",
    ),
}
REFUSED = {
    "inches beside quotes": (
        noted({0: '"a, b"', 5: '5"'}),
        'line 7: the cell 5" holds a quote and does not begin with one, and other cells stand in'
        ' quotes; write it as "5"""',
    ),
    "an apostrophe beside single quotes": (
        ["'id','sex','note'", *["1,'m',it's"] * N],
        "line 2: the cell it's holds a quote and does not begin with one",
    ),
    "text behind a quote": (
        noted({3: '"some" text'}),
        "line 5: a quote begins a cell there and text stands behind the next quote; put the whole",
    ),
    "a quote that another row closes": (
        noted({3: '"some', 8: 'text" so'}),
        "line 5: a quote begins a cell there and text stands behind the next quote",
    ),
    "quotes among tabs": (
        noted({5: '"words'}, '"words"', "\t"),
        "line 7: a quote begins a cell and does not end it, while other cells stand in quotes",
    ),
    "backslashes": (
        noted({4: r'"\"quoted\", yes"'}),
        "line 6: a quote within a cell stands behind a backslash, as MySQL writes it; a CSV table",
    ),
    "lines in quotes": (
        [f'"{line}"' for line in [NAMES, *PLAIN]],
        "line 2: every line stands in one pair of quotes, as Excel writes what it holds in one",
    ),
    "rows in quotes": (
        [NAMES, *(f'"{line}"' for line in PLAIN)],
        "line 2: every line stands in one pair of quotes",
    ),
    "cells behind the last name": (
        [NAMES, *(f"{row},{line}" for row, line in enumerate(PLAIN))],
        "line 2 has 4 cells, and the first line has 3",
    ),
}


def path_of(folder: Path, lines: list[str]) -> str:
    path = folder / "rows.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", READ)
def test_quotes_are_read_as_they_are_meant(name: str, tmp_path: Path) -> None:
    lines, first_note = READ[name]
    rows = read_table(path_of(tmp_path, lines), "path")
    assert rows.columns == ["id", "sex", "note"] and rows.height == N
    assert rows["note"][0] == first_note


@pytest.mark.parametrize("name", EMPTY)
def test_what_is_empty_behind_a_table_is_left_out_and_said(name: str, tmp_path: Path) -> None:
    lines, sentence = EMPTY[name]
    notes: list[str] = []
    rows = read_table(path_of(tmp_path, lines), "path", notes=notes)
    assert notes == [sentence]
    assert rows.equals(read_table(path_of(tmp_path, [NAMES, *PLAIN]), "path"))


@pytest.mark.parametrize("name", REFUSED)
def test_quotes_that_nobody_can_tell_are_refused(name: str, tmp_path: Path) -> None:
    lines, sentence = REFUSED[name]
    with pytest.raises(DataError) as refused:
        read_table(path_of(tmp_path, lines), "path")
    assert sentence in str(refused.value) and "\n" not in str(refused.value)
