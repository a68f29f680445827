"""Whatever a result depends on and can be read is in its key: weights beside an ONNX file, modules
beside a function."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.models.given.companions import companions, local_modules
from crosswind.models.given.function import load_function
from crosswind.models.given.onnx_locations import external_locations
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

DATA = {
    "digits": {"source": "digits", "label": "digit", "attributes": ["ink"], "roles": {"test": 4}}
}


def plan_with(model: dict[str, Any], folder: Path) -> Any:
    values = {
        "data": DATA,
        "shifts": {"none": []},
        "models": {"theirs": model},
        "methods": ["erm"],
        "seeds": 1,
    }
    return make_plan(study_from(values), folder)


def keys_with(model: dict[str, Any], folder: Path) -> set[str]:
    return {job.key for job in plan_with(model, folder).jobs}


# -- weights outside an ONNX file ------------------------------------------------------------------


def network(weight: np.ndarray[Any, Any], place: str = "initializer") -> onnx.ModelProto:
    """Flatten and multiply; the weight is an initializer, a constant, or a constant inside both
    branches of a condition."""
    tensor = numpy_helper.from_array(weight, "w")
    ends = [
        helper.make_tensor_value_info(*end)
        for end in (("x", TensorProto.FLOAT, ["n", 3, 32, 32]), ("y", TensorProto.FLOAT, ["n", 10]))
    ]
    flatten, multiply = (
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"]),
    )
    constant = helper.make_node("Constant", [], ["w"], value=tensor)
    if place == "initializer":
        graph = helper.make_graph([flatten, multiply], "g", ends[:1], ends[1:], [tensor])
    elif place == "constant":
        graph = helper.make_graph([flatten, constant, multiply], "g", ends[:1], ends[1:])
    else:
        inner = helper.make_graph(
            [constant],
            "inner",
            [],
            [helper.make_tensor_value_info("w", TensorProto.FLOAT, weight.shape)],
        )
        truth = helper.make_node(
            "Constant", [], ["t"], value=numpy_helper.from_array(np.array(True), "t")
        )
        condition = helper.make_node("If", ["t"], ["w"], then_branch=inner, else_branch=inner)
        graph = helper.make_graph([flatten, truth, condition, multiply], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(
    folder: Path, seed: int, location: str, place: str = "initializer", keep_network: bool = False
) -> Path:
    """The network with its weights outside; `keep_network` writes the weights alone."""
    weight = np.random.default_rng(seed).normal(size=(3072, 10)).astype(np.float32)
    path = folder / "net.onnx"
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    (folder / location).unlink(missing_ok=True)
    before = path.read_bytes() if keep_network else None
    onnx.save(
        *(network(weight, place), path),
        save_as_external_data=True,
        location=location,
        size_threshold=0,
        convert_attribute=place != "initializer",
    )
    assert before is None or path.read_bytes() == before  # only the weights are others
    return path


@pytest.mark.parametrize("place", ["initializer", "constant", "branch"])
@pytest.mark.parametrize("location", ["net.onnx.data", "weights/all.bin", "gewichte-ü.data"])
def test_other_weights_beside_a_network_are_other_runs(
    place: str, location: str, tmp_path: Path
) -> None:
    model = {"model": "onnx", "path": str(save(tmp_path, 0, location, place))}
    assert external_locations(tmp_path / "net.onnx") == {location}
    first = keys_with(model, tmp_path)
    assert keys_with(model, tmp_path) == first
    save(tmp_path, 1, location, place, keep_network=True)
    assert keys_with(model, tmp_path).isdisjoint(first)
    save(tmp_path, 0, location, place, keep_network=True)
    assert keys_with(model, tmp_path) == first


def test_a_network_that_moves_with_its_weights_is_the_same_run(tmp_path: Path) -> None:
    keys = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        keys.append(
            keys_with({"model": "onnx", "path": str(save(tmp_path / name, 0, "w.data"))}, tmp_path)
        )
    assert keys[0] == keys[1]


def test_a_network_without_its_weights_is_refused_by_the_plan(tmp_path: Path) -> None:
    path = save(tmp_path, 0, "w.data")
    (tmp_path / "w.data").unlink()
    with pytest.raises(
        InputError, match=r"has weights in 'w.data' beside it, and there is no such file"
    ):
        keys_with({"model": "onnx", "path": str(path)}, tmp_path)


def test_a_network_in_one_file_has_the_key_that_it_always_had(tmp_path: Path) -> None:
    onnx.save(network(np.ones((3072, 10), np.float32)), tmp_path / "net.onnx")
    model = plan_with({"model": "onnx", "path": str(tmp_path / "net.onnx")}, tmp_path).jobs[0].spec
    assert external_locations(tmp_path / "net.onnx") == set()
    assert list(model["read"]) == [str(tmp_path / "net.onnx")]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"no network",
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        bytes(range(256)) * 9,
    ],
)
def test_what_is_no_network_has_nothing_beside_it(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    assert companions(tmp_path / "net.onnx", True) == {}


def test_the_present_weights_answer_within_one_process(tmp_path: Path) -> None:
    split = cw.split(cw.load("digits"), "digit", ["ink"], test=2)
    answers = []
    for seed in (0, 1, 0):
        path = save(tmp_path, seed, "w.data")
        from crosswind.models.given.onnx import Onnx

        dataset = split.parts["test"].dataset
        answers.append(
            Onnx(path=str(path)).answer(split.evaluation["test"], dataset, split.class_names)[1]
        )
    assert not np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


# -- modules beside a function ---------------------------------------------------------------------

FORMS: dict[str, tuple[str, dict[str, str]]] = {
    "import": ("import helper\n", {"helper.py": "N = {n}\n"}),
    "from": ("from helper import N\n", {"helper.py": "N = {n}\n"}),
    "alias": ("import helper as h\n", {"helper.py": "N = {n}\n"}),
    "star": ("from helper import *\n", {"helper.py": "N = {n}\n"}),
    "chain": ("import first\n", {"first.py": "from second import N\n", "second.py": "N = {n}\n"}),
    "circle": (
        "import first\n",
        {"first.py": "import second\n", "second.py": "import first\nN = {n}\n"},
    ),
    "package": ("from tools import N\n", {"tools/__init__.py": "N = {n}\n"}),
    "within a package": (
        "from tools.deep.inner import N\n",
        {"tools/__init__.py": "", "tools/deep/inner.py": "N = {n}\n"},
    ),
    "module of a package": (
        "from tools import inner\n",
        {"tools/__init__.py": "", "tools/inner.py": "N = {n}\n"},
    ),
    "relative": (
        "import tools\n",
        {"tools/__init__.py": "from .inner import N\n", "tools/inner.py": "N = {n}\n"},
    ),
    "parent": (
        "import tools.a.b\n",
        {"tools/a/b.py": "from ..c import N\n", "tools/c.py": "N = {n}\n"},
    ),
    "in a function": (
        "def late():\n    import helper\n    return helper\n",
        {"helper.py": "N = {n}\n"},
    ),
    "in a condition": (
        "try:\n    import missing\nexcept ImportError:\n    import helper\n",
        {"helper.py": "N = {n}\n"},
    ),
    "by name": (
        "import importlib\nh = importlib.import_module('helper')\n",
        {"helper.py": "N = {n}\n"},
    ),
    "by __import__": ("h = __import__('helper')\n", {"helper.py": "N = {n}\n"}),
    "own module": ("", {"theirs.py": "# {n}\n"}),
}
ANSWER = "def answer(x):\n    import numpy as np\n    return np.zeros(len(x), dtype=np.int64)\n"


def write(folder: Path, form: str, n: int) -> Path:
    start, files = FORMS[form]
    for name, text in {"theirs.py": "", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        own_line = start + ANSWER if name == "theirs.py" else ""
        (folder / name).write_text(text.format(n=n) + own_line, encoding="utf-8")
    (folder / "stranger.py").write_text(
        f"N = {n}\n", encoding="utf-8"
    )  # beside it, and not imported
    return folder / "theirs.py"


@pytest.mark.parametrize("form", FORMS)
def test_another_module_that_a_function_imports_is_another_run(form: str, tmp_path: Path) -> None:
    model = {"model": "callable", "function": f"{write(tmp_path, form, 1)}:answer"}
    first = keys_with(model, tmp_path)
    assert keys_with(model, tmp_path) == first
    write(tmp_path, form, 22)
    assert keys_with(model, tmp_path).isdisjoint(first)
    write(tmp_path, form, 1)
    (tmp_path / "stranger.py").write_text("N = 3\n", encoding="utf-8")
    assert keys_with(model, tmp_path) == first


def test_a_module_beside_the_study_is_read_with_what_it_imports(tmp_path: Path) -> None:
    write(tmp_path, "chain", 1)
    read = (
        plan_with({"model": "callable", "function": "theirs:answer"}, tmp_path).jobs[0].spec["read"]
    )
    assert [Path(path_read).name for path_read in read] == ["theirs.py", "first.py", "second.py"]


@pytest.mark.parametrize(
    "text",
    [
        "import numpy, json\n",
        "from __future__ import annotations\n",
        "import os.path\n",
        "def broken(:\n",
        "\x00",
    ],
)
def test_what_is_installed_or_broken_is_no_module_of_the_folder(text: str, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(text, encoding="utf-8")
    assert local_modules(tmp_path / "theirs.py") == set()


def test_the_present_modules_answer_within_one_process_and_each_folder_has_its_own(
    tmp_path: Path,
) -> None:
    answers_found = []
    for folder, n in (("a", 1), ("b", 2), ("a", 3), ("b", 2)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "common_helper.py").write_text(f"N = {n}\n", encoding="utf-8")
        (tmp_path / folder / "theirs.py").write_text(
            "from common_helper import N\n\ndef answer(x):\n    return N\n", encoding="utf-8"
        )
        answers_found.append(load_function(f"{tmp_path / folder / 'theirs.py'}:answer")(None))
    assert answers_found == [1, 2, 3, 2]


# -- what is said ----------------------------------------------------------------------------------


def test_what_cannot_be_read_is_said_once_by_the_plan(tmp_path: Path) -> None:
    file = write(tmp_path, "import", 1)
    values = {
        "data": DATA,
        "shifts": {
            "none": [],
            "sc": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
        },
        "models": {
            name: {"model": "callable", "function": f"{file}:answer"} for name in ("one", "two")
        },
        "methods": ["erm"],
        "seeds": 2,
    }
    values["models"]["two"]["version"] = 2
    warnings = [text for text in make_plan(study_from(values)).warnings if "key" in text]
    assert len(warnings) == 1
    assert re.match(
        r"models\.one, two: what its function reads beside the modules of its folder .* raise"
        r" version",
        warnings[0],
    )
    onnx.save(network(np.ones((3072, 10), np.float32)), tmp_path / "net.onnx")
    assert not any(
        "key" in text
        for text in plan_with(
            {"model": "onnx", "path": str(tmp_path / "net.onnx")}, tmp_path
        ).warnings
    )


Changing = Callable[[Path, int], dict[str, Any]]


def _function(folder: Path, n: int) -> dict[str, Any]:
    return {"model": "callable", "function": f"{write(folder, 'chain', n)}:answer"}


def _network(folder: Path, n: int) -> dict[str, Any]:
    return {"model": "onnx", "path": str(save(folder, n, "w.data"))}


@pytest.mark.parametrize(("model", "changed"), [(_function, "second.py"), (_network, "w.data")])
def test_check_names_what_has_changed_and_run_does_it_again(
    model: Changing, changed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    def run() -> int:
        study = {"data": DATA, "shifts": {"none": []}, "methods": ["erm"], "seeds": 1}
        return cw.run_study(
            {**study, "models": {"theirs": model(tmp_path, len(runs))}}, out
        ).summary.executed

    def check() -> tuple[int, Any]:
        capsys.readouterr()
        status = _status(["check", str(out), "--json"])
        return status, json.loads(capsys.readouterr().out)["changed"]

    runs: list[int] = []
    runs.append(run())
    assert runs[0] > 0
    assert check() == (0, [])
    model(tmp_path, 10)
    status, report = check()
    assert status == 1
    assert [Path(item["path"]).name for item in report] == [changed]
    assert _status(["check", str(out)]) == 1
    assert "has changed since" in capsys.readouterr().out
    runs.append(run())
    assert runs[1] > 0
    assert check() == (0, [])
    (tmp_path / changed).unlink()
    assert check() == (
        0,
        [],
    )  # nothing to compare with: the store may lie on another machine than the model
