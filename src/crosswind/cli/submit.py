"""`crosswind submit STUDY --slurm`: a job array whose tasks take runs of one store."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from crosswind.cli.options import DEFAULT_OUT, Overrides, Scale, StudyWord
from crosswind.core.errors import InputError, StoreError, one_line

_TIME = re.compile(r"(\d+-)?\d{1,3}(:\d{2}){0,2}")
LAST_SECONDS = 60
"""Before a task's time is over it is told, so that what it has is free for others at once."""


def submit_command(
    study: StudyWord,
    slurm: Annotated[bool, typer.Option("--slurm", help="To Slurm, by sbatch.")] = False,
    printed: Annotated[
        bool, typer.Option("--print", help="Print the job's file and send nothing.")
    ] = False,
    tasks: Annotated[
        int, typer.Option("--tasks", metavar="N", min=1, max=10_000, help="Tasks of the array.")
    ] = 1,
    cpus: Annotated[
        int, typer.Option("--cpus", metavar="N", min=1, max=1024, help="Processes of a task.")
    ] = 1,
    gpus: Annotated[
        int, typer.Option("--gpus", metavar="N", min=0, max=64, help="Graphics cards of a task.")
    ] = 0,
    time: Annotated[
        str | None, typer.Option("--time", metavar="D-HH:MM:SS", help="The time of a task.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="SIZE", help="The memory of a task.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", metavar="NAME", help="Slurm's partition.")
    ] = None,
    account: Annotated[
        str | None, typer.Option("--account", metavar="NAME", help="Whose account.")
    ] = None,
    store_url: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="The PostgreSQL database of the results."),
    ] = None,
    out_word: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Where files go.")
    ] = DEFAULT_OUT,
    settings: Overrides = None,
    scale: Scale = None,
) -> None:
    """Write a job array for a batch system and send it: each task runs the study on one store.

    A task ends when no run is left. What it had when its time was over is free again, and goes on
    from its checkpoint in another.
    """
    from crosswind.execution.running import devices_of
    from crosswind.studies.plan import plan_of

    _check_options(slurm, tasks, store_url, time, {"--partition": partition, "--account": account})
    out = Path(out_word).absolute()
    if out.is_file():
        raise InputError("--out", f"{out_word} is a file; name a folder")
    if "\n" in out_word:
        raise InputError("--out", f"{out_word!r} has a line break, which no job's file can hold")
    planned = plan_of(study, scale, settings or ())
    words = {"--store": store_url, "--scale": scale}
    program = str(Path(sys.executable).with_name("crosswind"))
    if Path(study).is_file():
        study_word = str(Path(study).absolute())
    else:
        study_word = study
    run = [
        program,
        "run",
        study_word,
        *("--out", str(out)),
        *(word for name, value in words.items() if value for word in (name, value)),
        *_workers(cpus, gpus, devices_of(planned)),
        *(word for setting in settings or () for word in ("--set", setting)),
    ]
    gres = f"gpu:{gpus}" if gpus else None
    mem = None if memory is None else _mebibytes(memory)
    job_name = re.sub(r"[^A-Za-z0-9_.-]+", "-", planned.study.name)
    head = {
        "job-name": f"crosswind-{job_name}",
        "array": f"1-{tasks}",
        "ntasks": 1,
        "cpus-per-task": cpus,
        "gres": gres,
        "mem": mem,
        "time": time,
        "partition": partition,
        "account": account,
        "output": _as_slurm_reads(f"{str(out / 'slurm').replace('%', '%%')}/%A_%a.log"),
        "signal": f"B:TERM@{LAST_SECONDS}",
    }
    script = _script(head, run)
    if printed:
        typer.echo(script, nl=False)
        return
    typer.echo(_sent(script, out))


def _check_options(
    slurm: bool,
    tasks: int,
    store_url: str | None,
    time: str | None,
    names: Mapping[str, str | None],
) -> None:
    """Refuse what no job array could be made of, by an `InputError`. `names`: by option."""
    if not slurm:
        raise InputError(
            "--slurm",
            "is the batch system that there is; name it, or start"
            " `crosswind run` as often as another one lets you",
        )
    if tasks > 1 and (store_url is None or "://" not in store_url):
        problem = "several tasks may be on several machines, which share no SQLite file"
        raise InputError("--store", f"{problem}; name a database: postgresql://USER@HOST/NAME")
    if store_url is not None and "://" not in store_url:
        problem = f"{store_url!r} is no URL such as postgresql://HOST/NAME"
        raise InputError("--store", f"{problem}; a folder is named by --out")
    if store_url is not None:
        _refuse_password(store_url)
    if time is not None and not _TIME.fullmatch(time):
        raise InputError("--time", f"{time!r} is no time such as 2-00:00:00, 04:00:00 or 30")
    if time is not None and not re.search("[1-9]", time):
        problem = f"{time!r} is no time, which Slurm reads as no limit"
        raise InputError("--time", f"{problem}; leave it out for the partition's own")
    for option, name in names.items():
        if name is not None and not re.fullmatch(r"[\w.,@+-]+", name):
            raise InputError(option, f"{name!r} is no name of Slurm's")


def _refuse_password(store_url: str) -> None:
    """Refuse what is no URL of a store, and a password, which a job's file would show to whoever
    reads it. Raises `InputError`."""
    from crosswind.storage.database import PASSWORD_REMEDY, has_password, without_password

    try:
        shows_password = has_password(store_url)
    except StoreError as error:
        raise InputError("--store", str(error)) from None
    if shows_password:
        problem = (
            f"{without_password(store_url)} has a password, which others can read in a job's file"
        )
        raise InputError("--store", f"{problem}; {PASSWORD_REMEDY}")


def _workers(cpus: int, gpus: int, devices: int) -> list[str]:
    """The options that give a task as many processes as it has processors, spread over its cards.

    `devices`: those that one run is shared among. Raises `InputError` where a task has fewer.
    """
    option, available = ("--gpus", gpus) if gpus else ("--cpus", cpus)
    if devices > available:
        problem = f"is {available}, and a run of the study is shared among {devices} devices"
        raise InputError(option, f"{problem}; give {devices} or more")
    if gpus:
        return ["--workers-per-gpu", str(max(1, cpus // gpus))]
    return ["--workers", str(cpus // devices)]


def _script(head: dict[str, object], run: Sequence[str]) -> str:
    """The file of a job array: Slurm's options, and the command that each task becomes."""
    options = [f"#SBATCH --{name}={value}" for name, value in head.items() if value is not None]
    # In the command's place, so that Slurm's signal reaches it and no shell.
    return "\n".join(["#!/bin/bash", *options, "", f"exec {shlex.join(run)}", ""])


def _as_slurm_reads(value: str) -> str:
    """The value of an option as a line of a job's file has it: in quotes where a space or a # would
    end it there, with a backslash before what ends the quotes."""
    if re.fullmatch(r"[^\s\"'\\#]*", value):
        return value
    escaped = re.sub(r"([\"\\])", r"\\\1", value)
    return f'"{escaped}"'


def _mebibytes(memory: str) -> str:
    from crosswind.data.budget import memory_bytes

    size = memory_bytes(memory, "--memory")
    assert size is not None
    if size < 2**20:
        problem = f"{memory!r} is less than 1MB, in which no task runs"
        raise InputError("--memory", f"{problem}; leave it out for the partition's own")
    return f"{size // 2**20}M"


def _sent(script: str, out: Path) -> str:
    """Slurm's answer on submission of the job. Raises `InputError` where it is not here or
    refuses."""
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise InputError("--slurm", "there is no sbatch here; --print shows the file for it")
    (out / "slurm").mkdir(parents=True, exist_ok=True)  # Slurm makes no folder for logs
    env = dict(os.environ)
    done = subprocess.run(
        [sbatch], input=script, capture_output=True, text=True, check=False, env=env
    )
    if done.returncode:
        reason = one_line(done.stderr or done.stdout, 300) or f"exit status {done.returncode}"
        problem = f"sbatch refuses: {reason}"
        raise InputError("--slurm", problem)
    return one_line(done.stdout, 300)
