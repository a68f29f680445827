"""What every figure shares: its description, colours for light and dark, and how it is written as SVG, PDF and PNG.

A description is a Vega-Lite specification with its data inside, so that one of them serves the page and the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crosswind.reports.bundle import VEGA_LITE

__all__ = [
    "FORMATS",
    "THEMES",
    "Figure",
    "either",
    "filled",
    "named_colour",
    "number",
    "on_ramp",
    "save",
    "template",
    "text",
    "tip",
    "unique_names",
]

FORMATS = ("svg", "pdf", "png")

_SCHEMA = f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE.partition('.')[0]}.json"
_FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', Arial, sans-serif"
_INK = {"light": "#1d2733", "dark": "#e6eaef"}
_QUIET = {"light": "#5a6673", "dark": "#a3aebb"}
_LINE = {"light": "#dfe3e8", "dark": "#37414d"}
# Blue and orange differ for every common kind of colour blindness; the middle is the page, so that no change looks like none.
_DIVERGING = {
    "light": ["#a4480a", "#e79a5b", "#f4f4f2", "#74a9d8", "#1b5a96"],
    "dark": ["#f2a35e", "#9c571c", "#262d36", "#2c659c", "#79b4ea"],
}
_RAMP = {"light": ["#f3f5f8", "#9fc3e3", "#3f80bd", "#12406f"], "dark": ["#262d36", "#2b5580", "#4a90cf", "#b5d9f8"]}
_CATEGORY = {"light": ["#1b5a96", "#c8620f", "#5d6b7a", "#7a4fa3"], "dark": ["#79b4ea", "#f2a35e", "#a3aebb", "#c09ce6"]}

# Of a whole, in the order of the stack; the last is what is not known. Neighbours differ in lightness too.
_PARTS = {
    "light": ["#e79a5b", "#1b5a96", "#b79ad3", "#7a3e0b", "#7fb3a6", "#5d6b7a", "#d5dae0"],
    "dark": ["#f2a35e", "#4a90cf", "#c09ce6", "#a35a17", "#8fd0c0", "#7d8a98", "#37414d"],
}


def _theme(mode: str) -> dict[str, Any]:
    ink, quiet, line = _INK[mode], _QUIET[mode], _LINE[mode]
    axis = {"labelColor": quiet, "titleColor": quiet, "domainColor": line, "tickColor": line, "gridColor": line}
    words = {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 150}
    ranges = {"diverging": _DIVERGING[mode], "ramp": _RAMP[mode], "heatmap": _RAMP[mode], "category": _CATEGORY[mode]}
    ranges["ordinal"] = _PARTS[mode]
    return {
        "background": "transparent" if mode == "dark" else "white",
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {**axis, **words},
        "legend": {"labelColor": quiet, "titleColor": quiet, **words},
        "header": {"labelColor": ink, "titleColor": quiet, "labelFontSize": 12, "labelFontWeight": "bold"},
        "title": {"color": ink, "fontSize": 12, "fontWeight": "normal", "anchor": "start"},
        "range": ranges,
    }


THEMES: Mapping[str, Mapping[str, Any]] = {
    mode: {"config": _theme(mode), "params": {"ink": _INK[mode], "quiet": _QUIET[mode], "deep": deep, "accent": _CATEGORY[mode][0]}}
    for mode, deep in (("light", "#ffffff"), ("dark", "#10151b"))
}
"""Configuration and named colours for light and dark pages; `deep` is the ink on the ends of a colour scale."""


@dataclass(frozen=True)
class Figure:
    """One figure: `name` for files, `title`, `caption` (how to read it), `description` (what a reader who cannot see it is told).

    `fit` tells the page how the figure takes the width that there is: "step" keeps its own, "grid" widens or narrows `panels`
    columns, "wrap" breaks `panels` facets into rows, "bars" stretches one panel. `names` is about the width in pixels of the
    longest name on the left.
    """

    name: str
    title: str
    caption: str
    description: str
    spec: Mapping[str, Any]
    fit: str
    panels: int = 1
    names: int = 100


def unique_names(figures: Sequence[Figure]) -> list[Figure]:
    """The figures with names that differ, fit for files and for places in a page."""
    taken: set[str] = set()
    out = []
    for figure in figures:
        plain = re.sub(r"[^a-z0-9.]+", "-", figure.name.lower()).strip("-.") or "figure"
        name, number = plain, 2
        while name in taken:
            name, number = f"{plain}-{number}", number + 1
        taken.add(name)
        out.append(replace(figure, name=name))
    return out


def save(figure: Figure, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the figure, in light colours, as `folder/NAME.svg`, `.pdf` and `.png` (two pixels a point). Raises `OSError`."""
    import vl_convert

    described = json.dumps({**figure.spec, "title": {"text": figure.title, "offset": 12}})
    theme = json.loads(json.dumps(THEMES["light"]["config"]))
    made: dict[str, Any] = {
        "svg": lambda: vl_convert.vegalite_to_svg(described, vl_version=VEGA_LITE, config=theme).encode(),
        "pdf": lambda: vl_convert.vegalite_to_pdf(described, vl_version=VEGA_LITE, config=theme),
        "png": lambda: vl_convert.vegalite_to_png(described, vl_version=VEGA_LITE, config=theme, scale=2),
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for form in formats:
        path = folder / f"{figure.name}.{form}"
        path.write_bytes(made[form]())
        paths.append(path)
    return paths


# -- parts of a description ---


def text(field: str, **more: Any) -> dict[str, Any]:
    """An encoding of the field as names."""
    return {"field": field, "type": "nominal", **more}


def number(field: str, **more: Any) -> dict[str, Any]:
    """An encoding of the field as a quantity."""
    return {"field": field, "type": "quantitative", **more}


def tip(field: str, title: str, form: str | None = None) -> dict[str, Any]:
    """A line of a tooltip; with `form` a number, in that format of d3."""
    return number(field, title=title, format=form) if form else text(field, title=title)


def named_colour(name: str) -> dict[str, Any]:
    """A colour by its name in `THEMES`."""
    return {"value": {"expr": name}}


def on_ramp(deep: str) -> dict[str, Any]:
    """The colour of text on a colour scale: another one where the test `deep` holds."""
    return {"condition": {"test": deep, "value": {"expr": "deep"}}, "value": {"expr": "ink"}}


def either(test: str, then: float, otherwise: float) -> dict[str, Any]:
    """A value that depends on a test."""
    return {"condition": {"test": test, "value": then}, "value": otherwise}


def template(chart: Mapping[str, Any], **params: Any) -> dict[str, Any]:
    """The chart as a whole specification. Named colours become parameters that a page can set; `params` are more."""
    named = {**THEMES["light"]["params"], **params}
    return {"$schema": _SCHEMA, **chart, "params": [{"name": name, "value": value} for name, value in named.items()]}


def filled(spec: Mapping[str, Any], datasets: Mapping[str, list[dict[str, Any]]], **params: Any) -> dict[str, Any]:
    """The specification with its data, by name, and with values of its parameters."""
    listed = [{"name": item["name"], "value": params.get(item["name"], item["value"])} for item in spec["params"]]
    return {**spec, "datasets": dict(datasets), "params": listed}
