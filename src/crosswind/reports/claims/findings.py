"""What a study found, in sentences: what each shift costs, what each method wins or loses, and what
could not be told.

Each comparison is a difference paired by seed, and all of a study are judged together (`verdicts`).
A sentence says that something differs, or is about equal, only where the adjusted p is below 0.05,
and the interval beside it is the one that says the same.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosswind.core.errors import plain
from crosswind.evaluation.metrics import HEADLINE, METRICS
from crosswind.evaluation.multiplicity import ADJUST, percent
from crosswind.reports.claims.judgements import CANNOT_TELL, POWER, Judgement
from crosswind.reports.claims.questions import HEADING, power_words, question_sentences
from crosswind.reports.claims.verdicts import COST, EFFECT, EFFECT_OF, MARGIN, Finding, judged
from crosswind.reports.scores.notes import MARK, at_chance, doubt_notes
from crosswind.reports.scores.results import Entry, Place, PlaceResults
from crosswind.training.selection import ORACLES

LISTED = 5
"""Sentences of a kind that are printed; the page and JSON have all."""


@dataclass(frozen=True)
class Findings:
    """The comparisons of one study and their sentences, by heading: (heading, sentences), the
    largest first; `intro` says how."""

    intro: str
    items: Sequence[Finding]
    parts: Sequence[tuple[str, Sequence[str]]]

    def __post_init__(self) -> None:
        # Names come from a store, which may hold anything; sentences go to terminals.
        plain_parts = [
            (plain(heading), list(map(plain, sentences))) for heading, sentences in self.parts
        ]
        vars(self).update(intro=plain(self.intro), parts=plain_parts)

    @property
    def question(self) -> Sequence[tuple[str, Sequence[str]]]:
        """What was asked and the answer, which is read before the intro; empty for other studies."""
        return [part for part in self.parts if part[0] == HEADING]

    @property
    def comparisons(self) -> Sequence[tuple[str, Sequence[str]]]:
        """The parts below the intro."""
        return [part for part in self.parts if part[0] != HEADING]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: the sentences by heading, and every comparison with its
        numbers."""
        sentences = {heading: list(heading_sentences) for heading, heading_sentences in self.parts}
        return {
            "intro": self.intro,
            "sentences": sentences,
            "comparisons": [finding.to_json() for finding in self.items],
        }

    def to_text(self, width: int = 80) -> str:
        """The sentences for a terminal, at most `LISTED` of a kind."""
        lines: list[str] = []
        intro = textwrap.wrap(self.intro, width, break_on_hyphens=False)
        for heading, sentences in self.parts:
            if intro and heading != HEADING:
                lines += [*([""] if lines else []), *intro]
                intro = []
            lines += [
                *([""] if lines else []),
                *textwrap.wrap(heading, width, break_on_hyphens=False),
            ]
            for sentence in sentences[:LISTED]:
                lines += textwrap.wrap(
                    sentence,
                    width,
                    initial_indent="  ",
                    subsequent_indent="    ",
                    break_on_hyphens=False,
                )
            if len(sentences) > LISTED:
                lines.append(f"  and {len(sentences) - LISTED} more on the page")
        lines += intro
        return "\n".join(lines) + "\n"


def find(
    shown: Sequence[PlaceResults],
    resolved: Mapping[str, Any],
    claims: Sequence[Judgement],
    runs: Sequence[Mapping[str, Any]],
) -> Findings | None:
    """What a study found on its test sets by the first of its selection rules; None where nothing
    can be compared.

    `shown`: its places, `resolved`: the study with every default, `claims`: judged, `runs`: each
    with its `status`.
    """
    rule = str(resolved["selection"][0])
    rule_results = [
        setting_results for setting_results in shown if setting_results.place.rule == rule
    ]
    findings = judged(rule_results, resolved)
    if not findings:
        return None
    return Findings(
        _intro(rule_results[0].place, findings, claims, runs),
        findings,
        [
            *_question_part(rule_results, findings, resolved),
            *_parts(rule_results, findings, claims),
        ],
    )


def _question_part(
    rule_results: Sequence[PlaceResults], findings: Sequence[Finding], resolved: Mapping[str, Any]
) -> list[tuple[str, list[str]]]:
    """What was asked and the answer, before anything else."""
    sentences = question_sentences(rule_results, findings, resolved)
    return [(HEADING, sentences)] if sentences else []


# -- words -----------------------------------------------------------------------------------------


def _intro(
    setting: Place,
    findings: Sequence[Finding],
    claims: Sequence[Judgement],
    runs: Sequence[Mapping[str, Any]],
) -> str:
    numbers = sorted({finding.difference.n for finding in findings})
    crossed = any(finding.difference.splits > 1 for finding in findings)
    seeds = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    seeds += " runs" if crossed else " seeds" if numbers[-1] > 1 else " seed"
    judged_by = f"p < 0.05{_by(findings[0].multiplicity, findings[0].family, ' comparisons')}"
    interval = f"[{percent(findings[0].level)} interval, which excludes 0 where p says so]"
    waiting = sum(run["status"] not in ("finished", "diverged", "failed") for run in runs)
    missing = f" {waiting:,} of {len(runs):,} runs are not done." if waiting else ""
    oracle = " The rule that chooses the step is an ORACLE." if setting.rule in ORACLES else ""
    apart = ""
    if claims:
        by = _by(claims[0].multiplicity, claims[0].family)
        apart = f" Claims are a family of their own: p{by}; [{percent(claims[0].level)} interval]."
    return (
        f"Findings of {setting.study} ({seeds}; points are percentage points; {judged_by};"
        f" {interval}).{apart}{missing}{oracle}"
    )


def _by(multiplicity: str, family: int, unit_words: str = "") -> str:
    """What p is adjusted by, and for how many."""
    return (
        f" by {ADJUST[multiplicity][0]} over {family}{unit_words}"
        if multiplicity in ADJUST
        else ", each alone"
    )


def _parts(
    rule_results: Sequence[PlaceResults], findings: Sequence[Finding], claims: Sequence[Judgement]
) -> Iterator[tuple[str, list[str]]]:
    where = _where([setting_results.place for setting_results in rule_results])
    reference = rule_results[0].reference
    entries = {setting_results.place: setting_results.entries for setting_results in rule_results}
    costs, effects = (
        _together(finding for finding in findings if finding.kind == kind)
        for kind in (COST, EFFECT_OF)
    )
    if costs:
        without = sorted(
            {f"{group[0].base:.1%}" for group in costs if group[0].metric == HEADLINE.name}
        )
        right = (
            f" (right on {' to '.join(dict.fromkeys((without[0], without[-1])))} without a shift)"
            if without
            else ""
        )
        sentences = [
            where(group[0]) + _cost(group, entries[group[0].place])
            for group in costs
            if any(finding.told for finding in group)
        ]
        yield f"What each shift costs {reference}{right}", sentences or [_no_cost(costs)]
    if effects:
        sentences = [
            where(group[0]) + _effect(group, reference)
            for group in effects
            if any(finding.told for finding in group)
        ]
        yield (
            f"What each method does beside {reference} under the same shift",
            sentences or ["No difference could be told."],
        )
    if claims:
        often = Counter(finding.number for finding in claims)
        yield "Claims", [_claim(finding, often[finding.number] > 1) for finding in claims]
    n_asked = sum(finding.adjusted_equal is not None for finding in findings)
    about_equal = [finding for finding in findings if finding.about_equal and not finding.told]
    if about_equal:
        by = f"p < 0.05{_by(about_equal[0].multiplicity, n_asked)}"
        yield (
            f"About as accurate as {reference}: less than {_points(MARGIN, 0)} points apart, {by}",
            [
                f"{where(finding)}{finding.method} under"
                f" {finding.shift}{_interval(finding)}{_mark(finding)}"
                for finding in about_equal
            ],
        )
    open_ = sorted(
        (finding for finding in findings if not finding.told and finding not in about_equal),
        key=lambda finding: -abs(finding.difference.mean),
    )
    if open_:
        yield (
            f"What could not be told ({len(open_)} of {len(findings)})",
            [where(finding) + _open(finding) for finding in open_],
        )
    doubts = dict.fromkeys(
        line for setting_results in rule_results for line in doubt_notes(setting_results)
    )
    if doubts:
        yield "Rows that doubt themselves", list(doubts)


def _no_cost(costs: Sequence[Sequence[Finding]]) -> str:
    """That no cost could be told, and which one would have been."""
    accuracies = [
        finding for group in costs for finding in group if finding.metric == HEADLINE.name
    ]
    power = {power_words(finding) for finding in accuracies} - {""}
    if len(power) != 1:
        return "No cost could be told."
    return f"No cost could be told; one of {power.pop()}."


def _claim(judgement: Judgement, several: bool) -> str:
    difference = None if judgement.waits else judgement.difference
    about = (
        judgement.place.data,
        judgement.shift,
        judgement.place.size,
        judgement.place.model,
        judgement.place.rule,
    )
    text = f"{judgement.text} ({', '.join(filter(None, about))})" if several else judgement.text
    if difference is None:
        return f"{text}: {judgement.verdict}."
    as_points = METRICS[judgement.metric].unit == "fraction"  # rho is no share, and has no points
    mean, *ends = (
        None if value is None else _signed(value) if as_points else f"{value:+.3f}"
        for value in (difference.mean, difference.low, difference.high)
    )
    interval = "" if None in ends or not difference.sd else f" [{ends[0]}, {ends[1]}]"
    p = (
        ""
        if judgement.adjusted is None
        else f"; p {'< 0.001' if judgement.adjusted < 0.001 else f'= {judgement.adjusted:.3f}'}"
    )
    range_told = judgement.told_range if judgement.verdict == CANNOT_TELL else None
    sizes = (
        ""
        if range_told is None
        else " to ".join(f"{size * 100:.1f}" if as_points else f"{size:.3f}" for size in range_told)
    )
    power = (
        sizes
        and f"; {'a margin of ' if judgement.margin else ''}{sizes} would have been told with a power of {POWER:.0%}"
    )
    return f"{text}: {judgement.verdict} ({mean}{interval}{p}{power})."


def _where(settings: Sequence[Place]) -> Callable[[Finding], str]:
    """What of a place must be said to tell it from the other places."""
    varying = [
        name
        for name in ("data", "size", "model", "set")
        if len({getattr(setting, name) for setting in settings}) > 1
    ]

    def words(finding: Finding) -> str:
        names = [str(getattr(finding.place, name)) for name in varying]
        return f"{', '.join(names)}: " if names else ""

    return words


def _together(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Accuracy and worst group of one comparison together, the largest difference that is told
    first."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.place, finding.shift, finding.method), []).append(finding)
    return sorted(
        groups.values(),
        key=lambda group: (
            -max((abs(finding.difference.mean) for finding in group if finding.told), default=0.0)
        ),
    )


def _cost(group: Sequence[Finding], entries: Mapping[tuple[str, str], Entry]) -> str:
    told_findings = [finding for finding in group if finding.told]
    entry = entries[told_findings[0].shift, told_findings[0].method]
    end = (
        f"; {told_findings[0].method} is then no better than guessing"
        if at_chance(entry, HEADLINE.name)
        else ""
    )
    largest = told_findings[0]
    changes = _changes(told_findings, "costs", "gives")
    return f"{largest.shift} {changes}{end}.{_mark(largest)}"


def _effect(group: Sequence[Finding], reference: str) -> str:
    told_findings = [finding for finding in group if finding.told]
    largest = told_findings[0]
    changes = _changes(told_findings, "loses", "wins")
    return f"Under {largest.shift} {largest.method} {changes}.{_mark(largest)}"


def _changes(told_findings: Sequence[Finding], down: str, up: str) -> str:
    words: list[str] = []
    verb = ""
    for finding in told_findings:
        ends = [
            _end(end, finding.about_equal)
            for end in sorted(abs(end) for end in finding.interval or (0.0, 0.0))
        ]
        again, verb = verb, down if finding.difference.mean < 0 else up
        of_what = "of accuracy" if finding.metric == HEADLINE.name else "in the worst group"
        size = (
            f"{_points(finding.difference.mean)} {'points ' if not words else ''}{of_what}"
            f" [{ends[0]}, {ends[1]}]"
        )
        size += f", less than {_points(MARGIN, 0)}," if finding.about_equal else ""
        words.append(size if verb == again else f"{verb} {size}")
    return " and ".join(words).removesuffix(",")


def _open(finding: Finding) -> str:
    subject = (
        f"{finding.shift} for {finding.method}"
        if finding.kind == COST
        else f"{finding.method} under {finding.shift}"
    )
    metric_words = "accuracy" if finding.metric == HEADLINE.name else "worst group"
    alike = ", the same at every seed" if finding.difference.sd == 0 else ""
    seeds = (
        f"; {_seeds(*finding.seeds)} would tell {_points(EFFECT, 0)} points"
        if finding.seeds
        else ""
    )
    return (
        f"{subject}, {metric_words}:"
        f" {_signed(finding.difference.mean)}{_interval(finding)}{alike}{seeds}.{_mark(finding)}"
    )


def _seeds(least: int | None, greatest: int | None) -> str:
    """How many seeds would tell something, by the spreads that the seeds at hand make likely."""
    if least is None:
        return "not even 10,000 seeds"
    if greatest is None:
        return f"{least:,} seeds or many more"
    return f"{least:,} to {greatest:,} seeds" if least < greatest else f"{least:,} seeds"


def _interval(finding: Finding) -> str:
    ends = [_end(end, finding.about_equal, "+") for end in finding.interval or ()]
    return f" [{', '.join(ends)}]" if ends else ""


def _end(value: float, at_margin: bool, sign: str = "") -> str:
    """An end of an interval in points, with more digits where one digit would put it on 0, or on
    the margin of an equality."""
    points, bounds = 100 * value, (0.0, 100 * MARGIN) if at_margin else (0.0,)
    digits = next((digits for digits in (1, 2, 3) if round(abs(points), digits) not in bounds), 1)
    return f"{points:{sign}.{digits}f}"


def _points(value: float, digits: int = 1) -> str:
    return f"{abs(value) * 100:.{digits}f}"


def _signed(value: float) -> str:
    return f"{value * 100:+.1f}"


def _mark(finding: Finding) -> str:
    return f" {MARK}" if finding.doubted else ""
