"""Two studies beside each other: what changed between them, paired where their seeds agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crosswind.core.errors import InputError, unknown
from crosswind.evaluation.compare import Difference, over_runs, paired, unpaired
from crosswind.evaluation.metrics import METRICS
from crosswind.evaluation.multiplicity import judged_together, percent
from crosswind.reports.gather import StudyRecord
from crosswind.reports.scores.results import LEVEL, Place
from crosswind.reports.tables import Cell, ReportTable, ScoreCell

_About = tuple[Place, str, str]


def comparison(first: StudyRecord, second: StudyRecord, metric: str = "accuracy") -> ReportTable:
    """The second study minus the first, a row for each data set, shift, size, model, method, test
    set and rule that both have.

    Runs are paired by seed (and split seed) where both have them and the test rows are dealt by the
    same split seeds; elsewhere the means are compared (Welch 1947). p is adjusted for all rows
    together (Holm 1979), and the interval of a difference has the level that this comes to. Raises
    `InputError` for another `metric`, and
    where the studies share no row.
    """
    if metric not in METRICS:
        raise unknown("--metric", "metric", metric, METRICS)
    sides = [_values(record, metric) for record in (first, second)]
    in_both = [about for about in sides[0] if about in sides[1]]
    if not in_both:
        raise InputError(
            "B",
            f"has no data set, shift, size, model, method, set and rule that A has with {metric}",
        )
    one_deal = _split_seeds(first) == _split_seeds(second)
    alone = {
        about: _difference(sides[0][about], sides[1][about], one_deal, LEVEL) for about in in_both
    }
    family = judged_together(
        {about: difference.p for about, difference in alone.items() if difference.p is not None},
        "holm",
    )
    differences = {
        about: _difference(sides[0][about], sides[1][about], one_deal, family.level)
        for about in in_both
    }
    varying = [
        name
        for name in Place._fields[1:]
        if len({getattr(setting, name) for setting, *_ in in_both}) > 1
    ]
    unit = METRICS[metric].unit
    rows: list[list[Cell]] = []
    for about, difference in differences.items():
        setting, shift, method = about
        means = [over_runs(side[about], LEVEL) for side in sides]
        p = family.adjusted.get(about)
        star = " *" if family.tells(about) else ""
        counts = (
            f"{difference.n} pairs"
            if _is_paired(sides[0][about], sides[1][about], one_deal)
            else f"{means[0].n} and {means[1].n}"
        )
        rows.append(
            [
                *(getattr(setting, name) for name in varying),
                shift,
                method,
                *(ScoreCell(mean.mean, mean.half_width, mean.n, unit) for mean in means),
                ScoreCell(
                    difference.mean, difference.half_width, difference.n, unit, star, signed=True
                ),
                None if p is None else "<0.001" if p < 0.001 else f"{p:.3f}",
                counts,
            ]
        )
    names = [
        f"{letter} {record.name}" for letter, record in zip("AB", (first, second), strict=True)
    ]
    notes = [
        (
            f"* B differs from A: p < 0.05 by Holm over {len(family.adjusted)} rows, so that the"
            f" {percent(family.level)} interval of B - A excludes 0. Intervals of A and of B are of"
            " 95%."
        ),
        (
            "Pairs are runs of one seed. Without them the means are compared, and their seeds are"
            " taken as independent."
        ),
    ]
    if not one_deal:
        notes.append(
            "The split seeds differ, so the test rows are not the same and no runs are paired."
        )
    left_out = sum(len(side) - len(in_both) for side in sides)
    if left_out:
        notes.append(f"{left_out} rows that only one study has are left out.")
    columns = [*varying, "shift", "method", *names, "B - A", "p, Holm", "runs"]
    return ReportTable(
        "comparison",
        f"{METRICS[metric].title}: {second.name} minus {first.name}",
        columns,
        rows,
        notes,
        len(varying) + 2,
    )


def _values(record: StudyRecord, metric: str) -> dict[_About, Mapping[Any, float]]:
    return {
        (setting_results.place._replace(study=""), shift, method): values
        for setting_results in record.places
        for (shift, method), entry in setting_results.entries.items()
        if (values := entry.values(metric))
    }


def _split_seeds(record: StudyRecord) -> Any:
    return record.resolved.get("split_seeds") or record.resolved.get("split_seed", 0)


def _is_paired(
    first_values: Mapping[Any, float], second_values: Mapping[Any, float], one_deal: bool
) -> bool:
    return one_deal and len(first_values.keys() & second_values.keys()) > 1


def _difference(
    first_values: Mapping[Any, float],
    second_values: Mapping[Any, float],
    one_deal: bool,
    level: float,
) -> Difference:
    paired_difference = (
        paired(first_values, second_values, level)
        if _is_paired(first_values, second_values, one_deal)
        else None
    )
    return paired_difference or unpaired(
        list(first_values.values()), list(second_values.values()), level
    )
