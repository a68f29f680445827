"""`crosswind schema`: the JSON Schema of study files, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crosswind.cli.options import AsJson, print_json

__all__ = ["schema_command"]


def schema_command(
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it there instead of printing it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a study file (an editor that knows it completes and checks as you type)."""
    import json

    from crosswind.core.errors import InputError
    from crosswind.studies.spec import json_schema

    del as_json  # a schema is JSON either way
    if out is None:
        print_json(json_schema())
        return
    try:
        out.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError("--out", f"cannot write {out}: {error.strerror}") from None
    typer.echo(f"wrote {out}")
