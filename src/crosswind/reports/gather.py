"""What a report is about, read from a store once: results in order, the draws of the shifts, versions; and its tables."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import StoreError, one_line, shown
from crosswind.reports.claims import Judgement, claim_number_table, claim_table, judge
from crosswind.reports.draws import ShiftDraw, read_draws
from crosswind.reports.results import Place, Results, arrange
from crosswind.reports.run_tables import costs, run_table, time_table
from crosswind.reports.score_tables import number_table, place_tables, shown_places
from crosswind.reports.tables import Table

if TYPE_CHECKING:
    from crosswind.studies.store import Store


@dataclass(frozen=True)
class StudyRecord:
    """One study of the store called `store`, ready to be shown. `draws_left_out` draws are too many or without files of their own.

    `damaged`: what is wrong with files, by run; those that were read here by their bytes, the others by their sizes.
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
        with damage_named(self.store, self.name):
            places = [table for tables in self.tables.values() for table in tables.values()]
            rest = (claim_table(self.name, self.claims), time_table(costs(self.runs)), run_table(self.found))
            return [*places, *(table for table in rest if table is not None)]

    def number_tables(self, claims: bool) -> list[Table]:
        """The tidy table of every number; with `claims` also that of the claims' numbers, if there are any."""
        with damage_named(self.store, self.name):
            numbers = claim_number_table(self.name, self.claims) if claims else None
            return [number_table(self.found, self.reference, self.rules), *([numbers] if numbers is not None else [])]


def gather(store: Store, study: str, draws: bool = True) -> StudyRecord:
    """Read one study; without `draws` no file of a run is read. Raises `StoreError`; damaged files only leave their draw out."""
    with no_collection(), damage_named(store.name, study):
        entry, runs = store.study(study), store.runs(study)
        # Runs that others only start from are no rows of a table; if one fails, those that need it say so.
        shown_runs = [run for run in runs if run["labels"].get("role") != "base"]
        results = arrange(store.results(study, without=("groups",), runs=shown_runs))
        read = read_draws(store, study, entry["resolved"], shown_runs) if draws else ([], 0, store.damaged(study))
        about = (entry["given"], entry["resolved"], entry["created"])
        return StudyRecord(store.name, study, *about, results, runs, store.versions(study), *read)


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
        cause = f"{type(error).__name__}: {one_line(str(error), 200)}"
        raise StoreError(f"{store} is damaged: the study {shown(study)} cannot be put in tables: {cause}") from error
