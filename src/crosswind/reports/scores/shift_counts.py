"""Accuracy by shift and by the number of concurrent shifts, of each family of methods and of all.

Rows, shifts and data sets weigh the same in a mean. Jeon et al. 2025, figure 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crosswind.core.errors import counted
from crosswind.evaluation.compare import over_runs
from crosswind.evaluation.pooled_tests import run_words
from crosswind.reports.scores.families import Families, Values
from crosswind.reports.scores.notes import oracle_notes
from crosswind.reports.scores.results import LEVEL
from crosswind.reports.tables import Cell, ReportTable, ScoreCell, slug

ALL_ROWS = "all rows"
"""The name of the mean over the rows of all families."""


def shifts_by_count(view: Families) -> dict[int, list[str]]:
    """The shifts by their number of components, increasing; empty where no shift has two or more,
    or all have equally many."""
    counts = sorted({view.components[shift] for shift in view.shifts})
    if len(counts) < 2 or counts[-1] < 2:
        return {}
    return {
        count: [shift for shift in view.shifts if view.components[shift] == count]
        for count in counts
    }


def _count_words(count: int) -> str:
    return {0: "no shift", 1: "one shift"}.get(count, f"{count} shifts")


def rows_by_family_of(view: Families) -> dict[str, list[str]]:
    """The rows that have a result under every shift: of all families, then by family."""
    rows = [
        row for row in view.family if all(view.accuracy([row], [shift]) for shift in view.shifts)
    ]
    families = dict.fromkeys(view.family[row] for row in rows)
    by_family = {name: [row for row in rows if view.family[row] == name] for name in families}
    return {ALL_ROWS: rows, **by_family} if rows else {}


def shift_count_tables(view: Families) -> list[ReportTable]:
    """Mean accuracy of every family by shift, and by the number of concurrent shifts; empty where
    no shifts are concurrent."""
    by_count = shifts_by_count(view)
    rows_by_family = rows_by_family_of(view) if by_count else {}
    if not rows_by_family:
        return []
    single_shifts = {shift: [shift] for shift in view.shifts}
    by_words = {_count_words(count): shifts for count, shifts in by_count.items()}
    listed = "; ".join(f"{words}: {', '.join(shifts)}" for words, shifts in by_words.items())
    return [
        _accuracy_table(view, "by-shift", "shift", single_shifts, rows_by_family),
        _accuracy_table(
            view,
            "by-shift-count",
            "number of concurrent shifts",
            by_words,
            rows_by_family,
            [listed],
        ),
    ]


def _accuracy_table(
    view: Families,
    name: str,
    by: str,
    columns: Mapping[str, Sequence[str]],
    rows_by_family: Mapping[str, Sequence[str]],
    notes: Sequence[str] = (),
) -> ReportTable:
    """Mean accuracy in percent with its interval over runs: a row a family, a column some shifts."""
    table_rows: list[dict[str, Cell]] = []
    runs: list[Any] = []
    for family, rows in rows_by_family.items():
        cells: dict[str, Cell] = {"family": family, "rows": len(rows)}
        for title, shifts in columns.items():
            accuracies = view.accuracy(rows, shifts)
            cells[title] = _score_cell(accuracies)
            runs += accuracies
        table_rows.append(cells)
    several_runs = len(set(runs)) > 1
    over_words = f", then over {run_words(runs)}, with 95% intervals" if several_runs else ""
    left_out = len(view.family) - len(rows_by_family[ALL_ROWS])
    left_out_words = ""
    if left_out:
        are = "is" if left_out == 1 else "are"
        rows_words = counted(left_out, "row")
        left_out_words = f" {rows_words} without a result under every shift {are} left out."
    about_means = (
        f"Accuracies in %, means over rows, shifts and data sets{over_words}.{left_out_words}"
    )
    setting = view.place
    title = f"Accuracy by {by} and family on {setting.set} ({setting.title_words})"
    all_notes = [about_means, *notes, *oracle_notes(setting)]
    return ReportTable.of(slug(name, *setting), title, table_rows, all_notes)


def _score_cell(accuracies: Values) -> ScoreCell | None:
    if not accuracies:
        return None
    spread = over_runs(accuracies, LEVEL)
    half = spread.half_width if spread.sd else None
    return ScoreCell(spread.mean, half, spread.n, "accuracy").in_percent()
