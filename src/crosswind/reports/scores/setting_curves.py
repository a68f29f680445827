"""Accuracy against a setting that is a number, such as the learning rate: a figure and a table of
every setting that a grid gives two or more numbers.

The points of a grid are counted whether a rule chose them or not. Where a grid has several settings,
the points that share a value of one are averaged over the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crosswind.evaluation.compare import over_runs
from crosswind.evaluation.pooled_tests import mean_by_run
from crosswind.reports.charts import Figure, chart, layer, number, text, tips
from crosswind.reports.scores.results import LEVEL, Entry
from crosswind.reports.scores.row_views import RowView, Values
from crosswind.reports.tables import Cell, ReportTable, slug

MOST_ROWS = 12
"""Rows of which a figure has a line each; the table has all."""
_FACTOR = 20
"""The ratio of the largest to the smallest value from which the axis is logarithmic."""


@dataclass(frozen=True)
class SettingCurve:
    """Accuracies in [0, 1] by row, value of the setting and run, each a mean over data sets and
    shifts, which weigh the same.

    `setting`: its name in a point; `levels`: by row, and by value in increasing order.
    """

    view: RowView
    setting: str
    levels: Mapping[str, Mapping[float, Values]]

    @property
    def is_logarithmic(self) -> bool:
        """Whether the values span more than a factor of twenty, all above 0."""
        values = [value for by_value in self.levels.values() for value in by_value]
        return min(values) > 0 and max(values) / min(values) > _FACTOR


def setting_curves(view: RowView) -> list[SettingCurve]:
    """The curves of the settings that take two or more numbers in some row, by name."""
    settings: dict[str, dict[str, dict[float, Values]]] = defaultdict(dict)
    for row in view.rows:
        entries = [entry for (_, _, name), entry in view.entries.items() if name == row]
        for setting in dict.fromkeys(name for entry in entries for name in _settings(entry)):
            by_value = _levels(entries, setting)
            if len(by_value) > 1:
                settings[setting][row] = by_value
    return [SettingCurve(view, name, settings[name]) for name in sorted(settings)]


def point_values(point: str) -> dict[str, float]:
    """The settings of a point that are numbers, by name: `lr=0.01, penalty=1` has two."""
    values = {}
    for assignment in point.split(","):
        name, equals, value = assignment.strip().partition("=")
        try:
            parsed = float(value)
        except ValueError:
            continue
        if equals and math.isfinite(parsed):
            values[name] = parsed
    return values


def _settings(entry: Entry) -> list[str]:
    return [name for point in entry.by_point for name in point_values(point)]


def _levels(entries: Sequence[Entry], setting: str) -> dict[float, Values]:
    """The accuracies by value of a setting and run; of the values that every entry has, so that two
    values are compared on the same data sets and shifts."""
    of_entries: list[dict[float, Values]] = []
    for entry in entries:
        points: dict[float, list[Values]] = defaultdict(list)
        for point, accuracies in entry.by_point.items():
            value = point_values(point).get(setting)
            if value is not None and accuracies:
                points[value].append(accuracies)
        of_entries.append({value: mean_by_run(runs) for value, runs in points.items()})
    shared = set.intersection(*(set(by_value) for by_value in of_entries))
    return {
        value: mean_by_run([by_value[value] for by_value in of_entries]) for value in sorted(shared)
    }


def setting_table(curve: SettingCurve) -> ReportTable:
    """The mean accuracy of every row at every value, with its 95% interval over runs."""
    rows: list[dict[str, Cell]] = []
    for row, by_value in curve.levels.items():
        for value, accuracies in by_value.items():
            spread = over_runs(accuracies, LEVEL)
            cells: dict[str, Cell] = {"method": row, curve.setting: f"{value:g}"}
            cells["accuracy"] = f"{100 * spread.mean:.1f}"
            cells["95% interval"] = None
            if spread.sd and spread.low is not None and spread.high is not None:
                cells["95% interval"] = f"{100 * spread.low:.1f} to {100 * spread.high:.1f}"
            cells["runs"] = spread.n
            rows.append(cells)
    at_place = curve.view.place
    notes = [
        "Accuracies in %, means over the data sets and shifts that have every value, then over seeds;"
        " the step is the one that the rule chose, the value is not: every point of the grid counts."
        " Of the other settings of a grid the mean is taken."
    ]
    title = f"Accuracy by {curve.setting} on {at_place.set} ({at_place.title_words})"
    return ReportTable.of(slug(f"by-{curve.setting}", *at_place), title, rows, notes)


def setting_figure(curve: SettingCurve) -> Figure:
    """A line a row: mean accuracy against the value, of the rows that have most values first."""
    rows = sorted(curve.levels, key=lambda row: -len(curve.levels[row]))[:MOST_ROWS]
    data: list[dict[str, object]] = []
    for row in rows:
        for value, accuracies in curve.levels[row].items():
            mean = math.fsum(accuracies.values()) / len(accuracies)
            data.append({"m": row, "v": value, "a": round(mean, 6)})
    ticks = sorted({value for row in rows for value in curve.levels[row]})
    scale = {"type": "log"} if curve.is_logarithmic else {"zero": False}
    axis = {"values": ticks[:: max(1, len(ticks) // 8)], "format": "~g"}
    encoding = {
        "x": number("v", title=curve.setting, scale=scale, axis=axis),
        "y": number("a", title="accuracy", scale={"zero": False}, axis={"format": ".0%"}),
        "color": text("m", title=None, sort=rows, legend={"orient": "right"}),
        "tooltip": tips(("m", "method"), ("v", curve.setting, "~g"), ("a", "accuracy", ".1%")),
    }
    layers = [
        layer("line", encoding, data="points", strokeWidth=1.5),
        layer("point", encoding, data="points", filled=True, size=35, opacity=1),
    ]
    at_place = curve.view.place
    left_out = len(curve.levels) - len(rows)
    left_out_note = f" {left_out} more rows are in the table." if left_out else ""
    best = ", ".join(f"{row} {_best(curve.levels[row]):g}" for row in rows)
    return Figure(
        slug(f"by-{curve.setting}", *at_place),
        f"Accuracy by {curve.setting} on {at_place.set}, step chosen by {at_place.rule}",
        f"Means over data sets, shifts and seeds; intervals are in the table.{left_out_note}",
        f"Lines of mean accuracy against {curve.setting}; highest at: {best}.",
        chart({"width": 380, "height": 260, "layer": layers}, {"points": data}),
        "bars",
        names=12,
    )


def _best(by_value: Mapping[float, Values]) -> float:
    """The value with the highest mean; an oracle, as accuracies are of test rows."""
    return max(
        by_value, key=lambda value: math.fsum(by_value[value].values()) / len(by_value[value])
    )
