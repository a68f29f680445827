"""The main job in Python: load, shift, split, train, evaluate; and whole studies.

Each function is one arrow of the path that studies take too; a study adds only the product of many
and a store.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crosswind.core.errors import InputError, shown, unknown
from crosswind.core.knobs import Knob, knobs_of, resolve
from crosswind.core.registry import facts
from crosswind.core.registry import load as load_class
from crosswind.core.types import InputSpec, listed, one_column
from crosswind.data.dataset import AttributedDataset
from crosswind.data.one_value import refuse_doubts
from crosswind.shifts.base import All, Shift, parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.noise import parse_noise
from crosswind.shifts.split import (
    LAWS,
    Roles,
    SetPlan,
    Split,
    SplitPlan,
    check_classes,
    default_sets,
    make_split,
    parse_sampler,
)
from crosswind.unlabelled.request import NEAR_ROWS, POOL_ROWS, EstimateRequest

if TYPE_CHECKING:
    from polars import DataFrame

    from crosswind.execution.scheduler import Progress, Summary
    from crosswind.proposals.ready import ReadyStudy
    from crosswind.reports.gather import StudyRecord
    from crosswind.reports.tables import ReportTable
    from crosswind.shifts.audit import Audit
    from crosswind.studies.plan import Plan
    from crosswind.unlabelled.answer import Estimates
    from crosswind.unlabelled.trained_model import LoadedModel, TrainedModel


def load(source: str, **options: Any) -> AttributedDataset:
    """A data set by the name of its source, such as `load("digits")` or `load("table",
    path="birds.csv", images="birds")`.

    Raises `InputError` for an unknown source or option and `DataError` for files that are not what
    they should be.
    """
    source_facts = facts("sources", source, "source")
    dataset: AttributedDataset = load_class("sources", source)(
        **resolve(source_facts.knobs, options, "", f"source {source!r}")
    ).load()
    return dataset


def init(
    table: Any,
    *,
    label: str | None = None,
    images: str | Path | None = None,
    text: str | Sequence[str] | None = None,
    size: int | None = None,
    header: Sequence[str] | None = None,
    out: str | Path | None = None,
    force: bool = False,
) -> ReadyStudy:
    """Propose a study for somebody's own table, as `crosswind init` does, and write it to `out`.

    `table`: the path of a CSV or Parquet file, or a frame (polars, pandas, Arrow, or a mapping from
    name to values), which is written beside the study as Parquet. `out`: the study's file, by
    default the table's name with .yaml, needed for a frame. `label`, `images`, `text`, `size` and
    `header`: see the command. `force`: write over other files of these names. `print` what comes
    back: what was seen of the table, and how long the study takes; `cw.run_study(out, ...)` runs it.

    Raises `InputError`, `DataError` with all that stands in the way; then nothing is written.
    """
    from crosswind.proposals.ready import proposed

    out_path = None if out is None else Path(out)
    return proposed(
        table,
        out_path,
        None if images is None else str(images),
        one_column(label, "label"),
        size,
        _names(text),
        header,
        force,
    )


def prepare(
    source: str,
    *,
    originals: str | Path | None = None,
    store: str | None = None,
    accept_totals: bool = False,
    again: bool = False,
    workers: int | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> Path:
    """Make the prepared copy of a source, as `crosswind prepare` does, and return its folder:
    `prepare("cifar10", root="data")`.

    `options` are the source's settings, `root` (the folder of prepared data) among them.
    `originals`: the folder of the original files; by default ROOT/originals/NAME, into which what
    the licence allows is fetched. `store`: `"array"` or `"jpeg"`. `accept_totals`: take numbers of
    rows that are not the published ones. `again`: replace the copy that is there; without it a copy
    is left as it is. `on_progress(stage, done, total)`. Killed at any point, the next call goes on.

    Raises `InputError` for an unknown source or option and for one that needs no copy. Raises
    `DataError` for files that are missing or not what they should be, and for a folder that cannot
    be written.
    """
    from crosswind.data import prepared
    from crosswind.data.prepared.paths import prepared_source

    prepared_from = prepared_source(source, options, "source")
    done = prepared.prepare(
        prepared_from,
        originals=None if originals is None else str(originals),
        store=store,
        accept_totals=accept_totals,
        again=again,
        workers=workers,
        on_progress=on_progress,
    )
    return done.copy.folder


def split(
    dataset: AttributedDataset,
    label: str,
    attributes: str | Sequence[str],
    shift: Shift | list[Any] | None = None,
    *,
    draw: str | int | Mapping[str, int] = "all",
    test: int | float | None = None,
    validation: int | float = 0.2,
    sets: Mapping[str, SetPlan | Mapping[str, Any]] | None = None,
    groups: str | Sequence[str] | None = None,
    environments: str | Sequence[str] | None = None,
    sampler: str | Mapping[str, float] = "uniform",
    label_noise: float = 0.0,
    seed: int = 0,
    split_seed: int = 0,
    overlap: str = "refused",
) -> Split:
    """Training, validation and evaluation rows of `dataset` under a shift (none: every cell alike).

    `test` and `validation`: rows of each cell (int) or a share in (0, 1); test None is a fifth.
    `draw`: "all", rows a cell, or {"total": n}. The evaluation set "test" is uniform over cells
    where `test` is a number; a share leaves them in the rows' own proportions. It depends on
    `split_seed` only. `seed` chooses training and validation rows where the draw leaves a choice:
    with "all" and no shift every seed trains on the same. Rows that show one picture have one role;
    `overlap`: "refused", or "allowed" for pictures that an official split puts in two. `sets`: name
    -> role, law and draw as a study has them, in place of "validation" and "test".
    """
    if not isinstance(dataset, AttributedDataset):
        raise InputError(
            "dataset",
            f"must be a data set, not {shown(dataset)}; cw.from_frame makes one of a frame, cw.load"
            " opens a source",
        )
    label, attributes = one_column(label, "label") or "", listed(attributes)
    seed, split_seed = _seed_of(seed, "seed"), _seed_of(split_seed, "split_seed")
    refuse_doubts(
        dataset,
        [label, *attributes],
        "dataset",
        "cw.with_same and cw.with_distinct say so in Python",
    )
    observed_shift = parse_shift(shift).observed(dataset, label)
    set_plans = default_sets() if sets is None else _set_plans(sets)
    group_names = _names(groups)
    environment_names = _names(environments)
    plan = SplitPlan(
        label=label,
        attributes=tuple(attributes),
        shift=observed_shift,
        draw=parse_draw(draw, "draw"),
        roles=Roles(test=test, validation=validation, official=None),
        sets=set_plans,
        groups=group_names,
        environments=environment_names,
        label_noise=parse_noise(label_noise) if label_noise else None,
        dataset_size=None,
        sampler=parse_sampler(sampler),
        split_seed=split_seed,
        overlap=overlap,
    )
    check_classes(dataset, label, attributes)
    return make_split({dataset.name: dataset}, dataset.name, plan, seed)


def _set_plans(sets: Any) -> dict[str, SetPlan]:
    """The sets of a split, of which each may be given by its fields, as in a study."""
    if not isinstance(sets, Mapping):
        raise InputError("sets", f"must be a mapping from name to set, not {shown(sets)}")
    names = ["role", "law", "draw", "source", "labels", "answers"]
    plans = {}
    for name, entry in sets.items():
        if isinstance(entry, SetPlan):
            plans[name] = entry
            continue
        path = f"sets.{name}"
        if not isinstance(entry, Mapping):
            raise InputError(path, f"must be a mapping such as {{role: test}}, not {shown(entry)}")
        for field in entry:
            if field not in names:
                raise unknown(f"{path}.{field}", "field of a set", field, names)
        if "role" not in entry:
            raise InputError(f"{path}.role", "is missing", ["validation", "test"])
        law = entry.get("law", "uniform")
        if law == "uniform":
            law = []
        fields = {**entry, "law": law if law in LAWS else parse_shift(law, f"{path}.law")}
        if entry.get("draw") is not None:
            fields["draw"] = parse_draw(entry["draw"], f"{path}.draw")
        plans[name] = SetPlan(**fields)
    return plans


def audit(
    train: Any,
    target: Any = None,
    label: str | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    names: str | Sequence[str] = (),
    seed: int = 0,
    header: Sequence[str] | None = None,
    same: str | Sequence[str] = (),
    distinct: str | Sequence[str] = (),
) -> Audit:
    """Which shifts lie between a training table and a target table: measures with intervals, and
    verdicts in words.

    A table is the path of a CSV or Parquet file, a polars, pandas or Arrow frame, a mapping from name to
    values, or a data set; `label` names its column. Or `train` is a split and `target` the name of
    one of its sets, by default `test`. `columns`: only these. `names`: columns whose numbers are
    names and never put into classes. `seed`: of the bootstrap. `header`: names of the columns of CSV files without any.
    `same`, `distinct`: columns whose values that may be one are one, or not. Its text is a table;
    `to_json` gives all.

    Raises `InputError` for a column or a set that there is not, `DataError` for a table that cannot
    be read.
    """
    from crosswind.shifts.audit import audit as audit_tables

    return audit_tables(
        train,
        target,
        one_column(label, "label"),
        columns=_names(columns),
        names=listed(names),
        seed=seed,
        header=_names(header),
        same=listed(same),
        distinct=listed(distinct),
    )


def _names(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(listed(names))


def _class_names(names: Any, field: str) -> list[str]:
    """Names of classes as text, such as of the `classes_` of an estimator. Raises `InputError` for
    what is no list."""
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        problem = f"must be a list of the classes in the order of the outputs, not {shown(names)}"
        raise InputError(field, problem)
    return [str(name) for name in (names.tolist() if hasattr(names, "tolist") else names)]


def train(
    method: str,
    split: Split,
    dataset: AttributedDataset | Mapping[str, AttributedDataset],
    *,
    model: str | Mapping[str, Any] = "resnet-w16",
    seed: int = 0,
    knobs: Mapping[str, Any] | None = None,
    memory: str | int | None = None,
    **training: Any,
) -> TrainedModel:
    """Train a method by name on a split. `dataset`: the one that was split, or the same rows with
    other inputs. `knobs` are the method's settings, other words the training loop's (`steps=300`).

    `model`: its name, or its name with settings, `{"name": "cifar-resnet", "width": 8}`. `memory`:
    the most that pixels may take, such as "8GB"; half of what there is by default. What does not
    fit is read ahead. Returns the trajectory (history, the selected steps and the predictions of
    every selection rule on every set) with `predict`, `predict_proba`, `evaluate` and `save`.
    """
    import torch

    from crosswind.data.budget import bounded, memory_bytes
    from crosswind.training.device import check_device, slow_precision
    from crosswind.training.loop import fit
    from crosswind.training.settings import ModelSpec, TrainingSettings
    from crosswind.unlabelled.trained_model import TrainedModel

    _check_split(split)
    if not isinstance(method, str):
        raise InputError("method", f"must be the name of a method, not {shown(method)}")
    seed = _seed_of(seed, "seed")
    size = memory_bytes(memory, "memory")
    torch.set_num_threads(
        1
    )  # numbers are the same however many cores there are; parallelise over runs
    method_facts = facts("methods", method, "method")
    built = load_class("methods", method)(
        **resolve(
            method_facts.knobs,
            {word: _plain(value) for word, value in (knobs or {}).items()},
            "knobs",
            f"method {method!r}",
        )
    )
    name, settings_of_model = _named_model(model)
    model_facts = facts("models", name, "model")
    datasets = _datasets_of(split, dataset)
    spec = ModelSpec(
        name, resolve(model_facts.knobs, settings_of_model, "model", f"model {name!r}")
    )
    _refuse_settings_of_others(training, method, method_facts.knobs, name, model_facts.knobs)
    plain_training = {word: _plain(value) for word, value in training.items()}
    settings = TrainingSettings.of(plain_training, "")
    check_device(settings.device)
    if slow := slow_precision(settings.precision, settings.device):
        warnings.warn(f"precision = {settings.precision!r} asks for bfloat16, {slow}", stacklevel=2)
    with bounded(size):
        trajectory = fit(built, split, datasets, spec, settings, seed=seed)
    method_knobs = dict(knobs or {})
    settings_of_run = {entry.name: getattr(trajectory, entry.name) for entry in fields(trajectory)}
    input_spec = datasets[split.train.source].check_inputs()
    return TrainedModel(
        **settings_of_run,
        method=method,
        method_knobs=method_knobs,
        model=spec,
        input=input_spec,
        class_names=split.class_names,
        split=split,
    )


def _refuse_settings_of_others(
    training: Mapping[str, Any],
    method: str,
    method_knobs: Sequence[Knob],
    model: str,
    model_knobs: Sequence[Knob],
) -> None:
    """Refuse words of `train` that are settings of its method or of its model, with the argument
    that they belong into. Raises `InputError`."""
    from crosswind.training.settings import TrainingSettings

    of_training = {knob.name for knob in knobs_of(TrainingSettings)}
    for word, value in training.items():
        if word in of_training:
            continue
        if word in {knob.name for knob in method_knobs}:
            argument = f"knobs={{{word!r}: {shown(value)}}}"
            raise InputError(word, f"is a setting of method {method!r}; give it as {argument}")
        if word in {knob.name for knob in model_knobs}:
            argument = f"model={{'name': {model!r}, {word!r}: {shown(value)}}}"
            raise InputError(word, f"is a setting of model {model!r}; give it as {argument}")


def _plain(value: Any) -> Any:
    """A number or a truth as Python has it, where it is one of NumPy's."""
    return value.item() if isinstance(value, np.generic) else value


def _seed_of(seed: Any, field: str) -> int:
    """A seed as a whole number. Raises `InputError`."""
    number = _plain(seed)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**62:
        raise InputError(field, f"must be a whole number in [0, 2^62), not {shown(seed)}")
    return number


def _check_split(split: Any) -> None:
    if not isinstance(split, Split):
        raise InputError("split", f"must be what cw.split returns, not {shown(split)}")


def _datasets_of(split: Split, dataset: Any) -> dict[str, AttributedDataset]:
    """The data sets of a split by name, as they are given. Raises `InputError` for others than
    those that were split, whose rows the numbers of a split do not name."""
    sources = {planned_set.source: planned_set.dataset for planned_set in split.parts.values()}
    if isinstance(dataset, AttributedDataset):
        datasets = {split.train.source: dataset}
    elif isinstance(dataset, Mapping):
        datasets = dict(dataset)
    else:
        raise InputError("dataset", f"must be the data set that was split, not {shown(dataset)}")
    for name, was_split in sources.items():
        if name not in datasets:
            raise InputError(
                "dataset", f"lacks {name}, of which the split has rows; give a mapping", sources
            )
        handed = datasets[name]
        if handed is was_split or handed.fingerprint == was_split.fingerprint:
            continue
        if handed.n_rows != was_split.n_rows:
            difference = f"{handed.n_rows:,} rows, and that has {was_split.n_rows:,}"
        elif handed.table.digest() != was_split.table.digest():
            difference = "the same number of rows, and other attributes or another order"
        else:
            continue  # the same rows with other inputs, such as features of them
        raise InputError(
            "dataset",
            f"is not {name}, which was split: it has {difference}; split it anew",
        )
    return datasets


def _named_model(model: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a model and its settings."""
    if isinstance(model, str):
        return model, {}
    if not isinstance(model, Mapping) or not isinstance(model.get("name"), str):
        remedy = ""
        if not isinstance(model, Mapping):
            remedy = "; cw.evaluate scores a model of your own as it is"
        raise InputError(
            "model", f"must be a name, or a mapping with a 'name' and the model's settings{remedy}"
        )
    return str(model["name"]), {key: value for key, value in model.items() if key != "name"}


def load_model(path: str | Path, input: InputSpec | None = None) -> LoadedModel:
    """The model of a file of weights with its card beside it, as `save` of a trained model writes
    them: an object with `predict`, `predict_proba` and `evaluate`.

    `input`: what a row is (`dataset.input`), where the card does not say it. Raises `InputError`.
    """
    from crosswind.unlabelled.trained_model import load_model as loaded

    return loaded(path, input)


def evaluate(trajectory: Any, split: Split, rule: str = "best-id") -> dict[str, dict[str, Any]]:
    """Scores of every set under a selection rule: accuracy, worst group, calibration error and
    more, as fractions.

    `trajectory`: of `train`; or a model of one's own, which is asked for every set and has no rule.
    Such a model is an object with `predict_proba` or `predict`, or a function of a batch. A batch
    is images uint8 [n, h, w, c], features float32 [n, width], or a list of texts. The function
    returns logits or probabilities [n, k] in the order of `split.class_names`, or labels [n].
    Raises `InputError`, `DataError`.
    """
    from crosswind.execution.function_answers import scores_by_set

    return scores_by_set(trajectory, split, rule)


@dataclass(frozen=True)
class StudyResults:
    """The results of `run_study`. `str` of it is the report: the findings and two tables; a
    notebook shows the same.

    `study` is its name and `out` the folder of its store. `rows` has one mapping for every run,
    selection rule and set (`method`, `shift`, `seed`, `set`, `status`, `metrics`, ...). `report` is
    what was found, `warnings` what the plan had to say. `summary` counts the runs that finished,
    diverged and failed, and those that were executed this time.
    """

    study: str
    out: Path
    rows: list[dict[str, Any]]
    report: StudyRecord
    warnings: tuple[str, ...]
    summary: Summary

    def __str__(self) -> str:
        return str(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    @property
    def tables(self) -> list[ReportTable]:
        """Every table of the report."""
        return self.report.text_tables()

    def frame(self) -> DataFrame:
        """The rows as a polars frame: a column for each label of a run, and for each score that is
        a number."""
        from crosswind.reports.export import results_frame

        return results_frame(self.rows)


def run_study(
    study: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    workers: int = 0,
    engine: str = "pool",
    address: str | None = None,
    scale: str | None = None,
    settings: str | Sequence[str] | Mapping[str, Any] = (),
    retry_failed: bool = False,
    memory: str | int | None = None,
    on_event: Callable[[Progress], None] | None = None,
) -> StudyResults:
    """Plan a study, execute what its store in `out` does not hold yet, and read the results.

    `study`: a study file, the name of a shipped study, or its fields as a mapping. In a mapping the
    `source` of data may be a data set that the program holds (`workers` 0 then), a shift an object
    such as `cw.SpuriousCorrelation("ink")`, and a list a tuple, range or array. `workers` 0 trains
    in this process, where every class that the program has registered is found. n > 0 trains in n
    processes, which import the program's file for its classes. So what a script does besides
    defining them belongs under `if __name__ == "__main__":`. `engine="ray"` executes on the Ray
    cluster at `address`, or on one that it starts on this machine. `scale`, `settings` and `memory`
    are `--scale`, `--set` and `--memory` of the command line; `settings` also as a mapping. A key
    does not know the code of a class: raise its `version` when it computes other numbers, and runs
    of before are not taken for those of now.

    Raises `InputError`, `DataError` or `NeedsError` before anything is trained. A run that fails is
    a row with its reason.
    """
    from crosswind.core.registry import outside_modules
    from crosswind.data.budget import memory_bytes
    from crosswind.evaluation.metrics import METRICS
    from crosswind.execution.running import (
        check_engine,
        check_ready,
        engine_of,
        files_elsewhere,
        replaced_study,
        run_plan,
        slow_devices,
    )
    from crosswind.reports.gather import gather
    from crosswind.storage.store import Store
    from crosswind.studies.resources import resource_notes

    workers = _plain(workers)
    if not isinstance(out, str | Path):
        raise InputError("out", f"must be the folder of a store, not {shown(out)}")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise InputError(
            "workers", f"must be 0 (this process) or a number of processes, not {workers!r}"
        )
    if not str(out):
        raise InputError("out", "must not be empty; the working directory is '.'")
    check_engine(engine, address)
    size = memory_bytes(memory, "memory")
    measures = [metric.measure for metric in METRICS.values() if metric.measure is not None]
    if workers or engine != "pool":
        modules = outside_modules(measures)
    else:
        modules = []
    planned = plan(study, scale=scale, settings=settings)
    _refuse_memory_elsewhere(planned, workers, engine)
    check_ready(planned, workers or 1, here=engine == "pool")
    name = planned.study.name
    with (
        engine_of(
            planned,
            Path(out),
            workers=workers,
            engine=engine,
            address=address,
            modules=modules,
            memory=size,
        ) as executing,
        Store.open(out, create=True) as store,
    ):
        replaced = [*replaced_study(planned, store), *files_elsewhere(store), *executing.notes]
        summary = run_plan(
            planned,
            store,
            engine=executing,
            on_event=on_event,
            retry_failed=retry_failed,
        )
        record = gather(store, name, draws=False)
        resource_warnings = resource_notes(planned.study) if engine == "pool" else []
        warning_texts = (*planned.warnings, *resource_warnings, *slow_devices(planned), *replaced)
        rows = store.results(name)
        return StudyResults(name, Path(out), rows, record, warning_texts, summary)


def _refuse_memory_elsewhere(planned: Plan, workers: int, engine: str) -> None:
    """Refuse that other processes train on data that this one has in memory, by an
    `InputError`."""
    from crosswind.execution.running import devices_of

    in_memory = [label for label, entry in planned.study.data.items() if entry.source == "memory"]
    if in_memory and devices_of(planned) > 1:
        problem = (
            f"is {devices_of(planned)}: data.{in_memory[0]} is in the memory of this process, and the"
            " others that share a run do not have it; write it to a file"
        )
        raise InputError("training.devices", problem, (1,))
    for label in in_memory:
        if workers or engine != "pool":
            problem = (
                f"must be {'0' if engine == 'pool' else 'pool'}: data.{label} is in the memory of this process, and others do not"
                " have it"
            )
            raise InputError("workers" if engine == "pool" else "engine", problem)


def plan(
    study: str | Path | Mapping[str, Any],
    *,
    scale: str | None = None,
    settings: str | Sequence[str] | Mapping[str, Any] = (),
) -> Plan:
    """The plan of a study, without training; see `run_study` for the parameters. A notebook shows
    the rows of every draw.

    Raises `InputError`, `DataError` or `NeedsError`, as `run_study` does before anything is
    trained.
    """
    from crosswind.studies.plan import make_plan, plan_of
    from crosswind.studies.spec import study_from

    setting_words = _settings_of(settings)
    if isinstance(study, Mapping):
        return make_plan(study_from(_held(study), scale=scale, settings=setting_words))
    if not isinstance(study, str | Path):
        problem = f"must be a study file, the name of a study, or its fields as a mapping, not {shown(study)}"
        raise InputError("study", problem)
    return plan_of(str(study), scale, setting_words)


def _settings_of(settings: Any) -> list[str]:
    """Settings as `key=value`, of which one may stand alone and a mapping has several."""
    if isinstance(settings, Mapping):
        return [f"{key}={json.dumps(_plain_values(value))}" for key, value in settings.items()]
    return listed(settings)


def _held(study: Mapping[str, Any]) -> dict[str, Any]:
    """The study as plain values, with data sets that were given as sources held for it, and
    named."""
    from crosswind.data.sources.memory import hold

    data = study.get("data")
    fields_but_data = {name: value for name, value in study.items() if name != "data"}
    if not isinstance(data, Mapping):
        return _plain_values(dict(study))
    named = {}
    for label, entry in data.items():
        source = entry.get("source") if isinstance(entry, Mapping) else entry
        if isinstance(entry, Mapping) and isinstance(source, AttributedDataset):
            if entry.get("options"):
                problem = (
                    "belongs to a source that is read by its name, and this one is a data set as it"
                    " is; leave it out, or give it to cw.load"
                )
                raise InputError(f"data.{label}.options", problem)
            options = {"fingerprint": hold(source)}
            named[label] = _plain_values({**entry, "source": "memory", "options": options})
        elif hasattr(source, "columns") or isinstance(source, AttributedDataset):
            problem = (
                "must be a mapping with source, label and attributes; source may be a data set, as"
                " cw.load and cw.from_frame give it"
            )
            raise InputError(f"data.{label}", problem)
        else:
            named[label] = _plain_values(entry)
    return {**_plain_values(fields_but_data), "data": named}


def _plain_values(value: Any) -> Any:
    """Values as a study file could hold them, of tuples, ranges, arrays, paths and shifts too."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain_values(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain_values(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, All):
        return [_plain_values(shift) for shift in value.parts]
    if isinstance(value, Shift):
        # Without defaults, as a study file has it: a run's key is that of the file.
        knobs = {
            knob.name: _plain_values(getattr(value, knob.name))
            for knob in knobs_of(type(value))
            if getattr(value, knob.name) != knob.default
        }
        return {"type": value.registered_name, **knobs}
    return str(value) if isinstance(value, Path) else _plain(value)


def report(store: str | Path, study: str | None = None) -> StudyRecord:
    """The report of a study in a store; `study` may be left out where there is one. `print` it, or
    let a notebook show it.

    `store`: a folder that a study was run into, or a PostgreSQL URL. Raises `StoreError` for a
    store that cannot be read, and `InputError` where it holds several studies and none is named.
    """
    from crosswind.reports.gather import gather
    from crosswind.storage.store import Store

    with Store.open(str(store) if "://" in str(store) else Path(store)) as opened:
        return gather(opened, opened.study_named(study, "study"), draws=False)


def estimate(
    model: Any = None,
    data: Any = None,
    source: Any = None,
    *,
    beside: str | Sequence[str] = (),
    beside_classes: Sequence[Sequence[str]] = (),
    predictions: Any = None,
    label: str | None = None,
    images: str | Path | None = None,
    text: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    estimators: str | Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
    size: int | None = None,
    pool_rows: int = POOL_ROWS,
    near_rows: int = NEAR_ROWS,
    tell: Callable[[str], object] | None = None,
) -> Estimates:
    """Estimate a trained model's accuracy on rows that nobody labelled: every estimate that applies,
    which to believe, and why.

    `model` is one of: a run whose weights were kept (`STORE#KEY`); a file of weights
    (`FILE.safetensors`); an ONNX file; a function (`module:function`, `FILE.py:function`). A file
    of weights has a card beside it, `FILE.yaml` or `FILE.json` with `model`, `settings`, `classes`,
    `size`, `channels`. An ONNX file and a function take `settings` of the model `onnx` or
    `callable`. Or it is a model of this program: what `cw.train` returns, a fitted estimator with
    `predict_proba`, or a function from a batch to scores. Such a model takes data sets, and frames
    and arrays as they stand. `beside`: further models of the same classes, for estimators that
    compare models. Their outputs are in the order of the model's or in that of `beside_classes`,
    one for all or one for each. `data`: a folder of pictures, a table, a registered source, or a
    data set. A table has a column of paths (under `images`, by default the table's folder), one of
    texts (`text`: that column, or the columns of a text's parts), or columns of numbers. Its labels
    are never read, if it has any. A frame and an array [n, d] are tables of numbers, `source` then
    being a frame with the column `label` or a pair of inputs and labels. Of numbers a model reads
    the columns that it names (`feature_names_in_`, the inputs of an ONNX file), else all beside the
    label, or `columns` in the model's order. `source`: labelled rows of the distribution that the
    model was trained on, in the same forms, with `label` its column. A folder has a sub-folder a
    class. For a run its validation set. `classes`: in the order of the model's outputs, by default
    those of the model, else of the source: numbers by their size, others sorted as text. Outputs
    that labelled rows show to stand in another order are refused, unless `classes` is that order.
    Instead of model and data, `predictions`: a table with a column of logits or probabilities a
    class, a frame, or an array [n, k]. `source` is then one too, of an array a pair of scores and
    labels, and `classes` names the columns of scores in their order. `estimators`: names, or names
    with settings; by default all that apply, of the neighbourhoods `ni-randaugment` and `ni-eda`
    alone. `size`: side of pictures in pixels, where the model does not say. `pool_rows`,
    `near_rows`: labelled rows that are shown under every change, and rows whose neighbours are
    asked for; 0 leaves that out. `tell` is told what is being asked, in sentences.

    Raises `InputError` and `DataError` with one sentence.
    """
    from crosswind.unlabelled.answer_request import answer_request

    request = EstimateRequest(
        model=model,
        data=data,
        source=source,
        beside=listed(beside),
        beside_classes=[_class_names(names, "beside_classes") for names in beside_classes],
        predictions=predictions,
        label=one_column(label, "label"),
        images=images,
        text=_names(text),
        columns=_names(columns),
        classes=None if classes is None else _class_names(classes, "classes"),
        settings=settings,
        estimators=listed(estimators) if isinstance(estimators, str) else estimators,
        size=size,
        pool_rows=pool_rows,
        near_rows=near_rows,
    )
    return answer_request(request if tell is None else replace(request, tell=tell))
