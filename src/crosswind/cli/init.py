"""`crosswind init TABLE`: a commented study file for a table of one's own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from crosswind.cli.options import listed, written
from crosswind.core.errors import InputError


def init_command(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A CSV or Parquet file: of paths of images, of texts, or of numbers.",
        ),
    ],
    images: Annotated[
        str | None,
        typer.Option("--images", metavar="DIR", help="Folder of the images; else looked for."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text",
            metavar="A,B,...",
            help="The column of texts, or of their parts; else looked for.",
        ),
    ] = None,
    header: Annotated[
        str | None,
        typer.Option(
            "--header",
            "--columns",
            metavar="A,B,...",
            help="Names of the columns of a CSV whose first line is a row.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COLUMN", help="What is to be told; else proposed."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            metavar="PX",
            min=4,
            max=2048,
            help="Side of the pictures in pixels; default: 32, or 16 where none is larger.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where it goes; default: TABLE's name .yaml."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there.")
    ] = False,
) -> None:
    """Write a commented study for a table: its columns looked at, label and attributes proposed,
    sizes that fit.

    The study is planned before it is written, and a few steps are trained to see how long it takes,
    so that it can be run as it is.
    """
    from crosswind.proposals.ready import ready_study, refuse_folder, study_beside

    path = out or study_beside(table)
    refuse_folder(path, "--out")
    if path.exists() and not force:
        raise InputError("--out", f"{path} is there already; name another file, or --force")
    study = ready_study(table, path, images, label, size, listed(text), listed(header))
    with written("--out", path):
        study.write()
    for note in study.notes:
        typer.echo(f"{note}.", err=True)
    typer.echo(f"wrote {path}: {study.runs_in_words}; crosswind run {shlex.quote(str(path))}")
