"""Parts of every figure: specifications of Vega-Lite, colours for light and dark, and files as SVG,
PDF and PNG.

A figure is one specification with its data inside, which serves the page and the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FORMATS = ("svg", "pdf", "png")
VEGA_LITE = "6.4"
"""The version of Vega-Lite that figures are described in and drawn with."""

_SCHEMA = f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE.partition('.')[0]}.json"
_FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', Arial, sans-serif"
_COLOURS: Mapping[str, Mapping[str, Any]] = {
    "light": {
        "ink": "#1d2733",
        "quiet": "#5a6673",
        "deep": "#ffffff",
        "line": "#dfe3e8",
        "diverging": ["#a4480a", "#e79a5b", "#f4f4f2", "#74a9d8", "#1b5a96"],
        "ramp": ["#f3f5f8", "#9fc3e3", "#3f80bd", "#12406f"],
        "category": ["#1b5a96", "#c8620f", "#5d6b7a", "#7a4fa3"],
        "ordinal": ["#e79a5b", "#1b5a96", "#b79ad3", "#7a3e0b", "#7fb3a6", "#5d6b7a"],
    },
    "dark": {
        "ink": "#e6eaef",
        "quiet": "#a3aebb",
        "deep": "#10151b",
        "line": "#37414d",
        "diverging": ["#f2a35e", "#9c571c", "#262d36", "#2c659c", "#79b4ea"],
        "ramp": ["#262d36", "#2b5580", "#4a90cf", "#b5d9f8"],
        "category": ["#79b4ea", "#f2a35e", "#a3aebb", "#c09ce6"],
        "ordinal": ["#f2a35e", "#4a90cf", "#c09ce6", "#a35a17", "#8fd0c0", "#7d8a98"],
    },
}
# Blue and orange differ for every common kind of colour blindness; the middle of the diverging
# scale is the page, so that no change looks like none. `ordinal` are the parts of a whole, in the
# order of the stack: neighbours differ in lightness too.


def _theme(mode: str) -> dict[str, Any]:
    colours = _COLOURS[mode]
    ink, quiet, line = colours["ink"], colours["quiet"], colours["line"]
    axis = {
        "labelColor": quiet,
        "titleColor": quiet,
        "domainColor": line,
        "tickColor": line,
        "gridColor": line,
    }
    words = {
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "labelLimit": 150,
    }
    ranges = {name: colours[name] for name in ("diverging", "ramp", "category", "ordinal")}
    return {
        "background": "transparent" if mode == "dark" else "white",
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {**axis, **words},
        "legend": {"labelColor": quiet, "titleColor": quiet, **words},
        "header": {
            "labelColor": ink,
            "titleColor": quiet,
            "labelFontSize": 12,
            "labelFontWeight": "bold",
        },
        "title": {"color": ink, "fontSize": 12, "fontWeight": "normal", "anchor": "start"},
        "range": {**ranges, "heatmap": colours["ramp"]},
    }


THEMES: Mapping[str, Mapping[str, Any]] = {
    mode: {
        "config": _theme(mode),
        "params": {
            **{name: colours[name] for name in ("ink", "quiet", "deep")},
            "accent": colours["category"][0],
        },
    }
    for mode, colours in _COLOURS.items()
}
"""Configuration and named colours for light and dark pages; `deep` is the ink on the ends of a
colour scale."""


@dataclass
class Figure:
    """One figure: `name` for files, `title`, `caption` (how to read it), `description` (what a
    reader who cannot see it is told).

    `fit` tells the page how the figure takes the width that there is. "step" keeps its own, "grid"
    widens or narrows `panels` columns, "wrap" breaks `panels` facets into rows, "bars" stretches
    one panel. `names` is about the width in pixels of the longest name on the left.
    """

    name: str
    title: str
    caption: str
    description: str
    spec: Mapping[str, Any]
    fit: str
    panels: int = 1
    names: int = 100


def save(figure: Figure, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the figure, in light colours, as `folder/NAME.svg`, `.pdf` and `.png` (two pixels a
    point). Raises `OSError`."""
    import vl_convert

    spec = json.dumps({**figure.spec, "title": {"text": figure.title, "offset": 12}})
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for form in formats:
        convert: Any = getattr(vl_convert, f"vegalite_to_{form}")
        scale = {"scale": 2} if form == "png" else {}
        drawn = convert(spec, vl_version=VEGA_LITE, config=THEMES["light"]["config"], **scale)
        paths.append(folder / f"{figure.name}.{form}")
        paths[-1].write_bytes(drawn.encode() if isinstance(drawn, str) else drawn)
    return paths


@cache
def templates() -> Any:
    """The pages without what they show: Jinja's environment, in which everything is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    source = PackageLoader("crosswind.reports", "template")
    return Environment(loader=source, autoescape=True, undefined=StrictUndefined, trim_blocks=True)


# -- the script of a page --------------------------------------------------------------------------


@cache
def runtime() -> str:
    """The JavaScript that draws the figures of a page: Vega, Vega-Lite and Vega-Embed as vl-convert
    carries them.

    Making it takes seconds, so it is kept in `cache_file`, which is written whole or not at all.
    """
    from crosswind.core.files import write_atomically

    path = cache_file()
    if path is not None and path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            pass
    import vl_convert

    # its stub asks for a snippet; without one the bundle is the three libraries themselves
    library: Any = vl_convert
    text = str(library.javascript_bundle(vl_version=VEGA_LITE))
    if path is not None:
        with suppress(
            OSError
        ):  # a read-only home, a full disk: the next report makes the script again
            write_atomically(path, text.encode("utf-8"))
    return text


def cache_file() -> Path | None:
    """The file for the script of the installed versions; None where the user has no home.

    It is in `$XDG_CACHE_HOME/crosswind` (without that `~/.cache/crosswind`;
    `%LOCALAPPDATA%\\crosswind` on Windows).
    """
    from importlib.metadata import version

    cache_folder = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        folder = (
            Path(cache_folder)
            if cache_folder and os.path.isabs(cache_folder)
            else Path.home() / ".cache"
        )
    except RuntimeError:
        return None
    return (
        folder / "crosswind" / f"vega-lite-{VEGA_LITE}-vl-convert-{version('vl-convert-python')}.js"
    )


# -- parts of a specification ----------------------------------------------------------------------


def text(field: str, **options: Any) -> dict[str, Any]:
    """An encoding of the field as names."""
    return {"field": field, "type": "nominal", **options}


def number(field: str, **options: Any) -> dict[str, Any]:
    """An encoding of the field as a quantity."""
    return {"field": field, "type": "quantitative", **options}


def tips(*fields: tuple[str, str] | tuple[str, str, str]) -> list[dict[str, Any]]:
    """A tooltip: a line a (field, title), as a number where a format of d3 follows."""
    return [
        number(field, title=title, format=form[0]) if form else text(field, title=title)
        for field, title, *form in fields
    ]


def named_colour(name: str) -> dict[str, Any]:
    """A colour by its name in `THEMES`."""
    return {"value": {"expr": name}}


def on_ramp(deep: str) -> dict[str, Any]:
    """The colour of text on a colour scale: another one where the test `deep` holds."""
    return {"condition": {"test": deep, "value": {"expr": "deep"}}, "value": {"expr": "ink"}}


def either(test: str, then: float, otherwise: float) -> dict[str, Any]:
    """A value that depends on a test."""
    return {"condition": {"test": test, "value": then}, "value": otherwise}


def layer(
    mark: str, encoding: Mapping[str, Any], *, data: str = "", where: str = "", **properties: Any
) -> dict[str, Any]:
    """One layer: a mark with its properties, what it encodes, the data by name, and a filter
    `where`."""
    described: dict[str, Any] = {"mark": {"type": mark, **properties}, "encoding": dict(encoding)}
    if data:
        described["data"] = {"name": data}
    if where:
        described["transform"] = [{"filter": where}]
    return described


def chart(
    view: Mapping[str, Any], datasets: Mapping[str, list[dict[str, Any]]], **params: Any
) -> dict[str, Any]:
    """A whole specification: a view, its data by name, and parameters. Named colours are parameters
    that a page can set."""
    named = {**THEMES["light"]["params"], **params}
    listed = [{"name": name, "value": value} for name, value in named.items()]
    return {"$schema": _SCHEMA, **view, "params": listed, "datasets": dict(datasets)}
