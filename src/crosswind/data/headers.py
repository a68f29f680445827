"""Whether the first line of a CSV table names its columns, or is its first row: told by the cells
below.

A table without names would lose its first row in silence, and its columns would be called by what
stood in it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from crosswind.data.decoding import IMAGE_ENDINGS

if TYPE_CHECKING:
    from polars import Series

LOOKED_AT = 20_000
"""Rows of a column whose cells are compared with its first one by what they look like."""
MOST_CLASSES = 20
"""A column of more different values is hardly the one that is to be told."""
_USUAL = (
    "path file filename filepath image image_id image_path img images picture photo name id index"
    " row label labels class class_id target y species category diagnosis answer text texts"
    " sentence review title split fold partition subset prediction"
)
USUAL_NAMES = frozenset(_USUAL.split())
_NUMBER = r"^\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*$"
_NO_VALUE = ("", "na", "n/a", "nan", "null", "none", "<na>", "?", "-")
_MOSTLY = 0.9
_FEW = 4
"""Values of a class repeat: a column of names has at most one value for so many rows."""
_SHORTEST_SHAPE = 6
_YEARS = range(1000, 3000)

Cell = TypeVar("Cell")


@dataclass(frozen=True)
class _Look:
    """The look of the first cell of a column beside those below.

    `file`: it is an image as they are. `number`: so are they. `alike`: it is written as all of them
    are. `again`: it stands below. `name`: it is surely a name. `likely_name`: the few values below
    do not know it.
    """

    file: bool
    number: bool
    alike: bool
    again: bool
    name: bool
    likely_name: bool


def first_row_in_header(
    first: Sequence[str | None], columns: Sequence[Series], folder: Path
) -> str | None:
    """Why the first line of a table is a row and holds no names, as half a sentence; None where it
    may hold names.

    `first`: its cells; `columns`: the cells below, as text; `folder`: where the table lies, and
    perhaps its files.
    """
    cells = [(cell or "").strip() for cell in first]
    looks = [_look(cell, column, folder) for cell, column in zip(cells, columns, strict=True)]
    files = _cells_that(cells, looks, "file")
    if files:
        return f"{files[0]!r} is a file, as below"
    if any(look.name for look in looks):
        return None
    numbers = _cells_that(cells, looks, "number")
    if numbers and not _may_be_names(numbers, _cells_that(columns, looks, "number")):
        return f"{numbers[0]!r} is a number over numbers"
    alike = _cells_that(cells, looks, "alike")
    if alike:
        return f"{alike[0]!r} is written like every cell below"
    again = _cells_that(cells, looks, "again")
    # 0 and 1 name columns of which they are values, too.
    words_again = any(look.again and not look.number for look in looks)
    if words_again and len(again) > sum(look.likely_name for look in looks):
        return f"{again[0]!r} stands below too"
    return None


def _cells_that(cells: Sequence[Cell], looks: Sequence[_Look], look_name: str) -> list[Cell]:
    """The cells, or columns, of which a look is true."""
    return [cell for cell, look in zip(cells, looks, strict=True) if getattr(look, look_name)]


def names_for(first: Sequence[str | None], columns: Sequence[Series]) -> list[str]:
    """Names that a table without any may take: `path` for its images, `label` for its last column
    of a few values, or where none has so few the last one whose values repeat."""
    names = [f"column{position + 1}" for position in range(len(first))]
    for position, column in enumerate(columns):
        below = column.head(LOOKED_AT).drop_nulls()
        if "path" not in names and _share_of_images(below) > _MOSTLY:
            names[position] = "path"
    n_values = [column.n_unique() for column in columns]
    classes = [number for number, count in enumerate(n_values) if 1 < count <= MOST_CLASSES]
    repeated = [
        number
        for number, column in enumerate(columns)
        if n_values[number] * 2 <= max(2, len(column))
    ]
    for candidates in (classes, repeated):
        labels = [number for number in candidates if number in repeated and names[number] != "path"]
        if labels:
            names[labels[-1]] = "label"
            break
    return names


def repeated_header(first: Sequence[str | None], columns: Sequence[Series]) -> int | None:
    """The number of the first row, from 0, that holds the names once more, as in two tables that
    were joined; None for none."""
    import polars

    if len(first) < 2 or all(
        re.match(_NUMBER, cell or "") for cell in first
    ):  # 0 and 1 may name columns of zeros and ones
        return None
    same = polars.Series([True]).new_from_index(0, len(columns[0]))
    for cell, column in zip(first, columns, strict=True):
        same &= column.eq_missing(polars.Series([cell], dtype=polars.String))
    rows = same.arg_true()
    if len(rows):
        return int(rows[0])
    return None


def _look(cell: str, column: Series, folder: Path) -> _Look:
    below = column.head(LOOKED_AT).drop_nulls().str.strip_chars()
    below = below.filter(below != "")
    is_image = cell.lower().endswith(IMAGE_ENDINGS)
    images = _share_of_images(below)
    is_number = re.match(_NUMBER, cell) is not None
    numbers = _share(below, _NUMBER)
    text = not is_number and cell.lower() not in _NO_VALUE
    again = bool(cell) and bool((column == cell).any())
    values = column.n_unique()
    is_listed_file = text and cell.lower() not in USUAL_NAMES and _is_file(folder / cell)
    file = (is_image and images >= 0.5) or (is_listed_file)
    is_usual = (
        cell.lower() in USUAL_NAMES or numbers >= _MOSTLY or (not is_image and images >= _MOSTLY)
    )
    name = text and is_usual
    likely_name = text and not again and values * _FEW <= len(column)
    number = is_number and numbers >= _MOSTLY
    alike = _written_alike(cell, below)
    return _Look(
        file=file, number=number, alike=alike, again=again, name=name, likely_name=likely_name
    )


def _share(cells: Series, pattern: str) -> float:
    """The share of the cells that a pattern fits, 0 of none."""
    return float(cells.str.contains(pattern).mean() or 0.0) if len(cells) else 0.0  # type: ignore[arg-type]


def _share_of_images(cells: Series) -> float:
    return _share(cells.str.to_lowercase(), rf"({'|'.join(map(re.escape, IMAGE_ENDINGS))})$")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a text may be longer than a name of a file can be
        return False


def _written_alike(cell: str, below: Series) -> bool:
    """Whether a cell has digits and the same length as all below, letters and digits at the same
    places or digits of base 16."""
    if (
        len(cell) < _SHORTEST_SHAPE
        or sum(letter.isdigit() for letter in cell) < 2
        or not len(below)
    ):
        return False
    classes = {"digit": "[0-9]", "lower": "[a-z]", "upper": "[A-Z]"}
    kinds = (
        (
            "digit"
            if mark.isdigit()
            else "lower"
            if mark.islower()
            else "upper"
            if mark.isupper()
            else ""
        )
        for mark in cell
    )
    shape = "".join(
        classes.get(kind) or re.escape(mark) for kind, mark in zip(kinds, cell, strict=True)
    )
    patterns = [f"^{shape}$"] + (
        [f"^[0-9a-fA-F]{{{len(cell)}}}$"] if re.fullmatch("[0-9a-fA-F]+", cell) else []
    )
    return any(_share(below, pattern) == 1.0 for pattern in patterns)


def _may_be_names(cells: Sequence[str], columns: Sequence[Series]) -> bool:
    """Whether numbers may name columns of numbers: 0 to k-1, 1 to k, years, steps of a scale, or
    whole ones over fractions."""
    values = [float(cell.replace(",", ".")) for cell in cells]
    if len(set(values)) < len(values):
        return False
    if all(value.is_integer() for value in values):
        fractions = []
        for column in columns:
            fractions.append(_share(column.head(LOOKED_AT).drop_nulls(), r"[.,]\d*[1-9]|[eE]-"))
        from_zero = [*map(float, range(len(values)))]
        from_one = [*map(float, range(1, len(values) + 1))]
        counted = sorted(values) in (from_zero, from_one)
        if counted or all(value in _YEARS for value in values) or min(fractions) >= 0.5:
            return True
    steps = [later - earlier for earlier, later in itertools.pairwise(values)]
    return (
        len(values) >= 3
        and steps[0] > 0
        and all(abs(step - steps[0]) <= 1e-9 * max(map(abs, values)) for step in steps)
    )
