"""Networks as they are exported: kinds of numbers, batches of a fixed size, outputs of many
forms."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError
from crosswind.core.types import InputSpec
from crosswind.models.given.onnx import Onnx
from crosswind.models.given.onnx_values import as_input, filled, fixed_rows, read_outputs

LEVELS = (40, 200)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dark and bright pictures of 4 x 4 pixels, of which one in ten is in the wrong folder; 21
    without labels."""
    levels_folder = tmp_path_factory.mktemp("levels")
    for code, name in enumerate(("dark", "light")):
        (levels_folder / "known" / name).mkdir(parents=True)
        for row in range(20):
            level = LEVELS[code if row % 10 else 1 - code] + row
            Image.fromarray(np.full((4, 4), level, dtype=np.uint8)).save(
                levels_folder / "known" / name / f"{row}.png"
            )
    (levels_folder / "new").mkdir()
    for row in range(21):
        Image.fromarray(np.full((4, 4), LEVELS[row % 2], dtype=np.uint8)).save(
            levels_folder / "new" / f"{row}.png"
        )
    return levels_folder


def network(
    path: Path,
    kind: int = TensorProto.FLOAT,
    rows: Any = "n",
    outputs: tuple[str, ...] = ("logits",),
    by: float = 1,
    sides: tuple[Any, ...] = (3, 4, 4),
    weights: str = "",
) -> str:
    """A network that calls a picture light where its mean, times `by`, is above 120; `outputs` in
    their order. `weights`: the file beside it that holds `by`."""
    output_forms = {
        "logits": (TensorProto.FLOAT, [rows, 2]),
        "probabilities": (TensorProto.FLOAT, [rows, 2]),
        "label": (TensorProto.INT64, [rows]),
        "features": (TensorProto.FLOAT, [rows, 2]),
        "more": (TensorProto.FLOAT, [rows, 2]),
    }
    constants = [
        helper.make_node(
            "Constant", [], ["middle"], value=helper.make_tensor("", TensorProto.FLOAT, [1], [120])
        ),
        helper.make_node(
            "Constant", [], ["to"], value=helper.make_tensor("", TensorProto.INT64, [2], [-1, 1])
        ),
    ]
    nodes = [
        *constants,
        helper.make_node("Cast", ["x"], ["floating"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floating", "by"], ["level"]),
        helper.make_node("ReduceMean", ["level"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Reshape", ["mean", "to"], ["column"]),
        helper.make_node("Sub", ["column", "middle"], ["light"]),
        helper.make_node("Neg", ["light"], ["dark"]),
        helper.make_node("Concat", ["dark", "light"], ["logits"], axis=1),
        helper.make_node("Concat", ["light", "dark"], ["features"], axis=1),
        helper.make_node("Concat", ["light", "dark"], ["more"], axis=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0),
    ]
    first = helper.make_tensor_value_info("x", kind, [rows, *sides])
    last = [helper.make_tensor_value_info(name, *output_forms[name]) for name in outputs]
    factor = numpy_helper.from_array(np.array([by], np.float32), "by")
    graph = helper.make_graph(nodes, "levels", [first], last, [factor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    if weights:
        onnx.save(model, path, save_as_external_data=True, location=weights, size_threshold=0)
    else:
        onnx.save(model, path)
    return str(path)


def accuracy(model: str, world: Path, **settings: Any) -> float:
    arguments = {
        "size": 4,
        "pool_rows": 0,
        "near_rows": 0,
        "estimators": ["atc-mc"],
        "settings": {"scale": "bytes", **settings},
    }
    estimates = cw.estimate(model, world / "new", world / "known", **arguments)
    assert estimates.n == 21 and estimates.source_n == 40
    return float(estimates.source_accuracy or 0)


@pytest.mark.parametrize(
    ("kind", "scale", "by"),
    [
        (TensorProto.FLOAT, "bytes", 1),
        (TensorProto.FLOAT16, "bytes", 1),
        (TensorProto.FLOAT16, "unit", 255),
        (TensorProto.DOUBLE, "unit", 255),
        (TensorProto.UINT8, "bytes", 1),
        (TensorProto.INT32, "bytes", 1),
        (TensorProto.INT64, "bytes", 1),
    ],
)
def test_inputs_are_of_the_kind_that_the_network_takes(
    tmp_path: Path, world: Path, kind: int, scale: str, by: float
) -> None:
    assert accuracy(network(tmp_path / "net.onnx", kind, by=by), world, scale=scale) == 0.9


@pytest.mark.parametrize(
    ("kind", "scale", "words"),
    [
        (
            TensorProto.UINT8,
            "unit",
            (
                r"net\.onnx takes whole numbers \(tensor\(uint8\)\), and scale 'unit' gives"
                r" fractions; set its"
            ),
        ),
        (TensorProto.INT64, "imagenet", "set its scale to bytes"),
        (TensorProto.INT8, "bytes", "takes numbers of -128 to 127"),
    ],
)
def test_numbers_that_it_cannot_take_are_refused(
    tmp_path: Path, world: Path, kind: int, scale: str, words: str
) -> None:
    with pytest.raises(CrosswindError, match=words):
        accuracy(network(tmp_path / "net.onnx", kind), world, scale=scale)


@pytest.mark.parametrize("sides", [(3, 4, 4), (4, 4, 3), (4, 4, 1), ("h", "w", 3), (3, None, None)])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.UINT8])
def test_the_order_of_axes_and_bytes_are_read_of_the_network(
    tmp_path: Path, world: Path, kind: int, sides: tuple[Any, ...]
) -> None:
    model = network(tmp_path / "net.onnx", kind, sides=sides)
    settings = {} if kind == TensorProto.UINT8 else {"scale": "bytes"}
    arguments = {"size": 4, "pool_rows": 0, "near_rows": 0, "estimators": ["atc-mc"]}
    estimates = cw.estimate(model, world / "new", world / "known", settings=settings, **arguments)
    assert estimates.source_accuracy == 0.9


@pytest.mark.parametrize(
    ("sides", "layout", "words"),
    [
        (
            (3, 4, 4),
            "nhwc",
            "net.onnx takes 3 x 4 x 4 numbers a row, and a picture here is 4 x 4 x 3 (nhwc); set its"
            " layout to nchw",
        ),
        ((4, 4, 3), "nchw", "a picture here is 3 x 4 x 4 (nchw); set its layout to nhwc"),
        (
            (3, 4, 8),
            "nchw",
            "source: has images of 4 x 4 x 3, and the model takes images of 4 x 8 x 3",
        ),
        ((3, "h", 8), "nchw", "takes 3 x h x 8 numbers a row, and a picture here is 3 x 4 x 4"),
    ],
)
def test_pictures_of_other_axes_are_refused_with_the_setting(
    tmp_path: Path, world: Path, sides: tuple[Any, ...], layout: str, words: str
) -> None:
    model = network(tmp_path / "net.onnx", sides=sides)
    with pytest.raises(CrosswindError, match=re.escape(words)):
        accuracy(model, world, layout=layout)


def test_weights_beside_the_network_are_read_and_missed_by_name(
    tmp_path: Path, world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = network(tmp_path / "net.onnx", weights="net.onnx.data")
    weights = tmp_path / "net.onnx.data"
    assert weights.stat().st_size == 4 and accuracy(model, world) == 0.9
    weights.write_bytes(b"\0")
    with pytest.raises(DataError, match="'net.onnx.data' beside it, which ends before they do"):
        accuracy(model, world)
    weights.unlink()
    words = (
        "net.onnx keeps its weights in 'net.onnx.data' beside it, and there is no such file; copy"
        " both into one folder, or export the network as one file"
    )
    with pytest.raises(DataError, match=f"^{re.escape(words)}$"):
        accuracy(model, world)
    with pytest.raises(DataError, match=re.escape(words)):
        Onnx(path=model).fits(InputSpec.image(4, 4, 3), ["dark", "light"])
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 32, 64])
def test_a_batch_of_a_fixed_size_is_filled(tmp_path: Path, world: Path, rows: int) -> None:
    model = network(tmp_path / "net.onnx", rows=rows)
    assert accuracy(model, world) == 0.9 and accuracy(model, world, batch=5) == 0.9


@pytest.mark.parametrize(
    "outputs",
    [
        ("label", "probabilities"),
        ("probabilities", "label"),
        ("features", "logits"),
        ("logits", "features"),
        ("logits", "probabilities"),
        ("label",),
        ("features", "label", "probabilities"),
        ("probabilities", "logits", "more"),
    ],
)
def test_of_several_outputs_the_scores_are_read(
    tmp_path: Path, world: Path, outputs: tuple[str, ...]
) -> None:
    model = network(tmp_path / "net.onnx", outputs=outputs)
    if outputs == ("label",):
        arguments = {
            "size": 4,
            "pool_rows": 0,
            "settings": {"scale": "bytes"},
            "estimators": ["atc-mc"],
        }
        assert (
            cw.estimate(model, world / "new", world / "known", **arguments).source_accuracy == 0.9
        )
    else:
        assert accuracy(model, world) == 0.9


def test_outputs_that_cannot_be_told_apart_are_refused_until_one_is_named(
    tmp_path: Path, world: Path
) -> None:
    model = network(tmp_path / "net.onnx", outputs=("features", "more", "label"))
    assert accuracy(model, world, output="label") == 0.9
    values = {"a": np.eye(2, dtype=np.float32), "b": np.eye(2, dtype=np.float32)[::-1]}
    with pytest.raises(
        DataError,
        match=(
            "several outputs of n may hold the scores of the classes; set its output to one of"
            " them: a, b"
        ),
    ):
        read_outputs(values, 2, ["x", "y"], None, "n")
    assert read_outputs(values, 2, ["x", "y"], "b", "n").tolist() == values["b"].tolist()
    with pytest.raises(
        DataError, match=r"net\.onnx has no output 'logits' \(valid: features, more, label\)"
    ):
        accuracy(model, world, output="logits")


def test_mappings_of_scikit_learn_are_read_by_name() -> None:
    """A classifier that was converted without `zipmap: false` gives a mapping from class to
    probability for each row."""
    labels = np.array(["dog", "cat"], dtype=object)
    by_name = {
        "label": labels,
        "probabilities": [{"dog": 0.9, "cat": 0.1}, {"dog": 0.2, "cat": 0.8}],
    }
    assert read_outputs(by_name, 2, ["cat", "dog"], None, "n").round(2).tolist() == pytest.approx(
        np.array([[0.1, 0.9], [0.8, 0.2]])
    )
    by_number = {"label": np.array([1, 0]), "probabilities": [{0: 0.1, 1: 0.9}, {0: 0.8, 1: 0.2}]}
    assert read_outputs(by_number, 2, ["cat", "dog"], None, "n").argmax(axis=1).tolist() == [1, 0]
    assert read_outputs({"label": labels}, 2, ["cat", "dog"], None, "n").tolist() == ["dog", "cat"]


def test_small_parts() -> None:
    x = np.arange(6, dtype=np.uint8).reshape(3, 2)
    assert filled(x, 5)[:, 0].tolist() == [0, 2, 4, 4, 4] and filled(x, 3) is x
    assert (
        fixed_rows([32, 3]) == 32
        and fixed_rows(["n", 3]) is None
        and fixed_rows([None, 3]) is None
        and fixed_rows([4]) is None
    )
    words = np.array(["a", "b"], dtype=object)
    assert as_input(words, "tensor(string)", "bytes", "n") is words
    assert as_input(x, "tensor(float16)", "bytes", "n").dtype == np.float16
