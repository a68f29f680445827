"""What a Ray cluster of this machine costs beside the pool of processes, on runs of some seconds.

    python -m benchmarks.speed.ray_engine [--runs 8] [--seconds 5] [--repeats 3] [--out FILE]

Runs of a small study, as long as `--seconds` asks for, are executed by two processes of each engine,
alternately, each time into a new store. The ratio is that of the seconds from the first run's start to
the last one's end, both engines having started their processes before.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from crosswind.execution.running import engine_of, run_plan
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

WORKERS = 2


def study_of(n_runs: int, steps: int) -> Any:
    """A study of so many runs, each of so many steps of a small network on digits."""
    return study_from(
        {
            "name": "engines",
            "data": {
                "digits": {
                    "source": "digits",
                    "label": "half",
                    "attributes": ["ink"],
                    "roles": {"test": 10, "validation": 0.2},
                }
            },
            "shifts": {"none": []},
            "models": ["small-cnn"],
            "training": {
                "steps": steps,
                "batch": 64,
                "validate_every": steps,
                "patience": None,
                "device": "cpu",
            },
            "seeds": n_runs,
        },
        where="engines",
    )


def seconds(study: Any, engine: Any, folder: Path) -> tuple[float, float]:
    """The seconds of a study on an engine, and the mean of its runs."""
    plan = make_plan(study)
    with Store.open(folder, create=True) as store:
        summary = run_plan(plan, store, engine=engine)
        assert summary.finished == len(plan.runs)
        runs = [float(run["seconds"]) for run in store.runs("engines")]
        return summary.seconds, float(np.mean(runs))


def main() -> None:
    """Measure both engines alternately and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="engines-") as name:
        top = Path(name)
        warm_up = study_of(WORKERS, 100)
        engines = {
            kind: engine_of(
                make_plan(study_of(chosen.runs, 1)), top / kind, workers=WORKERS, engine=kind
            )
            for kind in ("pool", "ray")
        }
        try:
            for kind, engine in engines.items():
                seconds(warm_up, engine, top / kind / "warm up")
            _, of_hundred = seconds(study_of(WORKERS, 101), engines["pool"], top / "pool" / "timed")
            steps = max(100, round(100 * chosen.seconds / of_hundred))
            rows = []
            for repeat in range(chosen.repeats):
                study = study_of(chosen.runs, steps + repeat)  # other keys: nothing is done already
                row = {
                    kind: seconds(study, engine, top / kind / str(repeat))
                    for kind, engine in engines.items()
                }
                rows.append({kind: {"all": both[0], "run": both[1]} for kind, both in row.items()})
                print(json.dumps(rows[-1]), flush=True)
        finally:
            for engine in engines.values():
                engine.close()
    ratios = [row["ray"]["all"] / row["pool"]["all"] for row in rows]
    result = {
        "ratio": float(np.median(ratios)),
        "low": min(ratios),
        "high": max(ratios),
        "rows": rows,
    }
    print(json.dumps({name: result[name] for name in ("ratio", "low", "high")}))
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
