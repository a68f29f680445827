"""Commas and points in texts of numbers are read as the column or its table says, and refused
where neither does."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars
import pytest

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.data.table_inputs import DoubtfulNumbers, numbers_of
from crosswind.data.written_numbers import SURELY_THOUSANDS, thousands_note

POINTS = ["50.3", "41.7", "66.2"]
COMMAS = ["50,3", "41,7", "66,2"]

CLEAR: dict[str, tuple[list[str | None], list[str] | None, list[float]]] = {
    "points elsewhere": (["950", "1,234", "12,345"], POINTS, [950, 1234, 12345]),
    "decimal commas elsewhere": (["950", "1,234", "12,345"], COMMAS, [950, 1.234, 12.345]),
    "two commas in one": (["1,234", "1,234,567", "2,000"], None, [1234, 1234567, 2000]),
    "points behind commas": (["1,234.5", "2,000", "7.25"], None, [1234.5, 2000, 7.25]),
    "points between thousands": (["1.350,72", "2,5", "999"], None, [1350.72, 2.5, 999]),
    "points between thousands alone": (["1.350", "12.000", "999"], COMMAS, [1350, 12000, 999]),
    "two points in one": (["1.234.567", "2.000", "3"], None, [1234567, 2000, 3]),
    "decimal points of three digits": (["1.350", "12.125", "999"], POINTS, [1.35, 12.125, 999]),
    "three digits and nothing else": (["1.350", "12.125", "999"], None, [1.35, 12.125, 999]),
    "decimal commas": (["0,5", "1", "2,25"], None, [0.5, 1, 2.25]),
    "a zero before the comma": (["0,123", "1,234", "2,345"], None, [0.123, 1.234, 2.345]),
    "decimal commas among points": (["0,123", "1,234", "2,345"], POINTS, [0.123, 1.234, 2.345]),
    "signs": (["-1,234", "+12,345", "-5"], POINTS, [-1234, 12345, -5]),
    "no value": (["1,234", None, "NA"], POINTS, [1234, np.nan, np.nan]),
    "exponents": (["1,5e3", "2", "3,25E-1"], None, [1500, 2, 0.325]),
}
DOUBTFUL: dict[str, tuple[list[str], list[str] | None]] = {
    "one digit before the comma": (["1,234", "2,345", "3,456"], None),
    "few numbers": (["950", "1,234", "12,345"], None),
    "a thousand without a comma": (["1500", "1,234", "12,345"], POINTS),
    "commas and points": (["1.350", "2,345", "3"], None),
}


def frame_of(cells: list[Any], beside: list[str] | None) -> polars.DataFrame:
    columns = {"pay": cells, "site": ["a, b", "c", "1.5 kg"]}
    return polars.DataFrame(columns if beside is None else {**columns, "age": beside})


@pytest.mark.parametrize("name", CLEAR)
def test_what_is_clear_is_read(name: str) -> None:
    cells, beside, numbers = CLEAR[name]
    np.testing.assert_array_equal(numbers_of(frame_of(cells, beside), "pay", "t"), numbers)


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_nobody_can_tell_is_refused(name: str) -> None:
    words = r"^t, column 'pay', row \d: '\d,\d{3}' may be \d{4} or \d\.\d{3}, and nothing in the"
    with pytest.raises(DoubtfulNumbers, match=words):
        numbers_of(frame_of(*DOUBTFUL[name]), "pay", "t")


def test_columns_of_numbers_say_it_too() -> None:
    frame = frame_of(["950", "1,234", "12,345"], None).with_columns(age=polars.Series([0.5, 1, 2]))
    assert numbers_of(frame, "pay", "t").tolist() == [950, 1234, 12345]
    assert thousands_note(frame, "pay") == "pay: commas between thousands, '1,234' is 1234"
    assert not thousands_note(frame, "site") and not thousands_note(frame, "age")
    whole = frame.with_columns(age=polars.Series([1.0, 2, 3]))
    with pytest.raises(DoubtfulNumbers):
        numbers_of(whole, "pay", "t")


def test_many_numbers_of_three_digits_beside_whole_ones_are_thousands() -> None:
    numbers = [900 + 37 * row for row in range(SURELY_THOUSANDS + 3)]
    frame = polars.DataFrame({"pay": [f"{number:,}" for number in numbers]})
    assert numbers_of(frame, "pay", "t").tolist() == numbers
    above = frame.filter(polars.Series(numbers) >= 1000)
    with pytest.raises(DoubtfulNumbers, match="'1,011' may be 1011 or 1.011"):
        numbers_of(above, "pay", "t")


def test_a_frame_says_how_its_numbers_are_read_or_refuses_them() -> None:
    frame: dict[str, Any] = {
        "ill": ["a", "b"] * 30,
        "age": [20 + row / 4 for row in range(60)],
        "pay": [f"{1000 + 37 * row:,}" for row in range(60)],
    }
    dataset = cw.from_frame(frame, label="ill")
    assert dataset.inputs(np.arange(3))[:, 1].tolist() == [1000, 1037, 1074]
    assert ("", "pay: commas between thousands, '1,000' is 1000") in dataset.notes
    del frame["age"]
    with pytest.raises(DataError, match="'1,000' may be 1000 or 1.000"):
        cw.from_frame(frame, label="ill", numbers=["pay"])
    with pytest.raises(InputError, match=r"no model learns from 'pay' \('1,000' may be 1000"):
        cw.from_frame(frame, label="ill")
