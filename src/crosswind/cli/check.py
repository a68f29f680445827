"""`crosswind check STORE`: whether the files of the runs are what the runs wrote."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from crosswind.cli.options import DEFAULT_OUT, AsJson, StoreWord, StudyName, print_json

__all__ = ["check_command", "damage_sentence"]

SHOWN = 5
TELL_SECONDS = 10.0


def check_command(
    where: StoreWord = DEFAULT_OUT,
    study: StudyName = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The folder of the runs' files, where STORE is a URL.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Forget the runs named, scores too: the next crosswind run does them again.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Read every file that finished runs left, and name the runs whose files are gone or are not what was written.

    Sizes and SHA-256 are compared with those recorded when the run finished. Exit status 0: all is well; 1: a run is named.
    """
    from crosswind.core.errors import one_line
    from crosswind.studies.store import Store

    with Store.open(where, out) as store:
        files = store.files(study) if store.out else {}  # first of all the sentence that there is no folder
        damaged = {key: faults for key, listed in _told(files) if (faults := store.faults(key, listed, read=True))}
        named = {key: [entry["labels"] for entry in store.run(key)["studies"]] for key in damaged}
    undone = 0
    if repair and damaged:
        with Store.open(where, out, create=True) as store:
            undone = store.undo(damaged)
    unrecorded = sum(listed is None for listed in files.values())
    if as_json:
        print_json(
            {
                "runs": len(files),
                "without_checksums": unrecorded,
                "damaged": [{"key": key, "labels": named[key], "faults": faults} for key, faults in damaged.items()],
                "undone": undone,
            }
        )
        return 1 if damaged else 0
    typer.echo(f"{len(files):,} runs are done, {len(damaged):,} of them with files that are gone or damaged")
    for key, faults in damaged.items():
        labels = " ".join(str(value) for value in named[key][0].values()) if named[key] else "in no study"
        typer.echo(f"  {key[:12]} ({one_line(labels, 120)}): {one_line('; '.join(faults), 300)}")
    if unrecorded:
        typer.echo(f"{unrecorded:,} are of before checksums were kept: only whether they have a folder was looked at")
    if undone:
        typer.echo(f"{undone:,} runs are pending again; the next crosswind run does them")
    elif damaged:
        typer.echo("--repair has them done again by the next crosswind run")
    return 1 if damaged else 0


def damage_sentence(study: str, damaged: Mapping[str, list[str]], where: str) -> str:
    """One sentence for whoever did not ask for a check, about runs by what is wrong with their files."""
    from crosswind.core.errors import one_line

    listed = "; ".join(f"{key[:12]}: {faults[0]}" for key, faults in list(damaged.items())[:SHOWN])
    more = f"; {len(damaged) - SHOWN:,} more" if len(damaged) > SHOWN else ""
    told = f"study {study}: files of {len(damaged):,} runs are gone or damaged ({listed}{more})"
    return one_line(f"warning: {told}; crosswind check {where} reads them all, --repair has them done again")


def _told(files: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The items, with progress on standard error: a bar on a terminal, elsewhere a line every ten seconds."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        yield from track(files.items(), "reading", console=Console(stderr=True), transient=True)
        return
    told = time.monotonic()
    for number, item in enumerate(files.items()):
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            print(f"{number:,} of {len(files):,} runs read", file=sys.stderr)
        yield item
