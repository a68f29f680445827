"""Runs on a Ray cluster are those of this machine, and nothing is lost with its nodes.

The cluster is a real one: two nodes on this machine, each with processes of its own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.execution.toys import planned
from tests.models.test_sklearn_estimator import table_and_study

from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.core.types import Job
from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.ray_cluster import RayCluster, _ensure_token, named_paths
from crosswind.execution.engines.ray_node import packed, with_paths
from crosswind.execution.scheduler import Summary, drive
from crosswind.storage.store import Store
from crosswind.studies.resources import Resources, parse_resources, resources_of
from crosswind.studies.spec import study_from

EXECUTE = "tests.execution.toys:execute"


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """A cluster of a head without processors and two nodes with one each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


def executed(out: Path, jobs: Sequence[Job], engine: Any, **settings: Any) -> Summary:
    with Store.open(out, create=True) as store:
        store.add_plan("toys", {}, {}, jobs)
        with engine:
            return drive(store, jobs, engine, **settings)


def metrics(out: Path) -> dict[str, Any]:
    """By run, rule and set what was measured."""
    with Store.open(out) as store:
        return {
            f"{row['key']}/{row['rule']}/{row['set']}": row["metrics"]
            for row in store.results("toys")
            if row["rule"] is not None
        }


def tree() -> list[Job]:
    base = planned("base", seconds=0.2)
    return [base, *(planned(f"run {n}", needs=[base.key], seconds=0.3) for n in range(6))]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [None, False])
def test_runs_of_a_cluster_are_those_of_this_process(
    shared: bool | None, two_nodes: Any, tmp_path: Path
) -> None:
    jobs = [*tree(), planned("broken", does="raise"), planned("hangs", does="hang")]
    executed(tmp_path / "here", tree(), Inline(EXECUTE))
    engine = RayCluster(EXECUTE, tmp_path / "ray", address=two_nodes.address, shared=shared)
    assert engine.workers == 2 and engine._shared is (shared is None)
    summary = executed(tmp_path / "ray", jobs, engine, time_limit=2.0)
    assert (summary.finished, summary.failed) == (7, 2)
    assert metrics(tmp_path / "ray") == metrics(tmp_path / "here")
    assert len(metrics(tmp_path / "ray")) == 14
    with Store.open(tmp_path / "ray") as store:
        reasons = [store.run(job.key)["reason"] for job in jobs[-2:]]
        workers = {store.run(job.key)["worker"] for job in jobs[:-2]}
        assert not store.damaged()
    assert reasons[0].startswith("ValueError: the toy is broken")
    assert reasons[1] == "time limit: the run took more than 2 seconds"
    assert workers and all(worker.startswith("node ") for worker in workers)
    assert not list((tmp_path / "ray").glob(".seen-by-nodes-*"))


@pytest.mark.slow
def test_a_run_that_no_node_has_room_for_is_told_of(two_nodes: Any, tmp_path: Path) -> None:
    resources = {"gpu": Resources(1, 0.5), "memory": Resources(1, 0, 4000 * 2**30)}
    engine = RayCluster(EXECUTE, tmp_path, address=two_nodes.address, resources=resources)
    with engine:
        assert [note.partition(", which")[0] for note in engine.notes] == [
            "resources: no node of the cluster has room for 1 CPU, 0.5 GPU",
            "resources: no node of the cluster has room for 1 CPU, 4,000 GiB of memory",
        ]
    with RayCluster(EXECUTE, tmp_path, address=two_nodes.address) as engine:
        assert not engine.notes


@pytest.mark.slow
def test_what_a_lost_node_had_is_done_on_another_from_its_checkpoint(
    two_nodes: Any, tmp_path: Path
) -> None:
    jobs = [planned(f"run {n}", seconds=4.0, steps=20, log=str(tmp_path / "log")) for n in range(4)]
    executed(tmp_path / "here", [planned(f"run {n}", steps=20) for n in range(4)], Inline(EXECUTE))
    nodes = sorted(two_nodes.worker_nodes, key=str)

    def lose_a_node() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not list(
            (tmp_path / "ray").rglob("state.safetensors")
        ):
            time.sleep(0.1)
        time.sleep(1.0)
        two_nodes.remove_node(nodes[0], allow_graceful=False)

    engine = RayCluster(EXECUTE, tmp_path / "ray", address=two_nodes.address)
    thread = threading.Thread(target=lose_a_node)
    thread.start()
    summary = executed(tmp_path / "ray", jobs, engine)
    thread.join()
    two_nodes.add_node(num_cpus=1)
    assert (summary.finished, summary.failed) == (4, 0)
    with Store.open(tmp_path / "ray") as store:
        attempts = [store.run(job.key)["attempts"] for job in jobs]
    assert max(attempts) == 2 and sum(attempts) >= 5  # one node had one run or more
    assert sorted(map(str, metrics(tmp_path / "ray").values())) == sorted(
        map(str, metrics(tmp_path / "here").values())
    )


@pytest.mark.slow
def test_a_process_that_dies_costs_its_run_one_try(two_nodes: Any, tmp_path: Path) -> None:
    jobs = [planned("dies once", does="die once"), planned("dies", does="die"), planned("lives")]
    engine = RayCluster(EXECUTE, tmp_path / "ray", address=two_nodes.address)
    summary = executed(tmp_path / "ray", jobs, engine)
    assert (summary.finished, summary.failed) == (2, 1)
    with Store.open(tmp_path / "ray") as store:
        once, dead, _ = (store.run(job.key) for job in jobs)
    assert (once["status"], once["attempts"]) == ("finished", 2)
    assert dead["reason"].startswith("tried 2 times: its process died")


@pytest.mark.slow
def test_a_killed_driver_goes_on_and_the_data_of_a_study_come_along(
    two_nodes: Any, tmp_path: Path
) -> None:
    file = table_and_study(tmp_path)
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    study |= {"models": ["tabular"], "methods": ["erm"], "seeds": 6}
    study["training"] = {"steps": 300, "batch": 32, "validate_every": 100}
    file.write_text(yaml.safe_dump(study), encoding="utf-8")
    run = ["run", str(file), "--out", str(tmp_path / "ray"), "--engine", "ray"]
    run += ["--address", two_nodes.address]
    code = "import sys; from crosswind.cli.main import main; sys.exit(main())"
    driver = subprocess.Popen(
        [sys.executable, "-c", code, *run], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not finished(tmp_path / "ray"):
        time.sleep(0.1)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    done = finished(tmp_path / "ray")
    assert 1 <= len(done) < 12
    assert _status(run) == 0
    local = ["run", str(file), "--out", str(tmp_path / "here"), "--workers", "1"]
    assert _status(local) == 0
    assert scores(tmp_path / "ray") == scores(tmp_path / "here")
    assert len(finished(tmp_path / "ray")) == 12
    assert done.items() <= finished(tmp_path / "ray").items()  # none was done again


def finished(out: Path) -> dict[str, float]:
    """By key the seconds of each run of a store that is finished; none where no store is yet."""
    if not (out / "store.sqlite").exists():
        return {}
    with Store.open(out) as store:
        return {
            row["key"]: row["seconds"]
            for name in store.study_names()
            for row in store.results(name)
            if row["status"] == "finished"
        }


def scores(out: Path) -> dict[str, Any]:
    """By key, rule and set what a study's runs scored."""
    with Store.open(out) as store:
        rows = [row for name in store.study_names() for row in store.results(name)]
    return {f"{row['key']}/{row['rule']}/{row['set']}": json.dumps(row["metrics"]) for row in rows}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "rey"], "unknown engine 'rey', did you mean 'ray'? (valid: pool, ray)"),
        (["--address", "auto"], "--address: is of a Ray cluster: --engine ray"),
        (
            ["--engine", "ray", "--address", "127.0.0.1:1"],
            "--address: '127.0.0.1:1' is no cluster that answers (Connection refused);"
            " start one by `ray start --head`, or leave --address out",
        ),
        (
            ["--engine", "ray", "--address", "head"],
            "'head' is no address of a cluster: auto, HOST:PORT or ray://HOST:PORT; start one",
        ),
        (["--set", "resources.gpu=1"], "unknown resource 'gpu', did you mean 'gpus'?"),
        (["--set", "resources.gpus=1.5"], "must be a share below 1 or a whole number, not 1.5"),
        (["--set", "resources.cpus=0"], "must be a number above 0, not 0"),
        (["--set", "resources.memory=much"], "is no amount of memory such as 500MB or 8GB"),
    ],
)
def test_what_cannot_be_executed_is_refused_before_anything_is_written(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = [] if "--engine" in arguments or "--address" in arguments else ["--engine", "ray"]
    file = table_and_study(tmp_path)
    out = tmp_path / "out"
    assert _status(["run", str(file), "--out", str(out), *engine, *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("mode", ["", "token"])
def test_what_answers_and_is_no_head_of_a_cluster_is_refused_where_ray_would_wait(
    mode: str, tmp_path: Path
) -> None:
    refusal = "import ray.exceptions as kinds; import ray._raylet as raylet\n"
    refusal += "def client(address): raise kinds.RpcError('Method not found!')\n"
    refusal += "raylet.GcsClient = client\n"
    words = {
        "": "is no head of a Ray cluster (Method not found!); name the port of `ray start --head`",
        "token": "is a cluster with a token, which this user lacks or has another of;",
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        run = ["run", str(table_and_study(tmp_path)), "--out", str(tmp_path / "out")]
        run += ["--engine", "ray", "--address", address]
        code = f"{refusal}import sys; from crosswind.cli.main import main; sys.exit(main())"
        env = {**os.environ, "HOME": str(tmp_path), "RAY_AUTH_MODE": mode}
        ended = subprocess.run(
            [sys.executable, "-c", code, *run],
            env={name: value for name, value in env.items() if value},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 2 and words[mode] in ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_cluster_of_this_machine_has_a_token_though_the_home_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    _ensure_token()
    assert not os.environ.keys() & set(variables)  # Ray keeps one in the home
    monkeypatch.setenv("HOME", "/proc/nobody")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    _ensure_token()
    assert "RAY_AUTH_TOKEN" not in os.environ
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")  # so that what is set is taken back
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    _ensure_token()
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.slow
def test_resources_that_this_machine_lacks_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = table_and_study(tmp_path)
    out = tmp_path / "out"
    run = ["run", str(file), "--out", str(out), "--engine", "ray", "--set", "resources.cpus=4000"]
    assert _status(run) == 2
    assert "a run asks for 4000 CPU, and this machine has not so much" in capsys.readouterr().err
    assert not out.exists()


def test_resources_are_of_the_method_else_of_the_study_else_of_the_device(tmp_path: Path) -> None:
    file = table_and_study(tmp_path)
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    study["resources"] = {"cpus": 2, "memory": "4GB"}
    study["methods"]["groupdro"]["resources"] = {"gpus": 0.5, "memory": None}
    parsed = study_from(study, where="study")

    def job(method: str, device: str = "cpu") -> Job:
        return Job(f"{method} {device}", {"training": {"device": device}}, {"method": method})

    taken = resources_of(parsed, [job("erm"), job("groupdro"), job("erm", "cuda:1")])
    assert list(taken.values()) == [
        Resources(2, 0, 4 * 2**30),
        Resources(2, 0.5, None),
        Resources(2, 1, 4 * 2**30),
    ]
    node = {"CPU": 16.0, "GPU": 2.0, "memory": 9.0 * 2**30}
    assert [each.fitting(node) for each in taken.values()] == [2, 4, 2]
    assert (
        Resources().fitting({"CPU": 3.0}) == 3 and Resources(gpus=1).fitting(node | {"GPU": 0}) == 0
    )
    with pytest.raises(InputError, match=r"^resources: must be a mapping such as"):
        parse_resources([1], "resources")


@pytest.mark.slow
def test_paths_of_a_specification_are_found_and_replaced(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n", encoding="utf-8")
    spec = {
        "data": {"p": {"options": {"path": str(table), "numbers": ["a"]}}},
        "model": {"function": f"{table}:answer"},
        "read": {str(table): "sha"},
        "other": ["/no/such/file", "a:b", "", "/"],
    }
    assert set(named_paths(spec)) == {str(table)}
    moved = with_paths(spec, {str(table): "/elsewhere/t.csv"})
    assert moved["data"]["p"]["options"] == {"path": "/elsewhere/t.csv", "numbers": ["a"]}
    assert moved["model"]["function"] == "/elsewhere/t.csv:answer"
    assert moved["read"] == {"/elsewhere/t.csv": "sha"} and moved["other"] == spec["other"]
    assert packed(table) == packed(table) and os.path.basename(table).encode() in packed(table)
