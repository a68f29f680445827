"""Tables of scores: of each place, of every number, of single seeds, selection rules and ranks.

What a table says is no more than its seeds carry. `place_tables` and `run_tables.run_table` are
what a person reads, `number_table` is one tidy table of every number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

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
from crosswind.reports.claims.verdicts import Finding, Verdicts, star_words, verdicts_at
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
_Key = TypeVar("_Key")
_Layouts = set[tuple[int, int]]
"""The number of split seeds and of runs behind the cells of a table."""


class _Notes(NamedTuple):
    """Sentences below a table. `opening` stands before the one on the intervals, which are of
    confidence `level`."""

    others: Iterable[str]
    opening: str = ""
    level: float = LEVEL


# -- every number ----------------------------------------------------------------------------------


def overview(setting_results: PlaceResults, where: str = "") -> list[ReportTable]:
    """Two tables of one place in percent, methods by shifts, without notes: accuracy and worst
    group. `where`: the words that tell the place from the others of its study."""
    of_place = f" ({where})" if where else ""
    out: list[ReportTable] = []
    for metric in (HEADLINE, _WORST):
        if setting_results.has(metric.name):
            table = _by_shift(setting_results, metric)
            rows = [list(map(_in_percent, row)) for row in table.rows]
            set_name = setting_results.place.set
            title = f"{metric.title} in % on {set_name}{of_place}, ± half of a 95% interval"
            out.append(replace(table, title=title, rows=rows, notes=()))
    return out


def _in_percent(cell: Cell) -> Cell:
    return cell.in_percent() if isinstance(cell, ScoreCell) else cell


def number_table(arranged: Results, rules: Sequence[str] | None = None) -> ReportTable:
    """Every number in one tidy table: a row a (study, data, shift, size, model, method, set, rule),
    validation sets included.

    mean, sd, low, high are of the accuracy over `n` runs, a seed or a pair of split seed and seed
    each, of `splits` split seeds. Diff is paired with the reference. The other scores are means
    over runs. `rows` is the size of the set, `ties` the largest number of equally good steps of any
    run. `doubted` is the number of runs that told their reader to doubt them and `doubts` what they
    said. `train_shared` is the share of the training rows that two seeds are expected to have in
    common, `chance` the accuracy that guessing reaches.
    """
    rows: list[tuple[Cell, ...]] = []
    for setting_results, shift, method, entry in _entries(arranged, rules):
        base = None
        if method != setting_results.reference:
            base = setting_results.entries.get((shift, setting_results.reference))
        numbers = _numbers(setting_results.place, shift, method, entry, base)
        rows.append(tuple(numbers.values()))
    columns = tuple(_numbers(Place(*[""] * 6), "", "", Entry(), None))
    return ReportTable("numbers", "Every number", columns, rows, (interval_note(()),), keys=9)


def _entries(
    arranged: Results, rules: Sequence[str] | None
) -> Iterator[tuple[PlaceResults, str, str, Entry]]:
    """Every entry by some rules (None: by all), with its place, shift and method."""
    for setting_results in arranged.places.values():
        if rules is None or setting_results.place.rule in rules:
            for shift, method, entry in setting_results.grid():
                if entry is not None:
                    yield setting_results, shift, method, entry


def _numbers(
    setting: Place, shift: str, method: str, entry: Entry, base: Entry | None
) -> dict[str, Cell]:
    means = {name: entry.summary(name) for name in (*METRICS, "train_shared")}
    main, worst, shared = (means.pop(name) for name in (HEADLINE.name, _WORST.name, "train_shared"))
    name, seeds, n_rows = _usual_worst(entry) if worst else (None, None, None)
    difference = entry.difference(base, HEADLINE.name)
    other_means = {name: summary.mean if summary else None for name, summary in means.items()}
    doubts = " ".join(f"{text}." for text in entry.doubts)
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
            difference,
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
        **other_means,
        "ties": entry.largest("ties"),
        "doubted": entry.doubted,
        "doubts": doubts or None,
        "splits": main.splits if main else None,
        "train_shared": shared.mean if shared else None,
        "chance": chance_level(entry, HEADLINE.name) if main else None,
    }


def _names(setting: Place, shift: str, method: str, *extra_names: str) -> dict[str, Cell]:
    """The names of a row; `extra_names` of the set, the rule and the estimator, as far as they
    go."""
    columns = ("study", "data", "shift", "size", "model", "method", "set", "rule", "estimator")
    values = (setting.study, setting.data, shift, setting.size, setting.model, method, *extra_names)
    return dict(zip(columns, values, strict=False))


def estimate_table(arranged: Results, rules: Sequence[str] | None = None) -> ReportTable | None:
    """Every estimate of accuracy in one tidy table, a row a (study, data, shift, size, model,
    method, set, rule, estimator).

    Means over the `n` runs that have the estimate. They are `accuracy`, `estimate`, `error`
    (estimate - accuracy) with its interval, the absolute error, and `covered`, the share of runs
    whose interval holds the accuracy. None where nothing was estimated.
    """
    rows: list[dict[str, Any]] = []
    for setting_results, shift, method, entry in _entries(arranged, rules):
        setting = setting_results.place
        for label in entry.estimators:
            names = _names(setting, shift, method, setting.set, setting.rule, label)
            rows.append({**names, **_estimate_numbers(entry, label)})
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
    rows: list[list[Cell]] = []
    for method in setting_results.methods:
        keys: list[Cell] = [method, points[method]] if points else [method]
        entries = [setting_results.entries.get((shift, method)) for shift in setting_results.shifts]
        rows.append([*keys, *(_score(layouts, entry, metric) for entry in entries)])
    key_columns = ["method", "points"] if points else ["method"]
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
        [*key_columns, *setting_results.shifts],
        rows,
        layouts,
        _Notes(notes),
        len(key_columns),
    )


def _differences(setting_results: PlaceResults, verdicts: Verdicts) -> ReportTable | None:
    """Every method less the reference, methods by shifts; None where nothing is compared."""
    if not verdicts:
        return None
    reference = setting_results.reference
    layouts: _Layouts = set()
    rows: list[list[Cell]] = []
    missing: list[str] = []
    for method in setting_results.methods:
        if method == reference:
            continue
        cells: list[Cell] = []
        for shift in setting_results.shifts:
            verdict = verdicts.get((shift, method))
            cells.append(_difference_cell(layouts, setting_results, shift, method, verdict))
            if verdict is not None and verdict.difference.missing:
                missing.append(f"{method} under {shift} {verdict.difference.missing}")
        rows.append([method, *cells])
    crossed = any(splits > 1 for splits, _ in layouts)
    notes = _verdict_notes(verdicts, reference)
    if missing:
        runs_name = "Runs" if crossed else "Seeds"
        notes.append(f"{runs_name} without a partner, left out: {', '.join(missing)}.")
    notes += [
        *chance_notes(setting_results, HEADLINE.name),
        *oracle_notes(setting_results.place),
        *points_tried(setting_results)[1],
        *doubt_notes(setting_results),
    ]
    pair = "seed and split seed" if crossed else "seed"
    first = (
        f"{HEADLINE.title} minus that of {reference} at the same {pair}, then the mean over all."
    )
    return _table(
        "difference",
        f"Difference to {reference} in {HEADLINE.words}",
        setting_results,
        ("method", *setting_results.shifts),
        rows,
        layouts,
        _Notes(notes, first, next(iter(verdicts.values())).level),
    )


def _difference_cell(
    layouts: _Layouts,
    setting_results: PlaceResults,
    shift: str,
    method: str,
    verdict: Finding | None,
) -> ScoreCell | None:
    """A method less the reference under one shift, with a star where they differ."""
    if verdict is None:
        return None
    entry = setting_results.entries.get((shift, method))
    reference_entry = setting_results.entries.get((shift, setting_results.reference))
    return _mean(
        layouts,
        verdict.difference,
        HEADLINE,
        entry,
        reference_entry,
        signed=True,
        star=verdict.told,
    )


def _verdict_notes(verdicts: Verdicts, reference: str) -> list[str]:
    """The meaning of a star, and of differences that have no spread."""
    notes: list[str] = []
    compared = [
        finding for finding in verdicts.values() if finding.difference.n > 1 and not finding.guesses
    ]
    if compared:
        _, star = star_words(verdicts, reference)
        n_told = sum(finding.told for finding in compared)
        notes.append(
            f"* {star} ({n_told} of {len(compared)}). No mark does not mean no difference."
        )
    if any(finding.guesses for finding in verdicts.values()):
        notes.append(
            f"No mark stands where neither a method nor {reference} is told from guessing: their"
            " difference says nothing of robustness."
        )
    if any(finding.difference.sd == 0 for finding in verdicts.values()):
        notes.append(
            "± 0.000 means that every seed differs by the same amount; without a spread there is"
            " nothing to judge by, and no mark."
        )
    return notes


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
    return _table(
        _WORST.slug, _WORST.title, setting_results, columns, rows, layouts, _Notes(notes), 2
    )


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
            share, n = estimate_numbers["covered"], estimate_numbers["n"]
            inside = None if share is None else f"{round(share * n)} of {n}"
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
    if not rows:
        return None
    title = "Estimated accuracy"
    return _table("estimates", title, setting_results, columns, rows, layouts, _Notes(notes), 3)


def _usual_worst(entry: Entry) -> tuple[str, int, int]:
    """The group that was worst in most seeds (of equal ones the first by seed), in how many, and
    its rows."""
    worst_groups: list[str] = []
    rows_of: dict[str, list[int]] = {}
    for run_scores in entry.metrics.values():
        if run_scores.get("worst_group") is not None:
            group = str(run_scores["worst_group_name"])
            worst_groups.append(group)
            rows_of.setdefault(group, []).append(int(run_scores.get("worst_group_n") or 0))
    name, seeds = Counter(worst_groups).most_common(1)[0]
    return name, seeds, min(rows_of[name])


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
    notes: _Notes,
    keys: int = 1,
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
    intervals = interval_note(layouts, notes.level)
    sentences = filter(None, dict.fromkeys((notes.opening, intervals, *notes.others)))
    return ReportTable(name, title, tuple(columns), rows, tuple(sentences), keys)


# -- of the page only ------------------------------------------------------------------------------


SHOWN_SEEDS = 100
"""Seeds of which each has a column or a point of its own; of more, the page shows how they spread."""
_QUANTILES = {"lowest": 0.0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "highest": 1.0}


def spread_over_ranks(values: Mapping[_Key, float], limit: int) -> list[_Key]:
    """The keys of at most so many of the values: at even steps of their order, with the lowest and
    the highest; all of them, in their own order, where they are no more than that."""
    if len(values) <= limit:
        return list(values)
    ranked = sorted(values, key=values.__getitem__)
    return [ranked[rank] for rank in np.linspace(0, len(ranked) - 1, limit).round().astype(int)]


def seed_table(setting_results: PlaceResults) -> ReportTable:
    """The accuracy of every seed, a row a shift and method; of more than `SHOWN_SEEDS` seeds their
    number and quantiles."""
    seeds = dict.fromkeys(
        seed for entry in setting_results.entries.values() for seed in entry.values(HEADLINE.name)
    )
    is_short = len(seeds) <= SHOWN_SEEDS
    rows: list[tuple[Cell, ...]] = []
    for shift, method, entry in setting_results.grid():
        accuracies = entry.values(HEADLINE.name) if entry else {}
        cells: list[Cell] = [accuracies.get(seed) for seed in seeds] if is_short else []
        if not is_short:
            numbers = list(accuracies.values())
            cells.append(len(numbers))
            cells += [
                float(np.quantile(numbers, share)) if numbers else None
                for share in _QUANTILES.values()
            ]
        rows.append((shift, with_mark(method, entry), *cells))
    title = f"{HEADLINE.title} of every seed"
    columns = [f"seed {seed}" for seed in seeds]
    notes = doubt_notes(setting_results)
    if not is_short:
        title = f"{HEADLINE.title} over {len(seeds):,} seeds"
        columns = ["seeds", *_QUANTILES]
        notes = [*notes, "`crosswind export` writes the value of each seed."]
    return ReportTable(
        f"seeds-{HEADLINE.slug}", title, ("shift", "method", *columns), rows, notes, keys=2
    )


def rule_table(rule_results: Sequence[PlaceResults]) -> ReportTable:
    """Accuracy by selection rule, a row a shift and method. `rule_results`: one place under several
    rules."""
    rows: list[tuple[Cell, ...]] = []
    for shift, method, _ in rule_results[0].grid():
        entries = [setting_results.entries.get((shift, method)) for setting_results in rule_results]
        rows.append((shift, method, *(_score(set(), entry) for entry in entries)))
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
    results_by_rule: dict[tuple[str, str], list[PlaceResults]] = {}
    for setting_results in shown_results:
        setting = setting_results.place
        results_by_rule.setdefault((setting.set, setting.rule), []).append(setting_results)
    rankings: list[Ranking] = []
    for (set_name, rule), rule_results in results_by_rule.items():
        blocks = _blocks(rule_results)
        ranks = mean_ranks(blocks)
        if len(ranks.mean) > 1:
            counts: dict[str, Counter[float]] = {name: Counter() for name in ranks.mean}
            for block in blocks:
                if len(block) == len(counts):
                    for name, rank in mean_ranks([block]).mean.items():
                        counts[name][rank] += 1
            rankings.append(Ranking(set_name, rule, ranks, counts, _doubts(rule_results)))
    return rankings


def _blocks(rule_results: Sequence[PlaceResults]) -> list[dict[str, float]]:
    """The accuracies by method of every place, shift and seed."""
    blocks: dict[tuple[Any, ...], dict[str, float]] = {}
    for setting_results in rule_results:
        for (shift, method), entry in setting_results.entries.items():
            for seed, accuracy in entry.values(HEADLINE.name).items():
                blocks.setdefault((setting_results.place, shift, seed), {})[method] = accuracy
    return list(blocks.values())


def _doubts(rule_results: Sequence[PlaceResults]) -> dict[str, dict[str, None]]:
    """The doubts that runs reported, by method."""
    doubts: dict[str, dict[str, None]] = {}
    for setting_results in rule_results:
        for (_, method), entry in setting_results.entries.items():
            if entry.doubts:
                doubts.setdefault(method, {}).update(dict.fromkeys(entry.doubts))
    return doubts


def rank_table(ranked: Ranking) -> ReportTable:
    """Mean rank of each method, best first, and in how many blocks it was first or last."""
    last = float(len(ranked.methods))
    rows: list[dict[str, Cell]] = []
    for method in ranked.methods:
        counts = ranked.counts[method]
        rows.append(
            {
                "method": f"{method} {MARK}" if method in ranked.doubted else method,
                "mean rank": float(ranked.ranks.mean[method]),
                "alone first": counts.get(1.0, 0),
                "alone last": counts.get(last, 0),
                "blocks": ranked.ranks.blocks,
            }
        )
    notes = [
        (
            "1 is the best rank; equal accuracies share the mean of their ranks, so that first and"
            " last count undivided ranks only."
        ),
        (
            "A block is one data set, size, model, shift, split seed and seed. Many blocks are"
            " answers to the same test rows, after the same training rows, so no interval is given."
            " A rank says nothing of how large a difference is."
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
        "ranks",
        f"Ranks by {HEADLINE.words} on {ranked.set}, step chosen by {ranked.rule}",
        rows,
        notes,
    )
