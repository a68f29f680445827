"""The study benchmark: both sides train the same networks on the same work, and a stopped one goes
on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmarks.speed.study_table import table

from crosswind.core import registry
from crosswind.core.types import InputSpec


@pytest.mark.parametrize("name,side", [("mlp", 16), ("small-cnn", 16), ("resnet18", 32)])
@pytest.mark.slow
def test_the_reference_way_trains_the_same_networks(name: str, side: int) -> None:
    """Torch's own order of a flattened picture is c, h, w, where ours is h, w, c; all else is the
    same, parameter by parameter."""
    import torch
    from benchmarks.speed.reference_way import make_model

    from crosswind.models.build import build_model, unnamed

    ours, theirs = (
        build_model(name, {}, InputSpec.image(side, side, 3), unnamed(10), 0),
        make_model(name, side),
    )
    weights = list(ours.state_dict().values())
    if name == "mlp":
        weights[0] = weights[0].reshape(-1, side, side, 3).permute(0, 3, 1, 2).flatten(1)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), weights, strict=True)))
    x = torch.rand(4, 3, side, side, generator=torch.Generator().manual_seed(0)) * 2 - 1
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        torch.testing.assert_close(ours(x), theirs(x), atol=1e-4, rtol=1e-4)


@pytest.fixture
def benchmark() -> Iterator[ModuleType]:
    """The program, which registers a method of its own."""
    from benchmarks.speed import study

    yield study
    registry.forget("methods", study.StudyMethod.registered_name)


@pytest.mark.slow
def test_both_sides_do_the_same_work_and_a_stopped_benchmark_goes_on(
    benchmark: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Its driver is this process; each run of the reference way and the pool's worker are not."""

    def run_study(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["study.py", *map(str, words)])
        benchmark.main()
        printed = capfd.readouterr()
        assert printed.err == ""
        return printed.out

    out = tmp_path / "results" / "study.json"
    words = ["--models", "mlp", "--steps", 4, "--seeds", 1, "--at-once", 1, "--out", out]
    run_study(*words, "--sides", "reference")
    done = json.loads(out.read_text())["blocks"]
    printed = run_study(*words)
    record = json.loads(out.read_text())
    assert record["blocks"][:1] == done  # what was measured is not measured again
    runs = {block["side"]: block["runs"][0] for block in record["blocks"]}
    assert set(runs) == {"reference", "fp32", "fair", "bf16"} and list(record["starts"]) == ["mlp"]
    for side, run in runs.items():
        assert (run["images"], run["evaluations"], len(run["losses"])) == (4 * 128, 1, 1), side
        # An untrained network of ten classes loses log 10 = 2.303; the picture a row becomes
        # decides little at first.
        assert run["losses"][0] == pytest.approx(2.303, abs=0.05), side
        assert 0.03 < run["accuracy"] < 0.3, side
    assert (runs["reference"]["counted"], runs["fair"]["counted"]) == (4 * 128, 0)
    assert (
        runs["reference"]["losses"] == runs["fair"]["losses"]
    )  # the second forward pass changes no number
    assert all(block["wall"] > 0 and block["cpu"] > 0 for block in record["blocks"])
    shown = run_study("--table", out)
    assert "| mlp | bf16 |" in shown and printed.endswith(shown)
    with pytest.raises(SystemExit, match="holds results of other settings"):
        run_study(*words, "--steps", 8)


def block(
    side: str, number: int, wall: float, cpu: float, accuracies: dict[int, float]
) -> dict[str, Any]:
    runs = [
        {"seed": seed, "accuracy": accuracy, "loop_seconds": wall - 4}
        for seed, accuracy in accuracies.items()
    ]
    return {"model": "mlp", "side": side, "block": number, "wall": wall, "cpu": cpu, "runs": runs}


def test_the_table_says_what_the_blocks_hold() -> None:
    """Blocks of 40 and 50 s against 10 and 20 s: ratios 4 and 2.5, median 3.25; loops of 36 and 46
    s: 3.6 and 2.3, median 2.95.

    Whole study: 90 / (30 + 6) = 2.5. Differences +0.01 and -0.03 have mean -0.01 and standard error
    0.02, t(1) = 12.706: -0.264 to +0.244.
    """
    record = {
        "settings": {"steps": 500, "at_once": 1},
        "machine": {
            "cpu": "a processor",
            "cores": 2,
            "torch": "2",
            "torchvision": "0",
            "python": "3",
        },
        "starts": {"mlp": {"wall": 6.0, "cpu": 5.0}},
        "blocks": [
            block("reference", 0, 40.0, 60.0, {0: 0.80}),
            block("fp32", 0, 10.0, 10.0, {0: 0.81}),
            block("fp32", 1, 20.0, 10.0, {1: 0.87}),
            block("reference", 1, 50.0, 30.0, {1: 0.90}),
        ],
    }
    reference, ours = (
        [cell.strip() for cell in line.split("|")[3:-1]]
        for line in table(record).splitlines()
        if "| mlp |" in line
    )
    assert reference == ["2", "45.0", "45.0", "", "", "", "", "", "", "0.850 [0.215, 1.485]", ""]
    assert ours[:9] == [
        "2",
        "15.0",
        "10.0",
        "3.25 (2.50-4.00)",
        "4.50 (3.00-6.00)",
        "2.95 (2.30-3.60)",
        "3",
        "2.50",
        "",
    ]
    assert ours[10] == "-0.010 [-0.264, +0.244], equal"
