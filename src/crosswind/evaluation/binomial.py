"""Exact bounds of a share of rows."""

from __future__ import annotations


def exact_bounds(share: float, rows: float, level: float) -> tuple[float, float]:
    """The bounds of Clopper and Pearson (1934) for the probability behind a share of so many rows,
    which may be a fraction of one. By neither is it missed in more than (1 - `level`) / 2 of all
    draws, and they differ for every share."""
    from scipy.special import betaincinv  # not at the top: reports load this room and start at once

    hits = share * rows
    tail = (1 - level) / 2
    misses = rows - hits
    low = 0.0
    if hits > 0:
        low = float(betaincinv(hits, misses + 1, tail))
    high = 1.0
    if misses > 0:
        high = float(betaincinv(hits + 1, misses, 1 - tail))
    return low, high
