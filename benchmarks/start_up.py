"""How long the command line takes to start, beside `import torch`, and how long planning 10,000 runs takes.

    .venv/bin/python benchmarks/start_up.py [--rounds 7]

Every round starts each command once, one after the other, in processes of their own; the figure is the ratio to `import torch`
of the same round, median and range. Byte code must be compiled (the Makefile does it): without it every start is several times
slower.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CROSSWIND = [sys.executable, "-c", "from crosswind.cli.main import main; main()"]
GOALS = {"--help": 1 / 3, "list methods": 1 / 3, "list": 1 / 3, "plan demo": 1 / 2, "status": 1 / 2}


def seconds(command: list[str], folder: str) -> float:
    """Wall time of one command, output thrown away."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return time.perf_counter() - started


def start_up(rounds: int) -> None:
    """Print the ratio of every command to `import torch`."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*CROSSWIND, "run", "demo", "--scale", "tiny", "--out", "store"], check=True, capture_output=True, cwd=folder
        )
        commands = {name: [*CROSSWIND, *name.split()] for name in ("--help", "list methods", "list", "plan demo")}
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
        print(f"  {name:<20} {statistics.median(found):.2f} x import torch ({min(found):.2f}-{max(found):.2f}){goal}")


def planning(rounds: int) -> None:
    """Print the seconds of planning a study of 10,000 runs in this process."""
    from crosswind.studies.plan import make_plan
    from crosswind.studies.spec import load_study

    study = load_study(
        "demo", None, ["seeds=100", "methods.groupdro.eta=[0.001,0.003,0.01,0.03,0.1,0.3,1,2,3]", "training.lr=[0.001,0.01]"]
    )
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        runs = len(make_plan(study, Path()).runs)
        found.append(time.perf_counter() - started)
    print(f"planning {runs:,} runs: {statistics.median(found):.2f} s ({min(found):.2f}-{max(found):.2f}), goal 2 s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    start_up(arguments.rounds)
    planning(arguments.rounds)
