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


def points_of(setting_results: PlaceResults) -> dict[str, list[Point]]:
    """By estimator, a point a run: its shift, the accuracy on this set, the estimate and its
    interval."""
    points_by_estimator: dict[str, list[Point]] = {}
    for shift, method, entry in setting_results.grid():
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
                points_by_estimator.setdefault(label, []).append(point)
    return points_by_estimator


def estimates(study: StudyRecord) -> Section:
    """Estimated against true accuracy, a panel an estimator, for every set."""
    groups: list[Group] = []
    # Networks of a pool stand in one figure, in a section of their own.
    for setting_results in [] if study.pools else study.places:
        points_by_estimator = points_of(setting_results)
        if not points_by_estimator:
            continue
        setting = setting_results.place
        heading = heading_of(
            setting.data,
            setting.size,
            setting.model,
            f"set {setting.set}",
            f"selection {setting.rule}",
        )
        name = (
            f"estimates-{setting.data}-{setting.size}-{setting.model}-{setting.set}-{setting.rule}"
        )
        group = Group(heading, open=not groups)
        figure, numbers = scatter(name, points_by_estimator)
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
    for judged_pool in study.pools:
        pool, tables = judged_pool.pool, judged_pool.tables
        head = f"{pool.name}: " if len(study.pools) > 1 else ""
        first = Group(
            f"{head}the pool",
            judged_pool.intro(),
            tables=[*tables.get("claims", []), *tables.get("all", [])],
        )
        if judged_pool.decisions:
            first.lists = [
                ("What Ng et al. 2022 claim, and what these networks say", judged_pool.verdicts())
            ]
        picture, numbers = scatter(f"{judged_pool.name}-scatter", pool.shown())
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
    groups_shown = [group for group in groups if group.tables or group.figures]
    return Section("Estimators on a pool of networks", intro, groups_shown)
