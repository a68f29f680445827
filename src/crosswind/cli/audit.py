"""`crosswind audit`: which shifts lie between two tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crosswind.cli.options import AsJson, check_place, listed, print_json
from crosswind.core.errors import DataError, InputError


def audit_command(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TRAIN TARGET]", help="The two tables, in place of --train and --target."
        ),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(
            "--train", metavar="TABLE", help="The rows that a model is trained on, CSV or Parquet."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="TABLE", help="The rows that it is for.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COLUMN", help="The column that a model predicts."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A,B,...",
            help="Only these columns; default is all that both tables have.",
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            "--names",
            metavar="A,B,...",
            help="Columns whose numbers are names, never put into classes.",
        ),
    ] = None,
    header: Annotated[
        str | None,
        typer.Option(
            "--header",
            metavar="A,B,...",
            help="Names of the columns of a CSV whose first line is a row.",
        ),
    ] = None,
    same: Annotated[
        str | None,
        typer.Option(
            "--same",
            metavar="A,B,...",
            help="Columns in which values that may be one, Red and red, are one.",
        ),
    ] = None,
    distinct: Annotated[
        str | None,
        typer.Option(
            "--distinct",
            metavar="A,B,...",
            help="Columns in which such values differ; else left out.",
        ),
    ] = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Draw a picture: a name that ends in .svg, .pdf, .png or .html.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Of the bootstrap intervals.")
    ] = 0,
) -> None:
    """Say which shifts lie between two tables: spurious correlations, low-data drift, unseen
    values, label shift.

    What follows from other shifts is told apart, and what the rows are too few for is said. It
    reads tables only, no pictures.
    """
    from crosswind.shifts.audit import audit

    if out is not None:
        from crosswind.reports.audits import PICTURES

        check_place(out, PICTURES, "picture")
    train_table, target_table = _two_tables(tables or [], train, target)
    try:
        record = audit(
            train_table,
            target_table,
            label,
            columns=listed(columns),
            names=listed(names) or (),
            seed=seed,
            header=listed(header),
            same=listed(same) or (),
            distinct=listed(distinct) or (),
        )
    except InputError as error:
        # The fields of the function are the options of the command.
        field = f"--{error.field}"
        raise InputError(field, error.problem, error.choices) from None
    if out is not None:
        from crosswind.reports.audits import write_audit

        try:
            write_audit(record, out)
        except OSError as error:
            problem = f"cannot write {out}: {error.strerror or error}"
            raise DataError(problem) from None
    if as_json:
        print_json(record.to_json())
        return
    typer.echo(str(record))
    if out is not None:
        typer.echo(f"\nThe picture is {out}", err=True)


def _two_tables(tables: list[str], train: str | None, target: str | None) -> tuple[str, str]:
    """The tables of training and target, by their places or by the options. Raises `InputError`."""
    by_option = [word for word in (train, target) if word is not None]
    if len(tables) + len(by_option) > 2:
        words = ", ".join([*tables, *by_option])
        raise InputError("TABLE", f"an audit is of two tables, and these are more: {words}")
    by_place = iter(tables)
    train = next(by_place, None) if train is None else train
    target = next(by_place, None) if target is None else target
    if train is None:
        raise InputError("--train", "is missing: crosswind audit TRAIN TARGET --label COLUMN")
    if target is None:
        raise InputError("--target", "is missing: the table of the rows that a model is for")
    return train, target
