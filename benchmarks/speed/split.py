"""A composed split of 737,280 rows x 6 attributes, beside pandas.

    .venv/bin/python -m benchmarks.speed.split [--rounds 15]

Three costs: the index of cells (once for a data set, label and attributes), the deal of roles (once
for a split seed), and each further draw of a training, a validation and a test set, with a new
shift or a new run seed. The pandas side is the ordinary way to draw the training set alone: group
the rows by cell, then a random choice in each. Both sides alternate in one process on one thread;
before each of our calls comes one that is not counted, because the pandas call has emptied the
caches. CPU milliseconds, median and range, and the median ratio of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas

from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.split import Roles, SplitPlan, cell_index, make_split

SIZES = {
    "shape": 3,
    "object_color": 3,
    "background_color": 3,
    "scale": 6,
    "orientation": 40,
    "x": 32,
}
STUDIES = {
    "162 cells": ("object_color", "background_color", "scale"),
    "6,480 cells": ("object_color", "background_color", "scale", "orientation"),
}
SC = {"type": "spurious-correlation", "attribute": "object_color"}
LDD = {
    "type": "low-data-drift",
    "attribute": "background_color",
    "high": 3,
    "ratio": {"default": "1/3", "last": 0},
}
UDS = {"type": "unseen-data", "attribute": "scale"}
SHIFTS: dict[str, list[Any]] = {
    "uniform": [],
    "SC": [SC],
    "LDD": [LDD],
    "UDS": [UDS],
    "SC+LDD+UDS": [SC, LDD, UDS],
}


def table() -> AttributeTable:
    """737,280 rows whose attributes are drawn at random, so that no order of rows helps."""
    generator = np.random.default_rng(0)
    attributes = tuple(
        Attribute(name, tuple(str(value) for value in range(size))) for name, size in SIZES.items()
    )
    return AttributeTable(
        attributes, np.stack([generator.integers(0, size, 737_280) for size in SIZES.values()])
    )


def milliseconds(action: Callable[..., object], *given: Any) -> float:
    """CPU time of this thread."""
    started = time.thread_time()
    action(*given)
    return (time.thread_time() - started) * 1e3


def told(found: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(found):7.2f} ms ({min(found):.2f}-{max(found):.2f})"


def by_pandas(
    frame: pandas.DataFrame, names: list[str], weights: np.ndarray, base: int, seed: int
) -> np.ndarray:
    """The ordinary way: rows of every cell, then a random choice in each cell of positive
    weight."""
    generator = np.random.default_rng(seed)
    rows = []
    for cell, members in frame.groupby(names).indices.items():
        number = min(int(weights[cell] * base), len(members))
        if number:
            rows.append(generator.choice(members, number, replace=False))
    return np.concatenate(rows)


def study(rows: AttributeTable, attributes: tuple[str, ...], rounds: int) -> None:
    """Print the three costs for the cells of some attributes."""
    names = ["shape", *attributes]
    frame = pandas.DataFrame({name: rows.column(name) for name in names})
    data = [AttributedDataset("rows", rows, fingerprint=str(place)) for place in range(rounds)]
    base = 10 if len(attributes) == 3 else 1
    plans = {
        name: SplitPlan("shape", attributes, parse_shift(shift), parse_draw(base), Roles(10, 0.2))
        for name, shift in SHIFTS.items()
    }
    index = [milliseconds(cell_index, one, "shape", attributes) for one in data]
    deal = [milliseconds(make_split, {"rows": one}, "rows", plans["uniform"], 0) for one in data]
    print(f"  index of cells       {told(index)}  goal 10 ms\n  deal and first sets  {told(deal)}")
    kept = {"rows": data[0]}
    for name, plan in plans.items():
        weights = plan.shift.normal_form(cell_index(data[0], "shape", attributes).cells).weights
        drawn = len(make_split(kept, "rows", plan, rounds).train)
        ours, theirs = [], []
        for seed in range(rounds):
            make_split(kept, "rows", plan, rounds + seed)
            ours.append(milliseconds(make_split, kept, "rows", plan, seed))
            theirs.append(milliseconds(by_pandas, frame, names, weights, base, seed))
        ratio = statistics.median(slow / fast for slow, fast in zip(theirs, ours, strict=True))
        print(
            f"  {name:<12}{drawn:>6} rows  {told(ours)}  goal 2 ms    pandas {told(theirs)} "
            f" {ratio:.0f} x"
        )


def main() -> None:
    """Print the costs for both numbers of cells."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    rows = table()
    for title, attributes in STUDIES.items():
        print(title)
        study(rows, attributes, rounds)


if __name__ == "__main__":
    main()
