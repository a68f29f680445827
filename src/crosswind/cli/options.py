"""Options that verbs share, their progress on standard error, and how values are printed."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from crosswind.cli import completion
from crosswind.core.errors import InputError
from crosswind.core.printing import json_text

DEFAULT_OUT = "crosswind-runs"

StudyWord = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A study file, or the name of a shipped study (crosswind list studies).",
        autocompletion=completion.studies,
    ),
]
StoreWord = Annotated[
    str,
    typer.Argument(
        metavar="STORE", help="The folder that crosswind run wrote (--out), or a postgresql:// URL."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one field, such as training.steps=100; may be repeated.",
    ),
]
Scale = Annotated[
    str | None,
    typer.Option("--scale", metavar="NAME", help="Lay the study's overlay of this name over it."),
]


_ROOT_HELP = "Folder of prepared data; default: CROSSWIND_DATA, else ~/.cache/crosswind/data."
Root = Annotated[str | None, typer.Option("--root", metavar="DIR", help=_ROOT_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
StudyName = Annotated[
    str | None, typer.Option("--study", metavar="NAME", help="Only this study of the store.")
]


def print_json(value: Any) -> None:
    """Print a value as indented JSON. JSON has no NaN or infinity: they become null."""
    typer.echo(json_text(_finite(value), sys.stdout))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(child) for child in value]
    return value


def bytes_text(size: float) -> str:
    """A number of bytes in words, in powers of 1000: `9.9 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            if unit == "bytes" or size >= 10:
                return f"{size:.0f} {unit}"
            return f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


@contextmanager
def written(option: str, path: Path) -> Iterator[None]:
    """Turn an `OSError` inside into an `InputError` that names the option and the path."""
    try:
        yield
    except OSError as error:
        problem = f"cannot write {path}: {error.strerror or error}"
        raise InputError(option, problem) from None


@contextmanager
def progress_bar(time_left: bool = False) -> Iterator[Any]:
    """A `rich.progress.Progress` on standard error whose tasks have a field `words`; None where
    that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}")]
    time_columns = [TimeRemainingColumn(), TextColumn("left")] if time_left else []
    with Progress(*columns, *time_columns, console=Console(stderr=True)) as display:
        yield display


def refuse_unheard(options: Mapping[str, object], problem: str) -> None:
    """Refuse the first of `options`, values by name, that was typed and would not be heard: a flag
    that is set, or a value that is there. `problem`: why not. Raises `InputError`."""
    for option, value in options.items():
        if value is not None and value is not False and value != []:
            raise InputError(option, f"{problem}; leave it out")


def shown_store(where: str) -> str:
    """The folder or URL of a store without a password, since what is printed is kept in logs."""
    if "://" not in where:
        return where
    from crosswind.storage.database import without_password

    return without_password(where)


def listed(words: str | None) -> list[str] | None:
    """The words of an option `A,B,...`; None where it was not given."""
    if words is None:
        return None
    return [word.strip() for word in words.split(",") if word.strip()]


def listed_classes(words: str | None) -> list[str] | None:
    """The classes of an option `A,B,...`, a name with a comma in quotation marks; None where it was
    not given."""
    if words is None:
        return None
    lines = list(csv.reader([words], skipinitialspace=True))
    if lines:
        return [word.strip() for word in lines[0] if word.strip()]
    return []


def check_study_place(to: Path) -> None:
    """Refuse, before any work, a `--to FILE` that no study can be written to, or be run from.
    Raises `InputError`."""
    if to.exists():
        raise InputError("--to", f"{to} is there already; name another file")
    if to.suffix.lower() not in (".yaml", ".yml"):
        raise InputError("--to", f"'{to}' is no FILE.yaml, which a study is")
    if not to.parent.is_dir():
        raise InputError("--to", f"there is no folder '{to.parent}'")


def check_place(out: Path, endings: Sequence[str], kind: str) -> None:
    """Refuse, before any work, an `--out FILE` that cannot be written: `kind` is what a file of
    these endings is called."""
    if out.suffix.lower() not in endings:
        raise InputError("--out", f"{str(out)!r} is no {kind} by its name", endings)
    if not out.parent.is_dir():
        raise InputError("--out", f"there is no folder {str(out.parent)!r}")
    if out.is_dir():
        raise InputError("--out", f"{str(out)!r} is a folder")
