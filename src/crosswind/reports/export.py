"""A study for the tools that a group looks at its runs with: CSV, Parquet, TensorBoard, MLflow,
Weights & Biases.

A run of the study becomes a run there: its labels and settings, its scores by selection rule and
set, and its learning curve. The tools are written to by their own clients. A run that is there
already, known by its key, is not written again.
"""

from __future__ import annotations

import io
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from crosswind.core.errors import (
    CrosswindError,
    InputError,
    NeedsError,
    escaped_bytes,
    one_line,
    unknown,
)
from crosswind.core.files import write_atomically
from crosswind.reports.claims.robustness import scored_results
from crosswind.reports.runs.job_files import JobFiles
from crosswind.studies.job_specs import FitSpec

if TYPE_CHECKING:
    from crosswind.storage.store import Store


Curve = list[tuple[int, dict[str, float]]]


@dataclass(frozen=True)
class ExportedRun:
    """One run: `scores` by `RULE/SET/METRIC`; `curve` is steps with values by `SET/METRIC`;
    `settings` by `PART.KNOB`."""

    study: str
    key: str
    name: str
    status: str
    labels: Mapping[str, Any]
    settings: Mapping[str, Any]
    scores: Mapping[str, float]
    curve: Curve


def exported_runs(store: Store, study: str) -> Iterator[ExportedRun]:
    """The runs of a study that are done, in the order of its plan. A learning curve whose file is
    gone or damaged is empty."""
    scores: dict[str, dict[str, float]] = {}
    for row in scored_results(store, study, store.study(study)["resolved"], unscored=False):
        run_scores = scores.setdefault(row["key"], {})
        for name, value in row["metrics"].items():
            if isinstance(value, int | float):
                run_scores[f"{row['rule']}/{row['set']}/{name}"] = float(value)
    runs = store.runs(study)
    files = JobFiles(store, study)
    names = run_names([run["labels"] for run in runs])
    for run, name in zip(runs, names, strict=True):
        if run["key"] not in scores:
            continue
        settings, curve = from_files(files, run["key"])
        yield ExportedRun(
            study,
            run["key"],
            name,
            run["status"],
            plain_labels(run["labels"]),
            settings,
            scores[run["key"]],
            curve,
        )


def plain_labels(labels: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of a run that say something."""
    return {name: value for name, value in labels.items() if value != ""}


def run_names(labels_of_runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The name of each run of a study in a tool: its shift, method and seed, and the labels that
    differ among the runs."""
    named_by = {"shift", "method", "seed"}
    for name in labels_of_runs[0] if labels_of_runs else ():
        if len({str(labels.get(name)) for labels in labels_of_runs}) > 1:
            named_by.add(name)
    return [
        ", ".join(
            f"{name} {value}" if "seed" in name else str(value)
            for name, value in plain_labels(labels).items()
            if name in named_by
        )
        for labels in labels_of_runs
    ]


def from_files(files: JobFiles, key: str) -> tuple[dict[str, Any], Curve]:
    """The settings and the learning curve of a run, as its fit left them; nothing of files that are
    gone or damaged."""
    settings: dict[str, Any] = {}
    curve: Curve = []
    with suppress(CrosswindError, OSError, ValueError):
        need, job = next(
            ((need, job) for need, job in files.jobs(key) if job["kind"] == "fit"), ("", None)
        )
        if job is None:  # a model that nobody trained here
            return settings, curve
        settings = settings_of(FitSpec.of(job["spec"]))
        for entry in files.json(need, "history.json") or ():
            values = {f"train/{name}": value for name, value in entry["train"].items()}
            values |= {
                f"{where}/{name}": value
                for where, set_scores in entry["validation"].items()
                for name, value in set_scores.items()
            }
            curve.append((int(entry["step"]), values))
    return settings, curve


def settings_of(spec: FitSpec) -> dict[str, Any]:
    """The settings of a fit, from its specification, by `PART.KNOB`."""
    knobs_of_parts = {
        "method": spec.method.knobs,
        "model": spec.model.knobs,
        "training": spec.training,
    }
    return {
        f"{part_name}.{name}": _readable(value)
        for part_name, knobs in knobs_of_parts.items()
        for name, value in knobs.items()
    }


def _readable(value: Any) -> Any:
    # Paths among the settings may hold bytes that are not UTF-8, which no client takes.
    return escaped_bytes(value) if isinstance(value, str) else value


ANSWER_SECONDS = 10.0
"""How long a server may take to accept a connection."""


# -- targets ---------------------------------------------------------------------------------------


def to_table(store: Store, study: str, destination: Path) -> int:
    """One row a run, rule and set into a `.csv` or `.parquet` file; the number of rows.

    An earlier table of the study is written anew. Raises `InputError` where the file is anything
    else.
    """
    if destination.exists() and _studies_in(destination) != {study}:
        problem = f"{destination} is there already and is no table of the study {study}"
        raise InputError("PLACE", f"{problem}; name another file")
    frame = results_frame(scored_results(store, study, store.study(study)["resolved"]))
    content = io.BytesIO()  # polars itself takes no path that is not UTF-8
    frame.write_csv(content) if destination.suffix == ".csv" else frame.write_parquet(content)
    write_atomically(destination, content.getvalue())  # a full disk leaves the earlier table
    return frame.height


def _studies_in(table: Path) -> set[str] | None:
    """The studies that a table of runs is of; None of any other file."""
    import polars

    columns = ["study", "key", "rule", "set"]
    try:
        with table.open("rb") as file:
            if table.suffix == ".csv":
                frame = polars.read_csv(file, columns=columns, infer_schema=False)
            else:
                frame = polars.read_parquet(file, columns=columns)
    except (polars.exceptions.PolarsError, OSError, ValueError):
        return None
    return set(frame["study"].cast(polars.String))


def results_frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """The results of `Store.results` as a polars frame: a column for each label of a run, and for
    each score that is a number."""
    import polars

    flat: list[dict[str, Any]] = []
    for row in rows:
        cells = {**row, **(row["metrics"] or {})}
        flat.append(
            {
                name: value
                for name, value in cells.items()
                if isinstance(value, str | int | float | None)
            }
        )
    return polars.DataFrame(flat, infer_schema_length=None)


LIVE_MARK = ".live"
"""A file in the folder of a run that `crosswind run --log tensorboard` has begun and not ended."""


def tensorboard_folder(destination: Path, study: str, name: str, key: str) -> Path:
    """Where TensorBoard's files of a run are."""
    return destination / _plain(study) / f"{_plain(name)}-{key[:8]}"


class _QuietTensorboard:
    """The hook for errors of threads that was there before, but for threads of TensorBoard."""

    def __init__(self, hook: Callable[[threading.ExceptHookArgs], Any]) -> None:
        self._hook = hook

    def __call__(self, failure: threading.ExceptHookArgs) -> None:
        if not type(failure.thread).__module__.startswith("tensorboard."):
            self._hook(failure)


def quiet_tensorboard() -> None:
    """Keep TensorBoard's threads that write files from printing a trace when they fail, as on a full
    disk: the client raises the same error again where it is called."""
    if not isinstance(threading.excepthook, _QuietTensorboard):
        threading.excepthook = _QuietTensorboard(threading.excepthook)


def to_tensorboard(store: Store, study: str, destination: Path) -> int:
    """A folder `PLACE/STUDY/RUN` a run with its curve, its scores and, for the page HPARAMS, its
    labels and settings."""
    SummaryWriter = client_of("torch.utils.tensorboard", "tensorboard").SummaryWriter
    quiet_tensorboard()
    written = 0
    left_behind = not store.live_drivers()  # else a driver may be writing what has a mark
    for run in exported_runs(store, study):
        folder = tensorboard_folder(destination, study, run.name, run.key)
        if left_behind and (folder / LIVE_MARK).exists():
            shutil.rmtree(folder)
        if folder.exists():
            continue
        partial = folder.with_name(f".{folder.name}.partial")
        # Of an export that was stopped: a second file there would have every point again.
        shutil.rmtree(partial, ignore_errors=True)
        with SummaryWriter(str(partial)) as writer:
            for step, values in run.curve:
                for name, value in values.items():
                    writer.add_scalar(name, value, step)
            about = {
                name: value
                for name, value in {**run.labels, **run.settings}.items()
                if isinstance(value, str | int | float)
            }
            writer.add_hparams(about, dict(run.scores), run_name=".")
        partial.rename(folder)
        written += 1
    return written


def to_mlflow(store: Store, study: str, destination: str) -> int:
    """Runs of an experiment of the study's name, at a tracking URI such as `sqlite:///runs.db` or
    `http://HOST:5000`."""
    mlflow = client_of("mlflow", "mlflow")
    from mlflow.entities import Metric, Param, RunTag

    _check_server(destination)
    client = mlflow.MlflowClient(tracking_uri=destination)
    experiment_found = client.get_experiment_by_name(study)
    experiment = (
        client.create_experiment(study)
        if experiment_found is None
        else experiment_found.experiment_id
    )
    written = 0
    for run in exported_runs(store, study):
        if client.search_runs(
            [experiment],
            f"tags.`crosswind.key` = '{run.key}' and tags.`crosswind.whole` = 'yes'",
            max_results=1,
        ):
            continue
        created_run = client.create_run(
            experiment,
            run_name=run.name,
            tags={"crosswind.key": run.key, "crosswind.status": run.status},
        ).info
        now = created_run.start_time
        metrics = [
            Metric(name, value, now, step)
            for step, values in run.curve
            for name, value in values.items()
        ]
        metrics += [Metric(name, value, now, 0) for name, value in run.scores.items()]
        params = [Param(name, str(value)) for name, value in {**run.labels, **run.settings}.items()]
        for start in range(0, len(metrics), 900):  # a batch has at most 1,000 of them
            client.log_batch(created_run.run_id, metrics=metrics[start : start + 900])
        client.log_batch(created_run.run_id, params=params, tags=[RunTag("crosswind.whole", "yes")])
        client.set_terminated(created_run.run_id)
        written += 1
    return written


def _check_server(address: str) -> None:
    """Raise an `OSError` at once where no server answers at an http address; mlflow asks it again and
    again for minutes, without a word. What a proxy is between, and what is no address, is left to
    mlflow."""
    with suppress(ValueError):
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if parts.scheme in ("http", "https") and parts.hostname and not getproxies():
            socket.create_connection((parts.hostname, port), ANSWER_SECONDS).close()


def to_wandb(store: Store, study: str, destination: str) -> int:
    """Runs of a project of that name. With `WANDB_MODE=offline` they are written to `./wandb`, and
    `wandb sync` sends them."""
    wandb = client_of("wandb", "wandb")
    written = 0
    for run in exported_runs(store, study):
        about = {"study": study, **run.labels, **run.settings}
        # The key names the run there: sent again it is the same run, not a second one.
        wandb_run = wandb.init(
            project=destination,
            id=run.key,
            name=run.name,
            group=str(run.labels["method"]),
            config=about,
            resume="allow",
        )
        for step, values in run.curve:
            wandb_run.log(values, step=step)
        wandb_run.summary.update({**run.scores, "status": run.status})
        wandb_run.finish()
        written += 1
    return written


TARGETS: Mapping[str, tuple[str, Callable[[Store, str, Any], int]]] = {
    "csv": ("FILE.csv", to_table),
    "parquet": ("FILE.parquet", to_table),
    "tensorboard": ("FOLDER", to_tensorboard),
    "mlflow": ("TRACKING-URI", to_mlflow),
    "wandb": ("PROJECT", to_wandb),
}
"""From a target to what names a place there, and its writer: (store, study, place) -> how many rows
or runs were written."""


def export(store: Store, study: str, target: str, destination: str) -> int:
    """Write a study to a target; how many rows (tables) or runs were written.

    Raises `InputError` for an unknown target and for a place that does not fit it or cannot be
    written, `NeedsError` where the target's client is not installed.
    """
    if target not in TARGETS:
        raise unknown("--to", "target", target, TARGETS)
    extra_wanted, write = TARGETS[target]
    if target in ("csv", "parquet") and Path(destination).suffix != f".{target}":
        raise InputError("PLACE", f"{destination!r} is no {extra_wanted}")
    try:
        return write(
            store, study, destination if target in ("mlflow", "wandb") else Path(destination)
        )
    except UnicodeEncodeError:
        raise InputError(
            "PLACE", f"{target} takes no path that is not UTF-8, as {destination} is"
        ) from None
    except OSError as error:
        raise InputError(
            "PLACE", f"cannot write {destination}: {error.strerror or error}"
        ) from None
    except Exception as error:
        # What a client raises is its own: a wrong address, a project that may not be written to.
        # sqlalchemy's is of the database that mlflow keeps runs in, for `Store` turns its own.
        if type(error).__module__.partition(".")[0] not in (target, "sqlalchemy"):
            raise
        reason = one_line(str(getattr(error, "orig", None) or error), 300)
        raise InputError("PLACE", f"{target} does not take {destination!r}: {reason}") from None


def client_of(module: str, extra: str, option: str = "--to") -> Any:
    """The client of a tool, which the extra of its name installs. Raises `NeedsError`, which begins
    with the `option` that asks for it."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise NeedsError(
            f"{option} {extra} needs its client, which is not installed: pip install"
            f" 'crosswind[{extra}]' ({error})"
        ) from None


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9+._-]+", "-", name).strip("-.") or "run"
