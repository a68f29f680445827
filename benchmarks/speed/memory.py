"""What a training set costs in memory: the peak of a worker beside the set's own bytes, and two
workers on one set.

    python -m benchmarks.speed.memory [--rows 20000] [--sides 32,64] [--rounds 3]

Real workers of a real pool train a small perceptron for one pass over ROWS pictures, or on 200 of
them. (1) The peak memory of one worker less that on the 200, over S, the bytes of the training set
in uint8; the goal is under 1.2. (2) Two workers at once, two seeds: the private memory of both and
what they share, counted once, less the same on the 200, over S: the set once, where a copy in each
worker gives 2. Medians and ranges; Linux.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.speed import pictures

from crosswind.core.types import Job
from crosswind.execution.engines import Task
from crosswind.execution.engines.pool import WorkerPool
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

JOB = "crosswind.execution.jobs:execute"
TINY, BATCH, APART = 200, 128, 100


def planned(rows: int, side: int, train: int, steps: int) -> list[Job]:
    """Two seeds on `train` of the rows; validation and test are the same few for every `train`."""
    study: dict[str, Any] = {
        "data": {
            "pictures": {
                "source": pictures.NAME,
                "options": {"rows": rows + 2 * APART, "size": side},
                "label": "label",
                "attributes": ["tint"],
                "roles": {"test": APART // 4, "validation": APART // 4},
            }
        },
        "shifts": {"none": []},
        "sizes": {"given": {"total": train}},
        "models": {"small": {"model": "mlp", "hidden": 64, "layers": 2}},
        "methods": {"erm": {}},
        "training": {
            "steps": steps,
            "batch": BATCH,
            "validate_every": steps,
            "evaluation_batch": 64,
        },
        "seeds": 2,
    }
    return [job for job in make_plan(study_from(study, name="memory")).jobs if job.kind == "fit"]


def measured(runs: list[Job]) -> tuple[list[int], list[int], int]:
    """Peaks and private memory of workers that did one run each at the same time, and what they
    hold in common, in bytes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        WorkerPool(JOB, len(runs), [pictures.__name__]) as pool,
    ):
        for number, run in enumerate(runs):
            place = Path(folder) / str(number)
            pool.submit(
                Task(
                    run.key,
                    run.kind,
                    run.spec,
                    str(place / "out"),
                    str(place / "checkpoint" / "state"),
                )
            )
        workers, ended = list(pool._busy), 0
        while ended < len(runs):
            for event in pool.wait(1.0):
                if event.kind in ("failed", "lost"):
                    raise SystemExit(f"{event.reason}\n{event.detail}")
                ended += event.kind == "finished"
        peaks, private = (
            [_status(worker._process.pid, name) for worker in workers]
            for name in ("VmHWM", "RssAnon")
        )
        shared = pool._pixels.used() if hasattr(pool, "_pixels") and pool._pixels is not None else 0
        return peaks, private, shared


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--sides", default="32,64")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{'rows':>8}{'side':>6}{'S, MiB':>8}{'one worker, MiB more':>22}{'over S':>8}"
        f" {'range':12}{'two over S':>12} {'range':12}"
    )
    for side in map(int, options.sides.split(",")):
        size, steps = options.rows * side * side * 3, -(-options.rows // BATCH)
        whole, tiny = (planned(options.rows, side, train, steps) for train in (options.rows, TINY))
        one, two = [], []
        for _ in range(options.rounds):
            peaks = [measured(runs[:1])[0][0] for runs in (whole, tiny)]
            one.append((peaks[0] - peaks[1]) / size)
            both = [measured(runs) for runs in (whole, tiny)]
            totals = [sum(private) + shared for _, private, shared in both]
            two.append((totals[0] - totals[1]) / size)
        line = f"{options.rows:8}{side:6}{size / 2**20:8.0f}{statistics.median(one) * size / 2**20:22.0f}"
        for found in (one, two):
            line += (
                f"{statistics.median(found):{8 if found is one else 12}.2f}"
                f" {f'{min(found):.2f}-{max(found):.2f}':12}"
            )
        print(line, flush=True)


if __name__ == "__main__":
    main()
