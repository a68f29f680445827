"""`crosswind features MODEL`: what a model makes of rows, for clusters, for pictures and for other
tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crosswind.cli.options import listed, refuse_unheard, written
from crosswind.core.errors import InputError


def features_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help=(
                "STORE#KEY of a run, FILE.safetensors with its card, or a model (crosswind list"
                " models)."
            ),
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="The folder that features.npy and rows.csv are written to."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DATA",
            help="A folder of pictures, a table or a source; a run has its own.",
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            metavar="SET",
            help=(
                "A set of the run's study, or all: every row of its data, in order; default: test."
            ),
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the model, such as path=clip-vit-base-patch32.",
        ),
    ] = None,
    umap: Annotated[
        bool,
        typer.Option(
            "--umap", help="Lay the rows out by UMAP too: umap.json and a picture (extra features)."
        ),
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="A,B,...",
            help="Attributes that the picture is coloured by; default: the run's.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="Of UMAP; default: 0.")
    ] = None,
) -> None:
    """Write the features that a model has for rows, float32 [rows, d], with the id and the
    attributes of every row."""
    from crosswind.models.form import check_extra
    from crosswind.studies.reading import apply_settings
    from crosswind.unlabelled.features import features_of

    if umap:
        check_extra("features", "--umap", "UMAP")
    else:
        refuse_unheard({"--by": by, "--seed": seed}, "is of the picture that --umap draws")
    if "#" not in model and rows != "all":
        problem = f"names a set of a run, STORE#KEY, and {model} is none: it is asked for all rows"
        refuse_unheard({"--rows": rows}, problem)
    try:
        table = features_of(model, data, rows or "test", apply_settings({}, settings or []))
        with written("--out", out):
            maps = []
            if umap:  # first: it may refuse
                from crosswind.reports.rows.feature_map import write_map

                maps = write_map(table, out, listed(by) or (), seed or 0)
            paths = [*table.write(out), *maps]
    except InputError as error:
        head, dot, subfield = error.field.partition(".")
        if head.isidentifier():
            option = {"model": "MODEL", "settings": "--set"}.get(head, f"--{head}")
        else:
            option = error.field
        field = f"{option}{dot}{subfield}"
        raise InputError(field, error.problem, error.choices) from None
    if table.warning:
        typer.echo(f"warning: {table.warning}", err=True)
    n, d = table.features.shape
    typer.echo(f"{n:,} rows of {d:,} features: {', '.join(str(path) for path in paths)}")
