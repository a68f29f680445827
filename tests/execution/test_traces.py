"""`--profile`: the first executed run of every data set, model and method is traced, in any engine,
and no number changes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from crosswind.core.types import Job
from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.scheduler import Summary, drive
from crosswind.execution.traces import Traces
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.training.own_action import SPAN

JOB = "crosswind.execution.jobs:execute"
STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2, "validation": 0.15},
        }
    },
    "shifts": {"none": []},
    "sizes": {"equal": {"total": 150}},
    "models": {"small/one": {"model": "mlp", "hidden": 32, "layers": 2}},
    "methods": {"erm": {}, "groupdro": {"eta": [0.01, 0.5]}},
    "training": {"steps": 16, "batch": 32, "validate_every": 8},
    "seeds": 1,
}


def done(out: Path, engine: Any, **options: Any) -> tuple[Summary, list[Any]]:
    plan = make_plan(study_from(STUDY, name="traced"))
    with Store.open(out, create=True) as store, engine:
        store.add_plan("traced", {}, plan.study.model_dump(), plan.jobs)
        summary = drive(store, plan.jobs, engine, **options)
        return summary, [
            (row["key"], row["rule"], row["set"], row["metrics"]) for row in store.results("traced")
        ]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> list[Any]:
    return done(tmp_path_factory.mktemp("plain"), Inline(JOB))[1]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_one_run_of_every_kind_is_traced_and_no_number_changes(
    workers: int, tmp_path: Path, plain: list[Any]
) -> None:
    engine = WorkerPool(JOB, workers) if workers else Inline(JOB)
    summary, rows_found = done(tmp_path, engine, profile=tmp_path / "profile")
    assert rows_found == plain
    names = ["digits-small-one-erm", "digits-small-one-groupdro"]
    assert sorted(summary.traces) == [
        str(tmp_path / "profile" / f"{name}.json.gz") for name in names
    ]
    assert summary.untraced == () and summary.executed == 3 and 0 < summary.busy <= 1
    files = sorted(path.name for path in (tmp_path / "profile").iterdir())
    assert files == sorted(f"{name}.{end}" for name in names for end in ("json.gz", "txt"))
    for name in names:
        events = json.loads(
            gzip.decompress((tmp_path / "profile" / f"{name}.json.gz").read_bytes())
        )["traceEvents"]
        spans = {event["name"] for event in events}
        assert {"training step", "validation"} <= spans and (SPAN in spans) == name.endswith(
            "groupdro"
        )
        assert "aten::" in (tmp_path / "profile" / f"{name}.txt").read_text()
    again, _ = done(tmp_path, Inline(JOB), profile=tmp_path / "profile")
    assert (again.executed, again.traces, again.untraced) == (0, (), ())


@pytest.mark.slow
def test_a_trace_that_cannot_be_written_fails_no_run(tmp_path: Path, plain: list[Any]) -> None:
    (tmp_path / "profile").write_text("a file is in the way")
    summary, rows_found = done(tmp_path, Inline(JOB), profile=tmp_path / "profile")
    assert rows_found == plain and summary.finished == 3 and summary.traces == ()
    assert len(summary.untraced) == 2
    assert summary.untraced[0].startswith(
        "digits, small/one, erm: digits-small-one-erm.json.gz cannot be written: "
    )


def run_of(key: str, method: str, **labels: Any) -> Job:
    return Job(key, {}, {"data": "d", "model": "m", "method": method, **labels})


def test_names_are_safe_and_differ() -> None:
    runs = [
        run_of("1", "a/b"),
        run_of("2", "a b"),
        run_of("3", "A-B"),
        run_of("4", "../../x"),
        run_of("5", "é" * 300),
    ]
    runs += [
        run_of("6", "erm (base)", role="base"),
        run_of("7", "x" * 300),
        run_of("8", "X x"),
        run_of("9", "x X"),
    ]
    runs.append(Job("10", {}, {"method": "..", "seed": 0}))
    traces = Traces(Path("/folder"))
    paths = [str(traces.path(run)) for run in runs]
    assert paths[:4] == [
        "/folder/d-m-a-b",
        "/folder/d-m-a-b-2",
        "/folder/d-m-A-B-3",
        "/folder/d-m-..-..-x",
    ]
    assert len({path.lower() for path in paths}) == len(paths)
    assert all(path.count("/") == 2 and len(path) < 140 for path in paths)
    assert paths[-1] == "/folder/run"


def test_after_a_failure_the_next_of_the_kind_is_traced() -> None:
    first, second, third = (run_of(key, "erm", seed=seed) for seed, key in enumerate("123"))
    traces = Traces(Path("/folder"))
    assert traces.path(first) is not None and traces.path(second) is None
    assert traces.path(first) is not None, "its worker died: it is tried again"
    traces.ended(second, {"status": "finished"})
    traces.ended(first, None)
    assert traces.path(third) is not None and traces.path(first) is None
    traces.ended(third, {"profile": {"path": "/folder/d-m-erm.json.gz", "trouble": ""}})
    assert traces.written == ["/folder/d-m-erm.json.gz"] and traces.troubles == []
