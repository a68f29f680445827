"""Tiny networks and linear probes trained as one against one after the other, alternately in one
process on one thread.

    python -m benchmarks.speed.together [--rounds 5] [--only points,probes,wide]

points  the perceptrons of Ng et al. 2022, figure 3 (16 inputs, 16 units, 2 classes; 1000 rows, batch 128), each with labels, order
        and initial weights of its own: N = 8, 50, 200
probes  linear probes on 512 features of 2000 rows: N = 50, for 3 and 10 classes; every probe with a seed of its own, and 5 seeds of
        10 learning rates and decays each
wide    perceptrons of 4 x 256 units at 32 pixels, where arithmetic and not the calling of it takes the time: N = 8

The other side of points, probes and wide is a loop that a careful author would write: rows indexed
in memory, a permutation an epoch, torch's fused Adam, nothing read back. Prints CPU microseconds a
network and step, and the ratio of each round: median and range. The networks come out equal:
tests/training says so. Goal: tiny networks at least 10 times at N = 50 and 200.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from crosswind.training.linear_probes import train_probes
from crosswind.training.many_networks import Member, Stack, train_stack
from crosswind.training.memory import keep_freed_memory

BATCH = 128
Side = Callable[[], None]


def plain(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    steps: int,
    lr: float = 1e-3,
    decay: float = 0.0,
    seed: int = 0,
) -> None:
    """One network, trained the ordinary way."""
    optimiser = torch.optim.Adam(network.parameters(), lr=lr, weight_decay=decay, fused=True)
    generator = torch.Generator().manual_seed(seed)
    per_epoch = len(x) // BATCH
    for step in range(steps):
        if step % per_epoch == 0:
            order = torch.randperm(len(x), generator=generator)
        rows = order[step % per_epoch * BATCH : (step % per_epoch + 1) * BATCH]
        loss = nn.functional.cross_entropy(network(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def perceptrons(n: int, inputs: int, hidden: int, layers: int, classes: int) -> list[nn.Module]:
    """Networks of equal layers with ReLU."""
    sizes = [inputs, *[hidden] * layers]
    out: list[nn.Module] = []
    for _ in range(n):
        parts = [
            part
            for a, b in zip(sizes[:-1], sizes[1:], strict=True)
            for part in (nn.Linear(a, b), nn.ReLU())
        ]
        out.append(nn.Sequential(*parts, nn.Linear(hidden, classes)))
    return out


def points(
    n: int, rows: int, inputs: int, hidden: int, layers: int, classes: int, steps: int, sample: int
) -> tuple[Side, Side]:
    """N perceptrons as one, and `sample` of them one after the other."""
    x, y = torch.randn(rows, inputs), torch.randint(0, classes, (n, rows))
    members = [Member(seed=seed) for seed in range(n)]

    def one() -> None:
        train_stack(
            Stack(perceptrons(n, inputs, hidden, layers, classes)),
            x,
            y,
            members,
            steps=steps,
            batch=BATCH,
        )

    def other() -> None:
        for place, network in enumerate(perceptrons(sample, inputs, hidden, layers, classes)):
            plain(network, x, y[place], steps, seed=place)

    return one, other


def probes(n: int, classes: int, seeds: int, steps: int, sample: int) -> tuple[Side, Side]:
    """N linear probes on the same features."""
    x, y = torch.randn(2000, 512), torch.randint(0, classes, (2000,))
    rates = np.geomspace(1e-4, 1e-2, n // seeds)
    members = [
        Member(lr=float(lr), weight_decay=float(lr) / 10, seed=seed)
        for seed in range(seeds)
        for lr in rates
    ]

    def one() -> None:
        train_probes(x, y, classes, members, steps=steps, batch=BATCH)

    def other() -> None:
        for member in members[:sample]:
            plain(nn.Linear(512, classes), x, y, steps, member.lr, member.weight_decay, member.seed)

    return one, other


def timed(side: Side) -> float:
    begun = time.process_time()
    side()
    return time.process_time() - begun


def measured(
    name: str, sides: tuple[Side, Side], n: int, sample: int, steps: int, rounds: int
) -> None:
    """One line: microseconds a network and step of both sides, and their ratio."""
    for side in sides:
        side()
    found = [
        [1e6 * timed(side) / steps / many for side, many in zip(sides, (n, sample), strict=True)]
        for _ in range(rounds)
    ]
    one, other = (statistics.median(side) for side in zip(*found, strict=True))
    ratios = [b / a for a, b in found]
    spread = f"({min(ratios):.1f} to {max(ratios):.1f})"
    print(f"{name:46}{one:10.1f}{other:12.1f}{statistics.median(ratios):9.1f} {spread}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="points,probes,wide")
    options = parser.parse_args()
    chosen = options.only.split(",")
    torch.set_num_threads(1)
    keep_freed_memory()
    print(f"{'CPU us a network and step':46}{'as one':>10}{'in turn':>12}{'ratio':>9}")
    if "points" in chosen:
        for n in (8, 50, 200):
            measured(
                f"points: 16-16-2, N = {n}",
                points(n, 1000, 16, 16, 1, 2, 250, 4),
                n,
                4,
                250,
                options.rounds,
            )
    if "probes" in chosen:
        for classes in (3, 10):
            for seeds in (50, 5):
                name = f"probes: 512-{classes}, N = 50 of {seeds} seeds"
                measured(name, probes(50, classes, seeds, 48, 4), 50, 4, 48, options.rounds)
    if "wide" in chosen:
        measured(
            "wide: 4 x 256 units at 32 px, N = 8",
            points(8, 1000, 3072, 256, 4, 3, 8, 4),
            8,
            4,
            8,
            options.rounds,
        )


if __name__ == "__main__":
    main()
