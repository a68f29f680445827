"""`crosswind advise`: which methods to try, in what order, from evidence."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosswind.cli.options import (
    AsJson,
    Overrides,
    Scale,
    StudyName,
    check_study_place,
    print_json,
    refuse_unheard,
    written,
)
from crosswind.core.errors import InputError, shown, unknown

if TYPE_CHECKING:
    import polars

    from crosswind.advice.subject import Subject


def advise_command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE|STUDY|STORE]",
            help="A table of yours, a study, or the folder of a finished one; or describe a shift.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="Beside a table to train on: the table of the rows that it is for.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COLUMN", help="Of a table: what is to be told."),
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option("--attribute", metavar="COLUMN", help="Of a table: what may shift."),
    ] = None,
    shift: Annotated[
        str | None,
        typer.Option("--shift", metavar="NAME", help="Describe a shift: none, SC, LDD or UDS."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="N", min=2, help="Described: training rows; default: 1000."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="SIZE", help="Described: small, medium or large, 300 to 30,000 rows."
        ),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(
            "--classes", metavar="N", min=2, max=1000, help="Described: classes; default: 2."
        ),
    ] = None,
    values: Annotated[
        int | None,
        typer.Option(
            "--values",
            metavar="N",
            min=2,
            max=1000,
            help="Described: attribute values; default: 2.",
        ),
    ] = None,
    tie: Annotated[
        float | None,
        typer.Option(
            "--tie",
            metavar="SHARE",
            min=0,
            max=1,
            help="Described: rows that follow the shift; default: 0.95.",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", help="Described: pictures (the default), texts or numbers."
        ),
    ] = None,
    pretrained: Annotated[
        bool, typer.Option("--pretrained", help="Described: the network has weights of other data.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="What is trained; default: the study's."),
    ] = None,
    groups: Annotated[
        str,
        typer.Option(
            "--groups",
            metavar="known|unknown",
            help="Whether each training row's attribute is known when a method trains.",
        ),
    ] = "known",
    evidence: Annotated[
        list[str] | None,
        typer.Option("--evidence", metavar="STORE", help="Results of your own; may be repeated."),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="Write a study of erm and what to try."),
    ] = None,
    study_name: StudyName = None,
    scale: Scale = None,
    settings: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Say which methods to try first on a problem, with the gain to expect as an interval, or that
    it cannot be told. Of each it says what it needs and costs, and the evidence behind it.

    The evidence is results of many small studies that Crosswind carries, and of your own stores.
    """
    from crosswind.advice.answer import Known, advice_text, advise
    from crosswind.advice.subject import study_with

    if model is not None:
        model = _registered(model)
    if groups not in ("known", "unknown"):
        raise unknown("--groups", "answer", groups, ("known", "unknown"))
    if what is None and shift is None:
        raise InputError("TABLE", "name a table, a study or a store, or describe one by --shift")
    if what is not None and shift is not None:
        problem = f"describes a shift where nothing is named that has one, and {shown(what)} is; leave either out"
        raise InputError("--shift", problem)
    if target is not None and not _is_table(str(what)):
        problem = "stands beside a table to train on, which is no study and no description"
        raise InputError("TARGET", problem)
    if to is not None:
        _check_to(to, shift, target)
    options = {
        "--label": label,
        "--attribute": attribute,
        "--study": study_name,
        "--scale": scale,
        "--set": settings,
        "--rows": rows,
        "--data": data,
        "--classes": classes,
        "--values": values,
        "--tie": tie,
        "--kind": kind,
        "--pretrained": pretrained,
    }
    if shift is not None:
        _refuse_of_others("--shift", "a described shift", options)
        subject = _described(
            shift, _rows(rows, data), classes, values, tie, kind or "pictures", pretrained
        )
    else:
        folder = Path() if to is None else to.parent
        subject = _subject_of(str(what), target, folder, options)
    if not subject.problems:
        problem = "has no attribute of several values beside its label, so nothing can shift in it"
        raise InputError(str(what), problem)
    if model is not None:
        _check_reads(model, subject)
    known = Known(groups=groups == "known", model=model or subject.model)
    advice = advise(subject.problems, known, _evidence(subject, evidence), data=subject.data)
    if to is not None:
        import yaml

        fields = study_with(subject, advice)
        with written("--to", to):
            to.write_text(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True), "utf-8")
    if as_json:
        print_json([problem_advice.to_json() for problem_advice in advice])
        return
    typer.echo(advice_text(advice))
    if to is not None:
        typer.echo(f"wrote {to}: crosswind run {shlex.quote(str(to))}")
    elif shift is None and target is None:
        typer.echo("A study of erm and what to try, ready to run: --to FILE.yaml writes it.")


_DESCRIBED = ("--rows", "--data", "--classes", "--values", "--tie", "--kind", "--pretrained")
_HEARD = {
    "a table": ("--label", "--attribute"),
    "a store": ("--study",),
    "a study": ("--scale", "--set"),
    "a described shift": _DESCRIBED,
}
"""The options that are heard for one kind of subject, and for no other."""


def _refuse_of_others(word: str, subject_kind: str, options: Mapping[str, Any]) -> None:
    """Refuse an option that says something of another kind of subject than `word` is. Raises
    `InputError`."""
    for kind, names in _HEARD.items():
        if kind != subject_kind:
            problem = f"says something of {kind}, and {word} is taken as {subject_kind}"
            refuse_unheard({name: options[name] for name in names}, problem)


def _check_to(to: Path, shift: str | None, target: str | None) -> None:
    """Refuse a file that cannot be written, and a study of what has no data or of two tables."""
    check_study_place(to)
    if shift is not None:
        problem = "needs a table, a study or a store: a described shift has no data; leave it out"
        raise InputError("--to", problem)
    if target is not None:
        problem = (
            "writes the study of one table, and two are named; leave out --to, or TARGET for a study"
            " of the table to train on"
        )
        raise InputError("--to", problem)


def _described(
    shift: str,
    rows: int,
    classes: int | None,
    values: int | None,
    tie: float | None,
    kind: str,
    pretrained: bool,
) -> Subject:
    """The subject of a shift that is described, with the usual number where none was typed."""
    from crosswind.advice.subject import described

    if shift in ("none", "UDS"):
        problem = f"is how many rows follow SC or LDD, and --shift {shift} ties none"
        refuse_unheard({"--tie": tie}, problem)
    typed = {"classes": classes, "values": values, "tie": tie}
    numbers: dict[str, Any] = {name: value for name, value in typed.items() if value is not None}
    return described(shift, kind=kind, rows=rows, pretrained=pretrained, **numbers)


def _is_table(word: str) -> bool:
    from crosswind.advice.subject import TABLES

    return Path(word).suffix.lower() in TABLES


def _registered(model: str) -> str:
    """The registered model of a name, or the first of those whose names begin with it and a number,
    such as resnet18 of resnet: they take the same methods. Raises `InputError`."""
    from crosswind.core.registry import facts, listing

    names = [entry.name for entry in listing("models")]
    family = [name for name in names if name.removeprefix(model).isdigit() and name != model]
    if model not in names and family:
        first = min(family, key=lambda name: (len(name), name))
        typer.echo(f"--model: {model} is taken as {first}", err=True)
        return first
    facts("models", model, "--model")
    return model


def _check_reads(model: str, subject: Subject) -> None:
    """Refuse a named model that no method trains on the inputs of a problem. Raises `InputError`."""
    from crosswind.advice.answer import readers
    from crosswind.core.registry import facts

    for kind in dict.fromkeys(problem.kind for problem in subject.problems.values()):
        if facts("models", model).built is not None and model not in readers(kind):
            problem = f"no method trains {model!r} on {kind}, which these rows are"
            raise InputError("--model", problem, readers(kind))


def _rows(rows: int | None, data: str | None) -> int:
    """The described number of training rows, by number or by word."""
    from crosswind.advice.subject import ROWS

    if data is None:
        return 1000 if rows is None else rows
    if data not in ROWS:
        raise unknown("--data", "size", data, list(ROWS))
    if rows is not None:
        raise InputError("--data", f"says {ROWS[data]:,} rows, and --rows {rows:,}; name one")
    return ROWS[data]


def _subject_of(what: str, target: str | None, folder: Path, options: Mapping[str, Any]) -> Subject:
    """The subject that a word names: a table by its ending, a store by its folder or address, else
    a study. `options` by name: those of another kind of subject are refused."""
    from crosswind.advice.subject import of_store, of_study, of_table, of_two_tables

    if _is_table(what):
        _refuse_of_others(what, "a table", options)
        columns = options["--label"], options["--attribute"]
        if target is not None:
            return of_two_tables(what, target, *columns)
        return of_table(what, *columns, folder)
    if what.startswith("postgresql") or Path(what).is_dir():
        _refuse_of_others(what, "a store", options)
        return of_store(what, options["--study"])
    _refuse_of_others(what, "a study", options)
    return of_study(what, options["--scale"], options["--set"] or ())


def _evidence(subject: Subject, stores: Sequence[str] | None) -> polars.DataFrame:
    """The evidence that the package carries, the subject's own, and that of stores that were named."""
    import polars

    from crosswind.advice.evidence import evidence_of, shipped_evidence
    from crosswind.storage.store import Store

    tables = [shipped_evidence(), *subject.evidence]
    for place in stores or ():
        with Store.open(place) as store:
            store_tables = [evidence_of(store, name) for name in store.study_names()]
        if not any(table.height for table in store_tables):
            problem = (
                f"{place} has no results that count: evidence is a method beside erm with as many"
                " settings, on the same seeds, whose runs' files are here"
            )
            raise InputError("--evidence", f"{problem}; leave it out")
        tables += store_tables
    return polars.concat(tables).unique(maintain_order=True)
