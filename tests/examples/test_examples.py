"""Every example runs and shows what it says."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.plugins import environment

from crosswind.core import registry

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The example of that name as a module; what it registers is taken out again."""
    before = dict(registry._LIVE)
    spec = importlib.util.spec_from_file_location(request.param, FOLDER / f"{request.param}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[request.param] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[request.param]
        for room, name in set(registry._LIVE) - set(before):
            if registry._LIVE[room, name].__module__ == request.param:
                registry.forget(room, name)


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", [name], indirect=True)


def test_every_example_says_what_it_shows_and_how_long_it_takes() -> None:
    assert len(EXAMPLES) == 5
    for path in EXAMPLES:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert (
            re.search(r"Takes\s+about", docstring) and f"python examples/{path.name}" in docstring
        ), path.name


@of("from_python")
def test_from_python(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    worst = example.main(steps=10)
    assert set(worst) == {"erm", "groupdro"} and all(0 <= value <= 1 for value in worst.values())
    assert "240 training rows, 360 test rows, 30 groups" in capsys.readouterr().out


@of("own_data")
@pytest.mark.slow
def test_own_data(example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study_results = example.main(tmp_path)
    assert (study_results.summary.finished, study_results.summary.failed) == (8, 0)
    assert "Findings of birds (2 seeds" in capsys.readouterr().out
    rows_tested = {
        (row["shift"], row["method"]) for row in study_results.rows if row["set"] == "test"
    }
    assert rows_tested == {
        (shift, method) for shift in ("none", "SC") for method in ("erm", "groupdro")
    }
    plain = [
        row["metrics"]["accuracy"]
        for row in study_results.rows
        if row["shift"] == "none" and row["set"] == "test"
    ]
    assert min(plain) > 0.7, "its pictures can be learnt"


@of("own_method")
@pytest.mark.slow
def test_own_method(example: ModuleType, tmp_path: Path) -> None:
    import torch

    from crosswind.methods.base import Batch

    study_results = example.main(tmp_path)
    assert (study_results.summary.finished, study_results.summary.failed) == (8, 0)
    assert "top-loss" in str(study_results)
    assert example.main(tmp_path).summary.executed == 0  # what is finished is not done again
    # Losses -log softmax of rows with logit differences 0 and log 3 are log 2 and log 4/3; half of
    # two rows is the first.
    logits = torch.tensor([[0.0, 0.0], [torch.log(torch.tensor(3.0)), 0.0]])
    batch = Batch(
        x=logits,
        y=torch.zeros(2, dtype=torch.int64),
        ids=torch.arange(2),
        group=torch.zeros(2, dtype=torch.int64),
    )
    total = example.TopLoss(share=0.5).loss({"model": torch.nn.Identity()}, batch, {}).total
    assert float(total) == pytest.approx(0.6931, abs=1e-4)
    source_text = (FOLDER / "own_method.py").read_text(encoding="utf-8")
    lines = (
        source_text[source_text.index("@register") : source_text.index("STUDY =")]
        .strip()
        .splitlines()
    )
    assert len(lines) <= 30


@of("own_shift")
def test_own_shift(example: ModuleType) -> None:
    counts = example.main()
    assert counts["long tail of ink"] == {
        "ink=red": 160,
        "ink=green": 80,
        "ink=blue": 40,
        "size=small": 93,
        "size=medium": 93,
        "size=large": 94,
    }
    assert counts["long tail of ink, large digits unseen"]["size=large"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_program(path: Path, tmp_path: Path) -> None:
    words = (
        ["out", "2"] if path.stem == "own_method" else []
    )  # workers find the class in the program's own file
    command = [sys.executable, str(path), *words]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(None),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.strip()
