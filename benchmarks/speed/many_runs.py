"""What commands take on a store of many runs that are done: plan, status, a run with nothing to do, the
report and its page.

    python -m benchmarks.speed.many_runs [--runs 1000 10000 100000] [--old CHECKOUT] [--out FILE]

The store is a real one of a small study with as many seeds as it takes: one run of every shift and
method is executed, and the others are given its files (linked) and its scores with numbers of their
own, 50 metrics each. Each command is a process of its own, whose seconds and largest memory are
measured. With `--old`, the code of another checkout is asked alternately on the same store.

`drive` is a plan of that size that begins in a new store: seconds until the first job is handed to a
worker, then, over the first `--driven` runs, the milliseconds that driver, database and worker take
for a run whose jobs do nothing, and the driver's memory at the start and at the end of them. Seconds
of a processor stand beside those of the clock, since other work on a machine does not change them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from crosswind.execution.engines import Workspace
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.running import check_ready, run_plan
from crosswind.execution.scheduler import Progress, drive
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.store import Store
from crosswind.studies.plan import plan_of

ROOT = Path(__file__).resolve().parents[2]
METRICS = 50
# The command, and its largest memory in kB as the last word of standard error.
PROGRAM = """
import sys
from crosswind.cli.main import _status
status = _status(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak.split()[1], file=sys.stderr)
sys.exit(status)
"""
POINTS = 10  # runs a seed: two shifts and five methods
STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "half",
            "attributes": ["ink"],
            "roles": {"test": 10, "validation": 0.2},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "strength": 0.8},
    },
    "sizes": {"small": {"total": 60}},
    "models": ["mlp"],
    "methods": {
        "erm": {},
        **{f"mixup {a}": {"method": "mixup", "alpha": a} for a in (0.1, 0.2, 0.3, 0.4)},
    },
    "training": {"steps": 2, "batch": 16, "validate_every": 1},
}


def build(folder: Path, n_runs: int) -> Path:
    """A study file and beside it, in `out`, a store in which all of its runs are done."""
    study = {**STUDY, "seeds": max(1, n_runs // POINTS)}
    file = folder / "many.yaml"
    file.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    first = plan_of(str(file), None, ["seeds=1"])
    with Store.open(folder / "out", create=True) as store:
        run_plan(first, store)
        whole = plan_of(str(file))
        store.add_plan("many", study, whole.study.model_dump(), whole.jobs)
    done = {_place(job): job.key for job in first.jobs}
    database = sqlite3.connect(folder / "out" / "store.sqlite")
    columns = (
        "status, attempts, worker, started, finished, seconds, versions, cost, warnings, files"
    )
    draw = random.Random(0)
    template = {
        key: (
            database.execute(f"SELECT {columns} FROM runs WHERE key = ?", [key]).fetchone(),
            database.execute(
                'SELECT position, rule, "set", metrics FROM scores WHERE key = ?', [key]
            ).fetchall(),
        )
        for key in done.values()
    }
    for job in whole.jobs:
        source = done[_place(job)]
        if job.key == source:
            continue
        values, scores = template[source]
        assigned = ", ".join(f"{name.strip()} = ?" for name in columns.split(","))
        database.execute(f"UPDATE runs SET {assigned} WHERE key = ?", [*values, job.key])
        for position, rule, name, metrics in scores:
            database.execute(
                'INSERT INTO scores (key, position, rule, "set", metrics) VALUES (?, ?, ?, ?, ?)',
                [job.key, position, rule, name, _varied(metrics, draw)],
            )
        _link(artifact_folder(folder / "out", source), artifact_folder(folder / "out", job.key))
    database.commit()
    database.close()
    return file


def _place(job: Any) -> str:
    """What tells a job from the others of its seed."""
    labels = {name: value for name, value in job.labels.items() if name != "seed"}
    return json.dumps([job.kind, labels], sort_keys=True)


def _varied(metrics: str, draw: random.Random) -> str:
    values = json.loads(metrics)
    values = {
        name: min(1.0, max(0.0, value + draw.gauss(0, 0.05))) if name == "accuracy" else value
        for name, value in values.items()
    }
    extra = {f"metric {number:02d}": draw.random() for number in range(METRICS - len(values))}
    return json.dumps(values | extra)


def _link(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        for file in source.iterdir():
            os.link(file, target / file.name)


def measured(code: Path, folder: Path, *words: str) -> dict[str, float]:
    """Seconds and largest memory of a command, by the code of a checkout."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(code / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, errors = process.communicate()
    seconds = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"{words}: {errors.decode()[-500:]}")
    mebibytes = round(int(errors.split()[-1]) / 1024)
    return {"seconds": round(seconds, 2), "MiB": mebibytes}


def nothing(kind: str, spec: Mapping[str, Any], workspace: Workspace) -> dict[str, Any]:
    """A job without work, that leaves what one of a study leaves: files, and scores of 50 metrics."""
    scores = []
    if kind == "score":
        draw = random.Random(workspace.key)
        for rule in ("best-id", "last"):
            for name in ("validation", "test"):
                metrics = {f"metric {number:02d}": draw.random() for number in range(METRICS)}
                scores.append({"rule": rule, "set": name, "metrics": metrics})
    (workspace.folder / "job.json").write_text(json.dumps(spec), encoding="utf-8")
    return {"status": "finished", "scores": scores, "cost": {}, "warnings": [], "versions": {}}


class _Enough(Exception):
    """So many runs were driven."""


def driven(folder: Path, n_runs: int) -> dict[str, float]:
    """The figures of the first `n_runs` runs of a plan that begins: see the module."""
    began = time.perf_counter()
    marks: dict[str, tuple[float, float, int]] = {}

    def look(progress: Progress) -> None:
        # The first runs are left out: they wait for the start of the worker's process.
        points = {"begin": 0, "first": n_runs // 10, "last": n_runs}
        for name, n_done in points.items():
            if progress.done >= n_done and progress.message != "runs" and name not in marks:
                if name == "begin" and progress.message != "started":
                    continue
                marks[name] = time.perf_counter(), _processor_seconds(), _memory_kib()
        if "last" in marks:
            raise _Enough

    planned = plan_of(str(folder / "many.yaml"))
    check_ready(planned, 1)
    values = planned.study.model_dump(exclude_unset=True), planned.study.model_dump()
    with (
        WorkerPool("benchmarks.speed.many_runs:nothing", 1) as engine,
        Store.open(folder / "driven", create=True) as store,
    ):
        store.add_plan(planned.study.name, *values, planned.jobs)
        try:
            drive(store, planned.jobs, engine, on_event=look)
        except _Enough:
            pass
    begin, begin_processor, begin_kib = marks["begin"]
    first, first_processor, _ = marks["first"]
    last, last_processor, last_kib = marks["last"]
    measured_runs = n_runs - n_runs // 10
    return {
        "first run begins, seconds": round(begin - began, 1),
        "first run begins, processor seconds": round(begin_processor, 1),
        "a run, ms": round(1000 * (last - first) / measured_runs, 2),
        "a run, processor ms": round(1000 * (last_processor - first_processor) / measured_runs, 2),
        "MiB at the first run": round(begin_kib / 1024),
        "MiB at the last one": round(last_kib / 1024),
    }


def _processor_seconds() -> float:
    """Seconds of a processor that this process and its workers had."""
    total = time.process_time()
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    for child in children:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def _memory_kib() -> int:
    """The memory that this process has now."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


COMMANDS = {
    "plan": ("plan", "many.yaml", "--json"),
    "status": ("status", "out"),
    "run, which reports": ("run", "many.yaml", "--out", "out", "--workers", "1"),
    "run, nothing to do": ("run", "many.yaml", "--out", "out", "--workers", "1"),
    "report": ("report", "out"),
}


def main() -> None:
    """Build the stores, ask each command, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--old", type=Path, default=None)
    kinds = [*COMMANDS, "drive"]
    parser.add_argument("--commands", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--driven", type=int, default=2000, help="runs that are driven, at most")
    parser.add_argument("--drive", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    if chosen.drive is not None:
        print(json.dumps(driven(chosen.drive, chosen.driven)))
        return
    rows = []
    for n_runs in chosen.runs:
        folder = Path(tempfile.mkdtemp(prefix="many-runs-"))
        try:
            build(folder, n_runs)
            for name in [name for name in COMMANDS if name in chosen.commands]:
                row: dict[str, Any] = {"runs": n_runs, "command": name}
                codes = {"old": chosen.old.resolve()} if chosen.old else {}
                for label, code in {**codes, "new": ROOT}.items():
                    row[label] = measured(code, folder, *COMMANDS[name])
                rows.append(row)
                print(json.dumps(row), flush=True)
            if "drive" in chosen.commands:
                # In a process of its own, whose memory is that of a driver alone.
                words = ["--drive", str(folder), "--driven", str(min(chosen.driven, n_runs))]
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.speed.many_runs", *words],
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                    capture_output=True,
                    check=True,
                )
                row = {"runs": n_runs, "command": "drive", "new": json.loads(done.stdout)}
                rows.append(row)
                print(json.dumps(row), flush=True)
            page = folder / "out" / "report.html"
            if page.is_file():
                size = round(page.stat().st_size / 2**20, 1)
                rows.append({"runs": n_runs, "command": "page", "new": {"MiB": size}})
                print(json.dumps(rows[-1]), flush=True)
        finally:
            shutil.rmtree(folder)
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
