"""`crosswind estimate`: a model's accuracy on data without labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crosswind.cli.options import AsJson, check_place, listed, listed_classes, print_json, written
from crosswind.core.errors import InputError
from crosswind.core.printing import utf8
from crosswind.unlabelled.request import NEAR_ROWS, POOL_ROWS, EstimateRequest

_FIELDS = {
    "pool_rows": "--pool-rows",
    "near_rows": "--neighbour-rows",
    "settings": "--set",
    "beside_classes": "--beside-classes",
}


def estimate_command(
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help=(
                "STORE#KEY of a run, FILE.safetensors with its card, FILE.onnx, FILE.skops, or"
                " module:function."
            ),
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DATA",
            help="A folder of pictures, a table with paths, texts or numbers, or a source.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="LABELLED",
            help="Labelled rows of what it was trained on; a run has its own.",
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            metavar="MODEL",
            help="A further model of the same classes to compare with; may be repeated.",
        ),
    ] = None,
    predictions: Annotated[
        str | None,
        typer.Option(
            "--predictions",
            metavar="TABLE",
            help="Scores instead of model and data: a column a class.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COLUMN", help="The column of labels of LABELLED."),
    ] = None,
    images: Annotated[
        str | None,
        typer.Option("--images", metavar="DIR", help="The folder of the pictures of a table."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text",
            metavar="A,B,...",
            help="The column of texts of a table, or those of their parts; default: text.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A,B,...",
            help=(
                "The columns of numbers of a table that the model reads, in its order; default:"
                " those that it names, or all."
            ),
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            metavar="A,B,...",
            help=(
                "In the order of the model's outputs, or of the columns of scores; default: those"
                " of LABELLED, numbers by size, "
                "others sorted as text."
            ),
        ),
    ] = None,
    beside_classes: Annotated[
        list[str] | None,
        typer.Option(
            "--beside-classes",
            metavar="A,B,...",
            help=(
                "In the order of the outputs of the models beside, once for all or once for each;"
                " default: that of MODEL."
            ),
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=(
                "A setting of the model (scale=unit of onnx) or of an estimator"
                " (ni-ssmba.model=DIR)."
            ),
        ),
    ] = None,
    estimators: Annotated[
        str | None,
        typer.Option(
            "--estimators", metavar="A,B,...", help="Only these; see crosswind list estimators."
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--size", metavar="PX", min=4, max=2048, help="Side of the pictures."),
    ] = None,
    pool_rows: Annotated[
        int,
        typer.Option(
            "--pool-rows",
            metavar="N",
            min=0,
            help="Labelled rows that are shown under every change of the pool; 0: none.",
        ),
    ] = POOL_ROWS,
    near_rows: Annotated[
        int,
        typer.Option(
            "--neighbour-rows",
            metavar="N",
            min=0,
            help="Rows whose ten neighbours are asked for; 0: none.",
        ),
    ] = NEAR_ROWS,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write a page: a name that ends in .html."),
    ] = None,
) -> None:
    """Estimate a model's accuracy on data without labels: every estimate with its interval, which
    to believe, and why."""
    from crosswind.studies.reading import apply_settings
    from crosswind.unlabelled.answer_request import answer_request

    if out is not None:
        check_place(out, [".html"], "page")
    model_settings = apply_settings({}, settings or [])
    names = listed(estimators)
    estimator_settings = {name: model_settings.pop(name, {}) for name in names or ()}
    request = EstimateRequest(
        model=model,
        data=data,
        source=source,
        beside=beside or [],
        predictions=predictions,
        label=label,
        images=images,
        text=listed(text) or None,
        columns=listed_classes(columns),
        classes=listed_classes(classes),
        beside_classes=[listed_classes(order) or [] for order in beside_classes or ()],
        settings=model_settings,
        estimators=None if names is None else estimator_settings,
        size=size,
        pool_rows=pool_rows,
        near_rows=near_rows,
        tell=lambda text: typer.echo(text, err=True),
    )
    try:
        estimates = answer_request(request)
    except InputError as error:
        # The fields of the function are the options of the command.
        head, dot, subfield = error.field.partition(".")
        if (
            not head.isidentifier() or error.field == model
        ):  # the name of the model itself, as of a function
            problem = f"{error.field}: {error.problem}"
            raise InputError("--model", problem, error.choices, error.limit) from None
        field = f"{_FIELDS.get(head, '--' + head)}{dot}{subfield}"
        raise InputError(field, error.problem, error.choices, error.limit) from None
    if out is not None:
        from crosswind.reports.pools.estimate_page import estimate_page

        with written("--out", out):
            from crosswind.core.files import write_atomically

            write_atomically(out, utf8(estimate_page(estimates)))
    if as_json:
        print_json(estimates.to_json())
        return
    typer.echo(str(estimates))
    if out is not None:
        typer.echo(f"\nThe page is {out}", err=True)
