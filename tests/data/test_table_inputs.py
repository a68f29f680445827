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
from crosswind.data.table_inputs import numbers_of, why_code

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


TRUTHS = ("TRUE", "no", "1", "0", None)


def test_truths_in_several_ways_are_numbers() -> None:
    frame = polars.DataFrame({"smoker": TRUTHS})
    assert numbers_of(frame, "smoker", "t").tolist()[:4] == [1, 0, 1, 0]
    for words in (("yes", "no"), ("TRUE", "True"), ("yes", "1", "2"), ("y", "n", "1")):
        with pytest.raises(CrosswindError, match="is no number"):
            numbers_of(polars.DataFrame({"smoker": words}), "smoker", "t")


CODES = {
    "one width": (["01000", "10999", "00017"], True),
    "no width": (["7", "012", "0017"], False),
    "no zeros": (["1000", "2000"], False),
    "zeros alone": (["0", "1", "10"], False),
    "fractions": (["0.5", "00.7"], False),
    "powers": (["47E17", "12E03"], True),
    "one digit before the power": (["1E5", "2E6"], False),
    "a sign in the power": (["10e-3", "12e+03"], False),
}


@pytest.mark.parametrize("name", CODES)
def test_codes_are_no_numbers(name: str) -> None:
    cells, is_code = CODES[name]
    frame = polars.DataFrame({"zip": cells})
    numbers = numbers_of(frame, "zip", "t")
    assert bool(why_code(frame["zip"], "zip", numbers)) == is_code
    assert not why_code(frame["zip"].alias("age"), "age", numbers) or name == "powers"


def test_codes_of_a_frame_are_categories() -> None:
    codes = [f"{1000 + row % 25:05}" for row in range(100)]
    dataset = cw.from_frame({"ill": ["a", "b"] * 50, "zip": codes}, label="ill")
    assert str(dataset.input) == "features of 25 numbers"


@pytest.mark.parametrize("as_text", [True, False])
def test_long_numbers_that_a_model_cannot_tell_apart_are_said(as_text: bool) -> None:
    longest = [9007199254740993 + 2 * row for row in range(60)]
    cells = polars.Series("visit", longest).cast(polars.String if as_text else polars.Int64)
    frame = polars.DataFrame({"ill": ["a", "b"] * 30, "visit": cells})
    words = "60 whole numbers so long that a model, which reads float32, tells only 1 of them apart"
    with pytest.raises(CrosswindError, match=f"no model learns from 'visit' \\({words}"):
        cw.from_frame(frame, label="ill", columns=[])
    with pytest.raises(
        CrosswindError, match="column 'visit' has numbers such as .* differences are"
    ):
        cw.from_frame(frame, label="ill", numbers=["visit"], columns=["ill"])
    dense = polars.DataFrame(
        {"ill": ["a", "b"] * 500, "visit": [2**24 + row for row in range(1000)]}
    )
    dataset = cw.from_frame(dense, label="ill", numbers=["visit"], columns=["ill"])
    words = "1,000 whole numbers so long that a model, which reads float32, tells only 501 of them"
    assert any(f"visit: {words}" in sentence for _, sentence in dataset.notes)
    apart = frame.with_columns(visit=polars.Series([20_000_000 + 7 * row for row in range(60)]))
    assert cw.from_frame(apart, label="ill", numbers=["visit"], columns=["ill"]).notes[:-1] == ()


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["49,6", "50"], [49.6, 50.0]),
        (["49,6", ".", "50"], [49.6, np.nan, 50.0]),
        (["1,234", "0,900"], [1.234, 0.9]),
    ],
)
def test_decimal_commas(texts: list[str], numbers: list[float]) -> None:
    read = numbers_of(polars.DataFrame({"x": texts}), "x", "t.csv")
    np.testing.assert_array_equal(read, numbers)


@pytest.mark.parametrize("texts", [["900", "1,234"], ["7", *["8,123", "9,456"] * 10]])
def test_commas_that_may_stand_between_thousands_are_refused(texts: list[str]) -> None:
    """1,234 beside 900 is 1234: read as 1.234 it would be the smaller of the two."""
    with pytest.raises(DataError, match=r"t.csv, column 'x', row 2: '[18],\d{3}' may be \d{4} or"):
        numbers_of(polars.DataFrame({"x": texts}), "x", "t.csv")
