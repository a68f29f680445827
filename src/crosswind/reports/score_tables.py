"""Tables of scores: of each place, of every number, of single seeds, selection rules and ranks.

What a table says is no more than its seeds carry. `place_tables` and `run_tables.run_table` are what a person reads,
`number_table` is one tidy table of every number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crosswind.evaluation.compare import Difference, Ranks, Summary, mean_ranks
from crosswind.evaluation.metrics import ESTIMATE, ESTIMATE_COVERS, ESTIMATE_ERROR, HEADLINE, METRICS, Metric
from crosswind.reports.notes import (
    MARK,
    chance_level,
    chance_notes,
    doubt_notes,
    entry_notes,
    interval_note,
    largest,
    oracle_notes,
    points_tried,
    rule_notes,
    seeds_note,
    set_notes,
    with_mark,
)
from crosswind.reports.results import LEVEL, Entry, Place, Results, rule_title
from crosswind.reports.tables import Cell, Score, Table, slug
from crosswind.training.selection import ORACLES

_WORST = METRICS["worst_group"]
_MEANS = [name for name, metric in METRICS.items() if metric not in (HEADLINE, _WORST)]
_NUMBERS = (
    *("study", "data", "shift", "size", "model", "method", "set", "role", "rule", "oracle", "points", "n", "diverged", "rows"),
    *("mean", "sd", "low", "high", "diff", "diff_low", "diff_high", "diff_n", "diff_missing"),
    *("worst_group", "worst_group_low", "worst_group_high", "worst_group_name", "worst_group_seeds", "worst_group_rows"),
    *(*_MEANS, "ties", "doubted", "doubts", "splits", "train_shared", "chance"),
)


def shown_places(found: Results, rules: Sequence[str] | None = None) -> list[Place]:
    """The places that have tables: those of test sets, by the selection rules asked for (None: by all)."""
    chosen = [place for place in found.places if rules is None or place.rule in rules]
    return [place for place in chosen if any(entry.role == "test" for entry in found.at(place).values())]


def place_tables(found: Results, place: Place, reference: str = "erm") -> dict[str, Table]:
    """The tables of one place by name: a table a metric with a `slug` that some run has, and "difference" to the reference."""
    tables: dict[str, Table | None] = {}
    for metric in METRICS.values():
        if metric is HEADLINE:
            tables[metric.slug] = _by_shift(found, place, reference, metric)
            tables["difference"] = _differences(found, place, reference)
        elif metric.slug and found.has(place, metric.name):
            make = _worst_groups if metric is _WORST else _by_shift
            tables[metric.slug] = make(found, place, reference, metric)
    tables["estimates"] = _estimates(found, place, reference)
    return {name: table for name, table in tables.items() if table is not None}


def overview(found: Results, place: Place, reference: str) -> list[Table]:
    """Two tables of one place in percent, methods by shifts, without notes: accuracy and worst group."""
    out = []
    for metric in (HEADLINE, _WORST):
        if found.has(place, metric.name):
            table = _by_shift(found, place, reference, metric)
            rows = tuple(tuple(cell.in_percent() if isinstance(cell, Score) else cell for cell in row) for row in table.rows)
            title = f"{metric.title} in % on {place.set}, ± half of a 95% interval"
            out.append(replace(table, title=title, rows=rows, notes=()))
    return out


def number_table(found: Results, reference: str = "erm", rules: Sequence[str] | None = None) -> Table:
    """Every number in one tidy table: a row a (study, data, shift, size, model, method, set, rule), validation sets included.

    mean, sd, low, high are of the accuracy over `n` runs, a seed or a pair of split seed and seed each, of `splits` split seeds;
    diff is paired with `reference`; the other scores are means over runs. `rows` is the size of the set, `ties` the largest number
    of equally good steps of any run, `doubted` the number of runs that told their reader to doubt them and `doubts` what they
    said, `train_shared` the share of the training rows that two seeds are expected to have in common, `chance` the accuracy that
    guessing reaches.
    """
    rows = [
        _numbers(place, shift, method, entry, found.at(place).get((shift, reference)) if method != reference else None)
        for place in found.places
        if rules is None or place.rule in rules
        for shift, method, entry in found.grid(place, reference)
        if entry is not None
    ]
    return Table("numbers", "Every number", _NUMBERS, tuple(rows), (interval_note(Counter()),), keys=9)


def _numbers(place: Place, shift: str, method: str, entry: Entry, base: Entry | None) -> tuple[Cell, ...]:
    scores: dict[str, Cell] = {
        **place._asdict(),
        "shift": shift,
        "method": method,
        "role": entry.role,
        "oracle": int(place.rule in ORACLES),
        "points": entry.tried,
        "n": len(entry.metrics),
        "diverged": len(entry.diverged),
        "rows": largest(entry, "n"),
        "ties": largest(entry, "ties"),
        "doubted": entry.doubted,
        "doubts": " ".join(f"{text}." for text in entry.doubts) or None,
    }
    if main := entry.summary(HEADLINE.name):
        scores |= {"mean": main.mean, "sd": main.sd, "low": main.low, "high": main.high}
        scores |= {"splits": main.splits, "chance": chance_level(entry, HEADLINE.name)}
    if difference := entry.difference(base, HEADLINE.name):
        scores |= {"diff": difference.mean, "diff_low": difference.low, "diff_high": difference.high}
        scores |= {"diff_n": difference.n, "diff_missing": difference.missing}
    if worst := entry.summary(_WORST.name):
        name, seeds, n_rows = _usual_worst(entry)
        scores |= {"worst_group": worst.mean, "worst_group_low": worst.low, "worst_group_high": worst.high}
        scores |= {"worst_group_name": name, "worst_group_seeds": seeds, "worst_group_rows": n_rows}
    for metric in (*_MEANS, "train_shared"):
        summary = entry.summary(metric)
        scores[metric] = summary.mean if summary else None
    return tuple(scores.get(column) for column in _NUMBERS)


def estimate_table(found: Results, reference: str = "erm", rules: Sequence[str] | None = None) -> Table | None:
    """Every estimate of accuracy in one tidy table, a row a (study, data, shift, size, model, method, set, rule, estimator).

    Means over the `n` runs that have the estimate: `accuracy`, `estimate`, `error` (estimate - accuracy) with its interval, the
    absolute error, and `covered`, the share of runs whose interval holds the accuracy. None where nothing was estimated.
    """
    rows: list[tuple[Cell, ...]] = []
    for place in found.places:
        if rules is None or place.rule in rules:
            for shift, method, entry in found.grid(place, reference):
                for label in entry.estimators if entry is not None else ():
                    assert entry is not None
                    names = (place.study, place.data, shift, place.size, place.model, method, place.set, place.rule, label)
                    rows.append((*names, *_estimate_numbers(entry, label)))
    columns = ("study", "data", "shift", "size", "model", "method", "set", "rule", "estimator")
    numbers = ("n", "accuracy", "estimate", "error", "error_low", "error_high", "absolute_error", "covered")
    return Table("estimates", "Every estimate of accuracy", (*columns, *numbers), tuple(rows), (), keys=9) if rows else None


def _estimate_numbers(entry: Entry, label: str) -> tuple[int, float, float, float, float | None, float | None, float, float | None]:
    accuracy, errors = entry.values(HEADLINE.name), entry.values(f"{ESTIMATE_ERROR}{label}")
    value, error = entry.summary(f"{ESTIMATE}{label}"), entry.summary(f"{ESTIMATE_ERROR}{label}")
    covered = entry.summary(f"{ESTIMATE_COVERS}{label}")
    assert value is not None and error is not None
    mean = sum(accuracy[seed] for seed in errors) / len(errors)
    absolute = sum(map(abs, errors.values())) / len(errors)
    return len(errors), mean, value.mean, error.mean, error.low, error.high, absolute, covered.mean if covered else None


# -- one place ----------------------------------------------------------------------------------------------------------------


def _by_shift(found: Results, place: Place, reference: str, metric: Metric) -> Table:
    methods = found.methods(place, reference)
    notes = [metric.note]
    if metric is HEADLINE:
        notes = [seeds_note(found, place), *set_notes(found, place)]
        if reference not in methods:
            notes.append(f"There is no table of differences: the reference {reference} is not among the methods.")
    points, points_notes = points_tried(found, place, reference)
    counts: Counter[tuple[int, int]] = Counter()
    rows = []
    for method in methods:
        row: list[Cell] = [method, *([points[method]] if points else [])]
        for shift in found.shifts(place):
            entry = found.at(place).get((shift, method))
            summary = entry.summary(metric.name) if entry else None
            counts.update([(summary.splits, summary.n)] if summary else [])
            row.append(_score(entry, metric))
        rows.append(row)
    columns = ("method", *(["points"] if points else []), *found.shifts(place))
    notes = [interval_note(counts), *notes, *rule_notes(place, bool(points)), *points_notes, *entry_notes(found, place)]
    return _table(metric.slug, metric.title, place, columns, rows, [*notes, *doubt_notes(found, place)], 2 if points else 1)


def _differences(found: Results, place: Place, reference: str) -> Table | None:
    counts: Counter[tuple[int, int]] = Counter()
    compared, marked, same = 0, 0, 0
    rows: list[list[Cell]] = []
    missing = []
    for method in found.methods(place, reference):
        if method == reference:
            continue
        rows.append([method])
        for shift in found.shifts(place):
            entry, base = found.at(place).get((shift, method)), found.at(place).get((shift, reference))
            difference = entry.difference(base, HEADLINE.name) if entry else None
            if difference is None:
                rows[-1].append(None)
                continue
            counts.update([(difference.splits, difference.n)])
            compared += difference.n > 1
            marked += difference.excludes_zero
            same += difference.sd == 0
            missing += [f"{method} under {shift} {difference.missing}"] if difference.missing else []
            rows[-1].append(_cell(difference, HEADLINE.unit, entry, base, signed=True))
    if not counts:
        return None
    crossed = any(splits > 1 for splits, _ in counts)
    pair = "seed and split seed" if crossed else "seed"
    notes = [f"{HEADLINE.title} minus that of {reference} at the same {pair}, then the mean over all.", interval_note(counts)]
    if compared:
        notes.append(
            f"* the interval excludes 0 ({marked} of {compared}). Each is judged for itself: where nothing differs, about "
            f"{compared * (1 - LEVEL):.2g} of {compared} would be marked by chance. No mark does not mean no difference."
        )
    if same:
        notes.append(
            "± 0.000 means that every seed differs by the same amount; without a spread there is nothing to judge by, and no mark."
        )
    notes += [f"{'Runs' if crossed else 'Seeds'} without a partner, left out: {', '.join(missing)}."] if missing else []
    notes += [*chance_notes(found, place, reference, HEADLINE.name), *oracle_notes(place)]
    notes += [*points_tried(found, place, reference)[1], *doubt_notes(found, place)]
    what = f"Difference to {reference} in {HEADLINE.words}"
    return _table("difference", what, place, ("method", *found.shifts(place)), rows, notes, 1)


def _worst_groups(found: Results, place: Place, reference: str, metric: Metric) -> Table:
    rows: list[list[Cell]] = []
    counts: Counter[tuple[int, int]] = Counter()
    sizes = []
    for shift, method, entry in found.grid(place, reference):
        summary = entry.summary(metric.name) if entry else None
        if entry is None or summary is None:
            rows.append([shift, method, None, None, None, None])
            continue
        counts.update([(summary.splits, summary.n)])
        name, seeds, n_rows = _usual_worst(entry)
        sizes.append(n_rows)
        rows.append([shift, method, _score(entry, metric), name, f"{seeds} of {summary.n}", n_rows])
    notes = [
        interval_note(counts),
        "Mean over seeds of the lowest accuracy of any group; `group` is the one that was lowest in most seeds, `rows` its size.",
    ]
    if sizes and min(sizes) < 30:
        moved = f", so that one row moves it by {1 / min(sizes):.2f}" if min(sizes) else ""
        notes.append(
            f"The lowest of many small groups is low by chance alone: here a group has as few as {min(sizes)} rows{moved}."
        )
    notes += [*chance_notes(found, place, reference, metric.name), *oracle_notes(place), *doubt_notes(found, place)]
    return _table(
        metric.slug, metric.title, place, ("shift", "method", "worst group", "group", "lowest in", "rows"), rows, notes, 2
    )


def _estimates(found: Results, place: Place, reference: str) -> Table | None:
    rows: list[list[Cell]] = []
    row: list[Cell]
    counts: Counter[tuple[int, int]] = Counter()
    for shift, method, entry in found.grid(place, reference):
        for label in entry.estimators if entry is not None else ():
            assert entry is not None
            error = entry.summary(f"{ESTIMATE_ERROR}{label}")
            n, accuracy, value, _, _, _, absolute, covered = _estimate_numbers(entry, label)
            assert error is not None
            counts.update([(error.splits, error.n)])
            inside = None if covered is None else f"{round(covered * n)} of {n}"
            row = [accuracy, value, _cell(error, HEADLINE.unit, entry, signed=True), absolute, inside]
            rows.append([shift, method, label, *row])
    if not rows:
        return None
    notes = [
        interval_note(counts),
        "Accuracy as it is, and as it was estimated without the labels of these rows. error: estimated minus true, run by run.",
        "covered: the runs whose estimate came with an interval that holds the true accuracy.",
        *doubt_notes(found, place),
    ]
    columns = ("shift", "method", "estimator", "accuracy", "estimated", "error", "|error|", "covered")
    return _table("estimates", "Estimated accuracy", place, columns, rows, notes, 3)


def _usual_worst(entry: Entry) -> tuple[str, int, int]:
    """The group that was worst in most seeds (of equal ones the first by seed), in how many, and its rows."""
    items = [item for item in entry.metrics.values() if item.get("worst_group") is not None]
    name, seeds = Counter(str(item["worst_group_name"]) for item in items).most_common(1)[0]
    rows = min(int(item.get("worst_group_n") or 0) for item in items if str(item["worst_group_name"]) == name)
    return name, seeds, rows


def _score(entry: Entry | None, metric: Metric) -> Score | None:
    summary = entry.summary(metric.name) if entry else None
    return _cell(summary, metric.unit, entry) if summary else None


def _cell(summary: Summary, unit: str, *entries: Entry | None, signed: bool = False) -> Score:
    """A mean with half of its interval and its marks: of a difference that excludes 0, and of doubts of the entries."""
    star = " *" if isinstance(summary, Difference) and summary.excludes_zero else ""
    return Score(summary.mean, summary.half_width, summary.n, unit, with_mark(star, *entries), signed)


def _table(
    what: str, title: str, place: Place, columns: Sequence[str], rows: Sequence[list[Cell]], notes: Iterable[str], keys: int
) -> Table:
    parts = (place.study, place.data, place.size and f"size {place.size}", place.model, f"selection {place.rule}")
    title = f"{title} on {place.set} ({', '.join(filter(None, parts))})"
    name = slug(what, place.study, place.data, place.size, place.model, place.set, place.rule)
    return Table(name, title, tuple(columns), tuple(map(tuple, rows)), tuple(filter(None, dict.fromkeys(notes))), keys)


# -- of the page only ---------------------------------------------------------------------------------------------------------


def seed_table(found: Results, place: Place, reference: str, metric: Metric = HEADLINE) -> Table:
    """The metric of every seed, a row a shift and method."""
    seeds = dict.fromkeys(seed for entry in found.at(place).values() for seed in entry.values(metric.name))
    rows: list[tuple[Cell, ...]] = []
    for shift, method, entry in found.grid(place, reference):
        values = entry.values(metric.name) if entry else {}
        rows.append((shift, with_mark(method, entry), *map(values.get, seeds)))
    columns = ("shift", "method", *(f"seed {seed}" for seed in seeds))
    notes = tuple(doubt_notes(found, place))
    return Table(f"seeds-{metric.slug}", f"{metric.title} of every seed", columns, tuple(rows), notes, keys=2)


def rule_table(found: Results, places: Sequence[Place], reference: str) -> Table:
    """Accuracy by selection rule, a row a shift and method. `places`: one place under several rules."""
    rows: list[tuple[Cell, ...]] = []
    for shift, method, _ in found.grid(places[0], reference):
        entries = [found.at(place).get((shift, method)) for place in places]
        rows.append((shift, method, *(_score(entry, HEADLINE) for entry in entries)))
    notes = ["The same training, stopped by the same rule; only which of its steps is scored differs."]
    if any(place.rule in ORACLES for place in places):
        notes.append("A rule marked ORACLE reads labelled rows of the distribution that is tested on.")
    notes += dict.fromkeys(line for place in places for line in doubt_notes(found, place))
    columns = ("shift", "method", *(rule_title(place.rule) for place in places))
    return Table("rules", f"{HEADLINE.title} by selection rule", columns, tuple(rows), tuple(notes), keys=2)


@dataclass(frozen=True)
class Ranking:
    """Ranks of methods on the sets called `set`, steps chosen by `rule`: means, and the number of blocks by method and rank.

    `doubted`: what runs told their reader to doubt, by method.
    """

    set: str
    rule: str
    ranks: Ranks
    counts: Mapping[str, Mapping[float, int]]
    doubted: Mapping[str, Iterable[str]]


def ranking(found: Results, places: Sequence[Place]) -> list[Ranking]:
    """Rank the methods in every block by accuracy, for each set and rule of `places`; see `rank_table`."""
    out = []
    for set_name, rule in dict.fromkeys((place.set, place.rule) for place in places):
        blocks: dict[tuple[Any, ...], dict[str, float]] = {}
        doubted: dict[str, dict[str, None]] = {}
        for place in (place for place in places if (place.set, place.rule) == (set_name, rule)):
            for (shift, method), entry in found.at(place).items():
                if entry.doubts:
                    doubted.setdefault(method, {}).update(dict.fromkeys(entry.doubts))
                for seed, value in entry.values(HEADLINE.name).items():
                    blocks.setdefault((place, shift, seed), {})[method] = value
        ranks = mean_ranks(list(blocks.values()))
        if len(ranks.mean) > 1:
            out.append(Ranking(set_name, rule, ranks, _rank_counts(blocks.values(), set(ranks.mean)), doubted))
    return out


def _rank_counts(blocks: Iterable[Mapping[str, float]], names: set[str]) -> dict[str, Counter[float]]:
    counts: dict[str, Counter[float]] = {name: Counter() for name in sorted(names)}
    for block in blocks:
        if set(block) == names:
            for name, value in block.items():
                better = sum(other > value for other in block.values())
                equal = sum(other == value for other in block.values())
                counts[name][better + (equal + 1) / 2] += 1
    return counts


def rank_table(item: Ranking) -> Table:
    """Mean rank of each method, best first, and in how many blocks it was first or last."""
    last = float(len(item.ranks.mean))
    rows: list[tuple[Cell, ...]] = []
    for method, mean in sorted(item.ranks.mean.items(), key=lambda pair: pair[1]):
        counts = item.counts[method]
        name = f"{method} {MARK}" if method in item.doubted else method
        rows.append((name, float(mean), counts.get(1.0, 0), counts.get(last, 0), item.ranks.blocks))
    notes = [
        "1 is the best rank; equal accuracies share the mean of their ranks, so that first and last count undivided ranks only.",
        "A block is one data set, size, model, shift, split seed and seed. Blocks share test rows and training data, so they are "
        "not independent, and no interval is given. A rank says nothing of how large a difference is.",
    ]
    if item.ranks.left_out:
        notes.append(f"{item.ranks.left_out} blocks are left out: not every method has a score there.")
    notes += [f"{MARK} {method}, in some of its runs: {text}." for method, texts in item.doubted.items() for text in texts]
    columns = ("method", "mean rank", "alone first", "alone last", "blocks")
    return Table("ranks", f"Ranks by {HEADLINE.words} on {item.set}, selection {item.rule}", columns, tuple(rows), tuple(notes))
