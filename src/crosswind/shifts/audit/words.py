"""What an audit says: a sentence for each verdict, and the table for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import one_line
from crosswind.shifts.audit.findings import KINDS, AttributeAudit, Audit, Value
from crosswind.shifts.audit.measures import Interval, rule_of_three

if TYPE_CHECKING:
    from crosswind.shifts.audit.pooling import Column

__all__ = [
    "audit_text",
    "correlated",
    "drifted",
    "few_rows",
    "only_in_training",
    "tv_follows",
    "tv_none",
    "tv_unclear",
    "unseen",
    "unseen_follows",
    "unseen_none",
    "unseen_unclear",
    "v_follows",
    "v_none",
    "v_unclear",
]

SHOWN = 4
WIDTH = 118


def _between(found: Interval) -> str:
    return f"[{found.low:.2f}, {found.high:.2f}]"


def _listed(parts: Sequence[str]) -> str:
    more = len(parts) - SHOWN
    return ", ".join(parts[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _share(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 0.1 else f"{100 * share:.0f}%"


def few_rows(train: int, target: int) -> str:
    """Where a column could not be fitted at all."""
    return f"too few rows on both sides carry values that both know ({train:,} and {target:,} rows)"


def correlated(label: Column, column: Column, tables: tuple[NDArray[np.float64], NDArray[np.float64]], left: Interval) -> str:
    """Which values go with which classes in training more than in the target."""
    train, target = (table / np.maximum(table.sum(axis=1, keepdims=True), 1) for table in tables)
    gain = np.where(tables[0].sum(axis=1, keepdims=True) > 0, train - target, -1.0)
    best = gain.argmax(axis=1)
    order = [place for place in np.argsort(-gain.max(axis=1)) if gain[place, best[place]] > 0]
    pairs = [f"{label.values[place]} with {column.values[best[place]]}" for place in order]
    return f"training ties it to {label.name}, V is {left.value:.2f} {_between(left)} above what all else implies: {_listed(pairs)}"


def v_follows(raw: Interval, left: Interval, sources: Sequence[str], twin: str | None) -> str:
    """A difference of V that others explain."""
    return f"V is {raw.value:.2f} higher in training; {_explained(left, sources, twin)}"


def _explained(left: Interval, sources: Sequence[str], twin: str | None) -> str:
    either = f"; it splits the rows exactly as {twin} does, so either may be the cause" if twin is not None else ""
    return f"given {_listed(sources)}, {max(left.value, 0):.2f} of it is left{either}"


def v_none(left: Interval, other_pairs: bool = False) -> str:
    """No difference of V worth the name."""
    if left.high < 0:
        return f"the target ties it to the label more, V by {-left.value:.2f}"
    if other_pairs:
        return f"V differs by {left.value:.2f} {_between(left)}, yet other pairs of class and value go together than in the target"
    return f"V differs by {left.value:.2f} {_between(left)}"


def v_unclear(left: Interval, size: float, train: int, target: int) -> str:
    """Too few rows, or between no shift and one that counts."""
    return f"V differs by {left.value:.2f} {_between(left)}: {_too_few(left, size, train, target)}"


def _too_few(left: Interval, size: float, train: int, target: int) -> str:
    if left.low > 0:
        return f"{train:,} and {target:,} rows do not make sure that it is its own"
    return f"{train:,} and {target:,} rows do not tell {size:g} from none"


def drifted(values: Sequence[Value], seen: Sequence[int], with_label: str | None) -> str:
    """The values that are rare in training, rarest first."""
    low = sorted((values[code] for code in seen if values[code].ratio.value < 1), key=lambda value: value.ratio.value)
    said = [f"{value.name} {value.ratio.value:.2g} x {_between(value.ratio)}" for value in low if value.ratio.high < 1] or [
        f"{value.name} {value.ratio.value:.2g} x" for value in low
    ]
    moved = f"; it moves with {with_label}, either may be the cause" if with_label else ""
    return f"rarer in training than in the target, by share: {_listed(said)}{moved}"


def only_in_training(values: Sequence[Value], codes: Sequence[int]) -> str:
    """Values that the target lacks."""
    found = sorted((values[code] for code in codes), key=lambda value: -value.train_share)
    return f"only training has {_listed([f'{value.name} ({_share(value.train_share)})' for value in found])}"


def tv_follows(raw: Interval, left: Interval, sources: Sequence[str], twin: str | None) -> str:
    """A difference of shares that others explain."""
    return f"shares differ by {raw.value:.2f}; {_explained(left, sources, twin)}"


def tv_none(left: Interval) -> str:
    """No difference of shares worth the name."""
    return f"shares differ by {left.value:.2f} {_between(left)}"


def tv_unclear(left: Interval, size: float, train: int, target: int) -> str:
    """Too few rows, or between no shift and one that counts."""
    return f"shares differ by {left.value:.2f} {_between(left)}: {_too_few(left, size, train, target)}"


def _gone(values: Sequence[Value], codes: Sequence[int]) -> str:
    found = sorted((values[code] for code in codes), key=lambda value: -value.target_share)
    return _listed([f"{value.name} ({_share(value.target_share)} of the target)" for value in found])


def unseen(values: Sequence[Value], sure: Sequence[int], codes: Sequence[int]) -> str:
    """Values that training lacks and not by chance."""
    chance = [code for code in codes if code not in sure]
    more = f"; and, perhaps by chance, {_gone(values, chance)}" if chance else ""
    return f"training never shows {_gone(values, sure)}{more}"


def unseen_follows(values: Sequence[Value], codes: Sequence[int], source: str) -> str:
    """Values that are absent because another column's are."""
    return f"training never shows {_gone(values, codes)}, whose rows carry unseen values of {source}"


def unseen_none(values: Sequence[Value], codes: Sequence[int], train: int) -> str:
    """Nothing is unseen, or next to nothing."""
    if not codes:
        return "training shows every value of the target"
    return f"training lacks {_gone(values, codes)}, too little to count; each may have up to {_share(rule_of_three(train))} there"


def unseen_unclear(values: Sequence[Value], codes: Sequence[int], train: int, target: int, share: Interval) -> str:
    """Too few rows for a value that is absent."""
    if not codes:
        return f"{target:,} rows of the target may hide a value of up to {_share(share.high)}"
    may = f"may be chance: by {train:,} rows each may have up to {_share(rule_of_three(train))} there"
    return f"training lacks {_gone(values, codes)}, which {may}"


def audit_text(audit: Audit) -> str:
    """The table for people: a line a column, then the sentences that matter."""
    label = repr(audit.label_name) if audit.label is not None else f"{audit.label_name!r}, which the target lacks"
    lines = [f"{audit.train_rows:,} training and {audit.target_rows:,} target rows, label {label}", ""]
    heads = ["", "spurious correlation", "low-data drift", "unseen values"]
    rows = [heads, *([_short(item.name, 30), *_cells(item)] for item in audit.columns)]
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines += ["  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    titles = {
        "shift": "Shifts",
        "follows": "What follows from others and is no shift of its own",
        "cannot tell": "What cannot be told",
    }
    kinds = KINDS if audit.label is not None else KINDS[1:]  # without a label no correlation can be told, once for all
    said = [(item, verdict) for item in audit.columns for verdict in item.verdicts]
    for status, title in titles.items():
        found = [
            (item.name, verdict) for kind in kinds for item, verdict in said if (verdict.kind, verdict.status) == (kind, status)
        ]
        if found:
            lines += ["", title]
        for name, verdict in found:
            lines += _wrapped(f"{_short(name, 60)}, {verdict.kind}: {verdict.words}")
    if audit.skipped:
        lines += ["", "Left out"]
        lines += [line for name, reason in audit.skipped for line in _wrapped(f"{_short(name, 60)}: {reason}")]
    if audit.notes:
        lines += ["", "Notes"]
        lines += [line for note in audit.notes for line in _wrapped(note)]
    return "\n".join(lines)


def _cells(item: AttributeAudit) -> list[str]:
    out = []
    for verdict in (*([None] if len(item.verdicts) == 2 else []), *item.verdicts):
        if verdict is None:
            out.append("(the label)")
            continue
        status = verdict.status.upper() if verdict.status == "shift" else verdict.status
        measure = {"spurious correlation": "V {:+.2f}", "unseen values": "{:.1%}"}.get(verdict.kind, "TV {:.2f}")
        out.append(f"{status}  {measure.format(verdict.effect.value)}" if verdict.effect is not None else status)
    return out


def _short(name: str, most: int) -> str:
    return one_line(name, most)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(one_line(text), WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
