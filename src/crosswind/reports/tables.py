"""Results to tables: text, CSV, LaTeX and plain values for JSON. What a table says is no more than its seeds carry.

`result_tables` makes the tables that a person reads, `number_table` one tidy table of every number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosswind.core.errors import one_line, plain
from crosswind.evaluation.compare import Seeds
from crosswind.reports.layout import Cell, layout_csv, layout_latex, layout_text
from crosswind.reports.notes import (
    MARK,
    chance_level,
    chance_notes,
    doubt_notes,
    entry_notes,
    interval_note,
    largest,
    oracle_notes,
    points_tried,
    rule_notes,
    seeds_note,
    set_notes,
    with_mark,
)
from crosswind.reports.results import LEVEL, Entry, Place, Results, arrange
from crosswind.training.selection import ORACLES

__all__ = ["Table", "number_table", "place_tables", "result_tables", "run_table", "shown_places"]

_REASONS_SHOWN = 20
_NUMBERS = (
    *("study", "data", "shift", "size", "model", "method", "set", "role", "rule", "oracle", "points", "n", "diverged", "rows"),
    *("mean", "sd", "low", "high", "diff", "diff_low", "diff_high", "diff_n", "diff_missing"),
    *("worst_group", "worst_group_low", "worst_group_high", "worst_group_name", "worst_group_seeds", "worst_group_rows"),
    *("balanced_accuracy", "nll", "ece", "unparsed", "ties", "doubted", "doubts", "splits", "train_shared", "chance"),
)


@dataclass(frozen=True)
class Table:
    """A titled table. A cell is text, a number or None; the first `keys` columns name the rows; `name` is fit for a file."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    keys: int = 1

    def __post_init__(self) -> None:
        # Names and reasons come from a store, which may hold anything; a table goes to terminals and files.
        rows = tuple(tuple(plain(cell) if isinstance(cell, str) else cell for cell in row) for row in self.rows)
        words = {"title": plain(self.title), "columns": tuple(map(plain, self.columns)), "notes": tuple(map(plain, self.notes))}
        for name, value in {**words, "rows": rows}.items():
            object.__setattr__(self, name, value)

    def to_text(self, width: int = 100) -> str:
        """Monospaced text of at most `width` columns where the cells allow it; wider tables become blocks that repeat the keys."""
        return layout_text(self.title, self.columns, self.rows, self.notes, self.keys, width)

    def to_csv(self) -> str:
        """Comma-separated values with a header; None is empty. Notes are left out."""
        return layout_csv(self.columns, self.rows)

    def to_latex(self) -> str:
        """A LaTeX table with booktabs rules, the title as caption, the notes below."""
        return layout_latex(self.title, self.columns, self.rows, self.notes, self.name)

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: name, title, columns, rows, notes."""
        return {
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "rows": [[cell.strip() if isinstance(cell, str) else cell for cell in row] for row in self.rows],
            "notes": list(self.notes),
        }


def result_tables(
    results: Iterable[Mapping[str, Any]] | Results, reference: str = "erm", rules: Sequence[str] | None = None
) -> list[Table]:
    """The tables of a study: for every data set, size, model, evaluation set and rule accuracy, difference to `reference`, worst
    group and calibration error; then the state of the runs.

    `results` as `crosswind.reports.results` describes them, or already in order; `rules` limits the selection rules (None: all).
    Tables of oracle rules come last for their set.
    """
    found = results if isinstance(results, Results) else arrange(results)
    tables = [table for place in shown_places(found, rules) for table in place_tables(found, place, reference).values()]
    return [*tables, run_table(found)]


def shown_places(found: Results, rules: Sequence[str] | None = None) -> list[Place]:
    """The places that have tables: those of test sets, by the selection rules asked for (None: by all)."""
    chosen = [place for place in found.places if rules is None or place.rule in rules]
    return [place for place in chosen if any(entry.role == "test" for entry in found.at(place).values())]


def place_tables(found: Results, place: Place, reference: str = "erm") -> dict[str, Table]:
    """The tables of one place, of `accuracy`, `difference`, `worst-group` and `calibration` those that there is something for."""
    made = {
        "accuracy": _accuracy(found, place, reference),
        "difference": _differences(found, place, reference),
        "worst-group": _worst_groups(found, place, reference),
        "calibration": _calibration(found, place, reference),
    }
    return {what: table for what, table in made.items() if table is not None}


def number_table(
    results: Iterable[Mapping[str, Any]] | Results, reference: str = "erm", rules: Sequence[str] | None = None
) -> Table:
    """Every number in one tidy table: a row a (study, data, shift, size, model, method, set, rule), validation sets included.

    mean, sd, low, high are of the accuracy over `n` runs, a seed or a pair of split seed and seed each, of `splits` split seeds;
    diff is paired with `reference`; the other scores are means over runs. `rows` is the size of the set, `ties` the largest number
    of equally good steps of any run, `doubted` the number of runs that told their reader to doubt them and `doubts` what they
    said, `train_shared` the share of the training rows that two seeds are expected to have in common, `chance` the accuracy that
    guessing reaches.
    """
    found = results if isinstance(results, Results) else arrange(results)
    rows = []
    for place in found.places:
        if rules is None or place.rule in rules:
            for shift in found.shifts(place):
                for method in found.methods(place, reference):
                    entry = found.at(place).get((shift, method))
                    if entry is not None:
                        base = found.at(place).get((shift, reference)) if method != reference else None
                        rows.append(_numbers(place, shift, method, entry, base))
    return Table("numbers", "Every number", _NUMBERS, tuple(rows), (interval_note(Counter()),), keys=9)


# -- one table each -----------------------------------------------------------------------------------------------------------


def _accuracy(found: Results, place: Place, reference: str) -> Table:
    notes = [seeds_note(found, place), *set_notes(found, place)]
    if reference not in found.methods(place, reference):
        notes.append(f"There is no table of differences: the reference {reference} is not among the methods.")
    return _by_shift(found, place, reference, "accuracy", "Accuracy", notes)


def _calibration(found: Results, place: Place, reference: str) -> Table | None:
    notes = ["Expected calibration error over 15 bins of equal width; 0 is best. Small sets have more than 0 by chance alone."]
    return _by_shift(found, place, reference, "ece", "Calibration error", notes) if _has(found, place, "ece") else None


def _by_shift(found: Results, place: Place, reference: str, metric: str, what: str, notes: list[str]) -> Table:
    shifts, methods = found.shifts(place), found.methods(place, reference)
    budget, budget_notes = points_tried(found, place, reference)
    counts: Counter[tuple[int, int]] = Counter()
    rows = []
    for method in methods:
        row: list[Cell] = [method, *([budget[method]] if budget else [])]
        for shift in shifts:
            entry = found.at(place).get((shift, method))
            summary = entry.summary(metric, LEVEL) if entry else None
            counts.update([(summary.splits, summary.n)] if summary else [])
            row.append(None if summary is None else with_mark(_with_half_width(f"{summary.mean:.3f}", summary.half_width), entry))
        rows.append(tuple(row))
    columns = ("method", *(["points"] if budget else []), *shifts)
    every = [interval_note(counts), *notes, *rule_notes(place, bool(budget)), *budget_notes]
    every += [*entry_notes(found, place), *doubt_notes(found, place)]
    return Table(_name(metric, place), _title(what, place), columns, _aligned(rows), _present(every), keys=2 if budget else 1)


def _differences(found: Results, place: Place, reference: str) -> Table | None:
    shifts = found.shifts(place)
    methods = [method for method in found.methods(place, reference) if method != reference]
    counts: Counter[tuple[int, int]] = Counter()
    compared, marked, same, missing = 0, 0, 0, []
    rows = []
    for method in methods:
        row: list[Cell] = [method]
        for shift in shifts:
            entry, base = found.at(place).get((shift, method)), found.at(place).get((shift, reference))
            difference = entry.difference(base, "accuracy", LEVEL) if entry and base else None
            if difference is None:
                row.append(None)
                continue
            counts.update([(difference.splits, difference.n)])
            compared += difference.n > 1
            marked += difference.excludes_zero
            same += difference.sd == 0
            if difference.missing:
                missing.append(f"{method} under {shift} {difference.missing}")
            mark = " *" if difference.excludes_zero else ""
            row.append(with_mark(_with_half_width(f"{difference.mean:+.3f}", difference.half_width) + mark, entry, base))
        rows.append(tuple(row))
    if not counts:
        return None
    crossed = any(splits > 1 for splits, _ in counts)
    both = " and split seed" if crossed else ""
    notes = [f"Accuracy minus that of {reference} at the same seed{both}, then the mean over all.", interval_note(counts)]
    if compared:
        chance = compared * (1 - LEVEL)
        notes.append(
            f"* the interval excludes 0 ({marked} of {compared}). Each is judged for itself: where nothing differs, about "
            f"{chance:.2g} of {compared} would be marked by chance. No mark does not mean no difference."
        )
    if same:
        notes.append(
            "± 0.000 means that every seed differs by the same amount; without a spread there is nothing to judge by, and no mark."
        )
    notes += [f"{'Runs' if crossed else 'Seeds'} without a partner, left out: {', '.join(missing)}."] if missing else []
    notes += chance_notes(found, place, reference)
    notes += [*oracle_notes(place), *points_tried(found, place, reference)[1], *doubt_notes(found, place)]
    columns = ("method", *shifts)
    title = _title(f"Difference to {reference} in accuracy", place)
    return Table(_name("difference", place), title, columns, _aligned(rows), _present(notes))


def _worst_groups(found: Results, place: Place, reference: str) -> Table | None:
    if not _has(found, place, "worst_group"):
        return None
    rows: list[tuple[Cell, ...]] = []
    counts: Counter[tuple[int, int]] = Counter()
    sizes = []
    for shift in found.shifts(place):
        for method in found.methods(place, reference):
            entry = found.at(place).get((shift, method))
            summary = entry.summary("worst_group", LEVEL) if entry else None
            if entry is None or summary is None:
                rows.append((shift, method, None, None, None, None))
                continue
            counts.update([(summary.splits, summary.n)])
            name, seeds, n_rows = _usual_worst(entry)
            sizes.append(n_rows)
            value = with_mark(_with_half_width(f"{summary.mean:.3f}", summary.half_width), entry)
            rows.append((shift, method, value, name, f"{seeds} of {summary.n}", n_rows))
    notes = [
        interval_note(counts),
        "Mean over seeds of the lowest accuracy of any group; `group` is the one that was lowest in most seeds, `rows` its size.",
    ]
    if sizes and min(sizes) < 30:
        notes.append(
            f"The lowest of many small groups is low by chance alone: here a group has as few as {min(sizes)} rows"
            + (", so that one row moves it by " + f"{1 / min(sizes):.2f}." if min(sizes) else ".")
        )
    notes += [*chance_notes(found, place, reference, "worst_group"), *oracle_notes(place), *doubt_notes(found, place)]
    columns = ("shift", "method", "worst group", "group", "lowest in", "rows")
    return Table(
        _name("worst-group", place), _title("Worst group accuracy", place), columns, _aligned(rows), _present(notes), keys=2
    )


def run_table(found: Results) -> Table:
    """The state of the runs by data, model and method; failures and divergences with their reasons below it."""
    states = ["finished", "diverged", "failed"]
    states += [state for state in dict.fromkeys(status for status, _ in found.runs.values()) if state not in states]
    groups: dict[tuple[str, str, str], Counter[str]] = {}
    trouble: dict[str, list[str]] = {}
    several = len({run.split_seed for run in found.runs}) > 1
    for run, (status, reason) in found.runs.items():
        groups.setdefault((run.data, run.model, run.method), Counter())[status] += 1
        if status in ("diverged", "failed"):
            where = ", ".join(part for part in (run.data, run.shift, run.size, run.model, run.method, run.point) if part)
            name = str(Seeds(run.split_seed, run.seed)) if several else str(run.seed)
            trouble.setdefault(f"{status}: {where}: {one_line(reason) or 'no reason recorded'}", []).append(name)
    rows: list[tuple[Cell, ...]] = []
    for group, count in groups.items():
        rows.append((*group, sum(count.values()), *(count[state] for state in states)))
    notes = []
    if any(status == "diverged" for status, _ in found.runs.values()):
        notes.append("A diverged run is scored as it is and counts in every mean.")
    waiting = sum(status not in ("finished", "diverged", "failed") for status, _ in found.runs.values())
    if waiting:
        notes.append(f"{waiting} of {len(found.runs)} runs are not done: these tables are of what is there so far.")
    lines = [f"{text} (seed {', '.join(seeds)})" for text, seeds in trouble.items()]
    notes += lines[:_REASONS_SHOWN]
    if len(lines) > _REASONS_SHOWN:
        notes.append(f"and {len(lines) - _REASONS_SHOWN} more kinds of failure that are not shown here.")
    return Table("runs", "Runs", ("data", "model", "method", "runs", *states), tuple(rows), tuple(notes), keys=3)


def _numbers(place: Place, shift: str, method: str, entry: Entry, base: Entry | None) -> tuple[Cell, ...]:
    accuracy, worst = entry.summary("accuracy", LEVEL), entry.summary("worst_group", LEVEL)
    difference = entry.difference(base, "accuracy", LEVEL) if base is not None else None
    name, seeds, n_rows = _usual_worst(entry) if worst else (None, None, None)
    scores: dict[str, Cell] = {
        **place._asdict(),
        "shift": shift,
        "method": method,
        "role": entry.role,
        "oracle": int(place.rule in ORACLES),
        "points": entry.tried,
        "n": len(entry.metrics),
        "diverged": len(entry.diverged),
        "rows": largest(entry, "n"),
        "ties": largest(entry, "ties"),
        "doubted": entry.doubted,
        "doubts": " ".join(f"{text}." for text in entry.doubts) or None,
        "worst_group_name": name,
        "worst_group_seeds": seeds,
        "worst_group_rows": n_rows,
    }
    if accuracy:
        scores |= {"mean": accuracy.mean, "sd": accuracy.sd, "low": accuracy.low, "high": accuracy.high}
        scores |= {"splits": accuracy.splits, "chance": chance_level(entry, "accuracy")}
    if difference:
        scores |= {"diff": difference.mean, "diff_low": difference.low, "diff_high": difference.high}
        scores |= {"diff_n": difference.n, "diff_missing": difference.missing}
    if worst:
        scores |= {"worst_group": worst.mean, "worst_group_low": worst.low, "worst_group_high": worst.high}
    for metric in ("balanced_accuracy", "nll", "ece", "unparsed", "train_shared"):
        summary = entry.summary(metric, LEVEL)
        scores[metric] = summary.mean if summary else None
    return tuple(scores.get(column) for column in _NUMBERS)


# -- small parts --------------------------------------------------------------------------------------------------------------


def _with_half_width(mean: str, half_width: float | None) -> str:
    return mean if half_width is None else f"{mean} ± {half_width:.3f}"


def _aligned(rows: Sequence[tuple[Cell, ...]]) -> tuple[tuple[Cell, ...], ...]:
    """Values without an interval or a mark padded, so that means stand under means in a column aligned to the right."""
    out = [list(row) for row in rows]
    for i in range(len(rows[0]) if rows else 0):
        column = "".join(cell for row in rows if isinstance(cell := row[i], str))
        for tail in (" ± 0.000", " *", f" {MARK}") if "±" in column else (f" {MARK}",):
            if tail[1] not in column:
                continue
            for row in out:
                cell = row[i]
                if isinstance(cell, str) and tail[1] not in cell:
                    row[i] = cell + " " * len(tail)
    return tuple(tuple(row) for row in out)


def _usual_worst(entry: Entry) -> tuple[str, int, int]:
    """The group that was worst in most seeds (of equal ones the first by seed), in how many, and its rows."""
    items = [item for item in entry.metrics.values() if item.get("worst_group") is not None]
    name, seeds = Counter(str(item["worst_group_name"]) for item in items).most_common(1)[0]
    rows = min(int(item.get("worst_group_n") or 0) for item in items if str(item["worst_group_name"]) == name)
    return name, seeds, rows


def _has(found: Results, place: Place, metric: str) -> bool:
    return any(entry.values(metric) for entry in found.at(place).values())


def _title(what: str, place: Place) -> str:
    parts = [place.study, place.data, f"size {place.size}" if place.size else "", place.model, f"selection {place.rule}"]
    return f"{what} on {place.set} ({', '.join(part for part in parts if part)})"


def _name(what: str, place: Place) -> str:
    parts = [what, place.study, place.data, place.size, place.model, place.set, place.rule]
    return re.sub(r"[^a-z0-9+.]+", "-", "-".join(part for part in parts if part).lower()).strip("-")


def _present(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(note for note in dict.fromkeys(notes) if note)
