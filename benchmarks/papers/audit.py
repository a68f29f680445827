"""How often `crosswind audit` names a cause that is none, and how often it misses one, over random
compositions of shifts.

A composition is a random population (2 to 5 attributes of 2 to 6 values, 2 to 10 classes, uneven,
mildly dependent or uniform) and a random set of spurious correlation, low-data drift and unseen
data on its attributes, and of drift on its label, at random strengths, also none. The training law
is the population's under Crosswind's own shift algebra; the target is the population. Rows of both
sides are drawn from these laws. A false cause is a verdict "shift" of a column and kind that was
not put in; a miss is one that was put in with at least the stated effect size and has another
verdict. The effect of a cause is what the training law loses when it alone is left out: of Cramer's
V, of the shares of the values, of the target's share that is unseen.

    .venv/bin/python -m benchmarks.papers.audit [--compositions 200] [--rows 300 1000 3000 10000] [--seed
    0] [--show]

Goal, from 1,000 rows a side: at most 5% of compositions with a false cause, at most 5% of causes
missed.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crosswind.core.seeds import stream
from crosswind.data.attributes import Attribute
from crosswind.shifts.association import cramers_v, share_interval, total_variation
from crosswind.shifts.audit.contingency import Column
from crosswind.shifts.audit.findings import KINDS, SIZES
from crosswind.shifts.audit.verdicts import judge
from crosswind.shifts.base import All, Cells, Shift, parse_shift

SC, LDD, UDS, LABEL = KINDS
TYPES = {"spurious-correlation": SC, "low-data-drift": LDD, "unseen-data": UDS}
DRAWN = 10_000
"""Rows by weights that a number of counterexamples or low rows is drawn on top of."""


@dataclass(frozen=True)
class Composition:
    """Cells, the population's shares and the shifts put in: (attribute, kind) -> shift."""

    cells: Cells
    population: np.ndarray
    causes: dict[tuple[str, str], Shift]

    def law(self, without: tuple[str, str] | None = None) -> np.ndarray:
        """Training's shares of the cells, perhaps without one of the shifts."""
        form = All(
            tuple(shift for key, shift in self.causes.items() if key != without)
        ).normal_form(self.cells)
        main = self.population * form.weights
        drawn = main / main.sum() * DRAWN
        out = drawn.copy()
        for supplement in form.supplements:
            region = self.population * supplement.region
            if region.sum() > 0:
                out += region / region.sum() * supplement.asked(DRAWN)
        return out / out.sum()

    def effect(self, key: tuple[str, str]) -> float:
        """How much of its measure the training law loses without this cause."""
        name, kind = key
        axis = self.cells.names.index(name)
        whole, less = self.law(), self.law(key)
        if kind == SC:
            sides = [_marginal(law, 0, axis) for law in (whole, less)]
            return float(cramers_v(sides[0], 0.0) - cramers_v(sides[1], 0.0))
        if kind == UDS:
            return float(_marginal(self.population, axis)[_marginal(whole, axis) == 0].sum())
        return float(total_variation(_marginal(whole, axis), _marginal(less, axis)))


def _marginal(law: np.ndarray, *axes: int) -> np.ndarray:
    return law.sum(axis=tuple(axis for axis in range(law.ndim) if axis not in axes))


def composition(
    seed: int, label_shifts: bool = True, together: float = 0.0, dependence: float = 0.3
) -> Composition:
    """A random composition. `together`: how often two kinds may fall on one attribute."""
    generator = stream(seed, "composition")
    n_attributes = int(generator.integers(2, 6))
    sizes = [
        int(generator.integers(2, 11)),
        *(int(generator.integers(2, 7)) for _ in range(n_attributes)),
    ]
    names = ["y", *(f"a{place}" for place in range(n_attributes))]
    axes = [
        Attribute(name, tuple(f"{name}-{value}" for value in range(size)))
        for name, size in zip(names, sizes, strict=True)
    ]
    cells = Cells(axes[0], tuple(axes[1:]))
    population = np.ones(cells.shape)
    if generator.random() < 0.8:
        for axis, size in enumerate(sizes):
            population = population * cells.along(
                [axis], generator.dirichlet(np.full(size, 6.0)) + 0.02
            )
        for one in range(len(sizes)):
            for other in range(one + 1, len(sizes)):
                if generator.random() < 0.4:
                    mild = np.exp(
                        dependence * generator.standard_normal((sizes[one], sizes[other]))
                    )
                    population = population * cells.along([one, other], mild)
    population = population / population.sum()
    kinds = [name for name in TYPES if generator.random() < 0.5]
    if generator.random() < 0.2 and kinds:
        kinds.append(str(generator.choice(list(TYPES))))
    free = [str(name) for name in generator.permutation(names[1:])]
    causes: dict[tuple[str, str], Shift] = {}
    for kind in kinds:
        name = (
            str(generator.choice(names[1:]))
            if generator.random() < together or not free
            else free.pop()
        )
        if not together and name in {other for other, _ in causes}:
            continue
        if (name, TYPES[kind]) not in causes:
            causes[name, TYPES[kind]] = parse_shift(_shift(kind, name, cells, generator))
    if label_shifts and generator.random() < 0.15:
        spec = {
            "type": "low-data-drift",
            "attribute": "y",
            "low": "last",
            "ratio": round(float(generator.uniform(0.05, 0.6)), 3),
        }
        causes["y", LABEL] = parse_shift(spec)
    return Composition(cells, population, causes)


def _shift(kind: str, name: str, cells: Cells, generator: np.random.Generator) -> dict[str, Any]:
    attribute = cells.axes[cells.names.index(name)]
    spec: dict[str, Any] = {"type": kind, "attribute": name}
    if kind == "spurious-correlation":
        if generator.random() < 0.5:
            return {**spec, "strength": round(float(generator.uniform(0.1, 0.95)), 3)}
        share = round(float(generator.uniform(0.01, 0.5)), 3)
        return {
            **spec,
            "counterexamples": share,
            "counterexamples_from": str(generator.choice(["unmatched", "uniform"])),
        }
    several = len(attribute) > 3 and generator.random() < 0.3
    values = [
        str(value)
        for value in generator.choice(attribute.values, 2 if several else 1, replace=False)
    ]
    if kind == "unseen-data":
        return {**spec, "unseen": values}
    form = generator.random()
    if form < 0.2:
        return {**spec, "low": values, "count": int(generator.integers(50, 1000))}
    ratio = round(float(generator.uniform(0.05, 0.8)), 3)
    if form < 0.4:
        return {**spec, "low": values, "ratio": {"default": ratio, "last": 0}}
    return {**spec, "low": values, "ratio": ratio}


def draw(law: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """The codes of rows drawn from a law: int64 [axes, rows]."""
    counts = generator.multinomial(rows, law.ravel())
    return np.stack(np.unravel_index(np.repeat(np.arange(law.size), counts), law.shape))


def columns_of(made: Composition, rows: int, seed: int) -> list[Column]:
    """The two tables drawn from a composition."""
    train = draw(made.law(), rows, stream(seed, "train rows", rows))
    target = draw(made.population, rows, stream(seed, "target rows", rows))
    return [
        Column(axis.name, axis.values, train[place], target[place])
        for place, axis in enumerate(made.cells.axes)
    ]


@dataclass
class Tally:
    """What came of some compositions. By kind: `tests` of what was not put in and `false` verdicts
    on them, `causes` of the stated size and those `missed`. `wrong`: compositions with a false
    cause; `trouble`: each false cause and each miss in a line."""

    compositions: int = 0
    wrong: int = 0
    seconds: float = 0.0
    tests: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)

    def add(self, made: Composition, columns: list[Column], name: str) -> None:
        """Audit the tables of a composition and count."""
        start = time.perf_counter()
        found, _ = judge(columns)
        self.seconds += time.perf_counter() - start
        said = {(item.name, verdict.kind): verdict for item in found for verdict in item.verdicts}
        effects = {key: made.effect(key) for key in made.causes}
        trouble = []
        for key, verdict in said.items():
            if key not in made.causes:
                self.tests[key[1]] += 1
                if verdict.status == "shift":
                    self.false[key[1]] += 1
                    trouble.append(
                        f"{name} {made.cells.shape} false: {key[0]}, {key[1]}, left"
                        f" {verdict.effect}, p {verdict.p:.1e}"
                    )
        self.compositions += 1
        self.wrong += bool(trouble)
        for key, effect in effects.items():
            if effect >= SIZES[key[1]]:
                self.causes[key[1]] += 1
                if said[key].status != "shift":
                    self.missed[key[1]] += 1
                    trouble.append(
                        f"{name} {made.cells.shape} missed: {key[0]}, {key[1]}, effect"
                        f" {effect:.3f}, {said[key]}"
                    )
        if trouble:
            trouble += [
                f"    {name}, {kind}, {effects[name, kind]:.3f}: {shift.describe()}"
                for (name, kind), shift in made.causes.items()
            ]
        self.trouble += trouble


def tally(compositions: int, rows: int, seed: int = 0, **how: Any) -> Tally:
    """Audit random compositions; `how` are the settings of `composition`."""
    out = Tally()
    for number in range(compositions):
        key = seed * 1_000_003 + number
        made = composition(key, **how)
        out.add(made, columns_of(made, rows, key), f"composition {number}")
    return out


def rate(part: int, whole: int) -> str:
    """A share in per cent with Wilson's interval."""
    if not whole:
        return "none"
    found = share_interval(part, whole)
    return f"{100 * part / whole:.1f}% [{100 * found.low:.1f}, {100 * found.high:.1f}] of {whole}"


def main() -> None:
    """Print the rates by rows and kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--compositions", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000, 3000, 10_000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--dependence",
        type=float,
        default=0.3,
        help="how strongly attributes depend on each other by nature",
    )
    parser.add_argument(
        "--together", type=float, default=0.0, help="how often two kinds may fall on one attribute"
    )
    parser.add_argument("--show", action="store_true", help="print each false cause and each miss")
    given = parser.parse_args()
    for rows in given.rows:
        found = tally(
            given.compositions,
            rows,
            given.seed,
            dependence=given.dependence,
            together=given.together,
        )
        print(f"{rows:,} rows a side, {1000 * found.seconds / found.compositions:.0f} ms an audit")
        print(f"  compositions with a false cause  {rate(found.wrong, found.compositions)}")
        print(
            f"  causes missed                    {rate(found.missed.total(), found.causes.total())}"
        )
        for kind in KINDS:
            false, missed = (
                rate(found.false[kind], found.tests[kind]),
                rate(found.missed[kind], found.causes[kind]),
            )
            print(f"    {kind:<22} false {false:<30} missed {missed}")
        if given.show:
            print("\n".join(found.trouble))
    audit_of_many()


def audit_of_many(rows: int = 1_000_000) -> None:
    """Print the seconds that an audit of large tables takes."""
    made = composition(3)
    columns = columns_of(made, rows, 3)
    start = time.perf_counter()
    judge(columns)
    print(
        f"{rows:,} rows a side, {made.cells.shape} classes and values:"
        f" {time.perf_counter() - start:.1f} s without reading"
    )


if __name__ == "__main__":
    main()
