"""How long the report of a large store takes, how large its page is, and how long a browser takes
to open it.

    .venv/bin/python -m benchmarks.speed.report_page [--runs 20000] [--browser /usr/bin/chromium]

The store is synthetic: 4 data sets, 10 shifts, 20 methods, the rest of the runs are seeds and
sizes; two selection rules and two sets a run, 24 groups a set, the cells of every draw, 1 run in
200 diverged and 1 in 500 failed. Goals: report under 10 s, page under 10 MB, opened (loaded and the
first figures drawn) in under 3 s.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from crosswind.core.types import Job
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.database import runs as run_table
from crosswind.storage.database import scores as score_table
from crosswind.storage.store import Store

DATA, SHIFTS, METHODS, SEEDS = 4, 10, 20, 5
SETS = {"validation": "validation", "test": "test"}
CLASSES, VALUES = 8, 3
GROUPS = [f"shape={label}, colour={value}" for label in range(CLASSES) for value in range(VALUES)]
# as json.dumps writes them, at a third of the time
GROUPS_AS_TEXT = (
    "{" + ", ".join(f'"{group}": {{"n": 40, "accuracy": %r}}' for group in GROUPS) + "}"
)


def synthetic_store(folder: Path, n_runs: int) -> Path:
    """A store of one study with about `n_runs` runs (a whole number of sizes, at least one; fewer
    shifts and methods where that would be too many), as if they had been done."""
    rng = random.Random(0)
    n_shifts = max(1, min(SHIFTS, n_runs // (DATA * SEEDS * 2)))
    n_methods = max(2, min(METHODS, n_runs // (DATA * SEEDS * n_shifts)))
    names = [f"shift-{i}" for i in range(n_shifts)]
    methods = ["erm", *(f"method-{i:02d}" for i in range(1, n_methods))]
    of_a_size = DATA * n_shifts * n_methods * SEEDS
    sizes = [f"size-{i}" for i in range(max(1, round(n_runs / of_a_size)))]
    labels = [
        {
            "data": f"data-{d}",
            "shift": shift,
            "size": size,
            "model": "mlp",
            "method": method,
            "point": "",
            "seed": seed,
        }
        for d in range(DATA)
        for size in sizes
        for shift in names
        for method in methods
        for seed in range(SEEDS)
    ]
    planned = [
        Job(key=f"{number:032x}", spec={"seed": item["seed"]}, labels=item)
        for number, item in enumerate(labels)
    ]
    data = {
        f"data-{d}": {"source": "factors", "label": "shape", "attributes": ["colour", "scale"]}
        for d in range(DATA)
    }
    given = {
        "name": "many",
        "data": data,
        "methods": methods,
        "about": "Synthetic runs, to see what a large study costs.",
    }
    resolved = {**given, "reference": "erm", "selection": ["best-id"]}
    with Store.open(folder, create=True) as store:
        store.add_plan("many", given, resolved, planned)
        scored: list[dict[str, Any]] = []
        states: list[dict[str, Any]] = []
        for number, (run, item) in enumerate(zip(planned, labels, strict=True)):
            status = (
                "failed"
                if number % 500 == 499
                else "diverged"
                if number % 200 == 199
                else "finished"
            )
            states.append({"k": run.key, **_state(status, rng, number)})
            if status != "failed":
                scored += [
                    {"key": run.key, "position": i, **row}
                    for i, row in enumerate(_scores(item, rng))
                ]
        with store.transaction() as connection:
            import sqlalchemy as sa

            changed = {name: sa.bindparam(name) for name in states[0] if name != "k"}
            connection.execute(
                run_table.update().where(run_table.c.key == sa.bindparam("k")).values(changed),
                states,
            )
            connection.execute(score_table.insert(), scored)
    for run, item in zip(planned, labels, strict=True):
        if item["method"] == "erm" and item["seed"] == 0:
            place = artifact_folder(folder, run.key)
            place.mkdir(parents=True)
            (place / "split.json").write_text(json.dumps(_split(rng)), encoding="utf-8")
    return folder


def _state(status: str, rng: random.Random, number: int) -> dict[str, Any]:
    reason = {
        "failed": "RuntimeError: the loss is not defined here",
        "diverged": f"the loss was not finite at step {number % 7}",
    }
    seconds = 20 + 10 * rng.random()
    cost = {
        "images_per_second": 900 + 200 * rng.random(),
        "peak_memory_bytes": 5e8 + 1e8 * rng.random(),
        "total_seconds": seconds,
    }
    shares = {
        "data": 0.05,
        "step": 0.7,
        "evaluation": 0.15,
        "waiting": 0.02,
        "prepare": 0.06,
        "other": 0.02,
    }
    cost |= {f"{part}_seconds": share * seconds for part, share in shares.items()} | {
        "peak_memory_of_run": 1.0
    }
    versions = {"crosswind": "0.1.0", "torch": "2.14.1", "python": "3.11.7"}
    told = {"versions": json.dumps(versions), "cost": json.dumps(cost), "warnings": "[]"}
    return {
        "status": status,
        "reason": reason.get(status),
        "seconds": seconds,
        "attempts": 1,
        **told,
    }


def _scores(item: dict[str, Any], rng: random.Random) -> list[dict[str, Any]]:
    rows = []
    centre = 0.55 + 0.02 * (hash_of(item["method"]) % 11) - 0.02 * (hash_of(item["shift"]) % 7)
    for rule in ("best-id", "last"):
        for name, role in SETS.items():
            accuracy = min(1.0, max(0.0, rng.gauss(centre + 0.1 * (name == "validation"), 0.03)))
            accuracies = [round(rng.random(), 6) for _ in GROUPS]
            lowest = min(accuracies)
            metrics = {
                "n": 960,
                "accuracy": accuracy,
                "balanced_accuracy": accuracy,
                "worst_group": lowest,
                "worst_group_name": GROUPS[accuracies.index(lowest)],
                "worst_group_n": 40,
                "groups": None,
                "nll": 1.2 - accuracy,
                "ece": 0.1,
                "role": role,
                "selected_step": 100,
                "ties": 1,
            }
            text = json.dumps(metrics).replace("null", GROUPS_AS_TEXT % tuple(accuracies))
            rows.append({"rule": rule, "set": name, "metrics": text})
    return rows


def _split(rng: random.Random) -> dict[str, Any]:
    def part(fewest: int) -> dict[str, Any]:
        cells = {
            f"shape={label}, colour={value}, scale={size}": {
                "planned": 12.5,
                "realised": rng.randint(fewest, 14),
            }
            for label in range(CLASSES)
            for value in range(VALUES)
            for size in range(4)
        }
        return {
            "rows": sum(cell["realised"] for cell in cells.values()),
            "cells": cells,
            "supplements": [],
            "short": {},
        }

    return {"sets": {"train": part(8), "test": part(14)}, "notes": [], "warnings": []}


def hash_of(text: str) -> int:
    """A small number of a name, the same in every process."""
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(text))


def opened(page: Path, chromium: Any) -> dict[str, float]:
    """Seconds until the page is loaded in the browser, until its first figure is drawn, and until
    all that are open are."""
    window = chromium.new_page(viewport={"width": 1280, "height": 900})
    window.goto("about:blank")
    started = time.perf_counter()
    window.goto(page.resolve().as_uri())
    loaded = time.perf_counter() - started
    window.wait_for_selector(".drawn", timeout=60_000)
    first = time.perf_counter() - started
    window.wait_for_function("document.documentElement.dataset.drawing === 'no'", timeout=120_000)
    every = time.perf_counter() - started
    drawn = window.locator(".drawn").count()
    window.close()
    return {"loaded": loaded, "first figure": first, f"{drawn} open figures": every}


def main() -> None:
    """Make the store, time `crosswind report`, weigh the page, open it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = synthetic_store(Path(name), given.runs)
        # The first report of a user makes the script that draws the figures, which later ones find
        # in the folder of caches.
        environment = {**os.environ, "XDG_CACHE_HOME": str(Path(name, "caches"))}
        kinds = (
            ("tables only", ["--no-page"]),
            ("tables and page, the first time", []),
            ("tables and page", []),
        )
        for words, extra in kinds:
            started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [
                sys.executable,
                "-c",
                "from crosswind.cli.main import main; main()",
                "report",
                str(folder),
                *extra,
            ]
            subprocess.run(command, check=True, capture_output=True, env=environment)
            took, after = (
                time.perf_counter() - started,
                resource.getrusage(resource.RUSAGE_CHILDREN),
            )
            busy = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            print(f"{words}: {took:.1f} s, {busy:.1f} s of the processor")
        page = folder / "report.html"
        print(f"page: {page.stat().st_size / 1e6:.2f} MB")
        from playwright.sync_api import sync_playwright

        with sync_playwright() as play:
            chromium = play.chromium.launch(
                executable_path=given.browser, args=["--no-sandbox", "--disable-gpu"]
            )
            for words, seconds in opened(page, chromium).items():
                print(f"{words}: {seconds:.2f} s after opening")
            chromium.close()


if __name__ == "__main__":
    main()
