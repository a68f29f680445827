"""One run on several devices, here processors: the numbers of one device, for every method."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.contract.test_methods import NAMES
from tests.training.shared_runs import MODELS, shared
from tests.training.world import same_weights

from crosswind.core.errors import InputError
from crosswind.core.types import InputSpec
from crosswind.models.build import build_model, unnamed
from crosswind.training.settings import TrainingSettings
from crosswind.training.several_devices import RankGroup, ranks_joined, split_calls

ROOT = Path(__file__).parents[2]
QUICK = ["erm", "erm on norms", "erm in odd shares", "deepcoral", "dann", "irm"]
ROUNDING = 1e-7
"""In a weight after nine steps in double precision."""


def trained_together(tmp_path: Path, names: list[str], count: int = 2) -> list[dict[str, Any]]:
    """For each process the weights of each run, by name."""
    processes = []
    for rank in range(count):
        command = [
            *(sys.executable, "-m", "tests.training.shared_runs", str(rank), str(count)),
            *(str(tmp_path / "meeting"), str(tmp_path / "out"), *names),
        ]
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        processes.append(
            subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for process in processes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors[-2000:]
    return [
        {name: torch.load(tmp_path / "out" / str(rank) / f"{name}.pt") for name in names}
        for rank in range(count)
    ]


def check_equal(tmp_path: Path, names: list[str], count: int = 2) -> None:
    weights_of_ranks = trained_together(tmp_path, names, count)
    differing = {}
    for name in names:
        alone = shared(name).weights("last")
        first, *others = (weights[name] for weights in weights_of_ranks)
        assert first.keys() == alone.keys()
        for other in others:  # to the bit, or they would drift apart
            assert all(torch.equal(first[key], other[key]) for key in first), name
        moved = max(float((first[key].double() - alone[key].double()).abs().max()) for key in alone)
        if not moved <= ROUNDING:
            differing[name] = moved
    assert not differing


@pytest.mark.slow
def test_several_processes_train_what_one_does(tmp_path: Path) -> None:
    check_equal(tmp_path, QUICK)


@pytest.mark.parametrize(
    "part",
    [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.verify)],
)
def test_every_method_trains_what_it_does_on_one_device(part: int, tmp_path: Path) -> None:
    """Every second method, from the first or from the second."""
    names = [*NAMES, *MODELS]
    assert len(names) >= 30
    check_equal(tmp_path, names[part::2])


def test_shares_hold_every_row_once() -> None:
    for n, count in ((16, 2), (7, 2), (7, 3), (128, 5)):
        bounds = [RankGroup(rank, count).bounds(n) for rank in range(count)]
        rows = [row for first, end in bounds for row in range(first, end)]
        assert rows == list(range(n))
        assert (
            max(end - first for first, end in bounds) - min(end - first for first, end in bounds)
            <= 1
        )


def test_what_no_run_can_be_shared_among_is_refused() -> None:
    for settings, sentence in (
        ({"devices": 0}, r"must be in \[1, 64\], not 0"),
        ({"devices": 2, "device": "cuda:1"}, "names one, cuda:1; name its kind, cuda"),
        ({"devices": 2, "device": "mps"}, "only cpu and cuda share one"),
        ({"devices": 4, "batch": 3}, "more than the 3 rows of a batch"),
    ):
        with pytest.raises(InputError, match=sentence):
            TrainingSettings.of(settings)


def test_one_process_alone_is_told_that_it_is_one() -> None:
    with pytest.raises(InputError, match="this call trains in one process; `crosswind run`"):
        shared("erm", devices=2)


def test_a_key_of_one_device_is_what_it_was() -> None:
    from crosswind.training.settings import keyed

    assert "devices" not in keyed(vars(TrainingSettings.of({})))
    assert keyed(vars(TrainingSettings.of({"devices": 2})))["devices"] == 2


def test_a_group_of_one_process_trains_the_same_and_leaves_the_classes(tmp_path: Path) -> None:
    alone = shared("erm on norms")
    with ranks_joined(RankGroup(0, 1), tmp_path / "meeting", "cpu") as ranks:
        grouped = shared("erm on norms", ranks=ranks)
    assert same_weights(alone, grouped, tolerance=ROUNDING)


def test_models_are_of_their_own_classes_after_a_step(tmp_path: Path) -> None:
    spec = InputSpec.image(8, 8, 3)
    model = build_model("small-cnn", {}, spec, unnamed(2), 0)
    kinds = [type(module) for module in model.modules()]
    x = torch.rand(4, 3, 8, 8)
    expected = model.train()(x)
    with (
        ranks_joined(RankGroup(0, 1), tmp_path / "meeting", "cpu") as ranks,
        split_calls([model], ranks),
    ):
        assert type(model) is not kinds[0]
        assert torch.allclose(model(x), expected, atol=1e-5)
    assert [type(module) for module in model.modules()] == kinds
