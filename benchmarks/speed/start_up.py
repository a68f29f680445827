"""How long the command line takes to start, beside `import torch`; how long planning 10,000 runs
takes; how soon a run starts.

    .venv/bin/python -m benchmarks.speed.start_up [--rounds 7]

Every round starts each command once, one after the other, in processes of their own; the figure is
the ratio to `import torch` of the same round, median and range. Byte code must be compiled (the
Makefile does it): without it every start is several times slower. A run's start-up is all before
its first step, in a process that has done other runs of the study: data set, split, pixels, model,
optimiser. The first run of a seed has rows to draw and weights to make, the others find both.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CROSSWIND = [sys.executable, "-c", "from crosswind.cli.main import main; main()"]
GOALS = {"--help": 1 / 3, "list methods": 1 / 3, "list": 1 / 3, "plan demo": 0.3, "status": 1 / 2}


def seconds(command: list[str], folder: str) -> float:
    """Wall time of one command, output thrown away."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return time.perf_counter() - started


def start_up(rounds: int) -> None:
    """Print the ratio of every command to `import torch`."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*CROSSWIND, "run", "demo", "--scale", "tiny", "--out", "store"],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        commands = {
            name: [*CROSSWIND, *name.split()]
            for name in ("--help", "list methods", "list", "plan demo")
        }
        commands["status"] = [*CROSSWIND, "status", "store"]
        commands["plan jeon2025/sizes"] = [*CROSSWIND, "plan", "jeon2025/sizes"]
        ratios: dict[str, list[float]] = {name: [] for name in commands}
        torch_seconds = []
        for _ in range(rounds):
            torch_seconds.append(seconds([sys.executable, "-c", "import torch"], folder))
            for name, command in commands.items():
                ratios[name].append(seconds(command, folder) / torch_seconds[-1])
    print(f"import torch: {statistics.median(torch_seconds):.2f} s (median of {rounds})")
    for name, found in ratios.items():
        goal = f"  goal {GOALS[name]:.2f}" if name in GOALS else ""
        print(
            f"  {name:<20} {statistics.median(found):.2f} x import torch"
            f" ({min(found):.2f}-{max(found):.2f}){goal}"
        )


def planning(rounds: int) -> None:
    """Print the seconds of planning a study of 10,000 runs in this process."""
    from crosswind.studies.plan import make_plan
    from crosswind.studies.spec import load_study

    study = load_study(
        "demo",
        None,
        [
            "seeds=100",
            "methods={erm: {}, groupdro: {eta: [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 3]}}",
            "training.lr=[0.001,0.01]",
            "claims=[]",  # they name methods that this study has not
        ],
    )
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        runs = len(make_plan(study, Path()).runs)
        found.append(time.perf_counter() - started)
    print(
        f"planning {runs:,} runs: {statistics.median(found):.2f} s"
        f" ({min(found):.2f}-{max(found):.2f}), goal 2 s"
    )


def warm(rounds: int) -> None:
    """Print the milliseconds before the first step of runs that follow others in this process."""
    import torch

    from crosswind.execution.engines import Workspace
    from crosswind.execution.jobs import execute
    from crosswind.studies.plan import make_plan
    from crosswind.studies.spec import study_from

    torch.set_num_threads(1)
    sources: dict[str, dict[str, Any]] = {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "keep": {"digit": [1, 4, 7]},
        },
        "dsprites": {
            "source": "dsprites",
            "label": "shape",
            "attributes": ["object_color", "background_color"],
        },
    }
    sources["dsprites"]["roles"] = {"test": 10}
    for source, data in sources.items():
        for model in ("mlp", "small-cnn", "resnet-w16", "resnet18"):
            study = study_from(
                {
                    "data": {source: data},
                    "shifts": {
                        "SC": {"type": "spurious-correlation", "attribute": data["attributes"][0]}
                    },
                    "sizes": {"main": {"total": 100}},
                    "models": [model],
                    "methods": ["erm", "groupdro"],
                    "training": {"steps": 1, "validate_every": 1},
                    "seeds": rounds + 1,
                }
            )
            found: dict[bool, list[float]] = {True: [], False: []}
            told: set[int] = set()
            with tempfile.TemporaryDirectory() as folder:
                fits = [job for job in make_plan(study, Path()).jobs if job.kind == "fit"]
                for number, job in enumerate(fits):
                    workspace = Workspace(
                        job.key,
                        (),
                        Path(folder, f"{number}"),
                        Path(folder, f"{number}.state"),
                        lambda _: None,
                    )
                    result = execute("fit", job.spec, workspace)
                    seed = job.spec["seed"]
                    if number:
                        found[seed not in told].append(1000 * result["cost"]["prepare_seconds"])
                    told.add(seed)
            parts = [
                f"{name} {statistics.median(values):.0f} ms ({min(values):.0f}-{max(values):.0f})"
                for name, values in (("first of a seed", found[True]), ("others", found[False]))
            ]
            print(
                f"start-up of a run, {source}, {model}: {', '.join(parts)}, goal 50 ms", flush=True
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    start_up(arguments.rounds)
    planning(arguments.rounds)
    warm(arguments.rounds)
