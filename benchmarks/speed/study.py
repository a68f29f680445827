"""A study of many runs by Crosswind against the same runs the ordinary way, both on two cores: wall
time, CPU time, accuracy.

    python -m benchmarks.speed.study --out benchmarks/results/study.json [--models mlp,small-cnn,resnet18] [--seeds 6] [--steps 500]
                               [--sides reference,fair,fp32,bf16] [--at-once 2] [--device cpu]
    python -m benchmarks.speed.study --table benchmarks/results/study.json

* `reference`: benchmarks/speed/reference_way.py --second-forward, a process a run, as many at once as
  there are cores.
* `fair`: the same without the second forward pass.
* `fp32`, `bf16`: a Crosswind study of the same rows in a pool of as many workers, at that
  precision.

Every side trains the same networks on the same rows: real digits under low-data drift (large digits
are rare in training and validation, not in the test rows), RandAugment (2, 9), batches of 128,
Adam, a validation each 100 steps, the test accuracy of the best one; no side stops early. A seed
decides the training and validation rows, for all sides alike; initial weights, order and
augmentation are each side's own. Sides take turns, a block of --at-once seeds each; a ratio is of
the same block. What is done is in --out after every block: the same command goes on after a stop,
and with more --seeds. The pool's start (planning, workers, their imports and one step) is measured
by itself, and counted in the ratio of the whole study. Goals: `GOALS` in benchmarks/speed/study_table.py.
About 4 minutes for mlp, 15 for small-cnn and 50 for resnet18 on two quiet cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.speed.study_method import StudyMethod
from benchmarks.speed.study_table import OURS, SIDES, table

from crosswind.core.types import Job
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.engines.worker import ONE_THREAD
from crosswind.execution.scheduler import drive
from crosswind.shifts.split import make_split
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.store import Store
from crosswind.studies.build import build_dataset, build_split_plan
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

JOB = "crosswind.execution.jobs:execute"
BATCH, VALIDATE_EVERY = 128, 100
SIDE = {"mlp": 32, "small-cnn": 32, "resnet18": 64}
# Those at which 500 steps teach each network most of what it can learn and not all of it.
LR = {"mlp": 1e-3, "small-cnn": 3e-3, "resnet18": 1e-4}


def study_of(
    model: str, precision: str, steps: int, seeds: list[int], name: str, device: str = "cpu"
) -> dict[str, Any]:
    """The study file's values."""
    return {
        "name": name,
        "data": {
            "digits": {
                "source": "digits",
                "options": {"size": SIDE[model]},
                "label": "digit",
                "attributes": ["size"],
                "roles": {"test": 8, "validation": 0.1},
            }
        },
        "shifts": {
            "LDD": {"type": "low-data-drift", "attribute": "size", "low": "large", "ratio": 0.3}
        },
        "sizes": {"all": "all"},
        "models": [model],
        "methods": [StudyMethod.registered_name],  # type: ignore[attr-defined]
        "reference": StudyMethod.registered_name,  # type: ignore[attr-defined]
        "training": {
            "steps": steps,
            "batch": BATCH,
            "lr": LR[model],
            "validate_every": VALIDATE_EVERY,
            "patience": None,
            "precision": precision,
            "device": device,
        },
        "seeds": seeds,
    }


def write_rows(jobs: list[Job], path: Path) -> None:
    """The rows of a planned run, whose jobs these are, as reference_way.py reads them."""
    spec = next(job.spec for job in jobs if job.kind == "fit")
    tests = {job.spec["set"]: job.spec["item"] for job in jobs if job.kind == "predict"}
    datasets = {name: build_dataset(values) for name, values in spec["data"].items()}
    plan = build_split_plan({**spec["split"], "sets": {**spec["split"]["sets"], **tests}})
    split = make_split(datasets, spec["main"], plan, spec["seed"])
    arrays = {}
    for name, rows in {"train": split.train, **split.validation, **split.evaluation}.items():
        arrays[f"{name}/pixels"] = datasets[rows.source].inputs(rows.rows)
        arrays[f"{name}/label"] = rows.label.astype(np.int64)
    np.savez(path, **arrays)


def cpu_seconds() -> float:
    """Of this process, of every process that it has waited for, and of its children that live
    (Linux)."""
    ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    total = sum(usage.ru_utime + usage.ru_stime for usage in ended)
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == os.getpid():
            ticks += sum(
                int(value) for value in fields[11:15]
            )  # its own and those of its children that it has waited for
    return total + ticks / os.sysconf("SC_CLK_TCK")


def measured(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What `work` gives, and its wall and CPU seconds."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    out = work()
    return out, {"wall": round(time.perf_counter() - wall, 3), "cpu": round(cpu_seconds() - cpu, 2)}


@dataclass
class Bench:
    """One model's runs on every side; the pool and the store are made when a Crosswind side first
    needs them."""

    model: str
    steps: int
    seeds: list[int]
    at_once: int
    device: str
    folder: Path
    stack: ExitStack
    start: dict[str, float] | None = None
    pool: WorkerPool | None = None
    store: Store | None = None
    runs: dict[tuple[str, int], list[Job]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        for seed, jobs in self._planned("fp32", self.steps, "rows").items():
            write_rows(jobs, self.folder / f"rows-{seed}.npz")

    def _planned(self, precision: str, steps: int, name: str) -> dict[int, list[Job]]:
        """The jobs of each seed."""
        found: dict[int, list[Job]] = {}
        for job in make_plan(
            study_from(study_of(self.model, precision, steps, self.seeds, name, self.device))
        ).jobs:
            found.setdefault(job.labels["seed"], []).append(job)
        return found

    def block(self, side: str, seeds: list[int]) -> dict[str, Any]:
        """Train `seeds` on one side, all at once: seconds, and what each run said."""
        if side in OURS and self.pool is None:
            _, self.start = measured(self._begin)
        runs, seconds = measured(
            lambda: self._ours(side, seeds) if side in OURS else self._reference(side, seeds)
        )
        return {**seconds, "runs": runs}

    def _begin(self) -> None:
        """What a study costs before its first run: plan, store, workers and what they import."""
        self.store = self.stack.enter_context(Store.open(self.folder / "store", create=True))
        self.pool = self.stack.enter_context(
            WorkerPool(JOB, self.at_once, [StudyMethod.__module__])
        )
        for precision in OURS:
            self._add(self._planned(precision, self.steps, precision), precision)
        first = self._planned("fp32", 1, "start")
        self._add(first, "start")
        drive(
            self.store,
            [job for jobs in list(first.values())[: self.at_once] for job in jobs],
            self.pool,
        )

    def _add(self, runs: dict[int, list[Job]], precision: str) -> None:
        assert self.store is not None
        self.store.add_plan(precision, {}, {}, [job for jobs in runs.values() for job in jobs])
        self.runs |= {(precision, seed): jobs for seed, jobs in runs.items()}

    def _ours(self, side: str, seeds: list[int]) -> list[dict[str, Any]]:
        assert self.store is not None and self.pool is not None
        chosen = [self.runs[side, seed] for seed in seeds]
        summary = drive(self.store, [job for jobs in chosen for job in jobs], self.pool)
        rows = [
            row
            for row in self.store.results(side)
            if (row["rule"], row["set"]) == ("best-id", "test")
        ]
        if summary.finished != len(seeds):
            raise SystemExit(
                f"{side}: {summary.finished} of {len(seeds)} runs finished: {self.store.runs(side)}"
            )
        accuracy = {row["key"]: row["metrics"]["accuracy"] for row in rows}
        out = []
        for seed, jobs in zip(seeds, chosen, strict=True):
            run, score = (
                next(job for job in jobs if job.kind == kind) for kind in ("fit", "score")
            )
            history = json.loads(
                (artifact_folder(self.store.out, run.key) / "history.json").read_text()
            )
            out.append(
                {
                    "seed": seed,
                    "accuracy": accuracy[score.key],
                    "validation_accuracy": max(
                        entry["validation"]["validation"]["accuracy"] for entry in history
                    ),
                    "losses": [round(entry["train"]["loss"], 4) for entry in history],
                    "images": history[-1]["step"] * run.spec["training"]["batch"],
                    "evaluations": len(history),
                }
            )
        return out

    def _reference(self, side: str, seeds: list[int]) -> list[dict[str, Any]]:
        script = str(Path(__file__).with_name("reference_way.py"))
        started = []
        for seed in seeds:
            words = [
                sys.executable,
                script,
                str(self.folder / f"rows-{seed}.npz"),
                "--model",
                self.model,
                "--seed",
                str(seed),
            ]
            words += [
                "--device",
                self.device,
                "--steps",
                str(self.steps),
                "--batch",
                str(BATCH),
                "--lr",
                str(LR[self.model]),
            ]
            words += ["--validate-every", str(VALIDATE_EVERY)] + (
                ["--second-forward"] if side == "reference" else []
            )
            started.append(
                subprocess.Popen(
                    words, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, text=True
                )
            )
        said = [process.communicate()[0] for process in started]
        if any(process.returncode for process in started):
            raise SystemExit(f"{side}: a run of {self.model} failed")
        out = []
        for seed, text in zip(seeds, said, strict=True):
            run = json.loads(text)
            history = run.pop("history")
            losses = [round(entry["loss"], 4) for entry in history]
            out.append({"seed": seed, **run, "losses": losses, "evaluations": len(history)})
        return out


def machine() -> dict[str, Any]:
    """What a reader needs to judge the figures by."""
    import torch
    import torchvision

    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    device = {"device": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    return {
        **device,
        "cpu": names[0] if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }


def opened(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The results so far."""
    if not path.exists():
        return {"settings": settings, "machine": machine(), "starts": {}, "blocks": []}
    found = json.loads(path.read_text(encoding="utf-8"))
    if found["settings"] != settings:
        raise SystemExit(
            f"{path} holds results of other settings: {found['settings']}; name another file"
        )
    return found


def save(path: Path, results: dict[str, Any]) -> None:
    """Whole or not at all, so that a stop at any moment leaves a file to go on from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def _turned(sides: list[str], number: int) -> list[str]:
    """The sides in the order of block `number`: none is always the first."""
    turn = number % len(sides)
    return [*sides[turn:], *sides[:turn]]


def _done(results: dict[str, Any], model: str, number: int, seeds: list[int], side: str) -> bool:
    found = (
        b for b in results["blocks"] if (b["model"], b["side"], b["block"]) == (model, side, number)
    )
    return any([run["seed"] for run in block["runs"]] == seeds for block in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--models", default="mlp,small-cnn,resnet18")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument(
        "--seeds",
        type=int,
        default=6,
        help="runs of each side and model; at least 5 for the accuracies to say much",
    )
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument(
        "--at-once", type=int, default=2, help="runs at once on every side: the number of cores"
    )
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: then all runs share one")
    parser.add_argument(
        "--out", type=Path, help="results file; what it holds is not measured again"
    )
    parser.add_argument(
        "--table", type=Path, metavar="RESULTS", help="print the table of a results file and stop"
    )
    options = parser.parse_args()
    if options.table is not None:
        print(table(json.loads(options.table.read_text(encoding="utf-8"))))
        return
    if options.out is None:
        parser.error("--out or --table is needed")
    models, sides = options.models.split(","), options.sides.split(",")
    if not set(models) <= set(SIDE) or not set(sides) <= set(SIDES):
        parser.error(f"models are {', '.join(SIDE)}; sides are {', '.join(SIDES)}")
    settings = {"steps": options.steps, "at_once": options.at_once, "batch": BATCH, "lr": LR}
    if options.device != "cpu":
        settings["device"] = options.device
    results = opened(options.out, settings)
    seeds = list(range(options.seeds))
    for model in models:
        parts = list(
            enumerate(
                seeds[first : first + options.at_once]
                for first in range(0, len(seeds), options.at_once)
            )
        )
        todo = [(number, part, side) for number, part in parts for side in _turned(sides, number)]
        todo = [item for item in todo if not _done(results, model, *item)]
        if not todo:
            continue
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            bench = Bench(
                model,
                options.steps,
                seeds,
                options.at_once,
                options.device,
                Path(folder, model),
                stack,
            )
            for number, part, side in todo:
                found = bench.block(side, part)
                if bench.start is not None:
                    results["starts"].setdefault(model, bench.start)
                kept = [
                    b
                    for b in results["blocks"]
                    if (b["model"], b["side"], b["block"]) != (model, side, number)
                ]
                results["blocks"] = [
                    *kept,
                    {"model": model, "side": side, "block": number, **found},
                ]
                save(options.out, results)
                accuracies = ", ".join(f"{run['accuracy']:.3f}" for run in found["runs"])
                print(
                    f"{model} {side} block {number + 1} of {len(parts)}: {found['wall']:.1f} s,"
                    f" {accuracies}",
                    flush=True,
                )
    print(table(results))


if __name__ == "__main__":
    main()
