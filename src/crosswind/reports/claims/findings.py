"""The findings of a study, in sentences: what each shift costs, what each method wins or loses, and
what could not be told.

Each comparison is a difference paired by seed, and all of a study are judged together (`verdicts`).
A sentence says that something differs, or is about equal, only where the adjusted p is below 0.05,
and the interval beside it is the one that says the same.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from crosswind.core.errors import counted, plain
from crosswind.evaluation.compare import Difference
from crosswind.evaluation.metrics import HEADLINE, METRICS
from crosswind.evaluation.multiplicity import ADJUST, percent
from crosswind.reports.claims.judgements import Judgement
from crosswind.reports.claims.pooled_judgements import PooledJudgement
from crosswind.reports.claims.pooled_tables import pooled_sentence
from crosswind.reports.claims.questions import HEADING, power_words, question_sentences
from crosswind.reports.claims.study_answer import StudyAnswer, answer_of
from crosswind.reports.claims.verdict_words import CANNOT_TELL, POWER, range_told
from crosswind.reports.claims.verdicts import (
    COST,
    EFFECT,
    EFFECT_OF,
    MARGIN,
    Finding,
    end_in_points,
    judged,
    single_row_group,
)
from crosswind.reports.scores.notes import MARK, at_chance, doubt_notes
from crosswind.reports.scores.results import Entry, Place, PlaceResults
from crosswind.training.selection import ORACLES

CLAIMS = "Claims"
"""The heading of the verdicts on what a study claims."""
LISTED = 5
"""Sentences of a kind that are printed; the page and JSON have all."""


@dataclass(frozen=True)
class Findings:
    """The comparisons of one study and their sentences, by heading: (heading, sentences), the
    largest first; `intro` says how, `answer` is what is read before all of them.
    `charted` are the comparisons that a heading is about, for its picture."""

    answer: StudyAnswer
    intro: str
    items: Sequence[Finding]
    parts: Sequence[tuple[str, Sequence[str]]]
    charted: Mapping[str, Sequence[Finding]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Names come from a store, which may hold anything; sentences go to terminals.
        plain_parts = [
            (plain(heading), list(map(plain, sentences))) for heading, sentences in self.parts
        ]
        charted = {plain(heading): behind for heading, behind in self.charted.items()}
        vars(self).update(intro=plain(self.intro), parts=plain_parts, charted=charted)

    @property
    def question(self) -> Sequence[tuple[str, Sequence[str]]]:
        """The effect of a spurious correlation, which is read before the intro; empty for other
        studies and where the answer says it."""
        said = " ".join(self.answer.sentences)
        parts: list[tuple[str, Sequence[str]]] = []
        for heading, sentences in self.parts:
            unsaid = [sentence for sentence in sentences if sentence not in said]
            if heading == HEADING and unsaid:
                parts.append((heading, unsaid))
        return parts

    @property
    def comparisons(self) -> Sequence[tuple[str, Sequence[str]]]:
        """The parts below the intro."""
        return [part for part in self.parts if part[0] != HEADING]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: the sentences by heading, and every comparison with its
        numbers."""
        sentences = {heading: list(sentences) for heading, sentences in self.parts}
        return {
            "answer": self.answer.to_json(),
            "intro": self.intro,
            "sentences": sentences,
            "comparisons": [finding.to_json() for finding in self.items],
        }

    def to_text(self, width: int = 80, every: bool = False) -> str:
        """The sentences for a terminal, at most `LISTED` of a kind without `every`."""
        lines = textwrap.wrap(self.answer.question, width, break_on_hyphens=False)
        for line in self.answer.lines:
            lines += _sentence_lines(line, width)
        intro = textwrap.wrap(self.intro, width, break_on_hyphens=False)
        for heading, sentences in (*self.question, *self.comparisons):
            if intro and heading != HEADING:
                lines += [*_blank_below(lines), *intro]
                intro = []
            lines += _blank_below(lines)
            lines += textwrap.wrap(heading, width, break_on_hyphens=False)
            listed = len(sentences) if every else LISTED
            for sentence in sentences[:listed]:
                lines += _sentence_lines(sentence, width)
            if len(sentences) > listed:
                lines.append(f"  and {len(sentences) - listed} more on the page")
        lines += intro
        return "\n".join(lines) + "\n"


def _sentence_lines(sentence: str, width: int) -> list[str]:
    """A sentence below a heading of a terminal."""
    return textwrap.wrap(
        sentence,
        width,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )


def _blank_below(lines: Sequence[str]) -> list[str]:
    """An empty line to set apart what follows; none at the beginning."""
    return [""] if lines else []


def find(
    shown: Sequence[PlaceResults],
    resolved: Mapping[str, Any],
    claims: Sequence[Judgement | PooledJudgement],
    runs: Sequence[Mapping[str, Any]],
    written: Mapping[str, Any] = MappingProxyType({}),
) -> Findings | None:
    """The findings of a study on its test sets by the first of its selection rules; None where
    nothing can be compared.

    `shown`: its places, `resolved`: the study with every default, `claims`: judged, `runs`: each
    with its `status`, `written`: the study as its file and scale have it.
    """
    rule = str(resolved["selection"][0])
    rule_results = [
        setting_results for setting_results in shown if setting_results.place.rule == rule
    ]
    findings = judged(rule_results, resolved)
    if not findings:
        return None
    parts = list(_parts(rule_results, findings, claims))
    verdicts = [judgement.verdict for judgement in claims]
    return Findings(
        answer_of(rule_results, findings, resolved, runs, written, verdicts, claims),
        _intro(rule_results[0].place, findings, claims, runs),
        findings,
        [
            *_question_part(rule_results, findings, resolved),
            *((heading, sentences) for heading, sentences, _ in parts),
        ],
        {heading: behind for heading, _, behind in parts if behind},
    )


def _question_part(
    rule_results: Sequence[PlaceResults],
    findings: Sequence[Finding],
    resolved: Mapping[str, Any],
) -> list[tuple[str, list[str]]]:
    """The effect of a spurious correlation, before anything else."""
    sentences = question_sentences(rule_results, findings, resolved)
    return [(HEADING, sentences)] if sentences else []


# -- words -----------------------------------------------------------------------------------------


def _intro(
    setting: Place,
    findings: Sequence[Finding],
    claims: Sequence[Judgement | PooledJudgement],
    runs: Sequence[Mapping[str, Any]],
) -> str:
    first = findings[0]
    seeds = _counted_seeds(findings)
    if first.family:
        family_words = _by(first.multiplicity, counted(first.family, "comparison"))
        judged_by = (
            f"p < 0.05{family_words};"
            f" [{percent(first.level)} interval, which excludes 0 where p says so]"
        )
    elif max(finding.difference.n for finding in findings) > 1:
        judged_by = "no p and no interval: every comparison is the same at every seed"
    else:
        judged_by = "no p and no interval: a comparison needs runs of two seeds"
    waiting = sum(run["status"] not in ("finished", "diverged", "failed") for run in runs)
    missing = f" {waiting:,} of {len(runs):,} runs are not done." if waiting else ""
    oracle = " The rule that chooses the step is an ORACLE." if setting.rule in ORACLES else ""
    apart = ""
    if claims:
        by = _by(claims[0].multiplicity, f"{claims[0].family:,}")
        apart = f" Claims are a family of their own: p{by}; [{percent(claims[0].level)} interval]."
    return (
        f"Findings of {setting.study} ({seeds}; points are percentage points; {judged_by})."
        f"{apart}{missing}{oracle}"
    )


def _counted_seeds(findings: Sequence[Finding]) -> str:
    """How many seeds, or runs of several split seeds, the comparisons have."""
    numbers = sorted({finding.difference.n for finding in findings})
    fewest, highest = numbers[0], numbers[-1]
    number = f"{fewest}" if fewest == highest else f"{fewest} to {highest}"
    if any(finding.difference.splits > 1 for finding in findings):
        return f"{number} runs"
    return f"{number} seeds" if highest > 1 else f"{number} seed"


def _by(multiplicity: str, family_words: str) -> str:
    """The correction of p, and for how many comparisons."""
    if multiplicity not in ADJUST:
        return ", each alone"
    return f" by {ADJUST[multiplicity][0]} over {family_words}"


_Part = tuple[str, list[str], list[Finding]]
"""A heading, the sentences below it and the comparisons that they are about."""


def _parts(
    rule_results: Sequence[PlaceResults],
    findings: Sequence[Finding],
    claims: Sequence[Judgement | PooledJudgement],
) -> Iterator[_Part]:
    """The findings under their headings, in the order of a report."""
    where = place_words([setting_results.place for setting_results in rule_results])
    reference = rule_results[0].reference
    about_equal = [finding for finding in findings if finding.about_equal and not finding.told]
    yield from _cost_part(rule_results, findings, where)
    yield from _effect_part(findings, reference, where)
    if claims:
        yield CLAIMS, claim_sentences(claims), []
    if about_equal:
        n_tests = sum(finding.adjusted_equal is not None for finding in findings)
        by = f"p < 0.05{_by(about_equal[0].multiplicity, f'{n_tests:,}')}"
        by += f"; [{percent(about_equal[0].interval_level)} interval]"
        yield (
            f"About as accurate as {reference}: less than {_points(MARGIN, 0)} points apart, {by}",
            [where(finding) + _equal(finding) for finding in about_equal],
            about_equal,
        )
    yield from _open_part(findings, about_equal, where)
    single_rows = list(dict.fromkeys(_single_row_sentences(rule_results)))
    if single_rows:
        yield "No finding on the worst group", single_rows, []
    doubts = _doubt_sentences(rule_results)
    if doubts:
        yield "Runs to be read with care", doubts, []


def _doubt_sentences(rule_results: Sequence[PlaceResults]) -> list[str]:
    """The doubts that runs told, with the settings where they did if that is not at all."""
    varying = _varying_fields([setting_results.place for setting_results in rule_results])
    settings_of: dict[str, list[str]] = {}
    for setting_results in rule_results:
        for note in doubt_notes(setting_results):
            names = [str(getattr(setting_results.place, name)) for name in varying]
            settings_of.setdefault(note, []).append(", ".join(names))
    return [
        note
        if len(settings) == len(rule_results)
        else f"{MARK} {'; '.join(settings)}: {note.removeprefix(MARK).lstrip()}"
        for note, settings in settings_of.items()
    ]


def _single_row_sentences(rule_results: Sequence[PlaceResults]) -> Iterator[str]:
    """The comparisons that are left out because a worst group is one row."""
    for setting_results in rule_results:
        by_group: dict[str, list[str]] = {}
        for shift, method, entry in setting_results.grid():
            name = "" if entry is None else single_row_group(entry)
            if name:
                by_group.setdefault(name, []).append(f"{method} under {shift}")
        for name, runs in by_group.items():
            yield (
                f"{name} has 1 test row and is the worst group of {', '.join(runs)}: one row is no"
                " group. Leave its value out (keep), join it with another, or test more of its rows."
            )


def _cost_part(
    rule_results: Sequence[PlaceResults],
    findings: Sequence[Finding],
    where: Callable[[Finding], str],
) -> Iterator[_Part]:
    """The cost of each shift for the reference; nothing where no cost is asked for."""
    costs = _together(finding for finding in findings if finding.kind == COST)
    if not costs:
        return
    entries = {setting_results.place: setting_results.entries for setting_results in rule_results}
    sentences: list[str] = []
    for group in costs:
        if any(finding.told for finding in group):
            first = group[0]
            sentences.append(where(first) + _cost(group, entries[first.place]))
    heading = f"What each shift costs {rule_results[0].reference}{_right_words(costs)}"
    told = [finding for group in costs for finding in group if finding.told]
    yield heading, sentences or [_no_cost(costs)], told


def _right_words(costs: Sequence[Sequence[Finding]]) -> str:
    """On how many rows the reference is right without a shift."""
    firsts = [group[0] for group in costs]
    shares = sorted(first.base for first in firsts if first.metric == HEADLINE.name)
    if not shares:
        return ""
    ends = dict.fromkeys((f"{shares[0]:.1%}", f"{shares[-1]:.1%}"))
    return f" (right on {' to '.join(ends)} without a shift)"


def _effect_part(
    findings: Sequence[Finding], reference: str, where: Callable[[Finding], str]
) -> Iterator[_Part]:
    """The effect of each method beside the reference; nothing without other methods."""
    effects = _together(finding for finding in findings if finding.kind == EFFECT_OF)
    if not effects:
        return
    sentences = [
        where(group[0]) + _effect(group)
        for group in effects
        if any(finding.told for finding in group)
    ]
    heading = f"What each method does beside {reference} under the same shift"
    told = [finding for group in effects for finding in group if finding.told]
    yield heading, sentences or ["No difference could be told."], told


def _equal(finding: Finding) -> str:
    interval, mark = _interval(finding), _mark(finding)
    return f"{finding.method} under {finding.shift}{interval}{mark}"


def _open_part(
    findings: Sequence[Finding], about_equal: Sequence[Finding], where: Callable[[Finding], str]
) -> Iterator[_Part]:
    """The differences that are neither told nor about equal, the largest first."""
    undecided = [finding for finding in findings if not finding.told and finding not in about_equal]
    undecided.sort(key=lambda finding: -abs(finding.difference.mean))
    if undecided:
        heading = f"What could not be told ({len(undecided)} of {len(findings)})"
        yield heading, [where(finding) + _open(finding) for finding in undecided], undecided


def _no_cost(costs: Sequence[Sequence[Finding]]) -> str:
    """That no cost could be told, and which one would have been."""
    accuracies = [
        finding for group in costs for finding in group if finding.metric == HEADLINE.name
    ]
    if all(finding.guesses for finding in accuracies):
        return "No cost could be told: with a shift and without one nothing is told from guessing."
    power = {power_words(finding) for finding in accuracies} - {""}
    if len(power) != 1 or any(finding.guesses for finding in accuracies):
        return "No cost could be told."
    return f"No cost could be told; {power.pop()}."


def claim_sentences(claims: Sequence[Judgement | PooledJudgement]) -> list[str]:
    """The verdicts on the claims of a study, a sentence each."""
    often = Counter(judgement.number for judgement in claims)
    return [_claim(judgement, often[judgement.number] > 1) for judgement in claims]


def verdicts_to_text(study: str, sentences: Sequence[str], width: int = 80) -> str:
    """The verdicts on claims for a terminal, of a study without another finding."""
    lines = textwrap.wrap(f"{CLAIMS} of {study}", width, break_on_hyphens=False)
    for sentence in map(plain, sentences):
        lines += _sentence_lines(sentence, width)
    return "\n".join(lines) + "\n"


def _claim(judgement: Judgement | PooledJudgement, several: bool) -> str:
    """The verdict on a claim; `several`: whether it is judged at several places."""
    if isinstance(judgement, PooledJudgement):
        return pooled_sentence(judgement)
    text = judgement.text
    if several:
        setting = judgement.place
        shift = judgement.shift if judgement.better.shift == judgement.than.shift else ""
        about = (setting.data, shift, setting.size, setting.model, setting.rule)
        text += f" ({', '.join(filter(None, about))})"
    difference = None if judgement.waits else judgement.difference
    if difference is None:
        return f"{text}: {judgement.verdict}."
    as_points = METRICS[judgement.metric].unit == "fraction"  # rho is no share, and has no points
    numbers = _difference_words(difference, as_points)
    if judgement.adjusted is not None:
        numbers += f"; p {_p_words(judgement.adjusted)}"
    numbers += _power_words(judgement, as_points)
    return f"{text}: {judgement.verdict} ({numbers})."


def _difference_words(difference: Difference, as_points: bool) -> str:
    """A difference with its interval where it has one, in points or as it is."""

    def words(value: float) -> str:
        return _signed(value) if as_points else f"{value:+.3f}"

    mean, low, high = difference.mean, difference.low, difference.high
    if low is None or high is None or not difference.sd:
        return words(mean)
    return f"{words(mean)} [{words(low)}, {words(high)}]"


def _p_words(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _power_words(judgement: Judgement, as_points: bool) -> str:
    """Which differences would have been told, of a claim without a verdict."""
    ends = judgement.told_range if judgement.verdict == CANNOT_TELL else None
    if ends is None:
        return ""

    def words(size: float) -> str:
        return f"{size * 100:.1f}" if as_points else f"{size:.3f}"

    sizes = range_told(*ends, words, judgement.bound)
    margin = "a margin of " if judgement.margin else ""
    return f"; {margin}{sizes} would have been told with a power of {POWER:.0%}"


def place_words(settings: Sequence[Place]) -> Callable[[Finding], str]:
    """A function for the words that tell a place from the other places."""
    varying = _varying_fields(settings)

    def words(finding: Finding) -> str:
        names = [str(getattr(finding.place, name)) for name in varying]
        return f"{', '.join(names)}: " if names else ""

    return words


def _varying_fields(settings: Sequence[Place]) -> list[str]:
    """The fields that tell some places from each other."""
    return [
        name
        for name in ("data", "size", "model", "set")
        if len({getattr(setting, name) for setting in settings}) > 1
    ]


def _together(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Accuracy and worst group of one comparison together, the largest difference that is told
    first."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.place, finding.shift, finding.method), []).append(finding)
    return sorted(groups.values(), key=_largest_told, reverse=True)


def _largest_told(group: Sequence[Finding]) -> float:
    """The largest difference of a group that is told; 0 without one."""
    sizes = [abs(finding.difference.mean) for finding in group if finding.told]
    return max(sizes, default=0.0)


def _cost(group: Sequence[Finding], entries: Mapping[tuple[str, str], Entry]) -> str:
    told_findings = [finding for finding in group if finding.told]
    first = told_findings[0]
    sentence = f"{first.shift} {_changes(told_findings, 'costs', 'gives')}"
    if at_chance(entries[first.shift, first.method], HEADLINE.name):
        sentence += f"; {first.method} is then no better than guessing"
    return f"{sentence}.{_mark(first)}"


def _effect(group: Sequence[Finding]) -> str:
    told_findings = [finding for finding in group if finding.told]
    first = told_findings[0]
    changes = _changes(told_findings, "loses", "wins")
    return f"Under {first.shift} {first.method} {changes}.{_mark(first)}"


def _changes(told_findings: Sequence[Finding], down: str, up: str) -> str:
    """By how much each metric goes `down` or `up`; the verb and the unit are said once."""
    phrases: list[str] = []
    last_verb = ""
    for finding in told_findings:
        mean = finding.difference.mean
        verb = down if mean < 0 else up
        unit = "" if phrases else "points "
        of_metric = "of accuracy" if finding.metric == HEADLINE.name else "in the worst group"
        size = f"{_points(mean)} {unit}{of_metric}{_size_interval(finding)}"
        if finding.about_equal:
            size += f", less than {_points(MARGIN, 0)},"
        phrases.append(size if verb == last_verb else f"{verb} {size}")
        last_verb = verb
    return " and ".join(phrases).removesuffix(",")


def _size_interval(finding: Finding) -> str:
    """The interval of how large a difference is, whatever its sign, after a space; "" without."""
    if finding.interval is None:
        return ""
    sizes = sorted(abs(end) for end in finding.interval)
    low, high = (end_in_points(size, finding.about_equal) for size in sizes)
    return f" [{low}, {high}]"


def _open(finding: Finding) -> str:
    subject = (
        f"{finding.shift} for {finding.method}"
        if finding.kind == COST
        else f"{finding.method} under {finding.shift}"
    )
    metric_words = "accuracy" if finding.metric == HEADLINE.name else "worst group"
    difference = f"{_signed(finding.difference.mean)}{_interval(finding)}"
    if finding.guesses:
        return f"{subject}, {metric_words}: {difference}; neither is told from guessing.{_mark(finding)}"
    if finding.difference.sd == 0:
        difference += ", the same at every seed"
    if finding.seeds:
        difference += f"; {_seeds(*finding.seeds)} would tell {_points(EFFECT, 0)} points"
    return f"{subject}, {metric_words}: {difference}.{_mark(finding)}"


def _seeds(least: int | None, greatest: int | None) -> str:
    """How many seeds would tell something, by the spreads that the seeds at hand make likely."""
    if least is None:
        return "not even 10,000 seeds"
    if greatest is None:
        return f"{least:,} seeds or many more"
    return f"{least:,} to {greatest:,} seeds" if least < greatest else f"{least:,} seeds"


def _interval(finding: Finding) -> str:
    ends = [end_in_points(end, finding.about_equal, "+") for end in finding.interval or ()]
    return f" [{', '.join(ends)}]" if ends else ""


def _points(value: float, digits: int = 1) -> str:
    return f"{abs(value) * 100:.{digits}f}"


def _signed(value: float) -> str:
    return f"{value * 100:+.1f}"


def _mark(finding: Finding) -> str:
    return f" {MARK}" if finding.doubted else ""
