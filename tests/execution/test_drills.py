"""Studies of real training under what goes wrong: full and read-only disks, runs that diverge,
raise, hang or take all memory, two drivers, a store of before. Nothing finished is lost, nothing is
done twice, each cause is in the store, the report is drawn.

Kills are in test_kill_drills.py and test_whole_runs.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.drills import rounds
from tests.plugins import command, crosswind, install

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import counted
from crosswind.storage.store import Store

STUDY: dict[str, Any] = {
    "name": "drill",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2, "validation": 0.15},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "sizes": {"equal": {"total": 120}},
    "models": {"small": {"model": "mlp", "hidden": 16, "layers": 1}},
    "methods": {"erm": {}, "groupdro": {}},
    "training": {"steps": 12, "batch": 32, "validate_every": 4, "checkpoint_seconds": 0},
    "seeds": 2,
}
METHOD = '''
"""A method that goes wrong when it is told to."""

from __future__ import annotations

import os
import resource
import signal
import time
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.methods.base import Batch, Loss, Method, Modules, State


@register("drilled", kind="method")
@dataclass(frozen=True)
class Drilled(Method):
    """Plain training up to a step."""

    does: str = knob("work", domain="{work, nan, raise, hang, memory, tensor, die}", doc="what happens")
    at: int = knob(3, domain="[0, inf)", doc="the step at which it happens")

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        total = cross_entropy(modules["model"](batch.x), batch.y)
        if batch.step == self.at:
            if self.does == "nan":
                total = total * float("nan")
            if self.does == "raise":
                raise ValueError("the method is broken")
            if self.does == "hang":
                time.sleep(1000)
            if self.does in ("memory", "tensor"):
                resource.setrlimit(resource.RLIMIT_AS, (1 << 36, resource.RLIM_INFINITY))
                bytearray(1 << 40) if self.does == "memory" else torch.empty(1 << 40)
            if self.does == "die":
                os.kill(os.getpid(), signal.SIGKILL)
        return Loss(total)
'''


def numbers(out: Path) -> list[dict[str, Any]]:
    """Every number of the study that was finished or has diverged."""
    compared_fields = ("key", "rule", "set", "metrics", "status", "seed", "method", "shift")
    with Store.open(out) as store:
        rows = [
            {name: row[name] for name in compared_fields}
            for row in store.results("drill", unscored=False)
        ]
    return json.loads(
        json.dumps(sorted(rows, key=lambda row: (row["key"], row["rule"], row["set"])))
    )


def ended(out: Path) -> dict[str, float]:
    """The runs that are done, each with the time it was."""
    if not (out / "store.sqlite").exists():
        return {}
    with Store.open(out) as store, store.transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    with Store.open(out) as store:
        if "drill" not in store.study_names():
            return {}
        return {
            run["key"]: run["finished"]
            for run in store.runs("drill")
            if run["status"] in ("finished", "diverged")
        }


def kept(before: dict[str, float], now: dict[str, float]) -> None:
    assert set(before) <= set(now), "a finished run was lost"
    assert all(now[key] == when for key, when in before.items()), "a finished run was done again"


def study_in(folder: Path, **changes: Any) -> Path:
    path = folder / "drill.yaml"
    path.write_text(yaml.safe_dump({**STUDY, **changes}, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study undisturbed."""
    out = tmp_path_factory.mktemp("calm") / "out"
    assert cw.run_study(STUDY, out).summary.finished == 8
    return out


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def crosswind_here(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """The status of a command whose driver is this process, and what it and its workers print. A
    program of its own costs two seconds of processor time more."""
    capfd.readouterr()
    status = _status(list(map(str, words)))
    return status, *capfd.readouterr()


@rounds()
def test_a_full_disk(
    number: int, tmp_path: Path, calm: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(number)
    with small_disk(tmp_path / "disk") as disk:
        study, out, ballast = study_in(tmp_path), disk / "out", disk / "ballast"
        # Nothing fits, the store does, a few runs do.
        left = (0, chance.randrange(50_000, 300_000), chance.randrange(300_000, 1_200_000))[
            number % 3
        ]
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            for _ in range((8 * 2**20 - left) // 1024):
                file.write(b"x" * 1024)
        status, _, errors = crosswind_here(capfd, "run", study, "--workers", "2", "--out", out)
        assert status in (0, 1, 2) and "Traceback" not in errors, errors
        if status:
            assert re.search("full|No space left|disk I/O error", errors), errors
        before = ended(out)
        if status == 1:
            assert "the disk is full, so no more runs are begun" in errors
            with Store.open(out) as store:
                reasons = [
                    run["reason"] for run in store.runs("drill") if run["status"] == "failed"
                ]
            assert reasons and all(
                "No space left" in reason or "full" in reason or "I/O" in reason
                for reason in reasons
            ), reasons
        if before:  # beside the disk: the page is an eighth of it, and the study needs the room
            assert crosswind_here(capfd, "report", out, "--page", tmp_path / "report.html")[0] == 0
            assert (tmp_path / "report.html").stat().st_size > 100_000
        ballast.unlink()
        assert not cw.run_study(str(study), out).summary.failed
        kept(before, ended(out))
        assert numbers(out) == numbers(calm)


def _bytes(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@rounds()
def test_a_store_on_a_read_only_disk(
    number: int, tmp_path: Path, calm: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(number)
    study, out = study_in(tmp_path), tmp_path / "disk" / "out"
    driver = subprocess.Popen(
        [*command(), "run", str(study), "--workers", "1", "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 60
    n_done = chance.randrange(0, 8)
    while driver.poll() is None and time.monotonic() < until and len(ended(out)) < n_done:
        time.sleep(0.2)
    driver.kill()
    driver.wait()
    if not (out / "store.sqlite").exists():
        out.mkdir(parents=True, exist_ok=True)
    disk = tmp_path / "disk"
    if subprocess.run(["mount", "--bind", disk, disk], capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a folder read-only")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", disk], check=True)
        before, files = ended(out), _bytes(out)
        status, _, errors = crosswind_here(capfd, "run", study, "--workers", "1", "--out", out)
        lines = [
            line for line in errors.strip().splitlines() if not line.startswith("warning: ")
        ]  # of the plan
        assert status == 2 and len(lines) == 1, errors
        assert re.search(r"read-only|[Rr]ead-only", lines[0]), errors
        if before:
            assert crosswind_here(capfd, "status", out)[0] == 0
            report = crosswind_here(capfd, "report", out, "--tables", "all")
            assert "Accuracy on test" in report[1]
        assert _bytes(out) == files
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    assert not cw.run_study(str(study), out).summary.failed
    kept(before, ended(out))
    assert numbers(out) == numbers(calm)


REASONS = {
    "raise": r"^ValueError: the method is broken \(wrong.py, line \d+\)$",
    "hang": r"^time limit: the run took more than 20 seconds$",
    "memory": r"^tried 2 times: out of memory: ",
    "tensor": r"^tried 2 times: out of memory: .*can't allocate memory",
    "die": r"^tried 2 times: its worker was killed by SIGKILL \(out of memory\?\)$",
}


@rounds()
def test_runs_that_go_wrong(
    number: int, tmp_path: Path, calm: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(number)
    path = install(tmp_path / "site", {"wrong.py": METHOD}, {"wrong": "wrong"}, name="wrong")
    kinds = [*REASONS, "nan"]
    first = 2 * number + number // 3  # three rounds see each kind, later ones in other pairs
    kinds = [kinds[first % 6], kinds[(first + 1) % 6]]
    wrong = {
        f"its-{does}": {"method": "drilled", "does": does, "at": chance.randrange(12)}
        for does in kinds
    }
    entries = [("erm", {}), ("groupdro", {}), *wrong.items()]
    chance.shuffle(entries)
    study = study_in(tmp_path, methods=dict(entries), seeds=[0], shifts={"none": []}, time_limit=20)
    out = tmp_path / "out"
    done = crosswind("run", study, "--workers", "2", "--out", out, path=path)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    with Store.open(out) as store:
        runs = {run["labels"]["method"]: run for run in store.runs("drill")}
        nan = int("nan" in kinds)
        expected = {
            "pending": 0,
            "running": 0,
            "finished": 2,
            "diverged": nan,
            "failed": 2 - nan,
            "total": 4,
        }
        assert store.counts("drill") == expected
        scored = [
            row["metrics"]
            for row in store.results("drill")
            if row["method"] == "its-nan" and row["set"] == "test"
        ]
    for does, reason in REASONS.items() & {(does, REASONS.get(does, "")) for does in kinds}:
        run = runs[f"its-{does}"]
        assert run["status"] == "failed" and re.search(reason, run["reason"]), (does, run["reason"])
        assert run["attempts"] == (2 if "tried 2" in reason else 1)
    if nan:
        assert runs["its-nan"]["status"] == "diverged", (
            "a run with NaN is finished, counted and scored as it is"
        )
        assert scored
        assert all(0.0 <= metrics["accuracy"] <= 1.0 for metrics in scored)
    undisturbed = [row for row in numbers(calm) if (row["seed"], row["shift"]) == (0, "none")]
    assert [row for row in numbers(out) if row["method"] in ("erm", "groupdro")] == undisturbed
    status, tables, _ = crosswind_here(capfd, "report", out)
    assert status == 0
    assert ("diverged" in tables) == bool(nan)
    assert ("raise" not in kinds) or "the method is broken" in tables
    if {"memory", "tensor"} <= set(kinds):
        return  # four more tries in processes of their own; other rounds go on after one that dies
    before = ended(out)
    again = crosswind("run", study, "--workers", "1", "--out", out, path=path)
    by_machine = len({"memory", "tensor", "die"} & set(kinds))
    assert again.returncode == (1 if set(kinds) - {"nan"} else 0)
    assert f"{counted(by_machine, 'run')} in" in again.stdout
    kept(before, ended(out))


@rounds()
def test_two_drivers_on_one_store(number: int, tmp_path: Path, calm: Path) -> None:
    """One is a program with a worker, which has begun to work when this process joins it."""
    chance = random.Random(number)
    study, out = study_in(tmp_path), tmp_path / "out"
    words = [*command(), "run", str(study), "--workers", "1", "--out", str(out)]
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as first:
        n_begun = chance.randrange(1, 4)
        until = time.monotonic() + 60
        while first.poll() is None and time.monotonic() < until and _begun(out) < n_begun:
            time.sleep(0.1)
        if chance.random() < 0.3:
            first.kill()  # the other one takes over what it had
        assert not cw.run_study(str(study), out).summary.failed
        errors = first.communicate(timeout=600)[1]
        assert first.returncode in (0, -9), errors
    with Store.open(out) as store:
        assert store.counts("drill")["finished"] == 8
        assert {run["attempts"] for run in store.runs("drill")} == {1}, "a run was done twice"
    assert numbers(out) == numbers(calm)
    assert os.listdir(out / "artifacts" / ".partial") == []
    assert os.listdir(out / "checkpoints") == []


def _begun(out: Path) -> int:
    """How many runs have begun or are done."""
    if not (out / "store.sqlite").exists():
        return 0
    with Store.open(out) as store:
        rows = store.runs("drill") if "drill" in store.study_names() else []
        return sum(row["status"] != "pending" for row in rows)
