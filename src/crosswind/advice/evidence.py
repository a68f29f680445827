"""The evidence of advice: one row a method and problem, read from finished studies or from the table
that the package carries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from crosswind.advice.problem import Counts, Problem, problem_of_counts
from crosswind.core.errors import CrosswindError, InputError
from crosswind.core.registry import facts
from crosswind.reports.gather import ShiftDraw, StudyRecord, gather

if TYPE_CHECKING:
    import polars

    from crosswind.reports.scores.results import PlaceResults
    from crosswind.storage.store import Store
    from crosswind.studies.plan import Plan

__all__ = [
    "COLUMNS",
    "METRICS",
    "data_name",
    "empty_evidence",
    "evidence_of",
    "is_pretrained",
    "method_of_label",
    "origin_of",
    "problem_of_row",
    "problems_of_plan",
    "problems_of_record",
    "shipped_evidence",
]

PLAIN: Final = "erm"
"""The method that gains are counted from."""
METRICS: Final = ("accuracy", "worst_group")
"""The scores that advice is about, on rows in which the attribute tells nothing."""
# fmt: off
COMMON_NAMES: Final = frozenset((
    "all", "annotations", "attributes", "data", "dataset", "datasets", "features", "full",
    "images", "index", "info", "input", "inputs", "labels", "list", "main", "meta", "metadata",
    "new", "raw", "rows", "sample", "samples", "split", "splits", "table", "tables", "target",
    "test", "tmp", "train", "training", "val", "validation",
))
# fmt: on
"""Names of files and folders that tell no data set from another."""
COLUMNS: Final = {
    "study": "String",
    "data": "String",
    "shift": "String",
    "size": "String",
    "model": "String",
    "rule": "String",
    "kind": "String",
    "classes": "Int64",
    "values": "Int64",
    "rows": "Int64",
    "tie": "Float64",
    "rarest": "Float64",
    "smallest": "Int64",
    "missing": "Float64",
    "pretrained": "Boolean",
    "method": "String",
    "points": "Int64",
    "runs": "Int64",
    "plain_accuracy": "Float64",
    "accuracy": "Float64",
    "accuracy_error": "Float64",
    "plain_worst_group": "Float64",
    "worst_group": "Float64",
    "worst_group_error": "Float64",
    "time": "Float64",
}
"""Columns of the evidence and their types of polars. `data`: as `data_name` has it. `points`: settings that the method chose among;
`runs`: of the method, one a seed. `plain_...`: the mean score of plain training with the same seeds.
`..._error`: the standard error of the difference to it, paired by seed, null for a single seed.
`time`: seconds of the method's runs without start-up over those of plain training, means."""


def shipped_evidence() -> polars.DataFrame:
    """The evidence that the package carries, with `COLUMNS`; empty where its file is missing."""
    import polars

    path = evidence_path()
    if not path.is_file():
        return empty_evidence()
    return polars.read_parquet(path).select(list(COLUMNS))


@cache
def evidence_path() -> Path:
    """The Parquet file of the shipped evidence: inside the package, or in a checkout of the project
    beside its benchmarks."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "_records" / "atlas" / "evidence.parquet"
    if inside.is_file():
        return inside
    return package.parents[1] / "benchmarks" / "atlas" / "evidence.parquet"


def empty_evidence() -> polars.DataFrame:
    """Evidence without rows."""
    import polars

    return polars.DataFrame(schema={name: getattr(polars, kind) for name, kind in COLUMNS.items()})


def evidence_of(store: Store, study: str) -> polars.DataFrame:
    """The evidence of one study of a store: its methods beside plain training, by problem.

    Problems without plain training, and those whose training rows no run left a count of, have no
    rows here. Raises `StoreError` for a damaged store.
    """
    import polars

    record = gather(store, study)
    rows = list(_rows(record))
    if not rows:
        return empty_evidence()
    schema = {name: getattr(polars, kind) for name, kind in COLUMNS.items()}
    return polars.DataFrame(rows, schema=schema)


def problem_of_row(row: Mapping[str, Any]) -> Problem:
    """The problem that a row of the evidence is about."""
    return Problem(
        kind=str(row["kind"]),
        classes=int(row["classes"]),
        values=int(row["values"]),
        rows=int(row["rows"]),
        tie=float(row["tie"]),
        rarest=float(row["rarest"]),
        smallest=int(row["smallest"]),
        missing=float(row["missing"]),
        pretrained=bool(row["pretrained"]),
    )


def problems_of_record(record: StudyRecord) -> dict[tuple[str, str, str], Problem]:
    """The problems of a study that was run, by data set, shift and size; of its first model."""
    problems: dict[tuple[str, str, str], Problem] = {}
    for (data, shift, size, _), problem in _problems_by_model(record).items():
        problems.setdefault((data, shift, size), problem)
    return problems


def _problems_by_model(record: StudyRecord) -> dict[tuple[str, str, str, str], Problem]:
    """The problems of a study that was run, by data set, shift, size and model."""
    problems = {}
    for draw in record.draws:
        for model in dict.fromkeys(scores.place.model for scores in record.places):
            try:
                problem = _problem_of_draw(draw, record.resolved, model)
            except InputError:  # an attribute of one value: nothing shifts
                continue
            problems[draw.data, draw.shift, draw.size, model] = problem
    return problems


def _rows(record: StudyRecord) -> Iterator[dict[str, Any]]:
    problems = _problems_by_model(record)
    names = {label: method_of_label(label, record.resolved) for label in _labels(record)}
    times = {(cost.data, cost.model, cost.method): cost.worked_seconds for cost in record.run_costs}
    rule = record.rules[0]
    for scores in record.places:
        setting = scores.place
        plain = next((label for label in scores.methods if names.get(label) == PLAIN), None)
        if setting.set != "test" or setting.rule != rule or plain is None:
            continue
        plain_time = times.get((setting.data, setting.model, plain))
        for shift, label, _ in scores.grid():
            problem_here = problems.get((setting.data, shift, setting.size, setting.model))
            score_row = _score_row(scores, shift, label, plain)
            name = names.get(label)
            if label == plain or name is None or problem_here is None or score_row is None:
                continue
            time = times.get((setting.data, setting.model, label))
            yield {
                "study": setting.study,
                "data": data_name(record.resolved["data"][setting.data], setting.data),
                "shift": shift,
                "size": setting.size,
                "model": setting.model,
                "rule": rule,
                **vars(problem_here),
                "method": name,
                "time": time / plain_time if time and plain_time else None,
                **score_row,
            }


def _score_row(scores: PlaceResults, shift: str, label: str, plain: str) -> dict[str, Any] | None:
    """The scores of a method beside plain training over the seeds that both have; None where there
    is none. None also where the method chose among more settings: then tuning may have made the
    gain."""
    entry, plain_entry = scores.entries.get((shift, label)), scores.entries.get((shift, plain))
    if entry is None or plain_entry is None or entry.tried > plain_entry.tried:
        return None
    row: dict[str, Any] = {"points": entry.tried}
    for metric in METRICS:
        method_values = entry.values(metric)
        plain_values = plain_entry.values(metric)
        seeds = [seed for seed in method_values if seed in plain_values]
        differences = np.array([method_values[seed] - plain_values[seed] for seed in seeds])
        if metric == "accuracy":
            if not seeds:
                return None
            row["runs"] = len(seeds)
        error = None
        if len(seeds) > 1:
            error = float(differences.std(ddof=1) / math.sqrt(len(seeds)))
        row[metric] = _mean([method_values[seed] for seed in seeds])
        row[f"plain_{metric}"] = _mean([plain_values[seed] for seed in seeds])
        row[f"{metric}_error"] = error
    return row


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _labels(record: StudyRecord) -> Sequence[str]:
    return list(dict.fromkeys(label for scores in record.places for label in scores.methods))


def method_of_label(label: str, resolved: Mapping[str, Any]) -> str | None:
    """The method of a row of a study, by its registered name; with ` + balanced` where groups are
    drawn evenly. None for what is more than a method: another model, noise, or data of its own."""
    methods = resolved["methods"]
    entry = methods.get(label) if isinstance(methods, Mapping) else {}
    entry = entry or {}
    if any(name in entry for name in ("label_noise", "data", "training")):
        return None
    name = str(entry.get("method", label))
    sampler = entry.get("sampler") or resolved.get("sampler") or "uniform"
    if sampler == "uniform":
        return name
    return f"{name} + balanced" if sampler == "balanced" else None


def _problem_of_draw(draw: ShiftDraw, resolved: Mapping[str, Any], model: str) -> Problem:
    counts: dict[str, Counts] = {}
    for attribute, train_cells in draw.train.tables.items():
        cells: dict[tuple[str, str], int] = {}
        if draw.test is not None:
            cells.update(dict.fromkeys(draw.test.tables.get(attribute, {}), 0))
        cells.update({pair: realised for pair, (_, realised) in train_cells.items()})
        counts[attribute] = cells
    kind = kind_of_data(resolved["data"][draw.data])
    return problem_of_counts(counts, kind, is_pretrained(resolved["models"], model))


def problems_of_plan(plan: Plan, folder: Path | None = None) -> dict[tuple[str, str, str], Problem]:
    """The problems of a study that is planned, by data set, shift and size. Those in which nothing
    can shift, since the label or every attribute has a single value, are left out."""
    study = plan.study
    problems = {}
    values = {name: _values_of(plan, name, folder) for name in study.data}
    model = next(iter(study.models), "")
    for draw in plan.draws:
        entry = study.data[draw.source].model_dump()
        attribute_values = values[draw.source]
        label, *attributes = attribute_values
        counts: dict[str, Counts] = {}
        for name in attributes:
            cells = {
                (class_name, value): 0
                for class_name in attribute_values[label]
                for value in attribute_values[name]
            }
            for cell, rows in draw.cells.items():
                words = _cell_values(cell, list(attribute_values))
                cells[words[label], words[name]] = cells.get((words[label], words[name]), 0) + rows
            counts[name] = cells
        try:
            problem = problem_of_counts(
                counts, kind_of_data(entry), is_pretrained(study.models, model)
            )
        except InputError:
            continue
        problems[draw.source, draw.shift, draw.size] = problem
    return problems


def _values_of(plan: Plan, name: str, folder: Path | None) -> dict[str, list[str]]:
    """The values of the label, first, and of the attributes of a data set, as its draws show them and
    as the data set lists them."""
    from crosswind.studies.build import build_dataset, data_values

    spec = plan.study.data[name]
    dataset = build_dataset(data_values(spec, f"data.{name}", folder), f"data.{name}")
    names = spec.attributes.values() if isinstance(spec.attributes, Mapping) else spec.attributes
    listed = dict.fromkeys([spec.label, *map(str, names)])
    return {
        attribute: [str(value) for value in dataset.attribute(attribute).values]
        for attribute in listed
    }


def _cell_values(cell: str, names: Sequence[str]) -> dict[str, str]:
    """The values in the name of a cell, `label=a, attribute=b`; values may hold commas."""
    present = [name for name in names if cell.startswith(f"{name}=") or f", {name}=" in cell]
    pattern = ", ".join(f"{re.escape(name)}=(.*)" for name in present)
    match = re.fullmatch(pattern, cell)
    assert match is not None, cell
    return dict(zip(present, match.groups(), strict=True))


def data_name(entry: Mapping[str, Any], label: str) -> str:
    """The name of a study's data set among those of all studies: `ORIGIN/LABEL`, or `ORIGIN` where the
    label is just that. The origin is the stem of the file that is read, else the source's name; a
    stem that many data sets have, as of `train.csv`, stands behind the name of its folder."""
    path = (entry.get("options") or {}).get("path")
    origin = _origin_of_file(Path(str(path))) if path else str(entry["source"])
    return origin if label == origin else f"{origin}/{label}"


def _origin_of_file(path: Path) -> str:
    """The stem of a file, behind the nearest folders until a name tells it from other data sets."""
    names = [path.stem, *(folder.name for folder in path.parents)]
    telling = (
        position
        for position, name in enumerate(names)
        if name.strip(".") and name.lower() not in COMMON_NAMES
    )
    position = next(telling, len(names))
    return "-".join(reversed([name for name in names[: position + 1] if name.strip(".")]))


def origin_of(data: str) -> str:
    """The origin in the name of a data set of the evidence. Data sets of one origin may share rows,
    so that what was seen on one is not evidence of a new one."""
    return data.partition("/")[0]


def kind_of_data(entry: Mapping[str, Any]) -> str:
    """Of `KINDS`, what the inputs of a study's data set are, by its source and options."""
    options = entry.get("options") or {}
    if options.get("text"):
        return "texts"
    if options.get("numbers") or options.get("categories") or entry["source"] == "features":
        return "numbers"
    try:
        card = facts("sources", str(entry["source"])).card
    except CrosswindError:
        return "pictures"
    return "texts" if card is not None and "text" in str(card.shape) else "pictures"


def is_pretrained(models: Any, label: str) -> bool:
    """Whether a study's model starts from weights of other data."""
    entry = (models.get(label) if isinstance(models, Mapping) else None) or {}
    try:
        model_facts = facts("models", str(entry.get("model", label)))
    except CrosswindError:
        return False
    knobs = {knob.name: knob.default for knob in model_facts.knobs} | dict(entry)
    return model_facts.built is not None and model_facts.built.is_given(knobs)
