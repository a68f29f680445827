"""`crosswind status STORE` and `crosswind check STORE`: how far studies are, and whether their
files are what was written."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from crosswind.cli.options import (
    DEFAULT_OUT,
    AsJson,
    StoreWord,
    StudyName,
    print_json,
    progress_bar,
    shown_store,
)
from crosswind.core.errors import InputError, counted, one_line

_SHOWN = 5
_TELL_SECONDS = 10.0
WATCH_SECONDS = 2.0
"""Between two looks of `--watch`, at least."""


def status_command(
    where: StoreWord = DEFAULT_OUT,
    study: StudyName = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every few seconds until all runs are done.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say how many runs of each study are done, running, waiting or failed, and why; what runs
    warned of; whose files are gone.

    Files are not read: crosswind check does that.
    """
    while True:
        started = time.monotonic()
        rows = _status_rows(where, study)
        if as_json:
            print_json(rows)
        else:
            _show(rows, where, clear=watch and sys.stdout.isatty())
        if not watch or not any(row["running"] or row["pending"] for row in rows):
            return
        # A look at a large store takes a second: it is not to be busy with being watched.
        time.sleep(max(WATCH_SECONDS, 4 * (time.monotonic() - started)))


def _status_rows(where: str, study: str | None) -> list[dict[str, Any]]:
    """`status_row` of one study of a store, or of all."""
    from crosswind.storage.store import Store

    with Store.open(where) as store:
        names = [study] if study is not None else store.study_names()
        return [status_row(store, name) for name in names]


def _show(rows: Sequence[Mapping[str, Any]], where: str, *, clear: bool) -> None:
    """Print the state of studies; on a terminal that is watched, in the place of what stood there."""
    if clear:
        typer.echo("\x1b[2J\x1b[H", nl=False)
        typer.echo(f"{time.strftime('%H:%M:%S')}, Ctrl-C ends this and no run")
    if not rows:
        typer.echo(f"{shown_store(where)} holds no study yet")
    for row in rows:
        # What a store holds may steer a terminal.
        status_counts = [
            f"{row[name]} {name}"
            for name in ("finished", "diverged", "failed", "running", "pending")
            if row[name]
        ]
        if row["jobs_at_work"]:
            status_counts[-1] += f", {counted(row['jobs_at_work'], 'job')} at work for them"
        typer.echo(
            f"study {one_line(row['name'])}: {counted(row['total'], 'run')}: {', '.join(status_counts) or 'none'}"
        )
        for failure in row["failures"]:
            typer.echo(f"  {_failure_in_words(failure)}")
        for warning in row["warnings"][:_SHOWN]:
            typer.echo(f"  warned of in {warning['runs']}: {one_line(warning['text'])}")
        if (remaining := len(row["warnings"]) - _SHOWN) > 0:
            typer.echo(
                f"  and {remaining} more warnings: crosswind report {shlex.quote(shown_store(where))}"
            )
        warn_of_damage(row["name"], row["damaged"], where)


def _failure_in_words(failure: Mapping[str, Any]) -> str:
    """How many runs failed for one reason, and whether they run again."""
    from crosswind.execution.failure_causes import CAUSES

    reason = one_line(failure["reason"])
    if not failure["cause"]:
        return f"{failure['runs']} failed: {reason}"
    cause = CAUSES.get(failure["cause"], "system error")
    return (
        f"{failure['runs']} stopped by the machine ({cause}): they run again at the next run"
        f" ({reason})"
    )


def status_row(store: Any, name: str) -> dict[str, Any]:
    """The state of one study as plain values: counts by status, failures by reason, warnings, and
    what `Store.damaged` sees."""
    from crosswind.storage.failure_reasons import root_reason, shared_reason

    failed: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
    counts = store.counts(name)
    for run in store.runs(name) if counts["failed"] else ():
        if run["status"] == "failed":
            reason = run["reason"] or "no reason recorded"
            group = failed.setdefault((root_reason(reason), run["cause"]), [])
            group.append((run["key"], reason))
    failures = [
        {
            "reason": shared_reason(reason for _, reason in group),
            "cause": cause,
            "runs": len(group),
            "keys": [key for key, _ in group],
        }
        for (_, cause), group in failed.items()
    ]
    warnings = [{"text": text, "runs": number} for text, number in store.warnings(name)]
    return {
        "name": name,
        **counts,
        "jobs_at_work": store.jobs_at_work(name) if counts["pending"] else 0,
        "failures": failures,
        "warnings": warnings,
        "damaged": store.damaged(name),
    }


def warn_of_damage(
    study: str, damaged: Mapping[str, list[str]], where: str, out: Path | None = None
) -> None:
    """Print one sentence about runs whose files are gone or damaged, given by what is wrong, if
    there are any. `out`: the folder of the files of a store that is a URL."""
    if not damaged:
        return
    listed = "; ".join(f"{key[:12]}: {faults[0]}" for key, faults in list(damaged.items())[:_SHOWN])
    remainder = f"; {len(damaged) - _SHOWN:,} more" if len(damaged) > _SHOWN else ""
    words = (
        f"study {study}: files of {len(damaged):,} jobs are gone or damaged ({listed}{remainder})"
    )
    folder = ["--out", str(out)] if out is not None and "://" in where else []
    command = shlex.join(["check", shown_store(where), *folder])
    typer.echo(
        one_line(
            f"warning: {words}; crosswind {command} reads them all, --repair has them done again"
        ),
        err=True,
    )


def check_command(
    where: StoreWord = DEFAULT_OUT,
    study: StudyName = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The folder of the jobs' files, where STORE is a URL."
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Forget the jobs named, scores too: the next crosswind run does them again.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Read every file that finished jobs left, and name the jobs whose files are gone or are not
    what was written.

    Sizes and SHA-256 are compared with those recorded when the job finished, and so are the models'
    files that jobs read, where they lie here. Exit status 0: all is well; 1: a job or a file is
    named.
    """
    from crosswind.storage.store import Store
    from crosswind.studies.given_files import changed_files

    _check_folder(out)
    with Store.open(where, out) as store:
        files = (
            store.files(study) if store.out else {}
        )  # first of all the sentence that there is no folder
        damaged = {
            key: faults
            for key, listed in _with_progress(files)
            if (faults := store.faults(key, listed, read=True))
        }
        specs: dict[str, Any] = {}
        for name in [study] if study is not None else store.study_names():
            specs |= store.specs(name)
        changed = changed_files(specs)
        labels = {key: [entry["labels"] for entry in store.run(key)["studies"]] for key in damaged}
    undone = 0
    if repair and damaged:
        with Store.open(where, out, create=True) as store:
            undone = store.undo(damaged)
    if as_json:
        damage_rows = [
            {"key": key, "labels": labels[key], "faults": faults} for key, faults in damaged.items()
        ]
        moved_on = [{"path": path, "jobs": keys} for path, keys in changed.items()]
        print_json(
            {"jobs": len(files), "damaged": damage_rows, "undone": undone, "changed": moved_on}
        )
        return 1 if damaged or changed else 0
    typer.echo(
        f"{counted(len(files), 'job')} {'is' if len(files) == 1 else 'are'} done,"
        f" {len(damaged):,} of them with files that are gone or damaged"
    )
    for key, faults in damaged.items():
        words = (
            " ".join(str(value) for value in labels[key][0].values())
            if labels[key]
            else "in no study"
        )
        typer.echo(f"  {key[:12]} ({one_line(words, 120)}): {one_line('; '.join(faults), 300)}")
    for path, keys in changed.items():
        change_text = f"{one_line(path, 300)} has changed since {counted(len(keys), 'job')} read it"
        typer.echo(
            f"  {change_text}; their numbers are of the file before, and the next crosswind run of the"
            " study asks the present one"
        )
    if undone:
        again = "is pending again; the next crosswind run does it"
        if undone > 1:
            again = "are pending again; the next crosswind run does them"
        typer.echo(f"{counted(undone, 'job')} {again}")
    elif damaged:
        typer.echo("--repair has them done again by the next crosswind run")
    return 1 if damaged or changed else 0


def _check_folder(out: Path | None) -> None:
    """Refuse a folder in which no job left files: all would be called gone, and `--repair` would
    forget them. Raises `InputError`."""
    from crosswind.storage.artifacts import FOLDER

    if out is not None and not (out / FOLDER).is_dir():
        problem = f"{out} has no folder {FOLDER}, so not the files of this store's jobs"
        raise InputError("--out", f"{problem}; name the folder that crosswind run --out named")


def _with_progress(files: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The items, with progress on standard error: a bar on a terminal, elsewhere a line every ten
    seconds."""
    printed = time.monotonic()
    with progress_bar() as display:
        task = display.add_task("reading", total=len(files), words="") if display else None
        for number, entry in enumerate(files.items()):
            if display:
                display.update(task, completed=number, words=f"{number:,} of {len(files):,} jobs")
            elif time.monotonic() - printed > _TELL_SECONDS:
                printed = time.monotonic()
                print(f"{number:,} of {len(files):,} jobs read", file=sys.stderr)
            yield entry
