"""The repeats of a proposed study, and the time that its runs take on this machine.

The number of repeats depends on the table alone: on the work of its runs in seconds of one machine,
written down here, and on the test rows, which say how small a cost so many repeats can tell. A
measurement of a busy machine would yield a study without power. What `init` and `plan` say of time
is measured.
"""

from __future__ import annotations

import math
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
"""The same where else there would be fewer repeats than the question needs."""
REPEATS: Final = (30, 20, 15, 10)
"""Fewer tell nothing: with five, a difference must be 2.6 times its spread between repeats."""
ENOUGH: Final = 15
"""Repeats that every question needs: below, intervals widen fast."""
TELLABLE: Final = 0.05
"""The cost in accuracy that a study should tell in four of five cases, by a test at 5%."""
WORKERS: Final = 2
"""Processes of the machine that repeats are fitted to."""
SECONDS_A_STEP: Final = {"numbers": 0.001, "texts": 0.004, "images": 0.029}
"""Processor seconds of one training step of the proposed network on two cores of a server of 2023,
by kind of inputs; of images of `SIDE` pixels."""
SECONDS_A_RUN: Final = 0.3
"""Those of a run besides its steps: reading, validating, testing, writing."""
SIDE: Final = 32


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


def nominal_time(kind: str, side: int) -> RunTime:
    """The time of a run on the machine that repeats are fitted to; `side`: of pictures, in pixels."""
    scale = (side / SIDE) ** 2 if kind == "images" else 1.0
    return RunTime(SECONDS_A_STEP[kind] * scale, SECONDS_A_RUN)


def repeats_needed(test_rows: int) -> int:
    """The fewest repeats, of `REPEATS` and at least `ENOUGH`, that tell a cost of `TELLABLE` with so
    many test rows each; the most of them where none does.

    The spread of a difference of two accuracies between repeats is taken to be that of counting:
    sqrt(2 * 1/4 / rows). A t test at 5% then tells `TELLABLE` in 80% of the cases where (t(.975) +
    t(.8)) * spread / sqrt(repeats) is smaller.
    """
    from scipy.stats import t as student

    spread = math.sqrt(0.5 / max(test_rows, 1))
    for number in sorted(REPEATS):
        quantiles = student.ppf(0.975, number - 1) + student.ppf(0.8, number - 1)
        if number >= ENOUGH and quantiles * spread / math.sqrt(number) <= TELLABLE:
            return number
    return max(REPEATS)


def repeats_that_fit(seconds: float, repeats: int, needed: int = ENOUGH) -> int:
    """The number of repeats, of `REPEATS`, with which a study that takes so many seconds of one
    process with `repeats` of them stays below `AIM`, or below `LONGEST` with those that are
    `needed`."""
    seconds_a_repeat = seconds / repeats / WORKERS
    for number in REPEATS:
        if number * seconds_a_repeat <= (LONGEST if number <= needed else AIM):
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
    """The processor seconds that the run of a specification takes with so many steps. A clock would
    count the other work of a busy machine."""
    import torch

    from crosswind.core.registry import load
    from crosswind.execution.jobs import split_of
    from crosswind.training.loop import fit
    from crosswind.training.settings import ModelSpec, TrainingSettings

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        split, datasets = split_of(spec.rows)
        settings = {**spec.training, "steps": steps, "validate_every": steps}
        model = ModelSpec(spec.model.name, spec.model.knobs)
        method: Any = load("methods", "erm")()
        start = time.process_time()
        fit(method, split, datasets, model, TrainingSettings(**settings), seed=0)
        return time.process_time() - start
    finally:
        torch.set_num_threads(threads)
