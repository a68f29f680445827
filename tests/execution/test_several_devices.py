"""Runs that are shared among several devices, by an engine of processes: the same numbers whatever is
killed, nothing left behind, causes in words."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.execution.test_whole_runs import JOB, STUDY, numbers

import crosswind as cw
from crosswind.core.errors import InputError
from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.running import check_ready, devices_of, engine_of
from crosswind.execution.scheduler import drive
from crosswind.storage.store import Store
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.resources import resources_of
from crosswind.studies.spec import study_from

SHARED: dict[str, Any] = {
    **STUDY,
    "shifts": {"SC": STUDY["shifts"]["SC"]},
    "label_noise": 0.0,
    "methods": ["erm"],
    "models": {"small": {"model": "mlp", "hidden": 32, "layers": 2}},
    "seeds": 1,
}


def planned(steps: int = 20, devices: int = 2, **training: Any) -> Plan:
    settings = {
        **STUDY["training"],
        "steps": steps,
        "devices": devices,
        "device": "cpu",
        **training,
    }
    return make_plan(study_from({**SHARED, "training": settings}, name="whole"))


def ranks() -> list[int]:
    """The processes that take part in a run beside its first."""
    processes = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"crosswind.execution.rank_processes" in words:
            processes.append(int(entry.parent.name))
    return processes


def finish(out: Path, plan: Plan, engine: Any) -> tuple[list[dict[str, Any]], Any]:
    with Store.open(out, create=True) as store, engine:
        store.add_plan(plan.study.name, {}, plan.study.model_dump(), plan.jobs)
        summary = drive(store, plan.jobs, engine)
        return numbers(store), summary


def metrics_of(rows: list[dict[str, Any]]) -> list[Any]:
    return [(row["rule"], row["set"], row["metrics"]) for row in rows]


@pytest.mark.slow
def test_a_killed_process_is_a_cause_of_the_machine_and_the_run_goes_on(tmp_path: Path) -> None:
    plan = planned(steps=200, validate_every=20)
    undisturbed, _ = finish(tmp_path / "undisturbed", plan, Inline(JOB))
    checkpoints = tmp_path / "killed"
    killed: list[int] = []

    def kill() -> None:
        # After the first checkpoint, so that a part of the run is not done again.
        while not list(checkpoints.rglob("state.safetensors")):
            time.sleep(0.02)
        while not (alive := ranks()):
            time.sleep(0.01)
        os.kill(alive[0], signal.SIGKILL)
        killed.append(alive[0])

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    rows, summary = finish(checkpoints, plan, WorkerPool(JOB, 1))
    assert killed and not summary.failed
    assert rows == undisturbed
    assert not ranks()


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The numbers of a run that is shared by this process and one more."""
    rows, _ = finish(tmp_path_factory.mktemp("inline"), planned(), Inline(JOB))
    return rows


@pytest.mark.slow
def test_a_cluster_of_this_machine_has_room_for_every_process_of_a_run(
    tmp_path: Path, inline: list[dict[str, Any]]
) -> None:
    plan = planned()
    on_cluster, summary = finish(
        tmp_path / "ray", plan, engine_of(plan, tmp_path / "ray", workers=1, engine="ray")
    )
    assert on_cluster == inline and not summary.failed


@pytest.mark.slow
def test_several_processes_in_this_one_and_in_a_pool_give_the_same_bits(
    tmp_path: Path, inline: list[dict[str, Any]]
) -> None:
    pool, _ = finish(tmp_path / "pool", planned(), WorkerPool(JOB, 1))
    alone, _ = finish(tmp_path / "alone", planned(devices=1), Inline(JOB))
    assert inline == pool
    assert [row["key"] for row in inline] != [row["key"] for row in alone]
    for shared_row, row in zip(metrics_of(inline), metrics_of(alone), strict=True):
        assert shared_row[:2] == row[:2]
        assert shared_row[2]["accuracy"] == pytest.approx(row[2]["accuracy"], abs=0.02)
    assert not ranks()


def test_what_another_process_says_is_the_reason(tmp_path: Path, monkeypatch: Any) -> None:
    plan = planned()
    # This process has imported what the variable named before; another one reads it anew.
    monkeypatch.setenv("CROSSWIND_MODULES", "there.is.no.such.module")
    with Store.open(tmp_path, create=True) as store, Inline(JOB) as engine:
        store.add_plan(plan.study.name, {}, plan.study.model_dump(), plan.jobs)
        drive(store, plan.jobs, engine)
        reasons = {store.run(job.key)["reason"] for job in plan.jobs if job.kind == "fit"}
    assert len(reasons) == 1
    assert re.search(r"process 2 of 2 \(training.devices\) failed: .*no.such.module", reasons.pop())


def test_more_devices_than_there_are_are_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="training.devices: is 64, and this machine has"):
        check_ready(planned(devices=64, batch=64), 1)


def test_a_run_takes_as_many_processors_as_devices() -> None:
    plan = planned(devices=2)
    assert devices_of(plan) == 2
    fits = [job for job in plan.jobs if job.kind == "fit"]
    taken = resources_of(plan.study, plan.jobs)
    assert {taken[job.key].cpus for job in fits} == {2.0}
    assert devices_of(planned(devices=1)) == 1


def test_a_model_that_is_trained_at_once_keeps_to_one_device() -> None:
    forest = {"model": "sklearn", "estimator": "sklearn.linear_model.LogisticRegression"}
    small = SHARED["models"]["small"]
    training = {**STUDY["training"], "devices": 2, "device": "cpu"}
    study = {**SHARED, "models": {"small": small, "forest": forest}, "training": training}
    plan = make_plan(study_from(study, name="whole"))
    counts = {
        job.labels["model"]: job.spec["training"]["devices"]
        for job in plan.jobs
        if job.kind == "fit"
    }
    assert counts == {"small": 2, "forest": 1}


def test_data_in_memory_are_not_shared_among_processes(tmp_path: Path) -> None:
    data = cw.from_frame({"x": [0.0, 1.0] * 100, "y": ["a", "b"] * 100}, label="y")
    training = {"steps": 2, "devices": 2, "device": "cpu"}
    study = {
        "data": {"d": {"source": data, "label": "y", "attributes": []}},
        "shifts": {"none": []},
        "models": ["mlp"],
        "training": training,
        "seeds": 1,
    }
    with pytest.raises(InputError, match="training.devices: is 2: data.d is in the memory of this"):
        cw.run_study(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()


OWN_METHOD = """
from dataclasses import dataclass
from crosswind.core.knobs import Limit
from crosswind.core.registry import register
from crosswind.methods.base import Method

@register("of-a-program", kind="method")
@dataclass(frozen=True)
class OfAProgram(Method):
    \"\"\"Plain training, by a program's own class.\"\"\"

    limit = Limit.none("it is plain training")
    version = 1
"""


@pytest.mark.slow
def test_a_method_of_a_program_is_known_to_every_process(tmp_path: Path) -> None:
    (tmp_path / "own_method.py").write_text(OWN_METHOD)
    study = {
        **SHARED,
        "methods": ["of-a-program"],
        "reference": "of-a-program",
        "training": {**STUDY["training"], "steps": 5, "devices": 2, "device": "cpu"},
    }
    program = (
        f"import own_method, crosswind as cw\ndone = cw.run_study({study!r}, 'out')\n"
        "print(done.summary.finished, done.summary.failed)\n"
    )
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split()[-2:] == ["1", "0"], done.stderr[-2000:]
