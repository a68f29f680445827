"""Optimal transport from the softmax outputs of n rows to one-hot labels with a given marginal,
exactly, as a k x n problem."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from crosswind.core.seeds import stream
from crosswind.estimators.base import Answers, Floats
from crosswind.estimators.temperature import scaled_log_probabilities

LARGEST = 3_000_000
"""Of k x n: with more, rows are drawn, since the network simplex would take minutes."""

DIGITS = 12
"""To which costs are rounded, so that those of equal rows are equal."""


def marginal_of(label: NDArray[np.int64], classes: int) -> Floats:
    """The share of each class among the labels, float64 [k]."""
    return np.bincount(label, minlength=classes) / len(label)


def kept_rows(answers: Answers) -> NDArray[np.int64]:
    """The rows that are transported, int64 [m]: all, or as many as `LARGEST` allows, drawn with a
    fixed seed.

    They come in the order of their logits, so that neither which ones are drawn nor how ties are
    broken depends on the order in which they were given.
    """
    assert answers.logits is not None
    order = np.lexsort((answers.answer, *answers.logits.T[::-1])).astype(np.int64)
    row_limit = max(LARGEST // answers.logits.shape[1], 1)
    if len(order) <= row_limit:
        return order
    drawn = stream(0, "rows that are transported").choice(len(order), size=row_limit, replace=False)
    return order[np.sort(drawn)]


def told_if_drawn(answers: Answers, drawn_rows: NDArray[np.int64], subject: str) -> tuple[str, ...]:
    """The warning that only some rows were transported."""
    if len(drawn_rows) == len(answers):
        return ()
    return (
        (
            f"of the {len(answers)} rows of the {subject} {len(drawn_rows)} were drawn with a fixed"
            " seed, since all would take minutes"
        ),
    )


def transport_costs(answers: Answers, marginal: Floats, temperature: float) -> Floats:
    """What each row costs in the cheapest transport of all rows to one-hot labels with this
    marginal, float64 [n] in [0, 1].

    A row with probabilities p costs ||e_y - p||_1 / 2 = 1 - p_y where it goes to label y (Lu et al.
    2023). `marginal`
    float64 [k] sums to 1. A row that is shared out among labels costs their mean. Needs POT; the
    solution is exact.
    """
    with warnings.catch_warnings():  # of its source text, when it is compiled
        warnings.simplefilter("ignore")
        import ot
    n = len(answers)
    used = np.flatnonzero(marginal)
    cost = -np.expm1(scaled_log_probabilities(answers, temperature)[:, used]).T
    masses = marginal[used] / marginal[used].sum() * n
    plan = ot.emd(masses, np.ones(n), np.ascontiguousarray(cost), numItermax=100_000_000)
    return np.asarray(np.round((plan * cost).sum(axis=0) / plan.sum(axis=0), DIGITS))
