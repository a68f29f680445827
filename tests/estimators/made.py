"""Answers that the tests of estimators are asked about."""

from __future__ import annotations

import numpy as np
from scipy import stats

from crosswind.estimators.base import Answers, Labelled


def said(logits: np.ndarray | list[list[float]]) -> Answers:
    """Answers by the largest logit."""
    z = np.asarray(logits)
    return Answers(z.argmax(axis=1).astype(np.int64), z)


def of_probabilities(p: np.ndarray | list[list[float]]) -> Answers:
    """Answers with these probabilities, rows of k numbers that sum to 1; a 0 is a logit of minus
    infinity."""
    with np.errstate(divide="ignore"):
        return said(np.log(np.asarray(p, dtype=np.float64)))


def of_two(p: np.ndarray | list[float]) -> Answers:
    """Two classes, of which class 0 has these probabilities."""
    column = np.asarray(p, dtype=np.float64)
    return of_probabilities(np.stack([column, 1 - column], axis=1))


def known(
    answers: Answers, label: np.ndarray | list[int], name: str = "source", family: str = ""
) -> Labelled:
    return Labelled(answers, np.asarray(label, dtype=np.int64), name, family)


def drawn(
    seed: int, n: int, k: int = 4, *, strength: float = 2.0, shares: list[float] | None = None
) -> Labelled:
    """Logits of noise, with `strength` more for the label: a classifier that is calibrated for no
    temperature."""
    random = np.random.default_rng(seed)
    label = random.choice(k, size=n, p=shares)
    logits = random.normal(size=(n, k)) * 1.5
    logits[np.arange(n), label] += strength
    return known(said(logits), label)


def rows_by_hand(
    e: float, variance: float, n: int, right: float = 0.0, m: int = 0
) -> tuple[float, float]:
    """The interval of rows: what m labelled rows, of which a share is right, and n rows of the
    target leave open. With no m the estimator learned from nothing."""
    learned = m or n
    moved = float(stats.t.ppf(0.95, learned - 1)) * float(
        np.sqrt(variance * learned / (learned - 1))
    )

    def exact(share: float, rows: int) -> tuple[float, float]:
        x = share * rows
        low = float(stats.beta.ppf(0.05, x, rows - x + 1)) if x else 0.0
        return low, float(stats.beta.ppf(0.95, x + 1, rows - x)) if x < rows else 1.0

    source_bounds, target_bounds = exact(right, m) if m else (right, right), exact(e, n)
    below = np.hypot(max(moved, right - source_bounds[0]), e - target_bounds[0])
    above = np.hypot(max(moved, source_bounds[1] - right), target_bounds[1] - e)
    return max(float(e - below), 0.0), min(float(e + above), 1.0)
