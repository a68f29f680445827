"""Where the time of a study's runs went: seconds by what they went on, images a second, memory; and what could be done about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosswind.reports.layout import Cell
from crosswind.reports.tables import Table

__all__ = ["PARTS", "Cost", "costs", "said_of", "time_table", "time_tables"]

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
    "data": "making batches: augmentation, and attributes derived with mode: per-visit, are done anew at each step",
    "waiting": "waiting, for pixels that do not fit in memory, for another worker or for the disk: a larger "
    "training.checkpoint_every writes fewer checkpoints",
    "prepare": "start-up, as the runs are short: each worker loads its libraries once, so fewer workers (--workers) or more runs "
    "to a study pay it less often",
    "other": "other things than training and evaluation, such as scores and files",
    "validation": "validation: validate less often (training.validate_every)",
    "evaluation": "evaluation, most of it of the final predictions: fewer test rows (roles, sets) take less",
}


@dataclass(frozen=True)
class Cost:
    """What the runs of one method took, over those that are done.

    `mean`, `least`, `most`: seconds of a run. `shares` of the seconds by part, None where the runs did not record it; `validation`
    that of validations, a part of evaluation. `images_per_second`: mean over runs. `memory`: the largest peak in bytes, `own` where
    it is that of the runs and not of their workers' whole lives.
    """

    data: str
    model: str
    method: str
    runs: int
    mean: float
    least: float
    most: float
    shares: Mapping[str, float | None]
    validation: float | None
    images_per_second: float | None
    memory: float | None
    own: bool

    @property
    def complete(self) -> bool:
        """Whether all of the seconds are accounted for."""
        return all(share is not None for share in self.shares.values())


def costs(runs: Iterable[Mapping[str, Any]]) -> list[Cost]:
    """Cost of the runs that were done, by data, model and method, in the order of the plan."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for run in runs:
        if run["status"] in ("finished", "diverged") and _seconds(run) is not None:
            labels = run["labels"]
            groups.setdefault((str(labels["data"]), str(labels["model"]), str(labels["method"])), []).append(run)
    return [_cost(kind, some) for kind, some in groups.items()]


def _cost(kind: tuple[str, str, str], runs: Sequence[Mapping[str, Any]]) -> Cost:
    seconds = [found for run in runs if (found := _seconds(run)) is not None]
    given = [run.get("cost") or {} for run in runs]
    speeds = [value for cost in given if (value := _number(cost.get("images_per_second"))) is not None]
    own = [cost for cost in given if cost.get("peak_memory_of_run") == 1 and _number(cost.get("peak_memory_bytes")) is not None]
    memory = [value for cost in own or given if (value := _number(cost.get("peak_memory_bytes"))) is not None]
    # Runs of one group by several versions: those that account for all of their seconds tell what the others do not.
    told = [cost for cost in given if _accounted(cost)] or [cost for cost in given if _accounted(cost, some=True)]
    return Cost(
        *kind,
        len(runs),
        math.fsum(seconds) / len(seconds),
        min(seconds),
        max(seconds),
        {part: _share(told, part) for part in PARTS},
        _share(told, "validation"),
        math.fsum(speeds) / len(speeds) if speeds else None,
        max(memory, default=None),
        bool(own),
    )


def _seconds(run: Mapping[str, Any]) -> float | None:
    """All tries of a run, where it recorded that, else what the last one took."""
    found = _number((run.get("cost") or {}).get("total_seconds"))
    return found if found is not None else _number(run.get("seconds"))


def _number(value: Any) -> float | None:
    # A damaged store may hold anything.
    return float(value) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else None


def _accounted(cost: Mapping[str, Any], some: bool = False) -> bool:
    """Whether the parts of a run make up its total; with `some`, whether those that it recorded fit into it."""
    total = _number(cost.get("total_seconds"))
    parts = [_number(cost.get(f"{part}_seconds")) for part in PARTS]
    if not total or (None in parts and not some):
        return False
    claimed = math.fsum(part for part in parts if part is not None)
    # A run of an earlier version that went on from a checkpoint has parts of all tries and the total of the last one.
    return claimed <= total * 1.001 if some else abs(claimed - total) <= 0.001 * total


def _share(told: Sequence[Mapping[str, Any]], part: str) -> float | None:
    found = [(value, float(cost["total_seconds"])) for cost in told if (value := _number(cost.get(f"{part}_seconds"))) is not None]
    return math.fsum(value for value, _ in found) / math.fsum(total for _, total in found) if found else None


def said_of(items: Sequence[Cost]) -> str:
    """One sentence: what most of the time went on, and what to do about it where it is not the step. Empty where it is unknown."""
    known = [item for item in items if item.complete]
    total = math.fsum(item.mean * item.runs for item in known)
    if not total or len(known) < len(items):
        return ""
    sums = {part: math.fsum((item.shares[part] or 0.0) * item.mean * item.runs for item in known) / total for part in PARTS}
    part = max(sums, key=lambda name: sums[name])
    about, share = part, sums[part]
    if part == "evaluation":
        validation = math.fsum((item.validation or 0.0) * item.mean * item.runs for item in known) / total
        if validation > share / 2:
            about, share = "validation", validation
    return f"{'Most' if share > 0.5 else 'The largest part'} of the time, {share:.0%}, went on {_LARGEST[about]}."


def time_tables(runs: Iterable[Mapping[str, Any]]) -> list[Table]:
    """The table of these runs, if any is done."""
    items = costs(runs)
    return [time_table(items)] if items else []


def time_table(items: Sequence[Cost], sentence: bool = True) -> Table:
    """A row a data set, model and method: seconds, shares of them in percent, images a second, MiB; `sentence`: with `said_of`."""
    rows: list[tuple[Cell, ...]] = [
        (
            *(item.data, item.model, item.method, item.runs),
            *(f"{value:.2f}" for value in (item.mean, item.least, item.most)),
            f"{item.mean * item.runs / 3600:.3f}",
            *(None if share is None else f"{100 * share:.1f}" for share in item.shares.values()),
            None if item.images_per_second is None else f"{item.images_per_second:.0f}",
            None if item.memory is None else f"{item.memory / 2**20:.0f}",
        )
        for item in items
    ]
    notes = [
        "Seconds of the clock of the runs that are done, from the start of a run to its end, in all its tries; they depend on the "
        "machine and on what else it did.",
        "Data: making batches. Step: forward, backward, optimiser. Evaluation: validations and final predictions. Waiting: the "
        "loop stood still, for pixels, for another worker or for a checkpoint to reach the disk. Start-up: libraries, data set, "
        "split, model. Images/s: training images by the seconds of data, step and waiting.",
        "Peak memory: the most that the worker's process held during a run, with what it kept from before; on a GPU what was "
        "allocated there.",
    ]
    if any(item.memory is not None and not item.own for item in items):
        notes[-1] += " Where runs could not tell it, it is the most in their worker's whole life: an upper bound."
    if not all(item.complete for item in items):
        notes.append("A dash stands for what runs of an earlier version did not record.")
    said = said_of(items) if sentence else ""
    columns = ("data", "model", "method", "runs", "mean s", "least s", "most s", "sum h", *(f"{name} %" for name in PARTS.values()))
    title = "Where the time went"
    return Table("time", title, (*columns, "images/s", "peak MiB"), tuple(rows), (*([said] if said else []), *notes), keys=3)
