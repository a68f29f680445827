"""How estimators of accuracy did on a pool of networks: estimated against true accuracy as a
figure, and tables of every number.

The tables have the shapes of Ng et al. 2022. A row is a measure (table 2), or a part of the pool
and a measure (4, 5 and 8), or a measure with a column a test domain (9 to 11, 16 to 18).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crosswind.evaluation.compare import Difference
from crosswind.evaluation.multiplicity import percent
from crosswind.evaluation.points import HELD, Number, Point
from crosswind.evaluation.pools import Comparison, Covered, LineFit, OnDomain, PoolJudgement
from crosswind.reports.charts import Figure, chart, layer, named_colour, number, text, tips
from crosswind.reports.tables import Cell, ReportTable, slug

MOST_POINTS = 1500
"""Points of an estimator that are drawn."""
LEAST_DOMAINS, MOST_MEASURES = 4, 6
"""Of a figure of tau by test domain."""

_INTERVAL = (
    "In brackets a 90% interval, by drawing networks anew. A dash is a number that is undefined."
)


def scatter(name: str, estimates: Mapping[str, Sequence[Point]]) -> tuple[Figure, ReportTable]:
    """Estimated against true accuracy: a panel an estimator, a point a network and test domain, the
    diagonal and the intervals.

    `estimates`: points by estimator, their values accuracies in [0, 1]. Of more than `MOST_POINTS`
    every k-th by accuracy is drawn and listed. Raises `ValueError` for a value that is no accuracy,
    and without any point.
    """
    rows: list[dict[str, Any]] = []
    thinned = ""
    for estimator, points in estimates.items():
        step = -(-len(points) // MOST_POINTS)
        if step > 1:
            thinned = f" Of each {step} points of {estimator} one is drawn, by accuracy."
        rows += _scatter_rows(estimator, points, step or 1)
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
    table = ReportTable(
        slug(name),
        title,
        columns,
        listed,
        ("low and high are the ends of a 90% interval.",),
        keys=4,
    )
    drawn = {row["m"] for row in rows}
    mean_errors = ", ".join(
        f"{panel} {_mean_error(rows, panel):.1f}" for panel in panels if panel in drawn
    )
    networks = len({row["k"] for row in rows})
    diagonal = [{"m": panel, "a": end, "e": end, "d": 1} for panel in panels for end in (0, 1)]
    caption = (
        "A point is a network on a test domain. On the dashed diagonal the estimate is the"
        " accuracy, above it the estimate is too high. Vertical lines are 90% intervals: one that"
        f" meets the diagonal holds the accuracy.{thinned}"
    )
    description = (
        f"Scatter plots of estimated against true accuracy, {networks} networks on {len(shifts)}"
        f" test domains. Mean absolute error of the points in percentage points: {mean_errors}."
    )
    figure = Figure(
        slug(name),
        title,
        caption,
        description,
        chart(_panels(panels, shifts), {"rows": [*rows, *diagonal]}),
        "wrap",
        len(panels),
        60,
    )
    return figure, table


def _scatter_rows(estimator: str, points: Sequence[Point], step: int) -> list[dict[str, Any]]:
    """Every `step`-th point of an estimator by accuracy. Raises `ValueError` for a value that is no
    accuracy."""
    if not all(0 <= point.value <= 1 for point in points):
        raise ValueError(f"a value of {estimator} is not an accuracy in [0, 1]")
    by_accuracy = sorted(points, key=lambda point: (point.accuracy, point.network, point.test))
    return [
        {
            "m": estimator,
            "k": point.network,
            "t": point.training,
            "s": point.test,
            "a": _six(point.accuracy),
            "e": _six(point.value),
        }
        | _interval(point)
        for point in by_accuracy[::step]
    ]


def _panels(panels: Sequence[str], shifts: Sequence[str]) -> dict[str, Any]:
    unit_scale, axis = {"domain": [0, 1], "nice": False}, {"format": ".0%", "tickCount": 5}
    x = number("a", title="accuracy", scale=unit_scale, axis=axis)
    where = {"x": x, "y": number("e", title="estimate", scale=unit_scale, axis=axis)}
    # The categories of the page have colours for light and dark; more shifts than these take a
    # scheme that has enough.
    shift_scale = {"range": "category" if len(shifts) <= 4 else "ordinal"}
    colours = shift_scale if len(shifts) <= 6 else {"scheme": "tableau20"}
    # Two names fit the width of a phone.
    legend_columns = 2 if max(map(len, shifts)) > 6 else 5
    legend = {"orient": "top", "title": None, "columns": legend_columns, "symbolOpacity": 1}
    colour = text(
        "s", scale={"domain": list(shifts), **colours}, legend=legend if len(shifts) <= 20 else None
    )
    shared_tips = (
        ("m", "estimator"),
        ("k", "network"),
        ("s", "test domain"),
        ("a", "accuracy", ".1%"),
        ("e", "estimate", ".1%"),
    )
    interval = {"x": x, "y": number("l", scale=unit_scale), "y2": {"field": "h"}, "color": colour}
    diagonal = {**where, "color": named_colour("quiet")}
    tooltip = tips(*shared_tips, ("i", "90% interval"))
    points = {**where, "color": colour, "tooltip": tooltip}
    layers = [
        layer("line", diagonal, where="isValid(datum.d)", strokeDash=[4, 3], strokeWidth=1.2),
        layer("rule", interval, where="isValid(datum.l)", opacity=0.6, strokeWidth=1.2),
        layer("circle", points, where="!isValid(datum.d)", size=26, opacity=0.8),
    ]
    facet = text(
        "m", title=None, sort=list(panels), header={"labelAnchor": "start", "labelOrient": "top"}
    )
    spec = {"layer": layers, "width": 220, "height": 220}
    return {"data": {"name": "rows"}, "facet": facet, "columns": 3, "spec": spec}


def _interval(point: Point) -> dict[str, Any]:
    if point.low is None or point.high is None:
        return {"i": "none"}
    return {
        "l": _six(point.low),
        "h": _six(point.high),
        "i": f"{point.low:.1%} to {point.high:.1%}",
    }


def _mean_error(rows: Sequence[Mapping[str, Any]], panel: str) -> float:
    errors = [abs(row["e"] - row["a"]) for row in rows if row["m"] == panel]
    return 100 * sum(errors) / len(errors)


def domain_figure(
    name: str, title: str, tau_by_measure: Mapping[str, Mapping[str, Number]]
) -> Figure | None:
    """Tau against the test domains in the order of the study, a line a measure, with its intervals:
    figure 3 of Ng et al. 2022 where the domains are distances.

    None for fewer than `LEAST_DOMAINS` domains, which make no curve, and for more than
    `MOST_MEASURES`, which nobody tells apart.
    """
    rows: list[dict[str, Any]] = [
        {"m": measure, "t": domain, "v": _six(tau.value)}
        | ({} if tau.low is None or tau.high is None else {"l": _six(tau.low), "h": _six(tau.high)})
        for measure, taus in tau_by_measure.items()
        for domain, tau in taus.items()
        if tau.value is not None
    ]
    domains = list(dict.fromkeys(domain for taus in tau_by_measure.values() for domain in taus))
    measures = list(dict.fromkeys(row["m"] for row in rows))
    if len(domains) < LEAST_DOMAINS or not 1 <= len(measures) <= MOST_MEASURES:
        return None
    x = text("t", title=None, sort=domains, axis={"labelAngle": -45})
    y = number("v", title="Kendall's tau", scale={"domain": [-1, 1]}, axis={"tickCount": 5})
    colours = {"range": "category" if len(measures) <= 4 else "ordinal"}
    legend = {"orient": "top", "title": None, "columns": 3, "symbolOpacity": 1}
    colour = text("m", scale={"domain": measures, **colours}, legend=legend)
    tooltip = tips(("m", "measure"), ("t", "test domain"), ("v", "tau", ".2f"))
    where = {"x": x, "y": y, "color": colour}
    zero = {"y": y, "color": named_colour("quiet")}
    interval = {"x": x, "y": number("l"), "y2": {"field": "h"}, "color": colour}
    layers = [
        layer("rule", zero, data="zero", strokeDash=[4, 3], strokeWidth=1.2),
        layer("rule", interval, where="isValid(datum.l)", opacity=0.5, strokeWidth=1.2),
        layer("line", where, strokeWidth=2),
        layer("circle", {**where, "tooltip": tooltip}, size=36, opacity=1),
    ]
    spans = ", ".join(
        f"{measure} {min(values):+.2f} to {max(values):+.2f}"
        for measure in measures
        if (values := [row["v"] for row in rows if row["m"] == measure])
    )
    caption = (
        "A point is Kendall's tau of value and accuracy over the networks on a test domain, in the"
        " study's order. Above the dashed line the networks of higher value are the more accurate,"
        " below it the less. Vertical lines are 90% intervals."
    )
    description = f"Lines of Kendall's tau over {len(domains)} test domains: {spans}."
    spec = {"data": {"name": "rows"}, "layer": layers, "width": 480, "height": 220}
    drawn = chart(spec, {"rows": rows, "zero": [{"v": 0}]})
    return Figure(slug(name), title, caption, description, drawn, "bars", names=60)


# -- tables ----------------------------------------------------------------------------------------


def measure_table(
    name: str,
    title: str,
    judged: Mapping[str, PoolJudgement],
    rules: Sequence[str] = ("test", "in-sample"),
) -> ReportTable:
    """A row a measure: R2, MAE in percentage points and the taus, each with its interval, as table
    2b.

    `rules`: the lines whose errors are shown, names of `HELD` or "estimate"; R2 as a squared
    correlation is that of the first.
    """
    return _table(
        name,
        title,
        ("measure",),
        [((measure,), judgement) for measure, judgement in judged.items()],
        rules,
    )


def part_table(
    name: str,
    title: str,
    part_title: str,
    judged: Mapping[str, Mapping[str, PoolJudgement]],
    rules: Sequence[str] = ("test", "in-sample"),
) -> ReportTable:
    """A row a part of the pool and a measure, as tables 4 (training regimes), 5 (augmentation) and
    8 (architectures).

    `part_title` names the parts.
    """
    rows = [
        ((part_name, measure), judgement)
        for part_name, measures in judged.items()
        for measure, judgement in measures.items()
    ]
    return _table(name, title, (part_title, "measure"), rows, rules)


def line_table(name: str, title: str, judged: Mapping[str, PoolJudgement]) -> ReportTable:
    """A row a measure and a line, by what it is fitted on: R2 in both forms, mean absolute and mean
    signed error."""
    rows: list[tuple[Cell, ...]] = []
    rules: dict[str, None] = {}
    for judgement in judged.values():
        fits = judgement.fits.items()
        rules |= dict.fromkeys(rule for rule, fit in fits if fit.mae.value is not None)
    for measure, judgement in judged.items():
        for rule in rules:
            if rule in judgement.fits:
                rows.append((measure, *_line_cells(judgement.fits[rule])))
    columns = (
        "measure",
        "line fitted on",
        "uses target accuracies",
        "R2",
        "1 - SSE/SST",
        "MAE",
        "bias",
    )
    return ReportTable(slug(name), title, columns, rows, (*map(_told, rules), _INTERVAL), keys=2)


def _line_cells(fit: LineFit) -> tuple[Cell, ...]:
    """The cells of a line: what it is fitted on, and how well it tells accuracies."""
    r2, explained = _cell(fit.r2, 3), _cell(fit.explained, 3)
    mae, bias = _cell(fit.mae, 2), _cell(fit.bias, 2, "+")
    return fit.held, "yes" if fit.uses_target_labels else "no", r2, explained, mae, bias


def domain_table(
    name: str, title: str, tau_by_measure: Mapping[str, Mapping[str, Number]]
) -> ReportTable:
    """A row a measure, a column a test domain, as tables 9 to 11 and 16 to 18; `tau_by_measure` by
    measure
    and domain."""
    domains: dict[str, None] = {}
    for numbers in tau_by_measure.values():
        domains |= dict.fromkeys(numbers)
    rows = [
        (measure, *(_cell(numbers.get(domain), 3) for domain in domains))
        for measure, numbers in tau_by_measure.items()
    ]
    return ReportTable(slug(name), title, ("measure", *domains), rows, (_INTERVAL,))


def across_table(
    name: str,
    title: str,
    judged: Mapping[str, PoolJudgement],
    judged_parts: Mapping[str, Mapping[str, PoolJudgement]] | None = None,
) -> ReportTable:
    """A row a measure: tau over the test domains of one network, the mean over networks, as table
    7; a column for each part too."""
    judged_parts = judged_parts or {}
    rows: list[tuple[Cell, ...]] = []
    for measure, judgement in judged.items():
        of_parts = [judged_part[measure].across_tau for judged_part in judged_parts.values()]
        taus = [_cell(tau, 3) for tau in (judgement.across_tau, *of_parts)]
        rows.append((measure, *taus, judgement.networks))
    reasons = dict.fromkeys(
        f"{judgement.across_tau.why}." for judgement in judged.values() if judgement.across_tau.why
    )
    notes = (
        (
            "Kendall's tau of value and accuracy over the shifted domains of a network, then the"
            " mean over networks."
        ),
        _INTERVAL,
    )
    columns = (
        "measure",
        "tau over domains",
        *(f"of {part_name}" for part_name in judged_parts),
        "networks",
    )
    return ReportTable(slug(name), title, columns, rows, (*notes, *reasons))


def number_table(
    name: str,
    title: str,
    judged_parts: Mapping[str, Mapping[str, PoolJudgement]],
    on_domains: Mapping[str, Mapping[str, OnDomain]] | None = None,
) -> ReportTable:
    """Every number in one tidy table: a row a measure and number, with its interval, the cells that
    it averages, and reasons.

    `judged_parts`: by part of the pool, "" for all of it, and measure. `on_domains`: by measure, or
    `measure, part`, and test domain.
    """
    rows: list[tuple[Cell, ...]] = []
    for part_name, judged in judged_parts.items():
        for measure, judgement in judged.items():
            label = f"{measure}, {part_name}" if part_name else measure
            for tau, tau_number in _taus(judgement).items():
                rows.append((label, tau, None, "", 0, *_number_cells(tau_number)))
            for rule, fit in judgement.fits.items():
                uses_target = int(fit.uses_target_labels)
                for kind, error_number in _errors(fit).items():
                    cells = _number_cells(error_number)
                    rows.append((label, kind, None, rule, uses_target, *cells))
    for label, domains in (on_domains or {}).items():
        for domain, on in domains.items():
            for kind, domain_number in (
                ("macro tau", on.tau),
                ("R2", on.r2),
                ("micro tau", on.micro),
            ):
                rows.append((label, kind, domain, "", 0, *_number_cells(domain_number)))
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
    return ReportTable(slug(name), title, columns, rows, keys=4)


def _errors(fit: LineFit) -> dict[str, Number]:
    """The numbers of a line, as tables call them."""
    return {"R2": fit.r2, "1 - SSE/SST": fit.explained, "MAE": fit.mae, "bias": fit.bias}


def _number_cells(shown: Number) -> tuple[Cell, ...]:
    """A number with its interval, the cells that it averages, and reasons."""
    return shown.value, shown.low, shown.high, shown.cells, shown.left_out, shown.why or None


def comparison_table(
    name: str, title: str, reference: str, compared: Mapping[str, Comparison]
) -> ReportTable:
    """A row an estimator: differences of MAE and macro tau to a reference, with intervals and
    p-values after Holm."""
    rows: list[tuple[Cell, ...]] = []
    for estimator, comparison_of in compared.items():
        mae = _difference_cells(comparison_of.mae, 2)
        tau = _difference_cells(comparison_of.macro_tau, 3)
        adjusted = comparison_of.mae_holm, comparison_of.macro_tau_holm
        rows.append((estimator, *mae, adjusted[0], *tau, adjusted[1]))
    levels = {
        (percent(comparison_of.mae_level), percent(comparison_of.tau_level))
        for comparison_of in compared.values()
    }
    widths = "; ".join(f"{mae} of MAE, {tau} of macro tau" for mae, tau in levels)
    notes = [
        f"Differences to {reference} on the same points. In brackets an interval by drawing"
        f" networks anew, of the level that the correction by Holm comes to ({widths}): it excludes"
        " 0 where p (Holm) is below 0.05."
    ]
    notes += [
        f"{estimator}: {why}."
        for estimator, comparison_of in compared.items()
        for why in comparison_of.why
    ]
    columns = (
        "estimator",
        "difference of MAE",
        "p",
        "p (Holm)",
        "difference of macro tau",
        "p of tau",
        "p of tau (Holm)",
    )
    return ReportTable(slug(name), title, columns, rows, notes)


def _difference_cells(difference: Difference | None, digits: int) -> tuple[Cell, Cell]:
    """A difference with its interval, and its p."""
    if difference is None:
        return None, None
    shown = Number(difference.mean, difference.low, difference.high)
    return _cell(shown, digits, "+"), difference.p


def coverage_table(
    name: str, title: str, covered_by: Mapping[str, Sequence[Covered]]
) -> ReportTable:
    """A row an estimator, kind and strength of shift: the share of accuracies in their interval,
    and its median width."""
    rows = [
        (
            estimator,
            covered.kind,
            covered.strength,
            covered.pairs,
            covered.networks,
            covered.without,
            _cell(covered.share, 3),
            covered.width,
        )
        for estimator, covered_parts in covered_by.items()
        for covered in covered_parts
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
    return ReportTable(slug(name), title, columns, rows, (note,), keys=3)


def _table(
    name: str,
    title: str,
    keys: Sequence[str],
    rows: Sequence[tuple[tuple[str, ...], PoolJudgement]],
    rules: Sequence[str],
) -> ReportTable:
    # A tau that no pool has is no column.
    empty = {
        label
        for label in ("micro tau", "arch tau")
        if all(_taus(judgement)[label].value is None for _, judgement in rows)
    }
    every_label = _numbers(rows[0][1], rules) if rows else {}
    labels = [label for label in every_label if label not in empty]
    listed: list[tuple[Cell, ...]] = []
    reasons: dict[str, None] = {}
    for names, judgement in rows:
        numbers = _numbers(judgement, rules)
        cells: list[Cell] = [*names]
        for label in labels:
            digits = 2 if label.startswith("MAE") else 3
            cells.append(_cell(numbers[label], digits))
            if numbers[label].why:
                reasons[f"{label}: {numbers[label].why}."] = None
        listed.append(tuple(cells))
    for label in sorted(empty, reverse=True):
        for _, judgement in rows:
            reasons[f"No {label}: {_taus(judgement)[label].why}."] = None
    return ReportTable(
        slug(name),
        title,
        [*keys, *labels],
        listed,
        (*map(_told, rules), _INTERVAL, *reasons),
        len(keys),
    )


def _told(rule: str) -> str:
    if rule == "estimate":
        return '"estimate": the errors of the estimate itself, without a line.'
    line = HELD[rule]
    uses = "It uses none on o."
    if line.uses_target_labels:
        uses = "It uses accuracies on o, which nobody has of a new domain."
    return (
        f'"{rule}": errors on test domain o of networks trained on i, by a line fitted on'
        f" {line.words}. {uses}"
    )


def _taus(judgement: PoolJudgement) -> dict[str, Number]:
    return {
        "macro tau": judgement.macro_tau,
        "micro tau": judgement.micro_tau,
        "ID tau": judgement.id_tau,
        "arch tau": judgement.arch_tau,
        "across tau": judgement.across_tau,
    }


def _numbers(judgement: PoolJudgement, rules: Sequence[str]) -> dict[str, Number]:
    taus = _taus(judgement)
    del taus["across tau"]
    errors: dict[str, Number] = {}
    for rule in rules:
        errors |= {
            f"1 - SSE/SST, {rule}": judgement.fits[rule].explained,
            f"MAE, {rule}": judgement.fits[rule].mae,
        }
    return {"R2": judgement.fits[rules[0]].r2, **errors, **taus}


def _cell(number_shown: Number | None, digits: int, sign: str = "") -> str | None:
    if number_shown is None or number_shown.value is None:
        return None
    form = f"{sign}.{digits}f"
    value, low, high = number_shown.value, number_shown.low, number_shown.high
    if low is None or high is None:
        return f"{value:{form}}"
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def _six(value: float) -> float:
    return round(value, 6)
