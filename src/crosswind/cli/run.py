"""`crosswind run STUDY`: plan, execute what is not done yet, print the tables."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosswind.cli.completion import tools
from crosswind.cli.options import (
    DEFAULT_OUT,
    AsJson,
    Overrides,
    Scale,
    StudyWord,
    print_json,
    progress_bar,
    refuse_unheard,
    shown_store,
)
from crosswind.cli.status import status_row, warn_of_damage
from crosswind.core.errors import InputError, StoreError, counted
from crosswind.core.processor import usable_cores

if TYPE_CHECKING:
    from crosswind.execution.scheduler import Progress, Summary
    from crosswind.storage.store import Store
    from crosswind.studies.plan import Plan

ROWS_SECONDS = 30
"""Between two lines on the answers of one set, where there is no terminal."""


def run_command(
    study: StudyWord,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            max=1024,
            help="Runs that train at once; default: one a core, fewer where a run has several devices.",
        ),
    ] = None,
    workers_per_gpu: Annotated[
        int | None,
        typer.Option(
            "--workers-per-gpu",
            metavar="K",
            min=1,
            max=64,
            help="Processes that share one graphics card; in place of --workers.",
        ),
    ] = None,
    out_word: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Where results go.")
    ] = DEFAULT_OUT,
    settings: Overrides = None,
    scale: Scale = None,
    store_url: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="URL",
            help="Keep results in this PostgreSQL database, files in --out.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try failed runs again.")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Most memory for pixels, such as 8GB; default: half. Others are read ahead.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="What executes runs: pool, processes of this machine; ray, a Ray cluster.",
        ),
    ] = "pool",
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="ADDRESS",
            help="Of the Ray cluster: auto, or ray://HOST:PORT; default: one on this machine.",
        ),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            "--log",
            metavar="TOOL[=PLACE]",
            help="Log runs while they run to tensorboard, mlflow or wandb; may be repeated.",
            autocompletion=tools,
        ),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help=(
                "Trace a few steps of one run of every data set, model and method, to DIR/profile."
            ),
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Run a study. What is finished in DIR already is not done again, so the same command goes on
    after a stop."""
    from crosswind.data.budget import memory_bytes

    out = Path(out_word)
    if store_url is not None and "://" not in store_url:
        raise InputError(
            "--store",
            f"{store_url!r} is no URL such as postgresql://HOST/NAME; a folder is named by --out",
        )
    if address is not None:
        problem = "is how many processors of this machine run; a cluster at --address has its own"
        refuse_unheard({"--workers": workers}, problem)
    processes = usable_cores()
    if workers_per_gpu is not None:
        processes = _workers_of_cards(workers_per_gpu, workers, engine)
    size = memory_bytes(memory, "--memory")
    if out.exists() and not out.is_dir():
        raise InputError("--out", f"{out} is a file; name a folder")
    may_be_done = engine == "pool" and not any((retry_failed, log, profile, as_json, address))
    if may_be_done and _is_done(study, scale, settings or (), out, store_url):
        return 0
    _check_before_planning(engine, address, log or (), store_url)
    from crosswind.execution.running import (
        check_ready,
        devices_of,
        engine_of,
        files_elsewhere,
        replaced_study,
        run_plan,
        slow_devices,
    )
    from crosswind.storage.store import Store
    from crosswind.studies.plan import plan_of
    from crosswind.studies.resources import resource_notes

    planned = plan_of(study, scale, settings or ())
    resource_warnings = resource_notes(planned.study) if engine == "pool" else []
    for text in (*planned.warnings, *resource_warnings):
        typer.echo(f"warning: {text}", err=True)

    trackers = _trackers(log or (), out, planned.study.name)
    if workers is None:
        workers = max(1, processes // devices_of(planned))
    check_ready(planned, workers, here=engine == "pool")
    for text in slow_devices(planned):
        typer.echo(f"warning: {text}", err=True)
    with (
        engine_of(
            planned,
            out,
            workers=workers,
            engine=engine,
            address=address,
            memory=size,
        ) as executing,
        Store.open(store_url or out, out=out, create=True) as store,
    ):
        notes = (*executing.notes, *replaced_study(planned, store), *files_elsewhere(store))
        for text in notes:
            typer.echo(f"warning: {text}", err=True)
        traces = out / "profile" if profile else None
        with (
            progress_bar() as display,
            _study_log(trackers, planned, store_url or out, out) as tell_log,
        ):
            tell = _teller(planned.study.name, display)
            summary = run_plan(
                planned,
                store,
                engine=executing,
                on_event=_both(tell, tell_log),
                retry_failed=retry_failed,
                profile=traces,
            )
        status = _finish(store, planned, summary, store_url or str(out), as_json)
        _remember(store, planned, summary)
    if profile:
        typer.echo(_traced(summary, out / "profile"), err=as_json)
    return status


def _check_before_planning(
    engine: str, address: str | None, log: Sequence[str], store_url: str | None
) -> None:
    """Refuse at once what is wrong whatever the study is, since a plan may take minutes. Raises
    `InputError`, `NeedsError` or `StoreError`."""
    from crosswind.execution.running import check_engine

    check_engine(engine, address)
    if log:
        from crosswind.live.study_log import places_of

        places_of(log)
    if store_url is not None:
        from crosswind.storage.database import check_server

        check_server(store_url)


def _is_done(
    word: str, scale: str | None, settings: Sequence[str], out: Path, store_url: str | None
) -> bool:
    """Whether a study ended before and is still as it was; then what it said is printed again."""
    from crosswind.reports.saved_text import has_saved_text, saved_text_unplanned

    if not has_saved_text(out):
        return False
    from crosswind.execution.done_before import fingerprint_of_study
    from crosswind.execution.scheduler import Progress
    from crosswind.storage.store import Store
    from crosswind.studies.reading import find_study
    from crosswind.studies.spec import load_study

    study = load_study(word, scale, settings)
    fingerprint = fingerprint_of_study(study, find_study(word)[1].parent)
    try:
        with Store.open(store_url or out, out=out) as store:
            said = saved_text_unplanned(store, study.name, fingerprint)
            if said is None or store.damaged(study.name):
                return False
            counts = store.counts(study.name)
    except StoreError:  # a new one, or one that the long way refuses
        return False
    for text in said["warnings"]:
        typer.echo(f"warning: {text}", err=True)
    n_done = counts["total"]
    message = f"{n_done} of {n_done} runs are done already"
    with progress_bar() as display:
        _teller(study.name, display)(Progress(n_done, 0, 0, n_done, None, message, ""))
    _print_said(said, study.name, "0 runs in 0 s.", store_url or str(out))
    return True


def _remember(store: Store, planned: Plan, summary: Summary) -> None:
    """Keep beside the text of a study that ended what `_is_done` compares."""
    if summary.failed or summary.stopped:
        return
    from crosswind.execution.done_before import ended_stamp, fingerprint
    from crosswind.reports.saved_text import add_to_text

    add_to_text(
        store,
        planned.study.name,
        fingerprint=fingerprint(planned.study, planned.jobs),
        stamp=ended_stamp(store, planned.study.name),
        warnings=list(planned.warnings),
    )


def _trackers(words: Sequence[str], out: Path, study: str) -> list[Any]:
    """The tools that `--log` names, opened; their libraries are loaded only then."""
    if not words:
        return []
    from crosswind.live.study_log import trackers_of

    return trackers_of(words, out, study)


@contextmanager
def _study_log(
    trackers: list[Any], planned: Plan, where: str | Path, out: Path
) -> Iterator[Callable[[Progress], None] | None]:
    """The log that takes the events of a driver for the tools of `--log`; None without any."""
    if not trackers:
        yield None
        return
    from crosswind.live.study_log import StudyLog
    from crosswind.storage.store import Store

    def warn(text: str) -> None:
        typer.echo(f"warning: {text}", err=True)

    resolved = planned.study.model_dump()
    with (
        Store.open(where, out=out) as reading,
        StudyLog(trackers, reading, planned.study.name, resolved, planned.jobs, warn) as log,
    ):
        yield log.tell


def _both(
    tell: Callable[[Progress], None], tell_log: Callable[[Progress], None] | None
) -> Callable[[Progress], None]:
    def tell_both(progress: Progress) -> None:
        tell(progress)
        if tell_log is not None:
            tell_log(progress)

    return tell_both


def _traced(summary: Summary, folder: Path) -> str:
    """The outcome of `--profile`, and how to look at it."""
    if not summary.executed:
        return (
            "Nothing was profiled: every run is done, and none is done again; name a new folder"
            " with --out to profile one."
        )
    lines = [f"Not profiled: {reason}." for reason in summary.untraced]
    if summary.traces:
        number = len(summary.traces)
        lines.append(
            f"{number} trace{'s' if number > 1 else ''} in {folder}: open a .json.gz at"
            " https://ui.perfetto.dev or in chrome://tracing; the .txt beside it names the"
            " operators that took most."
        )
    return "\n".join(lines or ["Nothing was profiled: no run that was chosen for it ended."])


def _workers_of_cards(workers_per_gpu: int, workers: int | None, engine: str) -> int:
    """So many processes for each graphics card that torch finds. Raises `InputError`."""
    if workers is not None:
        raise InputError("--workers-per-gpu", "stands in place of --workers; name one of them")
    if engine != "pool":
        share = f"{1 / workers_per_gpu:.3g}"
        raise InputError(
            "--workers-per-gpu", f"is for this machine; on a cluster --set resources.gpus={share}"
        )
    import torch

    cards = torch.cuda.device_count()
    if cards == 0:
        raise InputError("--workers-per-gpu", "torch finds no graphics card here; name --workers")
    return workers_per_gpu * cards


def _finish(store: Store, planned: Plan, summary: Summary, where: str, as_json: bool) -> int:
    """Write the page, and print what was found or, where nothing was done since, what was then."""
    from crosswind.reports.saved_text import save_text, saved_text, state_of

    name = planned.study.name
    state = None if as_json else state_of(store, name, summary)
    damaged = store.damaged(name)
    said = None if summary.executed or damaged else saved_text(store, name, state)
    if said is None:
        said = _report(store, planned, as_json)
        if not damaged:
            save_text(store, name, state, said)
    if not as_json:
        busy = f", workers busy {summary.busy:.0%} of it" if summary.executed else ""
        _print_said(
            said,
            name,
            f"{counted(summary.executed, 'run')} in {summary.seconds:.0f} s{busy}.",
            where,
        )
    warn_of_damage(name, damaged, where, store.out)
    if summary.stopped:
        typer.echo(f"stopped: {summary.stopped}", err=True)
    return 1 if summary.failed or summary.stopped else 0


def _print_said(said: dict[str, Any], study: str, executed: str, where: str) -> None:
    """Print the text of a study, how much was `executed`, and where its report is."""
    words = ["report", shown_store(where), *(["--study", study] if said["studies"] > 1 else [])]
    typer.echo(said["text"])
    typer.echo(executed)
    typer.echo(f"Results: crosswind {shlex.join(words)}")
    typer.echo(said["page sentence"])


def _report(store: Store, planned: Plan, as_json: bool) -> dict[str, Any]:
    """Write the page of all studies of the store; the text of this one, the number of studies, and
    where the page is."""
    from crosswind.cli.report import PAGE_NAME, make_page
    from crosswind.reports.gather import gather

    # The page is of the whole folder: a second study into it must not hide the first.
    records = {name: gather(store, name) for name in store.study_names()}
    record = records[planned.study.name]
    page_sentence = make_page(store, list(records.values()))
    if as_json:
        print_json({"status": status_row(store, planned.study.name), **record.to_json()})
    return {
        "text": "" if as_json else record.to_text(),
        "studies": len(records),
        "page": PAGE_NAME,
        "page sentence": page_sentence,
    }


def _teller(name: str, display: Any) -> Callable[[Progress], None]:
    """A callback that reports progress: by a bar on a terminal, elsewhere by about fifty lines,
    however many runs there are."""
    task = display.add_task(name, total=1, words="starting") if display else None
    printed, printed_at = -1.0, time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal printed, printed_at
        ended, failure = progress.done + progress.failed, "failed" in progress.message
        words = (
            f"{progress.done} of {progress.total} runs done, {progress.running} running,"
            f" {progress.failed} failed"
        )
        words += f", {_clock(progress.left)} left" if progress.left is not None else ""
        if "rows" in progress.report:  # of a model that is asked, which may take hours for one set
            words += f"; {progress.report['rows']:,} of {progress.report['of']:,} rows are answered"
        if display:
            display.update(task, total=progress.total, completed=ended, words=words)
        elif progress.report:
            if "rows" in progress.report and time.monotonic() - printed_at >= ROWS_SECONDS:
                printed_at = time.monotonic()
                print(f"{name}: {words}", file=sys.stderr)
        else:
            printed_at = time.monotonic()
            if (
                ended - printed >= max(1, progress.total // 50)
                or ended == progress.total
                or failure
            ):
                printed = ended
                print(f"{name}: {words}", file=sys.stderr)
        if failure and display:
            display.console.print(progress.message, markup=False)
        elif failure:
            print(progress.message, file=sys.stderr)

    return tell


def _clock(seconds: float) -> str:
    minutes, left_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02d} min"
        if hours
        else f"{minutes} min {left_seconds:02d} s"
        if minutes
        else f"{left_seconds} s"
    )
