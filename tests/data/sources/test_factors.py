"""Attribute tables without images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosswind.core.errors import CrosswindError, DataError
from crosswind.data.sources.base import open_source
from crosswind.data.sources.tables import Factors


def test_a_grid_gives_every_cell_its_copies_the_last_attribute_fastest() -> None:
    data = Factors(grid={"shape": ["a", "b"], "hue": 3}, copies=2).load()
    assert data.name == "factors"
    assert data.attribute("hue").values == ("0", "1", "2")
    assert data.table.codes.tolist() == [[0] * 6 + [1] * 6, [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]]


def test_split_gives_every_cell_its_rows_in_each_part() -> None:
    data = Factors(
        grid={"shape": ["a", "b"]}, split={"train": 2, "none": 0, "test": 1}, title="smallnorb"
    ).load()
    assert data.name == "smallnorb"
    assert data.attribute("split").values == ("train", "none", "test")
    assert data.table.codes.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 2, 0, 0, 2]]


def test_values_are_named_as_they_are_written() -> None:
    data = Factors(grid={"hue": [0, 0.1, 0.2], "on": [False, True]}).load()
    assert data.attribute("hue").values == ("0", "0.1", "0.2")
    assert data.attribute("on").values == ("false", "true")
    assert data.code_of("hue", "0.10") == 1


def test_images_are_refused_in_one_sentence() -> None:
    data = Factors(grid={"a": 2}, title="celeba").load()
    assert data.read is None
    with pytest.raises(
        DataError,
        match=(
            "data set 'celeba' has attributes but no inputs, so it can be planned but not"
            " trained on"
        ),
    ):
        data.inputs(np.array([0]))


def test_the_fingerprint_is_that_of_the_table() -> None:
    made = [
        Factors(grid={"a": 2, "b": 2}),
        Factors(grid={"b": 2, "a": 2}),
        Factors(grid={"a": 2, "b": 2}, copies=2),
        Factors(grid={"a": 2, "b": 2}, split={"x": 1}),
        Factors(grid={"a": 2, "b": 2}, split={"x": 1, "y": 1}),
        Factors(grid={"a": 2, "b": 2}, split={"y": 1, "x": 1}),
    ]
    assert len({source.load().fingerprint for source in made}) == len(made)


def test_a_file_gives_the_same_as_its_grid(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("shape,hue,note\na,10,x\na,9,y\nb,10,x\n")
    data = Factors(path=str(path)).load()
    assert data.table.names == ("shape", "hue", "note")
    assert data.attribute("hue").values == ("9", "10")
    assert data.table.column("hue").tolist() == [1, 0, 1]
    assert Factors(path=str(path), columns=["note", "shape"]).load().table.names == (
        "note",
        "shape",
    )


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "data: needs either a path or a grid"),
    ({"path": "x.csv", "grid": {"a": 2}}, "data: needs either a path or a grid"),
    ({"grid": {}}, "data.grid: must map attributes to their values"),
    ({"grid": [1]}, "data.grid: must map attributes to their values"),
    (
        {"grid": {"a": 0}},
        "data.grid.a: must be a list of values or their number, 1 to 65,535, not 0",
    ),
    ({"grid": {"a": []}}, "data.grid.a: must be a list of values or their number"),
    (
        {"grid": {"a": "red"}},
        "data.grid.a: must be a list of values or their number, 1 to 65,535, not 'red'",
    ),
    (
        {"grid": {"a": True}},
        "data.grid.a: must be a list of values or their number, 1 to 65,535, not true",
    ),
    ({"grid": {"a": ["x", None]}}, "data.grid.a: must be a list of texts and numbers"),
    ({"grid": {"a": [1.0, float("nan")]}}, "data.grid.a: must be a list of texts and numbers"),
    ({"grid": {"a": ["x", "x"]}}, "'x' is named twice"),
    ({"grid": {"a": 70_000}}, "1 to 65,535, not 70000"),
    (
        {"grid": {"a": 10_000, "b": 10_000}},
        "data.grid: makes 100,000,000 rows, and must make 1 to 50,000,000",
    ),
    ({"grid": {"a": 2}, "copies": 0}, r"data.copies: must be in \[1, inf\)"),
    ({"grid": {"a": 2}, "copies": "many"}, "data.copies: must be a whole number"),
    ({"grid": {"a": 2}, "split": {}}, "data.split: must be a list of values"),
    (
        {"grid": {"a": 2}, "split": {"train": -1}},
        "data.split.train: must be a whole number of rows up to 50,000,000, not -1",
    ),
    (
        {"grid": {"a": 2}, "split": {"train": 1.5}},
        "data.split.train: must be a whole number of rows up to 50,000,000, not 1.5",
    ),
    ({"grid": {"a": 2}, "split": {"train": 0}}, "data.grid: makes 0 rows"),
    (
        {"grid": {"a": 2}, "split": {"train": 1}, "copies": 2},
        "data.copies: cannot be given together with split",
    ),
    (
        {"grid": {"split": 2}, "split": {"train": 1}},
        "data.grid: an attribute cannot be named 'split'",
    ),
    ({"grid": {"a": 2}, "columns": ["a"]}, "data.columns: belongs to a path"),
    ({"path": "x.csv", "copies": 2}, "data: copies and split belong to a grid"),
    ({"path": "x.csv"}, "data.path: there is no file 'x.csv'"),
    (
        {"path": "x.txt"},
        (
            r"data.path: 'x.txt' is no table by its name; name a table of text .csv or .tsv"
            r" \(valid: .csv, .tsv, .parquet\)"
        ),
    ),
    (
        {"grid": {"a": 2}, "coppies": 2},
        "data.coppies: unknown setting of source 'factors': 'coppies', did you mean 'copies'",
    ),
]


@pytest.mark.parametrize(("settings", "words"), BAD)
def test_bad_settings_are_one_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(CrosswindError, match=words) as caught:
        open_source("factors", settings)
    assert "\n" not in str(caught.value)
