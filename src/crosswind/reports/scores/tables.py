"""Tables of scores: of each place, of every number, of single seeds, selection rules and ranks.

What a table says is no more than its seeds carry. `place_tables` and `run_tables.run_table` are
what a person reads, `number_table` is one tidy table of every number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crosswind.evaluation.compare import Ranks, Summary, mean_ranks
from crosswind.evaluation.metrics import (
    ESTIMATE,
    ESTIMATE_COVERS,
    ESTIMATE_ERROR,
    HEADLINE,
    METRICS,
    Metric,
)
from crosswind.reports.claims.robustness import rho_notes
from crosswind.reports.claims.verdicts import Verdicts, star_words, verdicts_at
from crosswind.reports.scores.notes import (
    MARK,
    chance_level,
    chance_notes,
    doubt_notes,
    entry_notes,
    interval_note,
    oracle_notes,
    points_tried,
    rule_notes,
    seeds_note,
    set_notes,
    with_mark,
)
from crosswind.reports.scores.results import LEVEL, Entry, Place, PlaceResults, Results, rule_title
from crosswind.reports.tables import Cell, Score, Table, picked, slug
from crosswind.training.selection import ORACLES

_WORST = METRICS["worst_group"]
_Layouts = set[tuple[int, int]]
"""The number of split seeds and of runs behind the cells of a table."""

# -- every number
# --------------------------------------------------------------------------------------------------


def overview(at: PlaceResults) -> list[Table]:
    """Two tables of one place in percent, methods by shifts, without notes: accuracy and worst
    group."""
    out = []
    for metric in (HEADLINE, _WORST):
        if at.has(metric.name):
            table = _by_shift(at, metric)
            rows = [
                [cell.in_percent() if isinstance(cell, Score) else cell for cell in row]
                for row in table.rows
            ]
            title = f"{metric.title} in % on {at.place.set}, ± half of a 95% interval"
            out.append(replace(table, title=title, rows=rows, notes=()))
    return out


def number_table(found: Results, rules: Sequence[str] | None = None) -> Table:
    """Every number in one tidy table: a row a (study, data, shift, size, model, method, set, rule),
    validation sets included.

    mean, sd, low, high are of the accuracy over `n` runs, a seed or a pair of split seed and seed
    each, of `splits` split seeds; diff is paired with the reference; the other scores are means
    over runs. `rows` is the size of the set, `ties` the largest number of equally good steps of any
    run, `doubted` the number of runs that told their reader to doubt them and `doubts` what they
    said, `train_shared` the share of the training rows that two seeds are expected to have in
    common, `chance` the accuracy that guessing reaches.
    """
    rows = [
        _numbers(
            at.place,
            shift,
            method,
            entry,
            at.entries.get((shift, at.reference)) if method != at.reference else None,
        )
        for at in found.places.values()
        if rules is None or at.place.rule in rules
        for shift, method, entry in at.grid()
        if entry is not None
    ]
    columns = tuple(_numbers(Place(*[""] * 6), "", "", Entry(), None))
    return Table(
        "numbers",
        "Every number",
        columns,
        [tuple(row.values()) for row in rows],
        (interval_note(()),),
        keys=9,
    )


def _numbers(
    place: Place, shift: str, method: str, entry: Entry, base: Entry | None
) -> dict[str, Cell]:
    means = {name: entry.summary(name) for name in (*METRICS, "train_shared")}
    main, worst, shared = (means.pop(name) for name in (HEADLINE.name, _WORST.name, "train_shared"))
    name, seeds, n_rows = _usual_worst(entry) if worst else (None, None, None)
    return {
        **_names(place, shift, method, place.set),
        "role": entry.role,
        "rule": place.rule,
        "oracle": int(place.rule in ORACLES),
        "points": entry.tried,
        "n": len(entry.metrics),
        "diverged": len(entry.diverged),
        "rows": entry.largest("n"),
        **picked(main, mean="mean", sd="sd", low="low", high="high"),
        **picked(
            entry.difference(base, HEADLINE.name),
            diff="mean",
            diff_low="low",
            diff_high="high",
            diff_n="n",
            diff_missing="missing",
        ),
        **picked(worst, worst_group="mean", worst_group_low="low", worst_group_high="high"),
        "worst_group_name": name,
        "worst_group_seeds": seeds,
        "worst_group_rows": n_rows,
        **{name: summary.mean if summary else None for name, summary in means.items()},
        "ties": entry.largest("ties"),
        "doubted": entry.doubted,
        "doubts": " ".join(f"{text}." for text in entry.doubts) or None,
        "splits": main.splits if main else None,
        "train_shared": shared.mean if shared else None,
        "chance": chance_level(entry, HEADLINE.name) if main else None,
    }


def _names(place: Place, shift: str, method: str, *more: str) -> dict[str, Cell]:
    values = (place.study, place.data, shift, place.size, place.model, method, *more)
    return dict(
        zip(
            ("study", "data", "shift", "size", "model", "method", "set", "rule", "estimator"),
            values,
            strict=False,
        )
    )


def estimate_table(found: Results, rules: Sequence[str] | None = None) -> Table | None:
    """Every estimate of accuracy in one tidy table, a row a (study, data, shift, size, model,
    method, set, rule, estimator).

    Means over the `n` runs that have the estimate: `accuracy`, `estimate`, `error` (estimate -
    accuracy) with its interval, the absolute error, and `covered`, the share of runs whose interval
    holds the accuracy. None where nothing was estimated.
    """
    rows = [
        {
            **_names(at.place, shift, method, at.place.set, at.place.rule, label),
            **_estimate_numbers(entry, label),
        }
        for at in found.places.values()
        if rules is None or at.place.rule in rules
        for shift, method, entry in at.grid()
        for label in (entry.estimators if entry else ())
        if entry is not None
    ]
    return Table.of("estimates", "Every estimate of accuracy", rows, keys=9) if rows else None


def _estimate_numbers(entry: Entry, label: str) -> dict[str, Any]:
    accuracy, errors = entry.values(HEADLINE.name), entry.values(f"{ESTIMATE_ERROR}{label}")
    return {
        "n": len(errors),
        "accuracy": sum(accuracy[seed] for seed in errors) / len(errors),
        **picked(entry.summary(f"{ESTIMATE}{label}"), estimate="mean"),
        **picked(
            entry.summary(f"{ESTIMATE_ERROR}{label}"),
            error="mean",
            error_low="low",
            error_high="high",
        ),
        "absolute_error": sum(map(abs, errors.values())) / len(errors),
        **picked(entry.summary(f"{ESTIMATE_COVERS}{label}"), covered="mean"),
    }


# -- one place
# --------------------------------------------------------------------------------------------------


def place_tables(at: PlaceResults, verdicts: Verdicts | None = None) -> dict[str, Table]:
    """The tables of one place by name: a table a metric with a `slug` that some run has, and
    "difference" to the reference."""
    verdicts = verdicts_at(at) if verdicts is None else verdicts
    tables: dict[str, Table | None] = {
        HEADLINE.slug: _by_shift(at, HEADLINE),
        "difference": _differences(at, verdicts),
    }
    for metric in METRICS.values():
        if metric is not HEADLINE and metric.slug and at.has(metric.name):
            tables[metric.slug] = _worst_groups(at) if metric is _WORST else _by_shift(at, metric)
    tables["estimates"] = _estimates(at)
    return {name: table for name, table in tables.items() if table is not None}


def _by_shift(at: PlaceResults, metric: Metric) -> Table:
    notes = [metric.note, *(rho_notes(at) if metric.name == "rho" else ())]
    if metric is HEADLINE:
        notes = [seeds_note(at), *set_notes(at)]
        if at.reference not in at.methods:
            notes.append(
                f"There is no table of differences: the reference {at.reference} is not among the"
                " methods."
            )
    points, points_notes = points_tried(at)
    layouts: _Layouts = set()
    rows = [
        [
            *([method, points[method]] if points else [method]),
            *(_score(layouts, at.entries.get((shift, method)), metric) for shift in at.shifts),
        ]
        for method in at.methods
    ]
    columns = ["method", *(["points"] if points else []), *at.shifts]
    notes += [
        *rule_notes(at.place, bool(points)),
        *points_notes,
        *entry_notes(at),
        *doubt_notes(at),
    ]
    return _table(
        metric.slug, metric.title, at, columns, rows, layouts, notes, len(columns) - len(at.shifts)
    )


def _differences(at: PlaceResults, verdicts: Verdicts) -> Table | None:
    if not verdicts:
        return None
    layouts: _Layouts = set()
    rows: list[list[Cell]] = []
    missing = []
    for method in at.methods:
        if method == at.reference:
            continue
        rows.append([method])
        for shift in at.shifts:
            verdict, sides = (
                verdicts.get((shift, method)),
                [at.entries.get((shift, name)) for name in (method, at.reference)],
            )
            difference = verdict.difference if verdict else None
            rows[-1].append(
                _mean(
                    layouts,
                    difference,
                    HEADLINE,
                    *sides,
                    signed=True,
                    star=verdict is not None and verdict.told,
                )
            )
            missing += (
                [f"{method} under {shift} {difference.missing}"]
                if difference and difference.missing
                else []
            )
    crossed = any(splits > 1 for splits, _ in layouts)
    pair = "seed and split seed" if crossed else "seed"
    notes = []
    if compared := [item for item in verdicts.values() if item.difference.n > 1]:
        marked = f"{sum(item.told for item in compared)} of {len(compared)}"
        notes.append(
            f"* {star_words(verdicts, at.reference)[1]} ({marked}). No mark does not mean no"
            " difference."
        )
    if any(item.difference.sd == 0 for item in verdicts.values()):
        notes.append(
            "± 0.000 means that every seed differs by the same amount; without a spread there is"
            " nothing to judge by, and no mark."
        )
    notes += (
        [f"{'Runs' if crossed else 'Seeds'} without a partner, left out: {', '.join(missing)}."]
        if missing
        else []
    )
    notes += [
        *chance_notes(at, HEADLINE.name),
        *oracle_notes(at.place),
        *points_tried(at)[1],
        *doubt_notes(at),
    ]
    first = (
        f"{HEADLINE.title} minus that of {at.reference} at the same {pair}, then the mean over all."
    )
    title = f"Difference to {at.reference} in {HEADLINE.words}"
    level = next(iter(verdicts.values())).level
    return _table(
        "difference",
        title,
        at,
        ("method", *at.shifts),
        rows,
        layouts,
        notes,
        first=first,
        level=level,
    )


def _worst_groups(at: PlaceResults) -> Table:
    rows: list[list[Cell]] = []
    layouts: _Layouts = set()
    sizes = []
    for shift, method, entry in at.grid():
        summary = entry.summary(_WORST.name) if entry else None
        if entry is None or summary is None:
            rows.append([shift, method, None, None, None, None])
            continue
        name, seeds, n_rows = _usual_worst(entry)
        sizes.append(n_rows)
        rows.append(
            [
                shift,
                method,
                _mean(layouts, summary, _WORST, entry),
                name,
                f"{seeds} of {summary.n}",
                n_rows,
            ]
        )
    notes = [
        "Mean over seeds of the lowest accuracy of any group; `group` is the one that was lowest in"
        " most seeds, `rows` its size."
    ]
    if sizes and min(sizes) < 30:
        moved = f", so that one row moves it by {1 / min(sizes):.2f}" if min(sizes) else ""
        notes.append(
            "The lowest of many small groups is low by chance alone: here a group has as few as"
            f" {min(sizes)} rows{moved}."
        )
    notes += [*chance_notes(at, _WORST.name), *oracle_notes(at.place), *doubt_notes(at)]
    columns = ("shift", "method", "worst group", "group", "lowest in", "rows")
    return _table(_WORST.slug, _WORST.title, at, columns, rows, layouts, notes, 2)


def _estimates(at: PlaceResults) -> Table | None:
    rows: list[list[Cell]] = []
    layouts: _Layouts = set()
    for shift, method, entry in at.grid():
        for label in entry.estimators if entry is not None else ():
            assert entry is not None
            told = _estimate_numbers(entry, label)
            accuracy, estimate, absolute = (
                told[name] for name in ("accuracy", "estimate", "absolute_error")
            )
            error = _mean(
                layouts, entry.summary(f"{ESTIMATE_ERROR}{label}"), HEADLINE, entry, signed=True
            )
            inside = (
                None
                if told["covered"] is None
                else f"{round(told['covered'] * told['n'])} of {told['n']}"
            )
            rows.append([shift, method, label, accuracy, estimate, error, absolute, inside])
    notes = [
        (
            "Accuracy as it is, and as it was estimated without the labels of these rows. error:"
            " estimated minus true, run by run."
        ),
        "covered: the runs whose estimate came with an interval that holds the true accuracy.",
        *doubt_notes(at),
    ]
    columns = (
        "shift",
        "method",
        "estimator",
        "accuracy",
        "estimated",
        "error",
        "|error|",
        "covered",
    )
    return (
        _table("estimates", "Estimated accuracy", at, columns, rows, layouts, notes, 3)
        if rows
        else None
    )


def _usual_worst(entry: Entry) -> tuple[str, int, int]:
    """The group that was worst in most seeds (of equal ones the first by seed), in how many, and
    its rows."""
    items = [item for item in entry.metrics.values() if item.get("worst_group") is not None]
    name, seeds = Counter(str(item["worst_group_name"]) for item in items).most_common(1)[0]
    rows = min(
        int(item.get("worst_group_n") or 0)
        for item in items
        if str(item["worst_group_name"]) == name
    )
    return name, seeds, rows


def _mean(
    layouts: _Layouts,
    summary: Summary | None,
    metric: Metric,
    *entries: Entry | None,
    signed: bool = False,
    star: bool = False,
) -> Score | None:
    """The mean with half of its interval where it has one, a star where a difference is told, and
    the mark of doubted runs."""
    if summary is None:
        return None
    layouts.add((summary.splits, summary.n))
    return Score(
        summary.mean,
        summary.half_width,
        summary.n,
        metric.unit,
        with_mark(" *" if star else "", *entries),
        signed,
    )


def _score(layouts: _Layouts, entry: Entry | None, metric: Metric = HEADLINE) -> Score | None:
    return _mean(layouts, entry.summary(metric.name), metric, entry) if entry else None


def _table(
    what: str,
    title: str,
    at: PlaceResults,
    columns: Sequence[str],
    rows: Sequence[list[Cell]],
    layouts: _Layouts,
    notes: Iterable[str],
    keys: int = 1,
    first: str = "",
    level: float = LEVEL,
) -> Table:
    place = at.place
    parts = (
        place.study,
        place.data,
        place.size and f"size {place.size}",
        place.model,
        f"selection {place.rule}",
    )
    title = f"{title} on {place.set} ({', '.join(filter(None, parts))})"
    name = slug(what, place.study, place.data, place.size, place.model, place.set, place.rule)
    every = filter(None, dict.fromkeys((first, interval_note(layouts, level), *notes)))
    return Table(name, title, tuple(columns), rows, tuple(every), keys)


# -- of the page only
# --------------------------------------------------------------------------------------------------


def seed_table(at: PlaceResults) -> Table:
    """The accuracy of every seed, a row a shift and method."""
    seeds = dict.fromkeys(
        seed for entry in at.entries.values() for seed in entry.values(HEADLINE.name)
    )
    rows = [
        (
            shift,
            with_mark(method, entry),
            *map((entry.values(HEADLINE.name) if entry else {}).get, seeds),
        )
        for shift, method, entry in at.grid()
    ]
    columns = ("shift", "method", *(f"seed {seed}" for seed in seeds))
    return Table(
        f"seeds-{HEADLINE.slug}",
        f"{HEADLINE.title} of every seed",
        columns,
        rows,
        doubt_notes(at),
        keys=2,
    )


def rule_table(places: Sequence[PlaceResults]) -> Table:
    """Accuracy by selection rule, a row a shift and method. `places`: one place under several
    rules."""
    rows = [
        (shift, method, *(_score(set(), at.entries.get((shift, method))) for at in places))
        for shift, method, _ in places[0].grid()
    ]
    notes = [
        "The same training, stopped by the same rule; only which of its steps is scored differs."
    ]
    if any(at.place.rule in ORACLES for at in places):
        notes.append(
            "A rule marked ORACLE reads labelled rows of the distribution that is tested on."
        )
    notes += dict.fromkeys(line for at in places for line in doubt_notes(at))
    columns = ("shift", "method", *(rule_title(at.place.rule) for at in places))
    return Table("rules", f"{HEADLINE.title} by selection rule", columns, rows, notes, keys=2)


@dataclass(frozen=True)
class Ranking:
    """Ranks of methods on the sets called `set`, steps chosen by `rule`: means, and the number of
    blocks by method and rank.

    `doubted`: what runs told their reader to doubt, by method.
    """

    set: str
    rule: str
    ranks: Ranks
    counts: Mapping[str, Mapping[float, int]]
    doubted: Mapping[str, Iterable[str]]

    @property
    def methods(self) -> list[str]:
        """The methods, best first."""
        return sorted(self.ranks.mean, key=lambda name: self.ranks.mean[name])


def ranking(places: Sequence[PlaceResults]) -> list[Ranking]:
    """Rank the methods in every block by accuracy, for each set and rule of `places`; see
    `rank_table`."""
    out = []
    for set_name, rule in dict.fromkeys((at.place.set, at.place.rule) for at in places):
        blocks: dict[tuple[Any, ...], dict[str, float]] = {}
        doubted: dict[str, dict[str, None]] = {}
        for at in (at for at in places if (at.place.set, at.place.rule) == (set_name, rule)):
            for (shift, method), entry in at.entries.items():
                if entry.doubts:
                    doubted.setdefault(method, {}).update(dict.fromkeys(entry.doubts))
                for seed, value in entry.values(HEADLINE.name).items():
                    blocks.setdefault((at.place, shift, seed), {})[method] = value
        ranks = mean_ranks(list(blocks.values()))
        if len(ranks.mean) > 1:
            counts: dict[str, Counter[float]] = {name: Counter() for name in ranks.mean}
            for block in (block for block in blocks.values() if len(block) == len(counts)):
                for name, rank in mean_ranks([block]).mean.items():
                    counts[name][rank] += 1
            out.append(Ranking(set_name, rule, ranks, counts, doubted))
    return out


def rank_table(item: Ranking) -> Table:
    """Mean rank of each method, best first, and in how many blocks it was first or last."""
    last = float(len(item.methods))
    rows = [
        {
            "method": f"{method} {MARK}" if method in item.doubted else method,
            "mean rank": float(item.ranks.mean[method]),
            "alone first": item.counts[method].get(1.0, 0),
            "alone last": item.counts[method].get(last, 0),
            "blocks": item.ranks.blocks,
        }
        for method in item.methods
    ]
    notes = [
        (
            "1 is the best rank; equal accuracies share the mean of their ranks, so that first and"
            " last count undivided ranks only."
        ),
        (
            "A block is one data set, size, model, shift, split seed and seed. Blocks share test"
            " rows and training data, so they are not independent, and no interval is given. A rank"
            " says nothing of how large a difference is."
        ),
    ]
    if item.ranks.left_out:
        notes.append(
            f"{item.ranks.left_out} blocks are left out: not every method has a score there."
        )
    notes += [
        f"{MARK} {method}, in some of its runs: {text}."
        for method, texts in item.doubted.items()
        for text in texts
    ]
    return Table.of(
        "ranks", f"Ranks by {HEADLINE.words} on {item.set}, selection {item.rule}", rows, notes
    )
