"""The pool where labels have shifted: its sets drawn again with other shares of the labels, and
which of them resemble a target.

A pool of changed copies shows changes of inputs and none of the shares of the classes. Drawing its
rows again costs no answer of the model. Where the target looks as under a shift of labels
(`label_shift`), the estimators learn from these sets too, most from those whose signs are alike.
The signs are the share `moved` of the labels that would lie in other classes, and the part
`explained` of the distance to the source. A set weighs exp(-|moved_p - moved| / MOVED_APART -
|explained_p - explained| / EXPLAINED_APART). One that does not look so weighs `UNLIKE` times that,
and a changed copy that looks so without a shift `MISTAKEN` times that. A model whose answers to
changes look so tells little by them. Where the target does not look so, they learn from the pool as
it is. All of these numbers were chosen on networks of which no reported figure is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from crosswind.core.seeds import stream
from crosswind.estimators.base import Floats, Labelled
from crosswind.estimators.label_shift import FittedShares, fitted_shares

STRENGTHS = (0.15, 0.3, 0.45, 0.6)
"""The share of the labels that lies in other classes than before."""

DRAWS = 2
"""Of every set of the pool, at different strengths."""

OF_SOURCE = 8
"""Sets that are drawn from the source itself, two at every strength."""

ROWS = 200
"""Of a set that is drawn from the source, at most."""

FAMILY = "shares of labels"
"""Of those sets."""

MOVED_APART, EXPLAINED_APART = 0.1, 0.2
"""How far apart the signs of two sets are, of which one tells a third as much of the other's error
as of its own."""

UNLIKE = 0.02
"""What a set weighs that does not look as under a shift of labels."""

MISTAKEN = 2.0
"""What a set of the pool as it is weighs that looks as under a shift of labels."""

_drawn: WeakKeyDictionary[Labelled, tuple[Labelled, ...]] = WeakKeyDictionary()


def shifted_sets(source: Labelled, pool: Sequence[Labelled]) -> list[Labelled]:
    """The sets of the pool and of the source with other shares of the labels; made once for each,
    and kept as long as it is."""
    of_source = _drawn.get(source)
    if of_source is None:
        of_source = _drawn.setdefault(source, tuple(_of_source(source)))
    out = list(of_source)
    for labelled in pool:
        drawn_sets = _drawn.get(labelled)
        if drawn_sets is None:
            drawn_sets = _drawn.setdefault(labelled, tuple(_of_set(labelled)))
        out += drawn_sets
    return out


def likeness(
    target: FittedShares, source: Labelled, sets: Sequence[Labelled], plain: int
) -> Floats:
    """How much each set resembles a target whose labels have shifted, float64 > 0. `plain`: of the
    sets the first so many are the pool as it is."""
    out = np.full(len(sets), UNLIKE)
    for number, labelled in enumerate(sets):
        fitted = fitted_shares(source, labelled.answers)
        if fitted is None:
            continue
        apart = (
            abs(fitted.moved - target.moved) / MOVED_APART
            + abs(fitted.explained - target.explained) / EXPLAINED_APART
        )
        looks = MISTAKEN if number < plain else 1.0
        out[number] = np.exp(-apart) * (looks if fitted.told else UNLIKE)
    return out


def _of_source(source: Labelled) -> list[Labelled]:
    random = stream(0, "shares of labels of the source")
    rows = min(ROWS, len(source.label))
    drawn_sets = []
    for share in STRENGTHS * (OF_SOURCE // len(STRENGTHS)):
        drawn_sets.append(with_other_shares(source, share, rows, random))
    return [
        replace(drawn_set, name=f"{FAMILY} {number}", family=FAMILY)
        for number, drawn_set in enumerate(drawn_sets)
    ]


def _of_set(labelled: Labelled) -> list[Labelled]:
    random = stream(0, "shares of labels of a pool", labelled.name)
    strengths = random.choice(STRENGTHS, size=DRAWS, replace=False)
    return [
        with_other_shares(labelled, float(share), len(labelled.label), random)
        for share in strengths
    ]


def with_other_shares(
    labelled: Labelled, share: float, rows: int, random: np.random.Generator
) -> Labelled:
    """So many of the rows, of which about `share` of the labels lie in other classes than before.
    They are moved at random, with a class or two left out, or with one far more frequent. Rows of a
    class are repeated only where there are too few."""
    before = np.bincount(labelled.label) / len(labelled.label)
    new_shares = before
    for _ in range(100):
        other_shares = _other_shares(before, random)
        far = 0.5 * float(np.abs(other_shares - before).sum())
        if far >= share:
            new_shares = before + share / far * (other_shares - before)
            break
    drawn = random.choice(len(before), size=rows, p=new_shares / new_shares.sum())
    taken = np.empty(rows, dtype=np.int64)
    for code in np.unique(drawn):
        of_class = np.flatnonzero(labelled.label == code)
        positions = np.flatnonzero(drawn == code)
        rounds = -(-len(positions) // len(of_class))
        taken[positions] = np.concatenate([random.permutation(of_class) for _ in range(rounds)])[
            : len(positions)
        ]
    return labelled.take(taken)


def _other_shares(before: Floats, random: np.random.Generator) -> Floats:
    k = len(before)
    kind = random.integers(3)
    if kind == 0:
        new_shares = random.dirichlet(np.full(k, random.choice([0.3, 1.0, 3.0])))
    elif kind == 1:
        new_shares = before.copy()
        new_shares[random.integers(k, size=random.integers(1, 3))] = 0
    else:
        new_shares = before * random.uniform(0, 0.8)
        new_shares[random.integers(k)] += 1
    new_shares = np.where(before > 0, new_shares, 0)
    if new_shares.sum() > 0:
        return new_shares / new_shares.sum()
    return before


__all__ = ["FAMILY", "likeness", "shifted_sets", "with_other_shares"]
