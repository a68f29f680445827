"""All rows of a study side by side: methods on models over data sets and shifts, at one size, test set
and selection rule."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.pooled_tests import mean_by_run
from crosswind.evaluation.variance import ScoreKey
from crosswind.reports.scores.results import Entry, Place, PlaceResults
from crosswind.studies.families import method_names, row_names

Values = Mapping[Any, float]
"""An accuracy by run: a seed, or a pair with a split seed."""


@dataclass
class RowView:
    """The rows of one size, test set and rule; `place` has no data set and no model. `reference` is
    the row that others are compared with. `entries`: by data set, shift and row."""

    place: Place
    reference: str
    entries: dict[tuple[str, str, str], Entry] = field(default_factory=dict)

    @property
    def rows(self) -> list[str]:
        """The rows that have results, the reference first."""
        names = list(dict.fromkeys(row for _, _, row in self.entries))
        return sorted(names, key=lambda row: row != self.reference)

    @property
    def data(self) -> list[str]:
        """The data sets that have results."""
        return list(dict.fromkeys(data for data, _, _ in self.entries))

    def values(self, data: str, shift: str, row: str) -> Values:
        """The accuracies of a row at a data set and shift by run; empty where there are none."""
        entry = self.entries.get((data, shift, row))
        return {} if entry is None else entry.values(HEADLINE.name)

    def shared_rows(self) -> list[str]:
        """The rows that have a result on every data set."""
        data_of: dict[str, set[str]] = defaultdict(set)
        for data, _, row in self.entries:
            data_of[row].add(data)
        return [row for row in self.rows if len(data_of[row]) == len(self.data)]

    def shared_shifts(self, data: str, rows: Collection[str]) -> list[str]:
        """The shifts of a data set under which all of some rows have a result."""
        rows_of: dict[str, set[str]] = defaultdict(set)
        for entry_data, shift, row in self.entries:
            if entry_data == data and row in rows:
                rows_of[shift].add(row)
        return [shift for shift, names in rows_of.items() if len(names) == len(rows)]

    def blocks(self) -> list[dict[str, float]]:
        """A block a data set and run: the accuracy of each shared row, mean over its shared shifts."""
        rows = self.shared_rows()
        blocks: list[dict[str, float]] = []
        for data in self.data:
            shifts = self.shared_shifts(data, rows)
            means = {
                row: mean_by_run([self.values(data, shift, row) for shift in shifts])
                for row in rows
            }
            runs = means[rows[0]] if rows else {}
            for run in runs:
                if all(run in values for values in means.values()):
                    blocks.append({row: values[run] for row, values in means.items()})
        return blocks

    def cases(self, row: str) -> dict[tuple[str, str], Values]:
        """The accuracies of a row by data set and shift."""
        return {
            (data, shift): entry.values(HEADLINE.name)
            for (data, shift, name), entry in self.entries.items()
            if name == row
        }

    def scores(self) -> dict[ScoreKey, float]:
        """The accuracy of every run, whether its point was chosen or not, of the shared rows."""
        rows = set(self.shared_rows())
        scores: dict[ScoreKey, float] = {}
        for (data, shift, row), entry in self.entries.items():
            if row not in rows:
                continue
            for point, accuracies in entry.by_point.items():
                for run, accuracy in accuracies.items():
                    split, seed = run if isinstance(run, tuple) else (0, run)
                    scores[ScoreKey(data, shift, row, point, split, seed)] = accuracy
        return scores


def row_views(shown_results: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> list[RowView]:
    """A view of every size, test set and rule, of the methods that a study trains; `resolved`: the
    study with every default."""
    trained = set(resolved.get("methods") or {})
    runs = dict.fromkeys(
        (setting_results.place.model, method)
        for setting_results in shown_results
        for method in setting_results.methods
        if not trained or method in trained
    )
    if not runs:
        return []
    models = Counter(model for model, _ in runs)
    main = max(models, key=lambda model: models[model])
    reference = shown_results[0].reference
    data_and_labels = {
        (setting_results.place.data, method)
        for setting_results in shown_results
        for method in setting_results.methods
    }
    row_of = row_names(runs, main, reference, method_names(data_and_labels, resolved))
    views: dict[Place, RowView] = {}
    for setting_results in shown_results:
        place = setting_results.place
        shared_place = place._replace(data="", model="")
        view = views.setdefault(
            shared_place, RowView(shared_place, row_of.get((main, reference), ""))
        )
        for (shift, method), entry in setting_results.entries.items():
            row = row_of.get((place.model, method))
            if row is not None:
                view.entries[place.data, shift, row] = entry
    return list(views.values())
