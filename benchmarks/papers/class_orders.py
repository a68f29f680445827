"""How often honest networks are taken for ones whose outputs stand in another order, and how often
the others are found.

Networks are made up: a confusion of classes with a given accuracy, whose wrong answers are drawn
from a Dirichlet distribution (its parameter small: a class is mostly taken for one or two others),
accuracies of classes that differ, and answers that are given too often. Rows are drawn evenly over
classes, or very unevenly.

    python -m benchmarks.papers.class_orders [--repeats 40]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from crosswind.evaluation.class_order import better_order

CLASSES = (2, 3, 4, 5, 7, 10, 20, 50, 100)
ACCURACIES = (0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
ROWS = (20, 60, 200, 600, 2000)
SPREADS = (0.3, 0.5, 1.0, 5.0)


def confusion(
    n_classes: int, accuracy: float, spread: float, kind: str, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The probability of each answer for rows of each class, float64 [k, k]."""
    each = np.full(n_classes, accuracy)
    if kind == "uneven":
        each = np.clip(each + rng.uniform(-0.15, 0.15, n_classes), 0.02, 0.95)
    table = np.zeros((n_classes, n_classes))
    for code in range(n_classes):
        table[code, np.arange(n_classes) != code] = (1 - each[code]) * rng.dirichlet(
            [spread] * (n_classes - 1)
        )
        table[code, code] = each[code]
    if kind == "biased":
        table = table * (rng.gamma(0.5, size=n_classes) + 0.05)
        table /= table.sum(axis=1, keepdims=True)
    return table


def answers(
    table: NDArray[np.float64], n: int, uneven: bool, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Answers and labels of n rows."""
    n_classes = len(table)
    label = rng.choice(n_classes, n, p=rng.dirichlet([0.5] * n_classes) if uneven else None)
    answer = (
        (table.cumsum(axis=1)[label] < rng.random(n)[:, None]).sum(axis=1).clip(0, n_classes - 1)
    )
    return answer.astype(np.int64), label.astype(np.int64)


def honest(repeats: int, rng: np.random.Generator) -> Iterator[tuple[int, float, bool]]:
    """Classes, accuracy, and whether another order was found, of every honest network that is
    better than guessing."""
    for n_classes, accuracy, spread, kind, uneven, n in product(
        CLASSES, ACCURACIES, SPREADS, ("plain", "uneven", "biased"), (False, True), ROWS
    ):
        if accuracy < 1 / n_classes:
            continue
        for _ in range(max(1, repeats // (4 if n_classes > 20 else 1) // 10)):
            answer, label = answers(
                confusion(n_classes, accuracy, spread, kind, rng), n, uneven, rng
            )
            yield n_classes, accuracy, better_order(answer, label, _names(n_classes)) is not None


def others(repeats: int, rng: np.random.Generator) -> Iterator[tuple[str, int, float, bool]]:
    """The order, classes, accuracy, and whether it was found, of networks whose outputs stand in
    another one; 20 rows a class."""
    for n_classes, accuracy in product(CLASSES, (0.5, 0.7, 0.9)):
        codes = np.arange(n_classes)
        orders = {
            "sorted as text": np.argsort(sorted(codes, key=str)),
            "turned round": codes[::-1],
            "any": rng.permutation(n_classes),
        }
        orders["two changed about"] = np.concatenate([[1, 0], codes[2:]])
        for (name, outputs), _ in product(orders.items(), range(repeats // 4)):
            if (outputs == codes).all():
                continue
            answer, label = answers(
                confusion(n_classes, accuracy, 1.0, "plain", rng), 20 * n_classes, False, rng
            )
            yield (
                name,
                n_classes,
                accuracy,
                better_order(outputs[answer], label, _names(n_classes)) is not None,
            )


def _names(n_classes: int) -> list[str]:
    return [str(code) for code in range(n_classes)]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=40)
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    alarms: dict[str, Counter[bool]] = {}
    for n_classes, accuracy, found in honest(repeats, rng):
        for row in (f"{n_classes} classes", f"{accuracy:.0%} right", "all"):
            alarms.setdefault(row, Counter())[found] += 1
    print("| honest networks | taken for others | of |\n|---|---|---|")
    for row, counts in alarms.items():
        print(
            f"| {row} | {counts[True]} ({counts[True] / counts.total():.2%}) | {counts.total()} |"
        )
    caught: dict[tuple[str, float], Counter[bool]] = {}
    for name, _, accuracy, found in others(repeats, rng):
        caught.setdefault((name, accuracy), Counter())[found] += 1
    print("\n| another order, 20 rows a class | right | found | of |\n|---|---|---|---|")
    for (name, accuracy), counts in caught.items():
        print(
            f"| {name} | {accuracy:.0%} | {counts[True] / counts.total():.1%} | {counts.total()} |"
        )


if __name__ == "__main__":
    main()
