"""The work of each kind of job: train a model, answer for a set of rows, score the answers.

A job is a function of its specification and of the folders of the jobs that it needs, so it gives
the same numbers in any process. Its folder says what it is: `job.json` holds kind, specification,
needs, and what the jobs that read it have to know.

* `fit`: a method trains a model on the training rows of a split. It reads the split without its
  test sets. It leaves `predictions.npz` of the validation sets, `history.json`, `split.json`, and
  weights where they are kept.
* `predict`: a model answers for one set: one that was trained here, with the weights of every
  selection rule, or one that was not.
* `vary`: what a model says of changed copies of a set's rows, of neighbours or of the pool, see
  `crosswind.execution.changed_copies`.
* `estimate`: an estimator's accuracy for one set, from answers without its labels and from labelled
  answers on a validation set.
* `promote`: which fits of a rung of a search go on, see `crosswind.studies.halving`.
* `score`: the scores of a fit's validation sets and of predictions, as a report's rows have them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from crosswind.core.errors import InternalError, RunError
from crosswind.core.exhibits import read_exhibits, write_exhibits
from crosswind.core.files import permit_as_folder, write_atomically
from crosswind.core.types import Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.evaluation.metrics import estimate_metrics, scores
from crosswind.execution.engines import Workspace
from crosswind.execution.rank_processes import RankProcesses
from crosswind.models.given.outside import hearing_doubts, telling
from crosswind.shifts.split import RowSet, Split, make_split
from crosswind.storage.artifacts import plain_json
from crosswind.storage.predictions_file import (
    predictions_in,
    read_predictions,
    write_predictions,
    write_texts,
)
from crosswind.studies.build import build_dataset, build_split_plan
from crosswind.studies.halving import (
    continue_from_rung,
    copy_fit,
    drop_state,
    is_promoted,
    keep_state,
    promote,
)
from crosswind.studies.job_specs import (
    CopiesSpec,
    EstimateSpec,
    FitSpec,
    OutsidePredictSpec,
    PredictSpec,
    SplitSpec,
    predict_spec,
)

if TYPE_CHECKING:
    from torch import Tensor

    from crosswind.methods.base import Method
    from crosswind.training.profiling import Profile
    from crosswind.training.settings import ModelSpec, TrainingSettings
    from crosswind.training.trajectory import Answer, Trajectory

    Run: TypeAlias = tuple[
        Method, Split, Mapping[str, AttributedDataset], ModelSpec, TrainingSettings
    ]

Values: TypeAlias = Mapping[str, Any]
PredictionsByRule: TypeAlias = dict[str, dict[str, Predictions]]
"""By selection rule and set."""
Done: TypeAlias = tuple[
    dict[str, Any], dict[str, Any]
]  # what the jobs that read a job are told, and its result
GIVEN = "given"
"""What stands in the place of a selection rule in the predictions of a model that was not trained
here."""
TRAIN_RANK = "crosswind.execution.jobs:train_rank"
"""The function by which another process takes part in a fit."""
WEIGHTS = "weights-{}.safetensors"


def execute(kind: str, spec: Values, workspace: Workspace) -> dict[str, Any]:
    """Do one job. `place.profile`: a trace goes to `PROFILE.json.gz`, a table of operators to
    `PROFILE.txt`.

    Returns plain values: `status`, the `reason` where it diverged, `scores` (one entry a selection
    rule and set), `cost`, `warnings`, `versions`. It has `profile` where one was asked for: the
    `path` of the trace, or None and the `trouble`.
    """
    workspace.folder.mkdir(parents=True, exist_ok=True)
    shared, outcome = KINDS[kind](spec, workspace)
    needs = list(workspace.needs)
    about = {"kind": kind, "spec": spec, "needs": needs, **shared}
    (workspace.folder / "job.json").write_text(plain_json(about), encoding="utf-8")
    return {
        "status": "finished",
        "scores": [],
        "cost": {},
        "warnings": [],
        "versions": run_versions(),
        **outcome,
    }


def fit(values: Values, workspace: Workspace) -> Done:
    """Train a method; see the module."""
    from crosswind.training.metering import Meter

    spec = FitSpec.of(values)
    rung: Values = spec.rung or {}
    if "promotion" in rung:
        promotion, previous = workspace.needs[:2]
        if not is_promoted(workspace.needed[promotion], rung["promotion"]):
            return _stopped_fit(spec, workspace, previous)
        continue_from_rung(workspace.checkpoint, previous)
    meter = Meter()  # before torch is loaded: the first job of a worker waits for that
    from crosswind.training.loop import fit as train
    from crosswind.training.profiling import Profile

    folders = _folders(workspace)
    with RankProcesses(TRAIN_RANK, spec, folders, workspace.checkpoint) as processes:
        run, base = _training(spec, folders)
        device = run[4].device
        traced = None if workspace.profile is None else Profile(device)
        meter.seconds["prepare"] = meter.total()
        with processes.joined(device) as ranks:
            trajectory = train(
                *run,
                **_fit_settings(spec, workspace.checkpoint, base),
                progress=workspace.report,
                meter=meter,
                profile=traced,
                ranks=ranks,
            )
    split = _without_held_out(run[0], run[1], run[2], spec.rows.seed)
    if "share" in rung:
        keep_state(workspace.checkpoint, workspace.key)
    if "promotion" in rung:
        drop_state(workspace.checkpoint, workspace.needs[1])
    # Every rule that was followed: a study may ask for another one without training again.
    write_predictions(workspace.folder / "predictions.npz", trajectory.predictions)
    (workspace.folder / "split.json").write_text(
        json.dumps(split.report, indent=1), encoding="utf-8"
    )
    (workspace.folder / "history.json").write_text(json.dumps(trajectory.history), encoding="utf-8")
    if spec.keep != "none":
        _write_weights(workspace.folder, trajectory, run[0])
    write_exhibits(workspace.folder, trajectory.exhibits)
    workspace.handover[workspace.key] = trajectory.answer  # for the predictions that follow
    shared = {"status": trajectory.status, "cost": {**trajectory.cost, **meter.cost()}}
    shared["warnings"] = [*split.report["warnings"], *trajectory.warnings]
    doubts = []
    if trajectory.status != "finished":
        # A loss is looked at when it is read, at validations; which of the steps before broke it is
        # not known.
        shared["reason"] = f"a loss was not finite by step {trajectory.history[-1]['step']}"
        doubts = ["the run diverged, and is scored as it was then"]
    rules = {}
    for rule, selection in trajectory.selections.items():
        rules[rule] = {
            "selected_step": selection.step,
            "ties": selection.ties,
            "doubts": [*trajectory.doubts[rule], *doubts],
        }
    train_shared = split.report["train_shared"]
    about = {**shared, "rules": rules, "train_shared": train_shared, "sets": _set_names(split)}
    about |= {} if trajectory.fitted is None else {"fitted": trajectory.fitted}
    about |= {"action": dict(trajectory.action)} if trajectory.action else {}
    if traced is None or workspace.profile is None:
        profile = {}
    else:
        profile = {"profile": _write_profile(workspace.profile, traced)}
    return about, {**shared, **profile}


def _fit_settings(spec: FitSpec, checkpoint: Path, base: dict[str, Tensor] | None) -> Values:
    """The arguments of a training that all processes share which do it together."""
    rung: Values = spec.rung or {}
    return {
        "seed": spec.rows.seed,
        "checkpoint": checkpoint,
        "base": base,
        "rules": spec.rules or (),
        "pause": rung.get("share", 1.0),
    }


def train_rank(
    values: Values,
    folders: Sequence[Path],
    checkpoint: Path,
    rank: int,
    meeting: Path,
    ready: Callable[[], object],
) -> None:
    """Take part in a fit that several devices share, as process `rank` of them; nothing is
    written. `meeting`: the file by which they find each other; `ready` is called before that."""
    from crosswind.training.loop import fit as train
    from crosswind.training.several_devices import RankGroup, ranks_joined

    spec = FitSpec.of(values)
    run, base = _training(spec, folders, rank)
    ready()
    with ranks_joined(RankGroup(rank, spec.devices), meeting, run[4].device) as ranks:
        train(*run, **_fit_settings(spec, checkpoint, base), ranks=ranks)


def _stopped_fit(spec: FitSpec, workspace: Workspace, previous: str) -> Done:
    """A fit whose point was not promoted from the rung before: what it was there."""
    folder = workspace.needed[previous]
    copy_fit(folder, workspace.folder, spec.keep != "none")
    drop_state(workspace.checkpoint, previous)
    about = _job_report(folder)
    if (
        spec.rung is not None and "share" not in spec.rung
    ):  # the last rung, which predictions follow
        bases = [workspace.needed[key] for key in workspace.needs[2:]]
        folders = [folder, *bases]
        workspace.handover[workspace.key] = kept_answers(FitSpec.of(about["spec"]), folders)
    shared = {name: value for name, value in about.items() if name not in ("kind", "spec", "needs")}
    outcome: dict[str, Any] = {}
    for name in ("status", "cost", "warnings", "reason"):
        if name in shared:
            outcome[name] = shared[name]
    return {**shared, "stopped": True}, outcome


def promotion(spec: Values, workspace: Workspace) -> Done:
    """Choose which fits of a rung go on; see the module."""
    chosen = promote(spec, _folders(workspace))
    return {**chosen, "sets": {}, "warnings": [], "cost": {}}, {}


def predict(values: Values, workspace: Workspace) -> Done:
    """Answer for the rows of one set; see the module."""
    from crosswind.training.metering import Meter

    meter = Meter(inside=True)
    spec = predict_spec(values)
    name = spec.set_name
    with meter.part("evaluation"):
        answers, split, datasets = _answering(spec, workspace)
        with telling(lambda done, total: workspace.report({"rows": done, "of": total})):
            predictions, doubts = answers({name: row_set(split, name)}, datasets)
    if isinstance(spec, OutsidePredictSpec) and spec.shows_order:
        _check_order(spec.model.knobs, split, name, predictions[GIVEN][name])
    write_predictions(workspace.folder / "predictions.npz", predictions)
    exhibits = write_texts(workspace.folder, predictions, split.class_names)
    write_exhibits(workspace.folder, exhibits)
    report = split.report
    own_set = {name: _set_names(split)[name]}
    own_report = {"sets": {name: report["sets"].get(name)}, "short": report["short"]}
    about = {
        "sets": own_set,
        "doubts": doubts,
        "split": own_report,
        "warnings": [*report["warnings"], *doubts],
        "cost": meter.cost(),
    }
    return about, {"cost": about["cost"], "warnings": doubts}


def _check_order(knobs: Values, split: Split, name: str, predictions: Predictions) -> None:
    """Refuse a model that was not trained here, with these settings, whose outputs stand in another
    order."""
    from crosswind.execution.output_order import check_validation

    if "classes" in knobs:
        file = Path(str(knobs.get("path") or knobs.get("function")))
        check_validation(file.name, knobs["classes"], split.class_names, predictions, name)


def vary(values: Values, workspace: Workspace) -> Done:
    """Answer for changed copies of the rows of a set; see the module."""
    from crosswind.execution.changed_copies import Neighbours, copy_answers, write_copy_answers
    from crosswind.training.metering import Meter

    meter = Meter(inside=True)
    spec = CopiesSpec.of(values)
    with meter.part("evaluation"):
        answers, split, datasets = _answering(spec.answering, workspace)
        rows = row_set(split, spec.answering.set_name)
        with hearing_doubts() as doubts:
            answers_by_rule = copy_answers(
                answers,
                rows,
                datasets,
                Neighbours(spec.neighbourhood, spec.neighbours, spec.handed),
                spec.pool,
            )
    write_copy_answers(workspace.folder / "copies.npz", answers_by_rule)
    warnings = list(dict.fromkeys(doubts))
    return {"sets": {}, "warnings": warnings, "cost": meter.cost()}, {
        "cost": meter.cost(),
        "warnings": warnings,
    }


def _answering(
    spec: PredictSpec | OutsidePredictSpec, workspace: Workspace
) -> tuple[Answer, Split, dict[str, AttributedDataset]]:
    """The object that answers for the set of `spec`, and the split and data sets that hold the
    set."""
    if isinstance(spec, OutsidePredictSpec):
        from crosswind.execution.changed_copies import external_answers

        split, datasets = split_of(spec.rows)
        model = spec.model.make("models")
        return external_answers(model, split.class_names, GIVEN), split, datasets
    fit_key = workspace.needs[0]
    fitted = FitSpec.of(_job_report(workspace.needed[fit_key])["spec"])
    split, datasets = split_of(fitted.rows.with_set(spec))
    split = _without_held_out(fitted.method.make("methods"), split, datasets, fitted.rows.seed)
    answer = workspace.handover.get(fit_key) or kept_answers(fitted, _folders(workspace))
    return answer, split, datasets


def estimate(values: Values, workspace: Workspace) -> Done:
    """Estimate the accuracy on one set; see the module."""
    from crosswind.estimators.base import Labelled
    from crosswind.estimators.estimating import told_of
    from crosswind.execution.changed_copies import labelled_pool, read_copy_answers, set_answers
    from crosswind.transforms.neighbourhood import pool_of_kind

    spec = EstimateSpec.of(values)
    estimator = spec.estimator.make("estimators")
    name = spec.set_name
    files = {key: workspace.needed[job] for key, job in spec.reads.items()}
    source = read_predictions(workspace.needed[workspace.needs[0]] / "predictions.npz")
    target = read_predictions(files["predicted"] / "predictions.npz")
    copied = {}
    for key, folder in files.items():
        if key != "predicted":
            copied[key] = read_copy_answers(folder / "copies.npz")
    # Of a model that is not trained here the labels of the source are those of this row's split.
    if spec.rows is not None:
        split, datasets = split_of(spec.rows)
        predictions = source[GIVEN][spec.source]
        rows = row_set(split, spec.source)
        labelled = _regrouped(predictions, rows, datasets)
        source = {GIVEN: {spec.source: labelled}}
    estimates: dict[str, dict[str, float | None]] = {}
    warnings: list[str] = []
    for rule, sets in target.items():
        copies = {key: by_rule[rule] for key, by_rule in copied.items()}
        learned = source[rule][spec.source]
        answers = set_answers(learned, spec.neighbourhood, copies.get("source"))
        labelled_source = Labelled(answers, learned.label)
        changes = pool_of_kind(spec.inputs)
        pool = labelled_pool(
            copies.get("pool"), spec.neighbourhood, copies.get("pool near"), changes
        )
        target_answers = set_answers(sets[name], spec.neighbourhood, copies.get("target"))
        estimated, sentences = told_of(
            estimator, labelled_source, target_answers, pool, spec.neighbourhood, name
        )
        warnings += [f"{spec.label} {text}" for text in sentences]
        estimates |= {rule: estimated} if estimated else {}
    warnings = list(dict.fromkeys(warnings))
    return {"estimates": estimates, "sets": {}, "warnings": warnings, "cost": {}}, {
        "warnings": warnings
    }


def score(spec: Values, workspace: Workspace) -> Done:
    """Score what the needed jobs predicted; see the module."""
    folders = [workspace.needed[key] for key in workspace.needs]
    reports = [_job_report(folder) for folder in folders]
    answers_by_rule = predictions_in(folders)
    if reports[0]["kind"] == "fit":
        fitted = reports[0]
        names = {name: words for about in reports for name, words in about["sets"].items()}
        split_report = _report_with_predicted(folders[0], reports)
    else:
        fitted, names, split_report, answers_by_rule = _on_split_of_row(spec, answers_by_rule)
    split_json = json.dumps(split_report, indent=1)
    (workspace.folder / "split.json").write_text(split_json, encoding="utf-8")
    with suppress(OSError, ValueError):  # no number may fail by what is only looked at
        # The row's own copy: a report reads one folder a row.
        exhibits = {}
        for folder in folders:
            for name, exhibit in read_exhibits(folder).items():
                exhibits[name] = exhibit
        write_exhibits(workspace.folder, exhibits)
    entries = _score_entries(answers_by_rule, fitted, names, reports)
    cost = dict(reports[0]["cost"])
    # The cost of the first job, with the seconds that the others spent on evaluation.
    for about in reports[1:]:
        for duration in ("evaluation_seconds", "total_seconds"):
            cost[duration] += about["cost"].get("evaluation_seconds", 0.0)
    warnings = [text for about in (fitted, *reports) for text in about["warnings"]]
    outcome = {
        "status": fitted["status"],
        "scores": entries,
        "cost": cost,
        "warnings": list(dict.fromkeys(warnings)),
    }
    if "reason" in fitted:
        outcome["reason"] = fitted["reason"]
    return {}, outcome


def _report_with_predicted(folder: Path, reports: Sequence[Values]) -> dict[str, Any]:
    """The report of the split of the fit in `folder`, with the test sets that were predicted."""
    report: dict[str, Any] = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    for about in reports:
        if about["kind"] == "predict":
            report["sets"] |= about["split"]["sets"]
            report["short"] |= about["split"]["short"]
            report["warnings"] = list(dict.fromkeys([*report["warnings"], *about["warnings"]]))
    return report


def _on_split_of_row(
    spec: Values, answers_by_rule: PredictionsByRule
) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any], PredictionsByRule]:
    """The stand-in for the fit of a model that was not trained here, its sets, the report of the
    split and the answers.

    The split of the row tells groups and roles: the answers are those of rows, whichever split
    asked first.
    """
    split, datasets = split_of(SplitSpec.of(spec))
    report = split.report
    names = _set_names(split)
    regrouped = {}
    for name in names:
        predictions = answers_by_rule[GIVEN][name]
        rows = row_set(split, name)
        regrouped[name] = _regrouped(predictions, rows, datasets)
    fitted = {
        "status": "finished",
        "rules": {},
        "train_shared": report["train_shared"],
        "warnings": report["warnings"],
    }
    return fitted, names, report, dict.fromkeys(spec["rules"], regrouped)


def _score_entries(
    answers_by_rule: PredictionsByRule,
    fitted: Values,
    names: Mapping[str, Values],
    reports: Sequence[Values],
) -> list[dict[str, Any]]:
    """The scores of every selection rule on every set. `names`: role, groups and classes of a set;
    `reports`: those of the jobs that predicted and estimated."""
    doubts = [text for about in reports if about["kind"] == "predict" for text in about["doubts"]]
    estimates = [about for about in reports if about["kind"] == "estimate"]
    shift = fitted.get("spec", {}).get("split", {}).get("shift", ())
    is_systematic = any(component["type"] == "systematic" for component in shift)
    of_fit = {name: fitted[name] for name in ("fitted", "action", "stopped") if name in fitted}
    entries = []
    for rule, sets in answers_by_rule.items():
        selection = fitted["rules"].get(rule, {"selected_step": 0, "ties": 1, "doubts": []})
        for name, predictions in sets.items():
            words = names[name]
            seen_groups = words.get("seen") if is_systematic else None
            metrics = scores(predictions, words["groups"], words["classes"], seen=seen_groups)
            metrics |= {
                "role": words["role"],
                "selected_step": selection["selected_step"],
                "ties": selection["ties"],
                "doubts": [*selection["doubts"], *doubts],
                "train_shared": fitted["train_shared"],
            }
            metrics |= of_fit
            metrics |= _estimate_scores(estimates, rule, name, metrics["accuracy"])
            entries.append({"rule": rule, "set": name, "metrics": metrics})
    return entries


def _estimate_scores(
    estimates: Sequence[Values], rule: str, name: str, accuracy: float
) -> dict[str, Any]:
    """How far the estimates for a set are from its accuracy, in [0, 1]."""
    metrics: dict[str, Any] = {}
    for about in estimates:
        estimated = about["estimates"].get(rule, about["estimates"].get(GIVEN))
        if about["spec"]["set"] == name and estimated is not None:
            metrics |= estimate_metrics(about["spec"]["label"], estimated, accuracy)
    return metrics


KINDS: dict[str, Callable[[Values, Workspace], Done]] = {
    "fit": fit,
    "promote": promotion,
    "predict": predict,
    "vary": vary,
    "estimate": estimate,
    "score": score,
}
"""From the kind of a job to the function that does it: what the jobs that read it are told, and its
result."""


def _training(
    spec: FitSpec, folders: Sequence[Path], rank: int = 0
) -> tuple[Run, dict[str, Tensor] | None]:
    """The training of a fit, on the device of process `rank`, and the weights of the base that it
    starts from."""
    import torch

    from crosswind.training.device import own_device
    from crosswind.training.settings import ModelSpec, TrainingSettings

    torch.set_num_threads(spec.threads)
    split, datasets = split_of(spec.rows)
    settings = TrainingSettings(
        **{**spec.training, "device": own_device(spec.device, rank, spec.devices)}
    )
    method = spec.method.make("methods")
    model = ModelSpec(spec.model.name, spec.model.knobs)
    return (method, split, datasets, model, settings), _base_weights(method, folders)


def fitted_split(spec: FitSpec) -> tuple[Split, dict[str, AttributedDataset]]:
    """The split of a fit without the validation rows that are its method's own, and its data
    sets."""
    split, datasets = split_of(spec.rows)
    method = spec.method.make("methods")
    return _without_held_out(method, split, datasets, spec.rows.seed), datasets


def _without_held_out(
    method: Method, split: Split, datasets: Mapping[str, AttributedDataset], seed: int
) -> Split:
    """The split without the validation rows that are the method's own."""
    if method.needs.holdout is None:
        return split
    from crosswind.training.holdout import set_apart

    return set_apart(method, split, datasets, seed)[0]


def split_of(spec: SplitSpec) -> tuple[Split, dict[str, AttributedDataset]]:
    """The split that a job's specification describes, and its data sets."""
    datasets = {name: build_dataset(values) for name, values in spec.data.items()}
    plan = build_split_plan(spec.split)
    return make_split(datasets, spec.main, plan, spec.seed), datasets


def row_set(split: Split, name: str) -> RowSet:
    """The rows of a set of validation or of evaluation."""
    return {**split.validation, **split.evaluation}[name]


def _set_names(split: Split) -> dict[str, dict[str, Any]]:
    """The names in scores: role, groups, classes and which of the groups training shows, of every
    set but training."""
    set_names: dict[str, dict[str, Any]] = {}
    for role, sets in (("validation", split.validation), ("test", split.evaluation)):
        for name, rows in sets.items():
            groups = list(rows.group_names)
            classes = list(split.class_names)
            set_names[name] = {
                "role": role,
                "groups": groups,
                "classes": classes,
                "seen": split.seen(rows),
            }
    return set_names


def _regrouped(
    predictions: Predictions, rows: RowSet, datasets: Mapping[str, AttributedDataset]
) -> Predictions:
    """The answers for the rows of a set, with the labels and groups that the set has in this
    split."""
    ids = datasets[rows.source].row_ids(rows.rows)
    order = np.argsort(predictions.ids, kind="stable")
    nearest_positions = np.searchsorted(predictions.ids, ids, sorter=order)
    positions = order[np.minimum(nearest_positions, len(order) - 1)]
    if not np.array_equal(predictions.ids[positions], ids):
        raise InternalError("a set has rows that were not predicted, though its plan is the same")
    answer = predictions.answer[positions]
    logits = None
    if predictions.logits is not None:
        logits = predictions.logits[positions]
    return Predictions(ids, rows.label, rows.group, answer, logits)


def _job_report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "job.json").read_text(encoding="utf-8"))


def kept_answers(fitted: FitSpec, folders: Sequence[Path]) -> Answer:
    """The answers of the weights that a fit kept. `fitted`: its specification; `folders`: its own,
    then that of the base if it has one.

    Raises `RunError` where they were not kept.
    """
    from crosswind.models.networks.pretrained import tensors_in
    from crosswind.training.loop import trained

    files = {rule: folders[0] / WEIGHTS.format(rule) for rule in _job_report(folders[0])["rules"]}
    if not all(path.is_file() for path in files.values()):
        raise RunError("the weights of the fit that it needs were not kept")
    run, base = _training(fitted, folders)
    weights_by_rule = {rule: tensors_in(path) for rule, path in files.items()}
    return trained(*run, fitted.rows.seed, weights_by_rule, base=base)


def _folders(workspace: Workspace) -> list[Path]:
    return [workspace.needed[key] for key in workspace.needs]


def _base_weights(method: Method, folders: Sequence[Path]) -> dict[str, Tensor] | None:
    if method.needs.base is None or not folders:
        return None
    from crosswind.models.networks.pretrained import tensors_in

    # By the rule that the method names where it gave a choice, as where a method trains its base
    # itself.
    chosen = next(
        path
        for rule in (method.needs.base.rule, "last")
        if (path := folders[-1] / WEIGHTS.format(rule)).exists()
    )
    return tensors_in(chosen)


def _write_weights(folder: Path, trajectory: Trajectory, method: Method) -> None:
    """The weights of every rule, and beside them in a folder of the rule's what the method exports
    of them.

    Where it exports what it trained, the weights that it never changes are left out: they are built
    again.
    """
    from safetensors.torch import save_file

    from crosswind.training.trajectory import public_name

    frozen = {public_name(name) for name in trajectory.frozen}
    for rule in trajectory.selections:
        state = {key: value.contiguous() for key, value in trajectory.weights(rule).items()}
        exported = method.exports(state)
        left = frozen if exported else set()
        trained_weights = {key: value for key, value in state.items() if key not in left}
        weights_file = folder / WEIGHTS.format(rule)
        save_file(trained_weights, str(weights_file))
        permit_as_folder(weights_file)
        for name, data in exported.items():
            write_atomically(folder / f"exports-{rule}" / name, data)


def _write_profile(path: Path, traced: Profile) -> dict[str, str | None]:
    if not traced.trace:
        return {"path": None, "trouble": traced.trouble}
    trace = path.with_name(f"{path.name}.json.gz")
    try:
        write_atomically(path.with_name(f"{path.name}.txt"), traced.table.encode())
        write_atomically(trace, traced.trace)
    except OSError as error:
        trouble = f"{trace.name} cannot be written: {error.strerror or error}"
        return {"path": None, "trouble": trouble}
    return {"path": str(trace), "trouble": ""}


def run_versions() -> dict[str, str]:
    """The versions that a job's numbers may depend on."""
    import platform
    from importlib.metadata import version

    from crosswind import __version__

    return {
        "crosswind": __version__,
        "torch": version("torch"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
