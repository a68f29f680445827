"""The sections of a page that show rows and how training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crosswind.reports.claims.robustness import (
    WITHOUT,
    WITHOUT_THOUGH_GIVEN,
    begins_from_weights,
    network_before,
)
from crosswind.reports.rows import figures as row_figures
from crosswind.reports.rows.answers import Answers, Example
from crosswind.reports.rows.learning import Curve
from crosswind.reports.sections import OPEN_PLACES, Group, Section, address, heading_of

if TYPE_CHECKING:
    from crosswind.reports.gather import StudyRecord


def _shots(examples: Sequence[Example]) -> list[tuple[str, Example]]:
    return [(address(item.png), item) for item in examples]


def examples(study: StudyRecord) -> Section:
    """Training beside test rows of each shift, by class."""
    groups: dict[str, Group] = {}
    for strip in study.behind.strips:
        heading = heading_of(strip.data, strip.size, strip.shift)
        group = groups.setdefault(heading, Group(heading, open=len(groups) < OPEN_PLACES))
        for name, train, test in strip.classes:
            group.shots += [(name, "training", _shots(train)), (name, strip.test, _shots(test))]
    intro = [
        "Rows by class, drawn at random from the training rows of one seed and from the test rows."
        " Compare the two."
    ]
    if study.behind.left_out:
        groups[""] = Group(intro=study.behind.left_out)
    return Section("Examples", intro if study.behind.strips else [], list(groups.values()))


def mistakes(study: StudyRecord) -> Section:
    """Answers by class, accuracy by two attributes, and the rows that were wrong most often;
    unfolded for the worst shift."""
    together: dict[str, list[Answers]] = {}
    for item in study.behind.answers:
        together.setdefault(
            heading_of(item.place.data, item.place.size, item.place.model, item.shift), []
        ).append(item)

    def right(heading: str) -> float:
        return (
            min(wrong.accuracy for wrong in together[heading][0].wrong)
            if together[heading][0].wrong
            else 100.0
        )

    groups: list[Group] = []
    worst = min(together, key=right, default="")
    for heading, items in together.items():
        group = Group(heading, open=heading == worst, layout="pairs")
        pairs = dict.fromkeys(pair for item in items for pair in item.cells)
        made = [row_figures.confusion(items), *(row_figures.cells(items, pair) for pair in pairs)]
        group.figures = [(figure, [table]) for figure, table in filter(None, made)]
        group.shots = [
            (item.method, f"{wrong.group}: {wrong.accuracy:.0f}% right", _shots(wrong.examples))
            for item in items
            for wrong in item.wrong
            if wrong.examples
        ]
        groups.append(group)
    at = study.behind.answers[0] if study.behind.answers else None
    chosen = (
        f", selection {at.place.rule}, the first {max(item.seeds for item in study.behind.answers)}"
        " seeds"
        if at
        else ""
    )
    intro = [
        f"Answers on the test rows{chosen}. Below the figures of a shift stand rows of its worst"
        " groups: those that were wrong in most seeds, each with the most frequent wrong answer."
    ]
    return Section("Mistakes", intro, groups)


def systematic(study: StudyRecord) -> Section:
    """Classes by environments, and rho: what a systematic shift kept apart."""
    together: dict[str, list[Answers]] = {}
    for item in study.behind.answers:
        if item.apart is not None:
            together.setdefault(
                heading_of(item.place.data, item.place.size, item.place.model, item.shift), []
            ).append(item)
    groups: list[Group] = []
    # A method that takes no step is the network that the others are fine-tuned from.
    methods = study.resolved.get("methods")
    settings = methods if isinstance(methods, Mapping) else {}
    untrained = network_before(study.resolved)
    without = WITHOUT_THOUGH_GIVEN if begins_from_weights(study.resolved) else WITHOUT
    rates = _rates({name: item or {} for name, item in settings.items() if name != untrained})
    for heading, items in together.items():
        group, made = Group(heading, open=len(groups) < OPEN_PLACES), row_figures.apart(items)
        group.figures = [made[:1] + ([made[1]],)] if made is not None else []
        others = [
            item
            for item in study.behind.answers
            if item.place == items[0].place and item.shift != items[0].shift
        ]
        group.figures += [
            (figure, [table])
            for figure, table in row_figures.trade(items, others, untrained, rates)
        ]
        group.tables = [
            *row_figures.rho_by_environment(items, untrained),
            row_figures.rhos(items, untrained, without),
        ]
        groups.append(group)
    intro = [
        "Training showed some classes in an environment and kept the others from it; the test shows"
        " all of them everywhere."
    ]
    return Section("Systematic robustness", intro, groups)


def _rates(methods: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """The learning rates of methods that differ in nothing else; empty where there are no two."""
    rates = {name: (item.get("training") or {}).get("lr") for name, item in methods.items()}
    told = {name: float(rate) for name, rate in rates.items() if isinstance(rate, int | float)}
    kinds = {str(methods[name].get("method", name)) for name in told}
    return (
        told if len(told) > 1 and len(kinds) == 1 and len(set(told.values())) == len(told) else {}
    )


def learning_curves(study: StudyRecord) -> Section:
    """Validation accuracy by step, with the steps that were chosen."""
    together: dict[str, list[Curve]] = {}
    for item in study.behind.curves:
        together.setdefault(
            heading_of(item.place.data, item.place.size, item.place.model), []
        ).append(item)
    groups: list[Group] = []
    for heading, items in together.items():
        figure, table = row_figures.curves(items, list(dict.fromkeys(item.shift for item in items)))
        groups.append(
            Group(
                heading if len(together) > 1 else "", figures=[(figure, [table])], open=not groups
            )
        )
    return Section("Learning curves", [], groups)
