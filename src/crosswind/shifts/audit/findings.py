"""The result of an audit: numbers and verdicts, as frozen values, as plain values for JSON and as a
table for people."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, final

from crosswind.core.errors import one_line
from crosswind.shifts.association import Interval

FORMAT = 1
"""The number of the JSON form; it changes when a name in it changes or goes."""
KINDS = ("spurious correlation", "low-data drift", "unseen values", "label shift")
STATUSES = ("shift", "follows", "no shift", "cannot tell")
SIZES = {
    "spurious correlation": 0.2,
    "low-data drift": 0.15,
    "unseen values": 0.02,
    "label shift": 0.15,
}
"""The stated effect sizes: a difference of V, a total variation, a share of the target, a total
variation."""
LEAST = {
    "spurious correlation": 0.1,
    "low-data drift": 0.05,
    "unseen values": 0.0,
    "label shift": 0.05,
}
"""The smallest effects that are called a shift, however many rows there are."""
LEVEL = 0.01
"""The chance that an audit of two tables of one law names any shift at all."""
WIDTH = 118
_TITLES = {
    "shift": "Shifts",
    "follows": "What follows from others and is no shift of its own",
    "cannot tell": "What cannot be told",
}
"""The heading of the verdicts of each status that people are told."""
_MEASURES = {"spurious correlation": "V {:+.2f}", "unseen values": "{:.1%}"}
"""How the effect of a kind is written; of the others it is a total variation."""


@final
@dataclass(frozen=True)
class Verdict:
    """One kind of shift in one attribute: `status` of `STATUSES`, and what it says in words.

    `effect`: what is left of the measure when what follows from others is taken out, with its
    interval; None where it cannot be had. `p`: adjusted for all tests of the audit (Holm).
    `follows_from`: the columns (or parts of its own) that explain the rest.
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
    """One value of an attribute: rows and shares on both sides, and training's share over the
    target's."""

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

    `v_train`, `v_target`, `v_difference`: Cramér's V with the label; None for the label and where
    the target has none. `variation`: the total variation of the shares of all values. `unseen`: the
    target's values that training lacks, with `unseen_share` of its rows.
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
    """Which shifts lie between two tables. `str` of it is a table for people, `to_json` the whole
    of it.

    `label` is None where the target has no label column; `skipped` holds columns left out, with the
    reason.
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
        if self.label is None:
            return self.attributes
        return (*self.attributes, self.label)

    @property
    def shifts(self) -> list[tuple[str, str]]:
        """The columns and kinds with a shift of their own."""
        shifts: list[tuple[str, str]] = []
        for column_audit in self.columns:
            for verdict in column_audit.verdicts:
                if verdict.status == "shift":
                    shifts.append((column_audit.name, verdict.kind))
        return shifts

    def column(self, name: str) -> AttributeAudit:
        """The audit of one attribute or of the label; `KeyError` for another name."""
        for column_audit in self.columns:
            if column_audit.name == name:
                return column_audit
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; null stands for what cannot be had and for infinite ratios."""
        shifts = [{"column": name, "kind": kind} for name, kind in self.shifts]
        columns = []
        for column_audit in self.columns:
            columns.append(_column(column_audit, column_audit is self.label))
        skipped = [{"column": name, "reason": reason} for name, reason in self.skipped]
        rows = {"train": self.train_rows, "target": self.target_rows}
        notes = list(self.notes)
        return {
            "format": FORMAT,
            "label": self.label_name,
            "rows": rows,
            "level": LEVEL,
            "effect_sizes": dict(SIZES),
            "shifts": shifts,
            "columns": columns,
            "skipped": skipped,
            "notes": notes,
        }

    def __str__(self) -> str:
        return audit_text(self)


def _column(column_audit: AttributeAudit, is_label: bool) -> dict[str, Any]:
    difference = _plain(column_audit.v_difference)
    cramers_v = {
        "train": column_audit.v_train,
        "target": column_audit.v_target,
        "difference": difference,
    }
    share = _plain(column_audit.unseen_share)
    unseen = {"values": list(column_audit.unseen), "share": share}
    verdicts = [_plain(verdict) for verdict in column_audit.verdicts]
    total_variation = _plain(column_audit.variation)
    return {
        "name": column_audit.name,
        "role": "label" if is_label else "attribute",
        "cramers_v": cramers_v,
        "total_variation": total_variation,
        "unseen": unseen,
        "values": [_plain(value) for value in column_audit.values],
        "verdicts": verdicts,
    }


def _plain(frozen_value: Any) -> Any:
    """Frozen values as maps, tuples as lists, and null for numbers that are not finite."""
    if is_dataclass(frozen_value):
        return {name: _plain(value) for name, value in vars(frozen_value).items()}
    if isinstance(frozen_value, tuple):
        return list(frozen_value)
    if isinstance(frozen_value, float) and not math.isfinite(frozen_value):
        return None
    return frozen_value


def audit_text(audit: Audit) -> str:
    """The table for people: a line a column, then the sentences that matter."""
    label = repr(audit.label_name)
    if audit.label is None:
        label += ", which the target lacks"
    lines = [
        f"{audit.train_rows:,} training and {audit.target_rows:,} target rows, label {label}",
        "",
        *_table_lines(audit.columns),
    ]
    # Without a label no correlation can be told, once for all.
    kinds = KINDS if audit.label is not None else KINDS[1:]
    for status, title in _TITLES.items():
        lines += _section(title, _sentences(audit.columns, kinds, status))
    sentences = [f"{one_line(name, 60)}: {reason}" for name, reason in audit.skipped]
    lines += _section("Left out", sentences)
    lines += _section("Notes", audit.notes)
    return "\n".join(lines)


def _table_lines(column_audits: Sequence[AttributeAudit]) -> Iterator[str]:
    """A line a column, with what was found of each kind."""
    rows = [["", "spurious correlation", "low-data drift", "unseen values"]]
    rows += [[one_line(audit.name, 30), *_cells(audit)] for audit in column_audits]
    widths = [max(map(len, table_column)) for table_column in zip(*rows, strict=True)]
    for row in rows:
        padded = [f"{word:<{width}}" for word, width in zip(row, widths, strict=True)]
        yield "  ".join(padded).rstrip()


def _sentences(
    column_audits: Sequence[AttributeAudit], kinds: Sequence[str], status: str
) -> list[str]:
    """The verdicts of one status in words, kind by kind."""
    sentences: list[str] = []
    for kind in kinds:
        for column_audit in column_audits:
            for verdict in column_audit.verdicts:
                if (verdict.kind, verdict.status) == (kind, status):
                    sentences.append(f"{one_line(column_audit.name, 60)}, {kind}: {verdict.words}")
    return sentences


def _section(title: str, sentences: Sequence[str]) -> list[str]:
    """Sentences under their heading; nothing where there is none."""
    if not sentences:
        return []
    wrapped = [line for sentence in sentences for line in _wrapped(sentence)]
    return ["", title, *wrapped]


def _cells(column_audit: AttributeAudit) -> list[str]:
    cells = ["(the label)"] if len(column_audit.verdicts) == 2 else []
    for verdict in column_audit.verdicts:
        if verdict.status == "shift":
            status = verdict.status.upper()
        else:
            status = verdict.status
        measure = _MEASURES.get(verdict.kind, "TV {:.2f}")
        effect = verdict.effect
        cells.append(status if effect is None else f"{status}  {measure.format(effect.value)}")
    return cells


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        one_line(text),
        WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_on_hyphens=False,
    )
