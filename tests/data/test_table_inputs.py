"""Columns of numbers and categories are inputs, numbers become classes, and rows without a value
are left out as the study says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError
from crosswind.data.table_inputs import numbers_of

COLUMNS: dict[str, list[Any]] = {
    "age": [30, 45, None, 60, 72, 18],
    "dose": ["0,5", "1", "2,25", "", "4", "nan"],
    "sex": ["f", "m", "f", None, "m", "f"],
    "site": ["b", "a", "c", "a", "b", "a"],
    "ill": ["yes", "no", "no", "yes", "no", "yes"],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    polars.DataFrame(COLUMNS).write_csv(tmp_path / "patients.csv")
    return tmp_path / "patients.csv"


def test_inputs_are_numbers_and_one_input_a_value(path: Path) -> None:
    dataset = cw.load(
        "table",
        path=str(path),
        numbers=["age", "dose"],
        categories=["sex", "site"],
        columns=["ill", "site"],
    )
    assert str(dataset.input) == "features of 7 numbers"
    nan = np.nan
    np.testing.assert_array_equal(
        dataset.inputs(np.arange(6)),
        np.array(
            [
                [30, 0.5, 1, 0, 0, 1, 0],
                [45, 1, 0, 1, 1, 0, 0],
                [nan, 2.25, 1, 0, 0, 0, 1],
                [60, nan, 0, 0, 1, 0, 0],
                [72, 4, 0, 1, 0, 1, 0],
                [18, nan, 1, 0, 1, 0, 0],
            ],
            dtype=np.float32,
        ),
    )
    assert [attribute.name for attribute in dataset.schema] == ["ill", "site"]


def test_numbers_are_put_into_classes_and_stay_inputs(path: Path) -> None:
    dataset = cw.load(
        "table",
        path=str(path),
        numbers=["age"],
        bins={"age": [30, 60]},
        empty="leave-out",
        columns=["ill", "age"],
    )
    assert dataset.ids.tolist() == [0, 1, 3, 4, 5]
    assert dataset.inputs(np.arange(5))[:, 0].tolist() == [30, 45, 60, 72, 18]
    age = dataset.attribute("age")
    names = [age.values[code] for code in dataset.table.column("age")]
    assert names == ["30 to < 60", "30 to < 60", ">= 60", ">= 60", "< 30"]
    assert ("age", "age: empty in 1 of 6 rows, left out") in dataset.notes


def test_what_is_empty_may_be_a_value(path: Path) -> None:
    dataset = cw.load(
        "table", path=str(path), numbers=["age"], empty="value", columns=["ill", "sex"]
    )
    assert dataset.attribute("sex").values == ("f", "m", "missing")
    assert dataset.n_base == 6
    assert ("sex", "sex: empty in 1 of 6 rows, the value 'missing'") in dataset.notes


FRAMES = {
    "polars": lambda frame: frame,
    "pandas": lambda frame: frame.to_pandas(),
    "arrow": lambda frame: frame.to_arrow(),
    "mapping": lambda frame: frame.to_dict(as_series=False),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_is_the_same_data_set(path: Path, kind: str) -> None:
    frame = polars.read_csv(path, infer_schema_length=None).drop("dose")
    dataset = cw.from_frame(
        FRAMES[kind](frame),
        label="ill",
        categories=["sex", "site"],
        numbers=["age"],
        columns=["sex"],
        empty="leave-out",
    )
    assert [attribute.name for attribute in dataset.schema] == ["ill", "sex"]
    assert dataset.ids.tolist() == [0, 1, 2, 4, 5] and str(dataset.input) == "features of 6 numbers"
    np.testing.assert_array_equal(dataset.inputs(np.arange(2))[:, 0], [30, 45])


def test_with_a_label_alone_all_other_columns_are_inputs() -> None:
    frame = {
        "ill": ["a", "b"] * 20,
        "age": [*range(20, 60, 2), *range(21, 61, 2)],
        "sex": ["f", "m", "m", "f"] * 10,
    }
    dataset = cw.from_frame(frame, label="ill")
    assert str(dataset.input) == "features of 3 numbers"  # the age, and two sexes
    dataset = cw.from_frame(frame, label="ill", columns=["sex"])
    assert str(dataset.input) == "features of 1 numbers"
    assert [attribute.name for attribute in dataset.schema] == ["ill", "sex"]


def test_texts_of_a_frame_are_inputs() -> None:
    frame = {"ill": ["a", "b"], "note": ["all is well", "nothing is well"]}
    dataset = cw.from_frame(frame, text="note", label="ill")
    assert list(dataset.inputs(np.arange(2))) == frame["note"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"numbers": ["sex"]}, "column 'sex', row 1: 'f' is no number \\(4 more such rows\\)"),
    ({"numbers": ["agee"]}, "data.numbers: unknown column of .*'agee', did you mean 'age'"),
    ({"categories": []}, "data.categories: must be a list of columns"),
    ({"numbers": ["age"], "text": "site"}, "text and numbers or categories are named at once"),
    ({"numbers": ["age"], "bins": {"age": []}}, "data.bins.age: must be increasing numbers"),
    ({"numbers": ["age"], "bins": {"age": [3, 2]}}, "must be increasing numbers that part classes"),
    ({"numbers": ["age"], "bins": {"age": ["x"]}}, "must be increasing numbers that part classes"),
    ({"numbers": ["age"], "bins": {"site": [3]}}, "column 'site', row 1: 'b' is no number"),
    (
        {"numbers": ["age"], "bins": {"sight": [3]}},
        "unknown column of .*'sight', did you mean 'site'",
    ),
    (
        {"numbers": ["age"], "empty": "drop"},
        r"data.empty: unknown value 'drop' \(valid: refuse, leave-out, value\)",
    ),
    ({"numbers": ["age"], "columns": ["sex"]}, "column 'sex', row 4 has no value"),
    ({}, "name either the folder of the images here, or 'text', the column of texts, or 'numbers'"),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED)
def test_what_cannot_be_is_one_sentence(path: Path, settings: dict[str, Any], words: str) -> None:
    from crosswind.data.sources.base import open_source

    options = {"path": str(path), "columns": ["ill"], **settings}
    with pytest.raises(CrosswindError, match=words):
        open_source("table", options, "data")


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["49,6", "50"], [49.6, 50.0]),
        (["49,6", ".", "50"], [49.6, np.nan, 50.0]),
        (["1,234", "2"], [1.234, 2.0]),
        (["1,234", "5,678"], [1.234, 5.678]),
        (["1,234", "0,900"], [1.234, 0.9]),
    ],
)
def test_decimal_commas(texts: list[str], numbers: list[float]) -> None:
    read = numbers_of(polars.DataFrame({"x": texts}), "x", "t.csv")
    np.testing.assert_array_equal(read, numbers)


@pytest.mark.parametrize("texts", [["900", "1,234"], ["7", *["8,123", "9,456"] * 10]])
def test_commas_between_thousands_are_no_decimal_commas(texts: list[str]) -> None:
    """1,234 beside 900 is 1234: read as 1.234 it would be the smaller of the two."""
    with pytest.raises(DataError, match=r"t.csv, column 'x', row 2: '[18],\d{3}' is no number"):
        numbers_of(polars.DataFrame({"x": texts}), "x", "t.csv")
