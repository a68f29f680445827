"""The sections of a page that show rows and how training went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from crosswind.reports.scores.results import Place
from crosswind.reports.sections import OPEN_PLACES, Group, Section, address, heading_of

if TYPE_CHECKING:
    from crosswind.reports.gather import StudyRecord


def _places_of(study: StudyRecord) -> list[Place]:
    """The places that headings must tell apart."""
    return [setting_results.place for setting_results in study.places]


def _shots(examples: Sequence[Example]) -> list[tuple[str, Example]]:
    return [(address(example.png), example) for example in examples]


def examples(study: StudyRecord) -> Section:
    """Training beside test rows of each shift, by class."""
    groups: dict[str, Group] = {}
    places = _places_of(study)
    for strip in study.behind.strips:
        heading = heading_of(places, strip.shift, data=strip.data, size=strip.size)
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
    by_shift = _by_shift(study.behind.answers, _places_of(study))

    def lowest_accuracy(heading: str) -> float:
        return min((wrong.accuracy for wrong in by_shift[heading][0].wrong), default=100.0)

    groups: list[Group] = []
    worst = min(by_shift, key=lowest_accuracy, default="")
    for heading, method_answers in by_shift.items():
        group = Group(heading, open=heading == worst, layout="pairs")
        pairs = dict.fromkeys(pair for answers in method_answers for pair in answers.cells)
        drawn_figures = [
            row_figures.confusion(method_answers),
            *(row_figures.cells(method_answers, pair) for pair in pairs),
        ]
        group.figures = [(figure, [table]) for figure, table in filter(None, drawn_figures)]
        for answers in method_answers:
            for wrong in answers.wrong:
                if wrong.examples:
                    words = f"{wrong.group}: {wrong.accuracy:.0f}% right"
                    group.shots.append((answers.method, words, _shots(wrong.examples)))
        groups.append(group)
    chosen = ""
    if study.behind.answers:
        rule = study.behind.answers[0].place.rule
        seeds = max(answers.seeds for answers in study.behind.answers)
        chosen = f", of the step chosen by {rule}, over the first {seeds} seeds"
    intro = [
        f"Answers on the test rows{chosen}. Below the figures of a shift stand rows of its worst"
        " groups: those that were wrong in most seeds, each with the most frequent wrong answer."
    ]
    return Section("Mistakes", intro, groups)


def _by_shift(
    every_answers: Iterable[MethodAnswers], places: Sequence[Place]
) -> dict[str, list[MethodAnswers]]:
    """The answers of methods together that were given at one place under one shift, by heading."""
    by_shift: dict[str, list[MethodAnswers]] = {}
    for answers in every_answers:
        setting = answers.place
        fields = {"data": setting.data, "size": setting.size, "model": setting.model}
        heading = heading_of(places, answers.shift, **fields)
        by_shift.setdefault(heading, []).append(answers)
    return by_shift


def systematic(study: StudyRecord) -> Section:
    """Classes by environments, and rho: what a systematic shift kept apart."""
    kept_apart = [answers for answers in study.behind.answers if answers.apart is not None]
    by_shift = _by_shift(kept_apart, _places_of(study))
    groups: list[Group] = []
    # A method that takes no step is the network that the others are fine-tuned from.
    methods = study.resolved.get("methods")
    settings = methods if isinstance(methods, Mapping) else {}
    untrained = network_before(study.resolved)
    without = WITHOUT_THOUGH_GIVEN if begins_from_weights(study.resolved) else WITHOUT
    trained = {name: answers or {} for name, answers in settings.items() if name != untrained}
    rates = _rates(trained)
    for heading, method_answers in by_shift.items():
        group = Group(heading, open=len(groups) < OPEN_PLACES)
        first = method_answers[0]
        other_answers = [
            answers
            for answers in study.behind.answers
            if answers.place == first.place and answers.shift != first.shift
        ]
        drawn_figures = [
            row_figures.apart(method_answers),
            *row_figures.trade(method_answers, other_answers, untrained, rates),
        ]
        group.figures = [(figure, [table]) for figure, table in filter(None, drawn_figures)]
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
    if len(rate_of) < 2 or len(kinds) > 1 or len(set(rate_of.values())) < len(rate_of):
        return {}
    return rate_of


def learning_curves(study: StudyRecord) -> Section:
    """Validation accuracy by step, with the steps that were chosen."""
    by_place: dict[str, list[Curve]] = {}
    for curve in study.behind.curves:
        setting = curve.place
        fields = {"data": setting.data, "size": setting.size, "model": setting.model}
        heading = heading_of(_places_of(study), **fields)
        by_place.setdefault(heading, []).append(curve)
    groups: list[Group] = []
    for heading, method_curves in by_place.items():
        shifts = list(dict.fromkeys(curve.shift for curve in method_curves))
        figure, table = row_figures.curves(method_curves, shifts)
        title = heading if len(by_place) > 1 else ""
        groups.append(Group(title, figures=[(figure, [table])], open=not groups))
    return Section("Learning curves", [], groups)
