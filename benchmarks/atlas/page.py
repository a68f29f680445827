"""The part of docs/guides/choosing-a-method.md that is written from the evidence, and its picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import altair as alt
import numpy as np
import polars
from scipy import stats

from crosswind.advice.evidence import METRICS, origin_of
from crosswind.core.registry import facts

__all__ = [
    "BEGIN",
    "END",
    "PAGE",
    "PICTURE",
    "SHIFTS",
    "GainOverData",
    "picture",
    "section",
    "shift_of",
    "summary",
    "with_section",
]

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "guides" / "choosing-a-method.md"
PICTURE: Final = ROOT / "docs" / "results" / "atlas.svg"
BEGIN: Final = "<!-- written by: python -m benchmarks.atlas page -->"
END: Final = "<!-- end of what is written -->"
SHIFTS: Final[Mapping[str, str]] = {
    "even": "no shift of note: Cramér's V below 0.5 and no value of the attribute below half of its share",
    "tied": "label and attribute go together: Cramér's V of at least 0.5",
    "scarce": "a value of the attribute has less than half of an even share of the rows",
    "unseen": "a value of the attribute has no training row",
}
"""Kinds of problems by what the training rows show, and what each means."""
STRONG_TIE: Final = 0.5
FEW: Final = 0.5
LEAST_DATA: Final = 3
"""Data sets that an interval needs at least."""
COLOURS: Final = {"accuracy": "#08519c", "worst group": "#d94801"}
REACH: Final = 40
"""Points: gains beyond are drawn at the edge."""


@dataclass(frozen=True)
class GainOverData:
    """The gain of a method over plain training under one kind of shift, in points.

    `mean`: over data sets, each the mean of its problems. `reach`: half of the 95% interval of
    Student's t over data sets; None for fewer than `LEAST_DATA`. `data`, `problems`, `runs`: the
    number of each behind it.
    """

    method: str
    shift: str
    metric: str
    mean: float
    reach: float | None
    data: int
    problems: int
    runs: int

    @property
    def is_sure(self) -> bool:
        """Whether its interval excludes 0."""
        return self.reach is not None and abs(self.mean) > self.reach

    @property
    def in_words(self) -> str:
        """The mean with its interval, bold where that excludes 0."""
        if self.reach is None:
            return f"{self.mean:+.1f}"
        words = f"{self.mean:+.1f} [{self.mean - self.reach:+.1f}, {self.mean + self.reach:+.1f}]"
        return f"**{words}**" if self.is_sure else words


def shift_of(row: Mapping[str, Any]) -> str:
    """The kind of `SHIFTS` of a row of the evidence."""
    if row["tie"] >= STRONG_TIE:
        return "tied"
    if row["rarest"] == 0:
        return "unseen"
    return "scarce" if row["rarest"] < FEW else "even"


def summary(evidence: polars.DataFrame) -> list[GainOverData]:
    """The gain of every method under every kind of shift that it was tried under, by metric."""
    gains: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    runs: dict[tuple[str, str, str], int] = {}
    for row in evidence.to_dicts():
        for metric in METRICS:
            if row[metric] is None or row[f"plain_{metric}"] is None:
                continue
            key = (row["method"], shift_of(row), metric)
            points = 100 * (row[metric] - row[f"plain_{metric}"])
            gains.setdefault(key, {}).setdefault(origin_of(row["data"]), []).append(points)
            runs[key] = runs.get(key, 0) + row["runs"]
    order = list(SHIFTS)
    summaries = []
    for (method, shift, metric), by_data in gains.items():
        means = [math.fsum(points) / len(points) for points in by_data.values()]
        count = len(means)
        reach = None
        if count >= LEAST_DATA:
            error = float(np.std(means, ddof=1)) / math.sqrt(count)
            reach = float(stats.t.ppf(0.975, count - 1)) * error
        summaries.append(
            GainOverData(
                method,
                shift,
                metric,
                math.fsum(means) / count,
                reach,
                count,
                sum(map(len, by_data.values())),
                runs[method, shift, metric],
            )
        )
    return sorted(
        summaries,
        key=lambda gain: (order.index(gain.shift), gain.method, METRICS.index(gain.metric)),
    )


def picture(summaries: Sequence[GainOverData]) -> str:
    """The gains with an interval as SVG: a panel a kind of shift, a line a method."""
    import vl_convert

    panels = [
        _panel([gain for gain in summaries if gain.shift == shift and gain.reach], shift)
        for shift in SHIFTS
        if any(gain.shift == shift and gain.reach for gain in summaries)
    ]
    chart = alt.concat(*panels, columns=2).configure(background="white").configure_view(stroke=None)
    drawn: str = vl_convert.vegalite_to_svg(chart.to_json())
    return drawn


def _panel(gains: Sequence[GainOverData], shift: str) -> Any:
    rows = [
        {
            "method": gain.method,
            "gain of": gain.metric.replace("_", " "),
            "mean": float(np.clip(gain.mean, -REACH, REACH)),
            "low": max(gain.mean - (gain.reach or 0.0), -REACH),
            "high": min(gain.mean + (gain.reach or 0.0), REACH),
        }
        for gain in gains
    ]
    accuracy = [gain for gain in gains if gain.metric == "accuracy"]
    methods = [gain.method for gain in sorted(accuracy, key=lambda gain: -gain.mean)]
    y = alt.Y(
        "method:N", sort=methods, title=None, axis=alt.Axis(ticks=False, domain=False, grid=True)
    )
    offset = alt.YOffset("gain of:N", sort=list(COLOURS))
    x = {
        "scale": alt.Scale(domain=[-REACH, REACH]),
        "title": "points over plain training",
        "axis": alt.Axis(values=[-40, -20, 0, 20, 40], grid=False),
    }
    colour = alt.Color(
        "gain of:N",
        scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
        legend=alt.Legend(title="gain of", orient="bottom"),
    )
    height = 17 * len(methods)
    base = alt.Chart(alt.Data(values=rows), title=shift, width=230, height=height)
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color="#666").encode(x="zero:Q")
    intervals = base.mark_rule(strokeWidth=2, opacity=0.6).encode(
        y=y, yOffset=offset, x=alt.X("low:Q", **x), x2="high:Q", color=colour
    )
    means = base.mark_point(filled=True, size=40, opacity=1).encode(
        y=y, yOffset=offset, x=alt.X("mean:Q", **x), color=colour
    )
    return zero + intervals + means


def section(evidence: polars.DataFrame) -> str:
    """The Markdown between `BEGIN` and `END`."""
    summaries = summary(evidence)
    pairs: dict[tuple[str, str], dict[str, GainOverData]] = {}
    for gain in summaries:
        pairs.setdefault((gain.shift, gain.method), {})[gain.metric] = gain
    origins = {origin_of(name) for name in evidence["data"]}
    problems = evidence.select("study", "data", "shift", "size", "model").n_unique()
    judged = [gain for gain in summaries if gain.reach is not None]
    sure = [gain for gain in judged if gain.is_sure]
    lines = [
        BEGIN,
        "",
        f"{evidence['runs'].sum():,} runs of {evidence['method'].n_unique()} methods on {problems}"
        f" problems of {len(origins)} data sets ([what they are](../../benchmarks/atlas/README.md)).",
        "A gain is over plain training with the same rows and as many settings, on test rows in which",
        "the attribute tells nothing: the mean over data sets in points, with the 95% interval of",
        "Student's t over data sets. Fewer than three data sets have no interval.",
        f"**Bold**: the interval excludes 0. That holds for {len(sure)} of {len(judged)} gains, and"
        f" chance alone would give about {len(judged) / 20:.0f}.",
        "",
        *_sentences(sure),
        "",
        "![Gain of each method over plain training by kind of shift, accuracy and worst group, with"
        f" intervals](../results/{PICTURE.name})",
        "",
        "| shift | what the training rows show |",
        "|---|---|",
        *(f"| {name} | {meaning} |" for name, meaning in SHIFTS.items()),
        "",
        "| shift | method | gain of accuracy | gain in the worst group | data sets | problems | runs | needs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (shift, method), by_metric in sorted(pairs.items(), key=_order):
        accuracy = by_metric["accuracy"]
        worst = by_metric.get("worst_group")
        cells = [shift, _linked(method), accuracy.in_words, worst.in_words if worst else ""]
        cells += [f"{accuracy.data}", f"{accuracy.problems}", f"{accuracy.runs}", _needs(method)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", END])


def _order(entry: tuple[tuple[str, str], Mapping[str, GainOverData]]) -> tuple[int, bool, float]:
    """By shift; in it those with an interval first, and the largest gain first."""
    (shift, _), by_metric = entry
    accuracy = by_metric["accuracy"]
    return list(SHIFTS).index(shift), accuracy.reach is None, -accuracy.mean


def _sentences(sure: Sequence[GainOverData]) -> list[str]:
    lines = []
    for shift in SHIFTS:
        words = []
        for metric in METRICS:
            of = "accuracy" if metric == "accuracy" else "the worst group"
            for change, sign in (("gain in", 1), ("loss in", -1)):
                names = [
                    f"`{gain.method}`"
                    for gain in sorted(sure, key=lambda gain: -abs(gain.mean))
                    if (gain.shift, gain.metric) == (shift, metric) and sign * gain.mean > 0
                ]
                if names:
                    words.append(f"{change} {of}: {', '.join(names)}")
        lines.append(f"* **{shift}**: {'; '.join(words) or 'no gain or loss is told from chance'}.")
    return lines


def _linked(method: str) -> str:
    name = method.partition(" + ")[0]
    page = ROOT / "docs" / "methods" / f"{name}.md"
    return f"[{method}](../methods/{name}.md)" if page.is_file() else method


def _needs(method: str) -> str:
    if " + " in method:
        return "groups"
    needs = facts("methods", method).needs
    return ", ".join([] if needs is None else needs.words()) or "nothing"


def with_section(page: str, written: str) -> str:
    """A page with what is between its marks replaced."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"{PAGE.name} has no {BEGIN} and {END}"
    return f"{before}{written}{after}"
