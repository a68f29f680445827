"""`crosswind prepare NAME`: original files made a copy that opens at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosswind.cli.options import AsJson, Overrides, Root, bytes_text, print_json, progress_bar
from crosswind.core.errors import InputError

if TYPE_CHECKING:
    from crosswind.data.prepared.copies import Copy
    from crosswind.data.prepared.originals import OriginalFiles


def prepare_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A source (crosswind list sources).")],
    root: Root = None,
    originals: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Folder of the original files; default: DIR/originals/NAME, fetched into it.",
        ),
    ] = None,
    settings: Overrides = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="array|jpeg",
            help="Pixels as a map of bytes (default), or as JPEG of quality 95, smaller.",
        ),
    ] = None,
    accept_totals: Annotated[
        bool,
        typer.Option(
            "--accept-totals", help="Take numbers of rows that differ from the published ones."
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Make nothing: read the whole copy and compare its checksums."
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Make the copy anew, in place of the one that is there.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            max=1024,
            help="Threads that decode; default: one a core.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read a data set's original files once and keep them as a copy that every study opens at once.

    Files are fetched where their licence allows it; else one sentence says what to get and where to
    put it. Killed at any point, the same command goes on. A second call finds the copy and does
    nothing.
    """
    from crosswind.data import prepared
    from crosswind.data.prepared.paths import prepared_source
    from crosswind.studies.reading import apply_settings

    if check and (originals is not None or store is not None or accept_totals or again):
        raise InputError(
            "--check", "makes nothing, so it takes no --from, --store, --accept-totals or --again"
        )
    values = apply_settings({}, settings or [])
    if root is not None and "root" in values:
        raise InputError("--set root", "is given by --root already")
    source = prepared_source(name, values if root is None else {**values, "root": root}, "NAME")
    begun = time.monotonic()
    with progress_bar(time_left=True) as display:
        tell = _teller(name, display)
        if check:
            copy = prepared.check(source, workers=workers, on_progress=tell)
            word = "whole"
            before = 0
        else:
            how: dict[str, Any] = {
                "originals": originals,
                "store": store,
                "accept_totals": accept_totals,
                "again": again,
            }
            done = prepared.prepare(source, workers=workers, on_progress=tell, **how)
            copy = done.copy
            word = "prepared" if done.made else "ready"
            before = done.rows_before
    seconds = time.monotonic() - begun
    if as_json:
        card = {key: value for key, value in copy.to_json().items() if key != "checksums"}
        folder = str(copy.folder)
        print_json(
            {
                **card,
                "folder": folder,
                "was": word,
                "rows_before": before,
                "seconds": round(seconds, 2),
            }
        )
        return
    typer.echo(_sentence(name, source, copy, word, before, seconds))


def _sentence(
    name: str, source: OriginalFiles, copy: Copy, word: str, before: int, seconds: float
) -> str:
    size = sum(copy.files.values())
    contents = "texts ("
    if copy.image_shape is not None:
        contents = f"pictures of {' x '.join(map(str, copy.image_shape))} ({copy.store}, "
    words = f"{name} is {word}: {copy.n_rows:,} {contents}{bytes_text(size)}) in {copy.folder}"
    if word == "prepared":
        words += f", {seconds:.0f} s" + (
            f"; {before:,} rows were there from before" if before else ""
        )
    if copy.totals and copy.parts != copy.totals:
        actual, published = (
            ", ".join(f"{part_name} {count:,}" for part_name, count in rows.items())
            for rows in (copy.parts, copy.totals)
        )
        words += f"; its rows are not the published ones: {actual}, not {published}"
    if source.own:
        words += f"; read where its setting root is {copy.folder.parent}"
    return words


def _teller(name: str, display: Any) -> Callable[[str, int, int], None]:
    """A callback that reports `done` of `total` rows of a stage, or bytes of a file: a bar on a
    terminal, elsewhere ten lines a stage."""
    tasks: dict[str, Any] = {}
    printed: set[tuple[str, int]] = set()

    def tell(stage: str, done: int, total: int) -> None:
        of_bytes = stage.startswith(
            ("fetching ", "checking ", "reading ")
        )  # and the name of a file
        if of_bytes:
            words = f"{bytes_text(done)} of {bytes_text(total)}"
        else:
            words = f"{done:,} of {total:,} rows"
        if display:
            if stage not in tasks:
                tasks[stage] = display.add_task(
                    f"{name}: {stage}", total=total or None, words=words
                )
            display.update(tasks[stage], completed=done, total=total or None, words=words)
        elif (tenth := (stage, 10 * done // total if total else 0)) not in printed:
            printed.add(tenth)
            print(f"{name}: {stage}, {words}", file=sys.stderr)

    return tell
