"""What stands below a table: what its interval is, how many seeds and rows it has, how steps and points were chosen."""

from __future__ import annotations

import math
from collections import Counter

from crosswind.evaluation.compare import t_quantile
from crosswind.reports.layout import Cell
from crosswind.reports.results import LEVEL, ORACLES, Entry, Place, Results, choosing_rule

__all__ = [
    "MARK",
    "doubt_notes",
    "entry_notes",
    "with_mark",
    "interval_note",
    "largest",
    "oracle_notes",
    "points_tried",
    "rule_notes",
    "seeds_note",
    "set_notes",
]


MARK = "†"
"""Stands behind every number of which a run told its reader to doubt it."""


def interval_note(counts: Counter[int]) -> str:
    """What the interval is, and how wide that makes it for the fewest seeds of a table (`counts`: cells by number of seeds)."""
    if not counts:
        return "low and high bound a 95% t-interval of the mean over seeds."
    if max(counts) == 1:
        return "One seed: a single run each, without an interval. What is chance cannot be told from what is not."
    several = sorted((n for n in counts if n > 1), reverse=True)
    reach = ", ".join(f"{t_quantile(n - 1, LEVEL) / math.sqrt(n):.1f} standard deviations from {n} seeds" for n in several)
    text = f"± is half of a 95% t-interval of the mean: to each side {reach}."
    text += " So few show only effects far larger than the spread between seeds." if several[-1] < 4 else ""
    return text + (" A value without ± has one seed." if counts[1] else "")


def seeds_note(found: Results, place: Place) -> str:
    """How many seeds the cells of a place have, and what seeds redraw; nothing where every cell has one."""
    counts = {(method, shift): len(entry.metrics) for (shift, method), entry in found.at(place).items()}
    usual = Counter(counts.values()).most_common(1)[0][0]
    odd = [f"{method} under {shift} {n}" for (method, shift), n in counts.items() if n != usual]
    if set(counts.values()) == {1}:
        return ""
    text = f"{usual} seed{'s' if usual != 1 else ''} each" + (f", but {', '.join(odd)}" if odd else "")
    return (
        f"{text}. Seeds redraw the training and validation rows and the network's start; "
        "the test rows stay the same, so the interval does not cover their choice."
    )


def set_notes(found: Results, place: Place) -> list[str]:
    """How many rows the evaluation set has."""
    rows = {shift: largest(entry, "n") for (shift, _), entry in found.at(place).items() if entry.metrics}
    if not rows:
        return []
    if len(set(rows.values())) == 1:
        return [f"The set {place.set} has {next(iter(rows.values()))} rows."]
    return [f"Rows of the set {place.set}: {', '.join(f'{shift} {n}' for shift, n in rows.items())}."]


def rule_notes(place: Place, grid: bool) -> list[str]:
    """By what the step, and with a `grid` the point, was chosen."""
    rule = choosing_rule(place.rule)
    if place.rule == "last":
        return ["The model after the last step" + (f"; the point chosen by {rule.words} on the set {rule.set}." if grid else ".")]
    if place.rule in ORACLES:
        return oracle_notes(place)
    return [
        f"{'Step and point are' if grid else 'The step is'} chosen by {rule.words} on the set {rule.set}.",
        *oracle_notes(place),
    ]


def oracle_notes(place: Place) -> list[str]:
    """What a rule knows beyond the labels of validation rows: it is an oracle, or it reads their groups."""
    rule = choosing_rule(place.rule)
    notes = []
    if place.rule in ORACLES:
        notes.append(f"ORACLE: chosen by {rule.words} on the set {rule.set}, labelled rows of the distribution that is tested on.")
    if rule.score == "worst_group":
        notes.append(f"The selection {place.rule} reads the groups of the validation rows, which not every method may know.")
    return notes


def points_tried(found: Results, place: Place, reference: str) -> tuple[dict[str, Cell], list[str]]:
    """Points tried by each method (empty where nobody searched), and a warning where they differ from the reference's."""
    tried: dict[str, set[int]] = {}
    for (_, method), entry in found.at(place).items():
        tried.setdefault(method, set()).add(entry.tried)
    if all(counts == {1} for counts in tried.values()):
        return {}, []
    methods = found.methods(place, reference)
    shown: dict[str, Cell] = {}
    for method in methods:
        counts = sorted(tried.get(method, ()))
        shown[method] = None if not counts else counts[0] if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"
    own = shown.get(reference)
    other = [f"{method} {shown[method]}" for method in methods if shown[method] not in (own, None)]
    if not other:
        return shown, []
    return shown, [
        f"WARNING: not all methods tried as many points as {reference} ({own if own is not None else 'none'}): {', '.join(other)}. "
        "The best of more points is higher by chance alone."
    ]


def entry_notes(found: Results, place: Place) -> list[str]:
    """The runs that diverged, chose among fewer points than planned, or are left out."""

    def listed(name: str) -> str:
        lines = []
        for (shift, method), entry in found.at(place).items():
            seeds = getattr(entry, name)
            if seeds:
                lines.append(f"{method} under {shift} (seed {', '.join(map(str, sorted(seeds)))})")
        return "; ".join(lines)

    notes = []
    if text := listed("diverged"):
        notes.append(f"Diverged, and counted as scored: {text}.")
    if text := listed("partial"):
        notes.append(f"Chosen among fewer points than planned, the others have no scores: {text}.")
    if text := listed("undecided"):
        notes.append(f"Left out, since the set {choosing_rule(place.rule).set} that chooses the point was not scored: {text}.")
    return notes


def with_mark(text: str, *entries: Entry | None) -> str:
    """The text with the mark behind it where a run of one of the entries told its reader to doubt it."""
    return f"{text} {MARK}" if any(entry is not None and entry.doubts for entry in entries) else text


def doubt_notes(found: Results, place: Place) -> list[str]:
    """What the mark stands for: what runs told of themselves, and how many of each method and shift did."""
    told: dict[tuple[str, str], list[str]] = {}
    for (shift, method), entry in found.at(place).items():
        for text, seeds in entry.doubts.items():
            told.setdefault((method, text), []).append(f"{len(seeds)} of {len(entry.metrics)} runs under {shift}")
    return [f"{MARK} {method}, {', '.join(counts)}: {text}." for (method, text), counts in told.items()]


def largest(entry: Entry, metric: str) -> int | None:
    """The largest whole number that any seed has for the metric; None where none has it."""
    found = [int(item[metric]) for item in entry.metrics.values() if item.get(metric) is not None]
    return max(found, default=None)
