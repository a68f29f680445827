"""The section of a page that shows estimated beside true accuracies: a point a run, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crosswind.evaluation.metrics import ESTIMATE, ESTIMATE_HIGH, ESTIMATE_LOW, HEADLINE
from crosswind.evaluation.points import Point
from crosswind.reports.estimate_figures import scatter
from crosswind.reports.results import PlaceResults
from crosswind.reports.sections import Group, Section, heading_of

if TYPE_CHECKING:
    from crosswind.reports.gather import StudyRecord


def points_of(at: PlaceResults) -> dict[str, list[Point]]:
    """By estimator, a point a run: its shift, the accuracy on this set, the estimate and its interval."""
    found: dict[str, list[Point]] = {}
    for shift, method, entry in at.grid():
        for label in entry.estimators if entry is not None else ():
            assert entry is not None
            low, high = entry.values(f"{ESTIMATE_LOW}{label}"), entry.values(f"{ESTIMATE_HIGH}{label}")
            accuracy = entry.values(HEADLINE.name)
            for seed, value in entry.values(f"{ESTIMATE}{label}").items():
                name, ends = f"{method} under {shift}, seed {seed}", (low.get(seed), high.get(seed))
                point = Point(name, "source", shift, value, accuracy[seed], method, *ends)
                found.setdefault(label, []).append(point)
    return found


def estimates(study: StudyRecord) -> Section:
    """Estimated against true accuracy, a panel an estimator, for every set."""
    groups: list[Group] = []
    # Networks of a pool stand in one figure, in a section of their own.
    for at in [] if study.pools else study.places:
        found = points_of(at)
        if not found:
            continue
        place = at.place
        heading = heading_of(place.data, place.size, place.model, f"set {place.set}", f"selection {place.rule}")
        name = f"estimates-{place.data}-{place.size}-{place.model}-{place.set}-{place.rule}"
        group = Group(heading, open=not groups)
        figure, numbers = scatter(name, found)
        group.figures = [(figure, [numbers])]
        groups.append(group)
    intro = ["What estimators said of the accuracy without the labels of these rows, beside the accuracy. Colours are shifts."]
    return Section("Estimated accuracy", intro, groups)
