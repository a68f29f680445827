"""How long the runs of a proposed study take on this machine: a few steps are trained to see."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from crosswind.studies.job_specs import FitSpec

if TYPE_CHECKING:
    from crosswind.studies.plan import Plan

FEW, MORE = 3, 13
"""Steps of the two runs that are timed."""
AIM: Final = 240.0
"""Seconds that a proposed study should take at most."""
LONGEST: Final = 420.0
"""The same where else there would be fewer than `ENOUGH` repeats: below, intervals widen fast."""
REPEATS: Final = (30, 20, 15, 10)
"""Fewer tell nothing: with five, a difference must be 2.6 times its spread between repeats."""
ENOUGH: Final = 15


@dataclass(frozen=True)
class RunTime:
    """Seconds that a run takes: those of a `step`, and those `besides` its steps (reading,
    validating, testing), which most runs share with others of one worker."""

    step: float
    besides: float

    def of_runs(self, plan: Plan) -> float:
        """The seconds that all runs of a plan take one after the other."""
        jobs = [job for job in plan.jobs if job.kind == "fit"]
        return sum(self.besides + self.step * _steps(FitSpec.of(job.spec)) for job in jobs)


def run_time(plan: Plan) -> RunTime:
    """The time of a plan's runs, by that of a few steps of the first of them that descends a
    gradient."""
    jobs = [job for job in plan.jobs if job.kind == "fit"]
    jobs = [job for job in jobs if FitSpec.of(job.spec).model.name != "sklearn"] or jobs
    if not jobs:
        return RunTime(0.0, 0.0)
    spec = FitSpec.of(jobs[0].spec)
    _seconds(spec, FEW)  # reads the data, loads the libraries
    short = _seconds(spec, FEW)
    longer = _seconds(spec, MORE)
    step = max(longer - short, 0.0) / (MORE - FEW)
    return RunTime(step, max(short - FEW * step, 0.0))


def repeats_that_fit(seconds: float, repeats: int, workers: int) -> int:
    """The number of repeats, of `REPEATS`, with which a study that takes so many seconds with
    `repeats` of them stays below `AIM`, or `LONGEST`."""
    seconds_a_repeat = seconds / repeats / max(workers, 1)
    for number in REPEATS:
        if number * seconds_a_repeat <= (LONGEST if number <= ENOUGH else AIM):
            return number
    return REPEATS[-1]


def _steps(spec: FitSpec) -> int:
    """The steps of a run: twice those of the study for a method that trains a network before, and
    half for a forest, which takes about their time."""
    steps = int(spec.training["steps"])
    if spec.model.name == "sklearn":
        return steps // 2
    if spec.method.name != "erm":
        return 2 * steps
    return steps


def _seconds(spec: FitSpec, steps: int) -> float:
    """The seconds that the run of a specification takes with so many steps."""
    import torch

    from crosswind.core.registry import load
    from crosswind.studies.jobs import split_of
    from crosswind.training.loop import fit
    from crosswind.training.settings import ModelSpec, TrainingSettings

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        split, datasets = split_of(spec.rows)
        settings = {**spec.training, "steps": steps, "validate_every": steps}
        model = ModelSpec(spec.model.name, spec.model.knobs)
        method: Any = load("methods", "erm")()
        start = time.perf_counter()
        fit(method, split, datasets, model, TrainingSettings(**settings), seed=0)
        return time.perf_counter() - start
    finally:
        torch.set_num_threads(threads)
