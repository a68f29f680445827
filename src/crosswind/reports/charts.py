"""The charts that figures are made of, as specifications without data. Altair is imported when the first one is made.

Altair takes tens of milliseconds for a chart and copies data at every step; figures of a large study differ in their numbers only.
So a chart is made once for its names and kept, and `drawing.filled` puts the numbers in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from crosswind.reports.drawing import altair, either, named_colour, on_ramp, template, tip

__all__ = ["bars", "grid", "panels", "rank_circles", "rule_points", "strips"]

Names = tuple[str, ...]


@lru_cache(maxsize=64)
def panels(label: str, shapes: tuple[tuple[str, Names, Names], ...], size: str) -> dict[str, Any]:
    """Heat maps of rows, planned beside realised, a row a shape (attribute, values of the label, its own values).

    The shape of number i reads the data `d`i with l, v, p, r; `size` ("small", "medium", "large") is how large the numbers get, the
    parameter `most` the end of the colour scale.
    """
    alt = altair()
    rows = []
    for number, (attribute, labels, values) in enumerate(shapes):
        step = 24 if len(values) <= 8 else max(5, 200 // len(values))
        tall = 18 if len(labels) <= 12 else max(5, 220 // len(labels))
        slanted = alt.Axis(labelAngle=-40 if len(values) > 1 else 0, labelLimit=60)
        tips = [tip("l", label), tip("v", attribute), tip("p", "planned rows"), tip("r", "realised rows")]
        pair = []
        for side, heading in (("p", "planned"), ("r", "realised")):
            first = side == "p"
            base = alt.Chart(alt.NamedData(name=f"d{number}")).encode(
                x=alt.X("v:N", sort=list(values), title=attribute, axis=slanted),
                y=alt.Y("l:N", sort=list(labels), title=label if first else None, axis=alt.Axis() if first else None),
                tooltip=tips,
            )
            colour = alt.Color(f"{side}:Q", scale=alt.Scale(domain=alt.ExprRef("[0, most]"), range="ramp"), legend=None)
            panel = base.mark_rect(stroke=None).encode(color=colour)
            if step >= 18 and tall >= 14:
                form = ".3~s" if size == "large" else ".2~g" if first and size == "small" else ".0f"
                text = base.mark_text(fontSize=10 if size == "small" else 8).encode(
                    text=alt.Text(f"{side}:Q", format=form),
                    color=on_ramp(f"datum.{side} > 0.55 * most"),
                    opacity=either(f"datum.{side} == 0", 0.45, 1),
                )
                panel = panel + text
            pair.append(panel.properties(width={"step": step}, height={"step": tall}, title=heading))
        rows.append(alt.hconcat(*pair, spacing=10))
    return template(alt.vconcat(*rows, spacing=14), most=1.0)


@lru_cache(maxsize=64)
def grid(shifts: Names, methods: Names, tips: tuple[tuple[str, str, str], ...], diverging: bool) -> dict[str, Any]:
    """Method x shift by colour of d with the text t; framed where x, and pale without it if `diverging`. Parameter `most`."""
    alt = altair()
    top = alt.Axis(orient="top", labelAngle=0 if len(shifts) <= 8 else -40, labelLimit=90)
    told = [tip("m", "method"), tip("s", "shift"), *(tip(field, title, form or None) for field, title, form in tips)]
    base = alt.Chart(alt.NamedData(name="rows")).encode(
        x=alt.X("s:N", sort=list(shifts), title=None, axis=top), y=alt.Y("m:N", sort=list(methods), title=None), tooltip=told
    )
    domain = alt.ExprRef("[-most, most]" if diverging else "[0, most]")
    fill = alt.Color("d:Q", scale=alt.Scale(domain=domain, range="diverging" if diverging else "ramp"), legend=None)
    cells = base.mark_rect(cornerRadius=2).encode(color=fill, opacity=either("datum.x" if diverging else "true", 1, 0.4))
    frames = base.transform_filter("datum.x").mark_rect(filled=False, strokeWidth=2, cornerRadius=2)
    deep = "datum.x && abs(datum.d) > 0.6 * most" if diverging else "datum.d > 0.6 * most"
    text = base.mark_text(fontSize=12).encode(text="t:N", color=on_ramp(deep))
    layers = alt.layer(cells, frames.encode(stroke=named_colour("ink")), text)
    step = 76 if len(shifts) <= 12 else 62
    return template(layers.properties(width={"step": step}, height={"step": 30}), most=1.0)


@lru_cache(maxsize=64)
def strips(shifts: Names, methods: Names, title: str) -> dict[str, Any]:
    """Points a of every seed k by method m, a panel a shift s, with means; parameter `reference`, the method of the dashed line."""
    alt = altair()
    base = alt.Chart()
    y = alt.Y("m:N", sort=list(methods), title=None)
    x = alt.X("a:Q", title=title, scale=alt.Scale(zero=False, nice=True, padding=6), axis=alt.Axis(tickCount=4))
    told = [tip("m", "method"), tip("s", "shift")]
    rule = base.transform_filter("datum.m === reference").mark_rule(strokeDash=[3, 3])
    points = base.mark_circle(size=42, opacity=0.6).encode(
        x=x, y=y, color=named_colour("accent"), tooltip=[*told, tip("k", "seed"), tip("a", "accuracy", ".3f")]
    )
    ticks = base.mark_tick(thickness=2, size=13).encode(
        x="mean(a):Q", y=y, color=named_colour("ink"), tooltip=[*told, tip("mean(a)", "mean", ".3f")]
    )
    layers = rule.encode(x="mean(a):Q", color=named_colour("quiet")) + points + ticks
    return template(_facets(layers, shifts, 17), reference="")


@lru_cache(maxsize=64)
def rule_points(shifts: Names, methods: Names, rules: Names, title: str) -> dict[str, Any]:
    """Mean a by method m, colour and shape by rule u, a panel a shift s."""
    alt = altair()
    scale = alt.Scale(domain=list(rules))
    told = [tip("m", "method"), tip("s", "shift"), tip("u", "rule"), tip("a", "mean accuracy", ".3f")]
    points = (
        alt.Chart()
        .mark_point(filled=True, size=60, opacity=0.85)
        .encode(
            x=alt.X("a:Q", title=title, scale=alt.Scale(zero=False, padding=6), axis=alt.Axis(tickCount=4)),
            y=alt.Y("m:N", sort=list(methods), title=None),
            color=alt.Color("u:N", sort=list(rules), title="rule", scale=scale, legend=alt.Legend(orient="top")),
            shape=alt.Shape("u:N", sort=list(rules), title="rule", scale=scale),
            tooltip=[*told, tip("i", "95% interval"), tip("n", "seeds")],
        )
    )
    return template(_facets(points, shifts, 20))


def rank_circles(methods: Names) -> dict[str, Any]:
    """Blocks c by rank k and method m (data `spread`), mean ranks as ticks (data `means`)."""
    alt = altair()
    y = alt.Y("m:N", sort=list(methods), title=None)
    x = alt.X(
        "k:Q", title="rank (1 is best)", scale=alt.Scale(domain=[0.7, len(methods) + 0.3]), axis=alt.Axis(format="d", tickMinStep=1)
    )
    size = alt.Size("c:Q", title="blocks", scale=alt.Scale(rangeMin=12, rangeMax=420), legend=None)
    dots = (
        alt.Chart(alt.NamedData(name="spread"))
        .mark_circle(opacity=0.45)
        .encode(
            x=x, y=y, size=size, color=named_colour("accent"), tooltip=[tip("m", "method"), tip("k", "rank"), tip("c", "blocks")]
        )
    )
    ticks = (
        alt.Chart(alt.NamedData(name="means"))
        .mark_tick(thickness=2, size=20)
        .encode(x=x, y=y, color=named_colour("ink"), tooltip=[tip("m", "method"), tip("k", "mean rank", ".3f")])
    )
    chart = (dots + ticks).properties(width=460, height={"step": 28})
    return template(chart)


def bars(order: Names) -> dict[str, Any]:
    """Mean a as bars by m, a line from l to h."""
    alt = altair()
    base = alt.Chart(alt.NamedData(name="rows"))
    y = alt.Y("m:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=220))
    tips = [
        tip("m", "method"),
        tip("a", "mean seconds", ".2f"),
        tip("l", "least", ".2f"),
        tip("h", "most", ".2f"),
        tip("n", "runs"),
    ]
    means = base.mark_bar(opacity=0.55, height=12).encode(
        x=alt.X("a:Q", title="seconds a run"), y=y, color=named_colour("accent"), tooltip=tips
    )
    lines = base.mark_rule(strokeWidth=2).encode(x="l:Q", x2="h:Q", y=y, color=named_colour("ink"), tooltip=tips)
    return template((means + lines).properties(width=460, height={"step": 24}))


def _facets(layer: Any, shifts: Names, step: int) -> Any:
    alt = altair()
    facet = alt.Facet("s:N", sort=list(shifts), title=None, header=alt.Header(labelAnchor="start", labelOrient="top"))
    return layer.properties(width=190, height={"step": step}).facet(facet=facet, columns=3, data=alt.NamedData(name="rows"))
