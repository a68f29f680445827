"""Claims, tables and the picture of `hypersphere.py`, from what it kept; tests/benchmarks compares
them with docs/papers/hypersphere.md.

A repetition is one observation: its curve is the mean of tau over the five clouds at each distance.
Intervals are 95% t-intervals over repetitions, each with a training cloud, networks and test clouds
of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.evaluation.compare import DifferenceSummary, holm, paired, summary

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "hypersphere.json"
PICTURE = ROOT / "docs" / "results" / "hypersphere.svg"
Floats = NDArray[np.float64]

NEAR = np.pi / 12
"""Distances up to here count as near the source: the first four of forty."""

QUARTER = np.pi / 4
NEARLY = 0.1
"""A tau between minus this and this is nearly 0."""

ALIKE = 0.1
"""Two curves whose mean absolute difference is below this are almost identical."""

COARSEST = 14
"""So many of the forty distances, every third, are what settings are compared at."""

MEASURES = {"ni": "neighbourhood invariance", "atc": "ATC-MC"}
TITLES = {
    "adam-1000": "Adam, all rows, lr 0.01, 1000 steps",
    "adam-300": "Adam, all rows, lr 0.01, 300 steps",
    "adam-batches": "Adam, batches of 128, lr 0.01, 2000 steps",
    "adam-batches-slow": "Adam, batches of 128, lr 0.001, 2000 steps",
    "adam-batches-short": "Adam, batches of 128, lr 0.001, 500 steps",
    "sgd-momentum": "SGD, momentum 0.9, batches of 128, lr 0.1, 2000 steps",
    "sgd": "SGD, batches of 128, lr 0.1, 2000 steps",
    "flipped-labels": "as the main one, noisy labels flipped",
    "even-distances": "as the main one, perturbation distances uniform",
    "adam-3000": "Adam, all rows, lr 0.01, 3000 steps",
}


def angles(results: Mapping[str, Any], name: str) -> Floats:
    """The distances of a setting, in radians."""
    return np.linspace(0, np.pi, results["settings"][name]["design"]["distances"])


def curves(results: Mapping[str, Any], name: str, what: str) -> Floats:
    """A curve a repetition, float64 [R, D], NaN where it is undefined."""
    seeds = results["settings"][name]["seeds"].values()
    return np.array(
        [[np.nan if one is None else one for one in kept[what]] for kept in seeds], dtype=np.float64
    )


def crossing(at: Floats, curve: Floats) -> float:
    """Where a curve that begins above 0 first reaches it, by straight lines between distances where
    it is defined.

    0 where it does not begin above 0, and the largest distance where it never comes down.
    """
    at, curve = at[np.isfinite(curve)], curve[np.isfinite(curve)]
    if not len(curve) or curve[0] <= 0:
        return 0.0
    down = np.flatnonzero(curve <= 0)
    if not len(down):
        return float(at[-1])
    k = int(down[0])
    return float(at[k - 1] + (at[k] - at[k - 1]) * curve[k - 1] / (curve[k - 1] - curve[k]))


def value_at(at: Floats, curve: Floats, where: float) -> float:
    """The curve at one distance, by a straight line between the distances beside it; NaN where one
    of them is undefined."""
    k = int(np.searchsorted(at, where))
    share = (where - at[k - 1]) / (at[k] - at[k - 1])
    return float((1 - share) * curve[k - 1] + share * curve[k])


def _means(values: Floats) -> DifferenceSummary | None:
    found = [float(np.mean(row[np.isfinite(row)])) for row in values if np.isfinite(row).any()]
    return summary(found) if len(found) > 1 else None


def judged(
    results: Mapping[str, Any], name: str, measure: str, every: int = 1
) -> dict[str, tuple[str, DifferenceSummary | None]]:
    """Each claim of the paper: its verdict (holds, does not hold, cannot tell) and figure. `every`:
    3 for every third distance."""
    at, found = angles(results, name)[::every], curves(results, name, measure)[:, ::every]
    near, beyond = _means(found[:, at <= NEAR]), _means(found[:, at > QUARTER])
    reached = summary([crossing(at, curve) for curve in found])
    here = _means(np.array([[value_at(at, curve, QUARTER)] for curve in found]))
    positive = _sign(near, +1)
    return {
        "positive near the source": (positive, near),
        "comes down to 0 by pi/4": (
            _within(reached, 0, QUARTER) if positive == "holds" else positive,
            reached,
        ),
        "nearly 0 at pi/4": (_within(here, -NEARLY, NEARLY), here),
        "negative beyond pi/4": (_sign(beyond, -1), beyond),
    }


def alike(results: Mapping[str, Any], name: str) -> tuple[str, DifferenceSummary | None]:
    """Whether the curves of both measures are almost identical: their mean absolute difference over
    distances."""
    found = _means(np.abs(curves(results, name, "ni") - curves(results, name, "atc")))
    return _within(found, 0.0, ALIKE), found


def distances_below(results: Mapping[str, Any], name: str, measure: str) -> tuple[int, int, int]:
    """Of the distances beyond pi/4: at how many tau is below 0 (Holm over all of them, 5%), above
    0, and how many there are."""
    at, found = angles(results, name), curves(results, name, measure)
    p, sign = {}, {}
    for place in np.flatnonzero(at > QUARTER):
        column = {seed: float(one) for seed, one in enumerate(found[:, place]) if np.isfinite(one)}
        difference = paired(dict.fromkeys(column, 0.0), column)
        p[place] = 1.0 if difference is None or difference.p is None else difference.p
        sign[place] = 0.0 if difference is None else difference.mean
    told = [place for place, adjusted in holm(p).items() if adjusted < 0.05]
    return sum(sign[place] < 0 for place in told), sum(sign[place] > 0 for place in told), len(p)


def _sign(found: DifferenceSummary | None, wanted: int) -> str:
    if found is None or found.low is None or found.high is None:
        return "cannot tell"
    low, high = sorted((wanted * found.low, wanted * found.high))
    return "holds" if low > 0 else "does not hold" if high < 0 else "cannot tell"


def _within(found: DifferenceSummary | None, least: float, most: float) -> str:
    if found is None or found.low is None or found.high is None:
        return "cannot tell"
    if least <= found.low and found.high <= most:
        return "holds"
    return "does not hold" if found.high < least or found.low > most else "cannot tell"


# -- tables ----------------------------------------------------------------------------------------


def tables(results: Mapping[str, Any]) -> list[str]:
    """The curves of the main setting, the claims about it, every setting, and the time, as
    Markdown."""
    return [_curve_table(results), _claim_table(results), _setting_table(results), _time(results)]


def _curve_table(results: Mapping[str, Any]) -> str:
    main = results["main"]
    at = angles(results, main)
    lines = [
        "| distance | tau of NI | tau of ATC-MC | mean accuracy | its sd over networks | mean NI |"
        " constant networks |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    plain = {
        what: curves(results, main, what)
        for what in ("ni", "atc", "accuracy", "spread", "invariance", "constant")
    }
    for k in [*range(0, 13, 2), *range(15, len(at), 4)]:
        taus = [_span(_means(plain[what][:, k : k + 1]), "+.2f") for what in ("ni", "atc")]
        rest = [
            plain[what][:, k].mean() for what in ("accuracy", "spread", "invariance", "constant")
        ]
        numbers = f"{rest[0]:.2f} | {rest[1]:.3f} | {rest[2]:.4f} | {rest[3]:.2f}"
        lines.append(f"| {at[k] / np.pi:.2f} pi | {' | '.join(taus)} | {numbers} |")
    return "\n".join(lines)


def _claim_table(results: Mapping[str, Any]) -> str:
    main, lines = results["main"], ["| claim | NI | ATC-MC |", "|---|---|---|"]
    both = [judged(results, main, measure) for measure in MEASURES]
    for claim in both[0]:
        lines.append(f"| {claim} | {' | '.join(_verdict(one[claim], claim) for one in both)} |")
    below = [distances_below(results, main, measure) for measure in MEASURES]
    told = [f"{less} of {of} below 0, {more} above" for less, more, of in below]
    lines.append(f"| each distance beyond pi/4, Holm at 5% | {' | '.join(told)} |")
    lines.append(f"| curves almost identical | {_verdict(alike(results, main), '')} | |")
    return "\n".join(lines)


def _setting_table(results: Mapping[str, Any]) -> str:
    head = [
        "setting",
        "n",
        "training loss",
        "source accuracy",
        "NI near",
        "ATC near",
        "NI reaches 0 at",
        "ATC reaches 0 at",
    ]
    head += ["NI at pi/4", "ATC at pi/4", "NI beyond", "ATC beyond", "undefined"]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---|" * (len(head) - 1)]
    for name, kept in results["settings"].items():
        seeds = list(kept["seeds"].values())
        every = (kept["design"]["distances"] - 1) // (COARSEST - 1)
        ni, atc = (judged(results, name, measure, every) for measure in MEASURES)
        cells = [
            TITLES[name],
            str(len(seeds)),
            f"{_mean(seeds, 'loss'):.2f}",
            f"{_mean(seeds, 'held_out'):.2f}",
        ]
        for claim in ni:
            form = "pi" if claim.startswith("comes") else "+.2f"
            cells += [_span(one[claim][1], form) for one in (ni, atc)]
        clouds = kept["design"]["distances"] * kept["design"]["centres"]
        cells.append(f"{np.mean([sum(seed['ni_undefined']) for seed in seeds]) / clouds:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _time(results: Mapping[str, Any]) -> str:
    main = results["settings"][results["main"]]
    every = [seed["seconds"] for seed in main["seeds"].values()]
    told = {}
    for key in ("wall", "training", "evaluation", "cpu"):
        values = sorted(seconds[key] for seconds in every)
        told[key] = f"{np.median(values):.0f} ({values[0]:.0f} to {values[-1]:.0f})"
    return (
        f"Seconds a repetition on {every[0]['threads']} threads, medians and ranges of"
        f" {len(every)}: {told['wall']} wall, of which training {told['training']} and evaluation"
        f" {told['evaluation']}; {told['cpu']} CPU.\n{main['machine']}."
    )


def _mean(seeds: list[Mapping[str, Any]], key: str) -> float:
    return float(np.mean([seed[key] for seed in seeds]))


def _verdict(found: tuple[str, DifferenceSummary | None], claim: str) -> str:
    form = "pi" if claim.startswith("comes") else ".2f" if not claim else "+.2f"
    return f"{found[0]}: {_span(found[1], form)}"


def _span(found: DifferenceSummary | None, form: str) -> str:
    """A mean with its interval; form "pi": in units of pi."""
    if found is None or found.low is None or found.high is None:
        return "undefined"
    unit, end, form = (math.pi, " pi", ".2f") if form == "pi" else (1.0, "", form)
    mean, low, high = (f"{one / unit:{form}}" for one in (found.mean, found.low, found.high))
    return f"{mean}{end} [{low}, {high}]"


# -- the picture -----------------------------------------------------------------------------------


def picture(results: Mapping[str, Any]) -> str:
    """Three panels as SVG: the main setting with both measures, and every setting by measure."""
    import altair as alt
    import vl_convert

    main = results["main"]
    x = alt.X(
        "distance:Q",
        title="distance, in pi",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2f"),
    )
    y = alt.Y("tau:Q", title="Kendall's tau with accuracy", scale=alt.Scale(domain=[-1, 1]))
    rules = alt.Chart(alt.Data(values=[{"zero": 0, "quarter": 0.25}]))
    lines = rules.mark_rule(color="#888").encode(y="zero:Q") + rules.mark_rule(
        color="#888", strokeDash=[4, 3]
    ).encode(x="quarter:Q")
    values = [
        {"distance": float(at / np.pi), "measure": title, "tau": mean, "low": low, "high": high}
        for measure, title in MEASURES.items()
        for at, (mean, low, high) in zip(
            angles(results, main), _band(curves(results, main, measure)), strict=True
        )
    ]
    colour = alt.Color(
        "measure:N",
        scale=alt.Scale(domain=list(MEASURES.values()), range=["#1b5a96", "#c8620f"]),
        legend=alt.Legend(title=None, orient="bottom", labelLimit=300),
    )
    base = alt.Chart(alt.Data(values=values), title=TITLES[main], width=260, height=240)
    band = base.mark_area(opacity=0.2).encode(
        x=x, y=alt.Y("low:Q", title="Kendall's tau with accuracy"), y2="high:Q", color=colour
    )
    first = lines + band + base.mark_line().encode(x=x, y=y, color=colour)
    by = alt.Color(
        "setting:N",
        sort=list(TITLES.values()),
        scale=alt.Scale(domain=list(TITLES.values()), scheme="tableau10"),
        legend=alt.Legend(title=None, orient="bottom", columns=2, labelLimit=400),
    )
    panels = []
    for measure, title in MEASURES.items():
        each = [
            {"distance": float(at / np.pi), "setting": TITLES[name], "tau": mean}
            for name in results["settings"]
            for at, (mean, _, _) in zip(
                angles(results, name), _band(curves(results, name, measure)), strict=True
            )
        ]
        chart = alt.Chart(
            alt.Data(values=each), title=f"{title}, every setting", width=260, height=240
        )
        panels.append(lines + chart.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=by))
    whole = alt.hconcat(first, alt.hconcat(*panels)).resolve_scale(color="independent")
    whole = whole.configure(background="white").configure_view(stroke=None)
    drawn: str = vl_convert.vegalite_to_svg(whole.to_json())
    return drawn


def _band(values: Floats) -> list[tuple[float | None, float | None, float | None]]:
    out: list[tuple[float | None, float | None, float | None]] = []
    for column in values.T:
        found = _means(column[:, None])
        low, high = (None, None) if found is None else (found.low, found.high)
        mean = float(np.mean(column[np.isfinite(column)])) if np.isfinite(column).any() else None
        out.append((_short(mean), _short(low), _short(high)))
    return out


def _short(value: float | None) -> float | None:
    return None if value is None else round(max(-1.0, min(1.0, value)), 3)
