"""Each worker of a pool has a place of its own among those that work at once, by which it chooses
its GPU."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.execution.toys import planned

from crosswind.execution.engines import Workspace
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.scheduler import drive
from crosswind.storage.store import Store
from crosswind.training.settings import WORKER_VARIABLE


def execute(kind: str, spec: Any, workspace: Workspace) -> dict[str, Any]:
    """Tell the place of this worker; die at the first try if the specification says so, after the
    others have begun."""
    begun = Path(spec["log"]) / f"{spec['name']}-{os.getpid()}"
    begun.touch()
    while len({path.name.split("-")[0] for path in begun.parent.iterdir()}) < spec["others"]:
        time.sleep(0.01)
    if spec["dies"] and not workspace.checkpoint.exists():
        workspace.checkpoint.touch()
        os._exit(3)
    if not spec["dies"]:
        while (
            len(list(begun.parent.iterdir())) < spec["others"] + 1
        ):  # until the dead one's successor is here
            time.sleep(0.01)
    cost = {"place": os.environ[WORKER_VARIABLE], "pid": os.getpid()}
    return {"status": "finished", "scores": [], "cost": cost}


@pytest.mark.slow
def test_a_worker_that_replaces_a_dead_one_takes_its_place(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    runs = [planned(name, log=str(log), others=3, dies=name == "b") for name in ("a", "b", "c")]
    with (
        Store.open(tmp_path / "out", create=True) as store,
        WorkerPool("tests.execution.test_places:execute", 3) as engine,
    ):
        store.add_plan("toys", {}, {}, runs)
        summary = drive(store, runs, engine, time_limit=60)
        place_of = {run["labels"]["method"]: run["cost"]["place"] for run in store.runs("toys")}
    assert place_of == {"a": "0", "b": "1", "c": "2"}
    assert summary.finished == 3 and 0 < summary.busy <= 1
