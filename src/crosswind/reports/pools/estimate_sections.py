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
            low = entry.values(f"{ESTIMATE_LOW}{label}")
            high = entry.values(f"{ESTIMATE_HIGH}{label}")
            accuracy = entry.values(HEADLINE.name)
            for seed, value in entry.values(f"{ESTIMATE}{label}").items():
                point = Point(
                    network=f"{method} under {shift}, seed {seed}",
                    training="source",
                    test=shift,
                    value=value,
                    accuracy=accuracy[seed],
                    architecture=method,
                    low=low.get(seed),
                    high=high.get(seed),
                )
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
        places = [one.place for one in study.places]
        heading = heading_of(places, **setting._asdict())
        fields = (setting.data, setting.size, setting.model, setting.set, setting.rule)
        name = "-".join(["estimates", *fields])
        group = Group(heading, open=not groups)
        figure, numbers = scatter(name, points_by_estimator)
        group.figures = [(figure, [numbers])]
        groups.append(group)
    intro = [
        "What estimators said of the accuracy without the labels of these rows, beside the"
        " accuracy. Colours are shifts."
    ]
    return Section("Estimated accuracy", intro, groups)


_FOLDED = (
    ("by test domain", "domains"),
    ("by what a line is fitted on", "lines"),
    ("by training method and architecture", "parts"),
    ("estimators and forms compared", "forms"),
    ("one network over many domains", "one network"),
)
"""The groups of a pool that are folded: their titles, and what their tables are about."""
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
        words: list[str] = []
        if mapped:
            words.append(
                f"{', '.join(mapped)}: the accuracy by a line fitted on the other domains, without"
                " an interval."
            )
        scatter_title = f"{head}estimated against true accuracy"
        groups += [first, Group(scatter_title, words, [(picture, [numbers])])]
        for title, subject in _FOLDED:
            group = Group(f"{head}{title}", tables=tables.get(subject, []), open=False)
            figure = judged_pool.tau_figure if subject == "domains" else None
            if figure is not None and group.tables:
                group.figures = [(figure, [])]  # its numbers are those of the group's first table
            groups.append(group)
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
