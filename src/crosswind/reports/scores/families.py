"""Methods and architectures of a study in one view, by family: change against the baseline, ranks,
and whether shifts agree.

A row is a method on the main model, the one that most methods run on, or the reference on another
model. The baseline is the reference on the main model. Data sets are averaged; sizes, test sets and
selection rules stay apart. Jeon et al. 2025, figure 3.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from crosswind.evaluation.compare import Difference, holm, mean_ranks, paired
from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.multiplicity import ADJUST, judged_together, percent
from crosswind.evaluation.multiplicity import Family as MultipleTests
from crosswind.evaluation.pooled_tests import mean_by_run
from crosswind.reports.scores.notes import (
    doubt_notes,
    interval_note,
    oracle_notes,
    points_tried,
    with_mark,
)
from crosswind.reports.scores.results import LEVEL, Entry, Place, PlaceResults
from crosswind.reports.tables import Cell, ReportTable, ScoreCell, slug
from crosswind.studies.claims import component_counts, unshifted
from crosswind.studies.families import OTHER, families_of, method_names, row_names

LEAST = 3
"""Families that a study must have for this view."""

Values = dict[Any, float]


@dataclass(frozen=True)
class Families:
    """Rows of one size, test set and selection rule. `places` are the data sets, each with the rows
    of all models.

    `family` names the family of every row, families together; the baseline is the first row.
    `components`: how many components every shift has. `plain`: the shift without one.
    `multiplicity`: what its changes are corrected by; they are one family of tests.
    """

    places: Sequence[PlaceResults]
    family: Mapping[str, str]
    plain: str | None
    components: Mapping[str, int]
    multiplicity: str = "holm"

    @property
    def place(self) -> Place:
        """The place that the rows share."""
        return self.places[0].place._replace(data="", model="")

    @property
    def baseline(self) -> str:
        """The row that others are compared with."""
        return self.places[0].reference

    @property
    def shifts(self) -> list[str]:
        """The shifts of all data sets."""
        shifts: dict[str, None] = {}
        for setting_results in self.places:
            shifts |= dict.fromkeys(setting_results.shifts)
        return list(shifts)

    @property
    def has_kin(self) -> bool:
        """Whether a family beside the baseline's has several rows: of one each it tells nothing
        that the row does not."""
        baseline_family = self.family.get(self.baseline)
        families = [family for family in self.family.values() if family != baseline_family]
        return len(set(families)) < len(families)

    @property
    def shifted(self) -> list[str]:
        """The shifts but the one without a part."""
        return [shift for shift in self.shifts if shift != self.plain]

    @property
    def methods(self) -> list[str]:
        """The rows of methods on the main model, without the baseline."""
        models = {
            name for name, family in self.family.items() if family == self.family[self.baseline]
        }
        return [row for row in self.family if row not in models]

    def entries(self, shift: str, row: str) -> list[Entry]:
        """The results of a row under a shift, of each data set."""
        return [
            setting_results.entries[shift, row]
            for setting_results in self.places
            if (shift, row) in setting_results.entries
        ]

    def accuracy(self, rows: Sequence[str], shifts: Sequence[str]) -> Values:
        """Mean accuracy of several rows under several shifts by seed, all equally heavy; seeds that
        lack a score are left out."""
        return mean_by_run(
            [self._over_data(shift, row, percent=False) for row in rows for shift in shifts]
        )

    def change(
        self, rows: Sequence[str], shifts: Sequence[str], level: float = LEVEL
    ) -> Difference | None:
        """Mean change against the baseline in percent of its accuracy, paired by seed, of several
        rows under several shifts."""
        values = self.changes(rows, shifts)
        return paired(dict.fromkeys(values, 0.0), values, level)

    @property
    def columns(self) -> list[list[str]]:
        """The shifts of every column of the table of changes: each alone, and all that have a
        part."""
        return [[shift] for shift in self.shifts] + [self.shifted] * (len(self.shifted) > 1)

    @cached_property
    def verdicts(self) -> MultipleTests[tuple[str, int]]:
        """The changes by row and number of the column, judged together."""
        changes = {
            (row, column): self.change([row], shifts)
            for row in self.family
            if row != self.baseline
            for column, shifts in enumerate(self.columns)
        }
        p_values = {
            name: change.p
            for name, change in changes.items()
            if change is not None and change.p is not None
        }
        return judged_together(p_values, self.multiplicity)

    def changes(self, rows: Sequence[str], shifts: Sequence[str]) -> Values:
        """The same by seed."""
        return mean_by_run(
            [self._over_data(shift, row, percent=True) for row in rows for shift in shifts]
        )

    def _over_data(self, shift: str, row: str, percent: bool) -> Values:
        """The accuracy of a row under a shift by seed, or its change in `percent` of the baseline,
        mean over data sets."""
        values_by_data: list[Values] = []
        for setting_results in self.places:
            if shift not in setting_results.shifts or row not in setting_results.methods:
                continue
            accuracies, base = (
                setting_results.entries.get((shift, name), Entry()).values(HEADLINE.name)
                for name in (row, self.baseline)
            )
            if percent:
                values_by_data.append(
                    {
                        seed: 100 * (accuracy / base[seed] - 1)
                        for seed, accuracy in accuracies.items()
                        if base.get(seed)
                    }
                )
            else:
                values_by_data.append(accuracies)
        return mean_by_run(values_by_data)

    @cached_property
    def tables(self) -> dict[str, ReportTable]:
        """`changes`, and where the runs allow them `ranks` by seed and `agreement` of shifts."""
        tables = {
            "changes": change_table(self),
            "ranks": rank_by_seed_table(self),
            "agreement": agreement_table(self),
        }
        return {name: table for name, table in tables.items() if table is not None}

    def agreement(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Rank correlation and two-sided p of the methods' mean accuracies by pair of shifts; of at
        least four methods."""
        means_by_shift = {shift: self._mean_accuracies(shift) for shift in self.shifts}
        correlations: dict[tuple[str, str], tuple[float, float]] = {}
        for first_shift, second_shift in combinations(self.shifts, 2):
            first, second = means_by_shift[first_shift], means_by_shift[second_shift]
            rows = [row for row in self.methods if row in first and row in second]
            if len(rows) < 4:
                continue
            rho = rank_correlation([first[row] for row in rows], [second[row] for row in rows])
            if rho is not None:
                correlations[first_shift, second_shift] = rho
        return correlations

    def _mean_accuracies(self, shift: str) -> dict[str, float]:
        """The accuracy under a shift, mean over seeds, of every method that has one."""
        means: dict[str, float] = {}
        for row in self.methods:
            accuracies = self.accuracy([row], [shift])
            if accuracies:
                means[row] = sum(accuracies.values()) / len(accuracies)
        return means


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> tuple[float, float] | None:
    """Spearman's rank correlation and its two-sided p by the t distribution; None where one side is
    constant."""
    from scipy.special import stdtr

    n = len(first)
    first_ranks, second_ranks = _centred_ranks(first), _centred_ranks(second)
    first_spread, second_spread = _dot(first_ranks, first_ranks), _dot(second_ranks, second_ranks)
    if not first_spread or not second_spread:
        return None
    correlation = _dot(first_ranks, second_ranks) / math.sqrt(first_spread * second_spread)
    rho = max(-1.0, min(1.0, correlation))
    if abs(rho) > 1 - 1e-12:
        return rho, 0.0
    t = abs(rho) * math.sqrt((n - 2) / (1 - rho * rho))
    return rho, float(2 * stdtr(n - 2, -t))


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """The ranks of values less their mean; equal ones share the mean of their ranks."""
    by_position = {str(i): value for i, value in enumerate(values)}
    middle = (len(values) + 1) / 2
    return [rank - middle for rank in mean_ranks([by_position]).mean.values()]


def _dot(first: Sequence[float], second: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(first, second, strict=True))


def families(shown_results: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> list[Families]:
    """The view of every size, test set and rule of a study; empty where its rows are of fewer than
    `LEAST` families."""
    if not shown_results:
        return []
    reference = shown_results[0].reference
    runs = dict.fromkeys(
        (setting_results.place.model, method)
        for setting_results in shown_results
        for method in setting_results.methods
    )
    models_of_runs = Counter(model for model, _ in runs)
    main = max(models_of_runs, key=lambda model: models_of_runs[model])
    if (main, reference) not in runs:  # nothing to be compared with
        return []
    family = _families(shown_results, resolved, reference)
    labels = list(family)
    order = sorted(runs, key=lambda run: (run != (main, reference), labels.index(run[1])))
    groups = dict.fromkeys(family[method] for _, method in order)
    if len(groups) < LEAST:
        return []
    names = method_names(
        [
            (setting_results.place.data, label)
            for setting_results in shown_results
            for label in setting_results.methods
        ],
        resolved,
    )
    row_of = row_names(runs, main, reference, names)
    rows = {row_of[run]: name for name in groups for run in order if family[run[1]] == name}
    results_by_view: dict[Place, dict[str, PlaceResults]] = {}
    for setting_results in shown_results:
        setting = setting_results.place
        by_data = results_by_view.setdefault(setting._replace(data="", model=""), {})
        of_data = by_data.get(setting.data) or PlaceResults(
            setting._replace(model=""), row_of[main, reference], setting_results.shifts, [], {}
        )
        by_data[setting.data] = _with_rows(of_data, setting_results, list(rows), row_of)
    shifts = resolved.get("shifts", {})
    plain = unshifted(shifts)
    components = component_counts(shifts)
    multiplicity = str(resolved.get("multiplicity", "holm"))
    return [
        Families(list(by_data.values()), rows, plain, components, multiplicity)
        for by_data in results_by_view.values()
    ]


def _with_rows(
    of_data: PlaceResults,
    setting_results: PlaceResults,
    rows: Sequence[str],
    row_of: Mapping[tuple[str, str], str],
) -> PlaceResults:
    """The results of a data set with those of another model, in the order of the rows."""
    model = setting_results.place.model
    row_of_method = {method: row_of[model, method] for method in setting_results.methods}
    present = {*of_data.methods, *row_of_method.values()}
    entries = {
        (shift, row_of_method[method]): entry
        for (shift, method), entry in setting_results.entries.items()
    }
    return replace(
        of_data,
        methods=[row for row in rows if row in present],
        entries={**of_data.entries, **entries},
    )


def _families(
    shown_results: Sequence[PlaceResults], resolved: Mapping[str, Any], reference: str
) -> dict[str, str]:
    """The family of every label, families together, that of the reference first; by the paper that
    places most of them."""
    labels = [label for setting_results in shown_results for label in setting_results.methods]
    family_of_label = families_of(labels, resolved)
    order = list(dict.fromkeys(family_of_label.values()))
    first = family_of_label.get(reference, OTHER)

    def rank(label: str) -> tuple[bool, bool, int]:
        family = family_of_label[label]
        return family != first, family == OTHER, order.index(family)

    return {label: family_of_label[label] for label in sorted(family_of_label, key=rank)}


# -- tables ----------------------------------------------------------------------------------------


def change_table(view: Families) -> ReportTable:
    """Change against the baseline in percent of its accuracy: a row a method or architecture, a
    column a shift and their mean."""
    layouts = set()
    rows: list[list[Cell]] = []
    for row, family in view.family.items():
        if row == view.baseline:
            continue
        cells: list[Cell] = []
        for column, shifts in enumerate(view.columns):
            change = view.change([row], shifts, view.verdicts.level)
            if change is None:
                cells.append(None)
                continue
            layouts.add((change.splits, change.n))
            entries = [entry for shift in shifts for entry in view.entries(shift, row)]
            star = with_mark(" *" if view.verdicts.tells((row, column)) else "", *entries)
            cells.append(
                ScoreCell(change.mean, change.half_width, change.n, "percent", star, signed=True)
            )
        rows.append([family, row, *cells])
    several = f"the mean over {len(view.places)} data sets, then " if len(view.places) > 1 else ""
    notes = [
        (
            f"100 x (accuracy / accuracy of {view.baseline} at the same seed - 1), {several}the"
            " mean over seeds. The last column is the mean over the shifts that have a part."
        ),
        interval_note(layouts, view.verdicts.level),
        f"* {star_words(view)}.",
    ]
    return _table(
        "families",
        f"Change of accuracy in % of that of {view.baseline}",
        view,
        ["family", "method", *view.shifts],
        rows,
        notes,
    )


def rank_by_seed_table(view: Families) -> ReportTable | None:
    """Mean rank over the shifts: a row a method or architecture, a column a data set and seed. None
    where no block is whole."""
    columns: dict[str, Mapping[str, float]] = {}
    for setting_results in view.places:
        seeds = dict.fromkeys(
            seed
            for entry in setting_results.entries.values()
            for seed in entry.values(HEADLINE.name)
        )
        for seed in seeds:
            blocks = [_accuracies(setting_results, shift, seed) for shift in setting_results.shifts]
            if all(len(block) == len(setting_results.methods) for block in blocks):
                columns[f"{setting_results.place.data} seed {seed}"] = mean_ranks(blocks).mean
    if not columns:
        return None
    means = {row: [ranks.get(row) for ranks in columns.values()] for row in view.family}
    rows: list[list[Cell]] = [[view.family[row], row, *cells] for row, cells in means.items()]
    notes = [
        f"Mean over {', '.join(view.shifts)} of the rank by accuracy among the rows; 1 is best,"
        " equal accuracies share a rank."
    ]
    return _table(
        "ranks by seed",
        "Mean rank by data set and seed",
        view,
        ["family", "method", *columns],
        rows,
        notes,
    )


def _accuracies(setting_results: PlaceResults, shift: str, seed: Any) -> dict[str, float]:
    """The accuracies of one seed under a shift, of the rows that have one."""
    accuracies: dict[str, float] = {}
    for row in setting_results.methods:
        entry = setting_results.entries.get((shift, row))
        accuracy = None if entry is None else entry.values(HEADLINE.name).get(seed)
        if accuracy is not None:
            accuracies[row] = accuracy
    return accuracies


def agreement_table(view: Families) -> ReportTable | None:
    """Whether the order of methods is the same under two shifts: their rank correlation by pair of
    shifts. None without a pair."""
    correlations = view.agreement()
    if not correlations:
        return None
    adjusted = holm({pair: p for pair, (_, p) in correlations.items()})
    shifts = view.shifts
    rows: list[list[Cell]] = []
    for first_shift in shifts[:-1]:
        cells: list[Cell] = []
        for second_shift in shifts[1:]:
            correlation = correlations.get((first_shift, second_shift))
            if correlation is None:
                cells.append(None)
                continue
            differs = adjusted[first_shift, second_shift] < 1 - LEVEL
            cells.append(f"{correlation[0]:+.2f}{' *' if differs else ''}")
        rows.append([first_shift, *cells])
    notes = [
        (
            f"Spearman's rank correlation of the mean accuracies of the {len(view.methods)} rows"
            " that are no architecture, between two shifts. +1: the same order. Methods are taken"
            " as draws from such methods."
        ),
        f"* p < 0.05 by Holm over {len(correlations)} pairs.",
    ]
    return _table(
        "agreement", "Do shifts agree on methods", view, ["shift", *shifts[1:]], rows, notes, keys=1
    )


def _table(
    table_name: str,
    title: str,
    view: Families,
    columns: list[str],
    rows: list[list[Cell]],
    notes: list[str],
    keys: int = 2,
) -> ReportTable:
    if table_name == "families" and len(view.shifted) > 1:
        columns = [*columns, "mean of shifts"]
    setting = view.place
    extra_lines: dict[str, None] = {}
    if table_name == "families":
        for setting_results in view.places:
            extra_lines |= dict.fromkeys(points_tried(setting_results)[1])
            extra_lines |= dict.fromkeys(doubt_notes(setting_results))
    notes = [*notes, *oracle_notes(setting), *extra_lines]
    return ReportTable(
        slug(table_name, *setting),
        f"{title} on {setting.set} ({setting.title_words})",
        tuple(columns),
        rows,
        notes,
        keys,
    )


def star_words(view: Families) -> str:
    """The meaning of a star or frame: the changes of this view are a family of their own beside the
    comparisons of the findings."""
    verdicts = view.verdicts
    by = "each alone"
    if verdicts.multiplicity in ADJUST:
        by = (
            f"by {ADJUST[verdicts.multiplicity][0]} over the {len(verdicts.adjusted)} changes of"
            " this view"
        )
    return f"p < 0.05 {by}, so that the {percent(verdicts.level)} interval excludes 0"
