"""The figures of a study, one function each: its numbers, its chart, and the words that stand
beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crosswind.core.exhibits import Bars
from crosswind.evaluation.compare import Summary
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
from crosswind.reports.gather import SetDraw, ShiftDraw
from crosswind.reports.runs.tables import PARTS, Cost
from crosswind.reports.scores.notes import doubt_notes, with_mark
from crosswind.reports.scores.results import Entry, PlaceResults, rule_title
from crosswind.reports.scores.tables import Ranking
from crosswind.reports.tables import slug

_WORST = METRICS["worst_group"]
Rows = list[dict[str, Any]]
BARS = 30
"""Bars of an exhibit that are drawn."""


# -- draws
# --------------------------------------------------------------------------------------------------


def draw_map(draw: ShiftDraw, shown: SetDraw, most: float, title: str = "") -> Figure:
    """Rows of label x attribute that the shift planned by its weights and that the run got, one row
    of panels an attribute.

    `shown` is the set of the draw that is shown, under `title` (without one it is the training set,
    under the shift's name); `most` is the number of rows at the end of the colour scale, shared by
    the shifts that stand side by side.
    """
    rows, datasets = [], {}
    for position, (attribute, cells) in enumerate(shown.tables.items()):
        # The test set reaches cells that training does not: an empty column is what an unseen value
        # looks like.
        held = draw.test.tables.get(attribute, {}) if draw.test is not None else {}
        labels, values = (
            list(dict.fromkeys(pair[side] for pair in (*held, *cells))) for side in (0, 1)
        )
        counts = {
            (label, value): cells.get((label, value), (0.0, 0))
            for label in labels
            for value in values
        }
        datasets[f"d{position}"] = [
            {"l": label, "v": value, "p": planned, "r": realised}
            for (label, value), (planned, realised) in counts.items()
        ]
        pair = [
            _draw_panel(f"d{position}", side, draw.label, attribute, labels, values, most)
            for side in ("p", "r")
        ]
        rows.append({"hconcat": pair, "spacing": 10})
    where = ", ".join(filter(None, (draw.data, draw.size and f"size {draw.size}")))
    drawn = f"{shown.rows} rows"
    drawn += f", {shown.supplement_rows} of them from a supplement" if shown.supplement_rows else ""
    drawn += f"; {shown.short_cells} cells had fewer rows than asked" if shown.short_cells else ""
    return Figure(
        f"{'test' if title else 'shift'}-{draw.data}-{draw.size}-{title or draw.shift}",
        title or draw.shift,
        f"{drawn}. Seed {draw.seed}.",
        f"Heat maps of {title or 'training rows'} by {draw.label} and {', '.join(shown.tables)},"
        f" {draw.shift if not title else 'every shift'} ({where}): planned by the weights beside"
        f" realised. {drawn}.",
        chart({"vconcat": rows, "spacing": 14}, datasets, most=most),
        "step",
    )


def _draw_panel(
    data: str,
    side: str,
    label: str,
    attribute: str,
    labels: Sequence[str],
    values: Sequence[str],
    most: float,
) -> dict[str, Any]:
    """A heat map of the planned rows (side "p", on the left) or of the realised ones ("r")."""
    left = side == "p"
    step = 24 if len(values) <= 8 else max(5, 200 // len(values))
    tall = 18 if len(labels) <= 12 else max(5, 220 // len(labels))
    where = {
        "x": text(
            "v",
            title=attribute,
            sort=values,
            axis={"labelAngle": -40 if len(values) > 1 else 0, "labelLimit": 60},
        ),
        "y": text("l", title=label if left else None, sort=labels, axis={} if left else None),
        "tooltip": tips(
            ("l", label), ("v", attribute), ("p", "planned rows"), ("r", "realised rows")
        ),
    }
    scale = {"domain": {"expr": "[0, most]"}, "range": "ramp", "interpolate": "rgb"}
    layers = [
        layer("rect", {**where, "color": number(side, scale=scale, legend=None)}, stroke=None)
    ]
    if step >= 18 and tall >= 14:
        # As many digits as a cell has room for.
        form = ".3~s" if most >= 1000 else ".2~g" if left and most < 100 else ".0f"
        written = {
            "text": number(side, format=form),
            "color": on_ramp(f"datum.{side} > 0.55 * most"),
            "opacity": either(f"datum.{side} == 0", 0.45, 1),
        }
        layers.append(layer("text", {**where, **written}, fontSize=10 if most < 100 else 8))
    sizes = {"width": {"step": step}, "height": {"step": tall}}
    return {
        "data": {"name": data},
        "title": "planned" if left else "realised",
        **sizes,
        "layer": layers,
    }


# -- scores
# --------------------------------------------------------------------------------------------------


def change_map(at: PlaceResults, verdicts: Verdicts | None = None) -> Figure | None:
    """Method x shift: change of accuracy against the reference, paired by seed; a frame where a
    difference is told."""
    verdicts = verdicts_at(at) if verdicts is None else verdicts
    methods = [name for name in at.methods if name != at.reference]
    data: Rows = []
    for (shift, method), verdict in verdicts.items():
        row = _cell(
            shift,
            method,
            at.entries[shift, method],
            verdict.difference,
            "+",
            " *" if verdict.told else "",
        )
        data.append(row | {"a": _six(verdict.value), "b": _six(verdict.base), "x": verdict.told})
    level, framed = star_words(verdicts, at.reference)
    told = [
        ("d", f"change against {at.reference}", "+.3f"),
        ("i", f"{level} interval"),
        ("n", "runs"),
    ]
    told += [("a", HEADLINE.words, ".3f"), ("b", f"{HEADLINE.words} of {at.reference}", ".3f")]
    return _at_place(
        "change",
        at,
        f"Change of {HEADLINE.words} against {at.reference} on {at.place.set}",
        f"Blue is above {at.reference}, orange below, paired by seed. A framed cell (*) {framed}; a"
        " pale cell has an interval that holds 0, or none: the seeds do not settle the direction.",
        f"Heat map of {len(methods)} methods and {len(at.shifts)} shifts: mean change of"
        f" {HEADLINE.words} against {at.reference}, {_between(data, 'd', '+')};"
        f" {sum(row['x'] for row in data)} of {len(data)} intervals exclude 0.",
        method_map(at.shifts, methods, told, diverging=True),
        data,
        "grid",
        methods,
        most=max(0.05, *(abs(row["d"]) for row in data)) if data else 0.05,
    )


def worst_map(at: PlaceResults) -> Figure | None:
    """Method x shift: mean over seeds of the lowest accuracy of any group."""
    data: Rows = []
    for shift, method, entry in at.grid():
        summary = entry.summary(_WORST.name) if entry else None
        if entry is None or summary is None:
            continue
        scored = [item for item in entry.metrics.values() if item.get(_WORST.name) is not None]
        names = sorted({str(item["worst_group_name"]) for item in scored})
        listed = "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        data.append(_cell(shift, method, entry, summary) | {"g": listed})
    told = [
        ("d", "worst group", ".3f"),
        ("i", "95% interval"),
        ("n", "runs"),
        ("g", "lowest in some run"),
    ]
    return _at_place(
        _WORST.slug,
        at,
        f"{_WORST.title} on {at.place.set}",
        "Mean over runs of the lowest accuracy of any group; which group that is may differ between"
        " seeds. Of small groups the lowest is low by chance alone: the table gives their rows.",
        f"Heat map of {len(at.methods)} methods and {len(at.shifts)} shifts: worst group accuracy,"
        f" {_between(data, 'd')}.",
        method_map(at.shifts, at.methods, told, diverging=False),
        data,
        "grid",
        most=1.0,
    )


def _cell(
    shift: str, method: str, entry: Entry, summary: Summary, sign: str = "", star: str = ""
) -> dict[str, Any]:
    words = with_mark(f"{summary.mean:{sign}.3f}{star}", entry)
    return {
        "m": method,
        "s": shift,
        "d": _six(summary.mean),
        "i": _interval(summary, sign),
        "n": summary.n,
        "t": words,
    }


def method_map(
    shifts: Sequence[str],
    methods: Sequence[str],
    told: Sequence[Any],
    diverging: bool,
    words: tuple[str, str] = ("method", "shift"),
) -> dict[str, Any]:
    """Method x shift by colour of d with the text t; framed where x, and pale without it if
    `diverging`. Parameter `most`.

    `words`: what rows and columns are called.
    """
    top = {"orient": "top", "labelAngle": 0 if len(shifts) <= 8 else -40, "labelLimit": 90}
    where = {
        "x": text("s", title=None, sort=shifts, axis=top),
        "y": text("m", title=None, sort=methods),
        "tooltip": tips(("m", words[0]), ("s", words[1]), *told),
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
    layers = [
        layer("rect", {**where, **fill}, cornerRadius=2),
        layer("rect", frame, where="datum.x", filled=False, strokeWidth=2, cornerRadius=2),
        layer("text", {**where, "text": text("t"), "color": on_ramp(deep)}, fontSize=12),
    ]
    sizes = {"width": {"step": 76 if len(shifts) <= 12 else 62}, "height": {"step": 30}}
    return {"data": {"name": "rows"}, **sizes, "layer": layers}


def seed_strips(at: PlaceResults) -> Figure | None:
    """Accuracy of every seed as a point, the mean as a tick, one panel a shift; the line is the
    mean of the reference."""
    data: Rows = [
        {"s": shift, "m": method, "k": str(seed), "a": _six(value)}
        for shift, method, entry in at.grid()
        if entry is not None
        for seed, value in entry.values(HEADLINE.name).items()
    ]
    y = text("m", title=None, sort=at.methods)
    mean = number("a", aggregate="mean")
    both = (("m", "method"), ("s", "shift"))
    average = {**number("a", title="mean", format=".3f"), "aggregate": "mean"}
    x, told = _score_axis(at, nice=True), tips(*both, ("k", "seed"), ("a", HEADLINE.words, ".3f"))
    seeds = {"x": x, "y": y, "color": named_colour("accent"), "tooltip": told}
    means = {"x": mean, "y": y, "color": named_colour("ink"), "tooltip": [*tips(*both), average]}
    layers = [
        layer(
            "rule",
            {"x": mean, "color": named_colour("quiet")},
            where="datum.m === reference",
            strokeDash=[3, 3],
        ),
        layer("circle", seeds, size=42, opacity=0.6),
        layer("tick", means, thickness=2, size=13),
    ]
    return _at_place(
        "seeds",
        at,
        f"{HEADLINE.title} of every seed on {at.place.set}",
        "A point is one seed, the tick the mean over seeds, the dashed line the mean of"
        f" {at.reference}.",
        f"Strip plots of {HEADLINE.words}, {len(at.methods)} methods under {len(at.shifts)} shifts,"
        f" {len(data)} runs, {_between(data, 'a')}.",
        _panel_a_shift({"layer": layers}, at.shifts, 17),
        data,
        "wrap",
        reference=at.reference,
    )


def rule_dots(places: Sequence[PlaceResults]) -> Figure | None:
    """Mean accuracy by selection rule, one panel a shift. `places` are one place under several
    rules."""
    at, rules = places[0], [rule_title(at.place.rule) for at in places]
    data: Rows = [
        {
            "s": shift,
            "m": method,
            "u": rule,
            "a": _six(summary.mean),
            "i": _interval(summary),
            "n": summary.n,
        }
        for other, rule in zip(places, rules, strict=True)
        for (shift, method), entry in other.entries.items()
        if (summary := entry.summary(HEADLINE.name)) is not None
    ]
    rule = text("u", title="rule", sort=rules, scale={"domain": rules})
    told = (("a", f"mean {HEADLINE.words}", ".3f"), ("i", "95% interval"), ("n", "seeds"))
    encoding = {
        "x": _score_axis(at),
        "y": text("m", title=None, sort=at.methods),
        # Rules often choose the same step: side by side, so that none hides another.
        "yOffset": text("u", sort=rules),
        "color": {**rule, "legend": {"orient": "top"}},
        "shape": rule,
        "tooltip": tips(("m", "method"), ("s", "shift"), ("u", "rule"), *told),
    }
    points = layer("point", encoding, filled=True, size=45, opacity=0.85)
    return _at_place(
        "rules",
        at,
        f"Selection rules side by side on {at.place.set}",
        f"Mean {HEADLINE.words} over seeds, by the rule that chooses the step. The intervals are in"
        " the table and on hover.",
        f"Dot plots of mean {HEADLINE.words} by selection rule ({', '.join(rules)}),"
        f" {len(at.methods)} methods under {len(at.shifts)} shifts.",
        _panel_a_shift(points, at.shifts, max(20, 8 + 7 * len(rules))),
        data,
        "wrap",
    )


def _score_axis(at: PlaceResults, **scale: Any) -> dict[str, Any]:
    title = f"{HEADLINE.words} on {at.place.set}"
    return number(
        "a", title=title, scale={"zero": False, **scale, "padding": 6}, axis={"tickCount": 4}
    )


def _panel_a_shift(view: dict[str, Any], shifts: Sequence[str], step: int) -> dict[str, Any]:
    facet = text(
        "s", title=None, sort=shifts, header={"labelAnchor": "start", "labelOrient": "top"}
    )
    sizes = {"width": 190, "height": {"step": step, "for": "position"}}
    return {"data": {"name": "rows"}, "facet": facet, "columns": 3, "spec": {**view, **sizes}}


def _at_place(
    what: str,
    at: PlaceResults,
    title: str,
    caption: str,
    description: str,
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
    compared = what == "rules"
    name = "-".join(filter(None, (what, *(at.place._replace(rule="") if compared else at.place))))
    caption = " ".join([caption, *([] if compared else doubt_notes(at))])
    spec = chart(view, {"rows": data}, **params)
    return Figure(
        name, title, caption, description, spec, fit, len(at.shifts), _room(methods or at.methods)
    )


def rank_dots(item: Ranking) -> Figure:
    """How often each method had which rank, and its mean rank."""
    methods, ranks, last = item.methods, item.ranks, len(item.methods)
    spread = [
        {"m": name, "k": rank, "c": count}
        for name in methods
        for rank, count in sorted(item.counts[name].items())
    ]
    means = [{"m": name, "k": _six(float(ranks.mean[name]))} for name in methods]
    scale = {
        "domain": [1, max(2, last)],
        "padding": 16,
    }  # pixels: half of the largest circle, and the end of the axis
    ticks = list(range(1, last + 1)) if last <= 10 else [1, *range(5, last + 1, 5)]
    where = {
        "x": number(
            "k", title="rank (1 is best)", scale=scale, axis={"format": "d", "values": ticks}
        ),
        "y": text("m", title=None, sort=methods),
    }
    area = number("c", title="blocks", scale={"rangeMin": 12, "rangeMax": 420}, legend=None)
    told = tips(("m", "method"), ("k", "rank"), ("c", "blocks"))
    dots = {**where, "size": area, "color": named_colour("accent"), "tooltip": told}
    mean = {
        **where,
        "color": named_colour("ink"),
        "tooltip": tips(("m", "method"), ("k", "mean rank", ".3f")),
    }
    layers = [
        layer("circle", dots, data="spread", opacity=0.45),
        layer("tick", mean, data="means", thickness=2, size=20),
    ]
    listed = ", ".join(f"{name} {ranks.mean[name]:.2f}" for name in methods)
    return Figure(
        f"ranks-{item.set}-{item.rule}",
        f"Ranks by {HEADLINE.words} on {item.set}, selection {item.rule}",
        "The area of a circle is the number of blocks with that rank, the tick the mean rank."
        " Blocks are not independent.",
        f"Mean ranks over {ranks.blocks} blocks: {listed}.",
        chart(
            {"width": 460, "height": {"step": 28}, "layer": layers},
            {"spread": spread, "means": means},
        ),
        "bars",
        names=_room(methods),
    )


def time_bars(items: Sequence[Cost]) -> Figure | None:
    """Mean seconds of a run by method, divided by what they went on."""
    items = [item for item in items if item.shares]
    if not items:
        return None
    several = len({(item.data, item.model) for item in items}) > 1
    names = [
        f"{item.method} ({item.data}, {item.model})" if several else item.method for item in items
    ]
    data: Rows = [
        {"m": name, "l": _six(item.least), "h": _six(item.most), "n": item.runs}
        | {"p": title, "o": position, "a": _six(share * item.mean), "s": _six(share)}
        for name, item in zip(names, items, strict=True)
        for position, (part, title) in enumerate(PARTS.items())
        if (share := item.shares[part])
    ]
    told = (("m", "method"), ("p", "part"), ("a", "mean seconds", ".2f"), ("s", "share", ".1%"))
    whole = (("l", "least of a run", ".2f"), ("h", "most of a run", ".2f"), ("n", "runs"))
    parts = list(PARTS.values())
    present = [part for part in parts if any(row["p"] == part for row in data)]
    legend = {"orient": "top", "title": None, "columns": 4, "values": present}
    encoding = {
        "x": number("a", title="mean seconds a run", stack="zero"),
        "order": number("o"),
        "color": text("p", scale={"domain": parts, "range": "ordinal"}, legend=legend),
        "tooltip": tips(*told, *whole),
    }
    listed = [f"{name} {item.mean:.1f}" for name, item in zip(names[:12], items, strict=False)]
    return _bars(
        "time",
        "What the seconds of a run went on",
        "Means over the runs that are done; the quickest and the slowest are in the table.",
        f"Stacked bars of mean seconds a run, by what they went on: {', '.join(listed)}.",
        encoding,
        data,
        names,
        width=460,
        step=26,
        height=14,
    )


def bars(title: str, item: Bars) -> Figure:
    """One exhibit: a bar a name, in its order, the first `BARS` of them."""
    names = list(item.values)[:BARS]
    data = [{"m": name, "a": _six(item.values[name])} for name in names]
    left_out = (
        f"The first {BARS} of {len(item.values)} are drawn." if len(item.values) > BARS else ""
    )
    told = tips(("m", "name"), ("a", item.unit, ".4g"))
    encoding = {"x": number("a", title=item.unit), "color": named_colour("accent"), "tooltip": told}
    caption = " ".join(filter(None, (item.caption, left_out)))
    listed = ", ".join(f"{row['m']} {row['a']:.3g}" for row in data[:12])
    return _bars(
        slug(title),
        title,
        caption,
        f"Bars: {listed}.",
        encoding,
        data,
        names,
        width=300,
        step=18,
        height=11,
    )


def _bars(
    name: str,
    title: str,
    caption: str,
    description: str,
    encoding: dict[str, Any],
    data: Rows,
    names: Sequence[str],
    width: int,
    step: int,
    height: int,
) -> Figure:
    encoding = {"y": text("m", title=None, sort=names, axis={"labelLimit": 220}), **encoding}
    view = {
        "width": width,
        "height": {"step": step},
        **layer("bar", encoding, data="rows", height=height),
    }
    return Figure(
        name, title, caption, description, chart(view, {"rows": data}), "bars", names=_room(names)
    )


# -- parts
# --------------------------------------------------------------------------------------------------


def _interval(summary: Summary, sign: str = "") -> str:
    alike = "one run, no interval" if summary.sd is None else "the same at every seed, no interval"
    return f"{summary.low:{sign}.3f} to {summary.high:{sign}.3f}" if summary.sd else alike


def _between(data: Rows, field: str, sign: str = "") -> str:
    values = [row[field] for row in data] or [0.0]
    return f"between {min(values):{sign}.3f} and {max(values):{sign}.3f}"


def _room(names: Sequence[str]) -> int:
    # About seven pixels a letter, cut where the axis cuts its labels.
    return 22 + min(150, 7 * max(map(len, names), default=0))


def _six(value: float) -> float:
    return round(value, 6)
