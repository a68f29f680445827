"""`crosswind report STORE`: the tables of a store's studies, their page and their figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosswind.cli.completion import formats
from crosswind.cli.options import (
    DEFAULT_OUT,
    AsJson,
    StoreWord,
    StudyName,
    print_json,
    shown_store,
    written,
)
from crosswind.cli.status import warn_of_damage
from crosswind.core.errors import InputError, StoreError, unknown

if TYPE_CHECKING:
    from crosswind.reports.gather import StudyRecord
    from crosswind.reports.tables import ReportTable
    from crosswind.storage.store import Store

PAGE_NAME = "report.html"
_PAGE_ENDINGS = (".html", ".htm")
_SUFFIX = {"text": "txt", "csv": "csv", "latex": "tex", "json": "json"}


def report_command(
    where: StoreWord = DEFAULT_OUT,
    study: StudyName = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="text|csv|latex|json",
            help="How tables are written; default: text.",
            autocompletion=formats,
        ),
    ] = None,
    table_choice: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="two|all",
            help="Which tables are printed as text, below the findings; default: two.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Write one file a table there instead of printing."
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page",
            metavar="FILE",
            help=f"Where the page goes; default with text: {PAGE_NAME} beside the store.",
        ),
    ] = None,
    no_page: Annotated[bool, typer.Option("--no-page", help="Print the tables only.")] = False,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures", metavar="DIR", help="Write every figure there as SVG, PDF and PNG."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the studies of a store found, and write their page.

    First come the findings in sentences: what each shift costs, what each method wins or loses
    beside the reference, and what could not be told. Then come two tables, or all of them. The page
    is one HTML file with figures and tables that needs no network. CSV is one tidy table with every
    number. With another format or --out the page is written only where --page names it.
    """
    from crosswind.core.collection import no_collection
    from crosswind.reports.gather import gather
    from crosswind.storage.store import Store

    form = _checked_form(form, table_choice, out, as_json)
    paged = _is_paged(page, no_page, usual=form == "text" and out is None)
    _check_places(page, figures)
    with Store.open(where) as store, no_collection():
        if study is not None:
            names = [store.study(study)["name"]]
        else:
            names = store.study_names()
        if not names:
            raise InputError("STORE", f"{shown_store(where)} holds no study yet")
        # Reading is most of the time that a large store takes: tables, figures and page share what
        # is read.
        draws = paged or figures is not None
        records = [gather(store, name, draws=draws) for name in names]
        tables = _tables_of(records, form, every=out is not None)
        if out is not None:
            _write(tables, form, out)
        elif form == "json":
            print_json({"studies": [record.to_json() for record in records]})
        else:
            _print(records, tables, form, table_choice or "two")
        for record in records:
            warn_of_damage(record.name, record.damaged, where)
        if figures is not None:
            _draw(records, figures)
        if paged:
            typer.echo(make_page(store, records, page), err=True)


def _is_paged(page: Path | None, no_page: bool, usual: bool) -> bool:
    """Whether a page is written; `usual`: where no option says so. Raises `InputError`."""
    if no_page and page is not None:
        raise InputError(
            "--page", f"names {page} for the page, and --no-page wants none; leave one"
        )
    return not no_page and (page is not None or usual)


def _is_report(page: Path) -> bool:
    """Whether a file is an earlier page, or empty; what cannot be read is left to who writes it."""
    try:
        with page.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return True
    return not head or b"Crosswind report</title>" in head


def _check_places(page: Path | None, figures: Path | None) -> None:
    """Refuse, before anything is printed, a place that no page and no figures can be written to.
    Raises `InputError`."""
    if page is not None and page.is_dir():
        raise InputError("--page", f"{page} is a folder; name a file in it, such as {PAGE_NAME}")
    if page is not None and page.suffix.lower() not in _PAGE_ENDINGS:
        raise InputError("--page", f"'{page}' is no FILE.html, which the page is")
    if page is not None and page.exists() and not _is_report(page):
        problem = f"{page} is there already and is no page of a report; name another file"
        raise InputError("--page", problem)
    if figures is not None and figures.exists() and not figures.is_dir():
        raise InputError("--figures", f"{figures} is a file; name a folder")


def _checked_form(
    form: str | None, table_choice: str | None, out: Path | None, as_json: bool
) -> str:
    """The form that tables are written in. Raises `InputError` for options that are none, or do not
    go together."""
    if form not in (None, *_SUFFIX):
        raise unknown("--format", "format", form, _SUFFIX)
    if as_json and form not in (None, "json"):
        raise InputError("--json", f"is another form than --format {form}; leave one out")
    form = "json" if as_json else form or "text"
    if table_choice not in (None, "two", "all"):
        raise unknown("--tables", "choice", table_choice, ("two", "all"))
    if table_choice == "two" and (form != "text" or out is not None):
        problem = "chooses what is printed as text; another form and --out have all tables"
        raise InputError("--tables", f"{problem}; leave it out")
    if out is not None and out.exists() and not out.is_dir():
        raise InputError("--out", f"{out} is a file; name a folder")
    return form


def _tables_of(records: Sequence[StudyRecord], form: str, every: bool) -> list[ReportTable]:
    """The tables of all studies. `every`: also those of single rows, where the form is CSV."""
    tables: list[ReportTable] = []
    for record in records:
        tables += record.number_tables(every=every) if form == "csv" else record.text_tables()
    return tables


def make_page(store: Store, studies: Sequence[StudyRecord], path: Path | None = None) -> str:
    """Write the page of `studies` to `path`, or beside the store, and say where it is.

    The default place may be read-only; then the sentence says what to do, since whoever asked for
    tables has them. Raises `InputError` where a given `path` cannot be written.
    """
    from crosswind.reports.page import write_page

    if path is not None:
        with written("--page", path):
            write_page(studies, store.name, path)
        return f"The page is {path}"
    try:
        page_path = store.out / PAGE_NAME
    except StoreError:
        return "No page was written: the store has no folder here; name a file with --page FILE."
    try:
        write_page(studies, store.name, page_path)
    except OSError as error:
        return (
            f"No page was written: {page_path}: {error.strerror or error}; name another file with"
            " --page FILE."
        )
    return f"The page is {page_path}"


def _draw(studies: Sequence[StudyRecord], folder: Path) -> None:
    from crosswind.reports.charts import save
    from crosswind.reports.page import study_figures

    with written("--figures", folder):
        for figure in study_figures(studies):
            for path in save(figure, folder):
                typer.echo(f"wrote {path}", err=True)


def _print(
    records: Sequence[StudyRecord], tables: Sequence[ReportTable], form: str, table_choice: str
) -> None:
    """Print findings and tables as text, or the tables in another form."""
    if form == "text" and table_choice == "two":
        typer.echo("\n\n".join(record.to_text() for record in records))
        return
    if form == "csv":
        # One header: the tables of several studies are one tidy table.
        for position, table in enumerate(tables):
            lines = table.to_csv()
            typer.echo(lines if position == 0 else lines.partition("\n")[2], nl=False)
        return
    if form == "text":
        findings = []
        for record in records:
            if record.findings:
                findings.append(record.findings.to_text(every=True))
        typer.echo("".join(f"{text}\n\n" for text in findings), nl=False)
    typer.echo("\n\n".join(table.written(form) for table in tables))


def _write(tables: Sequence[ReportTable], form: str, out: Path) -> None:
    from crosswind.reports.tables import distinct

    with written("--out", out):
        out.mkdir(parents=True, exist_ok=True)
        for table, name in zip(tables, distinct(table.name for table in tables), strict=True):
            path = out / f"{name}.{_SUFFIX[form]}"
            path.write_text(table.written(form).rstrip("\n") + "\n", encoding="utf-8")
            typer.echo(f"wrote {path}")
