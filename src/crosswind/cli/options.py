"""Options that several verbs share, and how they print."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer

__all__ = ["DEFAULT_OUT", "AsJson", "Overrides", "Root", "Scale", "StoreWord", "StudyName", "StudyWord", "bytes_text", "print_json"]

DEFAULT_OUT = "crosswind-runs"

StudyWord = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study file, or the name of a shipped study (crosswind list studies).")
]
StoreWord = Annotated[
    str, typer.Argument(metavar="STORE", help="The folder that crosswind run wrote (--out), or a postgresql:// URL.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one field, such as training.steps=100; may be repeated."),
]
Scale = Annotated[
    str | None, typer.Option("--scale", metavar="tiny|small|paper", help="Lay the study's overlay of this name over it.")
]


def _folder(text: str | None) -> str | None:
    # "" is the working directory to most programs, which nobody means by a variable that is not set.
    if text == "":
        raise typer.BadParameter("must not be empty")
    return text


Root = Annotated[
    str | None,
    typer.Option(
        "--root",
        metavar="DIR",
        callback=_folder,
        help="Folder of prepared data; default: CROSSWIND_DATA, else ~/.cache/crosswind/data.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
StudyName = Annotated[str | None, typer.Option("--study", metavar="NAME", help="Only this study of the store.")]


def print_json(value: Any) -> None:
    """Print a value as indented JSON. JSON has no NaN or infinity: they become null."""
    typer.echo(json.dumps(_finite(value), indent=2, allow_nan=False, ensure_ascii=False))


def bytes_text(size: float) -> str:
    """A number of bytes in words, in powers of 1000: `9.9 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
