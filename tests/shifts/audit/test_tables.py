"""Two tables become columns of codes: one value has one name on both sides, and what is left out is
said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.shifts.audit.tables import Tables, read_tables


def tables(train: Any, target: Any, **options: Any) -> Tables:
    return read_tables(
        {"y": ["a", "b"] * 5, **train}, {"y": ["a", "b"] * 5, **target}, "y", **options
    )


def column(
    train: list[Any], target: list[Any], **options: Any
) -> tuple[tuple[str, ...], list[int], list[int]]:
    coded = next(
        coded_column
        for coded_column in tables(
            {"c": train, "keep": [0, 1] * 5}, {"c": target, "keep": [0, 1] * 5}, **options
        ).columns
        if coded_column.name == "c"
    )
    return coded.values, coded.train.tolist(), coded.target.tolist()


@pytest.mark.parametrize(
    ("train", "target", "values"),
    [
        (["1", "2"] * 5, [1.0, 2.0] * 5, ("1", "2")),
        ([10, 9] * 5, ["9.0", "10"] * 5, ("9", "10")),
        ([0.5, 2] * 5, ["0.50", "2"] * 5, ("0.5", "2")),
        ([True, False] * 5, ["TRUE", "false"] * 5, ("false", "true")),
        ([" red", "blue "] * 5, ["red", "blue"] * 5, ("blue", "red")),
        (["b", "a"] * 5, ["c", "a"] * 5, ("a", "b", "c")),
        (["x", None] * 5, ["", "x"] * 5, ("x", "(missing)")),
        (["x", pandas.NA] * 5, [pandas.NaT, "x"] * 5, ("x", "(missing)")),
        ([2**70, 1] * 5, [1, 2**70] * 5, ("1", repr(float(2**70)))),
        ([1.0, float("nan")] * 5, ["NaN", "1"] * 5, ("1", "(missing)")),
    ],
)
def test_one_value_has_one_name(
    train: list[Any], target: list[Any], values: tuple[str, ...]
) -> None:
    names, train_codes, target_codes = column(train, target)
    assert names == values
    expected = [[str(cell).strip().lower() for cell in side] for side in (train, target)]
    assert len({*train_codes}) == len({*expected[0]}) and len({*target_codes}) == len(
        {*expected[1]}
    )


def test_codes_are_those_of_the_rows() -> None:
    values, train_codes, target_codes = column([3, 1, 2, 1, 1, 1, 1, 1, 1, 1], ["2"] * 9 + ["10"])
    assert values == ("1", "2", "3", "10")
    assert train_codes == [2, 0, 1, *[0] * 7] and target_codes == [1] * 9 + [3]


def test_numbers_of_many_values_are_put_into_classes_by_both_tables() -> None:
    """0 to 99 and 100 to 199 by halves: ten classes of forty halves, five of them training's, each
    value in its own."""
    train, target = np.arange(200) / 2, 100 + np.arange(200) / 2
    read = read_tables(
        {"y": [0, 1] * 100, "x": train}, {"y": [0, 1] * 100, "x": target}, "y"
    ).columns[1]
    assert len(read.values) == 10 and read.values[:2] == ("below 20", "20 to 40")
    assert np.bincount(np.concatenate([read.train, read.target])).tolist() == [40] * 10
    assert (read.train == train // 20).all() and read.target.min() == 5
    of_whole_numbers = read_tables(
        {"y": [0, 1] * 200, "x": np.arange(400) % 150}, {"y": [0], "x": [3]}, "y"
    )
    assert len(of_whole_numbers.columns[1].values) == 10 and any(
        "quantiles" in note for note in of_whole_numbers.notes
    )
    named = read_tables(
        {"y": [0, 1] * 200, "x": np.arange(400) % 150}, {"y": [0], "x": [3]}, "y", names=["x"]
    )
    assert len(named.columns[1].values) == 150


def test_a_label_of_fractions_is_put_into_classes_and_numbers_of_classes_are_told() -> None:
    """Each of hundreds of ages for a class of its own gives no tie a chance."""
    draw = np.random.default_rng(0)
    ages = draw.normal(50, 10, 400).round(1)
    old = np.where(ages > 50, "a", "b").tolist()
    audited = cw.audit({"y": ages, "x": old}, {"y": ages, "x": draw.permutation(old)}, "y")
    (column_audit,) = audited.to_json()["columns"][:1]
    assert column_audit["name"] == "x" and column_audit["cramers_v"]["train"] > 0.9
    assert {"column": "x", "kind": "spurious correlation"} in audited.to_json()["shifts"]
    read = read_tables({"y": ages, "x": old}, {"y": ages, "x": old}, "y")
    assert len(read.columns[0].values) == 10
    assert any(note.startswith("y: numbers, put into 10 classes") for note in read.notes)
    named = read_tables({"y": ages, "x": old}, {"y": ages, "x": old}, "y", names=["y"])
    assert len(named.columns[0].values) == len(np.unique(ages))
    whole_numbers = {"y": np.arange(400) % 150, "x": old}
    read = read_tables(whole_numbers, whole_numbers, "y")
    sentence = "the label 'y' has 150 different numbers, each taken for a class: where they measure"
    assert len(read.columns[0].values) == 150 and any(n.startswith(sentence) for n in read.notes)


def test_few_numbers_and_many_whole_ones_are_names() -> None:
    few = read_tables(
        {"y": [0, 1] * 50, "x": np.arange(100) % 20 / 10}, {"y": [0], "x": [0.1]}, "y"
    ).columns[1]
    assert len(few.values) == 20 and few.values[:3] == ("0", "0.1", "0.2")


def test_missing_numbers_stay_out_of_the_classes() -> None:
    values = [*(np.arange(99) / 7), None]
    read = read_tables(
        {"y": [0, 1] * 50, "x": values}, {"y": [0, 1] * 50, "x": values}, "y"
    ).columns[1]
    assert read.values[-1] == "(missing)" and (read.train == len(read.values) - 1).sum() == 1


def test_what_is_left_out_is_said() -> None:
    rows = 60
    base = {"y": ["a", "b"] * 30, "keep": [0, 1, 2] * 20}
    train = {
        **base,
        "id": [f"t{i}" for i in range(rows)],
        "number": range(5000, 5000 + rows),
        "one": ["x"] * rows,
        "mine": [1, 2] * 30,
    }
    target = {
        **base,
        "id": [f"u{i}" for i in range(rows)],
        "number": range(7000, 7000 + rows),
        "one": ["x"] * rows,
        "empty": [None] * rows,
    }
    read = read_tables({**train, "empty": [""] * rows}, target, "y")
    assert [coded_column.name for coded_column in read.columns] == ["y", "keep"]
    assert dict(read.skipped) == {
        "id": "an identifier: 120 different values in 120 rows",
        "number": "an identifier: 120 different values in 120 rows",
        "one": "has one value only",
        "mine": "only the training table has it",
        "empty": "has no value in any row",
    }


def test_names_without_end_and_nested_cells_are_left_out() -> None:
    names = [f"v{i % 1200}" for i in range(3000)]
    frame = polars.DataFrame(
        {"y": [0, 1] * 1500, "a": names, "list": [[1]] * 3000, "b": [0, 1, 2] * 1000}
    )
    read = read_tables(frame, frame, "y")
    assert [coded_column.name for coded_column in read.columns] == ["y", "b"]
    assert dict(read.skipped) == {
        "a": "1,200 different values, more than 1,000; put them into classes",
        "list": "holds list(int64) values",
    }


@pytest.mark.parametrize(("one", "other"), [("Red", "red"), ("007", "7")])
def test_values_that_may_be_one_are_left_out_until_it_is_said(one: str, other: str) -> None:
    train, target = (
        {"c": [one, "8"] * 5, "d": ["u", "v"] * 5},
        {"c": [other, "8"] * 5, "d": ["u", "v"] * 5},
    )
    why = (
        f"{one!r} and {other!r} may be one value: say so by same, or by distinct that they are not"
    )
    assert ("c", why.replace("'7' and '007'", "'007' and '7'")) in tables(train, target).skipped
    apart = tables(train, target, distinct=["c"])
    assert set(apart.columns[1].values) == {one, other, "8"}
    same = tables(train, target, same=["c"])
    assert same.columns[1].values == (("8", "Red") if one == "Red" else ("007", "8"))
    assert f"c: {one!r} and {other!r} are taken as one value (same)" in same.notes


def test_a_single_missing_number_is_missing() -> None:
    read = read_tables(
        {"y": ["a"], "x": [float("nan")]}, {"y": ["a", "b"], "x": [float("nan"), 2.5]}, "y"
    ).columns[1]
    assert (
        read.values == ("2.5", "(missing)")
        and read.train.tolist() == [1]
        and read.target.tolist() == [1, 0]
    )


def test_rows_without_a_label_are_left_out() -> None:
    train = {"y": ["a", "b", None, "a"], "x": [1, 2, 3, 1]}
    read = read_tables(train, {"y": ["a", "b"], "x": [1, 2]}, "y")
    assert [len(coded_column.train) for coded_column in read.columns] == [3, 3] and read.columns[
        1
    ].values == (
        "1",
        "2",
    )
    assert "1 of 4 rows of the training table have no label and were left out" in read.notes
    without = read_tables(train, {"y": [None, None], "x": [1, 2]}, "y")
    assert not without.labelled and [
        len(coded_column.train) for coded_column in without.columns
    ] == [4, 4]
    with pytest.raises(
        DataError, match="the label 'y' has no value in any row of the training table"
    ):
        read_tables({"y": [None, None], "x": [1, 2]}, train, "y")


def test_files_and_frames_are_read_alike(tmp_path: Path) -> None:
    frame = polars.DataFrame(
        {
            "y": ["a", "b"] * 10,
            "n": [1, 2, 3, 4] * 5,
            "t": [True, False] * 10,
            "x": [0.5, None] * 10,
        }
    )
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    forms = [
        tmp_path / "t.csv",
        str(tmp_path / "t.parquet"),
        frame,
        frame.to_pandas(),
        frame.to_dict(as_series=False),
    ]
    read = [
        [
            (coded_column.name, coded_column.values, coded_column.train.tolist())
            for coded_column in read_tables(form, frame, "y").columns
        ]
        for form in forms
    ]
    assert len(read) == 5 and all(columns_read == read[0] for columns_read in read)
    assert [values for _, values, _ in read[0]] == [
        ("a", "b"),
        ("1", "2", "3", "4"),
        ("false", "true"),
        ("0.5", "(missing)"),
    ]


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            [1, 2],
            r"train: must be a table, not \[1, 2\] \(valid: a path, a polars, pandas or Arrow frame",
        ),
        ("no.csv", "train: there is no file 'no.csv'"),
        (
            "table.txt",
            (
                r"train: 'table.txt' is no table by its name; name a table of text .csv or"
                r" .tsv \(valid: .csv, .tsv, .parquet\)"
            ),
        ),
        ({}, "the train table has no rows"),
        ({"y": [], "x": []}, "the train table has no rows"),
        (pandas.DataFrame([[1, 2]], columns=["y", "y"]), "the train frame names column 'y' twice"),
        ({"y": [[1], [2]], "x": [1, 2]}, "the label 'y' holds list"),
        ({"y": [1, 2], "x": [1]}, "column 'x' of the train frame has 1 rows, and 'y' has 2"),
        ({"y": 3}, "train: column 'y' must be a list of values, a row each, not 3"),
    ],
)
def test_tables_that_are_none(train: Any, message: str) -> None:
    with pytest.raises((InputError, DataError), match=message):
        read_tables(train, {"y": [1, 2], "x": [1, 2]}, "y")


def test_an_unknown_label_names_the_nearest() -> None:
    with pytest.raises(
        InputError,
        match="label: unknown column of the training table 'specie', did you mean 'species'",
    ):
        read_tables({"species": [1], "x": [2]}, {"species": [1], "x": [2]}, "specie")
    long_table = {"y": range(3000), "x": [1, 2] * 1500}
    with pytest.raises(
        DataError, match="the label 'y' has 3,000 different values, and an audit is of classes"
    ):
        read_tables(long_table, long_table, "y")
