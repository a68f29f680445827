"""The one picture of a study's answer: what each shift costs the reference and what each method
wins back. Accuracy and worst group stand side by side, each with the interval of its verdict.

It is a table whose cells hold a strip with a bar, a dot and a whisker. So it is read by eye, by a
screen reader and on paper alike, and stands before any script has run. Positions are percentages of
the strip's width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosswind.evaluation.metrics import HEADLINE
from crosswind.reports.claims.shift_words import shift_clause
from crosswind.reports.claims.verdicts import COST, EFFECT_OF, Finding, end_in_points
from crosswind.reports.scores.notes import MARK
from crosswind.reports.scores.results import Place

ROWS = 14
"""Rows of the picture at the head of a page."""
METHODS_A_SHIFT = 4
"""Methods under one shift in that picture, those with the largest gain."""
ALL_ROWS = 120
"""Rows of the picture of a setting below it."""
GROUP_ROWS = 60
"""Rows of the picture of what stands under one heading, the largest differences."""
_METRICS = ((HEADLINE.name, "Accuracy"), ("worst_group", "Worst group"))
MINUS = "\N{MINUS SIGN}"
_STEPS = (1, 2, 5, 10, 20, 50)
_MOST_TICKS = 5


@dataclass(frozen=True)
class PictureCell:
    """One cell: `words` is the number with its interval in points. `start` and `end` bound the bar,
    `low` and `high` the whisker (None without an interval), all in percent of the width.

    `kind`: "loss" or "gain" where the difference is told, else "open".
    """

    words: str
    interval: str
    start: float
    end: float
    low: float | None
    high: float | None
    kind: str

    @property
    def left(self) -> float:
        """Where the bar begins."""
        return min(self.start, self.end)

    @property
    def width(self) -> float:
        """How wide the bar is."""
        return abs(self.end - self.start)


@dataclass(frozen=True)
class PictureRow:
    """A shift or a method under it, with a strip a score; None where it has no such score. `about`
    says what the shift does, `is_method` whether the row is of a method."""

    name: str
    about: str
    is_method: bool
    strips: Sequence[PictureCell | None]


@dataclass(frozen=True)
class AnswerPicture:
    """The rows of one place. `zero` is where the reference without a shift stands, in percent of a
    strip's width; `margins` bound what counts as about equal; `ticks` are positions with what is
    written there. `hidden` rows are not shown."""

    place: Place
    reference: str
    base: str
    is_of_costs: bool
    columns: Sequence[str]
    zero: float
    margins: Sequence[float]
    ticks: Sequence[tuple[float, str]]
    rows: Sequence[PictureRow]
    hidden: int


def picture_of(
    place: Place,
    findings: Iterable[Finding],
    resolved: Mapping[str, Any],
    *,
    most_rows: int = ALL_ROWS,
    most_methods: int = ALL_ROWS,
) -> AnswerPicture | None:
    """The picture of a place, the shift that costs most first; None where nothing is compared."""
    here = [finding for finding in findings if finding.place == place]
    if not here:
        return None
    costs = {(finding.shift, finding.metric): finding for finding in here if finding.kind == COST}
    effects = [finding for finding in here if finding.kind == EFFECT_OF]
    listed = list(_listed_rows(costs, effects, most_methods))
    base = next((cost.base for cost in costs.values() if cost.metric == HEADLINE.name), None)
    clauses = {row.shift: shift_clause(row.shift, resolved, place.data) for row in listed}
    return _drawn(
        here,
        listed[:most_rows],
        clauses,
        base="" if base is None else f"{base:.1%}",
        n_rows=len({(finding.shift, finding.method) for finding in here}),
    )


def picture_of_findings(
    findings: Sequence[Finding], where: Callable[[Finding], str], margin: float = 0.0
) -> AnswerPicture | None:
    """A row a comparison, beside what it is compared with; None without comparisons.

    `where`: what of its place must be said of a comparison. With a `margin`, as a fraction, the
    picture shows it on both sides.
    """
    if not findings:
        return None
    by_row: dict[tuple[Place, str, str, str], dict[str, Finding]] = {}
    for finding in findings:
        key = (finding.place, finding.kind, finding.shift, finding.method)
        by_row.setdefault(key, {})[finding.metric] = finding
    listed: list[_ListedRow] = []
    for (_, kind, shift, method), of_row in by_row.items():
        name = shift if kind == COST else f"{method} under {shift}"
        place_words = where(next(iter(of_row.values())))
        listed.append(_ListedRow(f"{place_words}{name}", "", of_row, {}))
    shown = listed[:GROUP_ROWS]
    return _drawn(findings, shown, {}, margin=margin, n_rows=len(listed))


def _drawn(
    findings: Sequence[Finding],
    shown: Sequence[_ListedRow],
    clauses: Mapping[str, str],
    *,
    n_rows: int,
    base: str = "",
    margin: float = 0.0,
) -> AnswerPicture:
    """Rows on one scale."""
    metrics = [pair for pair in _METRICS if any(finding.metric == pair[0] for finding in findings)]
    scale = _Scale([-margin, margin, *(value for row in shown for value in row.values())])
    first = findings[0]
    return AnswerPicture(
        first.place,
        first.method if first.kind == COST else first.against,
        base,
        any(finding.kind == COST for finding in findings),
        [title for _, title in metrics],
        scale.at(0.0),
        [scale.at(-margin), scale.at(margin)] if margin else [],
        scale.ticks(),
        [_picture_row(row, metrics, scale, clauses) for row in shown],
        n_rows - sum(not row.is_heading for row in shown),
    )


@dataclass(frozen=True)
class _ListedRow:
    """A shift or a method with its comparisons by score, and what the shift costs at each."""

    shift: str
    method: str
    findings: Mapping[str, Finding]
    offsets: Mapping[str, float]

    @property
    def is_heading(self) -> bool:
        """Whether the row only names a shift whose cost is not known."""
        return not self.findings

    def values(self) -> list[float]:
        """Everything that a strip must have room for, as fractions."""
        ends = [0.0]
        for metric, finding in self.findings.items():
            offset = self.offsets.get(metric, 0.0)
            mean = finding.difference.mean
            ends += [offset + end for end in (mean, *(finding.interval or ()))]
        return ends


def _listed_rows(
    costs: Mapping[tuple[str, str], Finding], effects: Sequence[Finding], most_methods: int
) -> Iterable[_ListedRow]:
    """The rows in the order of reading: a shift, then its methods by what they win."""
    shifts = list(dict.fromkeys(shift for shift, _ in costs))
    shifts += [
        shift for shift in dict.fromkeys(effect.shift for effect in effects) if shift not in shifts
    ]
    headline = HEADLINE.name

    def cost(shift: str) -> float:
        found = costs.get((shift, headline))
        return 0.0 if found is None else found.difference.mean

    for shift in sorted(shifts, key=cost):
        of_shift = {metric: finding for (name, metric), finding in costs.items() if name == shift}
        offsets = {metric: finding.difference.mean for metric, finding in of_shift.items()}
        yield _ListedRow(shift, "", of_shift, {})
        by_method: dict[str, dict[str, Finding]] = {}
        for effect in effects:
            if effect.shift == shift:
                by_method.setdefault(effect.method, {})[effect.metric] = effect
        ranked = sorted(by_method.items(), key=lambda pair: -_gain(pair[1]))
        for method, of_method in ranked[:most_methods]:
            yield _ListedRow(shift, method, of_method, offsets)


def _gain(of_method: Mapping[str, Finding]) -> float:
    """By what the methods of a shift are ranked."""
    first = of_method.get(HEADLINE.name) or next(iter(of_method.values()))
    return first.difference.mean


class _Scale:
    """Fractions as percentages of a strip's width, the same for all strips of a picture.

    No difference of two shares is beyond 100 points; an interval of few seeds that is ends at the
    edge.
    """

    def __init__(self, values: Sequence[float]) -> None:
        low, high = max(-1.0, min(0.0, *values)), min(1.0, max(0.0, *values))
        room = max(0.01, 0.04 * (high - low))
        self._low, self._high = low - room, high + room

    def at(self, value: float) -> float:
        """The position of a value."""
        position = 100 * (value - self._low) / (self._high - self._low)
        return round(min(100.0, max(0.0, position)), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Positions of round numbers of points, and how they are written."""
        low, high = 100 * self._low, 100 * self._high
        step = next((step for step in _STEPS if (high - low) / step <= _MOST_TICKS), _STEPS[-1])
        first = math.ceil(low / step)
        points = [step * number for number in range(first, math.floor(high / step) + 1)]
        return [
            (self.at(point / 100), f"{point:+d}".replace("-", MINUS) if point else "0")
            for point in points
            # On a narrow screen the numbers of the ends would run into those of the next strip.
            if abs(point) < 100
        ]


def _picture_row(
    row: _ListedRow,
    metrics: Sequence[tuple[str, str]],
    scale: _Scale,
    clauses: Mapping[str, str],
) -> PictureRow:
    """A row with its strips."""
    strips: list[PictureCell | None] = []
    for metric, _ in metrics:
        finding = row.findings.get(metric)
        offset = row.offsets.get(metric, 0.0)
        strips.append(None if finding is None else _strip(finding, offset, scale))
    about = "" if row.method else clauses.get(row.shift, "")
    return PictureRow(row.method or row.shift, about, bool(row.method), strips)


def _strip(finding: Finding, offset: float, scale: _Scale) -> PictureCell:
    """The bar from what the shift leaves to what is there with the method, or from nothing to what
    the shift leaves."""
    mean = finding.difference.mean
    ends = finding.interval
    kind = "open" if not finding.told else "loss" if mean < 0 else "gain"
    interval = ""
    if ends is not None:
        words = [end_in_points(end, finding.about_equal, "+") for end in ends]
        interval = f"[{', '.join(words)}]".replace("-", MINUS)
    return PictureCell(
        f"{_signed(mean)}{f' {MARK}' if finding.doubted else ''}",
        interval,
        scale.at(offset),
        scale.at(offset + mean),
        None if ends is None else scale.at(offset + ends[0]),
        None if ends is None else scale.at(offset + ends[1]),
        kind,
    )


def _signed(fraction: float) -> str:
    """A difference in points with a sign that is as wide as a plus."""
    return f"{100 * fraction:+.1f}".replace("-", MINUS)
