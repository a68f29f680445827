"""The figures of a study, one function each: the numbers that go into a chart, and the words that stand beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crosswind.reports import charts
from crosswind.reports.costs import PARTS, Cost
from crosswind.reports.drawing import Figure, filled
from crosswind.reports.gather import SetDraw, ShiftDraw
from crosswind.reports.notes import doubt_notes, with_mark
from crosswind.reports.overviews import Ranking
from crosswind.reports.results import LEVEL, Place, Results
from crosswind.training.selection import ORACLES

__all__ = ["change_map", "draw_map", "rank_dots", "rule_dots", "seed_strips", "time_bars", "worst_map"]

UNKNOWN = "not recorded"


def draw_map(draw: ShiftDraw, shown: SetDraw, most: float, title: str = "") -> Figure:
    """Rows of label x attribute that the shift planned by its weights and that the run got, one row of panels an attribute.

    `shown` is the set of the draw that is shown, under `title` (without one it is the training set, under the shift's name); `most`
    is the number of rows at the end of the colour scale, shared by the shifts that stand side by side.
    """
    shapes, datasets = [], {}
    for number, (attribute, cells) in enumerate(shown.tables.items()):
        labels, values = (list(dict.fromkeys(getattr(cell, name) for cell in cells)) for name in ("label", "value"))
        if draw.test is not None and attribute in draw.test.tables:
            # The test set reaches cells that training does not: an empty column is what an unseen value looks like.
            held = draw.test.tables[attribute]
            labels = list(dict.fromkeys([*(cell.label for cell in held), *labels]))
            values = list(dict.fromkeys([*(cell.value for cell in held), *values]))
        by_pair = {(cell.label, cell.value): (cell.planned, cell.realised) for cell in cells}
        counts = {(label, value): by_pair.get((label, value), (0.0, 0)) for label in labels for value in values}
        datasets[f"d{number}"] = [{"l": pair[0], "v": pair[1], "p": planned, "r": real} for pair, (planned, real) in counts.items()]
        shapes.append((attribute, tuple(labels), tuple(values)))
    chart = charts.panels(draw.label, tuple(shapes), _scale_of(most))
    where = ", ".join(part for part in (draw.data, draw.size and f"size {draw.size}") if part)
    names = ", ".join(shown.tables)
    told = f"{shown.rows} rows"
    if shown.supplement_rows:
        told += f", {shown.supplement_rows} of them from a supplement"
    if shown.short_cells:
        told += f"; {shown.short_cells} cells had fewer rows than asked"
    kind = title or "training rows"
    return Figure(
        f"{'test' if title else 'shift'}-{draw.data}-{draw.size}-{title or draw.shift}",
        title or draw.shift,
        f"{told}. Seed {draw.seed}.",
        f"Heat maps of {kind} by {draw.label} and {names}, {draw.shift if not title else 'every shift'} ({where}): planned by the "
        f"weights beside realised. {told}.",
        filled(chart, datasets, most=most),
        "step",
    )


def change_map(found: Results, place: Place, reference: str) -> Figure | None:
    """Method x shift: change of accuracy against the reference, paired by seed; a frame where the interval excludes 0."""
    shifts = found.shifts(place)
    methods = [method for method in found.methods(place, reference) if method != reference]
    data: list[dict[str, Any]] = []
    for method in methods:
        for shift in shifts:
            entry, base = found.at(place).get((shift, method)), found.at(place).get((shift, reference))
            difference = entry.difference(base, "accuracy", LEVEL) if entry and base else None
            if entry is None or base is None or difference is None:
                continue
            own, other = entry.summary("accuracy"), base.summary("accuracy")
            wide = "one run, no interval"
            if difference.low is not None and difference.high is not None:
                wide = f"{difference.low:+.3f} to {difference.high:+.3f}"
            data.append(
                {
                    "m": method,
                    "s": shift,
                    "d": _six(difference.mean),
                    "i": wide,
                    "n": difference.n,
                    "a": _six(own.mean) if own else None,
                    "b": _six(other.mean) if other else None,
                    "x": difference.excludes_zero,
                    "t": with_mark(f"{difference.mean:+.3f}" + (" *" if difference.excludes_zero else ""), entry),
                }
            )
    if not data:
        return None
    most = max(max(abs(item["d"]) for item in data), 0.05)
    shown = (("d", f"change against {reference}", "+.3f"), ("i", "95% interval", ""), ("n", "runs", ""))
    tips = (*shown, ("a", "accuracy", ".3f"), ("b", f"accuracy of {reference}", ".3f"))
    chart = filled(charts.grid(tuple(shifts), tuple(methods), tips, True), {"rows": data}, most=most)
    return Figure(
        _named("change", place),
        f"Change of accuracy against {reference} on {place.set}",
        f"Blue is above {reference}, orange below, paired by seed. A framed cell (*) has a 95% interval that excludes 0, each "
        "judged for itself; a pale cell has an interval that holds 0, or none: the seeds do not settle the direction."
        + _doubts(found, place),
        f"Heat map of {len(methods)} methods and {len(shifts)} shifts: mean change of accuracy against {reference}, between "
        f"{min(item['d'] for item in data):+.3f} and {max(item['d'] for item in data):+.3f}; "
        f"{sum(item['x'] for item in data)} of {len(data)} intervals exclude 0.",
        chart,
        "grid",
        len(shifts),
        _room(methods),
    )


def worst_map(found: Results, place: Place, reference: str) -> Figure | None:
    """Method x shift: mean over seeds of the lowest accuracy of any group."""
    shifts, methods = found.shifts(place), found.methods(place, reference)
    data: list[dict[str, Any]] = []
    for method in methods:
        for shift in shifts:
            entry = found.at(place).get((shift, method))
            summary = entry.summary("worst_group", LEVEL) if entry else None
            if entry is None or summary is None:
                continue
            names = sorted(
                {str(item["worst_group_name"]) for item in entry.metrics.values() if item.get("worst_group") is not None}
            )
            wide = "one run, no interval" if summary.low is None else f"{summary.low:.3f} to {summary.high:.3f}"
            shown = "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            data.append(
                {
                    "m": method,
                    "s": shift,
                    "d": _six(summary.mean),
                    "i": wide,
                    "n": summary.n,
                    "g": shown,
                    "t": with_mark(f"{summary.mean:.3f}", entry),
                }
            )
    if not data:
        return None
    tips = (("d", "worst group", ".3f"), ("i", "95% interval", ""), ("n", "runs", ""), ("g", "lowest in some run", ""))
    chart = filled(charts.grid(tuple(shifts), tuple(methods), tips, False), {"rows": data}, most=1.0)
    return Figure(
        _named("worst-group", place),
        f"Worst group accuracy on {place.set}",
        "Mean over runs of the lowest accuracy of any group; which group that is may differ between seeds. Of small groups the "
        "lowest is low by chance alone: the table gives their rows." + _doubts(found, place),
        f"Heat map of {len(methods)} methods and {len(shifts)} shifts: worst group accuracy, between "
        f"{min(item['d'] for item in data):.3f} and {max(item['d'] for item in data):.3f}.",
        chart,
        "grid",
        len(shifts),
        _room(methods),
    )


def seed_strips(found: Results, place: Place, reference: str) -> Figure | None:
    """Accuracy of every seed as a point, the mean as a tick, one panel a shift; the line is the mean of the reference."""
    shifts, methods = found.shifts(place), found.methods(place, reference)
    data: list[dict[str, Any]] = []
    for shift in shifts:
        for method in methods:
            entry = found.at(place).get((shift, method))
            values = entry.values("accuracy") if entry else {}
            data += [{"s": shift, "m": method, "k": str(seed), "a": _six(value)} for seed, value in values.items()]
    if not data:
        return None
    chart = filled(charts.strips(tuple(shifts), tuple(methods), f"accuracy on {place.set}"), {"rows": data}, reference=reference)
    return Figure(
        _named("seeds", place),
        f"Accuracy of every seed on {place.set}",
        f"A point is one seed, the tick the mean over seeds, the dashed line the mean of {reference}." + _doubts(found, place),
        f"Strip plots of accuracy, {len(methods)} methods under {len(shifts)} shifts, {len(data)} runs, between "
        f"{min(item['a'] for item in data):.3f} and {max(item['a'] for item in data):.3f}.",
        chart,
        "wrap",
        len(shifts),
        _room(methods),
    )


def _doubts(found: Results, place: Place) -> str:
    """The sentences that runs told of themselves, as the end of a caption."""
    return "".join(f" {note}" for note in doubt_notes(found, place))


def rule_dots(found: Results, places: Sequence[Place], reference: str) -> Figure | None:
    """Mean accuracy by selection rule, one panel a shift. `places` are one place under several rules."""
    if len(places) < 2:
        return None
    place = places[0]
    shifts, methods = found.shifts(place), found.methods(place, reference)
    names = [f"{other.rule}{' (ORACLE)' if other.rule in ORACLES else ''}" for other in places]
    data: list[dict[str, Any]] = []
    for other, name in zip(places, names, strict=True):
        for (shift, method), entry in found.at(other).items():
            summary = entry.summary("accuracy", LEVEL)
            if summary is not None:
                wide = "one run, no interval" if summary.low is None else f"{summary.low:.3f} to {summary.high:.3f}"
                data.append({"s": shift, "m": method, "u": name, "a": _six(summary.mean), "i": wide, "n": summary.n})
    if not data:
        return None
    chart = charts.rule_points(tuple(shifts), tuple(methods), tuple(names), f"accuracy on {place.set}")
    return Figure(
        _named("rules", place._replace(rule="")),
        f"Selection rules side by side on {place.set}",
        "Mean accuracy over seeds, by the rule that chooses the step. The intervals are in the table and on hover.",
        f"Dot plots of mean accuracy by selection rule ({', '.join(names)}), {len(methods)} methods under {len(shifts)} shifts.",
        filled(chart, {"rows": data}),
        "wrap",
        len(shifts),
        _room(methods),
    )


def rank_dots(item: Ranking) -> Figure:
    """How often each method had which rank, and its mean rank."""
    methods = [name for name, _ in sorted(item.ranks.mean.items(), key=lambda pair: pair[1])]
    spread = [{"m": name, "k": rank, "c": count} for name in methods for rank, count in sorted(item.counts[name].items())]
    means = [{"m": name, "k": _six(float(item.ranks.mean[name]))} for name in methods]
    chart = charts.rank_circles(tuple(methods))
    return Figure(
        f"ranks-{item.set}-{item.rule}",
        f"Ranks by accuracy on {item.set}, selection {item.rule}",
        "The area of a circle is the number of blocks with that rank, the tick the mean rank. Blocks are not independent.",
        f"Mean ranks over {item.ranks.blocks} blocks: "
        + ", ".join(f"{name} {item.ranks.mean[name]:.2f}" for name in methods)
        + ".",
        filled(chart, {"spread": spread, "means": means}),
        "bars",
        names=_room(methods),
    )


def time_bars(items: Sequence[Cost]) -> Figure | None:
    """Mean seconds of a run by method, divided by what they went on."""
    if not items:
        return None
    several = len({(item.data, item.model) for item in items}) > 1
    data: list[dict[str, Any]] = []
    order = [f"{item.method} ({item.data}, {item.model})" if several else item.method for item in items]
    for name, item in zip(order, items, strict=True):
        known = {PARTS[part]: share for part, share in item.shares.items() if share is not None}
        if not item.complete:
            known[UNKNOWN] = max(0.0, 1.0 - sum(known.values()))
        whole = {"l": _six(item.least), "h": _six(item.most), "n": item.runs}
        for place, word in enumerate((*PARTS.values(), UNKNOWN)):
            if known.get(word):
                part = {"m": name, "p": word, "o": place, "a": _six(known[word] * item.mean), "s": _six(known[word])}
                data.append({**part, **whole})
    words = [word for word in (*PARTS.values(), UNKNOWN) if any(item["p"] == word for item in data)]
    return Figure(
        "time",
        "What the seconds of a run went on",
        "Means over the runs that are done; the quickest and the slowest are in the table.",
        "Stacked bars of mean seconds a run, by what they went on: "
        + ", ".join(f"{name} {item.mean:.1f}" for name, item in list(zip(order, items, strict=True))[:12])
        + ".",
        filled(charts.stacks(tuple(order), (*PARTS.values(), UNKNOWN), tuple(words)), {"rows": data}),
        "bars",
        names=_room(order),
    )


# -- parts ---


def _room(names: Sequence[str]) -> int:
    # About seven pixels a letter, cut where the axis cuts its labels.
    return 22 + min(150, 7 * max((len(name) for name in names), default=0))


def _scale_of(most: float) -> str:
    # How many digits a cell has room for.
    return "large" if most >= 1000 else "medium" if most >= 100 else "small"


def _six(value: float) -> float:
    return round(value, 6)


def _named(what: str, place: Place) -> str:
    return "-".join(part for part in (what, place.study, place.data, place.size, place.model, place.set, place.rule) if part)
