"""How much of a study of short runs is training steps: checkpoints by time beside one at each
validation.

    .venv/bin/python -m benchmarks.speed.short_runs [--size 16] [--runs 100] [--steps 400] [--block 10]

100 runs of a perceptron (the defaults of `mlp`) on digits of 16 x 16 pixels, 400 steps each with a
validation every 50, on two workers that have started and done a run. The figure is the sum of the
runs' step seconds (forward, backward, optimiser) over twice the seconds of this program's clock,
which sees all else too: batches, validations, files, checkpoints, the store and the scheduler. The
two sides, a checkpoint every 30 s (the default: none in a short run) and one at each validation,
take turns of `--block` runs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from crosswind.core.types import Job
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.scheduler import drive
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

WORKERS, GOAL = 2, 0.75
SIDES = {"every 30 s": 30.0, "at each validation": 0.0}


def jobs_of(size: int, steps: int, checkpoint: float, seeds: list[int]) -> dict[int, list[Job]]:
    """The jobs of each seed's run."""
    study: dict[str, Any] = {
        "name": "short",
        "data": {
            "digits": {
                "source": "digits",
                "options": {"size": size},
                "label": "digit",
                "attributes": ["ink"],
                "roles": {"test": 10},
            }
        },
        "shifts": {
            "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.1}
        },
        "models": ["mlp"],
        "methods": ["erm"],
        "training": {
            "steps": steps,
            "validate_every": 50,
            "patience": None,
            "checkpoint_seconds": checkpoint,
        },
        "seeds": seeds,
    }
    found: dict[int, list[Job]] = {}
    for job in make_plan(study_from(study)).jobs:
        found.setdefault(job.labels["seed"], []).append(job)
    return found


def measure(size: int, runs: int, steps: int, block: int) -> dict[str, list[tuple[float, float]]]:
    """(Seconds of the clock, sum of step seconds) of every block of each side."""
    out: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    seeds = list(range(runs + WORKERS))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        pool = stack.enter_context(WorkerPool("crosswind.execution.jobs:execute", WORKERS))
        sides = {}
        for place, (side, checkpoint) in enumerate(SIDES.items()):
            store = stack.enter_context(Store.open(Path(folder, str(place)), create=True))
            planned = jobs_of(size, steps, checkpoint, seeds)
            store.add_plan("short", {}, {}, [job for jobs in planned.values() for job in jobs])
            sides[side] = (store, planned)
            drive(store, [job for seed in seeds[runs:] for job in planned[seed]], pool)
        for start in range(0, runs, block):
            order = list(sides) if start // block % 2 else list(sides)[::-1]
            for side in order:
                store, planned = sides[side]
                some = [
                    job for seed in seeds[start : min(start + block, runs)] for job in planned[seed]
                ]
                began = time.perf_counter()
                summary = drive(store, some, pool)
                seconds = time.perf_counter() - began
                assert not summary.failed
                costs = [store.run(job.key)["cost"] for job in some if job.kind == "fit"]
                out[side].append((seconds, sum(cost["step_seconds"] for cost in costs)))
    return out


def main() -> None:
    """Print the share of each side and the ratio of their seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--block", type=int, default=10)
    given = parser.parse_args()
    found = measure(given.size, given.runs, given.steps, given.block)
    for side, blocks in found.items():
        shares = [steps / (WORKERS * seconds) for seconds, steps in blocks]
        whole = sum(steps for _, steps in blocks) / (
            WORKERS * sum(seconds for seconds, _ in blocks)
        )
        print(
            f"checkpoint {side}: {sum(seconds for seconds, _ in blocks) / given.runs:.2f} s a run"
            f" on {WORKERS} workers, steps {whole:.2f} of the time (blocks {min(shares):.2f} to"
            f" {max(shares):.2f})"
        )
    one, other = ([seconds for seconds, _ in blocks] for blocks in found.values())
    ratios = [after / before for before, after in zip(one, other, strict=True)]
    print(
        f"seconds at each validation over every 30 s: {statistics.median(ratios):.2f}"
        f" ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    print(f"goal: steps {GOAL} of the time")


if __name__ == "__main__":
    main()
