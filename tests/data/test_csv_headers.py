"""The first line of a CSV file is read as its cells are: quotes that stand twice are one, wherever
a table comes in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars
import pytest

from crosswind.data.tabular import read_table
from crosswind.unlabelled.score_tables import read_scored_tables

NAMES = [
    ('say "hi"', 'say "no"'),
    ('"', '""'),
    ('"quoted"', "plain"),
    ('a "b", c', "d;e"),
    ("'single'", 'ends"'),
    ('"begins', 'in"side'),
    ("plain", "plain too"),
]


@pytest.mark.parametrize("names", NAMES, ids=ascii)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_has_the_names_and_the_cells_that_were_written(
    tmp_path: Path, names: tuple[str, str], separator: str
) -> None:
    frame = polars.DataFrame({names[0]: ["1", names[1]], names[1]: [names[0], "2"]})
    frame.write_csv(tmp_path / "t.csv", separator=separator, quote_style="always")
    table = read_table(str(tmp_path / "t.csv"), "path")
    assert table.columns == list(names) and table.rows() == frame.rows()


@pytest.mark.parametrize("names", NAMES, ids=ascii)
def test_classes_of_a_table_of_scores_are_what_was_written(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    first = np.array([0.9, 0.2, 0.6, 0.3, 0.8, 0.1])
    scores = {names[0]: first, names[1]: 1 - first}
    labels = [names[0], names[1], names[0], names[1], names[0], names[1]]
    polars.DataFrame(scores).write_csv(tmp_path / "new.csv")
    polars.DataFrame({**scores, "label": labels}).write_csv(tmp_path / "source.csv")
    tables = read_scored_tables(str(tmp_path / "new.csv"), str(tmp_path / "source.csv"), None, None)
    assert (
        tables.classes == names and tables.labelled is not None and tables.labelled.accuracy == 1.0
    )
