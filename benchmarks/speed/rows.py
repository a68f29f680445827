"""Images a second at 1,000, 10,000 and 100,000 training rows, with pixels held in memory and read
ahead.

    python -m benchmarks.speed.rows [--rounds 7] [--steps 20] [--rows 1000,10000,100000] [--model small-cnn]

Batches of 128 pictures of 32 pixels, alternately in one process on one thread, every number of rows
in each round: the batches of the loop alone, and batches with the step of the model (ERM, Adam).
Prints thousands of images a second and their ratio to the fewest rows, median and range; the goal:
data and step together are flat. Held: CPU time. Streamed (nothing is held, every batch is drawn
anew, some batches ahead in a thread): wall time, of which the share that the loop stood waiting is
shown.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from benchmarks.speed.pictures import RandomPictures
from benchmarks.speed.step import BATCH, Rows, loop_of

from crosswind.data.budget import bounded
from crosswind.data.dataset import AttributedDataset
from crosswind.training.loader import TrainingRows
from crosswind.training.memory import keep_freed_memory
from crosswind.training.settings import TrainingSettings


def rows_of(data: AttributedDataset) -> Rows:
    label = data.table.column("label").astype(np.int64)
    return Rows(np.arange(data.n_rows), label, label, np.full(data.n_rows, 1 / data.n_rows))


def timed(
    step: Callable[[int], object], start: int, steps: int, clock: Callable[[], float]
) -> float:
    """Thousands of images a second."""
    begun = clock()
    for number in range(start, start + steps):
        step(number)
    return steps * BATCH / (clock() - begun) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rows", default="1000,10000,100000")
    parser.add_argument("--model", default="small-cnn")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    numbers = [int(text) for text in options.rows.split(",")]
    print(f"{'':30}{'rows':>9}{'1000 images/s':>15}{'ratio':>8} {'range':12}{'waiting':>9}")
    for name, size, clock in (
        ("held", None, time.process_time),
        ("streamed", 0, time.perf_counter),
    ):
        alone: dict[int, Callable[[int], object]] = {}
        stepped: dict[int, Callable[[int], object]] = {}
        loaders: dict[int, TrainingRows] = {}
        with bounded(size):
            for n in numbers:
                data = RandomPictures(rows=n).load()
                loader = TrainingRows(
                    rows_of(data), data, TrainingSettings(batch=BATCH), 0, "epoch"
                )  # type: ignore[arg-type]
                loaders[n], alone[n] = (
                    loader,
                    lambda number, loader=loader: loader.batch(number, 1_000_000),
                )
                stepped[n] = loop_of(options.model, data, rows_of(data))[0]
        for what, sides, steps in (
            ("batches alone", alone, options.steps * 10),
            (f"with {options.model}", stepped, options.steps),
        ):
            for step in sides.values():
                timed(step, 0, 2, clock)
            waited = {n: loader.waited for n, loader in loaders.items()}
            begun = time.perf_counter()
            found = [
                {n: timed(sides[n], 2 + turn * steps, steps, clock) for n in numbers}
                for turn in range(options.rounds)
            ]
            taken = time.perf_counter() - begun
            for n in numbers:
                ratios = [one[n] / one[numbers[0]] for one in found]
                line = f"{name + ', ' + what:30}{n:9}{statistics.median(one[n] for one in found):15.1f}"
                line += (
                    f"{statistics.median(ratios):8.2f} {f'{min(ratios):.2f}-{max(ratios):.2f}':12}"
                )
                if name == "streamed" and sides is alone:
                    line += f"{(loaders[n].waited - waited[n]) / taken * len(numbers):9.0%}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
