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
        parts = [(plain(heading), list(map(plain, sentences))) for heading, sentences in self.parts]
        vars(self).update(intro=plain(self.intro), parts=parts)

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: the sentences by heading, and every comparison with its
        numbers."""
        sentences = {heading: list(found) for heading, found in self.parts}
        return {
            "intro": self.intro,
            "sentences": sentences,
            "comparisons": [item.to_json() for item in self.items],
        }

    def to_text(self, width: int = 80) -> str:
        """The sentences for a terminal, at most `LISTED` of a kind."""
        lines = textwrap.wrap(self.intro, width, break_on_hyphens=False)
        for heading, sentences in self.parts:
            lines += ["", *textwrap.wrap(heading, width, break_on_hyphens=False)]
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
    places = [at for at in shown if at.place.rule == rule]
    items = judged(places, resolved)
    if not items:
        return None
    return Findings(
        _intro(places[0].place, items, claims, runs), items, list(_parts(places, items, claims))
    )


# -- words
# --------------------------------------------------------------------------------------------------


def _intro(
    place: Place,
    items: Sequence[Finding],
    claims: Sequence[Judgement],
    runs: Sequence[Mapping[str, Any]],
) -> str:
    numbers = sorted({item.difference.n for item in items})
    crossed = any(item.difference.splits > 1 for item in items)
    seeds = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    seeds += " runs" if crossed else " seeds" if numbers[-1] > 1 else " seed"
    judged_by = f"p < 0.05{_by(items[0].multiplicity, items[0].family, ' comparisons')}"
    interval = f"[{percent(items[0].level)} interval, which excludes 0 where p says so]"
    waiting = sum(run["status"] not in ("finished", "diverged", "failed") for run in runs)
    missing = f" {waiting:,} of {len(runs):,} runs are not done." if waiting else ""
    oracle = " The rule that chooses the step is an ORACLE." if place.rule in ORACLES else ""
    apart = ""
    if claims:
        by = _by(claims[0].multiplicity, claims[0].family)
        apart = f" Claims are a family of their own: p{by}; [{percent(claims[0].level)} interval]."
    return (
        f"Findings of {place.study} ({seeds}; points are percentage points; {judged_by};"
        f" {interval}).{apart}{missing}{oracle}"
    )


def _by(multiplicity: str, family: int, what: str = "") -> str:
    """What p is adjusted by, and for how many."""
    return (
        f" by {ADJUST[multiplicity][0]} over {family}{what}"
        if multiplicity in ADJUST
        else ", each alone"
    )


def _parts(
    places: Sequence[PlaceResults], items: Sequence[Finding], claims: Sequence[Judgement]
) -> Iterator[tuple[str, list[str]]]:
    where = _where([at.place for at in places])
    reference = places[0].reference
    entries = {at.place: at.entries for at in places}
    costs, effects = (
        _together(item for item in items if item.kind == kind) for kind in (COST, EFFECT_OF)
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
        said = [
            where(group[0]) + _cost(group, entries[group[0].place])
            for group in costs
            if any(item.told for item in group)
        ]
        yield f"What each shift costs {reference}{right}", said or ["No cost could be told."]
    if effects:
        said = [
            where(group[0]) + _effect(group, reference)
            for group in effects
            if any(item.told for item in group)
        ]
        yield (
            f"What each method does beside {reference} under the same shift",
            said or ["No difference could be told."],
        )
    if claims:
        often = Counter(item.number for item in claims)
        yield "Claims", [_claim(item, often[item.number] > 1) for item in claims]
    asked = sum(item.adjusted_equal is not None for item in items)
    near = [item for item in items if item.about_equal and not item.told]
    if near:
        by = f"p < 0.05{_by(near[0].multiplicity, asked)}"
        yield (
            f"About as accurate as {reference}: less than {_points(MARGIN, 0)} points apart, {by}",
            [
                f"{where(item)}{item.method} under {item.shift}{_interval(item)}{_mark(item)}"
                for item in near
            ],
        )
    open_ = sorted(
        (item for item in items if not item.told and item not in near),
        key=lambda item: -abs(item.difference.mean),
    )
    if open_:
        yield (
            f"What could not be told ({len(open_)} of {len(items)})",
            [where(item) + _open(item) for item in open_],
        )
    doubts = dict.fromkeys(line for at in places for line in doubt_notes(at))
    if doubts:
        yield "Rows that doubt themselves", list(doubts)


def _claim(item: Judgement, several: bool) -> str:
    found = None if item.waits else item.difference
    about = (item.place.data, item.shift, item.place.size, item.place.model, item.place.rule)
    text = f"{item.text} ({', '.join(filter(None, about))})" if several else item.text
    if found is None:
        return f"{text}: {item.verdict}."
    parts = METRICS[item.metric].unit == "fraction"  # rho is no share, and has no points
    mean, *ends = (
        None if value is None else _signed(value) if parts else f"{value:+.3f}"
        for value in (found.mean, found.low, found.high)
    )
    interval = "" if None in ends or not found.sd else f" [{ends[0]}, {ends[1]}]"
    p = (
        ""
        if item.adjusted is None
        else f"; p {'< 0.001' if item.adjusted < 0.001 else f'= {item.adjusted:.3f}'}"
    )
    told = item.told_range if item.verdict == CANNOT_TELL else None
    sizes = (
        ""
        if told is None
        else " to ".join(f"{size * 100:.1f}" if parts else f"{size:.3f}" for size in told)
    )
    power = (
        sizes
        and f"; {'a margin of ' if item.margin else ''}{sizes} would have been told with a power of {POWER:.0%}"
    )
    return f"{text}: {item.verdict} ({mean}{interval}{p}{power})."


def _where(places: Sequence[Place]) -> Callable[[Finding], str]:
    """What of a place must be said to tell it from the other places."""
    varying = [
        name
        for name in ("data", "size", "model", "set")
        if len({getattr(place, name) for place in places}) > 1
    ]

    def words(item: Finding) -> str:
        parts = [str(getattr(item.place, name)) for name in varying]
        return f"{', '.join(parts)}: " if parts else ""

    return words


def _together(items: Iterable[Finding]) -> list[list[Finding]]:
    """Accuracy and worst group of one comparison together, the largest difference that is told
    first."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for item in items:
        groups.setdefault((item.place, item.shift, item.method), []).append(item)
    return sorted(
        groups.values(),
        key=lambda group: (
            -max((abs(item.difference.mean) for item in group if item.told), default=0.0)
        ),
    )


def _cost(group: Sequence[Finding], entries: Mapping[tuple[str, str], Entry]) -> str:
    told = [item for item in group if item.told]
    entry = entries[told[0].shift, told[0].method]
    end = (
        f"; {told[0].method} is then no better than guessing"
        if at_chance(entry, HEADLINE.name)
        else ""
    )
    return f"{told[0].shift} {_changes(told, 'costs', 'gives')}{end}.{_mark(told[0])}"


def _effect(group: Sequence[Finding], reference: str) -> str:
    told = [item for item in group if item.told]
    return (
        f"Under {told[0].shift} {told[0].method} {_changes(told, 'loses', 'wins')}.{_mark(told[0])}"
    )


def _changes(told: Sequence[Finding], down: str, up: str) -> str:
    words: list[str] = []
    verb = ""
    for item in told:
        ends = [
            _end(end, item.about_equal)
            for end in sorted(abs(end) for end in item.interval or (0.0, 0.0))
        ]
        again, verb = verb, down if item.difference.mean < 0 else up
        of = "of accuracy" if item.metric == HEADLINE.name else "in the worst group"
        size = (
            f"{_points(item.difference.mean)} {'points ' if not words else ''}{of} [{ends[0]},"
            f" {ends[1]}]"
        )
        size += f", less than {_points(MARGIN, 0)}," if item.about_equal else ""
        words.append(size if verb == again else f"{verb} {size}")
    return " and ".join(words).removesuffix(",")


def _open(item: Finding) -> str:
    what = (
        f"{item.shift} for {item.method}"
        if item.kind == COST
        else f"{item.method} under {item.shift}"
    )
    of = "accuracy" if item.metric == HEADLINE.name else "worst group"
    alike = ", the same at every seed" if item.difference.sd == 0 else ""
    seeds = f"; {_seeds(*item.seeds)} would tell {_points(EFFECT, 0)} points" if item.seeds else ""
    return (
        f"{what}, {of}:"
        f" {_signed(item.difference.mean)}{_interval(item)}{alike}{seeds}.{_mark(item)}"
    )


def _seeds(least: int | None, most: int | None) -> str:
    """How many seeds would tell something, by the spreads that the seeds at hand make likely."""
    if least is None:
        return "not even 10,000 seeds"
    if most is None:
        return f"{least:,} seeds or many more"
    return f"{least:,} to {most:,} seeds" if least < most else f"{least:,} seeds"


def _interval(item: Finding) -> str:
    ends = [_end(end, item.about_equal, "+") for end in item.interval or ()]
    return f" [{', '.join(ends)}]" if ends else ""


def _end(value: float, near: bool, sign: str = "") -> str:
    """An end of an interval in points, with more digits where one digit would put it on 0, or on
    the margin of an equality."""
    points, bounds = 100 * value, (0.0, 100 * MARGIN) if near else (0.0,)
    digits = next((digits for digits in (1, 2, 3) if round(abs(points), digits) not in bounds), 1)
    return f"{points:{sign}.{digits}f}"


def _points(value: float, digits: int = 1) -> str:
    return f"{abs(value) * 100:.{digits}f}"


def _signed(value: float) -> str:
    return f"{value * 100:+.1f}"


def _mark(item: Finding) -> str:
    return f" {MARK}" if item.doubted else ""
