"""Where a run's seconds went and what it held: the parts add up, over tries and bases too, and the
peak is the run's own."""

from __future__ import annotations

import mmap
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.training.world import DATA, run, split

from crosswind.core.knobs import Base, Needs
from crosswind.methods.erm import ERM
from crosswind.training import memory, metering
from crosswind.training import run as running
from crosswind.training.device import own_device
from crosswind.training.identity import identity
from crosswind.training.loader import TrainingRows
from crosswind.training.metering import PARTS, Meter, finished_work
from crosswind.training.settings import ModelSpec, TrainingSettings


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 100.0
        monkeypatch.setattr(metering, "time", SimpleNamespace(perf_counter=lambda: self.at))


@dataclass
class TimedReader:
    waited: float = 0.0


def adds_up(cost: dict[str, float]) -> bool:
    part_seconds = [cost[f"{part_name}_seconds"] for part_name in (*PARTS, "other")]
    return min(part_seconds) >= 0.0 and sum(part_seconds) == pytest.approx(
        cost["total_seconds"], abs=1e-9
    )


def test_what_no_part_claims_is_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    meter = Meter()
    for part_name, seconds in (("prepare", 3.0), ("data", 1.0), ("step", 5.0), ("waiting", 0.5)):
        with meter.part(part_name):
            clock.at += seconds
    with meter.part("evaluation", "validation"):
        clock.at += 2.0
    clock.at += 0.25
    meter.images = 650
    cost = meter.cost()
    assert [cost[f"{part_name}_seconds"] for part_name in PARTS] == [3.0, 1.0, 5.0, 2.0, 0.5]
    assert (cost["other_seconds"], cost["total_seconds"], cost["validation_seconds"]) == (
        0.25,
        11.75,
        2.0,
    )
    assert cost["images_per_second"] == 100.0  # 650 images in 1 + 5 + 0.5 seconds


def test_what_a_reader_waited_is_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    meter, reader = Meter(), TimedReader(0.5)
    with meter.part("prepare"):
        clock.at += 2.0
        meter.watch(reader)  # it waited before it was watched, inside this part
    meter.seconds["data"] += 3.0
    clock.at += 3.0
    reader.waited = 1.75
    meter.settle("data")
    meter.settle("data")
    with meter.part("evaluation", "validation"):
        clock.at += 1.0
        reader.waited = 2.0
    assert meter.seconds == {
        "prepare": 1.5,
        "data": 1.75,
        "step": 0,
        "evaluation": 0.75,
        "waiting": 2.0,
        "validation": 0.75,
    }
    reader.waited = 1e6  # more than the part took cannot be moved out of it
    meter.settle("data")
    assert meter.seconds["data"] == 0.0 and adds_up(meter.cost())


def test_tries_add_up_and_a_base_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    first = Meter()
    inner = Meter(inside=True)
    with inner.part("step"):
        clock.at += 4.0
    clock.at += 1.0
    inner.images = 40
    kept_of_base = inner.saved()
    first.include(inner)
    with first.part("step"):
        clock.at += 2.0
    saved = first.saved()
    assert saved["step"] == 6.0 and saved["total"] == 7.0
    again = Meter()
    base = Meter(inside=True)
    base.restore(kept_of_base)
    again.include(base)
    assert again.total() == 5.0, (
        "the base of an earlier try, before there is a checkpoint of the run itself"
    )
    again.restore(saved)
    with again.part("step"):
        clock.at += 1.0
    assert again.cost()["step_seconds"] == 7.0 and again.total() == 8.0 and adds_up(again.cost())


@dataclass(frozen=True)
class ERMOnBase(ERM):
    needs = Needs(base=Base(method="erm"))


@pytest.mark.parametrize("method", [ERM(), ERMOnBase()])
def test_the_seconds_of_a_run_add_up(method: Any, tmp_path: Path) -> None:
    cost = run(method, checkpoint=tmp_path / "run").cost
    assert adds_up(cost)
    assert all(cost[f"{part_name}_seconds"] > 0 for part_name in (*PARTS, "validation"))
    assert cost["validation_seconds"] < cost["evaluation_seconds"]
    assert cost["images"] == 12 * 16 * (2 if isinstance(method, ERMOnBase) else 1)
    busy = cost["data_seconds"] + cost["step_seconds"] + cost["waiting_seconds"]
    assert cost["images_per_second"] == pytest.approx(cost["images"] / busy)


def test_a_resumed_run_counts_its_earlier_tries(tmp_path: Path) -> None:
    def stop(event: dict[str, Any]) -> None:
        if event["step"] == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(ERM(), checkpoint=tmp_path / "run", progress=stop)
    from crosswind.training.checkpoint import load

    _, values = load(tmp_path / "run") or ({}, {})
    seconds_kept = values["seconds"]
    meter = Meter()
    cost = run(ERM(), checkpoint=tmp_path / "run", meter=meter).cost
    assert adds_up(cost) and cost["steps"] == 12 and cost["images"] == 12 * 16
    assert cost["data_seconds"] == pytest.approx(seconds_kept["data"] + meter.seconds["data"])
    assert (
        cost["total_seconds"] > seconds_kept["total"] > 0
        and cost["prepare_seconds"] > seconds_kept["prepare"] > 0
    )


def test_waits_for_batches_and_the_disk_are_no_data_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch_method = TrainingRows.batch

    def slow(self: TrainingRows, step: int, length: int) -> Any:
        self._inputs._waited += 1e3  # more than there was: all of it was waiting
        return batch_method(self, step, length)

    monkeypatch.setattr(TrainingRows, "batch", slow)
    cost = run(ERM()).cost
    assert cost["data_seconds"] == 0.0 and cost["waiting_seconds"] > 0 and adds_up(cost)


def test_an_accelerator_is_waited_for_once_a_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[Any] = []
    monkeypatch.setattr(running, "finished_work", waits.append)
    run(ERM())
    assert waits == ["cpu"] * 3
    monkeypatch.setattr(torch.accelerator, "synchronize", waits.append)
    finished_work("cpu")
    finished_work("cuda:1")
    assert waits[3:] == [torch.device("cuda:1")]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells no peak that can be set back")
def test_the_peak_is_of_the_run_and_not_of_the_process() -> None:
    size = 400 * 2**20

    def hold() -> None:
        with mmap.mmap(-1, size) as block:  # given back to the system at once
            for offset in range(0, size, mmap.PAGESIZE):
                block[offset] = 1

    before = Meter()
    hold()
    high = before.cost()["peak_memory_bytes"]
    after = Meter()
    low = after.cost()["peak_memory_bytes"]
    assert before.cost()["peak_memory_of_run"] == 1.0
    assert low < high - 0.9 * size
    hold()
    assert after.cost()["peak_memory_bytes"] > low + 0.9 * size
    inner = Meter(inside=True)
    assert (
        after.cost()["peak_memory_bytes"] > low + 0.9 * size
        and inner.cost()["peak_memory_of_run"] == 0.0
    )


def test_where_the_peak_cannot_be_set_back_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(memory.Path, "write_text", refuse)
    cost = Meter().cost()
    assert cost["peak_memory_of_run"] == 0.0 and cost["peak_memory_bytes"] > 1e6
    monkeypatch.setattr(memory.Path, "read_text", refuse)
    assert memory.peak_memory() > 1e6


@pytest.mark.parametrize(
    ("device", "place", "count", "own"),
    [
        ("cuda", "0", 4, "cuda:0"),
        ("cuda", "6", 4, "cuda:2"),
        ("cuda", "5", 1, "cuda:0"),
        ("cuda", "1", 0, "cuda:0"),  # then the run says that the device is not here
        ("cuda:1", "6", 4, "cuda:1"),
        ("cpu", "3", 4, "cpu"),
        ("cuda", None, 4, "cuda"),
        ("cuda", "x", 4, "cuda"),
    ],
)
def test_a_worker_takes_a_gpu_by_its_place(
    device: str, place: str | None, count: int, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if place is None:
        monkeypatch.delenv("CROSSWIND_WORKER", raising=False)
    else:
        monkeypatch.setenv("CROSSWIND_WORKER", place)
    assert own_device(device) == own


def test_another_device_of_the_kind_may_go_on_with_a_run() -> None:
    def of(device: str) -> str:
        return identity(
            ERM(),
            split(),
            {"tiny": DATA},
            ModelSpec("mlp"),
            TrainingSettings(device=device),
            0,
            None,
        )  # type: ignore[arg-type]

    assert of("cuda") == of("cuda:0") == of("cuda:1") != of("cpu")
