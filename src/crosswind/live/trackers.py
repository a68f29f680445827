"""The tools that a study is logged to while it runs: TensorBoard, MLflow and Weights & Biases, by
their own clients, each loaded when it is asked for.

What is written here stands where `crosswind export` would write it, so that neither writes a run
that the other has written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from crosswind.core.errors import InputError, one_line
from crosswind.reports.export import LIVE_MARK, client_of, quiet_tensorboard, tensorboard_folder

__all__ = [
    "CLIENTS",
    "TRACKERS",
    "LoggedRun",
    "MlflowTracker",
    "TensorboardTracker",
    "Tracker",
    "WandbTracker",
]

PROGRESS = "progress"
"""The name, in each tool, of the run that is the study as a whole."""
OPTION = "--log"
CLIENTS = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow", "wandb": "wandb"}
"""By the name of a tool the module of its client."""


@dataclass(frozen=True)
class LoggedRun:
    """A run of the study as a tool has it: `settings` by `PART.KNOB`."""

    key: str
    name: str
    labels: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def about(self) -> dict[str, Any]:
        """Labels and settings."""
        return {**self.labels, **self.settings}


class Tracker(Protocol):
    """One tool. All of its methods are called from one thread, and may raise what its client
    does."""

    def curve(self, run: LoggedRun, step: int, values: Mapping[str, float]) -> None:
        """The values that a run measured at a step, by `SET/METRIC`; its first call begins the
        run."""

    def ended(self, run: LoggedRun, status: str, scores: Mapping[str, float]) -> None:
        """How a run ended, with its scores by `RULE/SET/METRIC`."""

    def progress(self, seconds: int, values: Mapping[str, float]) -> None:
        """How far the study is, `seconds` after the driver began."""

    def close(self) -> None:
        """Write what is not written yet; a run that has not ended stays as it is."""


class TensorboardTracker:
    """Folders `PLACE/STUDY/RUN`, and `PLACE/STUDY/progress`."""

    def __init__(self, place: str, study: str) -> None:
        """Raises `NeedsError`."""
        self._writer = client_of(CLIENTS["tensorboard"], "tensorboard", OPTION).SummaryWriter
        quiet_tensorboard()
        self._place, self._study = Path(place), study
        self._open: dict[str, Any] = {}
        self._points: dict[str, list[tuple[int, Mapping[str, float]]]] = {}
        self._progress: Any = None

    def curve(self, run: LoggedRun, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        writer = self._of(run)
        self._points.setdefault(run.key, []).append((step, values))
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    def ended(self, run: LoggedRun, status: str, scores: Mapping[str, float]) -> None:
        """See `Tracker`."""
        writer = self._in_order(run)
        about = {
            name: value
            for name, value in {**run.about, "status": status}.items()
            if isinstance(value, str | int | float)
        }
        writer.add_hparams(about, dict(scores), run_name=".")
        writer.close()
        del self._open[run.key]
        # A run that failed stays marked: it is begun anew when it is done again.
        if status != "failed":
            (self._folder(run) / LIVE_MARK).unlink()

    def progress(self, seconds: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        if self._progress is None:
            folder = tensorboard_folder(self._place, self._study, "", "").with_name(PROGRESS)
            self._progress = self._writer(str(folder))
        for name, value in values.items():
            self._progress.add_scalar(name, value, seconds)
        self._progress.flush()

    def close(self) -> None:
        """See `Tracker`."""
        for writer in (*self._open.values(), self._progress):
            if writer is not None:
                writer.close()

    def _folder(self, run: LoggedRun) -> Path:
        return tensorboard_folder(self._place, self._study, run.name, run.key)

    def _of(self, run: LoggedRun) -> Any:
        if run.key not in self._open:
            self._open[run.key] = self._begun(run)
        return self._open[run.key]

    def _begun(self, run: LoggedRun, **fields: Any) -> Any:
        folder = self._folder(run)
        shutil.rmtree(folder, ignore_errors=True)  # of a driver that was ended in the middle
        folder.mkdir(parents=True)
        (folder / LIVE_MARK).touch()
        return self._writer(str(folder), **fields)

    def _in_order(self, run: LoggedRun) -> Any:
        """The writer of a run whose points stand by their steps: TensorBoard draws a line through them
        as they come, and what was not reported comes at the end."""
        writer, points = self._of(run), self._points.pop(run.key, [])
        ordered = sorted(points, key=lambda point: point[0])
        if ordered == points:
            return writer
        writer.close()
        # A TensorBoard that looks on drops what it has read.
        self._open[run.key] = writer = self._begun(run, purge_step=0)
        for step, values in ordered:
            for name, value in values.items():
                writer.add_scalar(name, value, step)
        return writer


class MlflowTracker:
    """Runs of the experiment of the study's name at a tracking URI, and one named `progress`."""

    def __init__(self, place: str, study: str) -> None:
        """Raises `NeedsError`, and `InputError` for what is no tracking URI. No server is asked."""
        mlflow = client_of(CLIENTS["mlflow"], "mlflow", OPTION)
        try:
            self._client = mlflow.MlflowClient(tracking_uri=place)
        except Exception as error:  # its own: a scheme that it does not know
            problem = f"mlflow does not take {place!r}: {one_line(str(error), 300)}"
            raise InputError(OPTION, problem) from None
        self._study = study
        self._experiment = ""
        self._ids: dict[str, str] = {}

    def curve(self, run: LoggedRun, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._log(self._id(run), values, step)

    def ended(self, run: LoggedRun, status: str, scores: Mapping[str, float]) -> None:
        """See `Tracker`."""
        run_id = self._id(run)
        self._log(run_id, scores, 0)
        for name, value in run.about.items():
            self._client.log_param(run_id, name, str(value))
        self._client.set_tag(run_id, "crosswind.status", status)
        if status != "failed":
            self._client.set_tag(run_id, "crosswind.whole", "yes")
        self._client.set_terminated(run_id, "FAILED" if status == "failed" else "FINISHED")
        del self._ids[run.key]

    def progress(self, seconds: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        if PROGRESS not in self._ids:
            self._ids[PROGRESS] = self._created(PROGRESS, {})
        self._log(self._ids[PROGRESS], values, seconds)

    def close(self) -> None:
        """See `Tracker`."""
        for key, run_id in self._ids.items():
            self._client.set_terminated(run_id, "FINISHED" if key == PROGRESS else "KILLED")

    def _id(self, run: LoggedRun) -> str:
        if run.key not in self._ids:
            self._forget(run.key)
            self._ids[run.key] = self._created(run.name, {"crosswind.key": run.key})
        return self._ids[run.key]

    def _forget(self, key: str) -> None:
        """Delete what a driver that was ended in the middle left of a run."""
        unfinished = f"tags.`crosswind.key` = '{key}' and tags.`crosswind.live` = 'yes'"
        for left in self._client.search_runs([self._experiment_id()], unfinished):
            if left.data.tags.get("crosswind.whole") != "yes":
                self._client.delete_run(left.info.run_id)

    def _created(self, name: str, tags: Mapping[str, str]) -> str:
        created = self._client.create_run(
            self._experiment_id(), run_name=name, tags={**tags, "crosswind.live": "yes"}
        )
        return str(created.info.run_id)

    def _experiment_id(self) -> str:
        if not self._experiment:
            known = self._client.get_experiment_by_name(self._study)
            self._experiment = (
                self._client.create_experiment(self._study)
                if known is None
                else known.experiment_id
            )
        return self._experiment

    def _log(self, run_id: str, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._client.log_metric(run_id, name, value, step=step)


class WandbTracker:
    """Runs of a project, in a group for each method, and one named `progress`."""

    def __init__(self, place: str, study: str) -> None:
        """Raises `NeedsError`."""
        self._wandb = client_of(CLIENTS["wandb"], "wandb", OPTION)
        self._project, self._study = place, study
        self._open: dict[str, Any] = {}
        self._latest: dict[str, dict[str, tuple[int, float]]] = {}  # by run and name, with its step

    def curve(self, run: LoggedRun, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        # By a step of its own: W&B drops what comes after a later step of its own count.
        self._of(run).log({"step": step, **values})
        latest = self._latest.setdefault(run.key, {})
        for name, value in {"step": step, **values}.items():
            if step >= latest.get(name, (step, value))[0]:
                latest[name] = step, value

    def ended(self, run: LoggedRun, status: str, scores: Mapping[str, float]) -> None:
        """See `Tracker`."""
        wandb_run = self._of(run)
        # W&B itself takes what came last, which may be a point that was filled in between others.
        latest = {name: value for name, (_, value) in self._latest.pop(run.key, {}).items()}
        wandb_run.summary.update({**latest, **scores, "status": status})
        wandb_run.finish(exit_code=int(status == "failed"))
        del self._open[run.key]

    def progress(self, seconds: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        if PROGRESS not in self._open:
            self._open[PROGRESS] = self._init(
                name=f"{self._study} {PROGRESS}", config={"study": self._study}
            )
        self._open[PROGRESS].log({"step": seconds, **values})

    def close(self) -> None:
        """See `Tracker`."""
        for wandb_run in self._open.values():
            wandb_run.finish()

    def _of(self, run: LoggedRun) -> Any:
        if run.key not in self._open:
            # The key names the run there: done again it is the same run, not a second one.
            self._open[run.key] = self._init(
                id=run.key,
                name=run.name,
                group=str(run.labels.get("method", "")),
                config={"study": self._study, **run.about},
                resume="allow",
            )
        return self._open[run.key]

    def _init(self, **fields: Any) -> Any:
        # Several runs are open at once in this process, and its terminal is the study's.
        quiet = self._wandb.Settings(silent=True, console="off")
        wandb_run = self._wandb.init(
            project=self._project, reinit="create_new", settings=quiet, **fields
        )
        wandb_run.define_metric("*", step_metric="step")
        return wandb_run


TRACKERS: Mapping[str, tuple[Callable[[str, str], Tracker], Callable[[Path, str], str]]] = {
    "tensorboard": (TensorboardTracker, lambda out, study: str(out / "tensorboard")),
    "mlflow": (
        MlflowTracker,
        lambda out, study: (
            os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(out / 'mlflow.db').absolute()}"
        ),
    ),
    "wandb": (WandbTracker, lambda out, study: os.environ.get("WANDB_PROJECT") or study),
}
"""By the name of a tool its class, of (place, study), and the place where none is named, of (folder
of the runs, study)."""
