"""The way from a plan to results in a store; the command line and the API are thin over it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from crosswind.core.errors import InputError, counted, unknown
from crosswind.core.registry import facts
from crosswind.core.types import Job, canonical
from crosswind.data.dataset import AttributedDataset
from crosswind.execution.engines import Engine
from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.jobs import WEIGHTS
from crosswind.execution.scheduler import Progress, Summary, drive
from crosswind.storage.artifacts import FOLDER, artifact_folder
from crosswind.storage.store import Store
from crosswind.studies.build import build_dataset, check_pixels
from crosswind.studies.job_specs import ClassSpec, FitSpec, SplitSpec
from crosswind.studies.pixel_copies import check_pixel_copies
from crosswind.studies.plan import Plan
from crosswind.studies.resources import resources_of

EXECUTE = "crosswind.execution.jobs:execute"
ENGINES = ("pool", "ray")
"""Where runs may be executed."""


def check_ready(plan: Plan, workers: int, *, here: bool = True) -> None:
    """Refuse, before anything is written, a device that is not here, pictures that cannot be
    decoded, weights that do not fit, and a model elsewhere that cannot be asked.

    `workers`: threads that decode; `here`: whether the runs are executed on this machine, so that
    their devices must be there. Raises `InputError`, `DataError`.
    """
    jobs = list(_of_other_parts(plan.jobs))
    if here:
        _check_devices(jobs)
    used = {name: values for job in jobs for name, values in job.spec.get("data", {}).items()}
    datasets = {name: build_dataset(values) for name, values in used.items()}
    pixels = {name: check_pixels(dataset, workers) for name, dataset in datasets.items()}
    decoded = {name: hashes for name, hashes in pixels.items() if hashes is not None}
    check_pixel_copies(plan.study, datasets, decoded)
    _check_external_models(jobs, datasets)
    _check_weights(jobs, datasets)


def _check_devices(jobs: Iterable[Job]) -> None:
    """Refuse a device that torch does not find here, and more devices than it finds."""
    devices = {(fit.device, fit.devices) for fit in _fits(jobs)} - {("cpu", 1)}
    if devices:  # else torch is not even imported
        from crosswind.training.device import check_device, check_devices

        for device, count in sorted(devices):
            if count == 1:
                check_device(device)
            else:
                check_devices(device, count)


def _check_external_models(jobs: Iterable[Job], datasets: Mapping[str, AttributedDataset]) -> None:
    """Refuse a model elsewhere that cannot be asked, or not about this data."""
    outside_models: dict[str, ClassSpec] = {}
    models_on_data: dict[str, tuple[ClassSpec, SplitSpec]] = {}
    for job in jobs:
        if "model" not in job.spec:
            continue
        model = ClassSpec.of(job.spec["model"])
        if job.kind == "predict":
            outside_models[canonical(model.stored())] = model
        rows = SplitSpec.of(job.spec)
        models_on_data[canonical([model.stored(), rows.main])] = (model, rows)
    for model in outside_models.values():
        model.make("models").ready()
    for model, rows in models_on_data.values():
        if "fits" in facts("models", model.name).defines:
            main = datasets[rows.main]
            class_names = [str(name) for name in main.attribute(rows.split["label"]).values]
            outside_model = model.make("models")
            outside_model.fits(main.check_inputs(), class_names)
            if "reads" in facts("models", model.name).defines:
                outside_model.reads(main)


def _check_weights(jobs: Iterable[Job], datasets: Mapping[str, AttributedDataset]) -> None:
    """Refuse a file of weights that does not fit its model; of a head with another number of classes
    the width is looked at, and a new one is made."""
    fits_with_weights = {}
    for fit in _fits(jobs):
        knobs = fit.model.knobs
        if str(knobs.get("weights") or "").endswith(".safetensors") and not knobs.get("of"):
            fits_with_weights[canonical([fit.model.stored(), fit.rows.main])] = fit
    if not fits_with_weights:
        return
    from crosswind.models.build import build_model, unnamed

    for fit in fits_with_weights.values():
        inputs = datasets[fit.rows.main].check_inputs()
        build_model(fit.model.name, fit.model.knobs, inputs, unnamed(2), 0)


def _fits(jobs: Iterable[Job]) -> Iterator[FitSpec]:
    """The specifications of the trainings among jobs."""
    for job in jobs:
        if job.kind == "fit":
            yield FitSpec.of(job.spec)


def _of_other_parts(jobs: Iterable[Job]) -> Iterator[Job]:
    """The first job of each kind, model, data and training.

    By identity: the jobs of a plan share these values, and comparing those of 100,000 runs takes
    seconds.
    """
    visited = set()
    for job in jobs:
        spec = job.spec
        ids = (
            job.kind,
            spec.get("main"),
            id(spec.get("model")),
            id(spec.get("data")),
            id(spec.get("split")),
            id(spec.get("training")),
        )
        if ids not in visited:
            visited.add(ids)
            yield job


def devices_of(plan: Plan) -> int:
    """The largest number of devices that a run of a plan is shared among."""
    counts = (job.spec["training"].get("devices", 1) for job in plan.jobs if job.kind == "fit")
    return max(counts, default=1)


def slow_devices(plan: Plan) -> list[str]:
    """Warnings that `Plan.warnings` cannot give without torch: a sentence for each device other
    than the processor that imitates bfloat16."""
    used = {(fit.training["precision"], fit.device) for fit in _fits(_of_other_parts(plan.jobs))}
    devices = sorted(
        device for precision, device in used if precision == "bf16" and device != "cpu"
    )
    if not devices:
        return []
    from crosswind.training.device import slow_precision

    slow = {device: slow_precision("bf16", device) for device in devices}
    return [
        f"training.precision = bf16 on {device} asks for bfloat16, {text}"
        for device, text in slow.items()
        if text
    ]


def replaced_study(plan: Plan, store: Store) -> list[str]:
    """A warning where the store has a study of this name that was another one: its runs are kept,
    and no table of the study shows them any more."""
    name = plan.study.name
    if name not in store.study_names():
        return []
    keys = {job.key for job in plan.jobs}
    n_runs = store.left_behind(name, plan.study.model_dump(), keys)
    if not n_runs:
        return []
    return [
        f"study {name} was run into {store.name} with other settings: {counted(n_runs, 'run')} of"
        " then that ended are no part of it as it is now, and no table shows them; they are kept,"
        f" and are shown again by the command of then; --set name={name}-2 keeps both studies"
    ]


def files_elsewhere(store: Store) -> list[str]:
    """A warning where runs of the store have ended and its folder has the files of none."""
    if (store.out / FOLDER).is_dir():
        return []
    counts = store.counts()
    n_ended = counts["finished"] + counts["diverged"]
    if not n_ended:
        return []
    return [
        f"{store.name} has {counted(n_ended, 'run')} that ended, and {store.out} has none of their"
        " files; the files of a store lie in one folder: --out names it, as the first run did"
    ]


def run_plan(  # noqa: PLR0913 - settings by name
    plan: Plan,
    store: Store,
    *,
    workers: int = 0,
    engine: Engine | None = None,
    modules: Sequence[str] = (),
    memory: int | None = None,
    on_event: Callable[[Progress], None] | None = None,
    retry_failed: bool = False,
    profile: Path | None = None,
) -> Summary:
    """Add a plan to a store that is open for writing, and execute what the store does not hold.

    `workers`: processes that work at once, no more than there are runs; 0 works in this process.
    `engine`: what executes them instead, see `engine_of`; it is not closed.
    `modules` are what they import first, `memory` the bytes that pixels may take. For the others
    see `drive`, which this raises what it does.
    """
    written = plan.study.model_dump(exclude_unset=True)
    resolved = plan.study.model_dump()
    store.add_plan(plan.study.name, written, resolved, plan.jobs)
    reopen_fits(plan, store)
    own_engine = (
        engine_of(plan, store.out, workers=workers, modules=modules, memory=memory)
        if engine is None
        else nullcontext(engine)
    )
    with own_engine as executing:
        limit = plan.study.time_limit
        return drive(
            store,
            plan.jobs,
            executing,
            on_event=on_event,
            time_limit=limit,
            retry_failed=retry_failed,
            profile=profile,
        )


def check_engine(engine: str, address: str | None) -> None:
    """Refuse an engine that there is not and a cluster at whose `address` nothing answers, which
    needs no plan. Raises `InputError`, and `NeedsError` for an engine that is not installed."""
    if engine not in ENGINES:
        raise unknown("--engine", "engine", engine, ENGINES)
    if engine == "ray":
        from crosswind.execution.engines.ray_cluster import check_address

        check_address(address)
    elif address is not None:
        raise InputError("--address", "is of a Ray cluster: --engine ray")


def engine_of(
    plan: Plan,
    out: Path,
    *,
    workers: int,
    engine: str = "pool",
    address: str | None = None,
    modules: Sequence[str] = (),
    memory: int | None = None,
) -> Engine:
    """The engine that executes a plan whose store's folder is `out`.

    `engine`: `pool`, `workers` processes of this machine (0: this process), or `ray`, the cluster
    at `address` (`auto`, `ray://HOST:PORT`); None is a cluster that is started on this machine,
    with the processors of `workers` runs. Raises `InputError`, before anything is written, for an
    engine or a cluster that there is not.
    """
    check_engine(engine, address)
    number = min(workers, max(1, len(plan.runs)))
    if engine == "ray":
        from crosswind.execution.engines.ray_cluster import RayCluster

        resources = resources_of(plan.study, plan.jobs)
        return RayCluster(
            EXECUTE,
            out,
            address=address,
            workers=max(1, number) * devices_of(plan),
            modules=modules,
            memory=memory,
            resources=resources,
        )
    if workers:
        return WorkerPool(EXECUTE, number, modules, memory=memory)
    return Inline(EXECUTE, memory=memory)


def reopen_fits(plan: Plan, store: Store) -> int:
    """Have fits done again whose weights are asked for, by a set that was added, and were not kept;
    how many."""
    if not store.has_done():
        return 0
    not_done = store.not_done()
    needed_fits = {
        job.follows
        for job in plan.jobs
        if job.follows and job.key in not_done and job.kind in ("predict", "vary")
    }
    done = sorted(needed_fits - not_done)
    return store.undo(
        key for key in done if not any(artifact_folder(store.out, key).glob(WEIGHTS.format("*")))
    )
