"""The actions of methods beside plain training, as their runs measured them
(`Trajectory.action`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from crosswind.core.errors import one_line
from crosswind.reports.scores.results import Results
from crosswind.reports.tables import Cell, ReportTable

WORDS = {
    "share_of_loss": "own share of the loss, the largest seen, %",
    "share_of_gradient": "own share of the gradient, the largest seen, %",
    "looks": "steps looked at",
    "moved_grey_levels": "grey levels that pictures were moved, of 255",
    "moved_units": "units of the inputs that rows were moved",
    "repeated_share": "share of an epoch that is rows which stand there again, %",
    "taken_for_environment": "translations taken for the environment meant, %",
    "taken_for_class": "translations taken for their class, %",
    "pictures_taken_for_class": "pictures taken for their class, beside translations, %",
}
"""How what is measured is called; what a method of another package measures keeps its name."""

NOTES = (
    (
        "The loss and its gradient are taken with and without the method's own term at a few steps,"
        " until one finds a hundredth of either; a run in which none does says so. What is not here"
        " is not measured, for the reason that the method's page has."
    ),
)


def action_table(arranged: Results) -> ReportTable | None:
    """The action of each method, a row a data set, size, model, shift, method and measure, over
    runs; None: nothing was measured."""
    measured: dict[tuple[str, ...], dict[object, float]] = {}
    # What a run did is the same under every rule and set, so it is read once; but rules may choose
    # different points of a search at one seed, of which the last counts.
    points_read: dict[tuple[str, ...], dict[object, str]] = {}
    for setting_results in arranged.places.values():
        setting = setting_results.place
        for (shift, method), entry in setting_results.entries.items():
            row_names = (setting.data, setting.size, setting.model, shift, method)
            point_by_seed = points_read.setdefault(row_names, {})
            for seed, action in zip(entry.metrics, entry.column("action"), strict=True):
                point = entry.chosen.get(seed, "")
                if action is None or point_by_seed.get(seed) == point:
                    continue
                point_by_seed[seed] = point
                for name, value in _measured(action).items():
                    measured.setdefault((*row_names, name), {})[seed] = value
    rows: list[tuple[Cell, ...]] = []
    for (*where, name), values in measured.items():
        words = WORDS.get(name, one_line(name))
        scale = 100.0 if WORDS.get(name, "").endswith("%") else 1.0
        numbers = [scale * value for value in values.values()]
        summary = fmean(numbers), min(numbers), max(numbers)
        rows.append((*where, words, len(numbers), *(f"{value:.3g}" for value in summary)))
    columns = (
        "data",
        "size",
        "model",
        "shift",
        "method",
        "measured",
        "runs",
        "mean",
        "least",
        "most",
    )
    if not rows:
        return None
    title = "What methods did beside plain training"
    return ReportTable("actions", title, columns, rows, NOTES, keys=6)


def _measured(action: Any) -> dict[str, float]:
    """The action that one run measured of its method, numbers alone."""
    if not isinstance(action, Mapping):
        return {}
    return {
        str(name): float(value)
        for name, value in action.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
