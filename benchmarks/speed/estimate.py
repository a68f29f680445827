"""What `estimate` costs beside the passes of the model that it asks for: CPU time of one thread.

    python -m benchmarks.speed.estimate [--rows 2000] [--classes 10,100,1000] [--pool 200] [--rounds 3]
        [--estimators A,B] [--profile]

A small convolutional network of random weights answers for `--rows` pictures of 32 x 32 pixels and
for as many labelled ones. All estimators are asked that are by default, with a pool of changed copies,
or with `--pool 0` without one, where each makes its interval by drawing rows anew. Prints
by classes: inputs that the network was shown, the seconds of its passes, those of everything, and
their ratio, by round; what the passes are not, the making of changed copies among it, as a share of
them. `transport` prints the seconds of COT and COTT for the same rows, without the second or two in
which POT, the library of both, is imported once.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import crosswind
from crosswind.core.registry import listing, load
from crosswind.data.in_memory import from_torch
from crosswind.estimators.base import Answers, Labelled
from crosswind.estimators.estimating import PreparedEstimate

SIDE = 32


class Network:
    """A small network as a function from pictures uint8 [n, h, w, c] to scores [n, k]; counts what
    it is shown and the seconds of its passes."""

    def __init__(self, classes: int) -> None:
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(128, classes),
        ).eval()
        self.shown = 0
        self.seconds = 0.0

    def __call__(self, pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        started = time.process_time()
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float() / 255
            scores: NDArray[np.float32] = (self.layers(x) * 50).numpy()
        self.shown += len(pictures)
        self.seconds += time.process_time() - started
        return scores


def pictures_of(rows: int, classes: int, seed: int) -> Any:
    """Stripes with noise as a data set, labelled by their slope and tint."""
    random = np.random.default_rng(seed)
    label = np.arange(rows) % classes
    angle = label * 2.4
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE * 12
    wave = np.sin(
        np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y + label[:, None, None]
    )
    tint = random.integers(0, 60, (rows, 1, 1, 3))
    noise = random.integers(0, 30, (rows, SIDE, SIDE, 3))
    pixels = (80 + 60 * wave[..., None] + tint + noise).clip(0, 255).astype(np.uint8)
    items = [
        (torch.from_numpy(picture).permute(2, 0, 1), int(code))
        for picture, code in zip(pixels, label, strict=True)
    ]
    return from_torch(items, name=f"stripes{seed}")


def names_without_pool() -> list[str]:
    """The estimators of one model that need nothing but its answers and labelled rows."""
    names = []
    for facts in listing("estimators"):
        access = facts.access
        if access is not None and access.models == 1 and not (access.weights or access.pool):
            names.append(facts.name)
    return names


def measured(
    rows: int, classes: int, pool: int, rounds: int, names: list[str] | None, profile: bool
) -> None:
    """Print the ratio of all to the passes."""
    target, source = pictures_of(rows, classes, 1), pictures_of(rows, classes, 2)
    class_names = [str(code) for code in range(classes)]
    ratios, passes, seconds = [], [], []
    profiler = cProfile.Profile(time.process_time)
    for _ in range(rounds + 1):  # the first loads libraries
        network = Network(classes)
        if profile:
            profiler.enable()
        started = time.process_time()
        crosswind.estimate(
            network, target, source, classes=class_names, estimators=names, pool_rows=pool
        )
        all_seconds = time.process_time() - started
        profiler.disable()
        passes.append(network.seconds)
        seconds.append(all_seconds)
        ratios.append(all_seconds / network.seconds)
    kind = f"a pool of {pool}" if pool else "no pool"
    print(
        f"{rows:,} rows, {classes:,} classes, {kind}: {network.shown:,} inputs, passes"
        f" {statistics.median(passes[1:] or passes):.1f} s, all"
        f" {statistics.median(seconds[1:] or seconds):.1f} s,"
        f" ratio {statistics.median(ratios[1:] or ratios):.2f}"
        f" ({min(ratios[1:] or ratios):.2f}-{max(ratios[1:] or ratios):.2f}), beside the passes"
        f" {statistics.median(ratios[1:] or ratios) - 1:.2f}"
        f" ({min(ratios[1:] or ratios) - 1:.2f}-{max(ratios[1:] or ratios) - 1:.2f})",
        flush=True,
    )
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def transported(rows: int, classes: int) -> None:
    """Print the seconds of COT and COTT for made-up answers that are right for 3 rows of 4."""
    import ot  # noqa: F401  # before any of them is timed

    random = np.random.default_rng(0)
    sides = []
    for correctness in (0.9, 0.75):
        label = random.integers(classes, size=rows)
        shown = np.where(
            random.random(rows) < correctness, label, random.integers(classes, size=rows)
        )
        logits = random.normal(size=(rows, classes)).astype(np.float32)
        logits[np.arange(rows), shown] += np.float32(2 + np.log(classes))
        sides.append(Labelled(Answers(logits.argmax(1), logits), label))
    for name in ("cot", "cott"):
        # Each by itself: what one keeps for answers that are there is not for the other.
        source, target = (replace(side, answers=replace(side.answers)) for side in sides)
        prepared = PreparedEstimate(load("estimators", name)(), source)
        started = time.process_time()
        estimate = prepared(target.answers)
        words = estimate if isinstance(estimate, str) else f"{estimate.accuracy:.4f}"
        print(
            f"{name}, {rows:,} rows, {classes:,} classes:"
            f" {time.process_time() - started:.2f} s, {words} (accuracy {sides[1].accuracy:.4f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--classes", default="10,100,1000")
    parser.add_argument("--pool", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--estimators", default="")
    parser.add_argument("--transport", action="store_true", help="COT and COTT alone")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for classes in map(int, options.classes.split(",")):
        if options.transport:
            transported(options.rows, classes)
            continue
        names = options.estimators.split(",") if options.estimators else None
        if names is None and not options.pool:
            names = names_without_pool()
        measured(options.rows, classes, options.pool, options.rounds, names, options.profile)


if __name__ == "__main__":
    main()
