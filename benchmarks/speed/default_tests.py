"""What the default tests cost: processor minutes of `make test`, all of its processes together.

    python -m benchmarks.speed.default_tests [--rounds 1] [PYTEST_ARGS ...]

Prints the minutes of each round, median and range. Arguments go on to pytest; `tests/core` alone
measures a part. Goal: 8 minutes.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def minutes(arguments: list[str]) -> float:
    """Processor minutes of one run of the tests and what they start. Raises `SystemExit` where a
    test fails, since a run that stops early costs less."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2"]
    done = subprocess.run(
        [*command, "--dist", "worksteal", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"the tests failed: {done.stdout.strip().splitlines()[-1:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) / 60


def main() -> None:
    """Print the minutes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    options, arguments = parser.parse_known_args()
    values = [minutes(arguments) for _ in range(options.rounds)]
    print(
        f"the default tests: {statistics.median(values):.2f} min"
        f" ({min(values):.2f}-{max(values):.2f}) of a processor"
    )


if __name__ == "__main__":
    main()
