"""`crosswind serve STORE`: a live page of a store, on this machine alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crosswind.cli.options import DEFAULT_OUT, StoreWord, StudyName


def serve_command(
    where: StoreWord = DEFAULT_OUT,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder of the runs' files, of a PostgreSQL store."
        ),
    ] = None,
    study: StudyName = None,
    port: Annotated[
        int,
        typer.Option("--port", metavar="N", min=0, max=65535, help="Port; 0: one that is free."),
    ] = 0,
) -> None:
    """Show a store live in a browser of this machine: progress, failures, workers, learning curves
    and scores so far; /metrics for Prometheus.

    The page reads the store and writes nothing: it may be opened and closed beside any run. Its
    address holds a token.
    """
    from crosswind.live.server import LiveServer

    server = LiveServer(where, out, study, port)
    try:
        typer.echo(f"{server.address} (Ctrl-C ends this and no run)")
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        typer.echo("ended")
    finally:
        server.server_close()
