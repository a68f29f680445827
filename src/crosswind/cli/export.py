"""`crosswind export STORE --to TARGET PLACE`: a study for the tools that a group looks at its runs
with."""

from __future__ import annotations

from typing import Annotated

import typer

from crosswind.cli.completion import targets
from crosswind.cli.options import StoreWord, StudyName


def export_command(
    where: StoreWord,
    destination: Annotated[
        str,
        typer.Argument(
            metavar="PLACE",
            help="A file, a folder, a tracking URI (mlflow) or a project's name (wandb).",
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TARGET",
            help="csv, parquet, tensorboard, mlflow or wandb.",
            autocompletion=targets,
        ),
    ],
    study: StudyName = None,
) -> None:
    """Write a study's runs to a table, or to TensorBoard, MLflow or Weights & Biases by their own
    clients.

    A run brings its labels, settings, scores by selection rule and set, and its learning curve. A
    run that is there already is not written twice. For wandb, WANDB_MODE=offline writes to ./wandb
    without a network.
    """
    from crosswind.reports.export import export
    from crosswind.storage.store import Store

    with Store.open(where) as store:
        number = export(store, store.study_named(study), target, destination)
    entries_word = "rows" if target in ("csv", "parquet") else "runs"
    typer.echo(f"{number:,} {entries_word} written to {destination} ({target})")
