"""The figures of a study, one function each: its numbers, its chart, and the words that stand
beside it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from crosswind.core.exhibits import Bars
from crosswind.evaluation.compare import DifferenceSummary
from crosswind.evaluation.metrics import HEADLINE, METRICS
from crosswind.reports.charts import (
    Figure,
    chart,
    either,
    layer,
    named_colour,
    number,
    on_ramp,
    text,
    tips,
)
from crosswind.reports.claims.verdicts import Verdicts, star_words, verdicts_at
from crosswind.reports.gather import Cells, SetDraw, ShiftDraw
from crosswind.reports.runs.tables import PARTS, Cost
from crosswind.reports.scores.notes import doubt_notes, with_mark
from crosswind.reports.scores.results import Entry, PlaceResults, rule_title
from crosswind.reports.scores.tables import SHOWN_SEEDS, Ranking, spread_over_ranks
from crosswind.reports.tables import slug

_WORST = METRICS["worst_group"]
Rows = list[dict[str, Any]]
BARS = 30
"""Bars of an exhibit that are drawn."""
_DESCRIBED = 12
_NAMED_STEP = 12
"""Pixels of a row or a column that has room for its name."""


class FigureText(NamedTuple):
    """The words of a figure: `description` is read aloud in place of the picture."""

    title: str
    caption: str
    description: str


class BarSize(NamedTuple):
    """Pixels of a figure of bars: its width, and of each bar the room and the height."""

    width: int
    step: int
    height: int


# -- draws -----------------------------------------------------------------------------------------


def draw_map(draw: ShiftDraw, shown: SetDraw, greatest: float, title: str = "") -> Figure:
    """Rows of label x attribute that the shift planned by its weights and that the run got, one row
    of panels an attribute.

    `shown` is the set of the draw that is shown, under `title` (without one it is the training set,
    under the shift's name). `greatest` is the number of rows at the end of the colour scale, shared
    by the shifts that stand side by side.
    """
    rows, datasets = [], {}
    for position, (attribute, cells) in enumerate(shown.tables.items()):
        # The test set reaches cells that training does not: an empty column is what an unseen value
        # looks like.
        test_cells = draw.test.tables.get(attribute, {}) if draw.test is not None else {}
        labels, values = (
            list(dict.fromkeys(pair[side] for pair in (*test_cells, *cells))) for side in (0, 1)
        )
        datasets[f"d{position}"] = _cell_rows(cells, labels, values)
        pair = [
            _draw_panel(f"d{position}", side, draw.label, attribute, labels, values, greatest)
            for side in ("p", "r")
        ]
        rows.append({"hconcat": pair, "spacing": 10})
    where = ", ".join(filter(None, (draw.data, draw.size and f"size {draw.size}")))
    drawn = _drawn_words(shown)
    kind, subject = ("test", title) if title else ("shift", "training rows")
    of_shifts = "every shift" if title else draw.shift
    description = (
        f"Heat maps of {subject} by {draw.label} and {', '.join(shown.tables)},"
        f" {of_shifts} ({where}): planned by the weights beside realised. {drawn}."
    )
    return Figure(
        f"{kind}-{draw.data}-{draw.size}-{title or draw.shift}",
        title or draw.shift,
        f"{drawn}. Seed {draw.seed}.",
        description,
        chart({"vconcat": rows, "spacing": 14}, datasets, most=greatest),
        "step",
    )


def _cell_rows(cells: Cells, labels: Sequence[str], values: Sequence[str]) -> Rows:
    """Planned and realised rows of every label and value, those that no row has too."""
    rows: Rows = []
    for label, value in product(labels, values):
        planned, realised = cells.get((label, value), (0.0, 0))
        rows.append({"l": label, "v": value, "p": planned, "r": realised})
    return rows


def _drawn_words(shown: SetDraw) -> str:
    """How many rows a set has, and what of them was not drawn by the plan."""
    words = f"{shown.rows} rows"
    if shown.supplement_rows:
        words += f", {shown.supplement_rows} of them from a supplement"
    if shown.short_cells:
        words += f"; {shown.short_cells} cells had fewer rows than planned"
    return words


def _draw_panel(
    data: str,
    side: str,
    label: str,
    attribute: str,
    labels: Sequence[str],
    values: Sequence[str],
    greatest: float,
) -> dict[str, Any]:
    """A heat map of the planned rows (side "p", on the left) or of the realised ones ("r")."""
    left = side == "p"
    step = 24 if len(values) <= 8 else max(5, 200 // len(values))
    tall = 18 if len(labels) <= 12 else max(5, 220 // len(labels))
    tooltip = tips(("l", label), ("v", attribute), ("p", "planned rows"), ("r", "realised rows"))
    # Of many classes on few pixels each as many are named as have room; hover names every one.
    crowded = {"labelOverlap": "greedy"}
    value_axis = {
        "labelAngle": -40 if len(values) > 1 else 0,
        "labelLimit": 60,
        **(crowded if step < _NAMED_STEP else {}),
    }
    label_axis = crowded if tall < _NAMED_STEP else {}
    x = text("v", title=attribute, sort=values, axis=value_axis)
    y = text("l", title=label if left else None, sort=labels, axis=label_axis if left else None)
    where = {"x": x, "y": y, "tooltip": tooltip}
    scale = {"domain": {"expr": "[0, most]"}, "range": "ramp", "interpolate": "rgb"}
    layers = [
        layer("rect", {**where, "color": number(side, scale=scale, legend=None)}, stroke=None)
    ]
    if step >= 18 and tall >= 14:
        written = {
            "text": number(side, format=_count_format(greatest, planned=left)),
            "color": on_ramp(f"datum.{side} > 0.55 * most"),
            "opacity": either(f"datum.{side} == 0", 0.45, 1),
        }
        layers.append(layer("text", {**where, **written}, fontSize=10 if greatest < 100 else 8))
    sizes = {"width": {"step": step}, "height": {"step": tall}}
    return {
        "data": {"name": data},
        "title": "planned" if left else "realised",
        **sizes,
        "layer": layers,
    }


def _count_format(greatest: float, planned: bool) -> str:
    """As many digits as a cell has room for; planned rows need not be whole."""
    if greatest >= 1000:
        return ".3~s"
    return ".2~g" if planned and greatest < 100 else ".0f"


# -- scores ----------------------------------------------------------------------------------------


def change_map(setting_results: PlaceResults, verdicts: Verdicts | None = None) -> Figure | None:
    """Method x shift: change of accuracy against the reference, paired by seed; a frame where a
    difference is told."""
    verdicts = verdicts_at(setting_results) if verdicts is None else verdicts
    shifts, reference = setting_results.shifts, setting_results.reference
    methods = [name for name in setting_results.methods if name != reference]
    data: Rows = []
    for (shift, method), verdict in verdicts.items():
        entry = setting_results.entries[shift, method]
        star = " *" if verdict.told else ""
        row = _cell(shift, method, entry, verdict.difference, "+", star)
        data.append(row | {"a": _six(verdict.value), "b": _six(verdict.base), "x": verdict.told})
    level, framed = star_words(verdicts, reference)
    tooltip = (
        ("t", f"change against {reference}, points"),
        ("i", f"{level} interval, points"),
        ("n", "runs"),
        ("a", HEADLINE.words, ".1%"),
        ("b", f"{HEADLINE.words} of {reference}", ".1%"),
    )
    caption = (
        f"Blue is above {reference}, orange below, paired by seed. A framed cell"
        f" (*) {framed}; a pale cell has an interval that holds 0, or none: the seeds do not settle"
        " the direction."
    )
    n_framed = sum(row["x"] for row in data)
    description = (
        f"Heat map of {len(methods)} methods and {len(shifts)} shifts: mean change"
        f" of {HEADLINE.words} against {reference}, {_points_between(data)};"
        f" {n_framed} of {len(data)} intervals exclude 0."
    )
    return _at_place(
        "change",
        setting_results,
        FigureText(
            f"Change of {HEADLINE.words} against {reference} on {setting_results.place.set}, in"
            " points",
            caption,
            description,
        ),
        method_map(shifts, methods, tooltip, diverging=True),
        data,
        "grid",
        methods,
        most=max([0.05, *(abs(row["d"]) for row in data)]),
    )


def worst_map(setting_results: PlaceResults) -> Figure | None:
    """Method x shift: mean over seeds of the lowest accuracy of any group."""
    data: Rows = []
    for shift, method, entry in setting_results.grid():
        summary = entry.summary(_WORST.name) if entry else None
        if entry is None or summary is None:
            continue
        data.append(_cell(shift, method, entry, summary) | {"g": _worst_names(entry)})
    methods, shifts = setting_results.methods, setting_results.shifts
    tooltip = (
        ("d", "worst group", ".1%"),
        ("i", "95% interval"),
        ("n", "runs"),
        ("g", "lowest in some run"),
    )
    caption = (
        "Mean over runs of the lowest accuracy of any group; which group that is may differ between"
        " seeds. Of small groups the lowest is low by chance alone: the table gives their rows."
    )
    description = (
        f"Heat map of {len(methods)} methods and {len(shifts)} shifts: worst group accuracy,"
        f" {_between(data, 'd')}."
    )
    return _at_place(
        _WORST.slug,
        setting_results,
        FigureText(f"{_WORST.title} on {setting_results.place.set}", caption, description),
        method_map(shifts, methods, tooltip, diverging=False),
        data,
        "grid",
        most=1.0,
    )


def _worst_names(entry: Entry) -> str:
    """The groups that were worst in some run, the first three of them."""
    scored = [
        run_scores
        for run_scores in entry.metrics.values()
        if run_scores.get(_WORST.name) is not None
    ]
    names = sorted({str(run_scores["worst_group_name"]) for run_scores in scored})
    words = "; ".join(names[:3])
    return f"{words} and {len(names) - 3} more" if len(names) > 3 else words


def _cell(
    shift: str,
    method: str,
    entry: Entry,
    summary: DifferenceSummary,
    sign: str = "",
    star: str = "",
) -> dict[str, Any]:
    # A difference is said in points, wherever it stands on the page.
    size = f"{100 * summary.mean:+.1f}" if sign else f"{summary.mean:.1%}"
    words = with_mark(f"{size}{star}", entry)
    return {
        "m": method,
        "s": shift,
        "d": _six(summary.mean),
        "i": _points_interval(summary) if sign else _interval(summary),
        "n": summary.n,
        "t": words,
    }


def method_map(
    shifts: Sequence[str],
    methods: Sequence[str],
    tooltip: Sequence[Any],
    diverging: bool,
    words: tuple[str, str] = ("method", "shift"),
) -> dict[str, Any]:
    """Method x shift by colour of d with the text t; framed where x, and pale without it if
    `diverging`. Parameter `most`.

    `words`: what rows and columns are called.
    """
    row_word, column_word = words
    top = {"orient": "top", "labelAngle": 0 if len(shifts) <= 8 else -40, "labelLimit": 90}
    where = {
        "x": text("s", title=None, sort=shifts, axis=top),
        "y": text("m", title=None, sort=methods),
        "tooltip": tips(("m", row_word), ("s", column_word), *tooltip),
    }
    scale = {
        "domain": {"expr": "[-most, most]" if diverging else "[0, most]"},
        "range": "diverging" if diverging else "ramp",
        # between white and blue other ways lead past green, which stands for nothing
        "interpolate": "rgb",
    }
    fill = {
        "color": number("d", scale=scale, legend=None),
        "opacity": either("datum.x" if diverging else "true", 1, 0.4),
    }
    deep = "datum.x && abs(datum.d) > 0.6 * most" if diverging else "datum.d > 0.6 * most"
    frame = {**where, "stroke": named_colour("ink")}
    written = {**where, "text": text("t"), "color": on_ramp(deep)}
    layers = [
        layer("rect", {**where, **fill}, cornerRadius=2),
        layer("rect", frame, where="datum.x", filled=False, strokeWidth=2, cornerRadius=2),
        layer("text", written, fontSize=12),
    ]
    column_width = 76 if len(shifts) <= 12 else 62
    sizes = {"width": {"step": column_width}, "height": {"step": 30}}
    return {"data": {"name": "rows"}, **sizes, "layer": layers}


def seed_strips(setting_results: PlaceResults) -> Figure | None:
    """Accuracy of every seed as a point, the mean as a tick, one panel a shift; the line is the
    mean of the reference."""
    methods, shifts = setting_results.methods, setting_results.shifts
    data: Rows = []
    cells = [
        (shift, method, {} if entry is None else entry.values(HEADLINE.name))
        for shift, method, entry in setting_results.grid()
    ]
    most_seeds = max((len(accuracies) for _, _, accuracies in cells), default=0)
    # The mean of the points is that of all seeds where each seed is a point. Else it stands in the
    # first point of its method: a mean passes over points without it.
    mean_field = "b" if most_seeds > SHOWN_SEEDS else "a"
    for shift, method, accuracies in cells:
        points = [
            {"s": shift, "m": method, "k": str(seed), "a": _six(accuracies[seed])}
            for seed in spread_over_ranks(accuracies, SHOWN_SEEDS)
        ]
        if points and mean_field == "b":
            points[0]["b"] = _six(sum(accuracies.values()) / len(accuracies))
        data += points
    y = text("m", title=None, sort=methods)
    mean = number(mean_field, aggregate="mean")
    shared_tips = (("m", "method"), ("s", "shift"))
    average = {**number(mean_field, title="mean", format=".1%"), "aggregate": "mean"}
    x = _score_axis(setting_results, nice=True)
    tooltip = tips(*shared_tips, ("k", "seed"), ("a", HEADLINE.words, ".1%"))
    mean_tooltip = [*tips(*shared_tips), average]
    seeds = {"x": x, "y": y, "color": named_colour("accent"), "tooltip": tooltip}
    means = {"x": mean, "y": y, "color": named_colour("ink"), "tooltip": mean_tooltip}
    line = {"x": mean, "color": named_colour("quiet")}
    layers = [
        layer("rule", line, where="datum.m === reference", strokeDash=[3, 3]),
        layer("circle", seeds, size=42, opacity=0.6),
        layer("tick", means, thickness=2, size=13),
    ]
    of_seeds = ""
    if most_seeds > SHOWN_SEEDS:
        of_seeds = f" (of {most_seeds:,} the {SHOWN_SEEDS} at even steps of their order)"
    caption = (
        f"A point is one seed{of_seeds}, the tick the mean over all seeds, the dashed line the mean"
        f" of {setting_results.reference}."
    )
    description = (
        f"Strip plots of {HEADLINE.words}, {len(methods)} methods under"
        f" {len(shifts)} shifts, {len(data)} runs, {_between(data, 'a')}."
    )
    return _at_place(
        "seeds",
        setting_results,
        FigureText(
            f"{HEADLINE.title} of every seed on {setting_results.place.set}", caption, description
        ),
        _panel_a_shift({"layer": layers}, shifts, 17),
        data,
        "wrap",
        reference=setting_results.reference,
    )


def rule_dots(rule_results: Sequence[PlaceResults]) -> Figure | None:
    """Mean accuracy by selection rule, one panel a shift. `rule_results` are one place under
    several
    rules."""
    first_results = rule_results[0]
    methods, shifts = first_results.methods, first_results.shifts
    rules = [rule_title(setting_results.place.rule) for setting_results in rule_results]
    data: Rows = []
    for setting_results, title in zip(rule_results, rules, strict=True):
        for (shift, method), entry in setting_results.entries.items():
            summary = entry.summary(HEADLINE.name)
            if summary is not None:
                numbers = {"a": _six(summary.mean), "i": _interval(summary), "n": summary.n}
                data.append({"s": shift, "m": method, "u": title, **numbers})
    rule = text("u", title="rule", sort=rules, scale={"domain": rules})
    tooltip = (("a", f"mean {HEADLINE.words}", ".1%"), ("i", "95% interval"), ("n", "seeds"))
    encoding = {
        "x": _score_axis(first_results),
        "y": text("m", title=None, sort=methods),
        # Rules often choose the same step: side by side, so that none hides another.
        "yOffset": text("u", sort=rules),
        "color": {**rule, "legend": {"orient": "top"}},
        "shape": rule,
        "tooltip": tips(("m", "method"), ("s", "shift"), ("u", "rule"), *tooltip),
    }
    points = layer("point", encoding, filled=True, size=45, opacity=0.85)
    caption = (
        f"Mean {HEADLINE.words} over seeds, by the rule that chooses the step. The intervals are in"
        " the table and on hover."
    )
    description = (
        f"Dot plots of mean {HEADLINE.words} by selection rule ({', '.join(rules)}),"
        f" {len(methods)} methods under {len(shifts)} shifts."
    )
    return _at_place(
        "rules",
        first_results,
        FigureText(
            f"Selection rules side by side on {first_results.place.set}", caption, description
        ),
        _panel_a_shift(points, shifts, max(20, 8 + 7 * len(rules))),
        data,
        "wrap",
    )


def _score_axis(setting_results: PlaceResults, **scale: Any) -> dict[str, Any]:
    title = f"{HEADLINE.words} on {setting_results.place.set}"
    return number(
        "a",
        title=title,
        scale={"zero": False, **scale, "padding": 6},
        axis={"tickCount": 4, "format": "~%"},
    )


def _panel_a_shift(view: dict[str, Any], shifts: Sequence[str], step: int) -> dict[str, Any]:
    facet = text(
        "s", title=None, sort=shifts, header={"labelAnchor": "start", "labelOrient": "top"}
    )
    sizes = {"width": 190, "height": {"step": step, "for": "position"}}
    return {"data": {"name": "rows"}, "facet": facet, "columns": 3, "spec": {**view, **sizes}}


def _at_place(
    figure_name: str,
    setting_results: PlaceResults,
    words: FigureText,
    view: dict[str, Any],
    data: Rows,
    fit: str,
    methods: Sequence[str] = (),
    **params: Any,
) -> Figure | None:
    """A figure of one place; None without data. Captions end with what runs told of themselves, but
    where rules are compared."""
    if not data:
        return None
    setting = setting_results.place
    if figure_name == "rules":
        setting = setting._replace(rule="")
    else:
        caption = " ".join([words.caption, *doubt_notes(setting_results)])
        words = words._replace(caption=caption)
    name = "-".join(filter(None, (figure_name, *setting)))
    spec = chart(view, {"rows": data}, **params)
    return Figure(
        name,
        *words,
        spec,
        fit,
        len(setting_results.shifts),
        _room(methods or setting_results.methods),
    )


def rank_dots(ranked: Ranking) -> Figure:
    """How often each method had which rank, and its mean rank."""
    methods, ranks, last = ranked.methods, ranked.ranks, len(ranked.methods)
    spread: Rows = []
    for name in methods:
        for rank, count in sorted(ranked.counts[name].items()):
            spread.append({"m": name, "k": rank, "c": count})
    means = [{"m": name, "k": _six(float(ranks.mean[name]))} for name in methods]
    # The padding in pixels: half of the largest circle, and the end of the axis.
    scale = {"domain": [1, max(2, last)], "padding": 16}
    ticks = list(range(1, last + 1)) if last <= 10 else [1, *range(5, last + 1, 5)]
    axis = {"format": "d", "values": ticks}
    x = number("k", title="rank (1 is best)", scale=scale, axis=axis)
    where = {"x": x, "y": text("m", title=None, sort=methods)}
    area = number("c", title="blocks", scale={"rangeMin": 12, "rangeMax": 420}, legend=None)
    tooltip = tips(("m", "method"), ("k", "rank"), ("c", "blocks"))
    dots = {**where, "size": area, "color": named_colour("accent"), "tooltip": tooltip}
    mean_tooltip = tips(("m", "method"), ("k", "mean rank", ".3f"))
    mean = {**where, "color": named_colour("ink"), "tooltip": mean_tooltip}
    layers = [
        layer("circle", dots, data="spread", opacity=0.45),
        layer("tick", mean, data="means", thickness=2, size=20),
    ]
    mean_ranks = ", ".join(f"{name} {ranks.mean[name]:.2f}" for name in methods)
    caption = (
        "The area of a circle is the number of blocks with that rank, the tick the mean rank."
        " Many blocks are answers to the same test rows, so that ranks have no interval."
    )
    view = {"width": 460, "height": {"step": 28}, "layer": layers}
    return Figure(
        f"ranks-{ranked.set}-{ranked.rule}",
        f"Ranks by {HEADLINE.words} on {ranked.set}, step chosen by {ranked.rule}",
        caption,
        f"Mean ranks over {ranks.blocks} blocks: {mean_ranks}.",
        chart(view, {"spread": spread, "means": means}),
        "bars",
        names=_room(methods),
    )


def time_bars(run_costs: Sequence[Cost]) -> Figure | None:
    """Mean seconds of a run by method, divided by what they went on."""
    run_costs = [run_cost for run_cost in run_costs if run_cost.shares]
    if not run_costs:
        return None
    several = len({(run_cost.data, run_cost.model) for run_cost in run_costs}) > 1
    names = [
        f"{run_cost.method} ({run_cost.data}, {run_cost.model})" if several else run_cost.method
        for run_cost in run_costs
    ]
    data: Rows = []
    for name, run_cost in zip(names, run_costs, strict=True):
        ends = {"l": _six(run_cost.least), "h": _six(run_cost.most)}
        for position, (part_name, title) in enumerate(PARTS.items()):
            share = run_cost.shares[part_name]
            if share:
                seconds = {"a": _six(share * run_cost.mean), "s": _six(share)}
                row = {"m": name, **ends, "n": run_cost.runs, "p": title, "o": position}
                data.append(row | seconds)
    tooltip = (("m", "method"), ("p", "part"), ("a", "mean seconds", ".2f"), ("s", "share", ".1%"))
    run_tips = (("l", "least of a run", ".2f"), ("h", "most of a run", ".2f"), ("n", "runs"))
    part_titles = list(PARTS.values())
    drawn_titles = {row["p"] for row in data}
    present = [title for title in part_titles if title in drawn_titles]
    legend = {"orient": "top", "title": None, "columns": 4, "values": present}
    encoding = {
        "x": number("a", title="mean seconds a run", stack="zero"),
        "order": number("o"),
        "color": text("p", scale={"domain": part_titles, "range": "ordinal"}, legend=legend),
        "tooltip": tips(*tooltip, *run_tips),
    }
    named_costs = list(zip(names, run_costs, strict=True))[:_DESCRIBED]
    mean_seconds = ", ".join(f"{name} {run_cost.mean:.1f}" for name, run_cost in named_costs)
    return _bars(
        "time",
        FigureText(
            "What the seconds of a run went on",
            "Means over the runs that are done; the quickest and the slowest are in the table.",
            f"Stacked bars of mean seconds a run, by what they went on: {mean_seconds}.",
        ),
        encoding,
        data,
        names,
        BarSize(width=460, step=26, height=14),
    )


def bars(title: str, exhibit: Bars) -> Figure:
    """One exhibit: a bar a name, in its order, the first `BARS` of them."""
    names = list(exhibit.values)[:BARS]
    data = [{"m": name, "a": _six(exhibit.values[name])} for name in names]
    tooltip = tips(("m", "name"), ("a", exhibit.unit, ".4g"))
    encoding = {
        "x": number("a", title=exhibit.unit),
        "color": named_colour("accent"),
        "tooltip": tooltip,
    }
    captions = [exhibit.caption] if exhibit.caption else []
    if len(exhibit.values) > BARS:
        captions.append(f"The first {BARS} of {len(exhibit.values)} are drawn.")
    numbers = ", ".join(f"{row['m']} {row['a']:.3g}" for row in data[:_DESCRIBED])
    return _bars(
        slug(title),
        FigureText(title, " ".join(captions), f"Bars: {numbers}."),
        encoding,
        data,
        names,
        BarSize(width=300, step=18, height=11),
    )


def _bars(
    name: str,
    words: FigureText,
    encoding: dict[str, Any],
    data: Rows,
    names: Sequence[str],
    size: BarSize,
) -> Figure:
    encoding = {"y": text("m", title=None, sort=names, axis={"labelLimit": 220}), **encoding}
    view = {
        "width": size.width,
        "height": {"step": size.step},
        **layer("bar", encoding, data="rows", height=size.height),
    }
    return Figure(name, *words, chart(view, {"rows": data}), "bars", names=_room(names))


# -- parts -----------------------------------------------------------------------------------------


def _interval(summary: DifferenceSummary, sign: str = "") -> str:
    if summary.sd is None:
        return "one run, no interval"
    if not summary.sd:
        return "the same at every seed, no interval"
    return f"{summary.low:{sign}.1%} to {summary.high:{sign}.1%}"


def _points_interval(summary: DifferenceSummary) -> str:
    """The interval of a difference of shares in points."""
    if not summary.sd or summary.low is None or summary.high is None:
        return _interval(summary)
    return f"[{100 * summary.low:+.1f}, {100 * summary.high:+.1f}]"


def _points_between(data: Rows) -> str:
    """The least and the largest difference, in points."""
    values = [100 * row["d"] for row in data] or [0.0]
    return f"between {min(values):+.1f} and {max(values):+.1f} points"


def _between(data: Rows, field: str, sign: str = "") -> str:
    values = [row[field] for row in data] or [0.0]
    return f"between {min(values):{sign}.1%} and {max(values):{sign}.1%}"


def _room(names: Sequence[str]) -> int:
    # About seven pixels a letter, cut where the axis cuts its labels.
    return 22 + min(150, 7 * max(map(len, names), default=0))


def _six(value: float) -> float:
    return round(value, 6)
