"""Frames as programs have them: every way in which a column holds numbers, texts or nothing."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.data.frames import frame_of
from crosswind.data.table_inputs import are_dates

N = 60
VALUES = [round(float(value), 3) for value in np.random.default_rng(0).normal(0, 1, N)]
LABELS = ["sick" if value > 0 else "well" for value in VALUES]
Holders = dict[str, Callable[[list[Any]], Any]]

NUMBERS: Holders = {
    "list of NumPy's scalars": lambda values: list(np.array(values)),
    "array": np.array,
    "array float32": lambda values: np.array(values, dtype=np.float32),
    "masked array": lambda values: np.ma.masked_array(values, mask=[False] * N),
    "array of objects": lambda values: np.array(values, dtype=object),
    "tuple": tuple,
    "range of ints": lambda values: [7 * int(1000 * value) for value in values],
    "ints and floats": lambda values: [0, 1, *values[2:]],
    "decimals": lambda values: [decimal.Decimal(str(value)) for value in values],
    "pandas, with NA": lambda values: pandas.array([None, *values[1:]], dtype="Float64"),
    "pandas Int64 with NA": lambda values: pandas.array(
        [None, *(int(1000 * value) for value in values[1:])], dtype="Int64"
    ),
    "pandas of objects": lambda values: pandas.Series(values, dtype=object),
    "pandas sparse": lambda values: pandas.arrays.SparseArray(values),
    "pandas of Arrow": lambda values: pandas.array(
        values, dtype=pandas.ArrowDtype(pyarrow.float64())
    ),
    "polars": polars.Series,
    "texts": lambda values: [str(value) for value in values],
    "bytes": lambda values: [str(value).encode() for value in values],
    "beyond int64": lambda values: [10**20 + int(1e20 * value) for value in values],
}


@pytest.mark.parametrize("holder", list(NUMBERS))
def test_numbers_are_numbers_whatever_holds_them(holder: str) -> None:
    """One column of a model's inputs, and not one for each different number."""
    data = cw.from_frame({"dose": NUMBERS[holder](VALUES), "label": LABELS}, label="label")
    (column,) = data.input_columns
    assert (column.name, column.values) == ("dose", None)
    assert data.inputs(np.arange(N)).shape == (N, 1)


def test_a_masked_or_missing_number_is_missing() -> None:
    masked = np.ma.masked_array(VALUES, mask=[True] + [False] * (N - 1))
    columns = {
        "masked": masked,
        "nan": [float("nan"), *VALUES[1:]],
        "na": pandas.array([None, *VALUES[1:]], dtype="Float64"),
        "none": [None, *VALUES[1:]],
        "numpy": np.array([np.nan, *VALUES[1:]]),
    }
    frame = frame_of(columns, "frame")
    for name in columns:
        assert frame[name].to_list() == [None, *VALUES[1:]], name
    inputs = cw.from_frame({**columns, "label": LABELS}, label="label").inputs(np.arange(N))
    assert np.isnan(inputs[0]).all() and not np.isnan(inputs[1:]).any()


TEXTS: Holders = {
    "bytes": lambda values: [value.encode() for value in values],
    "bytes and texts": lambda values: [values[0].encode(), *values[1:]],
    "array of bytes": lambda values: np.array(values).astype("S"),
    "NumPy's texts": np.array,
    "pandas string": lambda values: pandas.array(values, dtype="string"),
    "pandas category": lambda values: pandas.Categorical(values, categories=["z", *set(values)]),
    "polars of bytes": lambda values: polars.Series(values).cast(polars.Binary),
    "polars enum": lambda values: polars.Series(values).cast(polars.Enum(["z", *set(values)])),
}


@pytest.mark.parametrize("holder", list(TEXTS))
def test_texts_are_texts_whatever_holds_them(holder: str) -> None:
    frame = frame_of({"label": TEXTS[holder](LABELS)}, "frame")
    assert frame["label"].cast(polars.String).to_list() == LABELS


def test_texts_in_bytes_of_a_file_and_of_other_frames_are_texts(tmp_path: Any) -> None:
    """As some programs write Parquet."""
    frame = polars.DataFrame({"label": LABELS, "dose": VALUES})
    in_bytes = frame.with_columns(polars.col("label").cast(polars.Binary))
    in_bytes.write_parquet(tmp_path / "t.parquet")
    for table in (in_bytes, in_bytes.to_arrow()):
        assert frame_of(table, "frame")["label"].to_list() == LABELS
    audit = cw.audit(str(tmp_path / "t.parquet"), frame, label="label")
    assert "SHIFT" not in str(audit)
    with pytest.raises(DataError, match=r"column 'label' holds binary values"):
        cw.from_frame({"label": [b"\xff", b"\xfe"] * 30, "dose": VALUES}, label="label")


UNREAD: dict[str, tuple[Callable[[], Any], str]] = {
    "days": (
        lambda: [datetime.date(2020, 1, 1) + datetime.timedelta(i) for i in range(N)],
        "dates or times",
    ),
    "days of pandas": (lambda: pandas.date_range("2020-01-01", periods=N), "dates or times"),
    "days with a zone": (
        lambda: pandas.date_range("2020-01-01", periods=N, tz="UTC"),
        "dates or times",
    ),
    "spans": (lambda: [datetime.timedelta(hours=i) for i in range(N)], "dates or times"),
    "spans of pandas": (lambda: pandas.to_timedelta(np.arange(N), unit="h"), "dates or times"),
    "days of polars": (
        lambda: polars.Series([datetime.date(2020, 1 + i // 28, 1 + i % 28) for i in range(N)]),
        "dates or times",
    ),
    "days of two rows each": (
        lambda: pandas.date_range("2020-01-01", periods=N // 2).repeat(2),
        "dates or times",
    ),
    "days in words": (
        lambda: pandas.date_range("2020-01-01", periods=N // 2).repeat(2).strftime("%d %b %Y"),
        "dates or times",
    ),
    "months": (
        lambda: (
            pandas.date_range("2000-01-01", periods=N // 2, freq="MS").repeat(2).strftime("%Y-%m")
        ),
        "dates or times",
    ),
    "times of day": (
        lambda: [f"{i // 4:02}:{15 * (i % 4):02}" for i in range(N)],
        "dates or times",
    ),
    "names": (lambda: [str(uuid.UUID(int=i)) for i in range(N)], "60 different values in 60 rows"),
    "an index": (lambda: range(N), "numbers the rows"),
    "an index of texts": (lambda: [str(i) for i in range(N)], "numbers the rows"),
}


@pytest.mark.parametrize("kind", list(UNREAD))
def test_a_column_that_no_model_learns_from_is_no_input_unasked(kind: str) -> None:
    """A category of every day, or of every patient, is learnt by heart."""
    make, why = UNREAD[kind]
    columns = {"dose": VALUES, "site": ["a", "b"] * (N // 2), "when": make(), "label": LABELS}
    with pytest.raises(InputError) as refused:
        cw.from_frame(columns, label="label")
    assert str(refused.value) == (
        f"numbers: no model learns from 'when' ({why}) as it stands: name the inputs, such as"
        " numbers=['dose'], categories=['site'], or drop the column"
    )
    chosen_data = cw.from_frame(
        columns, label="label", numbers=["dose"], categories=["site"], columns=["label"]
    )
    assert [column.name for column in chosen_data.input_columns] == ["dose", "site"]


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (lambda frame: frame.lazy(), "; collect it first: .collect() (valid: a polars, pandas or"),
        (lambda frame: frame.to_pandas()["dose"], ", which is one column; .to_frame() makes"),
        (lambda frame: frame.to_dicts(), "; pandas.DataFrame(...) or polars.DataFrame(...) makes"),
        (
            lambda frame: frame.to_pandas().to_records(),
            "; pandas.DataFrame.from_records(...) makes",
        ),
        (lambda frame: {"dose": set(VALUES)}, "column 'dose' must be a list of values, a row each"),
        (lambda frame: {"dose": VALUES, "label": LABELS[1:]}, "column 'label' of the frame has 59"),
        (
            lambda frame: pandas.concat([frame.to_pandas()] * 2, axis=1),
            "the frame names column 'dose' twice; rename or drop one",
        ),
    ],
)
def test_what_is_no_frame_is_refused_with_what_makes_one_of_it(table: Any, sentence: str) -> None:
    frame = polars.DataFrame({"dose": VALUES, "label": LABELS})
    with pytest.raises(CrosswindError) as refused:
        frame_of(table(frame), "frame")
    assert sentence in str(refused.value)


def test_a_column_without_a_name_is_called_by_its_number() -> None:
    frame = pandas.DataFrame({"dose": VALUES, "": VALUES, "label": LABELS})
    assert frame_of(frame, "frame").columns == ["dose", "column2", "label"]


def test_levels_of_an_index_whose_values_repeat_are_columns() -> None:
    sites = ["a", "b"] * (N // 2)
    frame = pandas.DataFrame({"dose": VALUES, "label": LABELS, "site": sites, "row": range(N)})
    of_index = frame_of(frame.set_index(["row", "site"]), "frame")
    assert set(of_index.columns) == {"dose", "label", "site"}
    assert of_index["site"].to_list() == sites
    data = cw.from_frame(frame.drop(columns="row").set_index("site"), label="label")
    assert [column.name for column in data.input_columns] == ["dose", "site"]
    data = cw.from_frame(frame.drop(columns="row").set_index("label"), label="label")
    assert data.attribute("label").values == tuple(sorted(set(map(str, LABELS))))
    # A name without values that repeat, and no name, only tell rows apart.
    assert "row" not in frame_of(frame.set_index("row"), "frame").columns
    assert frame_of(frame, "frame").columns == ["dose", "label", "site", "row"]


@pytest.mark.parametrize(
    ("text", "is_date"),
    [
        *((text, True) for text in ("2024-01-31", "31.1.24", "1/2/2024 10:00", "2024-01", "17:05")),
        *((text, True) for text in ("5:05 pm", "31 Jan 2024", "January 31, 2024", "Jan-24")),
        *((text, True) for text in ("31-Jan-24", "Dec. 2020", "5 June 2020 10:00", "10:00:05.5")),
        *(
            (text, False)
            for text in ("may", "March", "maybe 20", "marker 12", "12.5", "1-2", "2024")
        ),
        *((text, False) for text in ("3/4", "2024-13", "a-b", "decent 20", "version 1.2", "")),
    ],
)
def test_dates_are_told_from_other_words(text: str, is_date: bool) -> None:
    assert are_dates(polars.Series([text])) == is_date
