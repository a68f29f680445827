"""What a study found, in sentences: what each shift costs, what each method wins or loses, and what could not be told.

Each comparison is a difference paired by seed with its 95% interval. All of a study are judged together (`multiplicity`). A
sentence says that something differs only where the adjusted p is below 0.05.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crosswind.core.errors import plain
from crosswind.evaluation.compare import Difference, benjamini_hochberg, holm, paired, seeds_to_tell
from crosswind.evaluation.metrics import HEADLINE, METRICS
from crosswind.reports.claims import CANNOT_TELL, POWER, Judgement
from crosswind.reports.notes import MARK, at_chance, doubt_notes
from crosswind.reports.results import Entry, Place, PlaceResults
from crosswind.training.selection import ORACLES

EFFECT = 0.05
"""The difference for which the number of seeds is told that would tell it, see `compare.seeds_to_tell`."""
MARGIN, NEAR_LEVEL = 0.03, 0.9
"""A method is about as good as the reference where the interval at this level lies within the margin (two one-sided tests)."""
LISTED = 5
"""Sentences of a kind that are printed; the page and JSON have all."""
COST, EFFECT_OF = "cost", "effect"
_METRICS = (HEADLINE.name, "worst_group")
_ADJUST: Mapping[str, tuple[str, Callable[[Mapping[int, float]], Mapping[int, float]]]] = {
    "holm": ("Holm", holm),
    "fdr": ("Benjamini-Hochberg", benjamini_hochberg),
}


@dataclass(frozen=True)
class Finding:
    """One comparison at one place: the reference under a shift less itself without one (`cost`), or a method less the reference.

    The latter (`effect`) is under the same shift.

    `value` and `base`: the means of both sides over all their seeds, as fractions. `near`: the interval at `NEAR_LEVEL`.
    `adjusted`: p in the family of the study, None where there is none. `doubted`: a run of a side told its reader to doubt it.
    """

    kind: str
    place: Place
    shift: str
    method: str
    against: str
    metric: str
    value: float
    base: float
    difference: Difference
    near: tuple[float, float] | None
    doubted: bool
    adjusted: float | None = None

    @property
    def told(self) -> bool:
        """Whether the test says that there is a difference."""
        return self.adjusted is not None and self.adjusted < 0.05 and self.difference.excludes_zero

    @property
    def about_equal(self) -> bool:
        """Whether the interval at `NEAR_LEVEL` lies within `MARGIN` of 0."""
        return self.near is not None and self.near[0] > -MARGIN and self.near[1] < MARGIN

    @property
    def seeds(self) -> int | None:
        """The seeds that would tell `EFFECT`, judged for itself; None with several split seeds or without a spread."""
        return seeds_to_tell(self.difference.sd, EFFECT) if self.difference.sd and self.difference.splits == 1 else None

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; differences and means as fractions."""
        names = {name: value for name, value in self.place._asdict().items() if name != "study"}
        ends = {"low": self.difference.low, "high": self.difference.high, "half_width": self.difference.half_width}
        return {
            "kind": self.kind,
            **names,
            "shift": self.shift,
            "method": self.method,
            "against": self.against,
            "metric": self.metric,
            "unit": METRICS[self.metric].unit,
            "value": self.value,
            "base": self.base,
            "difference": self.difference.mean,
            **ends,
            "n": self.difference.n,
            "p": self.difference.p,
            "p_adjusted": self.adjusted,
            "told": self.told,
            "about_equal": self.about_equal,
            "seeds_to_tell": self.seeds,
            "doubted": self.doubted,
        }


@dataclass(frozen=True)
class Findings:
    """The comparisons of one study and their sentences, by heading: (heading, sentences), the largest first; `intro` says how."""

    intro: str
    items: Sequence[Finding]
    parts: Sequence[tuple[str, Sequence[str]]]

    def __post_init__(self) -> None:
        # Names come from a store, which may hold anything; sentences go to terminals.
        parts = [(plain(heading), list(map(plain, sentences))) for heading, sentences in self.parts]
        vars(self).update(intro=plain(self.intro), parts=parts)

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: the sentences by heading, and every comparison with its numbers."""
        sentences = {heading: list(found) for heading, found in self.parts}
        return {"intro": self.intro, "sentences": sentences, "comparisons": [item.to_json() for item in self.items]}

    def to_text(self, width: int = 80) -> str:
        """The sentences for a terminal, at most `LISTED` of a kind."""
        lines = textwrap.wrap(self.intro, width, break_on_hyphens=False)
        for heading, sentences in self.parts:
            lines += ["", heading]
            for sentence in sentences[:LISTED]:
                lines += textwrap.wrap(sentence, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
            if len(sentences) > LISTED:
                lines.append(f"  and {len(sentences) - LISTED} more on the page")
        return "\n".join(lines) + "\n"


def find(
    shown: Sequence[PlaceResults],
    resolved: Mapping[str, Any],
    claims: Sequence[Judgement],
    runs: Sequence[Mapping[str, Any]],
) -> Findings | None:
    """What a study found on its test sets by the first of its selection rules; None where nothing can be compared.

    `shown`: its places, `resolved`: the study with every default, `claims`: judged, `runs`: each with its `status`.
    """
    rule = str(resolved["selection"][0])
    places = [at for at in shown if at.place.rule == rule]
    items = [item for at in places for item in (*_costs(at, resolved), *_effects(at))]
    if not items:
        return None
    multiplicity = str(resolved.get("multiplicity", "holm"))
    known = {i: item.difference.p for i, item in enumerate(items) if item.difference.p is not None}
    adjusted = _ADJUST[multiplicity][1](known) if multiplicity in _ADJUST else known
    items = [replace(item, adjusted=adjusted.get(i)) for i, item in enumerate(items)]
    return Findings(_intro(places[0].place, items, multiplicity, runs), items, list(_parts(places, items, claims)))


def _costs(at: PlaceResults, resolved: Mapping[str, Any]) -> Iterator[Finding]:
    unshifted = [name for name, parts in resolved.get("shifts", {}).items() if parts == []]
    law = resolved.get("sets", {}).get(at.place.set, {}).get("law")
    if not unshifted or law != "uniform":  # rows of another law may be others under each shift
        return
    base = at.entries.get((unshifted[0], at.reference))
    for shift in at.shifts:
        entry = at.entries.get((shift, at.reference))
        if shift not in unshifted and entry is not None and base is not None:
            metrics = _METRICS if _grouped_by(entry) == _grouped_by(base) else _METRICS[:1]
            yield from _compared(COST, at.place, shift, at.reference, unshifted[0], entry, base, metrics)


def _grouped_by(entry: Entry) -> set[tuple[str, ...]]:
    """The attributes whose cells are the groups: worst groups of other attributes are no measure of one thing."""
    names = (str(item.get("worst_group_name")) for item in entry.metrics.values())
    return {tuple(re.findall(r"(?:^|, )([^=,]+)=", name)) for name in names}


def _effects(at: PlaceResults) -> Iterator[Finding]:
    for shift, method, entry in at.grid():
        base = at.entries.get((shift, at.reference))
        if method != at.reference and entry is not None and base is not None:
            yield from _compared(EFFECT_OF, at.place, shift, method, at.reference, entry, base, _METRICS)


def _compared(
    kind: str, place: Place, shift: str, method: str, against: str, entry: Entry, base: Entry, metrics: Iterable[str]
) -> Iterator[Finding]:
    for metric in metrics:
        difference = entry.difference(base, metric)
        one, other = entry.summary(metric), base.summary(metric)
        if difference is None or one is None or other is None:
            continue
        narrow = paired(base.values(metric), entry.values(metric), NEAR_LEVEL)
        near = None if narrow is None or narrow.low is None or narrow.high is None or not narrow.sd else (narrow.low, narrow.high)
        doubted = bool(entry.doubts or base.doubts)
        yield Finding(kind, place, shift, method, against, metric, one.mean, other.mean, difference, near, doubted)


# -- words --------------------------------------------------------------------------------------------------------------------


def _intro(place: Place, items: Sequence[Finding], multiplicity: str, runs: Sequence[Mapping[str, Any]]) -> str:
    numbers = sorted({item.difference.n for item in items})
    crossed = any(item.difference.splits > 1 for item in items)
    seeds = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    seeds += " runs" if crossed else " seeds" if numbers[-1] > 1 else " seed"
    judged = "p < 0.05, each alone"
    if multiplicity in _ADJUST:
        family = sum(item.difference.p is not None for item in items)
        judged = f"p < 0.05 by {_ADJUST[multiplicity][0]} over {family} comparisons"
    waiting = sum(run["status"] not in ("finished", "diverged", "failed") for run in runs)
    missing = f" {waiting:,} of {len(runs):,} runs are not done." if waiting else ""
    oracle = " The rule that chooses the step is an ORACLE." if place.rule in ORACLES else ""
    return f"Findings of {place.study} ({seeds}; points are percentage points; [95% interval]; {judged}).{missing}{oracle}"


def _parts(
    places: Sequence[PlaceResults], items: Sequence[Finding], claims: Sequence[Judgement]
) -> Iterator[tuple[str, list[str]]]:
    where = _where([at.place for at in places])
    reference = places[0].reference
    entries = {at.place: at.entries for at in places}
    costs, effects = (_together(item for item in items if item.kind == kind) for kind in (COST, EFFECT_OF))
    if costs:
        without = sorted({f"{group[0].base:.1%}" for group in costs if group[0].metric == HEADLINE.name})
        right = f" (right on {' to '.join(dict.fromkeys((without[0], without[-1])))} without a shift)" if without else ""
        said = [where(group[0]) + _cost(group, entries[group[0].place]) for group in costs if any(item.told for item in group)]
        yield f"What each shift costs {reference}{right}", said or ["No cost could be told."]
    if effects:
        said = [where(group[0]) + _effect(group, reference) for group in effects if any(item.told for item in group)]
        yield f"What each method does beside {reference} under the same shift", said or ["No difference could be told."]
    if claims:
        often = Counter(item.number for item in claims)
        yield "Claims", [_claim(item, often[item.number] > 1) for item in claims]
    near = [item for item in items if item.kind == EFFECT_OF and item.about_equal and item.metric == HEADLINE.name]
    if near:
        yield (
            f"About as accurate as {reference}: 90% interval within {_points(MARGIN, 0)} points",
            [
                f"{where(item)}{item.method} under {item.shift} [{_signed(item.near[0])}, {_signed(item.near[1])}]{_mark(item)}"
                for item in near
                if item.near is not None
            ],
        )
    open_ = sorted((item for item in items if not item.told and item not in near), key=lambda item: -abs(item.difference.mean))
    if open_:
        yield f"What could not be told ({len(open_)} of {len(items)})", [where(item) + _open(item) for item in open_]
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
        None if value is None else _signed(value) if parts else f"{value:+.3f}" for value in (found.mean, found.low, found.high)
    )
    interval = "" if None in ends else f" [{ends[0]}, {ends[1]}]"
    p = "" if item.adjusted is None else f"; p {'< 0.001' if item.adjusted < 0.001 else f'= {item.adjusted:.3f}'}"
    told = item.told if item.verdict == CANNOT_TELL else None
    could = "" if told is None else f"; {'a margin of ' if item.margin else ''}{f'{told * 100:.1f}' if parts else f'{told:.3f}'}"
    power = could and f"{could} would have been told with a power of {POWER:.0%}"
    return f"{text}: {item.verdict} ({mean}{interval}{p}{power})."


def _where(places: Sequence[Place]) -> Callable[[Finding], str]:
    """What of a place must be said to tell it from the other places."""
    varying = [name for name in ("data", "size", "model", "set") if len({getattr(place, name) for place in places}) > 1]

    def words(item: Finding) -> str:
        parts = [str(getattr(item.place, name)) for name in varying]
        return f"{', '.join(parts)}: " if parts else ""

    return words


def _together(items: Iterable[Finding]) -> list[list[Finding]]:
    """Accuracy and worst group of one comparison together, the largest difference that is told first."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for item in items:
        groups.setdefault((item.place, item.shift, item.method), []).append(item)
    return sorted(groups.values(), key=lambda group: -max((abs(item.difference.mean) for item in group if item.told), default=0.0))


def _cost(group: Sequence[Finding], entries: Mapping[tuple[str, str], Entry]) -> str:
    told = [item for item in group if item.told]
    entry = entries[told[0].shift, told[0].method]
    end = f"; {told[0].method} is then no better than guessing" if at_chance(entry, HEADLINE.name) else ""
    return f"{told[0].shift} {_changes(told, 'costs', 'gives')}{end}.{_mark(told[0])}"


def _effect(group: Sequence[Finding], reference: str) -> str:
    told = [item for item in group if item.told]
    return f"Under {told[0].shift} {told[0].method} {_changes(told, 'loses', 'wins')}.{_mark(told[0])}"


def _changes(told: Sequence[Finding], down: str, up: str) -> str:
    words: list[str] = []
    verb = ""
    for item in told:
        ends = sorted((abs(item.difference.low or 0), abs(item.difference.high or 0)))
        again, verb = verb, down if item.difference.mean < 0 else up
        of = "of accuracy" if item.metric == HEADLINE.name else "in the worst group"
        size = f"{_points(item.difference.mean)} {'points ' if not words else ''}{of} [{_points(ends[0])}, {_points(ends[1])}]"
        words.append(size if verb == again else f"{verb} {size}")
    return " and ".join(words)


def _open(item: Finding) -> str:
    what = f"{item.shift} for {item.method}" if item.kind == COST else f"{item.method} under {item.shift}"
    of = "accuracy" if item.metric == HEADLINE.name else "worst group"
    low, high = item.difference.low, item.difference.high
    interval = "" if low is None or high is None else f" [{_signed(low)}, {_signed(high)}]"
    seeds = f"; {item.seeds} seeds would tell {_points(EFFECT, 0)} points" if item.seeds else ""
    return f"{what}, {of}: {_signed(item.difference.mean)}{interval}{seeds}.{_mark(item)}"


def _points(value: float, digits: int = 1) -> str:
    return f"{abs(value) * 100:.{digits}f}"


def _signed(value: float) -> str:
    return f"{value * 100:+.1f}"


def _mark(item: Finding) -> str:
    return f" {MARK}" if item.doubted else ""
