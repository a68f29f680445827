"""The charts that figures are made of: Vega-Lite specifications without data, written out as they are read.

Figures of a large study differ in their numbers only, so a chart of the same names is made once, and `drawing.filled` puts the
numbers in. Nothing may change a chart that was handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from crosswind.reports.drawing import either, named_colour, number, on_ramp, template, text, tip

__all__ = ["grid", "panels", "rank_circles", "rule_points", "stacks", "strips"]

Names = tuple[str, ...]


@lru_cache(maxsize=64)
def panels(label: str, shapes: tuple[tuple[str, Names, Names], ...], size: str) -> dict[str, Any]:
    """Heat maps of rows, planned beside realised, a row a shape (attribute, values of the label, its own values).

    The shape of number i reads the data `d`i with l, v, p, r; `size` ("small", "medium", "large") is how large the numbers get, the
    parameter `most` the end of the colour scale.
    """
    rows = []
    for place, (attribute, labels, values) in enumerate(shapes):
        step = 24 if len(values) <= 8 else max(5, 200 // len(values))
        tall = 18 if len(labels) <= 12 else max(5, 220 // len(labels))
        slanted = {"labelAngle": -40 if len(values) > 1 else 0, "labelLimit": 60}
        tips = [tip("l", label), tip("v", attribute), tip("p", "planned rows"), tip("r", "realised rows")]
        pair = []
        for side, heading in (("p", "planned"), ("r", "realised")):
            first = side == "p"
            where = {
                "x": text("v", title=attribute, sort=list(values), axis=slanted),
                "y": text("l", title=label if first else None, sort=list(labels), axis={} if first else None),
                "tooltip": tips,
            }
            scale = {"domain": {"expr": "[0, most]"}, "range": "ramp", "interpolate": "rgb"}
            cells = {
                "mark": {"type": "rect", "stroke": None},
                "encoding": {**where, "color": number(side, scale=scale, legend=None)},
            }
            layers = [cells]
            if step >= 18 and tall >= 14:
                form = ".3~s" if size == "large" else ".2~g" if first and size == "small" else ".0f"
                written = {
                    "text": number(side, format=form),
                    "color": on_ramp(f"datum.{side} > 0.55 * most"),
                    "opacity": either(f"datum.{side} == 0", 0.45, 1),
                }
                layers.append(
                    {"mark": {"type": "text", "fontSize": 10 if size == "small" else 8}, "encoding": {**where, **written}}
                )
            sizes = {"width": {"step": step}, "height": {"step": tall}}
            pair.append({"data": {"name": f"d{place}"}, "title": heading, **sizes, "layer": layers})
        rows.append({"hconcat": pair, "spacing": 10})
    return template({"vconcat": rows, "spacing": 14}, most=1.0)


@lru_cache(maxsize=64)
def grid(shifts: Names, methods: Names, tips: tuple[tuple[str, str, str], ...], diverging: bool) -> dict[str, Any]:
    """Method x shift by colour of d with the text t; framed where x, and pale without it if `diverging`. Parameter `most`."""
    top = {"orient": "top", "labelAngle": 0 if len(shifts) <= 8 else -40, "labelLimit": 90}
    where = {
        "x": text("s", title=None, sort=list(shifts), axis=top),
        "y": text("m", title=None, sort=list(methods)),
        "tooltip": [tip("m", "method"), tip("s", "shift"), *(tip(field, title, form or None) for field, title, form in tips)],
    }
    scale = {
        "domain": {"expr": "[-most, most]" if diverging else "[0, most]"},
        "range": "diverging" if diverging else "ramp",
        "interpolate": "rgb",  # between white and blue other ways lead past green, which stands for nothing
    }
    fill = {"color": number("d", scale=scale, legend=None), "opacity": either("datum.x" if diverging else "true", 1, 0.4)}
    frame = {"type": "rect", "filled": False, "strokeWidth": 2, "cornerRadius": 2}
    deep = "datum.x && abs(datum.d) > 0.6 * most" if diverging else "datum.d > 0.6 * most"
    layers = [
        {"mark": {"type": "rect", "cornerRadius": 2}, "encoding": {**where, **fill}},
        {"mark": frame, "transform": [{"filter": "datum.x"}], "encoding": {**where, "stroke": named_colour("ink")}},
        {"mark": {"type": "text", "fontSize": 12}, "encoding": {**where, "text": text("t"), "color": on_ramp(deep)}},
    ]
    sizes = {"width": {"step": 76 if len(shifts) <= 12 else 62}, "height": {"step": 30}}
    return template({"data": {"name": "rows"}, **sizes, "layer": layers}, most=1.0)


@lru_cache(maxsize=64)
def strips(shifts: Names, methods: Names, title: str) -> dict[str, Any]:
    """Points a of every seed k by method m, a panel a shift s, with means; parameter `reference`, the method of the dashed line."""
    y = text("m", title=None, sort=list(methods))
    x = number("a", title=title, scale={"zero": False, "nice": True, "padding": 6}, axis={"tickCount": 4})
    mean = number("a", aggregate="mean")
    told = [tip("m", "method"), tip("s", "shift")]
    rule = {
        "transform": [{"filter": "datum.m === reference"}],
        "mark": {"type": "rule", "strokeDash": [3, 3]},
        "encoding": {"x": mean, "color": named_colour("quiet")},
    }
    seeds = {"x": x, "y": y, "color": named_colour("accent"), "tooltip": [*told, tip("k", "seed"), tip("a", "accuracy", ".3f")]}
    average = {**tip("a", "mean", ".3f"), "aggregate": "mean"}
    means = {"x": mean, "y": y, "color": named_colour("ink"), "tooltip": [*told, average]}
    layers = [
        rule,
        {"mark": {"type": "circle", "size": 42, "opacity": 0.6}, "encoding": seeds},
        {"mark": {"type": "tick", "thickness": 2, "size": 13}, "encoding": means},
    ]
    return template(_facets({"layer": layers}, shifts, 17), reference="")


@lru_cache(maxsize=64)
def rule_points(shifts: Names, methods: Names, rules: Names, title: str) -> dict[str, Any]:
    """Mean a by method m, colour and shape by rule u, a panel a shift s."""
    rule = text("u", title="rule", sort=list(rules), scale={"domain": list(rules)})
    told = [tip("m", "method"), tip("s", "shift"), tip("u", "rule"), tip("a", "mean accuracy", ".3f")]
    encoding = {
        "x": number("a", title=title, scale={"zero": False, "padding": 6}, axis={"tickCount": 4}),
        "y": text("m", title=None, sort=list(methods)),
        "color": {**rule, "legend": {"orient": "top"}},
        "shape": rule,
        "tooltip": [*told, tip("i", "95% interval"), tip("n", "seeds")],
    }
    # Rules often choose the same step: side by side, so that none hides another.
    encoding["yOffset"] = text("u", sort=list(rules))
    points = {"mark": {"type": "point", "filled": True, "size": 45, "opacity": 0.85}, "encoding": encoding}
    return template(_facets(points, shifts, max(20, 8 + 7 * len(rules))))


@lru_cache(maxsize=64)
def rank_circles(methods: Names) -> dict[str, Any]:
    """Blocks c by rank k and method m (data `spread`), mean ranks as ticks (data `means`)."""
    scale = {"domain": [1, max(2, len(methods))], "padding": 16}  # pixels: half of the largest circle, and the end of the axis
    last = len(methods)
    ticks = list(range(1, last + 1)) if last <= 10 else [1, *range(5, last + 1, 5)]
    where = {
        "x": number("k", title="rank (1 is best)", scale=scale, axis={"format": "d", "values": ticks}),
        "y": text("m", title=None, sort=list(methods)),
    }
    dots = {
        **where,
        "size": number("c", title="blocks", scale={"rangeMin": 12, "rangeMax": 420}, legend=None),
        "color": named_colour("accent"),
        "tooltip": [tip("m", "method"), tip("k", "rank"), tip("c", "blocks")],
    }
    means = {**where, "color": named_colour("ink"), "tooltip": [tip("m", "method"), tip("k", "mean rank", ".3f")]}
    layers = [
        {"data": {"name": "spread"}, "mark": {"type": "circle", "opacity": 0.45}, "encoding": dots},
        {"data": {"name": "means"}, "mark": {"type": "tick", "thickness": 2, "size": 20}, "encoding": means},
    ]
    return template({"width": 460, "height": {"step": 28}, "layer": layers})


@lru_cache(maxsize=64)
def stacks(order: Names, domain: Names, words: Names) -> dict[str, Any]:
    """Mean seconds a by m, stacked by the part p in the order o, with the share s of them; least l, most h, runs n.

    `domain`: the parts that have a colour, in their order; `words`: those that there are.
    """
    legend = {"orient": "top", "title": None, "columns": 4, "values": list(words)}
    tips = [tip("m", "method"), tip("p", "part"), tip("a", "mean seconds", ".2f"), tip("s", "share", ".1%")]
    tips += [tip("l", "least of a run", ".2f"), tip("h", "most of a run", ".2f"), tip("n", "runs")]
    encoding = {
        "y": text("m", title=None, sort=list(order), axis={"labelLimit": 220}),
        "x": number("a", title="mean seconds a run", stack="zero"),
        "order": number("o"),
        "color": text("p", scale={"domain": list(domain), "range": "ordinal"}, legend=legend),
        "tooltip": tips,
    }
    bars = {"mark": {"type": "bar", "height": 14}, "encoding": encoding}
    return template({"data": {"name": "rows"}, "width": 460, "height": {"step": 26}, **bars})


def _facets(view: dict[str, Any], shifts: Sequence[str], step: int) -> dict[str, Any]:
    facet = text("s", title=None, sort=list(shifts), header={"labelAnchor": "start", "labelOrient": "top"})
    sizes = {"width": 190, "height": {"step": step, "for": "position"}}
    return {"data": {"name": "rows"}, "facet": facet, "columns": 3, "spec": {**view, **sizes}}
