"""The workers of a pool render each row once for all, survive the death of one, keep to the bound,
and leave nothing."""

from __future__ import annotations

import importlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from crosswind.core import registry
from crosswind.core.types import digest_arrays
from crosswind.data.budget import bounded
from crosswind.execution.engines import Event, Task
from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.scheduler import drive
from crosswind.storage.predictions_file import read_predictions
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="looks at /proc")


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    module = importlib.import_module("tests.execution.counted")
    registry.register(module.NAME, kind="source")(module.CountedPictures)
    monkeypatch.setenv(module.LOG, str(tmp_path / "drawn"))
    yield module
    registry.forget("sources", module.NAME)


def finished(pool: WorkerPool, folder: Path, *specs: dict[str, Any]) -> list[Event]:
    """Run the specs, trying once more what is lost; the events that ended each."""
    todo = {str(number): dict(spec) for number, spec in enumerate(specs)}
    waiting, ended, deadline = list(todo), {}, time.monotonic() + 100
    while len(ended) < len(todo):
        assert time.monotonic() < deadline
        while waiting and pool.idle():
            key = waiting.pop()
            pool.submit(
                Task(
                    key,
                    "score",
                    todo[key],
                    str(folder / key),
                    str(folder / f"state-{key}" / "state"),
                )
            )
        for event in pool.wait(0.2):
            if event.kind == "lost":
                waiting.append(event.key)
            elif event.kind != "progress":
                ended[event.key] = event
    return [ended[key] for key in todo]


def drawn(folder: Path) -> Counter[int]:
    return Counter(int(line.split()[1]) for line in (folder / "drawn").read_text().splitlines())


def open_regions() -> list[str]:
    open_paths = [
        os.path.realpath(f"/proc/self/fd/{entry}") for entry in os.listdir("/proc/self/fd")
    ]
    return [name for name in open_paths if "crosswind-pixels" in name]


@pytest.mark.slow
def test_two_workers_hold_one_copy_and_leave_nothing(counted: ModuleType, tmp_path: Path) -> None:
    before = open_regions()
    with WorkerPool("tests.execution.counted:execute", 2, [counted.MODULE]) as pool:
        events = finished(pool, tmp_path, *[{"rows": rows} for rows in (3000, 3000, 1500, 3000)])
        assert pool._pixels is not None and 3000 * 768 < pool._pixels.used() < 3000 * 768 + (
            1 << 16
        )
    expected = [
        digest_arrays({"pixels": counted.picture(np.arange(rows))})
        for rows in (3000, 3000, 1500, 3000)
    ]
    assert [event.result["cost"]["digest"] for event in events] == expected
    assert all(event.result["cost"]["held"] for event in events)
    assert drawn(tmp_path) == Counter(range(3000))
    assert open_regions() == before and pool._pixels is None


@pytest.mark.slow
def test_a_worker_that_dies_while_it_draws_costs_no_bit(
    counted: ModuleType, tmp_path: Path
) -> None:
    with WorkerPool("tests.execution.counted:execute", 2, [counted.MODULE]) as pool:
        events = finished(
            pool,
            tmp_path,
            {"rows": 3000, "dies": True},
            {"rows": 2000},
            {"rows": 3000, "dies": True},
        )
        assert pool._started > 2
    assert [event.kind for event in events] == ["finished"] * 3
    expected = [
        digest_arrays({"pixels": counted.picture(np.arange(rows))}) for rows in (3000, 2000, 3000)
    ]
    assert [event.result["cost"]["digest"] for event in events] == expected
    assert drawn(tmp_path) == Counter(range(3000))


@pytest.mark.slow
def test_the_bound_is_that_of_all_workers(counted: ModuleType, tmp_path: Path) -> None:
    with WorkerPool(
        "tests.execution.counted:execute", 2, [counted.MODULE], memory=1000 * 768
    ) as pool:
        events = finished(pool, tmp_path, {"rows": 1800}, {"rows": 1800})
        assert pool._pixels is not None and 990 * 768 < pool._pixels.used() < 1000 * 768 + 4096
    assert not any(event.result["cost"]["held"] for event in events)
    expected = digest_arrays({"pixels": counted.picture(np.arange(1800))})
    assert [event.result["cost"]["digest"] for event in events] == [expected] * 2


@pytest.mark.slow
def test_a_study_draws_its_rows_once_and_its_numbers_are_those_of_one_that_streams(
    counted: ModuleType, tmp_path: Path
) -> None:
    study = {
        "data": {
            "toys": {
                "source": counted.NAME,
                "options": {"rows": 1200},
                "label": "light",
                "attributes": ["tint"],
            }
        },
        "shifts": {"none": []},
        "models": {"small": {"model": "mlp", "hidden": 16, "layers": 2}},
        "methods": {"erm": {}},
        "training": {"steps": 6, "batch": 32, "validate_every": 3},
        "seeds": 2,
    }
    plan = make_plan(study_from(study, name="counted"))
    engines = {
        "two": WorkerPool("crosswind.execution.jobs:execute", 2, [counted.MODULE]),
        "streamed": WorkerPool("crosswind.execution.jobs:execute", 1, [counted.MODULE], memory=0),
        "here": Inline("crosswind.execution.jobs:execute"),
    }
    numbers_by_way = {}
    for name, engine in engines.items():
        with Store.open(tmp_path / name, create=True) as store, engine:
            store.add_plan("counted", {}, plan.study.model_dump(), plan.jobs)
            with bounded(200 * 776 if name == "here" else None):
                assert drive(store, plan.jobs, engine).finished == 2
            logits = {}
            for path in sorted((tmp_path / name).rglob("predictions.npz")):
                for rule, sets in read_predictions(path).items():
                    for set_name, set_metrics in sets.items():
                        assert set_metrics.logits is not None
                        logits[path.parent.name, rule, set_name] = set_metrics.logits.tobytes()
            numbers_by_way[name] = logits
        if name == "two":
            assert set(drawn(tmp_path).values()) == {1}
    assert (
        len(numbers_by_way["two"]) >= 4
        and numbers_by_way["two"] == numbers_by_way["streamed"] == numbers_by_way["here"]
    )
