"""The figures of a study, one function each. Altair is imported when the first one is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crosswind.reports.drawing import Figure, altair, either, finished, named_colour, on_ramp, tip
from crosswind.reports.gather import SetDraw, ShiftDraw
from crosswind.reports.overviews import Cost, Ranking
from crosswind.reports.results import ORACLES, Place, Results
from crosswind.reports.tables import LEVEL

__all__ = ["change_map", "cost_bars", "draw_map", "rank_dots", "rule_dots", "seed_strips", "worst_map"]


def draw_map(draw: ShiftDraw, shown: SetDraw, most: float, title: str = "") -> Figure:
    """Rows of label x attribute that the shift planned by its weights and that the run got, one row of panels an attribute.

    `shown` is the set of the draw that is shown, under `title` (without one it is the training set, under the shift's name); `most`
    is the number of rows at the end of the colour scale, shared by the shifts that stand side by side.
    """
    alt = altair()
    rows = []
    for attribute, cells in shown.tables.items():
        labels, values = (list(dict.fromkeys(getattr(cell, name) for cell in cells)) for name in ("label", "value"))
        if draw.test is not None and attribute in draw.test.tables:
            # The test set reaches cells that training does not: an empty column is what an unseen value looks like.
            held = draw.test.tables[attribute]
            labels = list(dict.fromkeys([*(cell.label for cell in held), *labels]))
            values = list(dict.fromkeys([*(cell.value for cell in held), *values]))
        by_pair = {(cell.label, cell.value): cell for cell in cells}
        step = 24 if len(values) <= 8 else max(5, 200 // len(values))
        tall = 18 if len(labels) <= 12 else max(5, 220 // len(labels))
        panels = []
        for side, heading in (("p", "planned"), ("r", "realised")):
            data = []
            for label in labels:
                for value in values:
                    cell = by_pair.get((label, value))
                    planned, realised = (cell.planned, cell.realised) if cell else (0.0, 0)
                    data.append({"l": label, "v": value, "p": planned, "r": realised})
            tips = [tip("l", draw.label), tip("v", attribute), tip("p", "planned rows"), tip("r", "realised rows")]
            base = alt.Chart(alt.Data(values=data)).encode(
                x=alt.X(
                    "v:N", sort=values, title=attribute, axis=alt.Axis(labelAngle=-40 if len(values) > 1 else 0, labelLimit=60)
                ),
                y=alt.Y("l:N", sort=labels, title=draw.label if side == "p" else None, axis=alt.Axis() if side == "p" else None),
                tooltip=tips,
            )
            colour = alt.Color(f"{side}:Q", scale=alt.Scale(domain=[0, most], range="ramp"), legend=None)
            panel = base.mark_rect(stroke=None).encode(color=colour)
            if step >= 18 and tall >= 14:
                size = 10 if most < 100 else 8
                text = base.mark_text(fontSize=size).encode(
                    text=alt.Text(f"{side}:Q", format=".3~s" if most >= 1000 else ".2~g" if side == "p" and most < 100 else ".0f"),
                    color=on_ramp(f"datum.{side} > {0.55 * most}"),
                    opacity=either(f"datum.{side} == 0", 0.45, 1),
                )
                panel = panel + text
            panels.append(panel.properties(width={"step": step}, height={"step": tall}, title=heading))
        rows.append(alt.hconcat(*panels, spacing=10))
    chart = alt.vconcat(*rows, spacing=14)
    where = ", ".join(part for part in (draw.data, draw.size and f"size {draw.size}") if part)
    names = ", ".join(shown.tables)
    told = f"{shown.rows} rows"
    if shown.supplement_rows:
        told += f", {shown.supplement_rows} of them from a supplement"
    if shown.short_cells:
        told += f"; {shown.short_cells} cells had fewer rows than asked"
    kind = title or "training rows"
    return Figure(
        f"{'test' if title else 'shift'}-{draw.data}-{draw.size}-{title or draw.shift}",
        title or draw.shift,
        f"{told}. Seed {draw.seed}.",
        f"Heat maps of {kind} by {draw.label} and {names}, {draw.shift if not title else 'every shift'} ({where}): planned by the "
        f"weights beside realised. {told}.",
        finished(chart),
        "step",
    )


def change_map(found: Results, place: Place, reference: str) -> Figure | None:
    """Method x shift: change of accuracy against the reference, paired by seed; a frame where the interval excludes 0."""
    alt = altair()
    shifts = found.shifts(place)
    methods = [method for method in found.methods(place, reference) if method != reference]
    data: list[dict[str, Any]] = []
    for method in methods:
        for shift in shifts:
            entry, base = found.at(place).get((shift, method)), found.at(place).get((shift, reference))
            difference = entry.difference(base, "accuracy", LEVEL) if entry and base else None
            if entry is None or base is None or difference is None:
                continue
            own, other = entry.summary("accuracy"), base.summary("accuracy")
            wide = "one seed, no interval"
            if difference.low is not None and difference.high is not None:
                wide = f"{difference.low:+.3f} to {difference.high:+.3f}"
            data.append(
                {
                    "m": method,
                    "s": shift,
                    "d": _six(difference.mean),
                    "i": wide,
                    "n": difference.n,
                    "a": _six(own.mean) if own else None,
                    "b": _six(other.mean) if other else None,
                    "x": difference.excludes_zero,
                    "t": f"{difference.mean:+.3f}" + (" *" if difference.excludes_zero else ""),
                }
            )
    if not data:
        return None
    most = max(max(abs(item["d"]) for item in data), 0.05)
    tips = [tip("m", "method"), tip("s", "shift"), tip("d", f"change against {reference}", "+.3f"), tip("i", "95% interval")]
    tips += [tip("n", "seeds"), tip("a", "accuracy", ".3f"), tip("b", f"accuracy of {reference}", ".3f")]
    chart = _grid(
        data,
        shifts,
        methods,
        tips,
        alt.Scale(domain=[-most, most], range="diverging"),
        f"datum.x && abs(datum.d) > {most * 0.6}",
        "datum.x",
    )
    return Figure(
        _named("change", place),
        f"Change of accuracy against {reference} on {place.set}",
        f"Blue is above {reference}, orange below, paired by seed. A framed cell (*) has a 95% interval that excludes 0, each judged "
        "for itself; in a pale cell the interval holds 0, or there is no interval, and the seeds do not settle the direction.",
        f"Heat map of {len(methods)} methods and {len(shifts)} shifts: mean change of accuracy against {reference}, between "
        f"{min(item['d'] for item in data):+.3f} and {max(item['d'] for item in data):+.3f}; "
        f"{sum(item['x'] for item in data)} of {len(data)} intervals exclude 0.",
        chart,
        "grid",
        len(shifts),
        _room(methods),
    )


def worst_map(found: Results, place: Place, reference: str) -> Figure | None:
    """Method x shift: mean over seeds of the lowest accuracy of any group."""
    alt = altair()
    shifts, methods = found.shifts(place), found.methods(place, reference)
    data: list[dict[str, Any]] = []
    for method in methods:
        for shift in shifts:
            entry = found.at(place).get((shift, method))
            summary = entry.summary("worst_group", LEVEL) if entry else None
            if entry is None or summary is None:
                continue
            names = sorted(
                {str(item["worst_group_name"]) for item in entry.metrics.values() if item.get("worst_group") is not None}
            )
            wide = "one seed, no interval" if summary.low is None else f"{summary.low:.3f} to {summary.high:.3f}"
            shown = "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            data.append(
                {
                    "m": method,
                    "s": shift,
                    "d": _six(summary.mean),
                    "i": wide,
                    "n": summary.n,
                    "g": shown,
                    "t": f"{summary.mean:.3f}",
                }
            )
    if not data:
        return None
    tips = [tip("m", "method"), tip("s", "shift"), tip("d", "worst group", ".3f"), tip("i", "95% interval"), tip("n", "seeds")]
    tips.append(tip("g", "lowest in some seed"))
    chart = _grid(data, shifts, methods, tips, alt.Scale(domain=[0, 1], range="ramp"), "datum.d > 0.6", "true")
    return Figure(
        _named("worst-group", place),
        f"Worst group accuracy on {place.set}",
        "Mean over seeds of the lowest accuracy of any group; which group that is may differ between seeds. Of small groups the "
        "lowest is low by chance alone: the table gives their rows.",
        f"Heat map of {len(methods)} methods and {len(shifts)} shifts: worst group accuracy, between "
        f"{min(item['d'] for item in data):.3f} and {max(item['d'] for item in data):.3f}.",
        chart,
        "grid",
        len(shifts),
        _room(methods),
    )


def seed_strips(found: Results, place: Place, reference: str) -> Figure | None:
    """Accuracy of every seed as a point, the mean as a tick, one panel a shift; the line is the mean of the reference."""
    alt = altair()
    shifts, methods = found.shifts(place), found.methods(place, reference)
    data: list[dict[str, Any]] = []
    for shift in shifts:
        for method in methods:
            entry = found.at(place).get((shift, method))
            values = entry.values("accuracy") if entry else {}
            data += [
                {"s": shift, "m": method, "k": seed, "a": _six(value), "r": method == reference} for seed, value in values.items()
            ]
    if not data:
        return None
    base = alt.Chart()
    y = alt.Y("m:N", sort=methods, title=None)
    x = alt.X(
        "a:Q", title=f"accuracy on {place.set}", scale=alt.Scale(zero=False, nice=True, padding=6), axis=alt.Axis(tickCount=4)
    )
    rule = base.transform_filter("datum.r").mark_rule(strokeDash=[3, 3]).encode(x="mean(a):Q", color=named_colour("quiet"))
    points = base.mark_circle(size=42, opacity=0.6).encode(
        x=x,
        y=y,
        color=named_colour("accent"),
        tooltip=[tip("m", "method"), tip("s", "shift"), tip("k", "seed"), tip("a", "accuracy", ".3f")],
    )
    ticks = base.mark_tick(thickness=2, size=13).encode(
        x="mean(a):Q",
        y=y,
        color=named_colour("ink"),
        tooltip=[tip("m", "method"), tip("s", "shift"), tip("mean(a)", "mean", ".3f")],
    )
    chart = _facets(rule + points + ticks, data, shifts, 17)
    return Figure(
        _named("seeds", place),
        f"Accuracy of every seed on {place.set}",
        f"A point is one seed, the tick the mean over seeds, the dashed line the mean of {reference}.",
        f"Strip plots of accuracy, {len(methods)} methods under {len(shifts)} shifts, {len(data)} runs, between "
        f"{min(item['a'] for item in data):.3f} and {max(item['a'] for item in data):.3f}.",
        chart,
        "wrap",
        len(shifts),
        _room(methods),
    )


def rule_dots(found: Results, places: Sequence[Place], reference: str) -> Figure | None:
    """Mean accuracy by selection rule, one panel a shift. `places` are one place under several rules."""
    alt = altair()
    if len(places) < 2:
        return None
    place = places[0]
    shifts, methods = found.shifts(place), found.methods(place, reference)
    names = [f"{other.rule}{' (ORACLE)' if other.rule in ORACLES else ''}" for other in places]
    data: list[dict[str, Any]] = []
    for other, name in zip(places, names, strict=True):
        for (shift, method), entry in found.at(other).items():
            summary = entry.summary("accuracy", LEVEL)
            if summary is not None:
                wide = "one seed, no interval" if summary.low is None else f"{summary.low:.3f} to {summary.high:.3f}"
                data.append({"s": shift, "m": method, "u": name, "a": _six(summary.mean), "i": wide, "n": summary.n})
    if not data:
        return None
    colour = alt.Color("u:N", sort=names, title="rule", scale=alt.Scale(domain=names), legend=alt.Legend(orient="top"))
    tips = [tip("m", "method"), tip("s", "shift"), tip("u", "rule"), tip("a", "mean accuracy", ".3f")]
    points = (
        alt.Chart()
        .mark_point(filled=True, size=60, opacity=0.85)
        .encode(
            x=alt.X("a:Q", title=f"accuracy on {place.set}", scale=alt.Scale(zero=False, padding=6), axis=alt.Axis(tickCount=4)),
            y=alt.Y("m:N", sort=methods, title=None),
            color=colour,
            shape=alt.Shape("u:N", sort=names, scale=alt.Scale(domain=names), title="rule"),
            tooltip=[*tips, tip("i", "95% interval"), tip("n", "seeds")],
        )
    )
    return Figure(
        _named("rules", place._replace(rule="")),
        f"Selection rules side by side on {place.set}",
        "Mean accuracy over seeds, by the rule that chooses the step. The intervals are in the table and on hover.",
        f"Dot plots of mean accuracy by selection rule ({', '.join(names)}), {len(methods)} methods under {len(shifts)} shifts.",
        _facets(points, data, shifts, 20),
        "wrap",
        len(shifts),
        _room(methods),
    )


def rank_dots(item: Ranking) -> Figure:
    """How often each method had which rank, and its mean rank."""
    alt = altair()
    methods = [name for name, _ in sorted(item.ranks.mean.items(), key=lambda pair: pair[1])]
    spread = [{"m": name, "k": rank, "c": count} for name in methods for rank, count in sorted(item.counts[name].items())]
    means = [{"m": name, "k": _six(float(item.ranks.mean[name]))} for name in methods]
    y = alt.Y("m:N", sort=methods, title=None)
    x = alt.X(
        "k:Q", title="rank (1 is best)", scale=alt.Scale(domain=[0.7, len(methods) + 0.3]), axis=alt.Axis(format="d", tickMinStep=1)
    )
    size = alt.Size("c:Q", title="blocks", scale=alt.Scale(rangeMin=12, rangeMax=420), legend=None)
    dots = (
        alt.Chart(alt.Data(values=spread))
        .mark_circle(opacity=0.45)
        .encode(
            x=x, y=y, size=size, color=named_colour("accent"), tooltip=[tip("m", "method"), tip("k", "rank"), tip("c", "blocks")]
        )
    )
    ticks = (
        alt.Chart(alt.Data(values=means))
        .mark_tick(thickness=2, size=20)
        .encode(x=x, y=y, color=named_colour("ink"), tooltip=[tip("m", "method"), tip("k", "mean rank", ".3f")])
    )
    chart = (dots + ticks).properties(width=460, height={"step": 28})
    return Figure(
        f"ranks-{item.set}-{item.rule}",
        f"Ranks by accuracy on {item.set}, selection {item.rule}",
        "The area of a circle is the number of blocks with that rank, the tick the mean rank. Blocks are not independent.",
        f"Mean ranks over {item.ranks.blocks} blocks: "
        + ", ".join(f"{name} {item.ranks.mean[name]:.2f}" for name in methods)
        + ".",
        finished(chart),
        "bars",
        names=_room(methods),
    )


def cost_bars(items: Sequence[Cost]) -> Figure | None:
    """Seconds of a run by method: the mean, and from the least to the most."""
    alt = altair()
    if not items:
        return None
    several = len({(item.data, item.model) for item in items}) > 1
    data: list[dict[str, Any]] = []
    for item in items:
        name = f"{item.method} ({item.data}, {item.model})" if several else item.method
        data.append({"m": name, "a": _six(item.mean), "l": _six(item.least), "h": _six(item.most), "n": item.runs})
    order = [item["m"] for item in data]
    base = alt.Chart(alt.Data(values=data))
    y = alt.Y("m:N", sort=order, title=None, axis=alt.Axis(labelLimit=220))
    tips = [
        tip("m", "method"),
        tip("a", "mean seconds", ".2f"),
        tip("l", "least", ".2f"),
        tip("h", "most", ".2f"),
        tip("n", "runs"),
    ]
    bars = base.mark_bar(opacity=0.55, height=12).encode(
        x=alt.X("a:Q", title="seconds a run"), y=y, color=named_colour("accent"), tooltip=tips
    )
    lines = base.mark_rule(strokeWidth=2).encode(x="l:Q", x2="h:Q", y=y, color=named_colour("ink"), tooltip=tips)
    return Figure(
        "cost",
        "Seconds of a run",
        "The bar is the mean over runs, the line goes from the quickest to the slowest.",
        "Bars of mean seconds a run: " + ", ".join(f"{item['m']} {item['a']:.1f}" for item in data[:12]) + ".",
        finished((bars + lines).properties(width=460, height={"step": 24})),
        "bars",
        names=_room(order),
    )


# -- parts ---


def _grid(
    data: Sequence[Mapping[str, Any]],
    shifts: Sequence[str],
    methods: Sequence[str],
    tips: list[Any],
    scale: Any,
    deep: str,
    full: str,
) -> dict[str, Any]:
    alt = altair()
    top = alt.Axis(orient="top", labelAngle=0 if len(shifts) <= 8 else -40, labelLimit=90)
    base = alt.Chart(alt.Data(values=list(data))).encode(
        x=alt.X("s:N", sort=list(shifts), title=None, axis=top), y=alt.Y("m:N", sort=list(methods), title=None), tooltip=tips
    )
    fill = alt.Color("d:Q", scale=scale, legend=None)
    cells = base.mark_rect(cornerRadius=2).encode(color=fill, opacity=either(full, 1, 0.4))
    framed = (
        base.transform_filter("datum.x").mark_rect(filled=False, strokeWidth=2, cornerRadius=2).encode(stroke=named_colour("ink"))
    )
    text = base.mark_text(fontSize=12).encode(text="t:N", color=on_ramp(deep))
    step = 76 if len(shifts) <= 12 else 62
    return finished(alt.layer(cells, framed, text).properties(width={"step": step}, height={"step": 30}))


def _facets(layer: Any, data: Sequence[Mapping[str, Any]], shifts: Sequence[str], step: int) -> dict[str, Any]:
    alt = altair()
    facet = alt.Facet("s:N", sort=list(shifts), title=None, header=alt.Header(labelAnchor="start", labelOrient="top"))
    chart = layer.properties(width=190, height={"step": step}).facet(facet=facet, columns=3, data=alt.Data(values=list(data)))
    return finished(chart)


def _room(names: Sequence[str]) -> int:
    # About seven pixels a letter, cut where the axis cuts its labels.
    return 22 + min(150, 7 * max((len(name) for name in names), default=0))


def _six(value: float) -> float:
    return round(value, 6)


def _named(what: str, place: Place) -> str:
    return "-".join(part for part in (what, place.study, place.data, place.size, place.model, place.set, place.rule) if part)
