"""A network that never ends is left when its time is over, and at a signal; one that ends answers
as it did."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import crosswind as cw
from crosswind.core.errors import DataError
from crosswind.models.given.onnx import Onnx
from crosswind.models.given.patience import Late, PatientSession, patiently
from crosswind.storage.store import Store

ENDLESS = 2**62


def loop(name: str, before: str, after: str, times: int, condition: str = "true") -> list[Any]:
    """A loop over `before` that changes nothing, `times` times or until `condition` is false."""
    body = helper.make_graph(
        [
            helper.make_node("Mul", [f"{name}_in", "one"], [f"{name}_out"]),
            helper.make_node("Identity", [condition], [f"{name}_on"]),
        ],
        name,
        [
            helper.make_tensor_value_info(f"{name}_step", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"{name}_was", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"{name}_in", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info(f"{name}_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None),
        ],
    )
    count = numpy_helper.from_array(np.array(times, np.int64), f"{name}_times")
    constant = helper.make_node("Constant", [], [f"{name}_times"], value=count)
    return [
        constant,
        helper.make_node("Loop", [f"{name}_times", "true", before], [after], body=body),
    ]


def saved(path: Path, nodes: list[Any], rows: Any = "n") -> str:
    """A network of two outputs, the sums of the red and of the green of a picture, behind `nodes`
    from `mean` to `last`."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x", "axes"], ["sums"], keepdims=0),
            helper.make_node("Slice", ["sums", "from", "to", "axis"], ["mean"]),
            *nodes,
        ],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 3, "high", "wide"])],
        [helper.make_tensor_value_info("last", TensorProto.FLOAT, [rows, 2])],
        [
            numpy_helper.from_array(np.array([2, 3], np.int64), "axes"),
            numpy_helper.from_array(np.array([0], np.int64), "from"),
            numpy_helper.from_array(np.array([2], np.int64), "to"),
            numpy_helper.from_array(np.array([1], np.int64), "axis"),
            numpy_helper.from_array(np.array(True), "true"),
            numpy_helper.from_array(np.array(1.0, np.float32), "one"),
            numpy_helper.from_array(np.array(0, np.int64), "zero"),
            numpy_helper.from_array(np.array(1, np.int64), "single"),
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return str(path)


def branch(nodes: list[Any]) -> list[Any]:
    """The nodes within one branch of a condition on the input."""
    inside = helper.make_graph(
        nodes, "then", [], [helper.make_tensor_value_info("looped", TensorProto.FLOAT, None)]
    )
    plain = helper.make_node("Identity", ["mean"], ["plain"])
    beside = helper.make_graph(
        [plain], "else", [], [helper.make_tensor_value_info("plain", TensorProto.FLOAT, None)]
    )
    return [
        helper.make_node("ReduceMax", ["mean"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "one"], ["bright"]),
        helper.make_node("If", ["bright"], ["last"], then_branch=inside, else_branch=beside),
    ]


def while_many() -> list[Any]:
    """A loop that goes on for ever where more than one row is given."""
    shape = helper.make_node("Shape", ["mean"], ["shape"])
    number = helper.make_node("Gather", ["shape", "zero"], ["number"])
    return [shape, number, helper.make_node("Greater", ["number", "single"], ["many"])]


NETWORKS: dict[str, list[Any]] = {
    "a loop": loop("a", "mean", "last", ENDLESS),
    "a loop behind one that ends": [
        *loop("a", "mean", "then", 3),
        *loop("b", "then", "last", ENDLESS),
    ],
    "a loop before one that ends": [
        *loop("a", "mean", "then", ENDLESS),
        *loop("b", "then", "last", 3),
    ],
    "a loop in a branch": branch(loop("a", "mean", "looped", ENDLESS)),
    "many times": loop("a", "mean", "last", 10**12),
    "for several rows alone": [
        *while_many(),
        *loop("a", "mean", "last", ENDLESS, condition="many"),
    ],
}


def pictures(rows: int) -> Any:
    images = np.full((rows, 4, 4, 3), 200, dtype=np.uint8)
    images[::2, ..., 0] = 0
    return cw.from_frame({"label": [("no", "yes")[row % 2] for row in range(rows)]}, images)


def answered(path: str, rows: int = 6, **knobs: Any) -> list[int]:
    row_set: Any = SimpleNamespace(rows=np.arange(rows))
    return list(
        Onnx(path=path, scale="unit", **knobs)
        .answer(row_set, pictures(rows), ("no", "yes"))[0]
        .tolist()
    )


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("rows", ["n", 6], ids=["any number", "six at once"])
def test_a_network_that_never_ends_has_its_time(tmp_path: Path, network: str, rows: Any) -> None:
    path = saved(tmp_path / "net.onnx", NETWORKS[network], rows)
    began = time.monotonic()
    with pytest.raises(
        DataError,
        match=(
            r"^net.onnx did not end within [0-9.]+ seconds for .* raise its setting timeout, which"
            r" is 0.3$"
        ),
    ):
        answered(path, timeout=0.3)
    assert time.monotonic() - began < 20
    assert not [
        thread for thread in threading.enumerate() if thread.name == "patience"
    ]  # it did end


def test_a_network_that_ends_answers_as_it_did(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", loop("a", "mean", "last", 5))
    assert (
        answered(path) == [1, 0, 1, 0, 1, 0] == answered(path, batch=4) == answered(path, batch=1)
    )
    assert answered(saved(tmp_path / "four.onnx", loop("a", "mean", "last", 5), 2), batch=2) == [
        1,
        0,
        1,
        0,
        1,
        0,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_who_waits_for_a_network(tmp_path: Path, number: signal.Signals) -> None:
    def handler(received: int, frame: Any) -> None:
        raise KeyboardInterrupt(received)

    path = saved(tmp_path / "net.onnx", NETWORKS["a loop"])
    before = signal.signal(number, handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
    began = time.monotonic()
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            answered(path, timeout=3_600.0)
    finally:
        timer.join()
        signal.signal(number, before)
    assert time.monotonic() - began < 20
    assert not [thread for thread in threading.enumerate() if thread.name == "patience"]


def test_a_study_tells_that_its_network_never_ends(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", NETWORKS["a loop"])
    study = {
        "name": "endless",
        "data": {
            "pictures": {
                "source": "digits",
                "label": "digit",
                "attributes": ["ink"],
                "roles": {"test": 1},
            }
        },
        "shifts": {"none": []},
        "sets": {"test": {"role": "test"}},
        "selection": ["last"],
        "models": {"net": {"model": "onnx", "path": path, "timeout": 0.3}},
    }
    cw.run_study(study, tmp_path / "out")
    with Store.open(tmp_path / "out") as store:
        asked_for = next(
            word
            for word in str(store.runs("endless")[0]["reason"]).replace(",", " ").split()
            if word.isalnum() and len(word) == 12
        )
        reason = store.run(asked_for)["reason"]
    assert "net.onnx did not end within 0.3 seconds for one row" in reason


class Slept:
    """A session whose runs sleep: `naps` seconds for each, in their order."""

    def __init__(self, naps: list[float]) -> None:
        self.naps, self.rows = naps, list[int]()

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(shape=["n", 2])]

    def run(self, names: None, feeds: dict[str, Any], options: Any) -> list[Any]:
        (value,) = feeds.values()
        self.rows.append(len(value))
        time.sleep(self.naps.pop(0))
        return [value]


def test_a_later_batch_has_the_time_that_the_first_one_lets_expect() -> None:
    session = Slept([0.2, 0.6, 0.6])
    patient = PatientSession(session, "net")
    for _ in range(2):  # six tenths are more than the three that one row has
        patient.run({"x": np.zeros((4, 2))}, 0.3)
    assert session.rows == [1, 4, 4]


def test_what_the_work_raises_is_raised() -> None:
    assert patiently(lambda: 7, lambda: None, None) == 7
    with pytest.raises(ZeroDivisionError):
        patiently(lambda: 1 // 0, lambda: None, 5.0)
    stop = threading.Event()
    with pytest.raises(Late):
        patiently(lambda: stop.wait(10), stop.set, 0.1)
