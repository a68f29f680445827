"""`crosswind report STORE`: the tables of a store's studies, their page and their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosswind.cli.options import DEFAULT_OUT, AsJson, StoreWord, StudyName, print_json

if TYPE_CHECKING:
    from crosswind.reports.gather import StudyRecord
    from crosswind.reports.tables import Table
    from crosswind.studies.store import Store

__all__ = ["PAGE_NAME", "make_page", "report_command", "tables_of"]

PAGE_NAME = "report.html"
FORMATS = ("text", "csv", "latex", "json")
SUFFIX = {"text": "txt", "csv": "csv", "latex": "tex", "json": "json"}


def report_command(
    where: StoreWord = DEFAULT_OUT,
    study: StudyName = None,
    form: Annotated[str, typer.Option("--format", metavar="text|csv|latex|json", help="How tables are written.")] = "text",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write one file a table there instead of printing.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help=f"Where the page goes; default with text: {PAGE_NAME} beside the store."),
    ] = None,
    no_page: Annotated[bool, typer.Option("--no-page", help="Print the tables only.")] = False,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Write every figure there as SVG, PDF and PNG.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the tables of a store and write its page: accuracy, difference to the reference paired by seed, worst groups, runs.

    The page is one HTML file with figures and tables that needs no network. CSV is one tidy table with every number. With another
    format or --out the page is written only where --page names it.
    """
    from crosswind.core.errors import InputError, unknown
    from crosswind.studies.store import Store

    if form not in FORMATS:
        raise unknown("--format", "format", form, FORMATS)
    form = "json" if as_json else form
    if out is not None and out.exists() and not out.is_dir():
        raise InputError("--out", f"{out} is a file; name a folder")
    with Store.open(where) as store:
        names = [store.study(study)["name"]] if study is not None else store.study_names()
        if not names:
            raise InputError("STORE", f"{where} holds no study yet")
        paged = not no_page and (page is not None or (form == "text" and out is None))
        from crosswind.reports.gather import damage_named, gather, no_collection

        with no_collection():
            if not paged and figures is None:
                _print([table for name in names for table in tables_of(store, name, form == "csv", out is not None)], form, out)
                _warn({name: store.damaged(name) for name in names}, where)
                return
            # What is read for the page serves the tables too: reading is most of the time that a large store takes.
            records = [gather(store, name) for name in names]
            tables = []
            for record in records:
                with damage_named(store.name, record.name):
                    tables += _record_tables(record, form == "csv", out is not None)
            _print(tables, form, out)
            _warn({record.name: record.damaged for record in records}, where)
            if figures is not None:
                _draw(records, figures)
            if paged:
                typer.echo(make_page(store, records, page), err=True)


def _warn(damaged: Mapping[str, Mapping[str, list[str]]], where: str) -> None:
    from crosswind.cli.check import damage_sentence

    for study, runs in damaged.items():
        if runs:
            typer.echo(damage_sentence(study, runs, where), err=True)


def make_page(store: Store, studies: Sequence[StudyRecord], path: Path | None = None) -> str:
    """Write the page of `studies` to `path`, or beside the store, and say where it is.

    The default place may be read-only; then the sentence says what to do, since whoever asked for tables has them. Raises
    `InputError` where a given `path` cannot be written.
    """
    from crosswind.core.errors import InputError, StoreError
    from crosswind.reports.page import write_page

    try:
        place = path or store.out / PAGE_NAME
    except StoreError:
        return "No page was written: the store has no folder here; name a file with --page FILE."
    try:
        write_page(studies, store.name, place)
    except OSError as error:
        if path is not None:
            raise InputError("--page", f"cannot write {path}: {error.strerror or error}") from None
        return f"No page was written: {place}: {error.strerror or error}; name another file with --page FILE."
    return f"The page is {place}"


def _record_tables(record: StudyRecord, tidy: bool, files: bool) -> list[Table]:
    from crosswind.reports.claims import claim_number_table
    from crosswind.reports.tables import number_table

    if not tidy:
        return record.text_tables()
    claims = claim_number_table(record.name, record.claims) if files else None
    return [number_table(record.found, record.reference, record.rules), *([claims] if claims is not None else [])]


def _draw(studies: Sequence[StudyRecord], folder: Path) -> None:
    from crosswind.core.errors import InputError
    from crosswind.reports.drawing import save
    from crosswind.reports.page import study_figures

    try:
        for figure in study_figures(studies):
            for path in save(figure, folder):
                typer.echo(f"wrote {path}", err=True)
    except OSError as error:
        raise InputError("--figures", f"cannot write to {folder}: {error.strerror or error}") from None


def _print(tables: list[Table], form: str, out: Path | None) -> None:
    if out is not None:
        _write(tables, form, out)
    elif form == "json":
        print_json([table.to_json() for table in tables])
    elif form == "csv":
        # One header: the tables of several studies are one tidy table.
        for position, table in enumerate(tables):
            typer.echo(table.to_csv() if position == 0 else table.to_csv().partition("\n")[2], nl=False)
    else:
        typer.echo("\n\n".join(table.to_text() if form == "text" else table.to_latex() for table in tables))


def tables_of(store: Store, study: str, tidy: bool = False, files: bool = False) -> list[Table]:
    """The tables of one study: those that a person reads, or one of every number; with `files` also one of its claims' numbers."""
    from crosswind.reports.claims import claim_number_table, claim_table, judge
    from crosswind.reports.costs import time_tables
    from crosswind.reports.gather import damage_named
    from crosswind.reports.results import arrange
    from crosswind.reports.tables import number_table, result_tables

    resolved = store.study(study)["resolved"]
    with damage_named(store.name, study):
        # Runs that others only start from are no rows of a table; if one fails, those that need it say so.
        runs = store.runs(study)
        found = arrange([row for row in store.results(study, without=("groups",), runs=runs) if row.get("role") != "base"])
        reference, selection = str(resolved["reference"]), [str(rule) for rule in resolved["selection"]]
        judged = judge(found, resolved)
        if tidy:
            numbers = claim_number_table(study, judged) if files else None
            return [number_table(found, reference, selection), *([numbers] if numbers is not None else [])]
        *places, states = result_tables(found, reference, selection)
        claims = claim_table(study, judged)
        return [*places, *([claims] if claims is not None else []), *time_tables(runs), states]


def _write(tables: list[Table], form: str, out: Path) -> None:
    import json

    from crosswind.core.errors import InputError

    taken: set[str] = set()
    try:
        out.mkdir(parents=True, exist_ok=True)
        for table in tables:
            name, number = table.name, 2
            while name in taken:
                name, number = f"{table.name}-{number}", number + 1
            taken.add(name)
            write = {"text": table.to_text, "csv": table.to_csv, "latex": table.to_latex}.get(form)
            text = json.dumps(table.to_json(), indent=2) if write is None else write()
            path = out / f"{name}.{SUFFIX[form]}"
            path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
            typer.echo(f"wrote {path}")
    except OSError as error:
        raise InputError("--out", f"cannot write to {out}: {error.strerror}") from None
