"""The conclusions of all rows of a study together: whether they differ in rank and which do, and
what the variance of scores is of. They also say how often a row beats the reference, how much of
its gain is tuning, and how its accuracy follows a setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from crosswind.evaluation.compare import over_runs
from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.pooled_tests import mean_by_run
from crosswind.evaluation.rank_tests import RankedRows, beats, ranked_rows
from crosswind.evaluation.variance import CONDITION, TOGETHER, VarianceShares, variance_shares
from crosswind.reports.charts import Figure, chart, layer, named_colour, number, text, tips
from crosswind.reports.scores.notes import STOPPED_NOTE
from crosswind.reports.scores.results import LEVEL, Entry, Place, PlaceResults
from crosswind.reports.scores.row_views import RowView, Values, row_views
from crosswind.reports.scores.setting_curves import SettingCurve, setting_curves, setting_table
from crosswind.reports.tables import Cell, ReportTable, slug

MOST_PAIRS = 30
"""Rows up to which each pair of rows is compared."""
MOST_SCORES = 20_000
"""Scores up to which each pair of rows is compared: beyond, it takes seconds."""
_PART_WORDS = {
    "seed": "seeds",
    "split seed": "split seeds",
    "settings": "settings of a method",
    "method": "methods",
    "shift": "shifts",
    "data set": "data sets",
    CONDITION: "data sets and shifts",
    TOGETHER: "interplay of these",
}


@dataclass(frozen=True)
class Conclusions:
    """The conclusions of one size, test set and rule; each None where the runs do not allow it."""

    view: RowView

    @property
    def place(self) -> Place:
        """The place that the rows share."""
        return self.view.place

    @cached_property
    def ranks(self) -> RankedRows | None:
        """The rows ranked over data sets and seeds."""
        return ranked_rows(self.view.blocks())

    @cached_property
    def variance(self) -> VarianceShares | None:
        """The variance of accuracies, shared out."""
        return variance_shares(self.view.scores())

    @cached_property
    def curves(self) -> list[SettingCurve]:
        """Accuracy against each setting that is a number."""
        return setting_curves(self.view)

    @cached_property
    def tables(self) -> list[ReportTable]:
        """Every table that there is."""
        tables = (
            rank_test_table(self),
            variance_table(self),
            beats_table(self),
            pair_table(self),
            tuning_table(self),
            *map(setting_table, self.curves),
        )
        return [table for table in tables if table is not None]


def conclusions(
    shown_results: Sequence[PlaceResults], resolved: Mapping[str, Any]
) -> list[Conclusions]:
    """The conclusions of every size, test set and rule of a study; `resolved`: the study with every
    default."""
    views = row_views(shown_results, resolved)
    return [Conclusions(view) for view in views if len(view.rows) > 1]


# -- ranks -----------------------------------------------------------------------------------------


def rank_test_table(concluded: Conclusions) -> ReportTable | None:
    """Mean ranks over data sets and seeds, and how many rows each is told apart from."""
    ranks = concluded.ranks
    if ranks is None:
        return None
    rows: list[dict[str, Cell]] = []
    for row, mean in ranks.mean_rank.items():
        apart = [name for name in ranks.mean_rank if ranks.apart(row, name)]
        better = sum(ranks.mean_rank[name] < mean for name in apart)
        cells: dict[str, Cell] = {"method": row, "mean rank": mean}
        cells["told better than"] = len(apart) - better
        cells["told worse than"] = better
        rows.append(cells)
    tell = "differ" if ranks.differ else "cannot be told to differ"
    blocks = f"A block is a data set and seed, its scores means over shifts; {ranks.blocks} blocks."
    friedman = (
        f"Friedman's test: chi-square {ranks.statistic:.1f} with {len(rows) - 1} degrees of freedom, p"
        f" {_p_words(ranks.p)}, Kendall's W {ranks.concordance:.2f}: the methods {tell}."
    )
    nemenyi = (
        f"Two methods are told apart where their mean ranks are {ranks.critical_difference:.2f} or more"
        " apart (Nemenyi's test at 5%, Demšar 2006), if Friedman's test tells a difference."
    )
    dependence = (
        "Seeds of one data set share its rows, so that blocks are less independent than the tests take"
        " them to be."
    )
    notes = [f"{blocks} {friedman}", nemenyi, dependence, *_left_out_note(concluded.view)]
    return _table(concluded, "rank-test", "Ranks over data sets and seeds", rows, notes)


def _left_out_note(view: RowView) -> list[str]:
    """The rows that do not run on every data set, and the shifts that lack a row: neither counts."""
    shared = set(view.shared_rows())
    rows_left_out = [row for row in view.rows if row not in shared]
    notes: list[str] = []
    if rows_left_out:
        notes.append(f"Not on every data set, left out: {', '.join(rows_left_out)}.")
    data_of: dict[str, list[str]] = {}
    for data in view.data:
        complete = view.shared_shifts(data, shared)
        shifts = dict.fromkeys(shift for of_data, shift, _ in view.entries if of_data == data)
        lacking = [shift for shift in shifts if shift not in complete]
        if lacking:
            data_of.setdefault(", ".join(lacking), []).append(data)
    for shifts_left_out, names in data_of.items():
        on = "" if len(names) == len(view.data) else f" on {', '.join(names)}"
        notes.append(f"Not with a result of every method{on}, left out: {shifts_left_out}.")
    return notes


def _p_words(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def critical_difference_diagram(concluded: Conclusions) -> Figure | None:
    """Mean rank of each row with half the critical difference to each side: rows whose bars do not
    overlap differ."""
    ranks = concluded.ranks
    if ranks is None:
        return None
    half = ranks.critical_difference / 2
    data: list[dict[str, Any]] = []
    for row, mean in ranks.mean_rank.items():
        ends = {"l": round(mean - half, 4), "h": round(mean + half, 4)}
        data.append({"m": row, "k": round(mean, 4), **ends})
    names = list(ranks.mean_rank)
    least = min(1.0, data[0]["l"])
    most = max(float(len(names)), data[-1]["h"])
    step = max(1, len(names) // 10)
    ticks = {"values": list(range(1, len(names) + 1, step)), "format": "d"}
    scale = {"domain": [least, most]}
    axis = number("k", title="mean rank (1 is best)", scale=scale, axis=ticks)
    rows = text("m", title=None, sort=names)
    bar = {"x": {**axis, "field": "l"}, "x2": {"field": "h"}, "y": rows}
    dot = {"x": axis, "y": rows, "tooltip": tips(("m", "method"), ("k", "mean rank", ".2f"))}
    ink = {"color": named_colour("accent")}
    layers = [
        layer("rule", {**bar, **ink}, data="rows", strokeWidth=3, opacity=0.5),
        layer("point", {**dot, **ink}, data="rows", filled=True, size=60, opacity=1),
    ]
    tell = "tells that methods differ" if ranks.differ else "tells no difference"
    caption = (
        f"Bars are as long as the critical difference, {ranks.critical_difference:.2f}: methods whose"
        f" bars do not overlap differ by Nemenyi's test at 5%. Friedman's test over {ranks.blocks} data sets"
        f" and seeds {tell} (p {_p_words(ranks.p)})."
    )
    means = ", ".join(f"{row} {mean:.2f}" for row, mean in ranks.mean_rank.items())
    place = concluded.place
    return Figure(
        slug("critical-difference", *place),
        f"Critical-difference diagram on {place.set}, step chosen by {place.rule}",
        caption,
        f"Mean ranks over {ranks.blocks} blocks, critical difference"
        f" {ranks.critical_difference:.2f}: {means}.",
        chart({"width": 460, "height": {"step": 22}, "layer": layers}, {"rows": data}),
        "bars",
        names=_room(names),
    )


# -- variance --------------------------------------------------------------------------------------


def variance_table(concluded: Conclusions) -> ReportTable | None:
    """The variance of accuracies by what runs differ in."""
    variance = concluded.variance
    if variance is None or not sum(variance.components.values()):
        return None
    rows: list[dict[str, Cell]] = []
    for name, share in variance.shares.items():
        spread = 100 * math.sqrt(variance.components[name])
        cells: dict[str, Cell] = {"part": _PART_WORDS[name], "share": f"{share:.1%}"}
        cells["standard deviation in points"] = f"{spread:.1f}"
        rows.append(cells)
    left_out = f"; {variance.left_out} of data sets and shifts that lack some are left out"
    notes = [
        f"Variance components of {variance.scores} accuracies, every point of a grid among them"
        f"{left_out if variance.left_out else ''}. A decomposition by mean squares (Henderson 1953,"
        " method I), not a fitted mixed model; parts below 0 count as 0. Of few levels a part is known"
        " roughly: two shifts say little of shifts.",
    ]
    return _table(concluded, "variance", "What the variance of accuracies is of", rows, notes)


def variance_bar(concluded: Conclusions) -> Figure | None:
    """One bar: the shares of the variance."""
    variance = concluded.variance
    if variance is None or not sum(variance.components.values()):
        return None
    data: list[dict[str, Any]] = []
    for position, (name, share) in enumerate(variance.shares.items()):
        words = _PART_WORDS[name]
        data.append({"m": "variance", "p": words, "a": round(share, 6), "o": position})
    titles = [row["p"] for row in data]
    legend = {"orient": "top", "title": None, "columns": 3}
    encoding = {
        "y": text("m", title=None, axis=None),
        "x": number("a", title="share of the variance", stack="zero", axis={"format": ".0%"}),
        "order": number("o"),
        "color": text("p", scale={"domain": titles, "range": "ordinal"}, legend=legend),
        "tooltip": tips(("p", "part"), ("a", "share", ".1%")),
    }
    view = {"width": 460, "height": 30, **layer("bar", encoding, data="rows", height=22)}
    place = concluded.place
    shares = ", ".join(f"{row['p']} {row['a']:.1%}" for row in data)
    return Figure(
        slug("variance", *place),
        f"What the variance of accuracies is of on {place.set}, step chosen by {place.rule}",
        "Shares of the variance of all runs; the numbers are in the table.",
        f"One stacked bar: {shares}.",
        chart(view, {"rows": data}),
        "bars",
        names=10,
    )


# -- pairs -----------------------------------------------------------------------------------------


def beats_table(concluded: Conclusions) -> ReportTable | None:
    """How often each row beats the reference at one data set, shift and seed."""
    view = concluded.view
    reference = view.cases(view.reference)
    rows: list[dict[str, Cell]] = []
    for row in view.rows[1:] if view.reference in view.rows else []:
        cases = view.cases(row)
        share = beats(cases, reference)
        if share is None:
            continue
        cells: dict[str, Cell] = {"method": row, "probability": f"{share.mean:.2f}"}
        cells["95% interval"] = None
        if share.sd and share.low is not None and share.high is not None:
            cells["95% interval"] = f"{share.low:.2f} to {share.high:.2f}"
        cells["cases"] = sum(case in reference for case in cases)
        cells["runs"] = share.n
        rows.append(cells)
    if not rows:
        return None
    notes = [
        f"The share of data sets and shifts at which a method is right on more test rows than"
        f" {view.reference} at the same seed, equal ones half; the mean over seeds, its interval cut at 0"
        " and 1. 0.5 is a toss; that it is above says nothing of how far."
    ]
    title = f"How often a method beats {view.reference}"
    return _table(concluded, "beats", title, rows, notes)


def pair_table(concluded: Conclusions) -> ReportTable | None:
    """How often each row beats each other, of at most `MOST_PAIRS` rows; None for two."""
    view = concluded.view
    names = view.rows
    n_scores = sum(len(entry.metrics) for entry in view.entries.values())
    if not 2 < len(names) <= MOST_PAIRS or n_scores > MOST_SCORES:
        return None
    cases = {row: view.cases(row) for row in names}
    rows: list[dict[str, Cell]] = []
    for first in names:
        cells: dict[str, Cell] = {"method": first}
        for second in names:
            share = None if first == second else beats(cases[first], cases[second])
            cells[second] = None if share is None else f"{share.mean:.2f}"
        rows.append(cells)
    notes = ["The probability that the method on the left beats the one above, as said above."]
    return _table(concluded, "pairs", "How often a method beats another", rows, notes)


# -- tuning ----------------------------------------------------------------------------------------


def tuning_table(concluded: Conclusions) -> ReportTable | None:
    """How much the accuracy of each row hangs on its settings, and how much of its gain over the
    reference is there without a choice among them. None without a grid."""
    view = concluded.view
    tuned = {row: _Tuning.of(view, row) for row in view.rows}
    if not any(tuning.points > 1 for tuning in tuned.values()):
        return None
    reference = tuned.get(view.reference)
    rows: list[dict[str, Cell]] = []
    for row, tuning in tuned.items():
        if not tuning.chosen:
            continue
        points: Cell = tuning.points
        if tuning.ended < tuning.points:
            points = f"{tuning.points}, {tuning.ended} to the end"
        cells: dict[str, Cell] = {"method": row, "points": points}
        cells["chosen"] = _mean_words(tuning.chosen)
        cells["any"] = _mean_words(tuning.anyhow)
        cells["worst"] = _mean_words(tuning.worst)
        cells["best"] = _mean_words(tuning.best)
        is_compared = reference is not None and row != view.reference
        cells["gain, chosen"] = _gain_words(tuning.chosen, reference, "chosen", is_compared)
        cells["gain, any"] = _gain_words(tuning.anyhow, reference, "anyhow", is_compared)
        rows.append(cells)
    notes = [
        "Accuracies in %, means over data sets and shifts, then over seeds. chosen: of the point that the"
        " rule chose; any: the mean over all points, what a setting drawn at random has; worst and best:"
        " of the points with the lowest and highest mean on the test rows, at each data set and shift"
        " (best is an oracle).",
        f"A gain is over {view.reference} in points, with its 95% interval: of the chosen points, and of a"
        " random point over its random point. What of the first is not in the second is tuning.",
    ]
    if any(tuning.ended < tuning.points for tuning in tuned.values()):
        notes.append(
            f"{STOPPED_NOTE} any, worst and best are over all points, so of a search that halves they"
            " are no figures of settings that were trained to the end."
        )
    return _table(concluded, "tuning", "How much hangs on settings", rows, notes)


@dataclass(frozen=True)
class _Tuning:
    """The accuracies of a row by run, means over data sets and shifts: of the chosen points, of all,
    of the worst and of the best ones. `points`: the most that it tried anywhere; `ended`: the fewest
    of them that were trained to the end anywhere."""

    points: int
    ended: int
    chosen: Values
    anyhow: Values
    worst: Values
    best: Values

    @classmethod
    def of(cls, view: RowView, row: str) -> _Tuning:
        """Those of a row of a view."""
        entries = [entry for (_, _, name), entry in view.entries.items() if name == row]
        by_mean = [points for entry in entries if (points := _points_by_mean(entry))]
        tried = max((entry.tried for entry in entries), default=0)
        chosen = mean_by_run([entry.values(HEADLINE.name) for entry in entries])
        anyhow = mean_by_run([mean_by_run(points) for points in by_mean])
        worst = mean_by_run([points[0] for points in by_mean])
        best = mean_by_run([points[-1] for points in by_mean])
        ended = min((_ended(entry) for entry in entries if entry.tried == tried), default=0)
        return cls(tried, ended, chosen, anyhow, worst, best)


def _ended(entry: Entry) -> int:
    """The fewest points of an entry that were trained to the end at a seed."""
    return entry.tried - max(entry.stopped.values(), default=0)


def _points_by_mean(entry: Entry) -> list[Values]:
    """The accuracies of an entry's points by run, the lowest mean first."""
    points = [accuracies for accuracies in entry.by_point.values() if accuracies]
    return sorted(points, key=lambda accuracies: math.fsum(accuracies.values()) / len(accuracies))


def _mean_words(values: Values) -> str | None:
    if not values:
        return None
    return f"{100 * math.fsum(values.values()) / len(values):.1f}"


def _gain_words(
    values: Values, reference: _Tuning | None, name: str, is_compared: bool
) -> str | None:
    """The gain over the reference in points with its interval."""
    base: Values = getattr(reference, name, {}) if is_compared else {}
    differences = {run: value - base[run] for run, value in values.items() if run in base}
    if not differences:
        return None
    gain = over_runs(differences, LEVEL)
    words = f"{100 * gain.mean:+.1f}"
    if not gain.sd or gain.low is None or gain.high is None:
        return words
    return f"{words} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"


# -- parts -----------------------------------------------------------------------------------------


def _table(
    concluded: Conclusions,
    name: str,
    title: str,
    rows: Sequence[Mapping[str, Cell]],
    notes: Sequence[str],
) -> ReportTable:
    place = concluded.place
    return ReportTable.of(
        slug(name, *place), f"{title} on {place.set} ({place.title_words})", rows, notes
    )


def _room(names: Sequence[str]) -> int:
    """About how many pixels the longest name takes."""
    return min(220, 7 * max(map(len, names)) + 10)
