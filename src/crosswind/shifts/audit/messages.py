"""The sentence of each verdict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosswind.shifts.association import Interval, rule_of_three
from crosswind.shifts.audit.contingency import Column
from crosswind.shifts.audit.findings import Value

SHOWN = 4


def _between(interval: Interval) -> str:
    return f"[{interval.low:.2f}, {interval.high:.2f}]"


def _listed(phrases: Sequence[str]) -> str:
    n_hidden = len(phrases) - SHOWN
    return ", ".join(phrases[:SHOWN]) + (f" and {n_hidden} more" if n_hidden > 0 else "")


def _share(share: float) -> str:
    if share < 0.1:
        return f"{100 * share:.2g}%"
    return f"{100 * share:.0f}%"


def few_rows(train: int, target: int) -> str:
    """Where a column could not be fitted at all."""
    return f"too few rows on both sides carry values that both know ({train:,} and {target:,} rows)"


def correlated(
    label: Column,
    column: Column,
    tables: tuple[NDArray[np.float64], NDArray[np.float64]],
    left: Interval,
) -> str:
    """Which values go with which classes in training more than in the target."""
    train, target = (table / np.maximum(table.sum(axis=1, keepdims=True), 1) for table in tables)
    is_shown = tables[0].sum(axis=1, keepdims=True) > 0
    gain = np.where(is_shown, train - target, -1.0)
    best = gain.argmax(axis=1)
    pairs = []
    for class_code in np.argsort(-gain.max(axis=1)):
        if gain[class_code, best[class_code]] > 0:
            pairs.append(f"{label.values[class_code]} with {column.values[best[class_code]]}")
    return (
        f"training ties it to {label.name}, V is {left.value:.2f} {_between(left)} above what all"
        f" else implies: {_listed(pairs)}"
    )


def follows(difference: str, left: Interval, sources: Sequence[str], twin: str | None) -> str:
    """A difference that other columns explain."""
    either = ""
    if twin is not None:
        either = f"; it splits the rows exactly as {twin} does, so either may be the cause"
    return f"{difference}; given {_listed(sources)}, {max(left.value, 0):.2f} of it is left{either}"


def v_none(left: Interval, other_pairs: bool = False) -> str:
    """No difference of V worth the name."""
    if left.high < 0:
        return f"the target ties it to the label more, V by {-left.value:.2f}"
    if other_pairs:
        return (
            f"V differs by {left.value:.2f} {_between(left)}, yet other pairs of class and value go"
            " together than in the target"
        )
    return f"V differs by {left.value:.2f} {_between(left)}"


def unclear(difference: str, left: Interval, size: float, train: int, target: int) -> str:
    """Too few rows, or between no shift and one that counts."""
    rows = f"{train:,} and {target:,} rows do not"
    if left.low > 0:
        why = f"{rows} make sure that it is its own"
    else:
        why = f"{rows} tell {size:g} from none"
    return f"{difference} {left.value:.2f} {_between(left)}: {why}"


def drifted(values: Sequence[Value], seen_codes: Sequence[int], with_label: str | None) -> str:
    """The values that are rare in training, rarest first."""
    shared_values = [values[code] for code in seen_codes]
    low = [value for value in shared_values if value.ratio.value < 1]
    low.sort(key=lambda value: value.ratio.value)
    low_values = [
        f"{value.name} {value.ratio.value:.2g} x {_between(value.ratio)}"
        for value in low
        if value.ratio.high < 1
    ]
    if not low_values:
        low_values = [f"{value.name} {value.ratio.value:.2g} x" for value in low]
    moved = f"; it moves with {with_label}, either may be the cause" if with_label else ""
    return f"rarer in training than in the target, by share: {_listed(low_values)}{moved}"


def only_in_training(values: Sequence[Value], codes: Sequence[int]) -> str:
    """Values that the target lacks."""
    by_share = sorted((values[code] for code in codes), key=lambda value: -value.train_share)
    with_shares = [f"{value.name} ({_share(value.train_share)})" for value in by_share]
    return f"only training has {_listed(with_shares)}"


def tv_none(left: Interval) -> str:
    """No difference of shares worth the name."""
    return f"shares differ by {left.value:.2f} {_between(left)}"


def _gone(values: Sequence[Value], codes: Sequence[int]) -> str:
    by_share = sorted((values[code] for code in codes), key=lambda value: -value.target_share)
    shares = [(value.name, _share(value.target_share)) for value in by_share]
    return _listed([f"{name} ({share} of the target)" for name, share in shares])


def unseen(values: Sequence[Value], sure: Sequence[int], codes: Sequence[int]) -> str:
    """Values that training lacks and not by chance."""
    chance = [code for code in codes if code not in sure]
    perhaps = f"; and, perhaps by chance, {_gone(values, chance)}" if chance else ""
    return f"training never shows {_gone(values, sure)}{perhaps}"


def unseen_follows(values: Sequence[Value], codes: Sequence[int], source: str) -> str:
    """Values that are absent because another column's are."""
    return (
        f"training never shows {_gone(values, codes)}, whose rows carry unseen values of {source}"
    )


def unseen_none(values: Sequence[Value], codes: Sequence[int], train: int) -> str:
    """Nothing is unseen, or next to nothing."""
    if not codes:
        return "training shows every value of the target"
    share = _share(rule_of_three(train))
    return (
        f"training lacks {_gone(values, codes)}, too little to count; each may have up to"
        f" {share} there"
    )


def unseen_unclear(
    values: Sequence[Value], codes: Sequence[int], train: int, target: int, share: Interval
) -> str:
    """Too few rows for a value that is absent."""
    if not codes:
        return f"{target:,} rows of the target may hide a value of up to {_share(share.high)}"
    highest_share = _share(rule_of_three(train))
    may = f"may be chance: by {train:,} rows each may have up to {highest_share} there"
    return f"training lacks {_gone(values, codes)}, which {may}"
