"""Models that read numbers, asked about tables: an exported file of ONNX or skops and a fitted
estimator, on frames, arrays and CSV files, with the columns that each reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas
import polars
import pytest
import skops.io
from onnx import TensorProto, helper
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError

COLUMNS = ["blood pressure", "age"]
WEIGHTS = ([-1.0, 0.0], [1.0, 0.0])
"""Ill is whose blood pressure is positive; age says nothing, so that another order is wrong."""
FEW = {"estimators": ["atc-mc"], "pool_rows": 0, "label": "ill"}


def patients(seed: int, n: int = 200) -> pandas.DataFrame:
    draw = np.random.default_rng(seed)
    pressure = draw.normal(0, 2, n).round(3)
    ill = np.where(pressure + draw.normal(0, 1, n) > 0, "yes", "no")
    age = draw.integers(20, 90, n)
    site = np.where(np.arange(n) % 3, "north", "south")
    return pandas.DataFrame(
        {"site": site, **dict(zip(COLUMNS, (pressure, age), strict=True)), "ill": ill}
    )


NEW, KNOWN = patients(1), patients(2)
RIGHT = ((KNOWN["blood pressure"] > 0) == (KNOWN["ill"] == "yes")).mean()


def exported(
    path: Path, inputs: dict[str, int] | None = None, mappings: bool = True, width: int = 2
) -> str:
    """A linear classifier as converters of scikit-learn write it: of one tensor [n, width], or of a
    column for each of `inputs` (name -> kind); its second output is a mapping a row, or an array."""
    nodes = []
    if inputs is None:
        first = [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, width])]
    else:
        first = [
            helper.make_tensor_value_info(name, kind, [None, 1]) for name, kind in inputs.items()
        ]
        numbers = [name for name, kind in inputs.items() if kind != TensorProto.STRING]
        for name in numbers:
            nodes.append(helper.make_node("Cast", [name], [f"{name}_"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Concat", [f"{name}_" for name in numbers], ["X"], axis=1))
    settings = {
        "coefficients": [weight for row in WEIGHTS for weight in row[:width]],
        "intercepts": [0.0, 0.0],
        "classlabels_strings": ["no", "yes"],
        "post_transform": "SOFTMAX",
    }
    ml = {"domain": "ai.onnx.ml"}
    nodes.append(helper.make_node("LinearClassifier", ["X"], ["label", "scores"], **settings, **ml))
    label = helper.make_tensor_value_info("label", TensorProto.STRING, [None])
    if mappings:
        names = {"classlabels_strings": ["no", "yes"]}
        nodes.append(helper.make_node("ZipMap", ["scores"], ["probabilities"], **names, **ml))
        row = helper.make_map_type_proto(
            TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        )
        last = helper.make_value_info("probabilities", helper.make_sequence_type_proto(row))
    else:
        last = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, 2])
    graph = helper.make_graph(nodes, "linear", first, [label, last])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


def as_csv(tmp_path: Path, frame: pandas.DataFrame, name: str) -> str:
    frame.to_csv(tmp_path / name, index=False)
    return str(tmp_path / name)


def as_polars(frame: pandas.DataFrame) -> polars.DataFrame:
    return polars.DataFrame(frame.to_dict("list"))


FORMS = {
    "pandas": lambda tmp_path: (NEW, KNOWN),
    "polars": lambda tmp_path: (as_polars(NEW), as_polars(KNOWN)),
    "arrow": lambda tmp_path: (as_polars(NEW).to_arrow(), as_polars(KNOWN).to_arrow()),
    "mapping": lambda tmp_path: (NEW.to_dict("list"), KNOWN.to_dict("list")),
    "file": lambda tmp_path: (
        as_csv(tmp_path, NEW, "new.csv"),
        as_csv(tmp_path, KNOWN, "known.csv"),
    ),
    "file and frame": lambda tmp_path: (as_csv(tmp_path, NEW, "new.csv"), KNOWN),
    "array": lambda tmp_path: (NEW[COLUMNS].to_numpy(), (KNOWN[COLUMNS].to_numpy(), KNOWN["ill"])),
}
TWO_INPUTS = {"blood_pressure": TensorProto.FLOAT, "age": TensorProto.INT64}


@pytest.mark.parametrize("inputs", [None, TWO_INPUTS])
@pytest.mark.parametrize("form", FORMS)
def test_an_exported_classifier_is_asked_on_tables(
    tmp_path: Path, form: str, inputs: dict[str, int] | None
) -> None:
    """Blanks of a column's name are underscores in the name of an input."""
    if form == "arrow":
        pytest.importorskip("pyarrow")
    model = exported(tmp_path / "m.onnx", inputs, mappings=form != "polars")
    estimates = cw.estimate(model, *FORMS[form](tmp_path), **FEW)
    assert estimates.source_accuracy == pytest.approx(RIGHT) and estimates.n == 200
    says_order = any("m.onnx does not name the columns" in note for note in estimates.notes)
    assert says_order == (inputs is None)
    unread = [note for note in estimates.notes if "does not read 'site'." in note]
    assert len(unread) == (0 if form == "array" else 2)


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (
            "jitter",
            "it learns from changed copies of labelled rows, and vectors of numbers have no pool of"
            " changes; in a study it ranks networks",
        ),
        ("rotate", "its neighbours are changed images"),
        ("eda", "its neighbours are changed texts"),
    ],
)
def test_neighbours_of_numbers_make_no_accuracy_without_a_pool(
    tmp_path: Path, transform: str, why: str
) -> None:
    settings = {**FEW, "estimators": {"ni": {"transform": transform}, "atc-mc": {}}}
    estimates = cw.estimate(exported(tmp_path / "m.onnx"), *FORMS["file"](tmp_path), **settings)
    assert dict(estimates.left_out) == {"ni": why}
    assert [row.estimator for row in estimates.rows] == ["atc-mc"]


def fitted(kind: str) -> Any:
    if kind == "by names":
        return LogisticRegression().fit(KNOWN[COLUMNS], KNOWN["ill"])
    if kind == "by number":
        return LogisticRegression().fit(KNOWN[COLUMNS].to_numpy(), KNOWN["ill"])
    categories = ColumnTransformer(
        [("n", StandardScaler(), COLUMNS), ("c", OneHotEncoder(), ["site"])]
    )
    return make_pipeline(categories, LogisticRegression()).fit(
        KNOWN[[*COLUMNS, "site"]], KNOWN["ill"]
    )


@pytest.mark.parametrize("kind", ["by names", "by number", "with categories"])
@pytest.mark.parametrize("form", [form for form in FORMS if form != "array"])
def test_a_fitted_estimator_is_asked_on_the_columns_that_it_knows(
    tmp_path: Path, form: str, kind: str
) -> None:
    if form == "arrow":
        pytest.importorskip("pyarrow")
    if kind == "by number" and "file" in form:
        pytest.skip("is asked as a function of numbers: see the next test")
    estimator = fitted(kind)
    skops.io.dump(estimator, tmp_path / "m.skops")
    inputs = KNOWN[[*COLUMNS, "site"] if kind == "with categories" else COLUMNS]
    if kind == "by number":
        inputs = inputs.to_numpy()
    right = (estimator.predict(inputs) == KNOWN["ill"]).mean()
    for model in (estimator, tmp_path / "m.skops"):
        estimates = cw.estimate(model, *FORMS[form](tmp_path), **FEW)
        assert estimates.source_accuracy == pytest.approx(right)


def test_an_estimator_of_arrays_reads_the_numbers_of_a_file(tmp_path: Path) -> None:
    estimator = fitted("by number")
    estimates = cw.estimate(estimator, *FORMS["file"](tmp_path), **FEW)
    right = (estimator.predict(KNOWN[COLUMNS].to_numpy()) == KNOWN["ill"]).mean()
    assert estimates.source_accuracy == pytest.approx(right)


@pytest.mark.parametrize("kind", ["by names", "with categories"])
def test_the_order_of_columns_with_names_does_not_count(kind: str) -> None:
    estimator = fitted(kind)
    straight = cw.estimate(estimator, NEW, KNOWN, **FEW)
    turned = cw.estimate(estimator, NEW[NEW.columns[::-1]], KNOWN[KNOWN.columns[::-1]], **FEW)
    assert [row.estimate for row in turned.rows] == [row.estimate for row in straight.rows]


def test_columns_without_names_are_taken_in_the_order_that_is_chosen(tmp_path: Path) -> None:
    model = exported(tmp_path / "m.onnx")
    turned = KNOWN[KNOWN.columns[::-1]]
    assert cw.estimate(model, NEW, turned, **FEW).source_accuracy < RIGHT - 0.1
    chosen = cw.estimate(model, NEW, turned, columns=COLUMNS, **FEW)
    assert chosen.source_accuracy == pytest.approx(RIGHT)
    assert not any("does not name the columns" in note for note in chosen.notes)


def refusals(tmp_path: Path) -> list[tuple[Any, Any, Any, dict[str, Any], str]]:
    one_tensor, input_each = (
        exported(tmp_path / "one.onnx"),
        exported(tmp_path / "two.onnx", TWO_INPUTS),
    )
    texts = exported(tmp_path / "texts.onnx", {**TWO_INPUTS, "site": TensorProto.STRING})
    names = fitted("by names")
    more = KNOWN.assign(id=np.arange(200))
    blank = KNOWN.assign(age="old")
    fractions = KNOWN.assign(age=KNOWN["age"] + 0.5)
    renamed = NEW.rename(columns={"age": "years"})
    has = "; it has 'site', 'blood pressure', 'years', 'ill': rename them, or name them by columns"
    return [
        (
            one_tensor,
            NEW,
            more,
            {},
            "source: one.onnx reads 2 numbers, and the frame of source has 3 columns"
            " of numbers beside its label ('blood pressure', 'age', 'id'); name those that the model"
            " reads by columns",
        ),
        (
            one_tensor,
            NEW[["age", "ill"]],
            None,
            {"classes": ["no", "yes"]},
            "data: one.onnx reads 2 numbers, and the"
            " frame of data has 1 column of numbers beside its label ('age')",
        ),
        (
            one_tensor,
            NEW,
            blank,
            {},
            "has 1 column of numbers beside its label ('blood pressure'); no numbers are in 'site', 'age'",
        ),
        (
            input_each,
            renamed,
            KNOWN,
            {},
            f"data: the frame of data lacks 1 of the 2 columns that two.onnx reads, 'age'{has}",
        ),
        (
            input_each,
            NEW,
            blank,
            {},
            "the frame of source, column 'age', row 1: 'old' is no number",
        ),
        (
            input_each,
            NEW,
            fractions,
            {},
            "two.onnx, input 'age', takes whole numbers (tensor(int64)), and",
        ),
        (
            texts,
            NEW.assign(site=None),
            KNOWN,
            {},
            "data, column 'site', row 1: no text, and texts.onnx reads one there; fill it or leave"
            " out 200 such rows",
        ),
        (
            names,
            renamed,
            KNOWN,
            {},
            "data: the frame of data lacks 1 of the 2 columns that"
            f" LogisticRegression reads, 'age'{has}",
        ),
        (
            names,
            NEW,
            blank,
            {},
            "LogisticRegression fails on source (ValueError: could not convert"
            " string to float: 'old'); of the 2 columns that it reads 'age' holds no numbers",
        ),
        (names, "new.txt", KNOWN, {}, "data: 'new.txt' is no folder, no .csv or .tsv or .parquet"),
        (
            names,
            NEW,
            "known.txt",
            {},
            "source: 'known.txt' is no table, and the model was fitted on",
        ),
        (
            one_tensor,
            NEW,
            KNOWN,
            {"columns": ["age"]},
            "columns: names 1, and one.onnx reads 2 numbers",
        ),
        (
            one_tensor,
            NEW,
            KNOWN,
            {"columns": ["age", "bp"]},
            "columns: unknown column of the frame of",
        ),
        (
            one_tensor,
            NEW,
            (KNOWN[COLUMNS], ["yes"]),
            {},
            "source: has 200 rows of inputs and 1 labels",
        ),
        (
            one_tensor,
            NEW,
            KNOWN[COLUMNS].to_numpy(),
            {},
            "source: must be a frame with a column of labels",
        ),
        (
            one_tensor,
            np.zeros((3, 2, 2)),
            KNOWN,
            {},
            "data: must be a frame or an array of numbers [n, d],",
        ),
        (
            input_each,
            NEW.assign(**{"blood-pressure": 1.0}),
            KNOWN,
            {},
            "data: two.onnx reads 'blood_pressure', and the frame of data has 'blood pressure',"
            " 'blood-pressure': rename one",
        ),
    ]


def test_what_cannot_be_asked_is_one_sentence_with_columns_and_remedy(tmp_path: Path) -> None:
    cases = refusals(tmp_path)
    for model, data, known, settings, words in cases:
        with pytest.raises(CrosswindError) as error:
            cw.estimate(model, data, known, **{**FEW, **settings})
        assert words in str(error.value) and "\n" not in str(error.value), str(error.value)
    assert len(cases) == 17


def test_the_command_reads_tables_of_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = exported(tmp_path / "m.onnx")
    new, known = FORMS["file"](tmp_path)
    command = [
        "estimate",
        "--model",
        model,
        "--source",
        known,
        "--label",
        "ill",
        "--pool-rows",
        "0",
    ]
    command += ["--estimators", "atc-mc", "--data"]
    assert _status([*command, new]) == 0
    printed = capsys.readouterr().out
    assert f"{RIGHT:.1%} of the answers are right" in printed
    assert "those of known.csv in their order, 'blood pressure', 'age'." in printed
    assert _status([*command, new, "--columns", "age,blood pressure"]) == 0
    assert f"{RIGHT:.1%}" not in capsys.readouterr().out
    fewer = as_csv(tmp_path, NEW[["site", "age"]], "fewer.csv")
    assert _status([*command, fewer]) == 2
    refusal = capsys.readouterr().err
    assert (
        "--data: fewer.csv lacks 1 of the 2 columns that m.onnx reads, 'blood pressure'" in refusal
    )
