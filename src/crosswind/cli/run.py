"""`crosswind run STUDY`: plan, execute what is not done yet, print the tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosswind.cli.options import DEFAULT_OUT, AsJson, Overrides, Scale, StudyWord, print_json

if TYPE_CHECKING:
    from crosswind.studies.plan import Plan
    from crosswind.studies.scheduler import Progress, Summary
    from crosswind.studies.store import Store

__all__ = ["run_command"]

JOB = "crosswind.studies.run:execute"


def _folder(text: str) -> Path:
    # Path("") is the working directory, which nobody means by a variable that is not set.
    if not str(text):
        raise typer.BadParameter("must not be empty")
    return Path(text)


def run_command(
    study: StudyWord,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, max=1024, help="Processes that train at once; default: one a core."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results go.", parser=_folder)] = Path(DEFAULT_OUT),
    settings: Overrides = None,
    scale: Scale = None,
    store_url: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Keep results in this PostgreSQL database, files in --out.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed runs again.")] = False,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="Most memory for pixels, such as 8GB; default: half. Others are read ahead."),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Trace a few steps of one run of every data set, model and method, to DIR/profile.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Run a study. What is finished in DIR already is not done again, so the same command goes on after a stop."""
    from crosswind.core.errors import InputError
    from crosswind.data.budget import memory_bytes
    from crosswind.studies.build import build_dataset, check_pixels
    from crosswind.studies.plan import make_plan
    from crosswind.studies.spec import load_study, study_path

    if store_url is not None and "://" not in store_url:
        raise InputError("--store", f"{store_url!r} is no URL such as postgresql://HOST/NAME; a folder is named by --out")
    size = memory_bytes(memory, "--memory")
    if out.exists() and not out.is_dir():
        raise InputError("--out", f"{out} is a file; name a folder")
    planned = make_plan(load_study(study, scale, settings or ()), study_path(study).parent)
    for text in planned.warnings:
        typer.echo(f"warning: {text}", err=True)

    _check_devices(planned)
    for values in {name: values for run in planned.runs for name, values in run.spec["data"].items()}.values():
        check_pixels(build_dataset(values), workers or _cores())

    from crosswind.studies.store import Store

    with Store.open(store_url or out, out=out, create=True) as store:
        given = planned.study.model_dump(exclude_unset=True)
        store.add_plan(planned.study.name, given, planned.study.model_dump(), planned.runs)
        summary = _drive(store, planned, workers or _cores(), retry_failed, out / "profile" if profile else None, size)
        status = _finish(store, planned, summary, store_url or str(out), as_json)
    if profile:
        typer.echo(_traced(summary, out / "profile"), err=as_json)
    return status


def _traced(summary: Summary, folder: Path) -> str:
    """What came of `--profile`, and how to look at it."""
    if not summary.executed:
        return "Nothing was profiled: every run is done, and none is done again; name a new folder with --out to profile one."
    lines = [f"Not profiled: {reason}." for reason in summary.untraced]
    if summary.traces:
        number = len(summary.traces)
        lines.append(
            f"{number} trace{'s' if number > 1 else ''} in {folder}: open a .json.gz at https://ui.perfetto.dev or in "
            "chrome://tracing; the .txt beside it names the operators that took most."
        )
    return "\n".join(lines or ["Nothing was profiled: no run that was chosen for it ended."])


def _check_devices(planned: Plan) -> None:
    """Refuse a device that is not here before anything is written; without one in the study, torch is not even imported."""
    asked = {run.spec["training"]["device"] for run in planned.runs} - {"cpu"}
    if asked:
        from crosswind.training.device import check_device

        for device in sorted(asked):
            check_device(device)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _drive(store: Store, planned: Plan, workers: int, retry_failed: bool, profile: Path | None, memory: int | None) -> Summary:
    from crosswind.studies.engines.pool import Pool
    from crosswind.studies.scheduler import drive

    distinct = len({run.key for run in planned.runs})
    with Pool(JOB, min(workers, distinct), memory=memory) as engine, _Display(planned) as display:
        return drive(
            store,
            planned.runs,
            engine,
            on_event=display.show,
            time_limit=planned.study.time_limit,
            retry_failed=retry_failed,
            profile=profile,
        )


def _finish(store: Store, planned: Plan, summary: Summary, where: str, as_json: bool) -> int:
    from crosswind.cli.check import damage_sentence
    from crosswind.cli.report import make_page, tables_of
    from crosswind.reports.gather import gather

    tables = tables_of(store, planned.study.name)
    # The page is of the whole folder: a second study into it must not hide the first.
    page = make_page(store, [gather(store, name) for name in store.study_names()])
    if as_json:
        from crosswind.cli.status import status_row

        print_json({"status": status_row(store, planned.study.name), "tables": [table.to_json() for table in tables]})
    else:
        typer.echo("\n\n".join(table.to_text() for table in tables))
        again = f"crosswind report {where} --study {planned.study.name}"
        busy = f", workers busy {summary.busy:.0%} of it" if summary.executed else ""
        typer.echo(f"\n{summary.executed} runs in {summary.seconds:.0f} s{busy}; results are in {where} ({again})")
        typer.echo(page)
    if damaged := store.damaged(planned.study.name):
        typer.echo(damage_sentence(planned.study.name, damaged, where), err=True)
    if summary.stopped:
        typer.echo(f"stopped: {summary.stopped}", err=True)
    return 1 if summary.failed or summary.stopped else 0


class _Display:
    """Progress on standard error: a live bar on a terminal, a line every so often elsewhere."""

    def __init__(self, planned: Plan) -> None:
        self.name = planned.study.name
        self.bar: Any = None
        self.printed = -1.0

    def __enter__(self) -> _Display:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self.bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"), console=Console(stderr=True)
            )
            self.bar.start()
            self.task = self.bar.add_task(self.name, total=1, words="starting")
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, progress: Progress) -> None:
        words = f"{progress.done} of {progress.total} runs done, {progress.running} running, {progress.failed} failed"
        if progress.left is not None:
            words += f", {_clock(progress.left)} left"
        if self.bar is not None:
            self.bar.update(self.task, total=progress.total, completed=progress.done + progress.failed, words=words)
        elif not progress.report:
            ended = progress.done + progress.failed
            # About fifty lines in all, however many runs there are; every failure is said.
            if ended - self.printed >= max(1, progress.total // 50) or ended == progress.total or "failed" in progress.message:
                self.printed = ended
                print(f"{self.name}: {words}", file=sys.stderr)
        if "failed" in progress.message and self.bar is not None:
            self.bar.console.print(progress.message, markup=False)
        elif "failed" in progress.message:
            print(progress.message, file=sys.stderr)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
