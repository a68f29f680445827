"""Figures of methods by family: changes against the baseline as a map, and accuracy by the number of
concurrent shifts. Jeon et al. 2025, figures 3 and 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crosswind.evaluation.compare import Difference, over_runs
from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.multiplicity import percent
from crosswind.reports.charts import Figure, chart, layer, named_colour, number, text, tips
from crosswind.reports.scores.families import Families, Values, star_words
from crosswind.reports.scores.figures import method_map
from crosswind.reports.scores.notes import with_mark
from crosswind.reports.scores.results import LEVEL, Entry
from crosswind.reports.scores.shift_counts import ALL_ROWS, rows_by_family_of, shifts_by_count
from crosswind.reports.tables import slug

_PANEL_WIDTH = 190
_PANEL_HEIGHT = 110


def family_map(family_view: Families) -> Figure | None:
    """Row x shift: change in percent of the baseline's accuracy, a panel a family; a frame where
    the interval excludes 0."""
    shifts, baseline, verdicts = family_view.shifts, family_view.baseline, family_view.verdicts
    rows = [row for row in family_view.family if row != baseline]
    data: list[dict[str, Any]] = []
    for row in rows:
        for column, shift in enumerate(shifts):
            change = family_view.change([row], [shift], verdicts.level)
            if change is not None:
                differs = verdicts.tells((row, column))
                numbers = _change_cell(change, differs, family_view.entries(shift, row))
                data.append({"f": family_view.family[row], "m": row, "s": shift, **numbers})
    if not data:
        return None
    groups = list(dict.fromkeys(family_view.family.values()))
    tooltip = [
        ("d", "change in %", "+.1f"),
        ("i", f"{percent(verdicts.level)} interval"),
        ("n", "runs"),
    ]
    view = method_map(shifts, rows, tooltip, diverging=True)
    del view["data"]
    header = {"labelOrient": "top", "labelAnchor": "start", "labelPadding": 2}
    # Names of rows are not counted into the width of panels one above the other.
    left = 5 + 7 * max(0, max(map(len, rows)) - 9)
    spec = {
        "data": {"name": "rows"},
        "facet": {"row": text("f", title=None, sort=groups, header=header)},
        "spec": view,
        "spacing": 8,
        "resolve": {"scale": {"y": "independent"}},
        "padding": {"left": left, "right": 5, "top": 5, "bottom": 5},
    }
    setting = family_view.place
    caption = (
        f"Blue is above {baseline}, orange below, paired by seed. Of a framed cell (*)"
        f" {star_words(family_view)}; a pale cell has an interval that holds 0, or none: the seeds"
        " do not settle the direction."
    )
    changes = [cell["d"] for cell in data]
    n_framed = sum(cell["x"] for cell in data)
    description = (
        f"Heat map of {len(rows)} methods and architectures in {len(groups)} families and"
        f" {len(shifts)} shifts: mean change between {min(changes):+.1f} and {max(changes):+.1f} %;"
        f" {n_framed} of {len(data)} intervals exclude 0."
    )
    return Figure(
        slug("families", *setting),
        f"Change of {HEADLINE.words} in % of that of {baseline} on {setting.set}, by family",
        caption,
        description,
        chart(spec, {"rows": data}, most=max(5.0, *map(abs, changes))),
        "step",
    )


def _change_cell(change: Difference, differs: bool, entries: Sequence[Entry]) -> dict[str, Any]:
    """A change in percent with its interval, as the map shows it."""
    bounds = "one run or equal runs, no interval"
    if change.sd:
        bounds = f"{change.low:+.1f} to {change.high:+.1f}"
    words = f"{change.mean:+.1f}{' *' if differs else ''}"
    return {
        "d": round(change.mean, 6),
        "i": bounds,
        "n": change.n,
        "t": with_mark(words, *entries),
        "x": differs,
    }


def shift_count_figure(view: Families) -> Figure | None:
    """Mean accuracy against the number of concurrent shifts, a panel a family, beside the mean of
    all rows. None where no shifts are concurrent."""
    by_count = shifts_by_count(view)
    rows_by_family = rows_by_family_of(view) if by_count else {}
    if not rows_by_family:
        return None
    points = _points_by_family(view, rows_by_family, by_count)
    all_points = points.pop(ALL_ROWS, [])
    if not points or not all_points:
        return None
    drawn = [
        {"f": family, "n": str(count), "all": all_point["a"], **point}
        for family, of_counts in points.items()
        for count, all_point, point in zip(by_count, all_points, of_counts, strict=True)
    ]
    first, last = min(by_count), max(by_count)
    falls = [
        f"{family} {of_counts[0]['a']:.1%} to {of_counts[-1]['a']:.1%}"
        for family, of_counts in points.items()
    ]
    setting = view.place
    return Figure(
        slug("by-shift-count", *setting),
        f"{HEADLINE.title} by number of concurrent shifts and family on {setting.set}",
        f"Means over the rows of a family, the shifts with so many components, and seeds, with 95%"
        f" intervals over seeds. Dashed: the mean of all {len(rows_by_family[ALL_ROWS])} rows.",
        f"A panel for each of {len(points)} families: mean accuracy with {first} to {last}"
        f" concurrent shifts; {'; '.join(falls)}.",
        chart(_panels(list(points)), {"rows": drawn}),
        "wrap",
        len(points),
        names=44,
    )


def _points_by_family(
    view: Families, rows_by_family: Mapping[str, Sequence[str]], by_count: Mapping[int, list[str]]
) -> dict[str, list[dict[str, Any]]]:
    """The point of each number of shifts, of the families that have all of them."""
    points: dict[str, list[dict[str, Any]]] = {}
    for family, rows in rows_by_family.items():
        of_counts = [_point(view.accuracy(rows, shifts)) for shifts in by_count.values()]
        if all(of_counts):
            points[family] = of_counts
    return points


def _panels(families: Sequence[str]) -> dict[str, Any]:
    x = text("n", title="concurrent shifts", axis={"labelAngle": 0})
    tooltip = tips(
        ("f", "family"),
        ("n", "concurrent shifts"),
        ("a", "accuracy", ".1%"),
        ("i", "95% interval"),
        ("all", "all rows", ".1%"),
    )
    accuracy = number("a", title="accuracy", scale={"zero": False}, axis={"format": ".0%"})
    of_family = {"x": x, "color": named_colour("accent"), "tooltip": tooltip}
    of_all = {"x": x, "y": number("all"), "color": named_colour("quiet")}
    interval = {**of_family, "y": number("low"), "y2": {"field": "high"}}
    layers = [
        layer("line", of_all, strokeDash=[4, 3], strokeWidth=1.5),
        layer("rule", interval, strokeWidth=1.5),
        layer("line", {**of_family, "y": accuracy}, strokeWidth=1.5),
        layer("point", {**of_family, "y": accuracy}, filled=True, size=50, opacity=1),
    ]
    # A family's name is longer than a shift's: smaller, so that it is not cut off above its panel.
    header = {
        "labelAnchor": "start",
        "labelOrient": "top",
        "labelFontSize": 11,
        "labelFontWeight": "normal",
    }
    return {
        "data": {"name": "rows"},
        "facet": text("f", title=None, sort=list(families), header=header),
        "columns": 3,
        "spec": {"layer": layers, "width": _PANEL_WIDTH, "height": _PANEL_HEIGHT},
    }


def _point(accuracies: Values) -> dict[str, Any]:
    """A mean with its interval, as the figure shows it; empty without an accuracy."""
    if not accuracies:
        return {}
    spread = over_runs(accuracies, LEVEL)
    point: dict[str, Any] = {"a": round(spread.mean, 6), "i": "one run or equal runs, no interval"}
    half = spread.half_width
    if half:
        low, high = round(spread.mean - half, 6), round(spread.mean + half, 6)
        point |= {"low": low, "high": high, "i": f"{low:.1%} to {high:.1%}"}
    return point
