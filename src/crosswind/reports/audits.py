"""The picture of an audit: what is left of each measure, with its interval, beside the stated effect size.

As SVG, PDF or PNG it is the picture alone; as HTML a page of its own with the verdicts and the shares of all values.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, one_line
from crosswind.reports.drawing import Figure, filled, named_colour, number, save, template, text, tip
from crosswind.shifts.audit import KINDS, SIZES, AttributeAudit, Audit, Interval
from crosswind.shifts.audit.findings import audit_text

__all__ = ["PICTURES", "audit_figure", "audit_page", "panels", "write_audit"]

PICTURES = (".svg", ".pdf", ".png", ".html")
MOST_SHOWN = 60
"""Columns in a picture; those with verdicts other than "no shift" come first."""

_STATUSES = ("follows", "shift", "no shift", "cannot tell")  # in the order of the theme's colours: blue, orange, grey, violet
_TITLES = {
    KINDS[0]: "spurious correlation: V in training less in the target",
    KINDS[1]: "low-data drift: total variation",
    KINDS[2]: "unseen values: share of the target",
}


@lru_cache(maxsize=16)
def panels(order: tuple[str, ...]) -> dict[str, Any]:
    """A panel a kind: what is left (e, from l to h), by column c and status s; the raw measure r as a tick; data `d0` to `d2`.

    The parameters `size0` to `size2` are where the dashed lines stand.
    """
    made = []
    quiet = named_colour("quiet")
    told = [tip("c", "column"), tip("s", "verdict"), tip("e", "left", ".3f"), tip("i", "interval"), tip("r", "as measured", ".3f")]
    for place, title in enumerate(_TITLES.values()):
        first = place == 0
        y = text("c", title=None, sort=list(order), scale={"domain": list(order)}, axis={"labelLimit": 220} if first else None)
        x = number("e", title=title, axis={"tickCount": 5}, scale={"nice": True, "padding": 6})
        legend = {"orient": "top"} if first else None
        colour = text("s", title=None, scale={"domain": list(_STATUSES), "range": "category"}, legend=legend)
        shape = text("s", title=None, scale={"domain": list(_STATUSES)}, legend=legend)
        size = {"datum": {"expr": f"size{place}"}, "type": "quantitative"}
        marks: list[dict[str, Any]] = [
            {"mark": {"type": "rule", "strokeDash": [3, 3]}, "encoding": {"x": size, "color": quiet}},
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"x": {**x, "field": "l"}, "x2": {"field": "h"}, "y": y, "color": colour},
            },
            {"mark": {"type": "tick", "thickness": 2, "size": 12}, "encoding": {"x": {**x, "field": "r"}, "y": y, "color": quiet}},
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": told},
            },
        ]
        made.append({"data": {"name": f"d{place}"}, "width": 230, "height": {"step": 22}, "layer": marks})
    return template({"hconcat": made, "spacing": 16}, **{f"size{place}": SIZES[kind] for place, kind in enumerate(_TITLES)})


def audit_figure(audit: Audit) -> Figure:
    """The figure of an audit."""
    names = _names(audit)
    columns = sorted(audit.columns, key=lambda item: all(verdict.status == "no shift" for verdict in item.verdicts))[:MOST_SHOWN]
    columns = [item for item in audit.columns if item in columns]
    datasets: dict[str, list[dict[str, Any]]] = {}
    for place, kind in enumerate(_TITLES):
        datasets[f"d{place}"] = []
        for item in columns:
            kinds = {verdict.kind: verdict for verdict in item.verdicts}
            verdict = kinds.get(kind) or (kinds.get(KINDS[3]) if kind == KINDS[1] else None)
            if verdict is None or verdict.effect is None:
                continue
            found, raw = verdict.effect, _raw(item, kind)
            row = {"c": names[item.name], "s": verdict.status, "e": _six(found.value), "l": _six(found.low), "h": _six(found.high)}
            datasets[f"d{place}"].append(
                {**row, "i": f"{found.low:.3f} to {found.high:.3f}", "r": None if raw is None else _six(raw.value)}
            )
    told = "; ".join(f"{name}: {kind}" for name, kind in audit.shifts) or "no shift was found"
    return Figure(
        "audit",
        f"{audit.train_rows:,} training and {audit.target_rows:,} target rows",
        "Points: what is left when what follows from other shifts is taken out, with 95% intervals. Ticks: the difference as "
        "measured. Dashed: the stated effect size.",
        f"Three panels of effects by column. {one_line(told, 600)}.",
        filled(panels(tuple(names[item.name] for item in columns)), datasets),
        "step",
        3,
    )


def _names(audit: Audit) -> Mapping[str, str]:
    """The columns' names as they are drawn: short, and distinct."""
    out: dict[str, str] = {}
    for item in audit.columns:
        name = one_line(item.name, 40) + (" (label)" if item is audit.label else "")
        while name in out.values():
            name += "'"
        out[item.name] = name
    return out


def _raw(item: AttributeAudit, kind: str) -> Interval | None:
    return {KINDS[0]: item.v_difference, KINDS[1]: item.variation, KINDS[2]: item.unseen_share}[kind]


def _six(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def write_audit(audit: Audit, path: Path) -> None:
    """Draw an audit to a file whose name ends in one of `PICTURES`. Raises `InputError` for another name, `OSError`."""
    from crosswind.studies.artifacts import write_atomically

    form = path.suffix.lower()
    if form not in PICTURES:
        raise InputError("out", f"{str(path)!r} is no picture by its name", PICTURES)
    figure = audit_figure(audit)
    with tempfile.TemporaryDirectory() as folder:
        kind = "svg" if form == ".html" else form[1:]
        drawn = save(figure, Path(folder), [kind])[0].read_bytes()
    if form == ".html":
        drawn = audit_page(audit, drawn.decode()).encode("utf-8", "replace")
    write_atomically(path, drawn)


def audit_page(audit: Audit, picture: str) -> str:
    """A page of its own: the picture (SVG), the text of the audit, and the shares of all values."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        "<title>Audit</title><style>",
        "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1d2733;background:#fff}",
        "svg{max-width:100%;height:auto;overflow:visible}pre{overflow-x:auto;font-size:13px;white-space:pre-wrap}table{border-collapse:collapse}",
        "td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #dfe3e8}",
        "td:first-child,th:first-child{text-align:left}",
        "</style></head><body>",
        f"<h1>Which shifts lie between {audit.train_rows:,} training and {audit.target_rows:,} target rows</h1>",
        f'<figure role="img" aria-label="{escape(audit_figure(audit).description)}">{picture}</figure>',
        f"<p>{escape(audit_figure(audit).caption)}</p>",
        f"<pre>{escape(audit_text(audit))}</pre><h2>Shares of the values</h2>",
    ]
    for item in audit.columns:
        parts.append(f"<details><summary>{escape(one_line(item.name, 80))}</summary><table>")
        parts.append(
            "<tr><th>value</th><th>training rows</th><th>target rows</th><th>training</th><th>target</th><th>ratio</th></tr>"
        )
        for value in item.values:
            ratio = value.ratio
            told = "" if math.isnan(ratio.value) else f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
            cells = [
                f"{value.train_rows:,}",
                f"{value.target_rows:,}",
                f"{value.train_share:.1%}",
                f"{value.target_share:.1%}",
                told,
            ]
            row = "".join(f"<td>{escape(cell)}</td>" for cell in [one_line(value.name, 80), *cells])
            parts.append(f"<tr>{row}</tr>")
        parts.append("</table></details>")
    return "\n".join([*parts, "</body></html>", ""])
