"""`crosswind status --watch` looks again until all runs are done, and stops none by being stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from tests.models.test_sklearn_estimator import table_and_study

from crosswind.cli.main import _status
from crosswind.storage.store import Store

CODE = "import sys; from crosswind.cli.main import main; sys.exit(main())"


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", CODE, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ,
    )


@pytest.mark.slow
def test_it_is_looked_again_until_all_is_done(tmp_path: Path) -> None:
    file = table_and_study(tmp_path)
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    study |= {"models": ["tabular"], "methods": ["erm"], "seeds": 4, "name": "watched"}
    study["training"] = {"steps": 300, "batch": 32, "validate_every": 100}
    file.write_text(yaml.safe_dump(study), encoding="utf-8")
    out = str(tmp_path / "out")
    run = started("run", str(file), "--out", out, "--workers", "1")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not stored_studies(tmp_path / "out"):
        time.sleep(0.1)
    stopped = started("status", out, "--watch")
    time.sleep(3)
    stopped.send_signal(signal.SIGINT)
    stopped.communicate(timeout=30)
    assert stopped.returncode == 130
    watch = started("status", out, "--watch")
    lines, _ = watch.communicate(timeout=600)
    assert watch.returncode == 0, lines
    run.communicate(timeout=600)
    assert run.returncode == 0
    counts = [int(number or 0) for number in re.findall(r"8 runs: (?:(\d+) finished)?", lines)]
    assert counts == sorted(counts) and counts[-1] == 8, lines
    assert "study watched: 8 runs: 8 finished\n" in lines
    assert _status(["status", out, "--watch"]) == 0  # nothing is left: one look


def stored_studies(out: Path) -> list[str]:
    if not (out / "store.sqlite").exists():
        return []
    with Store.open(out) as store:
        return store.study_names()
