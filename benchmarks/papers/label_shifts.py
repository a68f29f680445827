"""How often a shift of labels is told of, and how often another shift is taken for one.

    python -m benchmarks.papers.label_shifts --pools DIR [--networks explore|confirm] [--json FILE]

`benchmarks/papers/pools.py` writes the pools. *labels*: the clean rows of a network, 500 drawn so
that a
share of the labels lies in other classes. *none*: drawn without that. *weak*, *middle*, *strong*:
19 corruptions at three strengths, by the accuracy that they cost, whose labels have not shifted.
*natural*: other collections, of which USPS has other shares of labels as well. *both*: a
corruption, and three tenths of the labels. `UNEXPLAINED` was chosen on networks 0, 3, 6, ... and on
the even ones by others, of many tests and thresholds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.papers.interval_coverage import networks

from crosswind.estimators.base import Labelled
from crosswind.estimators.label_shift import label_shift

DRAWN = 500


def moved(item: Labelled, share: float, random: np.random.Generator) -> Labelled:
    """Rows drawn so that this share of the labels lies in other classes."""
    k = item.answers.classes
    before = np.bincount(item.label, minlength=k) / len(item.label)
    far = 0.0
    while far < share:
        other = random.dirichlet(np.ones(k) * random.choice([0.3, 1, 3]))
        far = 0.5 * np.abs(other - before).sum()
    wanted = before + (share / far if far else 0) * (other - before) if share else before
    drawn = random.choice(k, size=DRAWN, p=wanted / wanted.sum())
    return item.take(
        np.array([random.choice(np.flatnonzero(item.label == code)) for code in drawn])
    )


def judged(folder: Path, which: str) -> Iterator[tuple[str, bool]]:
    """Kind of shift, and whether it was told of as one of labels."""
    for number, _, sets in networks(folder, which):
        random = np.random.default_rng(number)
        source = next(item for role, _, item, _ in sets if role == "source")
        clean = next(item for role, _, item, _ in sets if role == "test" and item.family == "clean")
        corrupt = [item for role, _, item, _ in sets if role == "test" and item.family != "clean"]
        cases = [("none", moved(clean, 0, random)) for _ in range(15)]
        cases += [
            (f"labels {share}", moved(clean, share, random))
            for share in (0.1, 0.2, 0.3, 0.5)
            for _ in range(15)
        ]
        for item in corrupt:
            drop = source.accuracy - item.accuracy
            cases.append(("weak" if drop < 0.05 else "middle" if drop < 0.2 else "strong", item))
        cases += [("natural", item) for role, _, item, _ in sets if role == "natural"]
        cases += [
            ("both", moved(corrupt[place], 0.3, random))
            for place in random.permutation(len(corrupt))[:15]
        ]
        for kind, item in cases:
            yield kind, bool(label_shift(source, item.answers))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--networks", choices=("explore", "confirm"), default="confirm")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, dict[str, list[bool]]] = {}
    for pool in ("mnist", "cifar", *(["given"] if options.networks == "confirm" else [])):
        for kind, told in judged(options.pools / pool, options.networks):
            found.setdefault(pool, {}).setdefault(kind, []).append(told)
    shares = {
        pool: {
            kind: {"sets": len(told), "told": round(float(np.mean(told)), 3)}
            for kind, told in sorted(kinds.items())
        }
        for pool, kinds in found.items()
    }
    for pool, kinds in shares.items():
        print(
            pool,
            ", ".join(f"{kind} {row['told']:.2f} of {row['sets']}" for kind, row in kinds.items()),
        )
    if options.json:
        options.json.write_text(
            json.dumps({"networks": options.networks, "told": shares}, indent=1) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
