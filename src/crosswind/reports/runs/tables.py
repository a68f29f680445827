"""Tables of runs: their states, failures and warnings, and where their time went."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosswind.core.errors import one_line
from crosswind.evaluation.compare import Seeds
from crosswind.reports.scores.results import Results
from crosswind.reports.tables import Cell, ReportTable, picked
from crosswind.storage.failure_reasons import root_reason, shared_reason
from crosswind.storage.json_columns import columns_of

_REASONS_SHOWN, _TROUBLE_SHOWN, _WARNINGS_SHOWN = 20, 200, 50
_DONE = ("finished", "diverged")

PARTS = {
    "data": "data",
    "step": "step",
    "evaluation": "evaluation",
    "waiting": "waiting",
    "prepare": "start-up",
    "other": "other",
}
"""What a run's seconds go on, as runs record it, and how it is called."""

_LARGEST = {
    "step": "training steps, forward, backward and optimiser",
    "data": (
        "making batches: augmentation, and attributes derived with mode: per-visit, are done anew"
        " at each step"
    ),
    "waiting": (
        "waiting, for inputs that do not fit in memory, for another worker or for the disk: a"
        " larger training.checkpoint_seconds writes fewer checkpoints"
    ),
    "prepare": (
        "start-up, as the runs are short: each worker loads its libraries once, so fewer workers"
        " (--workers) or more runs to a study pay it less often"
    ),
    "other": "other things than training and evaluation, such as scores and files",
    "validation": "validation: validate less often (training.validate_every)",
    "evaluation": (
        "evaluation, most of it of the final predictions: fewer test rows (roles, sets) take less"
    ),
}


# -- states ----------------------------------------------------------------------------------------


def run_table(arranged: Results, reasons: bool = True) -> ReportTable:
    """The state of the runs by data, model and method; with `reasons`, failures and divergences
    below it."""
    every_state = [status for status, _ in arranged.runs.values()]
    states = list(dict.fromkeys((*_DONE, "failed", *every_state)))
    groups: dict[tuple[str, str, str], Counter[str]] = {}
    for run, (status, _) in arranged.runs.items():
        groups.setdefault((run.data, run.model, run.method), Counter())[status] += 1
    trouble = _seeds_by_trouble(arranged) if reasons else {}
    rows: list[tuple[Cell, ...]] = []
    for group, count in groups.items():
        rows.append((*group, count.total(), *(count[state] for state in states)))
    counts = sum(groups.values(), Counter[str]())
    notes: list[str] = []
    if counts["diverged"]:
        notes.append("A diverged run is scored as it is and counts in every mean.")
    waiting = len(arranged.runs) - sum(counts[state] for state in (*_DONE, "failed"))
    if waiting:
        notes.append(
            f"{waiting} of {len(arranged.runs)} runs are not done: these tables are of what is"
            " there so far."
        )
    notes += [
        f"{text} (seed {', '.join(seeds)})"
        for text, seeds in list(trouble.items())[:_REASONS_SHOWN]
    ]
    if len(trouble) > _REASONS_SHOWN:
        notes.append(
            f"and {len(trouble) - _REASONS_SHOWN} more kinds of failure that are not shown here."
        )
    columns = ("data", "model", "method", "runs", *states)
    return ReportTable("runs", "Runs", columns, rows, notes, keys=3)


MAX_LISTED = 2_000
"""Runs that a page lists one by one; of a larger study nobody would look for one there."""
_RUN_AXES = ("data", "size", "model", "shift", "method", "point", "seed", "split_seed")
_KEY_LETTERS = 10


def each_run_table(
    runs: Sequence[Mapping[str, Any]], accuracies: Mapping[tuple[str, ...], float]
) -> ReportTable | None:
    """A row a run: what names it, its state, its accuracy as a share and the beginning of its key.

    `accuracies`: by data, size, model, shift, method and seed. None without runs and of a study with
    more than `MAX_LISTED`.
    """
    if not runs or len(runs) > MAX_LISTED:
        return None
    labels = [run["labels"] for run in runs]
    axes = [axis for axis in _RUN_AXES if _is_listed(axis, labels)]
    rows: list[dict[str, Cell]] = []
    for run in runs:
        names = run["labels"]
        sought = tuple(str(names.get(axis) or "") for axis in _RUN_AXES[:5])
        rows.append(
            {
                **{axis: str(names.get(axis, "")) for axis in axes},
                "state": str(run["status"]),
                "accuracy": accuracies.get((*sought, str(names.get("seed", "")))),
                "key": str(run["key"])[:_KEY_LETTERS],
            }
        )
    notes = ("crosswind show run STORE#KEY tells everything of one run.",)
    return ReportTable.of("each-run", "Every run", rows, notes, keys=len(axes))


def _is_listed(axis: str, labels: Sequence[Mapping[str, Any]]) -> bool:
    """Whether runs differ in an axis, or are always named by it."""
    values = {str(names.get(axis) or "") for names in labels}
    return axis in ("shift", "method", "seed") or len(values) > 1


def _seeds_by_trouble(arranged: Results) -> dict[str, list[str]]:
    """The seeds that failed or diverged, by where they did and why."""
    several_splits = len({run.split_seed for run in arranged.runs}) > 1
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for run, (status, reason) in arranged.runs.items():
        if status in ("diverged", "failed"):
            axes = (run.data, run.shift, run.size, run.model, run.method, run.point)
            where = ", ".join(filter(None, axes))
            why = one_line(reason) or "no reason recorded"
            seed = str(Seeds(run.split_seed, run.seed) if several_splits else run.seed)
            groups.setdefault((status, where, root_reason(why)), []).append((seed, why))
    return {
        f"{status}: {where}: {shared_reason(why for _, why in group)}": [seed for seed, _ in group]
        for (status, where, _), group in groups.items()
    }


def trouble_table(runs: Iterable[Mapping[str, Any]]) -> ReportTable | None:
    """The failed and diverged runs with their reasons, equal ones of several seeds in one row; None
    where there is none."""
    names = ("data", "shift", "size", "model", "method", "point")
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        if run["status"] in ("failed", "diverged"):
            where = [str(run["labels"].get(name) or "") for name in names]
            groups.setdefault((run["status"], *where, root_reason(_trouble(run))), []).append(run)
    labels = [run["labels"] for group in groups.values() for run in group]
    several_splits = len({run_labels.get("split_seed", 0) for run_labels in labels}) > 1
    rows: list[dict[str, Cell]] = []
    for (status, *where, _), group_runs in groups.items():
        seeds = ", ".join(_seed_words(run, several_splits) for run in group_runs)
        axes = {name: value or None for name, value in zip(names, where, strict=True)}
        first_key = str(group_runs[0]["key"])[:10]
        reason = shared_reason(map(_trouble, group_runs))
        cells = {"seeds": seeds, "reason": reason, "key of the first": first_key}
        rows.append({"status": status, **axes, **cells})
    notes = [
        "A diverged run is scored as it is and counts in every mean; a failed run has no score."
    ]
    if len(rows) > _TROUBLE_SHOWN:
        notes.append(
            f"{len(rows) - _TROUBLE_SHOWN} more kinds are not shown here; `crosswind status` names"
            " them."
        )
    if not rows:
        return None
    return ReportTable.of("trouble", "Runs that failed or diverged", rows[:_TROUBLE_SHOWN], notes)


def _trouble(run: Mapping[str, Any]) -> str:
    """Why a run failed or diverged, in one line: its reason, else its first warning."""
    first_warning = next(iter(run.get("warnings") or []), "")
    return one_line(str(run["reason"] or first_warning or "no reason recorded"))


def _seed_words(run: Mapping[str, Any], several_splits: bool) -> str:
    """The seed of a run, with its split seed where there are several."""
    labels = run["labels"]
    return str(Seeds(labels["split_seed"], labels["seed"]) if several_splits else labels["seed"])


def warning_table(runs: Iterable[Mapping[str, Any]]) -> ReportTable | None:
    """The warnings of runs, most frequent first, and in how many runs; None where there is
    nothing."""
    runs_by_text: Counter[Any] = Counter()
    for run in runs:
        runs_by_text.update(list(dict.fromkeys(run.get("warnings") or [])))
    counts: Counter[str] = Counter()
    for text, n_runs in runs_by_text.items():
        counts[one_line(str(text))] += n_runs
    n_hidden = len(counts) - _WARNINGS_SHOWN
    notes = (f"{n_hidden} more are not shown.",) if n_hidden > 0 else ()
    rows = [{"warning": text, "runs": count} for text, count in counts.most_common(_WARNINGS_SHOWN)]
    return ReportTable.of("warnings", "Warnings of runs", rows, notes) if rows else None


# -- where the time went ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """The cost of the runs of one method, over those that are done.

    `mean`, `least`, `most`: seconds of a run. `shares`: of the seconds by part, empty where no run
    recorded all of them; `validation`: that of validations, a part of evaluation.
    `images_per_second`: mean over runs. `memory`: the largest peak in bytes, `own` where it is that
    of the runs and not of their workers' whole lives.
    """

    data: str
    model: str
    method: str
    runs: int
    mean: float
    least: float
    most: float
    shares: Mapping[str, float]
    validation: float
    images_per_second: float | None
    memory: float | None
    own: bool

    @property
    def worked_seconds(self) -> float:
        """Mean seconds of a run without start-up, which a worker's first run pays for all."""
        return self.mean * (1 - self.shares.get("prepare", 0.0))


def costs(runs: Iterable[Mapping[str, Any]]) -> list[Cost]:
    """Cost of the runs that were done, by data, model and method, in the order of the plan."""
    groups: dict[tuple[str, str, str], list[tuple[float, Mapping[str, Any]]]] = {}
    for run in runs:
        cost, labels = run.get("cost") or {}, run["labels"]
        if run["status"] not in _DONE:
            continue
        # All tries of a run, where it recorded that, else what the last one took.
        took = _numbers((cost.get("total_seconds"), run.get("seconds")))
        if took:
            kind = (str(labels["data"]), str(labels["model"]), str(labels["method"]))
            groups.setdefault(kind, []).append((took[0], cost))
    return [_cost(kind, *zip(*group_costs, strict=True)) for kind, group_costs in groups.items()]


def _cost(
    kind: tuple[str, str, str], seconds: Sequence[float], run_costs: Sequence[Mapping[str, Any]]
) -> Cost:
    column = columns_of(run_costs)
    speeds = _numbers(column("images_per_second"))
    peaks = column("peak_memory_bytes")
    own_peaks = _numbers(
        peak
        for peak, is_own in zip(peaks, column("peak_memory_of_run"), strict=True)
        if is_own == 1
    )
    totals = column("total_seconds")
    parts = {part_name: column(f"{part_name}_seconds") for part_name in PARTS}
    recorded = [
        row
        for row, (total, *part_seconds) in enumerate(zip(totals, *parts.values(), strict=True))
        if _accounted(total, part_seconds)
    ]

    def recorded_sum(values: Sequence[Any]) -> float:
        return math.fsum(_numbers(values[row] for row in recorded))

    shares: dict[str, float] = {}
    validation = 0.0
    if recorded:
        total = recorded_sum(totals)
        shares = {part_name: recorded_sum(parts[part_name]) / total for part_name in PARTS}
        validation = recorded_sum(column("validation_seconds")) / total
    return Cost(
        *kind,
        runs=len(seconds),
        mean=math.fsum(seconds) / len(seconds),
        least=min(seconds),
        most=max(seconds),
        shares=shares,
        validation=validation,
        images_per_second=math.fsum(speeds) / len(speeds) if speeds else None,
        memory=max(own_peaks or _numbers(peaks), default=None),
        own=bool(own_peaks),
    )


def _numbers(values: Iterable[Any]) -> list[float]:
    """Those of `values` that are finite numbers and not negative: a damaged store may hold
    anything."""
    return [
        float(value)
        for value in values
        # Two types in a tuple: a union is asked in twice the time.
        if isinstance(value, (int, float)) and 0 <= value < math.inf
    ]


def _accounted(total: Any, part_seconds: Iterable[Any]) -> bool:
    """Whether the parts of a run make up its total."""
    seconds = sum(_numbers((total,)))
    return seconds > 0 and abs(math.fsum(_numbers(part_seconds)) - seconds) <= 0.001 * seconds


def largest_part(run_costs: Sequence[Cost]) -> str:
    """One sentence: what most of the time went on, and what to do about it where it is not the
    step. Empty where it is unknown."""
    total = math.fsum(run_cost.mean * run_cost.runs for run_cost in run_costs)
    if not total or not all(run_cost.shares for run_cost in run_costs):
        return ""
    sums: dict[str, float] = {}
    for part_name in PARTS:
        seconds = (
            run_cost.shares[part_name] * run_cost.mean * run_cost.runs for run_cost in run_costs
        )
        sums[part_name] = math.fsum(seconds) / total
    part_name = max(sums, key=lambda name: sums[name])
    share = sums[part_name]
    if part_name == "evaluation":
        seconds = (run_cost.validation * run_cost.mean * run_cost.runs for run_cost in run_costs)
        validation = math.fsum(seconds) / total
        if validation > share / 2:
            part_name, share = "validation", validation
    how_much = "Most" if share > 0.5 else "The largest part"
    return f"{how_much} of the time, {share:.0%}, went on {_LARGEST[part_name]}."


def time_table(run_costs: Sequence[Cost], sentence: bool = True) -> ReportTable | None:
    """A row a data set, model and method: seconds, shares of them in percent, rows a second, MiB;
    None without runs.

    `sentence`: with `largest_part` below it.
    """
    if not run_costs:
        return None
    rows = [_cost_row(run_cost) for run_cost in run_costs]
    largest = largest_part(run_costs) if sentence else ""
    notes = [
        *([largest] if largest else []),
        (
            "Seconds of the clock of the runs that are done, from the start of a run to its end, in"
            " all its tries; they depend on the machine and on what else it did."
        ),
        (
            "Data: making batches. Step: forward, backward, optimiser. Evaluation: validations and"
            " final predictions. Waiting: the loop stood still, for inputs, for another worker or"
            " for a checkpoint to reach the disk. Start-up: libraries, data set, split, model."
            " Rows/s: training rows by the seconds of data, step and waiting."
        ),
        (
            "Peak memory: the most that the worker's process held during a run, with what it kept"
            " from before; on a GPU what was allocated there."
        ),
    ]
    if any(run_cost.memory is not None and not run_cost.own for run_cost in run_costs):
        notes[-1] += (
            " Where runs could not tell it, it is the most in their worker's whole life: an upper"
            " bound."
        )
    if not all(run_cost.shares for run_cost in run_costs):
        notes.append("A dash stands for what runs of an earlier version did not record.")
    return ReportTable.of("time", "Where the time went", rows, notes, keys=3)


def _cost_row(run_cost: Cost) -> dict[str, Cell]:
    """The cost of the runs of one method, a number a column."""
    row: dict[str, Cell] = picked(
        run_cost, data="data", model="model", method="method", runs="runs"
    )
    row |= {f"{name} s": f"{getattr(run_cost, name):.2f}" for name in ("mean", "least", "most")}
    row["sum h"] = f"{run_cost.mean * run_cost.runs / 3600:.3f}"
    for part_name, name in PARTS.items():
        share = run_cost.shares[part_name] if run_cost.shares else None
        row[f"{name} %"] = None if share is None else f"{100 * share:.1f}"
    speed, memory = run_cost.images_per_second, run_cost.memory
    row["rows/s"] = None if speed is None else f"{speed:.0f}"
    row["peak MiB"] = None if memory is None else f"{memory / 2**20:.0f}"
    return row
