"""`training.device: auto` is the best device of the machine, and a key knows which one it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.test_sklearn_estimator import table_and_study

from crosswind.cli.main import _status
from crosswind.studies.plan import plan_of
from crosswind.training import automatic_device
from crosswind.training.automatic_device import auto_device
from crosswind.training.settings import TrainingSettings


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Gives a machine a driver of a card (or none), and torch cards and MPS that it finds."""

    def of(driver: bool, cards: int, mps: bool = False, system: str = "linux") -> str:
        auto_device.cache_clear()
        monkeypatch.setattr(automatic_device, "_ACCELERATORS", (str(tmp_path),) if driver else ())
        monkeypatch.setattr(automatic_device.sys, "platform", system)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cards > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        return auto_device()

    yield of
    monkeypatch.undo()
    auto_device.cache_clear()


def test_a_card_comes_before_mps_and_that_before_the_processor(machine: Any) -> None:
    assert machine(driver=False, cards=1) == "cpu"  # not asked: torch is not even imported
    assert machine(driver=True, cards=0) == "cpu"  # a torch for processors alone
    assert machine(driver=True, cards=2) == "cuda"
    assert machine(driver=False, cards=0, mps=True, system="darwin") == "mps"
    assert auto_device("fp64") == "cpu"  # which MPS lacks


def test_settings_hold_the_device_that_auto_is(machine: Any) -> None:
    machine(driver=True, cards=1)
    assert TrainingSettings().device == TrainingSettings.of({"device": "auto"}).device == "cuda"
    assert TrainingSettings.of({"device": "cpu"}).device == "cpu"
    machine(driver=False, cards=0)
    assert TrainingSettings().device == "cpu"
    assert TrainingSettings.of({}) == TrainingSettings.of({"device": "cpu"})


def test_a_plan_says_which_device_it_is_and_keys_are_those_of_the_device(
    machine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(table_and_study(tmp_path))
    machine(driver=False, cards=0)
    on_processor = plan_of(file)
    assert on_processor.notes[0] == "training.device: auto, which is cpu on this machine"
    named = plan_of(file, settings=["training.device=cpu"])
    assert [job.key for job in named.jobs] == [job.key for job in on_processor.jobs]
    assert not any("training.device" in note for note in named.notes)
    machine(driver=True, cards=1)
    on_card = plan_of(file)
    assert on_card.notes[0] == "training.device: auto, which is cuda on this machine"
    assert not {job.key for job in on_card.jobs} & {job.key for job in named.jobs}
    assert _status(["plan", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "training.device: auto, which is cuda on this machine" in lines


def test_workers_share_cards_where_that_is_asked(
    machine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(table_and_study(tmp_path))
    machine(driver=False, cards=0)
    run = ["run", file, "--out", str(tmp_path / "out"), "--workers-per-gpu", "2"]
    for more, words in (
        ([], "torch finds no graphics card here; name --workers"),
        (["--workers", "3"], "stands in place of --workers"),
        (["--engine", "ray"], "on a cluster --set resources.gpus=0.5"),
    ):
        assert _status([*run, *more]) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
