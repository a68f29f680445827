"""Tables that only the page has: single seeds, ranks, selection rules side by side, what went wrong, cells of a draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crosswind.core.errors import one_line
from crosswind.evaluation.compare import Ranks, Seeds, mean_ranks
from crosswind.reports.gather import SetDraw
from crosswind.reports.layout import Cell
from crosswind.reports.notes import MARK, doubt_notes, with_mark
from crosswind.reports.results import LEVEL, Place, Results
from crosswind.reports.tables import Table
from crosswind.training.selection import ORACLES

__all__ = [
    "Ranking",
    "cell_tables",
    "rank_table",
    "ranking",
    "rule_table",
    "rules_at",
    "seed_table",
    "trouble_table",
    "warning_table",
]

_TROUBLE_SHOWN = 200


# -- scores -------------------------------------------------------------------------------------------------------------------


def seed_table(found: Results, place: Place, reference: str, metric: str = "accuracy") -> Table:
    """The metric of every seed, a row a shift and method."""
    seeds = dict.fromkeys(seed for entry in found.at(place).values() for seed in entry.values(metric))
    rows: list[tuple[Cell, ...]] = []
    for shift in found.shifts(place):
        for method in found.methods(place, reference):
            entry = found.at(place).get((shift, method))
            values = entry.values(metric) if entry else {}
            rows.append((shift, with_mark(method, entry), *(values.get(seed) for seed in seeds)))
    columns = ("shift", "method", *(f"seed {seed}" for seed in seeds))
    return Table(f"seeds-{metric}", "Accuracy of every seed", columns, tuple(rows), tuple(doubt_notes(found, place)), keys=2)


def rules_at(found: Results, place: Place) -> list[Place]:
    """This place under every selection rule that the store has scores of, oracles last."""
    return [other for other in found.places if other._replace(rule=place.rule) == place]


def rule_table(found: Results, place: Place, reference: str) -> Table | None:
    """Accuracy by selection rule, a row a shift and method; None where the store has one rule only."""
    places = rules_at(found, place)
    if len(places) < 2:
        return None
    rows: list[tuple[Cell, ...]] = []
    for shift in found.shifts(place):
        for method in found.methods(place, reference):
            row: list[Cell] = [shift, method]
            for other in places:
                entry = found.at(other).get((shift, method))
                summary = entry.summary("accuracy", LEVEL) if entry else None
                half = summary.half_width if summary else None
                text = "" if summary is None else f"{summary.mean:.3f}" + (f" ± {half:.3f}" if half is not None else "")
                row.append(with_mark(text, entry) if text else None)
            rows.append(tuple(row))
    notes = ["The same training, stopped by the same rule; only which of its steps is scored differs."]
    if any(other.rule in ORACLES for other in places):
        notes.append("A rule marked ORACLE reads labelled rows of the distribution that is tested on.")
    notes += dict.fromkeys(line for other in places for line in doubt_notes(found, other))
    columns = ("shift", "method", *(f"{other.rule}{' (ORACLE)' if other.rule in ORACLES else ''}" for other in places))
    return Table("rules", "Accuracy by selection rule", columns, tuple(rows), tuple(notes), keys=2)


@dataclass(frozen=True)
class Ranking:
    """Ranks of methods on the sets called `set`, steps chosen by `rule`: means, and in how many blocks a method had which rank."""

    set: str
    rule: str
    ranks: Ranks
    counts: Mapping[str, Mapping[float, int]]
    doubted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What runs told their reader to doubt, by method."""


def ranking(found: Results, places: Sequence[Place]) -> list[Ranking]:
    """Rank the methods in every block by accuracy, for each set and rule of `places`; see `rank_table`."""
    out = []
    for set_name, rule in dict.fromkeys((place.set, place.rule) for place in places):
        blocks: dict[tuple[Any, ...], dict[str, float]] = {}
        doubted: dict[str, dict[str, None]] = {}
        for place in places:
            if (place.set, place.rule) != (set_name, rule):
                continue
            for (shift, method), entry in found.at(place).items():
                if entry.doubts:
                    doubted.setdefault(method, {}).update(dict.fromkeys(entry.doubts))
                for seed, value in entry.values("accuracy").items():
                    blocks.setdefault((place, shift, seed), {})[method] = value
        ranks = mean_ranks(list(blocks.values()))
        if len(ranks.mean) > 1:
            told = {method: tuple(texts) for method, texts in doubted.items()}
            out.append(Ranking(set_name, rule, ranks, _rank_counts(blocks.values(), set(ranks.mean)), told))
    return out


def _rank_counts(blocks: Iterable[Mapping[str, float]], names: set[str]) -> dict[str, Counter[float]]:
    counts: dict[str, Counter[float]] = {name: Counter() for name in sorted(names)}
    for block in blocks:
        if set(block) == names:
            for name, value in block.items():
                better = sum(other > value for other in block.values())
                equal = sum(other == value for other in block.values())
                counts[name][better + (equal + 1) / 2] += 1
    return counts


def rank_table(item: Ranking) -> Table:
    """Mean rank of each method, best first, and in how many blocks it was first or last."""
    last = float(len(item.ranks.mean))
    rows: list[tuple[Cell, ...]] = []
    for method, mean in sorted(item.ranks.mean.items(), key=lambda pair: pair[1]):
        counts = item.counts[method]
        name = f"{method} {MARK}" if method in item.doubted else method
        rows.append((name, float(mean), counts.get(1.0, 0), counts.get(last, 0), item.ranks.blocks))
    notes = [
        "1 is the best rank; equal accuracies share the mean of their ranks, so that first and last count undivided ranks only.",
        "A block is one data set, size, model, shift, split seed and seed. Blocks share test rows and training data, so they are "
        "not independent, and no interval is given. A rank says nothing of how large a difference is.",
    ]
    if item.ranks.left_out:
        notes.append(f"{item.ranks.left_out} blocks are left out: not every method has a score there.")
    notes += [f"{MARK} {method}, in some of its runs: {text}." for method, texts in item.doubted.items() for text in texts]
    columns = ("method", "mean rank", "alone first", "alone last", "blocks")
    return Table("ranks", f"Ranks by accuracy on {item.set}, selection {item.rule}", columns, tuple(rows), tuple(notes))


# -- trouble ------------------------------------------------------------------------------------------------------------------


def trouble_table(runs: Iterable[Mapping[str, Any]]) -> Table | None:
    """The failed and diverged runs with their reasons, equal ones of several seeds in one row; None where there is none."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        if run["status"] in ("failed", "diverged"):
            labels = run["labels"]
            where = [str(labels.get(name) or "") for name in ("data", "shift", "size", "model", "method", "point")]
            reason = one_line(run["reason"] or _first_warning(run) or "no reason recorded")
            groups.setdefault((run["status"], *where, reason), []).append(run)
    several = len({run["labels"].get("split_seed", 0) for group in groups.values() for run in group}) > 1
    rows: list[tuple[Cell, ...]] = []
    for key, some in groups.items():
        seeds = ", ".join(_seed_name(run["labels"], several) for run in some)
        rows.append((*(part or None for part in key[:-1]), seeds, key[-1], str(some[0]["key"])[:10]))
    notes = ["A diverged run is scored as it is and counts in every mean; a failed run has no score."] if rows else []
    if len(rows) > _TROUBLE_SHOWN:
        notes.append(f"{len(rows) - _TROUBLE_SHOWN} more kinds are not shown here; `crosswind status` names them.")
    columns = ("status", "data", "shift", "size", "model", "method", "point", "seeds", "reason", "key of the first")
    shown = tuple(rows[:_TROUBLE_SHOWN])
    return Table("trouble", "Runs that failed or diverged", columns, shown, tuple(notes), keys=1) if rows else None


def _seed_name(labels: Mapping[str, Any], several: bool) -> str:
    return str(Seeds(labels["split_seed"], labels["seed"])) if several else str(labels["seed"])


def _first_warning(run: Mapping[str, Any]) -> str:
    warnings = run.get("warnings") or []
    return str(warnings[0]) if warnings else ""


def warning_table(runs: Iterable[Mapping[str, Any]]) -> Table | None:
    """What runs warned of, most frequent first, and in how many runs; None where there is nothing."""
    counts = Counter(one_line(str(text)) for run in runs for text in dict.fromkeys(run.get("warnings") or []))
    rows = tuple((text, number) for text, number in counts.most_common(50))
    notes = (f"{len(counts) - 50} more are not shown.",) if len(counts) > 50 else ()
    return Table("warnings", "Warnings of runs", ("warning", "runs"), rows, notes) if rows else None


# -- draws --------------------------------------------------------------------------------------------------------------------


def cell_tables(drawn: SetDraw, label: str) -> list[Table]:
    """Planned and realised rows of a set, one table an attribute: a row a value of the label, a column a value of the attribute."""
    out = []
    for attribute, cells in drawn.tables.items():
        values = list(dict.fromkeys(cell.value for cell in cells))
        by_pair = {(cell.label, cell.value): cell for cell in cells}
        rows: list[tuple[Cell, ...]] = []
        for name in dict.fromkeys(cell.label for cell in cells):
            found = [by_pair.get((name, value)) for value in values]
            rows.append((name, *("0 / 0" if cell is None else f"{cell.planned:g} / {cell.realised}" for cell in found)))
        title = f"Rows by {label} and {attribute}: planned / realised"
        out.append(Table(f"cells-{attribute}", title, (label, *(f"{attribute}={value}" for value in values)), tuple(rows)))
    return out
