"""A model whose outputs stand in another order than its classes is refused until its order is
named, also in a study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import polars
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import DataError, InputError
from crosswind.execution.output_order import option_value, study_value
from crosswind.storage.store import Store

NAMES = [str(number) for number in range(12)]
AS_TEXT = sorted(NAMES)
FUNCTIONS = """
import numpy as np

NAMES = {names!r}
AS_TEXT = sorted(NAMES)

def shown(x):  # the number that a picture shows by its grey level, wrong in every tenth row
    grey = x.reshape(len(x), -1).mean(axis=1)
    number = np.rint(grey / 20).astype(int)
    return np.where(grey.astype(int) % 20 == 1, (number + 1) % 12, number)

def logits(x):
    return np.eye(12)[shown(x)] * 4.0

def as_text(x):
    return logits(x)[:, [NAMES.index(name) for name in AS_TEXT]]

def labels_as_text(x):
    return np.array([AS_TEXT.index(NAMES[number]) for number in shown(x)])

def probabilities_as_text(x):
    e = np.exp(as_text(x))
    return e / e.sum(axis=1, keepdims=True)

def named(x):
    return np.array([NAMES[number] for number in shown(x)])

def turned_round(x):
    return logits(x)[:, ::-1]

def shifted(x):
    return np.roll(logits(x), 1, axis=1)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grey pictures of 4 x 4 pixels in folders named 0 to 11, others without labels, and models
    that read their level."""
    grey_folder = tmp_path_factory.mktemp("grey")
    for number in range(12):
        folder = grey_folder / "known" / str(number)
        folder.mkdir(parents=True)
        for row in range(10):
            grey = np.full((4, 4), 20 * number + (1 if row == 0 else 0), dtype=np.uint8)
            grey.flat[row] += 1  # no two rows are one picture
            Image.fromarray(grey).save(folder / f"{row}.png")
    (grey_folder / "new").mkdir()
    for row in range(60):
        Image.fromarray(np.full((4, 4), 20 * (row % 12), dtype=np.uint8)).save(
            grey_folder / "new" / f"{row}.png"
        )
    (grey_folder / "models.py").write_text(FUNCTIONS.format(names=NAMES))
    _save_onnx(grey_folder / "as_text.onnx")
    return grey_folder


def _save_onnx(path: Path) -> None:
    """A network that is right on every grey picture, its outputs as torchvision sorts folders:
    -(grey - level)^2 and a constant."""
    levels = np.array([20 * int(name) / 255 for name in AS_TEXT], dtype=np.float32)
    constants = {
        "weight": 200 * levels[None],
        "bias": -100 * levels**2,
        "axes": np.array([1, 2, 3]),
    }
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["grey"], keepdims=0),
        helper.make_node("Unsqueeze", ["grey", "one"], ["column"]),
        helper.make_node("MatMul", ["column", "weight"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["y"]),
    ]
    first = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4, 4])
    last = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 12])
    tensors = [
        numpy_helper.from_array(value, name)
        for name, value in {**constants, "one": np.array([1])}.items()
    ]
    graph = helper.make_graph(nodes, "grey", [first], [last], tensors)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path
    )


def asked(world: Path, function: str, **options: Any) -> Any:
    arguments = {
        "source": world / "known",
        "size": 4,
        "pool_rows": 0,
        "near_rows": 0,
        "estimators": ["atc-mc"],
        **options,
    }
    return cw.estimate(f"{world}/models.py:{function}", world / "new", **arguments)


MODELS = {
    "labels_as_text": (AS_TEXT, "sorted as text"),
    "probabilities_as_text": (AS_TEXT, "sorted as text"),
    "turned_round": (NAMES[::-1], "turned round"),
    "shifted": (NAMES[-1:] + NAMES[:-1], "shifted by one"),
}


@pytest.mark.parametrize("function", MODELS)
def test_another_order_is_refused_until_it_is_named(world: Path, function: str) -> None:
    order, name = MODELS[function]
    with pytest.raises(InputError) as refused:
        asked(world, function)
    message = str(refused.value)
    assert message.startswith(
        f"classes: {world}/models.py:{function} seems to have its outputs in another order"
    ), message
    assert (
        f"in the order {','.join(order)}, the classes {name}; give the second, or the first to"
        " leave it as it is" in message
    )
    assert "of 120 labelled rows of known" in message and "90.0% in the order" in message
    estimates = asked(world, function, classes=order)
    assert estimates.source_accuracy == pytest.approx(0.9) and estimates.notes == ()
    insisted = asked(world, function, classes=NAMES)
    assert (
        insisted.source_accuracy < 0.3
        and f"90.0% in the order {','.join(order)}" in insisted.notes[0]
    )
    assert "the first was asked for" in str(insisted)


@pytest.mark.parametrize("function", ["logits", "named"])
def test_the_right_order_is_not_spoken_of(world: Path, function: str) -> None:
    assert asked(world, function).notes == () and asked(world, function, classes=NAMES).notes == ()


def test_a_wrong_order_that_is_given_is_refused_with_the_better_one(world: Path) -> None:
    with pytest.raises(
        InputError,
        match=(
            r"90\.0% in the order 0,1,10,11,2,3,4,5,6,7,8,9, the classes sorted as text; give the"
            r" second$"
        ),
    ):
        asked(world, "as_text", classes=NAMES[::-1])
    with pytest.raises(InputError, match="0,1,2,3,4,5,6,7,8,9,10,11, .*; leave them out$"):
        asked(world, "logits", classes=AS_TEXT)


def test_the_command_names_an_order_that_can_be_given_to_it(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "estimate",
        "--model",
        str(world / "as_text.onnx"),
        "--data",
        str(world / "new"),
        "--source",
        str(world / "known"),
    ]
    command += [
        "--size",
        "4",
        "--set",
        "scale=unit",
        "--pool-rows",
        "0",
        "--neighbour-rows",
        "0",
        "--estimators",
        "atc-mc",
        "--json",
    ]
    assert _status(command) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(
        "error: --classes: as_text.onnx seems to have its outputs in another order"
    )
    order = printed.err.partition("% in the order ")[2].partition(", the classes ")[0]
    assert _status([*command, "--classes", order]) == 0
    assert json.loads(capsys.readouterr().out)["source_accuracy"] == 1.0
    assert _status(["estimate", "--help"]) == 0
    assert "numbers by size, others sorted as text" in " ".join(
        capsys.readouterr().out.replace("│", " ").split()
    )


@pytest.mark.slow
def test_a_model_beside_has_an_order_of_its_own(world: Path) -> None:
    beside = [f"{world}/models.py:as_text"]
    with pytest.raises(
        InputError, match="^beside_classes: .*as_text seems to have its outputs in another order"
    ):
        asked(world, "logits", beside=beside, estimators=["disagreement"])
    estimates = asked(
        world, "logits", beside=beside, beside_classes=[AS_TEXT], estimators=["disagreement"]
    )
    assert estimates.rows[0].estimate.accuracy == 1.0, "the same network, in another order"
    insisted = asked(
        world, "logits", beside=beside, beside_classes=[NAMES], estimators=["disagreement"]
    )
    assert insisted.rows[0].estimate.accuracy < 0.3 and "as_text seems" in insisted.notes[0]
    two_models = [*beside, f"{world}/models.py:turned_round"]
    estimates = asked(
        world,
        "logits",
        beside=two_models,
        beside_classes=[AS_TEXT, NAMES[::-1]],
        estimators=["disagreement"],
    )
    assert estimates.rows[0].estimate.accuracy == 1.0
    with pytest.raises(
        InputError,
        match=(
            "beside_classes: are to be given once for all, or once for each of the 2 models beside"
        ),
    ):
        asked(world, "logits", beside=two_models, beside_classes=[NAMES] * 3)
    with pytest.raises(InputError, match="beside_classes: must be the classes of the model"):
        asked(world, "logits", beside=beside, beside_classes=[["a", "b"]])


def test_the_order_is_no_setting_of_the_model(world: Path) -> None:
    with pytest.raises(
        InputError,
        match="settings.classes: is no setting here: the order of the outputs is given by classes",
    ):
        asked(world, "logits", settings={"classes": NAMES})


def test_the_card_of_weights_may_name_another_order(world: Path, tmp_path: Path) -> None:
    """A card is as good as who wrote it: labelled rows correct it."""
    import torch
    from safetensors.torch import save_file

    from crosswind.core.types import InputSpec
    from crosswind.models.build import build_model

    torch.set_num_threads(1)
    classes = ["0", "11"]
    network = build_model(
        "mlp", {"hidden": 4, "layers": 1}, InputSpec.image(4, 4, 1), tuple(classes), 3
    )
    state = network.state_dict()
    *hidden, head = [name for name in state if name.endswith("weight")]
    state = {name: torch.zeros_like(value) for name, value in state.items()}
    state[hidden[0]] += 1.0  # the hidden units are the level of the picture, where it is bright
    state[head][0] = 1.0  # the first output is the bright class
    state[head.replace("weight", "bias")][1] = 1.0
    save_file(state, str(tmp_path / "net.safetensors"))
    card = {"model": "mlp", "settings": {"hidden": 4, "layers": 1}, "size": 4, "channels": 1}
    source = tmp_path / "known"
    source.mkdir()
    for name in classes:
        (source / name).mkdir()
        for row in range(30):
            Image.fromarray(np.full((4, 4), 20 + 18 * int(name), dtype=np.uint8)).save(
                source / name / f"{row}.png"
            )
    (tmp_path / "net.json").write_text(json.dumps({**card, "classes": classes}))
    settings = {"pool_rows": 0, "near_rows": 0, "estimators": ["atc-mc"]}
    with pytest.raises(
        InputError,
        match="write the second into its card as classes, or give the first to leave it as it is",
    ):
        cw.estimate(str(tmp_path / "net.safetensors"), world / "new", source, **settings)
    insisted = cw.estimate(
        str(tmp_path / "net.safetensors"), world / "new", source, classes=classes, **settings
    )
    assert insisted.source_accuracy == 0.0 and len(insisted.notes) == 1
    (tmp_path / "net.json").write_text(json.dumps({**card, "classes": classes[::-1]}))
    assert (
        cw.estimate(
            str(tmp_path / "net.safetensors"), world / "new", source, **settings
        ).source_accuracy
        == 1.0
    )


# -- studies ---------------------------------------------------------------------------------------


def study(world: Path, model: dict[str, Any], **changes: Any) -> dict[str, Any]:
    rows = {"path": [], "number": [], "side": []}
    for file in sorted((world / "known").rglob("*.png")):
        rows["path"].append(str(file.relative_to(world / "known")))
        rows["number"].append(file.parent.name)
        rows["side"].append("left" if int(file.stem) % 2 else "right")
    polars.DataFrame(rows).write_csv(world / "known.csv")
    options = {"path": str(world / "known.csv"), "images": str(world / "known"), "size": 4}
    data = {
        "source": "table",
        "options": options,
        "label": "number",
        "attributes": ["side"],
        "roles": {"test": 1, "validation": 3},
    }
    return {
        "name": "order",
        "data": {"grey": data},
        "shifts": {"none": []},
        "models": {"theirs": model},
        "seeds": 1,
        **changes,
    }


def reasons(out: Path, results: Any) -> set[str]:
    with Store.open(out) as store:
        needs = [store.run(need) for row in results.rows for need in store.run(row["key"])["needs"]]
    return {str(need["reason"]) for need in needs if need["status"] == "failed"}


@pytest.mark.parametrize("kind", ["onnx", "callable", "npz", "csv"])
def test_a_study_refuses_another_order_until_its_model_names_it(
    world: Path, tmp_path: Path, kind: str
) -> None:
    model: dict[str, Any] = {"model": "onnx", "path": str(world / "as_text.onnx"), "scale": "unit"}
    if kind == "callable":
        model = {"model": "callable", "function": f"{world}/models.py:labels_as_text"}
    elif kind != "onnx":
        study(world, model)
        numbers = polars.read_csv(world / "known.csv")["number"].to_list()
        answers = np.array([AS_TEXT.index(str(number)) for number in numbers])
        if kind == "npz":
            np.savez(tmp_path / "said.npz", id=np.arange(120), logits=np.eye(12)[answers])
        else:  # somebody named the outputs by the wrong list
            polars.DataFrame(
                {"id": range(120), "label": [NAMES[code] for code in answers]}
            ).write_csv(tmp_path / "said.csv")
        model = {"model": "predictions", "path": str(tmp_path / f"said.{kind}")}
    study_results = cw.run_study(study(world, model), tmp_path / "out")
    assert {row["status"] for row in study_results.rows} == {"failed"}
    (reason,) = reasons(tmp_path / "out", study_results)
    assert (
        "seems to have its outputs in another order" in reason and "of the set validation" in reason
    )
    assert (
        f"{study_value(AS_TEXT)}, the classes sorted as text; set its classes to the second"
        in reason
    )
    named = cw.run_study(
        study(world, {**model, "classes": [int(name) for name in AS_TEXT]}), tmp_path / "out"
    )
    accuracies = {
        row["set"]: row["metrics"]["accuracy"] for row in named.rows if row["status"] == "finished"
    }
    assert set(accuracies) == {"validation", "test"} and min(accuracies.values()) >= 0.8
    if kind != "callable":
        return
    again = cw.run_study(study(world, model), tmp_path / "out")
    assert again.summary.executed == 0, "it would fail again, and waits to be asked for"
    insisted = cw.run_study(study(world, {**model, "classes": NAMES}), tmp_path / "out")
    assert all(
        row["metrics"]["accuracy"] < 0.5 for row in insisted.rows if row["status"] == "finished"
    )
    assert insisted.summary.failed == 0
    wrong = cw.run_study(study(world, {**model, "classes": NAMES[::-1]}), tmp_path / "wrong")
    (reason,) = reasons(tmp_path / "wrong", wrong)
    assert reason.endswith("the classes sorted as text; set its classes to the second")


def test_classes_that_are_not_those_of_the_data_are_refused_before_anything_is_asked(
    world: Path, tmp_path: Path
) -> None:
    model = {"model": "callable", "function": f"{world}/models.py:logits", "classes": ["0", "1"]}
    with pytest.raises(
        InputError,
        match=(
            "model.classes: must be a list of the 12 classes in the order of its outputs: 0, 1, 2"
        ),
    ):
        cw.run_study(study(world, model), tmp_path / "out")


def test_without_validation_the_test_sets_are_looked_at(world: Path, tmp_path: Path) -> None:
    model = {"model": "callable", "function": f"{world}/models.py:as_text"}
    study_values = study(world, model, sets={"test": {"role": "test"}}, selection=["last"])
    study_values["data"]["grey"]["roles"] = {"test": 3, "validation": 1}
    study_results = cw.run_study(study_values, tmp_path / "out")
    assert all("of the set test" in reason for reason in reasons(tmp_path / "out", study_results))
    assert {row["status"] for row in study_results.rows} == {"failed"}


# -- words -----------------------------------------------------------------------------------------


def test_orders_are_written_so_that_they_can_be_given() -> None:
    assert option_value(["0", "1", "10"]) == "0,1,10"
    assert option_value(["golden retriever", "o'clock"]) == "'golden retriever,o'\"'\"'clock'"
    assert option_value(["a, b", "c"]) == "'\"a, b\",c'"
    assert study_value(["01", "yes", "ä"]) == '["01", "yes", "ä"]'
    from crosswind.cli.options import listed_classes

    assert listed_classes('"a, b",c') == ["a, b", "c"] and listed_classes(" 0, 1 ,10,") == [
        "0",
        "1",
        "10",
    ]
    assert listed_classes(None) is None and listed_classes("") == []


def test_a_thousand_long_names_are_told_whole(world: Path) -> None:
    from crosswind.estimators.base import Answers, Labelled
    from crosswind.execution.output_order import check_order

    names = [f"a rather long name of a kind of bird, number {number:03}" for number in range(200)]
    label = np.repeat(np.arange(200), 3)
    labelled = Labelled(Answers(199 - label, classes=200), label, "birds")
    with pytest.raises(InputError) as refused:
        check_order("classes", "net", labelled, names, names, names, "give the second")
    assert option_value(names[::-1]) in str(refused.value)
    assert issubclass(DataError, Exception)
