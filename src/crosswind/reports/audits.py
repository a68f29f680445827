"""The picture of an audit: what is left of each measure, with its interval, beside the stated
effect size.

As SVG, PDF or PNG it is the picture alone; as HTML a page of its own with the verdicts and the
shares of all values.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, one_line
from crosswind.core.printing import utf8
from crosswind.reports.charts import (
    Figure,
    chart,
    layer,
    named_colour,
    number,
    save,
    templates,
    text,
    tips,
)
from crosswind.reports.tables import distinct
from crosswind.shifts.audit import KINDS, SIZES, AttributeAudit, Audit
from crosswind.shifts.audit.findings import audit_text

PICTURES = (".svg", ".pdf", ".png", ".html")
MOST_SHOWN = 60
"""Columns in a picture; those with verdicts other than "no shift" come first."""

# In the order of the theme's colours: blue, orange, grey, violet.
_STATUSES = ["follows", "shift", "no shift", "cannot tell"]
_PANELS = (
    (KINDS[0], "spurious correlation: V in training less in the target", "v_difference"),
    (KINDS[1], "low-data drift: total variation", "variation"),
    (KINDS[2], "unseen values: share of the target", "unseen_share"),
)


def audit_figure(audit: Audit) -> Figure:
    """The figure of an audit: a panel a kind of shift.

    What is left (e, from l to h) by column c and status s, the raw measure r as a tick; the dashed
    line is the stated effect size.
    """
    first_columns = sorted(audit.columns, key=_has_no_shift)[:MOST_SHOWN]
    columns = [column_audit for column_audit in audit.columns if column_audit in first_columns]
    names = distinct(_column_name(audit, column_audit) for column_audit in columns)
    datasets: dict[str, list[dict[str, Any]]] = {}
    for position, (kind, _, raw) in enumerate(_PANELS):
        rows = [
            _row(column_audit, name, kind, raw)
            for column_audit, name in zip(columns, names, strict=True)
        ]
        datasets[f"d{position}"] = [row for row in rows if row is not None]
    panels = [_panel(position, title, names) for position, (_, title, _) in enumerate(_PANELS)]
    shifts = "; ".join(f"{name}: {kind}" for name, kind in audit.shifts) or "no shift was found"
    sizes = {f"size{position}": SIZES[kind] for position, (kind, _, _) in enumerate(_PANELS)}
    caption = (
        "Points: what is left when what follows from other shifts is taken out, with 95% intervals."
        " Ticks: the difference as measured. Dashed: the stated effect size."
    )
    return Figure(
        "audit",
        f"{audit.train_rows:,} training and {audit.target_rows:,} target rows",
        caption,
        f"Three panels of effects by column. {one_line(shifts, 600)}.",
        chart({"hconcat": panels, "spacing": 16}, datasets, **sizes),
        "step",
        3,
    )


def _has_no_shift(column_audit: AttributeAudit) -> bool:
    """Whether every verdict on a column is that there is no shift."""
    return all(verdict.status == "no shift" for verdict in column_audit.verdicts)


def _column_name(audit: Audit, column_audit: AttributeAudit) -> str:
    name = one_line(column_audit.name, 40)
    return f"{name} (label)" if column_audit is audit.label else name


def _row(column_audit: AttributeAudit, name: str, kind: str, raw: str) -> dict[str, Any] | None:
    kinds = {verdict.kind: verdict for verdict in column_audit.verdicts}
    verdict = kinds.get(kind) or (kinds.get(KINDS[3]) if kind == KINDS[1] else None)
    if verdict is None or verdict.effect is None:
        return None
    left, measured = verdict.effect, getattr(column_audit, raw)
    low, high = left.low, left.high
    return {
        "c": name,
        "s": verdict.status,
        "e": _six(left.value),
        "l": _six(low),
        "h": _six(high),
        "i": f"{low:.3f} to {high:.3f}",
        "r": None if measured is None else _six(measured.value),
    }


def _panel(position: int, title: str, names: list[str]) -> dict[str, Any]:
    legend, axis = ({"orient": "top"}, {"labelLimit": 220}) if position == 0 else (None, None)
    y = text("c", title=None, sort=names, scale={"domain": names}, axis=axis)
    x = number("e", title=title, axis={"tickCount": 5}, scale={"nice": True, "padding": 6})
    colour = text("s", title=None, scale={"domain": _STATUSES, "range": "category"}, legend=legend)
    shape = text("s", title=None, scale={"domain": _STATUSES}, legend=legend)
    size = {"datum": {"expr": f"size{position}"}, "type": "quantitative"}
    tooltip = tips(
        ("c", "column"),
        ("s", "verdict"),
        ("e", "left", ".3f"),
        ("i", "interval"),
        ("r", "as measured", ".3f"),
    )
    point = {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": tooltip}
    interval = {"x": {**x, "field": "l"}, "x2": {"field": "h"}, "y": y, "color": colour}
    measured = {"x": {**x, "field": "r"}, "y": y, "color": named_colour("quiet")}
    effect_size = {"x": size, "color": named_colour("quiet")}
    layers = [
        layer("rule", effect_size, strokeDash=[3, 3]),
        layer("rule", interval, strokeWidth=2),
        layer("tick", measured, thickness=2, size=12),
        layer("point", point, filled=True, size=70, opacity=1),
    ]
    return {"data": {"name": f"d{position}"}, "width": 230, "height": {"step": 22}, "layer": layers}


def _six(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def write_audit(audit: Audit, path: Path) -> None:
    """Draw an audit to a file whose name ends in one of `PICTURES`. Raises `InputError` for another
    name, `OSError`."""
    from crosswind.core.files import write_atomically

    form = path.suffix.lower()
    if form not in PICTURES:
        raise InputError("out", f"{str(path)!r} is no picture by its name", PICTURES)
    is_page = form == ".html"
    with tempfile.TemporaryDirectory() as folder:
        (picture,) = save(audit_figure(audit), Path(folder), ["svg" if is_page else form[1:]])
        drawn = picture.read_bytes()
    write_atomically(path, utf8(audit_page(audit, drawn.decode())) if is_page else drawn)


def audit_page(audit: Audit, picture: str) -> str:
    """A page of its own: the picture (SVG), the text of the audit, and the shares of all values."""
    from markupsafe import Markup

    columns = [
        (one_line(column_audit.name, 80), [_cells(value) for value in column_audit.values])
        for column_audit in audit.columns
    ]
    template = templates().get_template("audit.html.j2")
    return template.render(
        figure=audit_figure(audit), picture=Markup(picture), text=audit_text(audit), columns=columns
    )


def _cells(value: Any) -> list[str]:
    ratio = value.ratio
    ratio_words = f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
    if math.isnan(ratio.value):
        ratio_words = ""
    rows = f"{value.train_rows:,}", f"{value.target_rows:,}"
    shares = f"{value.train_share:.1%}", f"{value.target_share:.1%}"
    return [one_line(value.name, 80), *rows, *shares, ratio_words]
