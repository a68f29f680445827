"""Features laid out in the plane by UMAP, coloured by the label and by attributes (Jeon et al.
2025, figures 21 and 22)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.files import write_atomically
from crosswind.models.form import check_extra
from crosswind.reports.charts import Figure, chart, layer, number, save, text, tips
from crosswind.unlabelled.features import FeatureTable

POINTS = "umap.json"
MOST_DRAWN = 5_000
"""Points in a picture; of more as many are drawn, evenly spread. The file has all."""
_LEAST = 4


def laid_out(
    features: NDArray[np.float32], seed: int = 0, neighbours: int = 15, distance: float = 0.1
) -> NDArray[np.float32]:
    """The place of every row in the plane, float32 [n, 2]; the same for the same features and seed
    on one machine.

    McInnes, Healy and Melville 2018, "UMAP: Uniform Manifold Approximation and Projection". Raises
    `InputError` where the extra is missing or there are too few rows.
    """
    check_extra("features", "umap", "UMAP")
    if len(features) < _LEAST:
        raise InputError("umap", f"needs at least {_LEAST} rows, and there are {len(features)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it builds on, about itself
        from umap import UMAP

        umap_model = UMAP(
            n_neighbors=min(neighbours, len(features) - 1),
            min_dist=distance,
            init="spectral" if len(features) > 3 * _LEAST else "random",
            random_state=seed,
            n_jobs=1,
        )
        return np.asarray(umap_model.fit_transform(features), dtype=np.float32)


def write_map(
    table: FeatureTable, folder: Path, by: Sequence[str] = (), seed: int = 0
) -> list[Path]:
    """Lay the rows out and write `umap.json`, every point with its attributes, and a picture.
    Raises `InputError`, `OSError`."""
    from crosswind.core.errors import unknown

    for name in by:
        if name not in table.columns:
            raise unknown("by", "attribute", name, table.columns)
    shown = tuple(by) or table.by
    coordinates = laid_out(table.features, seed)
    about = {
        "model": table.name,
        "seed": seed,
        "neighbours": 15,
        "distance": 0.1,
        "features": int(table.features.shape[1]),
    }
    points = {
        "id": table.ids.tolist(),
        "x": [round(float(value), 4) for value in coordinates[:, 0]],
        "y": [round(float(value), 4) for value in coordinates[:, 1]],
        "attributes": {name: table.columns[name] for name in shown},
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / POINTS, json.dumps({**about, "points": points}).encode())
    return [folder / POINTS, *save(map_figure(table, coordinates, shown), folder, ("svg", "png"))]


def map_figure(table: FeatureTable, coordinates: NDArray[np.float32], by: Sequence[str]) -> Figure:
    """A panel an attribute, a point a row."""
    n_rows = len(coordinates)
    evenly_spread = np.linspace(0, n_rows - 1, min(n_rows, MOST_DRAWN)).astype(np.int64)
    drawn = np.unique(evenly_spread).tolist()
    keys = {name: f"a{i}" for i, name in enumerate(by)}
    data: list[dict[str, Any]] = [
        {
            "x": round(float(coordinates[row, 0]), 3),
            "y": round(float(coordinates[row, 1]), 3),
            **{key: table.columns[name][row] for name, key in keys.items()},
        }
        for row in drawn
    ]
    views = []
    for name, key in keys.items():
        values = list(dict.fromkeys(table.columns[name]))
        legend = {"orient": "bottom", "columns": 4}
        axis = {"axis": None, "scale": {"zero": False, "nice": False}}
        encoding = {
            "x": number("x", **axis),
            "y": number("y", **axis),
            "color": text(key, title=None, scale=_colours(len(values)), legend=legend),
            "tooltip": tips((key, name)),
        }
        points = layer("circle", encoding, size=14, opacity=0.7)
        views.append({"title": name, "width": 220, "height": 220, **points})
    spec = {
        "data": {"name": "rows"},
        "concat": views,
        "columns": 3,
        "resolve": {"scale": {"color": "independent"}},
    }
    caption = (
        "A point is a row. Distances within a heap tell more than those between heaps; the axes"
        " have no unit."
    )
    return Figure(
        "umap",
        f"Features of {table.name}",
        caption,
        f"Scatter plots of {len(drawn)} rows coloured by {', '.join(by)}.",
        chart(spec, {"rows": data}),
        "step",
    )


def _colours(n_values: int) -> dict[str, str]:
    """A scale with as many colours as there are values."""
    if n_values <= 4:
        return {}
    return {"range": "ordinal"} if n_values <= 6 else {"scheme": "tableau20"}
