"""Figure 3 of Ng et al. 2022 in full: neighbourhood invariance and ATC-MC against the distance from
the training cloud.

    python -m benchmarks.papers.hypersphere [--only adam-1000,sgd] [--seeds 2] [--threads 2]
    python -m benchmarks.papers.hypersphere --table

One repetition is 200 networks trained as one and asked about 5 clouds of 1000 points at each of 40
distances, each point in 11 copies: 40,000 evaluations. `SETTINGS` are trainings and readings of
what the paper leaves open; each has repetitions of its own seeds, whose clouds and noise are the
same for all settings. Results go to results/hypersphere.json after every repetition; those that are
there are not run again. Ends with the tables and the picture of docs/papers/hypersphere.md; `--table` does
only that.

The main setting was chosen on seeds 1000 and 1001; seeds count from 0 here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from benchmarks.papers.hypersphere_design import Design, Fit, Found, measured, taus, trained
from benchmarks.papers.hypersphere_table import COARSEST, PICTURE, RESULTS, picture, tables

COARSE = Design(distances=COARSEST)
"""Every third of the published distances, for what stands beside the main setting."""


@dataclass(frozen=True)
class Setting:
    """A training, the design that it is asked about, and how many repetitions."""

    fit: Fit
    design: Design = COARSE
    seeds: int = 4


LONG = Fit(lr=1e-2, steps=1000, batch=None)
SETTINGS = {
    "adam-1000": Setting(LONG, Design(), seeds=8),
    "adam-300": Setting(replace(LONG, steps=300)),
    "adam-batches": Setting(Fit(lr=1e-2, steps=2000)),
    "adam-batches-slow": Setting(Fit(lr=1e-3, steps=2000)),
    "adam-batches-short": Setting(Fit(lr=1e-3, steps=500)),
    "sgd-momentum": Setting(Fit("sgd", lr=0.1, steps=2000, momentum=0.9)),
    "sgd": Setting(Fit("sgd", lr=0.1, steps=2000)),
    "flipped-labels": Setting(LONG, replace(COARSE, flips=True)),
    "even-distances": Setting(LONG, replace(COARSE, near="distance")),
    "adam-3000": Setting(replace(LONG, steps=3000), seeds=3),
}
MAIN = "adam-1000"


def repetition(setting: Setting, seed: int, threads: int) -> dict[str, Any]:
    """What is kept of one repetition: curves over distances, each the mean over the centres, and
    the time."""
    begun, cpu = time.perf_counter(), time.process_time()
    networks = trained(setting.design, setting.fit, seed, threads)
    trained_by = time.perf_counter()
    found = measured(networks, setting.design, seed, threads)
    measured_by = time.perf_counter()
    kept = curves(found)
    ended = time.perf_counter()
    kept["seconds"] = {
        "training": round(trained_by - begun, 2),
        "evaluation": round(measured_by - trained_by, 2),
        "correlations": round(ended - measured_by, 2),
        "wall": round(ended - begun, 2),
        "cpu": round(time.process_time() - cpu, 2),
        "threads": threads,
    }
    return kept


def curves(found: Found) -> dict[str, Any]:
    """Curves over distances: tau of both measures (None where it is undefined at every centre), the
    undefined ones, and means."""
    out: dict[str, Any] = {}
    for name, measure in (("ni", found.invariance), ("atc", found.estimate)):
        tau = taus(measure, found.accuracy)
        defined = np.isfinite(tau)
        mean = np.where(defined, tau, 0).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
        out[name] = [
            round(float(one), 4) if some.any() else None
            for one, some in zip(mean, defined, strict=True)
        ]
        out[f"{name}_undefined"] = (~defined).sum(axis=1).tolist()
    constant = (found.said_inside == 0) | (found.said_inside == 1)
    for name, values in (
        ("accuracy", found.accuracy),
        ("invariance", found.invariance),
        ("constant", constant),
    ):
        out[name] = [round(float(one), 5) for one in values.mean(axis=(1, 2))]
    out["spread"] = [round(float(one), 4) for one in found.accuracy.std(axis=2).mean(axis=1)]
    out["inside"] = round(float(found.inside.mean()), 4)
    out["held_out"], out["loss"] = (
        round(float(found.held_out.mean()), 4),
        round(float(found.loss.mean()), 4),
    )
    return out


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Parallel by networks and distances, not inside operations, which are small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def machine() -> str:
    """What the times were taken on."""
    chip = platform.processor() or platform.machine()
    return (
        f"{os.cpu_count()} cores of {chip}, torch {torch.__version__}, shared with other programs"
    )


def run(names: list[str], most: int | None, threads: int) -> None:
    """Every repetition that is not kept yet."""
    results: dict[str, Any] = (
        json.loads(RESULTS.read_text(encoding="utf-8"))
        if RESULTS.exists()
        else {"main": MAIN, "settings": {}}
    )
    for name in names:
        setting = SETTINGS[name]
        told = {"fit": asdict(setting.fit), "design": asdict(setting.design)}
        kept = results["settings"].setdefault(name, {**told, "machine": machine(), "seeds": {}})
        if {key: kept[key] for key in told} != told:
            kept = results["settings"][name] = {**told, "machine": machine(), "seeds": {}}
        for seed in range(setting.seeds if most is None else most):
            if str(seed) in kept["seeds"]:
                continue
            kept["seeds"][str(seed)] = repetition(setting, seed, threads)
            results["settings"] = {
                one: results["settings"][one] for one in SETTINGS if one in results["settings"]
            }
            RESULTS.write_text(_lines(results), encoding="utf-8")
            print(f"{name}, seed {seed}: {kept['seeds'][str(seed)]['seconds']}", flush=True)


def _lines(results: dict[str, Any]) -> str:
    """JSON with a line for each curve."""
    text = json.dumps(results, indent=1)
    parts = text.split("[")
    return (
        "[".join(
            [
                parts[0],
                *(
                    " ".join(part[: part.index("]")].split()) + part[part.index("]") :]
                    for part in parts[1:]
                ),
            ]
        )
        + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", default=",".join(SETTINGS))
    parser.add_argument("--seeds", type=int, help="so many repetitions of each setting")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    names = options.only.split(",")
    if set(names) - set(SETTINGS):
        parser.error(f"settings are {', '.join(SETTINGS)}")
    if not options.table:
        with _one_thread_each():
            run(names, options.seeds, options.threads)
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    PICTURE.write_text(picture(results), encoding="utf-8")
    print("\n\n".join(tables(results)))


if __name__ == "__main__":
    main()
