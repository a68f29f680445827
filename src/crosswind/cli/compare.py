"""`crosswind compare A B`: what changed between two studies."""

from __future__ import annotations

from typing import Annotated

import typer

from crosswind.cli.options import AsJson, print_json

_HELP = "A store, or STORE#STUDY where it holds several."


def compare_command(
    first: Annotated[str, typer.Argument(metavar="A", help=_HELP)],
    second: Annotated[str, typer.Argument(metavar="B", help=_HELP)],
    metric: Annotated[
        str, typer.Option("--metric", metavar="NAME", help="The score that is compared.")
    ] = "accuracy",
    as_json: AsJson = False,
) -> None:
    """Compare two stores or two studies: B minus A for every method under every shift, paired where
    seeds agree."""
    from contextlib import ExitStack

    from crosswind.reports.comparison import comparison
    from crosswind.reports.gather import gather
    from crosswind.storage.store import Store

    with ExitStack() as stack:
        records = []
        for name, word in (("A", first), ("B", second)):
            where, _, study = word.partition("#")
            store = stack.enter_context(Store.open(where))
            remedy = f": name one as {store.name}#STUDY"
            records.append(
                gather(store, store.study_named(study or None, name, remedy), draws=False)
            )
        table = comparison(records[0], records[1], metric)
    if as_json:
        print_json(table.to_json())
    else:
        typer.echo(table.to_text(), nl=False)
