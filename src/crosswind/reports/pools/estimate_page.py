"""The page of `crosswind estimate`: the answer in one sentence, the estimates, the reasons, and
pictures of doubtful rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from crosswind.core.exhibits import Picture
from crosswind.reports.charts import templates
from crosswind.reports.sections import address
from crosswind.unlabelled.answer import Estimates

LEFT, WIDTH = 210, 490
"""Of the picture of the estimates, in its own units: where an accuracy of 0 stands, and how far
from there that of 1."""


def estimate_page(estimates: Estimates) -> str:
    """One self-contained HTML page, without scripts."""
    from crosswind import __version__

    bars = []
    for position, row in enumerate(estimates.rows):
        estimate = row.estimate
        ends = (
            (None, None)
            if estimate.low is None or estimate.high is None
            else (_at(estimate.low), _at(estimate.high))
        )
        bars.append(
            {
                "name": row.estimator,
                "x": _at(estimate.accuracy),
                "low": ends[0],
                "high": ends[1],
                "y": 20 + 26 * position,
            }
        )
    shown: list[dict[str, Any]] = []
    for doubtful in estimates.doubtful:
        image = doubtful.picture
        if image is None or image.ndim != 3:
            shown.append({"row": doubtful, "address": ""})
            continue
        picture = np.ascontiguousarray(image[..., 0] if image.shape[-1] == 1 else image)
        shown.append({"row": doubtful, "address": address(Picture.of(picture).png)})
    ticks = [{"x": _at(value), "text": f"{value:.0%}"} for value in (0, 0.25, 0.5, 0.75, 1)]
    template = templates().get_template("estimate.html.j2")
    page: str = template.render(
        found=estimates, bars=bars, ticks=ticks, shown=shown, version=__version__
    )
    return page


def _at(value: float) -> float:
    return round(LEFT + WIDTH * value, 1)
