"""The shipped study of all methods under eight shifts: killed in the middle, gone on with, and no
run fails or is done again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crosswind.cli.main import _status
from crosswind.core.registry import listing
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import load_study

FINE_TUNING = {"lora", "wise-ft"}
"""Methods of given weights or of linear layers, which a ResNet from scratch has not."""
METHODS = {
    method.name for method in listing("methods") if method.module.startswith("crosswind.")
} - FINE_TUNING
SHIFTS = {"none", "SC", "LDD", "UDS", "SC+LDD", "SC+UDS", "LDD+UDS", "SC+LDD+UDS"}
HOT = (
    'methods.hot={"method": "erm", "models": ["perceptron"], "shifts": ["SC", "none"], "training":'
    ' {"lr": 1e30}}'
)


@pytest.mark.parametrize("scale", [None, "tiny", "small", "paper"])
def test_every_method_is_planned_under_every_shift(scale: str | None) -> None:
    """A method that is added must be added to the study too."""
    study = load_study("methods/all", scale)
    assert len(METHODS) >= 16
    assert set(study.methods) == METHODS
    assert set(study.shifts) == SHIFTS
    assert study.environments is not None
    if scale in (None, "tiny"):
        plan = make_plan(study)
        pairs = {
            (run.labels["method"], run.labels["shift"])
            for run in plan.runs
            if "role" not in run.labels
        }
        assert len(pairs) == len(METHODS) * 8
        rows = {draw.shift: draw.train_rows for draw in plan.draws}
        assert set(rows.values()) == ({120} if scale == "tiny" else {1080, 1091})


def run_words(out: Path) -> list[str]:
    study = ["methods/all", "--scale", "tiny", "--set", HOT]
    return ["run", *study, "--workers", "2", "--out", str(out)]


def states(out: Path) -> dict[str, dict[str, Any]]:
    if not (out / "store.sqlite").exists():
        return {}
    with Store.open(out) as store:
        return (
            {}
            if "methods/all" not in store.study_names()
            else {run["key"]: run for run in store.runs("methods/all")}
        )


def ended(runs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: run for key, run in runs.items() if run["status"] in ("finished", "diverged")}


def check_labels(runs: dict[str, dict[str, Any]]) -> None:
    """16 methods x 8 shifts, ERM with the second model too; and the two that cannot but diverge."""
    labels = [run["labels"] for run in runs.values()]
    own_labels = [run_labels for run_labels in labels if run_labels["method"] in METHODS]
    assert {(run_labels["method"], run_labels["shift"]) for run_labels in own_labels} == {
        (name, shift) for name in METHODS for shift in SHIFTS
    }
    assert (len(own_labels), len(runs)) == ((len(METHODS) + 1) * 8, (len(METHODS) + 1) * 8 + 2)
    assert {
        run_labels["model"]
        for run_labels in own_labels
        if run_labels["method"] in ("bn-adapt", "sagnet")
    } == {"conv"}
    hot = [run for run in runs.values() if run["labels"]["method"] == "hot"]
    assert [run["status"] for run in hot] == ["diverged"] * 2
    assert all(run["reason"] == "a loss was not finite by step 4" for run in hot)


def check_report(out: Path, n_diverged: int, capsys: pytest.CaptureFixture[str]) -> None:
    page = (out / "report.html").read_text()
    assert "diverged" in page
    assert page.count("a loss was not finite by step 4") >= 1
    capsys.readouterr()
    assert _status(["report", str(out), "--json", "--no-page"]) == 0
    tables = json.loads(capsys.readouterr().out)["studies"][0]["tables"]
    table = next(table for table in tables if table["name"] == "runs")
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert sum(row["diverged"] for row in rows) == n_diverged
    assert sum(row["failed"] for row in rows) == 0
    assert {row["method"]: row["diverged"] for row in rows}["hot"] == 2


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_the_study_is_killed_and_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    program = [sys.executable, "-c", "from crosswind.cli.main import main; main()"]
    driver = subprocess.Popen(
        [*program, *run_words(out)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 1200
    while len(ended(states(out))) < 60 and time.monotonic() < until and driver.poll() is None:
        time.sleep(1.0)
    os.kill(driver.pid, signal.SIGKILL)
    _, error_text = driver.communicate()
    assert driver.returncode == -signal.SIGKILL, error_text.decode()
    left = states(out)
    early = ended(left)
    assert 60 <= len(early) < len(left) - 20

    assert _status(run_words(out)) == 0
    runs = states(out)
    assert runs.keys() == left.keys()
    again = [
        key
        for key, run in early.items()
        if (runs[key]["finished"], runs[key]["attempts"]) != (run["finished"], run["attempts"])
    ]
    assert not again, f"{len(again)} of {len(early)} finished runs were done again"

    check_labels(runs)
    counts = Counter(run["status"] for run in runs.values())
    assert counts.keys() == {"finished", "diverged"}
    check_report(out, counts["diverged"], capsys)
