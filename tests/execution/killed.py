"""Jobs of real training that kill their process once in the middle of every stage, and write down
what they do."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from crosswind.execution import jobs
from crosswind.execution.engines import Workspace
from crosswind.execution.engines.inline import Inline
from crosswind.execution.scheduler import drive
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

LOG = "CROSSWIND_TESTS_LOG"
KILLS = "CROSSWIND_TESTS_KILLS"


def lines(log: Path) -> list[list[str]]:
    """What was written down: begun KEY, killed KEY STAGE STEP, at KEY STAGE STEP, done KEY; names
    without spaces."""
    return (
        [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
        if log.exists()
        else []
    )


def execute(kind: str, spec: Mapping[str, Any], workspace: Workspace) -> dict[str, Any]:
    """`jobs.execute`; with KILLS set, a fit ends its process at the first report of each stage."""
    if kind != "fit":
        return jobs.execute(kind, spec, workspace)
    log = Path(os.environ[LOG])

    def write(*words: object) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(" ".join(str(word).replace(" ", "-") for word in words) + "\n")

    def report(report_values: dict[str, Any]) -> None:
        workspace.report(report_values)
        moment = (workspace.key, report_values["stage"], report_values["step"])
        if os.environ.get(KILLS) and [
            "killed",
            workspace.key,
            str(report_values["stage"]).replace(" ", "-"),
        ] not in [words[:3] for words in lines(log)]:
            write("killed", *moment)
            os.kill(os.getpid(), signal.SIGKILL)
        write("at", *moment)

    write("begun", workspace.key)
    done_files = jobs.execute(kind, spec, replace(workspace, report=report))
    write("done", workspace.key)
    return done_files


def go_on(study: Mapping[str, Any], out: str, log: str, kills: bool) -> None:
    """Begin the study, or go on with it, in this process; it has failed where a job has."""
    import torch

    torch.set_num_threads(1)
    os.environ |= {LOG: log, KILLS: "yes" if kills else ""}
    plan = make_plan(study_from(dict(study), name="killed"))
    with (
        Store.open(Path(out), create=True) as store,
        Inline("tests.execution.killed:execute") as engine,
    ):
        store.add_plan("killed", {}, plan.study.model_dump(), plan.jobs)
        raise SystemExit(1 if drive(store, plan.jobs, engine).failed else 0)
