"""How estimators of accuracy did on a pool of networks: estimated against true accuracy as a
figure, and tables of every number.

The tables have the shapes of Ng et al. 2022: a measure a row (table 2), a part of the pool and a
measure a row (4, 5 and 8), a measure a row and a column a test domain (9 to 11, 16 to 18).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crosswind.evaluation.multiplicity import percent
from crosswind.evaluation.points import HELD, Number, Point
from crosswind.evaluation.pools import Comparison, Covered, Judgement, OnDomain
from crosswind.reports.charts import Figure, chart, layer, named_colour, number, text, tips
from crosswind.reports.tables import Cell, Table, slug

MOST_POINTS = 1500
"""Points of an estimator that are drawn."""

_INTERVAL = (
    "In brackets a 90% interval, by drawing networks anew. A dash is a number that is undefined."
)


def scatter(name: str, estimates: Mapping[str, Sequence[Point]]) -> tuple[Figure, Table]:
    """Estimated against true accuracy: a panel an estimator, a point a network and test domain, the
    diagonal and the intervals.

    `estimates`: points by estimator, their values accuracies in [0, 1]. Of more than `MOST_POINTS`
    every k-th by accuracy is drawn and listed. Raises `ValueError` for a value that is no accuracy,
    and without any point.
    """
    rows: list[dict[str, Any]] = []
    thinned = ""
    for estimator, points in estimates.items():
        if not all(0 <= item.value <= 1 for item in points):
            raise ValueError(f"a value of {estimator} is not an accuracy in [0, 1]")
        step = -(-len(points) // MOST_POINTS)
        if step > 1:
            thinned = f" Of each {step} points of {estimator} one is drawn, by accuracy."
        shown = sorted(points, key=lambda item: (item.accuracy, item.network, item.test))[
            :: step or 1
        ]
        rows += [
            {
                "m": estimator,
                "k": item.network,
                "t": item.training,
                "s": item.test,
                "a": _six(item.accuracy),
                "e": _six(item.value),
            }
            | _interval(item)
            for item in shown
        ]
    if not rows:
        raise ValueError("there are no estimates to draw")
    panels, shifts = list(estimates), sorted({row["s"] for row in rows})
    title = "Estimated against true accuracy"
    listed = [
        tuple(row.get(key) for key in ("m", "k", "t", "s", "a", "e", "l", "h")) for row in rows
    ]
    columns = (
        "estimator",
        "network",
        "trained on",
        "test domain",
        "accuracy",
        "estimate",
        "low",
        "high",
    )
    table = Table(
        slug(name),
        title,
        columns,
        listed,
        ("low and high are the ends of a 90% interval.",),
        keys=4,
    )
    mean = [
        f"{panel} {_mean_error(rows, panel):.1f}"
        for panel in panels
        if any(row["m"] == panel for row in rows)
    ]
    networks = len({row["k"] for row in rows})
    diagonal = [{"m": panel, "a": end, "e": end, "d": 1} for panel in panels for end in (0, 1)]
    figure = Figure(
        slug(name),
        title,
        "A point is a network on a test domain. On the dashed diagonal the estimate is the"
        " accuracy, above it the estimate is too high. Vertical lines are 90% intervals: one that"
        f" meets the diagonal holds the accuracy.{thinned}",
        f"Scatter plots of estimated against true accuracy, {networks} networks on {len(shifts)}"
        " test domains. Mean absolute error of the points in percentage points:"
        f" {', '.join(mean)}.",
        chart(_panels(panels, shifts), {"rows": [*rows, *diagonal]}),
        "wrap",
        len(panels),
        60,
    )
    return figure, table


def _panels(panels: Sequence[str], shifts: Sequence[str]) -> dict[str, Any]:
    whole, axis = {"domain": [0, 1], "nice": False}, {"format": ".0%", "tickCount": 5}
    x = number("a", title="accuracy", scale=whole, axis=axis)
    where = {"x": x, "y": number("e", title="estimate", scale=whole, axis=axis)}
    # The categories of the page have colours for light and dark; more shifts than these take a
    # scheme that has enough.
    own = {"range": "category" if len(shifts) <= 4 else "ordinal"}
    colours = own if len(shifts) <= 6 else {"scheme": "tableau20"}
    # Two names fit the width of a phone.
    legend = {
        "orient": "top",
        "title": None,
        "columns": 2 if max(map(len, shifts)) > 6 else 5,
        "symbolOpacity": 1,
    }
    colour = text(
        "s", scale={"domain": list(shifts), **colours}, legend=legend if len(shifts) <= 20 else None
    )
    both = (
        ("m", "estimator"),
        ("k", "network"),
        ("s", "test domain"),
        ("a", "accuracy", ".1%"),
        ("e", "estimate", ".1%"),
    )
    interval = {"x": x, "y": number("l", scale=whole), "y2": {"field": "h"}, "color": colour}
    layers = [
        layer(
            "line",
            {**where, "color": named_colour("quiet")},
            where="isValid(datum.d)",
            strokeDash=[4, 3],
            strokeWidth=1.2,
        ),
        layer("rule", interval, where="isValid(datum.l)", opacity=0.6, strokeWidth=1.2),
        layer(
            "circle",
            {**where, "color": colour, "tooltip": tips(*both, ("i", "90% interval"))},
            where="!isValid(datum.d)",
            size=26,
            opacity=0.8,
        ),
    ]
    facet = text(
        "m", title=None, sort=list(panels), header={"labelAnchor": "start", "labelOrient": "top"}
    )
    spec = {"layer": layers, "width": 220, "height": 220}
    return {"data": {"name": "rows"}, "facet": facet, "columns": 3, "spec": spec}


def _interval(item: Point) -> dict[str, Any]:
    if item.low is None or item.high is None:
        return {"i": "none"}
    return {"l": _six(item.low), "h": _six(item.high), "i": f"{item.low:.1%} to {item.high:.1%}"}


def _mean_error(rows: Sequence[Mapping[str, Any]], panel: str) -> float:
    errors = [abs(row["e"] - row["a"]) for row in rows if row["m"] == panel]
    return 100 * sum(errors) / len(errors)


# -- tables
# --------------------------------------------------------------------------------------------------


def measure_table(
    name: str,
    title: str,
    judged: Mapping[str, Judgement],
    held: Sequence[str] = ("test", "in-sample"),
) -> Table:
    """A row a measure: R2, MAE in percentage points and the taus, each with its interval, as table
    2b.

    `held`: the lines whose errors are shown, names of `HELD` or "estimate"; R2 as a squared
    correlation is that of the first.
    """
    return _table(
        name, title, ("measure",), [((measure,), item) for measure, item in judged.items()], held
    )


def part_table(
    name: str,
    title: str,
    what: str,
    judged: Mapping[str, Mapping[str, Judgement]],
    held: Sequence[str] = ("test", "in-sample"),
) -> Table:
    """A row a part of the pool and a measure, as tables 4 (training regimes), 5 (augmentation) and
    8 (architectures).

    `what` names the parts.
    """
    rows = [
        ((part, measure), item)
        for part, measures in judged.items()
        for measure, item in measures.items()
    ]
    return _table(name, title, (what, "measure"), rows, held)


def line_table(name: str, title: str, judged: Mapping[str, Judgement]) -> Table:
    """A row a measure and a line, by what it is fitted on: R2 in both forms, mean absolute and mean
    signed error."""
    rows: list[tuple[Cell, ...]] = []
    held = dict.fromkeys(
        held
        for item in judged.values()
        for held, fit in item.fits.items()
        if fit.mae.value is not None
    )
    for measure, item in judged.items():
        for fit in (item.fits[name] for name in held if name in item.fits):
            numbers = (
                _cell(fit.r2, 3),
                _cell(fit.explained, 3),
                _cell(fit.mae, 2),
                _cell(fit.bias, 2, "+"),
            )
            rows.append((measure, fit.held, "yes" if fit.uses_target_labels else "no", *numbers))
    columns = (
        "measure",
        "line fitted on",
        "uses target accuracies",
        "R2",
        "1 - SSE/SST",
        "MAE",
        "bias",
    )
    return Table(slug(name), title, columns, rows, (*map(_told, held), _INTERVAL), keys=2)


def domain_table(name: str, title: str, found: Mapping[str, Mapping[str, Number]]) -> Table:
    """A row a measure, a column a test domain, as tables 9 to 11 and 16 to 18; `found` by measure
    and domain."""
    domains = list(dict.fromkeys(domain for numbers in found.values() for domain in numbers))
    rows = [
        (measure, *(_cell(numbers.get(domain), 3) for domain in domains))
        for measure, numbers in found.items()
    ]
    return Table(slug(name), title, ("measure", *domains), rows, (_INTERVAL,))


def across_table(
    name: str,
    title: str,
    judged: Mapping[str, Judgement],
    parts: Mapping[str, Mapping[str, Judgement]] | None = None,
) -> Table:
    """A row a measure: tau over the test domains of one network, the mean over networks, as table
    7; a column for each part too."""
    parts = parts or {}
    rows = [
        (
            measure,
            _cell(item.across_tau, 3),
            *(_cell(part[measure].across_tau, 3) for part in parts.values()),
            item.networks,
        )
        for measure, item in judged.items()
    ]
    reasons = dict.fromkeys(
        f"{item.across_tau.why}." for item in judged.values() if item.across_tau.why
    )
    notes = (
        (
            "Kendall's tau of value and accuracy over the shifted domains of a network, then the"
            " mean over networks."
        ),
        _INTERVAL,
    )
    columns = ("measure", "tau over domains", *(f"of {part}" for part in parts), "networks")
    return Table(slug(name), title, columns, rows, (*notes, *reasons))


def number_table(
    name: str,
    title: str,
    parts: Mapping[str, Mapping[str, Judgement]],
    on_domains: Mapping[str, Mapping[str, OnDomain]] | None = None,
) -> Table:
    """Every number in one tidy table: a row a measure and number, with its interval, the cells that
    it averages, and reasons.

    `parts`: by part of the pool, "" for all of it, and measure. `on_domains`: by measure, or
    `measure, part`, and test domain.
    """
    found: list[tuple[tuple[Cell, ...], Number]] = []
    for part, judged in parts.items():
        for measure, item in judged.items():
            label = f"{measure}, {part}" if part else measure
            found += [((label, tau, None, "", 0), told) for tau, told in _taus(item).items()]
            for held, fit in item.fits.items():
                errors = (
                    ("R2", fit.r2),
                    ("1 - SSE/SST", fit.explained),
                    ("MAE", fit.mae),
                    ("bias", fit.bias),
                )
                found += [
                    ((label, kind, None, held, int(fit.uses_target_labels)), told)
                    for kind, told in errors
                ]
    for label, domains in (on_domains or {}).items():
        for domain, on in domains.items():
            kinds = (("macro tau", on.tau), ("R2", on.r2), ("micro tau", on.micro))
            found += [((label, kind, domain, "", 0), told) for kind, told in kinds]
    rows = [
        (*keys, told.value, told.low, told.high, told.cells, told.left_out, told.why or None)
        for keys, told in found
    ]
    columns = (
        "measure",
        "number",
        "domain",
        "fit",
        "uses target labels",
        "value",
        "low",
        "high",
        "cells",
        "left out",
        "why",
    )
    return Table(slug(name), title, columns, rows, keys=4)


def comparison_table(
    name: str, title: str, reference: str, found: Mapping[str, Comparison]
) -> Table:
    """A row an estimator: differences of MAE and macro tau to a reference, with intervals and
    p-values after Holm."""
    rows: list[tuple[Cell, ...]] = []
    for estimator, item in found.items():
        cells: list[Cell] = [estimator]
        for difference, adjusted, digits in (
            (item.mae, item.mae_holm, 2),
            (item.macro_tau, item.macro_tau_holm, 3),
        ):
            plain = (
                None
                if difference is None
                else Number(difference.mean, difference.low, difference.high)
            )
            cells += [
                _cell(plain, digits, "+"),
                None if difference is None else difference.p,
                adjusted,
            ]
        rows.append(tuple(cells))
    levels = {(percent(item.mae_level), percent(item.tau_level)) for item in found.values()}
    told = "; ".join(f"{mae} of MAE, {tau} of macro tau" for mae, tau in levels)
    notes = [
        f"Differences to {reference} on the same points. In brackets an interval by drawing"
        f" networks anew, of the level that the correction by Holm comes to ({told}): it excludes 0"
        " where p (Holm) is below 0.05."
    ]
    notes += [f"{estimator}: {why}." for estimator, item in found.items() for why in item.why]
    columns = (
        "estimator",
        "difference of MAE",
        "p",
        "p (Holm)",
        "difference of macro tau",
        "p of tau",
        "p of tau (Holm)",
    )
    return Table(slug(name), title, columns, rows, notes)


def coverage_table(name: str, title: str, found: Mapping[str, Sequence[Covered]]) -> Table:
    """A row an estimator, kind and strength of shift: the share of accuracies in their interval,
    and its median width."""
    rows = [
        (
            estimator,
            item.kind,
            item.strength,
            item.pairs,
            item.networks,
            item.without,
            _cell(item.share, 3),
            item.width,
        )
        for estimator, parts in found.items()
        for item in parts
    ]
    columns = (
        "estimator",
        "shifts",
        "strength",
        "pairs",
        "networks",
        "without interval",
        "share covered",
        "median width",
    )
    note = (
        "A pair is a network and a shift. In brackets a 90% interval of the share, of which the"
        " networks are the observations."
    )
    return Table(slug(name), title, columns, rows, (note,), keys=3)


def _table(
    name: str,
    title: str,
    keys: Sequence[str],
    rows: Sequence[tuple[tuple[str, ...], Judgement]],
    held: Sequence[str],
) -> Table:
    # A tau that no pool has is no column.
    empty = {
        label
        for label in ("micro tau", "arch tau")
        if all(_taus(item)[label].value is None for _, item in rows)
    }
    labels = [label for label in (_numbers(rows[0][1], held) if rows else {}) if label not in empty]
    listed: list[tuple[Cell, ...]] = []
    reasons: dict[str, None] = {}
    for names, item in rows:
        numbers = _numbers(item, held)
        listed.append(
            (
                *names,
                *(_cell(numbers[label], 2 if label.startswith("MAE") else 3) for label in labels),
            )
        )
        reasons |= {
            f"{label}: {numbers[label].why}.": None for label in labels if numbers[label].why
        }
    for label in sorted(empty, reverse=True):
        reasons |= {
            f"No {label}: {why}.": None
            for why in dict.fromkeys(_taus(item)[label].why for _, item in rows)
        }
    return Table(
        slug(name),
        title,
        [*keys, *labels],
        listed,
        (*map(_told, held), _INTERVAL, *reasons),
        len(keys),
    )


def _told(held: str) -> str:
    if held == "estimate":
        return '"estimate": the errors of the estimate itself, without a line.'
    uses = (
        "It uses accuracies on o, which nobody has of a new domain."
        if HELD[held].uses_target_labels
        else "It uses none on o."
    )
    return (
        f'"{held}": errors on test domain o of networks trained on i, by a line fitted on'
        f" {HELD[held].words}. {uses}"
    )


def _taus(item: Judgement) -> dict[str, Number]:
    return {
        "macro tau": item.macro_tau,
        "micro tau": item.micro_tau,
        "ID tau": item.id_tau,
        "arch tau": item.arch_tau,
        "across tau": item.across_tau,
    }


def _numbers(item: Judgement, held: Sequence[str]) -> dict[str, Number]:
    taus = _taus(item)
    del taus["across tau"]
    errors: dict[str, Number] = {}
    for which in held:
        errors |= {
            f"1 - SSE/SST, {which}": item.fits[which].explained,
            f"MAE, {which}": item.fits[which].mae,
        }
    return {"R2": item.fits[held[0]].r2, **errors, **taus}


def _cell(found: Number | None, digits: int, sign: str = "") -> str | None:
    if found is None or found.value is None:
        return None
    form = f"{sign}.{digits}f"
    ends = (
        ""
        if found.low is None or found.high is None
        else f" [{found.low:{form}}, {found.high:{form}}]"
    )
    return f"{found.value:{form}}{ends}"


def _six(value: float) -> float:
    return round(value, 6)
