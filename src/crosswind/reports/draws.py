"""What a shift drew of a data set: planned and realised rows by label and attribute, read from the `split.json` of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import StoreError
from crosswind.reports.tables import Table
from crosswind.studies.artifacts import artifact_folder

if TYPE_CHECKING:
    from crosswind.studies.store import Store

REPORT = "split.json"
MAX_DRAWS = 200
"""Draws that are shown; more of them nobody reads, and the page would grow."""

Cells = Mapping[tuple[str, str], tuple[float, int]]
"""Rows planned by the weights and rows realised, by value of the label and value of an attribute."""


@dataclass(frozen=True)
class SetDraw:
    """One set of a draw: its rows, the rows of its supplements, and its cells summed to label x attribute, by attribute.

    Values are in the order in which the data set lists them, as far as the cells that the set reached show it.
    """

    rows: int
    supplement_rows: int
    short_cells: int
    tables: Mapping[str, Cells]


@dataclass(frozen=True)
class ShiftDraw:
    """What one shift made of one data set at one size, as the run of `seed` had it. `label` names the label's attribute."""

    data: str
    shift: str
    size: str
    seed: int
    label: str
    train: SetDraw
    test: SetDraw | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def read_draws(
    store: Store, study: str, resolved: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]
) -> tuple[list[ShiftDraw], int, dict[str, list[str]]]:
    """The draws of a study, the number of those left out, and what is wrong with files, by run.

    Of each draw the first run of the plan that is done is read. A draw is left out where no run is done, where its file is gone or
    damaged, and beyond `MAX_DRAWS`.
    """
    candidates: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for run in runs:
        labels = run["labels"]
        candidates.setdefault((str(labels["data"]), str(labels["shift"]), str(labels["size"])), []).append(run)
    try:
        out = store.out
    except StoreError:  # a database without its folder: everything but the draws can be shown
        return [], len(candidates), {}
    files, damaged = store.files(study), store.damaged(study)
    draws: list[ShiftDraw] = []
    for (data, shift, size), some in list(candidates.items())[:MAX_DRAWS]:
        done = [run for run in some if run["status"] in ("finished", "diverged")]
        if not done:
            continue
        key, seed = str(done[0]["key"]), int(done[0]["labels"]["seed"])
        if key not in damaged and (listed := files.get(key)) is not None:
            faults = store.faults(key, {name: entry for name, entry in listed.items() if name == REPORT}, read=True)
            damaged.update({key: faults} if faults else {})
        if key not in damaged:
            draw = _read(artifact_folder(out, key) / REPORT, data, shift, size, seed, resolved["data"].get(data, {}))
            draws += [draw] if draw else []
    return draws, len(candidates) - len(draws), damaged


def _read(path: Path, data: str, shift: str, size: str, seed: int, entry: Mapping[str, Any]) -> ShiftDraw | None:
    try:
        label, listed = str(entry["label"]), entry["attributes"]
        attributes = list(dict.fromkeys(map(str, listed.values() if isinstance(listed, Mapping) else listed)))
        report = json.loads(path.read_text(encoding="utf-8"))
        notes, warnings = (tuple(str(line) for line in report.get(name, [])) for name in ("notes", "warnings"))
        train = _set_draw(report["sets"]["train"], label, attributes)
        # A set from another source may lack the attributes; then only the training rows are drawn.
        test = _set_draw(report["sets"]["test"], label, attributes) if "test" in report["sets"] else None
    except (OSError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    return None if train is None else ShiftDraw(data, shift, size, seed, label, train, test, notes, warnings)


def _set_draw(entry: Mapping[str, Any], label: str, attributes: Sequence[str]) -> SetDraw | None:
    # Values may hold commas themselves; the names of the attributes are known, so they are what is looked for.
    present = [name for name in attributes if f", {name}=" in next(iter(entry["cells"]), "")]
    pattern = re.compile(", ".join(f"{re.escape(name)}=(.*)" for name in (label, *present)))
    sums: dict[str, dict[tuple[str, str], tuple[float, int]]] = {name: {} for name in present}
    for cell, count in entry["cells"].items():
        match = pattern.match(cell)
        if match is None:
            return None
        for name, value in zip(present, match.groups()[1:], strict=True):
            pair = (match.group(1), value)
            planned, realised = sums[name].get(pair, (0.0, 0))
            sums[name][pair] = (planned + _counted(count["planned"]), realised + int(_counted(count["realised"])))
    tables = {name: {pair: (round(planned, 3), n) for pair, (planned, n) in cells.items()} for name, cells in sums.items()}
    supplements = sum(int(item["drawn"]) for item in entry.get("supplements", ()))
    return SetDraw(int(entry["rows"]), supplements, len(entry.get("short", ())), tables) if tables else None


def _counted(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r} is not a number of rows")
    return value


def cell_tables(drawn: SetDraw, label: str) -> list[Table]:
    """Planned and realised rows of a set, one table an attribute: a row a value of the label, a column a value of the attribute."""
    out = []
    for attribute, cells in drawn.tables.items():
        labels, values = (list(dict.fromkeys(pair[side] for pair in cells)) for side in (0, 1))
        rows = tuple((name, *("{:g} / {}".format(*cells.get((name, value), (0, 0))) for value in values)) for name in labels)
        title = f"Rows by {label} and {attribute}: planned / realised"
        out.append(Table(f"cells-{attribute}", title, (label, *(f"{attribute}={value}" for value in values)), rows))
    return out
