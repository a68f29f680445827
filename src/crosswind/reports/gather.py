"""What a page is about, read from a store once: results in order, costs, the draws of the shifts, versions. Nothing is drawn here.

Of each draw (one data set, shift and size) the cells of one run are read, the first of the plan that has them: a study of many
runs has few draws, and a page does not grow with the number of its runs.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import StoreError, one_line, shown
from crosswind.reports.claims import Judgement, claim_table, judge
from crosswind.reports.costs import time_tables
from crosswind.reports.results import Place, Results, arrange
from crosswind.reports.tables import Table, place_tables, run_table, shown_places
from crosswind.studies.artifacts import artifact_folder

if TYPE_CHECKING:
    from crosswind.studies.store import Store

__all__ = ["CellCount", "SetDraw", "ShiftDraw", "StudyRecord", "damage_named", "gather", "no_collection"]

REPORT = "split.json"
MAX_DRAWS = 200
"""Draws that are shown; more of them nobody reads, and the page would grow."""


@dataclass(frozen=True)
class CellCount:
    """Rows of one value of the label and one of an attribute: planned by the weights, and realised."""

    label: str
    value: str
    planned: float
    realised: int


@dataclass(frozen=True)
class SetDraw:
    """One set of a draw: its rows, the rows of its supplements, and its cells summed to label x attribute, by attribute.

    Values are in the order in which the data set lists them, as far as the cells that the set reached show it.
    """

    rows: int
    supplement_rows: int
    short_cells: int
    tables: Mapping[str, Sequence[CellCount]]


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


@dataclass(frozen=True)
class StudyRecord:
    """One study of a store, ready to be shown. `draws_left_out` draws are over `MAX_DRAWS` or without files of their own.

    `damaged`: what is wrong with files, by run; those that were read here by their bytes, the others by their sizes.
    """

    name: str
    given: Mapping[str, Any]
    resolved: Mapping[str, Any]
    created: float
    found: Results
    runs: Sequence[Mapping[str, Any]]
    draws: Sequence[ShiftDraw]
    draws_left_out: int
    versions: Sequence[tuple[Mapping[str, str], int]]
    damaged: Mapping[str, list[str]]

    @property
    def reference(self) -> str:
        """The method that others are compared with."""
        return str(self.resolved["reference"])

    @property
    def rules(self) -> list[str]:
        """The selection rules that the study asked for."""
        return [str(rule) for rule in self.resolved["selection"]]

    @cached_property
    def tables(self) -> dict[Place, dict[str, Table]]:
        """The tables of every place that is shown, by what they are about; made once, for the text and for the page."""
        return {place: place_tables(self.found, place, self.reference) for place in shown_places(self.found, self.rules)}

    @cached_property
    def claims(self) -> list[Judgement]:
        """The study's claims, judged."""
        return judge(self.found, self.resolved)

    def text_tables(self) -> list[Table]:
        """The tables that are printed: those of the places, the claims, where the time went, and the state of the runs."""
        places = [table for tables in self.tables.values() for table in tables.values()]
        claims = claim_table(self.name, self.claims)
        return [*places, *([claims] if claims is not None else []), *time_tables(self.runs), run_table(self.found)]


def gather(store: Store, study: str) -> StudyRecord:
    """Read one study. Raises `StoreError`; files of runs that are gone or damaged only leave their draw out."""
    with no_collection(), damage_named(store.name, study):
        return _gather(store, study)


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage inside."""
    # Hundreds of thousands of values that all stay: looking for garbage among them again and again takes as long as reading them.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def damage_named(store: str, study: str) -> Iterator[None]:
    """Raise `StoreError` for what a study that was planned and run does not hold: a store may have been edited or damaged."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        told = f"{type(error).__name__}: {one_line(str(error), 200)}"
        raise StoreError(f"{store} is damaged: the study {shown(study)} cannot be put in tables: {told}") from error


def _gather(store: Store, study: str) -> StudyRecord:
    entry = store.study(study)
    runs = store.runs(study)
    # Runs that others only start from are no rows of a table; if one fails, those that need it say so.
    base = {run["key"] for run in runs if run["labels"].get("role") == "base"}
    results = [row for row in store.results(study, without=("groups",), runs=runs) if row["key"] not in base]
    draws, left_out, damaged = _draws(store, study, entry["resolved"], [run for run in runs if run["key"] not in base])
    versions = store.versions(study)
    return StudyRecord(
        study, entry["given"], entry["resolved"], entry["created"], arrange(results), runs, draws, left_out, versions, damaged
    )


def _draws(
    store: Store, study: str, resolved: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]
) -> tuple[list[ShiftDraw], int, dict[str, list[str]]]:
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
    left_out = 0
    for position, ((data, shift, size), some) in enumerate(candidates.items()):
        done = [run for run in some if run["status"] in ("finished", "diverged")]
        if position >= MAX_DRAWS or not done:
            left_out += 1
            continue
        key = done[0]["key"]
        listed = files.get(key)
        if listed is not None and key not in damaged:
            found = store.faults(key, {name: entry for name, entry in listed.items() if name == REPORT}, read=True)
            damaged.update({key: found} if found else {})
        draw = None if key in damaged else _read(artifact_folder(out, key) / REPORT, resolved["data"].get(data, {}))
        if draw is None:
            left_out += 1
            continue
        label, train, test, told = draw
        seed = int(done[0]["labels"]["seed"])
        draws.append(ShiftDraw(data, shift, size, seed, label, train, test, tuple(told["notes"]), tuple(told["warnings"])))
    return draws, left_out, damaged


def _read(path: Path, data: Mapping[str, Any]) -> tuple[str, SetDraw, SetDraw | None, dict[str, list[str]]] | None:
    try:
        label, listed = str(data["label"]), data["attributes"]
        attributes = list(dict.fromkeys(map(str, listed.values() if isinstance(listed, Mapping) else listed)))
        report = json.loads(path.read_text(encoding="utf-8"))
        sets = report["sets"]
        told = {name: [str(line) for line in report.get(name, [])] for name in ("notes", "warnings")}
        train = _set_draw(sets["train"], label, attributes)
        tests = [entry for name, entry in sets.items() if name == "test"]
        # A set from another source may lack the attributes; then only the training rows are drawn.
        test = _set_draw(tests[0], label, attributes) if tests else None
    except (OSError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    return None if train is None else (label, train, test, told)


def _set_draw(entry: Mapping[str, Any], label: str, attributes: Sequence[str]) -> SetDraw | None:
    # Values may hold commas themselves; the names of the attributes are known, so they are what is looked for.
    present = [name for name in attributes if f", {name}=" in next(iter(entry["cells"]), "")]
    pattern = re.compile(", ".join(f"{re.escape(name)}=(.*)" for name in (label, *present)))
    sums: dict[str, dict[tuple[str, str], list[float]]] = {name: {} for name in present}
    for cell, count in entry["cells"].items():
        match = pattern.match(cell)
        if match is None:
            return None
        for name, value in zip(present, match.groups()[1:], strict=True):
            pair = sums[name].setdefault((match.group(1), value), [0.0, 0])
            pair[0] += _counted(count["planned"])
            pair[1] += _counted(count["realised"])
    tables = {
        name: tuple(CellCount(key, value, round(pair[0], 3), int(pair[1])) for (key, value), pair in cells.items())
        for name, cells in sums.items()
    }
    drawn = sum(int(item["drawn"]) for item in entry.get("supplements", ()))
    return SetDraw(int(entry["rows"]), drawn, len(entry.get("short", ())), tables) if tables else None


def _counted(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r} is not a number of rows")
    return value
