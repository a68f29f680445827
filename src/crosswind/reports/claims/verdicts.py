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
from crosswind.reports.scores.notes import is_guessing
from crosswind.reports.scores.results import LEVEL, Entry, Place, PlaceResults

EFFECT = 0.05
"""The difference for which the number of seeds is told that would tell it, see
`multiplicity.seeds_needed`."""

MARGIN = 0.03
"""A method is about as good as the reference where two one-sided tests say that they differ by less
(Schuirmann 1987)."""

COST, EFFECT_OF = "cost", "effect"
WORST_GROUP = "worst_group"
_METRICS = (HEADLINE.name, WORST_GROUP)


@dataclass(frozen=True)
class Finding:
    """One comparison at one place: the reference under a shift less itself without one (`cost`), or
    a method less the reference.

    The latter (`effect`) is under the same shift. `sides`: the scores of both, of which the second
    is taken off. `value` and `base`: their means over all their seeds, as fractions. `level`: of
    the interval that excludes 0 exactly where the difference is told; `adjusted`: its p among the
    `family` comparisons. `equal_level` and `adjusted_equal`: the same of the two one-sided tests of
    equality. Each p is None where there is none. `doubted`: a run of a side told its reader to
    doubt it. `guesses`: an accuracy of which neither side is told from guessing (`is_guessing`):
    such a difference says nothing of a shift or a method, and is never told. It counts in the
    family, which is then the same whatever the scores are.
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
    guesses: bool = False
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
        difference = self.sides[0].difference(self.sides[1], self.metric, level)
        assert difference is not None, "only sides that share a run are compared"
        return difference

    @property
    def told(self) -> bool:
        """Whether the tests say that there is a difference."""
        return not self.guesses and self.adjusted is not None and self.adjusted < ALPHA

    @property
    def about_equal(self) -> bool:
        """Whether the tests say that the difference is less than `MARGIN`. It may be told, too:
        then there is one, and small."""
        within = self.adjusted_equal is not None and self.adjusted_equal < ALPHA
        return within and not self.guesses

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval that the verdicts leave possible: it excludes 0 where a difference is told,
        and is inside the margin where equality is.

        Of an equality without a difference it is that of two one-sided tests, which holds 0 (Hsu
        and others 1994). None without a spread: equal differences at every seed say nothing of
        their uncertainty. None of two guesses.
        """
        ends = None if self.guesses else _ends(self.difference)
        equality_ends = _ends(self.at_level(self.equal_level)) if self.about_equal else None
        if ends is None or equality_ends is None:
            return ends
        if not self.told:
            return min(0.0, equality_ends[0]), max(0.0, equality_ends[1])
        return (
            (ends[0], equality_ends[1]) if self.difference.mean > 0 else (equality_ends[0], ends[1])
        )

    @property
    def interval_level(self) -> float:
        """The level of `interval`; of a difference that is told and small, whose ends have two
        levels, the lower one."""
        if not self.about_equal:
            return self.level
        return min(self.level, self.equal_level) if self.told else self.equal_level

    @property
    def seeds(self) -> tuple[int | None, int | None] | None:
        """The least and the largest number of seeds that would tell `EFFECT` in this study, by the
        likely spreads.

        None with several split seeds or without a spread; one of the two is None where 10,000 seeds
        are not enough.
        """
        return self._runs_needed() if self.difference.splits == 1 else None

    @property
    def repeats(self) -> tuple[int | None, int | None] | None:
        """As `seeds`, the number of split seeds, in a study that has one seed with each; None in any
        other."""
        splits = self.difference.splits
        return self._runs_needed() if splits == self.difference.n > 1 else None

    def _runs_needed(self) -> tuple[int | None, int | None] | None:
        if self.guesses or not self.difference.sd:
            return None
        return seeds_needed(
            self.difference.sd,
            self.difference.n,
            EFFECT,
            hardest_level(self.multiplicity, self.family),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; differences and means as fractions. `low`, `high` and `level` belong
        to the verdicts, `alone` to none."""
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
            "level": self.interval_level,
            "alone": {"low": alone.low, "high": alone.high, "level": LEVEL},
            "n": self.difference.n,
            "p": self.difference.p,
            "p_adjusted": self.adjusted,
            "told": self.told,
            "p_equal_adjusted": self.adjusted_equal,
            "about_equal": self.about_equal,
            "seeds_to_tell": self.seeds,
            "doubted": self.doubted,
            "guesses": self.guesses,
        }


Verdicts = Mapping[tuple[str, str], Finding]
"""Of one place, by (shift, method): the verdict on a method's accuracy beside the reference."""


def judged(rule_results: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> list[Finding]:
    """Every comparison of some places of one selection rule, judged together; `resolved`: the study
    with every default."""
    findings = [
        finding
        for setting_results in rule_results
        for finding in (*_costs(setting_results, resolved), *_effects(setting_results))
    ]
    multiplicity = str(resolved.get("multiplicity", "holm"))
    differ = judged_together(
        _known({i: finding.difference.p for i, finding in enumerate(findings)}), multiplicity
    )
    equal = judged_together(
        _known({i: _p_of_equality(finding) for i, finding in enumerate(findings)}), multiplicity
    )
    return [_with_verdicts(finding, i, differ, equal) for i, finding in enumerate(findings)]


def by_place(
    settings_results: Sequence[PlaceResults], resolved: Mapping[str, Any]
) -> Mapping[Place, Verdicts]:
    """The verdicts on accuracies of every place; the places of one selection rule are judged
    together."""
    finding_of: dict[Place, dict[tuple[str, str], Finding]] = {
        setting_results.place: {} for setting_results in settings_results
    }
    for rule in dict.fromkeys(setting_results.place.rule for setting_results in settings_results):
        rule_results = [
            setting_results
            for setting_results in settings_results
            if setting_results.place.rule == rule
        ]
        for finding in judged(rule_results, resolved):
            if finding.kind == EFFECT_OF and finding.metric == HEADLINE.name:
                finding_of[finding.place][finding.shift, finding.method] = finding
    return finding_of


def verdicts_at(setting_results: PlaceResults) -> Verdicts:
    """The verdicts of a place by itself, as of a study that has no other."""
    return by_place([setting_results], {})[setting_results.place]


def star_words(verdicts: Verdicts, reference: str) -> tuple[str, str]:
    """The level of the intervals of some verdicts, and what a star or frame says: of all of them
    the same."""
    first = next(iter(verdicts.values()), None)
    if first is None:
        return percent(LEVEL), ""
    level = percent(first.level)
    if first.multiplicity not in ADJUST:
        by = "each alone"
    elif first.family == 1:
        by = "the only comparison of this rule"
    else:
        by = (
            f"by {ADJUST[first.multiplicity][0]} over the {first.family:,} comparisons of this rule"
        )
    return (
        level,
        f"differs from {reference}: p < 0.05 {by}, so that the {level} interval excludes 0",
    )


def end_in_points(value: float, at_margin: bool, sign: str = "") -> str:
    """An end of an interval of a difference of shares in points, with more digits where one digit
    would put it on 0, or on the margin of an equality.

    No two shares differ by more than 100 points: an interval of few seeds that goes beyond ends
    there.
    """
    points = min(100.0, max(-100.0, 100 * value))
    bounds = (0.0, 100 * MARGIN) if at_margin else (0.0,)
    fitting = (digits for digits in (1, 2, 3) if round(abs(points), digits) not in bounds)
    return f"{points:{sign}.{next(fitting, 1)}f}"


def _known(p_values: Mapping[int, float | None]) -> dict[int, float]:
    return {name: p for name, p in p_values.items() if p is not None}


def _ends(difference: Difference) -> tuple[float, float] | None:
    if not difference.sd or difference.low is None or difference.high is None:
        return None
    return difference.low, difference.high


def _p_of_equality(finding: Finding) -> float | None:
    """The larger p of two one-sided tests that the difference is within the margin; None where
    equality is not asked."""
    if finding.kind != EFFECT_OF or finding.metric != HEADLINE.name:
        return None
    first_values, second_values = (side.values(finding.metric) for side in finding.sides)
    sign = 1 if finding.difference.mean >= 0 else -1
    apart = {
        run: sign * (value - second_values[run])
        for run, value in first_values.items()
        if run in second_values
    }
    inside = paired(apart, dict.fromkeys(apart, MARGIN), LEVEL)
    if inside is None or inside.p is None:
        return None
    return inside.p / 2 if inside.mean > 0 else 1 - inside.p / 2


def _with_verdicts(
    finding: Finding, number: int, differ: Family[int], equal: Family[int]
) -> Finding:
    return replace(
        finding,
        level=differ.level,
        equal_level=1 - 2 * equal.threshold,
        adjusted=differ.adjusted.get(number),
        adjusted_equal=equal.adjusted.get(number),
        family=len(differ.adjusted),
        multiplicity=differ.multiplicity,
    )


# -- what is compared ------------------------------------------------------------------------------


def _costs(setting_results: PlaceResults, resolved: Mapping[str, Any]) -> Iterator[Finding]:
    unshifted = [
        name for name, shift_parts in resolved.get("shifts", {}).items() if shift_parts == []
    ]
    law = resolved.get("sets", {}).get(setting_results.place.set, {}).get("law")
    if not unshifted or law != "uniform":  # rows of another law may be others under each shift
        return
    base = setting_results.entries.get((unshifted[0], setting_results.reference))
    for shift in setting_results.shifts:
        entry = setting_results.entries.get((shift, setting_results.reference))
        if shift not in unshifted and entry is not None and base is not None:
            metrics = _METRICS if _grouped_by(entry) == _grouped_by(base) else _METRICS[:1]
            yield from _compared(
                COST,
                setting_results.place,
                shift,
                setting_results.reference,
                unshifted[0],
                entry,
                base,
                metrics,
            )


def single_row_group(entry: Entry) -> str:
    """The name of the group that is worst by a single test row in half of an entry's runs or more:
    then the worst group tells of that row and of no group. Empty where there is none."""
    worst = [
        str(run_scores["worst_group_name"])
        for run_scores in entry.metrics.values()
        if run_scores.get("worst_group_n") == 1
    ]
    return max(worst, key=worst.count) if 2 * len(worst) >= len(entry.metrics) > 0 else ""


def _grouped_by(entry: Entry) -> set[tuple[str, ...]]:
    """The attributes whose cells are the groups: worst groups of other attributes are no measure of
    one thing."""
    names = set(map(str, entry.column("worst_group_name")))
    return {tuple(re.findall(r"(?:^|, )([^=,]+)=", name)) for name in names}


def _effects(setting_results: PlaceResults) -> Iterator[Finding]:
    for shift, method, entry in setting_results.grid():
        base = setting_results.entries.get((shift, setting_results.reference))
        if method != setting_results.reference and entry is not None and base is not None:
            yield from _compared(
                EFFECT_OF,
                setting_results.place,
                shift,
                method,
                setting_results.reference,
                entry,
                base,
                _METRICS,
            )


def _compared(
    kind: str,
    setting: Place,
    shift: str,
    method: str,
    against: str,
    entry: Entry,
    base: Entry,
    metrics: Iterable[str],
) -> Iterator[Finding]:
    for metric in metrics:
        if metric == WORST_GROUP and (single_row_group(entry) or single_row_group(base)):
            continue
        summary, base_summary = entry.summary(metric), base.summary(metric)
        if summary is None or base_summary is None or entry.difference(base, metric) is None:
            continue
        doubted = bool(entry.doubts or base.doubts)
        yield Finding(
            kind,
            setting,
            shift,
            method,
            against,
            metric,
            summary.mean,
            base_summary.mean,
            (entry, base),
            doubted,
            metric == HEADLINE.name and is_guessing(entry) and is_guessing(base),
        )
