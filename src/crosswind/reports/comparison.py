"""Two studies beside each other: what changed between them, paired where their seeds agree."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, counted, unknown
from crosswind.evaluation.compare import (
    Difference,
    DifferenceSummary,
    over_runs,
    paired,
    unpaired_runs,
)
from crosswind.evaluation.metrics import METRICS
from crosswind.evaluation.multiplicity import Family, judged_together, percent
from crosswind.reports.gather import StudyRecord
from crosswind.reports.scores.results import LEVEL, Place
from crosswind.reports.tables import Cell, ReportTable, ScoreCell

_About = tuple[Place, str, str]
_PLACES = ("path", "images", "features", "root")
"""Fields of a data set that say where its files lie."""


def comparison(first: StudyRecord, second: StudyRecord, metric: str = "accuracy") -> ReportTable:
    """The second study minus the first, a row for each data set, shift, size, model, method, test
    set and rule that both have.

    Runs are paired by seed (and split seed) where both have them and the test rows are dealt by the
    same split seeds. Elsewhere the means are compared (Welch 1947; of seeds crossed with split
    seeds Banerjee 1960). p is adjusted for all rows
    together (Holm 1979), and the interval of a difference has the level that this comes to. Raises
    `InputError` for another `metric`, and where the studies share no row.
    """
    if metric not in METRICS:
        raise unknown("--metric", "metric", metric, METRICS)
    scores = _Scores(
        _values(first, metric),
        _values(second, metric),
        _have_one_deal(first, second),
        _rows_of_sets(first),
        _rows_of_sets(second),
    )
    for side, record, scores_of_side in (("A", first, scores.first), ("B", second, scores.second)):
        if not scores_of_side:
            problem = f"study {record.name} has no run with {metric}; name another study or metric"
            raise InputError(side, problem)
    if not scores.shared:
        raise InputError(
            "B",
            f"has no data set, shift, size, model, method, set and rule that A has with {metric}",
        )
    p_values = {about: alone.p for about, alone in scores.differences(LEVEL).items()}
    family = judged_together(
        {about: p for about, p in p_values.items() if p is not None},
        "holm",
    )
    differences = scores.differences(family.level)
    varying = [name for name in Place._fields[1:] if _differs(name, scores.shared)]
    unit = METRICS[metric].unit
    rows: list[list[Cell]] = []
    for about, difference in differences.items():
        setting, shift, method = about
        means = [over_runs(side[about], LEVEL) for side in (scores.first, scores.second)]
        star = " *" if family.tells(about) else ""
        keys = [*(getattr(setting, name) for name in varying), shift, method]
        mean_cells = [ScoreCell(mean.mean, mean.half_width, mean.n, unit) for mean in means]
        difference_cell = ScoreCell(
            difference.mean, difference.half_width, difference.n, unit, star, signed=True
        )
        p = _p_cell(family.adjusted.get(about))
        counted_runs = _counted_runs(difference, means, scores.is_paired(about))
        rows.append([*keys, *mean_cells, difference_cell, p, counted_runs])
    names = [f"A {first.name}", f"B {second.name}"]
    columns = [*varying, "shift", "method", *names, "B - A", "p, Holm", "runs"]
    return ReportTable(
        name="comparison",
        title=f"{METRICS[metric].title}: {second.name} minus {first.name}",
        columns=columns,
        rows=rows,
        notes=[*_notes(scores, family, differences), *_data_notes(first, second, scores.shared)],
        keys=len(varying) + 2,
    )


@dataclass(frozen=True)
class _Scores:
    """The scores of two studies by what they are of and by run; `one_deal`: whether their test rows
    are dealt by the same split seeds. `first_rows`, `second_rows`: how many rows were tested on."""

    first: Mapping[_About, Mapping[Any, float]]
    second: Mapping[_About, Mapping[Any, float]]
    one_deal: bool
    first_rows: Mapping[_About, int]
    second_rows: Mapping[_About, int]

    @cached_property
    def shared(self) -> list[_About]:
        """The settings that both studies have scores of."""
        return [about for about in self.first if about in self.second]

    def is_paired(self, about: _About) -> bool:
        """Whether runs are paired, rather than means compared."""
        shared_runs = self.first[about].keys() & self.second[about].keys()
        return self.one_deal and len(shared_runs) > 1

    def differences(self, level: float) -> dict[_About, Difference]:
        """The second less the first of what both have, with intervals of a level."""
        return {about: self._difference(about, level) for about in self.shared}

    def _difference(self, about: _About, level: float) -> Difference:
        first_values, second_values = self.first[about], self.second[about]
        if self.is_paired(about):
            difference = paired(first_values, second_values, level)
            if difference is not None:
                return difference
        return unpaired_runs(first_values, second_values, level)


def _differs(name: str, shared: Sequence[_About]) -> bool:
    """Whether a field of places differs among rows."""
    return len({getattr(setting, name) for setting, *_ in shared}) > 1


def _p_cell(p: float | None) -> str | None:
    if p is None:
        return None
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _counted_runs(
    difference: Difference, means: Sequence[DifferenceSummary], is_paired: bool
) -> str:
    """How many runs a row compares."""
    if is_paired:
        return f"{difference.n} pairs"
    return f"{means[0].n} and {means[1].n}"


def _notes(
    scores: _Scores, family: Family[_About], differences: Mapping[_About, Difference]
) -> list[str]:
    """The notes on stars and pairs, and on rows that are left out."""
    stars = (
        f"* B differs from A: p < 0.05 by Holm over {len(family.adjusted)} rows, so that the"
        f" {percent(family.level)} interval of B - A excludes 0. Intervals of A and of B are of"
        " 95%."
        if family.adjusted
        else "No row has a p: B - A is the same at every seed, or a side has a single run."
    )
    pairs = (
        "Pairs are runs of one seed. Without them the means are compared, and their seeds are"
        " taken as independent; seeds that are crossed with split seeds are not."
    )
    if any(
        scores.is_paired(about)
        and difference.n < max(len(scores.first[about]), len(scores.second[about]))
        for about, difference in differences.items()
    ):
        pairs += " A and B are means of all runs of a side, B - A that of the pairs alone."
    notes = [stars, pairs]
    if not scores.one_deal:
        notes.append(
            "The split seeds differ, so the test rows are not the same and no runs are paired."
        )
    notes += _row_notes(scores)
    left_out = len(scores.first) + len(scores.second) - 2 * len(scores.shared)
    if left_out:
        notes.append(f"{counted(left_out, 'row')} that only one study has left out.")
    return notes


def _row_notes(scores: _Scores) -> list[str]:
    """That a test set has not the same number of rows in both studies, and so not the same rows."""
    uneven: dict[str, str] = {}
    for about in scores.shared:
        first_rows, second_rows = (
            rows.get(about) for rows in (scores.first_rows, scores.second_rows)
        )
        if first_rows and second_rows and first_rows != second_rows:
            uneven.setdefault(about[0].set, f"{first_rows:,} rows in A and {second_rows:,} in B")
    listed = "; ".join(f"{name} has {words}" for name, words in uneven.items())
    if not listed:
        return []
    return [f"The test rows are not the same, and a difference may be one of rows: {listed}."]


def _data_notes(first: StudyRecord, second: StudyRecord, shared: Sequence[_About]) -> list[str]:
    """That a data set or a test set is not declared alike in both studies, by the fields that
    differ."""
    differing: list[str] = []
    for kind, of_place in (("data", "data"), ("sets", "set")):
        for name in dict.fromkeys(str(getattr(setting, of_place)) for setting, *_ in shared):
            declared = [record.resolved.get(kind, {}).get(name) or {} for record in (first, second)]
            fields = _differing_fields(*declared)
            if fields:
                differing.append(f"{kind}.{name} ({', '.join(fields)})")
    if not differing:
        return []
    return [
        "The studies do not declare these alike, so the rows may be others and a difference may be"
        f" one of rows: {'; '.join(differing)}."
    ]


def _differing_fields(first: Any, second: Any) -> list[str]:
    """The fields of two mappings that differ, a level down where both are mappings; a field that
    is empty is as one that is left out."""
    fields: list[str] = []
    for name in dict.fromkeys([*first, *second]):
        values = first.get(name), second.get(name)
        if all(isinstance(value, Mapping) for value in values):
            fields += [f"{name}.{field}" for field in _differing_fields(*values)]
        elif values[0] != values[1] and any(values) and not _is_one_place(name, *values):
            fields.append(str(name))
    return fields


def _is_one_place(name: str, first: Any, second: Any) -> bool:
    """Whether the values of a field that names files are one place in two spellings, such as
    `moles.csv`, `./moles.csv` and, in the working directory `/data`, `/data/moles.csv`. A file of the
    same name in another folder may have other rows."""
    if name not in _PLACES or not all(isinstance(value, str) for value in (first, second)):
        return False
    first_place, second_place = (
        os.path.abspath(Path(path).expanduser()) for path in (first, second)
    )
    return first_place == second_place


def _rows_of_sets(record: StudyRecord) -> dict[_About, int]:
    """The largest number of test rows of a run, by place, shift and method."""
    rows_of = {}
    for setting_results in record.places:
        setting = setting_results.place._replace(study="")
        for (shift, method), entry in setting_results.entries.items():
            rows_of[setting, shift, method] = max(filter(None, entry.column("n")), default=0)
    return rows_of


def _values(record: StudyRecord, metric: str) -> dict[_About, Mapping[Any, float]]:
    """The scores of a study by run, by place, shift and method."""
    values_of: dict[_About, Mapping[Any, float]] = {}
    for setting_results in record.places:
        setting = setting_results.place._replace(study="")
        for (shift, method), entry in setting_results.entries.items():
            values = entry.values(metric)
            if values:
                values_of[setting, shift, method] = values
    return values_of


def _have_one_deal(first: StudyRecord, second: StudyRecord) -> bool:
    """Whether the test rows of two studies are dealt by the same split seeds."""
    return bool(_split_seeds(first) == _split_seeds(second))


def _split_seeds(record: StudyRecord) -> Any:
    return record.resolved.get("split_seeds") or record.resolved.get("split_seed", 0)
