"""The comparisons of a study's scores, judged together: what differs, what is about equal, and the
interval that says so.

There are two families of tests for each selection rule. One asks of each comparison whether there
is a difference, the other of each method's accuracy whether it is within `MARGIN` of the
reference's. Sentences, stars and frames of a page say what these say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crosswind.evaluation.compare import Difference, paired
from crosswind.evaluation.metrics import HEADLINE, METRICS
from crosswind.evaluation.multiplicity import (
    ADJUST,
    ALPHA,
    Family,
    hardest_level,
    judged_together,
    percent,
    seeds_needed,
)
from crosswind.reports.scores.results import LEVEL, Entry, Place, PlaceResults

EFFECT = 0.05
"""The difference for which the number of seeds is told that would tell it, see
`multiplicity.seeds_needed`."""

MARGIN = 0.03
"""A method is about as good as the reference where two one-sided tests say that they differ by less
(Schuirmann 1987)."""

COST, EFFECT_OF = "cost", "effect"
_METRICS = (HEADLINE.name, "worst_group")


@dataclass(frozen=True)
class Finding:
    """One comparison at one place: the reference under a shift less itself without one (`cost`), or
    a method less the reference.

    The latter (`effect`) is under the same shift. `sides`: the scores of both, of which the second
    is taken off. `value` and `base`: their means over all their seeds, as fractions. `level`: of
    the interval that excludes 0 exactly where the difference is told; `adjusted`: its p among the
    `family` comparisons. `equal_level` and `adjusted_equal`: the same of the two one-sided tests of
    equality. Each p is None where there is none. `doubted`: a run of a side told its reader to
    doubt it.
    """

    kind: str
    place: Place
    shift: str
    method: str
    against: str
    metric: str
    value: float
    base: float
    sides: tuple[Entry, Entry]
    doubted: bool
    level: float = LEVEL
    equal_level: float = 2 * LEVEL - 1
    adjusted: float | None = None
    adjusted_equal: float | None = None
    family: int = 1
    multiplicity: str = "holm"

    @property
    def difference(self) -> Difference:
        """The difference with its interval at `level`."""
        return self.at_level(self.level)

    def at_level(self, level: float) -> Difference:
        """The difference with its interval at a level."""
        found = self.sides[0].difference(self.sides[1], self.metric, level)
        assert found is not None, "only sides that share a run are compared"
        return found

    @property
    def told(self) -> bool:
        """Whether the tests say that there is a difference."""
        return self.adjusted is not None and self.adjusted < ALPHA

    @property
    def about_equal(self) -> bool:
        """Whether the tests say that the difference is less than `MARGIN`. It may be told, too:
        then there is one, and small."""
        return self.adjusted_equal is not None and self.adjusted_equal < ALPHA

    @property
    def interval(self) -> tuple[float, float] | None:
        """What the verdicts leave possible: it excludes 0 where a difference is told, and is inside
        the margin where equality is.

        Of an equality without a difference it is that of two one-sided tests, which holds 0 (Hsu
        and others 1994). None without a spread: equal differences at every seed say nothing of
        their uncertainty.
        """
        found = _ends(self.difference)
        near = _ends(self.at_level(self.equal_level)) if self.about_equal else None
        if found is None or near is None:
            return found
        if not self.told:
            return min(0.0, near[0]), max(0.0, near[1])
        return (found[0], near[1]) if self.difference.mean > 0 else (near[0], found[1])

    @property
    def seeds(self) -> tuple[int | None, int | None] | None:
        """The least and the largest number of seeds that would tell `EFFECT` in this study, by the
        likely spreads.

        None with several split seeds or without a spread; one of the two is None where 10,000 seeds
        are not enough.
        """
        if not self.difference.sd or self.difference.splits != 1:
            return None
        return seeds_needed(
            self.difference.sd,
            self.difference.n,
            EFFECT,
            hardest_level(self.multiplicity, self.family),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; differences and means as fractions. `low` and `high` belong to the
        verdicts, `alone` to none."""
        names = {name: value for name, value in self.place._asdict().items() if name != "study"}
        (low, high), alone = self.interval or (None, None), self.at_level(LEVEL)
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
            "low": low,
            "high": high,
            "level": self.level,
            "alone": {"low": alone.low, "high": alone.high, "level": LEVEL},
            "n": self.difference.n,
            "p": self.difference.p,
            "p_adjusted": self.adjusted,
            "told": self.told,
            "p_equal_adjusted": self.adjusted_equal,
            "about_equal": self.about_equal,
            "seeds_to_tell": self.seeds,
            "doubted": self.doubted,
        }


Verdicts = Mapping[tuple[str, str], Finding]
"""Of one place, by (shift, method): the verdict on a method's accuracy beside the reference."""


def judged(places: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> list[Finding]:
    """Every comparison of some places of one selection rule, judged together; `resolved`: the study
    with every default."""
    items = [item for at in places for item in (*_costs(at, resolved), *_effects(at))]
    multiplicity = str(resolved.get("multiplicity", "holm"))
    differ = judged_together(
        _known({i: item.difference.p for i, item in enumerate(items)}), multiplicity
    )
    equal = judged_together(
        _known({i: _p_of_equality(item) for i, item in enumerate(items)}), multiplicity
    )
    return [_with_verdicts(item, i, differ, equal) for i, item in enumerate(items)]


def by_place(
    places: Sequence[PlaceResults], resolved: Mapping[str, Any]
) -> Mapping[Place, Verdicts]:
    """The verdicts on accuracies of every place; the places of one selection rule are judged
    together."""
    found: dict[Place, dict[tuple[str, str], Finding]] = {at.place: {} for at in places}
    for rule in dict.fromkeys(at.place.rule for at in places):
        for item in judged([at for at in places if at.place.rule == rule], resolved):
            if item.kind == EFFECT_OF and item.metric == HEADLINE.name:
                found[item.place][item.shift, item.method] = item
    return found


def verdicts_at(at: PlaceResults) -> Verdicts:
    """The verdicts of a place by itself, as of a study that has no other."""
    return by_place([at], {})[at.place]


def star_words(verdicts: Verdicts, reference: str) -> tuple[str, str]:
    """The level of the intervals of some verdicts, and what a star or frame says: of all of them
    the same."""
    first = next(iter(verdicts.values()), None)
    if first is None:
        return percent(LEVEL), ""
    level = percent(first.level)
    corrected = first.multiplicity in ADJUST
    by = (
        f"by {ADJUST[first.multiplicity][0]} over the {first.family} comparisons of this rule"
        if corrected
        else "each alone"
    )
    return (
        level,
        f"differs from {reference}: p < 0.05 {by}, so that the {level} interval excludes 0",
    )


def _known(p_values: Mapping[int, float | None]) -> dict[int, float]:
    return {name: p for name, p in p_values.items() if p is not None}


def _ends(found: Difference) -> tuple[float, float] | None:
    return (
        None if not found.sd or found.low is None or found.high is None else (found.low, found.high)
    )


def _p_of_equality(item: Finding) -> float | None:
    """The larger p of two one-sided tests that the difference is within the margin; None where
    equality is not asked."""
    if item.kind != EFFECT_OF or item.metric != HEADLINE.name:
        return None
    one, other = (side.values(item.metric) for side in item.sides)
    sign = 1 if item.difference.mean >= 0 else -1
    apart = {run: sign * (value - other[run]) for run, value in one.items() if run in other}
    inside = paired(apart, dict.fromkeys(apart, MARGIN), LEVEL)
    if inside is None or inside.p is None:
        return None
    return inside.p / 2 if inside.mean > 0 else 1 - inside.p / 2


def _with_verdicts(item: Finding, number: int, differ: Family[int], equal: Family[int]) -> Finding:
    return replace(
        item,
        level=differ.level,
        equal_level=1 - 2 * equal.threshold,
        adjusted=differ.adjusted.get(number),
        adjusted_equal=equal.adjusted.get(number),
        family=len(differ.adjusted),
        multiplicity=differ.multiplicity,
    )


# -- what is compared
# --------------------------------------------------------------------------------------------------


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
            yield from _compared(
                COST, at.place, shift, at.reference, unshifted[0], entry, base, metrics
            )


def _grouped_by(entry: Entry) -> set[tuple[str, ...]]:
    """The attributes whose cells are the groups: worst groups of other attributes are no measure of
    one thing."""
    names = (str(item.get("worst_group_name")) for item in entry.metrics.values())
    return {tuple(re.findall(r"(?:^|, )([^=,]+)=", name)) for name in names}


def _effects(at: PlaceResults) -> Iterator[Finding]:
    for shift, method, entry in at.grid():
        base = at.entries.get((shift, at.reference))
        if method != at.reference and entry is not None and base is not None:
            yield from _compared(
                EFFECT_OF, at.place, shift, method, at.reference, entry, base, _METRICS
            )


def _compared(
    kind: str,
    place: Place,
    shift: str,
    method: str,
    against: str,
    entry: Entry,
    base: Entry,
    metrics: Iterable[str],
) -> Iterator[Finding]:
    for metric in metrics:
        one, other = entry.summary(metric), base.summary(metric)
        if one is None or other is None or entry.difference(base, metric) is None:
            continue
        doubted = bool(entry.doubts or base.doubts)
        yield Finding(
            kind,
            place,
            shift,
            method,
            against,
            metric,
            one.mean,
            other.mean,
            (entry, base),
            doubted,
        )
