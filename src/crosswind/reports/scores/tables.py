"""Tables of scores: of each place, of every number, of single seeds, selection rules and ranks.

What a table says is no more than its seeds carry. `place_tables` and `run_tables.run_table` are
what a person reads, `number_table` is one tidy table of every number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crosswind.evaluation.compare import DifferenceSummary, Ranks, mean_ranks
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
from crosswind.reports.tables import Cell, ReportTable, ScoreCell, picked, slug
from crosswind.training.selection import ORACLES

_WORST = METRICS["worst_group"]
_Layouts = set[tuple[int, int]]
"""The number of split seeds and of runs behind the cells of a table."""

# -- every number ----------------------------------------------------------------------------------


def overview(setting_results: PlaceResults) -> list[ReportTable]:
    """Two tables of one place in percent, methods by shifts, without notes: accuracy and worst
    group."""
    out = []
    for metric in (HEADLINE, _WORST):
        if setting_results.has(metric.name):
            table = _by_shift(setting_results, metric)
            rows = [
                [cell.in_percent() if isinstance(cell, ScoreCell) else cell for cell in row]
                for row in table.rows
            ]
            title = f"{metric.title} in % on {setting_results.place.set}, ± half of a 95% interval"
            out.append(replace(table, title=title, rows=rows, notes=()))
    return out


def number_table(arranged: Results, rules: Sequence[str] | None = None) -> ReportTable:
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
            setting_results.place,
            shift,
            method,
            entry,
            (
                setting_results.entries.get((shift, setting_results.reference))
                if method != setting_results.reference
                else None
            ),
        )
        for setting_results in arranged.places.values()
        if rules is None or setting_results.place.rule in rules
        for shift, method, entry in setting_results.grid()
        if entry is not None
    ]
    columns = tuple(_numbers(Place(*[""] * 6), "", "", Entry(), None))
    return ReportTable(
        "numbers",
        "Every number",
        columns,
        [tuple(row.values()) for row in rows],
        (interval_note(()),),
        keys=9,
    )


def _numbers(
    setting: Place, shift: str, method: str, entry: Entry, base: Entry | None
) -> dict[str, Cell]:
    means = {name: entry.summary(name) for name in (*METRICS, "train_shared")}
    main, worst, shared = (means.pop(name) for name in (HEADLINE.name, _WORST.name, "train_shared"))
    name, seeds, n_rows = _usual_worst(entry) if worst else (None, None, None)
    return {
        **_names(setting, shift, method, setting.set),
        "role": entry.role,
        "rule": setting.rule,
        "oracle": int(setting.rule in ORACLES),
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


def _names(setting: Place, shift: str, method: str, *extra_names: str) -> dict[str, Cell]:
    values = (setting.study, setting.data, shift, setting.size, setting.model, method, *extra_names)
    return dict(
        zip(
            ("study", "data", "shift", "size", "model", "method", "set", "rule", "estimator"),
            values,
            strict=False,
        )
    )


def estimate_table(arranged: Results, rules: Sequence[str] | None = None) -> ReportTable | None:
    """Every estimate of accuracy in one tidy table, a row a (study, data, shift, size, model,
    method, set, rule, estimator).

    Means over the `n` runs that have the estimate: `accuracy`, `estimate`, `error` (estimate -
    accuracy) with its interval, the absolute error, and `covered`, the share of runs whose interval
    holds the accuracy. None where nothing was estimated.
    """
    rows = [
        {
            **_names(
                setting_results.place,
                shift,
                method,
                setting_results.place.set,
                setting_results.place.rule,
                label,
            ),
            **_estimate_numbers(entry, label),
        }
        for setting_results in arranged.places.values()
        if rules is None or setting_results.place.rule in rules
        for shift, method, entry in setting_results.grid()
        for label in (entry.estimators if entry else ())
        if entry is not None
    ]
    return ReportTable.of("estimates", "Every estimate of accuracy", rows, keys=9) if rows else None


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


# -- one place -------------------------------------------------------------------------------------


def place_tables(
    setting_results: PlaceResults, verdicts: Verdicts | None = None
) -> dict[str, ReportTable]:
    """The tables of one place by name: a table a metric with a `slug` that some run has, and
    "difference" to the reference."""
    verdicts = verdicts_at(setting_results) if verdicts is None else verdicts
    tables: dict[str, ReportTable | None] = {
        HEADLINE.slug: _by_shift(setting_results, HEADLINE),
        "difference": _differences(setting_results, verdicts),
    }
    for metric in METRICS.values():
        if metric is not HEADLINE and metric.slug and setting_results.has(metric.name):
            tables[metric.slug] = (
                _worst_groups(setting_results)
                if metric is _WORST
                else _by_shift(setting_results, metric)
            )
    tables["estimates"] = _estimates(setting_results)
    return {name: table for name, table in tables.items() if table is not None}


def _by_shift(setting_results: PlaceResults, metric: Metric) -> ReportTable:
    notes = [metric.note, *(rho_notes(setting_results) if metric.name == "rho" else ())]
    if metric is HEADLINE:
        notes = [seeds_note(setting_results), *set_notes(setting_results)]
        if setting_results.reference not in setting_results.methods:
            notes.append(
                f"There is no table of differences: the reference {setting_results.reference} is"
                " not among the methods."
            )
    points, points_notes = points_tried(setting_results)
    layouts: _Layouts = set()
    rows = [
        [
            *([method, points[method]] if points else [method]),
            *(
                _score(layouts, setting_results.entries.get((shift, method)), metric)
                for shift in setting_results.shifts
            ),
        ]
        for method in setting_results.methods
    ]
    columns = ["method", *(["points"] if points else []), *setting_results.shifts]
    notes += [
        *rule_notes(setting_results.place, bool(points)),
        *points_notes,
        *entry_notes(setting_results),
        *doubt_notes(setting_results),
    ]
    return _table(
        metric.slug,
        metric.title,
        setting_results,
        columns,
        rows,
        layouts,
        notes,
        len(columns) - len(setting_results.shifts),
    )


def _differences(setting_results: PlaceResults, verdicts: Verdicts) -> ReportTable | None:
    if not verdicts:
        return None
    layouts: _Layouts = set()
    rows: list[list[Cell]] = []
    missing = []
    for method in setting_results.methods:
        if method == setting_results.reference:
            continue
        rows.append([method])
        for shift in setting_results.shifts:
            verdict, sides = (
                verdicts.get((shift, method)),
                [
                    setting_results.entries.get((shift, name))
                    for name in (method, setting_results.reference)
                ],
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
    if compared := [finding for finding in verdicts.values() if finding.difference.n > 1]:
        marked = f"{sum(finding.told for finding in compared)} of {len(compared)}"
        notes.append(
            f"* {star_words(verdicts, setting_results.reference)[1]} ({marked}). No mark does not"
            " mean no difference."
        )
    if any(finding.difference.sd == 0 for finding in verdicts.values()):
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
        *chance_notes(setting_results, HEADLINE.name),
        *oracle_notes(setting_results.place),
        *points_tried(setting_results)[1],
        *doubt_notes(setting_results),
    ]
    first = (
        f"{HEADLINE.title} minus that of {setting_results.reference} at the same {pair}, then the"
        " mean over all."
    )
    title = f"Difference to {setting_results.reference} in {HEADLINE.words}"
    level = next(iter(verdicts.values())).level
    return _table(
        "difference",
        title,
        setting_results,
        ("method", *setting_results.shifts),
        rows,
        layouts,
        notes,
        first=first,
        level=level,
    )


def _worst_groups(setting_results: PlaceResults) -> ReportTable:
    rows: list[list[Cell]] = []
    layouts: _Layouts = set()
    sizes = []
    for shift, method, entry in setting_results.grid():
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
    notes += [
        *chance_notes(setting_results, _WORST.name),
        *oracle_notes(setting_results.place),
        *doubt_notes(setting_results),
    ]
    columns = ("shift", "method", "worst group", "group", "lowest in", "rows")
    return _table(_WORST.slug, _WORST.title, setting_results, columns, rows, layouts, notes, 2)


def _estimates(setting_results: PlaceResults) -> ReportTable | None:
    rows: list[list[Cell]] = []
    layouts: _Layouts = set()
    for shift, method, entry in setting_results.grid():
        for label in entry.estimators if entry is not None else ():
            assert entry is not None
            estimate_numbers = _estimate_numbers(entry, label)
            accuracy, estimate, absolute = (
                estimate_numbers[name] for name in ("accuracy", "estimate", "absolute_error")
            )
            error = _mean(
                layouts, entry.summary(f"{ESTIMATE_ERROR}{label}"), HEADLINE, entry, signed=True
            )
            inside = (
                None
                if estimate_numbers["covered"] is None
                else (
                    f"{round(estimate_numbers['covered'] * estimate_numbers['n'])} of"
                    f" {estimate_numbers['n']}"
                )
            )
            rows.append([shift, method, label, accuracy, estimate, error, absolute, inside])
    notes = [
        (
            "Accuracy as it is, and as it was estimated without the labels of these rows. error:"
            " estimated minus true, run by run."
        ),
        "covered: the runs whose estimate came with an interval that holds the true accuracy.",
        *doubt_notes(setting_results),
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
        _table("estimates", "Estimated accuracy", setting_results, columns, rows, layouts, notes, 3)
        if rows
        else None
    )


def _usual_worst(entry: Entry) -> tuple[str, int, int]:
    """The group that was worst in most seeds (of equal ones the first by seed), in how many, and
    its rows."""
    scored_runs = [
        run_scores
        for run_scores in entry.metrics.values()
        if run_scores.get("worst_group") is not None
    ]
    name, seeds = Counter(
        str(run_scores["worst_group_name"]) for run_scores in scored_runs
    ).most_common(1)[0]
    rows = min(
        int(run_scores.get("worst_group_n") or 0)
        for run_scores in scored_runs
        if str(run_scores["worst_group_name"]) == name
    )
    return name, seeds, rows


def _mean(
    layouts: _Layouts,
    summary: DifferenceSummary | None,
    metric: Metric,
    *entries: Entry | None,
    signed: bool = False,
    star: bool = False,
) -> ScoreCell | None:
    """The mean with half of its interval where it has one, a star where a difference is told, and
    the mark of doubted runs."""
    if summary is None:
        return None
    layouts.add((summary.splits, summary.n))
    return ScoreCell(
        summary.mean,
        summary.half_width,
        summary.n,
        metric.unit,
        with_mark(" *" if star else "", *entries),
        signed,
    )


def _score(layouts: _Layouts, entry: Entry | None, metric: Metric = HEADLINE) -> ScoreCell | None:
    return _mean(layouts, entry.summary(metric.name), metric, entry) if entry else None


def _table(
    table_name: str,
    title: str,
    setting_results: PlaceResults,
    columns: Sequence[str],
    rows: Sequence[list[Cell]],
    layouts: _Layouts,
    notes: Iterable[str],
    keys: int = 1,
    first: str = "",
    level: float = LEVEL,
) -> ReportTable:
    setting = setting_results.place
    title_parts = (
        setting.study,
        setting.data,
        setting.size and f"size {setting.size}",
        setting.model,
        f"selection {setting.rule}",
    )
    title = f"{title} on {setting.set} ({', '.join(filter(None, title_parts))})"
    name = slug(
        table_name,
        setting.study,
        setting.data,
        setting.size,
        setting.model,
        setting.set,
        setting.rule,
    )
    every = filter(None, dict.fromkeys((first, interval_note(layouts, level), *notes)))
    return ReportTable(name, title, tuple(columns), rows, tuple(every), keys)


# -- of the page only ------------------------------------------------------------------------------


def seed_table(setting_results: PlaceResults) -> ReportTable:
    """The accuracy of every seed, a row a shift and method."""
    seeds = dict.fromkeys(
        seed for entry in setting_results.entries.values() for seed in entry.values(HEADLINE.name)
    )
    rows = [
        (
            shift,
            with_mark(method, entry),
            *map((entry.values(HEADLINE.name) if entry else {}).get, seeds),
        )
        for shift, method, entry in setting_results.grid()
    ]
    columns = ("shift", "method", *(f"seed {seed}" for seed in seeds))
    return ReportTable(
        f"seeds-{HEADLINE.slug}",
        f"{HEADLINE.title} of every seed",
        columns,
        rows,
        doubt_notes(setting_results),
        keys=2,
    )


def rule_table(rule_results: Sequence[PlaceResults]) -> ReportTable:
    """Accuracy by selection rule, a row a shift and method. `rule_results`: one place under several
    rules."""
    rows = [
        (
            shift,
            method,
            *(
                _score(set(), setting_results.entries.get((shift, method)))
                for setting_results in rule_results
            ),
        )
        for shift, method, _ in rule_results[0].grid()
    ]
    notes = [
        "The same training, stopped by the same rule; only which of its steps is scored differs."
    ]
    if any(setting_results.place.rule in ORACLES for setting_results in rule_results):
        notes.append(
            "A rule marked ORACLE reads labelled rows of the distribution that is tested on."
        )
    notes += dict.fromkeys(
        line for setting_results in rule_results for line in doubt_notes(setting_results)
    )
    columns = (
        "shift",
        "method",
        *(rule_title(setting_results.place.rule) for setting_results in rule_results),
    )
    return ReportTable("rules", f"{HEADLINE.title} by selection rule", columns, rows, notes, keys=2)


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


def ranking(shown_results: Sequence[PlaceResults]) -> list[Ranking]:
    """Rank the methods in every block by accuracy, for each set and rule of `shown_results`; see
    `rank_table`."""
    out = []
    for set_name, rule in dict.fromkeys(
        (setting_results.place.set, setting_results.place.rule) for setting_results in shown_results
    ):
        blocks: dict[tuple[Any, ...], dict[str, float]] = {}
        doubted: dict[str, dict[str, None]] = {}
        for setting_results in (
            setting_results
            for setting_results in shown_results
            if (setting_results.place.set, setting_results.place.rule) == (set_name, rule)
        ):
            for (shift, method), entry in setting_results.entries.items():
                if entry.doubts:
                    doubted.setdefault(method, {}).update(dict.fromkeys(entry.doubts))
                for seed, value in entry.values(HEADLINE.name).items():
                    blocks.setdefault((setting_results.place, shift, seed), {})[method] = value
        ranks = mean_ranks(list(blocks.values()))
        if len(ranks.mean) > 1:
            counts: dict[str, Counter[float]] = {name: Counter() for name in ranks.mean}
            for block in (block for block in blocks.values() if len(block) == len(counts)):
                for name, rank in mean_ranks([block]).mean.items():
                    counts[name][rank] += 1
            out.append(Ranking(set_name, rule, ranks, counts, doubted))
    return out


def rank_table(ranked: Ranking) -> ReportTable:
    """Mean rank of each method, best first, and in how many blocks it was first or last."""
    last = float(len(ranked.methods))
    rows = [
        {
            "method": f"{method} {MARK}" if method in ranked.doubted else method,
            "mean rank": float(ranked.ranks.mean[method]),
            "alone first": ranked.counts[method].get(1.0, 0),
            "alone last": ranked.counts[method].get(last, 0),
            "blocks": ranked.ranks.blocks,
        }
        for method in ranked.methods
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
    if ranked.ranks.left_out:
        notes.append(
            f"{ranked.ranks.left_out} blocks are left out: not every method has a score there."
        )
    notes += [
        f"{MARK} {method}, in some of its runs: {text}."
        for method, texts in ranked.doubted.items()
        for text in texts
    ]
    return ReportTable.of(
        "ranks", f"Ranks by {HEADLINE.words} on {ranked.set}, selection {ranked.rule}", rows, notes
    )
