"""The notes below a table: what its interval is, how many seeds and rows it has, how steps and
points were chosen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection

from crosswind.evaluation.binomial import exact_bounds
from crosswind.evaluation.compare import Seeds, t_quantile
from crosswind.evaluation.metrics import HEADLINE, METRICS
from crosswind.evaluation.multiplicity import percent
from crosswind.reports.scores.results import LEVEL, Entry, Place, PlaceResults, choosing_rule
from crosswind.reports.tables import Cell
from crosswind.training.selection import ORACLES

MARK = "†"
"""Stands behind every number of which a run told its reader to doubt it."""


def interval_note(layouts: Collection[tuple[int, int]], level: float = LEVEL) -> str:
    """The note on the interval, and on how wide that makes it for the fewest seeds of a table.

    `layouts`: the number of split seeds and of runs of each cell.
    """
    share = percent(level)
    if not layouts:
        return (
            "low and high bound a 95% interval of the mean over seeds, and over split seeds where"
            " there are several."
        )
    several = sorted({layout for layout in layouts if layout[1] > 1}, reverse=True)
    if not several:
        return (
            "One seed: a single run each, without an interval. What is chance cannot be told from"
            " what is not."
        )
    crossed = any(splits > 1 for splits, _ in several)
    if crossed:
        shapes = ", ".join(f"{splits} split seeds x {n // splits} seeds" for splits, n in several)
        text = (
            f"± is half of a {share} interval of the mean over {shapes}: both are random effects,"
            " crossed, so that it covers the choice of test rows from this data set too."
        )
        few = min(splits for splits, _ in several)
        if few < 4:
            text += (
                f" Of {few} split seeds little is learnt about their spread, so the interval is"
                " wide."
            )
    else:
        reach = ", ".join(
            f"{t_quantile(n - 1, level) / math.sqrt(n):.1f} standard deviations from {n} seeds"
            for _, n in several
        )
        text = f"± is half of a {share} t-interval of the mean: to each side {reach}."
        if several[-1][1] < 4:
            text += " So few show only effects far larger than the spread between seeds."
    if any(n == 1 for _, n in layouts):
        run = "run" if crossed else "seed"
        text += f" A value without ± has one {run}, or the same answers with every seed."
    return text


def seeds_note(setting_results: PlaceResults) -> str:
    """How many seeds the cells of a place have, and what seeds redraw; nothing where every cell has
    one."""
    counts = {
        f"{method} under {shift}": len(entry.metrics)
        for (shift, method), entry in setting_results.entries.items()
    }
    if set(counts.values()) == {1}:
        return ""
    usual = Counter(counts.values()).most_common(1)[0][0]
    odd = [f"{where} {n}" for where, n in counts.items() if n != usual]
    but = f", but {', '.join(odd)}" if odd else ""
    redraws = (
        "the network's start and the order of batches, and training and validation rows as far as"
        " the draw leaves a choice"
    )
    shared = _shared_words(setting_results)
    if shared:
        redraws += (
            f" (share of the training rows that two seeds are expected to have in common: {shared})"
        )
    entries = setting_results.entries.values()
    if not any(isinstance(run, Seeds) for entry in entries for run in entry.metrics):
        return (
            f"{usual} seed{'s' if usual != 1 else ''} each{but}. Seeds redraw {redraws}. The test"
            " rows stay the same, so the interval does not cover their choice; with several"
            " split_seeds it does."
        )
    text = (
        f"{usual} runs each{but}: every split seed with every seed. A split seed deals all rows"
        f" anew, those for testing too; a seed redraws {redraws}. All split seeds deal the rows of"
        " one data set: the interval does not cover its choice."
    )
    left_out = _runs_left_out(setting_results)
    if left_out:
        text += f" Left out, since their split seed or seed lacks runs: {', '.join(left_out)}."
    return text


def _shared_words(setting_results: PlaceResults) -> str:
    """The share of the training rows that two seeds are expected to have in common, by shift where
    it differs; empty for older stores, which do not have it."""
    shared: dict[str, str] = {}
    for (shift, _), entry in setting_results.entries.items():
        shares = list(entry.values("train_shared").values())
        if shares:
            shared[shift] = f"{sum(shares) / len(shares):.2f}"
    alike = len(set(shared.values())) == 1
    if alike:
        return next(iter(shared.values()))
    return ", ".join(f"{shift} {share}" for shift, share in shared.items())


def _runs_left_out(setting_results: PlaceResults) -> list[str]:
    """How many runs of each cell are left out, since their split seed or seed lacks runs."""
    left_out: list[str] = []
    for (shift, method), entry in setting_results.entries.items():
        summary = entry.summary(HEADLINE.name)
        if summary is not None and summary.left_out:
            left_out.append(f"{method} under {shift} {summary.left_out}")
    return left_out


def chance_level(entry: Entry, metric: str) -> float | None:
    """The score that guessing reaches; None for results that do not name their classes.

    Always answering the most frequent class reaches its share in accuracy. Uniform guesses reach 1
    / classes in balanced accuracy and in the worst group.
    """
    name = METRICS[metric].chance if metric in METRICS else None
    if not name:
        return None
    levels = [
        float(run_scores[name]) for run_scores in entry.metrics.values() if run_scores.get(name)
    ]
    if not levels:
        return None
    return max(levels) if name == "majority" else 1 / max(levels)


def at_chance(entry: Entry, metric: str) -> str | None:
    """Where an interval (of one run the score) lies: "at" what guessing reaches, "below" it, or ""
    above it.

    None where the classes are unknown. At chance a model may have learnt nothing; below it, it is
    misled and has learnt something. The worst group of a model that guesses is the lowest of many,
    below 1 / classes: there what does not lie above is "at".
    """
    summary, chance = entry.summary(metric), chance_level(entry, metric)
    if summary is None or chance is None:
        return None
    low, high = (summary.mean if end is None else end for end in (summary.low, summary.high))
    if low > chance:
        return ""
    return "below" if high < chance and metric != "worst_group" else "at"


def is_above_chance_on_rows(entry: Entry) -> bool:
    """Whether the mean accuracy is above that of guessing by more than the choice of so many test
    rows explains: few seeds make an interval that holds chance whatever was learnt."""
    bounds, level = _bounds_by_rows(entry), chance_level(entry, HEADLINE.name)
    return bounds is not None and level is not None and bounds[0] > level


def is_guessing(entry: Entry) -> bool:
    """Whether neither the spread between runs nor the number of test rows tells the accuracy from
    that of answers that do not depend on the input; False for results that do not name their
    classes.

    Such answers reach between the shares of the rarest and of the most frequent class. The spread
    alone is no evidence that a model is misled: splits of one table share its rows, and where there
    is nothing to learn all of them lie a little below guessing.
    """
    bounds, level = _bounds_by_rows(entry), chance_level(entry, HEADLINE.name)
    if bounds is None or level is None or not at_chance(entry, HEADLINE.name):
        return False
    n_classes = max((int(count) for count in entry.column("classes") if count), default=1)
    rarest = (1 - level) / (n_classes - 1) if n_classes > 1 else level
    return bounds[0] <= level and bounds[1] >= min(rarest, level)


def _bounds_by_rows(entry: Entry) -> tuple[float, float] | None:
    """The bounds for the accuracy behind the mean of an entry, by the rows of its smallest run; None
    where they are unknown."""
    summary = entry.summary(HEADLINE.name)
    n_rows = min(filter(None, entry.column("n")), default=0)
    if summary is None or not n_rows:
        return None
    return exact_bounds(min(1.0, summary.mean), n_rows, LEVEL)


def chance_words(entry: Entry, metric: str) -> str:
    """The caution for a comparison with an entry that is no better than guessing; empty where it is
    better."""
    where = at_chance(entry, metric)
    if not where:
        return ""
    level = f"{chance_level(entry, metric):.1%}"
    if metric == "worst_group":
        return (
            f"at chance here (the worst group of a guess has at most {level}): look at the score as"
            " well as at the difference"
        )
    if where == "at":
        return (
            f"at chance here, as far as its interval tells (guessing reaches {level}): a gain over"
            " it may be one over guessing"
        )
    return (
        f"below chance here (guessing reaches {level}): it is misled, and a method that only"
        " guessed would gain on it too"
    )


def chance_notes(setting_results: PlaceResults, metric: str) -> list[str]:
    """Under which shifts the reference is no better than guessing, so that a difference to it says
    little of robustness."""
    under: dict[str, list[str]] = {}
    for shift in setting_results.shifts:
        entry = setting_results.entries.get((shift, setting_results.reference))
        if entry is not None and (words := chance_words(entry, metric)):
            under.setdefault(words, []).append(shift)
    return [
        f"Under {', '.join(shifts)} the reference {setting_results.reference} is {words}."
        for words, shifts in under.items()
    ]


def set_notes(setting_results: PlaceResults) -> list[str]:
    """How many rows the evaluation set has."""
    rows = {
        shift: entry.largest("n")
        for (shift, _), entry in setting_results.entries.items()
        if entry.metrics
    }
    if len(set(rows.values())) == 1:
        return [f"The set {setting_results.place.set} has {next(iter(rows.values()))} rows."]
    if not rows:
        return []
    by_shift = ", ".join(f"{shift} {n}" for shift, n in rows.items())
    return [f"Rows of the set {setting_results.place.set}: {by_shift}."]


def rule_notes(setting: Place, grid: bool) -> list[str]:
    """By what the step, and with a `grid` the point, was chosen."""
    rule = choosing_rule(setting.rule)
    if setting.rule == "last":
        point = f"; the point chosen by {rule.words} on the set {rule.set}" if grid else ""
        return [f"The model after the last step{point}."]
    if setting.rule in ORACLES:
        return oracle_notes(setting)
    subject = "Step and point are" if grid else "The step is"
    chosen = f"{subject} chosen by {rule.words} on the set {rule.set}."
    return [chosen, *oracle_notes(setting)]


def oracle_notes(setting: Place) -> list[str]:
    """The knowledge of a rule beyond the labels of validation rows: it is an oracle, or it reads
    their groups."""
    rule = choosing_rule(setting.rule)
    notes = []
    if setting.rule in ORACLES:
        notes.append(
            f"ORACLE: chosen by {rule.words} on the set {rule.set}, labelled rows of the"
            " distribution that is tested on."
        )
    if rule.score == "worst_group":
        notes.append(
            f"The selection {setting.rule} reads the groups of the validation rows, which not every"
            " method may know."
        )
    return notes


STOPPED_NOTE = (
    "Points by successive halving: a point that was stopped counts with the score that it had then,"
    " and is chosen only where none was trained to the end."
)


def points_tried(setting_results: PlaceResults) -> tuple[dict[str, Cell], list[str]]:
    """Points tried by each method (empty where nobody searched), a warning where they differ
    from the reference's, and a note where a search stopped some before their end."""
    tried: dict[str, set[int]] = {method: set() for method in setting_results.methods}
    ended: dict[str, set[int]] = {}
    for (_, method), entry in setting_results.entries.items():
        tried[method].add(entry.tried)
        for n_stopped in entry.stopped.values():
            ended.setdefault(method, set()).add(entry.tried - n_stopped)
    if all(counts <= {1} for counts in tried.values()):
        return {}, []
    shown = {method: _points_cell(counts) for method, counts in tried.items()}
    reference_points = shown.get(setting_results.reference)
    other_points = ", ".join(
        f"{method} {count}"
        for method, count in shown.items()
        if count not in (reference_points, None)
    )
    warning = (
        f"WARNING: not all methods tried as many points as {setting_results.reference}"
        f" ({reference_points if reference_points is not None else 'none'}): {other_points}. The"
        " best of more points is higher by chance alone."
    )
    notes = [warning] if other_points else []
    if ended:
        notes.append(STOPPED_NOTE)
    for method, counts in ended.items():
        shown[method] = f"{shown[method]}, {_points_cell(counts)} to the end"
    return shown, notes


def _points_cell(counts: Collection[int]) -> Cell:
    """How many points a method tried: one number where it is the same under every shift."""
    if not counts:
        return None
    fewest, highest = min(counts), max(counts)
    return fewest if fewest == highest else f"{fewest}-{highest}"


def entry_notes(setting_results: PlaceResults) -> list[str]:
    """The runs that diverged, chose among fewer points than planned, or are left out."""
    unscored = (
        f"Left out, since the set {choosing_rule(setting_results.place.rule).set} that chooses the"
        " point was not scored"
    )
    notes: list[str] = []
    for name, words in (
        ("diverged", "Diverged, and counted as scored"),
        ("partial", "Chosen among fewer points than planned, the others have no scores"),
        ("undecided", unscored),
    ):
        runs: list[str] = []
        for (shift, method), entry in setting_results.entries.items():
            seeds = ", ".join(map(str, getattr(entry, name)))
            if seeds:
                runs.append(f"{method} under {shift} (seed {seeds})")
        if runs:
            notes.append(f"{words}: {'; '.join(runs)}.")
    return notes


def with_mark(text: str, *entries: Entry | None) -> str:
    """The text with the mark behind it where a run of one of the entries told its reader to doubt
    it."""
    doubted = any(entry is not None and entry.doubts for entry in entries)
    return f"{text} {MARK}" if doubted else text


def doubt_notes(setting_results: PlaceResults) -> list[str]:
    """The meaning of the mark: what runs told of themselves, and how many of each method and shift
    did."""
    runs_by_doubt: dict[tuple[str, str], list[str]] = {}
    for (shift, method), entry in setting_results.entries.items():
        for text, seeds in entry.doubts.items():
            runs_by_doubt.setdefault((method, text), []).append(
                f"{len(seeds)} of {len(entry.metrics)} runs under {shift}"
            )
    return [
        f"{MARK} {method}, {', '.join(counts)}: {text}."
        for (method, text), counts in runs_by_doubt.items()
    ]
