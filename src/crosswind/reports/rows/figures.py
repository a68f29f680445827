"""Figures of single rows' answers and of how training went, one function each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.evaluation.compare import summary
from crosswind.evaluation.systematic import SystematicScores
from crosswind.reports.charts import Figure, chart, layer, number, on_ramp, text, tips
from crosswind.reports.claims.robustness import WITHOUT, beside_words
from crosswind.reports.rows.answers import MethodAnswers
from crosswind.reports.rows.learning import Curve
from crosswind.reports.rows.pairs import MOST_NAMES, Apart
from crosswind.reports.scores.results import LEVEL
from crosswind.reports.tables import ReportTable, slug

_WIDE = 8
LINES = 9
"""Lines of a panel that colour and dash together tell apart."""


def confusion(method_answers: Sequence[MethodAnswers]) -> tuple[Figure, ReportTable] | None:
    """Class x answer, one panel a method, under one shift; None for more classes than there is room
    for."""
    rows: list[dict[str, Any]] = []
    for answers in method_answers:
        for (label, answer), share in answers.confusion.items():
            rows.append({"m": answers.method, "x": answer, "y": label, "v": round(share, 4)})
    tooltip = (("y", "class"), ("x", "answer"), ("v", "share", ".1%"))
    title = f"Classes and answers under {method_answers[0].shift}"
    caption = (
        "Of the test rows of a class (on the left), the share that was given each answer (below),"
        " over all seeds."
    )
    return _map(
        f"confusion-{_name(method_answers[0])}",
        title,
        caption,
        rows,
        tooltip,
        ("class", "answer", "share of rows"),
    )


def cells(
    method_answers: Sequence[MethodAnswers], pair: tuple[str, str]
) -> tuple[Figure, ReportTable] | None:
    """Accuracy by the values of two attributes, one panel a method, under one shift; None where
    there is no room."""
    first_name, second_name = pair
    rows: list[dict[str, Any]] = []
    for answers in method_answers:
        for values, (accuracy, n) in answers.cells.get(pair, {}).items():
            rows.append(_accuracy_row(answers.method, values, accuracy, n))
    tooltip = (("y", first_name), ("x", second_name), ("v", "accuracy", ".1%"), ("n", "test rows"))
    title = f"Accuracy by {first_name} and {second_name} under {method_answers[0].shift}"
    caption = (
        f"Accuracy on the test rows of each {first_name} (on the left) and {second_name} (below),"
        " over all seeds."
    )
    return _map(
        f"cells-{_name(method_answers[0])}-{first_name}-{second_name}",
        title,
        caption,
        rows,
        tooltip,
        (first_name, second_name, "accuracy"),
    )


def apart(method_answers: Sequence[MethodAnswers]) -> tuple[Figure, ReportTable] | None:
    """Accuracy by class and environment, one panel a method, under one systematic shift; pairs that
    training showed are framed."""
    first = next(answers.apart for answers in method_answers if answers.apart is not None)
    rows: list[dict[str, Any]] = []
    for answers in method_answers:
        if answers.apart is None:
            continue
        for pair, (accuracy, n) in answers.apart.cells.items():
            row = _accuracy_row(answers.method, pair, accuracy, n)
            rows.append(row | {"s": int(pair in answers.apart.seen)})
    # Classes of one set of environments stand together, so that frames make blocks.
    environments = [row["x"] for row in rows]
    unseen_pairs = {
        name: tuple((name, environment) not in first.seen for environment in environments)
        for name in _distinct(rows, "y")
    }
    rows.sort(key=lambda row: unseen_pairs[row["y"]])
    tooltip = (
        ("y", first.label),
        ("x", first.environment),
        ("v", "accuracy", ".1%"),
        ("n", "test rows"),
        ("s", "seen in training"),
    )
    title = f"Accuracy by {first.label} and {first.environment} under {method_answers[0].shift}"
    caption = (
        f"Accuracy on the test rows of each {first.label} (on the left) and {first.environment}"
        " (below), over all seeds. Framed: the pairs that training showed. The others it never"
        " showed."
    )
    return _map(
        f"apart-{_name(method_answers[0])}",
        title,
        caption,
        rows,
        tooltip,
        (first.label, first.environment, "accuracy"),
    )


def _accuracy_row(
    method: str, values: tuple[str, str], accuracy: float, n_rows: int
) -> dict[str, Any]:
    """The accuracy of a method on the rows with two values: the first is down, the second across."""
    down, across = values
    return {"m": method, "x": across, "y": down, "v": round(accuracy, 4), "n": n_rows}


def rho_by_environment(
    method_answers: Sequence[MethodAnswers], reference: str = ""
) -> list[ReportTable]:
    """rho of every method (rows) under every environment (columns), and the mean over these; none
    where either is single.

    `reference`: as for `rhos`, and no row. Omran and Schiele 2022, table 3.
    """
    base = _reference_answers(method_answers, reference)
    measures_by_method: dict[str, Mapping[str, SystematicScores]] = {}
    for answers in method_answers:
        if answers.apart is not None and answers.apart is not base:
            measures_by_method[answers.method] = _measures_of(answers.apart, base)
    environments: dict[str, None] = {}
    for measures in measures_by_method.values():
        environments |= dict.fromkeys(measures)
    if len(measures_by_method) < 2 or len(environments) < 2:
        return []
    rows: list[tuple[Any, ...]] = []
    for method, measures in measures_by_method.items():
        values = [measures[name].rho if name in measures else None for name in environments]
        rows.append((method, *map(_rounded, values), _rounded(_mean(values))))
    notes = (
        (
            "rho of the table below, which has its intervals; the mean is over the environments,"
            " and undefined where one is."
        ),
    )
    columns = (_environment_title(name) for name in environments)
    return [
        ReportTable(
            slug(f"rho-by-environment-{_name(method_answers[0])}"),
            f"rho by environment under {method_answers[0].shift}",
            ("method", *columns, "mean"),
            rows,
            notes,
            1,
        )
    ]


def _reference_answers(method_answers: Sequence[MethodAnswers], reference: str) -> Apart | None:
    """The answers of the reference model by class and environment; None where it is not among
    them."""
    for answers in method_answers:
        if answers.method == reference:
            return answers.apart
    return None


def _measures_of(answers: Apart, base: Apart | None) -> Mapping[str, SystematicScores]:
    """Seen and unseen accuracy and rho by environment, beside the reference model where there is
    one."""
    return answers.measures if base is None else answers.beside(base)


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean; None where one is undefined."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(values) if len(defined) == len(values) else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _environment_title(name: str) -> str:
    """An environment of one attribute as its value alone."""
    return name if "," in name else name.partition("=")[2] or name


def rhos(
    method_answers: Sequence[MethodAnswers], reference: str = "", without: str = WITHOUT
) -> ReportTable:
    """Seen and unseen accuracy of every environment, their difference, and rho with its interval, a
    row a method.

    `reference`: the method that is the reference model of equation 1; where it is not among the
    items there is none, and the note is `without`.
    """
    rows: list[tuple[Any, ...]] = []
    base = _reference_answers(method_answers, reference)
    for answers in method_answers:
        if answers.apart is None:
            continue
        for name, measures in _measures_of(answers.apart, base).items():
            rows.append(
                (
                    answers.method,
                    name,
                    round(measures.seen, 4),
                    round(measures.unseen, 4),
                    round(measures.seen - measures.unseen, 4),
                    _rounded(measures.rho),
                    _rho_interval(measures),
                    measures.n_seen,
                    measures.n_unseen,
                    answers.seeds,
                )
            )
    notes = (
        (
            "seen, unseen: accuracy on the classes that training showed in the environment, and on"
            " the others; gap: the difference."
        ),
        (
            f"{without if base is None else beside_words(reference)}. The 95% interval is a"
            " bootstrap over test rows and seeds."
        ),
    )
    columns = (
        "method",
        "environment",
        "seen",
        "unseen",
        "gap",
        "rho",
        "95% interval",
        "seen rows",
        "unseen rows",
        "seeds",
    )
    title = f"Systematic robustness under {method_answers[0].shift}"
    return ReportTable(slug(f"rho-{_name(method_answers[0])}"), title, columns, rows, notes, 2)


def _rho_interval(measures: SystematicScores) -> str:
    if measures.rho is None:
        return "undefined"
    if measures.low is None:
        return ""
    return f"{measures.low:.2f} to {measures.high:.2f}"


def trade(
    method_answers: Sequence[MethodAnswers],
    other_answers: Sequence[MethodAnswers],
    reference: str,
    rates: Mapping[str, float],
) -> list[tuple[Figure, ReportTable]]:
    """Seen against unseen accuracy under one systematic shift: a figure an environment, a point a
    method, intervals over seeds.

    `other_answers`: answers under other shifts; those whose training showed every class in the
    environment, or none, stand beside. Of `reference`, which took no step, one point is enough.
    `rates`: learning rates of methods that differ in nothing else, which a line then joins in their
    order. Omran and Schiele 2022, figure 3.
    """
    base = next(answers.pairs for answers in method_answers if answers.apart is not None)
    assert base is not None
    first = method_answers[0]
    rows: dict[str, list[dict[str, Any]]] = {}
    for answers in (*method_answers, *other_answers):
        if answers.pairs is None:
            continue
        is_shift = answers.shift == first.shift
        is_reference = answers.method == reference
        for environment, (seen, unseen, classes_shown) in base.sides(answers.pairs).items():
            if not is_shift and (is_reference or classes_shown == "some"):
                continue
            series = "before fine-tuning" if is_reference else _series(answers, classes_shown)
            row = {
                "m": answers.method,
                "s": answers.shift,
                "g": series,
                "t": f"{rates.get(answers.method, answers.method)}",
                "n": answers.seeds,
                "o": rates.get(answers.method, 0.0),
                "l": int(answers.method in rates),
                **_over_seeds("y", seen),
                **_over_seeds("x", unseen),
            }
            rows.setdefault(environment, []).append(row)
    return [
        _trade(first, environment, points, bool(rates))
        for environment, points in rows.items()
        if len(points) > 1
    ]


def _series(answers: MethodAnswers, classes_shown: str) -> str:
    """The name of points of one colour: the shift, and which classes its training showed."""
    noun = "classes" if classes_shown == "some" else "class"
    return f"{answers.shift} ({classes_shown} {noun})"


def _over_seeds(key: str, accuracies: NDArray[np.float64]) -> dict[str, float]:
    """The mean over seeds, and the ends of its interval: the mean itself where there is none."""
    over_seeds = summary(accuracies.tolist(), LEVEL)
    mean, low, high = over_seeds.mean, over_seeds.low, over_seeds.high
    if low is None or high is None:
        low = high = mean
    return {
        key: round(mean, 4),
        f"{key}0": round(max(0.0, low), 4),
        f"{key}1": round(min(1.0, high), 4),
    }


def _trade(
    first: MethodAnswers, environment: str, rows: list[dict[str, Any]], swept: bool
) -> tuple[Figure, ReportTable]:
    """The figure of one environment and the table of its points."""
    low = min(min(row["x0"], row["y0"]) for row in rows)
    high = max(max(row["x1"], row["y1"]) for row in rows)
    view = _trade_view(rows, low, high)
    title = f"Seen against unseen pairs of {environment} under {first.shift}"
    name = slug(f"trade-{_name(first)}-{environment}")
    caption = (
        f"A point is a {'learning rate' if swept else 'method'}, bars are 95% intervals over seeds."
        f" Up: better on pairs that training showed under {first.shift}; right: better on those"
        " that it did not; dashed: both alike."
    )
    points = "; ".join(
        f"{row['m']}, {row['g']}: seen {row['y']:.1%}, unseen {row['x']:.1%}" for row in rows
    )
    figure = Figure(
        name,
        title,
        caption,
        f"Scatter plot of {len(rows)} points: {points}.",
        chart(view, {"rows": rows, "even": [{"x": low}, {"x": high}]}),
        "bars",
        names=50,
    )
    columns = (
        "method",
        "shift",
        "classes shown so",
        "seen",
        "seen, 95% interval",
        "unseen",
        "unseen, 95% interval",
        "seeds",
    )
    cells: list[tuple[Any, ...]] = []
    for row in rows:
        classes_shown = row["g"].rpartition("(")[2].rstrip(")")
        seen = row["y"], _interval_words(row, "y")
        unseen = row["x"], _interval_words(row, "x")
        cells.append((row["m"], row["s"], classes_shown, *seen, *unseen, row["n"]))
    return figure, ReportTable(name, title, columns, cells, keys=3)


def _interval_words(row: Mapping[str, Any], key: str) -> str:
    low, high = row[f"{key}0"], row[f"{key}1"]
    return "" if row["n"] == 1 else f"{low:.3f} to {high:.3f}"


def _trade_view(rows: Sequence[Mapping[str, Any]], low: float, high: float) -> dict[str, Any]:
    """Points with their intervals, the line of equal accuracies, and lines through learning
    rates."""
    series = _distinct(rows, "g")
    axis = {
        "scale": {"domain": [low, high], "nice": True, "padding": 8},
        "axis": {"format": ".0%", "tickCount": 5},
    }
    x = number("x", title="accuracy on unseen pairs", **axis)
    y = number("y", title="accuracy on seen pairs", **axis)
    legend = {"orient": "top", "title": None, "columns": 1}
    colour_scale = {"domain": series, **_colours(series)}
    colour = {"color": text("g", scale=colour_scale, legend=legend)}
    shape = {"shape": text("g", scale={"domain": series}, legend=None)}
    tooltip = tips(
        ("m", "method"),
        ("s", "shift"),
        ("y", "seen", ".1%"),
        ("x", "unseen", ".1%"),
        ("n", "seeds"),
    )
    even = layer(
        "line",
        {"x": number("x"), "y": number("x")},
        data="even",
        strokeDash=[3, 3],
        stroke={"expr": "quiet"},
        strokeWidth=1,
    )
    unseen_interval = {"x": number("x0"), "x2": {"field": "x1"}, "y": y, **colour}
    seen_interval = {"y": number("y0"), "y2": {"field": "y1"}, "x": x, **colour}
    through_rates = {"x": x, "y": y, "order": number("o"), **colour}
    points = {"x": x, "y": y, **colour, **shape, "tooltip": tooltip}
    names = {"x": x, "y": y, "text": text("t"), **colour}
    layers = [
        even,
        layer("rule", unseen_interval, opacity=0.6),
        layer("rule", seen_interval, opacity=0.6),
        layer("line", through_rates, where="datum.l", strokeWidth=1.2, opacity=0.7),
        layer("point", points, filled=True, size=64),
        layer("text", names, dx=7, dy=-7, align="left", fontSize=11),
    ]
    return {"data": {"name": "rows"}, "layer": layers, "width": 420, "height": 320}


def curves(method_curves: Sequence[Curve], shifts: Sequence[str]) -> tuple[Figure, ReportTable]:
    """Validation accuracy by step, one panel a shift, one colour a method, one dash a set, with the
    steps that each rule chose.

    Where that is more than `LINES` lines, a set has a panel of its own under each shift.
    """
    methods = list(dict.fromkeys(curve.method for curve in method_curves))
    sets = list(dict.fromkeys(curve.set for curve in method_curves))
    split = len(sets) > 1 and len(sets) * len(methods) > LINES
    panel = {
        (curve.shift, curve.set): f"{curve.shift}: {curve.set}" if split else curve.shift
        for curve in method_curves
    }
    lines, marks = _curve_rows(method_curves, panel)
    rules = _distinct(marks, "u")
    panels: dict[str, None] = {}
    for shift in shifts:
        panels |= dict.fromkeys(panel[key] for key in panel if key[0] == shift)
    facet = text(
        "s", title=None, sort=list(panels), header={"labelAnchor": "start", "labelOrient": "top"}
    )
    layers = _curve_layers(methods, sets, rules, dashed=len(sets) > 1 and not split)
    view = {
        "data": {"name": "rows"},
        "facet": facet,
        "columns": 3,
        "spec": {"layer": layers, "width": 190, "height": 150},
    }
    setting = method_curves[0].place
    setting_names = list(filter(None, (setting.data, setting.size, setting.model)))
    title = f"Accuracy on {', '.join(sets)} through training"
    name = "-".join(["curves", *setting_names])
    seeds = max(curve.seeds for curve in method_curves)
    caption = (
        f"A line is the mean over seeds ({seeds} at most). A mark is a step that a selection rule"
        " chose; its size is the number of seeds that chose it. A set on which no rule is marked"
        " chose nothing."
    )
    description = (
        f"Learning curves of {len(methods)} methods in {len(panels)} panels"
        f" ({', '.join(setting_names)})."
    )
    figure = Figure(
        name,
        title,
        caption,
        description,
        chart(view, {"rows": [*lines, *marks]}),
        "wrap",
        len(panels),
        60,
    )
    columns = ("shift", "method", "set", "step", "accuracy", "seeds that chose it")
    return figure, ReportTable(name, title, columns, _curve_cells(method_curves), keys=4)


def _curve_rows(
    method_curves: Sequence[Curve], panel: Mapping[tuple[str, str], str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The points of lines, and the marks of the steps that rules chose; `panel` is by shift and
    set."""
    lines: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    for curve in method_curves:
        named = {"s": panel[curve.shift, curve.set], "m": curve.method, "v": curve.set}
        for step, accuracy in curve.accuracy.items():
            lines.append({**named, "k": step, "a": round(accuracy, 4), "n": curve.seeds})
        for rule, steps in curve.chosen.items():
            for step, count in sorted(steps.items()):
                if step in curve.accuracy:
                    accuracy = round(curve.accuracy[step], 4)
                    marks.append({**named, "k": step, "a": accuracy, "u": rule, "c": count})
    return lines, marks


def _curve_layers(
    methods: Sequence[str], sets: Sequence[str], rules: Sequence[str], dashed: bool
) -> list[dict[str, Any]]:
    """Lines and marks; `dashed`: whether a set has a dash of its own."""
    y_title = f"accuracy on {sets[0]}" if len(sets) == 1 else "accuracy"
    y_scale = {"zero": False, "padding": 6}
    colour_scale = {"domain": methods, **_colours(methods)}
    where = {
        "x": number("k", title="step", axis={"tickCount": 4}),
        "y": number("a", title=y_title, scale=y_scale, axis={"format": ".0%"}),
        "color": text("m", scale=colour_scale, legend={"orient": "top", "title": None}),
    }
    shared_tips = (("m", "method"), ("s", "shift"), ("v", "set"), ("k", "step"))
    line: dict[str, Any] = {**where}
    if dashed:
        set_legend = {"orient": "top", "title": "set", "symbolType": "stroke"}
        line["strokeDash"] = text("v", scale={"domain": sets}, legend=set_legend)
    line["tooltip"] = tips(*shared_tips, ("a", "mean accuracy", ".1%"), ("n", "seeds"))
    rule_legend = {"orient": "top", "title": "chosen by"}
    chosen = {
        **where,
        "shape": text("u", scale={"domain": rules}, legend=rule_legend),
        "size": number("c", scale={"rangeMin": 25, "rangeMax": 140}, legend=None),
        "tooltip": tips(*shared_tips, ("u", "chosen by"), ("c", "seeds that chose it")),
    }
    # Facets share one data set: what is a mark tells the two apart.
    return [
        layer("line", line, where="!isValid(datum.u)", strokeWidth=1.8, point={"size": 14}),
        layer("point", chosen, where="isValid(datum.u)", opacity=0.8, strokeWidth=1.6),
    ]


def _curve_cells(method_curves: Sequence[Curve]) -> list[tuple[Any, ...]]:
    """Every point of the lines as a row, with the seeds that chose its step by rule."""
    rows: list[tuple[Any, ...]] = []
    for curve in method_curves:
        for step, accuracy in curve.accuracy.items():
            by_rule = (
                f"{rule} {steps[step]}" for rule, steps in curve.chosen.items() if steps.get(step)
            )
            rows.append((curve.shift, curve.method, curve.set, step, accuracy, ", ".join(by_rule)))
    return rows


def _map(
    name: str,
    title: str,
    caption: str,
    rows: list[dict[str, Any]],
    tooltip: Sequence[Any],
    columns: tuple[str, str, str],
) -> tuple[Figure, ReportTable] | None:
    """A heat map of v by y and x, one panel an m, and the table of its numbers."""
    across, down, methods = (_distinct(rows, key) for key in ("x", "y", "m"))
    if not rows or max(len(across), len(down)) > MOST_NAMES:
        return None
    vertical, horizontal, measure = columns
    across_axis = {"labelAngle": -40 if len(across) > 3 else 0, "labelLimit": 70}
    where = {
        "x": text("x", title=horizontal, sort=across, axis=across_axis),
        "y": text("y", title=vertical, sort=down, axis={"labelLimit": 90}),
        "tooltip": tips(("m", "method"), *tooltip),
    }
    scale = {"domain": [0, 1], "range": "ramp", "interpolate": "rgb"}
    layers = [
        layer("rect", {**where, "color": number("v", scale=scale, legend=None)}, cornerRadius=2)
    ]
    if "s" in rows[0]:
        ink = {"expr": "ink"}
        frame = layer(
            "rect", where, where="datum.s", filled=False, stroke=ink, strokeWidth=2, cornerRadius=2
        )
        layers.append(frame)
    if len(across) <= _WIDE:
        shown = {**where, "text": number("v", format=".0%"), "color": on_ramp("datum.v > 0.6")}
        layers.append(layer("text", shown, fontSize=11 if len(across) <= 5 else 9))
    facet = text(
        "m", title=None, sort=methods, header={"labelAnchor": "start", "labelOrient": "top"}
    )
    row_height = 24 if len(down) <= 12 else 16
    panel_spec = {"layer": layers, "width": 170, "height": {"step": row_height}}
    view = {"data": {"name": "rows"}, "facet": facet, "columns": 3, "spec": panel_spec}
    description = f"Heat maps of {measure} by {vertical} and {horizontal}, {len(methods)} methods."
    if measure == "accuracy":
        low = min(rows, key=lambda row: row["v"])
        pair = f"{vertical} {low['y']}, {horizontal} {low['x']}"
        description += f" Lowest: {low['v']:.1%}, {low['m']}, {pair}."
    figure = Figure(
        slug(name),
        title,
        caption,
        description,
        chart(view, {"rows": rows}),
        "wrap",
        len(methods),
        110,
    )
    extra = {"n": "test rows", "s": "seen in training"}
    extra_keys = [key for key in extra if key in rows[0]]
    cells = [tuple(row[key] for key in ("m", "y", "x", "v", *extra_keys)) for row in rows]
    cell_columns = ("method", *columns, *(extra[key] for key in extra_keys))
    return figure, ReportTable(slug(name), title, cell_columns, cells, keys=3)


def _distinct(rows: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """The distinct values of one key, in the order of the rows."""
    return list(dict.fromkeys(row[key] for row in rows))


def _colours(methods: Sequence[str]) -> dict[str, str]:
    # The categories of the page have colours for light and dark; more methods than these take a
    # scheme that has enough.
    if len(methods) > 6:
        return {"scheme": "tableau20"}
    return {"range": "category" if len(methods) <= 4 else "ordinal"}


def _name(answers: MethodAnswers) -> str:
    setting = answers.place
    names = (setting.data, setting.size, setting.model, answers.shift)
    return "-".join(filter(None, names))
