"""What a report is about, read from a store once: results in order, the draws of the shifts,
versions; and its tables.

A draw is what a shift made of a data set: planned and realised rows by label and attribute, from
the `split.json` of a run.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crosswind.core import html
from crosswind.core.errors import StoreError, one_line, plain, shown
from crosswind.core.exhibits import FILE, Exhibit, read_exhibits
from crosswind.reports.claims.claim_tables import claim_number_table, claim_table
from crosswind.reports.claims.findings import Findings, find
from crosswind.reports.claims.judgements import Judgement, judge
from crosswind.reports.claims.robustness import scored_results
from crosswind.reports.claims.verdicts import Verdicts, by_place
from crosswind.reports.pools.judged_pools import Judged
from crosswind.reports.pools.networks import pools_of
from crosswind.reports.prompts.scores import Asked, asked_of, prompt_tables
from crosswind.reports.rows.answers import Behind, rows_behind
from crosswind.reports.runs.actions import action_table
from crosswind.reports.runs.tables import Cost, costs, run_table, time_table
from crosswind.reports.scores.results import Place, PlaceResults, Results, arrange
from crosswind.reports.scores.tables import estimate_table, number_table, overview, place_tables
from crosswind.reports.tables import ReportTable
from crosswind.studies.artifacts import artifact_folder
from crosswind.studies.store import DONE

if TYPE_CHECKING:
    from crosswind.studies.store import Store

REPORT = "split.json"
MAX_DRAWS = 200
"""Draws that are shown; more of them nobody reads, and the page would grow."""

MAX_EXHIBITS = 60
"""Runs whose exhibits are shown."""

Cells = Mapping[tuple[str, str], tuple[float, int]]
"""Rows planned by the weights and rows realised, by value of the label and value of an attribute.
"""


@dataclass(frozen=True)
class SetDraw:
    """One set of a draw: its rows, the rows of its supplements, and its cells summed to label x
    attribute, by attribute.

    Values are in the order in which the data set lists them, as far as the cells that the set
    reached show it.
    """

    rows: int
    supplement_rows: int
    short_cells: int
    tables: Mapping[str, Cells]


@dataclass(frozen=True)
class ShiftDraw:
    """What one shift made of one data set at one size, as the run of `seed` had it. `label` names
    the label's attribute."""

    data: str
    shift: str
    size: str
    seed: int
    label: str
    train: SetDraw
    test: SetDraw | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


class ShownTables(NamedTuple):
    """What one run left to be looked at."""

    data: str
    size: str
    model: str
    shift: str
    method: str
    seed: int
    exhibits: Mapping[str, Exhibit]


@dataclass(frozen=True)
class StudyRecord:
    """One study of the store called `store`, ready to be shown. `draws_left_out` draws are too many
    or without files of their own.

    `damaged`: what is wrong with files, by run; those that were read here by their bytes, the
    others by their sizes.
    """

    store: str
    name: str
    given: Mapping[str, Any]
    resolved: Mapping[str, Any]
    created: float
    found: Results
    runs: Sequence[Mapping[str, Any]]
    versions: Sequence[tuple[Mapping[str, str], int]]
    draws: Sequence[ShiftDraw]
    draws_left_out: int
    damaged: Mapping[str, list[str]]
    exhibits: Sequence[ShownTables] = ()
    behind: Behind = field(default_factory=Behind)

    @property
    def reference(self) -> str:
        """The method that others are compared with."""
        return str(self.resolved["reference"])

    @property
    def rules(self) -> list[str]:
        """The selection rules that the study asked for."""
        return [str(rule) for rule in self.resolved["selection"]]

    @cached_property
    def places(self) -> list[PlaceResults]:
        """The places that are shown."""
        return self.found.shown(self.rules)

    @cached_property
    def tables(self) -> dict[Place, dict[str, ReportTable]]:
        """The tables of every place that is shown, by what they are about; made once, for the text
        and for the page."""
        return {
            setting_results.place: place_tables(
                setting_results, self.verdicts[setting_results.place]
            )
            for setting_results in self.places
        }

    @cached_property
    def verdicts(self) -> Mapping[Place, Verdicts]:
        """Which methods' accuracies differ from the reference's, at every place that is shown."""
        return by_place(self.places, self.resolved)

    @cached_property
    def claims(self) -> list[Judgement]:
        """The study's claims, judged."""
        return judge(self.found, self.resolved)

    @cached_property
    def pools(self) -> list[Judged]:
        """The networks of the study as pools that its estimators are judged on; empty where they
        are too few."""
        with damage_named(self.store, self.name):
            return [Judged(pool) for pool in pools_of(self.places, self.resolved)]

    @cached_property
    def prompts(self) -> list[Asked]:
        """The prompts that the study compares, by size, test set and rule."""
        with damage_named(self.store, self.name):
            return asked_of(self.places, self.found.places, self.resolved)

    @cached_property
    def findings(self) -> Findings | None:
        """What the study found, in sentences; None where nothing can be compared."""
        with damage_named(self.store, self.name):
            return find(self.places, self.resolved, self.claims, self.runs)

    def to_text(self) -> str:
        """What is printed: the findings and two tables, of the first place; without findings every
        table."""
        tables = self.text_tables()
        if self.findings is None:
            return "\n\n".join(table.to_text() for table in tables)
        shown = overview(self.places[0])
        text = "\n".join([self.findings.to_text(), *(table.to_text(80) for table in shown)]).rstrip(
            "\n"
        )
        lines = [f"\nAll {len(tables)} tables: --tables all, or the page."]
        for status in ("failed", "diverged"):
            reasons = [reason for state, reason in self.found.runs.values() if state == status]
            reasons_told = "; ".join(filter(None, list(dict.fromkeys(map(plain, reasons)))[:3]))
            if reasons:
                lines.append(
                    f"{len(reasons)} of {len(self.found.runs)} runs"
                    f" {status}{reasons_told and f': {reasons_told}'}."
                )
        return "\n".join([text, *lines])

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """What a notebook shows: the findings and two tables, of the first place; without findings
        every table."""
        tables = self.text_tables() if self.findings is None else overview(self.places[0])
        html_parts = (
            [
                *(html.points(*answer) for answer in self.findings.question),
                html.line(self.findings.intro),
                *(html.points(*comparison) for comparison in self.findings.comparisons),
            ]
            if self.findings
            else []
        )
        return "".join(
            [
                *html_parts,
                *(html.table(table.title, table.columns, table.cells) for table in tables),
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """Findings and tables as plain values for JSON; scores are numbers."""
        findings_json = None if self.findings is None else self.findings.to_json()
        return {
            "study": self.name,
            "findings": findings_json,
            "tables": [table.to_json() for table in self.text_tables()],
        }

    def text_tables(self) -> list[ReportTable]:
        """Every table: those of the places, the claims, what methods did, where the time went, and
        the state of the runs."""
        return list(self._text_tables)

    @cached_property
    def run_costs(self) -> list[Cost]:
        """Cost of the runs that were done, by data, model and method."""
        return costs(self.runs)

    @cached_property
    def _text_tables(self) -> list[ReportTable]:
        with damage_named(self.store, self.name):
            all_tables = [table for tables in self.tables.values() for table in tables.values()]
            all_tables += [
                table for prompt_or_pool in self.prompts for table in prompt_tables(prompt_or_pool)
            ]
            all_tables += [
                table
                for prompt_or_pool in self.pools
                for pool_tables in prompt_or_pool.tables.values()
                for table in pool_tables
            ]
            study_tables = (
                claim_table(self.name, self.claims),
                action_table(self.found),
                time_table(self.run_costs),
                run_table(self.found),
            )
            return [*all_tables, *(table for table in study_tables if table is not None)]

    def number_tables(self, every: bool) -> list[ReportTable]:
        """The tidy table of every number; with `every` also those of the claims' numbers and of
        estimates, if there are any."""
        with damage_named(self.store, self.name):
            extra_tables = (
                (claim_number_table(self.name, self.claims), estimate_table(self.found, self.rules))
                if every
                else ()
            )
            pools = (
                [
                    table
                    for pool in self.pools
                    for table in (*pool.tables.get("claims", []), pool.numbers)
                ]
                if every
                else []
            )
            return [
                number_table(self.found, self.rules),
                *(table for table in extra_tables if table is not None),
                *pools,
            ]


def gather(store: Store, study: str, draws: bool = True) -> StudyRecord:
    """Read one study; without `draws` no file of a run is read. Raises `StoreError`; damaged files
    only leave their draw out."""
    with no_collection(), damage_named(store.name, study):
        entry, runs = store.study(study), store.runs(study)
        # Runs that others only start from are no rows of a table; if one fails, those that need it
        # say so.
        shown_runs = [run for run in runs if run["labels"].get("role") != "base"]
        scored = scored_results(store, study, entry["resolved"], shown_runs)
        arranged = arrange(scored, str(entry["resolved"]["reference"]))
        about = (
            entry["given"],
            entry["resolved"],
            entry["created"],
            arranged,
            runs,
            store.versions(study),
        )
        if not draws:
            return StudyRecord(store.name, study, *about, [], 0, store.damaged(study))
        read = _read_files(store, study, entry["resolved"], shown_runs)
        shown_results = arranged.shown([str(rule) for rule in entry["resolved"]["selection"]])
        return StudyRecord(
            store.name, study, *about, *read, rows_behind(store, study, shown_results, shown_runs)
        )


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage inside."""
    # Hundreds of thousands of values that all stay: looking for garbage among them again and again
    # takes as long as reading them.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def damage_named(store: str, study: str) -> Iterator[None]:
    """Raise `StoreError` for what a study that was planned and run does not hold: a store may have
    been edited or damaged."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        cause = f"{type(error).__name__}: {one_line(str(error), 200)}"
        raise StoreError(
            f"{store} is damaged: the study {shown(study)} cannot be put in tables: {cause}"
        ) from error


# -- files of runs ---------------------------------------------------------------------------------


def _read_files(
    store: Store, study: str, resolved: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]
) -> tuple[list[ShiftDraw], int, dict[str, list[str]], list[ShownTables]]:
    """The draws of a study, the number of those left out, what is wrong with files, by run, and
    exhibits.

    Of each draw the first run of the plan that is done is read. A draw is left out where no run is
    done, where its file is gone or damaged, and beyond `MAX_DRAWS`. Exhibits are those of the first
    run that has some of every data set, shift, size, model and method, at most `MAX_EXHIBITS`.
    """
    candidates: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        candidates.setdefault(_labels(run, "data", "shift", "size"), []).append(run)
    try:
        out = store.out
    except StoreError:  # a database without its folder: everything but what files hold can be shown
        return [], len(candidates), {}, []
    damaged = store.damaged(study)
    first_done = {
        named: done
        for named, draw_candidates in list(candidates.items())[:MAX_DRAWS]
        if (done := next((run for run in draw_candidates if run["status"] in DONE), None))
    }
    files = store.files_of(str(done["key"]) for done in first_done.values())
    draws: list[ShiftDraw] = []
    for named, done in first_done.items():
        key = str(done["key"])
        if key not in damaged and (listed := files.get(key)) is not None:
            faults = store.faults(
                key, {name: entry for name, entry in listed.items() if name == REPORT}, read=True
            )
            damaged.update({key: faults} if faults else {})
        if key not in damaged:
            seed, entry = int(done["labels"]["seed"]), resolved["data"].get(named[0], {})
            draw = _read_draw(artifact_folder(out, key) / REPORT, *named, seed=seed, entry=entry)
            draws += [draw] if draw else []
    exhibits: dict[tuple[str, ...], ShownTables] = {}
    with_exhibits = store.keys_with_file(study, FILE)
    for run in runs if with_exhibits else ():
        key, named = str(run["key"]), _labels(run, "data", "size", "model", "shift", "method")
        if (
            len(exhibits) < MAX_EXHIBITS
            and named not in exhibits
            and key not in damaged
            and key in with_exhibits
        ):
            # A damaged file leaves its exhibits out; `crosswind check` names it.
            data, size, model, shift, method = named
            with suppress(OSError, ValueError):
                exhibits_read = read_exhibits(artifact_folder(out, key))
                exhibits[named] = ShownTables(
                    data, size, model, shift, method, int(run["labels"]["seed"]), exhibits_read
                )
    return draws, len(candidates) - len(draws), damaged, list(exhibits.values())


def _labels(run: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    return tuple(str(run["labels"][name]) for name in names)


def _read_draw(
    path: Path, data: str, shift: str, size: str, *, seed: int, entry: Mapping[str, Any]
) -> ShiftDraw | None:
    try:
        label, listed = str(entry["label"]), entry["attributes"]
        attributes = list(
            dict.fromkeys(map(str, listed.values() if isinstance(listed, Mapping) else listed))
        )
        report = json.loads(path.read_text(encoding="utf-8"))
        notes, warnings = (
            tuple(str(line) for line in report.get(name, [])) for name in ("notes", "warnings")
        )
        train = _set_draw(report["sets"]["train"], label, attributes)
        # A set from another source may lack the attributes; then only the training rows are drawn.
        test = (
            _set_draw(report["sets"]["test"], label, attributes)
            if "test" in report["sets"]
            else None
        )
    except (
        OSError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ):
        return None
    return (
        None
        if train is None
        else ShiftDraw(data, shift, size, seed, label, train, test, notes, warnings)
    )


def _set_draw(entry: Mapping[str, Any], label: str, attributes: Sequence[str]) -> SetDraw | None:
    # Values may hold commas themselves; the names of the attributes are known, so they are what is
    # looked for.
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
            sums[name][pair] = (
                planned + _counted(count["planned"]),
                realised + int(_counted(count["realised"])),
            )
    tables = {
        name: {pair: (round(planned, 3), n) for pair, (planned, n) in cells.items()}
        for name, cells in sums.items()
    }
    supplements = sum(int(supplement["drawn"]) for supplement in entry.get("supplements", ()))
    return (
        SetDraw(int(entry["rows"]), supplements, len(entry.get("short", ())), tables)
        if tables
        else None
    )


def _counted(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r} is not a number of rows")
    return value


def cell_tables(drawn: SetDraw, label: str) -> list[ReportTable]:
    """Planned and realised rows of a set, one table an attribute: a row a value of the label, a
    column a value of the attribute."""
    out = []
    for attribute, cells in drawn.tables.items():
        labels, values = (list(dict.fromkeys(pair[side] for pair in cells)) for side in (0, 1))
        rows = [
            [name, *("{:g} / {}".format(*cells.get((name, value), (0, 0))) for value in values)]
            for name in labels
        ]
        title = f"Rows by {label} and {attribute}: planned / realised"
        out.append(
            ReportTable(
                f"cells-{attribute}",
                title,
                (label, *(f"{attribute}={value}" for value in values)),
                rows,
            )
        )
    return out
