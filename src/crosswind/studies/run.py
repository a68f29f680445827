"""One run as a function of its specification: build the data, split it, train, predict, score, write.

Nothing is read but the specification and the data that it names, so a run gives the same numbers in any process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crosswind.core.errors import InternalError
from crosswind.core.knobs import Needs
from crosswind.core.registry import load
from crosswind.core.types import Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.split import Split, make_split
from crosswind.studies.artifacts import write_atomically
from crosswind.studies.build import build_dataset, build_split_plan

if TYPE_CHECKING:
    from crosswind.training.profiling import Profile

__all__ = ["dataset_of", "execute", "read_predictions", "run_versions", "write_predictions"]


def execute(
    spec: Mapping[str, Any],
    folder: Path,
    checkpoint: Path,
    report: Callable[[dict[str, Any]], None],
    needed: Mapping[str, Path] | None = None,
    profile: Path | None = None,
    kind: str = "fit",
) -> dict[str, Any]:
    """Do one run; `folder` takes its artifacts, `checkpoint` its resumable state, `report` its progress.

    `needed`: the artifact folders of the runs that it starts from, by key; at most one. `profile`: a trace of a few of its steps
    goes to `PROFILE.json.gz`, a table of operators to `PROFILE.txt`.

    Returns plain values: status, the reason where it diverged, scores (one entry a selection rule and set), cost, warnings,
    versions, and `profile` where one was asked for: `path` of the trace, or None and the `trouble` in one sentence.
    """
    from crosswind.training.metering import Meter

    if kind != "fit":
        raise InternalError(f"no job of kind {kind!r} can be done")
    meter = Meter()  # before torch is loaded: the first run of a worker waits for that
    import torch

    from crosswind.evaluation.metrics import scores
    from crosswind.methods.base import Method
    from crosswind.training.device import own_device
    from crosswind.training.loop import fit
    from crosswind.training.profiling import Profile
    from crosswind.training.settings import ModelSpec, TrainingSettings

    torch.set_num_threads(int(spec["threads"]))
    datasets = {name: build_dataset(values) for name, values in spec["data"].items()}
    split = make_split(datasets, spec["main"], build_split_plan(spec["split"]), spec["seed"])
    training = {**spec["training"], "device": own_device(spec["training"]["device"])}
    traced = None if profile is None else Profile(training["device"])
    method: Method = load("methods", spec["method"]["name"])(**spec["method"]["knobs"])
    base = _base_weights(needed, method.needs)
    meter.seconds["prepare"] = meter.total()
    trajectory = fit(
        method,
        split,
        datasets,
        ModelSpec(spec["model"]["name"], spec["model"]["knobs"]),
        TrainingSettings(**training),
        seed=spec["seed"],
        checkpoint=checkpoint,
        progress=report,
        base=base,
        rules=spec.get("rules", ()),
        meter=meter,
        profile=traced,
    )
    wanted = list(trajectory.predictions)  # every rule that was followed: a study may ask for another one without training again
    diverged = [] if trajectory.status == "finished" else ["the run diverged, and is scored as it was then"]
    entries = []
    for rule in wanted:
        for set_name, predictions in trajectory.predictions[rule].items():
            names = _row_set(split, set_name).group_names
            metrics = scores(predictions, names, split.class_names)
            metrics["role"] = "validation" if set_name in split.validation else "test"
            metrics["selected_step"] = trajectory.selections[rule].step
            metrics["ties"] = trajectory.selections[rule].ties
            metrics["doubts"] = [*trajectory.doubts[rule], *diverged]
            metrics["train_shared"] = split.report["train_shared"]
            entries.append({"rule": rule, "set": set_name, "metrics": metrics})
    folder.mkdir(parents=True, exist_ok=True)
    write_predictions(folder / "predictions.npz", {rule: trajectory.predictions[rule] for rule in wanted})
    (folder / "split.json").write_text(json.dumps(split.report, indent=1), encoding="utf-8")
    (folder / "history.json").write_text(json.dumps(trajectory.history), encoding="utf-8")
    if spec["keep"] != "none":
        _write_weights(folder, trajectory, wanted if spec["keep"] == "selected" else list(trajectory.selections))
    told = {} if traced is None or profile is None else {"profile": _write_profile(profile, traced)}
    # A loss is looked at when it is read, at validations; which of the steps before broke it is not known.
    why = {} if trajectory.status == "finished" else {"reason": f"a loss was not finite by step {trajectory.history[-1]['step']}"}
    return {
        "status": trajectory.status,
        **why,
        "scores": entries,
        "cost": {**trajectory.cost, **meter.cost()},
        "warnings": [*split.report.get("warnings", []), *trajectory.warnings],
        "versions": run_versions(),
        **told,
    }


def _write_profile(path: Path, traced: Profile) -> dict[str, str | None]:
    if not traced.trace:
        return {"path": None, "trouble": traced.trouble}
    trace = path.with_name(f"{path.name}.json.gz")
    try:
        write_atomically(path.with_name(f"{path.name}.txt"), traced.table.encode())
        write_atomically(trace, traced.trace)
    except OSError as error:
        return {"path": None, "trouble": f"{trace.name} cannot be written: {error.strerror or error}"}
    return {"path": str(trace), "trouble": ""}


def _row_set(split: Split, name: str) -> Any:
    return split.validation[name] if name in split.validation else split.evaluation[name]


def _base_weights(needed: Mapping[str, Path] | None, needs: Needs) -> dict[str, Any] | None:
    if not needed or needs.base is None:
        return None
    from safetensors.torch import load_file

    (folder,) = needed.values()
    # By the rule that the method names where it gave a choice, as where a method trains its base itself.
    chosen = next(path for rule in (needs.base.rule, "last") if (path := folder / f"weights-{rule}.safetensors").exists())
    return load_file(str(chosen))


def _write_weights(folder: Path, trajectory: Any, rules: list[str]) -> None:
    from safetensors.torch import save_file

    for rule in rules:
        state = {key: value.contiguous() for key, value in trajectory.weights(rule).items()}
        save_file(state, str(folder / f"weights-{rule}.safetensors"))


def write_predictions(path: Path, predictions: Mapping[str, Mapping[str, Predictions]]) -> None:
    """One compressed npz with every rule and set: `RULE/SET/ids`, `.../label`, `.../group`, `.../answer`, `.../logits`."""
    arrays = {}
    for rule, sets in predictions.items():
        for name, item in sets.items():
            for part in ("ids", "label", "group", "answer", "logits"):
                array = getattr(item, part)
                if array is not None:
                    arrays[f"{rule}/{name}/{part}"] = array
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_predictions(path: Path) -> dict[str, dict[str, Predictions]]:
    """What `write_predictions` wrote. Nothing is unpickled."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            rule, rest = key.split("/", 1)
            name, part = rest.rsplit("/", 1)
            out.setdefault(rule, {}).setdefault(name, {})[part] = arrays[key]
    return {rule: {name: Predictions(**parts) for name, parts in sets.items()} for rule, sets in out.items()}


def run_versions() -> dict[str, str]:
    """The versions that a run's numbers may depend on."""
    import platform

    import torch

    from crosswind import __version__

    return {
        "crosswind": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def dataset_of(spec: Mapping[str, Any]) -> AttributedDataset:
    """The main data set of a run."""
    return build_dataset(spec["data"][spec["main"]])
