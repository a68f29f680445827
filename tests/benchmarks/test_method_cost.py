"""What methods cost: every one has a demand and figures, and demands are those worked out by
hand."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest
from benchmarks.speed.method_demand import PLAIN, demand, erm, flops_of
from tools.method_checklist import checklist

from crosswind.core.registry import listing, load

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
KEYS = {"time", "low", "high", "flops", "memory", "views", "of", "ms"}


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, which finds its parts as it does when it is run."""
    return importlib.import_module("benchmarks.speed.method_cost")


def test_every_method_has_a_demand_and_figures(program: ModuleType) -> None:
    names = {method.name for method in listing("methods")}
    assert set(PLAIN) == names, checklist()
    record = json.loads((FOLDER / "results" / "method-cost.json").read_text(encoding="utf-8"))
    assert set(record["results"]) == set(record["files"]) == names and {"cpu", "torch"} <= set(
        record["machine"]
    )
    for name, by_model in record["results"].items():
        assert by_model and set(by_model) <= set(program.MODELS)
        for model, entry in by_model.items():
            assert program.takes(name, model) and set(entry) == KEYS
            assert (
                0 < entry["low"] <= entry["time"] <= entry["high"]
                and entry["flops"] > 0
                and entry["memory"] > 0
            )


# A perceptron 192 -> 4 -> 3 and 6 rows: its products are 2 x 6 x 192 x 4 = 9216 and 2 x 6 x 4 x 3 =
# 144 operations. Each is made once forwards and once for the gradient of its weights, and the
# second once more for that of its input: 2 x 9360 + 144.
ERM = 18864


@pytest.mark.parametrize(
    ("name", "knobs", "more"),
    [
        ("erm", {}, 0),
        ("mixup", {}, 0),
        ("irm", {}, 0),
        ("bpa", {}, 0),
        # 4 -> 5 -> 3: 2 x 6 x (20 + 15) = 420, forwards and for weights and for inputs.
        ("dann", {"width": 5, "layers": 1}, 3 * 420),
        # Two rows of each of three environments: 4 x 4 matrices over two rows are 64, once forwards
        # and twice back.
        ("deepcoral", {}, 3 * 3 * 64),
        # Three blocks of an environment with itself and three with another, 2 x 2 products of 4
        # numbers: 32 each.
        ("mmd", {}, 3 * 6 * 32),
        # Two mixtures of three rows.
        ("causirl-coral", {}, 3 * 2 * 96),
        ("causirl-mmd", {}, 3 * 3 * 72),
        # Twice the rows. Of two matrices of six rows the products of one number are none; the
        # expander of width 2 has layers of 4 x 2 and twice 2 x 2 on 12 rows, and 2 x 2 of each
        # half: 2 x (12 x 16 + 2 x 4 x 6), forwards, and twice back.
        ("cos", {}, ERM),
        ("vicreg", {"width": 2}, ERM + 3 * (2 * 12 * 16) + 3 * 2 * 48),
        # Six clean rows and two lots of three others: 36 + 2 x 9 + 2 x 18 products of 4 numbers.
        ("mmd-align", {}, ERM + 3 * 2 * 4 * 90),
    ],
)
def test_demands_of_a_tiny_perceptron_by_hand(name: str, knobs: dict[str, int], more: int) -> None:
    method = load("methods", name)(**knobs)
    assert (
        flops_of(PLAIN[name], method, "mlp", 8, batch=6, device="cpu", hidden=4, layers=1)
        == ERM + more
    )


def test_demand_of_sagnet_by_hand() -> None:
    """Two rows of 8 x 8: convolutions of 64, 16 and 4 places from 3, 32 and 64 channels to 32, 64
    and 128, and a head to 3 classes.

    Beyond ERM's: the style network forwards, for its weights and (the head's only) inputs; the
    adversary's way back by inputs of head, third and second convolution, to the first norm.
    """
    stage_1, two, three, head = 4 * 64 * 27 * 32, 4 * 16 * 288 * 64, 4 * 4 * 576 * 128, 4 * 128 * 3
    plain = 2 * (stage_1 + two + three + head) + two + three + head
    method = load("methods", "sagnet")()
    assert flops_of(erm, method, "small-cnn", 8, batch=2, device="cpu") == plain
    assert (
        flops_of(PLAIN["sagnet"], method, "small-cnn", 8, batch=2, device="cpu")
        == plain + 2 * (three + head) + head + head + three + two
    )


def test_demands_of_runs_and_predictions() -> None:
    """JTT: half of ERM's run, one pass forwards over all rows, ERM's run; 3072 inputs, four layers
    of 256, 3 classes."""
    first, later = 3072 * 256, 3 * 256 * 256 + 256 * 3
    forward, step = first + later, 2 * first + 3 * later
    demanded = demand(load("methods", "jtt")(), "mlp", 32, rows=1280, steps=500, device="cpu")
    assert demanded == pytest.approx(0.5 + 1280 / 128 * forward / (500 * step) + 1)
    assert (
        demand(load("methods", "bn-adapt")(), "small-cnn", 8, rows=1280, steps=500, device="cpu")
        == 2.0
    )


def test_the_table_says_what_keeps_to_the_goal(program: ModuleType) -> None:
    """(1.6 - 0.4) / 1 is above 1.15; 2.2 / 2 is not."""
    entry = {
        "time": 1.6,
        "low": 1.5,
        "high": 1.7,
        "flops": 1.0,
        "memory": 1.25,
        "views": 0.4,
        "of": "step",
        "ms": 5.0,
    }
    record = {
        "results": {
            "a": {"mlp": entry},
            "b": {"mlp": {**entry, "time": 2.2, "flops": 2.0, "views": 0, "of": "run"}},
        }
    }
    lines = program.table(record).splitlines()[2:]
    assert lines[0] == "| a | mlp | 1.60 (1.50-1.70) | 1.00 | 0.40 | 1.20 | no | 1.25 |"
    assert lines[1] == "| b, a run | mlp | 2.20 (1.50-1.70) | 2.00 |  | 1.10 | yes | 1.25 |"


def test_demand_of_ubnet_by_hand() -> None:
    """The frozen network forwards; at each depth a 1x1 convolution of 49 places to 64 channels,
    with no way back to the maps, a 3x3 one and a head, both with it.
    """
    frozen = 4 * 64 * 27 * 32 + 4 * 16 * 288 * 64 + 4 * 4 * 576 * 128 + 4 * 128 * 3
    reduced, mixed, head = (
        2 * 4 * 49 * (32 + 64 + 128) * 64,
        3 * 3 * 4 * 49 * 576 * 64,
        3 * 3 * 4 * 64 * 3,
    )
    method = load("methods", "ubnet")()
    assert (
        flops_of(PLAIN["ubnet"], method, "small-cnn", 8, batch=2, device="cpu")
        == frozen + reduced + mixed + head
    )
