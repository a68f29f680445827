"""How the cost of commands grows with rows, classes and runs: exponents over three decades.

    python -m benchmarks.speed.growth [--only split,audit,prepare,plan,report,estimate,classes]
        [--decades 3] [--rounds 3]

Each is run at sizes ten times as large as the one before. Printed are the CPU seconds of each size,
the quickest of the rounds, and the exponent of the last decade: the logarithm to base ten of the
last time over the one before. What costs the same at any size makes the exponents of small sizes
small, so the last is the one that tells. 1 is a cost in proportion; above 1.1 there is a reason or a
fault, and the program says which it is not to wonder at (`REASONS`).

Of `estimate` each estimator without a pool is a line of its own: its fit, its estimate and its
interval, with the model's answers there already, by rows (of 10 classes) and by classes (of 2,000
rows, as many for `rows`).
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.speed.estimate import names_without_pool
from benchmarks.speed.many_runs import POINTS, STUDY
from benchmarks.speed.prepared import write_pictures
from benchmarks.speed.report_page import synthetic_store

import crosswind
from crosswind.core.registry import load
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.estimators.base import Answers, Labelled
from crosswind.estimators.estimating import PreparedEstimate
from crosswind.shifts.base import parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.split import Roles, SplitPlan, make_split

BOUND = 1.1
REASONS = {
    "cot": "an exact transport of rows to labels",
    "cott": "an exact transport of rows to labels",
    "mlls": "the fewer rows a class has, the more passes its likelihood needs",
}
"""Of estimators whose problem itself grows faster than its rows or classes."""

Work = tuple[str, int, Callable[[], object]]
"""What grows, its size, and the work."""


def split_rows(decades: int, folder: Path) -> Iterator[Work]:
    """The index of cells, the deal of roles and the draw, of rows of two attributes."""
    shift = parse_shift([{"type": "spurious-correlation", "attribute": "colour"}])
    plan = SplitPlan("shape", ("colour",), shift, parse_draw(4), Roles(10, 0.2))
    for rows in sizes(1000, decades):
        random = np.random.default_rng(0)
        table = AttributeTable(
            (Attribute("shape", ("a", "b", "c")), Attribute("colour", ("r", "g", "b"))),
            random.integers(0, 3, (2, rows)),
        )
        calls = iter(range(1000))

        def work(table: AttributeTable = table, calls: Iterator[int] = calls) -> object:
            dataset = AttributedDataset("rows", table, fingerprint=str(next(calls)))
            return make_split({"rows": dataset}, "rows", plan, 0)

        yield "split by rows", rows, work


def audit_rows(decades: int, folder: Path) -> Iterator[Work]:
    """An audit of two tables of four columns."""
    for rows in sizes(1000, decades):
        random = np.random.default_rng(0)
        tables = []
        for odds in (0.5, 0.6):
            tables.append(
                {
                    "label": (random.random(rows) < odds).astype(int).astype(str),
                    "colour": random.integers(0, 4, rows).astype(str),
                    "place": random.integers(0, 12, rows).astype(str),
                    "age": random.normal(size=rows),
                }
            )
        yield "audit by rows", rows, lambda tables=tables: crosswind.audit(*tables, "label")


def prepare_files(decades: int, folder: Path) -> Iterator[Work]:
    """Preparing JPEG files of 32 pixels by one thread."""
    for files in sizes(10, decades):
        originals = folder / f"pictures{files}"
        write_pictures(originals, files, 32)
        calls = iter(range(1000))

        def work(originals: Path = originals, calls: Iterator[int] = calls) -> object:
            root = str(folder / f"{originals.name}-{next(calls)}")
            return crosswind.prepare(
                "image-folder", path=str(originals), root=root, size=32, workers=1
            )

        yield "prepare by files", files, work


def plan_runs(decades: int, folder: Path) -> Iterator[Work]:
    """The plan of a study of two shifts and five methods by its seeds."""
    for runs in sizes(10, decades):
        study = {**STUDY, "name": "growth", "seeds": runs // POINTS}
        yield "plan by runs", runs, lambda study=study: crosswind.plan(study)


def report_runs(decades: int, folder: Path) -> Iterator[Work]:
    """The record of a study's report by its runs."""
    for runs in sizes(40, decades):
        store = folder / f"store{runs}"
        synthetic_store(store, runs)
        yield "report by runs", runs, lambda store=store: crosswind.report(store)


def answered(rows: int, classes: int, correctness: float, seed: int) -> Labelled:
    """Made-up answers, of which such a share is right."""
    random = np.random.default_rng(seed)
    label = random.integers(classes, size=rows)
    shown = np.where(random.random(rows) < correctness, label, random.integers(classes, size=rows))
    logits = random.normal(size=(rows, classes)).astype(np.float32)
    logits[np.arange(rows), shown] += np.float32(2 + np.log(classes))
    return Labelled(Answers(logits.argmax(1), logits), label)


def estimate_of(axis: str, rows: int, classes: int) -> Iterator[Work]:
    """Every estimator that needs no pool."""
    source = answered(rows, classes, 0.9, 1)
    target = answered(rows, classes, 0.75, 2).answers
    for name in names_without_pool():

        def work(name: str = name) -> object:
            # What is kept for answers that are there is not that of these.
            again = Labelled(replace(source.answers), source.label)
            return PreparedEstimate(load("estimators", name)(), again)(replace(target))

        yield f"{name} by {axis}", rows if axis == "rows" else classes, work


def estimate_rows(decades: int, folder: Path) -> Iterator[Work]:
    """Estimates by rows."""
    for rows in sizes(100, decades):
        yield from estimate_of("rows", rows, 10)


def estimate_classes(decades: int, folder: Path) -> Iterator[Work]:
    """Estimates by classes."""
    for classes in sizes(2, decades):
        yield from estimate_of("classes", 2000, classes)


COMMANDS = {
    "split": split_rows,
    "audit": audit_rows,
    "prepare": prepare_files,
    "plan": plan_runs,
    "report": report_runs,
    "estimate": estimate_rows,
    "classes": estimate_classes,
}


def sizes(least: int, decades: int) -> list[int]:
    """The sizes, each ten times the one before."""
    return [least * 10**decade for decade in range(decades + 1)]


def seconds(work: Callable[[], object], rounds: int) -> float:
    """CPU time of the process, the least of the rounds; a long one is not repeated."""
    times: list[float] = []
    while len(times) < rounds:
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
        if times[-1] > 5:  # long enough for what is done only the first time to be little
            break
    return max(min(times), 1e-6)


def main() -> None:
    """Print a line for everything that grows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", default=",".join(COMMANDS), help="names with commas between")
    parser.add_argument("--decades", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for command in options.only.split(","):
            times: dict[str, list[tuple[int, float]]] = {}
            for what, size, work in COMMANDS[command](options.decades, Path(name)):
                times.setdefault(what, []).append((size, seconds(work, options.rounds)))
            for what, of_sizes in times.items():
                exponent = math.log10(of_sizes[-1][1] / of_sizes[-2][1])
                told = "  ".join(f"{size:,}: {took:.3g} s" for size, took in of_sizes)
                reason = REASONS.get(what.partition(" ")[0], "above the bound")
                mark = f"  ({reason})" if exponent > BOUND else ""
                print(f"{what:<42} exponent {exponent:5.2f}{mark}  {told}", flush=True)


if __name__ == "__main__":
    main()
