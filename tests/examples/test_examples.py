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
from crosswind.evaluation.metrics import ESTIMATE
from crosswind.testing import Check, estimator_checks, method_checks

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


def test_the_guide_counts_the_lines_of_the_last_layer() -> None:
    guide = (FOLDER.parent / "docs" / "guides" / "extending.md").read_text(encoding="utf-8")
    lines = (FOLDER / "own_last_layer.py").read_text(encoding="utf-8").splitlines()
    assert f"(Kirichenko et al. 2023) in {len(lines)} lines with its study" in guide


def test_every_example_says_what_it_shows_and_how_long_it_takes() -> None:
    assert len(EXAMPLES) == 7
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


@of("own_last_layer")
@pytest.mark.slow
def test_own_last_layer(example: ModuleType, tmp_path: Path) -> None:
    study_results = example.main(tmp_path)
    assert (study_results.summary.finished, study_results.summary.failed) == (6, 0)
    worst: dict[str, list[float]] = {"erm": [], "dfr": []}
    for row in study_results.rows:
        if row["set"] == "test" and row["rule"] == "best-id":
            worst[row["method"]].append(row["metrics"]["worst_group"])
    assert min(worst["dfr"]) > max(worst["erm"]) + 0.2, worst
    assert_short_and_green("own_last_layer", method_checks(example.DeepFeatureReweighting))


@of("own_last_layer")
def test_the_last_layer_by_hand(example: ModuleType) -> None:
    """Two rows at -1 and 1 of classes 0 and 1: the weights are opposite, and with w their difference
    of logits 2 w x the slope of the loss, (1 + exp(2 w))^-1, equals the penalty: w = log(9) / 2."""
    import torch

    inputs, labels = torch.tensor([[-1.0], [1.0]]).double(), torch.tensor([0, 1])
    weight, bias = example.fit_layer(inputs, labels, 2, penalty=0.1, steps=2000)
    expected = torch.tensor([[-1.0986], [1.0986]]).double()
    assert torch.allclose(weight, expected, atol=1e-3), weight
    assert torch.allclose(bias, torch.zeros(2).double(), atol=1e-3)
    assert not example.fit_layer(inputs, labels, 2, penalty=1.0)[0].any()


@of("own_estimator")
@pytest.mark.slow
def test_own_estimator(example: ModuleType, tmp_path: Path) -> None:
    study_results = example.main(tmp_path)
    assert (study_results.summary.finished, study_results.summary.failed) == (2, 0)
    estimates = [
        row["metrics"][f"{ESTIMATE}atc-margin"]
        for row in study_results.rows
        if row["set"] == "test" and row["rule"] == "best-id"
    ]
    assert len(estimates) == 2 and all(0 <= value <= 1 for value in estimates)
    assert_short_and_green("own_estimator", estimator_checks(example.MarginThreshold))


@of("own_estimator")
def test_the_margin_by_hand(example: ModuleType) -> None:
    """Margins 0.8, 0.4 and 0.2 of probabilities (0.9, 0.1), (0.7, 0.3), (0.4, 0.6)."""
    import numpy as np

    from crosswind.estimators.base import Answers

    probabilities = np.array([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]])
    answers = Answers(probabilities.argmax(1), np.log(probabilities))
    assert example.margins(answers) == pytest.approx([0.8, 0.4, 0.2])
    assert example.MarginThreshold().estimate(0.3, answers) == pytest.approx(2 / 3)


def assert_short_and_green(name: str, checks: list[Check]) -> None:
    """The promise of the guide: under 150 lines, and every check holds."""
    assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 150
    for check in checks:
        check()


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


# As programs; the `main` of the others is called above, and every one ends alike.
PROGRAMS = {"own_method": ["out", "1"], "tiny_foundation_models": []}


def test_every_example_calls_its_main() -> None:
    for path in EXAMPLES:
        last = ast.parse(path.read_text(encoding="utf-8")).body[-1]
        assert isinstance(last, ast.If) and ast.unparse(last.test) == "__name__ == '__main__'"
        calls = [
            node.func.id
            for node in ast.walk(last)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        assert "main" in calls or path.stem in PROGRAMS, path.name


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), PROGRAMS.items(), ids=PROGRAMS)
def test_an_example_is_a_program(name: str, words: list[str], tmp_path: Path) -> None:
    """Workers find a class in the program's own file."""
    path = FOLDER / f"{name}.py"
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
