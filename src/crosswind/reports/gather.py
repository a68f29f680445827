"""The contents of a report, read from a store once: results in order, the draws of the shifts,
versions; and its tables.

A draw is what a shift made of a data set: planned and realised rows by label and attribute, from
the `split.json` of a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crosswind.core import html
from crosswind.core.collection import no_collection
from crosswind.core.errors import StoreError, one_line, plain, shown
from crosswind.core.exhibits import FILE, Exhibit, read_exhibits
from crosswind.reports.claims.claim_tables import claim_number_tables, claim_tables
from crosswind.reports.claims.findings import (
    CLAIMS,
    Findings,
    claim_sentences,
    find,
    verdicts_to_text,
)
from crosswind.reports.claims.judgements import Judgement, judge
from crosswind.reports.claims.pooled_judgements import PooledJudgement
from crosswind.reports.claims.robustness import scored_results
from crosswind.reports.claims.verdict_words import NOT_RUN
from crosswind.reports.claims.verdicts import Verdicts, by_place
from crosswind.reports.pools.judged_pools import Judged
from crosswind.reports.pools.networks import pools_of
from crosswind.reports.prompts.scores import Asked, asked_of, prompt_tables
from crosswind.reports.rows.answers import Behind, rows_behind
from crosswind.reports.runs.actions import action_table
from crosswind.reports.runs.tables import Cost, costs, run_table, time_table
from crosswind.reports.scores.conclusions import Conclusions, conclusions
from crosswind.reports.scores.families import Families, families
from crosswind.reports.scores.results import Place, PlaceResults, Results, arrange
from crosswind.reports.scores.shift_counts import shift_count_tables
from crosswind.reports.scores.tables import estimate_table, number_table, overview, place_tables
from crosswind.reports.tables import Cell, ReportTable
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.failure_reasons import different_reasons
from crosswind.storage.store import DONE

if TYPE_CHECKING:
    from crosswind.storage.store import Store

REPORT = "split.json"
MAX_DRAWS = 200
"""Draws that are shown; more of them nobody reads, and the page would grow."""

MAX_EXHIBITS = 60
"""Runs whose exhibits are shown."""
_REASONS_SHOWN = 3

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
    """The draw that one shift made of one data set at one size, as the run of `seed` had it.
    `label` names the label's attribute."""

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
    """The exhibits of one run."""

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
    def claims(self) -> list[Judgement | PooledJudgement]:
        """The study's claims, judged."""
        return judge(self.found, self.resolved)

    @cached_property
    def pools(self) -> list[Judged]:
        """The networks of the study as pools that its estimators are judged on; empty where they
        are too few."""
        with damage_named(self.store, self.name):
            return [Judged(pool) for pool in pools_of(self.places, self.resolved)]

    @cached_property
    def conclusions(self) -> list[Conclusions]:
        """The conclusions of all rows together, by size, test set and rule."""
        with damage_named(self.store, self.name):
            return conclusions(self.places, self.resolved)

    @cached_property
    def families(self) -> list[Families]:
        """The rows by family, by size, test set and rule; empty where no family has several."""
        return [view for view in families(self.places, self.resolved) if view.has_kin]

    @cached_property
    def prompts(self) -> list[Asked]:
        """The prompts that the study compares, by size, test set and rule."""
        with damage_named(self.store, self.name):
            return asked_of(self.places, self.found.places, self.resolved)

    @cached_property
    def findings(self) -> Findings | None:
        """The findings of the study, in sentences; None where nothing can be compared."""
        with damage_named(self.store, self.name):
            return find(self.places, self.resolved, self.claims, self.runs, self.given)

    @cached_property
    def verdicts_alone(self) -> list[str]:
        """The verdicts on claims of a study in which nothing else is compared, a sentence each;
        empty where no claim could be judged."""
        if self.findings is not None or all(claim.verdict == NOT_RUN for claim in self.claims):
            return []
        return claim_sentences(self.claims)

    @cached_property
    def shift_counts(self) -> dict[Place, list[ReportTable]]:
        """The tables by number of concurrent shifts, by the place of a view of families; made once,
        for the text and for the page."""
        return {view.place: shift_count_tables(view) for view in self.families}

    def to_text(self) -> str:
        """The printed text: the findings and two tables, of the place that the answer is about;
        without findings the verdicts on the claims and every table."""
        tables = self.text_tables()
        if self.findings is None:
            alone = self.verdicts_alone
            verdicts = [verdicts_to_text(self.name, alone)] if alone else []
            return "\n\n".join([*verdicts, *(table.to_text() for table in tables)])
        shown = self._overview(self.findings.answer.place)
        texts = [self.findings.to_text(), *(table.to_text(80) for table in shown)]
        lines = [
            "\n".join(texts).rstrip("\n"),
            f"\nAll {len(tables)} tables: --tables all, or the page.",
        ]
        lines += filter(None, map(self.reasons, ("failed", "diverged")))
        return "\n".join(lines)

    def reasons(self, status: str) -> str:
        """How many runs failed or diverged, and why, as a sentence; empty where none did."""
        reasons = [reason for state, reason in self.found.runs.values() if state == status]
        if not reasons:
            return ""
        words = "; ".join(filter(None, different_reasons(map(plain, reasons))[:_REASONS_SHOWN]))
        counted_runs = f"{len(reasons)} of {len(self.found.runs)} runs {status}"
        return f"{counted_runs}: {words}." if words else f"{counted_runs}."

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        """Short: a shell that shows its last value would print every number of the study."""
        return f"<report of study {self.name} in {self.store}: {len(self.runs):,} runs; print it>"

    def _repr_html_(self) -> str:
        """The view of a notebook: the findings and two tables, of the place that the answer is
        about; without findings every table."""
        tables = self.text_tables()
        fragments: list[str] = []
        if self.findings:
            tables = self._overview(self.findings.answer.place)
            answer = self.findings.answer
            fragments.append(html.points(answer.question, answer.lines))
            fragments.append(html.line(self.findings.intro))
            fragments += [html.points(*part) for part in self.findings.parts]
        fragments.append(html.points(CLAIMS, self.verdicts_alone))
        fragments += [html.table(table.title, table.columns, table.cells) for table in tables]
        return "".join(fragments)

    def _overview(self, setting: Place) -> list[ReportTable]:
        """The two tables of a place, which name it where the study has several."""
        of_place = {at_place.place: at_place for at_place in self.places}
        varying = [
            str(getattr(setting, name))
            for name in ("data", "size", "model", "rule")
            if len({getattr(place, name) for place in of_place}) > 1
        ]
        return overview(of_place[setting], ", ".join(varying))

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
    def actions(self) -> ReportTable | None:
        """The table of what methods did beside plain training."""
        return action_table(self.found)

    @cached_property
    def _text_tables(self) -> list[ReportTable]:
        all_tables: list[ReportTable] = []
        with damage_named(self.store, self.name):
            for place_table in self.tables.values():
                all_tables += place_table.values()
            for family_view in self.families:
                all_tables += family_view.tables.values()
                all_tables += self.shift_counts[family_view.place]
            for concluded in self.conclusions:
                all_tables += concluded.tables
            for asked in self.prompts:
                all_tables += prompt_tables(asked)
            for pool in self.pools:
                for pool_tables in pool.tables.values():
                    all_tables += pool_tables
            study_tables = (
                *claim_tables(self.name, self.claims),
                self.actions,
                time_table(self.run_costs),
                run_table(self.found),
            )
            return [*all_tables, *(table for table in study_tables if table is not None)]

    def number_tables(self, every: bool) -> list[ReportTable]:
        """The tidy table of every number; with `every` also those of the claims' numbers and of
        estimates, if there are any."""
        with damage_named(self.store, self.name):
            tables: list[ReportTable | None] = [number_table(self.found, self.rules)]
            if every:
                tables += claim_number_tables(self.name, self.claims)
                tables.append(estimate_table(self.found, self.rules))
                for pool in self.pools:
                    tables += pool.tables.get("claims", [])
                    tables.append(pool.numbers)
            return [table for table in tables if table is not None]


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
    done_runs: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for labels, draw_runs in islice(candidates.items(), MAX_DRAWS):
        done = next((run for run in draw_runs if run["status"] in DONE), None)
        if done is not None:
            done_runs[labels] = done
    draws = _read_draws(store, out, done_runs, resolved, damaged)
    shown_tables = _read_exhibits(store, out, study, runs, damaged)
    return draws, len(candidates) - len(draws), damaged, shown_tables


def _read_draws(
    store: Store,
    out: Path,
    done_runs: Mapping[tuple[str, ...], Mapping[str, Any]],
    resolved: Mapping[str, Any],
    damaged: dict[str, list[str]],
) -> list[ShiftDraw]:
    """The draws of some runs by data set, shift and size; what is wrong with their files is added
    to `damaged`."""
    files = store.files_of(str(run["key"]) for run in done_runs.values())
    draws: list[ShiftDraw] = []
    for (data, shift, size), run in done_runs.items():
        key = str(run["key"])
        if key not in damaged and key in files:
            report = {name: entry for name, entry in files[key].items() if name == REPORT}
            faults = store.faults(key, report, read=True)
            if faults:
                damaged[key] = faults
        if key not in damaged:
            path = artifact_folder(out, key) / REPORT
            seed, entry = int(run["labels"]["seed"]), resolved["data"].get(data, {})
            draw = _read_draw(path, data, shift, size, seed=seed, entry=entry)
            if draw is not None:
                draws.append(draw)
    return draws


def _read_exhibits(
    store: Store,
    out: Path,
    study: str,
    runs: Sequence[Mapping[str, Any]],
    damaged: Mapping[str, list[str]],
) -> list[ShownTables]:
    """The exhibits of the first run of every data set, size, model, shift and method."""
    exhibits: dict[tuple[str, ...], ShownTables] = {}
    with_exhibits = store.keys_with_file(study, FILE)
    if not with_exhibits:
        return []
    for run in runs:
        key = str(run["key"])
        labels = _labels(run, "data", "size", "model", "shift", "method")
        if key not in with_exhibits or key in damaged or labels in exhibits:
            continue
        if len(exhibits) == MAX_EXHIBITS:
            break
        data, size, model, shift, method = labels
        # A damaged file leaves its exhibits out; `crosswind check` names it.
        with suppress(OSError, ValueError):
            exhibits_read = read_exhibits(artifact_folder(out, key))
            seed = int(run["labels"]["seed"])
            exhibits[labels] = ShownTables(data, size, model, shift, method, seed, exhibits_read)
    return list(exhibits.values())


def _labels(run: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    return tuple(str(run["labels"][name]) for name in names)


def _read_draw(
    path: Path, data: str, shift: str, size: str, *, seed: int, entry: Mapping[str, Any]
) -> ShiftDraw | None:
    try:
        label, listed = str(entry["label"]), entry["attributes"]
        names = listed.values() if isinstance(listed, Mapping) else listed
        attributes = list(dict.fromkeys(map(str, names)))
        report = json.loads(path.read_text(encoding="utf-8"))
        notes, warnings = (
            tuple(str(line) for line in report.get(name, [])) for name in ("notes", "warnings")
        )
        sets = report["sets"]
        train = _set_draw(sets["train"], label, attributes)
        # A set from another source may lack the attributes; then only the training rows are drawn.
        test = _set_draw(sets["test"], label, attributes) if "test" in sets else None
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
    if train is None:
        return None
    return ShiftDraw(data, shift, size, seed, label, train, test, notes, warnings)


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
    if not tables:
        return None
    return SetDraw(int(entry["rows"]), supplements, len(entry.get("short", ())), tables)


def _counted(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r} is not a number of rows")
    return value


def cell_tables(drawn: SetDraw, label: str) -> list[ReportTable]:
    """Planned and realised rows of a set, one table an attribute: a row a value of the label, a
    column a value of the attribute."""
    tables: list[ReportTable] = []
    for attribute, cells in drawn.tables.items():
        labels, values = (list(dict.fromkeys(pair[side] for pair in cells)) for side in (0, 1))
        rows: list[list[Cell]] = []
        for name in labels:
            counts = [cells.get((name, value), (0, 0)) for value in values]
            rows.append([name, *(f"{planned:g} / {realised}" for planned, realised in counts)])
        title = f"Rows by {label} and {attribute}: planned / realised"
        columns = (label, *(f"{attribute}={value}" for value in values))
        tables.append(ReportTable(f"cells-{attribute}", title, columns, rows))
    return tables
