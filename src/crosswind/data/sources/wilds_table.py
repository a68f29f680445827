"""Columns of a CSV table among the files of a data set, as WILDS has them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, shown
from crosswind.data.sources.base import positions
from crosswind.data.trees import Tree

_MOST = 1 << 30


class WildsTable:
    """Some columns of a CSV table of a tree; `before`: the folder that it lies in, with `/`;
    `names`: of all its columns."""

    def __init__(self, tree: Tree, name: str, columns: Sequence[str], get: str = "") -> None:
        self.tree = tree
        self.before = name[: name.rfind("/") + 1]
        self.where = f"{tree.name}: {name}"
        if name not in tree.sizes:
            problem = f"{tree.name} has no file {name}" + (f" ({get})" if get else "")
            raise DataError(problem)
        text = io.TextIOWrapper(io.BytesIO(tree.read(name, _MOST)), "utf-8-sig", newline="")
        once: dict[str, str] = {}  # a column repeats a few words half a million times
        try:
            rows = (row for row in csv.reader(text, strict=True) if row)
            self.names = next(rows, [])
            place_of = {
                column: self.names.index(column) for column in columns if column in self.names
            }
            self._cells: dict[str, list[str]] = {column: [] for column in place_of}
            count = 0
            for count, row in enumerate(rows, 1):
                if len(row) != len(self.names):
                    raise DataError(
                        f"{self.where}, row {count:,} has {len(row)} cells, not {len(self.names)}"
                    )
                for column, column_number in place_of.items():
                    word = row[column_number]
                    self._cells[column].append(
                        once.setdefault(word, word) if len(once) < 10_000 else once.get(word, word)
                    )
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{self.where} is no CSV table in UTF-8: {error}") from None
        if not count:
            raise DataError(f"{self.where} has no rows")

    def __getitem__(self, name: str) -> list[str]:
        """The cells of a column."""
        if name not in self._cells:
            problem = (
                f"{self.where} has no column {name!r}, but {shown(', '.join(self.names), 200)}"
            )
            raise DataError(problem)
        return self._cells[name]

    def numbers(self, name: str, known_numbers: Sequence[int] | None = None) -> list[int]:
        """The cells of a column of whole numbers >= 0, each one of those known."""
        out = []
        for row, word in enumerate(self[name], 1):
            whole_word = word.removesuffix(".0")
            if (
                not (whole_word.isascii() and whole_word.isdigit())
                or len(whole_word) > 15
                or (known_numbers is not None and int(whole_word) not in known_numbers)
            ):
                meant = "a whole number"
                if known_numbers is not None:
                    meant = f"one of {known_numbers[0]} to {known_numbers[-1]}"
                problem = f"{self.where}, row {row:,}: {name} is {shown(word)}, and not {meant}"
                raise DataError(problem)
            out.append(int(whole_word))
        return out

    def words(
        self, name: str, known_words: Sequence[str], values: Sequence[str] | None = None
    ) -> NDArray[np.int64]:
        """The place of each cell among the known words."""
        if values is None:
            cells = self[name]
        else:
            cells = list(values)
        strange = next((row for row, word in enumerate(cells) if word not in known_words), None)
        if strange is not None:
            problem = (
                f"{self.where}, row {strange + 1:,}: {name} is {shown(cells[strange])}, which is"
                " not known"
            )
            raise DataError(problem)
        return positions(cells, known_words)
