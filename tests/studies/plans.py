"""What tests ask of a plan, and how they do one of its jobs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crosswind.core.types import Job
from crosswind.execution.engines import Workspace
from crosswind.execution.jobs import execute
from crosswind.studies.plan import Plan


def of_kind(plan: Plan, kind: str) -> list[Job]:
    return [job for job in plan.jobs if job.kind == kind]


def whole_specs(plan: Plan) -> Iterator[dict[str, Any]]:
    """Of every run the specification of its fit, with the test sets that are predicted."""
    jobs = {job.key: job for job in plan.jobs}
    for run in plan.runs:
        needed = [jobs[key] for key in run.needs]
        spec = dict(next(job.spec for job in needed if job.kind == "fit"))
        for job in needed:
            if job.kind == "predict":
                spec["data"] = {**spec["data"], **job.spec["data"]}
                spec["split"] = {
                    **spec["split"],
                    "sets": {**spec["split"]["sets"], job.spec["set"]: job.spec["item"]},
                }
        yield spec


def alone(
    job: Job,
    folder: Path,
    checkpoint: Path,
    report: Callable[[dict[str, Any]], None] = lambda told: None,
) -> dict[str, Any]:
    """One job that needs no other, or trains what it needs itself."""
    return execute(job.kind, dict(job.spec), Workspace(job.key, (), folder, checkpoint, report))
