"""How often the 95% intervals over crossed split seeds and seeds hold the mean that they are of,
and how wide they are.

Scores are drawn as m + S_i + T_j + E_ij, normal, for 2 to 5 split seeds i, 3 to 10 seeds j and
variances of S, T and E from none to nearly all. Beside the interval of
`crosswind.evaluation.compare.over_runs` stands one by the usual estimate of the variance of the
mean, (MS_S + MS_T - MS_E) / (a b), with Satterthwaite's degrees of freedom (1946), and that of the
largest mean square where the estimate is below it. Width is the median half-width over the true
standard deviation of the mean; 1.96 would be enough if the variances were known.

    .venv/bin/python -m benchmarks.papers.intervals [--draws 2000] [--seed 0]

Goal: at least 0.93 of the intervals hold the mean, at every layout and all variances.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

from crosswind.core.seeds import stream
from crosswind.evaluation.compare import Seeds, over_runs

SPLITS, SEEDS = (2, 3, 4, 5), (3, 5, 10)
VARIANCES = [
    *(
        (0.0, 0.0, 1.0),
        (1.0, 0.0, 1.0),
        (0.0, 1.0, 1.0),
        (0.25, 0.25, 1.0),
        (1.0, 1.0, 1.0),
        (4.0, 1.0, 1.0),
        (1.0, 4.0, 1.0),
    ),
    *(
        (1.0, 1.0, 0.05),
        (0.1, 1.0, 0.1),
        (1.0, 0.1, 0.1),
        (0.3, 1.0, 0.0001),
        (0.0, 0.2, 1.0),
        (0.05, 0.5, 1.0),
    ),
]
GOAL = 0.93


def satterthwaite(table: np.ndarray) -> float:
    """The half-width by Satterthwaite's degrees of freedom."""
    from scipy.special import stdtrit

    (a, b), mean = table.shape, table.mean()
    rows, columns = table.mean(axis=1, keepdims=True), table.mean(axis=0, keepdims=True)
    squares = np.array(
        [
            b * ((rows - mean) ** 2).sum(),
            a * ((columns - mean) ** 2).sum(),
            ((table - rows - columns + mean) ** 2).sum(),
        ]
    )
    df = np.array([a - 1, b - 1, (a - 1) * (b - 1)])
    mean_squares = squares / df
    found, largest = mean_squares @ [1, 1, -1], int(mean_squares.argmax())
    if found < mean_squares[largest]:
        found, free = mean_squares[largest], float(df[largest])
    else:
        free = max(1.0, found**2 / (mean_squares**2 / df).sum())
    return float(stdtrit(free, 0.975) * math.sqrt(found / (a * b)))


def main() -> int:
    """Draw, count and print; status 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(
        "split seeds  seeds  lowest coverage (ours, Satterthwaite)  mean coverage  mean width"
        " (ours, Satterthwaite)"
    )
    lowest = 1.0
    for a in SPLITS:
        for b in SEEDS:
            held, width = np.zeros((len(VARIANCES), 2)), np.zeros((len(VARIANCES), 2))
            for place, variances in enumerate(VARIANCES):
                rng = stream(given.seed, "intervals", a, b, place)
                split, seed, rest = (math.sqrt(value) for value in variances)
                truth = math.sqrt(variances[0] / a + variances[1] / b + variances[2] / (a * b))
                halves = np.empty((given.draws, 2))
                for draw in range(given.draws):
                    table = (
                        split * rng.normal(size=(a, 1))
                        + seed * rng.normal(size=(1, b))
                        + rest * rng.normal(size=(a, b))
                    )
                    half = over_runs(
                        {Seeds(i, j): float(table[i, j]) for i in range(a) for j in range(b)}
                    ).half_width
                    assert half is not None
                    halves[draw] = half, satterthwaite(table)
                    held[place] += abs(table.mean()) <= halves[draw]
                width[place] = np.median(halves, axis=0) / truth
            held /= given.draws
            lowest = min(lowest, held[:, 0].min())
            low, mean, wide = held.min(axis=0), held.mean(axis=0), width.mean(axis=0)
            print(
                f"{a:11d}  {b:5d}  {low[0]:.3f} {low[1]:.3f}  {mean[0]:.3f} {mean[1]:.3f} "
                f" {wide[0]:.2f} {wide[1]:.2f}",
                flush=True,
            )
    print(f"lowest coverage {lowest:.3f}, goal {GOAL}: {'reached' if lowest >= GOAL else 'MISSED'}")
    return int(lowest < GOAL)


if __name__ == "__main__":
    sys.exit(main())
