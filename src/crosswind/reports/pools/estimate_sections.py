"""The sections of a page about estimated accuracies: those of runs, and estimators judged on a pool
of networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crosswind.core.errors import shown
from crosswind.evaluation.metrics import ESTIMATE, ESTIMATE_HIGH, ESTIMATE_LOW, HEADLINE
from crosswind.evaluation.points import HELD, Point
from crosswind.reports.pools.estimate_figures import scatter
from crosswind.reports.scores.results import PlaceResults
from crosswind.reports.sections import Group, Section, heading_of

if TYPE_CHECKING:
    from crosswind.reports.gather import StudyRecord


def points_of(at: PlaceResults) -> dict[str, list[Point]]:
    """By estimator, a point a run: its shift, the accuracy on this set, the estimate and its
    interval."""
    found: dict[str, list[Point]] = {}
    for shift, method, entry in at.grid():
        for label in entry.estimators if entry is not None else ():
            assert entry is not None
            low, high = (
                entry.values(f"{ESTIMATE_LOW}{label}"),
                entry.values(f"{ESTIMATE_HIGH}{label}"),
            )
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
        heading = heading_of(
            place.data, place.size, place.model, f"set {place.set}", f"selection {place.rule}"
        )
        name = f"estimates-{place.data}-{place.size}-{place.model}-{place.set}-{place.rule}"
        group = Group(heading, open=not groups)
        figure, numbers = scatter(name, found)
        group.figures = [(figure, [numbers])]
        groups.append(group)
    intro = [
        "What estimators said of the accuracy without the labels of these rows, beside the"
        " accuracy. Colours are shifts."
    ]
    return Section("Estimated accuracy", intro, groups)


_LINES = ", ".join(shown(name) for name, rule in HELD.items() if rule.uses_target_labels)


def pools(study: StudyRecord) -> Section:
    """Estimators judged on the networks of the study: claims, tables and estimated against true
    accuracy."""
    groups: list[Group] = []
    for item in study.pools:
        pool, tables = item.pool, item.tables
        head = f"{pool.name}: " if len(study.pools) > 1 else ""
        first = Group(
            f"{head}the pool",
            item.intro(),
            tables=[*tables.get("claims", []), *tables.get("all", [])],
        )
        if item.decisions:
            first.lists = [
                ("What Ng et al. 2022 claim, and what these networks say", item.verdicts())
            ]
        picture, numbers = scatter(f"{item.name}-scatter", pool.shown())
        mapped = [label for label in pool.values if label not in pool.estimates]
        words = (
            [
                f"{', '.join(mapped)}: the accuracy by a line fitted on the other domains, without"
                " an interval."
            ]
            if mapped
            else []
        )
        groups += [
            first,
            Group(f"{head}estimated against true accuracy", words, [(picture, [numbers])]),
            Group(f"{head}by test domain", tables=tables.get("domains", []), open=False),
            Group(f"{head}by what a line is fitted on", tables=tables.get("lines", []), open=False),
            Group(
                f"{head}by training method and architecture",
                tables=tables.get("parts", []),
                open=False,
            ),
            Group(
                f"{head}estimators and forms compared", tables=tables.get("forms", []), open=False
            ),
            Group(
                f"{head}one network over many domains",
                tables=tables.get("one network", []),
                open=False,
            ),
        ]
    intro = [
        "Networks are ranked and their accuracies told from what an estimator or measure says of"
        " them (Ng et al. 2022, section 4.3), where there are five networks or more. Kendall's"
        " tau: macro, over the networks of one architecture on a shifted domain; micro, on one"
        " domain over networks of several training domains; arch, over all architectures; ID, in"
        " domain. Averages are over domains, then architectures. Some errors are of lines that"
        " were fitted on accuracies on the very domain that they predict, which nobody has in"
        f" practice: {_LINES}. The others use none."
    ]
    kept = [group for group in groups if group.tables or group.figures]
    return Section("Estimators on a pool of networks", intro, kept)
