"""Figures of single rows' answers and of how training went, one function each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crosswind.evaluation.compare import summary
from crosswind.reports.charts import Figure, chart, layer, number, on_ramp, text, tips
from crosswind.reports.claims.robustness import WITHOUT, beside_words
from crosswind.reports.rows.answers import MethodAnswers
from crosswind.reports.rows.learning import Curve
from crosswind.reports.rows.pairs import MOST_NAMES
from crosswind.reports.scores.results import LEVEL
from crosswind.reports.tables import ReportTable, slug

_WIDE = 8
LINES = 9
"""Lines of a panel that colour and dash together tell apart."""


def confusion(method_answers: Sequence[MethodAnswers]) -> tuple[Figure, ReportTable] | None:
    """Class x answer, one panel a method, under one shift; None for more classes than there is room
    for."""
    rows = [
        {"m": answers.method, "x": answer_given, "y": truth, "v": round(share, 4)}
        for answers in method_answers
        for (truth, answer_given), share in answers.confusion.items()
    ]
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
    rows = [
        {"m": answers.method, "x": value, "y": first, "v": round(accuracy, 4), "n": n}
        for answers in method_answers
        for (first, value), (accuracy, n) in answers.cells.get(pair, {}).items()
    ]
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
    rows = [
        {
            "m": answers.method,
            "x": value,
            "y": name,
            "v": round(accuracy, 4),
            "n": n,
            "s": int((name, value) in answers.apart.seen),
        }
        for answers in method_answers
        if answers.apart is not None
        for (name, value), (accuracy, n) in answers.apart.cells.items()
    ]
    # Classes of one set of environments stand together, so that frames make blocks.
    seen_pairs = {
        name: tuple((name, row["x"]) not in first.seen for row in rows)
        for name in dict.fromkeys(row["y"] for row in rows)
    }
    rows.sort(key=lambda row: seen_pairs[row["y"]])
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


def rho_by_environment(
    method_answers: Sequence[MethodAnswers], reference: str = ""
) -> list[ReportTable]:
    """rho of every method (rows) under every environment (columns), and the mean over these; none
    where either is single.

    `reference`: as for `rhos`, and no row. Omran and Schiele 2022, table 3.
    """
    base = next((answers.apart for answers in method_answers if answers.method == reference), None)
    measures_by_method = {
        answers.method: answers.apart.measures if base is None else answers.apart.beside(base)
        for answers in method_answers
        if answers.apart is not None and answers.apart is not base
    }
    names = list(
        dict.fromkeys(name for measures in measures_by_method.values() for name in measures)
    )
    if len(measures_by_method) < 2 or len(names) < 2:
        return []
    rows: list[tuple[Any, ...]] = []
    for method, measures in measures_by_method.items():
        values = [measures[name].rho if name in measures else None for name in names]
        known_values = [value for value in values if value is not None]
        mean = sum(known_values) / len(names) if len(known_values) == len(names) else None
        rows.append(
            (method, *(None if value is None else round(value, 4) for value in (*values, mean)))
        )
    notes = (
        (
            "rho of the table below, which has its intervals; the mean is over the environments,"
            " and undefined where one is."
        ),
    )
    title = f"rho by environment under {method_answers[0].shift}"
    columns = (name if "," in name else name.partition("=")[2] or name for name in names)
    return [
        ReportTable(
            slug(f"rho-by-environment-{_name(method_answers[0])}"),
            title,
            ("method", *columns, "mean"),
            rows,
            notes,
            1,
        )
    ]


def rhos(
    method_answers: Sequence[MethodAnswers], reference: str = "", without: str = WITHOUT
) -> ReportTable:
    """Seen and unseen accuracy of every environment, their difference, and rho with its interval, a
    row a method.

    `reference`: the method that is the reference model of equation 1; where it is not among the
    items there is none, and the note is `without`.
    """
    rows: list[tuple[Any, ...]] = []
    base = next((answers.apart for answers in method_answers if answers.method == reference), None)
    for answers in method_answers:
        if answers.apart is None:
            continue
        measures = answers.apart.measures if base is None else answers.apart.beside(base)
        for name, environment_scores in measures.items():
            interval = (
                "undefined"
                if environment_scores.rho is None
                else (
                    ""
                    if environment_scores.low is None
                    else f"{environment_scores.low:.2f} to {environment_scores.high:.2f}"
                )
            )
            accuracies = (
                round(environment_scores.seen, 4),
                round(environment_scores.unseen, 4),
                round(environment_scores.seen - environment_scores.unseen, 4),
            )
            rho = None if environment_scores.rho is None else round(environment_scores.rho, 4)
            rows.append(
                (
                    answers.method,
                    name,
                    *accuracies,
                    rho,
                    interval,
                    environment_scores.n_seen,
                    environment_scores.n_unseen,
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
    rows: dict[str, list[dict[str, Any]]] = {}
    base = next(answers.pairs for answers in method_answers if answers.apart is not None)
    assert base is not None
    for answers in (*method_answers, *other_answers):
        for name, (seen_values, unseen, environment_told) in (
            {} if answers.pairs is None else base.sides(answers.pairs)
        ).items():
            is_own_shift, taken = (
                answers.shift == method_answers[0].shift,
                answers.method == reference,
            )
            if (not is_own_shift and environment_told == "some") or (taken and not is_own_shift):
                continue
            series = (
                "before fine-tuning"
                if taken
                else (
                    f"{answers.shift} ({environment_told}"
                    f" {'classes' if environment_told == 'some' else 'class'})"
                )
            )
            row = {
                "m": answers.method,
                "s": answers.shift,
                "g": series,
                "t": f"{rates.get(answers.method, answers.method)}",
                "n": answers.seeds,
            }
            row |= {"o": rates.get(answers.method, 0.0), "l": int(answers.method in rates)}
            for key, values in (("y", seen_values), ("x", unseen)):
                summarised = summary(values.tolist(), LEVEL)
                ends = (
                    (summarised.mean, summarised.mean)
                    if summarised.low is None or summarised.high is None
                    else (summarised.low, summarised.high)
                )
                row |= {
                    key: round(summarised.mean, 4),
                    f"{key}0": round(max(0.0, ends[0]), 4),
                    f"{key}1": round(min(1.0, ends[1]), 4),
                }
            rows.setdefault(name, []).append(row)
    return [
        _trade(method_answers[0], name, points, bool(rates))
        for name, points in rows.items()
        if len(points) > 1
    ]


def _trade(
    first: MethodAnswers, environment: str, rows: list[dict[str, Any]], swept: bool
) -> tuple[Figure, ReportTable]:
    low, high = (
        pick(row[key] for row in rows for key in (f"x{end}", f"y{end}"))
        for pick, end in ((min, 0), (max, 1))
    )
    series = list(dict.fromkeys(row["g"] for row in rows))
    axis = {
        "scale": {"domain": [low, high], "nice": True, "padding": 8},
        "axis": {"format": ".0%", "tickCount": 5},
    }
    x, y = (
        number("x", title="accuracy on unseen pairs", **axis),
        number("y", title="accuracy on seen pairs", **axis),
    )
    colour = {
        "color": text(
            "g",
            scale={"domain": series, **_colours(series)},
            legend={"orient": "top", "title": None, "columns": 1},
        )
    }
    shape = {"shape": text("g", scale={"domain": series}, legend=None)}
    tooltip = tips(
        ("m", "method"),
        ("s", "shift"),
        ("y", "seen", ".1%"),
        ("x", "unseen", ".1%"),
        ("n", "seeds"),
    )
    layers = [
        layer(
            "line",
            {"x": number("x"), "y": number("x")},
            data="even",
            strokeDash=[3, 3],
            stroke={"expr": "quiet"},
            strokeWidth=1,
        ),
        layer("rule", {"x": number("x0"), "x2": {"field": "x1"}, "y": y, **colour}, opacity=0.6),
        layer("rule", {"y": number("y0"), "y2": {"field": "y1"}, "x": x, **colour}, opacity=0.6),
        layer(
            "line",
            {"x": x, "y": y, "order": number("o"), **colour},
            where="datum.l",
            strokeWidth=1.2,
            opacity=0.7,
        ),
        layer(
            "point", {"x": x, "y": y, **colour, **shape, "tooltip": tooltip}, filled=True, size=64
        ),
        layer(
            "text",
            {"x": x, "y": y, "text": text("t"), **colour},
            dx=7,
            dy=-7,
            align="left",
            fontSize=11,
        ),
    ]
    title = f"Seen against unseen pairs of {environment} under {first.shift}"
    name = slug(f"trade-{_name(first)}-{environment}")
    caption = (
        f"A point is a {'learning rate' if swept else 'method'}, bars are 95% intervals over seeds."
        f" Up: better on pairs that training showed under {first.shift}; right: better on those"
        " that it did not; dashed: both alike."
    )
    listed = "; ".join(
        f"{row['m']}, {row['g']}: seen {row['y']:.1%}, unseen {row['x']:.1%}" for row in rows
    )
    view = {"data": {"name": "rows"}, "layer": layers, "width": 420, "height": 320}
    spec = chart(view, {"rows": rows, "even": [{"x": low}, {"x": high}]})
    figure = Figure(
        name,
        title,
        caption,
        f"Scatter plot of {len(rows)} points: {listed}.",
        spec,
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
    cells = [
        (
            row["m"],
            row["s"],
            row["g"].rpartition("(")[2].rstrip(")"),
            *(_with_interval(row, key) for key in "yx"),
            row["n"],
        )
        for row in rows
    ]
    return figure, ReportTable(
        name, title, columns, [(*row[:3], *row[3], *row[4], row[5]) for row in cells], keys=3
    )


def _with_interval(row: Mapping[str, Any], key: str) -> tuple[float, str]:
    low, high = row[f"{key}0"], row[f"{key}1"]
    return row[key], "" if row["n"] == 1 else f"{low:.3f} to {high:.3f}"


def curves(method_curves: Sequence[Curve], shifts: Sequence[str]) -> tuple[Figure, ReportTable]:
    """Validation accuracy by step, one panel a shift, one colour a method, one dash a set, with the
    steps that each rule chose.

    Where that is more than `LINES` lines, a set has a panel of its own under each shift.
    """
    first, (methods, sets) = (
        method_curves[0],
        (
            list(dict.fromkeys(getattr(curve, name) for curve in method_curves))
            for name in ("method", "set")
        ),
    )
    split = len(sets) > 1 and len(sets) * len(methods) > LINES
    panel = {
        (curve.shift, curve.set): f"{curve.shift}: {curve.set}" if split else curve.shift
        for curve in method_curves
    }
    lines = [
        {
            "s": panel[curve.shift, curve.set],
            "m": curve.method,
            "v": curve.set,
            "k": step,
            "a": round(value, 4),
            "n": curve.seeds,
        }
        for curve in method_curves
        for step, value in curve.accuracy.items()
    ]
    marks = [
        {
            "s": panel[curve.shift, curve.set],
            "m": curve.method,
            "v": curve.set,
            "k": step,
            "a": round(curve.accuracy[step], 4),
            "u": rule,
            "c": count,
        }
        for curve in method_curves
        for rule, steps in curve.chosen.items()
        for step, count in sorted(steps.items())
        if step in curve.accuracy
    ]
    where = {
        "x": number("k", title="step", axis={"tickCount": 4}),
        "y": number(
            "a",
            title=" ".join(["accuracy", *([f"on {first.set}"] if len(sets) == 1 else [])]),
            scale={"zero": False, "padding": 6},
            axis={"format": ".0%"},
        ),
        "color": text(
            "m",
            scale={"domain": methods, **_colours(methods)},
            legend={"orient": "top", "title": None},
        ),
    }
    shared_tips = (("m", "method"), ("s", "shift"), ("v", "set"), ("k", "step"))
    dashes = {
        "strokeDash": text(
            "v",
            scale={"domain": sets},
            legend={"orient": "top", "title": "set", "symbolType": "stroke"},
        )
    }
    line = {
        **where,
        **(dashes if len(sets) > 1 and not split else {}),
        "tooltip": tips(*shared_tips, ("a", "mean accuracy", ".1%"), ("n", "seeds")),
    }
    rules = list(dict.fromkeys(row["u"] for row in marks))
    chosen = {
        **where,
        "shape": text("u", scale={"domain": rules}, legend={"orient": "top", "title": "chosen by"}),
        "size": number("c", scale={"rangeMin": 25, "rangeMax": 140}, legend=None),
        "tooltip": tips(*shared_tips, ("u", "chosen by"), ("c", "seeds that chose it")),
    }
    # Facets share one data set: what is a mark tells the two apart.
    layers = [
        layer("line", line, where="!isValid(datum.u)", strokeWidth=1.8, point={"size": 14}),
        layer("point", chosen, where="isValid(datum.u)", opacity=0.8, strokeWidth=1.6),
    ]
    present = list(
        dict.fromkeys(panel[key] for shift in shifts for key in panel if key[0] == shift)
    )
    header = {"labelAnchor": "start", "labelOrient": "top"}
    facet = text("s", title=None, sort=present, header=header)
    view = {
        "data": {"name": "rows"},
        "facet": facet,
        "columns": 3,
        "spec": {"layer": layers, "width": 190, "height": 150},
    }
    setting_words = ", ".join(filter(None, (first.place.data, first.place.size, first.place.model)))
    title = f"Accuracy on {', '.join(sets)} through training"
    name = "-".join(filter(None, ("curves", first.place.data, first.place.size, first.place.model)))
    seeds = max(curve.seeds for curve in method_curves)
    caption = (
        f"A line is the mean over seeds ({seeds} at most). A mark is a step that a selection rule"
        " chose; its size is the number of seeds that chose it. A set on which no rule is marked"
        " chose nothing."
    )
    figure = Figure(
        name,
        title,
        caption,
        f"Learning curves of {len(methods)} methods in {len(present)} panels ({setting_words}).",
        chart(view, {"rows": [*lines, *marks]}),
        "wrap",
        len(present),
        60,
    )
    listed: list[tuple[Any, ...]] = []
    for curve in method_curves:
        for step, value in curve.accuracy.items():
            by_rule = (
                f"{rule} {steps[step]}" for rule, steps in curve.chosen.items() if steps.get(step)
            )
            listed.append((curve.shift, curve.method, curve.set, step, value, ", ".join(by_rule)))
    columns = ("shift", "method", "set", "step", "accuracy", "seeds that chose it")
    return figure, ReportTable(name, title, columns, listed, keys=4)


def _map(
    name: str,
    title: str,
    caption: str,
    rows: list[dict[str, Any]],
    tooltip: Sequence[Any],
    columns: tuple[str, str, str],
) -> tuple[Figure, ReportTable] | None:
    """A heat map of v by y and x, one panel an m, and the table of its numbers."""
    across, down, methods = (
        list(dict.fromkeys(row[side] for row in rows)) for side in ("x", "y", "m")
    )
    if not rows or max(len(across), len(down)) > MOST_NAMES:
        return None
    where = {
        "x": text(
            "x",
            title=columns[1],
            sort=across,
            axis={"labelAngle": -40 if len(across) > 3 else 0, "labelLimit": 70},
        ),
        "y": text("y", title=columns[0], sort=down, axis={"labelLimit": 90}),
        "tooltip": tips(("m", "method"), *tooltip),
    }
    scale = {"domain": [0, 1], "range": "ramp", "interpolate": "rgb"}
    layers = [
        layer("rect", {**where, "color": number("v", scale=scale, legend=None)}, cornerRadius=2)
    ]
    if "s" in rows[0]:
        layers.append(
            layer(
                "rect",
                where,
                where="datum.s",
                filled=False,
                stroke={"expr": "ink"},
                strokeWidth=2,
                cornerRadius=2,
            )
        )
    if len(across) <= _WIDE:
        shown = {**where, "text": number("v", format=".0%"), "color": on_ramp("datum.v > 0.6")}
        layers.append(layer("text", shown, fontSize=11 if len(across) <= 5 else 9))
    facet = text(
        "m", title=None, sort=methods, header={"labelAnchor": "start", "labelOrient": "top"}
    )
    panel_spec = {"layer": layers, "width": 170, "height": {"step": 24 if len(down) <= 12 else 16}}
    view = {"data": {"name": "rows"}, "facet": facet, "columns": 3, "spec": panel_spec}
    low = min(rows, key=lambda row: row["v"]) if columns[2] == "accuracy" else None
    lowest = (
        f" Lowest: {low['v']:.1%}, {low['m']}, {columns[0]} {low['y']}, {columns[1]} {low['x']}."
        if low
        else ""
    )
    description = (
        f"Heat maps of {columns[2]} by {columns[0]} and {columns[1]}, {len(methods)}"
        f" methods.{lowest}"
    )
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
    listed = [
        (row["m"], row["y"], row["x"], row["v"], *(row[key] for key in extra if key in row))
        for row in rows
    ]
    more_columns = tuple(name for key, name in extra.items() if key in rows[0])
    return figure, ReportTable(
        slug(name), title, ("method", *columns, *more_columns), listed, keys=3
    )


def _colours(methods: Sequence[str]) -> dict[str, str]:
    # The categories of the page have colours for light and dark; more methods than these take a
    # scheme that has enough.
    if len(methods) > 6:
        return {"scheme": "tableau20"}
    return {"range": "category" if len(methods) <= 4 else "ordinal"}


def _name(answers: MethodAnswers) -> str:
    return "-".join(
        filter(None, (answers.place.data, answers.place.size, answers.place.model, answers.shift))
    )
