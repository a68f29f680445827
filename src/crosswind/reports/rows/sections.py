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
from crosswind.reports.rows.answers import Example, MethodAnswers
from crosswind.reports.rows.learning import Curve
from crosswind.reports.sections import OPEN_PLACES, Group, Section, address, heading_of

if TYPE_CHECKING:
    from crosswind.reports.gather import StudyRecord


def _shots(examples: Sequence[Example]) -> list[tuple[str, Example]]:
    return [(address(example.png), example) for example in examples]


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
    together: dict[str, list[MethodAnswers]] = {}
    for answers in study.behind.answers:
        together.setdefault(
            heading_of(answers.place.data, answers.place.size, answers.place.model, answers.shift),
            [],
        ).append(answers)

    def right(heading: str) -> float:
        return (
            min(wrong.accuracy for wrong in together[heading][0].wrong)
            if together[heading][0].wrong
            else 100.0
        )

    groups: list[Group] = []
    worst = min(together, key=right, default="")
    for heading, method_answers in together.items():
        group = Group(heading, open=heading == worst, layout="pairs")
        pairs = dict.fromkeys(pair for answers in method_answers for pair in answers.cells)
        drawn_figures = [
            row_figures.confusion(method_answers),
            *(row_figures.cells(method_answers, pair) for pair in pairs),
        ]
        group.figures = [(figure, [table]) for figure, table in filter(None, drawn_figures)]
        group.shots = [
            (answers.method, f"{wrong.group}: {wrong.accuracy:.0f}% right", _shots(wrong.examples))
            for answers in method_answers
            for wrong in answers.wrong
            if wrong.examples
        ]
        groups.append(group)
    first_answers = study.behind.answers[0] if study.behind.answers else None
    chosen = (
        f", selection {first_answers.place.rule}, the first"
        f" {max(answers.seeds for answers in study.behind.answers)} seeds"
        if first_answers
        else ""
    )
    intro = [
        f"Answers on the test rows{chosen}. Below the figures of a shift stand rows of its worst"
        " groups: those that were wrong in most seeds, each with the most frequent wrong answer."
    ]
    return Section("Mistakes", intro, groups)


def systematic(study: StudyRecord) -> Section:
    """Classes by environments, and rho: what a systematic shift kept apart."""
    together: dict[str, list[MethodAnswers]] = {}
    for answers in study.behind.answers:
        if answers.apart is not None:
            together.setdefault(
                heading_of(
                    answers.place.data, answers.place.size, answers.place.model, answers.shift
                ),
                [],
            ).append(answers)
    groups: list[Group] = []
    # A method that takes no step is the network that the others are fine-tuned from.
    methods = study.resolved.get("methods")
    settings = methods if isinstance(methods, Mapping) else {}
    untrained = network_before(study.resolved)
    without = WITHOUT_THOUGH_GIVEN if begins_from_weights(study.resolved) else WITHOUT
    rates = _rates({name: answers or {} for name, answers in settings.items() if name != untrained})
    for heading, method_answers in together.items():
        group, figure_and_table = (
            Group(heading, open=len(groups) < OPEN_PLACES),
            row_figures.apart(method_answers),
        )
        group.figures = (
            [figure_and_table[:1] + ([figure_and_table[1]],)]
            if figure_and_table is not None
            else []
        )
        other_answers = [
            answers
            for answers in study.behind.answers
            if answers.place == method_answers[0].place and answers.shift != method_answers[0].shift
        ]
        group.figures += [
            (figure, [table])
            for figure, table in row_figures.trade(method_answers, other_answers, untrained, rates)
        ]
        group.tables = [
            *row_figures.rho_by_environment(method_answers, untrained),
            row_figures.rhos(method_answers, untrained, without),
        ]
        groups.append(group)
    intro = [
        "Training showed some classes in an environment and kept the others from it; the test shows"
        " all of them everywhere."
    ]
    return Section("Systematic robustness", intro, groups)


def _rates(methods: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """The learning rates of methods that differ in nothing else; empty where there are no two."""
    rates = {
        name: (method_settings.get("training") or {}).get("lr")
        for name, method_settings in methods.items()
    }
    rate_of = {name: float(rate) for name, rate in rates.items() if isinstance(rate, int | float)}
    kinds = {str(methods[name].get("method", name)) for name in rate_of}
    return (
        rate_of
        if len(rate_of) > 1 and len(kinds) == 1 and len(set(rate_of.values())) == len(rate_of)
        else {}
    )


def learning_curves(study: StudyRecord) -> Section:
    """Validation accuracy by step, with the steps that were chosen."""
    together: dict[str, list[Curve]] = {}
    for curve in study.behind.curves:
        together.setdefault(
            heading_of(curve.place.data, curve.place.size, curve.place.model), []
        ).append(curve)
    groups: list[Group] = []
    for heading, method_curves in together.items():
        figure, table = row_figures.curves(
            method_curves, list(dict.fromkeys(curve.shift for curve in method_curves))
        )
        groups.append(
            Group(
                heading if len(together) > 1 else "", figures=[(figure, [table])], open=not groups
            )
        )
    return Section("Learning curves", [], groups)
