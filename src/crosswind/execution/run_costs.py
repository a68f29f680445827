"""The cost of a study, seconds of one worker on this machine and bytes of its store. It is measured
by shortened runs of each kind in a temporary folder."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import CrosswindError
from crosswind.core.types import Job
from crosswind.execution.engines import Workspace
from crosswind.studies.halving import rungs_of
from crosswind.studies.job_specs import FitSpec

if TYPE_CHECKING:
    from crosswind.studies.plan import Plan

__all__ = ["FitCost", "StudyCost", "measure_costs"]

SHORT, LEAST, MOST = 3, 9, 100
"""Steps of a first shortened run, which warms the process up, and the least and the most of a second
one, whose difference is the time of a step: what comes once is in both."""
STEPPING_SECONDS = 0.5
"""What the steps of the second run are to take."""


@dataclass(frozen=True)
class FitCost:
    """The fits of one method with one model on one data set.

    `fits`: how many the study has. `steps`: of one of them at most, all stages together.
    `step_seconds`: of one step. `fit_seconds`: of one fit, with its validations. `test_seconds`: of
    the predictions of its test sets and of their changed copies. `bytes`: of the files of one fit
    and of what follows it. `trouble`: why it could not be measured, else empty. `devices`: that one
    fit is shared among.
    """

    data: str
    model: str
    method: str
    fits: int
    device: str = "cpu"
    steps: int = 0
    step_seconds: float = 0.0
    fit_seconds: float = 0.0
    test_seconds: float = 0.0
    bytes: int = 0
    share: float = 1.0
    trouble: str = ""
    devices: int = 1

    @property
    def seconds(self) -> float:
        """Of one worker, for all of these fits."""
        return self.fits * (self.share * self.fit_seconds + self.test_seconds)


@dataclass(frozen=True)
class StudyCost:
    """The cost of a study. `asked`: predictions of models that are not trained here, which are not
    in it. `measuring`: the seconds that it took to find out."""

    fits: tuple[FitCost, ...]
    asked: int
    measuring: float

    @property
    def seconds(self) -> float:
        """Of one worker, for all runs; at most, since runs may stop early."""
        return sum(fit.seconds for fit in self.fits)

    @property
    def gpu_seconds(self) -> float:
        """Those of the fits that are trained on accelerators, each of which counts."""
        return sum(fit.devices * fit.seconds for fit in self.fits if fit.device != "cpu")

    @property
    def bytes(self) -> int:
        """Of the files of all runs."""
        return sum(fit.fits * fit.bytes for fit in self.fits)

    def to_json(self) -> dict[str, Any]:
        """The cost as plain values."""
        totals = {"seconds": self.seconds, "gpu_seconds": self.gpu_seconds, "bytes": self.bytes}
        fits = [{**dataclasses.asdict(fit), "seconds": fit.seconds} for fit in self.fits]
        return {**totals, "asked": self.asked, "measuring_seconds": self.measuring, "fits": fits}


def measure_costs(plan: Plan) -> StudyCost:
    """Do two shortened runs of each method with each model on each data set of a plan, and reckon
    the cost of the whole from them. Writes to a temporary folder alone.

    A run that fails is told of in its `FitCost.trouble`. Grids and shifts are taken to cost what
    their first point costs.
    """
    started = time.perf_counter()
    followers: dict[str, list[Job]] = {}
    for job in plan.jobs:
        if job.follows:
            followers.setdefault(job.follows, []).append(job)
    first_fits: dict[tuple[str, str, str], Job] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for key, job in {job.key: job for job in plan.jobs}.items():
        del key
        if job.kind != "fit" or job.labels.get("role") == "rung":
            continue
        kind = (str(job.labels["data"]), str(job.labels["model"]), str(job.labels["method"]))
        first_fits.setdefault(kind, job)
        counts[kind] += 1
    jobs = {job.key: job for job in plan.jobs}
    fits = []
    for kind, fit in first_fits.items():
        spec = FitSpec.of(fit.spec)
        share = _share(plan, fit)
        cost = FitCost(*kind, counts[kind], spec.device, share=share, devices=spec.devices)
        fits.append(_measured(cost, fit, followers.get(fit.key, []), jobs))
    asked = {job.key for job in plan.jobs if job.kind == "predict" and not job.follows}
    return StudyCost(tuple(fits), len(asked), time.perf_counter() - started)


def _share(plan: Plan, fit: Job) -> float:
    """The share of the steps of a fit that are done in the mean: less than one where a search
    halves."""
    search = plan.study.search
    if "rung" not in fit.spec or search is None or search.halving is None:
        return 1.0
    return rungs_of(search.points, search.halving.factor, search.halving.rungs).cost(search.points)


def _measured(
    cost: FitCost, fit: Job, following: Sequence[Job], jobs: Mapping[str, Job]
) -> FitCost:
    """The cost of a kind of fit, from shortened runs of one of them and what follows it."""
    training = FitSpec.of(fit.spec).training
    bases = [jobs[key] for key in fit.needs if jobs[key].labels.get("role") == "base"]
    try:
        with tempfile.TemporaryDirectory(prefix="crosswind-cost-") as folder:
            root = Path(folder)
            needed = {base.key: _shortened(base, SHORT, root, {}).folder for base in bases}
            short = _shortened(fit, SHORT, root, needed)
            wanted = int(STEPPING_SECONDS / max(1e-9, short.mean_step))
            longer = short  # of steps so slow that what comes once hardly matters
            if wanted:
                longer = _shortened(fit, min(MOST, max(LEAST, wanted)), root, needed)
            seconds, size = _following(following, longer, root)
            size += _bytes(longer.folder)
    except CrosswindError as error:
        return dataclasses.replace(cost, trouble=str(error))
    step = longer.per_step(short)
    stages = longer.cost["steps"] / longer.asked
    steps = round(stages * longer.longest(training))
    validations = max(1, steps // training["validate_every"])
    validation = longer.cost["validation_seconds"] / longer.validations
    once = longer.cost["prepare_seconds"] + longer.cost["other_seconds"]
    fit_seconds = once + steps * step + validations * validation
    return dataclasses.replace(
        cost,
        steps=steps,
        step_seconds=step,
        fit_seconds=fit_seconds,
        test_seconds=seconds,
        bytes=size,
    )


@dataclass
class _ShortRun:
    """A shortened fit: its folder, its cost, the steps of a stage that it was `asked` for, and its
    number of validations."""

    workspace: Workspace
    cost: Mapping[str, float]
    asked: int
    validations: int
    n_rows: int

    @property
    def folder(self) -> Path:
        return self.workspace.folder

    def per_step(self, shorter: _ShortRun) -> float:
        """The seconds of one step: those that this run took more than a shorter one."""
        steps = self.cost["steps"] - shorter.cost["steps"]
        seconds = _step_seconds(self.cost) - _step_seconds(shorter.cost)
        if steps > 0 and seconds > 0:
            return seconds / steps
        return self.mean_step

    @property
    def mean_step(self) -> float:
        """The mean seconds of a step, with what comes once."""
        return _step_seconds(self.cost) / max(1.0, self.cost["steps"])

    def longest(self, training: Mapping[str, Any]) -> int:
        """The most steps of a stage by the settings of a run."""
        from crosswind.training.settings import TrainingSettings

        return TrainingSettings(**training).longest(self.n_rows)


def _step_seconds(cost: Mapping[str, float]) -> float:
    return cost["step_seconds"] + cost["data_seconds"]


def _shortened(fit: Job, steps: int, root: Path, needed: Mapping[str, Path]) -> _ShortRun:
    """A fit of `steps` steps, done in a folder of its own.

    Without a schedule, which costs nothing and may be longer than these steps.
    """
    from crosswind.execution.jobs import execute
    from crosswind.training.settings import TrainingSettings

    training = {
        **fit.spec["training"],
        "steps": steps,
        "epochs": None,
        "validate_every": steps,
        "patience": None,
        "stop_at": None,
        "fit_at": None,
        "loss_at": None,
        "schedule": "constant",
        "warmup": 0,
        "decay": TrainingSettings.decay,
        "decay_every": None,
    }
    spec = {**fit.spec, "training": training}
    spec.pop("rung", None)
    folder = root / f"{fit.key}-{steps}"
    folder.mkdir()
    needs = tuple(needed)
    checkpoint = folder.with_suffix(".checkpoint")
    workspace = Workspace(fit.key, needs, folder, checkpoint, lambda _: None, needed)
    cost = execute("fit", spec, workspace)["cost"]
    history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    n_rows = json.loads((folder / "split.json").read_text(encoding="utf-8"))["sets"]["train"][
        "rows"
    ]
    validations = max(1, len(history))
    return _ShortRun(workspace, cost, steps, validations, n_rows)


def _following(jobs: Sequence[Job], fit: _ShortRun, root: Path) -> tuple[float, int]:
    """Seconds and bytes of what follows a fit: predictions are made, changed copies take as long as
    the predictions of their set times their number. Estimates and scores take next to no time."""
    from crosswind.execution.jobs import execute

    seconds, size = 0.0, 0
    seconds_of_set: dict[str, float] = {}
    for job in jobs:
        if job.kind != "predict":
            continue
        folder = root / job.key
        folder.mkdir()
        needs = (fit.workspace.key,)
        needed = {fit.workspace.key: fit.folder}
        workspace = dataclasses.replace(
            fit.workspace, key=job.key, needs=needs, folder=folder, needed=needed
        )
        started = time.perf_counter()
        execute("predict", job.spec, workspace)
        seconds_of_set[job.spec["set"]] = time.perf_counter() - started
        size += _bytes(folder)
    seconds += sum(seconds_of_set.values())
    mean = seconds / len(seconds_of_set) if seconds_of_set else 0.0
    for job in jobs:
        if job.kind == "score":  # has the report of the split again
            size += (fit.folder / "split.json").stat().st_size
        if job.kind == "vary":
            seconds += seconds_of_set.get(job.spec["set"], mean) * int(job.spec["neighbours"])
    return seconds, size


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
