"""Exported networks with an input for each column of a table, of texts, numbers and true or false:
what reaches each input is what stands in the table."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import polars
import pytest
from onnx import TensorProto, helper

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError, DataError
from crosswind.core.types import InputColumn
from crosswind.models.given.onnx_values import named_inputs
from crosswind.storage.store import Store

N = 120
FEW = {"estimators": ["atc-mc"], "pool_rows": 0, "label": "ill"}
WEIGHT_OF = {"site": 4.0, "pressure": 1.0, "smokes": 2.0}
"""Of north (south: minus), of the number itself, and of true."""


def patients(seed: int) -> dict[str, list[Any]]:
    draw = np.random.default_rng(seed)
    site = draw.choice(["north", "south"], N).tolist()
    pressure = draw.normal(0, 2, N).round(3).tolist()
    smokes = draw.choice([True, False], N).tolist()
    ill = ["yes" if score > 0 else "no" for score in scores(site, pressure, smokes)]
    return {"smokes": smokes, "site": site, "ill": ill, "pressure": pressure}


def scores(site: list[str], pressure: list[float], smokes: list[bool]) -> list[float]:
    return [
        {"north": 4.0, "south": -4.0}.get(where, 0.0) + number + 2.0 * smoker
        for where, number, smoker in zip(site, pressure, smokes, strict=True)
    ]


NEW, KNOWN = patients(1), patients(2)


def exported(path: Path, north: str = "north", number: int = TensorProto.FLOAT) -> str:
    """A linear classifier with an input a column, which knows the texts `north` and south."""
    kinds = {"site": TensorProto.STRING, "pressure": number, "smokes": TensorProto.BOOL}
    inputs = [helper.make_tensor_value_info(name, kind, [None, 1]) for name, kind in kinds.items()]
    ml = {"domain": "ai.onnx.ml"}
    encoder = {
        "keys_strings": [north, "south"],
        "values_floats": [1.0, -1.0],
        "default_float": 0.0,
    }
    classifier = {
        "coefficients": [-weight for weight in WEIGHT_OF.values()] + [*WEIGHT_OF.values()],
        "intercepts": [0.0, 0.0],
        "classlabels_strings": ["no", "yes"],
        "post_transform": "SOFTMAX",
    }
    nodes = [
        helper.make_node("LabelEncoder", ["site"], ["site_"], **encoder, **ml),
        helper.make_node("Cast", ["pressure"], ["pressure_"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["smokes"], ["smokes_"], to=TensorProto.FLOAT),
        helper.make_node("Concat", [f"{name}_" for name in kinds], ["X"], axis=1),
        helper.make_node("LinearClassifier", ["X"], ["label", "scores"], **classifier, **ml),
    ]
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING, [None]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, 2]),
    ]
    graph = helper.make_graph(nodes, "linear", inputs, outputs)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 2)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


def as_csv(tmp_path: Path, table: dict[str, list[Any]], name: str) -> str:
    polars.DataFrame(table).write_csv(tmp_path / name)
    return str(tmp_path / name)


@pytest.mark.parametrize("form", ["mapping", "polars", "pandas", "file"])
def test_texts_numbers_and_truths_reach_their_inputs(tmp_path: Path, form: str) -> None:
    """The label is the network's own answer, so that every row is right where all columns are."""
    forms: dict[str, Any] = {
        "mapping": dict,
        "polars": polars.DataFrame,
        "pandas": pytest.importorskip("pandas").DataFrame,
    }
    if form == "file":
        new, known = as_csv(tmp_path, NEW, "new.csv"), as_csv(tmp_path, KNOWN, "known.csv")
    else:
        new, known = forms[form](NEW), forms[form](KNOWN)
    estimates = cw.estimate(exported(tmp_path / "m.onnx"), new, known, **FEW)
    assert estimates.source_accuracy == 1.0
    turned = dict(reversed(KNOWN.items()))
    assert cw.estimate(exported(tmp_path / "m.onnx"), NEW, turned, **FEW).source_accuracy == 1.0


def test_columns_of_other_names_are_read_in_the_order_that_is_chosen(tmp_path: Path) -> None:
    model = exported(tmp_path / "m.onnx")
    other_names = {"site": "smokes", "pressure": "where", "smokes": "mmHg", "ill": "ill"}
    known = {other_names[name]: cells for name, cells in KNOWN.items()}
    new = {other_names[name]: cells for name, cells in NEW.items()}
    order = [other_names[name] for name in WEIGHT_OF]
    assert cw.estimate(model, new, known, columns=order, **FEW).source_accuracy == 1.0


def test_texts_reach_the_network_as_they_stand(tmp_path: Path) -> None:
    """A blank before a text is a part of it, as in files whose commas have blanks behind them: a
    network that was fitted on such texts knows no others."""
    blank = {**KNOWN, "site": [f" {text}" if text == "north" else text for text in KNOWN["site"]]}
    knows_blank = exported(tmp_path / "blank.onnx", north=" north")
    assert cw.estimate(knows_blank, NEW, blank, **FEW).source_accuracy == 1.0
    of_others = [
        ("yes" if score > 0 else "no") == label
        for score, label in zip(
            scores(blank["site"], KNOWN["pressure"], KNOWN["smokes"]), KNOWN["ill"], strict=True
        )
    ]
    knows_none = exported(tmp_path / "m.onnx")
    estimates = cw.estimate(knows_none, NEW, blank, **FEW)
    assert estimates.source_accuracy == pytest.approx(np.mean(of_others))
    assert np.mean(of_others) < 1


def test_a_column_of_ever_other_texts_needs_no_more_memory(tmp_path: Path) -> None:
    texts = [f"{text} {row}" for row, text in enumerate(KNOWN["site"])]
    of_texts = {**KNOWN, "site": texts}
    estimates = cw.estimate(exported(tmp_path / "m.onnx"), NEW, of_texts, **FEW)
    assert estimates.n == N


def refusals() -> list[tuple[dict[str, list[Any]], str]]:
    def with_first(column: str, *cells: Any) -> dict[str, list[Any]]:
        return {**KNOWN, column: [*cells, *KNOWN[column][len(cells) :]]}

    return [
        (
            with_first("site", "north", None, None),
            "the frame of source, column 'site', row 2: no text, and m.onnx reads one there; fill it"
            " or leave out 2 such rows",
        ),
        (
            {**KNOWN, "site": [["north"]] * N},
            "the frame of source, column 'site' holds list(string) values",
        ),
        (
            {**KNOWN, "smokes": [2] * N},
            "m.onnx, input 'smokes', takes true or false (tensor(bool)), and 2 is neither",
        ),
        (
            {**KNOWN, "smokes": [None, *KNOWN["smokes"][1:]]},
            "m.onnx, input 'smokes', takes true or false (tensor(bool)), and nan is neither",
        ),
        (with_first("pressure", "high"), "column 'pressure', row 1: 'high' is no number"),
        (
            {name: cells for name, cells in KNOWN.items() if name != "site"},
            "source: the frame of source lacks 1 of the 3 columns that m.onnx reads, 'site'",
        ),
    ]


def test_what_cannot_reach_an_input_is_one_sentence(tmp_path: Path) -> None:
    model = exported(tmp_path / "m.onnx")
    cases = refusals()
    for known, sentence in cases:
        with pytest.raises(CrosswindError) as raised:
            cw.estimate(model, NEW, polars.DataFrame(known, strict=False), **FEW)
        assert sentence in str(raised.value) and "\n" not in str(raised.value), str(raised.value)
    assert len(cases) == 6


@pytest.mark.usefixtures("in_this_process")
def test_a_study_asks_it_on_numbers_and_categories(tmp_path: Path) -> None:
    """The columns of a source are found by the names of the inputs, whatever their order."""
    table = as_csv(tmp_path, {**KNOWN, "ward": ["a", "b"] * (N // 2)}, "known.csv")
    study = {
        "name": "patients",
        "data": {
            "patients": {
                "source": "table",
                "options": {
                    "path": table,
                    "numbers": ["pressure"],
                    "categories": ["smokes", "site"],
                },
                "label": "ill",
                "attributes": ["ward"],
                "roles": {"test": 2},
            }
        },
        "shifts": {"none": []},
        "models": {"theirs": {"model": "onnx", "path": exported(tmp_path / "m.onnx")}},
        "methods": ["erm"],
        "seeds": 1,
    }
    out = tmp_path / "out"
    (tmp_path / "study.yaml").write_text(json.dumps(study), encoding="utf-8")
    assert _status(["run", str(tmp_path / "study.yaml"), "--out", str(out)]) == 0
    with Store.open(out) as store:
        accuracies = {row["metrics"]["accuracy"] for row in store.results("patients")}
    assert accuracies == {1.0}


def test_a_category_reaches_an_input_of_numbers_as_the_number_that_it_is() -> None:
    columns = [InputColumn("grade", ("1", "2.5")), InputColumn("site", ("a", "b", "c"))]
    x = np.array([[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]], dtype=np.float32)
    inputs = [_input("site", "tensor(string)"), _input("grade", "tensor(double)")]
    by_name = named_inputs(x, inputs, None, "m.onnx", columns)
    assert by_name["grade"].tolist() == [[1.0], [2.5]] and by_name["grade"].dtype == np.float64
    assert by_name["site"].tolist() == [["c"], ["a"]]
    with pytest.raises(DataError, match="'site', takes numbers .tensor.float.., and column 'site'"):
        named_inputs(x, [_input("site", "tensor(float)"), inputs[1]], None, "m.onnx", columns)
    x[1] = 0
    with pytest.raises(DataError, match="needs a value, and a row here has none of column 'site'"):
        named_inputs(x, inputs, None, "m.onnx", columns)


def test_a_position_between_two_texts_is_none() -> None:
    columns = [InputColumn("site", ("a", "b"), coded=True), InputColumn("age")]
    inputs = [_input("site", "tensor(string)"), _input("age", "tensor(int64)")]
    x = np.array([[1, 30], [0.0, 40]], dtype=np.float32)
    by_name = named_inputs(x, inputs, None, "m.onnx", columns)
    assert by_name["site"].tolist() == [["b"], ["a"]] and by_name["age"].tolist() == [[30], [40]]
    for position in (0.4, 2.0, -1.0, np.nan):
        x[0, 0] = position
        with pytest.raises(DataError, match="a row here has none of column 'site'"):
            named_inputs(x, inputs, None, "m.onnx", columns)


def _input(name: str, kind: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, type=kind, shape=[None, 1])
