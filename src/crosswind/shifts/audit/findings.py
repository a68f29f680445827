"""What an audit hands back: numbers and verdicts, as frozen values and as plain values for JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from crosswind.shifts.audit.measures import Interval

__all__ = ["FORMAT", "KINDS", "LEAST", "LEVEL", "SIZES", "STATUSES", "AttributeAudit", "Audit", "Value", "Verdict"]

FORMAT = 1
"""The number of the JSON form; it changes when a name in it changes or goes."""
KINDS = ("spurious correlation", "low-data drift", "unseen values", "label shift")
STATUSES = ("shift", "follows", "no shift", "cannot tell")
SIZES = {"spurious correlation": 0.2, "low-data drift": 0.15, "unseen values": 0.02, "label shift": 0.15}
"""The stated effect sizes: a difference of V, a total variation, a share of the target, a total variation."""
LEAST = {"spurious correlation": 0.1, "low-data drift": 0.05, "unseen values": 0.0, "label shift": 0.05}
"""The smallest effects that are called a shift, however many rows there are."""
LEVEL = 0.01
"""The chance that an audit of two tables of one law names any shift at all."""


@final
@dataclass(frozen=True)
class Verdict:
    """One kind of shift in one attribute: `status` of `STATUSES`, and what it says in words.

    `effect`: what is left of the measure when what follows from others is taken out, with its interval; None where it cannot be
    had. `p`: adjusted for all tests of the audit (Holm). `follows_from`: the columns (or parts of its own) that explain the rest.
    """

    kind: str
    status: str
    words: str
    effect: Interval | None = None
    p: float = 1.0
    follows_from: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Value:
    """One value of an attribute: rows and shares on both sides, and training's share over the target's."""

    name: str
    train_rows: int
    target_rows: int
    train_share: float
    target_share: float
    ratio: Interval


@final
@dataclass(frozen=True)
class AttributeAudit:
    """One attribute, or the label: its values, measures with intervals, and verdicts.

    `v_train`, `v_target`, `v_difference`: Cramér's V with the label; None for the label and where the target has none.
    `variation`: the total variation of the shares of all values. `unseen`: the target's values that training lacks, with
    `unseen_share` of its rows.
    """

    name: str
    values: tuple[Value, ...]
    variation: Interval
    unseen: tuple[str, ...]
    unseen_share: Interval
    v_train: float | None
    v_target: float | None
    v_difference: Interval | None
    verdicts: tuple[Verdict, ...]

    def verdict(self, kind: str) -> Verdict:
        """The verdict of one kind of `KINDS`; `KeyError` for one that the column does not have."""
        for verdict in self.verdicts:
            if verdict.kind == kind:
                return verdict
        raise KeyError(kind)


@final
@dataclass(frozen=True)
class Audit:
    """Which shifts lie between two tables. `str` of it is a table for people, `to_json` the whole of it.

    `label` is None where the target has no label column; `skipped` holds columns left out, with the reason.
    """

    label_name: str
    train_rows: int
    target_rows: int
    label: AttributeAudit | None
    attributes: tuple[AttributeAudit, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def columns(self) -> tuple[AttributeAudit, ...]:
        """The attributes, then the label."""
        return self.attributes if self.label is None else (*self.attributes, self.label)

    @property
    def shifts(self) -> list[tuple[str, str]]:
        """The columns and kinds with a shift of their own."""
        return [(item.name, verdict.kind) for item in self.columns for verdict in item.verdicts if verdict.status == "shift"]

    def column(self, name: str) -> AttributeAudit:
        """The audit of one attribute or of the label; `KeyError` for another name."""
        for item in self.columns:
            if item.name == name:
                return item
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; null stands for what cannot be had and for infinite ratios."""
        return {
            "format": FORMAT,
            "label": self.label_name,
            "rows": {"train": self.train_rows, "target": self.target_rows},
            "level": LEVEL,
            "effect_sizes": dict(SIZES),
            "shifts": [{"column": name, "kind": kind} for name, kind in self.shifts],
            "columns": [_column(item, item is self.label) for item in self.columns],
            "skipped": [{"column": name, "reason": reason} for name, reason in self.skipped],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        from crosswind.shifts.audit.words import audit_text

        return audit_text(self)


def _column(item: AttributeAudit, is_label: bool) -> dict[str, Any]:
    return {
        "name": item.name,
        "role": "label" if is_label else "attribute",
        "cramers_v": {"train": item.v_train, "target": item.v_target, "difference": _interval(item.v_difference)},
        "total_variation": _interval(item.variation),
        "unseen": {"values": list(item.unseen), "share": _interval(item.unseen_share)},
        "values": [
            {
                "name": value.name,
                "train_rows": value.train_rows,
                "target_rows": value.target_rows,
                "train_share": value.train_share,
                "target_share": value.target_share,
                "ratio": _interval(value.ratio),
            }
            for value in item.values
        ],
        "verdicts": [
            {
                "kind": verdict.kind,
                "status": verdict.status,
                "words": verdict.words,
                "effect": _interval(verdict.effect),
                "p": verdict.p,
                "follows_from": list(verdict.follows_from),
            }
            for verdict in item.verdicts
        ],
    }


def _interval(found: Interval | None) -> dict[str, float | None] | None:
    if found is None:
        return None
    return {name: value if math.isfinite(value) else None for name, value in vars(found).items()}
