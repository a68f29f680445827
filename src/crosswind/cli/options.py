"""Options that several verbs share, and how they print."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

__all__ = ["AsJson", "Overrides", "Scale", "StudyName", "StudyWord", "print_json"]

StudyWord = Annotated[str, typer.Argument(metavar="STUDY", help="A study file, or the name of a shipped study (crosswind list studies).")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one field, such as training.steps=100; may be repeated."),
]
Scale = Annotated[str | None, typer.Option("--scale", metavar="tiny|small|paper", help="Lay the study's overlay of this name over it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
StudyName = Annotated[str | None, typer.Option("--study", metavar="NAME", help="Only this study of the store.")]


def print_json(value: Any) -> None:
    """Print a value as indented JSON; NaN is refused rather than written as something that is not JSON."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))
