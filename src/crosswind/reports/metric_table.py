"""What reports know about each metric: its title, unit and direction, the table that it gets, and what guessing reaches.

Tables, figures and claims read it here, so a metric that a run scores is reported once it has a row. Metrics without a `slug` are
in the table of every number only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One metric. `needs`: what predictions must hold. `slug`: the name of its table.

    `chance`: the score of guessing, which is the share of the most frequent class ("majority") or 1 / classes ("classes").
    """

    name: str
    unit: str
    better: Literal["higher", "lower"] | None
    needs: str
    title: str
    slug: str = ""
    chance: Literal["majority", "classes"] | None = None
    note: str = ""

    @property
    def words(self) -> str:
        """The metric inside a sentence."""
        return self.name.replace("_", " ")


METRICS = {
    item.name: item
    for item in (
        Metric("accuracy", "fraction", "higher", "labels", "Accuracy", "accuracy", "majority"),
        Metric("worst_group", "fraction", "higher", "groups", "Worst group accuracy", "worst-group", "classes"),
        Metric("balanced_accuracy", "fraction", "higher", "labels", "Balanced accuracy", chance="classes"),
        Metric("nll", "nats", "lower", "logits", "Negative log likelihood"),
        Metric(
            "ece",
            "fraction",
            "lower",
            "logits",
            "Calibration error",
            "ece",
            note="Expected calibration error over 15 bins of equal width; 0 is best. Small sets have more than 0 by chance alone.",
        ),
        Metric("unparsed", "rows", "lower", "answers", "Rows without an answer"),
    )
}
"""Every metric by name, in the order of the tables."""

HEADLINE = METRICS["accuracy"]
"""The metric that methods are compared and ranked by."""
